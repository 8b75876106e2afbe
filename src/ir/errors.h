/* Errors of a text, each with its place, the line where it is and a mark under it:
 *
 *   gemm.te:3:14: error: there is no tensor C here
 *     3 |   C[i] = C[i] + 1
 *       |          ^
 *
 * A reader that goes on after an error collects them: it runs each part of the text with tn__errors_attempt, and gives
 * all of them together, in the order of the text, as one status. */
#ifndef TENON_IR_ERRORS_H
#define TENON_IR_ERRORS_H

#include "base/arena.h"

typedef struct tn__place {
  const char *at; /* in the text */
  int line, column;
} tn__place;

typedef struct tn__error {
  tn__place place;
  int file; /* of the places' texts: 0 for the first one, i + 1 for more.data[i] */
  const char *message;
} tn__error;

typedef struct tn__errors_file {
  const char *name, *text, *end;
} tn__errors_file;

typedef struct tn__errors {
  tn__arena *arena;
  const char *name, *text, *end; /* of the file, and all of its text */
  TN__VEC(tn__errors_file) more; /* files that it imports: a place is in the one whose text it points into */
  bool pending;                  /* what is being thrown is known here: whoever catches it may go on */
  bool full;                     /* there are more than the list holds: whoever catches one does not go on */
  TN__VEC(tn__error) list;       /* at most TN__MOST_ERRORS, one for a place */
} tn__errors;

enum { TN__MOST_ERRORS = 20 };

/* One error as a status, with the code and the words of `error`. */
TN_MUST_USE tn_status *tn__error_status(const char *name, const char *text, const char *end, const tn__place *place,
                                        const tn_status *error);

/* The file of a place. */
tn__errors_file tn__errors_file_of(const tn__errors *errors, const char *at);

/* Keeps the error; of two at one place the first. `thrower` is where a lack of memory is thrown. */
void tn__errors_add(tn__errors *errors, tn__arena *thrower, const tn__place *place, const char *message);
/* Keeps the error and leaves the part; takes ownership of `status`, whose message is that of the error. */
_Noreturn void tn__errors_throw(tn__errors *errors, tn__arena *thrower, const tn__place *place, tn_status *status);
/* Leaves the part because of an error that was kept before. */
_Noreturn void tn__errors_follow(tn__errors *errors, tn__arena *thrower);

/* Runs `part`. False when it threw an error that was kept; what else it throws is thrown on, and so are errors that are
 * one too many. */
bool tn__errors_attempt(tn__errors *errors, tn__arena *thrower, void (*part)(void *user), void *user);

/* What a reader returns that ended with `status`: all errors that were kept, if there are any, unless it ended because
 * of something else. Takes ownership of `status`. */
TN_MUST_USE tn_status *tn__errors_status(tn__errors *errors, tn_status *status);

#endif
