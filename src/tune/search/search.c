#include "tune/search/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

enum {
  BATCH = 8,        /* proposals that are made at a time, and thrown away when results come */
  SAMPLES = 8192,   /* points of each rule that are drawn to begin with */
  POOL = 512,       /* the best of these are kept */
  OFFSPRING = 1024, /* of a generation */
  PARENTS = 12,     /* the best measured that have children */
  CHANCE = 8,       /* one proposal in so many is drawn by chance */
  MOST_TRIES = 64   /* to find a random point that can be */
};

typedef struct ranked {
  tn__space_point point;
  tn__space_cost cost;
  double score; /* predicted seconds in logarithms */
} ranked;

struct tn__search {
  tn__space *space;
  tn__cost_model *model;
  tn__search_kind kind;
  uint64_t random;
  tn__proposal **proposals;
  int count, capacity;
  uint64_t *seen; /* hashes of traces, open addressing; 0: free */
  size_t seen_count, seen_capacity;
  ranked *pool; /* drawn at first, by what the cost function says */
  int pool_count;
  ranked batch[BATCH];
  int batch_count, batch_next;
  int told, told_at_batch; /* results; those that the batch knew */
  const tn__proposal *best;
  double promised; /* the best score of a point that is not measured, as the last batch had it */
  double clock_hz;
  tn__space_point next; /* of TN__SEARCH_ALL: the rule, and its point number next_index */
  int64_t next_index;
};

/* ---- small things ------------------------------------------------------------------------------------------------ */

static uint64_t next_random(tn__search *s) {
  s->random += 0x9e3779b97f4a7c15u;
  return tn__hash_mix(s->random, 1);
}

static int64_t below(tn__search *s, int64_t n) {
  return (int64_t)(((unsigned __int128)next_random(s) * (uint64_t)n) >> 64);
}

static tn_status *no_memory(void) { return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for a search"); }

/* Is the trace new? Then it is not any more. */
static tn_status *note_trace(tn__search *s, const char *trace, bool *is_new) {
  if (2 * s->seen_count >= s->seen_capacity) {
    size_t capacity = s->seen_capacity > 0 ? 2 * s->seen_capacity : 1024;
    uint64_t *grown = calloc(capacity, sizeof *grown);
    if (grown == NULL) return no_memory();
    for (size_t i = 0; i < s->seen_capacity; i++) {
      if (s->seen[i] == 0) continue;
      size_t at = s->seen[i] % capacity;
      while (grown[at] != 0) at = (at + 1) % capacity;
      grown[at] = s->seen[i];
    }
    free(s->seen);
    s->seen = grown;
    s->seen_capacity = capacity;
  }
  uint64_t hash = tn__hash_string(1, trace) | 1;
  size_t at = hash % s->seen_capacity;
  while (s->seen[at] != 0 && s->seen[at] != hash) at = (at + 1) % s->seen_capacity;
  *is_new = s->seen[at] == 0;
  s->seen[at] = hash;
  s->seen_count += *is_new;
  return NULL;
}

static bool same_point(const tn__space *space, const tn__space_point *a, const tn__space_point *b) {
  if (a->rule != b->rule) return false;
  for (int d = 0; d < space->rules[a->rule].sketch->decision_count; d++)
    if (a->values[d] != b->values[d]) return false;
  return true;
}

/* ---- ranking ----------------------------------------------------------------------------------------------------- */

static int by_score(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  return (x->score > y->score) - (x->score < y->score);
}

static tn_status *add_learned(tn__search *s, ranked *list, int count) {
  if (s->model == NULL || count == 0) return NULL;
  float *features = malloc((size_t)count * TN__MODEL_FEATURES * sizeof(float)),
        *errors = malloc((size_t)count * sizeof(float));
  tn_status *status = features == NULL || errors == NULL ? no_memory() : NULL;
  for (int i = 0; status == NULL && i < count; i++)
    tn__model_features(s->space, &list[i].point, &list[i].cost, &features[(size_t)i * TN__MODEL_FEATURES]);
  if (status == NULL) status = tn__model_predict(s->model, features, count, errors);
  for (int i = 0; status == NULL && i < count; i++) list[i].score = log(list[i].cost.cycles / s->clock_hz) + errors[i];
  free(features);
  free(errors);
  return status;
}

/* Adds a point to the list when it can be. */
static void add_point(tn__search *s, const tn__space_point *point, ranked *list, int *count) {
  tn__space_cost cost = tn__space_weigh(s->space, point);
  if (isfinite(cost.cycles) && cost.cycles > 0)
    list[(*count)++] = (ranked){*point, cost, log(cost.cycles / s->clock_hz)};
}

/* A point that can be, each as likely in its rule. */
static bool draw(tn__search *s, int rule, ranked *out) {
  const tn__space_rule *r = &s->space->rules[rule];
  for (int i = 0; i < MOST_TRIES; i++) {
    tn__space_point p = {.rule = rule};
    int count = 0;
    tn__sketch_at(r->sketch, below(s, r->points), p.values);
    add_point(s, &p, out, &count);
    if (count == 1) return true;
  }
  return false;
}

/* ---- the first candidates ---------------------------------------------------------------------------------------- */

/* All points with one decision another than in `from`. */
static void add_neighbours(tn__search *s, const tn__space_point *from, ranked *list, int *count, int most) {
  const tn__sketch *k = s->space->rules[from->rule].sketch;
  for (int d = 0; d < k->decision_count; d++)
    for (int v = 0; v < k->decisions[d].count && *count < most; v++) {
      if (k->decisions[d].choices[v] == from->values[d]) continue;
      tn__space_point p = *from;
      p.values[d] = k->decisions[d].choices[v];
      add_point(s, &p, list, count);
    }
}

/* What the cost function likes best, of each rule its share: the rules' estimates are not of one scale. */
static tn_status *fill_pool(tn__search *s) {
  tn__space *space = s->space;
  ranked *drawn = malloc((SAMPLES + 1024) * sizeof *drawn);
  s->pool = malloc((POOL + TN__SPACE_RULES) * sizeof *s->pool);
  if (drawn == NULL || s->pool == NULL) {
    free(drawn);
    return no_memory();
  }
  int share = space->rule_count > 0 ? POOL / space->rule_count : 0;
  for (int r = 0; r < space->rule_count; r++) {
    const tn__space_rule *rule = &space->rules[r];
    int count = 0;
    for (int64_t i = 0; i < SAMPLES && i < rule->points; i++) {
      tn__space_point p = {.rule = r};
      tn__sketch_at(rule->sketch, rule->points <= SAMPLES ? i : below(s, rule->points), p.values);
      add_point(s, &p, drawn, &count);
    }
    tn__space_point liked = {.rule = r};
    tn__sketch_choose(rule->sketch, liked.values, NULL);
    add_point(s, &liked, drawn, &count);
    add_neighbours(s, &liked, drawn, &count, SAMPLES + 1000);
    qsort(drawn, (size_t)count, sizeof *drawn, by_score);
    for (int i = 0; i < count && i < share; i++) s->pool[s->pool_count++] = drawn[i];
  }
  free(drawn);
  return NULL;
}

/* ---- evolution --------------------------------------------------------------------------------------------------- */

static int by_median(const void *a, const void *b) {
  const tn__proposal *x = *(tn__proposal *const *)a, *y = *(tn__proposal *const *)b;
  if (x->median != y->median) return x->median < y->median ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

static void mutate(tn__search *s, tn__space_point *p) {
  const tn__sketch *k = s->space->rules[p->rule].sketch;
  for (int changes = 1 + (int)below(s, 3); changes > 0; changes--) {
    int d = (int)below(s, k->decision_count), at = 0;
    const tn__decision *decision = &k->decisions[d];
    while (at < decision->count && decision->choices[at] != p->values[d]) at++;
    bool near = below(s, 2) == 0; /* the next size, or any */
    if (near && at < decision->count)
      at += below(s, 2) == 0 ? 1 : -1;
    else
      at = (int)below(s, decision->count);
    if (at >= 0 && at < decision->count) p->values[d] = decision->choices[at];
  }
}

static void breed(tn__search *s, tn__proposal *const *parents, int parent_count, ranked *list, int *count) {
  for (int i = 0; i < OFFSPRING; i++) {
    int64_t first = below(s, parent_count), second = below(s, parent_count);
    tn__space_point p = parents[first < second ? first : second]->point; /* the better ones more often */
    const tn__space_point *other = &parents[below(s, parent_count)]->point;
    const tn__sketch *k = s->space->rules[p.rule].sketch;
    if (other->rule == p.rule && below(s, 3) == 0)
      for (int d = 0; d < k->decision_count; d++)
        if (below(s, 2) == 0) p.values[d] = other->values[d];
    mutate(s, &p);
    add_point(s, &p, list, count);
  }
}

/* Those that were measured and are points, best first. */
static int best_measured(const tn__search *s, tn__proposal **out, int most) {
  tn__proposal **all = malloc((size_t)(s->count + 1) * sizeof(tn__proposal *));
  int count = 0;
  for (int i = 0; all != NULL && i < s->count; i++)
    if (isfinite(s->proposals[i]->median) && s->proposals[i]->point.rule >= 0) all[count++] = s->proposals[i];
  if (count > 1) qsort(all, (size_t)count, sizeof(tn__proposal *), by_median);
  if (count > most) count = most;
  if (count > 0) memcpy(out, all, (size_t)count * sizeof(tn__proposal *));
  free(all);
  return count;
}

static bool is_proposed(const tn__search *s, const tn__space_point *point) {
  for (int i = 0; i < s->count; i++)
    if (s->proposals[i]->point.rule >= 0 && same_point(s->space, &s->proposals[i]->point, point)) return true;
  for (int i = 0; i < s->batch_count; i++)
    if (same_point(s->space, &s->batch[i].point, point)) return true;
  return false;
}

/* The best of the list, which is sorted, that are not proposed. What a rule says is comparable with what another says
 * only when the model has learned by how much each is wrong: until then they take turns. */
static void take_best(tn__search *s, const ranked *list, int count) {
  bool turns = s->model == NULL || tn__model_samples(s->model) < TN__MODEL_LEAST_SAMPLES;
  int next[TN__SPACE_RULES] = {0};
  s->batch_count = s->batch_next = 0;
  for (int turn = 0, idle = 0; s->batch_count < BATCH && idle <= s->space->rule_count; turn++) {
    int rule = turns ? turn % s->space->rule_count : 0, at = next[rule];
    while (at < count && ((turns && list[at].point.rule != rule) || is_proposed(s, &list[at].point))) at++;
    next[rule] = at + 1;
    idle = at < count ? 0 : idle + 1;
    if (at < count) s->batch[s->batch_count++] = list[at];
  }
}

/* A new generation, and what was drawn at first. */
static tn_status *fill_batch(tn__search *s) {
  tn__proposal *parents[PARENTS];
  if (s->space->rule_count == 0) return NULL;
  ranked *list = malloc((OFFSPRING + POOL + TN__SPACE_RULES) * sizeof *list);
  if (list == NULL) return no_memory();
  int parent_count = best_measured(s, parents, PARENTS), count = 0;
  if (parent_count > 0) breed(s, parents, parent_count, list, &count);
  memcpy(&list[count], s->pool, (size_t)s->pool_count * sizeof *list);
  count += s->pool_count;
  tn_status *status = add_learned(s, list, count);
  if (status == NULL) {
    qsort(list, (size_t)count, sizeof *list, by_score);
    if (count > 0) s->promised = list[0].score;
    take_best(s, list, count);
    s->told_at_batch = s->told;
  }
  free(list);
  return status;
}

/* ---- proposals --------------------------------------------------------------------------------------------------- */

static tn_status *add_proposal(tn__search *s, const ranked *r, const char *trace, const tn__proposal **out) {
  tn__proposal *p = NULL;
  if (s->count == s->capacity) {
    int capacity = s->capacity > 0 ? 2 * s->capacity : 64;
    void *grown = realloc(s->proposals, (size_t)capacity * sizeof(tn__proposal *));
    if (grown == NULL) return no_memory();
    s->proposals = grown;
    s->capacity = capacity;
  }
  p = calloc(1, sizeof *p);
  if (p == NULL) return no_memory();
  p->index = s->count;
  p->median = p->predicted = NAN;
  if (r != NULL) {
    p->point = r->point;
    p->rule = s->space->rules[r->point.rule].name;
    p->decisions = tn__space_decisions(s->space, &r->point);
    p->predicted = exp(r->score);
    tn__model_features(s->space, &r->point, &r->cost, p->features);
  } else {
    p->point.rule = -1;
    p->rule = s->space->static_rule;
    p->decisions = strdup(s->space->static_decisions);
  }
  p->trace = strdup(trace);
  if (p->trace == NULL || p->decisions == NULL) {
    free(p->trace);
    free(p->decisions);
    free(p);
    return no_memory();
  }
  s->proposals[s->count++] = p;
  *out = p;
  return NULL;
}

static tn_status *propose_static(tn__search *s, const tn__proposal **out) {
  bool is_new;
  ranked r;
  int count = 0;
  TN_RETURN_IF_ERROR(note_trace(s, s->space->static_trace, &is_new));
  if (s->space->static_point.rule >= 0) add_point(s, &s->space->static_point, &r, &count);
  return add_proposal(s, count > 0 ? &r : NULL, s->space->static_trace, out);
}

/* Proposes the point unless primitives refuse it or its steps are known. */
static tn_status *propose_point(tn__search *s, const ranked *r, const tn__proposal **out) {
  char *trace;
  bool is_new;
  tn_status *status = tn__space_trace(s->space, &r->point, &trace);
  if (status != NULL) {
    bool refused = tn_status_code_of(status) != TN_OUT_OF_MEMORY;
    if (!refused) return status;
    tn_status_free(status);
    return NULL;
  }
  status = note_trace(s, trace, &is_new);
  if (status == NULL && is_new) status = add_proposal(s, r, trace, out);
  free(trace);
  return status;
}

static bool next_point(tn__search *s, ranked *out) {
  bool by_chance = s->kind == TN__SEARCH_RANDOM || below(s, CHANCE) == 0;
  if (by_chance && s->space->rule_count > 0 && draw(s, (int)below(s, s->space->rule_count), out)) {
    return true;
  }
  if (s->kind == TN__SEARCH_RANDOM || s->batch_next >= s->batch_count) return false;
  *out = s->batch[s->batch_next++];
  return true;
}

static tn_status *next_of_all(tn__search *s, const tn__proposal **out) {
  while (*out == NULL && s->next.rule < s->space->rule_count) {
    const tn__space_rule *rule = &s->space->rules[s->next.rule];
    if (s->next_index == rule->points) {
      s->next.rule++;
      s->next_index = 0;
      continue;
    }
    ranked r;
    int count = 0;
    tn__sketch_at(rule->sketch, s->next_index++, s->next.values);
    add_point(s, &s->next, &r, &count);
    if (count > 0) TN_RETURN_IF_ERROR(propose_point(s, &r, out));
  }
  return NULL;
}

tn_status *tn__search_next(tn__search *s, const tn__proposal **out) {
  enum { MOST_KNOWN = 256, MOST_BARREN = 4 }; /* points, and generations, in a row that are nothing new: all is known */
  int barren = 0;
  *out = NULL;
  if (s->count == 0) return propose_static(s, out);
  if (s->kind == TN__SEARCH_ALL) return next_of_all(s, out);
  for (int tries = 0; *out == NULL && tries < MOST_KNOWN && barren < MOST_BARREN; tries++) {
    ranked r;
    bool stale = s->batch_next >= s->batch_count || s->told - s->told_at_batch >= BATCH;
    if (s->kind == TN__SEARCH_EVOLUTION && stale) {
      TN_RETURN_IF_ERROR(fill_batch(s));
      barren = s->batch_count == 0 ? barren + 1 : 0;
    }
    if (next_point(s, &r)) TN_RETURN_IF_ERROR(propose_point(s, &r, out));
  }
  return NULL;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

tn_status *tn__search_tell(tn__search *s, int index, double median) {
  tn__proposal *p = s->proposals[index];
  p->median = median;
  s->told++;
  if (isfinite(median) && (s->best == NULL || median < s->best->median)) s->best = p;
  if (s->model == NULL || p->point.rule < 0) return NULL;
  tn__space_cost cost = tn__space_weigh(s->space, &p->point);
  if (!isfinite(cost.cycles)) return NULL;
  enum { FAILED = 2 }; /* as if it took e^2 times what was predicted */
  tn__model_sample sample;
  memcpy(sample.features, p->features, sizeof sample.features);
  sample.error = isfinite(median) ? (float)log(median * s->clock_hz / cost.cycles) : FAILED;
  sample.error = fmaxf(fminf(sample.error, 4), -4);
  TN_RETURN_IF_ERROR(tn__model_add(s->model, &sample));
  return tn__model_learn(s->model);
}

/* "rows 14, vectors 2" of a rule of the space. */
static bool read_point(const tn__search *s, const char *rule, const char *decisions, tn__space_point *out) {
  *out = (tn__space_point){.rule = -1};
  for (int r = 0; rule != NULL && r < s->space->rule_count; r++)
    if (strcmp(s->space->rules[r].name, rule) == 0) out->rule = r;
  if (out->rule < 0 || decisions == NULL) return false;
  const tn__sketch *k = s->space->rules[out->rule].sketch;
  for (int d = 0; d < k->decision_count; d++) {
    const tn__decision *decision = &k->decisions[d];
    size_t length = strlen(decision->name);
    const char *at = decisions;
    while (at != NULL && !(strncmp(at, decision->name, length) == 0 && at[length] == ' ')) {
      at = strstr(at, ", ");
      if (at != NULL) at += 2;
    }
    if (at == NULL) return false;
    out->values[d] = strtoll(at + length, NULL, 10);
    bool is_choice = false;
    for (int v = 0; v < decision->count; v++) is_choice |= decision->choices[v] == out->values[d];
    if (!is_choice) return false;
  }
  return true;
}

tn_status *tn__search_know(tn__search *s, const char *rule, const char *decisions, const char *trace, double median) {
  const tn__proposal *p;
  tn__space_point point;
  bool is_new;
  if (s->count == 0) TN_RETURN_IF_ERROR(propose_static(s, &p));
  if (strcmp(trace, s->space->static_trace) == 0)
    return isnan(s->proposals[0]->median) ? tn__search_tell(s, 0, median) : NULL;
  TN_RETURN_IF_ERROR(note_trace(s, trace, &is_new));
  if (!is_new || !read_point(s, rule, decisions, &point)) return NULL;
  ranked r;
  int count = 0;
  add_point(s, &point, &r, &count);
  if (count == 0) return NULL;
  TN_RETURN_IF_ERROR(add_proposal(s, &r, trace, &p));
  return tn__search_tell(s, p->index, median);
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

tn_status *tn__search_create(tn__space *space, tn__cost_model *model, tn__search_kind kind, uint64_t seed,
                             tn__search **out) {
  *out = NULL;
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__search), 0, &memory));
  tn__search *s = memory;
  *s = (tn__search){.space = space, .model = model, .kind = kind, .random = tn__hash_mix(seed, 7), .promised = NAN};
  s->clock_hz = 1e6 * space->target.cpu.machine.core.megahertz;
  tn_status *status = kind == TN__SEARCH_EVOLUTION ? fill_pool(s) : NULL;
  if (status != NULL) {
    tn__search_release(s);
    return status;
  }
  *out = s;
  return NULL;
}

void tn__search_release(tn__search *s) {
  if (s == NULL) return;
  for (int i = 0; i < s->count; i++) {
    free(s->proposals[i]->trace);
    free(s->proposals[i]->decisions);
    free(s->proposals[i]);
  }
  free(s->proposals);
  free(s->seen);
  free(s->pool);
  tn__free(NULL, s, sizeof *s, 0);
}

const tn__proposal *tn__search_best(const tn__search *s) { return s->best; }

const tn__proposal *tn__search_at(const tn__search *s, int index) { return s->proposals[index]; }

int tn__search_count(const tn__search *s) { return s->count; }

double tn__search_promise(const tn__search *s) {
  if (s->best == NULL || isnan(s->promised)) return 1;
  double promise = exp(s->promised) / s->best->median;
  return promise < 1 ? promise : 1;
}
