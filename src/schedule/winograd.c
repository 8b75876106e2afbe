/* Whether a 3x3 convolution of stride 1 should be declared by Winograd's algorithm. Closed expressions over the sizes
 * and the target, as everywhere in the cost function: what the products cost, and what the transforms carry between
 * caches. Weights count as coming from memory, since a network is larger than a cache; that decides against tiles where
 * few of them meet large weights, which the transform makes (tile + 2)^2 / 9 times as large. The tile decides what is
 * added to what, so the number of threads has no say in it: the estimate is for as many as memory serves as fast as
 * each of them can ask. */
#include <math.h>

#include "schedule/heuristics.h"
#include "schedule/schedule.h"

typedef struct machine {
  const tn__target *target;
  double threads, lanes;
} machine;

/* Bytes a cycle of one core for a tensor that is written and read again. */
static double rate_of(const machine *m, double bytes) {
  const tn__core *core = &m->target->cpu.machine.core;
  if (bytes < TN__RULE_STAYS * (double)m->target->cpu.machine.l2_bytes) return core->l2_bytes;
  return bytes < TN__RULE_STAYS * (double)m->target->cpu.machine.l3_bytes ? core->l3_bytes : core->memory_bytes;
}

/* The larger of arithmetic and the weights' way from memory, a part for each thread. */
static double product_cycles(const machine *m, double rows, double in, double out, double weight_bytes) {
  double columns = ceil(out / m->lanes) * m->lanes;
  double work = rows * in * columns / (m->target->cpu.machine.core.fma_bytes / 4.0) / m->threads;
  double fetch = weight_bytes / m->target->cpu.machine.core.memory_bytes / m->threads;
  return fmax(work, fetch) + TN__RULE_WEIGHTS_UNHIDDEN * fmin(work, fetch);
}

static double tiled_cycles(const machine *m, double tile, double batch, double height, double width, double in,
                           double out) {
  double positions = (tile + 2) * (tile + 2), tiles = batch * ceil(height / tile) * ceil(width / tile);
  double into = positions * tiles * in * 4, back = positions * tiles * out * 4;
  double pixels = batch * (height + 2) * (width + 2) * in * 4 * 2 + batch * height * width * out * 4;
  double cycles = product_cycles(m, positions * tiles, in, out, positions * in * out * 4);
  /* A line of tile + 2 takes some 2 operations an element; there are twice as many lines as positions in a line. */
  double lanes_in = ceil(in / m->lanes) * m->lanes, lanes_out = ceil(out / m->lanes) * m->lanes;
  double arithmetic = 4 * positions * tiles * (lanes_in + lanes_out) / (m->target->cpu.machine.core.fma_bytes / 4.0);
  /* Written by one kernel, read by the next. */
  double moved = 2 * into / rate_of(m, into) + 2 * back / rate_of(m, back) + pixels / rate_of(m, pixels);
  double kernels = 2 * TN__RULE_KERNEL_START; /* two more to start */
  return cycles + fmax(arithmetic, moved) / m->threads + kernels;
}

int tn__schedule_winograd_tile(const tn__target *target, int64_t batch, int64_t height, int64_t width, int64_t in,
                               int64_t out) {
  const tn__target table = tn__target_of_table(target);
  const machine m = {&table, table.cpu.machine.costs.memory_cores, target->cpu.vector_bytes / 4.0};
  double n = (double)batch, h = (double)height, w = (double)width, i = (double)in, o = (double)out;
  double best = TN__RULE_WORTH_A_TILE * product_cycles(&m, 9 * n * h * w, i, o, 36 * i * o);
  int tile = 0;
  for (int t = 2; t <= 4; t += 2) {
    double cycles = tiled_cycles(&m, t, n, h, w, i, o);
    if (cycles < best) {
      best = TN__RULE_WORTH_A_TILE * cycles;
      tile = t;
    }
  }
  return tile;
}
