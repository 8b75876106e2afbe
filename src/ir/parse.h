/* The parser's state, shared by its expression and statement halves. */
#ifndef TENON_IR_PARSE_H
#define TENON_IR_PARSE_H

#include "ir/lex.h"

typedef enum tn__parse_use { TN__PARSE_ANY, TN__PARSE_READ_ONLY, TN__PARSE_NOT_LISTED } tn__parse_use;

typedef struct tn__parse_name {
  const char *text; /* in the source */
  size_t length;
  const tn__var *var; /* one of the three */
  const tn__buffer *buffer;
  const tn__expr *expr;
  tn__parse_use use; /* of a buffer */
} tn__parse_name;

typedef struct tn__parser {
  tn__lexer lex;
  tn__ir *ir;
  tn__arena *arena;
  TN__VEC(tn__parse_name) names; /* what is visible, innermost last */
  int nesting;
  /* What a name means that is not among `names`, or NULL when nothing is called so. May be NULL itself. */
  const tn__expr *(*outside)(void *user, const tn__token *name);
  void *user;
} tn__parser;

enum { TN__PARSE_MAX_NESTING = 200, TN__PARSE_MAX_DEPTH = 1000, TN__PARSE_MAX_RANK = 64, TN__PARSE_MAX_LIST = 4096 };

void tn__ir_parse_enter(tn__parser *p); /* one level deeper: throws when that is too deep */
const tn__parse_name *tn__ir_parse_find(const tn__parser *p, const tn__token *name);
const tn__buffer *tn__ir_parse_buffer(tn__parser *p);  /* a name that must be a buffer's */
const tn__buffer *tn__ir_parse_written(tn__parser *p); /* and of one that may be written */
const tn__expr *tn__ir_parse_expr(tn__parser *p);
const tn__expr *tn__ir_parse_index(tn__parser *p, const char *what);     /* an i64 */
const tn__expr *tn__ir_parse_condition(tn__parser *p, const char *what); /* a bool */
/* in [min, +extent), where ? is what is not known: NULL */
void tn__ir_parse_range(tn__parser *p, const tn__expr **min, const tn__expr **extent);
/* Statements up to and with '}', which is missed `where`. Those that are not understood are left out, and their errors
 * are among those of the lexer, which must keep them. */
const tn__stmt *tn__ir_parse_items(tn__parser *p, const char *where);
/* [ index, index, ... ] for each dimension of `buffer`. */
const tn__expr *const *tn__ir_parse_indices(tn__parser *p, const tn__buffer *buffer, const tn__token *at);

#endif
