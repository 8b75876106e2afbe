/* A session's lists and strings through an invoke, and the table of all that the runtime calls. */
#include "runtime/session/values.h"

#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "runtime/values/state.h"
#include "runtime/vm/values.h"

/* ---- life ------------------------------------------------------------------------------------------------------- */

static tn_status *create(tn_session *session, const tn__function *f, tn__function_state *state) {
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(session->allocator, 1, sizeof(tn__value_state), 0, &memory));
  tn__value_state *values = state->values = memory;
  const struct {
    void *array;
    size_t count, size;
  } wanted[] = {
      {&values->input_lists, f->input_count, sizeof(tn__list)},
      {&values->output_lists, f->output_count, sizeof(tn__list)},
      {&values->given_lists, f->input_count, sizeof(tn__list)},
      {&values->given_strings, f->input_count, sizeof(tn__strings)},
      {&values->shown, f->output_count, sizeof(tn__shown_strings)},
  };
  for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
    TN_RETURN_IF_ERROR(tn__alloc(session->allocator, wanted[i].count, wanted[i].size, 0, &memory));
    memcpy(wanted[i].array, &memory, sizeof(memory));
  }
  values->strings.constants = session->exe->string_data, values->strings.constant_bytes = session->exe->string_bytes;
  values->spare = values->strings;
  return NULL;
}

static void release_lists(const tn_allocator *allocator, uint32_t count, tn__list *lists) {
  for (uint32_t i = 0; i < count && lists != NULL; i++) tn__list_release(allocator, &lists[i]);
  tn__free(allocator, lists, count * sizeof(tn__list), 0);
}

static void release(tn_session *session, const tn__function *f, tn__function_state *state) {
  const tn_allocator *allocator = session->allocator;
  tn__value_state *values = state->values;
  if (values == NULL) return;
  release_lists(allocator, f->input_count, values->input_lists);
  release_lists(allocator, f->input_count, values->given_lists);
  release_lists(allocator, f->output_count, values->output_lists);
  for (uint32_t i = 0; i < f->input_count && values->given_strings != NULL; i++)
    tn__strings_release(allocator, &values->given_strings[i]);
  tn__free(allocator, values->given_strings, f->input_count * sizeof(tn__strings), 0);
  for (uint32_t i = 0; i < f->output_count && values->shown != NULL; i++)
    tn__block_release(allocator, &values->shown[i].strings);
  tn__free(allocator, values->shown, f->output_count * sizeof(tn__shown_strings), 0);
  tn__strings_release(allocator, &values->strings);
  tn__strings_release(allocator, &values->spare);
  tn__free(allocator, values, sizeof(*values), 0);
}

/* ---- an invoke -------------------------------------------------------------------------------------------------- */

/* Sequences are made anew by every invoke, in the memory that is bound for them. */
static void lend_memory(tn_session *session, const tn__function *f, tn__function_state *state) {
  for (uint32_t i = 0; i < f->output_count; i++) {
    const tn__bound *slot = &state->outputs[i];
    if (!tn__bind_is_list(&f->outputs[i])) continue;
    bool lends = slot->set && f->outputs[i].info.dtype != TN_STRING; /* those are put there in the end */
    tn__list_lend(session->allocator, &state->values->output_lists[i], lends ? tn__rt_data_of(&slot->tensor) : NULL,
                  lends ? (size_t)slot->shape[0] : 0);
  }
}

static void swap_strings(tn__function_state *state) {
  tn__strings last = state->values->strings;
  state->values->strings = state->values->spare;
  state->values->spare = last;
}

static void begin(tn_session *session, const tn__function *f, tn__function_state *state) {
  tn__value_state *values = state->values;
  session->vm.strings = &values->strings;
  swap_strings(state);
  tn__strings_clear(&values->strings);
  for (uint32_t i = 0; i < f->output_count; i++) values->shown[i].ready = false, values->shown[i].given = NULL;
  lend_memory(session, f, state);
}

/* What the inputs point to stays for another try. */
static void undo(tn__function_state *state) { swap_strings(state); }

/* The next invoke of the same sizes shall find as much memory as this one. */
static tn_status *finish(tn_session *session, tn__function_state *state) {
  tn__value_state *values = state->values;
  if (values->spare.heap.capacity >= values->strings.heap.capacity) return NULL;
  tn__strings_clear(&values->spare);
  return tn__block_reserve(session->allocator, &values->spare.heap, (int64_t)values->strings.heap.capacity);
}

static tn_status *place_strings(tn_session *session, const tn__function *f, tn__function_state *state, uint32_t index,
                                const tn__bound *slot, uint64_t *references) {
  const DLTensor *tensor = &slot->tensor;
  tn__value_state *values = state->values;
  const char *name = f->inputs[index].info.name;
  /* Those of the last invoke last through this one. */
  if (tn__strings_hold(&values->strings, tensor) || (slot->persistent && tn__strings_hold(&values->spare, tensor)))
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "input \"%s\": its strings lie in memory of the session, which lasts for one invoke after "
                            "the one that made them: bind them for the next one only, or a copy of them",
                            name);
  return tn_status_prefix(tn__strings_take_in(session->allocator, &values->strings, "its strings", tensor, references),
                          "input \"%s\"", name);
}

/* A list of strings as its caller gave it, with their bytes where the machine looks for them. */
static tn_status *copy_list(tn_session *session, const tn__function *f, tn__function_state *state, uint32_t index) {
  tn__list *list = &state->values->input_lists[index];
  if (f->inputs[index].info.dtype != TN_STRING) return NULL;
  TN_RETURN_IF_ERROR(tn__list_copy(session->allocator, list, &state->values->given_lists[index], sizeof(uint64_t)));
  for (int64_t i = 0; i < list->count; i++) {
    uint64_t *references = tn__list_data(list, i);
    int64_t count = tn_element_count(tn__list_rank(list, i), tn__list_dims(list, i));
    for (int64_t j = 0; j < count; j++) {
      tn_string text;
      TN_RETURN_IF_ERROR(tn__string_at(&state->values->given_strings[index], references[j], &text));
      if (references[j] != 0)
        TN_RETURN_IF_ERROR(tn__strings_add(session->allocator, &state->values->strings, text, &references[j]));
    }
  }
  return NULL;
}

static tn_status *place_list(tn_session *session, const tn__function *f, tn__function_state *state, uint32_t index,
                             uint32_t number) {
  state->frame->data[number] = &state->values->input_lists[index];
  return copy_list(session, f, state, index);
}

static void *output_list(tn__function_state *state, uint32_t index) { return &state->values->output_lists[index]; }

/* The last result goes: its list is made anew. */
static tn_status *free_list(const tn__bindings *b, uint32_t output) {
  const tn__frame *frame = b->state->frame;
  const tn__register *r = &frame->f->registers[frame->f->outputs[output].reg];
  tn__list *list = tn__bind_output_slot(b, output)->set ? &b->state->values->output_lists[output]
                                                        : (tn__list *)frame->lists + r->list;
  tn__list_clear(list, false);
  return tn__bind_free_block(b, output, list->lent.data != NULL ? &list->spare : &list->elements);
}

static tn_status *make_way(const tn__bindings *b, uint32_t output) {
  if (tn__bind_is_list(&b->f->outputs[output])) return free_list(b, output);
  return tn__bind_free_block(b, output, &b->state->values->shown[output].strings);
}

/* The strings go where their bytes are wanted, one after another; the array's elements then tell where each is. */
static tn_status *give_strings(tn_session *session, tn__function_state *state, uint32_t index, const DLTensor *result,
                               const tn__bound *slot) {
  DLTensor shown = *result;
  int64_t count = tn_element_count(result->ndim, result->shape);
  uint64_t total;
  TN_RETURN_IF_ERROR(tn__values_show(session, state, (int)index, &shown));
  if (!tn__rt_string_elements_bytes(shown.data, count, &total) || (slot->bytes != NULL && total > slot->capacity))
    return tn_status_create(TN_OUT_OF_RANGE,
                            "output \"%s\": its strings have %llu bytes together, and the bound memory has %zu; "
                            "tn_session_get_output() has the value",
                            state->frame->f->outputs[index].info.name, (unsigned long long)total, slot->capacity);
  tn__rt_string_elements_put(shown.data, count, &slot->tensor, slot->bytes);
  return NULL;
}

/* Sequences that outgrew their memory on the way go back to it if they fit in the end; those of strings go there
 * now. */
static tn_status *settle_list(tn_session *session, tn__function_state *state, const tn__function_value *output,
                              int index) {
  tn__list *list = &state->values->output_lists[index];
  int64_t needed;
  bool fits;
  if (output->info.dtype == TN_STRING)
    TN_RETURN_IF_ERROR(tn__values_settle_strings(session, state, index, list, &fits, &needed));
  else
    fits = tn__list_settle(list, tn__dtype_stored(output->info.dtype), &needed);
  if (fits) return NULL;
  return tn_status_create(TN_OUT_OF_RANGE,
                          "output \"%s\": its %lld tensors need %lld bytes, each at a multiple of %d, and the bound "
                          "memory has %llu; tn_session_get_output_item() has them",
                          output->info.name, (long long)list->count, (long long)needed, TN_KERNEL_ALIGNMENT,
                          (unsigned long long)state->outputs[index].shape[0]);
}

static tn_status *settle_lists(tn_session *session, const tn__function *f, tn__function_state *state) {
  tn_status *status = NULL;
  for (uint32_t i = 0; i < f->output_count; i++)
    if (tn__bind_is_list(&f->outputs[i]) && state->frame->output_data[i] != NULL)
      status = tn__session_first_of(status, settle_list(session, state, &f->outputs[i], (int)i));
  return status;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static tn_status *run_builtin(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  bool lists = tn__builtin_find(in->callee)->about == TN__ABOUT_LISTS;
  return lists ? tn__list_builtin(vm, frame, in) : tn__string_builtin(vm, frame, in);
}

const tn__values *tn__values_built(void) {
  static const tn__vm_values vm = {
      .list_size = sizeof(tn__list),
      .release_lists = tn__list_release_all,
      .copy = tn__list_copy_instruction,
      .move = tn__list_move_instruction,
      .run = run_builtin,
  };
  static const tn__session_values session = {
      .create = create,
      .release = release,
      .begin = begin,
      .undo = undo,
      .finish = finish,
      .place_list = place_list,
      .place_strings = place_strings,
      .output_list = output_list,
      .make_way = make_way,
      .give_strings = give_strings,
      .give_lists = settle_lists,
      .show = tn__values_show,
      .set_input = tn__values_set_input,
      .get_count = tn__values_get_count,
      .get_item = tn__values_get_item,
  };
  static const tn__values table = {.check = tn__strings_check, .vm = &vm, .session = &session};
  return &table;
}
