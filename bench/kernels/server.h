/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs that `./dev bench kernels` measures with: one program per library, so that no two libraries share a
 * process, all of them driven by bench/bench_kernels.py through lines on standard input and output.
 *
 *   case KEY=VALUE...   prepares a computation, runs it once and writes its result; answers {"ok": ...} or
 *                       {"error": ...}
 *   run N               times N samples; answers {"ns": [...], "cpu_ns": [...]}, both per run of the computation
 *
 * server.c holds main(); each library's file defines the functions below. */
#ifndef TENON_BENCH_KERNELS_SERVER_H
#define TENON_BENCH_KERNELS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bench_case bench_case;

/* The value of a key of the case; a missing key ends the program with a message, because both sides are ours. */
const char *bench_text(const bench_case *given, const char *key);
int64_t bench_int(const bench_case *given, const char *key);
bool bench_is(const bench_case *given, const char *key, const char *value);
/* True when the operand is constant, so that it may be packed before the clock starts. */
bool bench_is_constant(const bench_case *given, const char *operand);

/* The elements of a .npy file of f32 in C order, in memory like that of bench_floats(). */
float *bench_read_f32(const char *path, size_t *count);
/* Zeroed memory that starts at a page: floats. Freed with free(). Where tensors lie in their pages decides up to half
 * of the time of a kernel in the first caches, so it is the same for all who are compared. */
float *bench_floats(size_t count);
/* Ends the program with a message: for what cannot happen unless the bench itself is wrong. */
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

typedef struct bench_work {
  const void *output; /* what one run computes, written to the case's `output` file after the first run; may be NULL */
  size_t output_bytes;
  int64_t units;         /* runs of the computation in one call of engine_run(); 1 unless the engine says otherwise */
  char note[160];        /* for people: what was chosen */
  char unsupported[160]; /* not empty: the library has no such computation, and why */
} bench_work;

/* Makes ready for the case with as many threads as the program was started for, in place of the one before. */
void engine_prepare(const bench_case *given, int threads, bench_work *work);
void engine_run(void);
/* Called once after the first run: brings the result into the plain layout of `work->output` if it is not there yet. */
void engine_finish_output(void);
const char *engine_version(void);

#endif
