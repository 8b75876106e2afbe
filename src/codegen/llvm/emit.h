/* What the files of the LLVM code generator share: the emitter of one module, the frame of the LLVM function being
 * built, and values.
 *
 * Values: bool is i1; f16 and bf16 are held as float that was rounded to the type after each operation; everything else
 * is its own type. In memory bool is a byte and the 16-bit floats are i16. A value is either a scalar or has the lanes
 * of the vectorised loop being emitted; scalars are broadcast where they meet vectors. */
#ifndef TENON_CODEGEN_LLVM_EMIT_H
#define TENON_CODEGEN_LLVM_EMIT_H

#include <llvm-c/Core.h>

#include "codegen/llvm/codegen.h"
#include "tenon/kernel_abi.h"

typedef struct tn__cg_value {
  LLVMValueRef v;
  int lanes;  /* 1, or those of the vectorised loop */
  bool loads; /* depends on memory, so it is stale after a store */
} tn__cg_value;

/* Whole groups (pixels, pairs) that were loaded last, from the element `first` on. */
typedef struct tn__cg_groups {
  const tn__expr *first;
  LLVMBasicBlockRef block; /* valid in it, and in this version of the buffer */
  uint64_t version;
  LLVMValueRef v;
} tn__cg_groups;

/* Where a buffer lives. Memory: `base` points at element 0. Register: `slots` are allocas of `slot_lanes` elements
 * each, in row-major order, which mem2reg turns into SSA values. */
typedef struct tn__cg_storage {
  const tn__buffer *buffer;
  LLVMValueRef base;
  LLVMValueRef *slots;
  int slot_count, slot_lanes;
  bool guarded;                   /* slots: no access sees what a mask leaves out of any other */
  int alignment;                  /* of base, in bytes */
  uint64_t version;               /* changes with every store; memoised loads compare it */
  struct tn__cg_columns *columns; /* slots: what was transposed last, or NULL */
  LLVMValueRef running;           /* slots: the lanes of a running value, while its vectorised loop is made; or NULL */
  int running_slot;
  LLVMValueRef *states; /* slots of one lane: the same in all of state_lanes lanes, for running values; or NULL */
  int state_lanes;
  struct tn__cg_taint *taints; /* slots of minima and maxima: which lanes are NaN besides; or NULL */
  tn__cg_groups groups;
  LLVMValueRef scope;   /* alias.scope list; NULL for none */
  LLVMValueRef noalias; /* the scopes of buffers that this one never overlaps */
} tn__cg_storage;

/* A binding of a variable, buffer or expression, all by pointer; the newest binding of a key wins, and leaving a scope
 * undoes those made in it. */
typedef struct tn__cg_binding {
  const void *key;
  int shadowed;            /* the binding that this one hides, or -1 */
  tn__cg_value value;      /* variables and expressions */
  uint64_t version;        /* expressions with loads: valid while this is current */
  int depth;               /* variables: how many loops are around */
  tn__cg_storage *storage; /* buffers */
} tn__cg_binding;

/* One LLVM function under construction. */
typedef struct tn__cg_frame {
  struct tn__cg_frame *outer;
  LLVMValueRef function, env, workspace;
  LLVMBasicBlockRef entry;  /* holds the allocas alone */
  LLVMBasicBlockRef resume; /* where the builder was when an inner frame was entered */
  TN__VEC(tn__cg_binding) bindings;
  int *table; /* open addressing over bindings: index + 1 */
  uint32_t table_size, table_used;
  uint64_t version; /* counts stores to anything */
  int depth;
  const tn__var *lane; /* the vectorised loop's variable, or NULL */
  int lanes;           /* its extent, or 1 */
  LLVMValueRef mask;   /* <lanes x i1>: which lanes are active; NULL: all */
  /* So many lanes are a word (0: none is). Where the mask is `word_mask`, it says of each word what `mask_of_words`
   * says. */
  int word;
  LLVMValueRef word_mask, mask_of_words;
  tn__cg_storage *running;  /* whose lanes the loop has made, or NULL */
  bool watched;             /* loops that stand here may be long, and then look whether they are to stop */
  bool streams;             /* has non-temporal stores, which a fence must follow */
  const tn__buffer *stored; /* what the value that is made goes to, or NULL */
  struct tn__cg_held *held; /* stores to make later, when the values of their neighbours are made; NULL: at once */
  /* Where the paths of a store met again, and the block before they parted: what was made there may be used here. */
  LLVMBasicBlockRef join, parted;
} tn__cg_frame;

typedef struct tn__cg {
  tn__arena *arena;
  const tn__target *target;
  const struct tn__cg_arch *arch; /* arch.h */
  bool has_fma, has_f16c,
      has_rounding; /* as instructions: fused multiply-add, conversions of f16, floor and its like */
  bool narrow;      /* numbers of f64 that functions are made of were f32 and will be again (math.h) */
  LLVMContextRef context;
  LLVMModuleRef module;
  LLVMBuilderRef builder;
  LLVMTypeRef void_type, i1, i8, i16, i32, i64, f16, f32, f64, ptr;
  LLVMTypeRef task_type; /* tn_kernel_task */
  bool unaligned_inputs; /* parameters that are read need not even have their type's alignment */
  unsigned alias_scope_kind, noalias_kind, nontemporal_kind;
  /* the function being compiled */
  tn__ir *ir;
  const tn__func *func;
  tn__cg_frame *frame;
  int task_count;
  TN__VEC(LLVMValueRef) groups_of_four; /* emit_groups.c */
} tn__cg;

_Noreturn void tn__cg_fail(tn__cg *cg, const char *format, ...) TN_PRINTF(2, 3);

/* ---- emit_scope.c: frames and bindings --------------------------------------------------------------------------- */
/* Creates the function with the given type and makes it the current frame; the builder stands in its body. */
tn__cg_frame *tn__cg_frame_enter(tn__cg *cg, const char *name, LLVMTypeRef type, LLVMLinkage linkage);
void tn__cg_frame_leave(tn__cg *cg); /* the builder is where it was before */
int tn__cg_scope_enter(tn__cg *cg);
void tn__cg_scope_leave(tn__cg *cg, int scope);
void tn__cg_bind_value(tn__cg *cg, const void *key, tn__cg_value value);
void tn__cg_bind_storage(tn__cg *cg, tn__cg_storage *storage);
const tn__cg_binding *tn__cg_find(const tn__cg *cg, const void *key); /* NULL when unbound */
tn__cg_storage *tn__cg_storage_of(tn__cg *cg, const tn__buffer *buffer);

/* ---- emit_type.c: types, constants, lanes ------------------------------------------------------------------------ */
LLVMTypeRef tn__cg_value_type(const tn__cg *cg, tn_dtype dtype);
LLVMTypeRef tn__cg_memory_type(const tn__cg *cg, tn_dtype dtype);
LLVMTypeRef tn__cg_lanes_type(LLVMTypeRef element, int lanes); /* the element itself for one lane */
LLVMTypeRef tn__cg_element(LLVMTypeRef type);                  /* of a vector, or the type itself */
int tn__cg_lanes(LLVMTypeRef type);
LLVMTypeRef tn__cg_like(LLVMTypeRef type, LLVMTypeRef element); /* `element` with the lanes of `type` */
LLVMValueRef tn__cg_float(LLVMTypeRef type, double value);      /* splat constant */
LLVMValueRef tn__cg_int(LLVMTypeRef type, int64_t value);
LLVMValueRef tn__cg_iota(LLVMTypeRef element, int lanes, int64_t step); /* <0, step, 2 step ...> */
LLVMValueRef tn__cg_broadcast(tn__cg *cg, LLVMValueRef scalar, int lanes);
LLVMValueRef tn__cg_widen(tn__cg *cg, tn__cg_value value, int lanes);
LLVMValueRef tn__cg_undef(LLVMTypeRef type);
LLVMValueRef tn__cg_shuffle(tn__cg *cg, LLVMValueRef a, LLVMValueRef b, const int *indices, int count);
/* Lanes [first, first + count) of a vector, as a scalar when count is 1. */
LLVMValueRef tn__cg_slice(tn__cg *cg, LLVMValueRef vector, int first, int count);
/* `vector` with those lanes replaced by `part`. */
LLVMValueRef tn__cg_splice(tn__cg *cg, LLVMValueRef vector, LLVMValueRef part, int first);
/* Calls the intrinsic `name` ("llvm.fma"), overloaded by `types`. */
LLVMValueRef tn__cg_intrinsic(tn__cg *cg, const char *name, LLVMTypeRef *types, int type_count, LLVMValueRef *args,
                              int arg_count);
LLVMValueRef tn__cg_intrinsic1(tn__cg *cg, const char *name, LLVMValueRef a); /* overloaded by the argument's type */
LLVMValueRef tn__cg_intrinsic2(tn__cg *cg, const char *name, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef tn__cg_any(tn__cg *cg, LLVMValueRef mask);       /* i1: is a lane set? */
LLVMBasicBlockRef tn__cg_block(tn__cg *cg, const char *name); /* appended to the current function */
void tn__cg_at(tn__cg *cg, LLVMBasicBlockRef block);
/* To one block where the condition holds, which is rare, else to the other. */
void tn__cg_branch_seldom(tn__cg *cg, LLVMValueRef condition, LLVMBasicBlockRef seldom, LLVMBasicBlockRef other);
/* Returns `code` from the current function when `condition` (i1) holds and goes on otherwise. */
void tn__cg_return_if(tn__cg *cg, LLVMValueRef condition, LLVMValueRef code);
LLVMValueRef tn__cg_alloca(tn__cg *cg, LLVMTypeRef type, int64_t count, unsigned align);
/* Creates an internal function of the module once by name; true when its body is still to be written: the builder then
 * stands in its entry block, and the caller must build the return and call tn__cg_helper_end with *saved. */
TN_MUST_USE bool tn__cg_helper_begin(tn__cg *cg, const char *name, LLVMTypeRef type, bool inlined,
                                     LLVMValueRef *function, LLVMBasicBlockRef *saved);
void tn__cg_helper_end(tn__cg *cg, LLVMBasicBlockRef saved);
/* It makes its result of its arguments, wherever and whenever it is called. */
void tn__cg_helper_is_pure(tn__cg *cg, LLVMValueRef function);

/* ---- emit_expr.c, emit_arith.c, emit_cast.c ---------------------------------------------------------------------- */
tn__cg_value tn__cg_expr(tn__cg *cg, const tn__expr *e);
LLVMValueRef tn__cg_scalar(tn__cg *cg, const tn__expr *e); /* must not depend on the lane */
/* Must this expression not be evaluated where the IR does not ask for it? (loads that may fault, divisions that may
 * fail) */
bool tn__cg_needs_lazy(tn__cg *cg, const tn__expr *e);
/* Restricts the active lanes by `condition` (<lanes x i1>); returns the mask to put back. */
LLVMValueRef tn__cg_mask_push(tn__cg *cg, LLVMValueRef condition);
/* One operation on values of the same shape. */
LLVMValueRef tn__cg_arith(tn__cg *cg, const tn__expr *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef tn__cg_compare(tn__cg *cg, tn__expr_kind kind, tn_dtype dtype, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef tn__cg_int_divmod(tn__cg *cg, const tn__expr *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef tn__cg_min_max(tn__cg *cg, bool is_max, tn_dtype dtype, LLVMValueRef a, LLVMValueRef b);
/* `in_range`: a float that is NaN or within what the integer holds, where that has 16 bits at most. */
LLVMValueRef tn__cg_cast(tn__cg *cg, tn_dtype from, tn_dtype to, LLVMValueRef v, bool in_range);
LLVMValueRef tn__cg_bitcast(tn__cg *cg, tn_dtype from, tn_dtype to, LLVMValueRef v);
/* What `e` counts the bits of, by adding up fields of them; NULL where it does anything else (emit_idiom.c). */
const tn__expr *tn__cg_counted(const tn__expr *e);
/* Is the float, as clamps in it tell, NaN or within what an integer of 16 bits at most holds (emit_idiom.c)? */
bool tn__cg_holds(tn_dtype to, const tn__expr *e);
/* The index in i32, where floats say it and bounds of theirs show that it is no larger, with bounds of its own; NULL
 * for anything else. Twice as many lanes to a vector. */
const tn__expr *tn__cg_narrowed(tn__ir *ir, const tn__expr *e, double *low, double *high);
/* float -> float rounded to `dtype` when that is f16 or bf16; other types unchanged. */
LLVMValueRef tn__cg_round_to(tn__cg *cg, tn_dtype dtype, LLVMValueRef v);
LLVMValueRef tn__cg_from_memory(tn__cg *cg, tn_dtype dtype, LLVMValueRef v);
LLVMValueRef tn__cg_to_memory(tn__cg *cg, tn_dtype dtype, LLVMValueRef v);

/* ---- emit_groups.c ----------------------------------------------------------------------------------------------- */
/* Whole groups of `size` elements each were loaded, of which shuffles take members. */
void tn__cg_note_groups(tn__cg *cg, LLVMValueRef groups, int64_t size);
/* Behind all else of a function: groups of which most members are taken are taken apart together. */
void tn__cg_take_groups_apart(tn__cg *cg);

/* ---- emit_memory.c, emit_register.c, emit_transpose.c ------------------------------------------------------------ */
tn__cg_value tn__cg_load(tn__cg *cg, const tn__expr *e);
void tn__cg_store(tn__cg *cg, const tn__stmt *s);
/* How many of the `count` statements at `items` are stores of vectors to one buffer none of whose values needs
 * another's store; 1 or more. tn__cg_stores() makes all values first and then all stores: a load waits for earlier
 * stores to the same place of whatever page, and finds none this way before the next turn of a loop. */
int tn__cg_like_stores(tn__cg *cg, const tn__stmt *const *items, int count);
void tn__cg_stores(tn__cg *cg, const tn__stmt *const *items, int count);
/* Before the current function returns: orders its non-temporal stores before whatever its caller does next. */
void tn__cg_end_streams(tn__cg *cg);
/* The address of an element of a buffer in memory; must not depend on the lane. */
LLVMValueRef tn__cg_address(tn__cg *cg, const tn__buffer *buffer, const tn__expr *const *indices);
/* Decides how a register buffer is held from the accesses in its scope; a stack array when they do not fit one slot
 * width. */
tn__cg_storage *tn__cg_register_storage(tn__cg *cg, const tn__buffer *buffer, const tn__stmt *scope);
tn__cg_value tn__cg_register_load(tn__cg *cg, tn__cg_storage *storage, const tn__expr *linear);
void tn__cg_register_store(tn__cg *cg, const tn__cg_storage *storage, const tn__expr *linear, tn__cg_value value);

/* The value of the expression in that slot, which it reads and is stored to whole, where it is an extremum. */
bool tn__cg_register_take(tn__cg *cg, tn__cg_storage *storage, const tn__stmt *store);

/* Transposes a tile: `rows` are row_count vectors of row_lanes lanes (2 to 64 each), `columns` get row_lanes vectors of
 * row_count lanes. Those that nobody uses cost nothing. */
void tn__cg_transpose(tn__cg *cg, const LLVMValueRef *rows, int row_count, int row_lanes, LLVMValueRef *columns);

/* ---- emit_quotient.c --------------------------------------------------------------------------------------------- */
/* A quotient of vectors by a number for which two products are as exact; false: it is anything else. */
TN_MUST_USE bool tn__cg_quotient(tn__cg *cg, const tn__expr *e, tn__cg_value *out);

/* ---- emit_extrema.c ---------------------------------------------------------------------------------------------- */
/* A minimum or maximum of floats, where no instruction keeps NaN; false: it is anything else. */
TN_MUST_USE bool tn__cg_extremum(tn__cg *cg, const tn__expr *e, tn__cg_value *out);
/* Is the value a minimum or maximum of the element itself and of something else, of which a slot can be held? */
bool tn__cg_taints(tn__cg *cg, const tn__buffer *buffer, const tn__expr *const *indices, const tn__expr *value);
/* Lets the slots, which are of that type, be such, if there are few. */
void tn__cg_taint_slots(tn__cg *cg, tn__cg_storage *storage, LLVMTypeRef slot);
/* `v` becomes the value of the slot, which takes nothing up. */
void tn__cg_taint_clear(tn__cg *cg, const tn__cg_storage *storage, int slot, LLVMValueRef v);
/* The value of the slot in which `v` is. */
LLVMValueRef tn__cg_tainted(tn__cg *cg, const tn__cg_storage *storage, int slot, LLVMValueRef v);
/* Makes `value`, which reads the slot as `load`, the slot's value; false where it is not such a value. */
bool tn__cg_take_extremum(tn__cg *cg, tn__cg_storage *storage, int slot, LLVMTypeRef type, const tn__expr *load,
                          const tn__expr *value);

/* ---- emit_tensor.c, emit_dot4.c ---------------------------------------------------------------------------------- */
void tn__cg_prefetch(tn__cg *cg, const tn__stmt *s);
void tn__cg_tensor(tn__cg *cg, const tn__stmt *s); /* the instruction, or its loops where the target lacks it */

/* acc + dot4(a, b) in that many lanes; `acc` (as many) may be NULL. */
LLVMValueRef tn__cg_dot4(tn__cg *cg, LLVMValueRef acc, const tn__cg_value *a, const tn__cg_value *b, int lanes);

/* The same of dot2, and sum8 of each lane. */
LLVMValueRef tn__cg_dot2(tn__cg *cg, LLVMValueRef acc, const tn__cg_value *a, const tn__cg_value *b, int lanes);
LLVMValueRef tn__cg_sum8(tn__cg *cg, LLVMValueRef words);

/* ---- emit_words.c ------------------------------------------------------------------------------------------------ */
/* The numbers that a word consists of, in all lanes: an expression of the place among them. */
typedef struct tn__cg_words {
  const tn__expr *number;
  const tn__var *place;
  int count; /* in a word: 8 at the most */
} tn__cg_words;
/* Is `e` a word of neighbouring numbers in each lane, put together by shifts and ors? Of up to 1,024 numbers in all. */
TN_MUST_USE bool tn__cg_packed(tn__cg *cg, const tn__expr *e, tn__cg_words *out);
/* Is it max(a, b) - min(a, b) of bytes without a sign? */
TN_MUST_USE bool tn__cg_is_distance(const tn__expr *e, const tn__expr **sides);

/* ---- emit_loop.c ------------------------------------------------------------------------------------------------- */
typedef struct tn__cg_range {
  LLVMValueRef begin, end;
  LLVMValueRef runs; /* is it not empty? NULL: it never is */
} tn__cg_range;
/* Runs the body of the loop `s`, which emits one round, for each index of the range; looks whether to stop where that
 * may take long. The builder is behind the loop then. */
void tn__cg_count(tn__cg *cg, const tn__stmt *s, tn__cg_range range,
                  void (*body)(tn__cg *cg, const tn__stmt *s, LLVMValueRef index));
/* At the start of a round of a loop with this body, whose number of rounds nobody knows: the same look, when it is
 * little beside the round. */
void tn__cg_look_each_round(tn__cg *cg, const tn__stmt *body);

/* ---- emit_stmt.c, emit_parallel.c, emit_func.c ------------------------------------------------------------------- */
void tn__cg_stmt(tn__cg *cg, const tn__stmt *s);
/* Does this loop become lanes, inside of the vectorised loop over `lane_outside` (NULL: none)? How many? */
TN_MUST_USE bool tn__cg_vectorizes(const tn__stmt *s, const tn__var *lane_outside, int *lanes);
void tn__cg_parallel(tn__cg *cg, const tn__stmt *s);
/* A function's outermost sequence, when it is so long that passes whose time grows faster than a function would take
 * most of the compilation: every few statements become a function of their own. */
bool tn__cg_is_long(const tn__cg *cg, const tn__stmt *s);
void tn__cg_long(tn__cg *cg, const tn__stmt *s);
void tn__cg_func(tn__cg *cg, tn__ir *ir, const tn__func *func);
void tn__cg_entry(tn__cg *cg, tn__ir *ir, const tn__func *func,
                  const tn__c_entry *entry); /* entry.c; after its kernel */

/* ---- math.c: intrinsics ------------------------------------------------------------------------------------------ */
LLVMValueRef tn__cg_call(tn__cg *cg, const tn__expr *e, const tn__cg_value *args, int lanes);
LLVMValueRef tn__cg_fmod(tn__cg *cg, LLVMValueRef a, LLVMValueRef b);

/* ---- emit_running.c ---------------------------------------------------------------------------------------------- */
/* Does the store in a vectorised loop over `lane` combine each lane's value with the one before? */
bool tn__cg_is_running(tn__cg *cg, const tn__stmt *store, const tn__var *lane);
/* Has no lane of the loop to wait for another, but for running values in registers? */
bool tn__cg_runs_as_vector(tn__cg *cg, const tn__stmt *loop);
/* Room for the state of running values in vectors of so many lanes. */
void tn__cg_running_states(tn__cg *cg, tn__cg_storage *storage, int lanes);
/* Makes all lanes of a running value, which loads in the loop take then; false where it is none. */
bool tn__cg_running_store(tn__cg *cg, tn__cg_storage *storage, const tn__stmt *s, int slot);

#endif
