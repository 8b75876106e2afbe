#include "tune/search/points.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "schedule/sketch/decided.h"

int64_t tn__space_random(uint64_t *state, int64_t n) {
  *state += 0x9e3779b97f4a7c15u;
  return (int64_t)(((unsigned __int128)tn__hash_mix(*state, 1) * (uint64_t)n) >> 64);
}

static bool has_parts(const tn__space *space, int rule) { return rule >= 0 && rule == space->parts_of; }

static int rule_named(const tn__space_rule *rules, int count, const char *name, size_t length) {
  for (int r = 0; r < count; r++)
    if (strlen(rules[r].name) == length && memcmp(rules[r].name, name, length) == 0) return r;
  return -1;
}

/* ---- settings of parts ------------------------------------------------------------------------------------------- */

static void set_values(const tn__space_part *part, int rule, const int64_t *values, tn__space_setting *out) {
  const tn__sketch *k = part->rules[rule].sketch;
  *out = (tn__space_setting){.rule = (uint8_t)rule};
  for (int d = 0; d < k->decision_count; d++)
    for (int v = 0; v < k->decisions[d].count; v++)
      if (k->decisions[d].choices[v] == values[d]) out->places[d] = (uint8_t)v;
}

void tn__space_part_values(const tn__space_part *part, const tn__space_setting *setting, int64_t *values) {
  const tn__sketch *k = part->rules[setting->rule].sketch;
  for (int d = 0; d < k->decision_count; d++) values[d] = k->decisions[d].choices[setting->places[d]];
}

void tn__space_draw_part(const tn__space *space, int part, uint64_t *random, tn__space_point *point) {
  const tn__space_part *p = &space->parts[part];
  int64_t values[TN__MAX_DECISIONS];
  int rule = (int)tn__space_random(random, p->rule_count);
  tn__sketch_at(p->rules[rule].sketch, tn__space_random(random, p->rules[rule].points), values);
  set_values(p, rule, values, &point->parts[part]);
}

int tn__space_pick_part(const tn__space *space, uint64_t *random) {
  enum { SCALE = 1 << 20, LEAST = 20 /* a part that takes next to nothing has a twentieth of a fair share */ };
  double all = 0, least, at = (double)tn__space_random(random, SCALE) / SCALE;
  for (int i = 0; i < space->part_count; i++) all += space->parts[i].cycles;
  least = all / space->part_count / LEAST;
  at *= all + least * space->part_count;
  for (int i = 0; i < space->part_count; i++) {
    at -= space->parts[i].cycles + least;
    if (at < 0) return i;
  }
  return space->part_count - 1;
}

/* ---- drawing and changing ---------------------------------------------------------------------------------------- */

void tn__space_liked(const tn__space *space, int rule, tn__space_point *out) {
  *out = (tn__space_point){.rule = rule};
  tn__sketch_choose(space->rules[rule].sketch, out->values, NULL);
  for (int i = 0; has_parts(space, rule) && i < space->part_count; i++) out->parts[i] = space->parts[i].chosen;
}

void tn__space_at(const tn__space *space, int rule, int64_t index, tn__space_point *out) {
  *out = (tn__space_point){.rule = rule};
  tn__sketch_at(space->rules[rule].sketch, index, out->values);
  for (int i = 0; has_parts(space, rule) && i < space->part_count; i++) out->parts[i] = space->parts[i].chosen;
}

int tn__space_draw(const tn__space *space, int rule, const tn__space_point *from, uint64_t *random,
                   tn__space_point *out) {
  if (!has_parts(space, rule)) {
    tn__space_at(space, rule, tn__space_random(random, space->rules[rule].points), out);
    return -1;
  }
  if (from == NULL) {
    tn__space_at(space, rule, 0, out);
    for (int i = 0; i < space->part_count; i++) tn__space_draw_part(space, i, random, out);
    return -1;
  }
  *out = *from;
  int part = tn__space_pick_part(space, random);
  tn__space_draw_part(space, part, random, out);
  return part;
}

/* A decision's other place: the next size, or any; `at` is as many as there are where the value is no choice. */
TN_MUST_USE static int other_place(int count, int at, uint64_t *random) {
  bool near = tn__space_random(random, 2) == 0;
  if (near && at < count)
    at += tn__space_random(random, 2) == 0 ? 1 : -1;
  else
    at = (int)tn__space_random(random, count);
  return at;
}

static void mutate_part(const tn__space_part *part, uint64_t *random, tn__space_setting *setting) {
  const tn__sketch *k = part->rules[setting->rule].sketch;
  for (int changes = 1 + (int)tn__space_random(random, 3); changes > 0; changes--) {
    int d = (int)tn__space_random(random, k->decision_count), count = k->decisions[d].count;
    int place = other_place(count, setting->places[d], random);
    if (place >= 0 && place < count) setting->places[d] = (uint8_t)place;
  }
}

int tn__space_mutate(const tn__space *space, uint64_t *random, tn__space_point *p) {
  enum { OTHER_RULE = 8 }; /* one change of a part in so many draws another rule's point, too */
  if (has_parts(space, p->rule)) {
    int part = tn__space_pick_part(space, random);
    if (tn__space_random(random, OTHER_RULE) == 0)
      tn__space_draw_part(space, part, random, p);
    else
      mutate_part(&space->parts[part], random, &p->parts[part]);
    return part;
  }
  const tn__sketch *k = space->rules[p->rule].sketch;
  for (int changes = 1 + (int)tn__space_random(random, 3); changes > 0; changes--) {
    int d = (int)tn__space_random(random, k->decision_count), at = 0;
    const tn__decision *decision = &k->decisions[d];
    while (at < decision->count && decision->choices[at] != p->values[d]) at++;
    at = other_place(decision->count, at, random);
    if (at >= 0 && at < decision->count) p->values[d] = decision->choices[at];
  }
  return -1;
}

void tn__space_cross(const tn__space *space, uint64_t *random, tn__space_point *p, const tn__space_point *other) {
  if (has_parts(space, p->rule)) {
    for (int i = 0; i < space->part_count; i++)
      if (tn__space_random(random, 2) == 0) p->parts[i] = other->parts[i];
    return;
  }
  const tn__sketch *k = space->rules[p->rule].sketch;
  for (int d = 0; d < k->decision_count; d++)
    if (tn__space_random(random, 2) == 0) p->values[d] = other->values[d];
}

bool tn__space_same(const tn__space *space, const tn__space_point *a, const tn__space_point *b) {
  if (a->rule != b->rule) return false;
  for (int d = 0; d < space->rules[a->rule].sketch->decision_count; d++)
    if (a->values[d] != b->values[d]) return false;
  for (int i = 0; has_parts(space, a->rule) && i < space->part_count; i++)
    if (memcmp(&a->parts[i], &b->parts[i], sizeof a->parts[i]) != 0) return false;
  return true;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static bool are_choices(const tn__sketch *k, const int64_t *values) {
  for (int d = 0; d < k->decision_count; d++) {
    int at = 0;
    while (at < k->decisions[d].count && k->decisions[d].choices[at] != values[d]) at++;
    if (at == k->decisions[d].count) return false;
  }
  return true;
}

/* Decisions of a rule's own, or the nearest to them. */
TN_MUST_USE static bool read_values(const tn__sketch *k, const char *text, size_t length, bool nearest,
                                    int64_t *values) {
  char why[TN__DECIDED_WHY];
  if (nearest) return tn__decided_nearest(k, text, length, values) > 0;
  return tn__decided_read(k, text, length, values, why) && are_choices(k, values);
}

TN_MUST_USE static bool read_part(const tn__space_part *part, const tn__decided_part *text, bool nearest,
                                  tn__space_setting *out) {
  int64_t values[TN__MAX_DECISIONS];
  int rule = rule_named(part->rules, part->rule_count, text->rule, text->rule_length);
  if (rule < 0) return false;
  if (rule == part->chosen.rule)
    tn__space_part_values(part, &part->chosen, values);
  else if (nearest) /* of what the text leaves open */
    tn__sketch_choose(part->rules[rule].sketch, values, NULL);
  if (!read_values(part->rules[rule].sketch, text->decisions, text->decisions_length, nearest, values)) return false;
  set_values(part, rule, values, out);
  return true;
}

TN_MUST_USE static bool read_parts(const tn__space *space, const char *text, bool nearest, tn__space_point *out) {
  int count = 0, index = 0;
  for (tn__decided_part p; tn__decided_next(&text, &p); index++)
    for (int i = 0; i < space->part_count; i++) {
      const tn__space_part *part = &space->parts[i];
      bool named = strlen(part->name) == p.name_length && memcmp(part->name, p.name, p.name_length) == 0;
      if (nearest ? i != index : !named) continue;
      if (read_part(part, &p, nearest, &out->parts[i]))
        count++;
      else if (!nearest)
        return false;
    }
  return nearest ? count > 0 : count == space->part_count && *text == 0;
}

TN_MUST_USE static bool read_point(const tn__space *space, const char *rule, const char *decisions, bool nearest,
                                   tn__space_point *out) {
  int index = rule != NULL ? rule_named(space->rules, space->rule_count, rule, strlen(rule)) : -1;
  *out = (tn__space_point){.rule = -1};
  if (index < 0 || decisions == NULL) return false;
  if (nearest || has_parts(space, index))
    tn__space_liked(space, index, out);
  else
    out->rule = index;
  if (has_parts(space, index)) return read_parts(space, decisions, nearest, out);
  return read_values(space->rules[index].sketch, decisions, strlen(decisions), nearest, out->values);
}

bool tn__space_read(const tn__space *space, const char *rule, const char *decisions, tn__space_point *out) {
  return read_point(space, rule, decisions, false, out);
}

bool tn__space_nearest(const tn__space *space, const char *rule, const char *decisions, tn__space_point *out) {
  return read_point(space, rule, decisions, true, out);
}

char *tn__space_decisions(const tn__space *space, const tn__space_point *point) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  if (has_parts(space, point->rule))
    for (int i = 0; i < space->part_count; i++) {
      const tn__space_part *part = &space->parts[i];
      int64_t values[TN__MAX_DECISIONS];
      tn__space_part_values(part, &point->parts[i], values);
      tn__decided_print(part->name, part->rules[point->parts[i].rule].sketch, values, &text);
    }
  else
    tn__sketch_print(space->rules[point->rule].sketch, point->values, &text);
  char *copy = strdup(tn__strbuf_text(&text));
  tn__strbuf_release(&text);
  return copy;
}
