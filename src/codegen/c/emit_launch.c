/* Functions for GPUs: each nest becomes a kernel of its own, and what stands around it, in front of blocks, stands in
 * each of them. All threads of a block run through what is outside of loops over threads; the first one alone stores
 * there. */
#include "codegen/c/emit.h"

/* ---- the shape of a launch --------------------------------------------------------------------------------------- */

typedef struct shape {
  tn__cc *cc;
  tn__launch *launch;
  bool blocks; /* loops over blocks may stand here */
  int found;   /* loops over blocks, and what is beside them */
} shape;

static bool is_of_scalars(const tn__cc *cc, const tn__expr *e) {
  int count;
  const uint32_t *ids = tn__expr_vars(e, &count);
  for (int i = 0; i < count; i++) {
    bool known = false;
    for (int k = 0; k < cc->func->scalar_count; k++) known |= cc->func->scalars[k]->id == ids[i];
    if (!known) return false;
  }
  return !tn__expr_has_load(e);
}

static void see_axis(shape *p, const tn__stmt *s) {
  tn__loop_kind kind = s->as.loop.kind;
  const tn__expr *extent = s->as.loop.var->extent;
  tn__launch *launch = p->launch;
  int64_t threads;
  if (tn__ir_loop_is_thread(kind)) {
    int *most = &launch->block[kind - TN__LOOP_THREAD_X];
    if (!tn__ir_as_int(extent, &threads)) tn__cc_fail(p->cc, "loop %s over threads is open", s->as.loop.var->name);
    if (threads > *most) *most = (int)threads;
    return;
  }
  const tn__expr **blocks = &launch->grid[kind - TN__LOOP_BLOCK_X];
  if (!p->blocks || !is_of_scalars(p->cc, extent) || (*blocks != NULL && *blocks != extent))
    tn__throwf(
        p->cc->arena->escape, TN_UNSUPPORTED,
        "kernel %s: the loop %s over blocks stands inside of another loop, or has another extent than one beside "
        "it; a launch has one grid",
        p->cc->func->name, s->as.loop.var->name);
  *blocks = extent;
}

/* Blocks stand around everything else of a nest, since they cannot wait for each other. */
static bool see_shape(const tn__stmt *s, void *user) {
  shape *p = user;
  if (s->kind != TN__STMT_FOR) return true;
  bool before = p->blocks, bound = tn__ir_loop_is_bound(s->as.loop.kind);
  if (bound) see_axis(p, s);
  p->blocks = before && bound;
  tn__stmt_walk(s->as.loop.body, see_shape, p);
  p->blocks = before;
  return false;
}

static bool has_blocks(const tn__stmt *s, void *user) {
  if (s->kind == TN__STMT_FOR && tn__ir_loop_is_block(s->as.loop.kind)) *(bool *)user = true;
  return !*(bool *)user;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

typedef struct launching {
  tn__cc *cc;
  tn__launches *out;
  TN__VEC(const tn__stmt *) around; /* lets and conditions, outermost first */
} launching;

static const char *parameters(tn__cc *cc) {
  const tn__func *func = cc->func;
  const char *text = "";
  for (int i = 0; i < func->input_count + func->output_count; i++)
    text = TN__CC_TEXT(cc, "%sTN_GLOBAL %s%s *%s%s, ", text, i < func->input_count ? "const " : "",
                       tn__cc_memory_type(func->params[i]->dtype), tn__cc_is_apart(cc, i) ? "TN_RESTRICT " : "",
                       tn__cc_bind_buffer(cc, func->params[i]));
  text = TN__CC_TEXT(cc, "%sTN_GLOBAL tn_u8 *tn_workspace, ", text);
  for (int i = 0; i < func->scalar_count; i++)
    text = TN__CC_TEXT(cc, "%stn_i64 %s, ", text, tn__cc_bind_var(cc, func->scalars[i]));
  return TN__CC_TEXT(cc, "%sTN_GLOBAL tn_i32 *tn_status", text);
}

typedef struct looking {
  const tn__buffer *buffer;
  bool found;
} looking;

static void look_in_expr(const tn__expr *e, void *user) {
  looking *l = user;
  l->found |= tn__expr_uses_buffer(e, l->buffer);
}

static bool look_in_stmt(const tn__stmt *s, void *user) {
  looking *l = user;
  l->found |= s->kind == TN__STMT_STORE && s->as.store.buffer == l->buffer;
  return !l->found;
}

static bool uses_buffer(const tn__stmt *s, const tn__buffer *buffer) {
  looking l = {.buffer = buffer};
  tn__stmt_walk(s, look_in_stmt, &l);
  if (!l.found) tn__stmt_walk_exprs(s, look_in_expr, &l);
  return l.found;
}

static void open_workspace(tn__cc *cc, const tn__stmt *nest) {
  const tn__cg_layout *layout = tn__cg_layout_of(cc->ir, cc->func);
  for (int i = 0; i < layout->places.count; i++) {
    const tn__cg_place *place = &layout->places.data[i];
    if (!uses_buffer(nest, place->buffer)) continue;
    const char *type = tn__cc_memory_type(place->buffer->dtype), *offset = tn__cc_whole(cc, place->offset);
    tn__cc_line(cc, "TN_GLOBAL %s *%s = (TN_GLOBAL %s *)(tn_workspace + %s);", type,
                tn__cc_bind_buffer(cc, place->buffer), type, offset);
  }
}

static void add_kernel(launching *l, const tn__stmt *nest) {
  tn__cc *cc = l->cc;
  tn__launch *launch = TN__NEW(cc->arena, tn__launch);
  *launch = (tn__launch){.block = {1, 1, 1}};
  shape p = {.cc = cc, .launch = launch, .blocks = true};
  tn__stmt_walk(nest, see_shape, &p);
  for (int a = 0; a < 3; a++)
    if (launch->grid[a] == NULL) launch->grid[a] = tn__ir_index(cc->ir, 1);
  launch->name = TN__CC_TEXT(cc, "%s_k%d", cc->func->name, l->out->items.count);
  for (int i = l->around.count - 1; i >= 0; i--) {
    const tn__stmt *outer = l->around.data[i];
    nest = outer->kind == TN__STMT_LET ? tn__ir_let(cc->ir, outer->as.let.var, outer->as.let.value, nest)
                                       : tn__ir_if(cc->ir, outer->as.branch.condition, nest, NULL);
  }
  tn__strbuf grid;
  tn__strbuf_init(&grid, NULL);
  for (int a = 0; a < 3; a++) {
    if (a > 0) tn__strbuf_append(&grid, ", ");
    tn__expr_print(launch->grid[a], &grid);
  }
  cc->bound.count = 0;
  cc->indent = 0;
  cc->launch = launch;
  tn__cc_line(cc, "\n/* launch %s: grid (%s), block (%d, %d, %d) */", launch->name, tn__arena_take(cc->arena, &grid),
              launch->block[0], launch->block[1], launch->block[2]);
  tn__cc_open(cc, "TN_KERNEL(%d) %s(%s)", tn__cc_threads(launch), launch->name, parameters(cc));
  open_workspace(cc, nest);
  tn__cc_stmt(cc, nest);
  tn__cc_close(cc);
  cc->launch = NULL;
  tn__vec_push(cc->arena, &l->out->items, *launch);
}

static void add_kernels(launching *l, const tn__stmt *s) {
  bool blocks = false;
  switch (s->kind) {
    case TN__STMT_SEQ:
      for (int i = 0; i < s->as.seq.count; i++) add_kernels(l, s->as.seq.items[i]);
      return;
    case TN__STMT_ALLOC:
      if (s->as.alloc.buffer->scope != TN__SCOPE_WORKSPACE) break;
      add_kernels(l, s->as.alloc.body);
      return;
    case TN__STMT_LET:
    case TN__STMT_IF:
      tn__stmt_walk(s, has_blocks, &blocks);
      if (!blocks || (s->kind == TN__STMT_IF && s->as.branch.else_body != NULL)) break;
      tn__vec_push(l->cc->arena, &l->around, s);
      add_kernels(l, s->kind == TN__STMT_LET ? s->as.let.body : s->as.branch.then_body);
      l->around.count--;
      return;
    default: break;
  }
  add_kernel(l, s);
}

void tn__cc_launches(tn__cc *cc, tn__launches *out) {
  launching l = {.cc = cc, .out = out};
  add_kernels(&l, cc->func->body);
}
