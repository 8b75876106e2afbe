/* Finds placements within memory budgets when the search by predicted time finds none. */
#ifndef TENON_GRAPH_PLACE_FIT_H
#define TENON_GRAPH_PLACE_FIT_H

#include "graph/place/plan.h"

/* Variables are domains with a choice of devices. A choice maps each variable to the rank of a device. */
typedef struct tn__plan_fit {
  tn__plan *plan;
  int devices, count;
  const int *variable; /* by domain; -1: not a variable */
  const double *alone; /* cost by variable and device; INFINITY: not allowed */
  double (*cost)(void *user, const int *choice);
  void *user;
} tn__plan_fit;

/* Leaves a choice that fits the budgets unchanged. Otherwise searches for one that does. With few variables the
 * search is exhaustive; with many it tries all variables on one device, and moves of single variables. */
void tn__plan_fit_choice(const tn__plan_fit *fit, int *choice);

#endif
