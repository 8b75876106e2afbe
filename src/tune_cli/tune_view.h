/* What `tenon tune` shows: while it works, and in the end. */
#ifndef TENON_TUNE_CLI_TUNE_VIEW_H
#define TENON_TUNE_CLI_TUNE_VIEW_H

#include <stdio.h>

#include "tenon/tune.h"

typedef struct tune_view {
  bool quiet, terminal;
  int lines;         /* on the terminal, to be written over */
  double last_shown; /* of lines, where there is no terminal */
  bool told_seeds;
  char said[160];
} tune_view;

void tune_view_begin(tune_view *view, bool quiet);
/* On a terminal a table of the tasks that matter most, anew each time; else a line every ten seconds. On stderr. */
void tune_view_show(tune_view *view, const tn_tuner *tuner);
void tune_view_say(tune_view *view, const char *text); /* below the table */
void tune_view_end(tune_view *view);

/* A line for each task, all together, and failures by their kind with the first text of each. */
void tune_print_result(const tn_tuner *tuner, FILE *out);
#endif
