/* Kernels without a model: compute declarations, from text or built here, scheduled and compiled. Link libtenon.
 *
 *   tn_te *te; tn_schedule *schedule; tn_build *build;
 *   tn_te_parse("gemm.te", text, length, NULL, NULL, 0, NULL, &te);
 *   tn_schedule_create(te, "native", NULL, &schedule);          // optimised, without measuring anything
 *   tn_te_build(&schedule, 1, NULL, &build);
 *   tn_build_save(build, "gemm");                               // gemm.o and gemm.h
 *
 * docs/te-language.md is the language. The rules of ownership stand at the top of <tenon/base.h>. */
#ifndef TENON_TE_H
#define TENON_TE_H

#include "tenon/compile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- declarations from text ------------------------------------------------------------------------------------- */

typedef struct tn_te tn_te; /* the declaration of one kernel */

/* Reads a .te text; `name` stands in messages ("gemm.te:3:14: ..."). `kernel` names one of the text, NULL: the last.
 * `dims` fixes dimensions; those that the kernel lacks are refused. The others stay open. */
TN_API TN_MUST_USE tn_status *tn_te_parse(const char *name, const char *text, size_t length, const char *kernel,
                                          const tn_dim_setting *dims, int dim_count, const tn_allocator *allocator,
                                          tn_te **out);
/* The same for every kernel of a text that `kernel` names (NULL: all). A dimension must belong to one of them. `*out`
 * is an array of `*count` declarations, released with tn_te_list_release. */
TN_API TN_MUST_USE tn_status *tn_te_parse_all(const char *name, const char *text, size_t length, const char *kernel,
                                              const tn_dim_setting *dims, int dim_count, tn_te ***out, int *count);
/* The same for a file, which may import others in its folder or below (docs/te-language.md). Texts of the two functions
 * above stand in no file and import nothing. Since 0.2. */
TN_API TN_MUST_USE tn_status *tn_te_parse_file(const char *path, const char *kernel, const tn_dim_setting *dims,
                                               int dim_count, tn_te ***out, int *count);
/* As tn_te_parse, of a text whose imports are files in `folder` and below; NULL: it imports nothing. Since 0.2. */
TN_API TN_MUST_USE tn_status *tn_te_parse_in(const char *folder, const char *name, const char *text, size_t length,
                                             const char *kernel, const tn_dim_setting *dims, int dim_count,
                                             const tn_allocator *allocator, tn_te **out);
TN_API void tn_te_list_release(tn_te **list, int count); /* all of them; NULL is fine */
TN_API void tn_te_release(tn_te *te);                    /* NULL is fine */
TN_API const char *tn_te_name(const tn_te *te);          /* of the kernel; lives as long as the declaration */
/* The declaration as text, everything stated; freed with free(). */
TN_API TN_MUST_USE tn_status *tn_te_print(const tn_te *te, char **out);

/* ---- declarations built here -------------------------------------------------------------------------------------
 *
 *   tn_te_create("row_sum", NULL, &te);
 *   tn_te_expr *n = tn_te_dim(te, "N", 1), *k = tn_te_int(te, TN_I64, 64), *shape[] = {n, k};
 *   tn_te_tensor *x = tn_te_input(te, "X", TN_F32, 2, shape);
 *   tn_te_expr *axes[] = {tn_te_axis(te, "i", n), tn_te_axis(te, "k", k)};
 *   tn_te_output(te, tn_te_reduce(te, "Y", "sum", 1, axes, 1, axes + 1, tn_te_read(te, x, 2, axes)));
 *   tn_te_finish(te);
 *
 * Expressions and tensors belong to the declaration. What is refused makes the call return NULL, which every other call
 * takes and passes on; tn_te_finish() returns the first refusal. */
typedef struct tn_te_expr tn_te_expr;     /* a scalar expression */
typedef struct tn_te_tensor tn_te_tensor; /* an input, or what a stage computes */

/* An empty declaration of the kernel `name`. */
TN_API TN_MUST_USE tn_status *tn_te_create(const char *name, const tn_allocator *allocator, tn_te **out);
/* Checks the whole; nothing may be added afterwards. A declaration from text is finished. */
TN_API TN_MUST_USE tn_status *tn_te_finish(tn_te *te);

TN_API tn_te_expr *tn_te_dim(tn_te *te, const char *name, int64_t least);       /* an open dimension */
TN_API tn_te_expr *tn_te_int(tn_te *te, tn_dtype dtype, int64_t value);         /* of any type */
TN_API tn_te_expr *tn_te_float(tn_te *te, tn_dtype dtype, double value);        /* of a floating type */
TN_API tn_te_expr *tn_te_axis(tn_te *te, const char *name, tn_te_expr *extent); /* runs over [0, extent) */
/* A value of a combiner, before and after: see tn_te_reduce_with. */
TN_API tn_te_expr *tn_te_variable(tn_te *te, const char *name, tn_dtype dtype);
/* An operation by the word or sign of the language: "+", "<=", "&&", "!", "-" (of one or two), "min", "select", "exp",
 * "fma" ... */
TN_API tn_te_expr *tn_te_op(tn_te *te, const char *operation, int count, tn_te_expr *const *args);
/* The value as another type. */
TN_API tn_te_expr *tn_te_cast(tn_te *te, tn_dtype dtype, tn_te_expr *value);
/* An element of a tensor, by as many indices as it has dimensions. */
TN_API tn_te_expr *tn_te_read(tn_te *te, tn_te_tensor *tensor, int count, tn_te_expr *const *indices);

/* The next input. */
TN_API tn_te_tensor *tn_te_input(tn_te *te, const char *name, tn_dtype dtype, int rank, tn_te_expr *const *shape);
/* A tensor with `value` at each place that the axes name. */
TN_API tn_te_tensor *tn_te_compute(tn_te *te, const char *name, int axis_count, tn_te_expr *const *axes,
                                   tn_te_expr *value);
/* `reduction`: "sum", "prod", "max", "min", "any" or "all" over `over`. */
TN_API tn_te_tensor *tn_te_reduce(tn_te *te, const char *name, const char *reduction, int axis_count,
                                  tn_te_expr *const *axes, int over_count, tn_te_expr *const *over, tn_te_expr *term);
/* A combiner of one's own, of 1 to 4 values: `results` in terms of the variables `before` (accumulated) and `after`
 * (new), `identities`, and the `terms` to combine. `out` gets `count` tensors, named `names`. */
typedef struct tn_te_combiner {
  int count;                                                     /* of values: 1 to 4 */
  tn_te_expr *before[4], *after[4], *results[4], *identities[4]; /* `count` of each */
  bool in_order;                                                 /* must not be reordered */
} tn_te_combiner;
/* Reduces by the combiner. */
TN_API void tn_te_reduce_with(tn_te *te, const char *const *names, const tn_te_combiner *combiner, int axis_count,
                              tn_te_expr *const *axes, int over_count, tn_te_expr *const *over,
                              tn_te_expr *const *terms, tn_te_tensor **out);
/* The value and the index (i64, of the first best) along one axis. */
TN_API void tn_te_arg_reduce(tn_te *te, const char *const *names, bool greatest, int axis_count,
                             tn_te_expr *const *axes, tn_te_expr *over, tn_te_expr *value, tn_te_tensor **out);
/* A scan: declare its tensor, which `next` may read at earlier positions of axes[along], then define it: `first` at the
 * first `depth` positions (NULL when depth is 0), `next` behind them. */
TN_API tn_te_tensor *tn_te_scan(tn_te *te, const char *name, tn_dtype dtype, int axis_count, tn_te_expr *const *axes);
TN_API void tn_te_scan_define(tn_te *te, tn_te_tensor *tensor, int axis_count, tn_te_expr *const *axes, int along,
                              int64_t depth, tn_te_expr *first, tn_te_expr *next);
TN_API void tn_te_output(tn_te *te, tn_te_tensor *tensor); /* the next output */

/* ---- schedules -------------------------------------------------------------------------------------------------- */

typedef struct tn_schedule tn_schedule; /* holds a copy of its declaration */

typedef struct tn_schedule_options { /* fields that are 0 take the target's */
  size_t size;                       /* sizeof(tn_schedule_options) */
  int vector_bytes;                  /* 16, 32 or 64, and no more than the target has */
  int threads;           /* 1 to 1,024; the target's cores when 0. 1 is right for functions without an environment */
  int64_t cache_bytes;   /* L2 that one thread may fill: 4 KiB to 1 GiB */
  int registers;         /* vector registers to plan for: 4 to the target's */
  int64_t shared_memory; /* bytes that the threads of a block may share at the most, up to 1 GiB */
  int search_space;      /* candidates that a search weighs: 1 to 1,000,000; 0: 2,000 */
  bool plain;            /* no choice: the declaration's own loops, an empty trace; no schedule stands beside it */
  const tn_allocator *allocator; /* NULL: malloc, realloc and free */
  /* Inputs that never change: packed once into the order in which the kernel reads, by a function of their own. The
   * kernel KERNEL then takes what KERNEL_pack_INPUT makes of INPUT. For right operands of sums of products, of constant
   * dimensions: others are refused. A trace of such a schedule replays with the same constants. */
  const char *const *constants;
  int constant_count;
  const char *machine; /* a machine file, as tn_compile_options.machine; since 0.2 */
  bool no_measure;     /* as tn_compile_options.no_measure; since 0.2 */
  /* A schedule that people write (docs/schedules.md), or a trace: text with a block for the kernel and the target,
   * which comes before those in the declaration's own text. NULL: the declaration's, or a choice; since 0.2 */
  const char *schedule;
  const char *schedule_name; /* of that text, for messages; NULL: "schedule"; since 0.2 */
  bool no_schedule;          /* passes over the schedules in the declaration's own text; since 0.2 */
  /* Tensors are dense and have memory of their own, whatever the declaration says of strides and `over`: for
   * tn_te_module(), whose callers bind tensors of any strides. tn_te_explain() does so anyway. Since 0.2 */
  bool dense;
  const char *tuned;      /* a file of tuned schedules, as tn_compile_options.tuned; since 0.2 */
  const char *tuned_text; /* what is in that file, for those who have read it already; NULL: it is read; since 0.2 */
  const tn_log_sink *log; /* warns of tuned schedules that are refused, or of which none is for this; since 0.2 */
} tn_schedule_options;
/* An optimised schedule for `target` (NULL: this machine): what options.schedule or the declaration's text says, or
 * else one that is chosen without measuring. */
TN_API TN_MUST_USE tn_status *tn_schedule_create(const tn_te *te, const char *target,
                                                 const tn_schedule_options *options, tn_schedule **out);
/* The schedule that a trace describes; refuses one of another declaration. */
TN_API TN_MUST_USE tn_status *tn_schedule_replay(const tn_te *te, const char *target, const char *trace,
                                                 const tn_schedule_options *options, tn_schedule **out);
/* The schedule as text that people read and write (docs/schedules.md): as tn_schedule_options.schedule it gives the
 * same schedule. Freed with free(). */
TN_API TN_MUST_USE tn_status *tn_schedule_text(const tn_schedule *schedule, char **out);
/* One more step, as traces have it: "split \"C.i\" 0 16". What is refused leaves the schedule as it was. */
TN_API TN_MUST_USE tn_status *tn_schedule_apply(tn_schedule *schedule, const char *step);
TN_API TN_MUST_USE tn_status *tn_schedule_trace(const tn_schedule *schedule, char **out); /* freed with free() */
TN_API void tn_schedule_release(tn_schedule *schedule);                                   /* NULL is fine */

/* ---- code ------------------------------------------------------------------------------------------------------- */

/* How kernels become an object and a header. */
typedef struct tn_build_options {
  size_t size;       /* sizeof(tn_build_options) */
  bool parallel;     /* the functions take a kernel environment (<tenon/kernel_abi.h>) first, and run its threads */
  const char *guard; /* of the header, NULL: from the kernels' names */
  const tn_allocator *allocator; /* NULL: malloc, realloc and free */
  bool workspace; /* the functions allocate nothing: `void *workspace, int64_t workspace_size` come last, and
                     int64_t KERNEL_workspace_size(open dimensions) says how many bytes are wanted, at any address; 0:
                     none, and the workspace may be NULL; -6: a dimension is refused. What is in them does not matter
                     before and after a call; calls at the same time need one each. A function that gets fewer bytes
                     returns 5 and touches nothing. Since 0.2 */
} tn_build_options;
/* An object file and a C header with one function per kernel: open dimensions as int64_t, then inputs, then outputs.
 * A schedule whose inputs are packed beforehand (options.constants, or steps declare_constant and transform_layout) has
 * a function for each that packs it, and takes what that makes. The schedules must be for one target. */
typedef struct tn_build tn_build;
TN_API TN_MUST_USE tn_status *tn_te_build(tn_schedule *const *schedules, int count, const tn_build_options *options,
                                          tn_build **out);
TN_API const void *tn_build_object(const tn_build *build, size_t *size); /* an ELF file; lives as long as the build */
TN_API const char *tn_build_header(const tn_build *build);               /* its text; lives as long as the build */
/* BASE.o and BASE.h, written atomically, both or neither. */
TN_API TN_MUST_USE tn_status *tn_build_save(const tn_build *build, const char *base);
TN_API void tn_build_release(tn_build *build); /* NULL is fine */
/* "te", "schedule", "trace", "tir", "llvm", "asm" or "obj" of the kernels, freed with free(). */
TN_API TN_MUST_USE tn_status *tn_te_emit(tn_schedule *const *schedules, int count, const tn_build_options *options,
                                         const char *stage, char **out, size_t *out_size);
/* An executable with one function per kernel, to be loaded and run in this process with <tenon/runtime.h>. */
TN_API TN_MUST_USE tn_status *tn_te_module(tn_schedule *const *schedules, int count, const tn_allocator *allocator,
                                           tn_module **out);

/* How each declaration's schedule is chosen and what that should cost, as tn_explain() tells of a model: a kernel is
 * called what its declaration is. `target` and `options` as for tn_schedule_create(). */
TN_API TN_MUST_USE tn_status *tn_te_explain(tn_te *const *tes, int count, const char *target,
                                            const tn_schedule_options *options, tn_explanation **out);

#ifdef __cplusplus
}
#endif
#endif
