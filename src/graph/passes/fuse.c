/* Which nodes share a kernel. Greedy, in topological order: each node tries to join the kernels that produce its
 * operands.
 *
 * A kernel is one of four kinds. A MAP holds element-wise and injective nodes; a ROW holds what is over the same rows
 * (reductions, softmax, normalisations along the same axes of the same space) with the maps around; a CONTRACTION holds
 * one product or convolution with its element-wise epilogue, or two products and the softmax between (attention);
 * everything else runs ALONE. Joining never makes a cycle between kernels. Broadcasts, iotas and the like cost nothing
 * where they are read, so they have no kernel of their own but a copy in each that reads them. */
#include <string.h>

#include "base/invariant.h"
#include "graph/grow/grow.h"
#include "graph/passes/passes.h"

typedef enum kernel_kind { KERNEL_MAP, KERNEL_ROW, KERNEL_CONTRACTION, KERNEL_ALONE } kernel_kind;

#define MAX_KERNEL_NODES 48
#define MAX_KERNEL_BUFFERS 24

typedef struct kernel {
  kernel_kind kind;
  bool constant, dead;
  bool asked;           /* whether what comes next may join, which is asked once */
  bool apart;           /* it may not */
  int first;            /* smallest node index: a cycle search need not look below */
  TN__VEC(int) members; /* node indices, ascending */
  const tn__value
      *space;           /* ROW: an operand of the nodes over rows; MAP, CONTRACTION: the value whose shape all share */
  const tn__node *rows; /* ROW: a node over these rows */
  uint32_t visited;
  int entered_by;  /* by the search that visited it last: the kernel that it came from, -1: the targets */
  int above;       /* a kernel that it is known to depend on, -1: none */
  int merged_into; /* of a dead one */
} kernel;

typedef TN__VEC(int) index_list;

/* What a search has still to look at. Graphs are deep, so that no walk here may recurse. */
typedef struct pending {
  int node;
  bool outside; /* no kernel but the targets lies between it and where the search began */
  int by;       /* the last kernel on the way, -1: none but the targets */
} pending;

typedef struct fuser {
  tn__graph *graph;
  const tn__optimize_options *options;
  tn__arena *arena;
  int node_count;
  int *kernel_of;     /* node index -> kernel, -1 while cheap */
  int *node_of_value; /* value id -> index of its producer, -1 */
  int *uses;          /* value id -> readers among nodes and outputs */
  int *first_reader;  /* value id -> where the nodes that read it, ascending, begin in `readers` */
  int *readers;
  int *claimed;              /* node index -> the CONTRACTION kernel whose epilogue it is part of, -1 */
  bool *constant;            /* node index -> depends on constants only */
  index_list *shape_deps;    /* node index -> nodes whose results' elements its shapes and attributes are made of */
  index_list *shape_readers; /* and back, ascending */
  TN__VEC(kernel) kernels;
  TN__VEC(tn__node *) attentions; /* second products of attention */
  uint32_t stamp;
  uint32_t *seen[2]; /* cheap or unplaced node -> stamp of the last search that passed it, by pending.outside */
  int64_t budget;    /* what the search may still look at */
  TN__VEC(pending) stack;
} fuser;

/* ---- facts about nodes ------------------------------------------------------------------------------------------- */

/* Shapes without their dimensions of one. */
static bool same_space(const tn__value *a, const tn__value *b) {
  int i = 0, j = 0;
  for (;;) {
    while (i < a->rank && tn__ir_is_int_value(a->dims[i], 1)) i++;
    while (j < b->rank && tn__ir_is_int_value(b->dims[j], 1)) j++;
    if (i == a->rank || j == b->rank) return i == a->rank && j == b->rank;
    if (a->dims[i++] != b->dims[j++]) return false;
  }
}

static bool is_unit_reshape(const tn__node *n) {
  const tn__value *from = n->input_count > 0 ? n->inputs[0] : NULL, *to = n->output_count > 0 ? n->outputs[0] : NULL;
  return from != NULL && to != NULL && tn__node_is_view(n) && from->dtype == to->dtype && same_space(from, to);
}

/* One tensor of a stack of buffers that grow. */
static bool is_member(const tn__node *n) {
  return is_unit_reshape(n) && n->inputs[0]->producer && tn__graph_is_valid_part(n->inputs[0]->producer);
}

/* An input that is read by strides. It joins kernels as if it were a dense input: groups are the same with both. */
static bool is_strided(const tn__node *n) { return tn__op_has(n, TN__FACT_STRIDED); }

static bool is_cheap(const tn__node *n) {
  return tn__op_has(n, TN__FACT_CHEAP) || tn__graph_is_valid_part(n) || is_member(n);
}

static bool same_shape(const tn__value *a, const tn__value *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

/* Does it look at whole rows, the elements along its axes? */
static bool is_over_rows(const tn__node *n) {
  return n->op->op_class == TN__CLASS_ROWS || tn__op_has(n, TN__FACT_REDUCES);
}

static bool same_axes(const tn__node *a, const tn__node *b) {
  const tn__attr *x = tn__node_attr(a, "axes"), *y = tn__node_attr(b, "axes");
  if (!x || !y || x->count != y->count) return false;
  return memcmp(x->ints, y->ints, sizeof(int64_t) * (size_t)x->count) == 0;
}

/* ---- symbols that are read from memory --------------------------------------------------------------------------- */

static void add_shape_deps(fuser *f, const tn__expr *e, index_list *list) {
  int count;
  const uint32_t *vars = tn__expr_vars(e, &count);
  tn__work_step(f->arena, (uint64_t)count);
  for (int i = 0; i < count; i++) {
    const tn__symbol *symbol = tn__graph_symbol_of(f->graph, vars[i]);
    int p = symbol == NULL ? -1 : f->node_of_value[symbol->value->id];
    if (p >= 0) tn__vec_push(f->arena, list, p);
  }
}

static void add_node_deps(fuser *f, const tn__node *n, int node) {
  for (int o = 0; o < n->output_count; o++)
    for (int d = 0; n->outputs[o] && d < n->outputs[o]->rank; d++)
      add_shape_deps(f, n->outputs[o]->dims[d], &f->shape_deps[node]);
  for (int i = 0; i < n->input_count; i++)
    for (int d = 0; n->inputs[i] && d < n->inputs[i]->rank; d++)
      add_shape_deps(f, n->inputs[i]->dims[d], &f->shape_deps[node]);
  for (int a = 0; a < n->attr_count; a++)
    for (int i = 0; n->attrs[a].kind == TN__ATTR_EXPRS && i < n->attrs[a].count; i++)
      add_shape_deps(f, n->attrs[a].exprs[i], &f->shape_deps[node]);
  const tn__graph *body = tn__composite_body(n);
  for (int i = 0; body != NULL && i < tn__graph_node_count(body); i++)
    add_node_deps(f, tn__graph_node_at(body, i), node);
}

static void find_shape_deps(fuser *f) {
  f->shape_deps = TN__NEW_ARRAY(f->arena, f->node_count, index_list);
  f->shape_readers = TN__NEW_ARRAY(f->arena, f->node_count, index_list);
  for (int node = 0; node < f->node_count; node++) {
    add_node_deps(f, tn__graph_node_at(f->graph, node), node);
    for (int i = 0; i < f->shape_deps[node].count; i++) {
      index_list *readers = &f->shape_readers[f->shape_deps[node].data[i]];
      if (readers->count == 0 || readers->data[readers->count - 1] != node) tn__vec_push(f->arena, readers, node);
    }
  }
}

/* ---- cycles ------------------------------------------------------------------------------------------------------ */

static bool is_target(int k, const int *targets, int count) {
  for (int i = 0; i < count; i++)
    if (targets[i] == k) return true;
  return false;
}

/* What would become one kernel: a node and the kernels that it is to be in. It may not when it then depended on
 * itself: when something leads from one of these kernels to the node, or to one of these again, by way of another
 * kernel or of a symbol that is read from memory. */
typedef struct joint {
  int node;
  const int *targets;
  int count;
} joint;

/* A search upwards from the joint takes long where much lies above it, and one downwards where much lies below, as
 * below a value with thousands of readers; mostly one of them is short. So both go as far as a budget, which grows. */
typedef enum verdict { GOES_ON, OUT_OF_BUDGET, NO_CYCLE, CYCLE } verdict;
enum { FIRST_BUDGET = 64 };

static bool is_of_joint(const joint *j, int k) { return k >= 0 && is_target(k, j->targets, j->count); }

static verdict leave_for_later(fuser *f, int node, bool outside, int by) {
  pending p = {node, outside, by};
  if (--f->budget < 0) return OUT_OF_BUDGET;
  tn__vec_push(f->arena, &f->stack, p);
  return GOES_ON;
}

/* The kernel that `k` has become part of. */
static int merged(const fuser *f, int k) {
  while (k >= 0 && f->kernels.data[k].dead) k = f->kernels.data[k].merged_into;
  return k;
}

/* Kernel `by` depends on kernel `k`, and so do all on the way to it: whoever comes this way again need not go on. */
static verdict found_above(fuser *f, int k, int by) {
  for (; by >= 0; by = f->kernels.data[by].entered_by) f->kernels.data[by].above = k;
  return CYCLE;
}

/* What `node` depends on, the first operand on top. */
static verdict push_operands(fuser *f, const joint *j, int node, bool outside, int by) {
  const tn__node *n = tn__graph_node_at(f->graph, node);
  const index_list *deps = &f->shape_deps[node];
  verdict v = GOES_ON;
  for (int i = n->input_count + deps->count - 1; i >= 0 && v == GOES_ON; i--) {
    bool direct = outside && i < n->input_count;
    const tn__value *operand = i < n->input_count ? n->inputs[i] : NULL;
    int p = operand != NULL ? f->node_of_value[operand->id] : i < n->input_count ? -1 : deps->data[i - n->input_count];
    if (p < 0) continue;
    int k = f->kernel_of[p];
    v = !direct && is_of_joint(j, k) ? found_above(f, k, by) : leave_for_later(f, p, direct, by);
  }
  return v;
}

/* Kernels are nodes of the search: entering one means all of its operands. */
static verdict enter_above(fuser *f, const joint *j, int k, int by, int lowest) {
  kernel *kern = &f->kernels.data[k];
  verdict v = GOES_ON;
  if (is_of_joint(j, k) || kern->visited == f->stamp) return v;
  kern->visited = f->stamp;
  kern->entered_by = by;
  if (kern->members.data[kern->members.count - 1] < lowest) return v;
  int above = merged(f, kern->above);
  if (is_of_joint(j, above)) return found_above(f, above, k);
  for (int i = kern->members.count - 1; i >= 0 && v == GOES_ON; i--)
    v = push_operands(f, j, kern->members.data[i], false, k);
  return v;
}

static verdict search_above(fuser *f, const joint *j) {
  int lowest = f->kernels.data[j->targets[0]].first;
  for (int t = 1; t < j->count; t++)
    if (f->kernels.data[j->targets[t]].first < lowest) lowest = f->kernels.data[j->targets[t]].first;
  f->stamp++;
  f->stack.count = 0;
  verdict v = push_operands(f, j, j->node, true, -1);
  for (int t = 0; t < j->count; t++) {
    const kernel *k = &f->kernels.data[j->targets[t]];
    for (int i = 0; i < k->members.count && v == GOES_ON; i++) v = push_operands(f, j, k->members.data[i], true, -1);
  }
  while (f->stack.count > 0 && v == GOES_ON) {
    const pending p = f->stack.data[--f->stack.count];
    int k = f->kernel_of[p.node];
    uint32_t *seen = &f->seen[p.outside][p.node];
    if (k >= 0) {
      v = enter_above(f, j, k, p.by, lowest);
    } else if (*seen != f->stamp && p.node >= lowest) { /* cheap */
      *seen = f->stamp;
      v = push_operands(f, j, p.node, p.outside, p.by);
    }
  }
  return v == GOES_ON ? NO_CYCLE : v;
}

/* Looks at a node that depends on one which the search has come to. */
static verdict enter_below(fuser *f, const joint *j, int node, bool outside) {
  int k = f->kernel_of[node];
  verdict v = GOES_ON;
  if (--f->budget < 0) return OUT_OF_BUDGET;
  if (node == j->node || is_of_joint(j, k)) return outside ? GOES_ON : CYCLE;
  if (k < 0) { /* cheap */
    if (f->seen[outside][node] == f->stamp) return v;
    f->seen[outside][node] = f->stamp;
    return leave_for_later(f, node, outside, -1);
  }
  kernel *kern = &f->kernels.data[k];
  if (kern->visited == f->stamp) return v;
  kern->visited = f->stamp;
  for (int i = 0; i < kern->members.count && v == GOES_ON; i++)
    v = leave_for_later(f, kern->members.data[i], false, -1);
  return v;
}

/* Nodes behind the joint's are not in kernels yet, and nothing leads back from them. */
static verdict enter_readers(fuser *f, const joint *j, int node, bool outside) {
  const tn__node *n = tn__graph_node_at(f->graph, node);
  const index_list *shapes = &f->shape_readers[node];
  verdict v = GOES_ON;
  for (int o = 0; o < n->output_count; o++) {
    if (n->outputs[o] == NULL) continue;
    const int *reader = f->readers + f->first_reader[n->outputs[o]->id];
    const int *end = f->readers + f->first_reader[n->outputs[o]->id + 1];
    for (; reader < end && *reader <= j->node && v == GOES_ON; reader++) v = enter_below(f, j, *reader, outside);
  }
  for (int i = 0; i < shapes->count && shapes->data[i] <= j->node && v == GOES_ON; i++)
    v = enter_below(f, j, shapes->data[i], false);
  return v;
}

static verdict search_below(fuser *f, const joint *j) {
  verdict v = GOES_ON;
  f->stamp++;
  f->stack.count = 0;
  for (int t = 0; t < j->count; t++) {
    const kernel *k = &f->kernels.data[j->targets[t]];
    for (int i = 0; i < k->members.count && v == GOES_ON; i++) v = leave_for_later(f, k->members.data[i], true, -1);
  }
  while (f->stack.count > 0 && v == GOES_ON) {
    const pending p = f->stack.data[--f->stack.count];
    v = enter_readers(f, j, p.node, p.outside);
  }
  return v == GOES_ON ? NO_CYCLE : v;
}

/* Would one kernel of `node` and the targets depend on itself through others? */
static bool makes_cycle(fuser *f, int node, const int *targets, int count) {
  const joint j = {node, targets, count};
  for (int64_t budget = FIRST_BUDGET;; budget *= 2)
    for (int way = 0; way < 2; way++) {
      f->budget = budget;
      verdict v = way == 0 ? search_below(f, &j) : search_above(f, &j);
      tn__work_step(f->arena, (uint64_t)(budget - f->budget));
      if (v != OUT_OF_BUDGET) return v == CYCLE;
    }
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

/* Are all values of kernel k that `node` reads (through cheap nodes too) read by nobody else? */
static bool only_reader(fuser *f, int k, const tn__node *node) {
  for (int i = 0; i < node->input_count; i++) {
    const tn__value *v = node->inputs[i];
    if (!v) continue;
    int p = f->node_of_value[v->id];
    if (p < 0 || f->kernel_of[p] != k) continue;
    int reads = 0;
    for (int j = 0; j < node->input_count; j++) reads += node->inputs[j] == v;
    if (f->uses[v->id] != reads) return false;
  }
  return true;
}

/* One number for each row of a kernel? */
static bool counts_rows(const kernel *k, const tn__value *v) {
  const tn__attr *axes = tn__node_attr(k->rows, "axes");
  const tn__expr *dims[TN__MAX_RANK];
  tn__value rows = {.dims = dims};
  for (int i = 0; i < k->space->rank; i++) {
    bool along = false;
    for (int a = 0; a < axes->count; a++) along |= axes->ints[a] == i;
    if (!along) dims[rows.rank++] = k->space->dims[i];
  }
  return same_space(v, &rows);
}

static bool fits_row(const kernel *k, const tn__node *n) {
  return same_space(n->outputs[0], k->space) || counts_rows(k, n->outputs[0]);
}

/* Nodes of an epilogue in which a value is read more than once: GELU reads x twice. */
#define MAX_EPILOGUE_NODES 16

typedef struct epilogue {
  int nodes[MAX_EPILOGUE_NODES], count;
  const tn__value *open[MAX_EPILOGUE_NODES + 1]; /* what has readers that are not among the nodes yet ... */
  int left[MAX_EPILOGUE_NODES + 1], open_count;  /* ... and how many */
} epilogue;

static int reads_of(const tn__node *n, const tn__value *v) {
  int reads = 0;
  for (int i = 0; i < n->input_count; i++) reads += n->inputs[i] == v;
  return reads;
}

/* The first node behind the last one that reads an open value; -1: nobody does. */
static int next_reader(const fuser *f, const epilogue *e) {
  int last = e->count > 0 ? e->nodes[e->count - 1] : -1, next = -1;
  for (int o = 0; o < e->open_count; o++) {
    int id = e->open[o]->id;
    for (int r = f->first_reader[id]; r < f->first_reader[id + 1]; r++)
      if (f->readers[r] > last && (next < 0 || f->readers[r] < next)) next = f->readers[r];
  }
  return next;
}

/* When several nodes read the result of a CONTRACTION kernel, but all that comes of it ends in one value again, the
 * element-wise nodes between are an epilogue: they are claimed for the kernel, since one alone may not join. */
static void claim_epilogue(fuser *f, int index, const tn__value *result) {
  const kernel *k = &f->kernels.data[index];
  epilogue e = {.open = {result}, .left = {f->uses[result->id]}, .open_count = 1};
  if (k->kind != KERNEL_CONTRACTION || k->constant || f->uses[result->id] < 2) return;
  do {
    int node = next_reader(f, &e);
    if (node < 0 || e.count == MAX_EPILOGUE_NODES || k->members.count + e.count >= MAX_KERNEL_NODES) return;
    const tn__node *n = tn__graph_node_at(f->graph, node);
    if (n->op->op_class != TN__CLASS_ELEMENTWISE || n->op->lowering != TN__LOWER_DECLARE || n->output_count != 1 ||
        is_cheap(n) || tn__node_is_view(n) || !same_shape(n->outputs[0], k->space))
      return;
    e.nodes[e.count++] = node;
    int kept = 0;
    for (int o = 0; o < e.open_count; o++) {
      e.left[kept] = e.left[o] - reads_of(n, e.open[o]);
      e.open[kept] = e.open[o];
      kept += e.left[kept] > 0;
    }
    e.open[kept] = n->outputs[0];
    e.left[kept] = f->uses[n->outputs[0]->id];
    e.open_count = kept + 1;
  } while (e.open_count > 1);
  for (int i = 0; i < e.count; i++) f->claimed[e.nodes[i]] = index;
}

static bool can_join(fuser *f, int index, int node, const tn__node *n) {
  const kernel *k = &f->kernels.data[index];
  tn__op_class class = n->op->op_class;
  if (k->kind == KERNEL_ALONE || k->members.count >= MAX_KERNEL_NODES || k->apart) return false;
  if (tn__node_is_view(n)) return k->kind == KERNEL_ROW && is_unit_reshape(n) && fits_row(k, n);
  switch (k->kind) {
    case KERNEL_MAP:
      if (class == TN__CLASS_ELEMENTWISE) return same_shape(n->outputs[0], k->space);
      if (class == TN__CLASS_INJECTIVE) return only_reader(f, index, n) && same_shape(n->inputs[0], k->space);
      if (is_over_rows(n)) return same_space(n->inputs[0], k->space);
      return false;
    case KERNEL_ROW:
      if (class == TN__CLASS_ELEMENTWISE) return fits_row(k, n);
      return is_over_rows(n) && same_space(n->inputs[0], k->space) && same_axes(n, k->rows);
    case KERNEL_CONTRACTION:
      if (f->claimed[node] == index) return true;
      return class == TN__CLASS_ELEMENTWISE && same_shape(n->outputs[0], k->space) && only_reader(f, index, n);
    default: return false;
  }
}

/* Kernels that produce what `node` reads, looking through cheap nodes; without duplicates. */
TN_MUST_USE static int producers_of(fuser *f, int node, int *out, int capacity) {
  int count = 0;
  f->stamp++;
  f->stack.count = 0;
  const tn__node *n = tn__graph_node_at(f->graph, node);
  for (;;) {
    for (int i = n->input_count - 1; i >= 0; i--) {
      pending p = {n->inputs[i] ? f->node_of_value[n->inputs[i]->id] : -1, true, -1};
      if (p.node >= 0) tn__vec_push(f->arena, &f->stack, p);
    }
    int cheap = -1;
    while (cheap < 0 && f->stack.count > 0) {
      int p = f->stack.data[--f->stack.count].node, k = f->kernel_of[p];
      if (k >= 0) {
        if (!is_target(k, out, count) && count < capacity) out[count++] = k;
      } else if (f->seen[true][p] != f->stamp) {
        f->seen[true][p] = f->stamp;
        cheap = p;
      }
    }
    if (cheap < 0) return count;
    n = tn__graph_node_at(f->graph, cheap);
  }
}

static void add_member(fuser *f, kernel *k, int node) {
  tn__vec_push(f->arena, &k->members, node);
  for (int i = k->members.count - 1; i > 0 && k->members.data[i - 1] > k->members.data[i]; i--) {
    int t = k->members.data[i];
    k->members.data[i] = k->members.data[i - 1];
    k->members.data[i - 1] = t;
  }
  if (node < k->first) k->first = node;
}

static void merge_into(fuser *f, int target, int other) {
  kernel *t = &f->kernels.data[target], *o = &f->kernels.data[other];
  for (int i = 0; i < o->members.count; i++) {
    f->kernel_of[o->members.data[i]] = target;
    add_member(f, t, o->members.data[i]);
  }
  o->dead = true;
  o->merged_into = target;
}

/* May MAP kernel `other`, which n reads as well, become part of kernel `main`? */
static bool can_absorb(fuser *f, int main_kernel, int other, const tn__node *n) {
  const kernel *m = &f->kernels.data[main_kernel], *o = &f->kernels.data[other];
  if (o->kind != KERNEL_MAP || o->apart || m->apart || m->members.count + o->members.count >= MAX_KERNEL_NODES)
    return false;
  if (m->kind == KERNEL_CONTRACTION) return same_shape(o->space, m->space) && only_reader(f, other, n);
  if (m->kind == KERNEL_ROW) return same_space(o->space, m->space);
  return same_shape(o->space, m->space);
}

static int rank_of_kind(kernel_kind k) { return k == KERNEL_CONTRACTION ? 2 : k == KERNEL_ROW ? 1 : 0; }

static int new_kernel(fuser *f, int node, const tn__node *n, bool constant) {
  kernel k = {.first = node, .constant = constant, .entered_by = -1, .above = -1};
  tn__op_class class = n->op->op_class;
  k.kind = n->op->lowering != TN__LOWER_DECLARE ? KERNEL_ALONE
           : tn__node_is_view(n)                ? KERNEL_ALONE
           : is_over_rows(n)                    ? KERNEL_ROW
           : class == TN__CLASS_CONTRACTION     ? KERNEL_CONTRACTION
           : (class == TN__CLASS_ELEMENTWISE || class == TN__CLASS_INJECTIVE) && n->output_count == 1 ? KERNEL_MAP
                                                                                                      : KERNEL_ALONE;
  k.space = k.kind == KERNEL_ROW ? n->inputs[0] : n->outputs[0];
  k.rows = k.kind == KERNEL_ROW ? n : NULL;
  add_member(f, &k, node);
  tn__vec_push(f->arena, &f->kernels, k);
  f->kernel_of[node] = f->kernels.count - 1;
  return f->kernels.count - 1;
}

static void join(fuser *f, int target, int node, const tn__node *n) {
  kernel *k = &f->kernels.data[target];
  add_member(f, k, node);
  f->kernel_of[node] = target;
  if (is_over_rows(n) && k->kind == KERNEL_MAP) {
    k->kind = KERNEL_ROW;
    k->space = n->inputs[0];
    k->rows = n;
  }
  if (k->kind == KERNEL_MAP) k->space = n->outputs[0];
}

/* "add(f32[8, 64], f32[8, 64])" */
static void describe(const tn__node *n, tn__strbuf *out) {
  tn__strbuf_printf(out, "%s(", n->op->name);
  for (int i = 0; i < n->input_count; i++) {
    const tn__value *v = n->inputs[i];
    if (v == NULL) continue;
    tn__strbuf_printf(out, "%s%s[", i > 0 ? ", " : "", tn_dtype_name(v->dtype));
    for (int d = 0; d < v->rank; d++)
      tn__strbuf_printf(out, "%s%lld", d > 0 ? ", " : "", (long long)tn__g_dim_const(v, d));
    tn__strbuf_append(out, "]");
  }
  tn__strbuf_append(out, ")");
}

/* What a kernel has, what is to join it, and who reads that. */
static const char *describe_site(fuser *f, const kernel *k, int node) {
  tn__strbuf text;
  tn__strbuf_init(&text, f->arena->allocator);
  for (int i = 0; i < k->members.count; i++) {
    describe(tn__graph_node_at(f->graph, k->members.data[i]), &text);
    tn__strbuf_append(&text, ", ");
  }
  const tn__node *n = tn__graph_node_at(f->graph, node);
  tn__strbuf_append(&text, "then ");
  describe(n, &text);
  int id = n->outputs[0]->id;
  for (int r = f->first_reader[id]; r < f->first_reader[id + 1]; r++)
    tn__strbuf_printf(&text, " %s", tn__graph_node_at(f->graph, f->readers[r])->op->name);
  return tn__arena_take(f->arena, &text);
}

/* Is it better for the node not to join, though it could? That is asked for the first one behind a product or
 * convolution, and the first one over rows behind maps, and holds for all that follow. */
static bool stays_apart(fuser *f, int index, int node, const tn__node *n) {
  kernel *k = &f->kernels.data[index];
  bool product = k->kind == KERNEL_CONTRACTION, rows = k->kind == KERNEL_MAP && is_over_rows(n);
  if (f->options == NULL || f->options->decide == NULL || k->constant || k->asked || !(product || rows)) return false;
  const tn__site site = {
      .kind = "fusion", .text = describe_site(f, k, node), .usual = 1, .choices = {0, 1}, .choice_count = 2};
  k->asked = true;
  k->apart = tn__pass_decide(f->options, &site) == 0;
  for (int i = 0; k->apart && i < f->node_count; i++)
    if (f->claimed[i] == index) f->claimed[i] = -1;
  return k->apart;
}

static void place(fuser *f, int node, bool constant) {
  const tn__node *n = tn__graph_node_at(f->graph, node);
  int producers[MAX_KERNEL_BUFFERS], count = producers_of(f, node, producers, MAX_KERNEL_BUFFERS);
  if (n->op->lowering != TN__LOWER_DECLARE || n->input_count > MAX_KERNEL_BUFFERS) count = 0;
  int best = -1;
  for (int i = 0; i < count; i++) {
    int k = producers[i];
    TN__INVARIANT(k < f->kernels.count); /* producers_of() tells of kernels that are there */
    if (f->claimed[node] >= 0 && f->claimed[node] != k) continue;
    if (f->kernels.data[k].constant != constant || !can_join(f, k, node, n) || makes_cycle(f, node, &k, 1)) continue;
    if (best < 0 || rank_of_kind(f->kernels.data[k].kind) > rank_of_kind(f->kernels.data[best].kind)) best = k;
  }
  if (best >= 0 && stays_apart(f, best, node, n)) {
    place(f, node, constant); /* with another that it reads, maybe */
    return;
  }
  if (best < 0) {
    claim_epilogue(f, new_kernel(f, node, n, constant), n->outputs[0]);
    return;
  }
  for (int i = 0; i < count; i++) {
    int pair[2] = {best, producers[i]};
    if (pair[1] == best || f->kernels.data[pair[1]].constant != constant || !can_absorb(f, best, pair[1], n)) continue;
    if (!makes_cycle(f, node, pair, 2)) merge_into(f, best, pair[1]);
  }
  join(f, best, node, n);
  claim_epilogue(f, best, n->outputs[0]);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Scores of more keys have no block of rows that L2 holds; of fewer rows, nothing is reused. */
enum { MOST_KEYS = 16384, LEAST_ROWS = 8 };

static const tn__node *product_in(const fuser *f, int index) {
  const kernel *k = &f->kernels.data[index];
  for (int i = 0; i < k->members.count; i++) {
    const tn__node *n = tn__graph_node_at(f->graph, k->members.data[i]);
    if (n->op->op_class == TN__CLASS_CONTRACTION) return n;
  }
  return NULL;
}

static bool is_in(const fuser *f, int node, int a, int b) {
  return f->kernel_of[node] >= 0 && (f->kernel_of[node] == a || f->kernel_of[node] == b);
}

/* Do only nodes of kernels `a` and `b` read this value, maybe through broadcasts? */
static bool is_read_in(const fuser *f, const tn__value *v, int a, int b) {
  int reads = 0;
  for (int r = f->first_reader[v->id]; r < f->first_reader[v->id + 1]; r++, reads++) {
    if (is_in(f, f->readers[r], a, b)) continue;
    const tn__node *cheap = tn__graph_node_at(f->graph, f->readers[r]);
    if (f->kernel_of[f->readers[r]] >= 0 || !is_cheap(cheap)) return false;
    int id = cheap->outputs[0]->id, copies = 0;
    for (int c = f->first_reader[id]; c < f->first_reader[id + 1]; c++, copies++)
      if (!is_in(f, f->readers[c], a, b)) return false;
    if (copies != f->uses[id]) return false;
  }
  return reads == f->uses[v->id]; /* else a graph output */
}

/* Are all results of kernel `a` read in `a` and `b` alone? */
static bool feeds_only(const fuser *f, int a, int b) {
  const kernel *k = &f->kernels.data[a];
  for (int i = 0; i < k->members.count; i++) {
    const tn__node *n = tn__graph_node_at(f->graph, k->members.data[i]);
    for (int o = 0; o < n->output_count; o++)
      if (!is_read_in(f, n->outputs[o], a, b)) return false;
  }
  return true;
}

static bool is_counting(const tn__attr *axes, int count) {
  for (int i = 0; i < count; i++)
    if (axes->ints[i] != i) return false;
  return axes->count == count;
}

/* A product over batches of f32 matrices that come from the run. */
static bool is_score_product(const tn__node *n) {
  const tn__attr *contract = tn__node_attr(n, "lhs_contract"), *batch = tn__node_attr(n, "lhs_batch");
  int rank = n->outputs[0]->rank;
  if (contract == NULL || batch == NULL || tn__node_reads_layout(n) || rank < 3 || n->outputs[0]->dtype != TN_F32)
    return false;
  if (n->inputs[0]->rank != rank || n->inputs[1]->rank != rank) return false;
  if (contract->count != 1 || batch->count != rank - 2) return false;
  return n->inputs[0]->dtype == TN_F32 && n->inputs[1]->dtype == TN_F32;
}

static bool is_known(const tn__value *v, int dim) { return tn__g_dim_const(v, dim) >= 0; }

/* Rows of scores and columns of a result that a kernel of both products can be made for. */
bool tn__pass_suits_attention(const tn__node *scores, const tn__node *product) {
  if (!is_score_product(scores) || !is_score_product(product)) return false;
  const tn__value *weights = product->inputs[0];
  int rank = weights->rank;
  const tn__attr *contract = tn__node_attr(product, "rhs_contract"), *batch = tn__node_attr(product, "rhs_batch");
  if (tn__node_attr(product, "lhs_contract")->ints[0] != rank - 1) return false;
  if (!is_counting(tn__node_attr(product, "lhs_batch"), rank - 2)) return false;
  for (int i = 0; i < batch->count; i++)
    if (batch->ints[i] == rank - 1) return false;
  if (contract->ints[0] == rank - 1) return false; /* values are read along their columns */
  /* Any number of queries and keys may come, but the head's size decides about tiles. */
  if (!is_known(scores->inputs[0], (int)tn__node_attr(scores, "lhs_contract")->ints[0])) return false;
  if (!is_known(product->outputs[0], product->outputs[0]->rank - 1)) return false;
  if (tn__g_dim_const(weights, rank - 1) > MOST_KEYS) return false;
  return !is_known(weights, rank - 2) || tn__g_dim_const(weights, rank - 2) >= LEAST_ROWS;
}

/* One softmax along the last dimension, with maps around it. */
static bool is_softmax(const fuser *f, const kernel *k, int rank) {
  bool found = false;
  for (int i = 0; i < k->members.count; i++) {
    const tn__node *n = tn__graph_node_at(f->graph, k->members.data[i]);
    if (n->outputs[0]->dtype != TN_F32) return false;
    if (!is_over_rows(n)) continue;
    const tn__attr *axes = tn__node_attr(n, "axes");
    if (found || !tn__op_has(n, TN__FACT_WEIGHTS) || n->inputs[0]->rank != rank || axes->ints[0] != rank - 1)
      return false;
    found = true;
  }
  return found;
}

/* Products whose left operand is a softmax of another product's rows take both into their kernel: rows of scores then
 * never leave the caches (schedule/rules/attention.c). */
static void join_attention(fuser *f, int index) {
  kernel *k = &f->kernels.data[index];
  const tn__node *product = k->kind == KERNEL_CONTRACTION && !k->dead && !k->constant ? product_in(f, index) : NULL;
  if (product == NULL || !is_score_product(product)) return;
  const tn__value *weights = product->inputs[0];
  int rank = weights->rank, p = f->node_of_value[weights->id], rows = p < 0 ? -1 : f->kernel_of[p], first = -1;
  if (rows < 0 || f->kernels.data[rows].kind != KERNEL_ROW || !feeds_only(f, rows, index)) return;
  const kernel *softmax = &f->kernels.data[rows];
  if (!is_softmax(f, softmax, rank) || !same_shape(softmax->space, weights)) return;
  int producers[MAX_KERNEL_BUFFERS];
  for (int m = 0; m < softmax->members.count; m++) {
    int count = producers_of(f, softmax->members.data[m], producers, MAX_KERNEL_BUFFERS);
    for (int i = 0; i < count; i++) {
      const kernel *scores = &f->kernels.data[producers[i]];
      if (producers[i] == rows || scores->kind != KERNEL_CONTRACTION || !same_shape(scores->space, weights)) continue;
      if (first >= 0 && first != producers[i]) return;
      first = producers[i];
    }
  }
  const tn__node *scores = first < 0 || first == index ? NULL : product_in(f, first);
  if (scores == NULL || f->kernels.data[first].constant || !feeds_only(f, first, rows)) return;
  if (!tn__pass_suits_attention(scores, product)) return;
  if (k->members.count + softmax->members.count + f->kernels.data[first].members.count > MAX_KERNEL_NODES) return;
  merge_into(f, index, rows);
  merge_into(f, index, first);
  tn__vec_push(f->arena, &f->attentions, tn__graph_node_at(f->graph, f->node_of_value[product->outputs[0]->id]));
}

/* ---- products that are written in another order ------------------------------------------------------------------ */

/* The last dimension of more than one element before dimension `end`; -1: none. */
static int last_of_several(const tn__value *v, int end) {
  for (int i = end - 1; i >= 0; i--)
    if (!tn__ir_is_int_value(v->dims[i], 1)) return i;
  return -1;
}

/* Can a product write its result as this transposes it? In vectors along its columns as before, or along its rows, when
 * its tiles are turned in registers on their way (schedule/rules/contraction.c): a few rows would not fill vectors. */
static bool writes_turned(const tn__node *product, const tn__node *transpose) {
  enum { LEAST_ROWS_TO_TURN = 8 };
  tn__contraction c;
  const tn__value *result = product->outputs[0];
  const tn__attr *batch = tn__node_attr(product, "lhs_batch");
  int last = last_of_several(transpose->outputs[0], result->rank);
  if (product->op->contraction == NULL || last < 0) return false;
  product->op->contraction(product, &c);
  int column = last_of_several(result, result->rank), row = column < 0 ? -1 : last_of_several(result, column);
  int64_t lies = tn__node_attr(transpose, "permutation")->ints[last];
  if (c.column != column || lies == column) return c.column == column;
  int64_t rows = row < 0 ? 0 : tn__g_dim_const(result, row);
  return lies == row && row >= (batch == NULL ? 0 : batch->count) && (rows < 0 || rows >= LEAST_ROWS_TO_TURN);
}

/* A MAP kernel that transposes what a product makes, and nobody else reads, becomes that product's epilogue: one pass
 * through memory less each way. Attention, which is looked for first, wants its products as they are. */
static void join_transpose(fuser *f, int index) {
  const kernel *k = &f->kernels.data[index];
  const tn__node *transpose = tn__graph_node_at(f->graph, k->members.data[0]);
  if (k->dead || k->constant || k->kind != KERNEL_MAP || tn__node_attr(transpose, "permutation") == NULL) return;
  const tn__value *made = transpose->inputs[0];
  int p = f->node_of_value[made->id], from = p < 0 ? -1 : f->kernel_of[p], pair[2] = {from, index};
  if (from < 0 || f->kernels.data[from].kind != KERNEL_CONTRACTION || f->kernels.data[from].constant) return;
  const tn__node *product = product_in(f, from);
  if (!same_shape(product->outputs[0], made) || !writes_turned(product, transpose)) return;
  if (k->members.count + f->kernels.data[from].members.count > MAX_KERNEL_NODES || f->uses[made->id] != 1) return;
  for (int i = 0; i < k->members.count; i++) { /* one of them makes the result, the last */
    const tn__node *n = tn__graph_node_at(f->graph, k->members.data[i]);
    bool last = i + 1 == k->members.count;
    if (i > 0 && n->op->op_class != TN__CLASS_ELEMENTWISE) return;
    if (!last && !is_read_in(f, n->outputs[0], index, index)) return;
  }
  if (!makes_cycle(f, k->members.data[0], pair, 2)) merge_into(f, from, index);
}

static void find_readers(fuser *f, int value_count) {
  int total = 0;
  f->first_reader = TN__NEW_ARRAY(f->arena, value_count + 2, int);
  for (int pass = 0; pass < 2; pass++) { /* counts, then places: first_reader[v + 1] goes up as v's are written */
    for (int i = 0; i < f->node_count; i++) {
      const tn__node *n = tn__graph_node_at(f->graph, i);
      for (int j = 0; j < n->input_count; j++) {
        if (n->inputs[j] == NULL) continue;
        int *at = &f->first_reader[n->inputs[j]->id + 1];
        if (pass == 1) f->readers[*at] = i;
        *at += 1;
      }
    }
    if (pass == 1) return;
    for (int v = 0; v <= value_count; v++) {
      int count = f->first_reader[v + 1];
      f->first_reader[v + 1] = total;
      total += count;
    }
    f->readers = TN__NEW_ARRAY(f->arena, total + 1, int);
  }
}

/* ---- result ------------------------------------------------------------------------------------------------------ */

/* Which cheap producers a kernel has copies of. Maps read inputs by strides where they are. Others find them in memory,
 * in order, so that they are the kernels, with the decisions, that dense inputs have, and results are the same to the
 * bit. */
typedef enum inlining { INLINE_NOTHING, INLINE_CHEAP, INLINE_STRIDED } inlining;

/* A kernel or a cheap node in memory is emitted when all that it depends on has been. */
typedef enum task_kind { TASK_KERNEL, TASK_KERNEL_READY, TASK_STORED, TASK_STORED_READY, TASK_LOOK_THROUGH } task_kind;
typedef struct task {
  task_kind kind;
  int index;        /* of the kernel or node */
  uint32_t owner;   /* LOOK_THROUGH: number of the task that the copy is for */
  inlining inlined; /* LOOK_THROUGH: what that has copies of */
} task;

typedef struct emitter {
  fuser *f;
  tn__groups groups;
  bool *emitted;   /* kernel -> already in groups */
  bool *stored;    /* cheap node -> has a group of its own */
  uint32_t *added; /* cheap node -> number of the last group that got a copy of it */
  uint32_t last_group;
  bool *wanted;     /* value id -> read by another kernel, or a graph output */
  uint32_t *walked; /* cheap node -> number of the last task that looked through it */
  uint32_t last_task;
  TN__VEC(task) tasks;
} emitter;

static bool copies(const fuser *f, int producer, inlining inlined) {
  if (f->kernel_of[producer] >= 0 || inlined == INLINE_NOTHING) return false;
  return inlined == INLINE_STRIDED || !is_strided(tn__graph_node_at(f->graph, producer));
}

/* Appends the cheap producers of node `of` that the group does not have yet, operands first. */
static void add_cheap(emitter *e, int of, uint32_t group, inlining inlined, index_list *nodes) {
  fuser *f = e->f;
  f->stack.count = 0;
  pending p = {of, true, -1}; /* outside: its operands come first */
  tn__vec_push(f->arena, &f->stack, p);
  while (f->stack.count > 0) {
    p = f->stack.data[--f->stack.count];
    if (!p.outside) {
      tn__vec_push(f->arena, nodes, p.node);
      continue;
    }
    if (p.node != of) {
      if (e->added[p.node] == group) continue;
      e->added[p.node] = group;
      pending after = {p.node, false, -1};
      tn__vec_push(f->arena, &f->stack, after);
    }
    const tn__node *n = tn__graph_node_at(f->graph, p.node);
    for (int i = n->input_count - 1; i >= 0; i--) {
      pending operand = {n->inputs[i] ? f->node_of_value[n->inputs[i]->id] : -1, true, -1};
      if (operand.node >= 0 && copies(f, operand.node, inlined)) tn__vec_push(f->arena, &f->stack, operand);
    }
  }
}

/* Can this kernel hold copies of cheap producers? Views, copies between devices and what has no declaration need their
 * operands in memory. */
static bool inlines_cheap(const tn__node *n) {
  return n->op->lowering == TN__LOWER_DECLARE && !tn__node_is_view(n) && !tn__op_has(n, TN__FACT_COPIES);
}

static void push_task(emitter *e, task_kind kind, int index, uint32_t owner, inlining inlined) {
  task t = {kind, index, owner, inlined};
  tn__vec_push(e->f->arena, &e->tasks, t);
}

static void push_producer(emitter *e, int p, inlining inlined, uint32_t owner) {
  int k = e->f->kernel_of[p];
  if (k >= 0)
    push_task(e, TASK_KERNEL, k, 0, INLINE_NOTHING);
  else
    push_task(e, copies(e->f, p, inlined) ? TASK_LOOK_THROUGH : TASK_STORED, p, owner, inlined);
}

/* What must be emitted before `node`, the first operand on top. */
static void push_producers(emitter *e, int node, inlining inlined, uint32_t owner) {
  const fuser *f = e->f;
  const tn__node *n = tn__graph_node_at(f->graph, node);
  for (int i = f->shape_deps[node].count - 1; i >= 0; i--)
    push_producer(e, f->shape_deps[node].data[i], INLINE_NOTHING, owner);
  for (int i = n->input_count - 1; i >= 0; i--) {
    int p = n->inputs[i] ? f->node_of_value[n->inputs[i]->id] : -1;
    if (p >= 0) push_producer(e, p, inlined, owner);
  }
}

/* Members of kernel `owner` (-1: the last node alone) among the nodes may be outputs; the others are copies. */
static void push_group(emitter *e, const index_list *nodes, int owner, bool view, bool constant) {
  fuser *f = e->f;
  int count = nodes->count;
  tn__group g = {.graph = f->graph, .node_count = count, .view = view, .constant = constant};
  g.nodes = TN__NEW_ARRAY(f->arena, count, tn__node *);
  int outputs = 0;
  for (int i = 0; i < count; i++) {
    g.nodes[i] = tn__graph_node_at(f->graph, nodes->data[i]);
    outputs += g.nodes[i]->output_count;
  }
  g.outputs = TN__NEW_ARRAY(f->arena, outputs, tn__value *);
  bool all = count == 1 && g.nodes[0]->op->expand == NULL; /* of a body there is as much as is wanted */
  for (int i = 0; i < count; i++)
    for (int o = 0; o < g.nodes[i]->output_count; o++) {
      tn__value *v = g.nodes[i]->outputs[o];
      bool own = owner < 0 ? i == count - 1 : f->kernel_of[nodes->data[i]] == owner;
      if (own && v && (e->wanted[v->id] || all)) g.outputs[g.output_count++] = v;
    }
  e->groups.groups[e->groups.count++] = g;
}

/* A cheap node whose value somebody needs in memory. */
static void finish_stored(emitter *e, int node) {
  fuser *f = e->f;
  index_list nodes = {0};
  add_cheap(e, node, ++e->last_group, INLINE_STRIDED, &nodes);
  tn__vec_push(f->arena, &nodes, node);
  e->wanted[tn__graph_node_at(f->graph, node)->outputs[0]->id] = true;
  push_group(e, &nodes, -1, false, f->constant[node]);
}

static const tn__node *head_of(const emitter *e, const kernel *k) {
  return tn__graph_node_at(e->f->graph, k->members.data[0]);
}

static inlining inlining_of(const emitter *e, const kernel *k) {
  if (!inlines_cheap(head_of(e, k)) && k->members.count == 1) return INLINE_NOTHING;
  return k->kind == KERNEL_MAP ? INLINE_STRIDED : INLINE_CHEAP;
}

static void finish_kernel(emitter *e, int k) {
  fuser *f = e->f;
  const kernel *kern = &f->kernels.data[k];
  inlining inlined = inlining_of(e, kern);
  index_list nodes = {0};
  uint32_t group = ++e->last_group;
  for (int i = 0; i < kern->members.count; i++) {
    add_cheap(e, kern->members.data[i], group, inlined, &nodes);
    tn__vec_push(f->arena, &nodes, kern->members.data[i]);
  }
  push_group(e, &nodes, k, kern->members.count == 1 && tn__node_is_view(head_of(e, kern)), kern->constant);
}

static void do_task(emitter *e, const task *t) {
  switch (t->kind) {
    case TASK_KERNEL: {
      if (e->emitted[t->index]) return;
      e->emitted[t->index] = true;
      const kernel *k = &e->f->kernels.data[t->index];
      inlining inlined = inlining_of(e, k);
      uint32_t number = ++e->last_task;
      push_task(e, TASK_KERNEL_READY, t->index, 0, INLINE_NOTHING);
      for (int i = k->members.count - 1; i >= 0; i--) push_producers(e, k->members.data[i], inlined, number);
      return;
    }
    case TASK_STORED:
      if (e->stored[t->index]) return;
      e->stored[t->index] = true;
      push_task(e, TASK_STORED_READY, t->index, 0, INLINE_NOTHING);
      push_producers(e, t->index, INLINE_STRIDED, ++e->last_task);
      return;
    case TASK_LOOK_THROUGH:
      if (e->walked[t->index] == t->owner) return;
      e->walked[t->index] = t->owner;
      push_producers(e, t->index, t->inlined, t->owner);
      return;
    case TASK_KERNEL_READY: finish_kernel(e, t->index); return;
    case TASK_STORED_READY: finish_stored(e, t->index); return;
  }
}

static void emit(emitter *e, task_kind kind, int index) {
  push_task(e, kind, index, 0, INLINE_NOTHING);
  while (e->tasks.count > 0) {
    const task t = e->tasks.data[--e->tasks.count];
    do_task(e, &t);
  }
}

enum { NO_READER = -1, SEVERAL_READERS = -2 };

/* For each value: the one kernel that all of its readers are in; a cheap reader or a graph output counts as several. */
static int *reading_kernels(fuser *f, int value_count) {
  int *reader = TN__NEW_ARRAY(f->arena, value_count, int);
  for (int v = 0; v < value_count; v++) reader[v] = NO_READER;
  for (int i = 0; i < f->node_count; i++) {
    const tn__node *n = tn__graph_node_at(f->graph, i);
    int k = f->kernel_of[i] >= 0 ? f->kernel_of[i] : SEVERAL_READERS;
    for (int j = 0; j < n->input_count; j++) {
      if (!n->inputs[j]) continue;
      int *r = &reader[n->inputs[j]->id];
      *r = *r == NO_READER || *r == k ? k : SEVERAL_READERS;
    }
  }
  for (int o = 0; o < tn__graph_output_count(f->graph); o++)
    reader[tn__graph_output_at(f->graph, o)->id] = SEVERAL_READERS;
  return reader;
}

/* Values that leave their kernel: read by a node of another kernel, or graph outputs. A cheap reader may be copied into
 * any kernel: then the value must be in memory unless all that read the copy are inside. */
static void find_wanted(emitter *e, int value_count) {
  fuser *f = e->f;
  const int *reader = reading_kernels(f, value_count);
  for (int i = 0; i < f->node_count; i++) {
    const tn__node *n = tn__graph_node_at(f->graph, i);
    for (int j = 0; j < n->input_count; j++) {
      int p = n->inputs[j] ? f->node_of_value[n->inputs[j]->id] : -1;
      if (p < 0 || f->kernel_of[p] < 0 || f->kernel_of[i] == f->kernel_of[p]) continue;
      int k = f->kernel_of[i] < 0 ? reader[n->outputs[0]->id] : SEVERAL_READERS;
      if (k != NO_READER && k != f->kernel_of[p]) e->wanted[n->inputs[j]->id] = true;
    }
  }
  for (int o = 0; o < tn__graph_output_count(f->graph); o++) e->wanted[tn__graph_output_at(f->graph, o)->id] = true;
  for (int s = 0; s < tn__graph_symbol_count(f->graph); s++) {
    const tn__symbol *symbol = tn__graph_symbol_at(f->graph, s);
    if (symbol->source == TN__SYMBOL_ELEMENT) e->wanted[symbol->value->id] = true;
  }
}

/* More elements than this are the run's to compute, not the compiler's. */
#define MAX_CONSTANT_ELEMENTS (INT64_C(1) << 32)

static bool is_huge(const tn__value *v) {
  int64_t total = 1;
  for (int i = 0; i < v->rank; i++) {
    int64_t dim = tn__g_dim_const(v, i);
    if (dim < 0 || (dim > 0 && total > MAX_CONSTANT_ELEMENTS / dim)) return true;
    total *= dim;
  }
  return false;
}

/* What the compiler may compute of constants, in bytes: weights are turned, packed and transformed, each of which makes
 * another tensor of up to four times the size, and tables are made of few numbers. What is beyond that, a run computes.
 * Broadcasts are no tensors unless somebody needs them as such, so they only have to fit. */
#define CONSTANTS_AT_LEAST (INT64_C(256) << 20)
#define CONSTANTS_PER_BYTE 16

static int64_t bytes_of(const tn__value *v) {
  int64_t bytes = (int64_t)tn__dtype_stored(v->dtype);
  for (int i = 0; i < v->rank; i++)
    bytes = tn__ir_bound_mul(bytes, tn__g_dim_const(v, i) < 0 ? 1 : tn__g_dim_const(v, i));
  return bytes;
}

static int64_t constants_allowance(const fuser *f) {
  int64_t given = 0;
  for (int i = 0; i < f->node_count; i++) {
    const tn__node *n = tn__graph_node_at(f->graph, i);
    for (int j = 0; j < n->input_count; j++)
      if (n->inputs[j] && n->inputs[j]->data && !n->inputs[j]->splat &&
          f->readers[f->first_reader[n->inputs[j]->id]] == i)
        given = tn__ir_bound_add(given, bytes_of(n->inputs[j]));
  }
  return tn__ir_bound_add(CONSTANTS_AT_LEAST, tn__ir_bound_mul(CONSTANTS_PER_BYTE, given));
}

static bool is_output(const fuser *f, const tn__value *v) {
  for (int r = 0; r < v->results.count; r++)
    if (tn__graph_output_at(f->graph, v->results.data[r]) == v) return true;
  return false;
}

TN_MUST_USE static bool is_allowed(const fuser *f, const tn__node *n, int64_t *left) {
  int64_t bytes = 0;
  for (int o = 0; o < n->output_count; o++)
    if (n->outputs[o]) bytes = tn__ir_bound_add(bytes, bytes_of(n->outputs[o]));
  if (bytes > *left) return false;
  if (!is_cheap(n) || is_output(f, n->outputs[0])) *left -= bytes;
  return true;
}

/* Does a node depend on constants only, and is its result worth keeping in memory? */
static bool is_constant_node(const fuser *f, const tn__node *n) {
  if (n->input_count == 0 || n->op->lowering != TN__LOWER_DECLARE) return false;
  for (int i = 0; i < n->input_count; i++)
    if (n->inputs[i] && is_huge(n->inputs[i])) return false;
  for (int i = 0; i < n->input_count; i++) {
    const tn__value *v = n->inputs[i];
    if (v && v->dtype == TN_STRING) return false; /* references, which no file has yet */
    if (!v || v->data) continue;
    int p = f->node_of_value[v->id];
    if (p < 0 || !f->constant[p]) return false;
  }
  for (int o = 0; o < n->output_count; o++)
    if (is_huge(n->outputs[o])) return false;
  return true;
}

/* Decides which nodes share a kernel; returns the number of values. */
static int plan(fuser *f, tn__graph *graph, const tn__optimize_options *options) {
  *f = (fuser){
      .graph = graph, .options = options, .arena = tn__graph_arena(graph), .node_count = tn__graph_node_count(graph)};
  int value_count = 0;
  f->uses = tn__graph_use_counts(graph, &value_count);
  f->kernel_of = TN__NEW_ARRAY(f->arena, f->node_count, int);
  f->node_of_value = TN__NEW_ARRAY(f->arena, value_count, int);
  f->constant = TN__NEW_ARRAY(f->arena, f->node_count, bool);
  f->claimed = TN__NEW_ARRAY(f->arena, f->node_count, int);
  for (int i = 0; i < value_count; i++) f->node_of_value[i] = -1;
  for (int i = 0; i < f->node_count; i++) {
    const tn__node *n = tn__graph_node_at(graph, i);
    for (int o = 0; o < n->output_count; o++)
      if (n->outputs[o]) f->node_of_value[n->outputs[o]->id] = i;
    f->kernel_of[i] = f->claimed[i] = -1;
  }
  find_readers(f, value_count);
  for (int i = 0; i < 2; i++) f->seen[i] = TN__NEW_ARRAY(f->arena, f->node_count, uint32_t);
  find_shape_deps(f);
  int64_t left = constants_allowance(f);
  for (int i = 0; i < f->node_count; i++) {
    const tn__node *n = tn__graph_node_at(graph, i);
    f->constant[i] = is_constant_node(f, n) && is_allowed(f, n, &left);
    if (!is_cheap(n)) place(f, i, f->constant[i]);
  }
  return value_count;
}

/* Of a list of nodes in topological order, those that the last result of `product` is made by. */
static void keep_ancestors(fuser *f, index_list *nodes, const tn__node *product) {
  uint32_t *needed = f->seen[0], yes = ++f->stamp;
  needed[f->node_of_value[product->outputs[0]->id]] = yes;
  for (int i = nodes->count - 1; i >= 0; i--) {
    const tn__node *n = tn__graph_node_at(f->graph, nodes->data[i]);
    for (int j = 0; needed[nodes->data[i]] == yes && j < n->input_count; j++) {
      int p = n->inputs[j] ? f->node_of_value[n->inputs[j]->id] : -1;
      if (p >= 0) needed[p] = yes;
    }
  }
  int kept = 0;
  for (int i = 0; i < nodes->count; i++)
    if (needed[nodes->data[i]] == yes) nodes->data[kept++] = nodes->data[i];
  nodes->count = kept;
}

/* Is what the nodes make, but the last one and copies, read by them alone? */
static bool is_closed(fuser *f, const index_list *nodes) {
  uint32_t *inside = f->seen[0], yes = ++f->stamp;
  for (int i = 0; i < nodes->count; i++) inside[nodes->data[i]] = yes;
  for (int i = 0; i < nodes->count - 1; i++) {
    if (f->kernel_of[nodes->data[i]] < 0) continue;
    int id = tn__graph_node_at(f->graph, nodes->data[i])->outputs[0]->id, reads = 0;
    for (int r = f->first_reader[id]; r < f->first_reader[id + 1]; r++, reads++)
      if (inside[f->readers[r]] != yes) return false;
    if (reads != f->uses[id]) return false;
  }
  return true;
}

tn__attentions tn__pass_fuse_attentions(tn__graph *graph) {
  fuser f;
  plan(&f, graph, NULL);
  for (int i = 0; i < f.kernels.count; i++) join_attention(&f, i);
  emitter e = {.f = &f, .added = TN__NEW_ARRAY(f.arena, f.node_count, uint32_t)};
  tn__attentions found = {.items = TN__NEW_ARRAY(f.arena, f.attentions.count, tn__group)};
  for (int a = 0; a < f.attentions.count; a++) {
    const tn__node *product = f.attentions.data[a];
    const kernel *k = &f.kernels.data[f.kernel_of[f.node_of_value[product->outputs[0]->id]]];
    index_list nodes = {0};
    for (int i = 0; i < k->members.count; i++) {
      add_cheap(&e, k->members.data[i], (uint32_t)a + 1, INLINE_CHEAP, &nodes);
      tn__vec_push(f.arena, &nodes, k->members.data[i]);
    }
    keep_ancestors(&f, &nodes, product);
    if (!is_closed(&f, &nodes)) continue;
    tn__group *g = &found.items[found.count++];
    *g = (tn__group){.graph = graph, .node_count = nodes.count};
    g->nodes = TN__NEW_ARRAY(f.arena, nodes.count, tn__node *);
    for (int i = 0; i < nodes.count; i++) g->nodes[i] = tn__graph_node_at(graph, nodes.data[i]);
  }
  return found;
}

tn__groups tn__pass_fuse(tn__graph *graph, const tn__optimize_options *options) {
  fuser f;
  int value_count = plan(&f, graph, options);
  for (int i = 0; i < f.kernels.count; i++) join_transpose(&f, i);
  emitter e = {.f = &f};
  e.groups.groups = TN__NEW_ARRAY(f.arena, f.node_count, tn__group);
  e.emitted = TN__NEW_ARRAY(f.arena, f.kernels.count, bool);
  e.walked = TN__NEW_ARRAY(f.arena, f.node_count, uint32_t);
  e.stored = TN__NEW_ARRAY(f.arena, f.node_count, bool);
  e.added = TN__NEW_ARRAY(f.arena, f.node_count, uint32_t);
  e.wanted = TN__NEW_ARRAY(f.arena, value_count, bool);
  find_wanted(&e, value_count);
  for (int i = 0; i < f.node_count; i++)
    if (f.kernel_of[i] >= 0) emit(&e, TASK_KERNEL, f.kernel_of[i]);
  for (int o = 0; o < tn__graph_output_count(graph); o++) {
    int p = f.node_of_value[tn__graph_output_at(graph, o)->id];
    if (p >= 0 && f.kernel_of[p] < 0) emit(&e, TASK_STORED, p);
  }
  for (int s = 0; s < tn__graph_symbol_count(graph); s++) {
    const tn__symbol *symbol = tn__graph_symbol_at(graph, s);
    int p = symbol->source == TN__SYMBOL_ELEMENT ? f.node_of_value[symbol->value->id] : -1;
    if (p >= 0 && f.kernel_of[p] < 0) emit(&e, TASK_STORED, p);
  }
  return e.groups;
}
