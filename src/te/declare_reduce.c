/* Reductions: their axes, combiners and terms. */
#include "ir/scalar.h"
#include "te/declare.h"
#include "te/internal.h"

typedef struct simple_row {
  const char *name;
  tn__te_reducer reducer;
  tn__expr_kind kind;
} simple_row;

static const simple_row simple[] = {{"sum", TN__TE_SUM, TN__EXPR_ADD}, {"prod", TN__TE_PROD, TN__EXPR_MUL},
                                    {"max", TN__TE_MAX, TN__EXPR_MAX}, {"min", TN__TE_MIN, TN__EXPR_MIN},
                                    {"any", TN__TE_ANY, TN__EXPR_OR},  {"all", TN__TE_ALL, TN__EXPR_AND}};

static const simple_row *find_simple(const tn__token *name) {
  for (size_t i = 0; i < sizeof(simple) / sizeof(simple[0]); i++)
    if (tn__te_token_is(name, simple[i].name)) return &simple[i];
  return NULL;
}

/* The values of a tuple, or the one value. */
TN_MUST_USE static int values_of(const tn__syn *const *s, const tn__syn *const **out) {
  if ((*s)->kind != TN__SYN_TUPLE) {
    *out = s;
    return 1;
  }
  *out = (*s)->args;
  return (*s)->arg_count;
}

static void expect_values(const tn__declaring *d, const tn__syn *s, int count, int wanted, const char *what) {
  if (count != wanted)
    tn__te_fail(d, &s->at, "%s has %d value%s; %d %s wanted here", what, count, tn__plural(count), wanted,
                wanted == 1 ? "is" : "are");
}

static void simple_reduction(tn__declaring *d, const tn__syn *s, const simple_row *row, tn_dtype want,
                             tn__te_reduction *r) {
  r->terms[0] = tn__te_value(d, s->args[0], want);
  tn_dtype dtype = r->terms[0]->dtype;
  if (!tn__ir_binary_takes(row->kind, dtype))
    tn__te_fail(d, &s->at, "%s does not take %s", row->name, tn_dtype_name(dtype));
  r->combiner = tn__te_combiner_of(d->te, row->reducer, dtype);
}

/* The place in row-major order of the reduction's axes. */
static const tn__expr *flat_position(tn__ir *ir, const tn__te_axes *axes) {
  const tn__expr *extents[TN__MAX_RANK];
  for (int i = 0; i < axes->count; i++) extents[i] = axes->var[i]->extent;
  return tn__ir_flatten(ir, extents, axes->index, axes->count);
}

/* argmax(k) value, or (value, index): the best value and where it was. */
static void arg_reduction(tn__declaring *d, const tn__syn *s, const tn_dtype *wants, int count, tn__te_reduction *r) {
  const tn__syn *const *values;
  int given = values_of(&s->args[0], &values);
  bool greatest = s->at.text[3] == 'm' && s->at.text[4] == 'a', last = s->at.length > 6;
  if (count > 2)
    tn__te_fail(d, &s->at, "%s gives a value and an index, not %d tensors", tn__te_text_of(d, &s->at), count);
  if (given > 2)
    tn__te_fail(d, &s->args[0]->at, "%s takes a value, or a value and its index", tn__te_text_of(d, &s->at));
  tn_dtype index_want = wants[count - 1];
  r->index_only = count == 1;
  r->terms[0] = tn__te_value(d, values[0], count == 2 ? wants[0] : TN_DTYPE_INVALID);
  if (given == 2) {
    r->terms[1] = tn__te_value(d, values[1], index_want);
  } else {
    tn_dtype dtype = index_want != TN_DTYPE_INVALID ? index_want : TN_I64;
    for (int i = 0; i < r->axes.count && r->axes.count > 1; i++)
      if (tn__te_is_ragged(r->axes.var[i]) || r->axes.index[i] != r->axes.var[i]->self)
        tn__te_fail(
            d, &s->at,
            "%s over %s, whose bounds are not the same everywhere: state the index, as in %s(...) (value, index)",
            tn__te_text_of(d, &s->at), r->axes.var[i]->name, tn__te_text_of(d, &s->at));
    r->terms[1] = tn__ir_cast(d->ir, dtype, flat_position(d->ir, &r->axes));
  }
  tn_dtype dtype = r->terms[1]->dtype;
  if (!tn__dtype_is_signed(dtype) || tn__dtype_is_float(dtype))
    tn__te_fail(d, &s->at, "the index of %s is of a signed integer type, not %s", tn__te_text_of(d, &s->at),
                tn_dtype_name(dtype));
  if (r->terms[0]->dtype == TN_BOOL) tn__te_fail(d, &s->at, "%s does not take bool", tn__te_text_of(d, &s->at));
  r->combiner = tn__te_arg_combiner(d->te, r->terms[0]->dtype, dtype, greatest, last);
}

static const tn__te_combiner *user_combiner(tn__declaring *d, const tn__syn_combiner *c) {
  tn__te_combiner *out = TN__NEW(d->arena, tn__te_combiner);
  const tn__syn *const *results, *const *identities;
  expect_values(d, c->result, values_of(&c->result, &results), c->count, "the combination");
  expect_values(d, c->identity, values_of(&c->identity, &identities), c->count, "the identity");
  out->count = c->count;
  out->reorderable = !c->in_order;
  int names = d->names.count, visible = d->visible_from;
  d->visible_from = names;
  for (int i = 0; i < c->count; i++) out->identity[i] = tn__te_value(d, identities[i], c->params[i].dtype);
  for (int i = 0; i < 2 * c->count; i++) {
    const tn__syn_param *param = &c->params[i];
    const tn__var *var = tn__var_create(d->ir, tn__te_text_of(d, &param->name), param->dtype, NULL, NULL);
    if (i < c->count)
      out->lhs[i] = var;
    else
      out->rhs[i - c->count] = var;
    tn__te_bind(d, &param->name, var->self, NULL);
  }
  for (int i = 0; i < c->count; i++) out->result[i] = tn__te_value(d, results[i], c->params[i].dtype);
  d->names.count = names;
  d->visible_from = visible;
  for (int i = 0; i < c->count; i++) {
    tn__te_expect_dtype(d, &results[i]->at, out->result[i], c->params[i].dtype, tn__te_text_of(d, &c->params[i].name));
    tn__te_expect_dtype(d, &identities[i]->at, out->identity[i], c->params[i].dtype,
                        tn__te_text_of(d, &c->params[i].name));
  }
  return out;
}

static void user_reduction(tn__declaring *d, const tn__syn *s, tn__te_reduction *r) {
  const tn__syn_combiner *c = tn__te_find_combiner(d, &s->at);
  if (c == NULL) tn__te_unknown(d, &s->at, TN__TE_REDUCTION);
  const tn__syn *const *values;
  expect_values(d, s->args[0], values_of(&s->args[0], &values), c->count, "what is combined");
  r->combiner = user_combiner(d, c);
  for (int i = 0; i < c->count; i++) {
    r->terms[i] = tn__te_value(d, values[i], c->params[i].dtype);
    tn__te_expect_dtype(d, &values[i]->at, r->terms[i], c->params[i].dtype, tn__te_text_of(d, &c->params[i].name));
  }
}

tn__te_reduction tn__te_reduction_of(tn__declaring *d, const tn__syn *s, const tn_dtype *wants, int count) {
  tn__te_reduction r = {.index_only = false};
  int names = d->names.count, axes = d->axes.count;
  tn__te_make_axes(d, s->axes, s->axis_count, NULL, s->args, s->arg_count > 1 ? 2 : 1, true, "the reduction", &r.axes);
  tn__te_bind_axes(d, s->axes, &r.axes);
  const simple_row *row = find_simple(&s->at);
  d->reductions++;
  if (row != NULL)
    simple_reduction(d, s, row, wants[0], &r);
  else if (tn__syn_is_reducer(&s->at))
    arg_reduction(d, s, wants, count, &r);
  else
    user_reduction(d, s, &r);
  if (s->arg_count > 1) {
    const tn__syn *places = s->args[1];
    if (places->arg_count > TN__MAX_RANK) tn__te_fail(d, &places->at, "more than %d indices", TN__MAX_RANK);
    r.into_count = places->arg_count;
    for (int i = 0; i < r.into_count; i++) r.into[i] = tn__te_index(d, places->args[i], "an index");
  }
  d->reductions--;
  d->names.count = names;
  d->axes.count = axes;
  return r;
}

const tn__expr *const *tn__te_first_of(tn__declaring *d, const tn__syn *s, const tn__te_combiner *combiner,
                                       const tn__expr **out) {
  if (s->arg_count < 3) return NULL;
  const tn__syn *const *values;
  expect_values(d, s->args[2], values_of(&s->args[2], &values), combiner->count, "what the elements start from");
  for (int i = 0; i < combiner->count; i++) {
    tn_dtype dtype = combiner->result[i]->dtype;
    out[i] = tn__te_value(d, values[i], dtype);
    tn__te_expect_dtype(d, &values[i]->at, out[i], dtype, d->statement);
  }
  return out;
}

/* ---- reductions inside of expressions ---------------------------------------------------------------------------- */

bool tn__te_reads_scan(const tn__declaring *d, const tn__expr *e) {
  for (int t = 0; t < d->scan_count; t++)
    if (tn__expr_uses_buffer(e, d->scan_tensors[t])) return true;
  for (int s = 0; s < tn__te_stage_count(d->te) && d->scan_count > 0; s++) {
    const tn__te_stage *stage = tn__te_stage_at(d->te, s);
    for (int t = 0; stage->step_of == d->scan_tensors[0] && t < stage->tensor_count; t++)
      if (tn__expr_uses_buffer(e, stage->tensors[t])) return true;
  }
  return false;
}

bool tn__te_reduces_scan(const tn__declaring *d, const tn__te_reduction *r) {
  bool reads = false;
  for (int t = 0; t < r->combiner->count; t++) reads |= tn__te_reads_scan(d, r->terms[t]);
  for (int a = 0; a < r->axes.count; a++) reads |= tn__te_reads_scan(d, r->axes.var[a]->extent);
  return reads;
}

static bool reduction_uses(const tn__te_reduction *r, const tn__var *var) {
  bool used = false;
  for (int t = 0; t < r->combiner->count; t++) used |= tn__expr_uses_var(r->terms[t], var);
  for (int a = 0; a < r->axes.count; a++) used |= tn__expr_uses_var(r->axes.var[a]->extent, var);
  return used;
}

/* In text the axes of a step's tensors stand beside those of the scan. */
static const char *name_in_step(const tn__declaring *d, const char *name) {
  for (int i = 0; i < d->scan_axes->count; i++)
    if (strcmp(d->scan_axes->var[i]->name, name) == 0) return tn__arena_printf(d->arena, "%s_1", name);
  return name;
}

const tn__expr *tn__te_lift(tn__declaring *d, const tn__syn *s, tn_dtype want) {
  const char *text = tn__te_text_of(d, &s->at);
  if (d->statement == NULL) tn__te_fail(d, &s->at, "%s has no place here: only elements of tensors are reduced", text);
  if (s->arg_count > 1)
    tn__te_fail(d, &s->args[1]->at, "into stands at the end of a statement, behind the reduction that is all of it");
  /* The tensor is computed everywhere, whatever condition guards its use. */
  int guards = d->guards;
  d->guards = 0;
  tn__te_reduction r = tn__te_reduction_of(d, s, &want, 1);
  d->guards = guards;
  if (r.combiner->count > 1 && !r.index_only)
    tn__te_fail(d, &s->at, "%s gives %d values where one is wanted", text, r.combiner->count);
  tn__te_axes outer = {0};
  const tn__var *from[2 * TN__MAX_RANK];
  const tn__expr *to[2 * TN__MAX_RANK], *at[TN__MAX_RANK];
  bool in_step = tn__te_reduces_scan(d, &r);
  if (in_step) {
    at[0] = outer.index[0] = d->scan_axis->self;
    outer.var[outer.count++] = d->scan_axis;
  }
  int first = outer.count;
  for (int i = 0; i < d->axes.count; i++) {
    const tn__var *var = d->axes.data[i];
    if (!reduction_uses(&r, var) || (in_step && var == d->scan_axis)) continue;
    if (tn__te_is_ragged(var))
      tn__te_fail(d, &s->at, "%s depends on %s, whose bounds are not the same everywhere: define it as a tensor before",
                  text, var->name);
    if (outer.count == TN__MAX_RANK) tn__te_fail(d, &s->at, "%s depends on more than %d axes", text, TN__MAX_RANK);
    from[outer.count - first] = var;
    at[outer.count] = var->self;
    const char *name = in_step ? name_in_step(d, var->name) : var->name;
    outer.var[outer.count] = tn__var_create(d->ir, name, TN_I64, var->min, var->extent);
    to[outer.count - first] = outer.index[outer.count] = outer.var[outer.count]->self;
    outer.count++;
  }
  int count = outer.count - first;
  for (int a = 0; a < r.axes.count; a++) {
    const tn__var *var = r.axes.var[a];
    const tn__expr *extent = tn__ir_substitute(d->ir, var->extent, from, to, count);
    if (extent == var->extent) continue;
    r.axes.var[a] = tn__var_create(d->ir, var->name, TN_I64, var->min, extent);
    from[count] = var;
    to[count++] = r.axes.var[a]->self;
  }
  for (int t = 0; t < r.combiner->count; t++) r.terms[t] = tn__ir_substitute(d->ir, r.terms[t], from, to, count);
  const char *base = tn__arena_printf(d->arena, "%s.%s", d->statement, text);
  const char *names[4] = {base, base, base, base};
  if (r.index_only) names[0] = tn__arena_printf(d->arena, "%s.value", base);
  const tn__buffer *out[4];
  tn__te_reduce_as(d->te, names, &outer, &r.axes, r.combiner, r.terms, out);
  if (in_step) tn__te_put_in_step(d->te, out[0], d->scan_tensors[0]);
  return tn__ir_load(d->ir, out[r.index_only ? 1 : 0], at);
}
