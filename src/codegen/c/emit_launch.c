/* Functions for devices: each nest becomes a kernel of its own, and what stands around it, in front of blocks, stands
 * in each of them. All threads of a block run through what is outside of loops over threads; the first one alone stores
 * there. Of devices that are CPUs a block is one thread, which has one turn of the parallel loop around all others, and
 * nests without one, side by side, are one kernel. */
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

/* Can it be the blocks of a launch? */
static bool is_grid(const tn__cc *cc, const tn__stmt *s) {
  return s->kind == TN__STMT_FOR && s->as.loop.kind == TN__LOOP_PARALLEL && is_of_scalars(cc, s->as.loop.var->extent);
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

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

typedef struct launching {
  tn__cc *cc;
  tn__launches *out;
  const tn__target *target;
  TN__VEC(const tn__stmt *) around; /* lets and conditions, outermost first */
  bool failed;                      /* a launch so far may have ended with a result */
} launching;

static bool has_workspace(const tn__cc *cc) { return !tn__ir_is_int_value(cc->layout->total, 0); }

static const char *parameters(tn__cc *cc) {
  const tn__func *func = cc->func;
  const bool offsets = cc->dialect->offsets;
  const char *text = "";
  for (int i = 0; i < func->input_count + func->output_count; i++) {
    const char *constant = i < func->input_count ? "const " : "", *type = tn__cc_memory_type(func->params[i]->dtype);
    const char *restricted = tn__cc_is_apart(cc, i) ? "TN_RESTRICT " : "";
    const char *name = tn__cc_bind_buffer(cc, func->params[i]);
    if (offsets) name = TN__CC_TEXT(cc, "p%d_memory, tn_i64 p%d_offset", i, i);
    text = TN__CC_TEXT(cc, "%sTN_GLOBAL %s%s *%s%s, ", text, constant, type, restricted, name);
  }
  if (has_workspace(cc))
    text = TN__CC_TEXT(cc, "%sTN_GLOBAL tn_u8 *%s, ", text,
                       offsets ? "workspace_memory, tn_i64 workspace_offset" : "tn_workspace");
  for (int i = 0; i < func->scalar_count; i++)
    text = TN__CC_TEXT(cc, "%stn_i64 %s, ", text, tn__cc_bind_var(cc, func->scalars[i]));
  return TN__CC_TEXT(cc, "%sTN_GLOBAL tn_i32 *tn_status", text);
}

/* Where the buffers begin in their allocations. */
static void open_params(tn__cc *cc, const tn__stmt *nest) {
  const tn__func *func = cc->func;
  for (int i = 0; i < func->input_count + func->output_count && cc->dialect->offsets; i++) {
    if (!tn__cc_uses(nest, func->params[i])) continue;
    const char *constant = i < func->input_count ? "const " : "", *type = tn__cc_memory_type(func->params[i]->dtype);
    tn__cc_line(cc, "TN_GLOBAL %s%s *const %s = (TN_GLOBAL %s%s *)((TN_GLOBAL %stn_u8 *)p%d_memory + p%d_offset);",
                constant, type, tn__cc_buffer_name(cc, func->params[i]), constant, type, constant, i, i);
  }
}

static void open_workspace(tn__cc *cc, const tn__stmt *nest) {
  const tn__cg_layout *layout = cc->layout;
  const char *from = cc->dialect->offsets ? "workspace_memory + workspace_offset" : "tn_workspace";
  for (int i = 0; i < layout->places.count; i++) {
    const tn__cg_place *place = &layout->places.data[i];
    if (!tn__cc_uses(nest, place->buffer)) continue;
    const char *type = tn__cc_memory_type(place->buffer->dtype), *offset = tn__cc_whole(cc, place->offset);
    const char *name = tn__cc_bind_buffer(cc, place->buffer);
    if (has_workspace(cc))
      tn__cc_line(cc, "TN_GLOBAL %s *const %s = (TN_GLOBAL %s *)(%s + %s);", type, name, type, from, offset);
    else /* without elements */
      tn__cc_line(cc, "TN_GLOBAL %s *const %s = 0;", type, name);
  }
}

/* Behind a launch that ended with a result there is nothing to do, and what it made cannot be relied on. */
static void open_status(tn__cc *cc, const launching *l) {
  if (!l->failed) return;
  if (tn__cc_threads(cc->launch) == 1) {
    tn__cc_line(cc, "if (*tn_status != 0) return;");
    return;
  }
  /* All threads of a block must agree, and other blocks may end with a result meanwhile. */
  tn__strbuf_append(cc->shared, "  TN_SHARED tn_i32 tn_ended;\n");
  cc->launch->shared_bytes += (int64_t)sizeof(int32_t);
  tn__cc_line(cc, "if (%s) tn_ended = *tn_status;", tn__cc_one_thread(cc));
  tn__cc_line(cc, "TN_WAIT();");
  tn__cc_line(cc, "if (tn_ended != 0) return;");
}

static void emit_body(launching *l, const tn__stmt *nest) {
  tn__cc *cc = l->cc;
  tn__strbuf *out = cc->out;
  cc->shared = tn__cc_text(cc->arena);
  cc->out = tn__cc_text(cc->arena);
  cc->fails = false;
  open_params(cc, nest);
  open_workspace(cc, nest);
  open_status(cc, l);
  tn__cc_stmt(cc, nest);
  l->failed |= cc->fails;
  tn__strbuf_append(out, tn__arena_take(cc->arena, cc->shared));
  tn__strbuf_append(out, tn__arena_take(cc->arena, cc->out));
  cc->out = out;
}

/* Schedules keep to this already; a function that was made for another device may not. */
static void check_limits(const tn__cc *cc, const tn__launch *launch, const tn__target *target) {
  if (tn__target_is_cpu(target)) return;
  if (tn__cc_threads(launch) > target->gpu.threads)
    tn__throwf(cc->arena->escape, TN_UNSUPPORTED,
               "kernel %s: blocks of its launch %s have %d threads, and target \"%s\" has %d at the most; schedule it "
               "for that target",
               cc->func->name, launch->name, tn__cc_threads(launch), target->name, target->gpu.threads);
  if (launch->shared_bytes > target->gpu.shared_bytes)
    tn__throwf(cc->arena->escape, TN_UNSUPPORTED,
               "kernel %s: blocks of its launch %s share %lld bytes, and target \"%s\" has %d at the most; schedule it "
               "for that target",
               cc->func->name, launch->name, (long long)launch->shared_bytes, target->name, target->gpu.shared_bytes);
}

static void add_kernel(launching *l, const tn__stmt *nest) {
  tn__cc *cc = l->cc;
  tn__launch *launch = TN__NEW(cc->arena, tn__launch);
  *launch = (tn__launch){.block = {1, 1, 1}};
  shape p = {.cc = cc, .launch = launch, .blocks = true};
  cc->grid_loop = is_grid(cc, nest) ? nest : NULL;
  if (cc->grid_loop != NULL) launch->grid[0] = nest->as.loop.var->extent;
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
  tn__cc_open(cc, "TN_KERNEL(%d, %d, %d) %s(%s)", launch->block[0], launch->block[1], launch->block[2], launch->name,
              parameters(cc));
  emit_body(l, nest);
  tn__cc_close(cc);
  check_limits(cc, launch, l->target);
  cc->launch = NULL;
  tn__vec_push(cc->arena, &l->out->items, *launch);
}

static void add_kernels(launching *l, const tn__stmt *s);

/* Of CPUs, those next to each other that have no blocks are one. */
static void add_sequence(launching *l, const tn__stmt *s) {
  tn__ir *ir = l->cc->ir;
  for (int i = 0; i < s->as.seq.count;) {
    int end = i;
    while (l->cc->on_cpu && end < s->as.seq.count && !tn__cc_has_blocks(s->as.seq.items[end])) end++;
    if (end > i)
      add_kernel(l, tn__ir_seq(ir, s->as.seq.items + i, end - i));
    else
      add_kernels(l, s->as.seq.items[end++]);
    i = end;
  }
}

static void add_kernels(launching *l, const tn__stmt *s) {
  switch (s->kind) {
    case TN__STMT_SEQ: add_sequence(l, s); return;
    case TN__STMT_ALLOC:
      if (s->as.alloc.buffer->scope != TN__SCOPE_WORKSPACE) break;
      add_kernels(l, s->as.alloc.body);
      return;
    case TN__STMT_LET:
    case TN__STMT_IF:
      if (!tn__cc_has_blocks(s) || (s->kind == TN__STMT_IF && s->as.branch.else_body != NULL)) break;
      tn__vec_push(l->cc->arena, &l->around, s);
      add_kernels(l, s->kind == TN__STMT_LET ? s->as.let.body : s->as.branch.then_body);
      l->around.count--;
      return;
    default: break;
  }
  add_kernel(l, s);
}

tn__code tn__cc_launched(tn__arena *arena, const tn__cc_dialect *dialect, const tn__codegen_module *module,
                         tn__launches *launches) {
  tn__strbuf *body = tn__cc_text(arena), *out = tn__cc_text(arena);
  bool vectors = false;
  for (int i = 0; i < module->count; i++) {
    tn__launches unused = {{0}};
    tn__cc cc = {.arena = arena, .ir = module->irs[i], .dialect = dialect, .func = module->funcs[i], .out = body};
    cc.layout = tn__cg_layout_of(cc.ir, cc.func);
    cc.on_cpu = tn__target_is_cpu(module->target);
    cc.most_shared = cc.on_cpu ? 0 : module->target->gpu.shared_bytes;
    launching l = {.cc = &cc, .target = module->target, .out = launches != NULL ? &launches[i] : &unused};
    add_kernels(&l, cc.func->body);
    vectors |= cc.has_vectors;
  }
  const char *text = tn__arena_take(arena, body);
  const char *align = tn__target_is_cpu(module->target) ? "__attribute__((aligned(64)))" : "";
  tn__strbuf_printf(out, "/* Made by tenon %s. */\n%s#define TN_ALIGNED %s\n", tn_version(), dialect->head, align);
  if (vectors) dialect->append_vectors(out);
  return tn__cc_finish(arena, dialect, text, out);
}
