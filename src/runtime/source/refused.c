/* What a compiler says of a text that it refuses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/source/source.h"

enum { MOST_LOG = 3000 /* bytes of the compiler's words that are told */ };

/* A place in a log: "FILE:LINE:COLUMN: error: WORDS", as compilers of Clang's family write it, or without a column;
 * "FILE(LINE): error: WORDS" is NVIDIA's way. */
typedef struct place {
  long line;
  const char *words; /* up to the end of its line */
  int length;
} place;

TN_MUST_USE static bool read_place(const char *line, size_t length, place *out) {
  const char *end = line + length, *error = memmem(line, length, "error", 5);
  if (error == NULL) return false;
  for (const char *at = line; at < end; at++) {
    char *stop;
    if ((*at != ':' && *at != '(') || at + 1 >= end || at[1] < '0' || at[1] > '9') continue;
    out->line = strtol(at + 1, &stop, 10);
    if (*stop != (*at == ':' ? ':' : ')') || out->line < 1) continue;
    const char *words = error < stop ? stop : error; /* PoCL says "error: FILE:LINE:COLUMN: WORDS" */
    while (words < end && (*words == ':' || *words == ')' || *words == ' ' || (*words >= '0' && *words <= '9')))
      words++;
    out->words = words;
    out->length = (int)(end - words);
    return true;
  }
  return false;
}

TN_MUST_USE static bool find_place(const char *log, place *out) {
  for (const char *line = log; *line != '\0';) {
    size_t length = strcspn(line, "\n");
    if (read_place(line, length, out)) return true;
    line += length + (line[length] == '\n');
  }
  return false;
}

/* The line with the number, counted from 1; NULL: the text is shorter. */
static const char *line_of(const char *text, long number, int *length) {
  for (long i = 1; i < number && text != NULL; i++) {
    text = strchr(text, '\n');
    if (text != NULL) text++;
  }
  if (text != NULL) *length = (int)strcspn(text, "\n");
  return text;
}

tn_status *tn__source_refused(const char *text, const char *log) {
  place found;
  int length = 0;
  const char *line = find_place(log, &found) ? line_of(text, found.line, &length) : NULL;
  size_t log_length = strlen(log), shown = log_length < MOST_LOG ? log_length : MOST_LOG;
  const char *more = shown < log_length ? "\n..." : "";
  if (line == NULL)
    return tn_status_create(TN_INTERNAL,
                            "the device's compiler refuses the program's kernels (please report it); it says:\n%.*s%s",
                            (int)shown, log, more);
  return tn_status_create(TN_INTERNAL,
                          "the device's compiler refuses the program's kernels (please report it), in line %ld: %.*s\n"
                          "  %.*s\nit says:\n%.*s%s",
                          found.line, found.length, found.words, length, line, (int)shown, log, more);
}
