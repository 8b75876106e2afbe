/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads cases and orders to run from standard input: see server.h. */
#include "server.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_FIELDS 64
#define PAGE_BYTES ((size_t)4096)
/* A sample lasts at least this long: the clock and the call of it cost some 50 ns. */
static const int64_t SAMPLE_NS = 200 * 1000;

struct bench_case {
  const char *keys[MAX_FIELDS];
  const char *values[MAX_FIELDS];
  int count;
};

void bench_fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  exit(1);
}

const char *bench_text(const bench_case *given, const char *key) {
  for (int i = 0; i < given->count; i++) {
    if (strcmp(given->keys[i], key) == 0) {
      return given->values[i];
    }
  }
  bench_fail("the case has no %s", key);
}

int64_t bench_int(const bench_case *given, const char *key) { return strtoll(bench_text(given, key), NULL, 10); }

bool bench_is(const bench_case *given, const char *key, const char *value) {
  return strcmp(bench_text(given, key), value) == 0;
}

bool bench_is_constant(const bench_case *given, const char *operand) { return bench_is(given, "constant", operand); }

float *bench_floats(size_t count) {
  size_t bytes = (count * sizeof(float) + PAGE_BYTES) / PAGE_BYTES * PAGE_BYTES;
  void *memory = aligned_alloc(PAGE_BYTES, bytes);
  if (!memory) {
    bench_fail("no memory for %zu bytes", bytes);
  }
  memset(memory, 0, bytes);
  return memory;
}

float *bench_read_f32(const char *path, size_t *count) {
  FILE *file = fopen(path, "rb");
  unsigned char head[10];
  if (!file || fread(head, 1, sizeof head, file) != sizeof head || memcmp(head, "\x93NUMPY\x01", 7) != 0) {
    bench_fail("%s is no .npy file of version 1", path);
  }
  long start = (long)sizeof head + head[8] + 256 * head[9];
  fseek(file, 0, SEEK_END);
  *count = (size_t)(ftell(file) - start) / sizeof(float);
  fseek(file, start, SEEK_SET);
  float *result = bench_floats(*count);
  if (fread(result, sizeof(float), *count, file) != *count) {
    bench_fail("%s cannot be read", path);
  }
  fclose(file);
  return result;
}

static int64_t now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void parse(char *line, bench_case *out) {
  out->count = 0;
  for (char *token = strtok(line, " \n"); token; token = strtok(NULL, " \n")) {
    char *equals = strchr(token, '=');
    if (!equals || out->count == MAX_FIELDS) {
      bench_fail("bad field \"%s\"", token);
    }
    *equals = '\0';
    out->keys[out->count] = token;
    out->values[out->count++] = equals + 1;
  }
}

static void write_output(const char *path, const bench_work *work) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(work->output, 1, work->output_bytes, file) != work->output_bytes || fclose(file) != 0) {
    bench_fail("%s cannot be written", path);
  }
}

/* Calls of engine_run() that make up a sample. */
static int64_t calibrate(void) {
  int64_t calls = 1;
  for (;;) {
    int64_t start = now(CLOCK_MONOTONIC);
    for (int64_t i = 0; i < calls; i++) {
      engine_run();
    }
    int64_t took = now(CLOCK_MONOTONIC) - start;
    if (took >= SAMPLE_NS || calls >= 1 << 20) {
      return calls;
    }
    calls = took * 4 < SAMPLE_NS ? calls * 4 : (calls * SAMPLE_NS + took - 1) / (took ? took : 1) + 1;
  }
}

static void print_samples(FILE *answers, const char *name, const double *ns, int count) {
  fprintf(answers, "\"%s\": [", name);
  for (int i = 0; i < count; i++) {
    fprintf(answers, "%s%.1f", i ? ", " : "", ns[i]);
  }
  fputc(']', answers);
}

static void time_runs(FILE *answers, int samples, int64_t calls, int64_t units) {
  double *wall = calloc((size_t)samples * 2 + 1, sizeof *wall);
  if (!wall) {
    bench_fail("no memory for %d samples", samples);
  }
  double *cpu = wall + samples;
  for (int i = 0; i < samples; i++) {
    int64_t cpu_start = now(CLOCK_PROCESS_CPUTIME_ID), start = now(CLOCK_MONOTONIC);
    for (int64_t call = 0; call < calls; call++) {
      engine_run();
    }
    wall[i] = (double)(now(CLOCK_MONOTONIC) - start) / (double)(calls * units);
    cpu[i] = (double)(now(CLOCK_PROCESS_CPUTIME_ID) - cpu_start) / (double)(calls * units);
  }
  fputc('{', answers);
  print_samples(answers, "ns", wall, samples);
  fputs(", ", answers);
  print_samples(answers, "cpu_ns", cpu, samples);
  fputs("}\n", answers);
  free(wall);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    bench_fail("usage: %s THREADS (bench/bench.py starts this program)", argv[0]);
  }
  /* Libraries may print; the answers have a descriptor of their own. */
  FILE *answers = fdopen(dup(STDOUT_FILENO), "w");
  if (!answers || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    bench_fail("no standard output");
  }
  fprintf(answers, "{\"version\": \"%s\"}\n", engine_version());
  fflush(answers);
  char *line = NULL;
  size_t room = 0;
  bench_work work = {0};
  int64_t calls = 1;
  while (getline(&line, &room, stdin) > 0) {
    if (strncmp(line, "case ", 5) == 0) {
      bench_case given;
      parse(line + 5, &given);
      work = (bench_work){.units = 1};
      engine_prepare(&given, atoi(argv[1]), &work);
      if (work.unsupported[0]) {
        fprintf(answers, "{\"unsupported\": \"%s\"}\n", work.unsupported);
      } else {
        engine_run();
        engine_finish_output();
        if (work.output) {
          write_output(bench_text(&given, "output"), &work);
        }
        calls = calibrate();
        fprintf(answers, "{\"ok\": true, \"note\": \"%s\"}\n", work.note);
      }
    } else if (strncmp(line, "run ", 4) == 0) {
      time_runs(answers, atoi(line + 4), calls, work.units);
    } else {
      bench_fail("no such order: %s", line);
    }
    fflush(answers);
  }
  free(line);
  fclose(answers);
  return 0;
}
