/* Kernels to declarations: dimensions, parameters, statements and inlined calls. */
#include "te/declare.h"

#include <stdio.h>

#include "base/invariant.h"
#include "ir/parse.h"
#include "te/internal.h"

enum { MAX_STAGES = 1 << 14, MAX_STACK = 32 };

/* ---- messages and names ------------------------------------------------------------------------------------------ */

void tn__te_fail(const tn__declaring *d, const tn__token *at, const char *format, ...) {
  tn__place place = {at->text, at->line, at->column};
  va_list args;
  va_start(args, format);
  tn_status *status = tn_status_create_v(TN_INVALID_ARGUMENT, format, args);
  va_end(args);
  if (d->errors == NULL) tn__throw(d->arena->escape, tn_status_prefix(status, "%s", d->source->name));
  tn__errors_throw(d->errors, d->arena, &place, status);
}

const char *tn__te_text_of(const tn__declaring *d, const tn__token *t) {
  return tn__arena_strndup(d->arena, t->text, t->length);
}

const tn__meaning *tn__te_lookup(const tn__declaring *d, const tn__token *name) {
  for (int i = d->names.count - 1; i >= d->visible_from; i--) {
    const tn__meaning *n = &d->names.data[i];
    if (!tn__te_token_same(&n->token, name)) continue;
    if (n->broken) tn__errors_follow(d->errors, d->arena);
    return n;
  }
  return NULL;
}

void tn__te_bind(tn__declaring *d, const tn__token *name, const tn__expr *expr, const tn__buffer *buffer) {
  const tn__meaning *other = tn__te_lookup(d, name);
  if (other != NULL)
    tn__te_fail(d, name, "the name %s is taken already: %s", tn__te_text_of(d, name),
                other->buffer != NULL ? "it is a tensor"
                : other->named        ? "let gives it to a value"
                                      : "it is an axis or a dimension");
  tn__meaning n = {.token = *name, .expr = expr, .buffer = buffer};
  /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): tn__vec_grow never gives NULL */
  tn__vec_push(d->arena, &d->names, n);
}

const tn__syn_combiner *tn__te_find_combiner(const tn__declaring *d, const tn__token *name) {
  for (int i = 0; i < d->kernel->combiners.count; i++)
    if (tn__te_token_same(&d->kernel->combiners.data[i].name, name)) return &d->kernel->combiners.data[i];
  for (int i = 0; i < d->source->combiners.count; i++)
    if (tn__te_token_same(&d->source->combiners.data[i].name, name)) return &d->source->combiners.data[i];
  return NULL;
}

const tn__syn_function *tn__te_find_function(const tn__declaring *d, const tn__token *name) {
  for (int i = 0; i < d->source->functions.count; i++)
    if (tn__te_token_same(&d->source->functions.data[i].name, name)) return &d->source->functions.data[i];
  return NULL;
}

const tn__syn_kernel *tn__te_find_kernel(const tn__declaring *d, const tn__token *name) {
  for (int i = 0; i < d->source->kernels.count; i++)
    if (tn__te_token_same(&d->source->kernels.data[i].name, name)) return &d->source->kernels.data[i];
  for (int i = 0; i < d->source->imported.count; i++)
    if (tn__te_token_same(&d->source->imported.data[i].name, name)) return &d->source->imported.data[i];
  return NULL;
}

void tn__te_enter(tn__declaring *d, const tn__token *name, const tn__token *at) {
  for (int i = 0; i < d->stack.count; i++) {
    if (!tn__te_token_same(d->stack.data[i], name)) continue;
    const char *path = tn__te_text_of(d, d->stack.data[i]);
    for (int k = i + 1; k < d->stack.count; k++)
      path = tn__arena_printf(d->arena, "%s calls %s", path, tn__te_text_of(d, d->stack.data[k]));
    tn__te_fail(d, at, "the recursion has no end: %s calls %s", path, tn__te_text_of(d, name));
  }
  if (d->stack.count == MAX_STACK) tn__te_fail(d, at, "calls nested more than %d levels deep", MAX_STACK);
  tn__vec_push(d->arena, &d->stack, name);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

static void check_size(const tn__declaring *d, const tn__token *at, tn_dtype dtype, int rank,
                       const tn__expr *const *shape) {
  double bytes = (double)tn_dtype_size(dtype);
  for (int i = 0; i < rank; i++) {
    int64_t n;
    if (tn__ir_as_int(shape[i], &n) && n != 0) bytes *= (double)n; /* estimates multiply the others all the same */
  }
  if (bytes > TN__TE_MOST_BYTES) tn__te_fail(d, at, "%s has more elements than memory can hold", tn__te_text_of(d, at));
}

static void shape_of(tn__declaring *d, const tn__syn_param *param, const tn__expr **shape) {
  for (int i = 0; i < param->rank; i++) {
    char what[300];
    snprintf(what, sizeof(what), "dimension %d of %.*s", i, (int)param->name.length, param->name.text);
    shape[i] = tn__te_extent(d, param->shape[i], what);
  }
  check_size(d, &param->name, param->dtype, param->rank, shape);
}

/* The strides of a parameter, for which `shape` is known; NULL: it is dense. */
static const tn__expr *const *strides_of(tn__declaring *d, const tn__syn_param *param) {
  if (param->strides == NULL) return NULL;
  const tn__expr **strides = TN__NEW_ARRAY(d->arena, param->rank, const tn__expr *);
  for (int i = 0; i < param->rank; i++) {
    char what[300];
    snprintf(what, sizeof(what), "stride %d of %.*s", i, (int)param->name.length, param->name.text);
    strides[i] = tn__te_index(d, param->strides[i], what);
    if (tn__expr_has_load(strides[i]))
      tn__te_fail(d, &param->strides[i]->at, "%s depends on the contents of a tensor", what);
  }
  return strides;
}

/* Refuses strides, as far as they are known, that put two elements of a tensor into one place. */
static void check_strides(const tn__declaring *d, const tn__syn_param *param, const tn__buffer *buffer, bool written) {
  const tn__expr *conditions[3 * TN__MAX_RANK];
  const char *name = tn__te_text_of(d, &param->name);
  int count = tn__te_stride_conditions(d->ir, buffer, written, conditions);
  int64_t n;
  for (int i = 0; count > 0 && i < buffer->rank; i++)
    if (tn__ir_as_int(buffer->strides[i], &n) && (n < (written ? 1 : 0) || n > INT64_C(1) << 48))
      tn__te_fail(d, param->strides != NULL ? &param->strides[i]->at : &param->name,
                  "stride %d of %s is %lld; it must be %s, and no more than 2^48", i,
                  param->over.text != NULL ? tn__te_text_of(d, &param->over) : name, (long long)n,
                  written ? "at least 1, as elements are written" : "at least 0");
  for (int i = 0; i < count; i++)
    if (tn__ir_is_false(conditions[i]))
      tn__te_fail(d, &param->name,
                  "elements of %s lie in one place by these strides, and they are written: each stride "
                  "must be more than what the dimensions of smaller strides span",
                  name);
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static const tn__syn_param *find_output(const tn__declaring *d, const tn__token *name) {
  for (int i = 0; i < d->kernel->outputs.count; i++)
    if (tn__te_token_same(&d->kernel->outputs.data[i].name, name)) return &d->kernel->outputs.data[i];
  return NULL;
}

static const char *full_name(const tn__declaring *d, const tn__token *name) {
  return tn__arena_printf(d->arena, "%s%s", d->prefix, tn__te_text_of(d, name));
}

static void bind_target(tn__declaring *d, const tn__syn_stmt *s, int t, const tn__buffer *buffer) {
  tn__te_bind(d, &s->targets[t].name, NULL, buffer);
  d->names.data[d->names.count - 1].follows = tn__te_follows_of(d, s->axes, s->axis_count);
}

/* What a target is known to be before its value is looked at. */
typedef struct target {
  const tn__syn_param *syntax, *output; /* output: NULL when it is an intermediate tensor */
  const char *name;
  tn_dtype dtype; /* TN_DTYPE_INVALID: that of the value */
  const tn__expr *shape[TN__MAX_RANK];
} target;

static target target_of(tn__declaring *d, const tn__syn_param *syntax) {
  target t = {.syntax = syntax, .output = find_output(d, &syntax->name), .dtype = syntax->dtype};
  t.name = t.output != NULL && d->output_names != NULL ? d->output_names[t.output - d->kernel->outputs.data]
                                                       : full_name(d, &syntax->name);
  if (tn__te_lookup(d, &syntax->name) != NULL) tn__te_bind(d, &syntax->name, NULL, NULL); /* refuses it */
  if (t.output == NULL) return t;
  if (t.dtype != TN_DTYPE_INVALID && t.dtype != t.output->dtype)
    tn__te_fail(d, &syntax->name, "%s is of type %s here and of %s among the outputs", tn__te_text_of(d, &syntax->name),
                tn_dtype_name(t.dtype), tn_dtype_name(t.output->dtype));
  t.dtype = t.output->dtype;
  shape_of(d, t.output, t.shape);
  return t;
}

static const char *shape_text(const tn__declaring *d, int rank, const tn__expr *const *shape) {
  tn__strbuf text;
  tn__strbuf_init(&text, d->arena->allocator);
  tn__strbuf_char(&text, '[');
  for (int i = 0; i < rank; i++) {
    if (i > 0) tn__strbuf_append(&text, ", ");
    tn__expr_print_short(shape[i], &text);
  }
  tn__strbuf_char(&text, ']');
  return tn__arena_take(d->arena, &text);
}

static void check_target(const tn__declaring *d, const target *t, const tn__buffer *result) {
  TN__INVARIANT(result != NULL); /* what defines a statement's elements makes a tensor for each target */
  const char *text = tn__te_text_of(d, &t->syntax->name);
  if (t->dtype != TN_DTYPE_INVALID && result->dtype != t->dtype)
    tn__te_fail(d, &t->syntax->name, "%s is of type %s, and its value of %s", text, tn_dtype_name(t->dtype),
                tn_dtype_name(result->dtype));
  if (t->output == NULL) return;
  bool same = result->rank == t->output->rank;
  for (int i = 0; same && i < result->rank; i++) same = result->shape[i] == t->shape[i];
  if (!same)
    tn__te_fail(d, &t->syntax->name, "%s has the shape %s among the outputs and %s here", text,
                shape_text(d, t->output->rank, t->shape), shape_text(d, result->rank, result->shape));
}

/* Terms say where they go: by the axes whose place they keep, and by what is computed for the others. */
static void define_accumulation(tn__declaring *d, const tn__syn_stmt *s, tn__te_reduction *r, const char *const *names,
                                const tn__te_axes *axes, const tn__buffer **made) {
  const tn__syn *into = s->value->args[1];
  const tn__expr *first[4];
  if (r->into_count != axes->count)
    tn__te_fail(d, &into->at, "into has %d %s, and %s %d dimension%s", r->into_count,
                r->into_count == 1 ? "index" : "indices", tn__te_text_of(d, &s->targets[0].name), axes->count,
                tn__plural(axes->count));
  for (int a = 0; a < axes->count; a++) {
    if (s->axes[a].open) r->into[a] = tn__ir_sub(d->ir, r->into[a], tn__te_follow_axis(d, &s->axes[a], NULL)->low);
    if (r->into[a] == axes->index[a]) continue;
    const tn__syn *user = NULL;
    for (int t = 0; t < r->combiner->count; t++)
      if (tn__expr_uses_var(r->terms[t], axes->var[a])) user = s->value->args[0];
    for (int i = 0; i < r->into_count && user == NULL; i++)
      if (tn__expr_uses_var(r->into[i], axes->var[a])) user = into->args[i];
    if (user != NULL)
      tn__te_fail(d, &user->at,
                  "this depends on the axis %s, whose position into computes; keep it by writing %s there",
                  axes->var[a]->name, axes->var[a]->name);
  }
  const tn__expr *const *start = tn__te_first_of(d, s->value, r->combiner, first);
  tn__te_accumulate_as(d->te, names, axes, &r->axes, r->combiner, r->terms, r->into, start, made);
}

static void define_reduce(tn__declaring *d, const tn__syn_stmt *s, const target *targets, const tn__te_axes *axes,
                          const tn__buffer **out) {
  tn_dtype wants[4];
  const char *names[4] = {0};
  for (int t = 0; t < s->target_count; t++) wants[t] = targets[t].dtype;
  tn__te_reduction r = tn__te_reduction_of(d, s->value, wants, s->target_count);
  if (!r.index_only && r.combiner->count != s->target_count)
    tn__te_fail(d, &s->value->at, "%s gives %d value%s, not %d", tn__te_text_of(d, &s->value->at), r.combiner->count,
                tn__plural(r.combiner->count), s->target_count);
  for (int t = 0; t < s->target_count; t++) names[r.index_only ? 1 : t] = targets[t].name;
  if (r.index_only) names[0] = tn__arena_printf(d->arena, "%s.value", targets[0].name);
  const tn__buffer *made[4];
  if (r.into_count > 0)
    define_accumulation(d, s, &r, names, axes, made);
  else
    tn__te_reduce_as(d->te, names, axes, &r.axes, r.combiner, r.terms, made);
  for (int t = 0; t < s->target_count; t++) out[t] = made[r.index_only ? 1 : t];
}

static const tn__syn *value_of(const tn__declaring *d, const tn__syn *s, int index, int count) {
  if (count == 1) return s;
  if (s->kind != TN__SYN_TUPLE || s->arg_count != count)
    tn__te_fail(d, &s->at, "%d tensors are defined: write as many values in parentheses", count);
  return s->args[index];
}

static void check_values(const tn__declaring *d, const tn__syn *s, const target *targets, int count,
                         const tn__expr *const *values) {
  for (int t = 0; t < count; t++)
    tn__te_expect_dtype(d, &value_of(d, s, t, count)->at, values[t], targets[t].dtype,
                        tn__te_text_of(d, &targets[t].syntax->name));
}

/* Positions of the scan axis, while its first values or the others are declared: a variable in scope over them. */
static void enter_positions(tn__declaring *d, const tn__syn *scan, bool first) {
  const tn__expr *start, *count;
  tn__te_scan_positions(d->ir, d->scan_axis->extent, scan->scan_depth, scan->negative, first, &start, &count);
  const tn__var *var = tn__var_create(d->ir, d->scan_axis->name, TN_I64, tn__ir_index(d->ir, 0), count);
  tn__vec_push(d->arena, &d->axes, var);
  d->scan_position = tn__ir_add(d->ir, var->self, start);
}

/* Tensors that each step computes for itself, before the elements of the scan. */
static void define_step(tn__declaring *d, const tn__syn *s) {
  tn__te_axes axes, all = {.count = 1, .var = {d->scan_axis}, .index = {d->scan_axis->self}};
  tn__syn_stmt as = {.at = s->at, .value = s->args[0], .axes = s->axes, .axis_count = s->axis_count};
  target targets[4] = {0};
  const tn__buffer *out[4] = {NULL};
  const char *statement = d->statement;
  int names = d->names.count, in_scope = d->axes.count;
  for (int t = 0; t < s->target_count; t++) {
    as.targets[as.target_count++] = s->targets[t];
    targets[t] = target_of(d, &s->targets[t]);
    if (targets[t].output != NULL)
      tn__te_fail(d, &s->targets[t].name, "%s is an output of the kernel: a tensor of a scan's steps is none",
                  targets[t].name);
  }
  tn__te_make_axes(d, s->axes, s->axis_count, NULL, s->args, 1, false, targets[0].name, &axes);
  if (axes.count == TN__MAX_RANK)
    tn__te_fail(d, &s->at, "%s has as many axes as a tensor may have, and the step is one more", targets[0].name);
  for (int i = 0; i < axes.count; i++) {
    all.var[all.count] = axes.var[i];
    all.index[all.count++] = axes.index[i];
  }
  tn__te_bind_axes(d, s->axes, &axes);
  d->statement = targets[0].name;
  as.value = tn__te_behind_lets(d, s->args[0]);
  if (as.value->kind == TN__SYN_REDUCE) {
    if (as.value->arg_count > 1)
      tn__te_fail(d, &as.value->args[1]->at, "into has no place in the steps of a scan: each element takes its terms");
    define_reduce(d, &as, targets, &all, out);
  } else {
    if (s->target_count > 1)
      tn__te_fail(d, &as.value->at, "one value for %d tensors: only reductions, scans and calls give several",
                  s->target_count);
    const tn__expr *value = tn__te_value(d, as.value, targets[0].dtype);
    if (targets[0].dtype != TN_DTYPE_INVALID)
      tn__te_expect_dtype(d, &as.value->at, value, targets[0].dtype, targets[0].name);
    out[0] = tn__te_compute(d->te, targets[0].name, &all, value);
  }
  tn__te_put_in_step(d->te, out[0], d->scan_tensors[0]);
  d->statement = statement;
  d->names.count = names;
  d->axes.count = in_scope;
  for (int t = 0; t < s->target_count; t++) {
    check_target(d, &targets[t], out[t]);
    check_size(d, &s->targets[t].name, out[t]->dtype, out[t]->rank, out[t]->shape);
    tn__te_bind(d, &s->targets[t].name, NULL, out[t]);
    d->names.data[d->names.count - 1].in_step = true;
  }
}

/* The elements of a scan, behind what its steps name before. */
static const tn__syn *behind_steps(tn__declaring *d, const tn__syn *s) {
  for (; s->kind == TN__SYN_LET || s->kind == TN__SYN_STEP; s = s->args[1]) {
    if (s->kind == TN__SYN_LET)
      tn__te_let(d, &s->axes[0].name, s->dtype, s->args[0]);
    else
      define_step(d, s);
  }
  return s;
}

static void define_scan(tn__declaring *d, const tn__syn_stmt *s, target *targets, const tn__te_axes *axes,
                        const tn__buffer **out) {
  const tn__syn *scan = s->value;
  int axis = -1, count = s->target_count;
  for (int i = 0; i < axes->count; i++)
    if (tn__te_token_same(&s->axes[i].name, &scan->axes[0].name)) axis = i;
  if (axis < 0)
    tn__te_fail(d, &scan->axes[0].name, "%s is no axis of %s, which the scan could run along",
                tn__te_text_of(d, &scan->axes[0].name), tn__te_text_of(d, &s->targets[0].name));
  if (s->axes[axis].open)
    tn__te_fail(d, &s->axes[axis].name, "the scan has its first values where %s begins: state the extent, %s: EXTENT",
                tn__te_text_of(d, &s->axes[axis].name), tn__te_text_of(d, &s->axes[axis].name));
  int64_t extent;
  if (tn__ir_as_int(axes->var[axis]->extent, &extent) && extent > 0 && extent < scan->scan_depth)
    tn__te_fail(
        d, &scan->axes[0].name,
        "the scan has %lld first positions, and its axis %s has %lld: no step would follow them; write a longer "
        "axis, or scan(%s%s, DEPTH) with fewer",
        (long long)scan->scan_depth, axes->var[axis]->name, (long long)extent, scan->negative ? "-" : "",
        axes->var[axis]->name);
  const tn__expr *first[4] = {0}, *update[4] = {0};
  d->scan_axis = axes->var[axis];
  d->scan_axes = axes;
  d->scan_backwards = scan->negative;
  int in_scope = d->axes.count, names = d->names.count;
  if (scan->scan_depth > 0) {
    enter_positions(d, scan, true);
    const tn__syn *values = tn__te_behind_lets(d, scan->args[0]);
    for (int t = 0; t < count; t++) {
      first[t] = tn__te_value(d, value_of(d, values, t, count), targets[t].dtype);
      if (targets[t].dtype == TN_DTYPE_INVALID) targets[t].dtype = first[t]->dtype;
    }
    check_values(d, values, targets, count, first);
    d->axes.count = in_scope;
    d->names.count = names;
  }
  for (int t = 0; t < count; t++) {
    if (targets[t].dtype == TN_DTYPE_INVALID)
      tn__te_fail(d, &s->targets[t].name, "a scan without first values does not say its type; write %s: TYPE[...]",
                  tn__te_text_of(d, &s->targets[t].name));
    tn__te_scan_declare(d->te, targets[t].name, axes, &targets[t].dtype, 1, &out[t]);
    bind_target(d, s, t, out[t]);
    d->scan_tensors[t] = out[t];
  }
  d->scan_count = count;
  d->scan_dim = axis;
  enter_positions(d, scan, false);
  const tn__syn *then = behind_steps(d, scan->args[scan->arg_count - 1]);
  for (int t = 0; t < count; t++) update[t] = tn__te_value(d, value_of(d, then, t, count), targets[t].dtype);
  check_values(d, then, targets, count, update);
  d->axes.count = in_scope;
  d->scan_axis = NULL;
  d->scan_count = 0;
  tn__te_scan_define(d->te, axes, axis, scan->scan_depth, first, update, out, count);
  if (scan->negative) tn__te_scan_turn(d->te, out[0]);
}

static void define_elements(tn__declaring *d, const tn__syn_stmt *s, target *targets, const tn__buffer **out) {
  const tn__expr *known[TN__MAX_RANK] = {0};
  const target *first = &targets[0];
  for (int t = 0; t < s->target_count; t++) {
    if (targets[t].output == NULL) continue;
    const char *text = tn__te_text_of(d, &s->targets[t].name);
    int rank = targets[t].output->rank;
    if (rank != s->axis_count)
      tn__te_fail(d, &s->targets[t].name, "%s has %d dimension%s: name %s for it, not %d", text, rank, tn__plural(rank),
                  rank == 1 ? "an axis" : "as many axes", s->axis_count);
    for (int i = 0; i < rank; i++) known[i] = targets[t].shape[i];
  }
  tn__te_axes axes;
  int names = d->names.count, in_scope = d->axes.count;
  tn__te_make_axes(d, s->axes, s->axis_count, known, &s->value, 1, false, tn__te_text_of(d, &s->targets[0].name),
                   &axes);
  tn__te_bind_axes(d, s->axes, &axes);
  for (int i = 0; i < axes.count; i++) axes.index[i] = axes.var[i]->self; /* stages count from 0 */
  d->statement = first->name;
  tn__syn_stmt behind = *s;
  behind.value = tn__te_behind_lets(d, s->value);
  if (behind.value->kind == TN__SYN_REDUCE) {
    define_reduce(d, &behind, targets, &axes, out);
  } else if (behind.value->kind == TN__SYN_SCAN) {
    define_scan(d, &behind, targets, &axes, out);
  } else {
    if (s->target_count > 1)
      tn__te_fail(d, &behind.value->at, "one value for %d tensors: only reductions, scans and calls give several",
                  s->target_count);
    const tn__expr *value = tn__te_value(d, behind.value, first->dtype);
    if (first->dtype != TN_DTYPE_INVALID)
      tn__te_expect_dtype(d, &behind.value->at, value, first->dtype, tn__te_text_of(d, &s->targets[0].name));
    out[0] = tn__te_compute(d->te, first->name, &axes, value);
  }
  d->statement = NULL;
  d->names.count = names;
  d->axes.count = in_scope;
  for (int t = 0; t < s->target_count; t++)
    check_size(d, &s->targets[t].name, out[t]->dtype, out[t]->rank, out[t]->shape);
}

/* ---- imperative stages ------------------------------------------------------------------------------------------- */

static const tn__buffer *known_tensor(tn__declaring *d, const tn__token *name) {
  const tn__meaning *n = tn__te_lookup(d, name);
  if (n == NULL || n->buffer == NULL) tn__te_unknown(d, name, TN__TE_TENSOR);
  tn__te_refuse_open(d, name, n, "all of the tensor is taken here");
  return n->buffer;
}

/* Names of the file's constants, which a body may read like everything else of the file. */
static const tn__expr *constant_named(void *user, const tn__token *name) {
  tn__syn s = {.kind = TN__SYN_NAME, .at = *name};
  return tn__te_knows(user, name) ? tn__te_value(user, &s, TN_DTYPE_INVALID) : NULL;
}

static tn__parse_use use_of(const tn__buffer *buffer, const tn__syn_stmt *s, const tn__buffer *const *reads,
                            const tn__buffer *const *writes) {
  for (int t = 0; t < s->target_count; t++)
    if (writes[t] == buffer) return TN__PARSE_ANY;
  for (int i = 0; i < s->read_count; i++)
    if (reads[i] == buffer) return TN__PARSE_READ_ONLY;
  return TN__PARSE_NOT_LISTED;
}

static void define_extern(tn__declaring *d, const tn__syn_stmt *s) {
  const tn__buffer **reads = TN__NEW_ARRAY(d->arena, s->read_count, const tn__buffer *), *writes[4];
  tn__parser p = {.lex = s->body, .ir = d->ir, .arena = d->arena, .outside = constant_named, .user = d};
  p.lex.ir = d->ir;
  p.lex.locale = d->lex.locale;
  for (int i = 0; i < s->read_count; i++) reads[i] = known_tensor(d, &s->reads[i]);
  for (int t = 0; t < s->target_count; t++) {
    target to = target_of(d, &s->targets[t]);
    const tn__expr *shape[TN__MAX_RANK];
    shape_of(d, &s->targets[t], shape);
    writes[t] = tn__te_extern_tensor(d->te, to.name, s->targets[t].dtype, s->targets[t].rank, shape);
    check_target(d, &to, writes[t]);
    tn__te_bind(d, &s->targets[t].name, NULL, writes[t]);
  }
  for (int i = d->visible_from; i < d->names.count; i++) {
    const tn__meaning *n = &d->names.data[i];
    tn__parse_name visible = {.text = n->token.text, .length = n->token.length, .buffer = n->buffer, .expr = n->expr};
    if (n->broken) continue;
    if (n->syn != NULL) visible.expr = tn__te_value(d, n->syn, TN_DTYPE_INVALID);
    if (n->buffer != NULL) visible.use = use_of(n->buffer, s, reads, writes);
    tn__vec_push(d->arena, &p.names, visible);
  }
  int errors = p.lex.errors->list.count;
  const tn__stmt *body = tn__ir_parse_items(&p, "at the end of an imperative stage");
  if (p.lex.errors->list.count > errors) tn__errors_follow(p.lex.errors, d->arena);
  const char *name = full_name(d, &s->extern_name);
  tn__te_extern(d->te, name, reads, s->read_count, writes, s->target_count, body);
  int unwritten = tn__te_unwritten(tn__te_stage_at(d->te, tn__te_stage_count(d->te) - 1));
  if (unwritten >= 0)
    tn__te_fail(d, &s->targets[unwritten].name, "no statement of %s writes %s", name,
                tn__te_text_of(d, &s->targets[unwritten].name));
}

/* ---- calls of kernels -------------------------------------------------------------------------------------------- */

static void call_kernel(tn__declaring *d, const tn__syn *call, const char *const *names, int count,
                        const tn__buffer **out);

static const tn__buffer *argument(tn__declaring *d, const tn__syn *s, const char *base) {
  if (s->kind == TN__SYN_NAME) return known_tensor(d, &s->at);
  const tn__syn_kernel *k = s->kind == TN__SYN_CALL ? tn__te_find_kernel(d, &s->at) : NULL;
  if (k == NULL) tn__te_fail(d, &s->at, "kernels take tensors: give this expression a name first");
  if (k->outputs.count != 1)
    tn__te_fail(d, &s->at, "%s gives %d tensors where one is wanted", tn__te_text_of(d, &s->at), k->outputs.count);
  const char *name = tn__arena_printf(d->arena, "%s.%s", base, tn__te_text_of(d, &s->at));
  const tn__buffer *out = NULL;
  call_kernel(d, s, &name, 1, &out);
  return out;
}

static void bind_dims(tn__declaring *d, const tn__syn *call, const tn__syn_kernel *k, const tn__expr **values,
                      const tn__buffer *const *args) {
  for (int i = 0; i < k->inputs.count; i++) {
    const tn__syn_param *param = &k->inputs.data[i];
    const char *text = tn__te_text_of(d, &param->name), *called = tn__te_text_of(d, &k->name);
    const tn__token *at = &call->args[i]->at;
    if (args[i]->dtype != param->dtype)
      tn__te_fail(d, at, "%s of %s is of type %s, not %s", text, called, tn_dtype_name(param->dtype),
                  tn_dtype_name(args[i]->dtype));
    if (args[i]->rank != param->rank)
      tn__te_fail(d, at, "%s of %s has %d dimension%s, not %d", text, called, param->rank, tn__plural(param->rank),
                  args[i]->rank);
    for (int r = 0; r < param->rank; r++)
      for (int v = 0; param->shape[r]->kind == TN__SYN_NAME && v < k->dims.count; v++)
        if (values[v] == NULL && tn__te_token_same(&k->dims.data[v].name, &param->shape[r]->at))
          values[v] = args[i]->shape[r];
  }
  for (int v = 0; v < k->dims.count; v++) {
    const char *text = tn__te_text_of(d, &k->dims.data[v].name), *called = tn__te_text_of(d, &k->name);
    int64_t n;
    const tn__syn_dim *dim = &k->dims.data[v];
    bool of_memory = dim->in_strides && !dim->elsewhere; /* which a kernel that calls knows nothing of, nor needs */
    if (values[v] == NULL && of_memory) values[v] = tn__ir_index(d->ir, dim->min);
    if (values[v] == NULL)
      tn__te_fail(d, &call->at, "the dimension %s of %s follows from no argument; write %s[%s = ...](...)", text,
                  called, called, text);
    if (tn__ir_as_int(values[v], &n) && n < k->dims.data[v].min)
      tn__te_fail(d, &call->at, "the dimension %s of %s is %lld here; it is at least %lld", text, called, (long long)n,
                  (long long)k->dims.data[v].min);
  }
}

static void check_shapes(tn__declaring *d, const tn__syn *call, const tn__syn_kernel *k,
                         const tn__buffer *const *args) {
  for (int i = 0; i < k->inputs.count; i++) {
    const tn__expr *shape[TN__MAX_RANK];
    shape_of(d, &k->inputs.data[i], shape);
    for (int r = 0; r < args[i]->rank; r++)
      if (args[i]->shape[r] != shape[r])
        tn__te_fail(d, &call->args[i]->at, "%s of %s has the shape %s here, not %s",
                    tn__te_text_of(d, &k->inputs.data[i].name), tn__te_text_of(d, &k->name),
                    shape_text(d, args[i]->rank, shape), shape_text(d, args[i]->rank, args[i]->shape));
  }
}

static void declare_stmts(tn__declaring *d);

/* While extents are looked for, a called kernel's statements say nothing: what it gives has its stated shape. */
static void bind_outputs(tn__declaring *d, const char *const *names) {
  for (int i = 0; i < d->kernel->outputs.count; i++) {
    const tn__syn_param *param = &d->kernel->outputs.data[i];
    const tn__expr *shape[TN__MAX_RANK];
    shape_of(d, param, shape);
    tn__te_bind(d, &param->name, NULL, tn__te_extern_tensor(d->te, names[i], param->dtype, param->rank, shape));
  }
}

/* The called kernel's statements become stages of this declaration, named "Y.P"; its outputs get the given names. */
static void inline_kernel(tn__declaring *d, const tn__syn *call, const tn__syn_kernel *k, const tn__expr **dims,
                          const tn__buffer *const *args, const char *const *names, const tn__buffer **out) {
  const tn__syn_kernel *caller = d->kernel;
  const char *prefix = d->prefix, *statement = d->statement, *const *output_names = d->output_names;
  int count = d->names.count, visible = d->visible_from, follows = d->follows.count;
  tn__te_enter(d, &k->name, &call->at);
  d->visible_from = count;
  d->kernel = k;
  d->output_names = names;
  d->prefix = tn__arena_printf(d->arena, "%s.", names[0]);
  d->statement = NULL;
  for (int v = 0; v < k->dims.count; v++) tn__te_bind(d, &k->dims.data[v].name, dims[v], NULL);
  check_shapes(d, call, k, args);
  for (int i = 0; i < k->inputs.count; i++) tn__te_bind(d, &k->inputs.data[i].name, NULL, args[i]);
  if (d->inferring)
    bind_outputs(d, names);
  else
    declare_stmts(d);
  for (int i = 0; i < k->outputs.count; i++) {
    const tn__meaning *n = tn__te_lookup(d, &k->outputs.data[i].name);
    if (n == NULL)
      tn__te_fail(d, &k->outputs.data[i].name, "the output %s is never defined",
                  tn__te_text_of(d, &k->outputs.data[i].name));
    out[i] = n->buffer;
  }
  d->names.count = count;
  d->follows.count = follows;
  d->visible_from = visible;
  d->kernel = caller;
  d->output_names = output_names;
  d->prefix = prefix;
  d->statement = statement;
  d->stack.count--;
}

static void call_kernel(tn__declaring *d, const tn__syn *call, const char *const *names, int count,
                        const tn__buffer **out) {
  const tn__syn_kernel *k = tn__te_find_kernel(d, &call->at);
  const char *text = tn__te_text_of(d, &call->at);
  for (int i = 0; i < d->source->kernels.count; i++)
    if (k == &d->source->kernels.data[i] && d->source->failed[i]) tn__errors_follow(d->errors, d->arena);
  if (k->outputs.count != count)
    tn__te_fail(d, &call->at, "%s gives %d tensor%s, not %d", text, k->outputs.count, tn__plural(k->outputs.count),
                count);
  if (k->inputs.count != call->arg_count)
    tn__te_fail(d, &call->at, "%s takes %d tensor%s, not %d", text, k->inputs.count, tn__plural(k->inputs.count),
                call->arg_count);
  const tn__expr **dims = TN__NEW_ARRAY(d->arena, k->dims.count, const tn__expr *);
  const tn__buffer **args = TN__NEW_ARRAY(d->arena, call->arg_count, const tn__buffer *);
  for (int i = 0; i < call->axis_count; i++) {
    bool found = false;
    for (int v = 0; v < k->dims.count; v++) {
      if (!tn__te_token_same(&k->dims.data[v].name, &call->axes[i].name)) continue;
      if (dims[v] != NULL) tn__te_fail(d, &call->axes[i].name, "the dimension is given twice");
      dims[v] = tn__te_extent(d, call->axes[i].extent, "a dimension");
      found = true;
    }
    if (!found)
      tn__te_fail(d, &call->axes[i].name, "%s has no dimension %s", text, tn__te_text_of(d, &call->axes[i].name));
  }
  for (int i = 0; i < call->arg_count; i++) args[i] = argument(d, call->args[i], names[0]);
  bind_dims(d, call, k, dims, args);
  inline_kernel(d, call, k, dims, args, names, out);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* let between statements: no axis is in scope, so the value is the same for all elements. */
static void define_named(tn__declaring *d, const tn__syn_stmt *s) {
  tn__te_check_names(d, s);
  d->statement = full_name(d, &s->targets[0].name); /* its reductions are tensors of that name */
  tn__te_let(d, &s->targets[0].name, s->targets[0].dtype, s->value);
  d->statement = NULL;
}

static void set_hint(const tn__declaring *d, const tn__syn_stmt *s, const tn__buffer *tensor) {
  const tn__token *name = &s->targets[0].name;
  const tn__te_stage *stage = tn__te_stage_of(d->te, tensor);
  TN__INVARIANT(stage != NULL);
  if (s->hint == TN__TE_INLINED && find_output(d, name) != NULL)
    tn__te_fail(d, name, "%s is an output of the kernel, which is stored", tn__te_text_of(d, name));
  if (s->hint == TN__TE_INLINED && stage->kind != TN__TE_COMPUTE)
    tn__te_fail(d, name, "%s is a %s, whose elements are computed once: inlined is what has a value for each element",
                tn__te_text_of(d, name), stage->kind == TN__TE_SCAN ? "scan" : "reduction");
  tn__te_set_hint(d->te, tensor, s->hint);
}

static void declare_stmt(tn__declaring *d, const tn__syn_stmt *s) {
  target targets[4] = {0};
  const tn__buffer *out[4] = {NULL};
  const char *names[4] = {NULL};
  if (tn__te_stage_count(d->te) >= MAX_STAGES)
    tn__te_fail(d, &s->at, "more than %d stages once calls are expanded", MAX_STAGES);
  tn__te_step(d, &s->at);
  if (s->kind == TN__SYN_BROKEN) tn__errors_follow(d->errors, d->arena);
  if (s->kind == TN__SYN_EXTERN) {
    define_extern(d, s);
    return;
  }
  if (s->kind == TN__SYN_NAMED) {
    define_named(d, s);
    return;
  }
  for (int t = 0; t < s->target_count; t++) {
    targets[t] = target_of(d, &s->targets[t]);
    names[t] = targets[t].name;
    for (int u = 0; u < t; u++)
      if (tn__te_token_same(&s->targets[t].name, &s->targets[u].name))
        tn__te_fail(d, &s->targets[t].name, "%s is defined twice", tn__te_text_of(d, &s->targets[t].name));
  }
  TN__INVARIANT(targets[0].syntax != NULL); /* the reader takes no statement without a target */
  tn__te_check_names(d, s);
  if (s->value->kind == TN__SYN_CALL && tn__te_find_kernel(d, &s->value->at) != NULL) {
    if (s->hint != TN__TE_ANYWHERE)
      tn__te_fail(d, &s->value->at, "a call has several statements: say `store` or `inline` of those in %s",
                  tn__te_text_of(d, &s->value->at));
    if (s->has_axes) tn__te_fail(d, &s->at, "a kernel gives whole tensors: no axes on the left of a call");
    call_kernel(d, s->value, names, s->target_count, out);
  } else {
    define_elements(d, s, targets, out);
    if (s->hint != TN__TE_ANYWHERE) set_hint(d, s, out[0]);
  }
  for (int t = 0; t < s->target_count; t++) {
    check_target(d, &targets[t], out[t]);
    bind_target(d, s, t, out[t]);
  }
}

static void each_stmt(tn__declaring *d) {
  for (int i = 0; i < d->kernel->stmts.count; i++) declare_stmt(d, &d->kernel->stmts.data[i]);
}

/* Finds the extents that follow from use: by `declare`, which goes through the statements. */
static void find_extents(tn__declaring *d, void (*declare)(tn__declaring *d),
                         void (*solve)(tn__declaring *d, int first)) {
  tn__te *te = d->te;
  int names = d->names.count, first = d->follows.count;
  if (!tn__te_has_open(d->kernel)) return;
  d->te = tn__te_create(d->ir, tn__te_text_of(d, &d->kernel->name));
  d->inferring = true;
  declare(d);
  d->inferring = false;
  d->te = te;
  d->names.count = names;
  d->outside_count = 0; /* which is told of the true extents */
  if (!d->failed) solve(d, first);
}

static void declare_stmts(tn__declaring *d) {
  find_extents(d, each_stmt, tn__te_follow_solve);
  each_stmt(d);
}

/* ---- going on after an error ------------------------------------------------------------------------------------- */

typedef struct part {
  tn__declaring *d;
  void (*declare)(struct part *part);
  int index; /* of the kernel's dimensions, inputs, statements or outputs */
} part;

static void declare_part(void *user) {
  part *p = user;
  p->declare(p);
}

static void bind_broken(tn__declaring *d, const tn__token *name) {
  for (int i = d->visible_from; i < d->names.count; i++)
    if (tn__te_token_same(&d->names.data[i].token, name)) return;
  tn__meaning n = {.token = *name, .broken = true};
  tn__vec_push(d->arena, &d->names, n);
}

/* What the indices of a statement that was looked at to its end, or to an error, are outside by. */
static bool report_outside(tn__declaring *d) {
  int count = d->inferring ? 0 : d->outside_count;
  d->outside_count = 0;
  for (int i = 0; i < count; i++) {
    const tn__outside *o = &d->outside[i];
    tn__place place = {o->at.text, o->at.line, o->at.column};
    tn__errors_add(d->errors, d->arena, &place, tn__te_outside_text(d, o));
  }
  return count > 0;
}

/* False when the part had an error: the declaration is then as it was before, but for what is in the arena. */
static bool attempt(tn__declaring *d, void (*declare)(part *p), int index) {
  part p = {d, declare, index};
  tn__declaring before = *d;
  bool done = tn__errors_attempt(d->errors, d->arena, declare_part, &p);
  if (!done) {
    int64_t steps = d->steps;
    int count = d->outside_count;
    memcpy(before.outside, d->outside, sizeof(before.outside));
    *d = before;
    d->steps = steps;
    d->outside_count = count;
  }
  done &= !report_outside(d);
  d->failed |= !done;
  return done;
}

static void declare_dim(part *p) {
  tn__declaring *d = p->d;
  const tn__syn_dim *dim = &d->kernel->dims.data[p->index];
  const char *text = tn__te_text_of(d, &dim->name);
  const tn__expr *value = NULL;
  for (int v = 0; v < d->dim_count; v++) {
    if (strcmp(d->dims[v].name, text) != 0) continue;
    if (d->dims[v].value < dim->min)
      tn__te_fail(d, &dim->name, "the dimension %s is %lld; it must be at least %lld", text,
                  (long long)d->dims[v].value, (long long)dim->min);
    if (d->dims[v].value > INT64_C(1) << 48)
      tn__te_fail(d, &dim->name, "the dimension %s is %lld, more than memory can hold", text,
                  (long long)d->dims[v].value);
    value = tn__ir_index(d->ir, d->dims[v].value);
  }
  if (value == NULL) value = tn__te_dim(d->te, text, dim->min)->self;
  tn__te_bind(d, &dim->name, value, NULL);
}

static void declare_input(part *p) {
  tn__declaring *d = p->d;
  const tn__syn_param *param = &d->kernel->inputs.data[p->index];
  const tn__expr *shape[TN__MAX_RANK];
  shape_of(d, param, shape);
  const tn__buffer *input = tn__te_strided_input(d->te, tn__te_text_of(d, &param->name), param->dtype, param->rank,
                                                 shape, strides_of(d, param));
  tn__te_bind(d, &param->name, NULL, input);
  check_strides(d, param, input, false);
}

/* The output takes the memory of an input, which is like it. */
static void put_over(tn__declaring *d, const tn__syn_param *param, int output) {
  const tn__buffer *made = tn__te_output_at(d->te, output);
  int input = -1;
  for (int i = 0; i < d->kernel->inputs.count; i++)
    if (tn__te_token_same(&d->kernel->inputs.data[i].name, &param->over)) input = i;
  const char *text = tn__te_text_of(d, &param->name), *over = tn__te_text_of(d, &param->over);
  if (input < 0) tn__te_fail(d, &param->over, "%s is no input of the kernel, whose memory %s could take", over, text);
  const tn__buffer *from = tn__te_input_at(d->te, input);
  bool same = from->rank == made->rank;
  for (int i = 0; same && i < from->rank; i++) same = from->shape[i] == made->shape[i];
  if (!same || from->dtype != made->dtype)
    tn__te_fail(d, &param->over, "%s is %s%s and %s is %s%s: one takes the memory of the other where both are the same",
                text, tn_dtype_name(made->dtype), shape_text(d, made->rank, made->shape), over,
                tn_dtype_name(from->dtype), shape_text(d, from->rank, from->shape));
  if (from->rank == 0) tn__te_fail(d, &param->over, "%s is a scalar, which is passed by value", over);
  for (int i = 0; i < output; i++)
    if (tn__te_over(d->te, i) == input)
      tn__te_fail(d, &param->over, "%s takes the memory of %s already", tn__te_output_at(d->te, i)->name, over);
  tn__te_put_over(d->te, output, input);
  tn__te_set_strides(d->te, made, from->strides);
}

static void declare_one(part *p) { declare_stmt(p->d, &p->d->kernel->stmts.data[p->index]); }

static void declare_output(part *p) {
  tn__declaring *d = p->d;
  const tn__syn_param *param = &d->kernel->outputs.data[p->index];
  const tn__meaning *n = tn__te_lookup(d, &param->name);
  const char *text = tn__te_text_of(d, &param->name);
  if (n == NULL && d->failed) tn__errors_follow(d->errors, d->arena);
  if (n == NULL) tn__te_fail(d, &param->name, "the output %s is never defined", text);
  /* A call may hand its own parameter on. */
  if (tn__te_stage_of(d->te, n->buffer) == NULL)
    tn__te_fail(d, &param->name, "the output %s is an input; copy its elements", text);
  for (int o = 0; o < tn__te_output_count(d->te); o++)
    if (tn__te_output_at(d->te, o) == n->buffer)
      tn__te_fail(d, &param->name, "the output %s is the same tensor as another; copy its elements", text);
  int output = tn__te_output_count(d->te);
  tn__te_output(d->te, n->buffer);
  tn__te_set_strides(d->te, n->buffer, strides_of(d, param));
  if (param->over.text != NULL) put_over(d, param, output);
  check_strides(d, param, n->buffer, true);
}

/* Which statement of the kernel made a stage. */
typedef struct origins {
  tn__declaring *d;
  TN__VEC(const tn__token *) places; /* by stage */
} origins;

static void note_origins(origins *o, const tn__token *at) {
  while (o->places.count < tn__te_stage_count(o->d->te)) tn__vec_push(o->d->arena, &o->places, at);
}

/* Refuses what is found in a stage: at its statement. */
static void refuse_stage(void *user, int stage, const char *message) {
  const origins *o = user;
  TN__INVARIANT(o->places.data != NULL); /* note_origins has the place of each stage */
  tn__te_fail(o->d, o->places.data[stage], "%s", message);
}

static void solve_all(part *p) { tn__te_follow_solve(p->d, 0); }
static void attempt_solving(tn__declaring *d, int first) { (void)attempt(d, solve_all, first); }

static void attempt_stmt(tn__declaring *d, int index) {
  const tn__syn_stmt *s = &d->kernel->stmts.data[index];
  bool done = attempt(d, declare_one, index);
  for (int t = 0; !done && t < s->target_count; t++) bind_broken(d, &s->targets[t].name);
}

static void attempt_stmts(tn__declaring *d) {
  for (int i = 0; i < d->kernel->stmts.count; i++) attempt_stmt(d, i);
}

static void declare_kernel(tn__declaring *d) {
  const tn__syn_kernel *k = d->kernel;
  origins o = {.d = d};
  for (int i = 0; i < k->dims.count; i++)
    if (!attempt(d, declare_dim, i)) bind_broken(d, &k->dims.data[i].name);
  for (int i = 0; i < k->inputs.count; i++)
    if (!attempt(d, declare_input, i)) bind_broken(d, &k->inputs.data[i].name);
  find_extents(d, attempt_stmts, attempt_solving);
  if (d->failed && tn__te_has_open(k)) tn__errors_follow(d->errors, d->arena);
  for (int i = 0; i < k->stmts.count; i++) {
    attempt_stmt(d, i);
    note_origins(&o, &k->stmts.data[i].at);
  }
  for (int i = 0; i < k->outputs.count; i++) (void)attempt(d, declare_output, i);
  if (d->failed) tn__errors_follow(d->errors, d->arena);
  if (k->unchecked)
    tn__te_trust(d->te);
  else
    tn__te_secure(d->te, refuse_stage, &o);
  tn__te_check_hints(d->te, refuse_stage, &o);
  int stage = -1;
  tn_status *status = tn__te_verify_stages(d->te, &stage);
  if (status == NULL) return;
  if (stage < 0) tn__check(d->arena->escape, tn_status_prefix(status, "%s", d->source->name));
  char message[512];
  snprintf(message, sizeof(message), "%s", tn_status_message(status));
  tn_status_free(status);
  refuse_stage(&o, stage, message);
}

typedef struct job {
  const tn__te_source *source;
  int kernel;
  const tn__te_dim_value *dims;
  int dim_count;
  tn__ir *ir;
  tn__te *te;
} job;

static void run(locale_t locale, void *user) {
  job *j = user;
  tn__declaring d = {.source = j->source,
                     .errors = j->source->errors,
                     .ir = j->ir,
                     .arena = tn__ir_arena(j->ir),
                     .lex = {.ir = j->ir, .name = j->source->name, .locale = locale, .errors = j->source->errors},
                     .dims = j->dims,
                     .dim_count = j->dim_count,
                     .kernel = &j->source->kernels.data[j->kernel],
                     .prefix = ""};
  d.te = tn__te_create(d.ir, tn__te_text_of(&d, &d.kernel->name));
  tn__vec_push(d.arena, &d.stack, &d.kernel->name);
  declare_kernel(&d);
  j->te = d.te;
}

tn_status *tn__te_declare(const tn__te_source *source, int kernel, const tn__te_dim_value *dims, int dim_count,
                          tn__ir *ir, tn__te **out) {
  *out = NULL;
  job j = {.source = source, .kernel = kernel, .dims = dims, .dim_count = dim_count, .ir = ir};
  tn__escape *outer_of_errors = source->arena->escape; /* tn__errors_add lends it this arena's */
  tn_status *status = tn__errors_status(source->errors, tn__lexer_read(tn__ir_arena(ir), source->name, run, &j));
  source->arena->escape = outer_of_errors;
  source->failed[kernel] = j.te == NULL;
  if (status == NULL) *out = j.te;
  return status;
}

/* ---- single operations ------------------------------------------------------------------------------------------- */

bool tn__te_is_word(const char *name) { return tn__ir_text_is_reserved(name, strlen(name)); }

/* The operation as text over names that stand for its values: "a0 + a1", "!a0", "select(a0, a1, a2)". */
static const char *operation_text(tn__arena *arena, const char *operation, int count) {
  const tn__operator_row *row = tn__ir_operator_at(operation, strlen(operation));
  bool sign = (row != NULL && strlen(row->text) == strlen(operation)) || strcmp(operation, "!") == 0;
  if (sign && count <= 2) return tn__arena_printf(arena, count == 1 ? "%s a0" : "a0 %s a1", operation);
  const char *text = tn__arena_printf(arena, "%s(a0", operation);
  for (int i = 1; i < count; i++) text = tn__arena_printf(arena, "%s, a%d", text, i);
  return tn__arena_printf(arena, "%s)", text);
}

const tn__expr *tn__te_operation(tn__te *te, const char *operation, const tn__expr *const *args, int count) {
  tn__te_source *source = TN__NEW(te->arena, tn__te_source);
  tn__syn_kernel *kernel = TN__NEW(te->arena, tn__syn_kernel);
  const char *text = operation_text(te->arena, operation, count);
  tn__declaring d = {.source = source, .ir = te->ir, .arena = te->arena, .te = te, .kernel = kernel, .prefix = ""};
  tn__syn_parser p = {.arena = te->arena};
  source->name = tn__arena_printf(te->arena, "te %s: operation %s", te->name, operation);
  tn__lexer_init(&p.lex, te->ir, source->name, text, strlen(text), (locale_t)0);
  d.lex = p.lex;
  const tn__syn *s = tn__syn_expr(&p);
  if (p.lex.token.kind != TN__TOKEN_END) tn__lexer_fail(&p.lex, &p.lex.token, "this is no operation");
  for (int i = 0; i < count; i++) {
    const char *name = tn__arena_printf(te->arena, "a%d", i);
    tn__token token = {.kind = TN__TOKEN_NAME, .text = name, .length = strlen(name), .line = 1, .column = 1};
    tn__te_bind(&d, &token, args[i], NULL);
  }
  return tn__te_value(&d, s, TN_DTYPE_INVALID);
}
