/* The syntax of written schedules, and the table of statements. */
#ifndef TENON_SCHEDULE_WRITTEN_SYNTAX_H
#define TENON_SCHEDULE_WRITTEN_SYNTAX_H

#include "ir/lex.h"
#include "schedule/internal.h"
#include "schedule/written/written.h"

enum {
  TN__WRITTEN_TEXT = 1 << 20, /* bytes of a text */
  TN__WRITTEN_STMTS = 10000,  /* of a text */
  TN__WRITTEN_DEPTH = 64,     /* of conditions and expressions */
  TN__WRITTEN_OPERANDS = 8,   /* of one statement */
  TN__WRITTEN_OPENS = 8,      /* sizes of a block that are chosen */
  TN__WRITTEN_NUMBERS = 3 * TN__MAX_RANK,
  TN__WRITTEN_NAME = 255 /* characters */
};

/* ---- expressions ------------------------------------------------------------------------------------------------- */

typedef enum tn__written_expr_kind {
  TN__WRITTEN_NUMBER,
  TN__WRITTEN_NAME_OF, /* a dimension, a size of `let`, a fact of the target */
  TN__WRITTEN_CALL,    /* at(args): min, max, ceildiv, extent, lanes, known */
  TN__WRITTEN_UNARY,   /* - or ! */
  TN__WRITTEN_BINARY,
  TN__WRITTEN_REST, /* the word rest among the sizes of a split */
  TN__WRITTEN_OPEN  /* ?: chosen; `value` is its number in the block */
} tn__written_expr_kind;

typedef struct tn__written_expr tn__written_expr;
struct tn__written_expr {
  tn__written_expr_kind kind;
  tn__token at;
  int64_t value;              /* NUMBER; UNARY: '-' or '!' */
  const tn__operator_row *op; /* BINARY */
  int arg_count;
  const tn__written_expr *args[2];
};

/* ---- statements -------------------------------------------------------------------------------------------------- */

/* What becomes of the names behind `as`. */
typedef enum tn__written_makes {
  TN__WRITTEN_NOTHING,
  TN__WRITTEN_PARTS, /* the loops of a split */
  TN__WRITTEN_FUSED, /* the one of a fusion */
  TN__WRITTEN_TILES, /* those of a tile: what counts tiles, then what is inside */
  TN__WRITTEN_BLOCK  /* no new loops, but a step for each of the names */
} tn__written_makes;

/* How a primitive is written. The pattern's words are literal, apart from operands, %KIND[SLOT]:
 *   l loop, b block, w a word, t a tensor      the step's name number SLOT
 *   L loops                                    all names
 *   o block [output NUMBER]                    name 0 and number 0
 *   i tensor, or input NUMBER, of the block    number SLOT
 *   n number, s scope, m memory of the device  number SLOT
 *   N numbers                                  numbers from SLOT on
 *   f sizes of a split, p a layout             all numbers */
typedef struct tn__written_row {
  const char *step; /* in traces */
  const char *pattern;
  tn__written_makes makes;
} tn__written_row;

/* Rows that share a first word stand together, those with more words first; ends with a NULL step. */
extern const tn__written_row tn__written_rows[];
extern const char tn__written_words[]; /* first words of statements, for messages */

typedef struct tn__written_operand {
  char kind;
  int slot;
  tn__token at;
  TN__VEC(tn__token) names;
  TN__VEC(const tn__written_expr *) numbers;
  bool exactly; /* f: no size is what is left */
} tn__written_operand;

typedef enum tn__written_stmt_kind {
  TN__WRITTEN_STEP,
  TN__WRITTEN_LET,
  TN__WRITTEN_IF,
  TN__WRITTEN_CHOOSE /* the rest */
} tn__written_stmt_kind;

typedef struct tn__written_stmt tn__written_stmt;
typedef TN__VEC(tn__written_stmt *) tn__written_stmts;

typedef struct tn__written_decision {
  tn__token at;
  const char *name;
  const tn__written_expr *value;
} tn__written_decision;

struct tn__written_stmt {
  tn__written_stmt_kind kind;
  tn__token at;
  const tn__written_row *row; /* STEP */
  tn__written_operand operands[TN__WRITTEN_OPERANDS];
  int operand_count;
  TN__VEC(tn__token) as;                   /* STEP: names of the new loops; LET: the name */
  const tn__written_expr *value;           /* LET, IF */
  tn__written_stmts then, otherwise;       /* IF */
  TN__VEC(tn__written_decision) decisions; /* CHOOSE */
};

struct tn__written_block {
  const tn__written *of;
  tn__token kernel;
  const char *name;           /* of the kernel */
  TN__VEC(tn__token) targets; /* none: any */
  tn__written_stmts stmts;
  int stmt_count; /* with those in conditions */
  int open_count; /* sizes that are chosen */
};

struct tn__written {
  tn__arena *arena;
  const char *name, *text, *end;
  TN__VEC(const tn__written_block *) blocks;
};

/* An error at the place, as a status. */
TN_MUST_USE tn_status *tn__written_error(const tn__written *written, const tn__token *at, const tn_status *error);
/* The name that the token is: a name as it stands, a string's contents. NULL: it is neither, or cannot be a name. */
const char *tn__written_name(tn__arena *arena, const tn__token *t);

/* Applies a step of a trace; NULL: the whole is checked. What is refused changes nothing. */
TN_MUST_USE tn_status *tn__written_try(tn__schedule *s, const char *line);
/* Applies the block's statements to an unscheduled declaration. Throws. */
typedef struct tn__written_result {
  tn__schedule *schedule;
  bool rest;                      /* the rest is chosen ... */
  const tn__written_stmt *choose; /* by this statement */
} tn__written_result;
/* `open`: the sizes that the block leaves open; NULL: it leaves none. */
tn__written_result tn__written_apply(const tn__written_use *use, const tn__plan_unit *unit, const int64_t *open);
/* What the schedule costs beside others of the kernel, in cycles (weigh.c). */
double tn__written_weigh(const tn__plan_unit *unit, tn__schedule *s);
/* Chooses the sizes that the block leaves open: the cheapest by `weigh`, which is given as many as there are, and says
 * INFINITY where they are refused (sizes.c). */
typedef double tn__written_weigher(void *user, const int64_t *open);
void tn__written_choose_sizes(const tn__written_block *block, int stages, tn__written_weigher *weigh, void *user,
                              int64_t *open);
/* The value of a decision of `choose`. */
int64_t tn__written_decide(const tn__written_use *use, const tn__plan_unit *unit, const tn__written_decision *d);

#endif
