/* Loops that count, and where long ones ask whether to go on.
 *
 * A kernel that runs for long looks at its environment's `cancel` (tenon/kernel_abi.h) now and then. Where, is decided
 * from a rough count of the work: nothing looks in a loop nest that is known to be short, so most kernels are as if
 * there was no such thing. Elsewhere a loop looks once in as many iterations as make a PACE of work, and so do the
 * loops in it when one iteration may be long by itself. Loops of few operations run in strips for that, and look
 * between these. */
#include <math.h>
#include <stddef.h>

#include "codegen/llvm/emit.h"

/* Work is counted in nodes of expressions, for scalars and vectors alike: a core does one of them in a nanosecond where
 * each is an instruction that waits for the last, and a hundred in products of matrices. */
enum {
  PACE = 1 << 20,     /* between two looks */
  LONG = 1 << 25,     /* no less is worth a look */
  USUAL = 1 << 6,     /* rounds of loops whose number is open, for what they usually take */
  WIDEST_EXPR = 1024, /* operations counted of one expression: texts repeat what code shares */
  LANES = 8           /* of a vectorised loop that one operation does */
};

/* ---- how much work ----------------------------------------------------------------------------------------------- */

typedef struct work {
  double usual, most; /* with USUAL rounds of loops of open extent; with any number: then `most` is infinite */
} work;

static work work_of(tn__ir *ir, const tn__stmt *s);

static double expr_work(const tn__expr *e) {
  uint32_t size = tn__expr_size(e);
  return size < WIDEST_EXPR ? size : WIDEST_EXPR;
}

static work sum(work a, work b) { return (work){a.usual + b.usual, a.most + b.most}; }

/* The most rounds that there can be; infinite when that is open. What division left over is one at most. */
static double most_rounds(tn__ir *ir, const tn__expr *extent) {
  int64_t count, one;
  if (tn__ir_as_int(extent, &count)) return count > 0 ? (double)count : 0;
  if (tn__ir_as_int(tn__ir_binary(ir, TN__EXPR_LE, extent, tn__ir_index(ir, 1)), &one) && one != 0) return 1;
  count = tn__interval_of(ir, extent).max;
  return count < INT64_MAX ? fmax((double)count, 0) : INFINITY;
}

static work rounds(double most, work each) {
  if (most <= 0) return (work){0, 0};
  return (work){(isinf(most) ? USUAL : most) * each.usual, most * each.most};
}

/* One round of a loop with this body. */
static work round_of(tn__ir *ir, const tn__stmt *body) { return sum(work_of(ir, body), (work){1, 1}); }

static work loop_work(tn__ir *ir, const tn__stmt *s) {
  work each = round_of(ir, s->as.loop.body), all = rounds(most_rounds(ir, s->as.loop.var->extent), each);
  if (s->as.loop.kind != TN__LOOP_VECTORIZED) return all;
  return (work){fmax(all.usual / LANES, each.usual), fmax(all.most / LANES, each.most)};
}

static work work_of(tn__ir *ir, const tn__stmt *s) {
  work all = {1, 1};
  double own = 0;
  switch (s->kind) {
    case TN__STMT_FOR: return loop_work(ir, s);
    case TN__STMT_STORE: own = expr_work(s->as.store.value); break;
    case TN__STMT_LET:
      own = expr_work(s->as.let.value);
      all = work_of(ir, s->as.let.body);
      break;
    case TN__STMT_WHILE: return rounds(INFINITY, round_of(ir, s->as.repeat.body));
    case TN__STMT_SEQ:
      for (int i = 0; i < s->as.seq.count; i++) all = sum(all, work_of(ir, s->as.seq.items[i]));
      return all;
    case TN__STMT_IF:
      all = sum(all, work_of(ir, s->as.branch.then_body));
      return s->as.branch.else_body == NULL ? all : sum(all, work_of(ir, s->as.branch.else_body));
    case TN__STMT_ALLOC: return work_of(ir, s->as.alloc.body);
    case TN__STMT_TENSOR: own = LANES; break;
    default: break;
  }
  return sum(all, (work){own, own});
}

/* ---- where to look ----------------------------------------------------------------------------------------------- */

/* Decides for a loop that stands where loops may be long: how many iterations there are between two looks, 0: it never
 * looks; and whether the loops in it may be long, too. */
TN_MUST_USE static int64_t choose_stride(tn__ir *ir, const tn__stmt *s, bool *inside) {
  double most = most_rounds(ir, s->as.loop.var->extent);
  work each = round_of(ir, s->as.loop.body);
  *inside = false;
  if (rounds(most, each).most < LONG) return 0;
  int64_t stride = (int64_t)(PACE / fmin(each.usual, PACE));
  bool few = most <= (double)stride, rest = most == 1 && !tn__ir_as_int(s->as.loop.var->extent, &(int64_t){0});
  /* What division left over takes no longer than a round of the loop in front of it. */
  *inside = each.most >= LONG && ((few && !rest) || each.usual >= LONG);
  return few ? 0 : stride;
}

/* Returns from the function when it was told to stop. The branch says that this is rare: otherwise the loops around it
 * count as seldom run, and what they need is kept in memory. */
static void emit_look(tn__cg *cg) {
  LLVMBuilderRef at = cg->builder;
  LLVMValueRef offset = tn__cg_int(cg->i64, (int64_t)offsetof(tn_kernel_env, cancel));
  LLVMValueRef field = LLVMBuildGEP2(at, cg->i8, cg->frame->env, &offset, 1, "");
  LLVMValueRef cancel = LLVMBuildLoad2(at, cg->i32, field, "");
  LLVMSetOrdering(cancel, LLVMAtomicOrderingMonotonic);
  LLVMSetAlignment(cancel, 4);
  LLVMBasicBlockRef stop = tn__cg_block(cg, "cancelled"), ok = tn__cg_block(cg, "ok");
  tn__cg_branch_seldom(cg, LLVMBuildIsNotNull(at, cancel, ""), stop, ok);
  tn__cg_at(cg, stop);
  LLVMBuildRet(at, tn__cg_int(cg->i32, TN_KERNEL_CANCELLED));
  tn__cg_at(cg, ok);
}

void tn__cg_look_each_round(tn__cg *cg, const tn__stmt *body) {
  enum { WORTH_A_LOOK = 1 << 10 };
  if (cg->frame->watched && cg->frame->lane == NULL && work_of(cg->ir, body).usual >= WORTH_A_LOOK) emit_look(cg);
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

/* Of a loop that runs in strips. */
typedef struct strips {
  LLVMBasicBlockRef head;
  LLVMValueRef first, end; /* of a strip: its first index and its end */
} strips;

static strips open_strips(tn__cg *cg, LLVMBasicBlockRef head, LLVMBasicBlockRef before, LLVMValueRef begin,
                          LLVMValueRef end, int64_t stride) {
  LLVMBuilderRef at = cg->builder;
  LLVMTypeRef type = LLVMTypeOf(begin);
  strips strip = {.head = head};
  tn__cg_at(cg, head);
  strip.first = LLVMBuildPhi(at, type, "");
  LLVMAddIncoming(strip.first, &begin, &before, 1);
  LLVMValueRef left = LLVMBuildSub(at, end, strip.first, ""), length = tn__cg_int(type, stride);
  LLVMValueRef more = LLVMBuildICmp(at, LLVMIntSGT, left, length, "");
  strip.end = LLVMBuildSelect(at, more, LLVMBuildAdd(at, strip.first, length, ""), end, "");
  return strip;
}

/* Goes on at the block `again`, with `next` for its `index`, unless all is done, and after a look if so. */
static void go_on(tn__cg *cg, LLVMValueRef index, LLVMValueRef next, LLVMValueRef end, bool look,
                  LLVMBasicBlockRef again, LLVMBasicBlockRef done) {
  LLVMValueRef more = LLVMBuildICmp(cg->builder, LLVMIntSLT, next, end, "");
  LLVMBasicBlockRef looks = look ? tn__cg_block(cg, "look") : again, from = LLVMGetInsertBlock(cg->builder);
  LLVMBuildCondBr(cg->builder, more, looks, done);
  if (look) {
    tn__cg_at(cg, looks);
    emit_look(cg);
    from = LLVMGetInsertBlock(cg->builder);
    LLVMBuildBr(cg->builder, again);
  }
  LLVMAddIncoming(index, &next, &from, 1);
}

void tn__cg_count(tn__cg *cg, const tn__stmt *s, tn__cg_range range,
                  void (*body)(tn__cg *cg, const tn__stmt *s, LLVMValueRef index)) {
  LLVMBuilderRef at = cg->builder;
  bool watched = cg->frame->watched, inside = false;
  int64_t stride = watched && cg->frame->lane == NULL ? choose_stride(cg->ir, s, &inside) : 0;
  bool in_strips = stride > 1;
  LLVMBasicBlockRef loop = tn__cg_block(cg, "loop"), done = tn__cg_block(cg, "done");
  LLVMBasicBlockRef head = in_strips ? tn__cg_block(cg, "strip") : loop, before = LLVMGetInsertBlock(at);
  if (range.runs == NULL)
    LLVMBuildBr(at, head);
  else
    LLVMBuildCondBr(at, range.runs, head, done);
  strips strip = {.first = range.begin, .end = range.end};
  if (in_strips) {
    strip = open_strips(cg, head, before, range.begin, range.end, stride);
    before = LLVMGetInsertBlock(at);
    LLVMBuildBr(at, loop);
  }
  tn__cg_at(cg, loop);
  LLVMValueRef index = LLVMBuildPhi(at, LLVMTypeOf(range.begin), "");
  LLVMAddIncoming(index, &strip.first, &before, 1);
  cg->frame->watched = inside;
  body(cg, s, index);
  cg->frame->watched = watched;
  LLVMValueRef next = LLVMBuildAdd(at, index, tn__cg_int(LLVMTypeOf(range.begin), 1), "");
  LLVMSetNSW(next, 1);
  LLVMBasicBlockRef then = in_strips ? tn__cg_block(cg, "strip_end") : done;
  go_on(cg, index, next, strip.end, stride == 1, loop, then);
  if (in_strips) {
    tn__cg_at(cg, then);
    go_on(cg, strip.first, strip.end, range.end, true, head, done);
  }
  tn__cg_at(cg, done);
}
