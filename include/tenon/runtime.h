/* Loading and running executables. Stands alone: link libtenon_runtime, which needs libc, libm, libpthread and libdl
 * only.
 *
 *   tn_executable *exe; tn_session *session;
 *   tn_executable_load("model.tnx", NULL, &exe);
 *   tn_session_create(exe, NULL, &session);
 *   tn_session_set_input(session, "main", "x", &x_tensor, TN_BIND_NEXT);
 *   tn_session_invoke(session, "main");
 *   tn_session_get_output(session, "main", 0, &y_tensor);   // or bind your own buffer with tn_session_set_output
 *
 * Executables are immutable and may be shared by threads; each session is used by one thread at a time, and a function
 * of one that is in use is refused with TN_FAILED_PRECONDITION. The rules of
 * ownership, and of structs of options, stand at the top of <tenon/base.h>. Functions are named by their name; NULL
 * means the executable's
 * first. */
#ifndef TENON_RUNTIME_H
#define TENON_RUNTIME_H

#include "tenon/base.h"
#include "tenon/dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_MAX_RANK 16   /* the most dimensions of a tensor */
#define TN_ANY_RANK (-1) /* of sequences and optional values whose tensors may differ in rank */

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

/* A tensor that owns its memory (aligned to 64 bytes, dense row-major, on the CPU), created zeroed. The DLTensor is the
 * object's first member and valid until release. */
typedef struct tn_tensor tn_tensor;
TN_API TN_MUST_USE tn_status *tn_tensor_create(tn_dtype dtype, int rank, const int64_t *shape,
                                               const tn_allocator *allocator, tn_tensor **out);
/* A tensor of TN_STRING with copies of the strings, one for each element in row-major order, and of their bytes. Its
 * elements may be changed to point elsewhere; the bytes that it came with live as long as it does. */
TN_API TN_MUST_USE tn_status *tn_tensor_create_strings(int rank, const int64_t *shape, const tn_string *strings,
                                                       const tn_allocator *allocator, tn_tensor **out);
TN_API DLTensor *tn_tensor_dl(tn_tensor *tensor); /* its view, which lives as long as it does */
TN_API void tn_tensor_release(tn_tensor *tensor); /* with its memory; NULL is fine */
/* Copies elements between tensors of one type and shape on the CPU, which it trusts the caller to give: whatever their
 * strides (NULL: dense and row-major). */
TN_API void tn_tensor_copy(const DLTensor *from, const DLTensor *to);
TN_API tn_dtype tn_dtype_of_dl(DLDataType type);  /* TN_DTYPE_INVALID when Tenon has no such type, or lanes != 1 */
TN_API DLDataType tn_dtype_to_dl(tn_dtype dtype); /* with one lane */
/* Elements of a shape; -1 on overflow or a negative dimension. */
TN_API int64_t tn_element_count(int rank, const int64_t *shape);

/* .npy files (version 1 to 3, C or Fortran order, little-endian). bfloat16 is '<V2', as ml_dtypes writes it. Strings
 * are NumPy's '<U' (read and written, as UTF-8 here) and '|S' (read), both without zeros at their ends. From memory,
 * `name` stands in messages. Archives (.npz) are read by tn_tensors_read() of <tenon/compile.h>. */
TN_API TN_MUST_USE tn_status *tn_tensor_read_npy(const char *path, const tn_allocator *allocator, tn_tensor **out);
TN_API TN_MUST_USE tn_status *tn_tensor_read_npy_memory(const char *name, const void *data, size_t size,
                                                        const tn_allocator *allocator, tn_tensor **out);
TN_API TN_MUST_USE tn_status *tn_tensor_write_npy(const DLTensor *tensor, const char *path);

/* ---- thread pools ----------------------------------------------------------------------------------------------- */

/* Workers that sleep unless a session runs on them. Sessions may share one; invokes on a shared pool take turns
 * parallel loop by parallel loop, so two sessions never use more threads than the pool has. */
typedef struct tn_thread_pool tn_thread_pool;
/* How a pool is made. */
typedef struct tn_thread_pool_options {
  size_t size;           /* sizeof(tn_thread_pool_options) */
  int threads;           /* counting the invoking thread; 0: by affinity mask and cgroup quota */
  int spin_microseconds; /* how long workers spin between parallel loops of one invoke before they sleep; < 0: 0; 0: the
                            default, 50 */
  const tn_allocator *allocator; /* NULL: malloc, realloc and free */
  /* The processors that workers may run on; NULL: those of the creating thread. The invoking thread stays where its
   * owner put it. With `threads` 0 there is one for each. */
  const int *processors;
  int processor_count;
} tn_thread_pool_options;
/* Starts the workers. */
TN_API TN_MUST_USE tn_status *tn_thread_pool_create(const tn_thread_pool_options *options, tn_thread_pool **out);
TN_API void tn_thread_pool_release(tn_thread_pool *pool);   /* after its sessions */
TN_API int tn_thread_pool_size(const tn_thread_pool *pool); /* its threads, with the invoking one */
struct tn_kernel_env;
/* An environment (<tenon/kernel_abi.h>) that runs parallel loops on the pool, for functions that `tenon build
 * --parallel` made. It is the pool's, and may be used from one thread at a time. */
TN_API const struct tn_kernel_env *tn_thread_pool_env(const tn_thread_pool *pool);

/* ---- executables ------------------------------------------------------------------------------------------------ */

typedef struct tn_executable tn_executable; /* a loaded executable */
/* How an executable is loaded. */
typedef struct tn_load_options {
  size_t size;                   /* sizeof(tn_load_options) */
  const tn_allocator *allocator; /* NULL: malloc, realloc and free */
  const tn_log_sink *log;        /* NULL: nothing is told */
  bool verify_constants;         /* check the content hash of the constants too (reads all of them) */
  bool perf_map;                 /* append the kernels to /tmp/perf-PID.map for perf */
  bool borrow_data; /* load_memory: the bytes stay valid and unchanged until release; used in place when aligned to 64
                       (the code is copied) */
  /* Where the constants are when they have a file of their own; NULL: beside the executable, under the name that it
   * was compiled with. Whatever the place, the file must have the hash that the executable names. */
  const char *constants_path;
  /* When not NULL, the executable must carry the signature (HMAC-SHA-256) that tn_module_sign() made with this key over
   * these contents; the constants are verified, too. Both or neither: a size without a key, or an empty key, is
   * refused. */
  const void *key;
  size_t key_size;
  /* Nothing of it is to run here: it may be for another machine, no code is mapped, and what it holds can be told. A
   * session on it is refused. Since 0.2. */
  bool inspect_only;
  /* Devices that take the place of those that the program was placed on: "island:1=island:0", "island:0=cpu:0". One may
   * take the place of several. What is not named stays; the first device, the host, cannot be replaced. An entry
   * for a device that the program does not use is a warning. Since 0.2. */
  const char *const *device_map;
  int device_map_count;
  /* Islands (docs/devices.md) work at the same time, without protection; else they take turns, and one whose memory
   * somebody else touches ends the process. Since 0.2. */
  bool concurrent_islands;
  /* Limits of what all sessions together take of devices, what is kept for later included, and constants unless the
   * device reads them in the host's memory: "island:0=64MiB", with a size in bytes, KB, MB, GB, TB, KiB, MiB, GiB or
   * TiB. A device without one gives what it has. When there is no more, what is kept for later goes back to the device,
   * once; then it is TN_OUT_OF_MEMORY. Since 0.2. */
  const char *const *memory;
  int memory_count;
} tn_load_options;
/* Maps the file, verifies every table and the bytecode, and refuses (TN_DATA_LOSS) what is truncated or inconsistent,
 * (TN_FAILED_PRECONDITION) a CPU that lacks features the kernels use, naming them, and (TN_UNSUPPORTED) a newer major
 * format. Native code in the file is trusted: load only files that you would run as a program. */
TN_API TN_MUST_USE tn_status *tn_executable_load(const char *path, const tn_load_options *options, tn_executable **out);
/* From memory, which is copied: the caller's bytes may go after the call, unless options->borrow_data says that they
 * stay. */
TN_API TN_MUST_USE tn_status *tn_executable_load_memory(const void *data, size_t size, const tn_load_options *options,
                                                        tn_executable **out);
TN_API void tn_executable_release(tn_executable *executable); /* after its sessions */
/* Writes the bytes that were loaded to a file, atomically; it may be the one that they are from. Constants in a file of
 * their own are not copied: the log of the loading is warned when they are not where the new file looks for them.
 * Since 0.2. */
TN_API TN_MUST_USE tn_status *tn_executable_save(tn_executable *executable, const char *path);
/* Checks all that loading checks, and the hash of the constants, and maps no code: for files that are not trusted, or
 * not for this machine. */
TN_API TN_MUST_USE tn_status *tn_executable_verify(const char *path, const tn_load_options *options);

/* ---- what an executable holds ----------------------------------------------------------------------------------- */

typedef struct tn_dim_info { /* a dimension of an input or output */
  int64_t size;              /* -1 when it is symbolic */
  const char *name;          /* of the symbol; NULL when constant or when it depends on the values of inputs */
  /* Not 0: the tensor lies in a buffer that has so much along this dimension, of which the first elements count and the
   * rest is room to grow (docs/vm.md). A binding is used in place when its strides are the buffer's: they step over
   * `capacity` elements of this dimension. */
  int64_t capacity;
} tn_dim_info;
/* What an input or output is. */
typedef enum tn_value_kind {
  TN_VALUE_TENSOR,           /* a tensor */
  TN_VALUE_SEQUENCE,         /* any number of tensors of one element type and rank */
  TN_VALUE_OPTIONAL,         /* a tensor or nothing */
  TN_VALUE_OPTIONAL_SEQUENCE /* a sequence or nothing */
} tn_value_kind;
/* What size is bound to an input or output. Since 0.2. */
typedef enum tn_size_rule {
  TN_SIZE_EXACT,    /* the shape that follows from the shapes of the inputs, and no other */
  TN_SIZE_CAPACITY, /* of an output whose size depends on the values of inputs: any that has room for it */
  TN_SIZE_MEMORY    /* of an output that is a sequence or optional: bytes (tn_session_set_output_list) */
} tn_size_rule;
typedef struct tn_value_info { /* of an input or output; lives as long as the executable */
  const char *name;            /* of the model's */
  tn_dtype dtype;              /* of a sequence: its tensors', and so is the rank; their dimensions may be anything */
  int rank;                    /* or TN_ANY_RANK; never of one tensor */
  const tn_dim_info *const *dims; /* `rank` of them */
  tn_value_kind kind;             /* a tensor, or what may hold several or none */
  int alignment; /* what a binding's data must be aligned to, in bytes, to be used in place: the size of an element, or
                    of four where kernels take bytes in fours; 64 in files of a format before 1.5. Strings and lists
                    are copied */
  bool strided;  /* an input that is used in place whatever its strides (tn_compile_options.strided) */
  tn_size_rule size_rule; /* inputs, and outputs that grow (tn_dim_info.capacity): TN_SIZE_EXACT. Since 0.2. */
  /* Where its memory is: {kDLCPU, 0} for all CPUs, also a second one that a program runs on, and otherwise a device of
   * the program's, after tn_load_options.device_map. A tensor that is bound there is used where it is; one on the host
   * is copied there and from there by the session. Since 0.2. */
  DLDevice device;
  /* An input's default, which invokes use while nothing is bound; NULL: the input must be bound. It lies in the
   * executable's memory on the host and must not be written. `data` is NULL for strings and in executables that were
   * loaded with tn_load_options.inspect_only. Since 0.2. */
  const DLTensor *fallback;
} tn_value_info;
/* Functions by index, the first being the one that NULL names; NULL when there is no such index. Inner functions
 * (branch and loop bodies, functions for one size) are not listed and cannot be called by name. */
TN_API int tn_executable_function_count(const tn_executable *executable);
TN_API const char *tn_executable_function_name(const tn_executable *executable, int index);
/* Inputs and outputs by position: how many, -1 when there is no such function; and each, NULL when there is none. */
TN_API int tn_executable_input_count(const tn_executable *executable, const char *function);
TN_API int tn_executable_output_count(const tn_executable *executable, const char *function);
TN_API const tn_value_info *tn_executable_input(const tn_executable *executable, const char *function, int index);
TN_API const tn_value_info *tn_executable_output(const tn_executable *executable, const char *function, int index);
/* The input whose buffer may be bound to the output as well, which is then updated in place; -1 when there is none. */
TN_API int tn_executable_output_alias(const tn_executable *executable, const char *function, int index);
/* -1 when there is no such name. */
TN_API int tn_executable_input_index(const tn_executable *executable, const char *function, const char *name);
TN_API int tn_executable_output_index(const tn_executable *executable, const char *function, const char *name);

typedef struct tn_kernel_summary { /* what is known of a kernel without running it */
  const char *name;                /* as in profiles */
  uint64_t code_bytes;             /* of machine code */
  double flops, bytes;             /* of one call; negative when it depends on symbolic dimensions */
} tn_kernel_summary;
typedef struct tn_executable_summary {             /* what is known of an executable without running it */
  const char *target;                              /* "x86-64-v3+..." */
  const char *producer;                            /* "tenon 0.2.0" */
  uint64_t constant_bytes, code_bytes, file_bytes; /* of constants, of machine code, of the whole file */
  int64_t workspace_bytes;          /* of all functions' static plans, on all devices; symbolic parts not counted */
  int kernel_count, constant_count; /* how many there are */
  /* What an executable and one session on it take at the most, results that nobody bound a buffer for included:
   * constants, the plans and those results, a tenth of them, and 4 MiB for the rest; on devices that are no CPU
   * constants, inputs and results are counted once more. -1 when a size is symbolic. */
  int64_t peak_bytes;
} tn_executable_summary;
/* Both live as long as the executable; NULL when there is no such kernel. */
TN_API const tn_executable_summary *tn_executable_summarize(const tn_executable *executable);
TN_API const tn_kernel_summary *tn_executable_kernel(const tn_executable *executable, int index);
/* The bytecode as text, for people: free with free(). */
TN_API TN_MUST_USE tn_status *tn_executable_disassemble(const tn_executable *executable, char **out);
/* A named text section ("schedules", "graph" ...), or NULL; not NUL-terminated, `*size` bytes. */
TN_API const char *tn_executable_text(const tn_executable *executable, const char *section, size_t *size);

/* ---- memory of devices ------------------------------------------------------------------------------------------ */

/* A tensor on a device that the executable runs on (tn_value_info.device of what is to be bound; {kDLCPU, 0} is the
 * host), dense and row-major, with memory of its own whose contents are undefined. Strings are refused.
 *
 * It is DLPack's, so that other libraries of the same device take it over, or it is bound to inputs and outputs that
 * are there, in any session on the executable, which then read and write it where it is: `&tensor->dl_tensor`. An
 * address on OpenCL's devices and islands means something to Tenon alone, and a tensor of another executable's, or of
 * another library, nothing there; CUDA's addresses are those of the device's primary context, and tensors of other
 * libraries may be bound when what they do with them is done.
 *
 * `tensor->deleter(tensor)` gives the memory back, once, from any thread, when no invoke uses it. It may come after
 * tn_executable_release(): the tensor keeps open what it needs. Its memory counts for tn_load_options.memory, and for
 * no session's. Since 0.2. */
TN_API TN_MUST_USE tn_status *tn_device_tensor_create(const tn_executable *executable, DLDevice device, tn_dtype dtype,
                                                      int rank, const int64_t *shape, DLManagedTensorVersioned **out);
/* Copies elements between tensors of one type and shape, each on the host or on a device that the executable runs on,
 * and returns when that is done. Where both are the host's, as tn_tensor_copy() does; else both are dense.
 * Since 0.2. */
TN_API TN_MUST_USE tn_status *tn_device_tensor_copy(const tn_executable *executable, const DLTensor *from,
                                                    const DLTensor *to);

/* ---- sessions --------------------------------------------------------------------------------------------------- */

/* Runs functions of an executable: it holds what is bound, the results and the working memory. */
typedef struct tn_session tn_session;
/* How much memory a session may take of a device that its program runs on: "island:0", and of another of its memories
 * than global, "island:0/texture". Since 0.2. */
typedef struct tn_memory_setting {
  const char *device; /* type, number and scope; of a program on one device that is "cpu:0" */
  uint64_t bytes;     /* at least 1 */
} tn_memory_setting;
/* How a session is made. */
typedef struct tn_session_options {
  size_t size;                   /* sizeof(tn_session_options) */
  const tn_allocator *allocator; /* NULL: malloc, realloc and free */
  tn_thread_pool *pool; /* shared with other sessions and outliving this one; NULL: the session makes its own */
  int threads;          /* for the session's own pool; 0: the default */
  /* Limits of what values and constants take on devices; without one a device gives what it has. When it has no
   * more, the session first gives back what it only keeps for later, once; then an invoke fails with
   * TN_OUT_OF_MEMORY, and the session may be used again. Since 0.2. */
  const tn_memory_setting *memory;
  int memory_count;
} tn_session_options;
/* A session on the executable, which must outlive it. */
TN_API TN_MUST_USE tn_status *tn_session_create(const tn_executable *executable, const tn_session_options *options,
                                                tn_session **out);
/* When no function of it runs any more; what is in flight (tn_session_start) is cancelled and waited for. */
TN_API void tn_session_release(tn_session *session);

/* For how long a tensor is bound, and whether it may be copied. */
typedef enum tn_binding {
  TN_BIND_NEXT = 0,       /* for the next invoke only: it drops the binding, whether it succeeds or not */
  TN_BIND_PERSISTENT = 1, /* every invoke, until bound anew or unbound */
  /* The same, and a tensor that would have to be copied (unaligned or strided) is refused. */
  TN_BIND_NEXT_IN_PLACE = 2,
  TN_BIND_PERSISTENT_IN_PLACE = 3
} tn_binding;

/* Binding. The session copies the DLTensor struct with its shape and strides, so that these may go after the call; the
 * data is the caller's and must stay where it is until the invoke ends or, bound persistently, until it is unbound or
 * the session released. Between invokes the caller may read and write it as it likes; during one nobody else may touch
 * a bound output or write to a bound input. A NULL tensor unbinds.
 *
 * Element type, device (tn_value_info.device, or the host; zeros are read as the CPU, which is {kDLCPU, 0}), rank,
 * constant dimensions and strides are checked here; what depends on other tensors (equal symbols, an output's shape,
 * shared memory) when the next invoke begins, before anything is written. An error names both sides, and nothing is
 * bound then: what was bound before stays.
 *
 * A tensor on a device is dense and aligned, and used in place: nothing of it passes through the host. One on the host,
 * for what is on a device, is copied there as the invoke begins, or from there before it ends, while devices work.
 *
 * Inputs whose data is not aligned to tn_value_info.alignment bytes, or that are not dense and
 * row-major, are copied at each invoke. An output is written in place, through one copy when it is unaligned or
 * strided; no two of its elements may share memory. What is larger than the caches is written fastest to memory that is
 * aligned to 64 bytes. Strides and byte_offset may be anything that leads to no address beyond the last one or before
 * the first.
 *
 * An output whose size depends on the values of inputs (tn_value_info.size_rule) is bound with capacity, dense and
 * row-major: the value takes as much of the buffer as it needs, dense and row-major, and tn_session_get_output tells
 * its shape. Of the bound shape the constant dimensions must agree, the others say how much room there is. Where the
 * size is known before anything runs, as Range's is, a tensor of other strides may be bound that has the value's shape.
 *
 * Strided tensors that lie between each other's elements share no memory (the even and the odd columns of an array).
 * Whether any byte is an element of both is found exactly, in a bounded number of steps: strides as slices, transposes
 * and reversals of arrays have them take few; what is undecided then counts as shared. A tensor without elements shares
 * nothing. The memory of a sequence (tn_session_set_output_list) and of the bytes of strings
 * (tn_session_set_output_bytes) counts from its first to its last byte. */
TN_API TN_MUST_USE tn_status *tn_session_set_input(tn_session *session, const char *function, const char *name,
                                                   const DLTensor *tensor, tn_binding binding);
TN_API TN_MUST_USE tn_status *tn_session_set_input_at(tn_session *session, const char *function, int index,
                                                      const DLTensor *tensor, tn_binding binding);
TN_API TN_MUST_USE tn_status *tn_session_set_output(tn_session *session, const char *function, const char *name,
                                                    const DLTensor *tensor, tn_binding binding);
TN_API TN_MUST_USE tn_status *tn_session_set_output_at(tn_session *session, const char *function, int index,
                                                       const DLTensor *tensor, tn_binding binding);
/* Strings (TN_STRING; DLPack's opaque handle with 128 bits and one lane). A tensor of them is an array of tn_string.
 * What inputs say is copied when an invoke begins, so neither array nor bytes are touched afterwards. A bound output is
 * an array that the invoke fills, and the bytes are the session's: valid until the next invoke of the function or the
 * session's release. Or they are the caller's, too: with tn_session_set_output_bytes(), after the output was bound,
 * they go to `bytes` one after another, in the order of the elements, for as long as that binding stands. When
 * `capacity` is too small, the invoke ends with TN_OUT_OF_RANGE, which tells the size, nothing of this output is
 * written, and tn_session_get_output() has the value. Strings cannot be bound IN_PLACE. */
TN_API TN_MUST_USE tn_status *tn_session_set_output_bytes(tn_session *session, const char *function, int index,
                                                          void *bytes, size_t capacity);
/* Several at once, all or none: `names[i]` is that of `tensors[i]`, each given once; NULL names: all of them by
 * position. An output whose data pointer is NULL is unbound, and so is an input with a default whose tensor is
 * (DLTensor){0}. */
TN_API TN_MUST_USE tn_status *tn_session_set_inputs(tn_session *session, const char *function, const char *const *names,
                                                    const DLTensor *tensors, int count, tn_binding binding);
TN_API TN_MUST_USE tn_status *tn_session_set_outputs(tn_session *session, const char *function,
                                                     const char *const *names, const DLTensor *tensors, int count,
                                                     tn_binding binding);

/* Runs. Every input must be bound unless it has a default (tn_value_info.fallback). Outputs that are not bound are
 * allocated by the session and kept for later invokes.
 *
 * What a failure leaves behind: when a check fails, nothing has been written. When running fails (a kernel's index out
 * of range, a cancelled invoke, no memory), bound outputs may hold anything, and inputs that declared aliases share
 * their memory with do so, too; nothing else has changed. There are no results then, and the session may be used again.
 * One failure is an exception: TN_OUT_OF_RANGE because a value of data-dependent size does not fit into its bound
 * buffer comes after everything ran. The status tells the size, that buffer was not written (the memory of a
 * sequence may have been), the other outputs are complete, and tn_session_get_output has every result.
 *
 * A bound output must share no memory with inputs or other outputs, except with the input that it is declared to alias,
 * and then both begin at the same address. The second and later invokes with shapes already seen allocate nothing.
 * While everything is bound persistently and nothing is bound anew, an invoke checks nothing again: it reads and writes
 * where the last one did.
 *
 * Results that are in the session's own memory may be bound, as inputs of the next invoke above all. The session makes
 * its results elsewhere then: it has two memories for an output, which take turns, from the first such invoke on. A
 * result that is bound to an input of its own function stays as it is until that is bound anew or unbound; bound to
 * another function's, until the one that made it is invoked again. When results of two earlier invokes are bound, both
 * memories of an output that is not bound itself are taken, and the invoke is refused. An input that the output is
 * declared to alias is updated in place instead. Strings that a session made are inputs of the next invoke only: bound
 * persistently they are refused. */
TN_API TN_MUST_USE tn_status *tn_session_invoke(tn_session *session, const char *function);
/* The same in two steps: what is bound is invoked in a thread of the session, which the first start makes, while the
 * caller goes on; two sessions in flight work at the same time, and with a pool that they share as many threads make
 * their parallel loops as it has. tn_session_invoke() is both steps in the caller's own thread, at the cost of
 * neither.
 *
 * From a start that succeeded to the wait for it, the session is in flight: every function of it but
 * tn_session_wait() and tn_session_cancel() is refused with TN_FAILED_PRECONDITION, also when the invoke is done.
 * The data of bound inputs may be read and that of bound outputs is nobody else's, as during any invoke. Callbacks,
 * the allocator's too, are called in the session's thread. A start fails when there is no such function or no
 * thread; whatever tn_session_invoke() would say, the wait says. Any thread may wait; of several one gets the
 * status. Waiting for nothing is refused. Releasing a session in flight cancels and ends it first. Since 0.2. */
TN_API TN_MUST_USE tn_status *tn_session_start(tn_session *session, const char *function);
TN_API TN_MUST_USE tn_status *tn_session_wait(tn_session *session);
/* Inputs and outputs by position, for this call only; what else is bound is neither used nor changed, except what
 * belongs to sequences (tn_session_set_input_list, tn_session_set_output_list) and strings. `output_count` may be 0,
 * and outputs may hold NULL data pointers: those are allocated by the session. Here and in
 * tn_session_invoke_stateful (DLTensor){0} selects an input's default. */
TN_API TN_MUST_USE tn_status *tn_session_invoke_with_outputs(tn_session *session, const char *function,
                                                             const DLTensor *inputs, int input_count,
                                                             const DLTensor *outputs, int output_count);
/* Inputs by position, for this call only; the results stay in the session, for tn_session_get_output. */
TN_API TN_MUST_USE tn_status *tn_session_invoke_stateful(tn_session *session, const char *function,
                                                         const DLTensor *inputs, int input_count);
/* The result of the last invoke: a view of the bound buffer, wherever that is, or of the session's own memory, which is
 * the host's; valid until the next invoke of this function or the session's release, and bound to an input of the
 * function until that is bound anew or unbound. */
TN_API TN_MUST_USE tn_status *tn_session_get_output(tn_session *session, const char *function, int index,
                                                    DLTensor *out);
/* Ends the invoke that is running, in whatever thread, with TN_CANCELLED; when none runs, the next one. The one
 * function that may be called while another thread uses the session. Invokes look before each kernel, and kernels that
 * run for long look between pieces of their parallel loops and in their loops, mostly within some 10 ms; those of
 * executables of before this was here don't. Copies, and what is done with sequences and strings, come to their end
 * first. Bound outputs may hold anything then. */
TN_API void tn_session_cancel(tn_session *session);
/* Sequences and optional values (tn_value_info.kind). The tensors are copied now, and kept for every invoke until they
 * are given anew; `count` is -1 for an optional without value. They are given with this function for
 * tn_session_invoke_with_outputs() as well, which ignores the tensor at their position. */
TN_API TN_MUST_USE tn_status *tn_session_set_input_list(tn_session *session, const char *function, int index,
                                                        const DLTensor *tensors, int count);
/* Binds memory for a result that is a sequence or optional, for every invoke until other memory, or NULL, is bound: its
 * tensors lie there one after another, each at a multiple of 64 bytes, in places that tn_session_get_output_item()
 * tells. `memory` is aligned to 64 bytes, and the caller's as that of a bound tensor is. A sequence that does not fit
 * `size` bytes stays in the session's memory, and the invoke fails with TN_OUT_OF_RANGE, telling the size, after
 * everything ran. Of strings these are arrays of tn_string, and behind the last one all bytes, so that nothing refers
 * to the session. Without memory bound sequences are the session's. */
TN_API TN_MUST_USE tn_status *tn_session_set_output_list(tn_session *session, const char *function, int index,
                                                         void *memory, size_t size);
/* The number of tensors of a result that is a sequence or optional, -1 for an optional without value; */
TN_API TN_MUST_USE tn_status *tn_session_get_output_count(tn_session *session, const char *function, int index,
                                                          int *count);
/* and one of them: a view, valid as long as that of tn_session_get_output(). */
TN_API TN_MUST_USE tn_status *tn_session_get_output_item(tn_session *session, const char *function, int index, int item,
                                                         DLTensor *out);
/* Shapes of the outputs for given input shapes, without running. A dimension that depends on the values of inputs is
 * -1, as are those of sequences and optional values; the others are what an invoke makes them. Input shapes of
 * sequences and optional values are not looked at, and NULL stands for the shape of an input's default.
 * `output_shapes[i]` has room for TN_MAX_RANK. */
TN_API TN_MUST_USE tn_status *tn_function_infer_shapes(const tn_executable *executable, const char *function,
                                                       const int64_t *const *input_shapes,
                                                       int64_t (*output_shapes)[TN_MAX_RANK]);

/* ---- profiles ---------------------------------------------------------------------------------------------------- */

/* Called after each instruction that took time: for profiles. `kernel` is the kernel's or builtin's name. The session
 * is in use then, and but for tn_session_cancel() no function of it may be called. */
typedef void (*tn_profile_callback)(void *user, const char *kernel, uint64_t start_ns, uint64_t end_ns);
/* Refused while a tn_profile records. A NULL callback ends the calls. */
TN_API TN_MUST_USE tn_status *tn_session_set_profile(tn_session *session, tn_profile_callback callback, void *user);

/* A profile: every invoke of the session from its start to its release is recorded, at the cost of two clock readings
 * per kernel. A session has one at a time, in the place of a callback of its own; releasing the session releases it. */
typedef struct tn_profile tn_profile;
typedef struct tn_profile_kernel {    /* or builtin, copy, allocation */
  const char *name;                   /* of the kernel; "copy", "alloc" ... */
  uint64_t calls, total_ns, least_ns; /* how often it ran; nanoseconds of all calls, and of the fastest */
  double flops, bytes; /* of one call; negative when it depends on symbolic dimensions, or is not known */
} tn_profile_kernel;
typedef struct tn_profile_totals { /* of all that was recorded */
  uint64_t invokes, total_ns;      /* of the invokes */
  uint64_t attributed_ns;          /* of what the rows list; the rest is binding, dispatch and the clocks' own */
} tn_profile_totals;
/* Starts one. */
TN_API TN_MUST_USE tn_status *tn_session_start_profile(tn_session *session, tn_profile **out);
TN_API void tn_profile_release(tn_profile *profile); /* while its session lives, and between invokes */
/* One row for each name, in the order in which they ran first, and their sum; valid until the next invoke. */
TN_API TN_MUST_USE int tn_profile_kernels(const tn_profile *profile, const tn_profile_kernel *const **out);
TN_API const tn_profile_totals *tn_profile_sum(const tn_profile *profile);
/* Every call as JSON in the trace event format, which Perfetto and chrome://tracing show. Beyond a million calls the
 * rest is counted only. */
TN_API TN_MUST_USE tn_status *tn_profile_write_trace(const tn_profile *profile, const char *path);

/* ---- the machine ------------------------------------------------------------------------------------------------- */

/* What one core can do. Rates are of reading. */
typedef struct tn_machine_limits {
  size_t size;                          /* sizeof(tn_machine_limits), set by the caller */
  bool measured;                        /* here, and not what is usual */
  char target[256];                     /* "x86-64-v3+..." */
  int threads;                          /* that share the work, for the roofline */
  int64_t l1_bytes, l2_bytes, l3_bytes; /* sizes of the caches of data; the third is shared */
  double clock_hz, flops_per_second;    /* float32 */
  double l2_bytes_per_second, l3_bytes_per_second, memory_bytes_per_second; /* read by one core */
} tn_machine_limits;
/* Measures this machine, on the calling thread and for some tenths of a second; `threads` (0: the default number) is
 * noted for the roofline. `measured` is false, and the rates are usual ones, where this library has no code that
 * exhausts the machine's vectors. */
TN_API TN_MUST_USE tn_status *tn_machine_measure(int threads, tn_machine_limits *out);
/* The least seconds that work of so many operations on so many bytes needs: the roofline (Williams, Waterman and
 * Patterson, 2009) with one roof for each place that the data may come from, the nearest that holds all of it. Threads
 * multiply arithmetic and caches, not memory. Returns -1 if an argument is negative or NaN, or if the limits are NULL
 * or have size 0. `bound` (may be NULL) receives a static string: "arithmetic", "L2", "L3", "memory" or "-". */
TN_API double tn_machine_roofline(const tn_machine_limits *limits, double flops, double bytes, const char **bound);
/* What the device can do that runs the kernel of a row of the profile, as far as its driver says: `out` has no size
 * where it does not. False: the kernel runs on this machine's cores, which tn_machine_measure() knows. Since 0.2. */
TN_API TN_MUST_USE bool tn_profile_device_limits(const tn_profile *profile, const char *kernel, tn_machine_limits *out);

#ifdef __cplusplus
}
#endif
#endif
