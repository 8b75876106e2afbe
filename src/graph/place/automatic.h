/* Placement by predicted time: `--place auto`. */
#ifndef TENON_GRAPH_PLACE_AUTOMATIC_H
#define TENON_GRAPH_PLACE_AUTOMATIC_H

#include "graph/place/cost.h"
#include "graph/place/plan.h"

/* Settles free domains where all of the program is predicted to take least, within budgets of memory as far as they go.
 * What is settled stays. Takes time in proportion to values and edges. */
void tn__plan_choose(tn__plan *plan);

#endif
