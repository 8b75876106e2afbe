/* `tenon tune --variants`: what the graphs of models decide, measured before their kernels are tuned. */
#ifndef TENON_TUNE_CLI_TUNE_SITES_H
#define TENON_TUNE_CLI_TUNE_SITES_H

#include "base/strbuf.h"
#include "tenon/compile.h"

typedef struct tune_sites {
  const tn_compile_options *options;
  const char *database; /* NULL: the usual one */
  double most_seconds;  /* 0: no limit */
  bool quiet;
} tune_sites;

/* Measures the sites of a model and prints what is taken; adds lines for a file of tuned schedules to `out`. */
TN_MUST_USE tn_status *tune_sites_decide(const tune_sites *words, const char *path, tn__strbuf *out);

#endif
