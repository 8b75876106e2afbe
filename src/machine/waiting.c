#include "machine/waiting.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"

/* Returns the number at this position in the first line of a system file; 0: none. */
static uint64_t number_of(const char *path, int place, bool *found) {
  char text[512];
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  *found = false;
  if (length <= 0) return 0;
  text[length] = '\0';
  const char *at = text;
  for (int i = 0; i < place; i++) {
    at += strcspn(at, " \n");
    at += strspn(at, " ");
  }
  *found = *at >= '0' && *at <= '9';
  return *found ? strtoull(at, NULL, 10) : 0;
}

tn__waiting tn__waiting_now(void) {
  struct rusage usage;
  bool found;
  tn__waiting out = {.now = tn__now()};
  out.delayed = number_of("/proc/thread-self/schedstat", 1, &out.knows_delays);
  out.stolen = number_of("/proc/stat", 8, &found); /* "cpu", user, nice, system, idle, iowait, irq, softirq, steal */
  if (getrusage(RUSAGE_SELF, &usage) == 0) out.switches = usage.ru_nivcsw;
  return out;
}

double tn__waiting_since(const tn__waiting *before) {
  tn__waiting after = tn__waiting_now();
  double seconds = after.now - before->now, waited = 1e-2 * (double)(after.stolen - before->stolen);
  if (before->knows_delays && after.knows_delays)
    waited += 1e-9 * (double)(after.delayed - before->delayed);
  else
    waited += 4e-3 * (double)(after.switches - before->switches);
  if (seconds <= 0) return 0;
  return waited < seconds ? waited / seconds : 1;
}
