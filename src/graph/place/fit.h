/* Placements that keep to budgets of memory, where the search by predicted time finds none. */
#ifndef TENON_GRAPH_PLACE_FIT_H
#define TENON_GRAPH_PLACE_FIT_H

#include "graph/place/plan.h"

/* Variables are domains that may be on several devices; a choice has the rank of a device for each of them. */
typedef struct tn__plan_fit {
  tn__plan *plan;
  int devices, count;
  const int *variable; /* by domain; -1: it is none */
  const double *alone; /* by variable and device: INFINITY where it may not be */
  double (*cost)(void *user, const int *choice);
  void *user;
} tn__plan_fit;

/* Keeps a choice that fits. Else replaces it by one that does, when it finds one: of few variables whenever there is
 * one, of many when all on one device fit or moves of single variables lead there. */
void tn__plan_fit_choice(const tn__plan_fit *fit, int *choice);

#endif
