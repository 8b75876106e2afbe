/* The syntax of .te text (docs/te-language.md) as the reader leaves it: names and numbers are tokens still, types and
 * extents are found when a kernel is declared (declare.c). */
#ifndef TENON_TE_SYNTAX_H
#define TENON_TE_SYNTAX_H

#include "ir/lex.h"
#include "te/te.h"
#include "te/text.h"

typedef enum tn__syn_kind {
  TN__SYN_NUMBER,  /* `at` is the literal, perhaps negated; inf and nan are names */
  TN__SYN_NAME,    /* `at` */
  TN__SYN_ACCESS,  /* at[args...] */
  TN__SYN_NEGATE,  /* -args[0] */
  TN__SYN_NOT,     /* !args[0] */
  TN__SYN_BINARY,  /* args[0] op args[1], but no comparison */
  TN__SYN_COMPARE, /* args[0] ops[0] args[1] ops[1] args[2] ...: all of them hold */
  TN__SYN_CALL,    /* at[dims...](args...): an operation, a function or a kernel */
  TN__SYN_CAST,    /* dtype(args[0]); also bitcast(dtype, args[0]) */
  /* at(axes...) args[0], a tuple when it has several values; args[1]: a tuple of the places that these go into; and
   * args[2]: what elements start from */
  TN__SYN_REDUCE,
  TN__SYN_TUPLE, /* (args, args, ...) */
  TN__SYN_LET,   /* args[0] is called axes[0].name in args[1]; `dtype`: its type, if stated */
  /* let targets[axes] = args[0] in args[1]: tensors that a step of a scan computes for itself */
  TN__SYN_STEP,
  TN__SYN_SCAN /* scan(axes[0].name, depth) args[0] then args[1] */
} tn__syn_kind;

typedef struct tn__syn tn__syn;

typedef struct tn__syn_axis {
  tn__token name;
  const tn__syn *extent; /* NULL: found from use */
  const tn__syn *end;    /* of a reduction over extent .. end; NULL: from 0 to the extent */
  bool open;             /* ?: of a tensor, as far as it is read */
} tn__syn_axis;

struct tn__syn {
  tn__syn_kind kind;
  tn__token at;
  bool negative, bits; /* NUMBER: behind a minus sign, SCAN: backwards; CAST: keeps the bits */
  tn_dtype dtype;      /* CAST, LET */
  int depth;           /* of the tree */
  int64_t scan_depth;  /* SCAN */
  int arg_count, axis_count;
  const tn__syn *const *args;
  const tn__operator_row *op; /* BINARY */
  const tn__operator_row *const *ops;
  const tn__syn_axis *axes; /* REDUCE, SCAN, LET, STEP; CALL: dimensions by name */
  int target_count;
  const struct tn__syn_param *targets; /* STEP */
};

typedef struct tn__syn_param { /* NAME: type[shape], also of combiners (rank 0) and of the targets of statements */
  tn__token name;
  tn_dtype dtype; /* TN_DTYPE_INVALID: not stated */
  int rank;
  const tn__syn *const *shape;
  const tn__syn *const *strides; /* of a kernel's parameter, `rank` of them; NULL: it is dense */
  tn__token over;                /* of an output: the input whose memory it takes; text NULL: none */
} tn__syn_param;

typedef struct tn__syn_combiner {
  tn__token name;
  int count; /* values */
  tn__syn_param params[8];
  const tn__syn *result, *identity; /* tuples when count > 1 */
  bool in_order;
} tn__syn_combiner;

typedef enum tn__syn_stmt_kind {
  TN__SYN_DEFINE,
  TN__SYN_EXTERN,
  TN__SYN_NAMED, /* let: its one target is the name of a value */
  TN__SYN_BROKEN /* not understood; has the targets that were read */
} tn__syn_stmt_kind;

typedef struct tn__syn_stmt {
  tn__syn_stmt_kind kind;
  tn__token at;
  int target_count;
  tn__syn_param targets[4]; /* DEFINE: no shape; EXTERN: with it */
  tn__te_hint hint;         /* DEFINE */
  bool has_axes;            /* the targets have brackets */
  int axis_count;
  const tn__syn_axis *axes;
  const tn__syn *value;
  tn__token extern_name; /* EXTERN */
  int read_count;
  const tn__token *reads;
  tn__lexer body; /* just behind the brace */
} tn__syn_stmt;

typedef struct tn__syn_dim {
  tn__token name;
  int64_t min;
  bool in_strides, elsewhere; /* strides name it; shapes or statements do */
} tn__syn_dim;

typedef struct tn__syn_kernel {
  tn__token name;
  TN__VEC(tn__syn_dim) dims; /* listed, then those that shapes introduce */
  bool lists_dims;
  bool allows_empty; /* extents may be the number 0 */
  bool unchecked;    /* indices stay as they are */
  TN__VEC(tn__syn_param) inputs;
  TN__VEC(tn__syn_param) outputs;
  TN__VEC(tn__syn_combiner) combiners;
  TN__VEC(tn__syn_stmt) stmts;
} tn__syn_kernel;

typedef struct tn__syn_const {
  tn__token name;
  tn_dtype dtype; /* TN_DTYPE_INVALID: that of its neighbours */
  const tn__syn *value;
} tn__syn_const;

typedef struct tn__syn_function {
  tn__token name;
  int param_count;
  tn__token params[8];
  const tn__syn *value;
} tn__syn_function;

/* "schedule for NAME { ... }": what is in it is for those who schedule (schedule/written). */
typedef struct tn__syn_schedule {
  tn__token at, kernel;
  const char *end; /* just behind the brace */
} tn__syn_schedule;

typedef struct tn__syn_file {
  const char *path;
  bool open; /* it is being read */
} tn__syn_file;

enum { TN__TE_MOST_TEXT = 4 << 20 }; /* bytes, of all files together */

struct tn__te_source {
  tn__arena *arena;
  const char *name;
  tn__errors *errors;        /* found so far */
  TN__VEC(tn__token) broken; /* names of constants, combiners, functions and kernels that were not understood */
  TN__VEC(tn__syn_const) consts;
  TN__VEC(tn__syn_combiner) combiners;
  TN__VEC(tn__syn_function) functions;
  TN__VEC(tn__syn_kernel) kernels;
  TN__VEC(tn__syn_kernel) imported; /* those of other files: they may be called */
  TN__VEC(tn__syn_schedule) schedules;
  TN__VEC(tn__syn_file) files; /* none: the text stands in no file */
  const char *folder;          /* that the text stands in; NULL: that of its file */
  int depth;                   /* of files that are being read */
  size_t bytes;                /* of all files */
  bool incomplete;             /* a file could not be imported */
  bool *failed;                /* by kernel: its declaration had an error, so calls of it are not looked at */
};

static inline bool tn__te_token_same(const tn__token *a, const tn__token *b) {
  return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}
bool tn__te_token_is(const tn__token *t, const char *text);

/* The reader's state. */
typedef struct tn__syn_parser {
  tn__lexer lex;
  tn__arena *arena;
  int nesting;
  TN__VEC(tn__token) combiners; /* those declared so far: "name(k) ..." reduces */
} tn__syn_parser;

/* import.c */
typedef struct tn__syn_import {
  const char *path, *text;
  size_t length;
  int index; /* of the file */
} tn__syn_import;
/* Behind the word import: opens the file, whose text is to be read next. False: it was read before. */
TN_MUST_USE bool tn__te_import_begin(tn__syn_parser *p, tn__te_source *source, tn__syn_import *out);
void tn__te_import_end(tn__te_source *source, const tn__syn_import *import);
void tn__te_enter_file(tn__te_source *source, const char *path, size_t length);
TN_MUST_USE tn_status *tn__te_file_text(tn__arena *arena, const char *path, const char **text, size_t *length);

/* syntax_expr.c */
const tn__syn *tn__syn_expr(tn__syn_parser *p);
/* axis { "," axis } ")": names with extents or without. */
void tn__syn_axes(tn__syn_parser *p, const char *close, const char *what, const tn__syn_axis **out, int *count);
tn_dtype tn__syn_dtype(tn__syn_parser *p);
const tn__syn *tn__syn_scan(tn__syn_parser *p);
/* The named combiners that the language brings along. */
bool tn__syn_is_reducer(const tn__token *name);
/* The one at `index`, or NULL behind the last. */
const char *tn__syn_reducer(int index);
/* Is the next token this word, with another name behind it? Then it is no name itself. */
bool tn__syn_word_comes(const tn__syn_parser *p, const char *word);
/* Does a kernel, a function or a constant begin here? Only at the start of a line: the words may be names elsewhere. */
bool tn__syn_item_comes(const tn__syn_parser *p);
bool tn__syn_import_comes(const tn__syn_parser *p); /* the word, and a string */
/* let name [ ":" type ] "=" value; the type is TN_DTYPE_INVALID when it is not stated. */
const tn__syn *tn__syn_let(tn__syn_parser *p, tn__token *name, tn_dtype *dtype);
/* Does a statement begin here: names with axes, and "="? */
bool tn__syn_stmt_comes(const tn__syn_parser *p);
/* Shape of a tensor: [expr, ...]. */
void tn__syn_shape(tn__syn_parser *p, tn__syn_param *param);

#endif
