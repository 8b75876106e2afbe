/* Memory that an invoke writes shares nothing with memory that is bound to it: bound outputs by a check, what the
 * session makes in memory of its own by taking other memory. Both look at where the caller's tensors lie, not at the
 * copies that stand for those which kernels cannot use there.
 *
 * What a session made it hands out as views, and these may be bound: a result as the next input, above all. So for each
 * output there are two memories that take turns, the second from the first such invoke on. Three at once, results of
 * invokes further back among them, are refused. */
#include "base/alloc.h"
#include "runtime/session/values.h"

/* ---- bound outputs ---------------------------------------------------------------------------------------------- */

/* Does the slot's tensor lie where the bytes of the other's strings go? */
static bool shares_bytes(const tn__bound *slot, const tn__bound *strings) {
  if (strings->bytes == NULL) return false;
  tn__extent bytes = tn__extent_of_bytes(strings->bytes, strings->capacity);
  return tn__rt_extents_share(&slot->memory, &bytes);
}

static bool bound_share(const tn__bound *a, const tn__bound *b) {
  if (tn__rt_extents_share(&a->memory, &b->memory) || shares_bytes(a, b) || shares_bytes(b, a)) return true;
  if (a->bytes == NULL || b->bytes == NULL) return false;
  tn__extent mine = tn__extent_of_bytes(a->bytes, a->capacity), theirs = tn__extent_of_bytes(b->bytes, b->capacity);
  return tn__rt_extents_share(&mine, &theirs);
}

static tn_status *check_output(const tn__bindings *b, uint32_t index) {
  const tn__function *f = b->f;
  const tn__bound *slot = tn__bind_output_slot(b, index);
  const char *name = f->outputs[index].info.name;
  if (shares_bytes(slot, slot))
    return tn_status_create(TN_INVALID_ARGUMENT, "output \"%s\" shares memory with the bytes of its strings", name);
  for (uint32_t i = 0; i < f->input_count; i++) {
    const tn__bound *input = &b->inputs[i];
    bool updated = f->outputs[index].alias == (int)i && tn__rt_data_of(&slot->tensor) == tn__rt_data_of(&input->tensor);
    if (tn__bind_is_list(&f->inputs[i]) || updated || !bound_share(slot, input)) continue;
    return tn_status_create(TN_INVALID_ARGUMENT, "output \"%s\" shares memory with input \"%s\"", name,
                            f->inputs[i].info.name);
  }
  for (uint32_t i = 0; i < index; i++) {
    const tn__bound *other = tn__bind_output_slot(b, i);
    if (other->set && bound_share(slot, other))
      return tn_status_create(TN_INVALID_ARGUMENT, "output \"%s\" shares memory with output \"%s\"", name,
                              f->outputs[i].info.name);
  }
  return NULL;
}

tn_status *tn__bind_check_sharing(const tn__bindings *b) {
  for (uint32_t i = 0; i < b->f->output_count; i++)
    if (tn__bind_output_slot(b, i)->set) TN_RETURN_IF_ERROR(check_output(b, i));
  return NULL;
}

/* ---- the session's own memory ----------------------------------------------------------------------------------- */

static bool meets(uintptr_t low, uint64_t bytes, const tn__block *block) {
  uintptr_t start = (uintptr_t)block->data;
  return bytes > 0 && low < start + block->capacity && start < low + bytes;
}

/* The memory from a tensor's first to its last byte will do: blocks are the session's, nobody else's tensors lie
 * between. */
static bool lies_in(const tn__bound *slot, const tn__block *block) {
  return slot->set && (meets(slot->memory.low, slot->memory.bytes, block) ||
                       (slot->bytes != NULL && meets((uintptr_t)slot->bytes, slot->capacity, block)));
}

/* Is the input updated in place when nobody bound the output that may take its memory? */
static bool is_updated(const tn__bindings *b, uint32_t output, uint32_t input, const tn__block *block) {
  const tn__function_value *value = &b->f->inputs[input];
  const DLTensor *tensor = &b->inputs[input].tensor;
  if (b->f->outputs[output].alias != (int)input || tn__bind_output_slot(b, output)->set) return false;
  return tn__rt_data_of(tensor) == block->data && tn__bind_is_in_place(value, tensor) &&
         tn__bind_buffer_bytes(value, tensor) <= (int64_t)block->capacity;
}

/* Does something that is bound lie in the block, be it for a later invoke? */
static bool is_bound(const tn__bindings *b, uint32_t output, const tn__block *block) {
  const tn__function_state *state = b->state;
  if (block->data == NULL) return false;
  for (uint32_t i = 0; i < b->f->input_count; i++)
    if ((lies_in(&b->inputs[i], block) && !is_updated(b, output, i, block)) ||
        (b->inputs != state->inputs && lies_in(&state->inputs[i], block)))
      return true;
  for (uint32_t i = 0; i < b->f->output_count; i++)
    if (lies_in(&b->outputs[i], block) || (b->outputs != state->outputs && lies_in(&state->outputs[i], block)))
      return true;
  return false;
}

tn_status *tn__bind_free_block(const tn__bindings *b, uint32_t output, tn__block *block) {
  tn__block *spare = &b->state->spares[output], kept = *block;
  if (!is_bound(b, output, block)) return NULL;
  if (is_bound(b, output, spare))
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "output \"%s\": results of two earlier invokes are bound, which takes both memories that "
                            "the session has for it: bind memory of your own for it, or a copy of the older result",
                            b->f->outputs[output].info.name);
  *block = *spare, *spare = kept;
  return NULL;
}

static tn_status *free_tensor(const tn__bindings *b, uint32_t output) {
  tn__function_state *state = b->state;
  const tn__frame *frame = state->frame;
  const tn__function_value *value = &b->f->outputs[output];
  const tn__bound *slot = &b->outputs[output];
  uint32_t number = frame->f->outputs[output].reg;
  bool may_not_fit = value->info.size_rule == TN_SIZE_CAPACITY;
  tn__block *own = value->away ? &state->results_away[output] : &frame->blocks[number];
  if (!slot->set || may_not_fit) TN_RETURN_IF_ERROR(tn__bind_free_block(b, output, own));
  if (!slot->set || tn__bind_is_in_place(value, &slot->tensor)) return NULL;
  return tn__bind_free_block(b, output, &state->output_copies[output]);
}

tn_status *tn__bind_make_way(const tn__bindings *b) {
  for (uint32_t i = 0; i < b->f->output_count; i++) {
    const tn__function_value *value = &b->f->outputs[i];
    if (!tn__bind_is_list(value)) TN_RETURN_IF_ERROR(free_tensor(b, i));
    if (tn__bind_is_list(value) || tn__bind_is_of_strings(value))
      TN_RETURN_IF_ERROR(b->values->session->make_way(b, i));
  }
  return NULL;
}
