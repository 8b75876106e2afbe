#include "ir/errors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/escape.h"
#include "base/strbuf.h"
#include "base/utf8.h"

enum { BEFORE = 60, SHOWN = 100 }; /* characters of a line: before the place, and altogether */

/* ---- one error --------------------------------------------------------------------------------------------------- */

/* One character: blanks as one, so that the mark stands where it should, and what no terminal should get as '?'. */
static void put_character(tn__strbuf *out, const char *from, const char *to, uint32_t code) {
  if (code == '\t')
    tn__strbuf_char(out, ' ');
  else if (code == TN__NOT_UTF8 || code < 0x20 || (code >= 0x7f && code < 0xa0))
    tn__strbuf_char(out, '?');
  else
    tn__strbuf_append_n(out, from, (size_t)(to - from));
}

/* The line of the place, or what is near to it of a long one, and the mark. */
static void put_line(tn__strbuf *out, const char *text, const char *end, const tn__place *place) {
  const char *start = place->at, *shown, *at;
  int before = 0, count = 0;
  while (start > text && start[-1] != '\n' && place->at - start < BEFORE) start--;
  while (start < place->at && ((unsigned char)*start & 0xc0) == 0x80) start++; /* not inside of a character */
  bool cut = start > text && start[-1] != '\n';
  tn__strbuf_printf(out, "\n%5d | %s", place->line, cut ? "..." : "");
  for (at = start; at < end && *at != '\n' && *at != '\r' && count < SHOWN; count++) {
    shown = at;
    uint32_t code = tn__utf8_next(&at, end);
    before += shown < place->at;
    put_character(out, shown, at, code);
  }
  if (at < end && *at != '\n' && *at != '\r') tn__strbuf_append(out, "...");
  tn__strbuf_printf(out, "\n      | %*s^", before + (cut ? 3 : 0), "");
}

static void put_error(tn__strbuf *out, const char *name, const char *text, const char *end, const tn__place *place,
                      const char *message) {
  tn__strbuf_printf(out, "%s:%d:%d: error: %s", name, place->line, place->column, message);
  if (place->at >= text && place->at <= end) put_line(out, text, end, place);
}

static tn_status *status_of(tn_status_code code, tn__strbuf *text) {
  tn_status *status = tn__strbuf_status(text);
  if (status == NULL) status = tn_status_create(code, "%s", tn__strbuf_text(text));
  tn__strbuf_release(text);
  return status;
}

tn_status *tn__error_status(const char *name, const char *text, const char *end, const tn__place *place,
                            const tn_status *error) {
  tn__strbuf out;
  tn__strbuf_init(&out, NULL);
  put_error(&out, name, text, end, place, tn_status_message(error));
  return status_of(tn_status_code_of(error), &out);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static int index_of(const tn__errors *errors, const char *at) {
  for (int i = 0; i < errors->more.count; i++)
    if (at >= errors->more.data[i].text && at <= errors->more.data[i].end) return i + 1;
  return 0;
}

static tn__errors_file file_at(const tn__errors *errors, int index) {
  return index > 0 ? errors->more.data[index - 1] : (tn__errors_file){errors->name, errors->text, errors->end};
}

tn__errors_file tn__errors_file_of(const tn__errors *errors, const char *at) {
  return file_at(errors, index_of(errors, at));
}

void tn__errors_add(tn__errors *errors, tn__arena *thrower, const tn__place *place, const char *message) {
  int file = index_of(errors, place->at);
  for (int i = 0; i < errors->list.count; i++)
    if (errors->list.data[i].file == file && errors->list.data[i].place.line == place->line &&
        errors->list.data[i].place.column == place->column)
      return;
  errors->full = errors->list.count == TN__MOST_ERRORS;
  if (errors->full) return;
  errors->arena->escape = thrower->escape;
  tn__error error = {.place = *place, .file = file, .message = tn__arena_strdup(errors->arena, message)};
  tn__vec_push(errors->arena, &errors->list, error);
}

void tn__errors_throw(tn__errors *errors, tn__arena *thrower, const tn__place *place, tn_status *status) {
  if (tn_status_code_of(status) != TN_OUT_OF_MEMORY) {
    char message[1024]; /* names are bounded, and so is what is shown of expressions */
    snprintf(message, sizeof(message), "%s", tn_status_message(status));
    tn_status_free(status);
    tn__errors_add(errors, thrower, place, message);
    tn__errors_follow(errors, thrower);
  }
  tn__throw(thrower->escape, status);
}

void tn__errors_follow(tn__errors *errors, tn__arena *thrower) {
  errors->pending = true;
  tn__throwf(thrower->escape, TN_INVALID_ARGUMENT, "%s: this follows from another error", errors->name);
}

typedef struct attempt {
  tn__arena *thrower;
  void (*part)(void *user);
  void *user;
} attempt;

static void run(tn__escape *escape, void *arg) {
  attempt *a = arg;
  a->thrower->escape = escape;
  a->part(a->user);
}

bool tn__errors_attempt(tn__errors *errors, tn__arena *thrower, void (*part)(void *user), void *user) {
  attempt a = {thrower, part, user};
  tn__escape escape, *outer = thrower->escape;
  tn_status *status = tn__protect(&escape, run, &a);
  thrower->escape = outer;
  if (status == NULL) return true;
  if (!errors->pending || errors->full) tn__throw(outer, status);
  errors->pending = false;
  tn_status_free(status);
  return false;
}

static int by_place(const void *a, const void *b) {
  const tn__place *x = &((const tn__error *)a)->place, *y = &((const tn__error *)b)->place;
  int first = ((const tn__error *)a)->file, second = ((const tn__error *)b)->file;
  if (first != second) return first < second ? -1 : 1;
  if (x->line != y->line) return x->line < y->line ? -1 : 1;
  return (x->column > y->column) - (x->column < y->column);
}

tn_status *tn__errors_status(tn__errors *errors, tn_status *status) {
  bool known = status == NULL || errors->pending;
  errors->pending = false;
  if (!known || errors->list.count == 0) return status;
  tn_status_free(status);
  tn__strbuf out;
  tn__strbuf_init(&out, NULL);
  tn__sort(errors->list.data, (size_t)errors->list.count, sizeof(tn__error), by_place);
  for (int i = 0; i < errors->list.count; i++) {
    if (i > 0) tn__strbuf_char(&out, '\n');
    tn__errors_file file = file_at(errors, errors->list.data[i].file);
    put_error(&out, file.name, file.text, file.end, &errors->list.data[i].place, errors->list.data[i].message);
  }
  if (errors->full) tn__strbuf_printf(&out, "\n%s: more errors follow; these are %d", errors->name, TN__MOST_ERRORS);
  return status_of(TN_INVALID_ARGUMENT, &out);
}
