#include "te/layout.h"

tn__layout tn__layout_panels(const tn__operand_use *operand, int64_t width) {
  tn__layout layout = {.rank = 0, .word = operand->word};
  int column = operand->rank - 1;
  for (int i = 0; i <= column; i++) {
    if (i == operand->lead) layout.parts[layout.rank++] = (tn__layout_part){operand->order[column], width, 0};
    bool in_words = operand->word.count != 0 && operand->word.dim == operand->order[i];
    int64_t divisor = in_words ? operand->word.count : 1;
    layout.parts[layout.rank++] = (tn__layout_part){operand->order[i], divisor, i == column ? width : 0};
  }
  return layout;
}

bool tn__layout_equal(const tn__layout *a, const tn__layout *b) {
  if (a->rank != b->rank || a->word.count != b->word.count || (a->word.count != 0 && a->word.dim != b->word.dim))
    return false;
  for (int i = 0; i < a->rank; i++) {
    const tn__layout_part *x = &a->parts[i], *y = &b->parts[i];
    if (x->dim != y->dim || x->divisor != y->divisor || x->modulus != y->modulus) return false;
  }
  return true;
}

tn_dtype tn__layout_stored(const tn__layout *layout, tn_dtype dtype) {
  if (layout->word.count == 0) return dtype;
  bool bytes = dtype == TN_U8 || dtype == TN_I8, halves = bytes || dtype == TN_I16;
  return (bytes && layout->word.count == 4) || (halves && layout->word.count == 2) ? TN_I32 : TN_DTYPE_INVALID;
}

bool tn__layout_is_row_major(const tn__layout *layout, const tn__expr *const *shape) {
  tn__layout_part last = {.dim = -1};
  int64_t count;
  for (int i = 0; i < layout->rank; i++) {
    const tn__layout_part *part = &layout->parts[i];
    const tn__expr *size = shape[part->dim];
    bool divides = part->divisor == 1 || (tn__ir_as_int(size, &count) && count % part->divisor == 0);
    if (part->modulus == 0 && !divides) return false;
    if (tn__ir_is_int_value(size, 1)) continue;
    if (part->dim < last.dim || (part->dim == last.dim && part->divisor > last.divisor)) return false;
    last = *part;
  }
  return layout->word.count == 0 || layout->word.dim >= last.dim;
}

/* ---- what a layout must be --------------------------------------------------------------------------------------- */

/* The part of `dim` that starts at `divisor`; -1 when there is none. */
static int part_at(const tn__layout *layout, int dim, int64_t divisor) {
  for (int i = 0; i < layout->rank; i++)
    if (layout->parts[i].dim == dim && layout->parts[i].divisor == divisor) return i;
  return -1;
}

const char *tn__layout_fault(tn__arena *arena, const tn__layout *layout, int rank) {
  int used = 0;
  if (layout->rank < 1 || layout->rank > TN__MAX_RANK)
    return tn__arena_printf(arena, "a layout has 1 to %d parts", TN__MAX_RANK);
  for (int i = 0; i < layout->rank; i++) {
    const tn__layout_part *part = &layout->parts[i];
    if (part->dim < 0 || part->dim >= rank) return tn__arena_printf(arena, "it has no dimension %d", part->dim);
    if (part->divisor < 1 || part->divisor > 1 << 20 || part->modulus < 0 || part->modulus == 1 ||
        part->modulus > 1 << 20)
      return tn__arena_printf(arena, "part %d has a divisor or modulus out of range", i);
  }
  if (layout->word.count != 0 && (layout->word.dim < 0 || layout->word.dim >= rank))
    return tn__arena_printf(arena, "it has no dimension %d", layout->word.dim);
  if (layout->word.count < 0 || layout->word.count == 1 || layout->word.count > 1 << 20)
    return "a word is of two elements or more";
  for (int d = 0; d < rank; d++) { /* from the finest part up */
    int64_t divisor = layout->word.count != 0 && layout->word.dim == d ? layout->word.count : 1, modulus = 1;
    while (modulus != 0) {
      int part = part_at(layout, d, divisor);
      if (part < 0 || used == layout->rank)
        return tn__arena_printf(arena, "the parts of dimension %d leave a gap or never end", d);
      modulus = layout->parts[part].modulus;
      divisor *= modulus;
      used++;
      if (divisor > 1 << 20) return tn__arena_printf(arena, "blocks of dimension %d are too large", d);
    }
  }
  return used == layout->rank ? NULL : "its parts overlap";
}

/* ---- indices and sizes ------------------------------------------------------------------------------------------- */

static const tn__expr *part_of(tn__ir *ir, const tn__expr *e, const tn__layout_part *part) {
  if (part->divisor != 1) e = tn__ir_div_i(ir, e, part->divisor);
  return part->modulus == 0 ? e : tn__ir_mod_i(ir, e, part->modulus);
}

void tn__layout_map(tn__ir *ir, const tn__layout *layout, const tn__expr *const *indices, const tn__expr **out) {
  for (int i = 0; i < layout->rank; i++) out[i] = part_of(ir, indices[layout->parts[i].dim], &layout->parts[i]);
}

void tn__layout_shape(tn__ir *ir, const tn__layout *layout, const tn__expr *const *shape, const tn__expr **out) {
  for (int i = 0; i < layout->rank; i++) {
    const tn__layout_part *part = &layout->parts[i];
    out[i] = part->modulus != 0 ? tn__ir_index(ir, part->modulus)
                                : tn__ir_ceildiv(ir, shape[part->dim], tn__ir_index(ir, part->divisor));
  }
}

const tn__expr *tn__layout_whole(tn__ir *ir, const tn__layout *layout, int dim, const tn__expr *size) {
  for (int i = 0; i < layout->rank; i++) {
    const tn__layout_part *part = &layout->parts[i];
    if (part->dim == dim && part->modulus == 0 && part->divisor > 1)
      return tn__ir_mul_i(ir, tn__ir_ceildiv(ir, size, tn__ir_index(ir, part->divisor)), part->divisor);
  }
  return size;
}

/* ---- storing ----------------------------------------------------------------------------------------------------- */

typedef struct source {
  const tn__buffer *buffer;
  const tn__layout *held; /* NULL: row-major */
  const tn__expr *const *shape;
  int rank;
} source;

/* What is stored of the element of these indices, or zero when there is none. */
static const tn__expr *stored_at(tn__ir *ir, const source *s, const tn__expr *const *indices) {
  const tn__expr *places[TN__MAX_RANK], *inside = tn__ir_bool(ir, true);
  for (int d = 0; d < s->rank; d++) inside = tn__ir_and(ir, inside, tn__ir_lt(ir, indices[d], s->shape[d]));
  if (s->held != NULL) tn__layout_map(ir, s->held, indices, places);
  const tn__expr *element = tn__ir_load(ir, s->buffer, s->held != NULL ? places : indices);
  return tn__ir_select(ir, inside, element, tn__ir_constant(ir, s->buffer->dtype, 0));
}

/* The word that begins at these indices, of bytes or of numbers of 16 bits that are stored one by one. */
static const tn__expr *word_at(tn__ir *ir, const source *s, const tn__layout_word *word,
                               const tn__expr *const *indices) {
  const tn__expr *at[TN__MAX_RANK], *value = NULL;
  for (int d = 0; d < s->rank; d++) at[d] = indices[d];
  for (int i = 0; i < (int)word->count; i++) {
    at[word->dim] = tn__ir_add_i(ir, indices[word->dim], i);
    const tn__expr *part = tn__ir_cast(ir, word->count == 2 ? TN_U16 : TN_U8, stored_at(ir, s, at));
    const tn__expr *shift = tn__ir_int(ir, TN_I32, 32 / word->count * (int64_t)i);
    part = tn__ir_binary(ir, TN__EXPR_SHL, tn__ir_cast(ir, TN_I32, part), shift);
    value = value == NULL ? part : tn__ir_binary(ir, TN__EXPR_OR, value, part);
  }
  return value;
}

const tn__buffer *tn__te_in_layout(tn__te *te, const char *name, const tn__buffer *from, const tn__layout *held,
                                   const tn__expr *const *shape, const tn__layout *layout) {
  tn__ir *ir = tn__te_ir(te);
  const tn__expr *stored[TN__MAX_RANK], *indices[TN__MAX_RANK];
  source s = {.buffer = from, .held = held, .shape = shape, .rank = 0};
  for (int i = 0; i < layout->rank; i++)
    if (layout->parts[i].dim >= s.rank) s.rank = layout->parts[i].dim + 1;
  tn__layout_shape(ir, layout, shape, stored);
  tn__te_axes axes = tn__te_axes_create(te, "i", layout->rank, stored);
  for (int d = 0; d < TN__MAX_RANK; d++) indices[d] = tn__ir_index(ir, 0);
  for (int i = 0; i < layout->rank; i++) {
    const tn__layout_part *part = &layout->parts[i];
    indices[part->dim] = tn__ir_add(ir, indices[part->dim], tn__ir_mul_i(ir, axes.index[i], part->divisor));
  }
  bool makes_words = layout->word.count != 0 && (held == NULL || held->word.count == 0);
  const tn__expr *value = makes_words ? word_at(ir, &s, &layout->word, indices) : stored_at(ir, &s, indices);
  return tn__te_compute(te, name, &axes, value);
}

void tn__layout_print(const tn__layout *layout, tn__strbuf *out) {
  for (int i = 0; i < layout->rank; i++) {
    const tn__layout_part *part = &layout->parts[i];
    tn__strbuf_printf(out, "%s%d", i > 0 ? ", " : "", part->dim);
    if (part->divisor != 1) tn__strbuf_printf(out, "/%lld", (long long)part->divisor);
    if (part->modulus != 0) tn__strbuf_printf(out, "%%%lld", (long long)part->modulus);
  }
  if (layout->word.count != 0) tn__strbuf_printf(out, " | %d%%%lld", layout->word.dim, (long long)layout->word.count);
}
