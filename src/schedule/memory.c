/* The memory of its device in which a kernel wants an argument: the primitive set_memory, and what is chosen for
 * devices that have a second memory. Loops and code are the same wherever the argument lies in the end. */
#include <stdio.h>
#include <string.h>

#include "schedule/internal.h"

static const tn__buffer *argument_at(const tn__te *te, int index) {
  int inputs = tn__te_input_count(te);
  return index < inputs ? tn__te_input_at(te, index) : tn__te_output_at(te, index - inputs);
}

static int argument_of(const tn__te *te, const char *name) {
  int count = tn__te_input_count(te) + tn__te_output_count(te);
  for (int i = 0; i < count; i++)
    if (strcmp(argument_at(te, i)->name, name) == 0) return i;
  return -1;
}

static const tn__sched_memory *find_memory(const tn__schedule *s, int argument) {
  for (int i = 0; i < s->memories.count; i++)
    if (s->memories.data[i].argument == argument) return &s->memories.data[i];
  return NULL;
}

tn__memory_scope tn__schedule_memory(const tn__schedule *s, int argument) {
  const tn__sched_memory *found = find_memory(s, argument);
  return found != NULL ? found->scope : TN__MEMORY_GLOBAL;
}

void tn__sched_set_memory(tn__schedule *s, const char *name, int scope) {
  unsigned has = tn__target_memory_scopes(tn__target_device_type(s->target));
  int64_t number = scope;
  int argument = argument_of(s->te, name);
  char list[128];
  if (argument < 0) tn__sched_refuse(s, "set_memory: there is no input or output \"%s\"", name);
  if (find_memory(s, argument) != NULL) tn__sched_refuse(s, "set_memory of \"%s\": it is set already", name);
  if (scope < 0 || scope >= TN__MEMORY_SCOPES)
    tn__sched_refuse(s, "set_memory of \"%s\": there is no scope %d", name, scope);
  tn__memory_scope_list(has, list, sizeof list);
  if ((has >> scope & 1) == 0)
    tn__sched_refuse(s, "set_memory of \"%s\": the target has no memory \"%s\": it has %s", name,
                     tn__memory_scope_name((tn__memory_scope)scope), list);
  tn__sched_memory memory = {argument, (tn__memory_scope)scope};
  tn__vec_push(s->arena, &s->memories, memory);
  tn__sched_record(s, "set_memory", &name, 1, &number, 1);
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* Positions at which the stage reads anything; -1: how many there are is open. */
static int64_t positions_of(const tn__te_stage *stage) {
  const tn__te_axes *axes[] = {&stage->axes, &stage->reduce_axes};
  int64_t all = 1, extent;
  for (int a = 0; a < 2; a++)
    for (int i = 0; i < axes[a]->count; i++)
      if (!tn__ir_as_int(axes[a]->var[i]->extent, &extent) || __builtin_mul_overflow(all, extent, &all)) return -1;
  return all;
}

static bool reads(const tn__te_stage *stage, const tn__buffer *buffer) {
  for (int i = 0; i < stage->tensor_count; i++) {
    if (stage->values[i] != NULL && tn__expr_uses_buffer(stage->values[i], buffer)) return true;
    if (stage->first[i] != NULL && tn__expr_uses_buffer(stage->first[i], buffer)) return true;
  }
  return false;
}

/* Are the elements of the input read several times each, as far as counts tell? */
static bool is_read_again(const tn__te *te, const tn__buffer *input, int64_t elements) {
  int64_t all = 0;
  for (int i = 0; i < tn__te_stage_count(te); i++) {
    const tn__te_stage *stage = tn__te_stage_at(te, i);
    int64_t positions = reads(stage, input) ? positions_of(stage) : 0;
    if (positions < 0 || __builtin_add_overflow(all, positions, &all)) return false;
  }
  return all > elements;
}

void tn__sched_choose_memories(tn__schedule *s) {
  int64_t size;
  if (s->target->texture_bytes <= 0 || s->memories.count > 0) return;
  for (int i = 0; i < tn__te_input_count(s->te); i++) {
    const tn__buffer *input = tn__te_input_at(s->te, i);
    int64_t elements = 1;
    bool known = true;
    for (int d = 0; d < input->rank && known; d++)
      known = tn__ir_as_int(input->shape[d], &size) && !__builtin_mul_overflow(elements, size, &elements);
    int64_t bytes = (int64_t)tn__dtype_stored(input->dtype);
    if (!known || __builtin_mul_overflow(bytes, elements, &bytes) || bytes > s->target->texture_bytes) continue;
    if (is_read_again(s->te, input, elements)) tn__sched_set_memory(s, input->name, TN__MEMORY_TEXTURE);
  }
}

/* ---- traces ------------------------------------------------------------------------------------------------------ */

tn__memory_scope tn__sched_trace_memory(const char *trace, const char *argument) {
  static const char step[] = "set_memory \"";
  size_t length = strlen(argument);
  for (const char *line = trace; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
    line += *line == '\n';
    const char *name = line + sizeof step - 1;
    if (strncmp(line, step, sizeof step - 1) != 0 || strncmp(name, argument, length) != 0 || name[length] != '"')
      continue;
    int scope = name[length + 1] == ' ' ? name[length + 2] - '0' : -1;
    return scope > 0 && scope < TN__MEMORY_SCOPES ? (tn__memory_scope)scope : TN__MEMORY_GLOBAL;
  }
  return TN__MEMORY_GLOBAL;
}
