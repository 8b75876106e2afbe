/* Declared aliases: an output that may be bound to an input's own buffer. The runtime lets the two share memory; here
 * it makes sure that nothing reads the input once the output has been written.
 *
 * A kernel that reads the input and writes the output at once is trusted to read each element before it writes it. A
 * COPY from the input to its output changes nothing when they are the same. */
#include "base/alloc.h"
#include "runtime/executable/executable.h"

static tn_status *wrong(const tn__function *f, uint32_t output, const char *why) {
  const tn__function_value *o = &f->outputs[output];
  if ((uint32_t)o->alias >= f->input_count)
    return tn__load_corrupt("function \"%s\": output \"%s\" aliases input %d of %u", f->name, o->info.name, o->alias,
                            f->input_count);
  return tn__load_corrupt("function \"%s\": output \"%s\" aliases input \"%s\", %s", f->name, o->info.name,
                          f->inputs[o->alias].info.name, why);
}

bool tn__exe_same_registers(const tn__register *a, const tn__register *b) {
  bool same = a->dtype == b->dtype && a->rank == b->rank;
  for (int i = 0; same && i < a->rank; i++)
    same = a->dims[i].symbolic == b->dims[i].symbolic && a->dims[i].value == b->dims[i].value;
  return same;
}

typedef struct pair { /* an output and the input that it may take the memory of */
  const tn_executable *exe;
  const tn__function *f;
  const tn__function_value *output;
  uint32_t input_reg;
  uint8_t *written; /* per instruction: the output may have been written before it */
  bool changed;
} pair;

static bool is_input(const pair *p, uint32_t number) { return p->f->registers[number].root == p->input_reg; }
static bool is_output(const pair *p, uint32_t number) { return p->f->registers[number].root == p->output->reg; }

/* A callee that declares the same alias looks after it itself. */
static bool callee_declares(const pair *p, const tn__instruction *in) {
  const tn__function *callee = &p->exe->functions[in->callee];
  for (uint32_t w = 0; w < in->write_count; w++) {
    if (!is_output(p, in->operands[in->read_count + w])) continue;
    int alias = callee->outputs[w].alias;
    for (uint32_t r = 0; r < in->read_count; r++)
      if (is_input(p, in->operands[r]) && (int)r != alias) return false;
  }
  return true;
}

static void look_at(const pair *p, const tn__instruction *in, bool *reads, bool *writes) {
  *reads = *writes = false;
  if (in->op == TN__OP_COPY && is_output(p, in->a) && is_input(p, in->b)) return;
  tn__code_uses uses = tn__code_uses_of(p->f->code + in->word);
  for (tn__code_use use; tn__code_uses_next(&uses, &use);) {
    if (use.letter == 'r' || use.letter == 't') *reads = *reads || is_input(p, use.word);
    if (use.letter == 'w' || use.letter == 'n') *writes = *writes || is_output(p, use.word);
  }
}

static void reach(pair *p, uint32_t instruction, bool written) {
  if (instruction >= p->f->instruction_count || !written || p->written[instruction]) return;
  p->written[instruction] = 1;
  p->changed = true;
}

/* One pass in order of the code: false when an instruction reads the input after the output may have been written. */
static bool walk(pair *p) {
  for (uint32_t i = 0; i < p->f->instruction_count; i++) {
    const tn__instruction *in = &p->f->instructions[i];
    bool reads, writes;
    look_at(p, in, &reads, &writes);
    if (reads && p->written[i]) return false;
    if (reads && writes && in->op != TN__OP_KERNEL && !(in->op == TN__OP_CALL && callee_declares(p, in))) return false;
    bool written = p->written[i] || writes;
    if (tn__instruction_jumps(in->op)) reach(p, in->callee, written);
    if ((tn__instruction_find(in->op)->traits & TN__ENDS) == 0) reach(p, i + 1, written);
  }
  return true;
}

static tn_status *check_pair(pair *p, uint32_t output, tn__region *scratch) {
  TN_RETURN_IF_ERROR(tn__region_alloc(scratch, p->f->instruction_count, 1, &p->written));
  do {
    p->changed = false;
    if (!walk(p)) return wrong(p->f, output, "which is read after the output was written");
  } while (p->changed);
  return NULL;
}

static tn_status *check_output(const tn_executable *exe, const tn__function *f, uint32_t index, tn__region *scratch) {
  const tn__function_value *output = &f->outputs[index];
  if (output->alias < 0) return NULL;
  if ((uint32_t)output->alias >= f->input_count) return wrong(f, index, "");
  uint32_t input_reg = f->inputs[output->alias].reg;
  if (!tn__exe_same_registers(&f->registers[output->reg], &f->registers[input_reg]))
    return wrong(f, index, "which has another type or shape");
  if (f->registers[output->reg].device != f->registers[input_reg].device)
    return wrong(f, index, "which is on another device");
  if (output->grows != f->inputs[output->alias].grows)
    return wrong(f, index, "which grows along another dimension, or not at all");
  for (uint32_t j = 0; j < index; j++)
    if (f->outputs[j].alias == output->alias) return wrong(f, index, "as another output does");
  pair p = {.exe = exe, .f = f, .output = output, .input_reg = input_reg};
  return check_pair(&p, index, scratch);
}

tn_status *tn__verify_aliases(const tn_executable *exe, const tn__function *f) {
  tn__region scratch;
  tn__region_init(&scratch, exe->region.allocator);
  tn_status *status = NULL;
  for (uint32_t i = 0; i < f->output_count && status == NULL; i++) status = check_output(exe, f, i, &scratch);
  tn__region_release(&scratch);
  return status;
}
