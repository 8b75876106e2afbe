/* Statements to primitives: names become loops, blocks and tensors of the schedule as it is by then, sizes numbers. */
#include <inttypes.h>
#include <string.h>

#include "base/invariant.h"
#include "ir/text.h"
#include "schedule/written/syntax.h"

typedef struct named_loop { /* by `as` */
  const char *name, *loop;
} named_loop;

typedef struct named_size { /* by `let` */
  const char *name;
  int64_t value;
} named_size;

typedef struct applier {
  const tn__written_use *use;
  const tn__plan_unit *unit;
  tn__arena *arena;
  tn__schedule *s;
  TN__VEC(named_loop) loops;
  TN__VEC(named_size) sizes;
  tn_dtype dtype;                 /* of what the statement is about */
  const int64_t *open;            /* sizes that are chosen; NULL: none are */
  const tn__written_stmt *choose; /* once there was one */
} applier;

enum { SHOWN_LOOPS = 40, SHOWN_BLOCKS = 40, MOST_ALIASES = 4096 };

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static _Noreturn void fail_with(applier *a, const tn__token *at, tn_status *why, const char *behind) {
  tn_status *whole = tn__written_error(a->use->block->of, at, why);
  tn_status *listed = whole;
  tn_status_free(why);
  if (behind != NULL) {
    listed = tn_status_create(tn_status_code_of(whole), "%s\n%s", tn_status_message(whole), behind);
    tn_status_free(whole);
  }
  tn__throw(a->arena->escape, listed);
}

static _Noreturn void fail(applier *a, const tn__token *at, const char *behind, const char *format, ...)
    TN_PRINTF(4, 5);
static _Noreturn void fail(applier *a, const tn__token *at, const char *behind, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tn_status *status = tn_status_create_v(TN_INVALID_ARGUMENT, format, args);
  va_end(args);
  fail_with(a, at, status, behind);
}

static const char *alias_of(const applier *a, const char *loop) {
  for (int i = a->loops.count - 1; i >= 0; i--)
    if (strcmp(a->loops.data[i].loop, loop) == 0) return a->loops.data[i].name;
  return NULL;
}

typedef struct listing {
  const applier *a;
  tn__strbuf *out;
  int loops, blocks;
} listing;

/* "the loops are P: P.i.0 (io), P.k; C: C.i, C.j": around each block. */
static void list_block(tn__snode *block, void *user) {
  listing *l = user;
  tn__snode *path[TN__MAX_LOOPS];
  if (l->blocks++ >= SHOWN_BLOCKS || l->loops > SHOWN_LOOPS) return;
  int count = tn__sched_path(l->a->s, l->a->s->root, block, path);
  tn__strbuf_printf(l->out, "%s%s:", l->blocks > 1 ? "; " : "", block->name);
  for (int i = 0; i < count; i++, l->loops++) {
    const char *alias = alias_of(l->a, path[i]->name);
    tn__strbuf_printf(l->out, "%s %s", i > 0 ? "," : "", path[i]->name);
    if (alias != NULL) tn__strbuf_printf(l->out, " (%s)", alias);
  }
  if (count == 0) tn__strbuf_append(l->out, " none");
}

static const char *text_of(applier *a, tn__strbuf *text) {
  tn_status *failed = tn__strbuf_status(text);
  const char *copy = failed == NULL ? tn__arena_strdup(a->arena, tn__strbuf_text(text)) : "";
  tn__strbuf_release(text);
  tn__check(a->arena->escape, failed);
  return copy;
}

static const char *loops_there_are(applier *a) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__strbuf_append(&text, "the loops are, by block: ");
  listing l = {a, &text, 0, 0};
  tn__sched_each_block(a->s->root, list_block, &l);
  if (l.blocks > SHOWN_BLOCKS || l.loops > SHOWN_LOOPS) tn__strbuf_append(&text, "; ...");
  return text_of(a, &text);
}

static void list_name(tn__snode *block, void *user) {
  listing *l = user;
  if (l->blocks++ < SHOWN_BLOCKS) tn__strbuf_printf(l->out, "%s%s", l->blocks > 1 ? ", " : "", block->name);
}

static const char *blocks_there_are(applier *a) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__strbuf_append(&text, "the blocks are: ");
  listing l = {a, &text, 0, 0};
  tn__sched_each_block(a->s->root, list_name, &l);
  if (l.blocks > SHOWN_BLOCKS) tn__strbuf_append(&text, ", ...");
  return text_of(a, &text);
}

static void list_buffer(tn__strbuf *out, const char *name, int *count) {
  if ((*count)++ < SHOWN_BLOCKS) tn__strbuf_printf(out, "%s%s", *count > 1 ? ", " : "", name);
}

static const char *tensors_there_are(applier *a) {
  tn__strbuf text;
  int count = 0;
  tn__strbuf_init(&text, NULL);
  tn__strbuf_append(&text, "the tensors are: ");
  for (int i = 0; i < tn__te_input_count(a->s->te); i++) list_buffer(&text, tn__te_input_at(a->s->te, i)->name, &count);
  for (int i = 0; i < a->s->buffers.count; i++) list_buffer(&text, a->s->buffers.data[i]->name, &count);
  for (int i = 0; i < tn__te_output_count(a->s->te); i++)
    list_buffer(&text, tn__te_output_at(a->s->te, i)->name, &count);
  if (count > SHOWN_BLOCKS) tn__strbuf_append(&text, ", ...");
  return text_of(a, &text);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* A loop that is called by its axis alone. */
typedef struct by_axis {
  applier *a;
  const char *axis;
  const tn__snode *found, *other;
} by_axis;

static void look_for_axis(tn__snode *node, by_axis *b) {
  for (int i = 0; i < node->children.count; i++) {
    tn__snode *child = node->children.data[i];
    if (child->is_block) continue;
    size_t name = strlen(child->name), axis = strlen(b->axis);
    if (name > axis + 1 && child->name[name - axis - 1] == '.' && strcmp(child->name + name - axis, b->axis) == 0) {
      if (b->found != NULL) b->other = b->found;
      b->found = child;
    }
    look_for_axis(child, b);
  }
}

static const tn__snode *loop_of(applier *a, const tn__token *t) {
  const char *name = tn__written_name(a->arena, t);
  if (name == NULL) fail(a, t, loops_there_are(a), "this names no loop");
  for (int i = a->loops.count - 1; i >= 0; i--) {
    if (strcmp(a->loops.data[i].name, name) != 0) continue;
    const tn__snode *loop = tn__sched_find(a->s, a->loops.data[i].loop, false);
    if (loop == NULL)
      fail(a, t, loops_there_are(a), "the loop %s, which was %s, is not there any more", name, a->loops.data[i].loop);
    return loop;
  }
  const tn__snode *loop = tn__sched_find(a->s, name, false);
  if (loop != NULL) return loop;
  by_axis b = {.a = a, .axis = name};
  look_for_axis(a->s->root, &b);
  if (b.other != NULL)
    fail(a, t, loops_there_are(a), "%s may be %s or %s: say which", name, b.other->name, b.found->name);
  if (b.found == NULL) fail(a, t, loops_there_are(a), "there is no loop %s", name);
  return b.found;
}

static const tn__snode *block_of(applier *a, const tn__token *t) {
  const char *name = tn__written_name(a->arena, t);
  const tn__snode *block = name == NULL ? NULL : tn__sched_find(a->s, name, true);
  if (block == NULL) fail(a, t, blocks_there_are(a), "there is no block %s", name == NULL ? "" : name);
  return block;
}

typedef struct writer {
  const char *tensor;
  const tn__snode *block;
  int output;
} writer;

static void look_for_writer(tn__snode *block, void *user) {
  writer *w = user;
  for (int i = 0; i < block->block.write_count && w->block == NULL; i++)
    if (strcmp(block->block.writes[i].buffer->name, w->tensor) == 0) *w = (writer){w->tensor, block, i};
}

/* A block, or a tensor: the first block that writes it. */
static writer writer_of(applier *a, const tn__token *t) {
  writer w = {.tensor = tn__written_name(a->arena, t)};
  if (w.tensor == NULL) fail(a, t, blocks_there_are(a), "this names no block");
  w.block = tn__sched_find(a->s, w.tensor, true);
  if (w.block == NULL) tn__sched_each_block(a->s->root, look_for_writer, &w);
  if (w.block == NULL) fail(a, t, blocks_there_are(a), "there is no block %s, nor one that writes it", w.tensor);
  return w;
}

static int64_t input_of(applier *a, const tn__token *t, const tn__snode *block) {
  const char *name = tn__written_name(a->arena, t);
  tn__strbuf text;
  for (int i = 0; name != NULL && i < block->block.read_count; i++)
    if (strcmp(block->block.reads[i].buffer->name, name) == 0) return i;
  tn__strbuf_init(&text, NULL);
  tn__strbuf_printf(&text, "%s reads: ", block->name);
  int count = 0;
  for (int i = 0; i < block->block.read_count; i++) list_buffer(&text, block->block.reads[i].buffer->name, &count);
  if (count == 0) tn__strbuf_append(&text, "nothing");
  const char *list = text_of(a, &text);
  fail(a, t, list, "%s does not read %s", block->name, name == NULL ? "this" : name);
}

static const char *tensor_of(applier *a, const tn__token *t) {
  const char *name = tn__written_name(a->arena, t);
  for (int i = 0; name != NULL && i < a->s->buffers.count; i++)
    if (strcmp(a->s->buffers.data[i]->name, name) == 0) return name;
  for (int i = 0; name != NULL && i < tn__te_input_count(a->s->te); i++)
    if (strcmp(tn__te_input_at(a->s->te, i)->name, name) == 0) return name;
  for (int i = 0; name != NULL && i < tn__te_output_count(a->s->te); i++)
    if (strcmp(tn__te_output_at(a->s->te, i)->name, name) == 0) return name;
  for (int i = 0; name != NULL && i < a->s->constants.count; i++)
    if (a->s->constants.data[i].packed != NULL && strcmp(a->s->constants.data[i].packed->name, name) == 0) return name;
  fail(a, t, tensors_there_are(a), "there is no tensor %s", name == NULL ? "of this name" : name);
}

static int64_t scope_of(applier *a, const tn__token *t) {
  int scope = tn__scope_find(t->text, t->length);
  if (scope < TN__SCOPE_WORKSPACE || scope > TN__SCOPE_SHARED)
    fail(a, t, "the scopes are: workspace, stack, register, shared", "there is no scope %.*s", (int)t->length, t->text);
  return scope;
}

static int64_t memory_of(applier *a, const tn__token *t) {
  const char *name = tn__written_name(a->arena, t);
  int memory = name == NULL ? -1 : tn__memory_scope_find(name);
  char list[128];
  if (memory >= 0) return memory;
  tn__memory_scope_list(tn__target_memory_scopes(tn__target_device_type(a->s->target)), list, sizeof list);
  fail(a, t, tn__arena_printf(a->arena, "the target has %s", list), "there is no memory %s",
       name == NULL ? "of this name" : name);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static int64_t value_of(applier *a, const tn__written_expr *e);

static bool is(const tn__token *t, const char *word) {
  return t->length == strlen(word) && memcmp(t->text, word, t->length) == 0;
}

/* What is known of the target and the options; false when it is no such word. */
TN_MUST_USE static bool fact_of(applier *a, const tn__token *t, int64_t *out) {
  const tn__schedule_options *o = &a->unit->options;
  bool cpu = tn__target_is_cpu(a->unit->target);
  if (is(t, "vector"))
    *out = o->vector_bytes / (int64_t)tn_dtype_size(a->dtype);
  else if (is(t, "vector_bytes"))
    *out = o->vector_bytes;
  else if (is(t, "registers"))
    *out = o->registers;
  else if (is(t, "threads"))
    *out = o->threads;
  else if (is(t, "l1"))
    *out = cpu ? a->unit->target->cpu.machine.l1_bytes : 0;
  else if (is(t, "l2"))
    *out = o->cache_bytes;
  else if (is(t, "l3"))
    *out = cpu ? a->unit->target->cpu.machine.l3_bytes : 0;
  else
    return false;
  return true;
}

/* A size by name; false when it is a dimension that is open. */
TN_MUST_USE static bool find_size(applier *a, const tn__token *t, int64_t *out) {
  const char *name = tn__written_name(a->arena, t);
  for (int i = a->sizes.count - 1; i >= 0 && name != NULL; i--) {
    *out = a->sizes.data[i].value;
    if (strcmp(a->sizes.data[i].name, name) == 0) return true;
  }
  for (int i = 0; i < tn__te_dim_count(a->unit->te) && name != NULL; i++)
    if (strcmp(tn__te_dim_at(a->unit->te, i)->name, name) == 0) return false;
  for (int i = 0; i < a->use->dim_count && name != NULL; i++) {
    *out = a->use->dims[i].value;
    if (strcmp(a->use->dims[i].name, name) == 0) return true;
  }
  if (name != NULL && fact_of(a, t, out)) return true;
  fail(a, t,
       "sizes are dimensions of the kernel, what `let` names, and vector, vector_bytes, registers, threads, l1, "
       "l2, l3",
       "there is no size %.*s", (int)t->length, t->text);
}

static int64_t call_of(applier *a, const tn__written_expr *e) {
  static const struct {
    const char *name;
    int args;
  } functions[] = {{"min", 2}, {"max", 2}, {"ceildiv", 2}, {"extent", 1}, {"lanes", 1}, {"known", 1}};
  int which = -1;
  for (int i = 0; i < 6; i++)
    if (is(&e->at, functions[i].name)) which = i;
  if (which < 0)
    fail(a, &e->at, "functions are: min(a, b), max(a, b), ceildiv(a, b), extent(LOOP), lanes(TYPE), known(DIMENSION)",
         "there is no function %.*s", (int)e->at.length, e->at.text);
  if (functions[which].args != e->arg_count)
    fail(a, &e->at, NULL, "%s takes %d value%s", functions[which].name, functions[which].args,
         functions[which].args > 1 ? "s" : "");
  const tn__token *name = &e->args[0]->at;
  if (which >= 3 && e->args[0]->kind != TN__WRITTEN_NAME_OF) fail(a, name, NULL, "expected a name");
  int64_t value, other;
  switch (which) {
    case 3:
      if (tn__ir_as_int(loop_of(a, name)->var->extent, &value)) return value;
      fail(a, name, NULL, "how long the loop is depends on open dimensions or on outer loops");
    case 4: {
      tn_dtype dtype = tn__ir_dtype_find(name->text, name->length);
      if (dtype == TN_DTYPE_INVALID) fail(a, name, NULL, "there is no type %.*s", (int)name->length, name->text);
      return a->unit->options.vector_bytes / (int64_t)tn_dtype_size(dtype);
    }
    case 5: return find_size(a, name, &value);
    default: break;
  }
  value = value_of(a, e->args[0]);
  other = value_of(a, e->args[1]);
  if (which == 0) return value < other ? value : other;
  if (which == 1) return value > other ? value : other;
  if (other <= 0 || value < 0) fail(a, &e->at, NULL, "ceildiv is of a number and one above 0");
  return value / other + (value % other != 0);
}

static int64_t binary_of(applier *a, const tn__written_expr *e) {
  const char *op = e->op->text;
  int64_t x = value_of(a, e->args[0]), y, result = 0;
  if (strcmp(op, "&&") == 0 && x == 0) return 0;
  if (strcmp(op, "||") == 0 && x != 0) return 1;
  y = value_of(a, e->args[1]);
  bool wraps = false;
  switch (op[0]) {
    case '&':
    case '|': return y != 0;
    case '=': return x == y;
    case '!': return x != y;
    case '<': return op[1] == '=' ? x <= y : x < y;
    case '>': return op[1] == '=' ? x >= y : x > y;
    case '+': wraps = __builtin_add_overflow(x, y, &result); break;
    case '-': wraps = __builtin_sub_overflow(x, y, &result); break;
    case '*': wraps = __builtin_mul_overflow(x, y, &result); break;
    default:
      if (y <= 0 || x < 0) fail(a, &e->at, NULL, "%s is for numbers from 0 on and one above 0 behind it", op);
      return op[0] == '/' ? x / y : x % y;
  }
  if (wraps) fail(a, &e->at, NULL, "the result does not fit 64 bits");
  return result;
}

static int64_t value_of(applier *a, const tn__written_expr *e) {
  int64_t value;
  switch (e->kind) {
    case TN__WRITTEN_NUMBER: return e->value;
    case TN__WRITTEN_OPEN:
      if (a->open == NULL) fail(a, &e->at, NULL, "'?' is a size of a statement; a decision that is not said is chosen");
      return a->open[e->value];
    case TN__WRITTEN_NAME_OF:
      if (find_size(a, &e->at, &value)) return value;
      fail(a, &e->at, NULL, "the dimension %.*s is open: fix it, or ask known(%.*s) before", (int)e->at.length,
           e->at.text, (int)e->at.length, e->at.text);
    case TN__WRITTEN_CALL: return call_of(a, e);
    case TN__WRITTEN_UNARY:
      value = value_of(a, e->args[0]);
      if (e->value == '!') return value == 0;
      if (value == INT64_MIN) fail(a, &e->at, NULL, "the result does not fit 64 bits");
      return -value;
    case TN__WRITTEN_BINARY: return binary_of(a, e);
    default: return 0; /* what is left, in a split */
  }
}

static int64_t number_of(applier *a, const tn__written_expr *e) {
  int64_t value = value_of(a, e);
  if (value < 0 || value > INT32_MAX)
    fail(a, &e->at, NULL, "the number %" PRId64 " is out of range: 0 to %d", value, INT32_MAX);
  return value;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

typedef struct step {
  const char *names[TN__MAX_LOOPS];
  int64_t numbers[TN__WRITTEN_NUMBERS];
  int name_count, number_count;
} step;

static void set_name(step *s, int slot, const char *name) {
  s->names[slot] = name;
  if (s->name_count <= slot) s->name_count = slot + 1;
}

static void set_number(step *s, int slot, int64_t number) {
  s->numbers[slot] = number;
  if (s->number_count <= slot) s->number_count = slot + 1;
}

static void use_block(applier *a, const tn__snode *block) {
  if (block->block.write_count > 0) a->dtype = block->block.writes[0].buffer->dtype;
}

static void use_first_block(tn__snode *block, void *user) {
  applier *a = user;
  if (a->dtype == TN_DTYPE_INVALID) use_block(a, block);
}

static void set_sizes(applier *a, const tn__written_operand *o, step *out) {
  bool rest = o->exactly;
  for (int i = 0; i < o->numbers.count; i++) rest |= o->numbers.data[i]->kind == TN__WRITTEN_REST;
  if (!rest) set_number(out, out->number_count, 0);
  for (int i = 0; i < o->numbers.count; i++) {
    const tn__written_expr *e = o->numbers.data[i];
    int64_t size = e->kind == TN__WRITTEN_REST ? 0 : number_of(a, e);
    if (e->kind != TN__WRITTEN_REST && size < 1) fail(a, &e->at, NULL, "a size is at least 1");
    if (out->number_count == TN__WRITTEN_NUMBERS) fail(a, &e->at, NULL, "too many sizes");
    set_number(out, out->number_count, size);
  }
}

/* Names first: a number may depend on what they name. */
static void set_names(applier *a, const tn__written_stmt *stmt, step *out) {
  for (int i = 0; i < stmt->operand_count; i++) {
    const tn__written_operand *o = &stmt->operands[i];
    const tn__token *t = o->names.count > 0 ? &o->names.data[0] : &o->at;
    switch (o->kind) {
      case 'l':
      case 'L':
        for (int k = 0; k < o->names.count; k++) {
          const tn__snode *loop = loop_of(a, &o->names.data[k]);
          set_name(out, o->kind == 'l' ? o->slot : k, loop->name);
          if (a->dtype == TN_DTYPE_INVALID)
            for (int c = 0; c < loop->children.count; c++)
              tn__sched_each_block(loop->children.data[c], use_first_block, a);
          if (o->kind == 'l') break;
        }
        break;
      case 'b': {
        const tn__snode *block = block_of(a, t);
        set_name(out, o->slot, block->name);
        use_block(a, block);
        break;
      }
      case 'o': {
        writer w = writer_of(a, t);
        set_name(out, 0, w.block->name);
        set_number(out, 0, w.output);
        use_block(a, w.block);
        break;
      }
      case 't': set_name(out, o->slot, tensor_of(a, t)); break;
      case 'w': set_name(out, o->slot, tn__written_name(a->arena, t)); break;
      default: break;
    }
  }
}

static void set_numbers(applier *a, const tn__written_stmt *stmt, step *out) {
  for (int i = 0; i < stmt->operand_count; i++) {
    const tn__written_operand *o = &stmt->operands[i];
    switch (o->kind) {
      case 'o':
        if (o->numbers.count > 0) set_number(out, 0, number_of(a, o->numbers.data[0]));
        break;
      case 'i':
        set_number(out, o->slot,
                   o->names.count == 0
                       ? number_of(a, o->numbers.data[0])
                       : input_of(a, &o->names.data[0], tn__sched_block(a->s, stmt->row->step, out->names[0])));
        break;
      case 's': set_number(out, o->slot, scope_of(a, &o->names.data[0])); break;
      case 'm': set_number(out, o->slot, memory_of(a, &o->names.data[0])); break;
      case 'n':
      case 'N':
      case 'p':
        for (int k = 0; k < o->numbers.count; k++) {
          if (o->slot + k >= TN__WRITTEN_NUMBERS) fail(a, &o->at, NULL, "too many numbers");
          set_number(out, o->slot + k, number_of(a, o->numbers.data[k]));
        }
        break;
      case 'f': set_sizes(a, o, out); break;
      default: break;
    }
  }
}

static const char *line_of(applier *a, const char *name, const step *s) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__strbuf_append(&text, name);
  for (int i = 0; i < s->name_count; i++) tn__strbuf_printf(&text, " \"%s\"", s->names[i]);
  for (int i = 0; i < s->number_count; i++) tn__strbuf_printf(&text, " %" PRId64, s->numbers[i]);
  return text_of(a, &text);
}

typedef struct taking {
  tn__schedule *s;
  const char *line; /* NULL: the whole is checked */
} taking;

static void take(tn__escape *escape, void *arg) {
  const taking *t = arg;
  t->s->arena->escape = escape;
  if (t->line != NULL)
    tn__sched_trace_step(t->s, t->line);
  else
    tn__schedule_func(t->s);
}

tn_status *tn__written_try(tn__schedule *s, const char *line) {
  tn__escape *outer = s->arena->escape, escape;
  taking t = {s, line};
  tn_status *status = tn__protect(&escape, take, &t);
  s->arena->escape = outer;
  return status;
}

/* Without "schedule of gemm: ", which the place says better. */
static tn_status *without_head(const applier *a, tn_status *status) {
  const char *message = tn_status_message(status), *head = "schedule of ", *name = tn__te_name(a->unit->te);
  size_t n = strlen(head), m = strlen(name);
  if (strncmp(message, head, n) != 0 || strncmp(message + n, name, m) != 0 || strncmp(message + n + m, ": ", 2) != 0)
    return status;
  tn_status *shorter = tn_status_create(tn_status_code_of(status), "%s", message + n + m + 2);
  tn_status_free(status);
  return shorter;
}

static void run_line(applier *a, const tn__token *at, const char *line) {
  tn_status *status = tn__written_try(a->s, line);
  if (status == NULL) return;
  if (tn_status_code_of(status) != TN_INVALID_ARGUMENT) tn__throw(a->arena->escape, status);
  fail_with(a, at, without_head(a, status), loops_there_are(a));
}

/* Gives the new loops the names behind `as`. */
static void name_loops(applier *a, const tn__written_stmt *stmt, const step *done) {
  int made = 0;
  const char *names[2 * TN__MAX_FACTORS];
  if (stmt->as.count == 0) return;
  if (stmt->row->makes == TN__WRITTEN_FUSED)
    names[made++] = tn__arena_printf(a->arena, "%s+%s", done->names[0], done->names[1]);
  for (int i = 0; stmt->row->makes == TN__WRITTEN_PARTS && i < done->number_count; i++)
    names[made++] = tn__arena_printf(a->arena, "%s.%d", done->names[0], i);
  for (int i = 0; stmt->row->makes == TN__WRITTEN_TILES && i < 2 * done->name_count; i++)
    names[made++] = tn__arena_printf(a->arena, "%s.%d", done->names[i % done->name_count], i / done->name_count);
  if (made != stmt->as.count)
    fail(a, &stmt->as.data[0], loops_there_are(a), "%s makes %d loop%s, and 'as' names %d", stmt->row->step, made,
         made > 1 ? "s" : "", stmt->as.count);
  for (int i = 0; i < made; i++) {
    const char *name = tn__written_name(a->arena, &stmt->as.data[i]);
    bool taken = tn__sched_find(a->s, name, false) != NULL;
    for (int k = 0; k < a->loops.count; k++) taken |= strcmp(a->loops.data[k].name, name) == 0;
    if (taken) fail(a, &stmt->as.data[i], loops_there_are(a), "the name %s is taken already", name);
    if (a->loops.count == MOST_ALIASES) fail(a, &stmt->as.data[i], NULL, "more than %d named loops", MOST_ALIASES);
    tn__vec_push(a->arena, &a->loops, ((named_loop){name, names[i]}));
  }
}

/* Names grow with each split and fusion, the fused ones twofold: what comes of it can still be written. */
static void check_lengths(applier *a, const tn__written_stmt *stmt, const step *s) {
  TN__INVARIANT(stmt->row->makes != TN__WRITTEN_FUSED || (s->names[0] != NULL && s->names[1] != NULL));
  size_t length = stmt->row->makes == TN__WRITTEN_FUSED ? strlen(s->names[0]) + strlen(s->names[1]) + 1 : 0;
  bool parts = stmt->row->makes == TN__WRITTEN_PARTS || stmt->row->makes == TN__WRITTEN_TILES;
  for (int i = 0; parts && i < s->name_count; i++)
    if (strlen(s->names[i]) + 2 > length) length = strlen(s->names[i]) + 2;
  if (length > TN__WRITTEN_NAME)
    fail(a, &stmt->at, NULL, "the name of a new loop would have %zu characters; at most %d are allowed", length,
         TN__WRITTEN_NAME);
}

static void run_step(applier *a, const tn__written_stmt *stmt) {
  a->dtype = TN_DTYPE_INVALID;
  if (stmt->row->makes == TN__WRITTEN_BLOCK) {
    for (int i = 0; i < stmt->operands[0].names.count; i++) {
      step one = {.name_count = 1};
      one.names[0] = loop_of(a, &stmt->operands[0].names.data[i])->name;
      run_line(a, &stmt->operands[0].names.data[i], line_of(a, stmt->row->step, &one));
    }
    return;
  }
  step done = {0};
  set_names(a, stmt, &done);
  if (a->dtype == TN_DTYPE_INVALID) a->dtype = TN_F32;
  set_numbers(a, stmt, &done);
  if (stmt->row->makes == TN__WRITTEN_PARTS && done.number_count > TN__MAX_FACTORS)
    fail(a, &stmt->at, NULL, "a loop is split into %d at the most", TN__MAX_FACTORS);
  check_lengths(a, stmt, &done);
  run_line(a, &stmt->at, line_of(a, stmt->row->step, &done));
  name_loops(a, stmt, &done);
}

static void run_stmts(applier *a, const tn__written_stmts *stmts) {
  for (int i = 0; i < stmts->count; i++) {
    const tn__written_stmt *stmt = stmts->data[i];
    if (a->choose != NULL) fail(a, &stmt->at, NULL, "'choose the rest' is the last statement: nothing is left to say");
    a->dtype = tn__te_output_at(a->unit->te, 0)->dtype;
    switch (stmt->kind) {
      case TN__WRITTEN_LET: {
        named_size size = {tn__written_name(a->arena, &stmt->as.data[0]), value_of(a, stmt->value)};
        tn__vec_push(a->arena, &a->sizes, size);
        break;
      }
      case TN__WRITTEN_IF: run_stmts(a, value_of(a, stmt->value) != 0 ? &stmt->then : &stmt->otherwise); break;
      case TN__WRITTEN_CHOOSE: a->choose = stmt; break;
      default: run_step(a, stmt);
    }
  }
}

static applier begin(const tn__written_use *use, const tn__plan_unit *unit) {
  return (applier){.use = use, .unit = unit, .arena = tn__ir_arena(tn__te_ir(unit->te))};
}

tn__written_result tn__written_apply(const tn__written_use *use, const tn__plan_unit *unit, const int64_t *open) {
  applier a = begin(use, unit);
  a.open = open;
  a.s = tn__schedule_of(unit->te, unit->target);
  run_stmts(&a, &use->block->stmts);
  if (a.s->steps.count > 0) run_line(&a, &use->block->kernel, NULL);
  return (tn__written_result){a.s, a.choose != NULL, a.choose};
}

int64_t tn__written_decide(const tn__written_use *use, const tn__plan_unit *unit, const tn__written_decision *d) {
  applier a = begin(use, unit);
  a.s = tn__schedule_of(unit->te, unit->target);
  a.dtype = tn__te_output_at(unit->te, 0)->dtype;
  return value_of(&a, d->value);
}
