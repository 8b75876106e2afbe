/* Written schedules as a way of choosing: what a schedule leaves open is chosen by the rules. */
#include <math.h>
#include <string.h>

#include "schedule/written/syntax.h"
#include "target/text/text.h"

/* ---- finding blocks ---------------------------------------------------------------------------------------------- */

bool tn__written_is_trace(const char *text) { return strncmp(text, "trace ", strlen("trace ")) == 0; }

/* Is it one of the block's targets, or one that has all that one of them has? An island is a CPU, by name, too. */
static bool is_on(const tn__written_block *b, const tn__target *target) {
  for (int i = 0; i < b->targets.count; i++) {
    tn__target wanted;
    const tn__token *t = &b->targets.data[i];
    tn_status *unknown = tn__target_parse(tn__arena_strndup(b->of->arena, t->text, t->length), &wanted);
    tn_status_free(unknown);
    const bool own = tn__target_is_own(&wanted) && tn__target_is_own(target);
    if (unknown != NULL || (wanted.kind != target->kind && !own)) continue;
    char missing[8];
    if (tn__target_is_gpu(&wanted) ||
        (wanted.cpu.arch == target->cpu.arch &&
         !tn__target_missing(wanted.cpu.arch, wanted.cpu.features, target->cpu.features, missing, sizeof missing)))
      return true;
  }
  return b->targets.count == 0;
}

const tn__written_block *tn__written_find(const tn__written *written, const char *kernel, const tn__target *target) {
  for (int i = 0; i < written->blocks.count; i++)
    if (strcmp(written->blocks.data[i]->name, kernel) == 0 && is_on(written->blocks.data[i], target))
      return written->blocks.data[i];
  return NULL;
}

const tn__written_block *tn__written_need(tn__escape *escape, const tn__written *written, const char *kernel,
                                          const tn__target *target) {
  const tn__written_block *found = tn__written_find(written, kernel, target);
  if (found != NULL) return found;
  const char *list = "";
  for (int i = 0; i < written->blocks.count && i < 20; i++) {
    const tn__written_block *b = written->blocks.data[i];
    list = tn__arena_printf(written->arena, "%s%s%s", list, i > 0 ? ", " : "", b->name);
    for (int t = 0; t < b->targets.count; t++)
      list = tn__arena_printf(written->arena, "%s%s%.*s", list, t > 0 ? "/" : " on ", (int)b->targets.data[t].length,
                              b->targets.data[t].text);
  }
  tn__throwf(escape, TN_NOT_FOUND, "%s: there is no schedule for %s on %s; those that there are: %s", written->name,
             kernel, target->name, list);
}

/* A name of the stage itself, or one that begins with it: "C" and "C.i.0". */
static bool is_of_stage(const tn__token *t, const char *stage) {
  size_t skipped = t->kind == TN__TOKEN_STRING, length = strlen(stage);
  if (t->length < length + 2 * skipped || strncmp(t->text + skipped, stage, length) != 0) return false;
  return t->length == length + 2 * skipped || t->text[skipped + length] == '.';
}

static bool speak_of(const tn__written_stmts *stmts, const char *stage) {
  for (int i = 0; i < stmts->count; i++) {
    const tn__written_stmt *s = stmts->data[i];
    for (int o = 0; o < s->operand_count; o++)
      for (int n = 0; n < s->operands[o].names.count; n++)
        if (is_of_stage(&s->operands[o].names.data[n], stage)) return true;
    if (speak_of(&s->then, stage) || speak_of(&s->otherwise, stage)) return true;
  }
  return false;
}

bool tn__written_speaks_of(const tn__written_block *block, const char *stage) { return speak_of(&block->stmts, stage); }

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

enum { SMALL_TURNS = 16, MOST_TURNS = 64 };

typedef struct completing {
  const tn__plan_unit *unit;
  tn__schedule *s;
  bool *touched; /* by stage */
} completing;

/* The stage whose name the block, loop or tensor has in front of a point, if any. */
static int stage_of(const tn__te *te, const char *name, size_t length) {
  int best = -1;
  size_t longest = 0;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const char *own = tn__te_stage_at(te, i)->name;
    size_t n = strlen(own);
    if (n > length || n <= longest || memcmp(own, name, n) != 0 || (n < length && strchr(".+", name[n]) == NULL))
      continue;
    best = i;
    longest = n;
  }
  return best;
}

/* A scan, and what its steps evaluate, are touched together: they share the loop over the steps. */
static void touch(const completing *c, int stage) {
  const tn__te *te = c->s->te;
  const tn__te_stage *scan = tn__te_scan_of(te, tn__te_stage_at(te, stage));
  c->touched[stage] = true;
  for (int i = 0; scan != NULL && i < tn__te_stage_count(te); i++)
    if (tn__te_scan_of(te, tn__te_stage_at(te, i)) == scan) c->touched[i] = true;
}

static void note_touched(const completing *c, const char *line) {
  for (const char *p = strchr(line, '"'); p != NULL; p = strchr(p, '"')) {
    const char *end = strchr(p + 1, '"');
    if (end == NULL) return;
    int stage = stage_of(c->s->te, p + 1, (size_t)(end - p - 1));
    if (stage >= 0) touch(c, stage);
    p = end + 1;
  }
}

/* False when the step is refused, which changes nothing. */
static bool attempt(const completing *c, const char *line) {
  tn_status *status = tn__written_try(c->s, line);
  if (status != NULL && tn_status_code_of(status) != TN_INVALID_ARGUMENT) tn__throw(c->s->arena->escape, status);
  tn_status_free(status);
  return status == NULL;
}

/* Takes all of the steps, after which the whole is right, or none. */
static bool attempt_all(const completing *c, const char *const *lines, int count) {
  completing trial = {c->unit, tn__schedule_of(c->s->te, c->s->target), NULL};
  for (int i = 0; i < c->s->steps.count; i++) tn__sched_trace_step(trial.s, c->s->steps.data[i]);
  for (int i = 0; i < count; i++)
    if (!attempt(&trial, lines[i])) return false;
  if (!attempt(&trial, NULL)) return false;
  for (int i = 0; i < count; i++) tn__sched_trace_step(c->s, lines[i]);
  return true;
}

/* Stages that nothing was said about get the schedule that they would get as a declaration of their own. */
static void complete_part(const completing *c, int first, int count) {
  tn__arena *arena = c->s->arena;
  tn__te *te = tn__te_part(tn__te_uses_of(c->unit->te, arena), first, count, tn__ir_create(arena));
  tn__schedule_options options = c->unit->options;
  options.results_read = true;
  tn__plan_unit unit = tn__plan_unit_with(c->unit->rules, te, c->unit->target, &options);
  unit.part = tn__te_stage_at(c->unit->te, first)->name;
  const tn__schedule *own = tn__plan_kernel(&unit, &tn__chooser_static)->schedule;
  TN__VEC(const char *) lines = {0};
  for (int i = 0; i < own->steps.count; i++) /* what is an output of its part only is read soon */
    if (strncmp(own->steps.data[i], "stream ", strlen("stream ")) != 0) tn__vec_push(arena, &lines, own->steps.data[i]);
  attempt_all(c, lines.data, lines.count);
}

static int64_t turns(const tn__snode *loop) {
  int64_t n;
  return tn__ir_as_int(loop->var->extent, &n) ? n : -1;
}

/* Vectors along the innermost loop of results, and what is short inside of it written out. */
static void complete_inner(const completing *c, const tn__snode *block, tn__snode **path, int count) {
  tn__arena *arena = c->s->arena;
  int64_t size = (int64_t)tn_dtype_size(block->block.writes[0].buffer->dtype), written = 1;
  int64_t lanes = c->unit->options.vector_bytes / size;
  for (int i = 0; i < count; i++)
    if (path[i]->kind == TN__LOOP_VECTORIZED || path[i]->tensor != NULL || path[i]->transposes) return;
  const tn__snode *inner = path[count - 1];
  const char *name = inner->name;
  int64_t n = turns(inner);
  if (inner->kind != TN__LOOP_SERIAL || !tn__sched_drives(inner, block, TN__AXIS_SPATIAL)) return;
  if (n < 0 || n > lanes) {
    bool whole = n > 0 && n % lanes == 0 && n / lanes <= SMALL_TURNS;
    if (!attempt(c, tn__arena_printf(arena, "split \"%s\" 0 %lld", name, (long long)lanes))) return;
    if (whole && attempt(c, tn__arena_printf(arena, "unroll \"%s.0\"", name))) written *= n / lanes;
    name = tn__arena_printf(arena, "%s.1", name);
  }
  attempt(c, tn__arena_printf(arena, "vectorize \"%s\"", name));
  for (int i = count - 2; i >= 0; i--) {
    int64_t m = turns(path[i]);
    if (path[i]->kind != TN__LOOP_SERIAL || path[i]->children.count > 1 || m < 0 || m > SMALL_TURNS ||
        written * m > MOST_TURNS || !tn__sched_drives(path[i], block, TN__AXIS_SPATIAL))
      break;
    if (!attempt(c, tn__arena_printf(arena, "unroll \"%s\"", path[i]->name))) break;
    written *= m;
  }
}

/* A tile of results inside of a sum's loops is kept at hand while the sum runs, as far as it fits the registers. */
static void keep_results(const completing *c, const tn__snode *block) {
  tn__snode *path[TN__MAX_LOOPS];
  tn__arena *arena = c->s->arena;
  int stage = stage_of(c->s->te, block->name, strlen(block->name));
  int count = tn__sched_path(c->s, c->s->root, block, path), reduces = 0;
  if (stage < 0 || !c->touched[stage] || block->block.write_count != 1 || block->block.init == NULL) return;
  const tn__buffer *results = block->block.writes[0].buffer;
  if (results->scope != TN__SCOPE_PARAM && results->scope != TN__SCOPE_WORKSPACE) return;
  while (reduces < count && !tn__sched_drives(path[reduces], block, TN__AXIS_REDUCE)) reduces++;
  int64_t room = c->unit->options.registers * (c->unit->options.vector_bytes / (int64_t)tn_dtype_size(results->dtype));
  int64_t inside = 1;
  for (int i = reduces; i < count; i++) {
    if (!tn__sched_drives(path[i], block, TN__AXIS_SPATIAL)) continue;
    int64_t n = turns(path[i]);
    if (n < 1 || n > room / inside) return;
    inside *= n;
  }
  if (reduces == 0 || reduces == count || inside == 1) return;
  const char *cache = tn__arena_printf(arena, "cache_write \"%s\" 0 %d", block->name, TN__SCOPE_STACK);
  const char *copy = tn__sched_fresh_name(c->s, true, tn__arena_printf(arena, "%s.write", block->name));
  const char *end = tn__arena_printf(arena, "reverse_compute_at \"%s\" \"%s\"", copy, path[reduces - 1]->name);
  const char *scope = tn__arena_printf(arena, "set_scope \"%s\" 0 %d", block->name, TN__SCOPE_STACK);
  if (!attempt_all(c, (const char *[]){cache, end}, 2) && results->scope == TN__SCOPE_WORKSPACE)
    attempt_all(c, &scope, 1);
}

/* In what was touched: what has no kind yet, and where sums start. */
static void complete_block(tn__snode *block, void *user) {
  const completing *c = user;
  tn__snode *path[TN__MAX_LOOPS];
  int stage = stage_of(c->s->te, block->name, strlen(block->name));
  int count = tn__sched_path(c->s, c->s->root, block, path), reduces = -1, results_inside = 0;
  if (stage < 0 || !c->touched[stage] || count == 0 || block->block.write_count == 0) return;
  complete_inner(c, block, path, count);
  count = tn__sched_path(c->s, c->s->root, block, path);
  for (int i = 0; i < count; i++) {
    if (tn__sched_drives(path[i], block, TN__AXIS_REDUCE) && reduces < 0) reduces = i;
    results_inside += reduces >= 0 && tn__sched_drives(path[i], block, TN__AXIS_SPATIAL);
  }
  if (reduces >= 0 && results_inside > 0 && block->block.init != NULL)
    attempt(c, tn__arena_printf(c->s->arena, "decompose_reduction \"%s\" \"%s\"", block->name, path[reduces]->name));
  double points = 1;
  for (int i = 0; i < count; i++) {
    if (path[i]->kind == TN__LOOP_PARALLEL || tn__ir_loop_is_bound(path[i]->kind)) return;
    points *= turns(path[i]) > 0 ? (double)turns(path[i]) : TN__OPEN_EXTENT;
  }
  if (c->unit->options.threads > 1 && points >= TN__RULE_LARGE && path[0]->kind == TN__LOOP_SERIAL)
    attempt(c, tn__arena_printf(c->s->arena, "parallel \"%s\"", path[0]->name));
}

static void complete(const tn__plan_unit *unit, tn__schedule *s) {
  int count = tn__te_stage_count(unit->te);
  completing c = {unit, s, TN__NEW_ARRAY(s->arena, count, bool)};
  for (int i = 0; i < s->steps.count; i++) note_touched(&c, s->steps.data[i]);
  tn__snodes blocks = {0};
  tn__sched_blocks(s, s->root, &blocks);
  for (int i = 0; i < blocks.count; i++) keep_results(&c, blocks.data[i]);
  blocks.count = 0; /* with the copies */
  tn__sched_blocks(s, s->root, &blocks);
  for (int i = 0; i < blocks.count; i++) complete_block(blocks.data[i], &c);
  for (int i = 0; i < count;) {
    int end = i;
    while (end < count && !c.touched[end] && tn__te_stage_at(unit->te, end)->kind != TN__TE_EXTERN) end++;
    if (end > i) complete_part(&c, i, end - i);
    i = end > i ? end : i + 1;
  }
}

/* ---- decisions --------------------------------------------------------------------------------------------------- */

static _Noreturn void refuse(const tn__written_use *use, const tn__plan_unit *unit, const tn__token *at,
                             const char *message) {
  tn_status *why = tn_status_create(TN_INVALID_ARGUMENT, "%s", message);
  tn_status *placed = tn__written_error(use->block->of, at, why);
  tn_status_free(why);
  tn__throw(tn__ir_arena(tn__te_ir(unit->te))->escape, placed);
}

/* The rule's sketch with the decisions that were said. */
static const tn__sketch *decided(const tn__written_use *use, const tn__plan_unit *unit,
                                 const tn__written_stmt *choose) {
  tn__arena *arena = tn__ir_arena(tn__te_ir(unit->te));
  const tn__sketch *open = tn__plan_sketch(unit, &tn__chooser_static);
  if (open == NULL || choose->decisions.count == 0) return open;
  tn__sketch *k = TN__NEW(arena, tn__sketch);
  *k = *open;
  for (int i = 0; i < choose->decisions.count; i++) {
    const tn__written_decision *said = &choose->decisions.data[i];
    tn__decision *d = NULL;
    const char *list = "";
    for (int n = 0; n < k->decision_count; n++) {
      if (strcmp(k->decisions[n].name, said->name) == 0) d = &k->decisions[n];
      list = tn__arena_printf(arena, "%s%s%s", list, n > 0 ? ", " : "", k->decisions[n].name);
    }
    if (d == NULL)
      refuse(use, unit, &said->at,
             tn__arena_printf(arena, "%s has no decision \"%s\"; it has: %s", tn__sketch_name(k), said->name, list));
    int64_t value = tn__written_decide(use, unit, said);
    bool known = false;
    list = "";
    for (int n = 0; n < d->count; n++) {
      known |= d->choices[n] == value;
      list = tn__arena_printf(arena, "%s%s%lld", list, n > 0 ? ", " : "", (long long)d->choices[n]);
    }
    if (!known)
      refuse(use, unit, &said->at,
             tn__arena_printf(arena, "%s cannot be %lld here; it can be: %s", d->name, (long long)value, list));
    d->count = 1;
    d->choices[0] = value;
  }
  return k;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

typedef struct trial {
  const tn__written_use *use;
  const tn__plan_unit *unit;
  const int64_t *open;
  double cycles;
} trial;

static void run_trial(tn__arena *arena, void *user) {
  trial *t = user;
  tn__plan_unit unit = *t->unit;
  unit.te = tn__te_copy(t->unit->te, tn__ir_create(arena));
  tn__written_result result = tn__written_apply(t->use, &unit, t->open);
  if (result.choose != NULL) complete(&unit, result.schedule);
  t->cycles = tn__written_weigh(&unit, result.schedule);
}

static double weigh_sizes(void *user, const int64_t *open) {
  trial *t = user;
  t->open = open;
  t->cycles = (double)INFINITY;
  tn_status *status = tn__with_arena(NULL, run_trial, t);
  if (status != NULL && tn_status_code_of(status) != TN_INVALID_ARGUMENT)
    tn__throw(tn__ir_arena(tn__te_ir(t->unit->te))->escape, status);
  tn_status_free(status);
  return t->cycles;
}

/* The block's statements, with sizes that it leaves open. */
static tn__written_result apply(const tn__written_use *use, const tn__plan_unit *unit) {
  int64_t open[TN__WRITTEN_OPENS];
  trial t = {.use = use, .unit = unit};
  if (use->block->open_count > 0)
    tn__written_choose_sizes(use->block, tn__te_stage_count(unit->te), weigh_sizes, &t, open);
  return tn__written_apply(use, unit, use->block->open_count > 0 ? open : NULL);
}

/* ---- the chooser ------------------------------------------------------------------------------------------------- */

static const char *trace_of(const tn__schedule *s) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__sched_trace_print(s, &text);
  tn_status *failed = tn__strbuf_status(&text);
  const char *copy = failed == NULL ? tn__arena_strdup(s->arena, tn__strbuf_text(&text)) : NULL;
  tn__strbuf_release(&text);
  tn__check(s->arena->escape, failed);
  return copy;
}

TN_MUST_USE static bool propose_written(const tn__chooser *chooser, const tn__plan_unit *unit,
                                        const tn__candidate *refused, tn__candidate *out) {
  const tn__written_use *use = chooser->data;
  if (unit->part != NULL || refused != NULL) return tn__chooser_static.propose(&tn__chooser_static, unit, refused, out);
  tn__written_result result = apply(use, unit);
  out->rule = "written schedule";
  if (result.choose != NULL && result.schedule->steps.count == 0) {
    out->sketch = decided(use, unit, result.choose);
    out->required = result.choose->decisions.count > 0;
    out->rule = NULL;
    if (out->sketch == NULL) return false;
    out->weighed = tn__sketch_choose_counting(out->sketch, out->values, NULL);
    return true;
  }
  if (result.choose != NULL && result.choose->decisions.count > 0)
    refuse(use, unit, &result.choose->decisions.data[0].at,
           "decisions are of a rule that chooses everything: there can be no other statements");
  if (result.choose != NULL) complete(unit, result.schedule);
  out->trace = trace_of(result.schedule);
  out->required = true;
  return true;
}

static void hash_written(const tn__chooser *chooser, const tn__plan_unit *unit, tn__sha256 *hash) {
  const tn__written_use *use = chooser->data;
  tn__sha256_update_string(hash, use->block->of->text);
  tn__sha256_update_u64(hash, (uint64_t)(use->block->kernel.text - use->block->of->text));
  for (int i = 0; i < use->dim_count; i++) {
    tn__sha256_update_string(hash, use->dims[i].name);
    tn__sha256_update_u64(hash, (uint64_t)use->dims[i].value);
  }
}

tn__chooser tn__written_chooser(const tn__written_use *use) {
  return (tn__chooser){.name = "written", .propose = propose_written, .hash = hash_written, .data = use};
}
