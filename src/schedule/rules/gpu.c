/* GPUs: every nest's independent loops go to blocks and threads, and reductions stay inside of a thread. */
#include <string.h>

#include "schedule/rules/gpu.h"

/* Fresh names of the arena. */
static const char *named(tn__schedule *s, const char *name, const char *more) {
  return tn__arena_printf(s->arena, "%s%s", name, more);
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

/* Is the extent of one size, whatever other loops do and tensors hold? */
static bool is_even(const tn__schedule *s, const tn__snode *loop) {
  int count;
  const tn__expr *extent = loop->var->extent;
  const uint32_t *ids = tn__expr_vars(extent, &count);
  for (int i = 0; i < count; i++) {
    bool scalar = false;
    for (int d = 0; d < tn__te_dim_count(s->te); d++) scalar |= tn__te_dim_at(s->te, d)->id == ids[i];
    if (!scalar) return false;
  }
  return !tn__expr_has_load(extent);
}

static bool is_free(tn__schedule *s, const char *block, const char *loop) {
  const tn__snode *l = tn__sched_loop(s, "gpu", loop), *b = tn__sched_block(s, "gpu", block);
  return tn__sched_drives(l, b, TN__AXIS_SPATIAL) && !tn__sched_drives(l, b, TN__AXIS_REDUCE) &&
         !tn__sched_drives(l, b, TN__AXIS_SCAN) && is_even(s, l);
}

int tn__rule_gpu_free_loops(tn__schedule *s, const char *block, const char **names) {
  const char *all[TN__MAX_LOOPS], *rest[TN__MAX_LOOPS];
  int count = tn__sched_loops_of(s, block, all, TN__MAX_LOOPS), found = 0, others = 0;
  bool in_order = true;
  for (int i = 0; i < count; i++) {
    if (is_free(s, block, all[i])) {
      in_order = in_order && others == 0;
      names[found++] = all[i];
    } else {
      rest[others++] = all[i];
    }
  }
  for (int i = 0; i < others; i++) all[found + i] = rest[i];
  for (int i = 0; i < found; i++) all[i] = names[i];
  if (!in_order && found > 0) tn__sched_reorder(s, all, count);
  return found;
}

const char *tn__rule_gpu_fuse(tn__schedule *s, const char *block, int count) {
  const char *names[TN__MAX_LOOPS];
  tn__sched_first_loops(s, block, names, count > 1 ? count : 1);
  for (int i = 1; i < count; i++) {
    tn__sched_fuse(s, names[0], names[1]);
    tn__sched_first_loops(s, block, names, 1);
  }
  return names[0];
}

/* The loop in blocks of so many threads. */
static const char *spread(tn__schedule *s, const char *loop, int64_t threads) {
  int64_t extent = tn__rule_loop_extent(s, loop);
  while (extent > 0 && threads / 2 >= extent && threads > 32) threads /= 2;
  tn__sched_split(s, loop, (int64_t[]){0, threads}, 2);
  const char *inner = named(s, loop, ".1");
  tn__sched_bind(s, named(s, loop, ".0"), "block.x");
  tn__sched_bind(s, inner, "thread.x");
  return inner;
}

/* ---- nests in general -------------------------------------------------------------------------------------------- */

/* A reduction's results are kept by the thread, where they have their first values there, too. */
static bool keeps_results(const tn__snode *block) {
  return block->combiner != NULL && block->block.init != NULL && block->block.write_count == 1;
}

static void spread_block(tn__schedule *s, const char *block, int64_t threads) {
  const char *names[TN__MAX_LOOPS];
  int all = tn__sched_loops_of(s, block, names, TN__MAX_LOOPS);
  for (int i = 0; i < all; i++)
    if (tn__sched_loop(s, "gpu", names[i])->kind != TN__LOOP_SERIAL) return; /* it has its place already */
  int count = tn__rule_gpu_free_loops(s, block, names);
  if (count == 0) return;
  bool keeps = keeps_results(tn__sched_block(s, "gpu", block));
  if (keeps) tn__sched_cache_write(s, block, 0, TN__SCOPE_STACK);
  const char *thread = spread(s, tn__rule_gpu_fuse(s, block, count), threads);
  if (keeps) tn__sched_reverse_compute_at(s, named(s, block, ".write"), thread);
}

void tn__rule_gpu_spread(tn__schedule *s, int64_t threads) {
  tn__snodes blocks = {0};
  tn__sched_blocks(s, s->root, &blocks);
  const char **names = TN__NEW_ARRAY(s->arena, blocks.count + 1, const char *);
  for (int i = 0; i < blocks.count; i++) names[i] = blocks.data[i]->name;
  for (int i = 0; i < blocks.count; i++) spread_block(s, names[i], threads);
}

/* A block for each result, around what its partial results begin with and the lanes that they are added up in. */
static void bind_lanes(tn__schedule *s, const char *block, const char *init, const char *lane) {
  const char *own[TN__MAX_LOOPS], *other[TN__MAX_LOOPS];
  int own_count = tn__sched_loops_of(s, block, own, TN__MAX_LOOPS), shared = 0;
  int other_count = tn__sched_loops_of(s, init, other, TN__MAX_LOOPS);
  while (shared < own_count && shared < other_count && strcmp(own[shared], other[shared]) == 0) shared++;
  if (shared == 0 || other_count != shared + 1) tn__sched_refuse(s, "gpu: \"%s\" begins elsewhere", block);
  tn__sched_bind(s, tn__rule_gpu_fuse(s, block, shared), "block.x");
  tn__sched_first_loops(s, init, other, 2);
  tn__sched_bind(s, other[1], "thread.x");
  tn__sched_bind(s, lane, "thread.x");
}

/* Few results of many terms: threads have some terms of each, side by side. */
static void share_terms(tn__schedule *s, const tn__te_stage *stage) {
  enum { WANTED = 1 << 20, MOST_LANES = 8192, LEAST_TERMS = 8, MOST_IN_BLOCK = 64 };
  const char *names[TN__MAX_LOOPS];
  double results = 1;
  if (stage->kind != TN__TE_REDUCE || stage->tensor_count != 1 || stage->step_of != NULL) return;
  int count = tn__sched_loops_of(s, stage->name, names, TN__MAX_LOOPS);
  for (int a = 0; a < stage->axes.count; a++) results *= tn__ir_extent_estimate(stage->axes.var[a]->extent);
  if (count == 0) return;
  const char *terms = names[count - 1];
  const tn__snode *loop = tn__sched_loop(s, "gpu", terms);
  int64_t extent = tn__rule_loop_extent(s, terms), lanes = 1;
  if (!tn__sched_drives(loop, tn__sched_block(s, "gpu", stage->name), TN__AXIS_REDUCE) || !is_even(s, loop)) return;
  while (lanes < MOST_LANES && 2 * (double)lanes * results <= WANTED && 2 * lanes * LEAST_TERMS <= extent) lanes *= 2;
  if (lanes < 32) return;
  const int most = s->target->gpu.threads < MOST_IN_BLOCK ? s->target->gpu.threads : MOST_IN_BLOCK;
  while (count > 1 && lanes > most) lanes /= 2;
  tn__sched_split(s, terms, (int64_t[]){0, lanes}, 2);
  tn__sched_reorder(s, (const char *[]){named(s, terms, ".1"), named(s, terms, ".0")}, 2);
  tn__sched_rfactor(s, named(s, terms, ".1"));
  if (count > 1) bind_lanes(s, named(s, stage->name, ".rf"), named(s, stage->name, ".rf.init"), named(s, terms, ".1"));
}

/* Maps go into their readers; what is left is computed stage by stage. */
static void inline_maps(tn__schedule *s, bool *kept) {
  for (int i = 0; i < tn__te_stage_count(s->te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(s->te, i);
    bool small = stage->kind == TN__TE_COMPUTE && stage->step_of == NULL &&
                 !tn__te_is_output(s->te, stage->tensors[0]) && stage->tensor_count == 1;
    kept[i] = !small || !tn__sched_inline_if_small(s, stage->name);
  }
}

/* Their places in a sketch's values. */
enum { THREADS, SHARED_TERMS };

static void apply_gpu(const tn__sketch *k, const int64_t *v, tn__schedule *s) {
  bool *kept = TN__NEW_ARRAY(s->arena, tn__te_stage_count(s->te) + 1, bool);
  inline_maps(s, kept);
  for (int i = 0; i < tn__te_stage_count(s->te) && v[SHARED_TERMS] != 0; i++) share_terms(s, tn__te_stage_at(s->te, i));
  tn__rule_gpu_spread(s, v[THREADS]);
}

static void open_gpu(tn__sketch *k, tn__schedule *scratch) {
  static const int64_t threads[] = {64, 128, 256, 512, 1024}, shared[] = {0, 1};
  int64_t few = 1;
  int count = 0;
  while (count < 5 && threads[count] <= k->target->gpu.threads) count++;
  while (2 * few <= k->target->gpu.threads) few *= 2; /* of devices that have less than usual */
  tn__sketch_open(k, "threads", count > 0 ? threads : &few, count > 0 ? count : 1);
  k->decisions[tn__sketch_open(k, "shared terms", shared, 2)].late = true; /* what primitives refuse is tried without */
  k->decisions[SHARED_TERMS].orders = true;
}

static double estimate_gpu(const tn__sketch *k, const int64_t *v) {
  return (v[THREADS] > 256 ? (double)v[THREADS] : 512 - (double)v[THREADS]) + (v[SHARED_TERMS] != 0 ? 0 : 1e4);
}

static bool matches_all(const tn__te *te) { return tn__te_stage_count(te) > 0; }

const tn__rule tn__rule_gpu = {.name = "gpu nests",
                               .matches = matches_all,
                               .open = open_gpu,
                               .apply = apply_gpu,
                               .estimate = estimate_gpu,
                               .takes_steps = true,
                               .takes_stored = true};

/* ---- machines ---------------------------------------------------------------------------------------------------- */

double tn__rule_gpu_waves(double blocks) {
  const double processors = 132;
  return blocks < processors ? processors / blocks : 1;
}
