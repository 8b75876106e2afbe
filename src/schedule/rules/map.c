/* Fused element-wise work: broadcasts, transpositions, padding, gathers, concatenation by select. Every intermediate
 * map goes into its readers; each remaining stage is one nest of contiguous vector loops. */
#include "schedule/rules/rules.h"

static bool matches(const tn__te *te) {
  for (int i = 0; i < tn__te_stage_count(te); i++)
    if (tn__te_stage_at(te, i)->kind != TN__TE_COMPUTE) return false;
  return true;
}

/* Their places in a sketch's values. */
enum { VECTOR_BYTES, UNROLL, STREAM };

static void open_map(tn__sketch *k, tn__schedule *scratch) {
  static const int64_t unrolls[] = {1, 2, 4, 8};
  int64_t widths[TN__MAX_CHOICES];
  int n = 0;
  tn__plain_open(k, scratch);
  for (int64_t w = 16; w <= k->options.vector_bytes; w *= 2) widths[n++] = w;
  tn__sketch_open(k, "vector bytes", widths, n);
  tn__sketch_open(k, "unroll", unrolls, 4);
  tn__rule_open_stream(k);
}

static const tn__nest *map_features(const tn__sketch *k, const int64_t *v, tn__sketch_features *f) {
  f->streams = v[STREAM] != 0;
  const tn__nest *nest = tn__plain_features(k, (int)v[VECTOR_BYTES], v[UNROLL], 1, f);
  f->extra_cycles += f->iterations / TN__RULE_TURNS_PER_CYCLE_LOST;
  return nest;
}

static void apply(const tn__sketch *k, const int64_t *values, tn__schedule *s) {
  int count = tn__te_stage_count(s->te);
  bool *kept = TN__NEW_ARRAY(s->arena, count, bool);
  for (int i = 0; i < count; i++) {
    const tn__te_stage *stage = tn__te_stage_at(s->te, i);
    kept[i] = tn__te_is_output(s->te, stage->tensors[0]) || !tn__sched_inline_if_small(s, stage->name);
  }
  for (int i = 0; i < count; i++) {
    const tn__te_stage *stage = tn__te_stage_at(s->te, i);
    if (!kept[i]) continue;
    tn__rule_hoist_parts(s, stage->name, &k->options);
    if (count == 1 || !tn__rule_turn_map(s, stage->name, &k->options))
      tn__rule_nest_in(s, stage->name, &k->options, values[VECTOR_BYTES], values[UNROLL]);
    if (values[STREAM] && tn__te_is_output(s->te, stage->tensors[0])) tn__rule_stream(s, stage->name);
  }
}

const tn__rule tn__rule_map = {"direct compute", matches, open_map, map_features, apply};
