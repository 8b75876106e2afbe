/* What of a function is known when it is entered: sizes, memory, and so what its C function asks of its caller. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "declarations/c_names.h"
#include "emit_c/emit_c.h"
#include "target/target.h"
#include "tenon/compile.h"

static tn_status *refuse(const tn__c_emitter *e, const tn__function *f, const tn__instruction *in, const char *why) {
  const char *origin = in ? tn__function_origin(e->exe, f, in->word) : NULL;
  return tn_status_create(TN_UNSUPPORTED, "function \"%s\" cannot become a C function: %s%s%s", f->name,
                          origin ? origin : "", origin ? ": " : "", why);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static tn_status *check_strides(const tn__c_emitter *e, const tn__function *f) {
  char why[512];
  for (uint32_t i = 0; i < f->input_count; i++) {
    if (!f->inputs[i].info.strided) continue;
    snprintf(why, sizeof why, "input \"%s\" may have any strides (--strided), which only the runtime looks at",
             f->inputs[i].info.name);
    return refuse(e, f, NULL, why);
  }
  return NULL;
}

/* Constants are private to the C object, so its functions cannot choose between a constant and a caller's tensor. */
static tn_status *check_defaults(const tn__c_emitter *e, const tn__function *f) {
  char why[512];
  for (uint32_t i = 0; i < f->input_count; i++) {
    if (f->inputs[i].info.fallback == NULL) continue;
    snprintf(why, sizeof why,
             "input \"%.256s\" has a default, which only the runtime binds; --fold-defaults "
             "(tn_compile_options.fold_defaults) makes it a constant",
             f->inputs[i].info.name);
    return refuse(e, f, NULL, why);
  }
  return NULL;
}

static tn_status *check_devices(const tn__c_emitter *e, const tn__function *f) {
  char why[128];
  for (uint32_t i = 0; i < f->register_count; i++) {
    uint32_t device = f->registers[i].device;
    if (device == 0) continue;
    const DLDevice *where = &e->exe->devices[device];
    snprintf(why, sizeof why, "it has values on %s:%d, and C runs on the CPU alone",
             tn__target_type_name((int)where->device_type), (int)where->device_id);
    return refuse(e, f, NULL, why);
  }
  return NULL;
}

/* Kernels of another CPU are in the object of machine code; C has those of C alone beside it. */
static tn_status *check_kernels(const tn__c_emitter *e, const tn__function *f) {
  char why[256];
  for (uint32_t i = 0; i < f->instruction_count && e->source != NULL; i++) {
    const tn__instruction *in = &f->instructions[i];
    uint32_t device = in->op == TN__OP_KERNEL ? e->exe->kernels[in->callee].device : 0;
    if (device == 0 || e->exe->sources[device].size > 0) continue;
    snprintf(why, sizeof why, "it runs on cpu:%d, which is %.150s, and C calls what is C alone",
             (int)e->exe->devices[device].device_id, e->exe->targets[device]);
    return refuse(e, f, in, why);
  }
  return NULL;
}

static tn_status *check_strings(const tn__c_emitter *e, const tn__function *f) {
  for (uint32_t i = 0; i < f->register_count; i++)
    if (f->registers[i].dtype == TN_STRING)
      return refuse(e, f, NULL, "it holds strings, whose memory only the runtime allocates");
  return NULL;
}

static tn_status *check_tables(const tn__c_emitter *e, const tn__function *f) {
  for (uint32_t i = 0; i < f->instruction_count; i++) {
    const tn__instruction *in = &f->instructions[i];
    if (in->op == TN__OP_BUILTIN && tn__builtin_find(in->callee)->about == TN__ABOUT_STRINGS)
      return refuse(e, f, in, "it looks something up in a table, which only the runtime does");
  }
  return NULL;
}

/* ---- scalars ---------------------------------------------------------------------------------------------------- */

static bool is_known(const tn__c_function *c, const tn__operand *o) { return !o->symbolic || c->known[o->value]; }

static bool is_tainted(const tn__c_function *c, const tn__operand *o) { return o->symbolic && c->tainted[o->value]; }

bool tn__c_knows(const tn__c_function *c, const tn__register *r) {
  for (int i = 0; i < r->rank; i++)
    if (!is_known(c, &r->dims[i])) return false;
  return true;
}

static bool is_constant_from(const tn__c_function *c, uint32_t scalar, int64_t least) {
  const tn__instruction *in = c->made_by[scalar];
  return in != NULL && in->op == TN__OP_SCALAR_CONST && in->immediate >= least;
}

/* As divisors are: constants, or max(1, ...). */
static bool is_positive(const tn__c_function *c, uint32_t scalar) {
  const tn__instruction *in = c->made_by[scalar];
  if (in != NULL && in->op == TN__OP_SCALAR_OP && in->d == TN__SCALAR_MAX)
    return is_constant_from(c, in->b, 1) || is_constant_from(c, in->c, 1);
  return is_constant_from(c, scalar, 1);
}

/* Can the instruction, which assigns a scalar, run at entry? */
static bool runs_at_entry(const tn__c_function *c, const tn__instruction *in) {
  const tn__function *f = c->f;
  bool prologue = in < f->instructions + f->prologue_count;
  if (!prologue && in->op == TN__OP_SCALAR_OP && tn__scalar_op_find(in->d)->divides && !is_positive(c, in->c))
    return false;
  tn__code_uses uses = tn__code_uses_of(f->code + in->word);
  for (tn__code_use use; tn__code_uses_next(&uses, &use);) {
    if (use.letter == 's' && !c->known[use.word]) return false;
    if (use.letter == 'r' && !prologue) return false;
    if (use.letter != 'q' || prologue) continue;
    const tn__register *r = &f->registers[use.word];
    if (r->dims[in->c].symbolic && tn__c_is_late(c, r->root)) return false;
  }
  return true;
}

static bool is_made_of_values(const tn__c_function *c, const tn__instruction *in) {
  tn__code_uses uses = tn__code_uses_of(c->f->code + in->word);
  for (tn__code_use use; tn__code_uses_next(&uses, &use);) {
    if (use.letter == 's' && c->tainted[use.word]) return true;
    if (use.letter == 'r' && tn__c_root(c->f, use.word)->storage == TN__STORAGE_INPUT) return true;
    if (use.letter == 'q' && is_tainted(c, &c->f->registers[use.word].dims[in->c])) return true;
  }
  return false;
}

/* A scalar that a dimension of a register stands for has its value before the register has memory, so a size that is
 * asked back is the operand itself. */
static bool shape_is_known(const tn__c_function *c, const tn__instruction *in) {
  return in->op != TN__OP_SCALAR_SHAPE || is_known(c, &c->f->registers[in->b].dims[in->c]);
}

static tn_status *find_scalars(const tn__c_emitter *e, tn__c_function *c) {
  const tn__function *f = c->f;
  TN_RETURN_IF_ERROR(tn__region_alloc(e->region, f->scalar_count, 1, &c->known));
  TN_RETURN_IF_ERROR(tn__region_alloc(e->region, f->scalar_count, 1, &c->tainted));
  TN_RETURN_IF_ERROR(tn__region_alloc(e->region, f->scalar_count, sizeof(*c->made_by), &c->made_by));
  uint8_t *several;
  TN_RETURN_IF_ERROR(tn__region_alloc(e->region, f->scalar_count, 1, &several));
  for (uint32_t i = 0; i < f->instruction_count; i++) {
    const tn__instruction *in = &f->instructions[i];
    if (!tn__instruction_assigns_scalar(in->op)) continue;
    several[in->a] = c->made_by[in->a] != NULL || f->signature_scalar[in->a];
    c->made_by[in->a] = in;
  }
  for (uint32_t i = 0; i < f->scalar_count; i++)
    if (several[i]) c->made_by[i] = NULL;
  memcpy(c->known, f->signature_scalar, f->scalar_count);
  return NULL;
}

static void follow_scalars(tn__c_function *c) {
  const tn__function *f = c->f;
  memcpy(c->known, f->signature_scalar, f->scalar_count);
  for (uint32_t i = 0; i < f->instruction_count; i++) {
    const tn__instruction *in = &f->instructions[i];
    if (!tn__instruction_assigns_scalar(in->op) || c->made_by[in->a] != in) continue;
    c->known[in->a] = runs_at_entry(c, in) && shape_is_known(c, in);
    c->tainted[in->a] = c->known[in->a] && is_made_of_values(c, in);
  }
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

bool tn__c_is_late(const tn__c_function *c, uint32_t number) { return c->memory[number] == TN__C_LATE; }

static void count_dim(const tn__register *r, int64_t operand, int *count) {
  for (int i = 0; i < r->rank; i++) *count += r->dims[i].symbolic && r->dims[i].value == operand;
}

static int64_t constant_part(const tn__register *r) {
  int64_t bytes = (int64_t)tn_dtype_size(r->dtype);
  for (int i = 0; i < r->rank; i++)
    if (!r->dims[i].symbolic && (r->dims[i].value == 0 || bytes <= INT64_MAX / r->dims[i].value))
      bytes *= r->dims[i].value;
  return bytes;
}

bool tn__c_same_size(const tn__register *a, const tn__register *b) {
  if (constant_part(a) != constant_part(b)) return false;
  int all_a = 0, all_b = 0;
  for (int i = 0; i < a->rank; i++) {
    if (!a->dims[i].symbolic) continue;
    int in_a = 0, in_b = 0;
    count_dim(a, a->dims[i].value, &in_a);
    count_dim(b, a->dims[i].value, &in_b);
    if (in_a != in_b) return false;
  }
  for (int i = 0; i < a->rank; i++) all_a += a->dims[i].symbolic != 0;
  for (int i = 0; i < b->rank; i++) all_b += b->dims[i].symbolic != 0;
  return all_a == all_b;
}

static bool make_late(tn__c_function *c, uint32_t number) {
  bool change = c->memory[number] != TN__C_LATE;
  c->memory[number] = TN__C_LATE;
  return change;
}

/* Memory that trades places has one size; what a call reads is not written over by its results. */
static bool follow_moves(tn__c_function *c) {
  const tn__function *f = c->f;
  bool change = false;
  for (uint32_t i = 0; i < f->instruction_count; i++) {
    const tn__instruction *in = &f->instructions[i];
    if (in->op == TN__OP_MOVE && !tn__c_is_list(f, in->a)) {
      bool late = c->memory[in->a] == TN__C_LATE || c->memory[in->b] == TN__C_LATE ||
                  !tn__c_same_size(&f->registers[in->a], &f->registers[in->b]);
      if (late) change = (int)make_late(c, in->a) | (int)make_late(c, in->b) | (int)change;
    }
    for (uint32_t w = 0; in->op == TN__OP_CALL && w < in->write_count; w++) {
      uint32_t number = in->operands[in->read_count + w];
      if (tn__c_is_list(f, number)) continue;
      for (uint32_t r = 0; r < in->read_count && f->registers[number].storage == TN__STORAGE_DYNAMIC; r++)
        if (f->registers[in->operands[r]].root == number) change = make_late(c, number) || change;
    }
  }
  return change;
}

static void find_memory(tn__c_function *c) {
  const tn__function *f = c->f;
  for (bool change = true; change;) {
    follow_scalars(c);
    change = follow_moves(c);
    for (uint32_t i = 0; i < f->register_count; i++) {
      const tn__register *r = &f->registers[i];
      bool own = r->storage == TN__STORAGE_DYNAMIC || r->storage == TN__STORAGE_OUTPUT;
      if (tn__c_is_list(f, i)) {
        c->memory[i] = r->storage == TN__STORAGE_DYNAMIC ? TN__C_LIST : TN__C_ELSEWHERE;
        continue;
      }
      if (own && !tn__c_knows(c, r)) change = make_late(c, i) || change;
      if (r->storage == TN__STORAGE_DYNAMIC && c->memory[i] != TN__C_LATE) c->memory[i] = TN__C_SLOT;
    }
  }
}

/* A kernel's workspace: allocated, and then written by that kernel alone. */
static tn_status *find_scratch(const tn__c_emitter *e, tn__c_function *c) {
  const tn__function *f = c->f;
  uint32_t *uses;
  TN_RETURN_IF_ERROR(tn__region_alloc(e->region, f->register_count, sizeof *uses, &uses));
  for (uint32_t i = 0; i < f->register_count; i++)
    if (f->registers[i].root != i) uses[f->registers[i].root] = 3; /* looked at in several ways: no workspace */
  for (uint32_t i = 0; i < f->instruction_count; i++) {
    const tn__instruction *in = &f->instructions[i];
    tn__code_uses operands = tn__code_uses_of(f->code + in->word);
    for (tn__code_use use; tn__code_uses_next(&operands, &use);) {
      bool last = in->op == TN__OP_KERNEL && use.letter == 'w' && use.index == use.count - 1;
      if (strchr("rwqtn", use.letter) != NULL) uses[f->registers[use.word].root] += last ? 1 : 3;
    }
  }
  for (uint32_t i = 0; i < f->register_count; i++)
    if (c->memory[i] == TN__C_SLOT && uses[i] == 1) c->memory[i] = TN__C_SCRATCH;
  return NULL;
}

static bool is_late_call(const tn__c_function *c, const tn__instruction *in) {
  for (uint32_t i = 0; i < in->read_count; i++) {
    const tn__register *r = &c->f->registers[in->operands[i]];
    if (!tn__c_knows(c, r) || tn__c_is_late(c, r->root)) return true;
  }
  return false;
}

static bool is_size_tainted(const tn__c_function *c, const tn__register *r) {
  for (int i = 0; i < r->rank; i++)
    if (is_tainted(c, &r->dims[i])) return true;
  return false;
}

static int64_t round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* The bytes of its own memory when they are constant, else -1. */
static int64_t constant_frame(const tn__c_function *c) {
  const tn__function *f = c->f;
  int64_t total = f->arena.symbolic ? -1 : round_up(f->arena.value), scratch = 0;
  for (uint32_t i = 0; i < f->register_count && total >= 0; i++) {
    int64_t bytes = f->registers[i].static_bytes;
    if (c->memory[i] != TN__C_SLOT && c->memory[i] != TN__C_SCRATCH) continue;
    if (bytes < 0) return -1;
    if (c->memory[i] == TN__C_SLOT)
      total += round_up(bytes);
    else if (round_up(bytes) > scratch)
      scratch = round_up(bytes);
  }
  return total < 0 ? -1 : total + scratch;
}

/* After the functions that it calls. */
static void finish_plan(tn__c_emitter *e, tn__c_function *c) {
  const tn__function *f = c->f;
  int64_t most = 0;
  c->planned = true;
  c->by_value = is_tainted(c, &f->arena);
  for (uint32_t i = 0; i < f->register_count; i++) {
    const tn__register *r = &f->registers[i];
    if ((tn__c_is_late(c, i) && r->storage == TN__STORAGE_DYNAMIC) || tn__c_is_list(f, i)) c->planned = false;
    if (tn__c_is_late(c, i) && r->storage == TN__STORAGE_OUTPUT) c->late_outputs = true;
    if (c->memory[i] == TN__C_SLOT || c->memory[i] == TN__C_SCRATCH || r->storage == TN__STORAGE_OUTPUT)
      c->by_value = c->by_value || is_size_tainted(c, r);
  }
  for (uint32_t i = 0; i < f->instruction_count; i++) {
    const tn__instruction *in = &f->instructions[i];
    if (in->op != TN__OP_CALL) continue;
    const tn__c_function *callee = &e->functions[in->callee];
    if (!callee->planned || (callee->workspace < 0 && (callee->by_value || is_late_call(c, in)))) c->planned = false;
    if (callee->workspace < 0) {
      most = -1;
      for (uint32_t k = 0; k < in->read_count; k++)
        c->by_value = c->by_value || is_size_tainted(c, &f->registers[in->operands[k]]);
    } else if (most >= 0 && callee->workspace > most) {
      most = callee->workspace;
    }
  }
  int64_t frame = constant_frame(c);
  c->workspace = c->planned && frame >= 0 && most >= 0 ? frame + most : -1;
  bool open_outputs = false;
  for (uint32_t i = 0; i < f->output_count; i++) {
    const tn__function_value *output = &f->outputs[i];
    bool open = output->grows >= 0 && output->valid.symbolic;
    open_outputs = open_outputs || open || f->registers[output->reg].static_bytes < 0;
    c->by_value = c->by_value || (open && is_tainted(c, &output->valid));
  }
  c->sized = (c->planned && c->workspace < 0) || open_outputs;
}

/* ---- functions -------------------------------------------------------------------------------------------------- */

static tn_status *plan_function(tn__c_emitter *e, tn__c_function *c) {
  enum { NEW, OPEN, DONE };
  const tn__function *f = c->f;
  if (c->state == DONE) return NULL;
  if (c->state == OPEN) return refuse(e, f, NULL, "it calls itself, so that the memory it needs has no bound");
  c->state = OPEN;
  TN_RETURN_IF_ERROR(check_devices(e, f));
  TN_RETURN_IF_ERROR(check_kernels(e, f));
  TN_RETURN_IF_ERROR(check_strings(e, f));
  TN_RETURN_IF_ERROR(check_strides(e, f));
  TN_RETURN_IF_ERROR(check_defaults(e, f));
  TN_RETURN_IF_ERROR(check_tables(e, f));
  for (uint32_t i = 0; i < f->instruction_count; i++) {
    if (f->instructions[i].op != TN__OP_CALL) continue;
    tn__c_function *callee = &e->functions[f->instructions[i].callee];
    callee->called = true;
    TN_RETURN_IF_ERROR(plan_function(e, callee));
  }
  TN_RETURN_IF_ERROR(tn__region_alloc(e->region, f->register_count, sizeof *c->memory, &c->memory));
  TN_RETURN_IF_ERROR(tn__region_alloc(e->region, f->register_count, sizeof *c->place, &c->place));
  TN_RETURN_IF_ERROR(find_scalars(e, c));
  find_memory(c);
  TN_RETURN_IF_ERROR(find_scratch(e, c));
  for (uint32_t i = 0; i < f->register_count; i++) {
    if (c->memory[i] == TN__C_SLOT) c->place[i] = c->slot_count++;
    if (tn__c_is_late(c, i) && f->registers[i].storage == TN__STORAGE_DYNAMIC) c->place[i] = c->late_count++;
    if (c->memory[i] == TN__C_LIST) c->place[i] = c->list_count++;
    e->lists = e->lists || tn__c_is_list(f, i);
    if (f->registers[i].rank > e->max_rank) e->max_rank = f->registers[i].rank;
  }
  finish_plan(e, c);
  c->state = DONE;
  return NULL;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static bool ends_in(const char *name, const char *end) {
  size_t length = strlen(name), room = strlen(end);
  return length >= room && strcmp(name + length - room, end) == 0;
}

/* May a parameter not be called so? What the public functions name themselves, keywords, and what headers define: types
 * end in _t, limits in _MAX, _MIN and _WIDTH, and this header's own names begin with tn. */
static bool is_taken(const char *name) {
  static const char *const names[] = {"inputs", "outputs", "workspace", "workspace_bytes", "capacities",     "dims",
                                      "c",      "in",      "out",       "space",           "status",         "NULL",
                                      "EOF",    "I",       "errno",     "stdin",           "stdout",         "stderr",
                                      "assert", "linux",   "unix",      "bytes",           "workspace_used", "given",
                                      "made"};
  static const char *const starts[] = {"tn_", "tni_", "TN_"}, *const ends[] = {"_t", "_MAX", "_MIN", "_WIDTH"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(names[i], name) == 0) return true;
  for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
    if (strncmp(name, starts[i], strlen(starts[i])) == 0) return true;
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
    if (ends_in(name, ends[i])) return true;
  return tn__decl_is_taken_in_c(name);
}

/* The characters of an identifier, with room for a number behind them. */
static tn_status *spell(const tn__c_emitter *e, const char *text, bool alone, char **out, size_t *room) {
  *room = strlen(text) + 16;
  char *name;
  TN_RETURN_IF_ERROR(tn__region_alloc(e->region, *room, 1, &name));
  size_t at = alone && (text[0] == '\0' || isdigit((unsigned char)text[0]) || text[0] == '_') ? 1 : 0;
  if (at > 0) name[0] = 'n';
  for (const char *c = text; *c; c++) name[at++] = isalnum((unsigned char)*c) ? *c : '_';
  *out = name;
  return NULL;
}

static bool is_among(const char *name, const char *const *others, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (others[i] && strcmp(others[i], name) == 0) return true;
  return false;
}

static tn_status *name_symbol(const tn__c_emitter *e, const tn__c_function *c, const char *text, const char **out) {
  char *name;
  size_t room;
  TN_RETURN_IF_ERROR(spell(e, text, true, &name, &room));
  size_t end = strlen(name);
  if (is_taken(name)) name[end++] = '_';
  for (int number = 2; is_among(name, c->symbols, c->f->scalar_count); number++)
    snprintf(name + end, room - end, "_%d", number);
  *out = name;
  return NULL;
}

/* Is it the other name with an end behind it? Whatever the case: macros are written in capitals. */
static bool is_extended(const char *name, const char *other, const char *end) {
  size_t length = strlen(other);
  return strncasecmp(name, other, length) == 0 && strcasecmp(name + length, end) == 0;
}

/* Would one of the names that a function of this name brings along be one of another function's? */
static bool is_function_taken(const tn__c_emitter *e, const char *name, int before) {
  static const char *const ends[] = {"", "_workspace_size", "_output_dims"};
  static const char *const own[] = {"message", "place", "list", "tensor"};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    for (size_t k = 0; k < sizeof own / sizeof own[0]; k++)
      if (is_extended(name, own[k], ends[i])) return true;
    for (int k = 0; k < before; k++)
      if (is_extended(name, e->functions[k].name, ends[i]) || is_extended(e->functions[k].name, name, ends[i]))
        return true;
  }
  return false;
}

static tn_status *name_function(tn__c_emitter *e, tn__c_function *c) {
  const tn__function *f = c->f;
  char *name;
  size_t room;
  TN_RETURN_IF_ERROR(spell(e, f->name, false, &name, &room));
  size_t end = strlen(name);
  for (int number = 2; is_function_taken(e, name, f->index); number++) snprintf(name + end, room - end, "_%d", number);
  c->name = name;
  TN_RETURN_IF_ERROR(tn__region_alloc(e->region, f->scalar_count, sizeof(char *), &c->symbols));
  for (uint32_t i = 0; i < f->input_count; i++) {
    for (int d = 0; d < f->inputs[i].info.rank; d++) {
      const tn__operand *dim = tn__function_value_dim(f, &f->inputs[i], d);
      if (!dim->symbolic || !f->inputs[i].binds[d]) continue;
      const char *given = f->scalar_names[dim->value] ? f->scalar_names[dim->value] : "size";
      TN_RETURN_IF_ERROR(name_symbol(e, c, given, &c->symbols[dim->value]));
    }
  }
  return NULL;
}

/* Lists that a caller sees; the tensors of one may have any rank. */
static void find_list_values(tn__c_emitter *e, const tn__function *f) {
  for (uint32_t i = 0; i < f->input_count + f->output_count; i++) {
    uint32_t number = i < f->input_count ? f->inputs[i].reg : f->outputs[i - f->input_count].reg;
    e->list_values = e->list_values || tn__c_is_list(f, number);
    if (f->registers[number].any_rank) e->max_rank = TN_MAX_RANK;
  }
}

tn_status *tn__c_plan(tn__c_emitter *e) {
  const tn_executable *exe = e->exe;
  e->max_rank = 1;
  TN_RETURN_IF_ERROR(tn__region_alloc(e->region, exe->function_count, sizeof *e->functions, &e->functions));
  for (uint32_t i = 0; i < exe->function_count; i++) e->functions[i].f = &exe->functions[i];
  for (uint32_t i = 0; i < exe->function_count; i++) {
    TN_RETURN_IF_ERROR(plan_function(e, &e->functions[i]));
    TN_RETURN_IF_ERROR(name_function(e, &e->functions[i]));
  }
  for (uint32_t i = 0; i < exe->function_count; i++)
    if (!e->functions[i].called) find_list_values(e, &exe->functions[i]);
  return NULL;
}
