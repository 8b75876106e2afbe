/* Tokens of the text form, and errors with their place. */
#ifndef TENON_IR_LEX_H
#define TENON_IR_LEX_H

#include <locale.h>

#include "ir/errors.h"
#include "ir/text.h"

typedef enum tn__token_kind {
  TN__TOKEN_NAME,
  TN__TOKEN_NUMBER,
  TN__TOKEN_STRING,
  TN__TOKEN_SIGN,
  TN__TOKEN_END
} tn__token_kind;

typedef struct tn__token {
  tn__token_kind kind;
  const char *text;
  size_t length;
  int line, column;
} tn__token;

typedef struct tn__lexer {
  tn__ir *ir;
  const char *name; /* of the file, for messages */
  const char *text, *at, *end, *line_start;
  int line;
  locale_t locale;    /* C: numbers are written with a point everywhere */
  tn__token token;    /* the next one, not yet taken */
  tn__errors *errors; /* of the text, or NULL: the first one is thrown */
  bool lenient;       /* bytes that begin no token are tokens: they are passed over */
} tn__lexer;

/* Runs `body`, which reads the text called `name` with the C locale and throws into the arena; what it throws is the
 * result. The arena's escape is what it was before. */
TN_MUST_USE tn_status *tn__lexer_read(tn__arena *arena, const char *name, void (*body)(locale_t locale, void *user),
                                      void *user);
/* Before the first token; tn__lexer_advance or tn__lexer_init reads it. */
void tn__lexer_open(tn__lexer *lex, tn__ir *ir, const char *name, const char *text, size_t length, locale_t locale);
void tn__lexer_init(tn__lexer *lex, tn__ir *ir, const char *name, const char *text, size_t length, locale_t locale);
void tn__lexer_advance(tn__lexer *lex);
/* Is the next token this sign or word? */
bool tn__lexer_is(const tn__lexer *lex, const char *text);
bool tn__lexer_take(tn__lexer *lex, const char *text); /* the same, and takes it */
/* Takes it or throws "expected TEXT WHERE, not ...". */
void tn__lexer_expect(tn__lexer *lex, const char *text, const char *where);
/* Takes a name that may be given to something; "expected a name for WHAT". */
tn__token tn__lexer_name(tn__lexer *lex, const char *what);
/* Is the next token the first one on its line? */
bool tn__lexer_begins_line(const tn__lexer *lex);
/* The status as an error at the token, with the line (ir/errors.h). Takes ownership of `status`. */
TN_MUST_USE tn_status *tn__lexer_place(const tn__lexer *lex, const tn__token *at, tn_status *status);
/* Throws TN_INVALID_ARGUMENT "file:line:column: error: ..." with the line (ir/errors.h). */
_Noreturn void tn__lexer_fail(const tn__lexer *lex, const tn__token *at, const char *format, ...) TN_PRINTF(3, 4);

/* The value of a number token, `negative` or not: an i64 or f64 unless it says otherwise. */
const tn__expr *tn__lexer_number(tn__lexer *lex, const tn__token *number, bool negative);
/* The contents of a string token. */
char *tn__lexer_string(tn__lexer *lex, const tn__token *string);

#endif
