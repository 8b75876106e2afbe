/* What kernels of a task run on. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/copy.h"
#include "te/operand.h"
#include "tune/worker/internal.h"

/* The declaration's own loops over a large product go through memory in the worst of orders: after so long the static
 * choice tells what is right. */
static const int most_seconds = 5;
static const size_t most_bytes = (size_t)512 << 20; /* of operands of all tasks together, but for the current one */

/* Bytes from the first to behind the last element, whatever lies between. */
static size_t bytes_of(tn__escape *escape, const tn__buffer *b) {
  int64_t last = 0, step = 1, size = (int64_t)tn_dtype_size(b->dtype), part;
  for (int d = b->rank - 1; d >= 0; d--) {
    int64_t extent = tn__ir_int_or(b->shape[d], 0), stride = step;
    if (b->strides != NULL) stride = tn__ir_int_or(b->strides[d], step);
    if (extent <= 0) return 0;
    if (tn__mul_overflow_i64(extent - 1, stride, &part) || tn__add_overflow_i64(last, part, &last) ||
        tn__mul_overflow_i64(step, extent, &step))
      tn__throwf(escape, TN_OUT_OF_RANGE, "tensor %s is too large", b->name);
  }
  if (last < 0 || tn__mul_overflow_i64(last + 1, size, &last))
    tn__throwf(escape, TN_OUT_OF_RANGE, "tensor %s is too large", b->name);
  return (size_t)last;
}

static void *copy_of(tn__arena *arena, tn__worker_operands *o, const tn__worker_memory *memory) {
  void *copy;
  tn__check(arena->escape, tn__alloc(NULL, 1, memory->bytes > 0 ? memory->bytes : 1, 0, &copy));
  if (memory->bytes > 0) memcpy(copy, memory->data, memory->bytes);
  o->bytes += memory->bytes;
  return copy;
}

/* `only` as of tn__te_operand_use. */
static void fill_input(const tn__worker_operands *o, int input, uint64_t seed, int64_t only) {
  const tn__buffer *b = tn__te_input_at(o->te, input);
  const tn__worker_memory *m = &o->buffers[input];
  tn__te_operand_use use = tn__te_operand_use_of(o->te, b);
  use.only = only;
  tn__te_operand_fill(&use, b->dtype, tn__hash_mix(seed, (uint64_t)input), m->bytes / tn_dtype_size(b->dtype), m->data);
}

static void make_buffers(tn__worker_task *task, uint64_t seed) {
  tn__worker_operands *o = &task->operands;
  tn__arena *arena = &task->arena;
  int inputs = tn__te_input_count(o->te), outputs = tn__te_output_count(o->te);
  o->input_count = inputs;
  o->buffers = TN__NEW_ARRAY(arena, inputs + outputs, tn__worker_memory);
  o->over = TN__NEW_ARRAY(arena, outputs, int);
  o->first = TN__NEW_ARRAY(arena, inputs, void *);
  o->right = TN__NEW_ARRAY(arena, outputs, void *);
  o->largest = TN__NEW_ARRAY(arena, outputs, double);
  o->count = inputs + outputs;
  for (int i = 0; i < inputs; i++) {
    const tn__buffer *b = tn__te_input_at(o->te, i);
    tn__worker_memory *m = &o->buffers[i];
    tn__check(arena->escape, tn__worker_memory_create(b->name, bytes_of(arena->escape, b), m));
    fill_input(o, i, seed, 0);
    o->bytes += m->bytes;
  }
  for (int i = 0; i < outputs; i++) {
    const tn__buffer *b = tn__te_output_at(o->te, i);
    o->over[i] = tn__te_over(o->te, i);
    if (o->over[i] >= 0) {
      o->first[o->over[i]] = copy_of(arena, o, &o->buffers[o->over[i]]);
      continue;
    }
    tn__worker_memory *m = &o->buffers[inputs + i];
    tn__check(arena->escape, tn__worker_memory_create(b->name, bytes_of(arena->escape, b), m));
    o->bytes += m->bytes;
  }
  for (int i = 0; i < inputs; i++)
    if (o->first[i] == NULL) tn__worker_memory_seal(&o->buffers[i], true);
}

void tn__worker_operands_reset(tn__worker_operands *o) {
  const int unwritten = 0xff; /* NaN of floats */
  for (int i = 0; i < o->input_count; i++)
    if (o->first[i] != NULL) memcpy(o->buffers[i].data, o->first[i], o->buffers[i].bytes);
  for (int i = o->input_count; i < o->count; i++)
    if (o->buffers[i].pages != NULL) memset(o->buffers[i].data, unwritten, o->buffers[i].bytes);
}

void tn__worker_arguments(const tn__worker_operands *o, const tn__worker_kernel *kernel, void **out) {
  for (int i = 0; i < o->count; i++) out[i] = o->buffers[i].data;
  for (int i = o->input_count; i < o->count; i++)
    if (o->over[i - o->input_count] >= 0) out[i] = o->buffers[o->over[i - o->input_count]].data;
  out[o->count] = kernel->workspace.data;
}

/* ---- right results ----------------------------------------------------------------------------------------------- */

typedef struct reference {
  tn__worker *worker;
  tn__worker_task *task;
  tn__worker_kernel kernel;
} reference;

static const char *name_of(int result) {
  switch (result) {
    case TN_KERNEL_INDEX_OUT_OF_RANGE: return "an index is out of range";
    case TN_KERNEL_DIVISION_BY_ZERO: return "an integer is divided by zero";
    case TN_KERNEL_BAD_VALUE: return "a value is none that is allowed";
    default: return "it is no result of kernels";
  }
}

/* Sets *cancel when the seconds are over before somebody says that it is done. */
typedef struct watch {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool done;
  int seconds;
  int32_t *cancel;
} watch;

static void *watch_time(void *arg) {
  watch *w = arg;
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += w->seconds;
  pthread_mutex_lock(&w->lock);
  int result = 0;
  while (!w->done && result == 0) result = pthread_cond_timedwait(&w->changed, &w->lock, &until);
  if (!w->done) __atomic_store_n(w->cancel, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

static int32_t serial_for(const tn_kernel_env *env, tn_kernel_task task, void *closure, int64_t count) {
  return task(env, closure, 0, count);
}

/* TN_KERNEL_CANCELLED when it takes longer; 0 seconds: it never does. */
TN_MUST_USE static int call_for(int seconds, const tn__worker_kernel *kernel, void **buffers) {
  tn_kernel_env env = {
      .version = TN_KERNEL_ABI_VERSION, .size = sizeof env, .parallel_for = serial_for, .thread_count = 1};
  watch w = {.lock = PTHREAD_MUTEX_INITIALIZER, .seconds = seconds, .cancel = &env.cancel};
  pthread_condattr_t monotonic;
  pthread_t thread;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&w.changed, &monotonic);
  /* Without a thread it takes as long as it takes. */
  bool watched = seconds > 0 && pthread_create(&thread, NULL, watch_time, &w) == 0;
  int result = kernel->code(&env, buffers, kernel->head.scalars);
  pthread_mutex_lock(&w.lock);
  w.done = true;
  pthread_cond_signal(&w.changed);
  pthread_mutex_unlock(&w.lock);
  if (watched) pthread_join(thread, NULL);
  pthread_cond_destroy(&w.changed);
  pthread_condattr_destroy(&monotonic);
  return result;
}

/* Runs the task's kernel as the chooser wants it, and returns its result. */
static int run_chosen(reference *r, tn__arena *arena, const tn__chooser *chooser) {
  const tn__worker_task *task = r->task;
  tn__worker_operands *o = &r->task->operands;
  void **buffers = TN__NEW_ARRAY(arena, o->count + 1, void *);
  const tn__schedule_options options = {.threads = 1};
  const tn__te *te = tn__worker_task_declare(task, true, tn__ir_create(arena));
  const tn__plan_unit unit = tn__rule_plan_unit_of(te, &task->target, &options);
  const tn__worker_compiled code = tn__worker_compile(task, tn__plan_kernel(&unit, chooser), arena);
  tn__worker_kernel_release(&r->kernel);
  tn__check(arena->escape, tn__worker_kernel_map(code.code, code.size, &r->kernel));
  tn__worker_arguments(o, &r->kernel, buffers);
  tn__worker_operands_reset(o);
  o->rounding = tn__worker_rounding_of(te);
  return call_for(chooser == &tn__chooser_plain ? most_seconds : 0, &r->kernel, buffers);
}

static void fill_anew(const reference *r, int64_t only) {
  tn__worker_operands *o = &r->task->operands;
  for (int i = 0; i < o->input_count; i++) {
    tn__worker_memory_seal(&o->buffers[i], false);
    fill_input(o, i, r->worker->setup.timing.seed, only);
    if (o->first[i] != NULL)
      tn__copy(o->first[i], o->buffers[i].data, o->buffers[i].bytes);
    else
      tn__worker_memory_seal(&o->buffers[i], true);
  }
}

static void find_right(tn__arena *arena, void *user) {
  static const int64_t values[] = {1, 2, 7, 64, 100};
  reference *r = user;
  tn__worker_operands *o = &r->task->operands;
  int result = run_chosen(r, arena, &tn__chooser_plain);
  /* Only a computation tells which inputs make a divisor 0, as in A / (B - 3): then all integers are one. */
  for (size_t i = 0; i < sizeof values / sizeof values[0] && result == TN_KERNEL_DIVISION_BY_ZERO; i++) {
    fill_anew(r, values[i]);
    result = run_chosen(r, arena, &tn__chooser_plain);
  }
  if (result == TN_KERNEL_CANCELLED) result = run_chosen(r, arena, &tn__chooser_static);
  if (result != TN_KERNEL_OK)
    tn__throwf(arena->escape, TN_FAILED_PRECONDITION,
               "task %s: the declaration's own loops return %d on the inputs that were made up: %s",
               r->task->given.name, result, name_of(result));
  for (int i = 0; i < o->count - o->input_count; i++) {
    const tn__worker_memory *m = &o->buffers[o->over[i] >= 0 ? o->over[i] : o->input_count + i];
    tn_dtype dtype = tn__te_output_at(o->te, i)->dtype;
    o->right[i] = copy_of(arena, o, m);
    o->largest[i] = tn__worker_largest_of(dtype, o->right[i], m->bytes / tn_dtype_size(dtype));
  }
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static void open_body(tn__escape *escape, void *arg) {
  reference *r = arg;
  r->task->arena.escape = escape;
  r->task->operands.te = tn__worker_task_declare(r->task, true, tn__ir_create(&r->task->arena));
  make_buffers(r->task, r->worker->setup.timing.seed);
}

/* Others' operands go, the oldest first, when there are too many with these. */
static void make_room(tn__worker *w, const tn__worker_task *current) {
  for (;;) {
    tn__worker_task *oldest = NULL;
    size_t bytes = 0;
    for (int i = 0; i < TN__MESSAGE_SLOTS; i++) {
      tn__worker_task *task = w->tasks[i];
      if (task == NULL || !task->has_operands) continue;
      bytes += task->operands.bytes;
      if (task != current && (oldest == NULL || task->used < oldest->used)) oldest = task;
    }
    if (oldest == NULL || bytes <= most_bytes) return;
    tn__worker_operands_close(oldest);
  }
}

tn_status *tn__worker_operands_open(tn__worker *w, tn__worker_task *task, bool right) {
  reference r = {.worker = w, .task = task};
  tn__worker_operands *o = &task->operands;
  tn_status *status = NULL;
  if (!task->has_operands) {
    tn__escape escape;
    task->has_operands = true;
    status = tn__protect(&escape, open_body, &r);
    task->arena.escape = NULL;
  }
  if (status == NULL && right && o->count > o->input_count && o->right[0] == NULL) {
    status = tn__with_arena(NULL, find_right, &r);
    tn__worker_kernel_release(&r.kernel);
  }
  if (status != NULL) tn__worker_operands_close(task);
  make_room(w, task);
  return status;
}

void tn__worker_operands_close(tn__worker_task *task) {
  if (task == NULL || !task->has_operands) return;
  tn__worker_operands *o = &task->operands;
  for (int i = 0; i < o->count; i++) {
    const tn__worker_memory *m = &o->buffers[i];
    const int output = i - o->input_count;
    const size_t bytes = output >= 0 && o->over[output] >= 0 ? o->buffers[o->over[output]].bytes : m->bytes;
    tn__free(NULL, output >= 0 ? o->right[output] : o->first[i], bytes > 0 ? bytes : 1, 0);
  }
  for (int i = 0; i < o->count; i++) tn__worker_memory_release(&o->buffers[i]);
  *o = (tn__worker_operands){0};
  task->has_operands = false;
}
