/* How many threads to use when nobody says: the affinity mask, limited by the CPU quota of the cgroup (v2: cpu.max; v1:
 * cpu.cfs_quota_us and cpu.cfs_period_us) of this process and of every parent. */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/target.h"

static int affinity_cores(void) {
  /* Grows because sched_getaffinity() refuses a mask smaller than the kernel's own. */
  for (int cpus = 1024; cpus <= 1 << 18; cpus *= 4) {
    size_t size = CPU_ALLOC_SIZE(cpus);
    cpu_set_t *set = CPU_ALLOC(cpus);
    if (set == NULL) break;
    int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

TN_MUST_USE static bool read_numbers(const char *path, const char *format, long long *a, long long *b) {
  FILE *file = fopen(path, "re");
  if (file == NULL) return false;
  int found = fscanf(file, format, a, b);
  fclose(file);
  return found >= 1;
}

/* The quota that a cgroup's own folder states, in whole CPUs rounded up; 0: none. */
static int folder_limit(const char *folder) {
  char path[PATH_MAX + 64];
  long long quota = 0, period = 100000;
  snprintf(path, sizeof(path), "%s/cpu.max", folder); /* "max 100000" reads no number: no limit */
  if (!read_numbers(path, "%lld %lld", &quota, &period)) {
    snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
    if (!read_numbers(path, "%lld", &quota, &period)) return 0;
    snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
    long long ignored;
    if (!read_numbers(path, "%lld", &period, &ignored)) return 0;
  }
  if (quota <= 0 || period <= 0) return 0;
  long long cpus = (quota - 1) / period + 1;
  return cpus > 1 << 20 ? 0 : (int)cpus;
}

/* The tightest limit from `mount`/`group` up to `mount`. Inside a container the group's path may not be visible: the
 * folders that exist count. */
static int tightest_limit(const char *mount, const char *group) {
  char folder[PATH_MAX];
  int length = snprintf(folder, sizeof(folder), "%s%s", mount, group);
  if (length < 0 || length >= (int)sizeof(folder)) return 0;
  int tightest = 0;
  size_t end = strlen(mount);
  for (;;) {
    int limit = folder_limit(folder);
    if (limit > 0 && (tightest == 0 || limit < tightest)) tightest = limit;
    char *slash = strrchr(folder + end, '/');
    if (slash == NULL) return tightest;
    *slash = '\0';
  }
}

/* True when the comma-separated `list` holds `word`. */
static bool list_holds(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *p = list; p != NULL; p = strchr(p, ','), p = p == NULL ? NULL : p + 1)
    if (strncmp(p, word, length) == 0 && (p[length] == ',' || p[length] == '\0')) return true;
  return false;
}

TN_MUST_USE static int line_limit(const char *root, char *line) {
  /* "hierarchy:controllers:/group" */
  line[strcspn(line, "\n")] = '\0';
  char *controllers = strchr(line, ':');
  char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
  if (group == NULL) return 0;
  *group++ = '\0', controllers++;
  if (strcmp(group, "/") == 0) group = (char *)(uintptr_t)"";
  static const char *const mounts[2][2] = {{"", "/unified"}, {"/cpu,cpuacct", "/cpu"}};
  bool v2 = controllers[0] == '\0';
  if (!v2 && !list_holds(controllers, "cpu")) return 0;
  for (int i = 0; i < 2; i++) {
    char mount[PATH_MAX];
    snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup%s", root, mounts[v2 ? 0 : 1][i]);
    int limit = tightest_limit(mount, group);
    if (limit > 0) return limit;
  }
  return 0;
}

int tn__target_cgroup_cpu_limit(const char *root) {
  char path[PATH_MAX], line[PATH_MAX];
  snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
  FILE *file = fopen(path, "re");
  if (file == NULL) return 0;
  int tightest = 0;
  while (fgets(line, sizeof(line), file) != NULL) {
    int limit = line_limit(root, line);
    if (limit > 0 && (tightest == 0 || limit < tightest)) tightest = limit;
  }
  fclose(file);
  return tightest;
}

int tn__target_default_thread_count(void) {
  int cores = affinity_cores(), limit = tn__target_cgroup_cpu_limit("");
  return limit > 0 && limit < cores ? limit : cores;
}
