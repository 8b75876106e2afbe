#include "tune/search/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/invariant.h"
#include "tune/search/points.h"

enum {
  BATCH = 8,         /* proposals that are made at a time, and thrown away when results come */
  SAMPLES = 8192,    /* points of each rule that are drawn to begin with */
  POOL = 512,        /* the best of these are kept */
  OFFSPRING = 1024,  /* of a generation */
  LOOKED_INTO = 128, /* of a generation: the best by what is cheap, of which the loops are looked at */
  PARENTS = 12,      /* the best measured that have children */
  CHANCE = 16,       /* one proposal in so many is drawn by chance */
  MOST_TRIES = 64    /* to find a random point that can be */
};

typedef struct ranked {
  tn__space_point point;
  tn__space_cost cost;
  double score; /* predicted seconds in logarithms, relative to the mean of the task's errors once it has learned */
  int part;     /* in which it differs from another that is known; -1: in none alone */
} ranked;

/* What the loops of a point do, which is asked for again and again. */
typedef struct looked {
  uint64_t key; /* of the point; 0: free */
  bool refused; /* a primitive refuses a step */
  float loops[TN__FEATURES];
} looked;

struct tn__search {
  tn__space *space;
  tn__cost_model *model;
  tn__search_kind kind;
  uint64_t random;
  tn__proposal **proposals;
  int count, capacity;
  uint64_t *seen; /* hashes of traces, open addressing; 0: free */
  size_t seen_count, seen_capacity;
  looked **looked; /* open addressing, NULL: free */
  size_t looked_count, looked_capacity;
  ranked *pool; /* drawn at first, by what the cost function says */
  int pool_count;
  ranked batch[BATCH];
  ranked seeds[TN__SEARCH_SEEDS];
  int seed_count, seed_next;
  int batch_count, batch_next;
  int told, told_at_batch; /* results; those that the batch knew */
  const tn__proposal *best;
  int task;      /* of the model */
  double errors; /* the sum of those of its samples: of measured over predicted, in logarithms */
  int error_count;
  double promised; /* the best score of a point that is not measured, as the last batch had it */
  double clock_hz;
  tn__space_point next; /* of TN__SEARCH_ALL: the rule, and its point number next_index */
  int64_t next_index;
};

/* ---- small things ------------------------------------------------------------------------------------------------ */

static int64_t below(tn__search *s, int64_t n) { return tn__space_random(&s->random, n); }

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

/* ---- ranking ----------------------------------------------------------------------------------------------------- */

static int by_score(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  return (x->score > y->score) - (x->score < y->score);
}

static tn_status *add_learned(tn__search *s, ranked *list, int count) {
  float *features = malloc((size_t)count * TN__MODEL_FEATURES * sizeof(float)),
        *errors = malloc((size_t)count * sizeof(float));
  tn_status *status = features == NULL || errors == NULL ? no_memory() : NULL;
  for (int i = 0; status == NULL && i < count; i++)
    tn__model_cheap(s->space, &list[i].point, &list[i].cost, &features[(size_t)i * TN__MODEL_FEATURES]);
  if (status == NULL) status = tn__model_predict_cheap(s->model, features, count, errors);
  for (int i = 0; status == NULL && i < count; i++) list[i].score = log(list[i].cost.cycles / s->clock_hz) + errors[i];
  free(features);
  free(errors);
  return status;
}

static uint64_t key_of(const tn__space *space, const tn__space_point *point) {
  uint64_t key = tn__hash_mix(17, (uint64_t)point->rule);
  for (int d = 0; d < space->rules[point->rule].sketch->decision_count; d++)
    key = tn__hash_mix(key, (uint64_t)point->values[d]);
  for (int p = 0; point->rule == space->parts_of && p < space->part_count; p++)
    key = tn__hash_bytes(key, &point->parts[p], sizeof point->parts[p]);
  return key | 1;
}

static tn_status *make_room(tn__search *s) {
  if (2 * s->looked_count < s->looked_capacity) return NULL;
  size_t capacity = s->looked_capacity > 0 ? 2 * s->looked_capacity : 1024;
  looked **grown = calloc(capacity, sizeof(looked *));
  if (grown == NULL) return no_memory();
  for (size_t i = 0; i < s->looked_capacity; i++) {
    if (s->looked[i] == NULL) continue;
    size_t at = s->looked[i]->key % capacity;
    while (grown[at] != NULL) at = (at + 1) % capacity;
    grown[at] = s->looked[i];
  }
  free(s->looked);
  s->looked = grown;
  s->looked_capacity = capacity;
  return NULL;
}

/* What the loops of the point do, as it was found before or is now. */
static tn_status *look(tn__search *s, const tn__space_point *point, const looked **out) {
  uint64_t key = key_of(s->space, point);
  TN_RETURN_IF_ERROR(make_room(s));
  size_t at = key % s->looked_capacity;
  while (s->looked[at] != NULL && s->looked[at]->key != key) at = (at + 1) % s->looked_capacity;
  if (s->looked[at] == NULL) {
    looked *l = calloc(1, sizeof *l);
    if (l == NULL) return no_memory();
    l->key = key;
    tn_status *status = tn__space_features(s->space, point, l->loops);
    if (tn_status_code_of(status) == TN_OUT_OF_MEMORY) {
      free(l);
      return status;
    }
    l->refused = status != NULL;
    tn_status_free(status);
    s->looked[at] = l;
    s->looked_count++;
  }
  *out = s->looked[at];
  return NULL;
}

static tn_status *fill_row(tn__search *s, const ranked *r, tn__model_row *out, bool *refused) {
  const looked *l = NULL;
  TN_RETURN_IF_ERROR(look(s, &r->point, &l));
  TN__INVARIANT(l != NULL);
  tn__model_cheap(s->space, &r->point, &r->cost, out->cheap);
  memcpy(out->loops, l->loops, sizeof out->loops);
  if (refused != NULL) *refused = l->refused;
  return NULL;
}

/* What is added to a score, as learned errors are relative to the task's mean. */
static double usual_error(const tn__search *s) {
  bool learned = s->model != NULL && tn__model_knows(s->model) && s->error_count > 0;
  return learned ? s->errors / s->error_count : 0;
}

/* The first of a sorted list are ranked again, by what their loops do. */
static tn_status *look_into(tn__search *s, ranked *list, int count) {
  if (count > LOOKED_INTO) count = LOOKED_INTO;
  tn__model_row *rows = malloc((size_t)count * sizeof *rows);
  float *errors = malloc((size_t)count * sizeof *errors);
  bool *refused = malloc((size_t)count * sizeof *refused);
  tn_status *status = rows == NULL || errors == NULL || refused == NULL ? no_memory() : NULL;
  for (int i = 0; status == NULL && i < count; i++) status = fill_row(s, &list[i], &rows[i], &refused[i]);
  if (status == NULL) status = tn__model_predict(s->model, rows, count, errors);
  for (int i = 0; status == NULL && i < count; i++)
    list[i].score = refused[i] ? (double)INFINITY : log(list[i].cost.cycles / s->clock_hz) + errors[i];
  if (status == NULL) qsort(list, (size_t)count, sizeof *list, by_score);
  free(rows);
  free(errors);
  free(refused);
  return status;
}

/* Sorts the list, the best first. */
static tn_status *rank(tn__search *s, ranked *list, int count) {
  bool learned = s->model != NULL && tn__model_knows(s->model) && count > 0;
  if (learned) TN_RETURN_IF_ERROR(add_learned(s, list, count));
  qsort(list, (size_t)count, sizeof *list, by_score);
  return learned ? look_into(s, list, count) : NULL;
}

/* Adds a point to the list when it can be. */
static void add_point(tn__search *s, const tn__space_point *point, int part, ranked *list, int *count) {
  tn__space_cost cost = tn__space_weigh(s->space, point);
  if (isfinite(cost.cycles) && cost.cycles > 0)
    list[(*count)++] = (ranked){*point, cost, log(cost.cycles / s->clock_hz), part};
}

/* The best measured point of the rule, or what the cost function likes. */
static void incumbent(const tn__search *s, int rule, tn__space_point *out) {
  const tn__proposal *best = NULL;
  for (int i = 0; i < s->count; i++) {
    const tn__proposal *p = s->proposals[i];
    if (p->point.rule == rule && isfinite(p->median) && (best == NULL || p->median < best->median)) best = p;
  }
  if (best != NULL)
    *out = best->point;
  else
    tn__space_liked(s->space, rule, out);
}

/* A point that can be, each as likely in its rule; with parts, one of them is drawn, of the best so far. */
TN_MUST_USE static bool draw(tn__search *s, int rule, ranked *out) {
  bool by_parts = s->kind == TN__SEARCH_EVOLUTION && rule == s->space->parts_of;
  tn__space_point from = {.rule = rule};
  if (by_parts) incumbent(s, rule, &from);
  for (int i = 0; i < MOST_TRIES; i++) {
    tn__space_point p;
    int count = 0, part = tn__space_draw(s->space, rule, by_parts ? &from : NULL, &s->random, &p);
    add_point(s, &p, part, out, &count);
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
      add_point(s, &p, -1, list, count);
    }
}

/* Points in which one part is another than in `from`: of each part what is best by the cost function, as many as its
 * share of the kernel's time is of all. */
static void add_parts(tn__search *s, const tn__space_point *from, ranked *drawn, int share) {
  const tn__space *space = s->space;
  double all = 0;
  for (int i = 0; i < space->part_count; i++) all += space->parts[i].cycles;
  for (int i = 0; i < space->part_count; i++) {
    const tn__space_part *part = &space->parts[i];
    int count = 0, most = 1 + (int)((share - space->part_count) * (all > 0 ? part->cycles / all : 0));
    for (int n = 0; n < SAMPLES / space->part_count; n++) {
      tn__space_point p = *from;
      tn__space_draw_part(space, i, &s->random, &p);
      add_point(s, &p, i, drawn, &count);
    }
    qsort(drawn, (size_t)count, sizeof *drawn, by_score);
    for (int n = 0, taken = 0; n < count && taken < most; n++) {
      bool again = n > 0 && tn__space_same(space, &drawn[n].point, &drawn[n - 1].point);
      if (!again) s->pool[s->pool_count++] = drawn[n], taken++;
    }
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
    tn__space_point liked;
    int count = 0;
    tn__space_liked(space, r, &liked);
    if (r == space->parts_of) {
      add_parts(s, &liked, drawn, share);
      continue;
    }
    for (int64_t i = 0; i < SAMPLES && i < rule->points; i++) {
      tn__space_point p;
      tn__space_at(space, r, rule->points <= SAMPLES ? i : below(s, rule->points), &p);
      add_point(s, &p, -1, drawn, &count);
    }
    add_point(s, &liked, -1, drawn, &count);
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

static void breed(tn__search *s, tn__proposal *const *parents, int parent_count, ranked *list, int *count) {
  for (int i = 0; i < OFFSPRING; i++) {
    int64_t first = below(s, parent_count), second = below(s, parent_count);
    tn__space_point p = parents[first < second ? first : second]->point; /* the better ones more often */
    const tn__space_point *other = &parents[below(s, parent_count)]->point;
    if (other->rule == p.rule && below(s, 3) == 0) tn__space_cross(s->space, &s->random, &p, other);
    int part = tn__space_mutate(s->space, &s->random, &p);
    add_point(s, &p, part, list, count);
  }
}

/* Those that were measured and are points, best first. */
TN_MUST_USE static int best_measured(const tn__search *s, tn__proposal **out, int most) {
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
    if (s->proposals[i]->point.rule >= 0 && tn__space_same(s->space, &s->proposals[i]->point, point)) return true;
  for (int i = 0; i < s->batch_count; i++)
    if (tn__space_same(s->space, &s->batch[i].point, point)) return true;
  return false;
}

/* The first of the list from `from` on that is not proposed: of a rule (-1: any), and of a part (-1: any). */
static int first_of(const tn__search *s, const ranked *list, int count, int from, int rule, int part) {
  while (from < count && ((rule >= 0 && list[from].point.rule != rule) || (part >= 0 && list[from].part != part) ||
                          is_proposed(s, &list[from].point)))
    from++;
  return from;
}

/* The best of the list, which is sorted, that are not proposed. What a rule says is comparable with what another says
 * only when the model has learned by how much each is wrong: until then they take turns. Parts always do, each as often
 * as it takes of the time: the best of all would be those that change next to nothing. */
static void take_best(tn__search *s, const ranked *list, int count) {
  bool turns = s->model == NULL || !tn__model_knows(s->model) || s->error_count < TN__MODEL_LEAST_SAMPLES;
  int next[TN__SPACE_RULES] = {0};
  s->batch_count = s->batch_next = 0;
  for (int turn = 0, idle = 0; s->batch_count < BATCH && idle <= s->space->rule_count; turn++) {
    int rule = turns ? turn % s->space->rule_count : 0;
    int at = first_of(s, list, count, next[rule], turns ? rule : -1, -1);
    next[rule] = at; /* what is before it is proposed, or no candidate in this turn */
    idle = at < count ? 0 : idle + 1;
    if (at == count) continue;
    if (list[at].point.rule == s->space->parts_of) {
      int part = tn__space_pick_part(s->space, &s->random);
      int of_part = first_of(s, list, count, at, s->space->parts_of, part);
      if (of_part < count) at = of_part;
    }
    s->batch[s->batch_count++] = list[at];
  }
}

/* A new generation, and what was drawn at first. */
static tn_status *fill_batch(tn__search *s) {
  tn__proposal *parents[PARENTS];
  if (s->space->rule_count == 0) return NULL;
  if (s->model != NULL) TN_RETURN_IF_ERROR(tn__model_learn(s->model));
  ranked *list = malloc((OFFSPRING + POOL + TN__SPACE_RULES) * sizeof *list);
  if (list == NULL) return no_memory();
  int parent_count = best_measured(s, parents, PARENTS), count = 0;
  if (parent_count > 0) breed(s, parents, parent_count, list, &count);
  memcpy(&list[count], s->pool, (size_t)s->pool_count * sizeof *list);
  count += s->pool_count;
  tn_status *status = rank(s, list, count);
  if (status == NULL) {
    if (count > 0) s->promised = list[0].score + usual_error(s);
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
    p->predicted = exp(r->score + usual_error(s));
    tn_status *status = fill_row(s, r, &p->row, NULL);
    if (status != NULL) {
      free(p->decisions);
      free(p);
      return status;
    }
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
  if (s->space->static_point.rule >= 0) add_point(s, &s->space->static_point, -1, &r, &count);
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

TN_MUST_USE static bool next_point(tn__search *s, ranked *out) {
  bool by_chance = s->kind == TN__SEARCH_RANDOM || below(s, CHANCE) == 0;
  if (by_chance && s->space->rule_count > 0 && draw(s, (int)below(s, s->space->rule_count), out)) {
    return true;
  }
  if (s->kind == TN__SEARCH_RANDOM || s->batch_next >= s->batch_count) return false;
  *out = s->batch[s->batch_next++];
  return true;
}

/* Every second one at first. */
static tn_status *next_seed(tn__search *s, const tn__proposal **out) {
  if (s->count % 2 == 0) return NULL;
  while (*out == NULL && s->seed_next < s->seed_count)
    TN_RETURN_IF_ERROR(propose_point(s, &s->seeds[s->seed_next++], out));
  if (*out != NULL) s->proposals[(*out)->index]->seed = true;
  return NULL;
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
    tn__space_at(s->space, s->next.rule, s->next_index++, &s->next);
    add_point(s, &s->next, -1, &r, &count);
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
  TN_RETURN_IF_ERROR(next_seed(s, out));
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
  tn__model_sample sample = {.row = p->row};
  if (!tn__model_sample_of(s->space, &p->point, median, s->task, &sample)) return NULL;
  s->errors += sample.error;
  s->error_count++;
  return tn__model_add(s->model, &sample);
}

tn_status *tn__search_know(tn__search *s, const char *rule, const char *decisions, const char *trace, double median) {
  const tn__proposal *p;
  tn__space_point point;
  bool is_new;
  if (s->count == 0) TN_RETURN_IF_ERROR(propose_static(s, &p));
  if (strcmp(trace, s->space->static_trace) == 0)
    return isnan(s->proposals[0]->median) ? tn__search_tell(s, 0, median) : NULL;
  TN_RETURN_IF_ERROR(note_trace(s, trace, &is_new));
  if (!is_new || !tn__space_read(s->space, rule, decisions, &point)) return NULL;
  ranked r;
  int count = 0;
  add_point(s, &point, -1, &r, &count);
  if (count == 0) return NULL;
  TN_RETURN_IF_ERROR(add_proposal(s, &r, trace, &p));
  return tn__search_tell(s, p->index, median);
}

/* Where what fits another size cannot be here, one decision as the cost function likes it may make it work. */
static void mend(tn__search *s, tn__space_point *point) {
  tn__space_point liked;
  if (isfinite(tn__space_weigh(s->space, point).cycles) || point->rule == s->space->parts_of) return;
  tn__space_liked(s->space, point->rule, &liked);
  for (int d = 0; d < s->space->rules[point->rule].sketch->decision_count; d++) {
    tn__space_point p = *point;
    p.values[d] = liked.values[d];
    if (!isfinite(tn__space_weigh(s->space, &p).cycles)) continue;
    *point = p;
    return;
  }
}

void tn__search_seed(tn__search *s, const char *rule, const char *decisions) {
  tn__space_point point;
  int count = s->seed_count;
  bool early = s->kind == TN__SEARCH_EVOLUTION && s->count + 1 < 2 * TN__SEARCH_SEEDS;
  if (!early || count == TN__SEARCH_SEEDS || !tn__space_nearest(s->space, rule, decisions, &point)) return;
  mend(s, &point);
  for (int i = 0; i < count; i++)
    if (tn__space_same(s->space, &s->seeds[i].point, &point)) return;
  if (!is_proposed(s, &point) && !tn__space_same(s->space, &s->space->static_point, &point))
    add_point(s, &point, -1, s->seeds, &s->seed_count);
}

int tn__search_seeds(const tn__search *s) { return s->seed_count; }

/* ---- the interface ----------------------------------------------------------------------------------------------- */

tn_status *tn__search_create(tn__space *space, tn__cost_model *model, tn__search_kind kind, uint64_t seed,
                             tn__search **out) {
  *out = NULL;
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__search), 0, &memory));
  tn__search *s = memory;
  *s = (tn__search){.space = space, .model = model, .kind = kind, .random = tn__hash_mix(seed, 7), .promised = NAN};
  if (model != NULL) s->task = tn__model_task(model, tn__model_key_of(space->task));
  s->clock_hz = 1e6 * space->target.cpu.machine.core.megahertz;
  tn_status *status = s->task < 0 ? no_memory() : NULL;
  if (status == NULL && kind == TN__SEARCH_EVOLUTION) status = fill_pool(s);
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
  for (size_t i = 0; i < s->looked_capacity; i++) free(s->looked[i]);
  free(s->looked);
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
