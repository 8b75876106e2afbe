/* The pipeline from a model to a compiled program, as functions that the public entry points put together. */
#ifndef TENON_DRIVER_DRIVER_H
#define TENON_DRIVER_DRIVER_H

#include "base/linked.h"
#include "driver/model.h"
#include "kernels/texts.h"
#include "program/program.h"

/* One function that the caller of the executable sees. */
typedef struct tn__entry {
  const char *name;
  tn__graph *graph;
  const tn__dispatch *dispatch; /* NULL: compiled from the graph; else the graph only tells its signature */
  int strided;                  /* the entry for inputs of any strides, or -1 */
  const bool *may_be_strided;   /* by input; NULL: none */
} tn__entry;

/* A compilation as far as it has come. Everything is in the driver's arena. */
typedef struct tn__compilation {
  tn__driver driver;
  tn__model *model;
  tn__graph *graph;       /* the model's, or the first one's */
  tn__named_values named; /* what models call their values, where annotations ask for it */
  TN__VEC(tn__entry) entries;
  TN__VEC(tn__program_function)
  functions;       /* of the graph, then of the bodies of its control operators, outer ones first */
  tn__unit *units; /* of all functions, in their order */
  int unit_count;
  int main_unit_count; /* those of the graph itself */
  tn__program program;
  tn__program_stats stats;
  tn__pieces executable;
  bool *capacities_used; /* by capacity of the options, whether an output grows to it */
  bool *strided_used;    /* by name in the options, whether an input has it */
} tn__compilation;

/* Reads options into the driver; `driver->arena` must be set. */
TN__LINKED void tn__driver_init(tn__driver *driver, tn__arena *arena, const tn_compile_options *options);
/* By the options' tuned schedules and variants, and for other kernels by `otherwise`. */
void tn__driver_choose_by(tn__driver *driver, const tn__chooser *otherwise);
/* How many steps of work this compilation may take, by the bytes of structure that its models have. */
void tn__driver_limit_work(tn__driver *driver, uint64_t structure);
/* Everything that the executable depends on: the models, the target, the options that change code, this build. */
tn__digest tn__driver_executable_key(const tn__driver *driver, const tn_model_function *functions, int count,
                                     tn__model *const *models);
/* Opens and imports a model. */
void tn__compilation_open(tn__compilation *c, const char *path, const void *data, size_t size);
/* All before code: tn__compilation_open and tn__compilation_prepare. */
TN__LINKED void tn__compilation_front(tn__compilation *c, const char *path, const void *data, size_t size);
/* Imports a model and makes it a function, together with those for special sizes of its dimensions (entries.c). Flags
 * the dimensions of the options that it has: the fixed ones in `used`, the special ones behind them. */
void tn__compilation_add(tn__compilation *c, const char *name, tn__model *model, bool *used);
/* Throws when a dimension is in no model, or a capacity has nothing to grow. */
void tn__compilation_check_dims(tn__compilation *c, const bool *used);
/* What the options say about the aliases of a graph's outputs: the input of each or -1; NULL when there are none. Lets
 * scatters into such inputs go without a copy. `used`: by alias, whether a graph has it. */
const int *tn__compilation_aliases(tn__compilation *c, tn__graph *graph, bool *used);
/* Gives outputs that alias an input and grow along one of its dimensions the capacity that the options say. */
void tn__compilation_grow(tn__compilation *c, tn__graph *graph);
/* Runs the passes over the graphs. */
void tn__compilation_optimize(tn__compilation *c);
/* The same, and then fuses the graphs, computes their constants and declares their kernels. */
void tn__compilation_prepare(tn__compilation *c);
/* Kernels and the executable. */
void tn__compilation_back(tn__compilation *c);
/* The texts that the compilation keeps (kernels/texts.h); returns how many. Units must have been built (texts.c). */
TN_MUST_USE int tn__driver_texts_gather(tn__compilation *c, const char *names[TN__TEXT_KINDS],
                                        const char *texts[TN__TEXT_KINDS]);
/* A caller's struct, NULL or of whatever version, as this version has it; its lists are there and name things. */
TN__LINKED TN_MUST_USE tn_status *tn__driver_read_options(const tn_compile_options *options, tn_compile_options *out);
/* Throws when the target, the texts or the pass that they name cannot be; reads no file. */
void tn__driver_check_options(tn__arena *arena, void *options);

/* tn_compile_functions() with schedules as `chooser` wants them. What it consults is part of the caches' keys. */
TN_MUST_USE tn_status *tn__driver_compile_by(const tn__chooser *chooser, const tn_model_function *functions, int count,
                                             const tn_compile_options *options, tn_module **out);

/* What constants are computed for: the target itself where this machine can run its code, so that every such machine
 * gives the same bytes; else the least of this machine's architecture, so that all machines of the architecture do. */
tn__target tn__driver_constants_target(const tn__driver *driver);
/* Computes the groups that depend on constants only, on this machine, and makes their outputs constants
 * (precompute.c). */
void tn__driver_precompute_constants(tn__driver *driver, tn__graph *graph, const tn__groups *groups);
/* The evaluator for the fold pass: small nodes through the loop interpreter. */
tn__evaluator tn__driver_fold_evaluator(tn__driver *driver);

#endif
