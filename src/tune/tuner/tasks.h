/* What there is to tune: the kernels of models and of declarations, each once, with how often a run calls it.
 *
 * One thread at a time uses a list. */
#ifndef TENON_TUNE_TUNER_TASKS_H
#define TENON_TUNE_TUNER_TASKS_H

#include "kernels/tuned.h"
#include "tenon/compile.h"
#include "tenon/tune.h"

/* What a call of a task's kernel computes and moves, and what the machine's numbers say of that. */
typedef struct tn__task_work {
  double flops, bytes; /* operations; bytes of inputs and outputs; negative: not known */
  double least;        /* seconds that the roofline needs for them (tn_machine_roofline); negative: not known */
  double floor; /* seconds that no schedule goes below, with a margin of 2; 0: the machine's numbers are not measured */
} tn__task_work;

typedef struct tn__task_item {
  tn_tune_task task; /* its texts are the list's */
  double weight;     /* calls of it in a run of each of the models and declarations together */
  tn__task_work work;
} tn__task_item;

typedef struct tn__task_list tn__task_list;

TN_MUST_USE tn_status *tn__tasks_create(tn__task_list **out);
void tn__tasks_release(tn__task_list *list); /* NULL is fine */
int tn__tasks_count(const tn__task_list *list);
const tn__task_item *tn__tasks_at(const tn__task_list *list, int index);

/* What a model's graph decides otherwise than usual (in the place of what the options' tuned file says), and who
 * wants to know of each decision. */
typedef struct tn__tasks_variants {
  const tn__variant *items;
  int count;
  void (*see)(void *user, const tn__site *site); /* NULL: nobody */
  void *user;
} tn__tasks_variants;

/* Adds the kernels of a model, or of a graph as text, in the file `path`, or in `data` if that is not NULL: those that
 * a run calls, bodies of loops and branches counting once. `kernel` says how names of kernels begin, NULL: all.
 * Kernels of open sizes are left out, and `*left_out` counts them: the options' dims fix sizes. So are those of other
 * devices than the host, which is logged. `variants` may be NULL. */
TN_MUST_USE tn_status *tn__tasks_add_model(tn__task_list *list, const char *path, const void *data, size_t size,
                                           const char *kernel, const tn_compile_options *options,
                                           const tn__tasks_variants *variants, int *left_out);
/* Adds the kernels of a file of declarations, or of `text` if that is not NULL; `kernel` selects one, NULL all. Only
 * the options `target`, `dims`, `run_threads`, `machine`, `no_measure` and `log` apply. Skips kernels with open
 * dimensions with a warning; rejects a file in which all have some. */
TN_MUST_USE tn_status *tn__tasks_add_declarations(tn__task_list *list, const char *path, const char *text, size_t size,
                                                  const char *kernel, const tn_compile_options *options);

#endif
