/* What threads fetch into shared memory: neighbours in one piece of up to 16 bytes, where all of them are there and
 * they lie evenly. */
#include "codegen/c/emit.h"

typedef struct piece {
  const tn__stmt *store;
  const tn__expr *load, *condition; /* NULL: none */
  int64_t lanes, bytes;
} piece;

static bool is_zero(const tn__expr *e) {
  return (e->kind == TN__EXPR_FLOAT && e->value.f == 0) || (e->kind == TN__EXPR_INT && e->value.i == 0);
}

/* Once it does not hold along the lanes, or until it does, that stays so: what holds at both ends holds between. */
static bool is_even(tn__ir *ir, const tn__expr *e, const tn__var *lane) {
  int64_t stride;
  if (!tn__expr_uses_var(e, lane)) return !tn__expr_has_load(e);
  if (e->kind == TN__EXPR_AND) return is_even(ir, e->args[0], lane) && is_even(ir, e->args[1], lane);
  if (e->kind != TN__EXPR_LT && e->kind != TN__EXPR_LE) return false;
  for (int i = 0; i < 2; i++)
    if (e->args[i]->dtype != TN_I64 || tn__expr_has_load(e->args[i]) ||
        !tn__ir_stride_in(ir, e->args[i], lane, &stride))
      return false;
  return true;
}

TN_MUST_USE static bool find_piece(const tn__cc *cc, const tn__stmt *s, piece *out) {
  enum { MOST = 16, LEAST = 4 };
  const tn__stmt *store = s->as.loop.body;
  const tn__var *lane = s->as.loop.var;
  int64_t stride;
  if (store->kind != TN__STMT_STORE || !tn__ir_is_int_value(lane->min, 0) || !tn__ir_as_int(lane->extent, &out->lanes))
    return false;
  const tn__buffer *to = store->as.store.buffer;
  const tn__expr *value = store->as.store.value;
  out->store = store;
  out->condition = NULL;
  out->bytes = out->lanes * (int64_t)tn_dtype_size(to->dtype);
  if (to->scope != TN__SCOPE_SHARED || out->bytes < LEAST || out->bytes > MOST || (out->bytes & (out->bytes - 1)) != 0)
    return false;
  if (value->kind == TN__EXPR_SELECT) {
    if (!is_zero(value->args[2]) || !is_even(cc->ir, value->args[0], lane)) return false;
    out->condition = value->args[0];
    value = value->args[1];
  }
  if (value->kind != TN__EXPR_LOAD || value->value.buffer->scope != TN__SCOPE_PARAM) return false;
  out->load = value;
  const tn__expr *place = tn__cc_place(cc, to, store->as.store.indices), *zero = tn__ir_index(cc->ir, 0);
  const tn__expr *from = tn__cc_place(cc, value->value.buffer, value->args);
  if (tn__expr_has_load(from) || !tn__ir_stride_in(cc->ir, from, lane, &stride) || stride != 1) return false;
  if (!tn__ir_stride_in(cc->ir, place, lane, &stride) || stride != 1) return false;
  place = tn__ir_substitute(cc->ir, place, &lane, &zero, 1);
  return tn__ir_is_int_value(tn__ir_mod_i(cc->ir, place, out->lanes), 0);
}

bool tn__cc_is_copy(const tn__cc *cc, const tn__stmt *s) {
  piece p;
  return find_piece(cc, s, &p);
}

bool tn__cc_copy(tn__cc *cc, const tn__stmt *s) {
  piece p;
  if (!cc->dialect->matrices || cc->launch == NULL || !find_piece(cc, s, &p)) return false;
  const tn__var *lane = s->as.loop.var;
  const tn__expr *ends[] = {tn__ir_index(cc->ir, 0), tn__ir_index(cc->ir, p.lanes - 1)};
  const tn__buffer *to = p.store->as.store.buffer, *from = p.load->value.buffer;
  const tn__expr *target = tn__ir_substitute(cc->ir, tn__cc_place(cc, to, p.store->as.store.indices), &lane, ends, 1);
  const tn__expr *source = tn__ir_substitute(cc->ir, tn__cc_place(cc, from, p.load->args), &lane, ends, 1);
  const char *all = NULL;
  if (p.condition != NULL) {
    const tn__expr *first = tn__ir_substitute(cc->ir, p.condition, &lane, &ends[0], 1);
    const tn__expr *last = tn__ir_substitute(cc->ir, p.condition, &lane, &ends[1], 1);
    all = tn__cc_named(cc, "int", tn__cc_whole(cc, tn__ir_and(cc->ir, first, last)));
  }
  const char *into = TN__CC_TEXT(cc, "&%s[%s]", tn__cc_buffer_name(cc, to), tn__cc_whole(cc, target));
  const char *out_of = TN__CC_TEXT(cc, "&%s[%s]", tn__cc_buffer_name(cc, from), tn__cc_whole(cc, source));
  const char *piece_name = TN__CC_TEXT(cc, "p%d", cc->temps++);
  tn__cc_line(cc, "const void *const %s = %s;", piece_name, out_of);
  tn__cc_open(cc, "if (%s%stn_is_even(%s, %lld))", all != NULL ? all : "", all != NULL ? " && " : "", piece_name,
              (long long)p.bytes);
  tn__cc_line(cc, "tn_copy_%s%lld(%s, %s);", cc->asynchronous ? "later_" : "", (long long)p.bytes, into, piece_name);
  cc->indent--;
  tn__cc_open(cc, "} else");
  tn__cc_plain_loop(cc, s);
  tn__cc_close(cc);
  return true;
}
