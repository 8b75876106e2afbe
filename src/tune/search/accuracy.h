/* How well times were predicted. */
#ifndef TENON_TUNE_SEARCH_ACCURACY_H
#define TENON_TUNE_SEARCH_ACCURACY_H

#include "tenon/base.h"

enum { TN__ACCURACY_LEAST = 8 /* candidates, below which nothing is said of their order */ };

typedef struct tn__accuracy {
  int count;          /* candidates that were predicted and measured */
  double correlation; /* Spearman's, of ranks: 1: the same order; NAN: too few, or all are equal */
  int top;            /* a tenth of them, at least 4; 0: too few */
  double recall;      /* share of the fastest `top` that are among the `top` predicted fastest; NAN: too few */
  double error;       /* the median of predicted over measured or the inverse, at least 1; NAN: none */
} tn__accuracy;

/* Of seconds, or of anything that has their order. Pairs with a number that is not above 0 and finite are left out. */
TN_MUST_USE tn_status *tn__accuracy_of(const double *predicted, const double *measured, int count, tn__accuracy *out);

#endif
