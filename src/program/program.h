/* From compiled kernels to a VM function: registers, memory plan, instructions. */
#ifndef TENON_PROGRAM_PROGRAM_H
#define TENON_PROGRAM_PROGRAM_H

#include "import/onnx/onnx.h"
#include "kernels/kernels.h"
#include "program/exe_writer.h"
#include "runtime/executable/apart.h"

/* One function of the executable: the model's graph, or the body of a control operator. */
typedef struct tn__program_function {
  const char *name;
  tn__graph *graph;
  const tn__node *caller; /* whose body number `body` it is; NULL: it is an entry */
  int body;
  tn__value *const *inputs;
  const char *const *input_names;
  int input_count;
  tn__value *const *outputs;
  const char *const *output_names;
  int output_count;
  const tn__groups *groups; /* those to run, in order; `runs[i]` false: skip group i */
  const bool *runs;
  const int *unit_of; /* group -> unit of the program, or -1 */
  /* Bodies of loops: by input, what becomes of a list in a round, left in the input's register; NULL: no such input. */
  tn__value *const *updates;
  const tn__extent *extents;           /* of outputs; NULL: all are whole */
  const int *aliases;                  /* output -> input whose buffer it may take, or -1; NULL: none */
  int strided;                         /* the function for inputs of any strides, or -1 */
  const bool *may_be_strided;          /* by input; NULL: none */
  const struct tn__dispatch *dispatch; /* not NULL: it calls one of other functions, and has no groups */
} tn__program_function;

/* Chooses a function by the sizes of symbols: the first case whose dimensions all agree. */
typedef struct tn__dispatch_case {
  const char *function;
  const tn__dim_binding *dims;
  int dim_count;
} tn__dispatch_case;
typedef struct tn__dispatch {
  const tn__dispatch_case *cases;
  int case_count;
  const char *otherwise;
} tn__dispatch;

typedef struct tn__program {
  const tn__program_function *functions; /* the first is the one to call; the others are bodies that these use */
  int function_count;
  const tn__unit *units;
  int unit_count;
  bool constants_apart; /* the executable is run here and now, and reads constants where they are */
} tn__program;

typedef struct tn__program_stats { /* of all functions together: bodies have arenas of their own */
  int64_t arena_bytes;             /* static part of the plan */
  int64_t unplanned_bytes;         /* what the same values would take without sharing memory */
  int in_place;                    /* results written over a dying operand */
  tn__apart apart;                 /* of a program with its constants apart: these, at any address, and kernels */
} tn__program_stats;

/* Is loop variable `k` of a while the same in every round, because its body hands it on? Such a variable is an input of
 * the bodies and nothing else. */
bool tn__prog_while_keeps(const tn__node *node, int k);
/* Is its condition integer arithmetic over the variables and their sizes? Then it has no function: it is computed where
 * the loop is. */
bool tn__prog_while_tests_scalars(const tn__node *node);

/* Returns whether another function selects this one by the sizes of its inputs. */
bool tn__prog_is_chosen(const tn__program *program, const tn__program_function *function);

/* Serialises the executable. The pieces live in the driver's arena, or are constants' own bytes. */
tn__pieces tn__program_build(tn__driver *driver, const tn__program *program, const char *const *text_names,
                             const char *const *texts, int text_count, tn__program_stats *stats);

/* ---- static memory planning (plan.c) ----------------------------------------------------------------------------- */
/* One block of memory that lives from step `first` to step `last`, both included. */
typedef struct tn__plan_item {
  int64_t bytes;
  int first, last;
  int device;     /* whose arena it is in */
  int64_t offset; /* out */
} tn__plan_item;
/* Places the items of one device so that those alive at once do not overlap: largest first, at the lowest offset that
 * is free for its whole life ("greedy by size", Pisarchyk and Lee, 2020). Offsets are multiples of 64. Returns the
 * bytes needed. */
int64_t tn__prog_plan_memory(tn__arena *arena, tn__plan_item *items, int item_count, int device);

#endif
