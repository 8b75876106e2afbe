/* Sessions: their life, and invokes on what bind.c has bound. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "base/options.h"
#include "runtime/session/flight.h"
#include "runtime/session/values.h"

/* ---- life ------------------------------------------------------------------------------------------------------- */

static tn_status *create_function_state(tn_session *session, const tn__function *f, tn__function_state *state) {
  const struct {
    void *array;
    size_t count, size;
  } wanted[] = {
      {&state->inputs, f->input_count, sizeof(tn__bound)},
      {&state->call_inputs, f->input_count, sizeof(tn__bound)},
      {&state->outputs, f->output_count, sizeof(tn__bound)},
      {&state->call_outputs, f->output_count, sizeof(tn__bound)},
      {&state->input_copies, f->input_count, sizeof(tn__block)},
      {&state->output_copies, f->output_count, sizeof(tn__block)},
      {&state->spares, f->output_count, sizeof(tn__block)},
      {&state->inputs_away, f->has_away ? f->input_count : 0, sizeof(tn__block)},
      {&state->outputs_away, f->has_away ? f->output_count : 0, sizeof(tn__block)},
      {&state->results_away, f->has_away ? f->output_count : 0, sizeof(tn__block)},
      {&state->rooms, f->output_count, sizeof(tn__view)},
      {&state->results, f->output_count, sizeof(tn__view)},
  };
  void *memory;
  for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
    TN_RETURN_IF_ERROR(tn__alloc(session->allocator, wanted[i].count, wanted[i].size, 0, &memory));
    memcpy(wanted[i].array, &memory, sizeof(memory));
  }
  if (f->strided >= 0) {
    TN_RETURN_IF_ERROR(tn__alloc(session->allocator, f->input_count, sizeof(*state->strides), 0, &memory));
    state->strides = memory;
  }
  return session->exe->values == NULL ? NULL : session->exe->values->session->create(session, f, state);
}

static void release_blocks(const tn_allocator *allocator, uint32_t count, tn__block *blocks) {
  for (uint32_t i = 0; i < count && blocks != NULL; i++) tn__block_release(allocator, &blocks[i]);
  tn__free(allocator, blocks, count * sizeof(tn__block), 0);
}

static void release_away(tn_session *session, const tn__function *f, uint32_t count, const tn__function_value *values,
                         tn__block *blocks) {
  if (!f->has_away) count = 0;
  for (uint32_t i = 0; i < count && blocks != NULL; i++)
    tn__block_release_on(&session->vm, f->registers[values[i].reg].device, &blocks[i]);
  tn__free(session->allocator, blocks, count * sizeof(tn__block), 0);
}

static void release_function_state(tn_session *session, const tn__function *f, tn__function_state *state) {
  const tn_allocator *allocator = session->allocator;
  release_blocks(allocator, f->input_count, state->input_copies);
  release_blocks(allocator, f->output_count, state->output_copies);
  release_blocks(allocator, f->output_count, state->spares);
  release_blocks(allocator, f->has_away ? f->output_count : 0, state->results_away);
  release_away(session, f, f->input_count, f->inputs, state->inputs_away);
  release_away(session, f, f->output_count, f->outputs, state->outputs_away);
  tn__free(allocator, state->strides, f->input_count * sizeof(*state->strides), 0);
  tn__free(allocator, state->rooms, f->output_count * sizeof(tn__view), 0);
  tn__free(allocator, state->results, f->output_count * sizeof(tn__view), 0);
  if (session->exe->values != NULL) session->exe->values->session->release(session, f, state);
  tn__free(allocator, state->inputs, f->input_count * sizeof(tn__bound), 0);
  tn__free(allocator, state->call_inputs, f->input_count * sizeof(tn__bound), 0);
  tn__free(allocator, state->outputs, f->output_count * sizeof(tn__bound), 0);
  tn__free(allocator, state->call_outputs, f->output_count * sizeof(tn__bound), 0);
  tn__frame_give_back(&session->vm, state->frame);
}

static tn_status *set_up(tn_session *session, const tn_session_options *options) {
  const tn_executable *exe = session->exe;
  tn_thread_pool *pool = options->pool;
  if (pool == NULL) {
    tn_thread_pool_options pool_options = {
        .size = sizeof(pool_options), .threads = options->threads, .allocator = session->allocator};
    TN_RETURN_IF_ERROR(tn_thread_pool_create(&pool_options, &session->own_pool));
    pool = session->own_pool;
  }
  TN_RETURN_IF_ERROR(tn__vm_init(&session->vm, exe, session->allocator, pool, options));
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(session->allocator, exe->function_count, sizeof(tn__function_state), 0, &memory));
  session->functions = memory;
  for (uint32_t i = 0; i < exe->function_count; i++)
    if (!exe->functions[i].inner)
      TN_RETURN_IF_ERROR(create_function_state(session, &exe->functions[i], &session->functions[i]));
  return NULL;
}

tn_status *tn_session_create(const tn_executable *exe, const tn_session_options *options, tn_session **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("executable", exe);
  tn_session_options all;
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_session_options, options, &all));
  TN_RETURN_IF_ERROR(
      tn__options_check_list("tn_session_options", "memory", all.memory, "memory_count", all.memory_count));
  if (exe->verify_only)
    return tn_status_create(
        TN_FAILED_PRECONDITION,
        "the executable was loaded to be inspected only (tn_load_options.inspect_only), and none of "
        "its code is there: load it without that to run it");
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(all.allocator, 1, sizeof(tn_session), 0, &memory));
  tn_session *session = memory;
  session->exe = exe;
  if (all.allocator != NULL) {
    session->copy = *all.allocator;
    session->allocator = &session->copy;
  }
  tn_status *status = set_up(session, &all);
  if (status != NULL) {
    tn__session_destroy(session);
    return status;
  }
  *out = session;
  return NULL;
}

void tn__session_destroy(tn_session *session) {
  tn_profile_release(session->profile);
  for (uint32_t i = 0; i < session->exe->function_count && session->functions != NULL; i++)
    if (!session->exe->functions[i].inner)
      release_function_state(session, &session->exe->functions[i], &session->functions[i]);
  tn__free(session->allocator, session->functions, session->exe->function_count * sizeof(tn__function_state), 0);
  tn__vm_release(&session->vm);
  tn_thread_pool_release(session->own_pool);
  tn_allocator copy = session->copy;
  tn__free(session->allocator == NULL ? NULL : &copy, session, sizeof(*session), 0);
}

/* ---- an invoke -------------------------------------------------------------------------------------------------- */

static int64_t dense_bytes(const DLTensor *tensor) {
  return tn_element_count(tensor->ndim, tensor->shape) * (int64_t)tn_dtype_size(tn_dtype_of_dl(tensor->dtype));
}

/* The tensor that the session keeps for one that kernels cannot use where it is. */
static DLTensor copy_of(const tn__function_value *value, const DLTensor *tensor, const tn__block *block,
                        tn__view *view) {
  DLTensor copy = *tensor;
  tn__view_of_buffer(value, tensor->shape, view);
  copy.data = block->data, copy.byte_offset = 0, copy.strides = view->strides;
  return copy;
}

static void refresh_input(const tn__function_value *value, const DLTensor *tensor, const tn__block *block) {
  tn__view view;
  DLTensor copy = copy_of(value, tensor, block, &view);
  tn_tensor_copy(tensor, &copy);
}

/* Copies an input that kernels cannot read where it is. */
static tn_status *copy_input(tn_session *session, const tn__function *f, tn__function_state *state, uint32_t index,
                             const tn__bound *slot) {
  const DLTensor *tensor = &slot->tensor;
  if (slot->references != NULL) return NULL;
  tn__block *copy = &state->input_copies[index];
  TN_RETURN_IF_ERROR(tn__block_reserve(session->allocator, copy, tn__bind_buffer_bytes(&f->inputs[index], tensor)));
  if (tn__bind_is_of_strings(&f->inputs[index]))
    return session->exe->values->session->place_strings(session, f, state, index, slot, copy->data);
  refresh_input(&f->inputs[index], tensor, copy);
  return NULL;
}

/* A tensor of any strides goes to the function for these, `g`, as memory and strides; what the others know as the
 * tensor is only asked for its dimensions there. */
static tn_status *place_input(const tn__function *f, const tn__function *g, tn__function_state *state, uint32_t index,
                              const DLTensor *tensor, char *data, bool copied) {
  if (g == f || !f->inputs[index].info.strided) {
    tn__frame_set_input(state->frame, index, data, tensor->shape);
    return NULL;
  }
  DLTensor there = *tensor;
  if (copied) there.data = data, there.byte_offset = 0, there.strides = NULL;
  TN_RETURN_IF_ERROR(tn__bind_strided_check(&f->inputs[index], &there));
  tn__frame_set_input(state->frame, index, tn__strided_memory_of(&there).data, there.shape);
  tn__bind_strided_place(state->frame, f, index, &there, state->strides[index]);
  return NULL;
}

/* Memory of an input or output where it is, for a tensor that is the host's. */
static tn_status *reserve_away(tn_session *session, const tn__function *f, const tn__function_value *value,
                               const DLTensor *tensor, tn__block *block) {
  return tn__block_reserve_on(&session->vm, f->registers[value->reg].device, block,
                              tn__bind_buffer_bytes(value, tensor));
}

/* The tensor says that it is on the value's device. */
static tn_status *check_held(tn_session *session, const tn__function *f, const tn__function_value *value, bool output,
                             const DLTensor *tensor) {
  const tn__opened_device *device = tn__opened_at(session->vm.shared, f->registers[value->reg].device);
  if (device == NULL) return NULL;
  char what[160];
  snprintf(what, sizeof what, "%s \"%.128s\"", output ? "output" : "input", value->info.name);
  return tn__opened_check_held(session->vm.shared, device, what, tn__rt_data_of(tensor),
                               (size_t)tn__bind_buffer_bytes(value, tensor));
}

/* `*data`, the host's, becomes memory of the input's device, to which the machine brings it. */
static tn_status *send_input(tn_session *session, const tn__function *f, tn__function_state *state, uint32_t index,
                             const DLTensor *tensor, char **data) {
  tn__block *there = &state->inputs_away[index];
  state->frame->carried[index] = (tn__carried){0};
  if (tn__bind_is_away(&f->inputs[index], tensor)) return check_held(session, f, &f->inputs[index], false, tensor);
  TN_RETURN_IF_ERROR(reserve_away(session, f, &f->inputs[index], tensor, there));
  state->frame->carried[index].host = *data;
  *data = there->data;
  return NULL;
}

/* Gives each input its memory: the caller's when kernels can read it, else a copy. `g` is the function that runs. */
static tn_status *place_inputs(tn_session *session, const tn__function *f, const tn__function *g,
                               tn__function_state *state, const tn__bound *inputs) {
  for (uint32_t i = 0; i < f->input_count; i++) {
    const DLTensor *tensor = &inputs[i].tensor;
    bool list = tn__bind_is_list(&f->inputs[i]);
    if (list ? !state->inputs[i].set : !inputs[i].set)
      return tn_status_create(TN_FAILED_PRECONDITION, "input \"%s\" of function \"%s\" is not bound",
                              f->inputs[i].info.name, f->name);
    if (list) {
      TN_RETURN_IF_ERROR(session->exe->values->session->place_list(session, f, state, i, g->inputs[i].reg));
      continue;
    }
    char *data = tn__rt_data_of(tensor);
    bool copied = !tn__bind_is_in_place(&f->inputs[i], tensor);
    if (inputs[i].references != NULL) {
      data = (char *)(uintptr_t)inputs[i].references;
    } else if (copied) {
      TN_RETURN_IF_ERROR(copy_input(session, f, state, i, &inputs[i]));
      data = state->input_copies[i].data;
    }
    if (f->inputs[i].away) TN_RETURN_IF_ERROR(send_input(session, f, state, i, tensor, &data));
    TN_RETURN_IF_ERROR(place_input(f, g, state, i, tensor, data, copied));
  }
  return NULL;
}

/* As send_input(); `*data` NULL: nothing is bound, and the session keeps the result on the host. */
static tn_status *fetch_output(tn_session *session, const tn__bindings *bindings, uint32_t index, char **data) {
  tn__function_state *state = bindings->state;
  const tn__function_value *value = &bindings->f->outputs[index];
  tn__carried *carried = &state->frame->carried[state->frame->f->input_count + index];
  const DLTensor *tensor = &bindings->outputs[index].tensor;
  *carried = (tn__carried){.block = &state->results_away[index]};
  if (*data == NULL) return NULL;
  if (tn__bind_is_away(value, tensor)) return check_held(session, bindings->f, value, true, tensor);
  TN_RETURN_IF_ERROR(reserve_away(session, bindings->f, value, tensor, &state->outputs_away[index]));
  carried->host = *data;
  *data = state->outputs_away[index].data;
  return NULL;
}

static tn_status *place_outputs(tn_session *session, const tn__bindings *bindings) {
  const tn__function *f = bindings->f;
  tn__function_state *state = bindings->state;
  tn__frame *frame = state->frame;
  TN_RETURN_IF_ERROR(tn__bind_check_sharing(bindings));
  TN_RETURN_IF_ERROR(tn__bind_make_way(bindings));
  for (uint32_t i = 0; i < f->output_count; i++) {
    char *data = NULL;
    frame->output_data[i] = NULL;
    if (!tn__bind_output_slot(bindings, i)->set) {
      if (f->outputs[i].away) TN_RETURN_IF_ERROR(fetch_output(session, bindings, i, &data));
      continue;
    }
    const DLTensor *tensor = &tn__bind_output_slot(bindings, i)->tensor;
    const tn__function_value *value = &f->outputs[i];
    int64_t bytes = tn__bind_is_list(value) ? dense_bytes(tensor) : tn__bind_buffer_bytes(value, tensor);
    data = tn__rt_data_of(tensor);
    if (tn__bind_is_list(value)) {
      data = session->exe->values->session->output_list(state, i);
    } else if (!tn__bind_is_in_place(value, tensor)) {
      TN_RETURN_IF_ERROR(tn__block_reserve(session->allocator, &state->output_copies[i], bytes));
      data = state->output_copies[i].data;
    }
    if (value->away) TN_RETURN_IF_ERROR(fetch_output(session, bindings, i, &data));
    frame->output_data[i] = data;
    if (value->grows >= 0) tn__view_of_buffer(value, tensor->shape, &state->rooms[i]);
    frame->output_shapes[i] = value->grows < 0 ? tensor->shape : state->rooms[i].shape;
    frame->output_valid[i] = value->grows < 0 ? -1 : tensor->shape[value->grows];
    bool has_room = value->info.size_rule == TN_SIZE_CAPACITY && tn__tensor_is_dense(tensor);
    frame->output_capacity[i] = has_room ? bytes : TN__EXACT_SHAPE;
  }
  return NULL;
}

/* Did the result go where it was wanted, or was there no room for it? */
static bool fits(const tn__frame *frame, uint32_t index) {
  return frame->data[frame->f->outputs[index].reg] == frame->output_data[index];
}

/* Of one that is away, which is also on the host unless it is in memory that the caller has there. */
static void find_result(const tn__frame *frame, uint32_t index, DLTensor *result) {
  const tn__carried *carried = &frame->carried[frame->f->input_count + index];
  if (!fits(frame, index))
    result->data = carried->block->data;
  else if (carried->host != NULL)
    result->data = carried->host;
  else
    result->device = frame->f->outputs[index].info.device;
}

/* The result as it came out, whatever shape was bound. */
static DLTensor result_of(const tn__function_state *state, uint32_t index) {
  const tn__frame *frame = state->frame;
  const tn__function_value *output = &frame->f->outputs[index];
  const tn__register *r = &frame->f->registers[output->reg];
  DLTensor result = {.data = frame->data[output->reg],
                     .device = {kDLCPU, 0},
                     .ndim = r->rank,
                     .dtype = tn_dtype_to_dl(r->dtype),
                     .shape = frame->dims + r->first_dim};
  if (output->away) find_result(frame, index, &result);
  if (output->grows < 0) return result;
  tn__view *view = &state->results[index];
  tn__view_of_buffer(output, result.shape, view);
  view->shape[output->grows] = tn__operand_value(&output->valid, frame->scalars);
  result.shape = view->shape, result.strides = view->strides;
  return result;
}

/* Results that were made beside their buffers go there. */
static tn_status *copy_back(tn_session *session, const tn__function *f, tn__function_state *state,
                            const tn__bound *outputs) {
  tn_status *first = NULL; /* the other outputs are complete whatever it is */
  for (uint32_t i = 0; i < f->output_count; i++) {
    if (tn__bind_is_list(&f->outputs[i]) || !outputs[i].set || tn__bind_is_in_place(&f->outputs[i], &outputs[i].tensor))
      continue;
    DLTensor result = result_of(state, i);
    if (!fits(state->frame, i)) continue;
    if (tn__bind_is_of_strings(&f->outputs[i])) {
      first = tn__session_first_of(
          first, session->exe->values->session->give_strings(session, state, i, &result, &outputs[i]));
    } else if (!tn__tensor_is_dense(&outputs[i].tensor) || f->outputs[i].grows >= 0) {
      tn_tensor_copy(&result, &outputs[i].tensor);
    } else if (dense_bytes(&result) > 0) {
      memcpy(tn__rt_data_of(&outputs[i].tensor), result.data, (size_t)dense_bytes(&result));
    }
  }
  return first;
}

/* A value of data-dependent size that its buffer has no room for was kept by the session instead. */
static tn_status *check_capacity(const tn__function *f, const tn__function_state *state, const tn__bound *outputs) {
  const tn__frame *frame = state->frame;
  for (uint32_t i = 0; i < f->output_count; i++) {
    if (tn__bind_is_list(&f->outputs[i]) || !outputs[i].set || frame->output_capacity[i] == TN__EXACT_SHAPE) continue;
    DLTensor result = result_of(state, i);
    if (fits(frame, i)) continue;
    char have[256], want[256];
    tn__rt_format_shape(result.shape, result.ndim, want, sizeof(want));
    tn__rt_format_shape(outputs[i].shape, result.ndim, have, sizeof(have));
    return tn_status_create(TN_OUT_OF_RANGE,
                            "output \"%s\": the value has shape %s and needs %lld bytes, and the bound tensor of shape "
                            "%s has %lld; tn_session_get_output() has the value",
                            f->outputs[i].info.name, want, (long long)dense_bytes(&result), have,
                            (long long)dense_bytes(&outputs[i].tensor));
  }
  return NULL;
}

static void drop(tn__bound *slots, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (!slots[i].persistent) slots[i].set = false;
}

static bool all_persistent(const tn__bound *slots, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (slots[i].set && !slots[i].persistent) return false;
  return true;
}

/* Inputs may have been updated in place: those that kernels cannot read where they are are copied anew. */
static tn_status *refresh_copies(tn_session *session, const tn__function *f, tn__function_state *state) {
  for (uint32_t i = 0; i < f->input_count; i++) {
    if (tn__bind_is_list(&f->inputs[i]))
      TN_RETURN_IF_ERROR(
          session->exe->values->session->place_list(session, f, state, i, state->frame->f->inputs[i].reg));
    else if (!tn__bind_is_in_place(&f->inputs[i], &state->inputs[i].tensor))
      TN_RETURN_IF_ERROR(copy_input(session, f, state, i, &state->inputs[i]));
  }
  return NULL;
}

/* A frame of the function that is to run; another's is kept with its memory, in which results of the last invoke
 * are. */
static tn_status *take_frame(tn_session *session, tn__function_state *state, const tn__function *g) {
  if (state->frame != NULL && state->frame->f == g) return NULL;
  tn__frame_give_back(&session->vm, state->frame);
  state->frame = NULL;
  return tn__frame_take(&session->vm, g, &state->frame);
}

/* Takes the inputs, runs, and leaves the results where the machine made them. */
static tn_status *run(tn_session *session, const tn__function *f, bool settled, tn__bound *inputs, tn__bound *outputs) {
  tn__function_state *state = &session->functions[f->index];
  if (settled) {
    TN_RETURN_IF_ERROR(refresh_copies(session, f, state));
  } else {
    tn__bind_defaults(session->exe, f, inputs);
    const tn__function *g = tn__bind_strided_choice(session->exe, f, inputs);
    TN_RETURN_IF_ERROR(take_frame(session, state, g));
    TN_RETURN_IF_ERROR(place_inputs(session, f, g, state, inputs));
    TN_RETURN_IF_ERROR(place_outputs(session, &(tn__bindings){f, state, inputs, outputs, session->exe->values}));
  }
  if (tn__rt_is_cancelled(&session->vm.caller.env)) { /* there may be no kernel that would notice */
    tn__pool_cancel(&session->vm.caller, false);
    return tn_status_create(TN_CANCELLED, "the invoke was cancelled before it began");
  }
  tn__pool_begin(session->vm.pool);
  tn_status *status =
      settled ? tn__vm_run_again(&session->vm, state->frame) : tn__vm_run(&session->vm, state->frame, 0);
  tn__pool_end(session->vm.pool);
  tn__pool_cancel(&session->vm.caller, false);
  if (status != NULL || session->exe->values == NULL) return status;
  return session->exe->values->session->finish(session, state);
}

static tn_status *invoke_unmeasured(tn_session *session, const tn__function *f, tn__bound *inputs, tn__bound *outputs) {
  tn__function_state *state = &session->functions[f->index];
  bool settled = inputs == state->inputs && state->settled;
  state->settled = false;
  state->has_results = false;
  const tn__session_values *values = session->exe->values == NULL ? NULL : session->exe->values->session;
  if (values != NULL) values->begin(session, f, state);
  tn_status *status = run(session, f, settled, inputs, outputs);
  if (status != NULL) {
    if (values != NULL) values->undo(state);
    return status;
  }
  state->has_results = true;
  state->settled =
      outputs == state->outputs && all_persistent(inputs, f->input_count) && all_persistent(outputs, f->output_count);
  /* Each of them is done, whatever the others say: what fits is complete. */
  status = copy_back(session, f, state, outputs);
  if (values != NULL) status = tn__session_first_of(status, values->give_lists(session, f, state));
  return tn__session_first_of(status, check_capacity(f, state, outputs));
}

static tn_status *invoke(tn_session *session, const tn__function *f, tn__bound *inputs, tn__bound *outputs) {
  if (session->profile == NULL) return invoke_unmeasured(session, f, inputs, outputs);
  uint64_t start = tn__clock();
  tn_status *status = invoke_unmeasured(session, f, inputs, outputs);
  tn__session_profile_invoke(session->profile, start, tn__clock());
  return status;
}

tn_status *tn__session_invoke_bound(tn_session *session, const tn__function *f) {
  tn__function_state *state = &session->functions[f->index];
  tn_status *status = invoke(session, f, state->inputs, state->outputs);
  drop(state->inputs, f->input_count);
  drop(state->outputs, f->output_count);
  return status;
}

static tn_status *invoke_bound(tn_session *session, const char *function) {
  const tn__function *f;
  TN_RETURN_IF_ERROR(tn__executable_function(session->exe, function, &f));
  return tn__session_invoke_bound(session, f);
}

static tn_status *bind_for_call(const tn__function *f, int index, bool output, const DLTensor *tensor,
                                tn__bound *slot) {
  const tn_value_info *info = output ? &f->outputs[index].info : &f->inputs[index].info;
  if (info->kind != TN_VALUE_TENSOR) return NULL;
  tn__extent memory;
  if (tensor != NULL) TN_RETURN_IF_ERROR(tn__bind_check(f, index, output, tensor, TN_BIND_NEXT, &memory));
  tn__bind_keep(slot, tensor, TN_BIND_NEXT, &memory);
  return NULL;
}

static tn_status *invoke_with(tn_session *session, const char *function, const DLTensor *inputs, int input_count,
                              const DLTensor *outputs, int output_count) {
  const tn__function *f;
  TN_RETURN_IF_ERROR(tn__executable_function(session->exe, function, &f));
  if (input_count < 0 || (uint32_t)input_count != f->input_count || output_count < 0 ||
      ((uint32_t)output_count != f->output_count && output_count != 0))
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "function \"%s\" takes %u inputs and %u outputs; the call gives %d and %d", f->name,
                            f->input_count, f->output_count, input_count, output_count);
  tn__function_state *state = &session->functions[f->index];
  for (int i = 0; i < input_count; i++)
    TN_RETURN_IF_ERROR(bind_for_call(f, i, false, tn__bind_is_default(&f->inputs[i], &inputs[i]) ? NULL : &inputs[i],
                                     &state->call_inputs[i]));
  for (int i = 0; i < (int)f->output_count; i++) {
    const DLTensor *tensor = output_count == 0 || outputs[i].data == NULL ? NULL : &outputs[i];
    TN_RETURN_IF_ERROR(bind_for_call(f, i, true, tensor, &state->call_outputs[i]));
  }
  return invoke(session, f, state->call_inputs, state->call_outputs);
}

static tn_status *invoke_stateful(tn_session *session, const char *function, const DLTensor *inputs, int input_count) {
  const tn__function *f;
  TN_RETURN_IF_ERROR(tn__executable_function(session->exe, function, &f));
  if (input_count < 0 || (uint32_t)input_count != f->input_count)
    return tn__bind_wrong_count(f, "input", f->input_count, input_count);
  return invoke_with(session, function, inputs, input_count, NULL, 0);
}

static tn_status *get_output(tn_session *session, const char *function, int index, DLTensor *out) {
  const tn__function *f;
  TN_RETURN_IF_ERROR(tn__executable_function(session->exe, function, &f));
  tn__function_state *state = &session->functions[f->index];
  if (index < 0 || (uint32_t)index >= f->output_count)
    return tn_status_create(TN_INVALID_ARGUMENT, "function \"%s\" has %u outputs; there is no number %d", f->name,
                            f->output_count, index);
  if (!state->has_results)
    return tn_status_create(TN_FAILED_PRECONDITION,
                            "function \"%s\" has no results: no invoke of it succeeded yet, or the last one failed",
                            f->name);
  if (f->outputs[index].info.kind != TN_VALUE_TENSOR)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "output \"%s\" is a sequence or optional: tn_session_get_output_count() and "
                            "tn_session_get_output_item() read it",
                            f->outputs[index].info.name);
  *out = result_of(state, (uint32_t)index);
  if (!tn__bind_is_of_strings(&f->outputs[index])) return NULL;
  return session->exe->values->session->show(session, state, index, out);
}

/* ---- the public functions ---------------------------------------------------------------------------------------- */

tn_status *tn_session_invoke(tn_session *session, const char *function) {
  TN__NEED("session", session);
  return TN__IN_SESSION(session, invoke_bound(session, function));
}

tn_status *tn_session_invoke_with_outputs(tn_session *session, const char *function, const DLTensor *inputs,
                                          int input_count, const DLTensor *outputs, int output_count) {
  TN__NEED("session", session);
  TN__NEED_LIST("inputs", inputs, "input_count", input_count);
  TN__NEED_LIST("outputs", outputs, "output_count", output_count);
  return TN__IN_SESSION(session, invoke_with(session, function, inputs, input_count, outputs, output_count));
}

tn_status *tn_session_invoke_stateful(tn_session *session, const char *function, const DLTensor *inputs,
                                      int input_count) {
  TN__NEED("session", session);
  TN__NEED_LIST("inputs", inputs, "input_count", input_count);
  return TN__IN_SESSION(session, invoke_stateful(session, function, inputs, input_count));
}

tn_status *tn_session_get_output(tn_session *session, const char *function, int index, DLTensor *out) {
  TN__NEED("out", out);
  TN__NEED("session", session);
  *out = (DLTensor){0};
  return TN__IN_SESSION(session, get_output(session, function, index, out));
}

void tn_session_cancel(tn_session *session) {
  if (session == NULL) return;
  tn__pool_cancel(&session->vm.caller, true);
}
