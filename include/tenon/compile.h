/* Compiling models to executables. Link libtenon and, for what it makes is run with it, libtenon_runtime.
 *
 *   tn_module *module; tn_compile_options options = {.size = sizeof options};
 *   tn_compile("model.onnx", NULL, 0, &options, &module);
 *   tn_module_save(module, "model.tnx");          // or tn_module_load() to run it here at once
 *   tn_module_release(module);
 *
 * Every call is self-contained: separate calls may run at once in different threads. Compilation is deterministic: the
 * same model, options, target and version give the same bytes, with any number of compile threads. Memory that LLVM
 * asks for is the one allocation that can't fail with a status: LLVM ends the process then. The rules of ownership
 * stand at the top of <tenon/base.h>. */
#ifndef TENON_COMPILE_H
#define TENON_COMPILE_H

#include "tenon/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- options ----------------------------------------------------------------------------------------------------- */

typedef struct tn_dim_setting { /* fixes a symbolic dimension of the model */
  const char *name;             /* as the model has it */
  int64_t size;                 /* at least 0 */
} tn_dim_setting;

typedef struct tn_phase_time { /* how long a phase of the compilation took */
  const char *name; /* "open", "import", "graph.fuse", "kernel.schedule", "kernel.codegen" ...; kernels' are summed over
                       threads */
  double seconds;   /* by the clock */
} tn_phase_time;

/* Lets an output be bound to an input's buffer, which is then updated in place. Names may hold one '*', which stands
 * for the same text in both. Results that scatter into the input (ScatterElements, ScatterND, TensorScatter), or
 * choose by a mask of positions between new rows and it (Where), write only what they replace; element-wise ones write
 * over what they read; others are made elsewhere and copied when the input has been read for the last time.
 *
 * A result that is an input with new elements behind it along a dimension of the input (Concat of past and new keys or
 * values) can alias that input when the dimension has a capacity (tn_compile_options.capacities): both are then buffers
 * of that size there, of which the first elements count, and a run writes the new ones alone. tn_value_info tells
 * it. */
typedef struct tn_alias_setting {
  const char *output, *input; /* names */
} tn_alias_setting;

/* Says of a value of the model where it lives, as the operator on_device does in a graph's text (docs/devices.md). With
 * one of the two set, there may be a copy between the value and whoever reads it; with both there is none. One of them
 * must be. Since 0.2. */
typedef struct tn_on_device {
  const char *value;     /* its name: a node's output, an input or an initializer */
  const char *device;    /* "opencl:0", "opencl:0/texture", or a target's own name */
  bool constrain_body;   /* the value itself lives there: it is made there */
  bool constrain_result; /* what is read in its place lives there: it is read there */
} tn_on_device;

/* How a model is compiled. */
typedef struct tn_compile_options {
  size_t size; /* sizeof(tn_compile_options); when nothing else is set: the defaults */
  /* NULL or "native": this machine; "x86-64-v3", "cpu -mcpu=haswell -cores=2", "aarch64", ... (docs/targets.md).
   * Several have semicolons between them (docs/devices.md): "cpu; opencl -device=0". */
  const char *target;
  const tn_dim_setting *dims; /* sizes of symbolic dimensions, which are fixed then */
  int dim_count;              /* of them */
  int run_threads; /* threads that the schedules are balanced for; 0: this machine's default (1 for other targets) */
  int compile_threads;           /* 0: as many as tn_thread_pool would use */
  bool no_cache;                 /* neither read nor write the compile cache */
  const char *cache_directory;   /* NULL: $TENON_CACHE_DIR, else $XDG_CACHE_HOME/tenon, else ~/.cache/tenon */
  uint64_t cache_limit_bytes;    /* 0: 2 GiB; least recently used entries go first */
  const tn_allocator *allocator; /* NULL: malloc, realloc and free */
  const tn_log_sink *log;        /* NULL: nothing is told */
  /* Progress: `done` of `total` steps of `phase` ("import", "compile" ...). In the phase "compile" the steps are those
   * kernels that the cache has not got, large ones counting more. Called from the compiling thread. May be NULL. */
  void (*progress)(void *user, const char *phase, int done, int total);
  /* Called after each pass of the graph ("graph.NAME") and of each kernel ("KERNEL.NAME") with its printed form, when
   * the pass's bare name is `print_after` ("all": every one). */
  void (*print)(void *user, const char *pass, const char *text);
  const char *print_after;
  void *user; /* for progress, print, times and cancelled */
  /* Called once at the end with where the time went; what tn_module_times tells, also of tn_inspect. May be NULL. */
  void (*times)(void *user, const tn_phase_time *const *times, int count);
  /* Sizes of symbolic dimensions to compile functions of their own for, next to the one for any size: the same name
   * may come several times, and several names make every combination. */
  const tn_dim_setting *special_dims;
  int special_dim_count;
  const tn_alias_setting *aliases; /* outputs that may share an input's buffer */
  int alias_count;                 /* of them */
  /* Every convolution as the sums of products that it is: no Winograd, whose errors are greater (docs/numerics.md). */
  bool direct_convolutions;
  /* The most that dimensions of inputs, and of the outputs that alias these and grow, will ever be. */
  const tn_dim_setting *capacities;
  int capacity_count;
  /* What the executable keeps for people and tools, besides what it needs to run: a list with commas of "schedules"
   * (the trace of each kernel's schedule), "graph" (the model after the passes), "declarations" (what each kernel
   * computes) and "loops" (its loop nest as the code generator got it), or "all", or "none"; NULL: "schedules".
   * tn_executable_text reads them. */
  const char *texts;
  /* Inputs whose memory may have any strides (transposed, sliced, reversed, broadcast views): such a tensor is then
   * used where it lies, by generic kernels, which are compiled beside the ones for dense tensors; those run as ever
   * when all are dense. Names may hold one '*'. Other inputs are copied when they are strided, or refused
   * (TN_BIND_NEXT_IN_PLACE). An input that an output aliases cannot be among them, nor one whose elements are sizes;
   * nor can tn_module_emit_c() make C of it. */
  const char *const *strided;
  int strided_count;
  /* A machine file (docs/targets.md): what caches and cores do, from which schedules are chosen, instead of what was
   * measured here or is usual for the target. The same file gives the same bytes. NULL: none. Since 0.2. */
  const char *machine;
  /* Schedules for this machine are chosen from the usual numbers of CPUs like it, and nothing is measured. Since
   * 0.2. */
  bool no_measure;
  /* Asked now and then, from any thread of the compilation, whether that shall end: true ends it with TN_CANCELLED,
   * mostly within some 10 ms, as the code of a kernel that LLVM optimises comes to its end first. May be NULL. Since
   * 0.2. */
  bool (*cancelled)(void *user);
  /* A file of tuned schedules (docs/tuning.md): kernels that it has one for, for this target and number of threads, get
   * that; the others are chosen. The file's schedules decide what code there is, not its name. NULL: none. Since
   * 0.2. */
  const char *tuned;
  /* The target that runs what is no kernel (docs/devices.md): shapes, conditions, lists and strings. NULL: the one that
   * a target names, else the only CPU among the targets. Since 0.2. */
  const char *host;
  /* Where nodes run, by their names: "encoder.*=opencl:0"; of several that fit the last one counts. "@FILE" stands for
   * all that a file of JSON says, {"encoder.*": "opencl:0"}, and "auto" for where the rest is predicted to be fastest.
   * Since 0.2. */
  const char *const *place;
  int place_count; /* of them */
  /* Called with the devices of a compilation, and where the plan puts each node; again with what passes make of that;
   * and, where kernels choose memories of devices, with what they chose. The cache is left out then. May be NULL. Since
   * 0.2. */
  void (*devices)(void *user, const char *text);
  /* How much memory of a device constants and values may take, "opencl:0=2GiB": with "auto" in `place` what does not
   * fit goes elsewhere, and what fits nowhere is TN_RESOURCE_EXHAUSTED. Since 0.2. */
  const char *const *memory;
  int memory_count; /* of them */
  /* Where values live, by their names, in all that the model is made of but its functions. A name that no value has is
   * TN_NOT_FOUND. Since 0.2. */
  const tn_on_device *annotations;
  int annotation_count; /* of them */
  /* Makes inputs of an ONNX model that have initializers of the same names constants, and no inputs of the executable.
   * Otherwise callers may bind them: the initializers are their defaults (tn_value_info.fallback), and each run
   * computes what depends on them. Before version 4 of ONNX's IR initializers are always constants. Since 0.2. */
  bool fold_defaults;
} tn_compile_options;

/* ---- models and modules ------------------------------------------------------------------------------------------ */

typedef struct tn_module tn_module; /* a compiled model: the bytes of an executable */

/* Compiles an ONNX model, or a graph as text (docs/graph.md). `path` names it in messages and locates external data;
 * `data`, when not NULL, is the model itself and `path` need not exist. */
TN_API TN_MUST_USE tn_status *tn_compile(const char *path, const void *data, size_t size,
                                         const tn_compile_options *options, tn_module **out);
/* A model that becomes a function of an executable. */
typedef struct tn_model_function {
  const char *name; /* of the function */
  const char *path; /* and `data`, `data_size`: as tn_compile takes them */
  const void *data; /* NULL: the file */
  size_t data_size; /* of `data` */
} tn_model_function;
/* Compiles several models into one executable, a function for each, which share equal constants and kernels. What the
 * options name (dimensions, aliases) must be in at least one of them. The first function is the one that NULL names. */
TN_API TN_MUST_USE tn_status *tn_compile_functions(const tn_model_function *functions, int count,
                                                   const tn_compile_options *options, tn_module **out);
/* What tn_compile_functions would refuse before it reads a file: names of functions (TN_INVALID_ARGUMENT; with `count`
 * 0 the options alone are looked at), numbers out of their ranges, targets, passes and texts that there are not, and
 * targets that there is no code generator for (TN_UNSUPPORTED). Since 0.2. */
TN_API TN_MUST_USE tn_status *tn_compile_arguments_check(const tn_model_function *functions, int count,
                                                         const tn_compile_options *options);
TN_API void tn_module_release(tn_module *module);                         /* NULL is fine */
TN_API const void *tn_module_data(const tn_module *module, size_t *size); /* lives as long as the module */
/* Writes the executable atomically. */
TN_API TN_MUST_USE tn_status *tn_module_save(const tn_module *module, const char *path);
/* Writes the module's constants to a file of their own and leaves a link to it, by its hash, in the module: models that
 * share weights share the file, and processes its pages. `name` is what the executable looks for in its own folder;
 * NULL: the last part of the path. */
TN_API TN_MUST_USE tn_status *tn_module_split(tn_module *module, const char *constants_path, const char *name);
/* Splits the module, signs it when there is a key (NULL: not), and saves both files: when one of them cannot be
 * written, the old ones stay, so that executables that share the old constants still run, and the module stays whole.
 * Since 0.2. */
TN_API TN_MUST_USE tn_status *tn_module_save_split(tn_module *module, const char *path, const char *constants_path,
                                                   const char *name, const void *key, size_t key_size);
/* For programs that want neither a file nor the runtime: an ELF object with the kernels and constants, and a header of
 * C99 and C++ with a function tn_NAME_FUNCTION(inputs, outputs, workspace) for each of the module's that no other
 * calls, which allocates nothing and needs of libc only memory functions; the header documents each. Open dimensions
 * become arguments, and functions tell the workspace's size and the outputs' dimensions for them, or how much of it was
 * used where only running tells; sequences and optional values are structs. Refused (TN_UNSUPPORTED) are strings,
 * look-ups in tables (LabelEncoder, of integers too), recursion, and inputs of any strides. `name` is a part of C
 * identifiers. Of a module that was compiled for the target "c99" a C file takes the object's place, which holds
 * kernels and constants for any machine with a compiler of C and includes the header. Both files are written, or
 * neither. */
TN_API TN_MUST_USE tn_status *tn_module_emit_c(const tn_module *module, const char *name, const char *object_path,
                                               const char *header_path);
/* Are the module's kernels C99, so that tn_module_emit_c() writes a C file and no object, and loading is refused? Since
 * 0.2. */
TN_API TN_MUST_USE tn_status *tn_module_is_source(const tn_module *module, bool *out);
/* The same before anything is compiled: of a module that is made with these options. Since 0.2. */
TN_API TN_MUST_USE tn_status *tn_compile_makes_source(const tn_compile_options *options, bool *out);
/* Signs the module with HMAC-SHA-256: whoever loads it with the same key knows that only somebody who has the key can
 * have made it. What is done to a module later breaks the signature: split first, then sign. */
TN_API TN_MUST_USE tn_status *tn_module_sign(tn_module *module, const void *key, size_t key_size);
/* Writes the executable in the file `path` to `out_path`, which may be the same, without its texts but those that
 * `texts` names (as tn_compile_options.texts; NULL: none). It is verified first, with its constants, as
 * tn_executable_verify does with these options (NULL: the defaults). A signature covers the texts: what was signed is
 * refused (TN_FAILED_PRECONDITION) unless options->key is its key, and is signed with that again. A file of
 * constants stays where it is: a result in another folder, which will look for it there, is a warning in options->log,
 * and one in its place is refused (TN_INVALID_ARGUMENT). */
TN_API TN_MUST_USE tn_status *tn_executable_strip(const char *path, const char *texts, const tn_load_options *options,
                                                  const char *out_path);
/* Loads the module to run it here at once. */
TN_API TN_MUST_USE tn_status *tn_module_load(const tn_module *module, const tn_load_options *options,
                                             tn_executable **out);

/* Where the time went; a module that came from the cache has "open" and "cache" only. */
TN_API TN_MUST_USE int tn_module_times(const tn_module *module, const tn_phase_time *const **out);
/* How much work the compilation was, in steps: expressions that were made and looked at, nodes that passes visited,
 * instructions, pieces of memory. The number does not depend on the machine's speed. `most` (may be NULL): how many it
 * may take, by the size of the model's structure; a compilation that would take more is refused. Both are 0 for a
 * module that came from the cache. Since 0.2. */
TN_API uint64_t tn_module_steps(const tn_module *module, uint64_t *most);
/* Whether nothing was compiled, because the compile cache had it. */
TN_API bool tn_module_from_cache(const tn_module *module);

/* ---- looking into models ----------------------------------------------------------------------------------------- */

/* A stage of the compilation as text or bytes: "graph", "te", "schedule", "tir", "llvm", "asm", "obj". Never cached.
 * `*out` (NUL-terminated, `*size` bytes without the NUL) is freed with free(). */
TN_API TN_MUST_USE tn_status *tn_compile_emit(const char *path, const void *data, size_t size,
                                              const tn_compile_options *options, const char *stage, char **out,
                                              size_t *out_size);
/* What a model needs and what it becomes, as JSON (docs/inspect.md), freed with free(): inputs, outputs, operators with
 * versions, unsupported ones with reasons, parameters, FLOPs and bytes, memory plan, kernels. Also for executables. */
TN_API TN_MUST_USE tn_status *tn_inspect(const char *path, const tn_compile_options *options, char **json);

/* The machine that schedules are chosen for with these options (`target`, `machine` and `no_measure`),
 * as the text of a machine file, freed with free(): comments say where its numbers come from. `refresh` measures this
 * machine again, whether or not that was done before. Since 0.2. */
TN_API TN_MUST_USE tn_status *tn_machine_text(const tn_compile_options *options, bool refresh, char **out);
/* What `target` may be, for people: kinds with their attributes, presets, and this machine with its features; freed
 * with free(). Since 0.2. */
TN_API TN_MUST_USE tn_status *tn_targets_text(char **out);

/* A schedule that was not taken: the cheapest other one of the same rule, or the cheapest of the next rule. */
typedef struct tn_plan_rival {
  const char *rule;      /* the plan's own, or the next */
  const char *decisions; /* "rows 12 (not 14)"; all of them where the rule is another */
  const char *why;       /* "1.20 times the cycles: memory 1200, not 900" */
  double cycles;         /* predicted for one call */
} tn_plan_rival;

/* How the kernels of a model are scheduled, and what the static cost function expects of them. */
typedef struct tn_kernel_plan {
  const char *kernel;     /* its name in profiles */
  const char *rule;       /* "contraction", "direct compute" ...; "plain nest" when no rule fitted */
  const char *decisions;  /* "lanes 16, vectors 2, rows 14"; may be empty */
  const char *bound;      /* what the prediction is bound by: "arithmetic", "L2", "L3", "memory" */
  double flops, bytes;    /* of one call: operations; bytes of inputs and outputs. Negative when symbolic */
  double cycles, seconds; /* predicted for one call; seconds at machine.clock_hz */
  double work_cycles, l2_cycles, l3_cycles, memory_cycles,
      overhead_cycles;         /* what `cycles` is made of, on one thread */
  double tail;                 /* share of the vector lanes that run for nothing */
  int registers;               /* live vectors, 0 when not known */
  int64_t weighed;             /* candidates */
  const tn_plan_rival *rivals; /* what was not taken, and why. Since 0.2. */
  int rival_count;             /* 0 to 2 */
} tn_kernel_plan;

typedef struct tn_explanation tn_explanation; /* of all kernels of a model, and of the machine */
/* Explains a model's kernels; what options print, time or cache is left out. */
TN_API TN_MUST_USE tn_status *tn_explain(const char *path, const void *data, size_t size,
                                         const tn_compile_options *options, tn_explanation **out);
TN_API void tn_explanation_release(tn_explanation *explanation); /* NULL is fine */
/* Both live as long as the explanation; kernels in the order of the model, each once. */
TN_API TN_MUST_USE int tn_explanation_kernels(const tn_explanation *explanation, const tn_kernel_plan *const **out);
/* Measured, or the target's usual numbers when that is another machine. */
TN_API const tn_machine_limits *tn_explanation_limits(const tn_explanation *explanation);

/* ---- checking models --------------------------------------------------------------------------------------------- */

typedef struct tn_check_list { /* what a sequence or optional value holds */
  const DLTensor *tensors;     /* one after another */
  int count;                   /* -1: an optional without value */
} tn_check_list;
/* How results are compared. */
typedef struct tn_check_options {
  size_t size;                /* sizeof(tn_check_options) */
  double rtol, atol;          /* differences up to atol + rtol * |expected| pass; 0: the type's (docs/numerics.md) */
  const tn_check_list *lists; /* by input: what sequences and optional values hold; NULL: all are empty */
} tn_check_options;
/* How a check ended. */
typedef struct tn_check_result {
  size_t size;                /* sizeof(tn_check_result), set by the caller */
  bool agrees;                /* all outputs and kernels agree */
  int nodes_checked;          /* kernels */
  char node[256];             /* origin of the first kernel that differs; "": an output differs */
  char value[128];            /* the kernel's result that differs, or the output */
  double difference, allowed; /* at the worst element */
  int64_t index;              /* flat index of the worst element */
  int bodies_skipped;         /* branches and bodies of loops, whose kernels are not compared one by one */
  int outputs_checked;        /* output tensors compared */
  char pass[32];              /* the first graph pass that changes that output; "": no graph pass does */
} tn_check_result;
/* Compares the model with its unoptimized form: compiles it with all graph passes and with none, runs both on `inputs`
 * and compares the outputs. `inputs` are by position; an input that `lists` provides is ignored, and (DLTensor){0}
 * selects an input's default. If the outputs agree, it compiles the model with the results of all fused groups visible
 * and compares each with the loop interpreter's.
 * Kernels inside branches and loops run but are not compared individually. Rejects tolerances that are negative or
 * NaN. */
TN_API TN_MUST_USE tn_status *tn_check(const char *path, const void *data, size_t size,
                                       const tn_compile_options *options, const DLTensor *inputs, int input_count,
                                       const tn_check_options *check, tn_check_result *out);

/* ---- tensors in files -------------------------------------------------------------------------------------------- */

typedef struct tn_named_tensor { /* a tensor of a file */
  char *name;                    /* of the archive's member or the proto, or "" */
  tn_tensor *tensor;             /* owned by the list */
} tn_named_tensor;
/* Reads tensors from .npy, .npz (every member) or ONNX TensorProto .pb files. */
TN_API TN_MUST_USE tn_status *tn_tensors_read(const char *path, const tn_allocator *allocator, tn_named_tensor **out,
                                              int *count);
/* Reads the tensors of an ONNX SequenceProto file, or of an OptionalProto; `*count` is -1 when that has no value. They
 * have no names. */
TN_API TN_MUST_USE tn_status *tn_tensors_read_list(const char *path, bool optional, const tn_allocator *allocator,
                                                   tn_named_tensor **out, int *count);
TN_API void tn_tensors_free(tn_named_tensor *tensors, int count); /* the list with its tensors */

#ifdef __cplusplus
}
#endif
#endif
