/* Compute declarations: what each element of each output is, and nothing about how it is computed.
 *
 * A declaration is a list of stages in topological order. A stage defines one or more tensors of one shape, element by
 * element:
 *
 *   compute  a value over axes: P[i, j] = A[i, j] + 1
 *   reduce   a combiner over reduce axes, starting from its identity: C[i, j] = sum(k) A[i, k] * B[k, j]
 *   scan     one axis runs in order, forwards or backwards; an element may read its own tensors at positions of that
 *            axis that come before, also in stages that are part of each step
 *   extern   imperative loop IR that fills its tensors (sort, data-dependent loops); schedules leave it alone
 *   accumulate: a combiner over terms that say themselves which element they go into, H[b[i]] += v[i], or whose number
 *            the element or data say, sum(k: i + 1)
 *
 * Tensors are buffers of the ir context. Reading outside of a tensor is an error of the declaration: guard with
 * select(), which is lazy.
 *
 * Everything lives in the ir context's arena; errors are thrown there. The text form (.te) prints and parses the same
 * structure. */
#ifndef TENON_TE_TE_H
#define TENON_TE_TE_H

#include "base/linked.h"
#include "ir/stmt.h"

#define TN__MAX_RANK 12 /* of tensors and reduce axes in declarations */

typedef struct tn__te tn__te;

typedef struct tn__te_axes {
  int count;
  const tn__var *var[TN__MAX_RANK];
  const tn__expr *index[TN__MAX_RANK]; /* var[i]->self: what values are written in */
} tn__te_axes;

typedef enum tn__te_stage_kind {
  TN__TE_COMPUTE,
  TN__TE_REDUCE,
  TN__TE_SCAN,
  TN__TE_EXTERN,
  TN__TE_ACCUMULATE
} tn__te_stage_kind;

/* result[i] and identity[i] for the i-th tensor; result is written over lhs (the accumulated values) and rhs (the new
 * ones). It must be associative and commutative up to rounding for schedules that reorder (they may only do so when
 * `reorderable`). */
typedef struct tn__te_combiner {
  int count;
  const tn__var *lhs[4], *rhs[4];
  const tn__expr *result[4], *identity[4];
  bool reorderable;
} tn__te_combiner;

typedef enum tn__te_reducer {
  TN__TE_SUM,
  TN__TE_PROD,
  TN__TE_MAX,
  TN__TE_MIN,
  TN__TE_ANY, /* or */
  TN__TE_ALL  /* and */
} tn__te_reducer;

/* What a declaration says of where a stage's tensors are computed. */
typedef enum tn__te_hint {
  TN__TE_ANYWHERE, /* nothing: the schedule's choice */
  TN__TE_STORED,   /* once, and stored */
  TN__TE_INLINED   /* in each of its readers */
} tn__te_hint;

typedef struct tn__te_stage {
  tn__te_stage_kind kind;
  tn__te_hint hint;
  const char *name;
  int tensor_count;
  const tn__buffer *tensors[4];
  tn__te_axes axes, reduce_axes;
  /* compute: the elements; reduce, accumulate: the terms; scan: the elements at positions >= scan_depth */
  const tn__expr *values[4];
  /* scan: the elements at the first scan_depth positions of the scan axis, in its order; accumulate: what each starts
   * from */
  const tn__expr *first[4];
  int scan_axis;
  int64_t scan_depth;
  bool backwards;                  /* scan: from the last position to the first; elements may read later ones */
  const tn__te_combiner *combiner; /* reduce, accumulate */
  /* accumulate: the element that a term goes into, by dimension. Where it is the axis itself the term depends on the
   * axis as a reduction's does; no term reads the others. A term whose element is outside of the tensor falls away. */
  const tn__expr *into[TN__MAX_RANK];
  /* compute, reduce, accumulate: a tensor of the scan that evaluates the stage in its steps, before its own elements,
   * or NULL. The stage's first axis is the scan's; it has elements at positions from scan_depth on, and may read those
   * of the scan that come before. Only the scan, and what is in its steps, read it, at the position of the step. */
  const tn__buffer *step_of;
  const tn__stmt *body; /* extern: reads any earlier tensor, writes every element of its own */
  int extern_read_count;
  const tn__buffer *const *extern_reads;
} tn__te_stage;

tn__te *tn__te_create(tn__ir *ir, const char *name);
tn__ir *tn__te_ir(const tn__te *te);
const char *tn__te_name(const tn__te *te);

/* A symbolic dimension, passed to the kernel as a scalar; min 0 unless a greater `min` is known. */
const tn__var *tn__te_dim(tn__te *te, const char *name, int64_t min);
const tn__buffer *tn__te_input(tn__te *te, const char *name, tn_dtype dtype, int rank, const tn__expr *const *shape);
/* Axes over [0, shape[i]); extents of 1 are fine. */
tn__te_axes tn__te_axes_create(tn__te *te, const char *prefix, int rank, const tn__expr *const *extents);

const tn__buffer *tn__te_compute(tn__te *te, const char *name, const tn__te_axes *axes, const tn__expr *value);
/* The sum and so on of `term` over `reduce` in term's own dtype. */
const tn__buffer *tn__te_reduce(tn__te *te, const char *name, const tn__te_axes *axes, const tn__te_axes *reduce,
                                tn__te_reducer reducer, const tn__expr *term);
/* With any combiner, one tensor per value; `out` gets combiner->count buffers. */
void tn__te_reduce_with(tn__te *te, const char *name, const tn__te_axes *axes, const tn__te_axes *reduce,
                        const tn__te_combiner *combiner, const tn__expr *const *terms, const tn__buffer **out);
/* The same with a name for each tensor. */
void tn__te_reduce_as(tn__te *te, const char *const *names, const tn__te_axes *axes, const tn__te_axes *reduce,
                      const tn__te_combiner *combiner, const tn__expr *const *terms, const tn__buffer **out);
/* Combines each term over `reduce`, in the axes' order, into the element at `into`; `first`: what the elements start
 * from, NULL for the identities. */
void tn__te_accumulate_as(tn__te *te, const char *const *names, const tn__te_axes *axes, const tn__te_axes *reduce,
                          const tn__te_combiner *combiner, const tn__expr *const *terms, const tn__expr *const *into,
                          const tn__expr *const *first, const tn__buffer **out);
/* Do the bounds of a reduction's axis depend on other axes or on data? */
bool tn__te_is_ragged(const tn__var *axis);
/* Do terms, or elements, depend on axis `a` of the stage? On those whose place an accumulation computes they don't. */
bool tn__te_keeps_axis(const tn__te_stage *stage, int a);
const tn__te_combiner *tn__te_combiner_of(tn__te *te, tn__te_reducer reducer, tn_dtype dtype);
/* argmax (greatest) / argmin over (value, index): ties keep the first index, or the last; NaN wins as in NumPy. */
const tn__te_combiner *tn__te_arg_combiner(tn__te *te, tn_dtype value_dtype, tn_dtype index_dtype, bool greatest,
                                           bool last);
/* How many elements side by side each place of an accumulation has: 1 where every dimension after the first that terms
 * choose is chosen, too, or of one step; INT64_MAX where that is not known, or terms choose nothing. */
int64_t tn__te_row_of_place(const tn__te_stage *stage);
/* Rows of places that are taken one element after the other rather than in vectors. */
enum { TN__TE_SHORT_ROW = 3 };
/* Scan: declare the tensors first (they are read in `update`), then define them. */
void tn__te_scan_declare(tn__te *te, const char *name, const tn__te_axes *axes, const tn_dtype *dtypes, int count,
                         const tn__buffer **out);
void tn__te_scan_define(tn__te *te, const tn__te_axes *axes, int scan_axis, int64_t depth, const tn__expr *const *first,
                        const tn__expr *const *update, const tn__buffer *const *tensors, int count);
/* The stage that defines the tensor is part of each step of the scan that will define `scan`. */
void tn__te_put_in_step(tn__te *te, const tn__buffer *tensor, const tn__buffer *scan);
/* The scan itself, or the one in whose steps the stage is evaluated; NULL: neither. */
const tn__te_stage *tn__te_scan_of(const tn__te *te, const tn__te_stage *stage);
/* The stage's axis along which the scan of tn__te_scan_of() runs. */
const tn__var *tn__te_scan_axis(const tn__te_stage *stage);
bool tn__te_has_steps(const tn__te *te); /* is any stage part of a scan's steps? */
/* The scan that defines the tensor runs from the last position of its axis to the first. */
void tn__te_scan_turn(tn__te *te, const tn__buffer *tensor);
/* Imperative stage: make its tensors with tn__te_extern_tensor, then give the statement. */
const tn__buffer *tn__te_extern_tensor(tn__te *te, const char *name, tn_dtype dtype, int rank,
                                       const tn__expr *const *shape);
void tn__te_extern(tn__te *te, const char *name, const tn__buffer *const *reads, int read_count,
                   const tn__buffer *const *writes, int write_count, const tn__stmt *body);

void tn__te_set_hint(tn__te *te, const tn__buffer *tensor, tn__te_hint hint); /* of the stage that makes it */
/* Does a stage that others follow say that it is stored? */
bool tn__te_has_stored(const tn__te *te);
/* Refuses a stage: throws. */
typedef void tn__te_refuse(void *user, int stage, const char *message);
/* Refuses what cannot be inlined though it says so. */
void tn__te_check_hints(const tn__te *te, tn__te_refuse *refuse, void *user);
/* The declaration without the stages that say that they are inlined, and with what each stored one needs in front of
 * it. `te` itself where nothing is said; otherwise a copy in the same context. */
const tn__te *tn__te_settled(const tn__te *te);

/* ---- where parameters lie (memory.c) ---- */
/* An input that is not dense. */
const tn__buffer *tn__te_strided_input(tn__te *te, const char *name, tn_dtype dtype, int rank,
                                       const tn__expr *const *shape, const tn__expr *const *strides);
/* The output, which a stage of `te` defines, is not dense. */
void tn__te_set_strides(tn__te *te, const tn__buffer *output, const tn__expr *const *strides);
/* The output takes the memory of an input of its type, shape and strides. */
void tn__te_put_over(tn__te *te, int output, int input);
int tn__te_over(const tn__te *te, int output); /* that input, or -1 */
/* Conditions on the strides of a parameter: that they lead nowhere wrong, and of what is written that no two elements
 * lie in one place. At most 3 * rank of them. */
TN_MUST_USE int tn__te_stride_conditions(tn__ir *ir, const tn__buffer *buffer, bool written, const tn__expr **out);
/* A declaration that was made of `like` in its context, whose outputs lie where those of `like` do. `te` itself where
 * nothing is to be done; otherwise a copy. */
const tn__te *tn__te_lying_like(const tn__te *te, const tn__te *like);
/* A copy in another context whose parameters are dense and have memory of their own, without dimensions that only
 * strides name. */
tn__te *tn__te_dense_copy(const tn__te *te, tn__ir *ir);
/* A copy in the same context that reads a copy of the input, which it makes first. */
tn__te *tn__te_with_private(const tn__te *te, int input);
const char *tn__te_private_name(const tn__te *te, int input); /* of that copy */

/* Marks a tensor as the next output. A tensor is an output at most once, and an input is never one (copy it). */
void tn__te_output(tn__te *te, const tn__buffer *tensor);

int tn__te_input_count(const tn__te *te);
const tn__buffer *tn__te_input_at(const tn__te *te, int index);
int tn__te_output_count(const tn__te *te);
const tn__buffer *tn__te_output_at(const tn__te *te, int index);
bool tn__te_is_output(const tn__te *te, const tn__buffer *tensor);
int tn__te_stage_count(const tn__te *te);
const tn__te_stage *tn__te_stage_at(const tn__te *te, int index);
const tn__te_stage *tn__te_stage_of(const tn__te *te, const tn__buffer *tensor); /* NULL for inputs */
TN__LINKED int tn__te_dim_count(const tn__te *te);
TN__LINKED const tn__var *tn__te_dim_at(const tn__te *te, int index);

/* Prints the .te text form (docs/te-language.md), everything stated; tn__te_parse() and tn__te_declare() of te/text.h
 * read it back. The second gives the kernel another name. */
void tn__te_print(const tn__te *te, tn__strbuf *out);
TN__LINKED void tn__te_print_as(const tn__te *te, const char *name, tn__strbuf *out);
/* Checks types, bounds that can be decided, unbound axes, cycles; the message names the stage. */
/* Of an imperative stage: the first tensor with elements that no statement of its body writes, or -1. */
int tn__te_unwritten(const tn__te_stage *stage);
TN_MUST_USE tn_status *tn__te_verify(const tn__te *te);
/* The same; `*stage` becomes the one that is refused, if it is one. */
TN_MUST_USE tn_status *tn__te_verify_stages(const tn__te *te, int *stage);
/* Moves every index that is not shown to be inside of its tensor to the nearest element: those that depend on data and
 * those under conditions that say too little. What depends on dimensions alone is left to tn__te_conditions.
 * Where there is no nearest element it is refused: by `refuse`, or thrown. */
void tn__te_secure(tn__te *te, tn__te_refuse *refuse, void *user);
/* Are the indices of a term's place in the accumulation shown to be inside of its tensor? Bits: 1 for at least 0, 2 for
 * less than the size. */
int tn__te_into_inside(const tn__te *te, const tn__te_stage *stage, int dim);
/* The opposite: every index stays as it is, and whoever made the declaration vouches that it is inside. The text says
 * so ("unchecked kernel") where reading it would move one. */
void tn__te_trust(tn__te *te);
/* Is there a number in this index or extent that is larger than any tensor (2^48)? Sums of its products may wrap. */
bool tn__te_is_too_large(tn__ir *ir, const tn__expr *e);
/* The declaration in which reductions whose terms are there at one position of an axis only, as select(X[i] == b, 1, 0)
 * is, go there directly (place.c): an axis of the reduction is dropped, and one of the elements, where it is longer
 * than two vectors of `vector_bytes`, becomes the place of an accumulation. `te` itself where there is nothing of the
 * kind; otherwise a copy in the same context. Elements are equal, but for the sign of a zero. */
const tn__te *tn__te_place(const tn__te *te, int64_t vector_bytes);
/* The declaration in which reductions whose terms are there at some remainders only, as a transposed convolution's are,
 * become ones of the terms that are there (phases.c): a stage of all positions with the same number of them, and the
 * stage that was there deals them out. `te` itself where there is nothing of the kind; otherwise a copy in the same
 * context. In sums of floats a factor that meets a zero which stands for no term is not multiplied. */
const tn__te *tn__te_phases(const tn__te *te);
/* The declaration in which reductions over long windows of neighbouring terms are made from runs of two, four, eight
 * terms, which neighbouring results share (windows.c). `te` itself where there is nothing of the kind; otherwise a copy
 * in the same context. Elements are equal up to rounding, and those of minima, maxima and integers are equal. */
const tn__te *tn__te_windows(const tn__te *te);
/* The declaration in which products of bytes are added up four at a time (bytes.c), where `bytes` says that the target
 * has an instruction for it, and products of 16 bits, or of bytes on other targets, two at a time. `te` itself where no
 * sum meets its elements often enough; otherwise a copy in the same context. Elements are equal. */
const tn__te *tn__te_words(const tn__te *te, bool bytes);
/* The declaration in which sums along rows of narrow integers take neighbouring terms together as words (row_words.c);
 * `bytes`: the target has an instruction for products of bytes. `te` itself where there is nothing of the kind;
 * otherwise a copy in the same context. Elements are equal. */
const tn__te *tn__te_row_words(const tn__te *te, bool bytes);
/* The declaration in which sums of 64 bits that 32 hold, counts above all, are added up in those (counts.c). `te`
 * itself where there is nothing of the kind; otherwise a copy in the same context. Elements are equal. */
const tn__te *tn__te_counts(const tn__te *te);
/* The declaration in which positions of the greatest or least elements are found term by term where lanes are columns
 * (positions.c). `te` itself where there is nothing of the kind; otherwise a copy in the same context. Elements are
 * equal. */
const tn__te *tn__te_argmax(const tn__te *te, int64_t vector_bytes);
/* The declaration in which places and values that take work of terms that accumulations take one after the other are
 * maps of their own (terms.c). `te` itself where there is nothing of the kind; otherwise a copy in the same context.
 * Elements are equal. */
const tn__te *tn__te_terms(const tn__te *te);
/* The declaration in which integers are computed, and intermediate tensors kept, in the narrowest types that hold them
 * (narrow.c). `te` itself where nothing becomes narrower; otherwise a copy in the same context. Elements are equal. */
const tn__te *tn__te_narrow(const tn__te *te);
/* The declaration in which reductions whose results depend on a clamped position, as of tensors side by side, have
 * different results only (clamped.c). `te` itself where there is nothing of the kind; otherwise a copy in the same
 * context. Elements are equal. */
const tn__te *tn__te_clamped(const tn__te *te);
/* The declaration in which short sums over pairs of points are written out where reductions take them, and results
 * along a short axis whose terms have work in common are tensors of one reduction (coordinates.c). `te` itself where
 * there is nothing of the kind; otherwise a copy in the same context. Elements are equal up to rounding. */
const tn__te *tn__te_coordinates(const tn__te *te);
/* Does all that the stage's terms read stand still along an axis of the reduction, or lie up to `most` elements apart,
 * some of it? `*apart`: more than one (together.c). */
TN_MUST_USE bool tn__te_reads_near(tn__ir *ir, const tn__te_stage *stage, const tn__var *along, int64_t most,
                                   bool *apart);
/* The declaration in which long reductions over the same axes to a few results, whose terms read the same tensors, or
 * some of whose results are equal, are one for each `most` results, those that registers hold at once, where vectors
 * can be taken out of elements up to `apart` apart (together.c). `te` itself where there is nothing of the kind;
 * otherwise a copy in the same context. Elements are equal up to rounding. */
const tn__te *tn__te_together(const tn__te *te, int64_t most, int64_t vector_bytes, int64_t apart);
/* The declaration in which reductions over the same axes that read the same elements, or whose bounds data give alike,
 * are one (siblings.c). `te` itself where there is nothing of the kind; otherwise a copy in the same context. Elements
 * are equal up to rounding: a map that reads another one at its own position is computed from that one's expression,
 * before it is rounded. */
const tn__te *tn__te_siblings(const tn__te *te);
/* What instructions on small matrices want of a product: rows and columns that are multiples of `least`, better of up
 * to `most`, powers of two; a multiple of `terms` terms; operands whose elements lie side by side along the terms, if
 * `terms_last` says so. */
typedef struct tn__te_tiling {
  int64_t least[2], most[2], terms;
  bool terms_last;
  int64_t blocks, part; /* so many tiles keep the machine busy; of fewer, parts of so many terms are added up behind */
} tn__te_tiling;
/* Of sums of that type and factors of these; false: there are no such instructions. */
typedef bool tn__te_tiling_of(const void *user, tn_dtype sum, tn_dtype left, tn_dtype right, tn__te_tiling *out);
/* The declaration in which the first sum of products that such instructions compute is one of whole tiles (tiles.c).
 * `te` itself where there is none; otherwise a copy in the same context. Elements are equal, but for the order in which
 * terms are added up, and where an operand's element is infinite or NaN they are as without what fills up tiles. */
const tn__te *tn__te_tiles(const tn__te *te, tn__te_tiling_of *tiling_of, const void *user);
/* A copy in another context, made in the order of the text. */
tn__te *tn__te_copy(const tn__te *te, tn__ir *ir);
/* How far the tensors of a declaration are read, for those who take parts of it; lies in the arena. */
typedef struct tn__te_uses tn__te_uses;
const tn__te_uses *tn__te_uses_of(const tn__te *te, tn__arena *arena);
/* A copy of `count` stages from number `first` on as a declaration: what they read of other stages is an input, and
 * what other stages or the caller need of them is an output. Names are those of `te`. */
tn__te *tn__te_part(const tn__te_uses *uses, int first, int count, tn__ir *ir);
/* Calls `fn` with every tensor that the stage reads, as often as it is read. */
void tn__te_reads(const tn__te *te, const tn__te_stage *stage, void (*fn)(const tn__buffer *tensor, void *user),
                  void *user);
/* What the open dimensions must satisfy besides their least values: bool expressions over them, in the declaration's
 * context. Every computed extent is positive, no tensor is larger than memory, no access that stands under no condition
 * is outside of its tensor. Returns how many. */
TN_MUST_USE int tn__te_conditions(const tn__te *te, const tn__expr *const **out);
/* The subject of such a condition, for messages. */
typedef struct tn__te_about {
  const tn__buffer *tensor; /* NULL: unknown */
  int dim;                  /* of the tensor */
  const tn__expr *index;    /* the least or greatest index read there; NULL: the condition is about the size itself */
} tn__te_about;
TN_MUST_USE int tn__te_conditions_about(const tn__te *te, const tn__expr *const **out, const tn__te_about **about);
bool tn__te_is_size_condition(const tn__expr *condition); /* one of those about memory, in f64 */
bool tn__te_has_name(const tn__te *te, const char *name); /* of a tensor, dimension or stage */
/* FLOPs (each arithmetic operation of a floating type counts 1, fma 2) as an expression over the dimensions. */
const tn__expr *tn__te_flops(const tn__te *te);
/* What code of every schedule does, lower bounds: FLOPs of outputs' elements that depend on all axes and stand in no
 * choice, and bytes of outputs, which are written. What has an open size counts nothing. */
TN__LINKED void tn__te_least_work(const tn__te *te, double *flops, double *written);

/* The plain loop nest: stages in order, each one perfect nest of serial loops around one block named like the stage;
 * intermediate tensors are allocated around everything in workspace scope. Inputs and outputs are the function's
 * parameters, in order. */
tn__func *tn__te_lower(const tn__te *te);

/* Fills in what a block reads and writes from its init and body. An index that depends on loaded values covers its
 * whole dimension. */
void tn__te_block_regions(tn__ir *ir, tn__block *block);
/* Calls `fn` once for every distinct expression below `e` (itself included), arguments before their users. */
void tn__te_visit(tn__ir *ir, const tn__expr *e, void (*fn)(const tn__expr *e, void *user), void *user);

#endif
