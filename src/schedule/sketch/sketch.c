#include "schedule/sketch/sketch.h"

#include <math.h>
#include <string.h>

#include "schedule/heuristics.h"
#include "schedule/internal.h"

/* ---- options ----------------------------------------------------------------------------------------------------- */

static tn_status *out_of_range(const char *name, int64_t value, int64_t low, int64_t high) {
  return tn_status_create(TN_INVALID_ARGUMENT,
                          "schedule option %s is %lld; it must be between %lld and %lld, or 0 for "
                          "what the target has",
                          name, (long long)value, (long long)low, (long long)high);
}

tn_status *tn__schedule_options_fill(const tn__schedule_options *options, const tn__target *target,
                                     tn__schedule_options *out) {
  tn__schedule_options o = options != NULL ? *options : (tn__schedule_options){0};
  const bool is_cpu = tn__target_is_cpu(target);
  const struct {
    const char *name;
    int64_t value, low, high;
  } ranges[] = {
      {"threads", o.threads, 1, 1024},
      {"vector_bytes", o.vector_bytes, 16, is_cpu ? target->cpu.vector_bytes : 16},
      {"cache_bytes", o.cache_bytes, 4 << 10, 1 << 30},
      {"registers", o.registers, 4, is_cpu ? target->cpu.vector_registers : 4},
      {"shared_memory", o.shared_memory, 1, 1 << 30},
      {"search_space", o.search_space, 1, 1000000},
  };
  for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
    if (ranges[i].value != 0 && (ranges[i].value < ranges[i].low || ranges[i].value > ranges[i].high))
      return out_of_range(ranges[i].name, ranges[i].value, ranges[i].low, ranges[i].high);
  if (o.vector_bytes & (o.vector_bytes - 1))
    return tn_status_create(TN_INVALID_ARGUMENT, "schedule option vector_bytes is %d; it must be a power of two",
                            o.vector_bytes);
  if (tn__target_is_gpu(target)) {
    if (o.search_space == 0) o.search_space = 2000;
    *out = o;
    return NULL;
  }
  if (o.threads == 0) o.threads = target->cpu.cores;
  if (o.vector_bytes == 0) o.vector_bytes = target->cpu.vector_bytes;
  if (o.cache_bytes == 0) o.cache_bytes = target->cpu.machine.l2_bytes;
  if (o.registers == 0) o.registers = target->cpu.vector_registers;
  if (o.search_space == 0) o.search_space = 2000;
  *out = o;
  return NULL;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

typedef struct opening {
  tn__sketch *sketch;
} opening;

static void open_rule(tn__escape *escape, void *arg) {
  opening *o = arg;
  tn__sketch *k = o->sketch;
  tn__ir_arena(tn__te_ir(k->te))->escape = escape;
  k->rule->open(k, tn__schedule_of(k->te, k->target));
}

/* The sketch of one rule; NULL when it does not fit. */
static tn__sketch *try_rule(const tn__rules *rules, const tn__te *te, const tn__target *target,
                            const tn__schedule_options *options, const struct tn__chooser *chooser, int index) {
  tn__arena *arena = tn__ir_arena(tn__te_ir(te));
  tn__escape *outer = arena->escape;
  const tn__rule *rule = rules->rule[index];
  if ((!rule->takes_steps && tn__te_has_steps(te)) || (!rule->takes_stored && tn__te_has_stored(te))) return NULL;
  if (!rule->matches(te)) return NULL;
  tn__sketch *k = TN__NEW(arena, tn__sketch);
  *k = (tn__sketch){.te = te, .target = target, .options = *options, .rules = rules, .chooser = chooser, .rule = rule};
  opening o = {k};
  tn__escape escape;
  tn_status *status = tn__protect(&escape, open_rule, &o);
  arena->escape = outer;
  if (status == NULL) return k;
  /* A primitive refused what the rule wanted, which is no error of the declaration: the next rule may do. Anything
   * else is. */
  if (tn_status_code_of(status) != TN_INVALID_ARGUMENT) tn__throw(outer, status);
  tn_status_free(status);
  return NULL;
}

/* The first rule from `index` on that fits. */
static tn__sketch *sketch_from(const tn__rules *rules, const tn__te *te, const tn__target *target,
                               const tn__schedule_options *options, const struct tn__chooser *chooser, int index) {
  for (; index < rules->count; index++) {
    if (rules->rule[index]->weigh != NULL) continue; /* it competes with what is found here */
    tn__sketch *k = try_rule(rules, te, target, options, chooser, index);
    if (k != NULL) return k;
  }
  return NULL;
}

static int place_of_rule(const tn__sketch *k) {
  int index = 0;
  while (k->rules->rule[index] != k->rule) index++;
  return index;
}

tn__sketch *tn__sketch_first(const tn__rules *rules, const tn__te *te, const tn__target *target,
                             const tn__schedule_options *options, const struct tn__chooser *chooser) {
  tn__schedule_options filled = {0};
  tn__check(tn__ir_arena(tn__te_ir(te))->escape, tn__schedule_options_fill(options, target, &filled));
  return sketch_from(rules, te, target, &filled, chooser, 0);
}

tn__sketch *tn__sketch_next(const tn__sketch *k) {
  return sketch_from(k->rules, k->te, k->target, &k->options, k->chooser, place_of_rule(k) + 1);
}

tn__sketch *tn__sketch_named(const tn__rules *rules, const tn__te *te, const tn__target *target,
                             const tn__schedule_options *options, const char *name, const struct tn__chooser *chooser) {
  tn__schedule_options filled = {0};
  tn__check(tn__ir_arena(tn__te_ir(te))->escape, tn__schedule_options_fill(options, target, &filled));
  for (int i = 0; i < rules->count; i++)
    if (strcmp(rules->rule[i]->name, name) == 0) {
      tn__sketch *k = try_rule(rules, te, target, &filled, chooser, i);
      if (k != NULL) return k; /* "pipeline" is the name of two rules */
    }
  return NULL;
}

const char *tn__sketch_name(const tn__sketch *k) { return k->rule->name; }

int tn__sketch_open(tn__sketch *k, const char *name, const int64_t *choices, int count) {
  tn__decision *d = &k->decisions[k->decision_count];
  *d = (tn__decision){.name = name};
  for (int i = 0; i < count && d->count < TN__MAX_CHOICES; i++) d->choices[d->count++] = choices[i];
  return k->decision_count++;
}

/* ---- points ------------------------------------------------------------------------------------------------------ */

int64_t tn__sketch_points(const tn__sketch *k) {
  int64_t points = 1;
  for (int i = 0; i < k->decision_count; i++)
    if (__builtin_mul_overflow(points, k->decisions[i].count, &points)) return INT64_MAX;
  return points;
}

static void places_at(const tn__sketch *k, int64_t index, int *places) {
  for (int i = k->decision_count - 1; i >= 0; i--) {
    places[i] = (int)(index % k->decisions[i].count);
    index /= k->decisions[i].count;
  }
}

static void values_of(const tn__sketch *k, const int *places, int64_t *values) {
  for (int i = 0; i < k->decision_count; i++) values[i] = k->decisions[i].choices[places[i]];
}

void tn__sketch_at(const tn__sketch *k, int64_t index, int64_t *values) {
  int places[TN__MAX_DECISIONS] = {0};
  places_at(k, index, places);
  values_of(k, places, values);
}

double tn__sketch_cost(const tn__sketch *k, const int64_t *values, tn__cost *breakdown) {
  tn__sketch_features f = {0};
  f.chunks = 1;
  if (k->rule->estimate != NULL) {
    double estimate = k->rule->estimate(k, values);
    if (breakdown != NULL) *breakdown = (tn__cost){.cycles = estimate, .seconds = estimate};
    return estimate;
  }
  const tn__nest *nest = k->rule->features(k, values, &f);
  if (nest != NULL) return tn__cost_of(k->target, &k->options, nest, &f, breakdown);
  if (breakdown != NULL) *breakdown = (tn__cost){.cycles = INFINITY, .seconds = INFINITY};
  return INFINITY;
}

tn__schedule *tn__sketch_apply(const tn__sketch *k, const int64_t *values) {
  tn__schedule *s = tn__schedule_of(k->te, k->target);
  k->rule->apply(k, values, s);
  tn__schedule_func(s);
  return s;
}

void tn__sketch_print(const tn__sketch *k, const int64_t *values, tn__strbuf *out) {
  for (int i = 0; i < k->decision_count; i++)
    tn__strbuf_printf(out, "%s%s %lld", i ? ", " : "", k->decisions[i].name, (long long)values[i]);
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

typedef struct search {
  const tn__sketch *k;
  const int64_t *except; /* the values of a point that is not wanted; NULL: none */
  int64_t weighed, most;
  double best;
  int places[TN__MAX_DECISIONS];
} search;

static bool same_values(const tn__sketch *k, const int64_t *a, const int64_t *b) {
  for (int i = 0; i < k->decision_count; i++)
    if (a[i] != b[i]) return false;
  return true;
}

/* INFINITY when nothing may be weighed any more. */
static double weigh_state(search *s, const int *places) {
  int64_t values[TN__MAX_DECISIONS];
  if (s->weighed >= s->most) return INFINITY;
  s->weighed++;
  tn__work_step(tn__ir_arena(tn__te_ir(s->k->te)), 1);
  values_of(s->k, places, values);
  if (s->except != NULL && same_values(s->k, values, s->except)) return INFINITY;
  double cost = tn__sketch_cost(s->k, values, NULL);
  if (!(cost < s->best)) return cost;
  s->best = cost;
  for (int i = 0; i < s->k->decision_count; i++) s->places[i] = places[i];
  return cost;
}

static bool weigh(search *s, const int *places) {
  double before = s->best;
  weigh_state(s, places);
  return s->best < before;
}

/* Weighs every choice of two decisions, from the best point on. */
static bool weigh_pair(search *s, int a, int b) {
  const tn__sketch *k = s->k;
  int places[TN__MAX_DECISIONS] = {0};
  bool better = false;
  for (int i = 0; i < k->decision_count; i++) places[i] = s->places[i];
  for (int v = 0; v < k->decisions[a].count * k->decisions[b].count; v++) {
    places[a] = v / k->decisions[b].count;
    places[b] = v % k->decisions[b].count;
    better |= weigh(s, places);
  }
  return better;
}

/* From the best point on, one and then two decisions are moved at a time until nothing gets better. A reduction that is
 * shared, or goes in blocks, is of use only together with something else, so its pairs come first. */
static void descend(search *s) {
  const tn__sketch *k = s->k;
  bool better = true;
  while (better && s->weighed < s->most) {
    better = false;
    for (int a = 0; a < k->decision_count; a++) {
      int places[TN__MAX_DECISIONS] = {0};
      for (int i = 0; i < k->decision_count; i++) places[i] = s->places[i];
      for (int v = 0; v < k->decisions[a].count; v++) {
        places[a] = v;
        better |= weigh(s, places);
      }
    }
    for (int first = 1; first >= 0; first--)
      for (int a = 0; a < k->decision_count && !better; a++)
        for (int b = a + 1; b < k->decision_count && !better; b++) {
          bool shares = (k->decisions[a].shares && k->decisions[a].count > 1) ||
                        (k->decisions[b].shares && k->decisions[b].count > 1);
          if (shares == (first == 1)) better |= weigh_pair(s, a, b);
        }
  }
}

/* ---- a decision at a time ---------------------------------------------------------------------------------------- */

enum { BEAM = 8 };

typedef struct state {
  int places[TN__MAX_DECISIONS];
  double cost;
} state;

/* Puts a candidate among the best so far, in order; of equals the first stays in front. */
static void keep_state(state *states, int *count, const int *places, int decisions, double cost) {
  int at = *count;
  while (at > 0 && cost < states[at - 1].cost) at--;
  if (at == BEAM) return;
  if (*count < BEAM) ++*count;
  for (int i = *count - 1; i > at; i--) states[i] = states[i - 1];
  for (int i = 0; i < decisions; i++) states[at].places[i] = places[i];
  states[at].cost = cost;
}

/* Beam search: decisions are made one after the other, each in all ways for the best few of what was decided before. A
 * candidate whose later decisions are open is weighed with what these were in the best before. Then downhill. */
static void search_beam(search *s) {
  const tn__sketch *k = s->k;
  state states[BEAM] = {{.cost = 0}}, next[BEAM];
  int count = 1;
  states[0].cost = weigh_state(s, states[0].places);
  for (int d = 0; d < k->decision_count; d++) {
    int found = 0;
    for (int i = 0; i < count; i++)
      for (int v = 0; v < k->decisions[d].count; v++) {
        int places[TN__MAX_DECISIONS] = {0};
        for (int x = 0; x < k->decision_count; x++) places[x] = states[i].places[x];
        bool known = v == places[d];
        places[d] = v;
        double cost = known ? states[i].cost : weigh_state(s, places);
        keep_state(next, &found, places, k->decision_count, cost);
      }
    count = found;
    for (int i = 0; i < found; i++) states[i] = next[i];
  }
  descend(s);
}

static double search_space(search *s) {
  int64_t points = tn__sketch_points(s->k);
  tn__sketch early = *s->k;
  int places[TN__MAX_DECISIONS] = {0};
  s->best = INFINITY;
  s->weighed = 0;
  s->most = s->k->options.search_space;
  if (points <= s->most) {
    for (int64_t i = 0; i < points; i++) {
      places_at(s->k, i, places);
      weigh(s, places);
    }
    return s->best;
  }
  if (s->k->rule->beam) {
    search_beam(s);
    return s->best;
  }
  /* Half of the allowance spread over the space by the golden ratio, which hits every decision's choices evenly; then
   * downhill from the best. */
  uint64_t position = 0;
  for (int i = 0; i < early.decision_count; i++)
    if (early.decisions[i].late) early.decisions[i].count = 1;
  points = tn__sketch_points(&early);
  int64_t samples = (s->most + 1) / 2;
  for (int64_t i = 0; i < samples && i < points; i++) {
    position += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t spread = (uint64_t)(((unsigned __int128)position * (uint64_t)points) >> 64);
    places_at(&early, points <= samples ? i : (int64_t)spread, places);
    weigh(s, places);
  }
  descend(s);
  return s->best;
}

/* Whether operands are copied changes what every other decision is worth, so each way has a search of its own. */
static double search_all(search *s) {
  int copies = 0, count = s->k->decision_count;
  while (copies < count && !(s->k->decisions[copies].copies && s->k->decisions[copies].count > 1)) copies++;
  if (copies == count) return search_space(s);
  search best = *s;
  best.best = INFINITY;
  best.weighed = 0;
  for (int c = 0; c < s->k->decisions[copies].count; c++) {
    tn__sketch one = *s->k;
    one.decisions[copies].choices[0] = one.decisions[copies].choices[c];
    one.decisions[copies].count = 1;
    search part = *s;
    part.k = &one;
    search_space(&part);
    best.weighed += part.weighed;
    if (!(part.best < best.best)) continue;
    best.best = part.best;
    for (int i = 0; i < count; i++) best.places[i] = part.places[i];
    best.places[copies] = c;
  }
  *s = best;
  return s->best;
}

/* The cheapest for so many threads, of half as many candidates unless `all`; adds up what was weighed. */
static search search_for(const tn__sketch *k, int threads, bool all, int64_t *weighed) {
  tn__sketch for_threads = *k;
  for_threads.options.threads = threads;
  if (!all) for_threads.options.search_space = (k->options.search_space + 1) / 2;
  search s = {.k = &for_threads};
  search_all(&s);
  *weighed += s.weighed;
  s.k = k;
  return s;
}

/* Leaves nothing but the choices at `places` to the decisions that order terms; to those that also share them, unless
 * `sharing` stay open. */
static void fix_orders(tn__sketch *k, const int *places, bool sharing) {
  for (int i = 0; i < k->decision_count; i++)
    if (k->decisions[i].orders && !(sharing && k->decisions[i].shares)) {
      k->decisions[i].choices[0] = k->decisions[i].choices[places[i]];
      k->decisions[i].count = 1;
    }
}

/* Decides in which order terms are added up: as one thread likes it best, without cuts where they promise little, or as
 * many threads do where they gain by it and it costs one next to nothing. The number of threads that there are has no
 * say in it. Returns how many candidates were weighed. */
TN_MUST_USE static int64_t choose_orders(tn__sketch *k, bool shares) {
  enum { MANY = TN__RULE_MANY_THREADS };
  tn__sketch alone = *k, together = *k, whole = *k;
  int64_t weighed = 0;
  bool cuts = false;
  search one = search_for(k, 1, !shares, &weighed); /* as one thread alone searches, which has nothing to share */
  for (int i = 0; i < k->decision_count; i++) {
    cuts |= k->decisions[i].shares && one.places[i] > 0;
    if (k->decisions[i].shares) whole.decisions[i].count = 1;
  }
  if (cuts) {
    search uncut = search_for(&whole, 1, false, &weighed);
    if (one.best > TN__RULE_WORTH_A_CUT * uncut.best) one = uncut;
  }
  fix_orders(&alone, one.places, false);
  fix_orders(&together, one.places, true);
  double apart = shares ? search_for(&alone, MANY, false, &weighed).best : 0;
  if (apart * MANY > TN__RULE_SCALES_BADLY * one.best) {
    search many = search_for(&together, MANY, true, &weighed);
    fix_orders(&together, many.places, false);
    if (many.best < TN__RULE_SHARING_GAIN * apart &&
        search_for(&together, 1, false, &weighed).best <= TN__RULE_SHARING_PRICE * one.best) {
      *k = together;
      return weighed;
    }
  }
  *k = alone;
  return weighed;
}

/* The same sketch for the target as the table has it. */
static tn__sketch of_table(const tn__sketch *k) {
  tn__arena *arena = tn__ir_arena(tn__te_ir(k->te));
  tn__target *target = TN__NEW(arena, tn__target);
  *target = tn__target_of_table(k->target);
  tn__schedule_options options = k->options;
  if (options.cache_bytes == k->target->cpu.machine.l2_bytes) options.cache_bytes = target->cpu.machine.l2_bytes;
  const tn__sketch *table = try_rule(k->rules, k->te, target, &options, k->chooser, place_of_rule(k));
  return table != NULL ? *table : *k;
}

/* The order of terms as it is in the table's target; a measurement has no say in it. */
static int64_t choose_orders_by_table(tn__sketch *k, bool shares) {
  tn__sketch table = of_table(k);
  int64_t weighed = choose_orders(&table, shares);
  for (int i = 0; i < k->decision_count; i++)
    for (int t = 0; t < table.decision_count; t++) {
      if (!k->decisions[i].orders || strcmp(table.decisions[t].name, k->decisions[i].name) != 0) continue;
      k->decisions[i].choices[0] = table.decisions[t].choices[0];
      k->decisions[i].count = 1;
    }
  return weighed;
}

static void choose(const tn__sketch *k, int64_t *values, tn__cost *breakdown, int64_t *all_weighed) {
  tn__sketch fixed = *k;
  int64_t weighed = 0;
  bool orders = false, shares = false;
  for (int i = 0; i < k->decision_count; i++) {
    orders |= k->decisions[i].orders && k->decisions[i].count > 1;
    shares |= k->decisions[i].shares && k->decisions[i].count > 1;
  }
  if ((shares || orders) && k->target->cpu.measured)
    weighed = choose_orders_by_table(&fixed, shares);
  else if (shares || (orders && k->options.threads > 1))
    weighed = choose_orders(&fixed, shares);
  search s = {.k = &fixed};
  search_all(&s);
  values_of(&fixed, s.places, values);
  tn__sketch_cost(k, values, breakdown);
  *all_weighed = weighed + s.weighed;
}

int64_t tn__sketch_choose_counting(const tn__sketch *k, int64_t *values, tn__cost *breakdown) {
  int64_t weighed;
  choose(k, values, breakdown, &weighed);
  return weighed;
}

void tn__sketch_choose(const tn__sketch *k, int64_t *values, tn__cost *breakdown) {
  int64_t weighed;
  choose(k, values, breakdown, &weighed);
}

/* ---- rules that compete ------------------------------------------------------------------------------------------ */

typedef struct weighing {
  const tn__sketch *k, *other;
  const int64_t *values;
  tn__cost *out;
  double cycles;
} weighing;

static void weigh_other(tn__escape *escape, void *arg) {
  weighing *w = arg;
  tn__ir_arena(tn__te_ir(w->k->te))->escape = escape;
  tn__schedule *s = tn__schedule_of(w->other->te, w->other->target);
  w->other->rule->apply(w->other, w->values, s);
  w->cycles = w->k->rule->weigh(w->k, s, w->out);
}

double tn__sketch_weigh(const tn__sketch *k, const tn__sketch *other, const int64_t *values, tn__cost *out) {
  tn__arena *arena = tn__ir_arena(tn__te_ir(k->te));
  tn__escape *outer = arena->escape, escape;
  weighing w = {k, other, values, out, INFINITY};
  tn_status *status = tn__protect(&escape, weigh_other, &w);
  arena->escape = outer;
  if (status != NULL && tn_status_code_of(status) != TN_INVALID_ARGUMENT) tn__throw(outer, status);
  tn_status_free(status);
  return w.cycles;
}

/* For one thread of the target as the table has it. */
static tn__sketch alone_by_table(const tn__sketch *k) {
  tn__sketch alone = *k;
  alone.options.threads = 1;
  return k->target->cpu.measured ? of_table(&alone) : alone;
}

static bool beats(const tn__sketch *k, const tn__sketch *other) {
  tn__sketch own = alone_by_table(k), theirs = alone_by_table(other);
  int64_t values[TN__MAX_DECISIONS];
  tn__cost cost;
  tn__sketch_choose(&own, values, &cost);
  double cycles = cost.cycles;
  tn__sketch_choose(&theirs, values, NULL);
  return cycles < TN__RULE_WORTH_ANOTHER * tn__sketch_weigh(&own, &theirs, values, NULL);
}

static double least_cost(const tn__sketch *k) {
  tn__sketch alone = alone_by_table(k);
  int64_t values[TN__MAX_DECISIONS];
  tn__cost cost;
  tn__sketch_choose(&alone, values, &cost);
  return cost.cycles;
}

tn__sketch *tn__sketch_later(const tn__sketch *k) {
  tn__sketch *later = k->rule->gives_way ? tn__sketch_next(k) : NULL;
  return later != NULL && least_cost(later) < TN__RULE_WORTH_A_LATER * least_cost(k) ? later : NULL;
}

tn__sketch *tn__sketch_competing(const tn__sketch *k) {
  for (int i = 0; i < k->rules->count && k->rule->yields && !k->firm; i++) {
    if (k->rules->rule[i]->weigh == NULL) continue;
    tn__sketch *own = try_rule(k->rules, k->te, k->target, &k->options, k->chooser, i);
    if (own != NULL && beats(own, k)) return own;
  }
  return NULL;
}

bool tn__sketch_next_best(const tn__sketch *k, const int64_t *values, int64_t *next, tn__cost *breakdown) {
  tn__sketch fixed = *k;
  for (int i = 0; i < k->decision_count; i++) {
    if (!k->decisions[i].orders) continue;
    fixed.decisions[i].choices[0] = values[i];
    fixed.decisions[i].count = 1;
  }
  search s = {.k = &fixed, .except = values};
  if (!(search_all(&s) < (double)INFINITY)) return false;
  values_of(&fixed, s.places, next);
  tn__sketch_cost(k, next, breakdown);
  return true;
}
