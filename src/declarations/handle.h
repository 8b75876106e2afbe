/* What stands behind the handles of <tenon/te.h>. */
#ifndef TENON_DECLARATIONS_HANDLE_H
#define TENON_DECLARATIONS_HANDLE_H

#include "base/linked.h"
#include "schedule/rules/choose.h"
#include "schedule/written/written.h"
#include "te/text.h"
#include "tenon/te.h"

struct tn_te {
  tn_allocator allocator_copy;
  const tn_allocator *allocator;
  tn__arena arena;
  tn__ir *ir;
  tn__te *te;
  bool finished;
  const tn__written *written; /* schedules in its text; NULL: none */
  tn__te_dim_value *dims;     /* that were fixed */
  int dim_count;
  tn_status *refusal; /* the first, while it is being built */
};

struct tn_schedule {
  tn_allocator allocator_copy;
  const tn_allocator *allocator;
  tn__arena arena;
  tn__work work;
  uint64_t declared; /* steps that making the declaration took, by which work on it is limited */
  char name[280];    /* "kernel f", for messages about that */
  tn__target target;
  tn__ir *ir;
  tn__plan_unit unit; /* its declaration is the schedule's own */
  tn__schedule *schedule;
};

/* A function to be made: a kernel, or what packs an operand of one. */
typedef struct tn__te_item {
  tn__ir *ir;
  const tn__te *te;
  const tn__func *func; /* ready for the code generator; its parameters may be packed inputs of the declaration */
  const tn_schedule *schedule; /* of a kernel; NULL: it packs input `input` of the kernel items[kernel] */
  int kernel, input;
  const int *over; /* by output: the input whose memory it takes, or -1 */
} tn__te_item;
/* Kernels in order, each with what packs its operands behind it. Throws on the arena's escape. */
TN_MUST_USE int tn__decl_items(tn__arena *arena, tn_schedule *const *schedules, int count, tn__te_item **out);

/* Starts to count the work in an arena, and limits it: that of reading a text by its bytes, that of scheduling a
 * declaration and of making code by the steps that making the declaration took. The name, of the text or the kernel,
 * is for messages, and lives as long as the work. */
void tn__decl_limit_reading(tn__work *work, tn__arena *arena, const char *name, size_t bytes);
void tn__decl_limit_work(tn__work *work, tn__arena *arena, const char *kernel, uint64_t declared);

/* Operations and bytes of inputs and outputs of one call; -1 when open dimensions decide. */
TN__LINKED void tn__decl_work(const tn__te *te, double *flops, double *bytes);
/* A caller's struct, NULL or of whatever version, as this version has it. */
TN_MUST_USE tn_status *tn__decl_schedule_options_read(const tn_schedule_options *options, tn_schedule_options *out);
/* A copy of the declaration in `ir`, with what its schedule depends on; throws what the options may not be. */
TN__LINKED tn__plan_unit tn__decl_plan_unit(const tn_te *te, const tn__target *target, const tn_schedule_options *given,
                                            tn__ir *ir);
/* How the options want the unit's schedule chosen; what that needs is made in the unit's arena. Throws what is wrong
 * with a text. */
tn__chooser tn__decl_chooser(const tn_te *te, const tn__plan_unit *unit, const tn_schedule_options *given);
/* What `target` and the options `machine` and `no_measure` say. */
TN__LINKED TN_MUST_USE tn_status *tn__decl_target(const char *target, const tn_schedule_options *given,
                                                  tn__target *out);
/* Runs `body` with the arena's escape set; what it throws is the result. */
TN_MUST_USE tn_status *tn__decl_in_arena(tn__arena *arena, void (*body)(void *user), void *user);
/* Text that the caller frees with free(); takes what the buffer holds. */
TN_MUST_USE tn_status *tn__decl_text_out(tn__strbuf *text, char **out, size_t *size);

#endif
