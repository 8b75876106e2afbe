/* Declared aliases: an output that may be bound to an input's own buffer. The runtime lets the two share memory; here
 * it makes sure that nothing reads the input once the output has been written.
 *
 * A kernel that reads the input and writes the output at once is trusted to read each element before it writes it. A
 * COPY from the input to its output changes nothing when they are the same. */
#include "runtime/executable.h"

typedef struct span { /* instructions that touch one pair; -1: none */
  int64_t first_write, last_read;
} span;

static tn_status *wrong(const tn__function *f, uint32_t output, const char *why) {
  const tn__function_value *o = &f->outputs[output];
  if ((uint32_t)o->alias >= f->input_count)
    return tn__corrupt("function \"%s\": output \"%s\" aliases input %d of %u", f->name, o->info.name, o->alias,
                       f->input_count);
  return tn__corrupt("function \"%s\": output \"%s\" aliases input \"%s\", %s", f->name, o->info.name,
                     f->inputs[o->alias].info.name, why);
}

static bool same_type(const tn__register *a, const tn__register *b) {
  bool same = a->dtype == b->dtype && a->rank == b->rank;
  for (int i = 0; same && i < a->rank; i++)
    same = a->dims[i].symbolic == b->dims[i].symbolic && a->dims[i].value == b->dims[i].value;
  return same;
}

static void touch(const tn__function *f, uint32_t at, uint32_t number, bool write, const tn__function_value *output,
                  span *s) {
  uint32_t root = f->registers[number].root;
  if (write && root == output->reg && s->first_write < 0) s->first_write = at;
  if (!write && root == f->inputs[output->alias].reg) s->last_read = at;
}

static span find_span(const tn__function *f, const tn__function_value *output) {
  span s = {-1, -1};
  for (uint32_t i = 0; i < f->instruction_count; i++) {
    const tn__instruction *in = &f->instructions[i];
    bool small = in->op == TN__OP_COPY || in->op == TN__OP_MOVE;
    if (in->op == TN__OP_COPY && f->registers[in->a].root == output->reg &&
        f->registers[in->b].root == f->inputs[output->alias].reg)
      continue;
    if (small) {
      touch(f, i, in->a, true, output, &s);
      touch(f, i, in->b, false, output, &s);
    } else if (in->op == TN__OP_SCALAR_LOAD) {
      touch(f, i, in->b, false, output, &s);
    }
    for (uint32_t n = 0; n < in->read_count; n++) touch(f, i, in->operands[n], false, output, &s);
    for (uint32_t n = 0; n < in->write_count; n++) touch(f, i, in->operands[in->read_count + n], true, output, &s);
  }
  return s;
}

static bool reads_too_late(const tn__function *f, const span *s) {
  if (s->first_write < 0 || s->last_read < 0) return false;
  if (s->last_read > s->first_write) return true;
  if (s->last_read == s->first_write && f->instructions[s->last_read].op != TN__OP_KERNEL) return true;
  for (uint32_t i = (uint32_t)s->first_write; i < f->instruction_count; i++) {
    const tn__instruction *in = &f->instructions[i];
    bool jump = in->op == TN__OP_JUMP || in->op == TN__OP_JUMP_IF_ZERO;
    if (jump && in->callee <= s->last_read) return true; /* back to the read */
  }
  return false;
}

tn_status *tn__verify_aliases(const tn__function *f) {
  for (uint32_t i = 0; i < f->output_count; i++) {
    const tn__function_value *output = &f->outputs[i];
    if (output->alias < 0) continue;
    if ((uint32_t)output->alias >= f->input_count) return wrong(f, i, "");
    if (!same_type(&f->registers[output->reg], &f->registers[f->inputs[output->alias].reg]))
      return wrong(f, i, "which has another type or shape");
    for (uint32_t j = 0; j < i; j++)
      if (f->outputs[j].alias == output->alias) return wrong(f, i, "as another output does");
    span s = find_span(f, output);
    if (reads_too_late(f, &s)) return wrong(f, i, "which is read after the output was written");
  }
  return NULL;
}
