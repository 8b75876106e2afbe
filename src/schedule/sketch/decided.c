#include "schedule/sketch/decided.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- decisions --------------------------------------------------------------------------------------------------- */

/* "rows 14" at the beginning of a text, which moves behind it and the comma. */
typedef struct word {
  const char *text, *name; /* all of it; the name */
  size_t length, name_length;
  int64_t value;
  bool good; /* there is a name and a number */
} word;

TN_MUST_USE static bool next_word(const char **at, const char *end, word *out) {
  if (*at >= end) return false;
  const char *comma = memchr(*at, ',', (size_t)(end - *at));
  const char *stop = comma != NULL ? comma : end;
  *out = (word){.text = *at, .name = *at, .length = (size_t)(stop - *at)};
  size_t space = out->length;
  while (space > 0 && (*at)[space] != ' ') space--;
  out->name_length = space;
  char number[32], *rest;
  size_t digits = out->length - space;
  if (space > 0 && digits < sizeof number) {
    memcpy(number, *at + space, digits);
    number[digits] = 0;
    out->value = strtoll(number, &rest, 10);
    out->good = digits > 1 && rest != number && *rest == 0;
  }
  *at = stop;
  while (*at < end && (**at == ',' || **at == ' ')) ++*at;
  return true;
}

static int decision_of(const tn__sketch *k, const word *w) {
  for (int i = 0; i < k->decision_count; i++)
    if (strlen(k->decisions[i].name) == w->name_length && memcmp(k->decisions[i].name, w->name, w->name_length) == 0)
      return i;
  return -1;
}

bool tn__decided_read(const tn__sketch *k, const char *text, size_t length, int64_t *values,
                      char why[TN__DECIDED_WHY]) {
  bool given[TN__MAX_DECISIONS] = {false};
  const char *at = text, *end = text + length;
  for (word w; next_word(&at, end, &w);) {
    int decision = decision_of(k, &w);
    if (decision < 0) {
      snprintf(why, TN__DECIDED_WHY, "rule %s decides on no \"%.*s\"", tn__sketch_name(k),
               (int)(w.name_length < 80 ? w.name_length : 80), w.name);
      return false;
    }
    if (!w.good || given[decision]) {
      snprintf(why, TN__DECIDED_WHY, "\"%.*s\" is no decision, or the second of its name",
               (int)(w.length < 80 ? w.length : 80), w.text);
      return false;
    }
    values[decision] = w.value;
    given[decision] = true;
  }
  for (int i = 0; i < k->decision_count; i++) {
    if (given[i]) continue;
    snprintf(why, TN__DECIDED_WHY, "rule %s decides on %s, and the candidate does not", tn__sketch_name(k),
             k->decisions[i].name);
    return false;
  }
  return true;
}

static double distance(int64_t a, int64_t b) { return fabs(log2(1 + (double)llabs(a)) - log2(1 + (double)llabs(b))); }

int tn__decided_nearest(const tn__sketch *k, const char *text, size_t length, int64_t *values) {
  const char *at = text, *end = text + length;
  int count = 0;
  for (word w; next_word(&at, end, &w);) {
    int decision = decision_of(k, &w);
    if (decision < 0 || !w.good) continue;
    const tn__decision *d = &k->decisions[decision];
    count++;
    if (d->count < 2) continue;
    int best = 0;
    for (int v = 1; v < d->count; v++)
      if (distance(d->choices[v], w.value) < distance(d->choices[best], w.value)) best = v;
    values[decision] = d->choices[best];
  }
  return count;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

bool tn__decided_next(const char **at, tn__decided_part *out) {
  const char *p = *at;
  if (p == NULL || *p != '"') return false;
  *out = (tn__decided_part){.name = p + 1, .name_length = strcspn(p + 1, "\"")};
  p = out->name + out->name_length;
  if (p[0] != '"' || p[1] != ' ') return false;
  out->rule = p + 2;
  out->rule_length = strcspn(out->rule, ":;");
  p = out->rule + out->rule_length;
  if (*p == ':') {
    p++;
    while (*p == ' ') p++;
  }
  out->decisions = p;
  out->decisions_length = strcspn(p, ";");
  p += out->decisions_length;
  while (*p == ';' || *p == ' ') p++;
  *at = p;
  return true;
}

void tn__decided_print(const char *name, const tn__sketch *k, const int64_t *values, tn__strbuf *out) {
  tn__strbuf_printf(out, "%s\"%s\" %s: ", out->length > 0 ? "; " : "", name, tn__sketch_name(k));
  tn__sketch_print(k, values, out);
}

/* ---- the chooser ------------------------------------------------------------------------------------------------- */

static tn__arena *arena_of(const tn__plan_unit *unit) { return tn__ir_arena(tn__te_ir(unit->te)); }

/* That a part cannot be as its sequence wants it says nothing of the sequence; that nobody could want it does. */
_Noreturn static void refuse(const tn__plan_unit *unit, const char *why) {
  if (unit->part == NULL) tn__throwf(arena_of(unit)->escape, TN_INVALID_ARGUMENT, "%s", why);
  tn__throwf(arena_of(unit)->escape, TN_FAILED_PRECONDITION, "part \"%s\": %s", unit->part, why);
}

static void take(const tn__chooser *chooser, const tn__plan_unit *unit, const char *rule, const char *text,
                 size_t length, tn__candidate *out) {
  const char *at = text;
  tn__decided_part part;
  char why[TN__DECIDED_WHY];
  bool of_parts = unit->part == NULL && tn__decided_next(&at, &part);
  out->required = true;
  out->sketch = tn__sketch_named(unit->rules, unit->te, unit->target, &unit->options, rule, chooser);
  if (out->sketch == NULL) {
    snprintf(why, sizeof why, "the rule %.80s does not fit the kernel%s", rule,
             of_parts ? ", or one of its parts cannot be as it is decided" : "");
    refuse(unit, why);
  }
  if (of_parts) /* its parts have been asked for */
    tn__sketch_at(out->sketch, 0, out->values);
  else if (!tn__decided_read(out->sketch, text, length, out->values, why))
    refuse(unit, why);
}

TN_MUST_USE static bool propose_decided(const tn__chooser *chooser, const tn__plan_unit *unit,
                                        const tn__candidate *refused, tn__candidate *out) {
  const tn__decided *d = chooser->data;
  if (unit->part == NULL) {
    take(chooser, unit, d->rule, d->decisions, strlen(d->decisions), out);
    return true;
  }
  const char *at = d->decisions;
  for (tn__decided_part p; tn__decided_next(&at, &p);) {
    if (p.name_length != strlen(unit->part) || memcmp(p.name, unit->part, p.name_length) != 0) continue;
    take(chooser, unit, tn__arena_strndup(arena_of(unit), p.rule, p.rule_length), p.decisions, p.decisions_length, out);
    return true;
  }
  return tn__chooser_static.propose(chooser, unit, refused, out);
}

static void hash_decided(const tn__chooser *chooser, const tn__plan_unit *unit, tn__sha256 *hash) {
  const tn__decided *d = chooser->data;
  (void)unit;
  tn__sha256_update_string(hash, d->rule);
  tn__sha256_update_string(hash, d->decisions);
}

tn__chooser tn__chooser_decided(const tn__decided *decided) {
  return (tn__chooser){.name = "decided", .propose = propose_decided, .hash = hash_decided, .data = decided};
}
