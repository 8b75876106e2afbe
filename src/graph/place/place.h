/* Planning of devices: assigns a full virtual device to every value, and inserts copies where a value changes its
 * device (docs/devices.md has the rules).
 *
 * The method is unification. Each value has a domain, a set of values on one device. An operator that reads and makes
 * values without copies unites their domains (union-find), also through bodies of branches, loops and calls. A
 * placement of a value fixes its domain. An allowed copy is an edge between two domains instead. Then domains without a
 * placement follow their readers, level by level from the fixed ones. Ranks of devices break ties, not the order of
 * nodes. Remaining operators run on the default device, and values that no operator computes stay on the device of
 * their producer. Copies are edges whose ends differ, one for each value and device; copies of a loop's constants
 * precede the loop.
 *
 * It is linear in nodes and operands, and its steps are counted. Planning a second time changes nothing: a value
 * with a device keeps it, and new ones agree with their neighbours. */
#ifndef TENON_GRAPH_PLACE_PLACE_H
#define TENON_GRAPH_PLACE_PLACE_H

#include "graph/graph.h"
#include "target/devices/config.h"

/* "encoder.*=opencl:0": nodes whose name fits run there. '*' is any text; of several rules that fit a node the last one
 * counts. One with a '*' gives way to what says more, and leaves sizes to the host (patterns.c). A node's name is the
 * one in the model, "#12" by its number there when it has none, or that of its first result. */
typedef struct tn__place_rule {
  const char *text;   /* of the rule, for messages */
  const char *placed; /* placed by "TEXT" */
  const char *pattern;
  const tn__virtual_device *device;
  bool exact; /* no '*' in it: it means one name */
  /* Set by planning. */
  int matched, placing; /* operators that it fits, and those of them that are where it says */
  int refused;          /* one more than the value of one that is not, as its device cannot run it; 0: none */
} tn__place_rule;

/* Of the options of a compilation, one text after the other. */
typedef struct tn__place_rules {
  TN__VEC(tn__place_rule) list;
  bool automatic;
} tn__place_rules;

/* How much memory a plan may take, by device. */
typedef struct tn__place_budgets {
  uint64_t bytes[TN__MOST_TARGETS + 1]; /* by rank (config.h); 0: as much as it wants */
  const char *text[TN__MOST_TARGETS + 1];
  bool any;
} tn__place_budgets;

typedef struct tn__place_options {
  tn__compile_config *config;
  tn__place_rule *rules;
  int rule_count;
  bool tells;                       /* why each value is where it is, in tn__value.placed */
  bool automatic;                   /* what nothing is said of goes where it is predicted to be fastest (automatic.c) */
  const tn__place_budgets *budgets; /* NULL: there are none */
} tn__place_options;

/* A node that matches a pattern with a '*' but was placed elsewhere, because the pattern's device cannot run it. */
typedef struct tn__place_yield {
  const tn__place_rule *rule;
  const char *name; /* the name that rules match */
  const char *lack; /* the missing feature of the device: "no numbers of type f64 (...)" */
} tn__place_yield;

typedef struct tn__place_result {
  int copies;    /* operators device_copy that there are now */
  int constants; /* constants that were doubled for another device */
  int hoisted;   /* copies that stand before a loop, as no round changes what they copy */
  int values;    /* that were placed */
  uint64_t steps;
  /* A node that does not run on the default device, or a value of its; NULL: everything is there. */
  const tn__value *elsewhere;
  TN__VEC(tn__place_yield) yields; /* at most one per rule and node of the model */
} tn__place_result;

/* Plans the graph and the bodies of its control operators. Throws TN_INVALID_ARGUMENT for contradictory placements,
 * and TN_UNSUPPORTED with all nodes that their assigned devices cannot run. */
tn__place_result tn__graph_place(tn__graph *graph, const tn__place_options *options);
/* "encoder.*=opencl:0" into a rule; throws what is wrong with it. */
tn__place_rule tn__place_rule_read(tn__compile_config *config, const char *text);
/* Adds what a text of the option says: a rule; "auto"; "@FILE", a file of JSON that has patterns and devices, an object
 * or a list of objects, in its order. Without `files` none is opened. Throws what is wrong, of files with the line. */
void tn__place_rules_read(tn__compile_config *config, const char *text, bool files, tn__place_rules *out);
/* "opencl:0=2GiB" */
void tn__place_budget_read(tn__compile_config *config, const char *text, tn__place_budgets *out);
/* A node that the pattern of a rule fits, in the graph or a body, though a later rule may place it; NULL: none. Without
 * `by_name` one that no rule places: a branch, loop, call, annotation or copy. */
const tn__node *tn__place_fitting(const tn__graph *graph, const char *pattern, bool by_name);
/* For a rule without matches: returns a node of the model that it matches but that has no operator left, with the
 * reason. Returns NULL if there is none. */
const char *tn__place_vanished(tn__arena *arena, const tn__named_values *named, const char *pattern);
/* For a rule that fits no node: the nearest name that rules place, or NULL. */
const char *tn__place_nearest(const tn__graph *graph, const char *pattern);
/* The name by which rules mean a node; length in *length. */
const char *tn__place_name_of(const tn__node *node, size_t *length);
/* Returns the last rule that matches a node, or NULL. If `before` is not NULL, considers only rules before it. */
tn__place_rule *tn__place_rule_of(const tn__place_options *options, const tn__node *node, const tn__place_rule *before);
/* A line for each input and node: its device, operator and name, which rule put it there, and what it is predicted to
 * take; options.tells when it was planned. */
void tn__place_explain(const tn__graph *graph, const tn__place_options *options, int indent, tn__strbuf *out);
/* A line for each value that lies in a memory that a kernel chose: the memory, its name, and whose choice it was;
 * options.tells when it was planned. How many there are. */
TN_MUST_USE int tn__place_explain_choices(const tn__graph *graph, int indent, tn__strbuf *out);
/* "12 us" */
void tn__place_put_time(tn__strbuf *out, double seconds);

#endif
