/* What an executable says of inputs of any strides. */
#include "base/alloc.h"
#include "runtime/executable/executable.h"

static tn_status *wrong(const tn__function *f, const char *name, const char *why) {
  return tn__load_corrupt("function \"%s\": \"%s\" may have any strides, and %s", f->name, name, why);
}

/* Do both functions take or give the same there, and does `theirs` ask for no more? */
static bool is_like(const tn__function *f, const tn__function_value *mine, const tn__function *g,
                    const tn__function_value *theirs) {
  const tn__register *a = &f->registers[mine->reg], *b = &g->registers[theirs->reg];
  bool same = a->dtype == b->dtype && a->rank == b->rank && a->container == b->container &&
              a->any_rank == b->any_rank && a->device == b->device && a->early == b->early &&
              mine->grows == theirs->grows && mine->alias == theirs->alias &&
              theirs->info.alignment <= mine->info.alignment && !theirs->info.strided;
  for (int d = 0; same && d < a->rank; d++)
    same = a->dims[d].symbolic == b->dims[d].symbolic && (a->dims[d].symbolic || a->dims[d].value == b->dims[d].value);
  return same;
}

/* What stands for a tensor whose memory comes apart from it may be asked for its dimensions, and nothing else. */
static bool is_touched(const tn__function *g, uint32_t reg) {
  for (uint32_t i = 0; i < g->instruction_count; i++) {
    const tn__instruction *in = &g->instructions[i];
    bool small = in->op == TN__OP_COPY || in->op == TN__OP_MOVE || in->op == TN__OP_SCALAR_LOAD;
    if (small && g->registers[in->b].root == reg) return true;
    for (uint32_t n = 0; n < in->read_count; n++)
      if (g->registers[in->operands[n]].root == reg) return true;
  }
  return false;
}

static tn_status *check_input(const tn__function *f, uint32_t index, const tn__function *g, uint32_t extra) {
  const tn__function_value *input = &f->inputs[index];
  const tn__register *memory = &g->registers[g->inputs[extra].reg], *strides = &g->registers[g->inputs[extra + 1].reg];
  bool fits = memory->container == TN__CONTAINER_TENSOR && memory->dtype == input->info.dtype && memory->rank == 1 &&
              memory->dims[0].symbolic && g->inputs[extra].grows < 0 &&
              g->inputs[extra].info.alignment <= input->info.alignment;
  if (f->registers[input->reg].device != 0 || memory->device != 0 || strides->device != 0)
    return wrong(f, input->info.name, "is on another device than the host");
  if (!fits || input->info.dtype == TN_STRING || input->info.kind != TN_VALUE_TENSOR || input->grows >= 0)
    return wrong(f, input->info.name, "its memory is of another type");
  if (strides->container != TN__CONTAINER_TENSOR || strides->dtype != TN_I64 || strides->rank != 1 ||
      strides->dims[0].symbolic || strides->dims[0].value != input->info.rank + 1 || g->inputs[extra + 1].grows >= 0)
    return wrong(f, input->info.name, "its strides are not as many numbers");
  if (is_touched(g, g->inputs[index].reg)) return wrong(f, input->info.name, "it is read as if it were dense");
  for (uint32_t i = 0; i < f->output_count; i++)
    if (f->outputs[i].alias == (int)index) return wrong(f, input->info.name, "an output takes its memory");
  return NULL;
}

tn_status *tn__verify_strided(const tn_executable *exe, const tn__function *f) {
  if (f->strided < 0 && f->strided_inputs == 0) return NULL;
  if (f->strided < 0 || (uint32_t)f->strided >= exe->function_count || f->strided == f->index)
    return tn__load_corrupt("function \"%s\" has %u inputs of any strides, and function %d of %u for them", f->name,
                            f->strided_inputs, f->strided, exe->function_count);
  const tn__function *g = &exe->functions[f->strided];
  bool fits = g->strided < 0 && g->output_count == f->output_count && f->strided_inputs > 0 &&
              g->input_count == (uint64_t)f->input_count + 2 * (uint64_t)f->strided_inputs;
  for (uint32_t i = 0; fits && i < f->input_count; i++) fits = is_like(f, &f->inputs[i], g, &g->inputs[i]);
  for (uint32_t i = 0; fits && i < f->output_count; i++)
    fits = is_like(f, &f->outputs[i], g, &g->outputs[i]) && !f->outputs[i].info.strided;
  if (!fits)
    return tn__load_corrupt(
        "function \"%s\": function \"%s\", for inputs of any strides, takes or gives something else", f->name, g->name);
  uint32_t extra = f->input_count;
  for (uint32_t i = 0; i < f->input_count; i++) {
    if (!f->inputs[i].info.strided) continue;
    TN_RETURN_IF_ERROR(check_input(f, i, g, extra));
    extra += 2;
  }
  return NULL;
}
