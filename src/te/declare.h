/* What the files that turn syntax into declarations share. */
#ifndef TENON_TE_DECLARE_H
#define TENON_TE_DECLARE_H

#include <string.h>

#include "te/syntax.h"

/* Positions that are read, from `low` to `high`. */
typedef struct tn__te_span_of {
  const tn__expr *low, *high;
} tn__te_span_of;

/* An axis whose extent follows from what is read of its tensor. */
typedef struct tn__te_follow {
  const tn__syn_axis *axis;
  const char *tensor;
  const tn__var *var;           /* of the axis */
  const tn__var *start, *count; /* stand for its first position and their number while these are looked for */
  const tn__expr *low, *extent; /* what is known of these */
  TN__VEC(tn__te_span_of) reads;
} tn__te_follow;

/* What a name means; exactly one of expr, buffer and syn. */
typedef struct tn__meaning {
  tn__token token;
  const tn__expr *expr;     /* an axis, a dimension, a value of a combiner or of a let, an argument of a function */
  const tn__buffer *buffer; /* a tensor */
  const tn__syn *syn; /* literals that a function was given, or let: they take the type of their neighbours there */
  tn__te_follow *const *follows; /* of a tensor: what follows from its readers, by dimension, or NULL */
  bool named;                    /* by let */
  bool in_step;                  /* a tensor of a scan's steps: its first index is the position of the step */
  bool broken;                   /* none: what it is called for had an error */
} tn__meaning;

/* An axis whose indices are outside of tensors: by how much at most, in one statement. */
typedef struct tn__outside {
  const tn__var *axis; /* NULL: no axis is to blame alone */
  tn__token at;        /* of the worst index, and what is said of it */
  const char *message;
  const tn__expr *low, *high; /* how many positions too many, or NULL */
} tn__outside;

typedef struct tn__declaring {
  const tn__te_source *source;
  tn__errors *errors; /* of the source; NULL for single operations: the first one is thrown */
  bool failed;        /* this declaration had an error */
  tn__ir *ir;
  tn__arena *arena;
  tn__te *te;
  tn__lexer lex; /* for numbers and messages */
  const tn__te_dim_value *dims;
  int dim_count;
  TN__VEC(tn__meaning) names;
  int visible_from;                 /* what is before belongs to a caller */
  TN__VEC(const tn__var *) axes;    /* in scope */
  const tn__syn_kernel *kernel;     /* being declared or inlined */
  TN__VEC(const tn__token *) stack; /* kernels and functions being expanded, outermost first */
  const char *prefix;               /* of the names of tensors: "" or that of an inlined kernel */
  const char *const *output_names;  /* of the kernel's outputs, as its caller calls them; NULL: their own */
  const char *statement;            /* the full name of the tensor being defined */
  int guards;                       /* conditions around the expression at hand */
  int reductions;                   /* around the expression at hand, whose terms it belongs to */
  int64_t steps;
  TN__VEC(tn__te_follow *) follows; /* of the kernels being expanded, in the order of their statements */
  bool inferring;                   /* they are looked for: nothing else comes of the statements */
  /* Within a scan: values are checked for positions of `scan_axis` as `scan_position` has them, and its own tensors may
   * be read at earlier ones. */
  const tn__var *scan_axis;
  const tn__expr *scan_position;
  bool scan_backwards;
  const tn__te_axes *scan_axes; /* of its tensors */
  int scan_dim, scan_count;
  const tn__buffer *scan_tensors[4];
  tn__outside outside[8];
  int outside_count;
} tn__declaring;

_Noreturn void tn__te_fail(const tn__declaring *d, const tn__token *at, const char *format, ...) TN_PRINTF(3, 4);
const char *tn__te_text_of(const tn__declaring *d, const tn__token *t);

/* ---- suggest.c --------------------------------------------------------------------------------------------------- */
typedef enum tn__te_wanted { TN__TE_TENSOR, TN__TE_VALUE, TN__TE_REDUCTION, TN__TE_CALLED } tn__te_wanted;
/* Refuses a name that nothing has: "there is no tensor Xs here; did you mean X?". */
_Noreturn void tn__te_unknown(const tn__declaring *d, const tn__token *name, tn__te_wanted wanted);
/* Refuses names in the values of a statement that nothing has, before anything is concluded from them. */
void tn__te_check_names(tn__declaring *d, const tn__syn_stmt *s);

/* ---- names ------------------------------------------------------------------------------------------------------- */
const tn__meaning *tn__te_lookup(const tn__declaring *d, const tn__token *name);
bool tn__te_knows(const tn__declaring *d, const tn__token *name); /* is it visible, or a constant of the file? */
/* Makes a name visible; refuses one that is. */
void tn__te_bind(tn__declaring *d, const tn__token *name, const tn__expr *expr, const tn__buffer *buffer);
const tn__syn_combiner *tn__te_find_combiner(const tn__declaring *d, const tn__token *name);
const tn__syn_function *tn__te_find_function(const tn__declaring *d, const tn__token *name);
const tn__syn_kernel *tn__te_find_kernel(const tn__declaring *d, const tn__token *name);
/* One kernel or function deeper; refuses one that is being expanded already. */
void tn__te_enter(tn__declaring *d, const tn__token *name, const tn__token *at);

/* Counts a piece of work; refuses what grows beyond all measure when calls are expanded. */
void tn__te_step(tn__declaring *d, const tn__token *at);

/* ---- declare_expr.c ---------------------------------------------------------------------------------------------- */
/* `want`: the type that literals take, and TN_DTYPE_INVALID when nothing says so. The result may be of another one. */
const tn__expr *tn__te_value(tn__declaring *d, const tn__syn *s, tn_dtype want);
/* Makes the name of a let visible, in what follows. */
void tn__te_let(tn__declaring *d, const tn__token *name, tn_dtype dtype, const tn__syn *value);
/* The expression behind all of its lets, whose names are visible then. */
const tn__syn *tn__te_behind_lets(tn__declaring *d, const tn__syn *s);
const tn__expr *tn__te_index(tn__declaring *d, const tn__syn *s, const char *what); /* an i64 */
/* A positive extent. */
const tn__expr *tn__te_extent(tn__declaring *d, const tn__syn *s, const char *what);
/* The extent of an axis of a reduction from `first` (NULL: 0) to `end`: it may depend on axes around it and on data. */
const tn__expr *tn__te_span(tn__declaring *d, const tn__syn *first, const tn__syn *end, const tn__expr **start);
/* A type conversion is never implied. */
void tn__te_expect_dtype(const tn__declaring *d, const tn__token *at, const tn__expr *value, tn_dtype dtype,
                         const char *name);

/* The tensor of an access; refuses other things, and another number of indices. That of a step has one dimension more
 * in front, and `indices`, if not NULL, gets its index, the position of the step. */
const tn__buffer *tn__te_tensor(tn__declaring *d, const tn__syn *s, const tn__expr **indices);
void tn__te_expect_args(const tn__declaring *d, const tn__syn *s, int count);

/* ---- declare_edges.c --------------------------------------------------------------------------------------------- */
/* What says which element stands beyond the edges: pad, repeat, mirror ...; NULL: it is none, or the name of a function
 * of the file. */
const struct edge_row *tn__te_edge_find(const tn__declaring *d, const tn__token *name);
const char *tn__te_edge_word(int index); /* NULL behind the last */
const tn__expr *tn__te_edge_value(tn__declaring *d, const tn__syn *s);

/* ---- declare_reduce.c -------------------------------------------------------------------------------------------- */
typedef struct tn__te_reduction {
  tn__te_axes axes;
  const tn__te_combiner *combiner;
  const tn__expr *terms[4];
  bool index_only; /* argmax with one target: the value is asked for by nobody */
  int into_count;  /* 0: it is no accumulation */
  const tn__expr *into[TN__MAX_RANK];
} tn__te_reduction;
/* `wants`: the stated types of the targets, `count` of them. */
tn__te_reduction tn__te_reduction_of(tn__declaring *d, const tn__syn *s, const tn_dtype *wants, int count);
/* Of an accumulation: what `count` tensors of the combiner's types start from, in terms of the axes in scope; NULL when
 * nothing is stated. `out` has room for it. */
const tn__expr *const *tn__te_first_of(tn__declaring *d, const tn__syn *s, const tn__te_combiner *combiner,
                                       const tn__expr **out);
/* Does the expression read tensors of the scan that is being declared, or of its steps? */
bool tn__te_reads_scan(const tn__declaring *d, const tn__expr *e);
/* The same, of the terms and bounds of a reduction. */
bool tn__te_reduces_scan(const tn__declaring *d, const tn__te_reduction *r);
/* A reduction inside of an expression: a tensor of its own over the axes that it depends on. */
const tn__expr *tn__te_lift(tn__declaring *d, const tn__syn *s, tn_dtype want);

/* ---- declare_follow.c -------------------------------------------------------------------------------------------- */
bool tn__te_has_open(const tn__syn_kernel *kernel); /* does an extent follow from use? */
/* Where such an axis begins and how far it runs. */
tn__te_follow *tn__te_follow_axis(tn__declaring *d, const tn__syn_axis *axis, const char *tensor);
/* By dimension; NULL: no extent follows. */
tn__te_follow *const *tn__te_follows_of(tn__declaring *d, const tn__syn_axis *list, int count);
/* Refuses a tensor with such an axis: "WHY, and the extent of y follows ...". */
void tn__te_refuse_open(const tn__declaring *d, const tn__token *at, const tn__meaning *n, const char *why);
/* Notes what an access reads, and counts the indices from where the axes begin. */
void tn__te_follow_read(tn__declaring *d, const tn__syn *s, const tn__expr **indices);
const tn__te_follow *tn__te_follow_var(const tn__declaring *d, const tn__var *var); /* NULL: of no such axis */
/* Finds the extents of all from number `first` on, whose reads are noted. */
void tn__te_follow_solve(tn__declaring *d, int first);

/* ---- declare_axes.c ---------------------------------------------------------------------------------------------- */
/* Extents of axes that are not stated, found from how `values` use them; `axes->var` gets variables for all, and
 * `axes->index` the positions. Those of a reduction (`reduces`) may depend on axes around them and on data. */
void tn__te_make_axes(tn__declaring *d, const tn__syn_axis *list, int count, const tn__expr *const *known,
                      const tn__syn *const *values, int value_count, bool reduces, const char *what, tn__te_axes *axes);
void tn__te_bind_axes(tn__declaring *d, const tn__syn_axis *list, const tn__te_axes *axes);
/* What is wrong with the axis, and what to write instead. */
const char *tn__te_outside_text(const tn__declaring *d, const tn__outside *outside);
/* The expression at the positions that values are checked for within a scan. */
const tn__expr *tn__te_at_position(const tn__declaring *d, const tn__expr *e);
/* Refuses an access that is outside of its tensor for some position: notes it in `d->outside`. */
void tn__te_check_access(tn__declaring *d, const tn__syn *s, const tn__buffer *buffer, const tn__expr *const *indices);

#endif
