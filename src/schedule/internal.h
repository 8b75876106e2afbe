/* A schedule's own view of a loop nest: a tree of loops and blocks that primitives change in place; the expressions and
 * statements inside the blocks are the immutable ones of the loop IR. tn__schedule_func() writes it back as a function.
 *
 * Facts that the primitives keep true:
 *  - every instance of a block finds what it reads complete: written in an earlier subtree of the root, or in the same
 *    iteration of all the loops that reader and writer share;
 *  - a block that was not moved by compute_at is executed once per point of its domain (`exact`);
 *  - a loop variable stands in bindings of spatial axes or of others, never of both in one block;
 *  - loops run from 0. */
#ifndef TENON_SCHEDULE_INTERNAL_H
#define TENON_SCHEDULE_INTERNAL_H

#include "base/map.h"
#include "schedule/heuristics.h"
#include "schedule/schedule.h"

#define TN__MAX_LOOPS 64 /* around one block */
/* Of a tile that is transposed in registers. */
enum { TN__MOST_TILE_SIDE = 64, TN__MOST_TILE_BYTES = 4096 };
enum { TN__MOST_RING = 64 };        /* positions that fold_scan keeps */
enum { TN__MOST_WINDOW = 1 << 16 }; /* rows of a window that slides */
#define TN__MAX_FACTORS 8           /* of one split, loops of one tile */

typedef struct tn__snode tn__snode;

/* In each iteration of a loop: what `block` will read of `buffer` there `distance` iterations later, of the loop itself
 * (`ahead` is NULL) or of one around it. */
typedef struct tn__sched_prefetch {
  const tn__snode *block;
  const tn__buffer *buffer;
  const tn__snode *ahead;
  int64_t distance;
  bool spread; /* a share of what one whole iteration of `ahead` reads, so that all of them fetch it once */
} tn__sched_prefetch;

struct tn__snode {
  tn__snode *parent;
  const char *name;
  bool is_block;
  bool exact;                      /* blocks */
  bool ragged;                     /* blocks: not every position of their axes has a term, which the predicate says */
  const tn__te_combiner *combiner; /* blocks that reduce */
  const tn__var *var;              /* loops; NULL for the root */
  tn__loop_kind kind;
  tn__loop_pragmas pragmas;
  const tn__tensor_intrinsic *tensor; /* loops: the instruction that the nest from here on becomes, or NULL */
  bool transposes;                    /* loops: the nest from here on fills or reads a tile of tn__sched_transpose */
  TN__VEC(tn__sched_prefetch) prefetches;
  const tn__buffer *streams;     /* blocks: the output that the block's stores stream to, or NULL */
  TN__VEC(tn__snode *) children; /* loops and the root */
  tn__block block;
  int placed; /* finish.c: the last of the tensors that are allocated around the children, counted from 1 */
};

/* Dimension `dim` of the buffer has a stride of `offset` modulo `factor` elements. */
typedef struct tn__sched_align {
  const tn__buffer *buffer;
  int dim;
  int64_t factor, offset;
} tn__sched_align;

/* The buffer has storage for one iteration of the loop. */
typedef struct tn__sched_fold {
  const tn__buffer *buffer;
  const tn__snode *loop;
} tn__sched_fold;

/* A scan's tensor keeps the last `rows` positions. */
typedef struct tn__sched_ring {
  const tn__buffer *buffer;
  int64_t rows;
} tn__sched_ring;

/* The buffer's elements that one iteration of a loop shares with the one before are kept: the condition under which a
 * point is computed, and the room for `rows` positions along dimension `dim`. */
typedef struct tn__sched_window {
  const tn__snode *loop;
  const tn__expr *is_new;
  int dim;
  int64_t rows;
} tn__sched_window;

/* What a map writes takes the place of what it reads. */
typedef struct tn__sched_over {
  const tn__buffer *buffer, *over;
} tn__sched_over;

/* What became of an input that the caller declared constant. */
typedef struct tn__sched_constant {
  int input;
  const tn__buffer *packed; /* the kernel's parameter; NULL: the input itself */
  tn__layout layout;        /* when packed */
} tn__sched_constant;

/* The memory in which the kernel wants an argument: inputs, then outputs. */
typedef struct tn__sched_memory {
  int argument;
  tn__memory_scope scope;
} tn__sched_memory;

/* A node that has the name, or had it; it may have left the tree. */
typedef struct tn__sched_named {
  tn__snode *node;
  const struct tn__sched_named *before;
} tn__sched_named;

struct tn__schedule {
  const tn__te *te;
  const tn__target *target;
  tn__ir *ir;
  tn__arena *arena;
  tn__snode *root;
  TN__VEC(const tn__buffer *) buffers; /* intermediate tensors, in order of creation */
  TN__VEC(const char *) steps;
  TN__VEC(tn__sched_align) aligns;
  TN__VEC(tn__sched_fold) folds;
  TN__VEC(tn__sched_fold) slides; /* each in the loop along which its window moves */
  TN__VEC(tn__sched_ring) rings;
  TN__VEC(tn__sched_over) overs;
  TN__VEC(tn__sched_constant) constants;
  TN__VEC(tn__sched_memory) memories;
  TN__VEC(const tn__buffer *) ragged; /* tensors whose last blocks are filled in part */
  const tn__func *func;               /* NULL after a change */
  tn__map names;                      /* to the last tn__sched_named of each */
  tn__map readers, writers;           /* tn__snodes by the tensors' names: see users.c */
  int64_t visited; /* nodes that searches by name or tensor have looked at, for tests of how that grows */
  TN__VEC(const tn__buffer *) bounding; /* tensors that extents of loops read */
  bool scans;                           /* does any block have a scan axis? */
  bool size_known, large;               /* what tn__rule_is_large says of the declaration, once it was asked */
  int64_t shared_bytes;  /* what tensors in shared memory need in the nest that needs most, once there is `func` */
  const char *shared_by; /* that nest */
};

/* ---- tree.c ------------------------------------------------------------------------------------------------------ */
_Noreturn void tn__sched_refuse(const tn__schedule *s, const char *format, ...) TN_PRINTF(2, 3);
tn__schedule *tn__sched_mutable(const tn__schedule *s); /* for what is derived on demand and for scratch memory */
tn__snode *tn__sched_find(const tn__schedule *s, const char *name, bool is_block); /* NULL when there is none */
tn__snode *tn__sched_loop(const tn__schedule *s, const char *step, const char *name);
tn__snode *tn__sched_block(const tn__schedule *s, const char *step, const char *name);
/* Throws unless the loop is serial and not part of an instruction; when `whole`, because the loop is about
 * to disappear, also when something is attached to it. */
void tn__sched_check_free(const tn__schedule *s, const char *step, const tn__snode *loop, bool whole);
/* Throws when the node belongs to loops that were tensorized or transposed. */
void tn__sched_check_not_frozen(const tn__schedule *s, const char *step, const tn__snode *node);
tn__snode *tn__sched_root_nest(const tn__schedule *s, tn__snode *node); /* the child of the root around the node */
/* A name for a new node that nothing has yet: `name`, or with primes of digits behind it. */
const char *tn__sched_fresh_name(const tn__schedule *s, bool is_block, const char *name);
int tn__sched_index(const tn__snode *child);                               /* among its siblings */
bool tn__sched_is_under(const tn__snode *node, const tn__snode *ancestor); /* itself included */
tn__snode *tn__sched_child_around(const tn__snode *top, tn__snode *node);  /* the child of `top` that `node` is under */
/* Loops strictly inside of `top` (all loops when it is the root) and around `node`, outermost first; throws above
 * TN__MAX_LOOPS. */
TN_MUST_USE int tn__sched_path(const tn__schedule *s, const tn__snode *top, const tn__snode *node, tn__snode **out);
/* Calls `fn` on every block below `node`, in order. */
void tn__sched_each_block(tn__snode *node, void (*fn)(tn__snode *block, void *user), void *user);
typedef TN__VEC(tn__snode *) tn__snodes;
void tn__sched_blocks(tn__schedule *s, tn__snode *node, tn__snodes *out);
bool tn__sched_writes(const tn__snode *block, const tn__buffer *buffer);
bool tn__sched_reads(const tn__snode *block, const tn__buffer *buffer);
bool tn__sched_is_output(const tn__schedule *s, const tn__buffer *buffer);
bool tn__sched_is_param(const tn__schedule *s, const tn__buffer *buffer);
/* Does the loop's variable stand in bindings of the block's axes of this kind? */
bool tn__sched_drives(const tn__snode *loop, const tn__snode *block, tn__axis_kind kind);
/* Is each element of what the block writes written in one iteration of `loop` only? */
bool tn__sched_disjoint(tn__schedule *s, const tn__snode *loop, const tn__snode *block);
/* The axis that the block's first write has as its whole index in each dimension; false when it is anything else. */
TN_MUST_USE bool tn__sched_identity_write(const tn__snode *block, int *axis_of_dim);
/* The conjuncts of `predicate` that read none of the variables. */
const tn__expr *tn__sched_conjuncts_without(tn__ir *ir, const tn__expr *predicate, tn__snode *const *loops, int count);
/* Does the loop's variable tell the block's elements apart: does it drive a spatial axis or one of a scan? */
bool tn__sched_drives_elements(const tn__snode *loop, const tn__snode *block);
const tn__expr *tn__sched_substitute_axes(tn__ir *ir, const tn__block *block, const tn__expr *e);

/* Do extents of loops read the tensor? It stays what and where it is then: the second throws. */
bool tn__sched_is_bounding(const tn__schedule *s, const tn__buffer *buffer);
/* Throws when the tensor's layout has blocks that are filled in part, as nobody writes what a copy would read. */
void tn__sched_check_filled(const tn__schedule *s, const char *step, const tn__buffer *buffer);
void tn__sched_check_not_bounding(const tn__schedule *s, const char *step, const tn__buffer *buffer);

/* The intermediate tensor, input or output of this name; throws when there is none. */
const tn__buffer *tn__sched_tensor(const tn__schedule *s, const char *step, const char *name);

/* ---- edit.c ------------------------------------------------------------------------------------------------------ */
void tn__sched_name(tn__schedule *s, tn__snode *node, const char *name); /* gives a node its name, or another */
tn__snode *tn__sched_new_loop(tn__schedule *s, const char *name, const tn__expr *extent, tn__loop_kind kind);
tn__snode *tn__sched_new_block(tn__schedule *s, const tn__block *block);
void tn__sched_insert(tn__schedule *s, tn__snode *parent, int at, tn__snode *child);
void tn__sched_append(tn__schedule *s, tn__snode *parent, tn__snode *child);
void tn__sched_detach(tn__snode *node);
/* Takes a leaf out of the tree together with the loops that have nothing else in them. */
void tn__sched_remove(tn__snode *leaf);
/* Replaces loop variables in bindings, predicates and bounds below `node`. */
void tn__sched_substitute(tn__schedule *s, tn__snode *node, const tn__var *const *vars, const tn__expr *const *values,
                          int count);
/* Another extent, with a new variable. */
void tn__sched_set_extent(tn__schedule *s, tn__snode *loop, const tn__expr *extent);
/* Gives a block a new init and body, and its regions anew. */
void tn__sched_set_body(tn__schedule *s, tn__snode *block, const tn__stmt *init, const tn__stmt *body);
/* Copies of the loops that drive elements of `block` among `path`, one inside the other, for a new block; `vars`,
 * `values` get the substitution. Sets *outermost and *innermost (both NULL when there are none) and returns their
 * number. */
TN_MUST_USE int tn__sched_clone_spatial(tn__schedule *s, const tn__snode *block, const char *new_block,
                                        tn__snode *const *path, int count, const tn__var **vars,
                                        const tn__expr **values, tn__snode **outermost, tn__snode **innermost);
const tn__buffer *tn__sched_add_buffer(tn__schedule *s, const char *name, tn_dtype dtype, tn__scope scope, int rank,
                                       const tn__expr *const *shape);
/* Makes the block (and only it) use `to` for `from`, same indices. */
void tn__sched_redirect(tn__schedule *s, tn__snode *block, const tn__buffer *from, const tn__buffer *to);
/* `to` takes the place of the intermediate tensor `from` in lists and in all blocks, whose indices go through `map`. */
void tn__sched_replace_buffer(tn__schedule *s, const tn__buffer *from, const tn__buffer *to, tn__index_map map,
                              void *user);

/* ---- users.c ----------------------------------------------------------------------------------------------------- */
/* Enters a block that is new (`before` is NULL), or has another body than `before`, under the tensors that it uses. */
void tn__sched_enter(tn__schedule *s, tn__snode *block, const tn__block *before);
/* Blocks that write, read or do either with the buffer, in order, behind what `out` has. */
void tn__sched_writers(tn__schedule *s, const tn__buffer *buffer, tn__snodes *out);
void tn__sched_readers(tn__schedule *s, const tn__buffer *buffer, tn__snodes *out);
void tn__sched_users(tn__schedule *s, const tn__buffer *buffer, tn__snodes *out);
/* Do iterations of `loop` find in the buffer, which the block writes, what earlier ones have left there: terms of a
 * reduction, positions of a scan that something reads later? */
bool tn__sched_carries(tn__schedule *s, const tn__snode *loop, const tn__snode *block, const tn__buffer *buffer);

/* ---- loops.c ----------------------------------------------------------------------------------------------------- */
/* May steps of the scan at different values of this loop be taken in any order, as each reads its own? */
bool tn__sched_scan_keeps_axis(tn__schedule *s, const tn__snode *block, int axis); /* of the block */
bool tn__sched_scan_keeps_to(tn__schedule *s, const tn__snode *block, const tn__snode *loop);

/* ---- cache.c ----------------------------------------------------------------------------------------------------- */
/* Does the block cast all that it reads of the buffer to one type, and to which? */
TN_MUST_USE bool tn__sched_casts(tn__schedule *s, const tn__snode *block, const tn__buffer *buffer, tn_dtype *dtype);

/* ---- kinds.c ----------------------------------------------------------------------------------------------------- */
/* Throws unless the loop's iterations don't depend on each other: no reduction or scan along it, and no element written
 * in two of them, apart from buffers that belong to the iteration when there are `privates`. */
void tn__sched_check_independent(tn__schedule *s, const char *step, tn__snode *loop, bool privates);

/* ---- inline.c ---------------------------------------------------------------------------------------------------- */
/* The reader's body with what the map `block` computes in the place of its tensor; NULL: it is larger than a body may
 * be. Changes nothing. */
const tn__stmt *tn__sched_body_with(tn__schedule *s, const tn__snode *block, const tn__snode *reader);

/* ---- region.c ---------------------------------------------------------------------------------------------------- */
/* The hull of what the accesses to `region`'s buffer cover when the loops `inner` run and those outside stand still:
 * min[d], and extent[d] free of loop variables or NULL when no bound is known. `block` supplies the bindings. */
void tn__sched_hull(tn__schedule *s, const tn__snode *block, const tn__region *region, tn__snode *const *inner,
                    int count, const tn__expr **min, const tn__expr **extent);
/* Widens the first hull so that it covers the second one too. Where they can't be compared the hull is not known, or,
 * with `inside`, covers the other one anyway. */
void tn__sched_hull_union(tn__ir *ir, int rank, const tn__expr **min, const tn__expr **extent,
                          const tn__expr *const *other_min, const tn__expr *const *other_extent, bool inside);

/* Where the block will read the prefetched buffer `distance` iterations of the loop later: first[d] and extent[d]
 * (NULL: not known) of the hull. False when the block does not read it there any more or the start is not known.
 * first and extent may both be NULL. */
TN_MUST_USE bool tn__sched_prefetch_start(tn__schedule *s, const tn__snode *loop, const tn__sched_prefetch *p,
                                          const tn__expr **first, const tn__expr **extent);

/* The constant by which `var` itself is divided, or of which the remainder is taken, somewhere in `e`; 0: nowhere. */
int64_t tn__sched_divisor_of(tn__ir *ir, const tn__expr *e, const tn__var *var);

/* ---- kinds.c ----------------------------------------------------------------------------------------------------- */
/* Why the block's stores to the buffer cannot stream; NULL when they can. */
const char *tn__sched_cannot_stream(tn__schedule *s, const tn__snode *block, const tn__buffer *buffer);

/* ---- layout.c ---------------------------------------------------------------------------------------------------- */
/* The shape with the dimension behind `dim` widened so that dim's stride is offset modulo factor; false when no width
 * does that. */
TN_MUST_USE bool tn__sched_aligned_shape(tn__ir *ir, const tn__sched_align *align, int rank, const tn__expr **shape);

/* The loop that the buffer is folded in, with fold_storage or because it slides in the next one; NULL when there is
 * none, or not all that uses the buffer is in it any more. */
const tn__snode *tn__sched_folded_in(tn__schedule *s, const tn__buffer *buffer);

/* Why the only writer of `buffer` cannot write it over `over`, which it reads; NULL when it can. */
const char *tn__sched_cannot_store_over(tn__schedule *s, const tn__buffer *buffer, const tn__buffer *over);
/* The innermost node around both. */
tn__snode *tn__sched_common_ancestor(tn__snode *a, const tn__snode *b);

/* ---- transpose.c ------------------------------------------------------------------------------------------------- */
/* How many tiles tn__sched_transpose would read for a scan; -1: it would refuse. */
int tn__sched_scan_tiles(tn__schedule *s, tn__snode *block, tn__snode *rows, tn__snode *lanes);

/* ---- ring.c ------------------------------------------------------------------------------------------------------ */
/* How many positions along its axis the scan needs of its tensor, the new one among them unless it may take the place
 * of the last; -1: that is not known. */
int64_t tn__sched_scan_rows(tn__schedule *s, const tn__snode *block, const tn__buffer *buffer);
bool tn__sched_can_fold_scan(tn__schedule *s, const tn__buffer *buffer, int64_t rows);
/* How many positions along dimension `*dim` the buffer keeps, counted from its last one when `*backwards`; 0: all. */
/* Is the block, right in the loop, a scan whose state is one register, by an operation that is exactly associative?
 * Then vectors run along its steps. */
bool tn__sched_runs_in_vector(tn__schedule *s, const tn__snode *loop, const tn__snode *block);
TN_MUST_USE int64_t tn__sched_rows_of(tn__schedule *s, const tn__buffer *buffer, int *dim, bool *backwards);
const tn__te_stage *tn__sched_scan_stage(const tn__schedule *s, const tn__snode *block); /* NULL: it is no scan */

/* ---- slide.c ----------------------------------------------------------------------------------------------------- */
/* Why the buffer's window cannot slide in the loop; NULL when it can, and `out` says how. */
const char *tn__sched_cannot_slide(tn__schedule *s, const tn__buffer *buffer, const tn__snode *loop,
                                   tn__sched_window *out);
/* Does the buffer slide? False, too, when later steps took from it what it needs. */
TN_MUST_USE bool tn__sched_slides(tn__schedule *s, const tn__buffer *buffer, tn__sched_window *out);

/* ---- hoist.c ----------------------------------------------------------------------------------------------------- */
/* The part of what the block computes that tn__sched_hoist takes by this number; NULL when there are fewer. */
const tn__expr *tn__sched_hoistable(const tn__snode *block, int index);

/* ---- tensorize.c ------------------------------------------------------------------------------------------------- */
/* The instruction in the place of a nest of loops around one block; NULL when they do something else, and *why says
 * what. */
const tn__stmt *tn__sched_tensor_stmt(tn__schedule *s, const tn__tensor_intrinsic *intrinsic, const tn__stmt *nest,
                                      const char **why);

/* ---- trace.c ----------------------------------------------------------------------------------------------------- */
enum { TN__TRACE_VERSION = 1 };
void tn__sched_record(tn__schedule *s, const char *step, const char *const *names, int name_count,
                      const int64_t *numbers, int number_count);
/* What a trace calls its declaration. */
void tn__sched_digest(const tn__te *te, char out[17]);
bool tn__sched_trace_is_of(const char *trace, const char digest[17]); /* by its first line; untrusted text */

/* layout.c: indices and shape of a tensor in another layout, and the declaration that makes it, "KERNEL_pack_INPUT". */
tn__te *tn__sched_layout_packing(tn__ir *ir, const char *kernel, const tn__buffer *from, const tn__layout *layout);

#endif
