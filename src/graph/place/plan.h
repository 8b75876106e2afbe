/* What the files of this room share: the plan while it is made. */
#ifndef TENON_GRAPH_PLACE_PLAN_H
#define TENON_GRAPH_PLACE_PLAN_H

#include "base/map.h"
#include "graph/place/place.h"
#include "graph/place/support.h"

/* A graph, the model's or a body, and where its values stand in the plan's numbering. */
typedef struct tn__plan_scope {
  tn__graph *graph;
  int base, limit;   /* of value ids: the first number, and how many ids there were */
  TN__VEC(int) late; /* by value id from `limit` on: the number of the value that it took the place of */
  int outer;         /* scope of the node that has the body, -1 */
  tn__node *node;    /* that has it; NULL: the model's */
  int body, first;   /* which of its bodies, and the first scope of its bodies */
  bool controls;     /* some node of the graph has bodies */
  bool stand_ins;    /* some node is an annotation or a copy */
} tn__plan_scope;

typedef enum tn__plan_place {
  TN__PLAN_OPERAND, /* of a node */
  TN__PLAN_OUTPUT,  /* of a graph */
  TN__PLAN_SYMBOL   /* what a symbol is read from */
} tn__plan_place;

/* A use of a value at which there may be a copy. */
typedef struct tn__plan_edge {
  int scope;
  int from, to; /* value read; a value of the domain that reads it */
  tn__plan_place place;
  tn__node *node; /* OPERAND */
  int index;      /* of the operand or output */
  int bodies;     /* of control operators: the scope of the first body; 0: none */
  tn__symbol *symbol;
} tn__plan_edge;

/* Why a domain is where it is. */
typedef struct tn__plan_cause {
  int value;        /* of which it was said */
  const char *text; /* "it is said to be on cpu:0" */
} tn__plan_cause;

typedef struct tn__plan_domain {
  int parent, size;
  int cause;                        /* in causes, -1: nothing is said */
  const tn__virtual_device *device; /* of roots; NULL: free */
  uint64_t devices;                 /* that can run what is in it (support.h) */
  int picky;                        /* a value whose operator some device cannot run; -1: every one can run all */
  const char *why;                  /* it is there, unless that was said */
  bool weak;                        /* it is on the host, and nobody said so: what it reads does not follow it there */
} tn__plan_domain;
#define TN__PLAN_ALONE(value) ((tn__plan_domain){(value), 1, -1, NULL, TN__EVERY_DEVICE, -1, NULL, false})

typedef struct tn__plan_value {
  tn__value *value; /* NULL: not there any more */
  bool stand_in;    /* an annotation or a copy made it: it stands for another */
  bool loose;       /* it may be copied on its way to whoever reads it */
  bool shape;       /* a few integers that are made of such: sizes, counts, conditions */
  bool known;       /* made of constants alone */
  int formal;       /* which input of a body it is; -1: none */
  /* The first result of an operator stands for it. */
  bool apart;           /* copies are allowed around it */
  bool host;            /* only the host runs it */
  tn__place_rule *rule; /* that places it; NULL: none */
  int bodies;           /* of a control operator: the scope of the first; 0: it is none */
  /* Values that are handed on without an operator between them are one buffer (scopes.c). */
  int buffer;              /* one more than the value that stands for it; 0: itself */
  const char *scope;       /* of its memory, of the value that stands for it; NULL: nothing is said */
  int said;                /* the cause */
  const tn__value *chosen; /* a value of the buffer for which a kernel chose the scope; NULL: none did */
} tn__plan_value;

/* A value whose elements are those of another, in the same order: when nothing is said they share its memory. */
typedef struct tn__plan_view {
  int of, view;
} tn__plan_view;

/* An operator of a model's node that was placed elsewhere because the pattern's device cannot run it. */
typedef struct tn__plan_yield {
  const tn__place_rule *rule;
  const tn__node *node;
} tn__plan_yield;

typedef struct tn__plan {
  tn__arena *arena;
  const tn__place_options *options;
  tn__compile_config *config;
  tn__place_result result;
  TN__VEC(tn__plan_scope) scopes;
  TN__VEC(tn__plan_value) values;
  TN__VEC(tn__plan_domain) domains; /* by value, then the host's */
  TN__VEC(tn__plan_cause) causes;
  TN__VEC(tn__plan_edge) edges;
  struct tn__plan_link {
    int a, b;
  } *links; /* what was united with what */
  int link_count, link_capacity;
  TN__VEC(tn__plan_view) views;
  tn__map parted;   /* origins of the model's nodes whose assigned device cannot run all of their operators */
  tn__map controls; /* origins of the model's branches, loops and calls */
  tn__map partly;   /* the subset of `parted` with an operator on the device of its rule */
  tn__map yields;   /* "RULE NAME" of each entry of result.yields */
  TN__VEC(tn__plan_yield) inside; /* operators that the device of their rule cannot run */
  TN__VEC(const char *) refusals; /* errors: operators that their assigned device cannot run */
  int host;                       /* the domain of values that only the host may read */
  bool changed;                   /* the graph was modified */
} tn__plan;

/* For messages: a value, in quotes, and a device with its target. */
const char *tn__plan_value_name(const tn__plan *plan, int value);
const char *tn__plan_device_text(const tn__plan *plan, const tn__virtual_device *device);
int tn__plan_find(tn__plan *plan, int value);
/* The domain of the value lives there, wherever in its memory: throws when something else was said of it. The number of
 * the cause, which is new. */
int tn__plan_fix(tn__plan *plan, int value, const tn__virtual_device *device, int of, const char *text, bool weak);
void tn__plan_unite(tn__plan *plan, int a, int b);
/* The same, and of the value's buffer that it lies in the device's scope, where one is said (scopes.c). */
void tn__plan_say(tn__plan *plan, int value, const tn__virtual_device *device, int of, const char *text, bool weak);
/* The two are one buffer; of memories that contradict it throws when they must be, and else leaves them apart. */
void tn__plan_share(tn__plan *plan, int a, int b, bool must);
/* Once devices are known: what a copy might part and none does is one buffer, and free ones get a scope of those that
 * they can be one with, or one that a kernel has chosen. */
void tn__plan_share_edges(tn__plan *plan);
/* Is a scope said of the value's buffer, or chosen for it? */
bool tn__plan_has_scope(const tn__plan *plan, int value);
/* By whose choice the value's buffer lies where it does, in words; NULL: by nobody's. */
const char *tn__plan_why_scope(const tn__plan *plan, int value);
/* The device with the memory that the value's buffer lies in. */
const tn__virtual_device *tn__plan_with_scope(tn__plan *plan, int value, const tn__virtual_device *device);
/* Not all devices can run the value's operator. */
void tn__plan_restrict(tn__plan *plan, int value, uint64_t devices);
/* Records the error that the domain is assigned to a device that cannot run its operators. More than one can be
 * recorded. */
void tn__plan_refuse(tn__plan *plan, const tn__plan_domain *domain, const tn__virtual_device *device, const char *by);
/* Throws all recorded errors at once. */
void tn__plan_check_refused(tn__plan *plan);
/* The domain, of which nothing or a part is said, gets what is left of a device; what that cannot run goes to the first
 * that can, in the order of targets. */
void tn__plan_settle(tn__plan *plan, tn__plan_domain *domain, const tn__virtual_device *otherwise, const char *why);
static inline bool tn__plan_is_settled(const tn__plan_domain *d) {
  return d->device != NULL && tn__virtual_device_is_full(d->device);
}
static inline bool tn__plan_says_where(const tn__virtual_device *d) {
  return d->device_type != 0 || d->device_id != TN__DEVICE_ID_FREE;
}
static inline bool tn__plan_can_run(const tn__plan *plan, const tn__plan_domain *d, const tn__virtual_device *device) {
  return d->devices == TN__EVERY_DEVICE || (d->devices & tn__place_bit(plan->config, device)) != 0;
}
/* A caller's tensor waits for all who read it: it follows them when they agree. */
static inline bool tn__plan_waits(const tn__plan *plan, int value) {
  const tn__plan_value *v = &plan->values.data[value];
  return v->value != NULL && v->value->producer == NULL && v->value->data == NULL && v->loose;
}
/* Domains, edges and what is said: of the model's graph and all bodies (collect.c). */
void tn__plan_collect(tn__plan *plan, tn__graph *graph);
/* Is it made of constants alone, whatever is between? The compiler computes that, wherever it is. */
bool tn__plan_is_of_constants(const tn__plan *plan, int scope, const tn__node *node);
/* The rule that places an operator; NULL: none, or it does not bind this one (inside.c). */
tn__place_rule *tn__plan_rule_of(tn__plan *plan, int scope, const tn__node *node, bool known);
/* Before the rules of a graph's operators are asked for. */
void tn__plan_find_parted(tn__plan *plan, const tn__graph *graph);
/* Records that a pattern with a '*' matches the node, but its device cannot run the node. */
void tn__plan_yield_node(tn__plan *plan, const tn__place_rule *rule, const tn__node *node);
/* Rejects rules by exact name whose device cannot run any operator of the node. Patterns with a '*' yield instead. */
void tn__plan_check_parted(tn__plan *plan);
/* What patterns with a '*' say, behind all that is said more exactly (patterns.c). */
void tn__plan_say_patterns(tn__plan *plan);
/* Of the value's domain; NULL: free. */
const tn__virtual_device *tn__plan_device(tn__plan *plan, int value);
/* Copies, and devices on values (copies.c). */
void tn__plan_rewrite(tn__plan *plan);

/* Does the edge hand a value on, so that both ends are one buffer when no copy parts them? */
static inline bool tn__plan_hands_on(const tn__plan_edge *e) {
  return e->bodies > 0 || e->place == TN__PLAN_OUTPUT ||
         (e->place == TN__PLAN_OPERAND && tn__op_has(e->node, TN__FACT_SAYS_PLACE));
}

static inline int tn__plan_index(const tn__plan *plan, int scope, const tn__value *value) {
  const tn__plan_scope *s = &plan->scopes.data[scope];
  return (int)value->id < s->limit ? s->base + (int)value->id : s->late.data[(int)value->id - s->limit];
}

#endif
