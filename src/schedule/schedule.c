#include "schedule/schedule.h"

#include <string.h>

#include "schedule/internal.h"

static void note_bounding(const tn__expr *e, void *user) {
  tn__schedule *s = user;
  if (e->kind == TN__EXPR_LOAD) tn__vec_push(s->arena, &s->bounding, e->value.buffer);
}

static void import_stmt(tn__schedule *s, tn__snode *parent, const tn__stmt *stmt) {
  switch (stmt->kind) {
    case TN__STMT_ALLOC:
      tn__vec_push(s->arena, &s->buffers, stmt->as.alloc.buffer);
      import_stmt(s, parent, stmt->as.alloc.body);
      return;
    case TN__STMT_SEQ:
      for (int i = 0; i < stmt->as.seq.count; i++) import_stmt(s, parent, stmt->as.seq.items[i]);
      return;
    case TN__STMT_FOR: {
      tn__snode *loop = TN__NEW(s->arena, tn__snode);
      tn__sched_name(s, loop, stmt->as.loop.var->name);
      loop->var = stmt->as.loop.var;
      loop->kind = stmt->as.loop.kind;
      if (tn__expr_has_load(loop->var->extent)) tn__te_visit(s->ir, loop->var->extent, note_bounding, s);
      tn__sched_append(s, parent, loop);
      import_stmt(s, loop, stmt->as.loop.body);
      return;
    }
    case TN__STMT_BLOCK: {
      const tn__block *block = stmt->as.block;
      for (int i = 0; i < block->axis_count; i++) s->scans |= block->axes[i].kind == TN__AXIS_SCAN;
      tn__snode *node = tn__sched_new_block(s, block);
      const tn__te_stage *stage = tn__te_stage_of(s->te, block->writes[0].buffer);
      bool combines = block->init != NULL;
      for (int i = 0; i < block->axis_count; i++) combines |= block->axes[i].kind == TN__AXIS_REDUCE;
      if (combines && stage != NULL) node->combiner = stage->combiner;
      tn__sched_append(s, parent, node);
      return;
    }
    default: tn__throwf(s->arena->escape, TN_INTERNAL, "schedule: a lowered declaration has an unexpected statement");
  }
}

tn__schedule *tn__schedule_of(const tn__te *te, const tn__target *target) {
  tn__ir *ir = tn__te_ir(te);
  tn__schedule *s = TN__NEW(tn__ir_arena(ir), tn__schedule);
  s->te = te;
  s->target = target;
  s->ir = ir;
  s->arena = tn__ir_arena(ir);
  s->root = TN__NEW(s->arena, tn__snode);
  s->root->name = "";
  tn__map_init(&s->names, s->arena);
  tn__map_init(&s->readers, s->arena);
  tn__map_init(&s->writers, s->arena);
  import_stmt(s, s->root, tn__te_lower(te)->body);
  return s;
}

const tn__te *tn__schedule_te(const tn__schedule *s) { return s->te; }

int tn__sched_loops_of(const tn__schedule *s, const char *block, const char **names, int capacity) {
  tn__snode *path[TN__MAX_LOOPS];
  int count = tn__sched_path(s, s->root, tn__sched_block(s, "loops_of", block), path);
  for (int i = 0; i < count && i < capacity; i++) names[i] = path[i]->name;
  return count;
}

void tn__sched_first_loops(tn__schedule *s, const char *block, const char **names, int least) {
  int count = tn__sched_loops_of(s, block, names, TN__MAX_LOOPS);
  if (count < least) tn__sched_refuse(s, "block \"%s\" is in %d loops, and %d are needed", block, count, least);
}
