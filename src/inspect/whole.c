/* Compares a model compiled with all passes with the same model compiled without passes. The kernel-by-kernel check
 * starts after the passes, so it cannot detect a pass that changes a value. Both sides are whole programs with
 * memory plans. */
#include "inspect/whole.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/tolerance.h"

typedef struct running {
  tn__arena *arena;
  const tn__whole *model;
  int passes; /* number of passes to run; -1: all */
  tn_executable *exe;
  tn_session *session;
} running;

/* An output tensor of a run, with its strings. */
typedef struct outcome {
  const char *name;
  tn_dtype dtype;
  int rank;
  const int64_t *shape;
  const void *data;
  int64_t count;
} outcome;

typedef struct outcomes {
  outcome *items;
  int count;
} outcomes;

/* ---- running ----------------------------------------------------------------------------------------------------- */

void tn__whole_bind(tn__escape *escape, tn_session *session, const tn__whole *model, tn__value *const *values) {
  for (int i = 0; i < model->input_count; i++) {
    bool tensor = values[i]->holds == TN__HOLDS_TENSOR;
    if (tensor && values[i]->fallback != NULL && tn__whole_leaves_out(&model->inputs[i])) continue;
    if (tensor) {
      tn__check(escape, tn_session_set_input_at(session, NULL, i, &model->inputs[i], TN_BIND_PERSISTENT));
      continue;
    }
    tn_check_list none = {.count = values[i]->holds == TN__HOLDS_SEQUENCE ? 0 : -1};
    const tn_check_list *list = model->lists ? &model->lists[i] : &none;
    tn__check(escape, tn_session_set_input_list(session, NULL, i, list->tensors, list->count));
  }
}

static void release(void *user) {
  running *r = user;
  tn_session_release(r->session);
  tn_executable_release(r->exe);
  r->session = NULL;
  r->exe = NULL;
}

/* Deep-copies, because the session that created the strings owns them. */
static const void *copied(tn__arena *arena, const DLTensor *tensor, tn_dtype dtype, int64_t count) {
  const char *data = (const char *)tensor->data + tensor->byte_offset;
  if (count == 0) return NULL;
  char *copy = tn__arena_copy(arena, data, (size_t)count * tn_dtype_size(dtype));
  for (int64_t i = 0; dtype == TN_STRING && i < count; i++) {
    tn_string *s = (tn_string *)copy + i;
    if (s->length > 0) s->data = tn__arena_copy(arena, s->data, (size_t)s->length);
  }
  return copy;
}

static outcome outcome_of(tn__arena *arena, const char *name, const DLTensor *tensor) {
  outcome o = {.name = tn__arena_strdup(arena, name), .dtype = tn_dtype_of_dl(tensor->dtype), .rank = tensor->ndim};
  o.shape = tn__arena_copy(arena, tensor->shape, (size_t)o.rank * sizeof *o.shape);
  o.count = tn_element_count(o.rank, o.shape);
  o.data = copied(arena, tensor, o.dtype, o.count);
  return o;
}

static outcomes collect(running *r) {
  tn__escape *escape = r->arena->escape;
  TN__VEC(outcome) all = {0};
  int outputs = tn_executable_output_count(r->exe, NULL);
  for (int i = 0; i < outputs; i++) {
    const tn_value_info *info = tn_executable_output(r->exe, NULL, i);
    int count = -1;
    DLTensor tensor;
    if (info->kind == TN_VALUE_TENSOR) {
      tn__check(escape, tn_session_get_output(r->session, NULL, i, &tensor));
      tn__vec_push(r->arena, &all, outcome_of(r->arena, info->name, &tensor));
      continue;
    }
    tn__check(escape, tn_session_get_output_count(r->session, NULL, i, &count));
    for (int k = 0; k < count; k++) {
      tn__check(escape, tn_session_get_output_item(r->session, NULL, i, k, &tensor));
      const char *name = tn__arena_printf(r->arena, "%s[%d]", info->name, k);
      tn__vec_push(r->arena, &all, outcome_of(r->arena, name, &tensor));
    }
  }
  return (outcomes){all.data, all.count};
}

static outcomes run_with(tn__arena *arena, const tn__whole *model, int passes) {
  tn__escape *escape = arena->escape;
  running *r = TN__NEW(arena, running);
  *r = (running){.arena = arena, .model = model, .passes = passes};
  tn__compilation *c = TN__NEW(arena, tn__compilation);
  tn__arena_defer(arena, release, r);
  tn__driver_init(&c->driver, arena, model->options);
  c->driver.limits_passes = passes >= 0;
  c->driver.most_passes = passes;
  tn__compilation_front(c, model->path, model->data, model->size);
  tn__compilation_back(c);
  tn__bytes bytes = tn__exe_join(arena, &c->executable);
  tn_load_options load = {.size = sizeof load, .allocator = arena->allocator, .borrow_data = true};
  tn__check(escape, tn_executable_load_memory(bytes.data, bytes.size, &load, &r->exe));
  tn_session_options session = {
      .size = sizeof session, .allocator = load.allocator, .threads = model->options->run_threads};
  tn__check(escape, tn_session_create(r->exe, &session, &r->session));
  const tn__program_function *main = &c->functions.data[0];
  if (model->input_count != main->input_count)
    tn__throwf(escape, TN_INVALID_ARGUMENT, "%d inputs given, the model has %d", model->input_count, main->input_count);
  tn__whole_bind(escape, r->session, model, main->inputs);
  tn__check(escape, tn_session_invoke(r->session, NULL));
  outcomes all = collect(r);
  release(r);
  return all;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

bool tn__whole_compare(const tn__whole *model, tn_dtype dtype, const void *got, const void *want, int64_t count,
                       tn_check_result *result) {
  tn__tolerance t = tn__tolerance_of(dtype, tn__tolerance_greatest(dtype, want, count));
  if (model->rtol >= 0) t.rtol = model->rtol;
  if (model->atol >= 0) t.atol = model->atol;
  double worst = 0;
  for (int64_t i = 0; i < count; i++) {
    double b = tn__load_f64(dtype, want, i), difference = tn__tolerance_apart(dtype, got, want, i);
    double allowed = tn__tolerance_allows(&t, b), excess = isfinite(difference) ? difference - allowed : INFINITY;
    if (!(excess > worst)) continue;
    worst = excess;
    result->difference = difference;
    result->allowed = allowed;
    result->index = i;
  }
  return worst == 0;
}

static bool same_strings(const outcome *a, const outcome *b, tn_check_result *result) {
  const tn_string *got = a->data, *want = b->data;
  for (int64_t i = 0; i < a->count; i++) {
    bool same = got[i].length == want[i].length &&
                (want[i].length == 0 || memcmp(got[i].data, want[i].data, (size_t)want[i].length) == 0);
    result->index = i;
    if (!same) return result->difference = 1, result->allowed = 0, false;
  }
  return true;
}

static bool same_outcome(const tn__whole *model, const outcome *got, const outcome *want, tn_check_result *result) {
  bool same = got->dtype == want->dtype && got->rank == want->rank;
  for (int i = 0; same && i < got->rank; i++) same = got->shape[i] == want->shape[i];
  result->index = -1;
  if (!same) return result->difference = INFINITY, result->allowed = 0, false;
  if (got->dtype == TN_STRING) return same_strings(got, want, result);
  return tn__whole_compare(model, got->dtype, got->data, want->data, got->count, result);
}

static bool same_outcomes(const tn__whole *model, outcomes got, outcomes want, tn_check_result *result) {
  int count = got.count < want.count ? got.count : want.count;
  for (int i = 0; i < count; i++)
    if (!same_outcome(model, &got.items[i], &want.items[i], result)) {
      snprintf(result->value, sizeof result->value, "%s", want.items[i].name);
      return false;
    }
  return got.count == want.count;
}

bool tn__whole_check(tn__arena *arena, const tn__whole *model, tn_check_result *result) {
  const outcomes want = run_with(arena, model, 0), got = run_with(arena, model, -1);
  result->outputs_checked = want.count;
  if (same_outcomes(model, got, want, result)) return true;
  tn_check_result kept = *result, unused = *result;
  const char *pass = NULL;
  for (int i = 0; pass == NULL && tn__graph_pass_name(i) != NULL; i++)
    if (!same_outcomes(model, run_with(arena, model, i + 1), want, &unused)) pass = tn__graph_pass_name(i);
  *result = kept;
  snprintf(result->pass, sizeof result->pass, "%s", pass != NULL ? pass : "");
  return result->agrees = false;
}
