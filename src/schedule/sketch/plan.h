/* Choosing a schedule: the one way from a declaration to the loops that it is compiled to.
 *
 *   tn__plan_unit unit = tn__rule_plan_unit_of(te, &target, &options);  // rules/choose.h
 *   const tn__plan *plan = tn__plan_kernel(&unit, &tn__chooser_static);
 *   tn__sched_trace_print(plan->schedule, &text);
 *
 * A *unit* is all that a choice may depend on, and a *chooser* is how it is made: by the cost function, from traces
 * that were recorded, by a search. Whoever compiles a kernel, prints its schedule, explains it or looks for it in a
 * cache asks with the same unit and the same chooser, so that all of them see the same schedule.
 *
 * Ownership: what is made lies in the arena of the declaration's context. Targets, names, choosers and their data are
 * the caller's and outlive what is made with them.
 * Threads: a unit belongs to one thread at a time, as its declaration's context does. Choosers are never written to:
 * one may serve many threads.
 * Errors are thrown on the escape of the declaration's arena. */
#ifndef TENON_SCHEDULE_SKETCH_PLAN_H
#define TENON_SCHEDULE_SKETCH_PLAN_H

#include <stdatomic.h>

#include "base/linked.h"
#include "schedule/sketch/sketch.h"

typedef struct tn__plan_unit {
  const tn__rules *rules; /* in which order they are asked */
  const tn__te *te;
  const tn__target *target;
  tn__schedule_options options; /* filled in: threads, whether results are read soon, ... */
  const char *part; /* the name of the first stage of a part (rules/sequence.c), whose steps become the whole's */
  /* Inputs that are packed beforehand: `te` reads what packings[i] makes of its input packing_inputs[i]. */
  tn__te **packings;
  int *packing_inputs;
  int packing_count;
} tn__plan_unit;

/* Throws when an option is out of range; `options` may be NULL. tn__rule_plan_unit_of() in rules/choose.h is for all
 * rules that there are. */
tn__plan_unit tn__plan_unit_with(const tn__rules *rules, const tn__te *te, const tn__target *target,
                                 const tn__schedule_options *options);
/* Constant inputs, by name, that the kernel shall read packed (tn__sched_te_prepack, which throws where that cannot
 * be): each in turn, in a declaration that reads the ones before it packed. Takes the place of `te`. */
void tn__plan_unit_pack(tn__plan_unit *unit, const char *const *constants, int count);

/* What a chooser proposes for a unit: a point of a sketch, or a trace; with neither, the plain nest. */
typedef struct tn__candidate {
  const tn__sketch *sketch;          /* of the unit's declaration, target and options; NULL: none */
  int64_t values[TN__MAX_DECISIONS]; /* one of the choices of each of its decisions */
  const char *trace;                 /* as tn__sched_trace_print writes it; NULL: none */
  int64_t weighed;                   /* how many others it was preferred to */
  const char *rule;                  /* what it is called; NULL: the sketch's name, or "recorded trace" */
  bool required;                     /* when it is refused, that is the call's error, and nothing else is tried */
  const char *why;                   /* once it is refused */
} tn__candidate;

typedef struct tn__chooser tn__chooser;
struct tn__chooser {
  const char *name; /* of the way of choosing, for messages and keys */
  /* Proposes a candidate. `refused` is the one before it, of which some step was refused by a primitive; NULL at first.
   * False when there is nothing to propose (any more), which leaves the plain nest. The unit's sketches come from
   * tn__plan_sketch and tn__sketch_next; tn__sketch_cost weighs their
   * points, and tn__sketch_apply makes what can be compiled and measured. The answer depends on the unit and on what
   * `hash` adds, and on nothing else: neither on time nor on the order of calls. A search that measures therefore
   * keeps what it found, and answers from that. */
  bool (*propose)(const tn__chooser *chooser, const tn__plan_unit *unit, const tn__candidate *refused,
                  tn__candidate *out);
  /* Adds all that it consults for the unit to a hash; for any unit, where that is NULL. NULL: the name is all. */
  void (*hash)(const tn__chooser *chooser, const tn__plan_unit *unit, tn__sha256 *hash);
  const void *data; /* the chooser's own */
};

/* The first sketch of the unit, whose parts, where it is a sequence, are chosen by `chooser`; NULL when no rule fits.
 * */
tn__sketch *tn__plan_sketch(const tn__plan_unit *unit, const tn__chooser *chooser);

/* The cheapest by the static cost function, of the first rule that fits. */
TN__LINKED extern const tn__chooser tn__chooser_static;
/* No choice: the declaration's own loops. */
extern const tn__chooser tn__chooser_plain;

/* Traces that were recorded, of any declarations: each replays on its own. Those of one target and number of threads,
 * say: a trace does not tell. */
typedef struct tn__recorded {
  const char *const *traces;
  int count;                    /* of traces, at least 1 unless `otherwise` chooses */
  const tn__chooser *otherwise; /* where none is of the declaration, or its steps are refused; NULL: an error */
  const char *path;             /* of the file that they are from, for warnings */
  const tn_log_sink *log;       /* is told of a trace that is refused, once; may be NULL */
  atomic_bool *told;            /* by trace: it was; where there is a log */
} tn__recorded;
tn__chooser tn__chooser_recorded(const tn__recorded *recorded);

/* Was the trace recorded of this declaration? */
bool tn__plan_is_trace_of(const char *trace, const tn__te *te);

typedef struct tn__plan {
  tn__schedule *schedule;   /* its trace, its loops */
  const char *rule;         /* "contraction"; "recorded trace", "written schedule", "plain nest" */
  const tn__sketch *sketch; /* that it is a point of; NULL for a trace and the plain nest */
  int64_t values[TN__MAX_DECISIONS];
  tn__cost cost;   /* predicted, where there is a sketch */
  int64_t weighed; /* candidates */
  int refused;     /* proposals before this one */
} tn__plan;

/* Asks the chooser until no step of what it proposes is refused. Never fails on a valid declaration, unless the chooser
 * requires its candidate or proposes a thousand that are refused. */
TN__LINKED tn__plan *tn__plan_kernel(const tn__plan_unit *unit, const tn__chooser *chooser);
/* What a plan was preferred to: a point of a sketch that nobody proposed. */
typedef struct tn__plan_rival {
  const tn__sketch *sketch;
  int64_t values[TN__MAX_DECISIONS];
  tn__cost cost;
} tn__plan_rival;

enum { TN__PLAN_RIVALS = 2 };
/* The cheapest other point of the plan's own sketch, and the cheapest of the next rule that fits. Returns how many
 * there are; none for a trace and for the plain nest. */
int tn__plan_rivals(const tn__plan *plan, tn__plan_rival rivals[TN__PLAN_RIVALS]);
/* "rows 12 (not 14)": in what it differs from the plan; all decisions where the rule is another. */
void tn__plan_print_rival(const tn__plan *plan, const tn__plan_rival *rival, tn__strbuf *out);
/* Why it was not taken: "1.20 times the cycles: memory 1200, not 900". */
void tn__plan_print_why_not(const tn__plan *plan, const tn__plan_rival *rival, tn__strbuf *out);

/* "rows 14, vectors 2"; nothing where there is no sketch. */
TN__LINKED void tn__plan_print_decisions(const tn__plan *plan, tn__strbuf *out);
/* "contraction: rows 14, vectors 2; 12345 cycles, bound by arithmetic" */
void tn__plan_print(const tn__plan *plan, tn__strbuf *out);

/* Hashes the declaration as text, with its name. */
tn__digest tn__plan_text(const tn__plan_unit *unit);
/* Adds everything that the schedule depends on to a hash, except the build: the declaration's `text` as above, the
 * target, the options, and the chooser's name and inputs. */
void tn__plan_hash(const tn__plan_unit *unit, const tn__chooser *chooser, const tn__digest *text, tn__sha256 *hash);
/* The chooser's part of that; with `unit` NULL, for all units. */
void tn__chooser_hash(const tn__chooser *chooser, const tn__plan_unit *unit, tn__sha256 *hash);

#endif
