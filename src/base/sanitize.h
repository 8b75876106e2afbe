#ifndef TENON_BASE_SANITIZE_H
#define TENON_BASE_SANITIZE_H

/* Libraries and compiled kernels have no MemorySanitizer, so it takes memory that they write for uninitialized.
 * TN__INITIALIZED(pointer, size) marks such memory as written; without MemorySanitizer it does nothing. */
#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#define TN__HAS_MEMORY_SANITIZER 1
#endif
#endif

/* Between TN__LIBRARY_BEGIN() and TN__LIBRARY_END() of a thread MemorySanitizer does not check arguments of the C
 * library's functions, which a library without it calls with memory that it wrote. */
#ifdef TN__HAS_MEMORY_SANITIZER
#include <sanitizer/msan_interface.h>
#define TN__INITIALIZED(pointer, size) __msan_unpoison((pointer), (size))
#define TN__LIBRARY_BEGIN() __msan_scoped_disable_interceptor_checks()
#define TN__LIBRARY_END() __msan_scoped_enable_interceptor_checks()
#else
#define TN__LIBRARY_BEGIN() ((void)0)
#define TN__LIBRARY_END() ((void)0)
#define TN__INITIALIZED(pointer, size) ((void)(pointer), (void)(size))
#endif

#endif
