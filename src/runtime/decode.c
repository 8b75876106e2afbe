/* Code: from words to instructions. Every operand is checked by its letter in TN__INSTRUCTIONS, then each instruction
 * by its meaning. */
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "runtime/executable.h"

/* ---- the table -------------------------------------------------------------------------------------------------- */

static const struct {
  const char *name, *operands;
} opcode_rows[TN__OP_COUNT] = {
#define X(name, operands, text) {#name, operands},
    TN__INSTRUCTIONS(X)
#undef X
};

const char *tn__opcode_operands(uint32_t opcode) { return opcode < TN__OP_COUNT ? opcode_rows[opcode].operands : NULL; }
const char *tn__opcode_name(uint32_t opcode) { return opcode < TN__OP_COUNT ? opcode_rows[opcode].name : NULL; }

const char *tn__scalar_op_text(uint32_t op) {
  static const char *const texts[] = {
#define X(name, text) text,
      TN__SCALAR_OPS(X)
#undef X
  };
  return op < TN__SCALAR_OP_COUNT ? texts[op] : NULL;
}

const tn__builtin_row *tn__builtin_find(uint32_t builtin) {
  static const tn__builtin_row rows[] = {
#define X(name, text, reads, writes, scalars, doc) {text, reads, writes, scalars},
      TN__BUILTINS(X)
#undef X
  };
  return builtin < TN__BUILTIN_COUNT ? &rows[builtin] : NULL;
}

/* ---- operands by letter ----------------------------------------------------------------------------------------- */

#define NO_INSTRUCTION UINT32_MAX

typedef struct decoder {
  tn_executable *exe;
  tn__function *f;
  uint32_t *starts;       /* per word: the instruction that starts there, or NO_INSTRUCTION */
  uint32_t *operands;     /* free part of the function's pool */
  uint8_t *jump_target;   /* per instruction */
  uint8_t *assigned_late; /* per scalar: assigned behind the prologue */
  uint8_t *assigned_early;
  uint8_t *from_values; /* per scalar: what the prologue leaves there depends on elements of inputs */
} decoder;

static tn_status *bad_code(const tn__function *f, const tn__instruction *in, const char *format, ...) TN_PRINTF(3, 4);
static tn_status *bad_code(const tn__function *f, const tn__instruction *in, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tn_status *status = tn_status_create_v(TN_DATA_LOSS, format, args);
  va_end(args);
  return tn_status_prefix(status, "the executable is damaged: function \"%s\", code word %u, %s", f->name, in->word,
                          tn__opcode_name(in->op));
}

static tn_status *check_container(const tn__function *f, const tn__instruction *in, uint32_t number) {
  if (f->registers[number].container == TN__CONTAINER_TENSOR || in->op == TN__OP_COPY || in->op == TN__OP_MOVE ||
      in->op == TN__OP_CALL || in->op == TN__OP_BUILTIN)
    return NULL;
  return bad_code(f, in, "register %u is a list, not a tensor", number);
}

static tn_status *check_letter(const decoder *d, const tn__instruction *in, char letter, uint32_t word) {
  const tn__function *f = d->f;
  const char *unused;
  switch (letter) {
    case 'w':
    case 'W':
      if (word < f->register_count) TN_RETURN_IF_ERROR(check_container(f, in, word));
      if (word < f->register_count && !f->registers[word].writable)
        return bad_code(f, in, "register %u is written, which is an input or a constant", word);
      /* fall through */
    case 'r':
    case 'R':
      if (word < f->register_count) return check_container(f, in, word);
      return bad_code(f, in, "register %u of %u", word, f->register_count);
    case 'd':
      if (word < f->scalar_count && f->signature_scalar[word])
        return bad_code(f, in, "scalar %u is written, which is a dimension of an input", word);
      /* fall through */
    case 's':
    case 'S':
      if (word < f->scalar_count) return NULL;
      return bad_code(f, in, "scalar %u of %u", word, f->scalar_count);
    case 'k':
      if (word < d->exe->kernel_count) return NULL;
      return bad_code(f, in, "kernel %u of %u", word, d->exe->kernel_count);
    case 'f':
      if (word < d->exe->function_count) return NULL;
      return bad_code(f, in, "function %u of %u", word, d->exe->function_count);
    case 'c':
      if (word < f->code_words && d->starts[word] != NO_INSTRUCTION) return NULL;
      return bad_code(f, in, "word %u is not the start of an instruction", word);
    case 'b':
      if (tn__builtin_find(word) != NULL) return NULL;
      return bad_code(f, in, "builtin %u is not known", word);
    case 'm': return tn__check_string(d->exe, word, "a message", &unused);
    case 'o':
      if (word < TN__SCALAR_OP_COUNT) return NULL;
      return bad_code(f, in, "scalar operator %u is not known", word);
    default: return NULL; /* i, l, h: any number */
  }
}

/* Checks the words of one instruction and counts its groups. */
static tn_status *check_words(const decoder *d, tn__instruction *in, const uint32_t *words, uint32_t count) {
  const char *letters = tn__opcode_operands(in->op);
  uint64_t at = 0, groups[3] = {0, 0, 0};
  for (const char *p = letters; *p != '\0'; p++) {
    if (*p == '*') {
      for (size_t g = 0; p[1 + g] != '\0'; g++) {
        if (at >= count) return bad_code(d->f, in, "%u operands are too few", count);
        groups[g] = words[at++];
      }
      for (size_t g = 0; p[1] != '\0'; p++, g++) {
        if (groups[g] > count - at) return bad_code(d->f, in, "%u operands are too few", count);
        for (uint64_t i = 0; i < groups[g]; i++) TN_RETURN_IF_ERROR(check_letter(d, in, p[1], words[at++]));
      }
      break;
    }
    if (at >= count) return bad_code(d->f, in, "%u operands are too few", count);
    TN_RETURN_IF_ERROR(check_letter(d, in, *p, words[at++]));
  }
  if (at != count) return bad_code(d->f, in, "%u operands are too many", count);
  in->read_count = (uint32_t)groups[0], in->write_count = (uint32_t)groups[1], in->scalar_count = (uint32_t)groups[2];
  return NULL;
}

/* ---- meaning ---------------------------------------------------------------------------------------------------- */

static tn_status *decode_kernel(decoder *d, tn__instruction *in, const uint32_t *words) {
  tn__function *f = d->f;
  const tn__kernel_entry *kernel = &d->exe->kernels[words[0]];
  uint32_t buffers = in->read_count + in->write_count;
  if (buffers != kernel->buffer_count || in->scalar_count != kernel->scalar_count)
    return bad_code(f, in, "kernel \"%s\" takes %u buffers and %u scalars, not %u and %u", kernel->about.name,
                    kernel->buffer_count, kernel->scalar_count, buffers, in->scalar_count);
  in->callee = words[0];
  in->kernel = kernel->call;
  in->operands = d->operands;
  for (uint32_t i = 0; i < buffers; i++) *d->operands++ = f->registers[words[4 + i]].root;
  for (uint32_t i = 0; i < in->scalar_count; i++) *d->operands++ = words[4 + buffers + i];
  if (buffers > f->widest_call) f->widest_call = buffers;
  if (in->scalar_count > f->most_scalars) f->most_scalars = in->scalar_count;
  return NULL;
}

/* Is the register what a letter of the builtin's row says? `list` is the one among its operands, or NULL, `first` the
 * first of them. */
static bool fits_builtin(char letter, const tn__register *r, const tn__register *list, const tn__register *first) {
  bool tensor = r->container == TN__CONTAINER_TENSOR;
  if (list == NULL && (letter == 'l' || letter == 'e' || letter == 'j')) return false;
  switch (letter) {
    case 't': return tensor;
    case 'l': return !tensor && r->dtype == list->dtype && r->rank == list->rank && r->any_rank == list->any_rank;
    case 'e': return tensor && r->dtype == list->dtype && (r->rank == list->rank || list->any_rank);
    case 'j':
      return tensor && r->dtype == list->dtype && !list->any_rank &&
             (r->rank == list->rank || r->rank == list->rank + 1);
    case 'n': return tensor && r->dtype == TN_I64 && r->static_bytes == 8;
    case 'b': return tensor && r->dtype == TN_BOOL && r->static_bytes == 1;
    case 'B': return tensor && r->dtype == TN_BOOL;
    case 'x':
    case 'X': return tensor && r->dtype == TN_STRING;
    case 'y': return tensor && r->dtype == first->dtype;
    default: return tensor && r->dtype == TN_I64; /* z */
  }
}

static tn_status *decode_builtin(decoder *d, tn__instruction *in, const uint32_t *words) {
  const tn__builtin_row *row = tn__builtin_find(words[0]);
  const tn__register *registers = d->f->registers, *list = NULL;
  uint32_t reads = (uint32_t)strlen(row->reads), writes = (uint32_t)strlen(row->writes);
  if (in->read_count != reads || in->write_count != writes || in->scalar_count != row->scalars)
    return bad_code(d->f, in, "builtin \"%s\" takes %u, %u and %u operands, not %u, %u and %u", row->name, reads,
                    writes, row->scalars, in->read_count, in->write_count, in->scalar_count);
  in->callee = words[0];
  in->operands = words + 4;
  for (uint32_t i = 0; i < reads + writes; i++)
    if (registers[in->operands[i]].container != TN__CONTAINER_TENSOR) list = &registers[in->operands[i]];
  for (uint32_t i = 0; i < reads + writes; i++) {
    char letter = i < reads ? row->reads[i] : row->writes[i - reads];
    if (!fits_builtin(letter, &registers[in->operands[i]], list, &registers[in->operands[0]]))
      return bad_code(d->f, in, "builtin \"%s\": register %u is of another type", row->name, in->operands[i]);
  }
  return NULL;
}

/* One argument of a call: the callee's type, constant dimensions that do not contradict, and no less alignment. */
static tn_status *check_argument(const decoder *d, const tn__instruction *in, uint32_t number,
                                 const tn_value_info *theirs) {
  const tn__register *mine = &d->f->registers[number];
  const tn__function_value *given = tn__value_in(d->f, number);
  bool tensor = mine->container == TN__CONTAINER_TENSOR;
  int rank = mine->any_rank ? TN_ANY_RANK : mine->rank;
  bool same = mine->dtype == theirs->dtype && rank == theirs->rank && tensor == (theirs->kind == TN_VALUE_TENSOR);
  for (int i = 0; same && tensor && i < mine->rank; i++)
    same = mine->dims[i].symbolic || theirs->dims[i]->size < 0 || theirs->dims[i]->capacity > 0 ||
           mine->dims[i].value == theirs->dims[i]->size;
  if (!same) return bad_code(d->f, in, "the argument for \"%s\" differs in type or shape", theirs->name);
  if (!tensor || given == NULL || given->info.alignment >= theirs->alignment) return NULL;
  return bad_code(d->f, in, "the argument for \"%s\" is aligned to %d bytes, which must be %d", theirs->name,
                  given->info.alignment, theirs->alignment);
}

static tn_status *decode_call(decoder *d, tn__instruction *in, const uint32_t *words) {
  const tn__function *callee = &d->exe->functions[words[0]];
  if (in->read_count != callee->input_count || in->write_count != callee->output_count)
    return bad_code(d->f, in, "function \"%s\" has %u inputs and %u outputs, not %u and %u", callee->name,
                    callee->input_count, callee->output_count, in->read_count, in->write_count);
  in->callee = words[0];
  in->operands = words + 3;
  for (uint32_t i = 0; i < in->read_count; i++)
    TN_RETURN_IF_ERROR(check_argument(d, in, in->operands[i], &callee->inputs[i].info));
  for (uint32_t i = 0; i < in->write_count; i++)
    TN_RETURN_IF_ERROR(check_argument(d, in, in->operands[in->read_count + i], &callee->outputs[i].info));
  return NULL;
}

/* ---- buffers that grow: only what counts of them need be memory, which kernels know ------------------------------ */

/* The input or output that a register is (`whole`) or shares memory with, when it grows; else NULL. */
static const tn__function_value *growing(const tn__function *f, uint32_t number, bool *whole) {
  const tn__function_value *value = tn__value_in(f, number);
  if (value == NULL || value->grows < 0) return NULL;
  *whole = number == f->registers[number].root;
  return value;
}

/* What grows is passed on only to what grows alike. */
static bool passes_growing(const tn__function *f, uint32_t number, const tn__function *callee,
                           const tn__function_value *theirs) {
  bool whole;
  const tn__function_value *mine = growing(f, number, &whole);
  if (mine == NULL && theirs->grows < 0) return true;
  return mine != NULL && whole && mine->grows == theirs->grows &&
         f->registers[number].dims[mine->grows].value == callee->registers[theirs->reg].dims[theirs->grows].value;
}

static bool copies_growing(const tn__function *f, const tn__instruction *in) {
  bool to_whole, from_whole;
  const tn__function_value *to = growing(f, in->a, &to_whole), *from = growing(f, in->b, &from_whole);
  if (to == NULL) return from == NULL;
  return to_whole && tn__same_registers(&f->registers[in->a], &f->registers[in->b]) &&
         (from == NULL || (from_whole && from->grows == to->grows));
}

static tn_status *check_growing_operands(const decoder *d, const tn__instruction *in) {
  const tn__function *f = d->f;
  bool fine = true, whole;
  if (in->op == TN__OP_SCALAR_LOAD) fine = growing(f, in->b, &whole) == NULL;
  if (in->op == TN__OP_COPY) fine = copies_growing(f, in);
  for (uint32_t i = 0; in->op == TN__OP_BUILTIN && i < in->read_count + in->write_count; i++)
    fine = fine && growing(f, in->operands[i], &whole) == NULL;
  const tn__function *callee = in->op == TN__OP_CALL ? &d->exe->functions[in->callee] : NULL;
  for (uint32_t i = 0; callee != NULL && i < in->read_count; i++)
    fine = fine && passes_growing(f, in->operands[i], callee, &callee->inputs[i]);
  for (uint32_t i = 0; callee != NULL && i < in->write_count; i++)
    fine = fine && passes_growing(f, in->operands[in->read_count + i], callee, &callee->outputs[i]);
  return fine ? NULL : bad_code(f, in, "a buffer of which only some elements count is used as a whole");
}

/* COPY and MOVE between lists; what is moved from is a list of the function's own, or an input that it changes. Every
 * list will do for one of any rank, and COPY the other way looks at each tensor. */
static tn_status *check_lists(const tn__function *f, const tn__instruction *in, const tn__register *a,
                              const tn__register *b) {
  bool lists = a->container != TN__CONTAINER_TENSOR && b->container != TN__CONTAINER_TENSOR;
  bool own = in->op == TN__OP_COPY || (b->storage != TN__STORAGE_OUTPUT && a != b);
  bool fits = a->any_rank || (b->any_rank ? in->op == TN__OP_COPY : a->rank == b->rank);
  if (lists && own && a->dtype == b->dtype && fits) return NULL;
  return bad_code(f, in, "registers %u and %u are not two lists of one type", in->a, in->b);
}

static tn_status *check_small(const decoder *d, const tn__instruction *in) {
  const tn__function *f = d->f;
  /* In some instructions these are scalars; then the registers are not looked at. */
  const tn__register *a = &f->registers[in->a < f->register_count ? in->a : 0];
  const tn__register *b = &f->registers[in->b < f->register_count ? in->b : 0];
  switch (in->op) {
    case TN__OP_SCALAR_SHAPE:
      if (in->c >= (uint32_t)b->rank) return bad_code(f, in, "dimension %u of a tensor of rank %d", in->c, b->rank);
      return NULL;
    case TN__OP_SCALAR_LOAD:
      if (!tn__dtype_is_int(b->dtype) && b->dtype != TN_BOOL)
        return bad_code(f, in, "a scalar is loaded from a tensor of %s", tn_dtype_name(b->dtype));
      return NULL;
    case TN__OP_ALLOC:
      if (a->storage == TN__STORAGE_DYNAMIC || a->storage == TN__STORAGE_OUTPUT) return NULL;
      return bad_code(f, in, "register %u is neither DYNAMIC nor OUTPUT", in->a);
    case TN__OP_COPY:
      if (a->container != TN__CONTAINER_TENSOR || b->container != TN__CONTAINER_TENSOR) return check_lists(f, in, a, b);
      if (a->dtype != b->dtype)
        return bad_code(f, in, "from %s to %s", tn_dtype_name(b->dtype), tn_dtype_name(a->dtype));
      if (a->static_bytes >= 0 && b->static_bytes >= 0 && a->static_bytes != b->static_bytes)
        return bad_code(f, in, "from %lld to %lld bytes", (long long)b->static_bytes, (long long)a->static_bytes);
      return NULL;
    case TN__OP_MOVE:
      if (a->container != TN__CONTAINER_TENSOR || b->container != TN__CONTAINER_TENSOR) return check_lists(f, in, a, b);
      if (a->storage == TN__STORAGE_DYNAMIC && b->storage == TN__STORAGE_DYNAMIC && a->dtype == b->dtype &&
          a->rank == b->rank && a != b)
        return NULL;
      return bad_code(f, in, "registers %u and %u are not two DYNAMIC ones of one type", in->a, in->b);
    default: return NULL;
  }
}

static tn_status *decode_instruction(decoder *d, tn__instruction *in) {
  const uint32_t *words = d->f->code + in->word + 2;
  TN_RETURN_IF_ERROR(check_words(d, in, words, words[-1]));
  switch (in->op) {
    case TN__OP_KERNEL: return decode_kernel(d, in, words);
    case TN__OP_BUILTIN: return decode_builtin(d, in, words);
    case TN__OP_CALL: return decode_call(d, in, words);
    case TN__OP_SCALAR_CONST:
      in->a = words[0];
      in->immediate = (int64_t)((uint64_t)words[2] << 32 | words[1]);
      return NULL;
    case TN__OP_ASSERT: in->a = words[0], in->callee = words[1]; return NULL;
    case TN__OP_JUMP: in->callee = d->starts[words[0]]; break;
    case TN__OP_JUMP_IF_ZERO:
      in->a = words[0];
      in->callee = d->starts[words[1]];
      break;
    default: {
      uint32_t *fields[4] = {&in->a, &in->b, &in->c, &in->d};
      for (uint32_t i = 0; i < words[-1] && i < 4; i++) *fields[i] = words[i];
      return check_small(d, in);
    }
  }
  d->jump_target[in->callee] = 1;
  return NULL;
}

/* ---- the prologue ----------------------------------------------------------------------------------------------- */

/* Known as soon as the function is entered. */
static bool given(const tn__function *f, uint32_t number) {
  const tn__register *r = &f->registers[number], *root = &f->registers[r->root];
  bool outside = root->storage == TN__STORAGE_INPUT || root->storage == TN__STORAGE_CONSTANT;
  return outside && (r->storage == TN__STORAGE_INPUT || r->static_bytes >= 0);
}

static bool belongs_to_prologue(const tn__function *f, const tn__instruction *in) {
  switch (in->op) {
    case TN__OP_SCALAR_CONST:
    case TN__OP_SCALAR_OP:
    case TN__OP_SCALAR_SELECT:
    case TN__OP_ASSERT: return true;
    case TN__OP_SCALAR_SHAPE:
    case TN__OP_SCALAR_LOAD: return given(f, in->b);
    default: return false;
  }
}

/* Does the scalar that an instruction of the prologue computes depend on elements of inputs? */
static bool comes_of_values(const decoder *d, const tn__instruction *in) {
  const uint8_t *of = d->from_values;
  const tn__function *f = d->f;
  switch (in->op) {
    case TN__OP_SCALAR_LOAD: return f->registers[f->registers[in->b].root].storage == TN__STORAGE_INPUT;
    case TN__OP_SCALAR_OP: return of[in->b] || of[in->c];
    case TN__OP_SCALAR_SELECT: return of[in->b] || of[in->c] || of[in->d];
    default: return false;
  }
}

static void find_prologue(decoder *d) {
  tn__function *f = d->f;
  uint32_t i = 0;
  while (i < f->instruction_count && !d->jump_target[i] && belongs_to_prologue(f, &f->instructions[i])) i++;
  f->prologue_count = i;
  for (i = 0; i < f->prologue_count; i++) {
    const tn__instruction *in = &f->instructions[i];
    bool values = comes_of_values(d, in);
    if (values && in->op == TN__OP_SCALAR_LOAD) f->prologue_loads = true;
    if (in->op != TN__OP_ASSERT) d->from_values[in->a] = values;
  }
  for (i = 0; i < f->instruction_count; i++)
    if (tn__opcode_operands(f->instructions[i].op)[0] == 'd')
      (i < f->prologue_count ? d->assigned_early : d->assigned_late)[f->instructions[i].a] = 1;
}

static bool early(const decoder *d, const tn__operand *operand) {
  if (!operand->symbolic) return true;
  int64_t s = operand->value;
  return d->f->signature_scalar[s] || (d->assigned_early[s] && !d->assigned_late[s]);
}

static tn_size_rule size_rule(const decoder *d, const tn__function_value *output) {
  const tn__register *r = &d->f->registers[output->reg];
  if (r->container != TN__CONTAINER_TENSOR) return TN_SIZE_MEMORY;
  bool values = !r->early;
  for (int i = 0; i < r->rank; i++) values = values || (r->dims[i].symbolic && d->from_values[r->dims[i].value]);
  return values && output->grows < 0 ? TN_SIZE_CAPACITY : TN_SIZE_EXACT;
}

static tn_status *check_layout(const decoder *d) {
  tn__function *f = d->f;
  if (!early(d, &f->arena))
    return tn__corrupt("function \"%s\": the size of its arena is not found by its prologue", f->name);
  for (uint32_t i = 0; i < f->register_count; i++) {
    tn__register *r = &f->registers[i];
    r->early = true;
    for (int n = 0; n < r->rank; n++) r->early = r->early && early(d, &r->dims[n]);
    if (r->storage == TN__STORAGE_ARENA && (!r->early || !early(d, &r->offset)))
      return tn__corrupt("function \"%s\": the shape or place of arena register %u is not found by its prologue",
                         f->name, i);
  }
  for (uint32_t i = 0; i < f->output_count; i++) {
    tn__function_value *output = &f->outputs[i];
    output->info.size_rule = size_rule(d, output);
    if (output->grows >= 0 && !(f->registers[output->reg].early && early(d, &output->valid)))
      return tn__corrupt("function \"%s\": the shape of output \"%s\" is not found by its prologue", f->name,
                         output->info.name);
  }
  return NULL;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static tn_status *find_instructions(decoder *d) {
  tn__function *f = d->f;
  uint64_t at = 0;
  uint32_t count = 0, last = TN__OP_COUNT;
  memset(d->starts, 0xff, (size_t)f->code_words * sizeof(uint32_t));
  while (at < f->code_words) {
    if (f->code_words - at < 2 || f->code[at + 1] > f->code_words - at - 2)
      return tn__corrupt("function \"%s\": the code ends inside of the instruction at word %llu", f->name,
                         (unsigned long long)at);
    if (f->code[at] >= TN__OP_COUNT)
      return tn__corrupt("function \"%s\": word %llu of the code is the unknown opcode %u", f->name,
                         (unsigned long long)at, f->code[at]);
    last = f->code[at];
    d->starts[at] = count++;
    at += 2 + (uint64_t)f->code[at + 1];
  }
  if (last != TN__OP_RETURN && last != TN__OP_JUMP)
    return tn__corrupt("function \"%s\": the code does not end with RETURN or JUMP", f->name);
  f->instruction_count = count;
  return NULL;
}

static tn_status *decode_all(decoder *d, tn__region *scratch) {
  tn__function *f = d->f;
  TN_RETURN_IF_ERROR(tn__region_alloc(scratch, f->code_words, sizeof(uint32_t), &d->starts));
  TN_RETURN_IF_ERROR(find_instructions(d));
  TN_RETURN_IF_ERROR(tn__region_alloc(scratch, f->instruction_count, 1, &d->jump_target));
  TN_RETURN_IF_ERROR(tn__region_alloc(scratch, f->scalar_count, 1, &d->assigned_early));
  TN_RETURN_IF_ERROR(tn__region_alloc(scratch, f->scalar_count, 1, &d->assigned_late));
  TN_RETURN_IF_ERROR(tn__region_alloc(scratch, f->scalar_count, 1, &d->from_values));
  TN_RETURN_IF_ERROR(tn__region_alloc(&d->exe->region, f->code_words, sizeof(uint32_t), &d->operands));
  TN_RETURN_IF_ERROR(
      tn__region_alloc(&d->exe->region, f->instruction_count, sizeof(tn__instruction), &f->instructions));
  uint32_t at = 0;
  for (uint32_t i = 0; i < f->instruction_count; i++, at += 2 + f->code[at + 1]) {
    f->instructions[i].word = at;
    f->instructions[i].op = f->code[at];
    TN_RETURN_IF_ERROR(decode_instruction(d, &f->instructions[i]));
    TN_RETURN_IF_ERROR(check_growing_operands(d, &f->instructions[i]));
  }
  find_prologue(d);
  return check_layout(d);
}

tn_status *tn__decode_code(tn_executable *exe, tn__function *f) {
  tn__region scratch;
  tn__region_init(&scratch, exe->region.allocator);
  decoder d = {.exe = exe, .f = f};
  tn_status *status = decode_all(&d, &scratch);
  tn__region_release(&scratch);
  return status;
}
