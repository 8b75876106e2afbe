/* The table of templates (sketch.h): by the structure of a declaration the rule that fits and what it found. */
#ifndef TENON_SCHEDULE_TEMPLATES_H
#define TENON_SCHEDULE_TEMPLATES_H

#include "base/hash.h"
#include "schedule/sketch.h"

typedef struct tn__template {
  int rule; /* its place in the table of rules */
  int facts[4];
} tn__template;

/* Equal for declarations that differ in the sizes of their axes only (and for few others). */
tn__digest tn__structure_of(const tn__te *te);
bool tn__templates_find(tn__templates *t, const tn__digest *key, tn__template *out);
void tn__templates_add(tn__templates *t, const tn__digest *key, const tn__template *entry);

#endif
