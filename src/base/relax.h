/* Waiting without sleeping. */
#ifndef TENON_BASE_RELAX_H
#define TENON_BASE_RELAX_H

/* One turn of a loop that waits for another thread: leaves the core to its other hardware thread for a moment. */
static inline void tn__relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif
