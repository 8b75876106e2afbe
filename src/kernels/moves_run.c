/* Moves as they run.
 *
 * The innermost loops are two: along the result, whose elements lie side by side there, and along the operand. Between
 * them a block of both fits into L1, so that each line is read and written once; elements of 4 bytes are
 * transposed 4x4 in registers. What is around is sorted by how far it moves the operand, the farthest outermost. */
#include <stdbool.h>
#include <string.h>

#include "kernels/moves.h"

enum { BLOCK = 32, COPIED = 4096, SIDE = 4 }; /* elements: of a row in a block, where rows are copied, of a square */

typedef struct walk {
  const tn__move *move;
  char *result;
  const char *from;
  const char *scale;         /* NULL: none */
  tn__move_axis row, column; /* along the result, and along the operand */
  tn__move_axis outer[TN__MAX_RANK + 1];
  int outer_count;
  int64_t block; /* elements of the row that a block has at most; outer[0] goes from one to the next */
} walk;

/* ---- one block --------------------------------------------------------------------------------------------------- */

typedef float vector __attribute__((vector_size(SIDE * sizeof(float))));

static void transpose_square(char *to, int64_t to_stride, const char *from, int64_t from_stride) {
  vector r[SIDE];
  for (int i = 0; i < SIDE; i++) memcpy(&r[i], from + i * from_stride, sizeof(vector));
  vector a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5), b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
  vector c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7), d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  vector out[SIDE] = {__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7),
                      __builtin_shufflevector(c, d, 0, 1, 4, 5), __builtin_shufflevector(c, d, 2, 3, 6, 7)};
  for (int i = 0; i < SIDE; i++) memcpy(to + i * to_stride, &out[i], sizeof(vector));
}

#define TN__MOVE_ELEMENTS(type)                                     \
  for (int64_t p = 0; p < columns; p++)                             \
    for (int64_t i = 0; i < rows; i++)                              \
  memcpy(to + (p * column_to + i * row_to) * (int64_t)sizeof(type), \
         from + (p * column_from + i * row_from) * (int64_t)sizeof(type), sizeof(type))

/* `rows` along the result, `columns` along the operand. */
static void move_elements(const walk *w, char *to, const char *from, int64_t rows, int64_t columns) {
  int64_t row_to = w->row.to, row_from = w->row.from, column_to = w->column.to, column_from = w->column.from;
  switch (w->move->element) {
    case 1: TN__MOVE_ELEMENTS(uint8_t); break;
    case 2: TN__MOVE_ELEMENTS(uint16_t); break;
    case 4: TN__MOVE_ELEMENTS(uint32_t); break;
    default: TN__MOVE_ELEMENTS(uint64_t); break;
  }
}

static void move_block(const walk *w, char *to, const char *from, int64_t rows) {
  int64_t element = w->move->element, columns = w->column.extent, square_rows = 0, square_columns = 0;
  if (w->row.from == 1 && w->row.to == 1) {
    for (int64_t p = 0; p < columns; p++)
      memcpy(to + p * w->column.to * element, from + p * w->column.from * element, (size_t)(rows * element));
    return;
  }
  if (element == sizeof(float) && w->row.to == 1 && w->column.from == 1) {
    square_rows = rows / SIDE * SIDE, square_columns = columns / SIDE * SIDE;
    for (int64_t p = 0; p < square_columns; p += SIDE)
      for (int64_t i = 0; i < square_rows; i += SIDE)
        transpose_square(to + (p * w->column.to + i) * element, w->column.to * element,
                         from + (p + i * w->row.from) * element, w->row.from * element);
    move_elements(w, to + square_columns * w->column.to * element, from + square_columns * element, square_rows,
                  columns - square_columns);
  }
  move_elements(w, to + square_rows * w->row.to * element, from + square_rows * w->row.from * element,
                rows - square_rows, columns);
}

static void scale_elements(char *to, int64_t step, float factor, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    float value;
    memcpy(&value, to + i * step, sizeof(value));
    value *= factor;
    memcpy(to + i * step, &value, sizeof(value));
  }
}

static void scale_block(const walk *w, char *to, const char *scale, int64_t rows) {
  const int64_t element = sizeof(float);
  bool along = w->row.scale == 0; /* one factor for each row */
  const tn__move_axis *outer = along ? &w->column : &w->row, *inner = along ? &w->row : &w->column;
  int64_t outer_count = along ? outer->extent : rows, inner_count = along ? rows : inner->extent;
  for (int64_t i = 0; i < outer_count; i++) {
    float factor;
    char *at = to + i * outer->to * element;
    const char *factors = scale + i * outer->scale * element;
    memcpy(&factor, factors, sizeof(factor));
    if (inner->scale == 0 && inner->to == 1) {
      scale_elements(at, element, factor, inner_count);
      continue;
    }
    for (int64_t k = 0; k < inner_count; k++) {
      memcpy(&factor, factors + k * inner->scale * element, sizeof(factor));
      scale_elements(at + k * inner->to * element, 0, factor, 1);
    }
  }
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

typedef struct position {
  int64_t at[TN__MAX_RANK + 1];
  int64_t to, from, scale; /* elements */
} position;

static void go_to(const walk *w, position *p, int64_t block) {
  *p = (position){.from = w->move->from_offset, .scale = w->move->scale_offset};
  for (int i = w->outer_count - 1; i >= 0; i--) {
    const tn__move_axis *axis = &w->outer[i];
    p->at[i] = block % axis->extent;
    block /= axis->extent;
    p->to += p->at[i] * axis->to, p->from += p->at[i] * axis->from, p->scale += p->at[i] * axis->scale;
  }
}

static void step(const walk *w, position *p) {
  for (int i = w->outer_count - 1; i >= 0; i--) {
    const tn__move_axis *axis = &w->outer[i];
    p->to += axis->to, p->from += axis->from, p->scale += axis->scale;
    if (++p->at[i] < axis->extent) return;
    p->at[i] = 0;
    p->to -= axis->extent * axis->to, p->from -= axis->extent * axis->from, p->scale -= axis->extent * axis->scale;
  }
}

static int32_t run_blocks(const tn_kernel_env *env, void *closure, int64_t begin, int64_t end) {
  const walk *w = closure;
  int64_t element = w->move->element;
  position p;
  go_to(w, &p, begin);
  for (int64_t block = begin; block < end; block++, step(w, &p)) {
    int64_t rest = w->row.extent - p.at[0] * w->block; /* the blocks of a row are the outermost loop */
    int64_t rows = rest < w->block ? rest : w->block;
    move_block(w, w->result + p.to * element, w->from + p.from * element, rows);
    if (w->scale != NULL) scale_block(w, w->result + p.to * element, w->scale + p.scale * element, rows);
  }
  return TN_KERNEL_OK;
}

static tn__move_axis take_axis(tn__move_axis *axes, int *count, int index) {
  tn__move_axis axis = axes[index];
  (*count)--;
  memmove(&axes[index], &axes[index + 1], sizeof(axis) * (size_t)(*count - index));
  return axis;
}

static void arrange(walk *w) {
  const tn__move *m = w->move;
  tn__move_axis axes[TN__MAX_RANK], single = {1, 0, 0, 0};
  int count = (int)m->rank, nearest = -1;
  memcpy(axes, m->axes, sizeof(axes[0]) * (size_t)count);
  w->row = count > 0 ? take_axis(axes, &count, count - 1) : single;
  for (int i = 0; i < count; i++)
    if (axes[i].from > 0 && (nearest < 0 || axes[i].from < axes[nearest].from)) nearest = i;
  w->column = nearest < 0 ? single : take_axis(axes, &count, nearest);
  int64_t block = w->row.from == 1 && w->row.to == 1 ? COPIED : BLOCK;
  w->block = block;
  w->outer[0] = (tn__move_axis){(w->row.extent + block - 1) / block, w->row.to * block, w->row.from * block,
                                w->row.scale * block};
  w->outer_count = 1;
  for (; count > 0; w->outer_count++) {
    int farthest = 0;
    for (int i = 1; i < count; i++)
      if (axes[i].from > axes[farthest].from) farthest = i;
    w->outer[w->outer_count] = take_axis(axes, &count, farthest);
  }
}

static void fill_result(const tn__move *m, char *result) {
  for (int64_t i = 0; i < m->padded; i++) memcpy(result + i * m->element, &m->fill, (size_t)m->element);
}

int32_t tn__move_run(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  const tn__move *m = (const void *)scalars;
  walk w = {.move = m, .result = buffers[m->inputs], .from = buffers[m->from]};
  if (m->scale >= 0) w.scale = buffers[m->scale];
  arrange(&w);
  fill_result(m, w.result);
  int64_t blocks = 1;
  for (int i = 0; i < w.outer_count; i++) blocks *= w.outer[i].extent;
  return env->parallel_for(env, run_blocks, &w, blocks);
}
