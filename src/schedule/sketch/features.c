#include "schedule/sketch/features.h"

#include <math.h>
#include <string.h>

#include "ir/passes.h"

enum { MOST_LOOPS = TN__NEST_AXES, MOST_LETS = 64 };

double tn__feature_size(int i) { return (double)((int64_t)4096 << (2 * i)); }

/* ---- statements -------------------------------------------------------------------------------------------------- */

typedef struct loop {
  const tn__var *var;
  tn__loop_kind kind;
  double trips;
} loop;

typedef struct walker {
  tn__ir *ir;
  const tn__target *target;
  void (*see)(const tn__loop_statement *statement, void *user);
  void *user;
  loop loops[MOST_LOOPS]; /* outermost first */
  int depth;
  double beyond; /* iterations of loops around these, of which there are too many */
  /* What stands for a variable that is no loop: an open dimension, a let. */
  const tn__var *vars[MOST_LETS];
  const tn__expr *values[MOST_LETS];
  int let_count;
  /* Of the statement that is looked at. */
  tn__loop_statement *statement;
  tn__nest nest; /* its accesses, over the loops */
  tn__expr_set seen;
} walker;

static const tn__expr *resolved(const walker *w, const tn__expr *e) {
  return w->let_count > 0 ? tn__ir_substitute(w->ir, e, w->vars, w->values, w->let_count) : e;
}

/* The position at the first iteration of all loops, or with one of them at another; false: it is not a number. */
TN_MUST_USE static bool position(const walker *w, const tn__expr *flat, int moved, int64_t at, int64_t *out) {
  const tn__var *vars[MOST_LOOPS];
  const tn__expr *values[MOST_LOOPS];
  for (int i = 0; i < w->depth; i++) {
    vars[i] = w->loops[i].var;
    values[i] = tn__ir_index(w->ir, i == moved ? at : 0);
  }
  return tn__ir_as_int(tn__ir_substitute(w->ir, flat, vars, values, w->depth), out);
}

/* Elements that the position moves by with each iteration of the loop; false: data choose. */
TN_MUST_USE static bool stride_of(const walker *w, const tn__expr *flat, int l, double *out) {
  const loop *around = &w->loops[l];
  int64_t stride, first, last, end = (int64_t)around->trips - 1;
  *out = 0;
  if (!tn__expr_uses_var(flat, around->var)) return true;
  if (tn__ir_stride_in(w->ir, flat, around->var, &stride)) {
    *out = fabs((double)stride);
    return true;
  }
  if (tn__expr_has_load(flat)) return false;
  if (end < 1 || !position(w, flat, l, 0, &first) || !position(w, flat, l, end, &last)) return true;
  *out = fabs((double)(last - first)) / (double)end;
  return true;
}

static void add_access(walker *w, const tn__buffer *buffer, const tn__expr *const *indices, bool store) {
  tn__loop_statement *s = w->statement;
  if (buffer->scope == TN__SCOPE_REGISTER) {
    s->register_accesses++;
    return;
  }
  if (s->access_count == TN__FEATURE_ACCESSES) return;
  tn__nest_access *a = &w->nest.access[w->nest.access_count++];
  const tn__expr *flat = resolved(w, tn__buffer_flatten(w->ir, buffer, indices));
  *a = (tn__nest_access){.buffer = buffer, .element = (int64_t)tn_dtype_size(buffer->dtype), .store = store};
  double bytes = tn__ir_elements_estimate(buffer) * (double)a->element;
  a->bytes = bytes < 1e15 ? (int64_t)bytes : 0;
  for (int l = 0; l < w->depth; l++) {
    double stride;
    if (!stride_of(w, flat, l, &stride)) {
      a->scattered = true;
      stride = 1;
    }
    a->along[l].stride = (int64_t)ceil(stride * (double)a->element);
  }
  s->access[s->access_count++] = (tn__loop_access){.buffer = buffer, .store = store, .element = a->element};
}

static tn__feature_operation operation_of(const tn__expr *e) {
  bool is_float = tn__dtype_is_float(e->dtype);
  switch (e->kind) {
    case TN__EXPR_ADD:
    case TN__EXPR_SUB: return is_float ? TN__FEATURE_ADD : TN__FEATURE_INTEGER;
    case TN__EXPR_MUL: return is_float ? TN__FEATURE_MUL : TN__FEATURE_INTEGER;
    case TN__EXPR_DIV:
    case TN__EXPR_MOD: return TN__FEATURE_DIV;
    case TN__EXPR_MIN:
    case TN__EXPR_MAX: return TN__FEATURE_MINMAX;
    case TN__EXPR_EQ:
    case TN__EXPR_NE:
    case TN__EXPR_LT:
    case TN__EXPR_LE:
    case TN__EXPR_SELECT: return TN__FEATURE_CHOICE;
    case TN__EXPR_AND:
    case TN__EXPR_OR:
    case TN__EXPR_NOT:
    case TN__EXPR_XOR: return e->dtype == TN_BOOL ? TN__FEATURE_CHOICE : TN__FEATURE_INTEGER;
    case TN__EXPR_SHL:
    case TN__EXPR_SHR: return TN__FEATURE_INTEGER;
    case TN__EXPR_CAST: return TN__FEATURE_CAST;
    case TN__EXPR_CALL: return e->intrinsic == TN__CALL_LIKELY ? TN__FEATURE_OPERATIONS : TN__FEATURE_CALL;
    default: return TN__FEATURE_OPERATIONS;
  }
}

static bool is_product(const tn__expr *e) { return e->kind == TN__EXPR_MUL && tn__dtype_is_float(e->dtype); }

static void see_value(walker *w, const tn__expr *e);

/* Positions: sums of loops times constants cost nothing that counts, and tensors that are read there do. */
static void see_index(walker *w, const tn__expr *e) {
  if (e->arg_count == 0 || !tn__expr_set_add(&w->seen, e)) return;
  if (e->kind == TN__EXPR_LOAD) {
    add_access(w, e->value.buffer, e->args, false);
  } else {
    bool sum = e->kind == TN__EXPR_ADD || e->kind == TN__EXPR_SUB;
    bool scaled = e->kind == TN__EXPR_MUL && (tn__ir_is_int(e->args[0]) || tn__ir_is_int(e->args[1]));
    if (!sum && !scaled) w->statement->operations[TN__FEATURE_INDEX]++;
  }
  for (int i = 0; i < e->arg_count; i++) see_index(w, e->args[i]);
}

static void see_value(walker *w, const tn__expr *e) {
  if (e->arg_count == 0 || !tn__expr_set_add(&w->seen, e)) return;
  tn__loop_statement *s = w->statement;
  if (e->kind == TN__EXPR_LOAD) {
    add_access(w, e->value.buffer, e->args, false);
    for (int i = 0; i < e->arg_count; i++) see_index(w, e->args[i]);
    return;
  }
  tn__feature_operation operation = operation_of(e);
  bool sum = operation == TN__FEATURE_ADD, left = sum && is_product(e->args[0]);
  const tn__expr *product = left ? e->args[0] : sum && is_product(e->args[1]) ? e->args[1] : NULL;
  if (product != NULL && tn__expr_set_add(&w->seen, product)) { /* one instruction of both */
    operation = TN__FEATURE_MULADD;
    for (int i = 0; i < product->arg_count; i++) see_value(w, product->args[i]);
  }
  if (operation < TN__FEATURE_OPERATIONS) s->operations[operation]++;
  for (int i = 0; i < e->arg_count; i++) see_value(w, e->args[i]);
}

/* ---- loops and accesses ------------------------------------------------------------------------------------------ */

static bool moves(const tn__nest_access *a, int l) { return a->along[l].stride != 0; }

static int vector_loop(const walker *w) {
  for (int l = w->depth - 1; l >= 0; l--)
    if (w->loops[l].kind == TN__LOOP_VECTORIZED) return l;
  return -1;
}

static tn__feature_pattern pattern_of(const tn__nest_access *a, int vectorized) {
  if (vectorized < 0) return TN__FEATURE_SCALAR;
  if (a->scattered) return TN__FEATURE_SCATTERED;
  int64_t stride = a->along[vectorized].stride;
  return stride == 0 ? TN__FEATURE_BROADCAST : stride == a->element ? TN__FEATURE_CONTIGUOUS : TN__FEATURE_STRIDED;
}

/* Bytes of whole lines that each access touches inside of so many loops, and all of them together. */
typedef struct touched {
  double of[MOST_LOOPS + 1][TN__FEATURE_ACCESSES], all[MOST_LOOPS + 1];
} touched;

static void touch(const walker *w, touched *t) {
  int64_t ranges[TN__NEST_AXES];
  for (int l = 0; l < TN__NEST_AXES; l++) ranges[l] = 1;
  for (int d = w->depth; d >= 0; d--) {
    if (d < w->depth) ranges[d] = (int64_t)fmin(w->loops[d].trips, 1e15);
    t->all[d] = 0;
    for (int a = 0; a < w->nest.access_count; a++) {
      bool still = d < w->depth && !moves(&w->nest.access[a], d);
      t->of[d][a] = still ? t->of[d + 1][a] : tn__nest_footprint(w->target, &w->nest.access[a], ranges);
      t->all[d] += t->of[d][a];
    }
  }
}

static void describe_access(const walker *w, const touched *t, int index, int vectorized) {
  tn__loop_statement *s = w->statement;
  const tn__nest_access *from = &w->nest.access[index];
  tn__loop_access *a = &s->access[index];
  double elements = w->beyond, all = from->bytes > 0 ? (double)from->bytes : (double)INFINITY;
  for (int l = 0; l < w->depth; l++)
    if (moves(from, l)) elements *= w->loops[l].trips;
  a->pattern = pattern_of(from, vectorized);
  a->bytes = (a->pattern == TN__FEATURE_BROADCAST ? s->steps : s->trips) * (double)from->element;
  a->unique_bytes = fmin(elements * (double)from->element, all);
  a->unique_lines = t->of[0][index] / w->target->cpu.machine.costs.line_bytes;
  a->reuse = s->trips * (double)from->element / a->unique_bytes;
  for (int l = w->depth - 1; l >= 0; l--)
    if (!moves(from, l) && w->loops[l].trips > 1 && l != vectorized) {
      a->distance = t->all[l + 1];
      break;
    }
  for (int l = w->depth - 1; l >= 0; l--)
    if (w->loops[l].kind == TN__LOOP_SERIAL) {
      a->stride = (double)from->along[l].stride;
      break;
    }
}

/* What comes into a memory of this size: the outermost loops that fit fetch once, and one loop further out what stands
 * still there is not fetched again. */
static double traffic_of(const walker *w, const touched *t, double size) {
  int fits = w->depth;
  double bytes = 0;
  while (fits > 0 && t->all[fits - 1] <= size) fits--;
  for (int a = 0; a < w->nest.access_count; a++) {
    double own = w->beyond * (fits > 0 ? t->of[fits - 1][a] : t->of[0][a]);
    for (int l = 0; l < fits - 1; l++) own *= w->loops[l].trips;
    bytes += own;
  }
  return bytes;
}

static void describe_loops(const walker *w, const tn__nest_access *stored) {
  tn__loop_statement *s = w->statement;
  int serial = 0;
  s->trips = w->beyond;
  s->parallel = s->lanes = s->unrolled = s->reduced = s->independent = 1;
  for (int i = 0; i < 4; i++) s->serial[i] = 1;
  for (int l = w->depth - 1; l >= 0; l--) {
    const loop *around = &w->loops[l];
    bool still = stored != NULL && !moves(stored, l);
    s->trips *= around->trips;
    if (still) s->reduced *= around->trips;
    if (around->kind == TN__LOOP_PARALLEL || tn__ir_loop_is_bound(around->kind)) s->parallel *= around->trips;
    if (around->kind == TN__LOOP_VECTORIZED) s->lanes *= around->trips;
    if (around->kind == TN__LOOP_UNROLLED) {
      s->unrolled *= around->trips;
      if (!still) s->independent *= around->trips;
    }
    if (around->kind == TN__LOOP_SERIAL && serial < 4) s->serial[serial++] = around->trips;
  }
  s->steps = s->trips / s->lanes;
}

/* The store's own place in terms of the loops, also in registers, for what is reduced. */
static void read_stored(walker *w, const tn__access *stored, tn__nest_access *out) {
  const tn__expr *flat = resolved(w, tn__buffer_flatten(w->ir, stored->buffer, stored->indices));
  *out = (tn__nest_access){.element = 1};
  for (int l = 0; l < w->depth; l++) out->along[l].stride = tn__expr_uses_var(flat, w->loops[l].var);
}

static void see_statement(walker *w, const tn__stmt *stmt) {
  tn__loop_statement s = {.stmt = stmt};
  tn__nest_access stored;
  touched t;
  w->statement = &s;
  w->nest.axis_count = w->depth;
  w->nest.access_count = 0;
  for (int l = 0; l < w->depth; l++) w->nest.extent[l] = (int64_t)fmin(w->loops[l].trips, 1e15);
  if (stmt->kind == TN__STMT_STORE) {
    const tn__access place = {stmt->as.store.buffer, stmt->as.store.indices};
    add_access(w, place.buffer, place.indices, true);
    for (int d = 0; d < place.buffer->rank; d++) see_index(w, place.indices[d]);
    see_value(w, stmt->as.store.value);
    read_stored(w, &place, &stored);
  } else {
    for (int i = 0; i < tn__ir_tensor_operand_count(stmt->as.tensor.op); i++)
      add_access(w, stmt->as.tensor.operands[i].buffer, stmt->as.tensor.operands[i].indices, i == 0);
    s.operations[TN__FEATURE_MULADD]++;
    read_stored(w, &stmt->as.tensor.operands[0], &stored);
  }
  tn__expr_set_clear(&w->seen);
  tn__nest_finish(&w->nest);
  describe_loops(w, &stored);
  touch(w, &t);
  int vectorized = vector_loop(w);
  for (int i = 0; i < s.access_count; i++) describe_access(w, &t, i, vectorized);
  for (int i = 0; i < TN__FEATURE_SIZES; i++) s.traffic[i] = traffic_of(w, &t, tn__feature_size(i));
  w->see(&s, w->user);
}

/* ---- walking ----------------------------------------------------------------------------------------------------- */

static void walk(walker *w, const tn__stmt *stmt);

static void walk_loop(walker *w, const tn__stmt *stmt) {
  double trips = fmax(tn__ir_extent_estimate(resolved(w, stmt->as.loop.var->extent)), 1);
  bool beyond = w->depth == MOST_LOOPS;
  double before = w->beyond;
  if (beyond)
    w->beyond *= trips;
  else
    w->loops[w->depth++] = (loop){stmt->as.loop.var, stmt->as.loop.kind, trips};
  walk(w, stmt->as.loop.body);
  if (!beyond) w->depth--;
  w->beyond = before;
}

static void walk_let(walker *w, const tn__stmt *stmt) {
  bool kept = w->let_count < MOST_LETS;
  if (kept) {
    const tn__expr *value = resolved(w, stmt->as.let.value);
    w->vars[w->let_count] = stmt->as.let.var;
    w->values[w->let_count++] = value;
  }
  walk(w, stmt->as.let.body);
  w->let_count -= kept;
}

static void walk(walker *w, const tn__stmt *stmt) {
  switch (stmt->kind) {
    case TN__STMT_FOR: walk_loop(w, stmt); break;
    case TN__STMT_STORE:
    case TN__STMT_TENSOR: see_statement(w, stmt); break;
    case TN__STMT_SEQ:
      for (int i = 0; i < stmt->as.seq.count; i++) walk(w, stmt->as.seq.items[i]);
      break;
    case TN__STMT_IF:
      walk(w, stmt->as.branch.then_body);
      if (stmt->as.branch.else_body != NULL) walk(w, stmt->as.branch.else_body);
      break;
    case TN__STMT_LET: walk_let(w, stmt); break;
    case TN__STMT_ALLOC: walk(w, stmt->as.alloc.body); break;
    case TN__STMT_WHILE: walk(w, stmt->as.repeat.body); break;
    default: break;
  }
}

void tn__features_walk(tn__ir *ir, const tn__func *func, const tn__target *target,
                       void (*see)(const tn__loop_statement *statement, void *user), void *user) {
  walker *w = TN__NEW(tn__ir_arena(ir), walker);
  *w = (walker){.ir = ir, .target = target, .see = see, .user = user, .beyond = 1, .seen = {.ir = ir}};
  for (int i = 0; i < func->scalar_count && i < MOST_LETS / 2; i++) {
    w->vars[w->let_count] = func->scalars[i];
    w->values[w->let_count++] = tn__ir_index(ir, TN__OPEN_EXTENT);
  }
  walk(w, func->body);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Where a tensor lies, as far as it costs something. */
enum { ON_STACK, IN_WORKSPACE, OF_CALLER, PLACES };
enum { NEVER, NEAR, IN_L1, IN_L2, FAR, DISTANCES };

typedef struct summing {
  const tn__target *target;
  double statements, steps, trips, code;
  double operations[TN__FEATURE_OPERATIONS], flops;
  double loads[TN__FEATURE_PATTERNS], stores[TN__FEATURE_PATTERNS], registers;
  double bytes[PLACES], unique[PLACES], lines[PLACES];
  double traffic[TN__FEATURE_SIZES];
  double distance[DISTANCES], moved, reuse; /* bytes by distance; all; logarithms of reuse times bytes */
  double most_parallel;
  double allocated[TN__SCOPE_COUNT], conditions, prefetches, entries, iterations;
  double work; /* of the statement that has the most */
  tn__loop_statement top;
  double all_work;
} summing;

static int place_of(const tn__buffer *buffer) {
  if (buffer->scope == TN__SCOPE_PARAM) return OF_CALLER;
  return buffer->scope == TN__SCOPE_WORKSPACE ? IN_WORKSPACE : ON_STACK;
}

static int distance_of(const summing *s, const tn__loop_access *a) {
  const tn__machine *m = &s->target->cpu.machine;
  if (a->distance == 0) return NEVER;
  if (a->distance <= (double)m->l1_bytes / 8) return NEAR;
  if (a->distance <= (double)m->l1_bytes) return IN_L1;
  return a->distance <= (double)m->l2_bytes ? IN_L2 : FAR;
}

static double flops_of(const tn__loop_statement *v) {
  double flops = 0;
  for (int i = 0; i < TN__FEATURE_INDEX; i++) flops += v->operations[i];
  return flops + v->operations[TN__FEATURE_MULADD];
}

static void sum_access(summing *s, const tn__loop_statement *v, const tn__loop_access *a) {
  int place = place_of(a->buffer);
  (a->store ? s->stores : s->loads)[a->pattern] += v->steps;
  s->bytes[place] += a->bytes;
  s->unique[place] += a->unique_bytes;
  s->lines[place] += a->unique_lines;
  s->distance[distance_of(s, a)] += a->bytes;
  s->moved += a->bytes;
  s->reuse += a->bytes * log2(fmax(a->reuse, 1));
}

static void sum_statement(const tn__loop_statement *v, void *user) {
  summing *s = user;
  double operations = 0;
  for (int i = 0; i < TN__FEATURE_OPERATIONS; i++) {
    s->operations[i] += v->steps * v->operations[i];
    operations += v->operations[i];
  }
  double each = 1 + operations + v->access_count, work = v->steps * each;
  s->statements++;
  s->steps += v->steps;
  s->trips += v->trips;
  s->code += v->unrolled * each;
  s->flops += v->trips * flops_of(v);
  s->registers += v->steps * v->register_accesses;
  s->most_parallel = fmax(s->most_parallel, v->parallel);
  s->all_work += work;
  for (int i = 0; i < v->access_count; i++) sum_access(s, v, &v->access[i]);
  for (int i = 0; i < TN__FEATURE_SIZES; i++) s->traffic[i] += v->traffic[i];
  if (work <= s->work) return;
  s->work = work;
  s->top = *v;
}

/* What is no statement: loops, conditions, prefetches and tensors of the function's own. */
static void sum_others(summing *s, const tn__stmt *stmt, double times) {
  switch (stmt->kind) {
    case TN__STMT_FOR: {
      double trips = fmax(tn__ir_extent_estimate(stmt->as.loop.var->extent), 1);
      bool runs = stmt->as.loop.kind == TN__LOOP_SERIAL || stmt->as.loop.kind == TN__LOOP_PARALLEL;
      if (runs) s->entries += times;
      if (runs) s->iterations += times * trips;
      sum_others(s, stmt->as.loop.body, stmt->as.loop.kind == TN__LOOP_VECTORIZED ? times : times * trips);
      break;
    }
    case TN__STMT_SEQ:
      for (int i = 0; i < stmt->as.seq.count; i++) sum_others(s, stmt->as.seq.items[i], times);
      break;
    case TN__STMT_IF:
      s->conditions += times;
      sum_others(s, stmt->as.branch.then_body, times);
      if (stmt->as.branch.else_body != NULL) sum_others(s, stmt->as.branch.else_body, times);
      break;
    case TN__STMT_LET: sum_others(s, stmt->as.let.body, times); break;
    case TN__STMT_ALLOC:
      s->allocated[stmt->as.alloc.buffer->scope] +=
          tn__ir_elements_estimate(stmt->as.alloc.buffer) * (double)tn_dtype_size(stmt->as.alloc.buffer->dtype);
      sum_others(s, stmt->as.alloc.body, times);
      break;
    case TN__STMT_WHILE: sum_others(s, stmt->as.repeat.body, times); break;
    case TN__STMT_PREFETCH: s->prefetches += times; break;
    default: break;
  }
}

typedef struct row {
  float *out;
  int count;
} row;

static void put(row *r, double value) {
  if (r->count < TN__FEATURES) r->out[r->count++] = (float)value;
}

static void put_log(row *r, double value) { put(r, log2(1 + fmax(value, 0))); }

static void put_sums(row *r, const summing *s) {
  put_log(r, s->statements);
  put_log(r, s->steps);
  put_log(r, s->trips);
  put_log(r, s->code);
  put_log(r, s->flops);
  put_log(r, s->registers);
  put_log(r, s->most_parallel);
  for (int i = 0; i < TN__FEATURE_OPERATIONS; i++) put_log(r, s->operations[i]);
  for (int i = 0; i < TN__FEATURE_PATTERNS; i++) put_log(r, s->loads[i]);
  for (int i = 0; i < TN__FEATURE_PATTERNS; i++) put_log(r, s->stores[i]);
  for (int i = 0; i < PLACES; i++) {
    put_log(r, s->bytes[i]);
    put_log(r, s->unique[i]);
    put_log(r, s->lines[i]);
  }
  for (int i = 0; i < TN__FEATURE_SIZES; i++) put_log(r, s->traffic[i]);
  for (int i = 0; i < TN__FEATURE_SIZES; i++) put(r, log2((1 + s->flops) / (1 + s->traffic[i])));
  for (int i = 0; i < DISTANCES; i++) put(r, s->moved > 0 ? s->distance[i] / s->moved : 0);
  put(r, s->moved > 0 ? s->reuse / s->moved : 0);
  put(r, s->allocated[TN__SCOPE_REGISTER] / s->target->cpu.vector_bytes);
  put_log(r, s->allocated[TN__SCOPE_STACK] + s->allocated[TN__SCOPE_LOCAL]);
  put_log(r, s->allocated[TN__SCOPE_WORKSPACE] + s->allocated[TN__SCOPE_SHARED]);
  put_log(r, s->conditions);
  put_log(r, s->prefetches);
  put_log(r, s->entries);
  put_log(r, s->iterations);
}

static void put_access(row *r, const tn__loop_access *a) {
  const tn__loop_access none = {.store = false};
  if (a == NULL) a = &none;
  put(r, a->pattern);
  put_log(r, a->unique_lines);
  put_log(r, a->stride);
  put_log(r, a->reuse);
  put_log(r, a->distance);
}

/* The statement with the most work, its store first, and then what it reads most of. */
static void put_top(row *r, const summing *s) {
  enum { SHOWN = 4 };
  const tn__loop_statement *v = &s->top;
  const tn__loop_access *sorted[TN__FEATURE_ACCESSES];
  put(r, s->all_work > 0 ? s->work / s->all_work : 0);
  put_log(r, v->steps);
  put_log(r, v->lanes);
  put_log(r, v->unrolled);
  put_log(r, v->parallel);
  put_log(r, v->reduced);
  put_log(r, v->independent);
  for (int i = 0; i < 4; i++) put_log(r, v->serial[i]);
  put(r, v->register_accesses);
  put(r, flops_of(v));
  put(r, v->steps > 0 ? log2((1 + v->trips * flops_of(v)) / (1 + v->traffic[1])) : 0);
  for (int i = 0; i < v->access_count; i++) {
    int at = i;
    while (at > 0 && !sorted[at - 1]->store && (v->access[i].store || sorted[at - 1]->bytes < v->access[i].bytes)) {
      sorted[at] = sorted[at - 1];
      at--;
    }
    sorted[at] = &v->access[i];
  }
  for (int i = 0; i < SHOWN; i++) put_access(r, i < v->access_count ? sorted[i] : NULL);
}

void tn__features_of(tn__ir *ir, const tn__func *func, const tn__target *target, float out[TN__FEATURES]) {
  summing *s = TN__NEW(tn__ir_arena(ir), summing);
  row r = {.out = out};
  s->target = target;
  tn__features_walk(ir, func, target, sum_statement, s);
  sum_others(s, func->body, 1);
  put_sums(&r, s);
  put_top(&r, s);
  while (r.count < TN__FEATURES) put(&r, 0);
}

void tn__features_of_schedule(const tn__schedule *schedule, const tn__target *target, float out[TN__FEATURES]) {
  tn__ir *ir = tn__te_ir(tn__schedule_te(schedule));
  tn__features_of(ir, tn__ir_lower_blocks(ir, tn__schedule_func(schedule)), target, out);
}
