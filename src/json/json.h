/* A strict reader of JSON (RFC 8259), into an arena. */
#ifndef TENON_JSON_JSON_H
#define TENON_JSON_JSON_H

#include "base/arena.h"

typedef enum tn__json_kind {
  TN__JSON_NULL,
  TN__JSON_BOOL,
  TN__JSON_NUMBER,
  TN__JSON_TEXT,
  TN__JSON_LIST,
  TN__JSON_OBJECT
} tn__json_kind;

typedef struct tn__json tn__json;
struct tn__json {
  tn__json_kind kind;
  const char *key;  /* of an object's member */
  const char *text; /* decoded; of a number as it was written */
  double number;
  bool truth;
  bool used;              /* somebody asked for it: what nobody did is unknown */
  int line;               /* where it begins, from 1 on */
  tn__json *first, *next; /* members or elements in their order */
};

/* The value that is all of the line. Throws TN_INVALID_ARGUMENT with the column. Refused are names that come twice in
 * an object, texts that are not UTF-8 or hold a NUL, numbers that no f64 holds, and more than 8 levels. */
TN_NEVER_NULL tn__json *tn__json_read(tn__arena *arena, const char *line, size_t length);
/* The same of a text of several lines; the place is "line 2, column 7". */
TN_NEVER_NULL tn__json *tn__json_read_text(tn__arena *arena, const char *text, size_t length);
tn__json *tn__json_member(const tn__json *object, const char *key); /* NULL: there is none; or else it is used */
const char *tn__json_kind_name(tn__json_kind kind);                 /* "a text", "a number" */

#endif
