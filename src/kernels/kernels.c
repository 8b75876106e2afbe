#include "kernels/kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "ir/passes.h"
#include "kernels/moves.h"
#include "kernels/texts.h"
#include "target/devices/device.h"

void tn__driver_progress(const tn__driver *driver, const char *phase, int done, int total) {
  if (driver->options->progress) driver->options->progress(driver->options->user, phase, done, total);
}

void tn__driver_time(tn__driver *driver, const char *phase, double seconds) {
  for (int i = 0; i < driver->times.count; i++) {
    if (strcmp(driver->times.data[i]->name, phase) != 0) continue;
    driver->times.data[i]->seconds += seconds;
    return;
  }
  tn_phase_time *entry = TN__NEW(driver->arena, tn_phase_time);
  *entry = (tn_phase_time){tn__arena_strdup(driver->arena, phase), seconds};
  tn__vec_push(driver->arena, &driver->times, entry);
}

void tn__driver_tell_times(const tn__driver *driver) {
  const tn_compile_options *o = driver->options;
  if (o->times) o->times(o->user, (const tn_phase_time *const *)driver->times.data, driver->times.count);
}

bool tn__driver_prints(const tn__driver *driver, const char *pass) {
  const tn_compile_options *o = driver->options;
  return o->print && o->print_after && (strcmp(o->print_after, pass) == 0 || strcmp(o->print_after, "all") == 0);
}

void tn__driver_print(const tn__driver *driver, const char *subject, const char *pass, const char *text) {
  if (!tn__driver_prints(driver, pass)) return;
  char name[160];
  snprintf(name, sizeof name, "%s.%s", subject, pass);
  driver->options->print(driver->options->user, name, text);
}

/* ---- declaring --------------------------------------------------------------------------------------------------- */

static bool tells_nothing(const tn__node *node) { return tn__op_has(node, TN__FACT_REPEATS) || tn__node_is_view(node); }

/* "convolution_add_maximum_3f9a01c2": the operators of the group, for profiles, and the start of its hash, for
 * uniqueness. */
static const char *unit_name(tn__arena *arena, const tn__group *group, const tn__digest *what) {
  char name[96] = "";
  size_t length = 0;
  int left = 0;
  for (int i = 0; i < group->node_count; i++) {
    const char *op = group->nodes[i]->op->name;
    if (tells_nothing(group->nodes[i]) && group->node_count > 1) continue;
    size_t more = strlen(op);
    if (length + more + 1 > 56) {
      left++;
      continue;
    }
    length += (size_t)snprintf(name + length, sizeof name - length, "%s%s", length ? "_" : "", op);
  }
  if (left) snprintf(name + length, sizeof name - length, "_%dmore", left);
  char hex[65];
  tn__digest_hex(what, hex);
  return tn__arena_printf(arena, "%s_%.8s", name[0] ? name : "kernel", hex);
}

static double constant_or_unknown(const tn__expr *e) {
  int64_t v;
  return tn__ir_as_int(e, &v) ? (double)v : -1;
}

static double value_bytes(const tn__value *v) {
  double bytes = (double)tn__dtype_stored(v->dtype);
  for (int i = 0; i < v->rank; i++) {
    int64_t d = tn__g_dim_const(v, i);
    if (d < 0) return -1;
    bytes *= (double)d;
  }
  return bytes;
}

static double unit_bytes(const tn__unit *u) {
  double total = 0;
  for (int i = 0; i < u->input_count + u->output_count; i++) {
    double b = value_bytes(i < u->input_count ? u->inputs[i] : u->outputs[i - u->input_count]);
    if (b < 0) return -1;
    total += b;
  }
  return total;
}

/* What is tuned is tuned for the driver's own target. */
static const tn__chooser *chooser_of(const tn__driver *driver, const tn__unit *u) {
  return u->maker != NULL ? &tn__chooser_static : driver->chooser;
}

const tn__maker *tn__driver_maker(const tn__driver *driver, const tn__virtual_device *device) {
  for (int i = 0; i < driver->made_by.count && device != NULL; i++) {
    const tn__device_maker *one = &driver->made_by.data[i];
    if (one->device_type == device->device_type && one->device_id == device->device_id) return one->maker;
  }
  return NULL;
}

/* Hashes what distinguishes kernels of one compilation. Excludes machine parameters, so that names are the same for
 * all machines. */
static tn__digest what_is_computed(const tn__driver *driver, const tn__unit *u, const tn__digest *text) {
  tn__sha256 h;
  int maker = u->maker != NULL ? 0 : -1; /* the host */
  while (maker >= 0 && driver->makers.data[maker] != u->maker) maker++;
  tn__sha256_init(&h);
  tn__sha256_update(&h, text, sizeof *text);
  tn__sha256_update_string(&h, tn__unit_target(driver, u)->name);
  tn__sha256_update_u64(&h, u->choice.options.results_read);
  tn__sha256_update_u64(&h, (uint64_t)(maker + 1));
  return tn__sha256_final(&h);
}

/* The cache key includes the end of the name, because the cached code contains the name. */
static void set_key_and_name(tn__driver *driver, tn__unit *u) {
  const tn__digest text = tn__plan_text(&u->choice), what = what_is_computed(driver, u, &text);
  tn__sha256 h;
  tn__sha256_init(&h);
  tn__kernels_build_identity(&h);
  tn__plan_hash(&u->choice, chooser_of(driver, u), &text, &h);
  tn__sha256_update(&h, &what, sizeof what);
  u->key = tn__sha256_final(&h);
  u->name = unit_name(driver->arena, u->group, &what);
}

/* Does anything but the caller of the model read what the group computes? */
static bool results_read(const tn__driver *driver, const tn__group *group, const int *uses) {
  const tn__graph *graph = group->graph;
  bool is_entry = false;
  int handed_out = 0, read = 0;
  for (int i = 0; i < driver->entries.count; i++) is_entry |= driver->entries.data[i] == graph;
  if (!is_entry) return true; /* what bodies compute goes on to the next round, or to nodes around them */
  for (int i = 0; i < group->output_count; i++) {
    read += uses[group->outputs[i]->id];
    for (int r = 0; r < group->outputs[i]->results.count; r++)
      handed_out += tn__graph_output_at(graph, group->outputs[i]->results.data[r]) == group->outputs[i];
  }
  return read > handed_out;
}

static void declare_unit(tn__driver *driver, tn__unit *u, const int *uses) {
  tn__arena *arena = driver->arena;
  tn__arena_init(&u->arena, arena->allocator, arena->escape);
  u->arena.work = driver->work;
  u->has_arena = true;
  tn__ir *ir = tn__ir_create(&u->arena);
  u->te = tn__te_create(ir, "kernel");
  tn__lower_context *lower = tn__lower_create(u->group->graph, u->te);
  tn__lower_want(lower, u->group->nodes, u->group->node_count, u->group->outputs, u->group->output_count);
  for (int i = 0; i < u->group->node_count; i++) tn__lower_node(lower, u->group->nodes[i]);
  u->output_count = u->group->output_count;
  u->outputs = u->group->outputs;
  for (int i = 0; i < u->output_count; i++) tn__te_output(u->te, tn__lower_value(lower, u->outputs[i]));
  u->input_count = tn__lower_input_count(lower);
  u->inputs = TN__NEW_ARRAY(arena, u->input_count, tn__value *);
  for (int i = 0; i < u->input_count; i++) u->inputs[i] = tn__lower_input_at(lower, i);
  u->scalar_count = tn__te_dim_count(u->te);
  u->scalars = TN__NEW_ARRAY(arena, u->scalar_count, const tn__var *);
  for (int i = 0; i < u->scalar_count; i++) u->scalars[i] = tn__lower_symbol_at(lower, i);
  tn__check(arena->escape, tn__te_verify(u->te));
  tn__te_trust(u->te); /* what gathers checks its indices in a stage of its own */
  u->flops = constant_or_unknown(tn__te_flops(u->te));
  u->bytes = unit_bytes(u);
  if (!driver->runs_once) /* constants are computed here, wherever they are read */
    u->maker = tn__driver_maker(driver, u->group->outputs[0]->device);
  tn__schedule_options options = u->maker != NULL ? u->maker->schedule : driver->schedule;
  options.results_read = results_read(driver, u->group, uses);
  u->choice = tn__rule_plan_unit_of(u->te, tn__unit_target(driver, u), &options);
  set_key_and_name(driver, u);
}

static void release_unit_arena(void *unit) {
  tn__unit *u = unit;
  if (u->has_arena) tn__arena_release(&u->arena);
  u->has_arena = false;
}

tn__unit *tn__units_declare(tn__driver *driver, const tn__group *const *groups, int count) {
  tn__unit *units = TN__NEW_ARRAY(driver->arena, count, tn__unit);
  const int *uses = NULL;
  tn__map firsts; /* by key */
  tn__map_init(&firsts, driver->arena);
  for (int i = 0; i < count; i++) {
    tn__unit *u = &units[i];
    char key[65];
    u->group = groups[i];
    if (i == 0 || groups[i]->graph != groups[i - 1]->graph) uses = tn__graph_use_counts(groups[i]->graph, NULL);
    tn__arena_defer(driver->arena, release_unit_arena, u);
    declare_unit(driver, u, uses);
    tn__digest_hex(&u->key, key);
    const tn__unit *first = tn__map_get(&firsts, key);
    u->same_as = first != NULL ? (int)(first - units) : i;
    if (first == NULL) {
      tn__map_set(&firsts, tn__arena_strdup(driver->arena, key), u);
    } else {
      u->name = first->name;
      release_unit_arena(u);
    }
  }
  return units;
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

typedef struct build_times {
  double schedule, lower, codegen;
} build_times;

typedef struct build_queue {
  tn__driver *driver;
  tn__unit *units;
  const int *order; /* which units to build; never moved: their loop IR points at their arenas */
  int count;
  pthread_mutex_t lock;
  tn__slab *unhashed; /* constants to hash beside the kernels; NULL: none, or somebody does it */
  int next;
  int done, total; /* weights of kernels, for the progress */
  build_times times;
  tn_status *failure;
  int failed_job; /* the first in order, so that the message does not depend on timing */
} build_queue;

/* An object costs more than a small kernel in it. */
enum { LARGEST_BATCH = 6 };

/* What a thread knows of a target, made when a kernel first asks for it. */
typedef struct known_machine {
  const tn__maker *maker;
  tn__codegen_machine *machine;
} known_machine;

typedef struct thread_state {
  tn__arena arena;
  TN__VEC(known_machine) machines;
} thread_state;

typedef struct build_job { /* of one object */
  thread_state *thread;
  build_queue *queue;
  tn__unit *units[LARGEST_BATCH];
  const tn__func *funcs[LARGEST_BATCH];
  int count;
  const tn__unit *at; /* for messages */
  build_times times;
  tn__strbuf traces;
} build_job;

static const tn__func *named_func(tn__unit *u, const tn__schedule *schedule) {
  tn__func *named = TN__NEW(&u->arena, tn__func);
  *named = *tn__schedule_func(schedule);
  named->name = u->name;
  return named;
}

typedef struct pass_printer {
  tn__driver *driver;
  const char *kernel;
} pass_printer;

static void print_pass(const char *pass, const tn__func *func, double seconds, void *user) {
  const pass_printer *p = user;
  if (!tn__driver_prints(p->driver, pass)) return;
  tn__strbuf text;
  tn__strbuf_init(&text, p->driver->arena->allocator);
  tn__func_print(func, &text);
  tn__driver_print(p->driver, p->kernel, pass, tn__strbuf_text(&text));
  tn__strbuf_release(&text);
}

static void lower_unit(build_job *job, int index) {
  tn__unit *u = job->units[index];
  tn__driver *driver = job->queue->driver;
  tn__ir *ir = tn__te_ir(u->te);
  double start = tn__now();
  const tn__schedule *schedule = tn__plan_kernel(&u->choice, chooser_of(driver, u))->schedule;
  const tn__func *func = named_func(u, schedule);
  size_t before = job->traces.length;
  tn__sched_trace_print(schedule, &job->traces);
  tn__check(u->arena.escape, tn__strbuf_status(&job->traces));
  u->trace = tn__arena_strdup(&u->arena, tn__strbuf_text(&job->traces) + before);
  double scheduled = tn__now();
  pass_printer printer = {driver, u->name};
  const tn__backend *backend = tn__unit_backend(driver, u);
  func = backend->lower(ir, func, &(tn__pass_hooks){print_pass, &printer});
  tn__kernel_info info = backend->measure(ir, func);
  u->workspace_bytes = info.workspace_bytes;
  u->workspace_expr = info.workspace_expr;
  u->workspace_dims = func->scalars ? (const tn__var **)tn__arena_copy(&u->arena, func->scalars,
                                                                       sizeof(tn__var *) * (size_t)func->scalar_count)
                                    : NULL;
  if (driver->texts & TN__TEXT_LOOPS) u->loops = tn__kernels_text_of_loops(&u->arena, func);
  job->funcs[index] = func;
  job->times.schedule += scheduled - start;
  job->times.lower += tn__now() - scheduled;
}

static tn__codegen_machine *machine_of(thread_state *thread, const tn__backend *backend, const tn__maker *maker,
                                       const tn__target *target) {
  for (int i = 0; i < thread->machines.count; i++)
    if (thread->machines.data[i].maker == maker) return thread->machines.data[i].machine;
  known_machine known = {maker, backend->prepare(&thread->arena, target)};
  tn__vec_push(&thread->arena, &thread->machines, known);
  return known.machine;
}

static bool is_source(const tn__driver *driver, const tn__unit *u) { return tn__unit_backend(driver, u)->unit != NULL; }

static void build_object(tn__escape *escape, void *arg) {
  build_job *job = arg;
  tn__driver *driver = job->queue->driver;
  tn__ir *irs[LARGEST_BATCH] = {0};
  for (int i = 0; i < job->count; i++) job->units[i]->arena.escape = escape;
  for (int i = 0; i < job->count; i++) {
    job->at = job->units[i];
    tn__arena_report(&job->units[i]->arena); /* small kernels would go a long way without */
    lower_unit(job, i);
    irs[i] = tn__te_ir(job->units[i]->te);
  }
  double start = tn__now();
  tn__arena *arena = &job->units[0]->arena;
  job->at = job->units[0];
  job->thread->arena.escape = escape;
  tn__unit *first = job->units[0];
  if (is_source(driver, first)) { /* one text of all of them is made in the end */
    first->func = job->funcs[0];
    first->func_ir = irs[0];
    return;
  }
  const tn__target *target = tn__unit_target(driver, first);
  tn__codegen_module module = {
      .irs = irs,
      .funcs = job->funcs,
      .count = job->count,
      .target = target,
      .machine = machine_of(job->thread, tn__unit_backend(driver, first), first->maker, target),
      .unaligned_inputs = driver->runs_once};
  first->object = tn__unit_backend(driver, first)->compile(arena, &module, TN__EMIT_OBJECT);
  job->times.codegen = tn__now() - start;
}

/* How long a kernel takes, roughly, in comparison with others. */
static int weight_of(const tn__unit *u) { return 1 + tn__te_stage_count(u->te); }

static int batch_size(const build_queue *queue) {
  if (!queue->driver->runs_once) return 1;
  int share = (queue->count + queue->driver->threads - 1) / queue->driver->threads;
  return share < LARGEST_BATCH ? share : LARGEST_BATCH;
}

static void run_job(build_queue *queue, thread_state *thread, int index) {
  build_job job = {.queue = queue, .thread = thread};
  int batch = batch_size(queue), first = index * batch;
  while (job.count < batch && first + job.count < queue->count) {
    job.units[job.count] = &queue->units[queue->order[first + job.count]];
    job.count++;
  }
  tn__strbuf_init(&job.traces, queue->driver->arena->allocator);
  tn__escape escape;
  tn_status *status = tn__protect(&escape, build_object, &job);
  tn__strbuf_release(&job.traces);
  pthread_mutex_lock(&queue->lock);
  queue->times.schedule += job.times.schedule;
  queue->times.lower += job.times.lower;
  queue->times.codegen += job.times.codegen;
  for (int i = 0; i < job.count; i++) queue->done += weight_of(job.units[i]);
  if (status && (!queue->failure || index < queue->failed_job)) {
    tn_status_free(queue->failure);
    queue->failure = tn_status_prefix(status, "kernel \"%s\"", job.at->name);
    queue->failed_job = index;
  } else {
    tn_status_free(status);
  }
  pthread_mutex_unlock(&queue->lock);
}

/* Works while there is work. The thread that called tells of the progress, of all threads, between its own kernels. */
static void work(build_queue *queue, bool tells) {
  thread_state state = {0};
  tn__arena_init(&state.arena, queue->driver->arena->allocator, NULL);
  state.arena.work = queue->driver->work;
  for (;;) {
    pthread_mutex_lock(&queue->lock);
    tn__slab *slab = queue->unhashed;
    queue->unhashed = NULL;
    int index = queue->failure || slab ? queue->count : queue->next++, done = queue->done;
    pthread_mutex_unlock(&queue->lock);
    if (tells) tn__driver_progress(queue->driver, "compile", done, queue->total);
    if (slab) {
      tn__slab_hash(slab);
      continue;
    }
    if (index >= queue->count || index * batch_size(queue) >= queue->count) break;
    run_job(queue, &state, index);
  }
  tn__arena_release(&state.arena);
}

static void *worker(void *arg) {
  work(arg, false);
  return NULL;
}

static void run_workers(build_queue *queue, int threads) {
  pthread_t ids[64];
  int started = 0;
  if (threads > 64) threads = 64;
  /* LLVM's recursion wants more stack than some systems give to threads. */
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 8u << 20);
  while (started < threads - 1 && pthread_create(&ids[started], &attributes, worker, queue) == 0) started++;
  pthread_attr_destroy(&attributes);
  work(queue, !queue->driver->runs_once); /* this thread works too, alone when no other could be had */
  for (int i = 0; i < started; i++) pthread_join(ids[i], NULL);
}

/* A kernel's cache entry: these sizes, the trace, the object. Kernels with symbolic dimensions are not cached: their
 * workspace is an expression. */
typedef struct cached_kernel {
  uint64_t trace_size, object_size;
  int64_t workspace_bytes;
} cached_kernel;

static void load_cached(tn__driver *driver, tn__unit *u) {
  tn__bytes entry;
  if (!driver->cache || driver->runs_once || u->scalar_count > 0 || is_source(driver, u)) return;
  if (!tn__cache_get(driver->cache, driver->arena, "obj", &u->key, &entry)) return;
  cached_kernel head;
  if (entry.size < sizeof head) return;
  memcpy(&head, entry.data, sizeof head);
  if (head.trace_size > entry.size || head.object_size > entry.size ||
      entry.size != sizeof head + head.trace_size + head.object_size)
    return;
  const char *data = (const char *)entry.data + sizeof head;
  u->trace = tn__arena_strndup(driver->arena, data, head.trace_size);
  u->object = (tn__code){data + head.trace_size, head.object_size};
  u->workspace_bytes = head.workspace_bytes;
  u->from_cache = true;
}

static void store_cached(tn__driver *driver, const tn__unit *u) {
  if (!driver->cache || driver->runs_once || u->from_cache || u->scalar_count > 0 || is_source(driver, u)) return;
  cached_kernel head = {strlen(u->trace), u->object.size, u->workspace_bytes};
  tn__bytes pieces[] = {{&head, sizeof head}, {u->trace, head.trace_size}, {u->object.data, u->object.size}};
  tn__cache_put(driver->cache, driver->arena, "obj", &u->key,
                &(tn__pieces){pieces, 3, sizeof head + head.trace_size + head.object_size});
}

/* The loops of a kernel whose code the cache had: its trace makes the same of its declaration again. */
static const char *loops_again(tn__driver *driver, tn__unit *u) {
  tn__schedule *schedule;
  tn__check(driver->arena->escape,
            tn_status_prefix(tn__sched_trace_replay(u->te, tn__unit_target(driver, u), u->trace, &schedule),
                             "kernel \"%s\" of the cache", u->name));
  return tn__kernels_text_of_loops(driver->arena,
                                   tn__unit_backend(driver, u)->lower(tn__te_ir(u->te), named_func(u, schedule), NULL));
}

static void keep_texts(tn__driver *driver, tn__unit *u) {
  if (driver->texts & TN__TEXT_DECLARATIONS)
    u->declaration = tn__kernels_text_of_declaration(driver->arena, u->te, u->name);
  if (driver->texts & TN__TEXT_LOOPS)
    u->loops = u->from_cache ? loops_again(driver, u) : tn__arena_strdup(driver->arena, u->loops);
}

static void find_memories(tn__driver *driver, tn__unit *u) {
  int count = u->input_count + u->output_count;
  if (strstr(u->trace, "set_memory") == NULL) return; /* as mostly */
  tn__memory_scope *memories = TN__NEW_ARRAY(driver->arena, count, tn__memory_scope);
  for (int i = 0; i < count; i++) {
    const tn__buffer *argument =
        i < u->input_count ? tn__te_input_at(u->te, i) : tn__te_output_at(u->te, i - u->input_count);
    memories[i] = tn__sched_trace_memory(u->trace, argument->name);
  }
  u->memories = memories;
}

/* Results move to the driver's arena; the unit's own is released unless a symbolic workspace or the loops of a kernel
 * that becomes source still refer to it. */
static void finish_unit(tn__driver *driver, tn__unit *u) {
  u->arena.escape = driver->arena->escape;
  keep_texts(driver, u);
  find_memories(driver, u);
  if (u->from_cache) {
    release_unit_arena(u);
    return;
  }
  store_cached(driver, u);
  if (u->object.size > 0) u->object.data = tn__arena_copy(driver->arena, u->object.data, u->object.size);
  u->trace = tn__arena_strdup(driver->arena, u->trace);
  if (!u->workspace_expr && !u->func) release_unit_arena(u);
}

static void share_results(tn__unit *units, int count) {
  for (int i = 0; i < count; i++) {
    const tn__unit *from = &units[units[i].same_as];
    if (from == &units[i]) continue;
    units[i].object = from->object;
    units[i].func = from->func;
    units[i].func_ir = from->func_ir;
    units[i].native = from->native;
    units[i].native_scalars = from->native_scalars;
    units[i].native_scalar_count = from->native_scalar_count;
    units[i].trace = from->trace;
    units[i].memories = from->memories;
    units[i].workspace_bytes = from->workspace_bytes;
    units[i].workspace_expr = from->workspace_expr;
    units[i].workspace_dims = from->workspace_dims;
  }
}

/* Moving constants needs no code. */
static bool is_move(tn__driver *driver, tn__unit *u) {
  if (!driver->runs_once) return false;
  int count;
  const int64_t *scalars = tn__move_scalars(u->te, &count);
  if (scalars) {
    u->native = tn__move_run;
    u->native_scalars = tn__arena_copy(driver->arena, scalars, sizeof *scalars * (size_t)count);
    u->native_scalar_count = count;
    release_unit_arena(u);
  }
  return scalars != NULL;
}

void tn__units_build(tn__driver *driver, tn__unit *units, int count) {
  int *order = TN__NEW_ARRAY(driver->arena, count, int), todo = 0;
  for (int i = 0; i < count; i++) {
    if (units[i].same_as != i || is_move(driver, &units[i])) continue;
    load_cached(driver, &units[i]);
    if (units[i].from_cache) {
      finish_unit(driver, &units[i]);
    } else {
      order[todo++] = i;
    }
  }
  build_queue queue = {
      .driver = driver, .units = units, .order = order, .count = todo, .lock = PTHREAD_MUTEX_INITIALIZER};
  for (int i = 0; i < todo; i++) queue.total += weight_of(&units[order[i]]);
  if (!driver->runs_once && driver->slab && !driver->slab->hashed) queue.unhashed = driver->slab;
  run_workers(&queue, driver->threads < todo ? driver->threads : todo);
  if (!driver->runs_once) tn__driver_progress(driver, "compile", queue.done, queue.total);
  for (int i = 0; i < todo; i++) units[order[i]].arena.escape = driver->arena->escape;
  tn__check(driver->arena->escape, queue.failure);
  tn__driver_time(driver, "kernel.schedule", queue.times.schedule);
  tn__driver_time(driver, "kernel.lower", queue.times.lower);
  tn__driver_time(driver, "kernel.codegen", queue.times.codegen);
  for (int i = 0; i < todo; i++) finish_unit(driver, &units[order[i]]);
  share_results(units, count);
}

/* ---- printing stages --------------------------------------------------------------------------------------------- */

static void emit_module(tn__driver *driver, tn__ir **irs, const tn__func **funcs, int count, tn__emit kind,
                        const char *stage, tn__strbuf *out) {
  tn__codegen_module module = {.irs = irs, .funcs = funcs, .count = count, .target = &driver->target};
  const tn__backend *backend = tn__backend_that_emits(driver->arena->escape, &driver->target, kind, stage);
  tn__code code = backend->compile(driver->arena, &module, kind);
  tn__strbuf_append_n(out, code.data, code.size);
}

void tn__units_emit(tn__driver *driver, tn__unit *units, int count, const char *stage, tn__strbuf *out) {
  static const struct {
    const char *name;
    tn__emit emit;
  } stages[] = {{"llvm", TN__EMIT_LLVM}, {"asm", TN__EMIT_ASSEMBLY}, {"obj", TN__EMIT_OBJECT}};
  tn__ir **irs = TN__NEW_ARRAY(driver->arena, count, tn__ir *);
  const tn__func **funcs = TN__NEW_ARRAY(driver->arena, count, const tn__func *);
  int lowered = 0;
  for (int i = 0; i < count; i++) {
    tn__unit *u = &units[i];
    if (u->same_as != i) continue;
    if (strcmp(stage, "te") == 0) {
      tn__te_print_as(u->te, u->name, out);
      tn__strbuf_append(out, "\n");
      continue;
    }
    const tn__plan *plan = tn__plan_kernel(&u->choice, chooser_of(driver, u));
    if (strcmp(stage, "schedule") == 0) {
      tn__strbuf_printf(out, "# %s\n# ", u->name);
      tn__plan_print(plan, out);
      tn__strbuf_append(out, "\n");
      tn__sched_trace_print(plan->schedule, out);
      tn__strbuf_append(out, "\n");
      continue;
    }
    pass_printer printer = {driver, u->name};
    const tn__func *func = named_func(u, plan->schedule);
    func = tn__unit_backend(driver, u)->lower(tn__te_ir(u->te), func, &(tn__pass_hooks){print_pass, &printer});
    if (strcmp(stage, "tir") == 0) {
      tn__func_print(func, out);
      tn__strbuf_append(out, "\n");
      continue;
    }
    if (u->maker != NULL)
      tn__throwf(driver->arena->escape, TN_UNSUPPORTED,
                 "kernel \"%s\" is for another device, %s: the stage \"%s\" shows the kernels of one target alone",
                 u->name, u->maker->target.name, stage);
    irs[lowered] = tn__te_ir(u->te);
    funcs[lowered++] = func;
  }
  for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++)
    if (strcmp(stage, stages[i].name) == 0) emit_module(driver, irs, funcs, lowered, stages[i].emit, stage, out);
}
