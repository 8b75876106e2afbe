/* Names that nothing has: said before anything is concluded from them, with the nearest name that there is. */
#include <string.h>

#include "base/nearest.h"
#include "ir/scalar.h"
#include "te/declare.h"

typedef struct scope { /* axes, lets and tensors of steps that are named around an expression */
  const struct scope *outer;
  const tn__syn_axis *axes;
  int count;
  const tn__syn_param *targets;
  int target_count;
} scope;

/* ---- the nearest name -------------------------------------------------------------------------------------------- */

static void consider_token(tn__nearest *n, const tn__token *t) { tn__nearest_consider(n, t->text, t->length); }
static void consider_word(tn__nearest *n, const char *word) { tn__nearest_consider(n, word, strlen(word)); }

static void consider_values(tn__nearest *n, const tn__declaring *d, const scope *around, bool tensors_only) {
  for (; around != NULL; around = around->outer) {
    for (int i = 0; i < around->count && !tensors_only; i++) consider_token(n, &around->axes[i].name);
    for (int t = 0; t < around->target_count; t++) consider_token(n, &around->targets[t].name);
  }
  for (int i = d->visible_from; i < d->names.count; i++)
    if (d->names.data[i].buffer != NULL || !tensors_only) consider_token(n, &d->names.data[i].token);
  for (int i = 0; i < d->source->consts.count && !tensors_only; i++) consider_token(n, &d->source->consts.data[i].name);
}

static void consider_reductions(tn__nearest *n, const tn__declaring *d) {
  const char *word;
  for (int i = 0; (word = tn__syn_reducer(i)) != NULL; i++) consider_word(n, word);
  for (int i = 0; i < d->kernel->combiners.count; i++) consider_token(n, &d->kernel->combiners.data[i].name);
  for (int i = 0; i < d->source->combiners.count; i++) consider_token(n, &d->source->combiners.data[i].name);
}

/* Operations that are called and no intrinsics. */
static const char *operation_word(int index) {
  static const char *const words[] = {"select", "clamp", "min", "max"};
  return index < (int)(sizeof(words) / sizeof(words[0])) ? words[index] : NULL;
}

static void consider_called(tn__nearest *n, const tn__declaring *d) {
  const char *word;
  for (int i = 0; (word = operation_word(i)) != NULL; i++) consider_word(n, word);
  for (int i = 0; (word = tn__te_edge_word(i)) != NULL; i++) consider_word(n, word);
  consider_word(n, "bitcast");
  for (int i = 0; i < TN__CALL_COUNT; i++) consider_word(n, tn__intrinsic_of((tn__intrinsic)i)->name);
  for (int i = 0; i < d->source->functions.count; i++) consider_token(n, &d->source->functions.data[i].name);
  for (int i = 0; i < d->source->kernels.count; i++) consider_token(n, &d->source->kernels.data[i].name);
  for (int i = 0; i < d->source->imported.count; i++) consider_token(n, &d->source->imported.data[i].name);
}

/* What other languages and libraries have a name for, and this one writes. */
static const char *familiar(const tn__token *name) {
  static const struct {
    const char *word, *written;
  } rows[] = {
      {"relu", "max(x, 0)"},
      {"sigmoid", "1 / (1 + exp(-x))"},
      {"silu", "x / (1 + exp(-x))"},
      {"swish", "x / (1 + exp(-x))"},
      {"softplus", "max(x, 0) + log1p(exp(-abs(x)))"},
      {"square", "x * x"},
      {"where", "select(condition, a, b)"},
      {"clip", "clamp(x, low, high)"},
      {"fabs", "abs(x)"},
      {"power", "pow(x, y)"},
      {"mean", "sum(i: n) x[i] / n"},
      {"average", "sum(i: n) x[i] / n"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    if (tn__te_token_is(name, rows[i].word)) return rows[i].written;
  return NULL;
}

static _Noreturn void refuse(const tn__declaring *d, const tn__token *name, const scope *around, tn__te_wanted wanted) {
  const char *text = tn__te_text_of(d, name), *hint = "", *what;
  tn__nearest n = {.name = name->text, .length = name->length};
  if (d->source->incomplete) tn__errors_follow(d->errors, d->arena);
  for (int i = 0; i < d->source->broken.count; i++)
    if (tn__te_token_same(&d->source->broken.data[i], name)) tn__errors_follow(d->errors, d->arena);
  switch (wanted) {
    case TN__TE_TENSOR:
      what = tn__arena_printf(d->arena, "there is no tensor %s here", text);
      consider_values(&n, d, around, true);
      break;
    case TN__TE_VALUE:
      what = tn__arena_printf(d->arena, "nothing here is called %s", text);
      consider_values(&n, d, around, false);
      break;
    case TN__TE_REDUCTION:
      what = tn__arena_printf(d->arena, "there is no reduction or combiner called %s", text);
      consider_reductions(&n, d);
      hint = "; the reductions are sum, prod, max, min, any, all, argmax and argmin";
      break;
    default:
      what = tn__arena_printf(d->arena, "there is no operation, function or kernel called %s", text);
      consider_called(&n, d);
  }
  if (strstr(text, "..") != NULL) tn__te_fail(d, name, "%s; names may have dots: write a space before ..", what);
  const char *written = wanted == TN__TE_CALLED || wanted == TN__TE_REDUCTION ? familiar(name) : NULL;
  if (written != NULL && (n.best == NULL || n.distance > 0))
    tn__te_fail(d, name, "%s; it is written %s", what, written);
  if (n.best != NULL) tn__te_fail(d, name, "%s; did you mean %.*s?", what, (int)n.best_length, n.best);
  tn__te_fail(d, name, "%s%s", what, hint);
}

void tn__te_unknown(const tn__declaring *d, const tn__token *name, tn__te_wanted wanted) {
  refuse(d, name, NULL, wanted);
}

/* ---- names in the value of a statement --------------------------------------------------------------------------- */

static bool is_named(const scope *s, const tn__token *name) {
  for (; s != NULL; s = s->outer) {
    for (int i = 0; i < s->count; i++)
      if (tn__te_token_same(&s->axes[i].name, name)) return true;
    for (int t = 0; t < s->target_count; t++)
      if (tn__te_token_same(&s->targets[t].name, name)) return true;
  }
  return false;
}

static bool is_target(const tn__syn_stmt *s, const tn__token *name) {
  for (int t = 0; t < s->target_count; t++)
    if (tn__te_token_same(&s->targets[t].name, name)) return true;
  return false;
}

static bool is_called(const tn__declaring *d, const tn__token *t) {
  const char *word;
  for (int i = 0; (word = operation_word(i)) != NULL; i++)
    if (tn__te_token_is(t, word)) return true;
  if (tn__te_edge_find(d, t) != NULL) return true;
  return tn__intrinsic_find(t->text, t->length) >= 0 || tn__te_find_function(d, t) != NULL ||
         tn__te_find_kernel(d, t) != NULL;
}

static bool is_word(const tn__token *t) {
  return tn__te_token_is(t, "true") || tn__te_token_is(t, "false") || tn__te_token_is(t, "inf") ||
         tn__te_token_is(t, "nan");
}

static void check(tn__declaring *d, const tn__syn_stmt *stmt, const tn__syn *s, const scope *around) {
  scope inner = {around, s->axes, s->axis_count, NULL, 0}, behind = {around, NULL, 0, s->targets, s->target_count};
  bool own = stmt->value->kind == TN__SYN_SCAN && is_target(stmt, &s->at);
  tn__te_step(d, &s->at);
  if (s->kind == TN__SYN_CALL && !is_called(d, &s->at)) refuse(d, &s->at, around, TN__TE_CALLED);
  if (s->kind == TN__SYN_REDUCE && !tn__syn_is_reducer(&s->at) && tn__te_find_combiner(d, &s->at) == NULL)
    refuse(d, &s->at, around, TN__TE_REDUCTION);
  if (s->kind == TN__SYN_NAME && !is_word(&s->at) && !is_named(around, &s->at) && !own && !tn__te_knows(d, &s->at))
    refuse(d, &s->at, around, TN__TE_VALUE);
  if (s->kind == TN__SYN_ACCESS && !own && !is_named(around, &s->at) && tn__te_lookup(d, &s->at) == NULL)
    refuse(d, &s->at, around, TN__TE_TENSOR);
  for (int i = 0; i < s->arg_count; i++) {
    bool sees = s->kind == TN__SYN_REDUCE || (s->kind == TN__SYN_STEP && i == 0);
    bool is_behind = (s->kind == TN__SYN_LET || s->kind == TN__SYN_STEP) && i == 1;
    check(d, stmt, s->args[i], sees ? &inner : is_behind ? &behind : around);
  }
}

void tn__te_check_names(tn__declaring *d, const tn__syn_stmt *s) {
  scope axes = {NULL, s->axes, s->axis_count, NULL, 0};
  check(d, s, s->value, &axes);
}
