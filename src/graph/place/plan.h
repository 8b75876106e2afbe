/* What the files of this room share: the plan while it is made. */
#ifndef TENON_GRAPH_PLACE_PLAN_H
#define TENON_GRAPH_PLACE_PLAN_H

#include "graph/place/place.h"

/* A graph, the model's or a body, and where its values stand in the plan's numbering. */
typedef struct tn__plan_scope {
  tn__graph *graph;
  int base, limit;   /* of value ids: the first number, and how many ids there were */
  TN__VEC(int) late; /* by value id from `limit` on: the number of the value that it took the place of */
  int outer;         /* scope of the node that has the body, -1 */
  tn__node *node;    /* that has it; NULL: the model's */
  int body, first;   /* which of its bodies, and the first scope of its bodies */
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
  bool weak;                        /* it is on the host, and nobody said so: what it reads does not follow it there */
} tn__plan_domain;

typedef struct tn__plan_value {
  tn__value *value; /* NULL: not there any more */
  bool loose;       /* it may be copied on its way to whoever reads it */
  bool shape;       /* a few integers that are made of such: sizes, counts, conditions */
} tn__plan_value;

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
  int host;     /* the domain of what only the host may read */
  bool changed; /* something of the graph */
} tn__plan;

/* For messages: a value, in quotes, and a device with its target. */
const char *tn__plan_value_name(const tn__plan *plan, int value);
const char *tn__plan_device_text(const tn__plan *plan, const tn__virtual_device *device);
int tn__plan_find(tn__plan *plan, int value);
/* The domain of the value lives there: throws when something else was said of it. */
void tn__plan_fix(tn__plan *plan, int value, const tn__virtual_device *device, int of, const char *text, bool weak);
void tn__plan_unite(tn__plan *plan, int a, int b);
/* Domains, edges and what is said: of the model's graph and all bodies (collect.c). */
void tn__plan_collect(tn__plan *plan, tn__graph *graph);
/* Of the value's domain; NULL: free. */
const tn__virtual_device *tn__plan_device(tn__plan *plan, int value);
/* Copies, and devices on values (copies.c). */
void tn__plan_rewrite(tn__plan *plan);

static inline int tn__plan_index(const tn__plan *plan, int scope, const tn__value *value) {
  const tn__plan_scope *s = &plan->scopes.data[scope];
  return (int)value->id < s->limit ? s->base + (int)value->id : s->late.data[(int)value->id - s->limit];
}

#endif
