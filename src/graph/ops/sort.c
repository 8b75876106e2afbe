/* Stable sorting, the first few in order, and finding the set elements of a mask: imperative stages.
 *
 * Sorting is a bottom-up merge sort of positions: runs of `width` positions that are in order are merged in pairs into
 * `scratch`, which is copied back, until one run is left. Loop IR has no variables that change, so the cursors live in
 * a small buffer. */
#include <string.h>

#include "graph/internal.h"
#include "tenon/kernel_abi.h"

enum { CURSOR_WIDTH, CURSOR_START, CURSOR_LEFT, CURSOR_RIGHT, CURSOR_DECISION, CURSOR_AT, CURSOR_COUNT };

typedef struct sorter {
  tn__ir *ir;
  const tn__buffer *cursors, *scratch, *order, *keys;
  const tn__expr *size;         /* how many positions */
  const tn__expr *const *outer; /* index of order and keys with `axis` left open */
  int axis, rank;
  bool descending;
  bool rows; /* keys are [size, columns], compared row by row */
} sorter;

static const tn__expr *cursor(const sorter *s, int which) {
  const tn__expr *at = tn__ir_index(s->ir, which);
  return tn__ir_load(s->ir, s->cursors, &at);
}

static const tn__stmt *set_cursor(const sorter *s, int which, const tn__expr *value) {
  const tn__expr *at = tn__ir_index(s->ir, which);
  return tn__ir_store(s->ir, s->cursors, &at, value);
}

static const tn__expr *order_at(const sorter *s, const tn__expr *position, const tn__expr **at) {
  for (int i = 0; i < s->rank; i++) at[i] = s->outer[i];
  at[s->axis] = position;
  return tn__ir_load(s->ir, s->order, at);
}

static const tn__expr *is_nan(tn__ir *ir, const tn__expr *a) {
  return tn__dtype_is_float(a->dtype) ? tn__ir_call1(ir, TN__CALL_IS_NAN, a) : tn__ir_bool(ir, false);
}

/* Must a come before b? NaN counts as the greatest, so that the order is total. */
static const tn__expr *precedes(const sorter *s, const tn__expr *a, const tn__expr *b) {
  tn__ir *ir = s->ir;
  if (s->descending) {
    const tn__expr *swap = a;
    a = b;
    b = swap;
  }
  return tn__ir_or(ir, tn__ir_lt(ir, a, b), tn__ir_and(ir, is_nan(ir, b), tn__ir_not(ir, is_nan(ir, a))));
}

/* Sets CURSOR_DECISION to 1 when position `b` must come before position `a`. */
static const tn__stmt *decide(const sorter *s, const tn__expr *a, const tn__expr *b) {
  tn__ir *ir = s->ir;
  const tn__expr *zero = tn__ir_index(ir, 0), *one = tn__ir_index(ir, 1);
  if (!s->rows) {
    const tn__expr *at[TN__MAX_RANK], *bt[TN__MAX_RANK];
    for (int i = 0; i < s->rank; i++) at[i] = bt[i] = s->outer[i];
    at[s->axis] = a;
    bt[s->axis] = b;
    const tn__expr *before = precedes(s, tn__ir_load(ir, s->keys, bt), tn__ir_load(ir, s->keys, at));
    return set_cursor(s, CURSOR_DECISION, tn__ir_select(ir, before, one, zero));
  }
  /* The first column that differs decides. */
  const tn__expr *column = cursor(s, CURSOR_AT), *columns = s->keys->shape[1];
  const tn__expr *left = tn__ir_load(ir, s->keys, (const tn__expr *[]){a, column});
  const tn__expr *right = tn__ir_load(ir, s->keys, (const tn__expr *[]){b, column});
  const tn__stmt *stop = set_cursor(s, CURSOR_AT, columns);
  const tn__stmt *items[] = {set_cursor(s, CURSOR_DECISION, one), stop};
  const tn__stmt *next = set_cursor(s, CURSOR_AT, tn__ir_add_i(ir, column, 1));
  const tn__stmt *round = tn__ir_if(ir, precedes(s, right, left), tn__ir_seq(ir, items, 2),
                                    tn__ir_if(ir, precedes(s, left, right), stop, next));
  const tn__stmt *all[] = {set_cursor(s, CURSOR_DECISION, zero), set_cursor(s, CURSOR_AT, zero),
                           tn__ir_while(ir, tn__ir_lt(ir, column, columns), round)};
  return tn__ir_seq(ir, all, 3);
}

/* Takes the next position for scratch[k] from the left or the right run. */
static const tn__stmt *merge_one(const sorter *s, const tn__expr *k, const tn__expr *middle, const tn__expr *end) {
  tn__ir *ir = s->ir;
  const tn__expr *at[TN__MAX_RANK];
  const tn__var *left = tn__g_let_var(ir, "left"), *right = tn__g_let_var(ir, "right");
  const tn__expr *zero = tn__ir_index(ir, 0), *one = tn__ir_index(ir, 1);
  const tn__expr *left_done = tn__ir_le(ir, middle, left->self), *right_done = tn__ir_le(ir, end, right->self);
  const tn__stmt *compare = decide(s, order_at(s, left->self, at), order_at(s, right->self, at));
  compare = tn__ir_if(ir, right_done, set_cursor(s, CURSOR_DECISION, zero), compare);
  compare = tn__ir_if(ir, left_done, set_cursor(s, CURSOR_DECISION, one), compare);
  const tn__stmt *from_right[] = {tn__ir_store(ir, s->scratch, &k, order_at(s, right->self, at)),
                                  set_cursor(s, CURSOR_RIGHT, tn__ir_add_i(ir, right->self, 1))};
  const tn__stmt *from_left[] = {tn__ir_store(ir, s->scratch, &k, order_at(s, left->self, at)),
                                 set_cursor(s, CURSOR_LEFT, tn__ir_add_i(ir, left->self, 1))};
  const tn__stmt *take = tn__ir_if(ir, tn__ir_eq(ir, cursor(s, CURSOR_DECISION), one), tn__ir_seq(ir, from_right, 2),
                                   tn__ir_seq(ir, from_left, 2));
  return tn__ir_let(ir, left, cursor(s, CURSOR_LEFT),
                    tn__ir_let(ir, right, cursor(s, CURSOR_RIGHT), tn__ir_seq2(ir, compare, take)));
}

/* Merges the two runs that begin at CURSOR_START and moves on. */
static const tn__stmt *merge_pair(const sorter *s) {
  tn__ir *ir = s->ir;
  const tn__var *start = tn__g_let_var(ir, "start"), *middle = tn__g_let_var(ir, "middle"),
                *end = tn__g_let_var(ir, "end");
  const tn__expr *width = cursor(s, CURSOR_WIDTH);
  const tn__var *k = tn__var_create(ir, "k", TN_I64, start->self, tn__ir_sub(ir, end->self, start->self));
  const tn__stmt *items[] = {set_cursor(s, CURSOR_LEFT, start->self), set_cursor(s, CURSOR_RIGHT, middle->self),
                             tn__ir_for(ir, k, TN__LOOP_SERIAL, merge_one(s, k->self, middle->self, end->self)),
                             set_cursor(s, CURSOR_START, end->self)};
  const tn__stmt *body = tn__ir_seq(ir, items, 4);
  body = tn__ir_let(ir, end, tn__ir_min(ir, tn__ir_add(ir, middle->self, width), s->size), body);
  body = tn__ir_let(ir, middle, tn__ir_min(ir, tn__ir_add(ir, start->self, width), s->size), body);
  return tn__ir_let(ir, start, cursor(s, CURSOR_START), body);
}

static const tn__stmt *sort_stmt(const sorter *s) {
  tn__ir *ir = s->ir;
  const tn__expr *at[TN__MAX_RANK];
  tn__nest init = tn__nest_create(ir, "p", 1, &s->size), copy = tn__nest_create(ir, "q", 1, &s->size);
  order_at(s, init.index[0], at);
  const tn__stmt *fill = tn__nest_loops(ir, &init, tn__ir_store(ir, s->order, at, init.index[0]));
  order_at(s, copy.index[0], at);
  const tn__stmt *back =
      tn__nest_loops(ir, &copy, tn__ir_store(ir, s->order, at, tn__ir_load(ir, s->scratch, copy.index)));
  const tn__stmt *round[] = {set_cursor(s, CURSOR_START, tn__ir_index(ir, 0)),
                             tn__ir_while(ir, tn__ir_lt(ir, cursor(s, CURSOR_START), s->size), merge_pair(s)), back,
                             set_cursor(s, CURSOR_WIDTH, tn__ir_mul_i(ir, cursor(s, CURSOR_WIDTH), 2))};
  const tn__stmt *all[] = {fill, set_cursor(s, CURSOR_WIDTH, tn__ir_index(ir, 1)),
                           tn__ir_while(ir, tn__ir_lt(ir, cursor(s, CURSOR_WIDTH), s->size), tn__ir_seq(ir, round, 4))};
  return tn__ir_seq(ir, all, 3);
}

static const tn__buffer *cursor_buffer(tn__ir *ir) {
  const tn__expr *count = tn__ir_index(ir, CURSOR_COUNT);
  return tn__buffer_create(ir, "cursors", TN_I64, TN__SCOPE_STACK, 1, &count);
}

/* Adds the stage that fills `order` (and `scratch`) from the keys. */
static void sort_stage(tn__lower_context *lower, const char *name, sorter *s, const tn__nest *nest) {
  tn__ir *ir = s->ir;
  s->cursors = cursor_buffer(ir);
  const tn__stmt *body = tn__ir_alloc_stmt(ir, s->cursors, tn__nest_loops(ir, nest, sort_stmt(s)));
  const tn__buffer *writes[2] = {s->order, s->scratch};
  tn__te_extern(tn__lower_te(lower), name, &s->keys, 1, writes, 2, body);
}

/* ---- sort -------------------------------------------------------------------------------------------------------- */

static void infer_sort(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  if (a->dtype == TN_BOOL) tn__node_fail(graph, node, "is not defined for type bool");
  tn__g_require_axis(graph, node, "axis", a->rank);
  tn__g_set_output(graph, node, 0, a->dtype, a->rank, a->dims, NULL);
  tn__g_set_output(graph, node, 1, TN_I64, a->rank, a->dims, NULL);
}

static void declare_sort(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                         const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  const tn__buffer *a = inputs[0];
  int axis = (int)tn__node_int(node, "axis", 0);
  const char *name = tn__lower_name(lower, "sort");
  const tn__expr *extents[TN__MAX_RANK], *outer[TN__MAX_RANK];
  for (int i = 0, next = 0; i < a->rank; i++)
    if (i != axis) extents[next++] = a->shape[i];
  tn__nest nest = tn__nest_create(ir, "j", a->rank - 1, extents);
  for (int i = 0, next = 0; i < a->rank; i++) outer[i] = i == axis ? NULL : nest.index[next++];
  const char *scratch = tn__lower_name(lower, "sort_scratch");
  const tn__buffer *work = tn__te_extern_tensor(te, scratch, TN_I64, 1, &a->shape[axis]);
  sorter s = {.ir = ir,
              .scratch = work,
              .order = tn__te_extern_tensor(te, name, TN_I64, a->rank, a->shape),
              .keys = a,
              .size = a->shape[axis],
              .outer = outer,
              .axis = axis,
              .rank = a->rank,
              .descending = tn__node_int(node, "descending", 0) != 0};
  sort_stage(lower, name, &s, &nest);
  tn__te_axes axes = tn__te_axes_create(te, "i", a->rank, a->shape);
  const tn__expr *at[TN__MAX_RANK];
  memcpy(at, axes.index, sizeof(at));
  at[axis] = tn__ir_load(ir, s.order, axes.index);
  outputs[0] = tn__te_compute(te, tn__lower_name(lower, "sorted"), &axes, tn__ir_load(ir, a, at));
  outputs[1] = s.order;
}

/* ---- top_k ------------------------------------------------------------------------------------------------------- */

/* A heap of the best `size` elements so far, the last of them in order at its root, lies where the results go: values
 * beside their positions. An element that comes before the root takes its place. When all have been seen, taking the
 * root away until nothing is left sorts them (Williams, "Algorithm 232: Heapsort", 1964). Equal elements are in the
 * order of their positions, so the result is that of a stable sort. */
typedef struct heap {
  sorter s; /* `order` and `keys`; `axis` of outer is open */
  const tn__buffer *values;
} heap;

enum { CURSOR_SIZE = CURSOR_WIDTH, CURSOR_HOLE = CURSOR_START, CURSOR_CHILD = CURSOR_LEFT };

static const tn__expr *heap_load(const heap *h, const tn__buffer *buffer, const tn__expr *place) {
  const tn__expr *at[TN__MAX_RANK];
  for (int i = 0; i < h->s.rank; i++) at[i] = h->s.outer[i];
  at[h->s.axis] = place;
  return tn__ir_load(h->s.ir, buffer, at);
}

static const tn__stmt *heap_store(const heap *h, const tn__expr *place, const tn__expr *value,
                                  const tn__expr *position) {
  tn__ir *ir = h->s.ir;
  const tn__expr *at[TN__MAX_RANK];
  for (int i = 0; i < h->s.rank; i++) at[i] = h->s.outer[i];
  at[h->s.axis] = place;
  return tn__ir_seq2(ir, tn__ir_store(ir, h->values, at, value), tn__ir_store(ir, h->s.order, at, position));
}

/* Does what lies at place `a` of the heap come behind (value, position)? */
static const tn__expr *comes_behind(const heap *h, const tn__expr *a, const tn__expr *value, const tn__expr *position) {
  tn__ir *ir = h->s.ir;
  const tn__expr *other = heap_load(h, h->values, a);
  const tn__expr *later = tn__ir_lt(ir, position, heap_load(h, h->s.order, a));
  return tn__ir_or(ir, precedes(&h->s, value, other),
                   tn__ir_and(ir, tn__ir_not(ir, precedes(&h->s, other, value)), later));
}

/* Puts (value, position) into the heap of CURSOR_SIZE, whose place CURSOR_HOLE is free, at that place or below. */
static const tn__stmt *sift(const heap *h, const tn__expr *value, const tn__expr *position) {
  tn__ir *ir = h->s.ir;
  const sorter *s = &h->s;
  const tn__var *first = tn__g_let_var(ir, "first"), *child = tn__g_let_var(ir, "child");
  const tn__expr *size = cursor(s, CURSOR_SIZE), *hole = cursor(s, CURSOR_HOLE),
                 *second = tn__ir_add_i(ir, first->self, 1);
  const tn__expr *behind =
      comes_behind(h, second, heap_load(h, h->values, first->self), heap_load(h, s->order, first->self));
  const tn__stmt *choose =
      tn__ir_seq2(ir, set_cursor(s, CURSOR_CHILD, first->self),
                  tn__ir_if(ir, tn__ir_lt(ir, second, size),
                            tn__ir_if(ir, behind, set_cursor(s, CURSOR_CHILD, second), NULL), NULL));
  const tn__stmt *move[] = {
      heap_store(h, hole, heap_load(h, h->values, child->self), heap_load(h, s->order, child->self)),
      set_cursor(s, CURSOR_HOLE, child->self),
      set_cursor(s, CURSOR_AT, tn__ir_add_i(ir, tn__ir_mul_i(ir, child->self, 2), 1))};
  const tn__stmt *down = tn__ir_if(ir, comes_behind(h, child->self, value, position), tn__ir_seq(ir, move, 3),
                                   set_cursor(s, CURSOR_AT, size)); /* which ends the loop */
  down = tn__ir_let(ir, child, cursor(s, CURSOR_CHILD), down);
  const tn__stmt *round = tn__ir_let(ir, first, cursor(s, CURSOR_AT), tn__ir_seq2(ir, choose, down));
  const tn__stmt *all[] = {set_cursor(s, CURSOR_AT, tn__ir_add_i(ir, tn__ir_mul_i(ir, hole, 2), 1)),
                           tn__ir_while(ir, tn__ir_lt(ir, cursor(s, CURSOR_AT), size), round),
                           heap_store(h, hole, value, position)};
  return tn__ir_seq(ir, all, 3);
}

/* The same with what lies at `place` now, which `before` may change. */
static const tn__stmt *sift_from(const heap *h, const tn__expr *place, const tn__stmt *before) {
  tn__ir *ir = h->s.ir;
  const tn__var *value = tn__var_create(ir, "value", h->values->dtype, NULL, NULL);
  const tn__var *position = tn__g_let_var(ir, "position");
  const tn__stmt *body = sift(h, value->self, position->self);
  if (before != NULL) body = tn__ir_seq2(ir, before, body);
  body = tn__ir_let(ir, position, heap_load(h, h->s.order, place), body);
  return tn__ir_let(ir, value, heap_load(h, h->values, place), body);
}

static const tn__stmt *top_k_stmt(const heap *h, const tn__expr *count) {
  tn__ir *ir = h->s.ir;
  const sorter *s = &h->s;
  const tn__expr *zero = tn__ir_index(ir, 0), *rest = tn__ir_sub(ir, s->size, count),
                 *half = tn__ir_div(ir, count, tn__ir_index(ir, 2));
  tn__nest fill = tn__nest_create(ir, "p", 1, &count), heapify = tn__nest_create(ir, "h", 1, &half);
  tn__nest scan = tn__nest_create(ir, "q", 1, &rest), drain = tn__nest_create(ir, "d", 1, &count);
  const tn__expr *parent = tn__ir_sub(ir, tn__ir_add_i(ir, half, -1), heapify.index[0]);
  const tn__expr *seen = tn__ir_add(ir, count, scan.index[0]),
                 *end = tn__ir_sub(ir, tn__ir_add_i(ir, count, -1), drain.index[0]);
  const tn__stmt *replace =
      tn__ir_seq2(ir, set_cursor(s, CURSOR_HOLE, zero), sift(h, heap_load(h, s->keys, seen), seen));
  replace = tn__ir_if(ir, precedes(s, heap_load(h, s->keys, seen), heap_load(h, h->values, zero)), replace, NULL);
  const tn__stmt *take[] = {heap_store(h, end, heap_load(h, h->values, zero), heap_load(h, s->order, zero)),
                            set_cursor(s, CURSOR_SIZE, end), set_cursor(s, CURSOR_HOLE, zero)};
  const tn__stmt *ordered = sift_from(h, parent, set_cursor(s, CURSOR_HOLE, parent));
  const tn__stmt *drained = sift_from(h, end, tn__ir_seq(ir, take, 3));
  const tn__stmt *items[] = {
      tn__nest_loops(ir, &fill, heap_store(h, fill.index[0], heap_load(h, s->keys, fill.index[0]), fill.index[0])),
      set_cursor(s, CURSOR_SIZE, count),
      tn__ir_if(ir, tn__ir_lt(ir, zero, half), tn__nest_loops(ir, &heapify, ordered), NULL),
      tn__nest_loops(ir, &scan, replace), tn__nest_loops(ir, &drain, drained)};
  return tn__ir_if(ir, tn__ir_lt(ir, zero, count), tn__ir_seq(ir, items, 5), NULL); /* no root without a place */
}

static void infer_top_k(tn__graph *graph, tn__node *node) {
  const tn__value *a = node->inputs[0];
  tn__ir *ir = graph->ir;
  if (a->dtype == TN_BOOL) tn__node_fail(graph, node, "is not defined for type bool");
  tn__g_require_axis(graph, node, "axis", a->rank);
  const tn__expr *count = tn__g_require_exprs(graph, node, "count", 1)[0], *dims[TN__MAX_RANK];
  int axis = (int)tn__node_int(node, "axis", 0);
  const tn__expr *inside =
      tn__ir_and(ir, tn__ir_le(ir, tn__ir_index(ir, 0), count), tn__ir_le(ir, count, a->dims[axis]));
  if (tn__ir_is_false(inside))
    tn__node_fail(graph, node, "the first %s of dimension %d of %s", tn__g_expr_text(graph, count), axis,
                  tn__value_type_text(graph, a));
  tn__graph_assume(graph, inside, "%s: the first %s of dimension %d, which has %s", node->op->name,
                   tn__g_size_text(graph, count), axis, tn__g_size_text(graph, a->dims[axis]));
  for (int i = 0; i < a->rank; i++) dims[i] = i == axis ? count : a->dims[i];
  tn__g_set_output(graph, node, 0, a->dtype, a->rank, dims, NULL);
  tn__g_set_output(graph, node, 1, TN_I64, a->rank, dims, NULL);
}

static void declare_top_k(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                          const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  const tn__buffer *a = inputs[0];
  int axis = (int)tn__node_int(node, "axis", 0);
  const tn__expr *extents[TN__MAX_RANK], *outer[TN__MAX_RANK], *shape[TN__MAX_RANK];
  for (int i = 0, next = 0; i < a->rank; i++) {
    shape[i] = i == axis ? tn__lower_expr(lower, tn__node_attr(node, "count")->exprs[0]) : a->shape[i];
    if (i != axis) extents[next++] = a->shape[i];
  }
  tn__nest nest = tn__nest_create(ir, "j", a->rank - 1, extents);
  for (int i = 0, next = 0; i < a->rank; i++) outer[i] = i == axis ? NULL : nest.index[next++];
  const char *name = tn__lower_name(lower, "top_k");
  const tn__buffer *cursors = cursor_buffer(ir);
  const char *order_name = tn__lower_name(lower, "positions");
  const tn__buffer *order = tn__te_extern_tensor(te, order_name, TN_I64, a->rank, shape);
  heap h = {.s = {.ir = ir,
                  .cursors = cursors,
                  .order = order,
                  .keys = a,
                  .size = a->shape[axis],
                  .outer = outer,
                  .axis = axis,
                  .rank = a->rank,
                  .descending = tn__node_int(node, "descending", 0) != 0},
            .values = tn__te_extern_tensor(te, name, a->dtype, a->rank, shape)};
  const tn__buffer *writes[2] = {h.values, h.s.order};
  const tn__stmt *row = tn__nest_loops(ir, &nest, tn__ir_alloc_stmt(ir, h.s.cursors, top_k_stmt(&h, shape[axis])));
  tn__te_extern(te, name, &a, 1, writes, 2, row);
  outputs[0] = h.values;
  outputs[1] = h.s.order;
}

/* ---- sort_rows --------------------------------------------------------------------------------------------------- */

static void infer_sort_rows(tn__graph *graph, tn__node *node) {
  tn__g_set_output(graph, node, 0, TN_I64, 1, node->inputs[0]->dims, NULL);
}

static void declare_sort_rows(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                              const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  const tn__buffer *keys = inputs[0];
  if (keys->dtype == TN_BOOL) keys = tn__lower_convert(lower, keys, TN_U8);
  const char *name = tn__lower_name(lower, "sort_rows");
  const tn__expr *outer[1] = {NULL};
  tn__nest nest = {.count = 0};
  const char *scratch = tn__lower_name(lower, "sort_scratch");
  const tn__buffer *work = tn__te_extern_tensor(te, scratch, TN_I64, 1, keys->shape);
  sorter s = {.ir = ir,
              .scratch = work,
              .order = tn__te_extern_tensor(te, name, TN_I64, 1, keys->shape),
              .keys = keys,
              .size = keys->shape[0],
              .outer = outer,
              .rank = 1,
              .rows = true};
  sort_stage(lower, name, &s, &nest);
  outputs[0] = s.order;
}

/* ---- find_true --------------------------------------------------------------------------------------------------- */

static void infer_find_true(tn__graph *graph, tn__node *node) {
  tn__g_require_dtype(graph, node, 0, TN_BOOL);
  tn__g_set_output(graph, node, 0, TN_I64, 1, node->inputs[0]->dims, NULL);
  tn__g_set_output(graph, node, 1, TN_I64, 0, NULL, NULL);
}

static void declare_find_true(tn__lower_context *lower, const tn__node *node, const tn__buffer *const *inputs,
                              const tn__buffer **outputs) {
  tn__ir *ir = tn__lower_ir(lower);
  tn__te *te = tn__lower_te(lower);
  const tn__buffer *mask = inputs[0];
  const char *name = tn__lower_name(lower, "find_true");
  const tn__buffer *found = tn__te_extern_tensor(te, name, TN_I64, 1, mask->shape);
  const tn__buffer *count = tn__te_extern_tensor(te, tn__lower_name(lower, "count"), TN_I64, 0, NULL);
  tn__nest nest = tn__nest_create(ir, "j", 1, mask->shape), clear = tn__nest_create(ir, "p", 1, mask->shape);
  const tn__expr *zero = tn__ir_index(ir, 0), *so_far = tn__ir_load(ir, count, NULL);
  const tn__stmt *one = tn__ir_seq2(ir, tn__ir_store(ir, found, &so_far, nest.index[0]),
                                    tn__ir_store(ir, count, NULL, tn__ir_add_i(ir, so_far, 1)));
  const tn__stmt *items[] = {tn__nest_loops(ir, &clear, tn__ir_store(ir, found, clear.index, zero)),
                             tn__ir_store(ir, count, NULL, zero),
                             tn__nest_loops(ir, &nest, tn__ir_if(ir, tn__ir_load(ir, mask, nest.index), one, NULL))};
  const tn__buffer *writes[2] = {found, count};
  tn__te_extern(te, name, &mask, 1, writes, 2, tn__ir_seq(ir, items, 3));
  outputs[0] = found;
  outputs[1] = count;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

#define TN__ROW(op_name, names, suffix, ...) \
  TN__DECLARED_ROW(1, 1, op_name, names, TN__CLASS_OPAQUE, suffix, __VA_ARGS__)

static const tn__op rows[] = {
    TN__ROW("sort", "x[*s]", sort,
            "Stable sort along `axis`: the elements, and where each came from; NaN counts as the greatest.",
            .attributes = "axis:int descending:int"),
    TN__ROW("top_k", "x[*s]", top_k,
            "The first `count` elements along `axis` of a stable sort, in order, and where each came from.",
            .attributes = "axis:int descending:int count:exprs"),
    TN__ROW("sort_rows", "rows[n,m]", sort_rows,
            "The stable ascending order of a matrix's rows, compared column by column."),
    TN__ROW("find_true", "mask[n]", find_true,
            "The positions of the true elements, in order, filled up with zeros; and how many there are."),
};

const tn__op_family tn__ops_sort = {rows, sizeof(rows) / sizeof(rows[0])};
