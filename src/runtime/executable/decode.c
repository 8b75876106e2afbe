/* Code: from words to instructions. Every operand is checked by its letter in TN__INSTRUCTIONS and goes to the field
 * that the letter has, then each instruction is checked by its meaning. */
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/invariant.h"
#include "runtime/executable/executable.h"

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
  uint32_t *recorded;   /* per event: the device that records it, 0: none yet */
} decoder;

static tn_status *bad_code(const tn__function *f, const tn__instruction *in, const char *format, ...) TN_PRINTF(3, 4);
static tn_status *bad_code(const tn__function *f, const tn__instruction *in, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tn_status *status = tn_status_create_v(TN_DATA_LOSS, format, args);
  va_end(args);
  return tn_status_prefix(status, "the executable is damaged: function \"%s\", code word %u, %s", f->name, in->word,
                          tn__instruction_find(in->op)->name);
}

static tn_status *check_register(const decoder *d, const tn__instruction *in, uint32_t number, bool written) {
  const tn__function *f = d->f;
  if (number >= f->register_count) return bad_code(f, in, "register %u of %u", number, f->register_count);
  if (f->registers[number].container != TN__CONTAINER_TENSOR &&
      (tn__instruction_find(in->op)->traits & TN__ON_LISTS) == 0)
    return bad_code(f, in, "register %u is a list, not a tensor", number);
  if (!written || f->registers[number].writable) return NULL;
  return bad_code(f, in, "register %u is written, which is an input or a constant", number);
}

static tn_status *check_use(const decoder *d, const tn__instruction *in, const tn__code_use *use) {
  const tn__function *f = d->f;
  uint32_t word = use->word;
  const char *unused;
  switch (use->letter) {
    case 'w':
    case 'a':
    case 'n': return check_register(d, in, word, true);
    case 'r':
    case 'q':
    case 't': return check_register(d, in, word, false);
    case 'd':
      if (word < f->scalar_count && f->signature_scalar[word])
        return bad_code(f, in, "scalar %u is written, which is a dimension of an input", word);
      /* fall through */
    case 's':
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
    case 'm': return tn__load_check_string(d->exe, word, "a message", &unused);
    case 'o':
      if (tn__scalar_op_find(word) != NULL) return NULL;
      return bad_code(f, in, "scalar operator %u is not known", word);
    case 'v':
      if (word > 0 && word < d->exe->device_count && d->exe->homes[word] == word) return NULL;
      return bad_code(f, in, "device %u of %u", word, d->exe->device_count);
    case 'e':
      if (word < f->event_count) return NULL;
      return bad_code(f, in, "event %u of %u", word, f->event_count);
    default: return NULL; /* i, l, h: any number */
  }
}

/* Has the instruction as many words as its letters and the counts of its groups say? */
static tn_status *check_count(const decoder *d, tn__instruction *in, const uint32_t *words, uint32_t count) {
  const char *letters = tn__instruction_find(in->op)->operands;
  size_t single = strcspn(letters, "*"), groups = letters[single] == '*' ? strlen(letters + single + 1) : 0;
  uint32_t *counts[] = {&in->read_count, &in->write_count, &in->scalar_count};
  uint64_t want = single + groups;
  TN__INVARIANT(groups <= sizeof(counts) / sizeof(counts[0])); /* by the rows of TN__INSTRUCTIONS */
  for (size_t g = 0; g < groups && want <= count; g++) {
    *counts[g] = words[single + g];
    want += *counts[g];
  }
  if (want > count) return bad_code(d->f, in, "%u operands are too few", count);
  if (want < count) return bad_code(d->f, in, "%u operands are too many", count);
  in->operands = words + single + groups;
  return NULL;
}

/* Checks the operands one by one and puts them where the instruction has them. */
static tn_status *decode_operands(const decoder *d, tn__instruction *in) {
  const uint32_t *code = d->f->code + in->word;
  uint32_t *fields[] = {&in->a, &in->b, &in->c, &in->d}, at = 0;
  TN_RETURN_IF_ERROR(check_count(d, in, code + 2, code[1]));
  tn__code_uses uses = tn__code_uses_of(code);
  for (tn__code_use use; tn__code_uses_next(&uses, &use);) {
    TN_RETURN_IF_ERROR(check_use(d, in, &use));
    if (use.grouped) continue;
    switch (use.letter) {
      case 'k':
      case 'f':
      case 'b':
      case 'm': in->callee = use.word; break;
      case 'c':
        in->callee = d->starts[use.word];
        d->jump_target[in->callee] = 1;
        break;
      case 'l': in->immediate = use.word; break;
      case 'h': in->immediate = (int64_t)((uint64_t)use.word << 32 | (uint64_t)in->immediate); break;
      default: *fields[at++] = use.word;
    }
  }
  return NULL;
}

/* ---- meaning ---------------------------------------------------------------------------------------------------- */

/* Does the kernel's device work on that memory? Any CPU works on the host's. */
static bool works_on(const tn_executable *exe, const tn__kernel_entry *kernel, uint32_t memory) {
  return exe->homes[memory] == kernel->device || (memory == 0 && exe->devices[kernel->device].device_type == kDLCPU);
}

/* What it reads and writes is resolved to roots, whose memory it gets. */
static tn_status *decode_kernel(decoder *d, tn__instruction *in) {
  tn__function *f = d->f;
  const tn__kernel_entry *kernel = &d->exe->kernels[in->callee];
  uint32_t buffers = in->read_count + in->write_count;
  if (buffers != kernel->buffer_count || in->scalar_count != kernel->scalar_count)
    return bad_code(f, in, "kernel \"%s\" takes %u buffers and %u scalars, not %u and %u", kernel->about.name,
                    kernel->buffer_count, kernel->scalar_count, buffers, in->scalar_count);
  const uint32_t *words = in->operands;
  if (!d->exe->is_divided) in->kernel = kernel->call;
  in->operands = d->operands;
  for (uint32_t i = 0; i < buffers; i++) {
    if (!works_on(d->exe, kernel, f->registers[words[i]].device))
      return bad_code(f, in, "kernel \"%s\" is of device %u, and register %u is on device %u", kernel->about.name,
                      kernel->device, words[i], f->registers[words[i]].device);
    *d->operands++ = f->registers[words[i]].root;
  }
  in->may_make_nothing = true;
  for (uint32_t i = in->read_count; i < buffers; i++)
    if (f->registers[in->operands[i]].static_bytes > 0) in->may_make_nothing = false;
  for (uint32_t i = 0; i < in->scalar_count; i++) *d->operands++ = words[buffers + i];
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

static tn_status *check_builtin(const decoder *d, const tn__instruction *in) {
  const tn__builtin_row *row = tn__builtin_find(in->callee);
  const tn__register *registers = d->f->registers, *list = NULL;
  uint32_t reads = (uint32_t)strlen(row->reads), writes = (uint32_t)strlen(row->writes);
  if (in->read_count != reads || in->write_count != writes || in->scalar_count != row->scalars)
    return bad_code(d->f, in, "builtin \"%s\" takes %u, %u and %u operands, not %u, %u and %u", row->name, reads,
                    writes, row->scalars, in->read_count, in->write_count, in->scalar_count);
  for (uint32_t i = 0; i < reads + writes; i++)
    if (registers[in->operands[i]].container != TN__CONTAINER_TENSOR) list = &registers[in->operands[i]];
  for (uint32_t i = 0; i < reads + writes; i++) {
    char letter = i < reads ? row->reads[i] : row->writes[i - reads];
    if (!fits_builtin(letter, &registers[in->operands[i]], list, &registers[in->operands[0]]))
      return bad_code(d->f, in, "builtin \"%s\": register %u is of another type", row->name, in->operands[i]);
  }
  return NULL;
}

/* One argument of a call: the callee's type and device, constant dimensions that do not contradict, and no less
 * alignment. */
static tn_status *check_argument(const decoder *d, const tn__instruction *in, uint32_t number,
                                 const tn__function *callee, const tn__function_value *value) {
  const tn_value_info *theirs = &value->info;
  uint32_t device = callee->registers[value->reg].device;
  const tn__register *mine = &d->f->registers[number];
  const tn__function_value *given = tn__function_value_in(d->f, number);
  bool tensor = mine->container == TN__CONTAINER_TENSOR;
  int rank = mine->any_rank ? TN_ANY_RANK : mine->rank;
  bool same = mine->dtype == theirs->dtype && rank == theirs->rank && tensor == (theirs->kind == TN_VALUE_TENSOR);
  for (int i = 0; same && tensor && i < mine->rank; i++)
    same = mine->dims[i].symbolic || theirs->dims[i]->size < 0 || theirs->dims[i]->capacity > 0 ||
           mine->dims[i].value == theirs->dims[i]->size;
  if (!same) return bad_code(d->f, in, "the argument for \"%s\" differs in type or shape", theirs->name);
  if (mine->device != device)
    return bad_code(d->f, in, "the argument for \"%s\" is on device %u, and function \"%s\" has it on device %u",
                    theirs->name, mine->device, callee->name, device);
  if (!tensor || given == NULL || given->info.alignment >= theirs->alignment) return NULL;
  return bad_code(d->f, in, "the argument for \"%s\" is aligned to %d bytes, which must be %d", theirs->name,
                  given->info.alignment, theirs->alignment);
}

static tn_status *check_call(const decoder *d, const tn__instruction *in) {
  const tn__function *callee = &d->exe->functions[in->callee];
  if (in->read_count != callee->input_count || in->write_count != callee->output_count)
    return bad_code(d->f, in, "function \"%s\" has %u inputs and %u outputs, not %u and %u", callee->name,
                    callee->input_count, callee->output_count, in->read_count, in->write_count);
  for (uint32_t i = 0; i < in->read_count; i++)
    TN_RETURN_IF_ERROR(check_argument(d, in, in->operands[i], callee, &callee->inputs[i]));
  for (uint32_t i = 0; i < in->write_count; i++)
    TN_RETURN_IF_ERROR(check_argument(d, in, in->operands[in->read_count + i], callee, &callee->outputs[i]));
  return NULL;
}

/* ---- buffers that grow: only what counts of them need be memory, which kernels know ------------------------------ */

/* The input or output that a register is (`whole`) or shares memory with, when it grows; else NULL. */
static const tn__function_value *growing(const tn__function *f, uint32_t number, bool *whole) {
  const tn__function_value *value = tn__function_value_in(f, number);
  if (value == NULL || value->grows < 0) return NULL;
  *whole = number == f->registers[number].root;
  return value;
}

/* A growing buffer can be passed only to a parameter that grows alike. An input can be passed only to an input,
 * because the shape of an input has the valid length. */
static bool passes_growing(const tn__function *f, uint32_t number, const tn__function *callee,
                           const tn__function_value *theirs, bool input) {
  bool whole;
  const tn__function_value *mine = growing(f, number, &whole);
  if (mine == NULL && theirs->grows < 0) return true;
  return mine != NULL && whole && (f->registers[number].storage == TN__STORAGE_INPUT) == input &&
         mine->grows == theirs->grows &&
         f->registers[number].dims[mine->grows].value == callee->registers[theirs->reg].dims[theirs->grows].value;
}

static bool copies_growing(const tn__function *f, const tn__instruction *in) {
  bool to_whole, from_whole;
  const tn__function_value *to = growing(f, in->a, &to_whole), *from = growing(f, in->b, &from_whole);
  if (to == NULL) return from == NULL;
  return to_whole && tn__exe_same_registers(&f->registers[in->a], &f->registers[in->b]) &&
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
    fine = fine && passes_growing(f, in->operands[i], callee, &callee->inputs[i], true);
  for (uint32_t i = 0; callee != NULL && i < in->write_count; i++)
    fine = fine && passes_growing(f, in->operands[in->read_count + i], callee, &callee->outputs[i], false);
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

static tn_status *check_copy(const tn__function *f, const tn__instruction *in, const tn__register *a,
                             const tn__register *b) {
  if (a->container != TN__CONTAINER_TENSOR || b->container != TN__CONTAINER_TENSOR) return check_lists(f, in, a, b);
  if (a->dtype != b->dtype) return bad_code(f, in, "from %s to %s", tn_dtype_name(b->dtype), tn_dtype_name(a->dtype));
  if (a->static_bytes >= 0 && b->static_bytes >= 0 && a->static_bytes != b->static_bytes)
    return bad_code(f, in, "from %lld to %lld bytes", (long long)b->static_bytes, (long long)a->static_bytes);
  bool whole, growing_to = growing(f, in->a, &whole) != NULL, growing_from = growing(f, in->b, &whole) != NULL;
  if (a->device != b->device && (a->dtype == TN_STRING || growing_to || growing_from))
    return bad_code(f, in, "registers %u and %u are on two devices, and strings or grow", in->a, in->b);
  return NULL;
}

static tn_status *check_move(const tn__function *f, const tn__instruction *in, const tn__register *a,
                             const tn__register *b) {
  if (a->container != TN__CONTAINER_TENSOR || b->container != TN__CONTAINER_TENSOR) return check_lists(f, in, a, b);
  if (a->storage == TN__STORAGE_DYNAMIC && b->storage == TN__STORAGE_DYNAMIC && a->dtype == b->dtype &&
      a->rank == b->rank && a != b && a->device == b->device)
    return NULL;
  return bad_code(f, in, "registers %u and %u are not two DYNAMIC ones of one type and device", in->a, in->b);
}

/* Instructions that read or write elements themselves have them in the host's memory. */
static tn_status *check_host(const decoder *d, const tn__instruction *in) {
  const tn__register *registers = d->f->registers;
  if (in->op == TN__OP_SCALAR_LOAD && registers[in->b].device != 0)
    return bad_code(d->f, in, "register %u is on device %u, not on the host", in->b, registers[in->b].device);
  for (uint32_t i = 0; i < in->read_count + in->write_count && in->op == TN__OP_BUILTIN; i++)
    if (registers[in->operands[i]].device != 0)
      return bad_code(d->f, in, "register %u is on device %u, not on the host", in->operands[i],
                      registers[in->operands[i]].device);
  return NULL;
}

/* An event is of one device, so that what is recorded later is reached later. */
static tn_status *check_record(const decoder *d, const tn__instruction *in) {
  uint32_t *device = &d->recorded[in->b];
  if (*device != 0 && *device != in->a)
    return bad_code(d->f, in, "event %u is of device %u and of device %u", in->b, *device, in->a);
  *device = in->a;
  return NULL;
}

/* What an instruction asks of its operands beside their being there. */
static tn_status *decode_instruction(decoder *d, tn__instruction *in) {
  const tn__function *f = d->f;
  const tn__register *registers = f->registers;
  TN_RETURN_IF_ERROR(decode_operands(d, in));
  TN_RETURN_IF_ERROR(check_host(d, in));
  switch (in->op) {
    case TN__OP_KERNEL: return decode_kernel(d, in);
    case TN__OP_BUILTIN: return check_builtin(d, in);
    case TN__OP_CALL: return check_call(d, in);
    case TN__OP_SCALAR_SHAPE:
      if (in->c < (uint32_t)registers[in->b].rank) return NULL;
      return bad_code(f, in, "dimension %u of a tensor of rank %d", in->c, registers[in->b].rank);
    case TN__OP_SCALAR_LOAD:
      if (tn__dtype_is_int(registers[in->b].dtype) || registers[in->b].dtype == TN_BOOL) return NULL;
      return bad_code(f, in, "a scalar is loaded from a tensor of %s", tn_dtype_name(registers[in->b].dtype));
    case TN__OP_ALLOC:
      if (registers[in->a].storage == TN__STORAGE_DYNAMIC || registers[in->a].storage == TN__STORAGE_OUTPUT)
        return NULL;
      return bad_code(f, in, "register %u is neither DYNAMIC nor OUTPUT", in->a);
    case TN__OP_COPY: return check_copy(f, in, &registers[in->a], &registers[in->b]);
    case TN__OP_MOVE: return check_move(f, in, &registers[in->a], &registers[in->b]);
    case TN__OP_RECORD: return check_record(d, in);
    default: return NULL;
  }
}

/* ---- the prologue ----------------------------------------------------------------------------------------------- */

/* Known as soon as the function is entered. */
static bool given(const tn__function *f, uint32_t number) {
  const tn__register *r = &f->registers[number], *root = &f->registers[r->root];
  bool outside = root->storage == TN__STORAGE_INPUT || root->storage == TN__STORAGE_CONSTANT;
  return outside && (r->storage == TN__STORAGE_INPUT || r->static_bytes >= 0);
}

static bool belongs_to_prologue(const tn__function *f, const tn__instruction *in) {
  if ((tn__instruction_find(in->op)->traits & TN__AT_ENTRY) == 0) return false;
  tn__code_uses uses = tn__code_uses_of(f->code + in->word);
  for (tn__code_use use; tn__code_uses_next(&uses, &use);)
    if ((use.letter == 'r' || use.letter == 'q') && !given(f, use.word)) return false;
  return true;
}

/* Does what an instruction of the prologue computes depend on elements of inputs? */
static bool comes_of_values(const decoder *d, const tn__instruction *in) {
  const tn__function *f = d->f;
  tn__code_uses uses = tn__code_uses_of(f->code + in->word);
  for (tn__code_use use; tn__code_uses_next(&uses, &use);) {
    if (use.letter == 's' && d->from_values[use.word]) return true;
    if (use.letter != 'r' || f->registers[f->registers[use.word].root].storage != TN__STORAGE_INPUT) continue;
    d->f->prologue_loads = true;
    return true;
  }
  return false;
}

static void find_prologue(decoder *d) {
  tn__function *f = d->f;
  uint32_t i = 0;
  while (i < f->instruction_count && !d->jump_target[i] && belongs_to_prologue(f, &f->instructions[i])) i++;
  f->prologue_count = i;
  for (i = 0; i < f->prologue_count; i++) {
    const tn__instruction *in = &f->instructions[i];
    bool values = comes_of_values(d, in);
    if (tn__instruction_assigns_scalar(in->op)) d->from_values[in->a] = values;
  }
  for (i = 0; i < f->instruction_count; i++)
    if (tn__instruction_assigns_scalar(f->instructions[i].op))
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
    return tn__load_corrupt("function \"%s\": the size of its arena is not found by its prologue", f->name);
  for (uint32_t i = 1; i < d->exe->device_count; i++) {
    const tn__operand arena = tn__function_arena(f, i);
    if (!early(d, &arena))
      return tn__load_corrupt("function \"%s\": the size of its arena on device %u is not found by its prologue",
                              f->name, i);
  }
  for (uint32_t i = 0; i < f->register_count; i++) {
    tn__register *r = &f->registers[i];
    r->early = true;
    for (int n = 0; n < r->rank; n++) r->early = r->early && early(d, &r->dims[n]);
    if (r->storage == TN__STORAGE_ARENA && (!r->early || !early(d, &r->offset)))
      return tn__load_corrupt("function \"%s\": the shape or place of arena register %u is not found by its prologue",
                              f->name, i);
  }
  for (uint32_t i = 0; i < f->output_count; i++) {
    tn__function_value *output = &f->outputs[i];
    output->info.size_rule = size_rule(d, output);
    if (output->grows >= 0 && !(f->registers[output->reg].early && early(d, &output->valid)))
      return tn__load_corrupt("function \"%s\": the shape of output \"%s\" is not found by its prologue", f->name,
                              output->info.name);
  }
  return NULL;
}

/* Checks views whose size is known only when the kernel runs. The layout of the call checks the others. */
static bool is_late_view(const tn__function *f, uint32_t number) {
  const tn__register *r = &f->registers[number], *root = &f->registers[r->root];
  if (r->storage != TN__STORAGE_VIEW || (r->static_bytes >= 0 && root->static_bytes >= 0)) return false;
  return !r->early || !root->early || root->storage == TN__STORAGE_DYNAMIC;
}

static void find_late_views(const tn__function *f) {
  for (uint32_t i = 0; i < f->instruction_count; i++) {
    tn__instruction *in = &f->instructions[i];
    if (in->op != TN__OP_KERNEL) continue;
    tn__code_uses uses = tn__code_uses_of(f->code + in->word);
    for (tn__code_use use; tn__code_uses_next(&uses, &use);)
      if ((use.letter == 'r' || use.letter == 'w') && is_late_view(f, use.word)) in->has_late_views = true;
  }
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static tn_status *find_instructions(decoder *d) {
  tn__function *f = d->f;
  uint64_t at = 0;
  uint32_t count = 0, last = TN__OP_COUNT;
  memset(d->starts, 0xff, (size_t)f->code_words * sizeof(uint32_t));
  while (at < f->code_words) {
    if (f->code_words - at < 2 || f->code[at + 1] > f->code_words - at - 2)
      return tn__load_corrupt("function \"%s\": the code ends inside of the instruction at word %llu", f->name,
                              (unsigned long long)at);
    if (f->code[at] >= TN__OP_COUNT)
      return tn__load_corrupt("function \"%s\": word %llu of the code is the unknown opcode %u", f->name,
                              (unsigned long long)at, f->code[at]);
    last = f->code[at];
    d->starts[at] = count++;
    at += 2 + (uint64_t)f->code[at + 1];
  }
  if (last == TN__OP_COUNT || (tn__instruction_find(last)->traits & TN__ENDS) == 0)
    return tn__load_corrupt("function \"%s\": the code does not end with RETURN or JUMP", f->name);
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
  TN_RETURN_IF_ERROR(tn__region_alloc(scratch, f->event_count, sizeof(uint32_t), &d->recorded));
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
  TN_RETURN_IF_ERROR(check_layout(d));
  find_late_views(f);
  return NULL;
}

tn_status *tn__load_decode(tn_executable *exe, tn__function *f) {
  tn__region scratch;
  tn__region_init(&scratch, exe->region.allocator);
  decoder d = {.exe = exe, .f = f};
  tn_status *status = decode_all(&d, &scratch);
  tn__region_release(&scratch);
  return status;
}
