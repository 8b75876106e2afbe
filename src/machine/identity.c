#include "machine/identity.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "machine/measure.h"
#include "target/target.h"

typedef struct writer {
  char *text;
  size_t used;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int length = vsnprintf(w->text + w->used, TN__MACHINE_IDENTITY_BYTES - w->used, format, list);
  va_end(list);
  if (length > 0) w->used += (size_t)length;
  if (w->used >= TN__MACHINE_IDENTITY_BYTES) w->used = TN__MACHINE_IDENTITY_BYTES - 1;
}

static FILE *open_below(const char *root, const char *path) {
  char whole[512];
  snprintf(whole, sizeof whole, "%s%s", root, path);
  return fopen(whole, "re");
}

/* Returns the last number in the file's first line; negative: none. */
static long long last_number(const char *root, const char *path) {
  char line[256] = "";
  FILE *file = open_below(root, path);
  if (file == NULL) return -1;
  if (fgets(line, sizeof line, file) == NULL) line[0] = '\0';
  fclose(file);
  const char *digits = strpbrk(line, "0123456789"), *next;
  if (digits == NULL) return -1;
  while ((next = strpbrk(digits + strspn(digits, "0123456789"), "0123456789")) != NULL) digits = next;
  return strtoll(digits, NULL, 10);
}

/* Counts hardware threads, including those that are offline. */
static long long count_threads(const char *root) {
  long long last = last_number(root, "/sys/devices/system/cpu/present");
  return last >= 0 ? last + 1 : (long long)sysconf(_SC_NPROCESSORS_CONF);
}

/* Reads the clock and the hypervisor flag of the first processor in /proc/cpuinfo. */
static void read_cpuinfo(const char *root, double *megahertz, bool *virtual) {
  enum { LONGEST = 8192 };
  char line[LONGEST];
  FILE *file = open_below(root, "/proc/cpuinfo");
  if (file == NULL) return;
  while (fgets(line, sizeof line, file) != NULL && line[0] != '\n') {
    const char *value = strchr(line, ':');
    if (value == NULL) continue;
    if (strncmp(line, "cpu MHz", strlen("cpu MHz")) == 0) *megahertz = strtod(value + 1, NULL);
    if (strncmp(line, "flags", strlen("flags")) == 0) *virtual = strstr(value, " hypervisor") != NULL;
  }
  fclose(file);
}

/* Reads the hypervisor's own name of at most 12 letters, or "virtual" if it has none. */
static void put_hypervisor(writer *w, const char *root) {
  char name[13] = "";
#if defined(__x86_64__)
  unsigned a, b, c, d;
  if (root[0] == '\0') {
    __cpuid(0x40000000u, a, b, c, d);
    memcpy(name, &b, 4);
    memcpy(name + 4, &c, 4);
    memcpy(name + 8, &d, 4);
  }
#endif
  for (char *at = name; *at != '\0'; at++)
    if (*at <= ' ' || *at > '~' || *at == ',') *at = '-';
  put(w, ", %s", name[0] != '\0' ? name : "virtual");
}

static void put_cache(writer *w, int level, int64_t bytes) {
  const int64_t kib = 1024, mib = 1024 * 1024;
  if (bytes <= 0) return;
  if (bytes >= 8 * mib)
    put(w, ", L%d %lld MiB", level, (long long)(bytes / mib));
  else
    put(w, ", L%d %lld KiB", level, (long long)(bytes / kib));
}

void tn__machine_identity(const char *root, char text[TN__MACHINE_IDENTITY_BYTES]) {
  writer w = {.text = text};
  char name[64];
  double megahertz = 0;
  bool virtual = false;
  tn__machine caches = {0};
  tn__machine_host_name(name, sizeof name);
  read_cpuinfo(root, &megahertz, &virtual);
  long long most = last_number(root, "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"); /* kHz */
  if (most > 0) megahertz = 1e-3 * (double)most;
  tn__host_caches(root, &caches);
  long long threads = count_threads(root);
  put(&w, "%s, %lld thread%s", name, threads, threads == 1 ? "" : "s");
  if (megahertz > 0) put(&w, ", %.1f GHz", 1e-3 * megahertz);
  put_cache(&w, 1, caches.l1_bytes);
  put_cache(&w, 2, caches.l2_bytes);
  put_cache(&w, 3, caches.l3_bytes);
  if (virtual) put_hypervisor(&w, root);
}
