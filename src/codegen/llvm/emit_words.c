/* Words of several narrow numbers: what shifts and ors put together of neighbours is one vector of the numbers. */
#include "codegen/llvm/arch.h"

enum { MOST_PARTS = 8, MOST_NUMBERS = 1024 };

typedef struct parts {
  const tn__expr *part[MOST_PARTS];
  int bits; /* of each; 0: none was seen yet */
} parts;

/* Collects the numbers of `a | b << 8 | c << 16 | ...`, each a number without a sign that was widened. */
TN_MUST_USE static bool collect(const tn__expr *e, parts *out) {
  int64_t shift = 0;
  if (e->kind == TN__EXPR_OR) return collect(e->args[0], out) && collect(e->args[1], out);
  if (e->kind == TN__EXPR_SHL) {
    if (!tn__ir_as_int(e->args[1], &shift)) return false;
    e = e->args[0];
  }
  if (e->kind != TN__EXPR_CAST || (e->args[0]->dtype != TN_U8 && e->args[0]->dtype != TN_U16)) return false;
  int bits = tn__dtype_bits(e->args[0]->dtype);
  if (out->bits == 0) out->bits = bits;
  if (out->bits != bits || shift < 0 || shift % bits != 0 || shift / bits >= MOST_PARTS) return false;
  if (out->part[shift / bits] != NULL) return false;
  out->part[shift / bits] = e->args[0];
  return true;
}

typedef struct merging {
  tn__cg *cg;
  const tn__var *place; /* counts the numbers of all lanes */
  int count;            /* of numbers in a word */
} merging;

static const tn__expr *merged(const merging *m, const tn__expr *const *e);

/* An index that moves on by one from number to number, and by a word from lane to lane. */
static const tn__expr *merged_index(const merging *m, const tn__expr *const *e) {
  tn__ir *ir = m->cg->ir;
  const tn__var *lane = m->cg->frame->lane;
  int64_t stride;
  if (!tn__ir_stride_in(ir, e[0], lane, &stride) || stride != m->count) return NULL;
  for (int i = 1; i < m->count; i++)
    if (!tn__ir_is_int_value(tn__ir_sub(ir, e[i], e[0]), i)) return NULL;
  return tn__ir_add(ir, tn__ir_substitute(ir, e[0], &lane, &lane->min, 1), m->place->self);
}

static bool is_alike(const tn__expr *a, const tn__expr *b) {
  if (a->kind != b->kind || a->dtype != b->dtype || a->arg_count != b->arg_count) return false;
  if (a->kind == TN__EXPR_LOAD) return a->value.buffer == b->value.buffer;
  return a->kind != TN__EXPR_CALL || a->intrinsic == b->intrinsic;
}

/* The one expression of the place whose values are those of all `e`, number by number; NULL: there is none. */
static const tn__expr *merged(const merging *m, const tn__expr *const *e) {
  enum { MOST_ARGS = 16 };
  const tn__expr *args[MOST_ARGS], *same[MOST_PARTS];
  bool equal = true;
  for (int i = 1; i < m->count; i++) equal &= e[i] == e[0];
  if (equal) return tn__expr_uses_var(e[0], m->cg->frame->lane) ? NULL : e[0];
  if (e[0]->dtype == TN_I64 && !tn__expr_has_load(e[0])) return merged_index(m, e);
  for (int i = 1; i < m->count; i++)
    if (!is_alike(e[0], e[i])) return NULL;
  if (e[0]->arg_count == 0 || e[0]->arg_count > MOST_ARGS) return NULL;
  for (int a = 0; a < e[0]->arg_count; a++) {
    for (int i = 0; i < m->count; i++) same[i] = e[i]->args[a];
    args[a] = merged(m, same);
    if (args[a] == NULL) return NULL;
  }
  return tn__expr_with_args(m->cg->ir, e[0], args);
}

typedef struct check {
  tn__cg *cg;
  const tn__var *place;
  bool plain;
} check;

/* Neither values that have lanes already nor elements that are held in registers may stand in it. */
static void see(check *c, const tn__expr *e) {
  if (e->kind == TN__EXPR_VAR && e->value.var != c->place) {
    const tn__cg_binding *binding = tn__cg_find(c->cg, e->value.var);
    c->plain &= binding != NULL && binding->value.lanes == 1;
  }
  if (e->kind == TN__EXPR_LOAD) c->plain &= tn__cg_storage_of(c->cg, e->value.buffer)->slots == NULL;
  for (int i = 0; i < e->arg_count && c->plain; i++) see(c, e->args[i]);
}

bool tn__cg_packed(tn__cg *cg, const tn__expr *e, tn__cg_words *out) {
  parts p = {.bits = 0};
  int bits = tn__dtype_bits(e->dtype);
  if (cg->frame->lane == NULL || cg->frame->lanes < 2 || cg->frame->word > 0 || e->kind != TN__EXPR_OR) return false;
  if (tn__dtype_is_float(e->dtype) || !collect(e, &p)) return false;
  merging m = {.cg = cg, .count = bits / p.bits};
  for (int i = 0; i < MOST_PARTS; i++)
    if ((p.part[i] == NULL) != (i >= m.count)) return false;
  int64_t all = (int64_t)m.count * cg->frame->lanes;
  if (all > MOST_NUMBERS) return false;
  m.place = tn__var_create(cg->ir, "place", TN_I64, tn__ir_index(cg->ir, 0), tn__ir_index(cg->ir, all));
  *out = (tn__cg_words){.number = merged(&m, p.part), .place = m.place, .count = m.count};
  check c = {.cg = cg, .place = m.place, .plain = true};
  if (out->number != NULL) see(&c, out->number);
  return out->number != NULL && c.plain;
}

bool tn__cg_is_distance(const tn__expr *e, const tn__expr **sides) {
  if (e->kind != TN__EXPR_SUB || e->dtype != TN_U8) return false;
  const tn__expr *a = e->args[0], *b = e->args[1];
  if (a->kind != TN__EXPR_MAX || b->kind != TN__EXPR_MIN) return false;
  sides[0] = a->args[0];
  sides[1] = a->args[1];
  return (b->args[0] == sides[0] && b->args[1] == sides[1]) || (b->args[0] == sides[1] && b->args[1] == sides[0]);
}
