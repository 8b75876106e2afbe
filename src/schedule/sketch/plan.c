#include "schedule/sketch/plan.h"

#include <math.h>
#include <string.h>

#include "base/invariant.h"
#include "base/log.h"
#include "schedule/internal.h"

static tn__arena *arena_of(const tn__plan_unit *unit) { return tn__ir_arena(tn__te_ir(unit->te)); }

/* ---- units ------------------------------------------------------------------------------------------------------- */

/* Does an output take an input's memory? What others read of that input then comes before, as it is declared. */
static bool writes_over(const tn__te *te) {
  for (int i = 0; i < tn__te_output_count(te); i++)
    if (tn__te_over(te, i) >= 0) return true;
  return false;
}

/* What the target's instructions on matrices want, or tiles of plain products. A step of the terms is a few of
 * theirs. */
TN_MUST_USE static bool tiling_of(const void *target, tn_dtype sum, tn_dtype left, tn_dtype right, tn__te_tiling *out) {
  const tn__tensor_intrinsic *row = tn__tensor_intrinsic_product(target, sum, left, right);
  const int64_t most = TN__RULE_GPU_OPEN_TILE, least = TN__RULE_GPU_LEAST_TILE;
  *out = (tn__te_tiling){.least = {least, least}, .most = {most, most}, .terms = TN__RULE_GPU_TERMS};
  out->blocks = TN__RULE_GPU_BLOCKS;
  out->part = TN__RULE_GPU_PART;
  if (row == NULL) return true;
  out->least[0] = row->rows;
  out->least[1] = row->columns;
  out->terms = TN__RULE_GPU_STEP * row->depth;
  out->terms_last = tn_dtype_size(left) == 1;
  return true;
}

tn__plan_unit tn__plan_unit_with(const tn__rules *rules, const tn__te *te, const tn__target *target,
                                 const tn__schedule_options *options) {
  tn__plan_unit unit = {.rules = rules, .te = te, .target = target};
  tn__check(arena_of(&unit)->escape, tn__schedule_options_fill(options, target, &unit.options));
  const tn__te *declared = te;
  if (tn__target_is_gpu(target)) { /* the others make of a declaration what vectors want */
    if (!unit.options.bytes_apart && !tn__te_has_stored(te) && !writes_over(te))
      te = tn__te_lying_like(tn__te_tiles(te, tiling_of, target), declared);
    unit.te = te;
    return unit;
  }
  const bool bytes = tn__target_can(target, TN__CAN_DPBUSD);
  te = tn__te_phases(tn__te_settled(te));
  if (!unit.options.bytes_apart) te = tn__te_clamped(te);
  if (!unit.options.bytes_apart) te = tn__te_row_words(tn__te_words(te, bytes), bytes);
  te = tn__te_argmax(tn__te_place(te, unit.options.vector_bytes), unit.options.vector_bytes);
  te = tn__te_narrow(unit.options.bytes_apart ? te : tn__te_counts(tn__te_terms(tn__te_windows(te))));
  if (!unit.options.bytes_apart && !writes_over(declared)) {
    te = tn__te_together(tn__te_coordinates(te), unit.options.registers, unit.options.vector_bytes,
                         TN__RULE_SHUFFLED_STRIDE);
    te = tn__te_siblings(te);
  }
  unit.te = tn__te_lying_like(te, declared);
  return unit;
}

void tn__plan_unit_pack(tn__plan_unit *unit, const char *const *constants, int count) {
  tn__arena *arena = arena_of(unit);
  unit->packings = TN__NEW_ARRAY(arena, count, tn__te *);
  unit->packing_inputs = TN__NEW_ARRAY(arena, count, int);
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < tn__te_input_count(unit->te); k++)
      if (strcmp(tn__te_input_at(unit->te, k)->name, constants[i]) == 0) unit->packing_inputs[i] = k;
    unit->te = tn__sched_te_prepack(unit->te, constants[i], unit->target, &unit->packings[i]);
    unit->packing_count++;
  }
}

void tn__chooser_hash(const tn__chooser *chooser, const tn__plan_unit *unit, tn__sha256 *hash) {
  tn__sha256_update_string(hash, chooser->name);
  if (chooser->hash != NULL) chooser->hash(chooser, unit, hash);
}

tn__digest tn__plan_text(const tn__plan_unit *unit) {
  tn__strbuf text;
  tn__sha256 h;
  tn__strbuf_init(&text, arena_of(unit)->allocator);
  tn__te_print(unit->te, &text);
  tn_status *failed = tn__strbuf_status(&text);
  tn__sha256_init(&h);
  tn__sha256_update_string(&h, tn__strbuf_text(&text));
  tn__strbuf_release(&text);
  tn__check(arena_of(unit)->escape, failed);
  return tn__sha256_final(&h);
}

void tn__plan_hash(const tn__plan_unit *unit, const tn__chooser *chooser, const tn__digest *text, tn__sha256 *hash) {
  const tn__schedule_options *o = &unit->options;
  tn__sha256_update(hash, text, sizeof *text);
  tn__target_hash(unit->target, hash);
  tn__sha256_update_u64(hash, (uint64_t)o->threads);
  tn__sha256_update_u64(hash, (uint64_t)o->vector_bytes);
  tn__sha256_update_u64(hash, (uint64_t)o->cache_bytes);
  tn__sha256_update_u64(hash, (uint64_t)o->registers);
  tn__sha256_update_u64(hash, (uint64_t)o->shared_memory);
  tn__sha256_update_u64(hash, o->results_read);
  tn__sha256_update_u64(hash, (uint64_t)o->search_space);
  tn__chooser_hash(chooser, unit, hash);
}

tn__sketch *tn__plan_sketch(const tn__plan_unit *unit, const tn__chooser *chooser) {
  return tn__sketch_first(unit->rules, unit->te, unit->target, &unit->options, chooser);
}

/* ---- choosers ---------------------------------------------------------------------------------------------------- */

/* The sketch with the first choice of every late decision; NULL when it has none. */
static const tn__sketch *without_late(const tn__sketch *k) {
  tn__sketch *early = TN__NEW(tn__ir_arena(tn__te_ir(k->te)), tn__sketch);
  bool any = false;
  *early = *k;
  for (int i = 0; i < early->decision_count; i++) {
    if (!early->decisions[i].late || early->decisions[i].count == 1) continue;
    early->decisions[i].count = 1;
    any = true;
  }
  return any ? early : NULL;
}

/* Where operands are kept is estimated, and refused when it does not fit: another rule would be much worse than the
 * same one without. */
TN_MUST_USE static bool propose_cheapest(const tn__chooser *chooser, const tn__plan_unit *unit,
                                         const tn__candidate *refused, tn__candidate *out) {
  if (refused == NULL) {
    out->sketch = tn__plan_sketch(unit, chooser);
    const tn__sketch *later = out->sketch != NULL ? tn__sketch_later(out->sketch) : NULL;
    if (later != NULL) out->sketch = later;
    const tn__sketch *better = out->sketch != NULL ? tn__sketch_competing(out->sketch) : NULL;
    if (better != NULL) out->sketch = better;
  } else if (refused->sketch != NULL && refused->sketch->rule->weigh != NULL) {
    out->sketch = tn__plan_sketch(unit, chooser); /* as if it had not competed */
  } else if (refused->sketch != NULL) {
    out->sketch = without_late(refused->sketch);
    if (out->sketch == NULL) out->sketch = tn__sketch_next(refused->sketch);
  }
  if (out->sketch == NULL) return false;
  out->weighed = tn__sketch_choose_counting(out->sketch, out->values, NULL);
  return true;
}

const tn__chooser tn__chooser_static = {.name = "static", .propose = propose_cheapest};

TN_MUST_USE static bool propose_nothing(const tn__chooser *chooser, const tn__plan_unit *unit,
                                        const tn__candidate *refused, tn__candidate *out) {
  return false;
}

const tn__chooser tn__chooser_plain = {.name = "plain", .propose = propose_nothing};

bool tn__plan_is_trace_of(const char *trace, const tn__te *te) {
  char digest[17];
  tn__sched_digest(te, digest);
  return tn__sched_trace_is_of(trace, digest);
}

/* The trace of the unit's declaration; -1 when there is none. */
static int index_of(const tn__recorded *r, const tn__plan_unit *unit) {
  char digest[17];
  if (unit->part != NULL) return -1;
  tn__sched_digest(unit->te, digest);
  for (int i = 0; i < r->count; i++)
    if (tn__sched_trace_is_of(r->traces[i], digest)) return i;
  return -1;
}

static const char *trace_of(const tn__recorded *r, const tn__plan_unit *unit) {
  int index = index_of(r, unit);
  return index >= 0 ? r->traces[index] : NULL;
}

/* Once for each trace, whoever asks and however often: what is proposed does not depend on it. */
static void tell_refused(const tn__recorded *r, const tn__plan_unit *unit, const tn__candidate *refused) {
  if (r->log == NULL || atomic_exchange(&r->told[index_of(r, unit)], true)) return;
  tn__log(r->log, TN_LOG_WARNING, "%s: the schedule of kernel %s is refused, and another one is chosen: %s",
          r->path != NULL ? r->path : "a trace", tn__te_name(unit->te),
          refused->why != NULL ? refused->why : "no words");
}

TN_MUST_USE static bool propose_recorded(const tn__chooser *chooser, const tn__plan_unit *unit,
                                         const tn__candidate *refused, tn__candidate *out) {
  const tn__recorded *r = chooser->data;
  const char *own = trace_of(r, unit);
  out->required = r->otherwise == NULL;
  if (own == NULL && out->required) own = r->traces[r->count - 1]; /* its head says what is wrong with it */
  if (own != NULL && refused == NULL) {
    out->trace = own;
    return true;
  }
  TN__INVARIANT(r->otherwise != NULL); /* a required trace that is refused is an error: nobody asks for another */
  bool was_own = own != NULL && refused->trace == own;
  if (was_own) tell_refused(r, unit, refused);
  return r->otherwise->propose(r->otherwise, unit, was_own ? NULL : refused, out);
}

static void hash_recorded(const tn__chooser *chooser, const tn__plan_unit *unit, tn__sha256 *hash) {
  const tn__recorded *r = chooser->data;
  const char *trace = unit == NULL ? NULL : trace_of(r, unit);
  for (int i = 0; i < r->count && unit == NULL; i++) tn__sha256_update_string(hash, r->traces[i]);
  tn__sha256_update_string(hash, trace == NULL ? "" : trace);
  if (r->otherwise != NULL) tn__chooser_hash(r->otherwise, unit, hash);
}

tn__chooser tn__chooser_recorded(const tn__recorded *recorded) {
  TN__INVARIANT(recorded->count > 0 || recorded->otherwise != NULL);
  return (tn__chooser){.name = "recorded", .propose = propose_recorded, .hash = hash_recorded, .data = recorded};
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

typedef struct attempt {
  const tn__plan_unit *unit;
  const tn__chooser *chooser;
  const tn__candidate *candidate;
  tn__schedule *result;
} attempt;

static void check_values(const attempt *a) {
  const tn__sketch *k = a->candidate->sketch;
  TN__INVARIANT(k->te == a->unit->te);
  for (int i = 0; i < k->decision_count; i++) {
    const tn__decision *d = &k->decisions[i];
    int at = 0;
    while (at < d->count && d->choices[at] != a->candidate->values[i]) at++;
    if (at == d->count)
      tn__throwf(arena_of(a->unit)->escape, TN_INVALID_ARGUMENT, "chooser \"%s\": %s %lld is no choice of \"%s\"",
                 a->chooser->name, d->name, (long long)a->candidate->values[i], tn__sketch_name(k));
  }
}

static void apply(tn__escape *escape, void *arg) {
  attempt *a = arg;
  const tn__candidate *c = a->candidate;
  arena_of(a->unit)->escape = escape;
  if (c->sketch != NULL) {
    check_values(a);
    a->result = tn__sketch_apply(c->sketch, c->values);
  } else {
    tn__check(escape, tn__sched_trace_replay(a->unit->te, a->unit->target, c->trace, &a->result));
  }
  tn__sched_limit_shared(a->result, a->unit->options.shared_memory);
}

/* The candidate's schedule, or NULL when its steps are refused. */
static tn__schedule *try_candidate(const tn__plan_unit *unit, const tn__chooser *chooser, tn__candidate *c) {
  tn__arena *arena = arena_of(unit);
  tn__escape *outer = arena->escape, escape;
  attempt a = {unit, chooser, c, NULL};
  tn_status *status = tn__protect(&escape, apply, &a);
  arena->escape = outer;
  if (status == NULL) return a.result;
  if (c->required || tn_status_code_of(status) != TN_INVALID_ARGUMENT) tn__throw(outer, status);
  if (c->trace != NULL) c->why = tn__arena_strdup(arena, tn_status_message(status));
  tn_status_free(status);
  return NULL;
}

tn__plan *tn__plan_kernel(const tn__plan_unit *unit, const tn__chooser *chooser) {
  enum { MOST_REFUSED = 1000 };
  tn__arena *arena = arena_of(unit);
  tn__plan *plan = TN__NEW(arena, tn__plan);
  tn__candidate candidates[2] = {{0}}, *refused = NULL;
  for (;; plan->refused++) {
    tn__candidate *c = &candidates[plan->refused % 2];
    *c = (tn__candidate){0};
    if (!chooser->propose(chooser, unit, refused, c) || (c->sketch == NULL && c->trace == NULL)) break;
    if (plan->refused == MOST_REFUSED)
      tn__throwf(arena->escape, TN_INTERNAL, "chooser \"%s\" has proposed %d schedules that cannot be", chooser->name,
                 MOST_REFUSED);
    plan->schedule = try_candidate(unit, chooser, c);
    refused = c;
    if (plan->schedule == NULL) continue;
    plan->sketch = c->sketch;
    plan->rule = c->rule != NULL ? c->rule : c->sketch != NULL ? tn__sketch_name(c->sketch) : "recorded trace";
    plan->weighed = c->weighed;
    memcpy(plan->values, c->values, sizeof plan->values);
    if (c->sketch != NULL) tn__sketch_cost(c->sketch, c->values, &plan->cost);
    if (c->trace == NULL && unit->part == NULL) tn__sched_choose_memories(plan->schedule);
    return plan;
  }
  plan->rule = "plain nest";
  plan->schedule = tn__schedule_of(unit->te, unit->target);
  if (unit->part == NULL) tn__sched_choose_memories(plan->schedule);
  return plan;
}

/* ---- what was not taken ------------------------------------------------------------------------------------------ */

int tn__plan_rivals(const tn__plan *plan, tn__plan_rival rivals[TN__PLAN_RIVALS]) {
  int count = 0;
  if (plan->sketch == NULL) return 0;
  tn__plan_rival *r = &rivals[0];
  *r = (tn__plan_rival){.sketch = plan->sketch};
  count += tn__sketch_next_best(r->sketch, plan->values, r->values, &r->cost);
  r = &rivals[count];
  bool competed = plan->sketch->rule->weigh != NULL;
  const tn__sketch *own = plan->sketch;
  const tn__sketch *first = tn__sketch_first(own->rules, own->te, own->target, &own->options, own->chooser);
  *r = (tn__plan_rival){.sketch = first != NULL && first->rule != own->rule ? first : tn__sketch_next(own)};
  if (r->sketch == NULL) return count;
  tn__sketch_choose(r->sketch, r->values, &r->cost);
  if (competed && !(tn__sketch_weigh(own, r->sketch, r->values, &r->cost) < (double)INFINITY)) return count;
  return count + (r->cost.cycles < (double)INFINITY);
}

void tn__plan_print_rival(const tn__plan *plan, const tn__plan_rival *rival, tn__strbuf *out) {
  if (rival->sketch != plan->sketch) {
    tn__sketch_print(rival->sketch, rival->values, out);
    return;
  }
  const char *separator = "";
  for (int i = 0; i < plan->sketch->decision_count; i++) {
    if (rival->values[i] == plan->values[i]) continue;
    tn__strbuf_printf(out, "%s%s %lld (not %lld)", separator, plan->sketch->decisions[i].name,
                      (long long)rival->values[i], (long long)plan->values[i]);
    separator = ", ";
  }
}

/* The part of the cost that grows most. */
static void print_difference(const tn__cost *taken, const tn__cost *other, tn__strbuf *out) {
  const struct {
    const char *name;
    double taken, other;
  } parts[] = {{"work", taken->work, other->work},
               {"L2", taken->level[0], other->level[0]},
               {"L3", taken->level[1], other->level[1]},
               {"memory", taken->level[2], other->level[2]},
               {"threads", taken->overhead, other->overhead}};
  int most = -1;
  for (int i = 0; i < (int)(sizeof parts / sizeof parts[0]); i++)
    if (parts[i].other - parts[i].taken > (most < 0 ? 0.5 : parts[most].other - parts[most].taken)) most = i;
  if (most >= 0)
    tn__strbuf_printf(out, "%s %.0f, not %.0f", parts[most].name, parts[most].other, parts[most].taken);
  else
    tn__strbuf_append(out, "the threads' shares are less even");
}

void tn__plan_print_why_not(const tn__plan *plan, const tn__plan_rival *rival, tn__strbuf *out) {
  double ratio = rival->cost.cycles / plan->cost.cycles;
  if (ratio < 1.005 && rival->sketch == plan->sketch) {
    tn__strbuf_append(out, "the same cycles; of equals the first is taken");
    return;
  }
  tn__strbuf_printf(out, "%.2f times the cycles", ratio);
  if (ratio < 1.005) {
    tn__strbuf_printf(out, ", but asked after %s, which fits", plan->rule);
  } else {
    tn__strbuf_append(out, ": ");
    print_difference(&plan->cost, &rival->cost, out);
  }
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

void tn__plan_print_decisions(const tn__plan *plan, tn__strbuf *out) {
  if (plan->sketch != NULL) tn__sketch_print(plan->sketch, plan->values, out);
}

void tn__plan_print(const tn__plan *plan, tn__strbuf *out) {
  tn__strbuf_append(out, plan->rule);
  if (plan->sketch == NULL) return;
  tn__strbuf_append(out, ": ");
  tn__plan_print_decisions(plan, out);
  tn__strbuf_printf(out, "%s%.0f cycles, bound by %s", plan->sketch->decision_count > 0 ? "; " : "", plan->cost.cycles,
                    tn__bound_name(plan->cost.bound));
}
