#include "program/events.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

/* Some of the function's sites, each as reader or writer: 2 * site + 1 for a writer, rising. Never changed once made;
 * NULL: none. */
typedef struct accesses {
  int count;
  int items[];
} accesses;

typedef struct range { /* of cells */
  int first, end;
} range;

typedef struct actor { /* who does an instruction, or a part of it */
  int queue;           /* the device; 0: the host */
  int site;            /* its number among what devices do, or -1 */
} actor;

typedef struct step {      /* an instruction; the first is none, but what happens as the function is entered */
  int word;                /* -1: of the first */
  int actors, actor_count; /* a kernel and a copy have one; a call has each device of what it passes */
  int target;              /* the instruction that it jumps to, or -1 */
  int join;                /* 1 + the number of its state when paths meet here, else 0 */
} step;

typedef struct await {
  int step, queue, site; /* before the instruction the queue, 0: the host, awaits what the site did */
} await;

typedef struct planner {
  tn__arena *arena;
  const tn__event_code *code;
  step *steps;
  int step_count, site_count, join_count;
  TN__VEC(actor) actors;
  int *site_queue;
  int *roots;    /* by register */
  range *places; /* by register that is a root */
  int cell_count;
  const accesses **now;    /* by cell */
  const accesses **joined; /* by join and cell */
  bool *join_reached;
  bool reachable, changed;
  /* What is known of the order, by queue and queue: how many of the other's sites since the last join are done before
   * whatever the one does next. `stamps`: by site, the how-manieth it is; 0: it was met before that join. */
  bool writes_awaits;
  int *known, *stamps, *given;
  int *known_at; /* by site and queue: what its queue knew when it was through with it */
  TN__VEC(await) awaits;
  bool *is_awaited; /* by site */
  int *candidates, candidate_count;
  bool *is_candidate; /* by site */
} planner;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bool is_memory(const tn__register_record *r) {
  return r->container == TN__CONTAINER_TENSOR && r->storage != TN__STORAGE_CONSTANT;
}

/* Where a register that is placed at a constant ends; beyond everything when its size is not known. */
static int64_t end_of(const planner *p, const tn__register_record *r) {
  int64_t bytes = (int64_t)tn__dtype_stored((tn_dtype)r->dtype);
  for (uint32_t i = 0; i < r->rank; i++) {
    const tn__operand *dim = &p->code->operands[r->first_dim + i];
    if (dim->symbolic || dim->value < 0 || __builtin_mul_overflow(bytes, dim->value, &bytes)) return INT64_MAX;
  }
  return r->offset.value > INT64_MAX - bytes ? INT64_MAX : r->offset.value + bytes;
}

static int compare_places(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static int index_of(const int64_t *sorted, int count, int64_t wanted) {
  int low = 0, high = count;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (sorted[middle] < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool is_fixed_on(const tn__register_record *r, int device) {
  return r->storage == TN__STORAGE_ARENA && !r->offset.symbolic && r->device == (uint32_t)device;
}

/* A device's arena is cut wherever a register begins or ends. */
static void find_pieces(planner *p, int device) {
  const tn__event_code *code = p->code;
  int64_t *cuts = TN__NEW_ARRAY(p->arena, 2 * code->register_count, int64_t);
  int count = 0, distinct = 0;
  for (int i = 0; i < code->register_count; i++) {
    if (!is_fixed_on(&code->registers[i], device)) continue;
    cuts[count++] = code->registers[i].offset.value;
    cuts[count++] = end_of(p, &code->registers[i]);
  }
  if (count == 0) return;
  qsort(cuts, (size_t)count, sizeof *cuts, compare_places);
  for (int i = 0; i < count; i++)
    if (distinct == 0 || cuts[distinct - 1] != cuts[i]) cuts[distinct++] = cuts[i];
  for (int i = 0; i < code->register_count; i++) {
    const tn__register_record *r = &code->registers[i];
    if (!is_fixed_on(r, device)) continue;
    p->places[i].first = p->cell_count + index_of(cuts, distinct, r->offset.value);
    p->places[i].end = p->cell_count + index_of(cuts, distinct, end_of(p, r));
  }
  p->cell_count += distinct - 1;
}

/* An earlier register that has the same memory as `number`, or -1. */
static int same_memory(const planner *p, int number) {
  const tn__register_record *registers = p->code->registers, *r = &registers[number];
  bool output = r->storage == TN__STORAGE_OUTPUT, slot = r->storage == TN__STORAGE_ARENA;
  int alias = output ? p->code->aliases[r->index] : -1;
  for (int i = 0; (slot || alias >= 0) && i < p->code->register_count; i++) {
    const tn__register_record *other = &registers[i];
    if (slot && i < number && other->storage == TN__STORAGE_ARENA && other->offset.symbolic &&
        other->device == r->device && other->offset.value == r->offset.value)
      return i;
    if (alias >= 0 && other->storage == TN__STORAGE_INPUT && other->index == (uint32_t)alias) return i;
  }
  return -1;
}

static void find_cells(planner *p) {
  const tn__event_code *code = p->code;
  p->roots = TN__NEW_ARRAY(p->arena, code->register_count, int);
  p->places = TN__NEW_ARRAY(p->arena, code->register_count, range);
  for (int device = 0; device < code->device_count; device++) find_pieces(p, device);
  for (int pass = 0; pass < 2; pass++) /* outputs after the inputs that they may take the place of */
    for (int i = 0; i < code->register_count; i++) {
      const tn__register_record *r = &code->registers[i];
      bool view = r->storage == TN__STORAGE_VIEW && r->index < (uint32_t)i;
      p->roots[i] = view ? p->roots[r->index] : i;
      bool fixed = r->storage == TN__STORAGE_ARENA && !r->offset.symbolic;
      if (view || fixed || !is_memory(r) || (r->storage == TN__STORAGE_OUTPUT) != (pass == 1)) continue;
      int same = same_memory(p, i);
      if (same >= 0)
        p->places[i] = p->places[same];
      else
        p->places[i] = (range){p->cell_count, p->cell_count + 1}, p->cell_count++;
    }
}

static range cells_of(const planner *p, uint32_t reg) {
  const range none = {0, 0};
  return reg < (uint32_t)p->code->register_count ? p->places[p->roots[reg]] : none;
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

static int device_of(const planner *p, uint32_t reg) {
  return reg < (uint32_t)p->code->register_count ? p->code->homes[p->code->registers[reg].device] : 0;
}

/* Are all operands touched by one queue? Of others each is by that of its device. */
static bool is_of_one_queue(const uint32_t *in) { return in[0] == TN__OP_KERNEL || in[0] == TN__OP_COPY; }

static int queue_of(const planner *p, const uint32_t *in) {
  if (in[0] == TN__OP_KERNEL) return in[2] < (uint32_t)p->code->kernel_count ? (int)p->code->kernel_devices[in[2]] : 0;
  int to = device_of(p, in[2]);
  return to != 0 ? to : device_of(p, in[3]);
}

static const uint32_t *code_of(const planner *p, const step *s) {
  static const uint32_t none[2] = {TN__OP_COUNT, 0};
  return s->word < 0 ? none : p->code->words + s->word;
}

static int step_at(const planner *p, uint32_t word) {
  int low = 0, high = p->step_count;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (p->steps[middle].word < (int64_t)word)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static uint32_t target_of(const uint32_t *in) {
  tn__code_uses uses = tn__code_uses_of(in);
  for (tn__code_use use; tn__code_uses_next(&uses, &use);)
    if (use.letter == 'c') return use.word;
  return 0;
}

static void join_at(planner *p, int at) {
  if (at < p->step_count && p->steps[at].join == 0) p->steps[at].join = ++p->join_count;
}

static void add_actor(planner *p, step *s, int queue, bool is_site) {
  actor a = {queue, is_site ? p->site_count++ : -1};
  tn__vec_push(p->arena, &p->actors, a);
  s->actor_count++;
}

static bool is_callers(const tn__register_record *r) {
  return r->storage == TN__STORAGE_INPUT || r->storage == TN__STORAGE_OUTPUT;
}

/* Does the function take memory of the device, or give results there? */
static bool passes(const planner *p, int device) {
  for (int i = 0; i < p->code->register_count; i++)
    if (is_callers(&p->code->registers[i]) && device_of(p, (uint32_t)i) == device) return true;
  return false;
}

static bool has_operand_on(const planner *p, const uint32_t *in, int device) {
  tn__code_uses uses = tn__code_uses_of(in);
  for (tn__code_use use; tn__code_uses_next(&uses, &use);)
    if ((use.letter == 'r' || use.letter == 'w') && device_of(p, use.word) == device) return true;
  return false;
}

/* The host comes first: what it has waited for, devices need not await. */
static void find_actors(planner *p, step *s) {
  const uint32_t *in = code_of(p, s);
  s->actors = p->actors.count;
  if (is_of_one_queue(in)) {
    int queue = queue_of(p, in);
    add_actor(p, s, queue, queue != 0);
    return;
  }
  if (s->word >= 0) add_actor(p, s, 0, false);
  for (int d = 1; d < p->code->device_count; d++) {
    if (s->word < 0 && passes(p, d)) add_actor(p, s, d, true);
    if (in[0] == TN__OP_CALL && has_operand_on(p, in, d)) add_actor(p, s, d, true);
    if (in[0] == TN__OP_RETURN && p->code->is_called && passes(p, d)) add_actor(p, s, d, false);
  }
}

static void find_steps(planner *p) {
  const tn__event_code *code = p->code;
  p->steps = TN__NEW_ARRAY(p->arena, code->word_count / 2 + 2, step);
  for (int at = -1; at < code->word_count; at += at < 0 ? 1 : 2 + (int)code->words[at + 1]) {
    step *s = &p->steps[p->step_count++];
    *s = (step){.word = at, .target = -1};
    find_actors(p, s);
  }
  p->site_queue = TN__NEW_ARRAY(p->arena, p->site_count, int);
  for (int i = 0; i < p->actors.count; i++)
    if (p->actors.data[i].site >= 0) p->site_queue[p->actors.data[i].site] = p->actors.data[i].queue;
  if (code->is_called) join_at(p, 0);
  for (int i = 1; i < p->step_count; i++) {
    step *s = &p->steps[i];
    const uint32_t *in = code->words + s->word;
    if (!tn__instruction_jumps(in[0])) continue;
    s->target = step_at(p, target_of(in));
    join_at(p, s->target);
  }
}

/* ---- who may still use a cell ------------------------------------------------------------------------------------ */

static accesses *make_accesses(const planner *p, int capacity) {
  return tn__arena_alloc(p->arena, sizeof(accesses) + (size_t)capacity * sizeof(int));
}

static const accesses *united(const planner *p, const accesses *a, const accesses *b) {
  if (a == NULL || a == b) return b;
  if (b == NULL) return a;
  accesses *both = make_accesses(p, a->count + b->count);
  for (int i = 0, j = 0; i < a->count || j < b->count;) {
    int x = i < a->count ? a->items[i] : INT32_MAX, y = j < b->count ? b->items[j] : INT32_MAX;
    both->items[both->count++] = x < y ? x : y;
    i += x <= y, j += y <= x;
  }
  return both->count == a->count ? a : both->count == b->count ? b : both;
}

/* Readers in the queue give way to the one behind them. */
static const accesses *with_reader(const planner *p, const accesses *a, int site) {
  int queue = p->site_queue[site];
  accesses *out = make_accesses(p, (a == NULL ? 0 : a->count) + 1);
  bool done = false;
  for (int i = 0; a != NULL && i < a->count; i++) {
    if (!done && a->items[i] > 2 * site) out->items[out->count++] = 2 * site, done = true;
    bool writer = a->items[i] % 2 != 0;
    if (writer || p->site_queue[a->items[i] / 2] != queue) out->items[out->count++] = a->items[i];
  }
  if (!done) out->items[out->count++] = 2 * site;
  return out;
}

static const accesses *readers_of(const planner *p, const accesses *a) {
  int readers = 0;
  for (int i = 0; a != NULL && i < a->count; i++) readers += a->items[i] % 2 == 0;
  if (readers == 0) return NULL;
  if (readers == a->count) return a;
  accesses *out = make_accesses(p, readers);
  for (int i = 0; i < a->count; i++)
    if (a->items[i] % 2 == 0) out->items[out->count++] = a->items[i];
  return out;
}

static const accesses *only_writer(const planner *p, int site) {
  accesses *out = make_accesses(p, 1);
  out->items[out->count++] = 2 * site + 1;
  return out;
}

/* ---- what is in order anyway ------------------------------------------------------------------------------------- */

static int *known_to(const planner *p, int queue) { return p->known + (size_t)queue * (size_t)p->code->device_count; }

static void learn(const planner *p, int queue, const int *other) {
  int *own = known_to(p, queue);
  for (int i = 0; i < p->code->device_count; i++)
    if (own[i] < other[i]) own[i] = other[i];
}

static void forget_order(const planner *p) {
  size_t devices = (size_t)p->code->device_count;
  memset(p->known, 0, devices * devices * sizeof(int));
  memset(p->given, 0, devices * sizeof(int));
  memset(p->stamps, 0, (size_t)p->site_count * sizeof(int));
}

static bool is_before(const planner *p, int site, int queue) {
  int of = p->site_queue[site], stamp = p->stamps[site];
  if (of == queue) return true;
  return known_to(p, queue)[of] >= (stamp > 0 ? stamp : 1); /* one from before the join is before those since */
}

static void add_candidate(planner *p, int site) {
  if (p->is_candidate[site]) return;
  p->is_candidate[site] = true;
  p->candidates[p->candidate_count++] = site;
}

/* The latest first: what it waited for needs no event of its own. Those from before the join come last. */
static bool comes_first(const planner *p, int a, int b) {
  bool fresh_a = p->stamps[a] > 0, fresh_b = p->stamps[b] > 0;
  return fresh_a != fresh_b ? fresh_a : a > b;
}

static void await_candidates(planner *p, int at, int queue) {
  while (p->candidate_count > 0) {
    int best = 0;
    for (int i = 1; i < p->candidate_count; i++)
      if (comes_first(p, p->candidates[i], p->candidates[best])) best = i;
    int site = p->candidates[best];
    p->candidates[best] = p->candidates[--p->candidate_count];
    p->is_candidate[site] = false;
    if (is_before(p, site, queue)) continue;
    await a = {at, queue, site};
    tn__vec_push(p->arena, &p->awaits, a);
    p->is_awaited[site] = true;
    if (p->stamps[site] > 0) learn(p, queue, p->known_at + (size_t)site * (size_t)p->code->device_count);
  }
}

/* ---- one instruction --------------------------------------------------------------------------------------------- */

typedef void visit_cell(planner *p, const actor *a, int cell, bool writes);

static void visit_range(planner *p, const actor *a, range cells, bool writes, visit_cell *visit) {
  tn__work_step(p->arena, (uint64_t)(cells.end - cells.first) + 1);
  for (int i = cells.first; i < cells.end; i++) visit(p, a, i, writes);
}

/* Memory that callers give, of the actor's device. They give it with what is done to it in that device's queue, and so
 * they get it back: others are awaited there. What is the host's is given and got with nobody at it. The session does
 * the same for functions that nobody calls, and has waited for everything when they are done. */
static void visit_callers(planner *p, const actor *a, visit_cell *visit) {
  for (int i = 0; i < p->code->register_count; i++)
    if (is_callers(&p->code->registers[i]) && device_of(p, (uint32_t)i) == a->queue)
      visit_range(p, a, cells_of(p, (uint32_t)i), true, visit);
}

/* What it reads comes before what it writes. */
static void visit_cells(planner *p, const step *s, const actor *a, visit_cell *visit) {
  const uint32_t *in = code_of(p, s);
  bool all = is_of_one_queue(in);
  for (int writes = 0; writes < 2 && s->word >= 0; writes++) {
    tn__code_uses uses = tn__code_uses_of(in);
    for (tn__code_use use; tn__code_uses_next(&uses, &use);)
      if (use.letter == (writes ? 'w' : 'r') && (all || device_of(p, use.word) == a->queue))
        visit_range(p, a, cells_of(p, use.word), writes, visit);
  }
  if (s->word < 0 || (in[0] == TN__OP_RETURN && p->code->is_called)) visit_callers(p, a, visit);
}

static void look(planner *p, const actor *by, int cell, bool writes) {
  const accesses *a = p->now[cell];
  for (int i = 0; a != NULL && i < a->count; i++)
    if (writes || a->items[i] % 2 != 0) add_candidate(p, a->items[i] / 2);
}

static void change(planner *p, const actor *by, int cell, bool writes) {
  if (by->site < 0)
    p->now[cell] = writes ? NULL : readers_of(p, p->now[cell]);
  else
    p->now[cell] = writes ? only_writer(p, by->site) : with_reader(p, p->now[cell], by->site);
}

static void exchange(planner *p, const uint32_t *in) {
  range to = cells_of(p, in[2]), from = cells_of(p, in[3]);
  if (to.first == to.end || from.first == from.end) return; /* lists */
  const accesses *kept = p->now[to.first];
  p->now[to.first] = p->now[from.first];
  p->now[from.first] = kept;
}

static void write_awaits(planner *p, int at, const actor *a) {
  const step *s = &p->steps[at];
  if (a->queue != 0) learn(p, a->queue, known_to(p, 0)); /* the host has waited for it before it comes to this */
  if (s->word >= 0) visit_cells(p, s, a, look);
  await_candidates(p, at, a->queue);
  if (a->site < 0) return;
  int *own = known_to(p, a->queue);
  p->stamps[a->site] = own[a->queue] = ++p->given[a->queue];
  memcpy(p->known_at + (size_t)a->site * (size_t)p->code->device_count, own,
         (size_t)p->code->device_count * sizeof(int));
}

/* ---- along all paths --------------------------------------------------------------------------------------------- */

static void go_to(planner *p, int at) {
  if (at >= p->step_count) return;
  int join = p->steps[at].join - 1;
  const accesses **state = p->joined + (size_t)join * (size_t)p->cell_count;
  if (!p->join_reached[join]) p->changed = true;
  p->join_reached[join] = true;
  for (int i = 0; i < p->cell_count; i++) {
    const accesses *both = united(p, state[i], p->now[i]);
    int before = state[i] == NULL ? 0 : state[i]->count, after = both == NULL ? 0 : both->count;
    if (before != after) p->changed = true;
    state[i] = both;
  }
}

static void enter(planner *p, int at) {
  int join = p->steps[at].join - 1;
  if (join < 0) return;
  if (p->reachable) go_to(p, at);
  p->reachable = p->join_reached[join];
  memcpy(p->now, p->joined + (size_t)join * (size_t)p->cell_count, (size_t)p->cell_count * sizeof(*p->now));
  if (p->writes_awaits) forget_order(p);
}

static void walk(planner *p) {
  memset(p->now, 0, (size_t)p->cell_count * sizeof(*p->now));
  p->reachable = true, p->changed = false;
  for (int i = 0; i < p->step_count; i++) {
    const step *s = &p->steps[i];
    const uint32_t *in = code_of(p, s);
    enter(p, i);
    if (!p->reachable) continue;
    for (int k = 0; k < s->actor_count && p->writes_awaits; k++) write_awaits(p, i, &p->actors.data[s->actors + k]);
    for (int k = 0; k < s->actor_count; k++) visit_cells(p, s, &p->actors.data[s->actors + k], change);
    if (in[0] == TN__OP_MOVE) exchange(p, in);
    if (s->target >= 0) go_to(p, s->target);
    if (in[0] == TN__OP_RETURN && p->code->is_called) go_to(p, 0);
    if (s->word >= 0 && (tn__instruction_find(in[0])->traits & TN__ENDS) != 0) p->reachable = false;
  }
}

/* ---- the new code ------------------------------------------------------------------------------------------------ */

typedef TN__VEC(uint32_t) word_vec;

static void put(planner *p, word_vec *out, tn__opcode op, int device, int event) {
  uint32_t words[] = {(uint32_t)op, device > 0 ? 2 : 1, (uint32_t)device, (uint32_t)event};
  for (int i = 0; i < 4; i++)
    if (i != 2 || device > 0) tn__vec_push(p->arena, out, words[i]);
}

/* Jumps, and what says what the code was made of, lead to where instructions stand now. */
static void move_targets(planner *p, uint32_t *words, const int *starts, int end) {
  const tn__event_code *code = p->code;
  for (int i = 0; i < p->step_count; i++) {
    const step *s = &p->steps[i];
    if (s->target < 0) continue;
    const uint32_t *in = code->words + s->word;
    int operand = in[0] == TN__OP_JUMP ? 0 : 1;
    words[starts[p->step_count + i] + 2 + operand] = (uint32_t)(s->target < p->step_count ? starts[s->target] : end);
  }
  for (int i = 0; i < code->origin_count; i++) {
    int at = step_at(p, code->origins[i].word);
    code->origins[i].word = (uint32_t)(at < p->step_count ? starts[at] : end);
  }
}

static void put_records(planner *p, word_vec *out, const step *s, const int *events) {
  for (int k = 0; k < s->actor_count; k++) {
    const actor *a = &p->actors.data[s->actors + k];
    if (a->site >= 0 && events[a->site] >= 0) put(p, out, TN__OP_RECORD, a->queue, events[a->site]);
  }
}

/* The first instruction that can be no part of the prologue, which no path leads around. */
static int first_of_body(const planner *p) {
  int i = 1;
  while (i < p->step_count && (tn__instruction_find(code_of(p, &p->steps[i])[0])->traits & TN__AT_ENTRY) != 0) i++;
  return i;
}

static tn__events written(planner *p) {
  const tn__event_code *code = p->code;
  int *events = TN__NEW_ARRAY(p->arena, p->site_count, int), count = 0, body = first_of_body(p);
  int *starts =
      TN__NEW_ARRAY(p->arena, 2 * p->step_count, int); /* with what is awaited, and of the instruction itself */
  for (int i = 0; i < p->site_count; i++) events[i] = p->is_awaited[i] ? count++ : -1;
  word_vec out = {0};
  for (int i = 1, next = 0; i < p->step_count; i++) {
    const step *s = &p->steps[i];
    if (i == body) put_records(p, &out, &p->steps[0], events);
    starts[i] = out.count;
    for (; next < p->awaits.count && p->awaits.data[next].step == i; next++) {
      const await *a = &p->awaits.data[next];
      put(p, &out, a->queue > 0 ? TN__OP_AWAIT : TN__OP_HOST_AWAIT, a->queue, events[a->site]);
    }
    starts[p->step_count + i] = out.count;
    int words = 2 + (int)code->words[s->word + 1];
    for (int w = 0; w < words; w++) tn__vec_push(p->arena, &out, code->words[s->word + w]);
    put_records(p, &out, s, events);
  }
  move_targets(p, out.data, starts, out.count);
  return (tn__events){out.data, out.count, count};
}

tn__events tn__prog_plan_events(tn__arena *arena, const tn__event_code *code) {
  planner p = {.arena = arena, .code = code};
  size_t devices = (size_t)code->device_count;
  find_cells(&p);
  find_steps(&p);
  p.now = TN__NEW_ARRAY(arena, p.cell_count, const accesses *);
  p.joined = tn__arena_alloc_array(arena, (size_t)p.join_count * (size_t)p.cell_count, sizeof(*p.joined));
  p.join_reached = TN__NEW_ARRAY(arena, p.join_count, bool);
  p.is_awaited = TN__NEW_ARRAY(arena, p.site_count, bool);
  p.candidates = TN__NEW_ARRAY(arena, p.site_count, int);
  p.is_candidate = TN__NEW_ARRAY(arena, p.site_count, bool);
  p.stamps = TN__NEW_ARRAY(arena, p.site_count, int);
  p.given = TN__NEW_ARRAY(arena, devices, int);
  p.known = tn__arena_alloc_array(arena, devices * devices, sizeof(int));
  p.known_at = tn__arena_alloc_array(arena, (size_t)p.site_count * devices, sizeof(int));
  for (bool again = p.join_count > 0; again; again = p.changed) walk(&p); /* the sets only grow */
  p.writes_awaits = true;
  walk(&p);
  return written(&p);
}
