/* What the files of this room share: one function of the executable while it is being written. Each file calls those
 * that stand before it: passing, registers, devices, dispatch, lists, strings, control, storage, program. */
#ifndef TENON_PROGRAM_BUILDER_H
#define TENON_PROGRAM_BUILDER_H

#include "program/program.h"
#include "program/scalars.h"

typedef enum tn__place_kind {
  TN__PLACE_NONE,
  TN__PLACE_INPUT,
  TN__PLACE_OUTPUT,
  TN__PLACE_CONSTANT,
  TN__PLACE_STATIC,
  TN__PLACE_SLOT,
  TN__PLACE_DYNAMIC
} tn__place_kind;

typedef struct tn__place { /* per value id; the storage fields matter for roots only */
  tn__value *value;
  int root;        /* value id */
  int first, last; /* steps at which the root's memory is in use; first -1: never written by a step */
  tn__place_kind kind;
  int index;     /* input, output or constant number; plan item or slot */
  int reg;       /* -1 until made */
  int given;     /* an input that lives elsewhere than it is given: the register of what the caller gave */
  bool early;    /* its shape is known when the prologue has run */
  bool readonly; /* a graph input or constant: never written over */
} tn__place;

typedef struct tn__slot { /* shared by values of symbolic size that are not alive together */
  const tn__expr *bytes;
  int busy_until, device;
  int reg; /* scalar register of its offset */
} tn__slot;

typedef struct tn__step { /* a kernel, or a node that the machine runs itself */
  const tn__group *group;
  const tn__unit *unit; /* NULL for a node */
  const tn__node *node; /* NULL for a kernel */
  tn__value *const *inputs;
  tn__value *const *outputs;
  int input_count, output_count;
  int workspace_item; /* plan item of a constant workspace, or -1 */
} tn__step;

typedef struct tn__growing {
  const tn__var *var;
  const tn__expr *full; /* its value when what it grows into is full */
} tn__growing;

typedef struct tn__builder {
  tn__driver *driver;
  tn__arena *arena;
  tn__ir *ir;
  const tn__program *program;
  const tn__program_function *function;
  tn__graph *graph; /* the function's */
  tn__exe *exe;
  tn__exe_func **funcs; /* by function of the program */
  tn__exe_func *func;
  tn__scalars scalars;
  tn__place *places;
  int value_count;
  tn__step *steps;
  int step_count;
  int at; /* the step whose code is being written */
  TN__VEC(tn__plan_item) items;
  TN__VEC(tn__slot) slots;
  tn__growing *growing; /* symbols of inputs that grow */
  int growing_count;
  const int *kernel_index;               /* unit -> kernel in the executable */
  const tn__source_kernel_use **extents; /* by kernel: what it gets behind its scalars; NULL: nothing */
  bool *checked;                         /* check of the graph -> emitted */
  tn__program_stats stats;
} tn__builder;

/* ---- passing.c --------------------------------------------------------------------------------------------------- */
/* The device whose memory a value of any function lives in, by its number in the executable, which another memory than
 * global has for itself; 0: the host, whose memory is that of all CPUs. */
int tn__prog_home_of(tn__builder *b, const tn__value *v);
/* The number of the device that it was planned for, whose kernels make it: one of several CPUs, too. */
int tn__prog_maker_of(tn__builder *b, const tn__value *v);
/* Where the function takes input `k`, or gives output `k`: the number of the device, 0: the host. It is the value's own
 * unless the sides that pass it differ. */
int tn__prog_given_device(tn__builder *b, bool output, int k);
/* The same seen from the node that calls bodies: of argument `k` of one of them (of an `if` without its condition), of
 * result `k`, which all give, and of a loop's variable `k`, from round to round. */
int tn__prog_argument_device(tn__builder *b, const tn__node *node, int body, int k);
int tn__prog_result_device(tn__builder *b, const tn__node *node, int k);
int tn__prog_variable_device(tn__builder *b, const tn__node *loop, int k);

/* ---- devices.c --------------------------------------------------------------------------------------------------- */
/* A register on the device with the value: its own, or that of a copy. */
int tn__prog_register_on(tn__builder *b, tn__value *v, int device);
/* A register on the device for a result of a call, which tn__prog_send then brings to where the value lives. */
int tn__prog_destination_on(tn__builder *b, tn__value *v, int device, bool allocate);
void tn__prog_send(tn__builder *b, tn__value *v, int device, int from);
/* Another register of the value's type. */
int tn__prog_variable_on(tn__builder *b, const tn__value *v, int device);
void tn__prog_emit_copy(tn__builder *b, int to, int from);
/* Inputs that are given elsewhere than they live are copied there, before the first step. */
void tn__prog_send_inputs(tn__builder *b);

/* ---- registers.c ------------------------------------------------------------------------------------------------- */
tn__place *tn__place_of(tn__builder *b, tn__value *v);
tn__place *tn__prog_root_of(tn__builder *b, tn__value *v);
/* The device of a value in the function that is being written; one that passes on what callers gave has no values of
 * its own. */
int tn__prog_device_of(tn__builder *b, const tn__value *v);
/* Is the group a view, or a copy between devices, whose result is in the memory of its operand? Else it is a step. */
bool tn__prog_shares_memory(tn__builder *b, const tn__group *g);
/* Throws when an input or output that grows lives on another device: only what counts of it is memory. */
void tn__prog_refuse_to_grow(tn__builder *b, const tn__value *v, const char *what, const char *name);
/* A new register of the value's type: an input's or output's where it is given, others where the value lives. */
int tn__builder_register(tn__builder *b, const tn__value *v, tn__storage storage, int index, tn__operand offset);
/* The register that the value lives in, made on first use. */
int tn__prog_register_of(tn__builder *b, tn__value *v);
/* The same for a result about to be written: also the caller's buffer. What has no memory yet gets it when `allocate`;
 * otherwise the instruction that writes the result brings it. */
int tn__prog_destination_of(tn__builder *b, tn__value *v, bool allocate);
void tn__prog_emit_word(tn__builder *b, tn__opcode op, int reg);
/* Are all symbols of `e` in registers at this point of the code? */
bool tn__builder_knows(tn__builder *b, const tn__expr *e);

/* Says in the signature what counts of an output that grows. */
void tn__prog_declare_output_extent(tn__builder *b, int output);

/* ---- dispatch.c -------------------------------------------------------------------------------------------------- */
/* All code of a function that calls one of others. */
void tn__prog_emit_dispatch(tn__builder *b);

/* ---- lists.c: sequences and optional values ---------------------------------------------------------------------- */
/* Is the list in a register of the function's own, or in a loop variable that it changes, and read for the last
 * time? */
bool tn__prog_list_dies(tn__builder *b, tn__value *list);
bool tn__prog_is_updated(const tn__builder *b, const tn__value *input);
void tn__prog_emit_list_node(tn__builder *b, const tn__node *node);
void tn__prog_emit_updates(tn__builder *b);

/* ---- strings.c --------------------------------------------------------------------------------------------------- */
/* Operators on strings and tables of them. False when the node is none. */
bool tn__prog_emit_string_node(tn__builder *b, const tn__node *node);

/* ---- control.c: nodes that the machine runs itself --------------------------------------------------------------- */
/* Must the result have memory of its own kind, whoever asks for it? The loop variables of a while move. */
bool tn__prog_needs_own_memory(const tn__node *node);
/* Values that share memory with an operand of the node: the loop variables that a while keeps. */
void tn__prog_share_kept(tn__builder *b, const tn__node *node);
void tn__prog_emit_node(tn__builder *b, const tn__node *node);

/* ---- storage.c --------------------------------------------------------------------------------------------------- */
enum { TN__MOST_BYTES_AHEAD = 64 << 20 }; /* of memory for sizes that are still to come */
/* Stores the value's data as a constant on a device. Returns the constant's index. */
int tn__prog_constant(tn__builder *b, const tn__value *value, int device);
void tn__place_constants(tn__builder *b);
/* The symbols of inputs that grow, and what they are when these are full. */
void tn__prog_find_full_sizes(tn__builder *b);
/* Outputs whose values are written into the caller's buffer at once are flagged in `direct`. */
void tn__place_outputs(tn__builder *b, bool *direct);
/* Plans the arena and the slots behind it for everything that has no place yet. */
void tn__place_memory(tn__builder *b);
void tn__prog_emit_arena(tn__builder *b);

#endif
