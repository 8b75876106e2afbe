/* A worker process from the inside. It has one thread, but for those that kernels run on. */
#ifndef TENON_TUNE_WORKER_INTERNAL_H
#define TENON_TUNE_WORKER_INTERNAL_H

#include "base/hash.h"
#include "codegen/backend.h"
#include "schedule/rules/choose.h"
#include "te/text.h"
#include "tenon/runtime.h"
#include "tune/message/message.h"
#include "tune/worker/worker.h"

/* ---- code as builders hand it to runners ------------------------------------------------------------------------- */

/* In front of an image, which begins TN__WORKER_CODE_ALIGN bytes further on. */
enum { TN__WORKER_MOST_SCALARS = 16, TN__WORKER_CODE_ALIGN = 256 };
typedef struct tn__worker_code {
  char mark[8];         /* "tnxcode" */
  uint64_t entry, size; /* of the image */
  int64_t workspace_bytes;
  int32_t buffers, scalar_count;
  int64_t scalars[TN__WORKER_MOST_SCALARS]; /* the values of open dimensions, in the kernel's order */
} tn__worker_code;

/* ---- memory between pages without access ------------------------------------------------------------------------- */

typedef struct tn__worker_memory {
  char *pages; /* with one without access at both ends; NULL: none */
  size_t pages_bytes;
  char *data; /* ends at such a page, but for what its alignment takes */
  size_t bytes;
  const char *name; /* of the tensor */
} tn__worker_memory;

/* The bytes are 0. TN_OUT_OF_MEMORY. */
TN_MUST_USE tn_status *tn__worker_memory_create(const char *name, size_t bytes, tn__worker_memory *out);
void tn__worker_memory_release(tn__worker_memory *memory);
void tn__worker_memory_seal(tn__worker_memory *memory, bool seal); /* is it read only? */
/* Bytes beside the data have been written over, which no page could tell. */
bool tn__worker_memory_overrun(const tn__worker_memory *memory);

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

/* What a kernel of a task runs on: made once. */
typedef struct tn__worker_operands {
  tn__te *te; /* all dimensions are numbers */
  int input_count, count;
  tn__worker_memory *buffers; /* inputs, then outputs */
  int *over;                  /* by output: the input whose memory it has, or -1 */
  void **first;               /* by input: what it held, where an output has its memory; NULL: it is still there */
  void **right;               /* by output: what the declaration's own loops give; NULL: they were not run */
  double *largest;            /* by output of floats: the largest of those */
  double rounding;            /* of floats, as a multiple of their type's (compare.c) */
  size_t bytes;
} tn__worker_operands;

typedef struct tn__worker_task {
  tn__arena arena;
  tn_tune_task given;  /* copied */
  const char *refused; /* why it cannot be opened; NULL: it is open */
  tn__target target;
  const tn__backend *backend;
  tn__codegen_machine *machine;
  const tn__te_source *source;
  bool has_operands;
  tn__worker_operands operands;
  uint64_t used;
} tn__worker_task;

enum { TN__WORKER_VERIFIED = 512 };
typedef struct tn__worker {
  tn__message_setup setup;
  const tn__worker_hooks *hooks;
  tn__message out;
  tn__worker_task *tasks[TN__MESSAGE_SLOTS]; /* by slot */
  tn_thread_pool *pool;                      /* of pool_threads */
  int pool_threads;
  uint64_t uses;
  tn__digest verified[TN__WORKER_VERIFIED]; /* code whose results were right, the last ones */
  uint64_t verified_count;
} tn__worker;

/* Never fails: what is wrong with a task is told with each of its trials. NULL without memory. */
tn__worker_task *tn__worker_task_open(const tn_tune_task *given);
void tn__worker_task_close(tn__worker_task *task); /* without operands; NULL is fine */
/* The task's declaration in `ir`; `sized`: its open dimensions are numbers. Throws. */
tn__te *tn__worker_task_declare(const tn__worker_task *task, bool sized, tn__ir *ir);
tn__schedule_options tn__worker_task_options(const tn__worker_task *task);

/* Code of the plan for the task's target, ready to run, in the arena. Throws. */
typedef struct tn__worker_compiled {
  const void *code; /* a tn__worker_code and an image */
  size_t size;
} tn__worker_compiled;
tn__worker_compiled tn__worker_compile(const tn__worker_task *task, const tn__plan *plan, tn__arena *arena);

/* ---- trials ------------------------------------------------------------------------------------------------------ */

void tn__worker_send(tn__worker *w); /* what is in w->out */
/* What is the candidate's begins: its limits count from now on. */
void tn__worker_prepared(tn__worker *w, uint64_t trial);
void tn__worker_candidate_done(void);
/* Writes the answer into w->out. */
void tn__worker_build(tn__worker *w, tn__worker_task *task, uint64_t trial, const char *rule, const char *schedule);
void tn__worker_run(tn__worker *w, tn__worker_task *task, uint64_t trial, double slow_seconds, const void *code,
                    size_t size);

/* Kernels that can be called. */
typedef struct tn__worker_kernel {
  void *mapped;
  size_t mapped_bytes;
  tn_kernel code;
  tn__worker_code head;
  tn__worker_memory workspace;
} tn__worker_kernel;
TN_MUST_USE tn_status *tn__worker_kernel_map(const void *code, size_t size, tn__worker_kernel *out);
void tn__worker_kernel_release(tn__worker_kernel *kernel);

/* A kernel with all that it is called with. */
typedef struct tn__worker_call {
  const tn__worker_kernel *kernel;
  const tn_kernel_env *env;
  void **buffers;
  const tn__worker_operands *operands;
} tn__worker_call;
/* Anything but TN_KERNEL_OK ends it: what the kernel returned. */
TN_MUST_USE int tn__worker_time(const tn__worker_call *call, const tn_timing_options *timing, double slow_seconds,
                                tn_run_result *out);

/* Makes inputs, and with `right` results, where they are not there yet. */
TN_MUST_USE tn_status *tn__worker_operands_open(tn__worker *w, tn__worker_task *task, bool right);
void tn__worker_operands_close(tn__worker_task *task); /* if there are any; NULL is fine */
/* What the kernel is called with: operands->count of them, and the workspace. */
void tn__worker_arguments(const tn__worker_operands *operands, const tn__worker_kernel *kernel, void **out);
/* As they were before the first call. */
void tn__worker_operands_reset(tn__worker_operands *operands);
/* Are the outputs right? False with words for where they are not. */
TN_MUST_USE bool tn__worker_operands_compare(const tn__worker_operands *operands, char *words, size_t size);
double tn__worker_rounding_of(const tn__te *te);
double tn__worker_largest_of(tn_dtype dtype, const void *data, size_t count); /* that is finite; 0: none is */
TN_MUST_USE tn_status *tn__worker_pool_for(tn__worker *w, int threads);

#endif
