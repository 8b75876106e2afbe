/* Schedules: steps that transform a lowered declaration without changing what it computes.
 *
 * Every primitive checks its legality and throws TN_INVALID_ARGUMENT saying why it refuses; on success it records
 * itself, so the schedule always knows its trace. A trace prints as text (one step a line), parses, replays on the same
 * declaration and refuses another (it starts with the declaration's structural hash). Default rules and tuners only
 * ever go through these primitives.
 *
 * Blocks are named; loops are named too: the lowering names them "<block>.<axis>", split gives "<loop>.0", "<loop>.1"
 * ... (outermost first), fuse "<a>+<b>". A step names what it touches, so that a trace can be read. */
#ifndef TENON_SCHEDULE_SCHEDULE_H
#define TENON_SCHEDULE_SCHEDULE_H

#include "base/linked.h"
#include "target/target.h"
#include "te/layout.h"

typedef struct tn__schedule tn__schedule;

/* The unscheduled lowering, an empty trace. The target must live as long as the schedule. */
tn__schedule *tn__schedule_of(const tn__te *te, const tn__target *target);
const tn__func *tn__schedule_func(const tn__schedule *s);
/* Throws when tensors in shared memory need more than `most` bytes in one nest; 0: there is no other limit than the
 * target's, to which tn__schedule_func() holds them. CPUs keep them in the workspace, however large. */
void tn__sched_limit_shared(const tn__schedule *s, int64_t most);
const tn__te *tn__schedule_te(const tn__schedule *s);

/* ---- primitives -------------------------------------------------------------------------------------------------- */
/* Splits into factors.count loops, outermost first; at most one factor is 0, "whatever is left" (rounded up; a
 * predicate guards the rest unless it divides). Names of the new loops: "<loop>.0", ... */
void tn__sched_split(tn__schedule *s, const char *loop, const int64_t *factors, int count);
/* Perfectly nested loops, outermost first, each split by its size; what counts tiles goes around what is inside of
 * them. Loops become "<a>.0" "<b>.0" ... "<a>.1" "<b>.1". */
void tn__sched_tile(tn__schedule *s, const char *const *loops, const int64_t *sizes, int count);
void tn__sched_fuse(tn__schedule *s, const char *outer,
                    const char *inner); /* perfectly nested neighbours -> "<outer>+<inner>" */
void tn__sched_reorder(tn__schedule *s, const char *const *loops,
                       int count); /* these take each other's places in this order */
void tn__sched_parallel(tn__schedule *s, const char *loop);
void tn__sched_vectorize(tn__schedule *s, const char *loop);
void tn__sched_unroll(tn__schedule *s, const char *loop);
/* Binds a loop to an axis of a GPU: "block.x", ".y", ".z", "thread.x", ".y", ".z". Iterations must be independent,
 * blocks stand around threads, each axis once on a path, with one extent in a nest, and a block has at most 1024
 * threads. On a CPU the loop runs serially. */
void tn__sched_bind(tn__schedule *s, const char *loop, const char *axis);
/* Asks the loop passes for something: "unroll_limit" statements, "whole" (tn__loop_pragma). Unknown keys are
 * refused. */
void tn__sched_pragma(tn__schedule *s, const char *loop, const char *key, int64_t value);
/* In each iteration of `loop`: fetches what the block will read there `distance` iterations later. A prefetch of a
 * tensor that becomes private, or that the block does not read any more in the end, is dropped. */
void tn__sched_prefetch_block(tn__schedule *s, const char *block, int read_index, const char *loop, int64_t distance);
/* In each iteration of `loop`: fetches what the block will read in the same iteration of it, `distance` iterations of
 * the loop `ahead` around it later: the next panel of an operand while this one is in use. Dropped too when `ahead`
 * does not stand around `loop` any more in the end. */
void tn__sched_prefetch_ahead(tn__schedule *s, const char *block, int read_index, const char *loop, const char *ahead,
                              int64_t distance);
/* In each iteration of `loop`: fetches a share of what the block will read in one whole iteration of the loop `ahead`
 * around it, `distance` of them later, so that all iterations of `loop` in one of `ahead` have fetched it once, evenly:
 * into L2, as it is used much later. Dropped as above, and where what is read does not lie in one piece or an extent is
 * open. */
void tn__sched_prefetch_spread(tn__schedule *s, const char *block, int read_index, const char *loop, const char *ahead,
                               int64_t distance);
/* `rows` around `lanes` are the element-wise block's two innermost loops, 2 to 64 steps each. What the block reads
 * contiguously along `rows`, but neither contiguously nor standing still along `lanes`, is read in vectors along `rows`
 * into registers, "<block>.rows<i>", and the block, unrolled along `rows`, takes vectors along `lanes` out of them: a
 * transposition by shuffles. Nothing may change these loops afterwards. */
void tn__sched_transpose(tn__schedule *s, const char *block, const char *rows, const char *lanes);
/* Makes the block's stores to an output non-temporal where the target can do that (tn__stmt: streams). For whole
 * vectors, side by side, of an output that the kernel does not read; dropped when later steps make it anything else. */
void tn__sched_stream(tn__schedule *s, const char *block, int write_index);
/* Moves the producer block under `loop` of its consumers, computing just the region needed there. */
void tn__sched_compute_at(tn__schedule *s, const char *block, const char *loop);
/* Moves a consumer (an epilogue) under `loop` of its producer, after it: all that the loop's body needs is complete
 * there. */
void tn__sched_reverse_compute_at(tn__schedule *s, const char *block, const char *loop);
/* Gives a block that was moved a nest of its own again, over its whole domain: before the nest it was in, or behind it
 * when it reads what that nest makes. */
void tn__sched_compute_root(tn__schedule *s, const char *block);
/* An element-wise producer into all of its consumers. Refused where a consumer would get more than
 * TN__MOST_INLINED operations by it, counted once for each use: a chain in which each stage reads the one before it
 * twice doubles with every step. The second says so instead of refusing, and leaves the schedule as it is. */
#define TN__MOST_INLINED 2048
void tn__sched_inline(tn__schedule *s, const char *block);
bool tn__sched_inline_if_small(tn__schedule *s, const char *block);
void tn__sched_reverse_inline(tn__schedule *s, const char *block); /* an element-wise consumer into its only producer */
/* The block's output goes to a new buffer of `scope` first and a new block "<block>.write" copies it out. */
void tn__sched_cache_write(tn__schedule *s, const char *block, int write_index, tn__scope scope);
void tn__sched_cache_read(tn__schedule *s, const char *block, int read_index,
                          tn__scope scope); /* new block "<block>.read<i>" */
/* The same where the block casts all that it reads of the tensor to one type: the copy holds what the casts give, so
 * that an element that is read often is cast once. */
void tn__sched_cache_read_cast(tn__schedule *s, const char *block, int read_index, tn__scope scope);
/* The same with the copy's dimensions in another order: its dimension d is dimension order[d] of the tensor. Returns
 * the new block's name. */
const char *tn__sched_cache_read_in_order(tn__schedule *s, const char *block, int read_index, tn__scope scope,
                                          const int *order, int rank);
/* A part of what the block computes, number `index` from the outside in, becomes a tensor over the axes that it depends
 * on, number `last` of them innermost, which a new block makes in front of the block's nest. Not what a condition
 * guards. Returns the new block's name, "<block>.part". */
const char *tn__sched_hoist(tn__schedule *s, const char *block, int index, int last);
/* Splits the reduction over `loop` of a reorderable combiner: block "<block>.rf" reduces per value of loop, `block`
 * combines. */
void tn__sched_rfactor(tn__schedule *s, const char *loop);
/* The same, with the combining done on the way: `place` is `loop` or inside of it, and in each of its iterations
 * "<block>.rf" reduces what is left, behind which `block` takes that up. A block of the reduction at a time, say, with
 * its partial sums in registers. The initialisation of "<block>.rf" is split off where lanes may have no terms. */
void tn__sched_rfactor_at(tn__schedule *s, const char *loop, const char *place);
/* Terms of `loop`, whose block combines them into elements that have their first values already (an accumulation), go
 * into copies of the tensor, one for each iteration: "<block>.rf" makes these, from identities that "<block>.rf.init"
 * writes, and `block` combines them with the first values behind, in order. */
void tn__sched_privatize(tn__schedule *s, const char *loop);
/* The terms of an innermost loop whose number only the run tells, a multiple of `factor` of them apart from the rest:
 * loops "<loop>.0" and "<loop>.1", the latter of `factor` iterations, around the block, under the condition that there
 * are as many, and behind them "<loop>.rest" around a block "<block>.rest". The initialisation stands in front of
 * all. */
void tn__sched_peel(tn__schedule *s, const char *loop, int64_t factor);
/* The reduction's initialisation becomes a block of its own, "<block>.init", just outside of `loop`. */
void tn__sched_decompose_reduction(tn__schedule *s, const char *block, const char *loop);
void tn__sched_set_scope(tn__schedule *s, const char *block, int write_index, tn__scope scope);
/* Pads the block's intermediate tensor so that the stride of dimension `dim`, in elements, is `offset` modulo `factor`:
 * rows that do not fall into the same sets of a cache. */
void tn__sched_storage_align(tn__schedule *s, const char *block, int write_index, int dim, int64_t factor,
                             int64_t offset);
/* The block's intermediate tensor, where it is in the workspace, gets room for what one iteration of `loop` makes, for
 * each iteration of a parallel loop around: the rows of a block of rows, however long they are. All that uses it is
 * under the loop; dropped when that is so no longer. Nobody prefetches it. */
void tn__sched_fold_storage(tn__schedule *s, const char *block, int write_index, const char *loop);
/* The scan's intermediate tensor keeps the last `rows` positions (1 to 64) along the scan's axis: room for these is
 * used again and again. Nobody reads further back; dropped when somebody does in the end. */
void tn__sched_fold_scan(tn__schedule *s, const char *block, int write_index, int64_t rows);
/* The block, which stands under `loop` of its readers, computes a window of its tensor in each iteration, which moves
 * on by less than it is long: what the iteration before has made is kept, in the workspace or on the stack outside of
 * the loop, and only the rest is computed. Dropped when later steps take from it what it needs. */
void tn__sched_slide(tn__schedule *s, const char *block, const char *loop);
/* What a map writes takes the place of the intermediate tensor that it reads as number `read_index`, element by
 * element, and that nobody reads behind it. Dropped when that is so no longer in the end, or the two have other
 * room. */
void tn__sched_store_over(tn__schedule *s, const char *block, int read_index);

/* The caller's promise that an input never changes, so that its layout may. */
void tn__sched_declare_constant(tn__schedule *s, const char *input);
/* An intermediate tensor, which its blocks must divide, or an input that was declared constant, in another layout. The
 * kernel then takes the packed input as a parameter; tn__schedule_packing says how to make it. */
void tn__sched_transform_layout(tn__schedule *s, const char *tensor, const tn__layout *layout);
/* The declaration that packs input `index` of the declaration: the input in, the kernel's parameter out, zeros in what
 * pads the last block. NULL when the kernel takes the input as it is. */
tn__te *tn__schedule_packing(const tn__schedule *s, int index);
/* The declaration with a constant right operand read in panels of columns, as the rule of contractions likes it
 * best: the input becomes `<input>.packed`, and `*packing` makes it, as above. The operand's dimensions are constant,
 * one sum of products reads it, and the last axis of the sum is one of its indices; anything else is thrown. Lives in
 * the declaration's context. */
tn__te *tn__sched_te_prepack(const tn__te *te, const char *input, const tn__target *target, tn__te **packing);

/* Asks for an input or output in another memory of the kernel's device than global (tn__memory_scope), one that devices
 * of the target have. It is a wish: code works in any of them, and planning decides. */
void tn__sched_set_memory(tn__schedule *s, const char *argument, int scope);
/* What was asked for argument `index`: inputs, then outputs. */
tn__memory_scope tn__schedule_memory(const tn__schedule *s, int index);
/* For a target with a second memory: inputs that are read several times, and small enough, unless steps have said what
 * is to be there. */
void tn__sched_choose_memories(tn__schedule *s);

/* An instruction that code generators know, declared by what it computes: a reduction whose loops a schedule may
 * replace. Inputs of the declaration are the operands behind the first, in order; its output is the first. */
typedef struct tn__tensor_intrinsic {
  tn__tensor_op op;
  tn__ability needs; /* of the target */
  tn__te *(*declare)(tn__ir *ir, const struct tn__tensor_intrinsic *intrinsic);
  int64_t rows, columns, depth; /* of a product of matrices, 0 of all else: operands with any strides */
} tn__tensor_intrinsic;

/* Replaces the nest from `loop` on, constant loops around one reduction whose initialisation has been split off, by the
 * instruction of that name. The nest must have the structure of the instruction's declaration: the same expression of
 * operands with the same strides. The order of the reduction inside of it is the instruction's. */
void tn__sched_tensorize(tn__schedule *s, const char *loop, const char *intrinsic);
const tn__tensor_intrinsic *tn__tensor_intrinsic_find(const char *name); /* NULL when there is none of this name */
/* The target's products of matrices into `sum`, of elements of these types; NULL: it has none. */
const tn__tensor_intrinsic *tn__tensor_intrinsic_product(const tn__target *target, tn_dtype sum, tn_dtype left,
                                                         tn_dtype right);

/* Loops around a block, outermost first, into names (at most `capacity`); returns how many there are. */
TN_MUST_USE int tn__sched_loops_of(const tn__schedule *s, const char *block, const char **names, int capacity);
/* The same for an array of TN__MAX_LOOPS names. Rejects a block in fewer than `least` loops. */
void tn__sched_first_loops(tn__schedule *s, const char *block, const char **names, int least);

/* ---- traces ------------------------------------------------------------------------------------------------------ */
TN__LINKED void tn__sched_trace_print(const tn__schedule *s, tn__strbuf *out);
/* What tn__schedule_memory says of the argument once the trace is replayed. */
tn__memory_scope tn__sched_trace_memory(const char *trace, const char *argument);
/* Applies one step, written as a line of a trace; throws when it is refused. Untrusted text. */
void tn__sched_trace_step(tn__schedule *s, const char *line);
/* Applies a printed trace to an unscheduled declaration. Untrusted text. Errors name the line: "trace:4: ...". */
TN_MUST_USE tn_status *tn__sched_trace_replay(const tn__te *te, const tn__target *target, const char *text,
                                              tn__schedule **out);

/* ---- options ----------------------------------------------------------------------------------------------------- */
/* What a schedule may use. 0 everywhere: what the target has. */
typedef struct tn__schedule_options {
  int threads;           /* 1 to 1,024; 0: the target's cores */
  int vector_bytes;      /* a power of two from 16 to the target's */
  int64_t cache_bytes;   /* L2 that one thread may fill: 4 KiB to 1 GiB */
  int registers;         /* vector registers: 4 to the target's */
  int64_t shared_memory; /* bytes that the threads of a block may share at the most, up to 1 GiB */
  bool results_read;     /* other kernels read the outputs soon, so they are worth a place in the caches */
  bool bytes_apart;      /* stages stay those of the declaration: somebody speaks of them */
  int search_space;      /* candidates that the cost function weighs for a kernel: 1 to 1,000,000; 0: 2,000 */
} tn__schedule_options;

/* Replaces the zeros by the target's; what is out of range is TN_INVALID_ARGUMENT. `options` may be NULL. */
TN_MUST_USE tn_status *tn__schedule_options_fill(const tn__schedule_options *options, const tn__target *target,
                                                 tn__schedule_options *out);

/* Do vectors of half the width multiply and add as many elements a cycle? */
bool tn__schedule_halves_are_as_fast(const tn__target *target);
/* The width in elements to which the driver packs a constant right operand's output channels: [n / width][k
 * ...][width]. */
int tn__schedule_pack_width(const tn__target *target, tn_dtype dtype, int64_t columns);
/* The layout in which kernels read a right operand fastest, if it does not change: tn__sched_te_prepack brings
 * declarations into it, and the driver the constants of a graph. False: it has as many dimensions as there may be. */
TN_MUST_USE bool tn__schedule_operand_layout(const tn__target *target, const tn__operand_use *operand, tn__layout *out);
/* The side of the tiles, 2 or 4, in which Winograd's algorithm is the faster way to a 3x3 convolution of stride 1 in
 * f32 with so many images, pixels of the result and channels; 0: the sums of products are (cost.h). */
int tn__schedule_winograd_tile(const tn__target *target, int64_t batch, int64_t height, int64_t width, int64_t in,
                               int64_t out);

#endif
