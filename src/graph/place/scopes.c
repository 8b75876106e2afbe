/* Scopes of memory: which part of a device's memory a value lies in.
 *
 * A device is of an operator and all that it reads and makes; a scope is of a buffer. What bodies take and give, loops
 * carry on, on_device names and views look at is one buffer with what it is handed from, so a scope that is said of a
 * function's parameter is that of whoever makes the argument, and of all others in between. Operators read and write
 * buffers of any scope of their device. What a kernel chooses is like what is said, and gives way to it. */
#include <string.h>

#include "base/message.h"
#include "graph/place/plan.h"

static int buffer_of(const tn__plan *plan, int value) {
  tn__plan_value *v = plan->values.data;
  while (v[value].buffer != 0) {
    int next = v[value].buffer - 1;
    if (v[next].buffer != 0) v[value].buffer = v[next].buffer;
    value = next;
  }
  return value;
}

_Noreturn static void contradict(const tn__plan *plan, const tn__plan_value *x, const char *scope, int cause) {
  const tn__plan_cause *a = &plan->causes.data[x->said], *b = &plan->causes.data[cause];
  const tn__value *v = plan->values.data[b->value].value;
  const char *origin = v != NULL && v->producer != NULL ? v->producer->origin : NULL;
  tn__throwf(
      plan->arena->escape, TN_INVALID_ARGUMENT,
      "%s%sscopes of memory contradict: %s is in %s (%s), and %s in %s (%s), and they are one buffer: say the same "
      "of both, or put device_copy between them",
      origin != NULL ? origin : "", origin != NULL ? ": " : "", tn__plan_value_name(plan, a->value), x->scope, a->text,
      tn__plan_value_name(plan, b->value), scope, b->text);
}

static void say_scope(tn__plan *plan, int value, const char *scope, int cause) {
  tn__plan_value *v = &plan->values.data[buffer_of(plan, value)];
  if (v->scope != NULL && strcmp(v->scope, scope) != 0) contradict(plan, v, scope, cause);
  if (v->scope == NULL) v->scope = scope, v->said = cause;
}

void tn__plan_say(tn__plan *plan, int value, const tn__virtual_device *device, int of, const char *text, bool weak) {
  int cause = tn__plan_fix(plan, value, device, of, text, weak);
  if (device->memory_scope != NULL && !weak) say_scope(plan, value, device->memory_scope, cause);
}

void tn__plan_share(tn__plan *plan, int a, int b, bool must) {
  int x = buffer_of(plan, a), y = buffer_of(plan, b);
  tn__plan_value *one = &plan->values.data[x], *other = &plan->values.data[y];
  plan->result.steps++;
  if (x == y) return;
  if (one->scope != NULL && other->scope != NULL && strcmp(one->scope, other->scope) != 0) {
    if (must) contradict(plan, one, other->scope, other->said);
    return;
  }
  if (one->scope == NULL) one->scope = other->scope, one->said = other->said;
  other->buffer = x + 1;
}

/* Is it an edge that parts no buffer: both ends on one device, and nothing between them? */
static bool joins(tn__plan *plan, const tn__plan_edge *e) {
  bool stays = e->to != plan->host && plan->values.data[e->from].value->data == NULL && tn__plan_hands_on(e);
  return stays && tn__plan_device(plan, e->from) == tn__plan_device(plan, e->to);
}

/* Two values that may be one buffer, as nothing parts them. */
typedef struct joint {
  int a, b;
} joint;
typedef TN__VEC(joint) joint_vec;

/* Joints by buffer, from either end: `first` by buffer, `next` by joint and end, both one more than the number, and
 * `to` the buffer at the other end. */
typedef struct neighbours {
  int *first, *next, *to, *offer; /* offer: a buffer whose scope it may have, one more than its number */
} neighbours;

/* From buffers of known scopes to free ones, a level at a time, of several scopes the first by name: neither the order
 * of nodes nor that of edges decides. */
static void spread(tn__plan *plan, const neighbours *near) {
  int count = plan->values.count, size = 0, found;
  int *level = TN__NEW_ARRAY(plan->arena, count, int), *offered = TN__NEW_ARRAY(plan->arena, count, int);
  for (int i = 0; i < count; i++)
    if (buffer_of(plan, i) == i && plan->values.data[i].scope != NULL) level[size++] = i;
  for (; size > 0; size = found) {
    found = 0;
    for (int i = 0; i < size; i++)
      for (int k = near->first[level[i]]; k != 0; k = near->next[k - 1]) {
        int other = near->to[k - 1], *offer = &near->offer[other];
        plan->result.steps++;
        if (plan->values.data[other].scope != NULL) continue;
        if (*offer == 0) offered[found++] = other;
        if (*offer == 0 || strcmp(plan->values.data[level[i]].scope, plan->values.data[*offer - 1].scope) < 0)
          *offer = level[i] + 1;
      }
    for (int i = 0; i < found; i++) {
      const tn__plan_value *from = &plan->values.data[near->offer[offered[i]] - 1];
      plan->values.data[offered[i]].scope = from->scope;
      plan->values.data[offered[i]].said = from->said;
      level[i] = offered[i];
    }
  }
}

static bool is_on_one_device(tn__plan *plan, const tn__plan_view *v) {
  return plan->values.data[v->of].value->data == NULL && tn__plan_device(plan, v->of) == tn__plan_device(plan, v->view);
}

static void find_joints(tn__plan *plan, joint_vec *joints) {
  for (int i = 0; i < plan->edges.count; i++) {
    const tn__plan_edge *e = &plan->edges.data[i];
    if (joins(plan, e)) tn__vec_push(plan->arena, joints, ((joint){e->from, e->to}));
  }
  for (int i = 0; i < plan->views.count; i++) {
    const tn__plan_view *v = &plan->views.data[i];
    if (is_on_one_device(plan, v)) tn__vec_push(plan->arena, joints, ((joint){v->of, v->view}));
  }
}

/* What kernels have chosen is for buffers of which nothing is said; of several the first by name. */
static void take_choices(tn__plan *plan) {
  const tn__value **chosen = TN__NEW_ARRAY(plan->arena, plan->values.count, const tn__value *);
  for (int i = 0; i < plan->host; i++) {
    const tn__value *v = plan->values.data[i].value;
    int buffer = buffer_of(plan, i);
    if (v == NULL || v->choice == NULL || plan->values.data[buffer].scope != NULL) continue;
    if (chosen[buffer] == NULL || strcmp(v->choice->scope, chosen[buffer]->choice->scope) < 0) chosen[buffer] = v;
  }
  for (int i = 0; i < plan->host; i++)
    if (chosen[i] != NULL)
      plan->values.data[i].scope = chosen[i]->choice->scope, plan->values.data[i].chosen = chosen[i];
}

const char *tn__plan_why_scope(const tn__plan *plan, int value) {
  const tn__value *chosen = plan->values.data[buffer_of(plan, value)].chosen;
  if (chosen == NULL) return NULL;
  const char *text = tn__arena_printf(plan->arena, "chosen by kernel %s", chosen->choice->kernel);
  if (chosen == plan->values.data[value].value) return text;
  return tn__shown_text(plan->arena, "one buffer with \"%s\": %s", chosen->name, text);
}

void tn__plan_share_edges(tn__plan *plan) {
  bool said = false, chosen = false;
  for (int i = 0; i < plan->values.count && !(said && chosen); i++) {
    const tn__plan_value *v = &plan->values.data[i];
    said |= v->scope != NULL;
    chosen |= v->value != NULL && v->value->choice != NULL;
  }
  if (!said && !chosen) return; /* as mostly */
  joint_vec joints = {0};
  find_joints(plan, &joints);
  neighbours near = {.first = TN__NEW_ARRAY(plan->arena, plan->values.count, int),
                     .next = TN__NEW_ARRAY(plan->arena, 2 * joints.count, int),
                     .to = TN__NEW_ARRAY(plan->arena, 2 * joints.count, int),
                     .offer = TN__NEW_ARRAY(plan->arena, plan->values.count, int)};
  for (int i = 0; i < joints.count; i++)
    for (int end = 0; end < 2; end++) {
      int buffer = buffer_of(plan, end == 0 ? joints.data[i].a : joints.data[i].b);
      near.to[2 * i + end] = buffer_of(plan, end == 0 ? joints.data[i].b : joints.data[i].a);
      near.next[2 * i + end] = near.first[buffer];
      near.first[buffer] = 2 * i + end + 1;
    }
  spread(plan, &near);
  for (int i = 0; i < joints.count; i++) tn__plan_share(plan, joints.data[i].a, joints.data[i].b, false);
  if (chosen) take_choices(plan);
}

bool tn__plan_has_scope(const tn__plan *plan, int value) {
  return plan->values.data[buffer_of(plan, value)].scope != NULL;
}

const tn__virtual_device *tn__plan_with_scope(tn__plan *plan, int value, const tn__virtual_device *device) {
  const char *scope = plan->values.data[buffer_of(plan, value)].scope;
  if (device == NULL || scope == NULL) return device;
  tn__virtual_device in = *device;
  in.memory_scope = scope;
  return tn__virtual_device_of(&plan->config->cache, &in);
}
