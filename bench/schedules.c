/* usage: bench_schedules [--seed N] [--count N] [--candidates N] [--seconds N] [--only REGEX] [--each N]
 *                        [--shape KIND,N,N...] [--machine FILE] [--far N] [--with TEXT] [--own]
 *                        [--table FILE] [--json FILE] [--again TABLE] [--verbose] [FILE.te...]
 *
 * How good are the schedules that the static cost function chooses? Random declarations of shapes that nobody chose, or
 * the kernels of files, are each compiled with the static choice and with candidates out of the sketches of all rules
 * that fit (--own: of the chosen one's alone), all that there are or random ones, as many of each rule where there are
 * so many, none twice; all run on this machine, on one thread, in turns. Printed are the static choice's time over that
 * of the best candidate (1 where the static choice is the best), and the geometric mean. Of each class, a kind of
 * declaration or a file, pairs of candidates are counted whose times are further apart than a factor of 1.3, and the
 * share of them that the cost function orders right is printed, of candidates of one rule and of two (by what a rule
 * that competes says of both, where there is one). Times are the CPU time of the calling thread, what the fastest
 * eighth of several runs take, so that other work on the machine disturbs little. Printed, too, is how long choosing
 * takes, all of it, and how much of that is one weighed candidate.
 *
 * --far N flushes the declaration's input N from the caches before each run, as the weights of a network are gone until
 * it comes to them again. --with "rows 14, ahead 1; rows 12" takes the static choice with these decisions for
 * candidates instead, one for each semicolon. --machine FILE takes the numbers of the cost function from there.
 *
 * --seconds bounds the time for each declaration's candidates. --table writes what was measured as JSON, a line for
 * each candidate: class, declaration, rule, decisions, predicted cycles, what a rule that competes says, seconds. The
 * first of a declaration is the static choice. --json writes what is printed, of each declaration and class.
 *
 * --again TABLE measures nothing, but reads what was measured and written with --table, and tells how well the cost
 * function as it is now orders that, and what its choice took, where that was among it.
 *
 * Of files, --only takes the kernels whose names the extended regular expression matches, and --each N as many of each
 * file, evenly spread.
 */
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/file.h"
#include "codegen/backend.h"
#include "ir/passes.h"
#include "machine/machine_file.h"
#include "schedule/rules/choose.h"
#include "te/operand.h"
#include "te/text.h"
#include "tenon/kernel_abi.h"

/* ---- random declarations ----------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state) { /* SplitMix64 (Steele, Lea and Flood, 2014) */
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static int64_t among(uint64_t *state, int64_t low, int64_t high) { /* both included, evenly on a scale of logarithms */
  double t = (double)(next_random(state) >> 11) * 0x1p-53;
  return (int64_t)floor((double)low * pow((double)(high + 1) / (double)low, t));
}

typedef enum kind {
  PRODUCT,
  PACKED,
  BATCHED,
  CONVOLUTION,
  POINTWISE,
  GROUPED,
  DEPTHWISE,
  SOFTMAX,
  SUM_ROWS,
  SUM_COLUMNS,
  MAP,
  TRANSPOSE,
  KINDS
} kind;
static const char *const kind_names[] = {"product",   "packed",  "batched",  "convolution", "pointwise", "grouped",
                                         "depthwise", "softmax", "sum-rows", "sum-columns", "map",       "transpose"};

typedef struct shape {
  kind kind;
  int64_t n[6];
} shape;

static shape random_shape(int index, uint64_t *state) {
  static const kind order[] = {PACKED, CONVOLUTION, DEPTHWISE, PRODUCT,   PACKED,  BATCHED,     CONVOLUTION, SOFTMAX,
                               MAP,    PACKED,      DEPTHWISE, POINTWISE, GROUPED, SUM_COLUMNS, TRANSPOSE};
  shape s = {.kind = order[index % (int)(sizeof(order) / sizeof(order[0]))]};
  int64_t *n = s.n;
  switch (s.kind) {
    case PRODUCT:
    case PACKED: n[0] = among(state, 1, 400), n[1] = among(state, 16, 900), n[2] = among(state, 16, 900); break;
    case BATCHED:
      n[0] = among(state, 17, 150), n[1] = among(state, 16, 150), n[2] = among(state, 17, 150),
      n[3] = among(state, 2, 12);
      break;
    case CONVOLUTION: /* height and width of the result, channels in and out, window, stride */
      n[0] = among(state, 7, 60), n[1] = n[0] + among(state, 1, 9) - 1, n[2] = among(state, 3, 160),
      n[3] = among(state, 16, 200);
      n[4] = 3 + 2 * (int64_t)(next_random(state) % 2), n[5] = 1 + (int64_t)(next_random(state) % 2);
      break;
    case POINTWISE:
      n[0] = among(state, 7, 60), n[1] = n[0], n[2] = among(state, 16, 300), n[3] = among(state, 16, 300), n[4] = 1,
      n[5] = 2;
      break;
    case GROUPED: /* n[2]: channels of a group */
      n[0] = n[1] = among(state, 7, 30), n[2] = 8 * among(state, 1, 8), n[3] = among(state, 2, 16), n[4] = 3, n[5] = 1;
      break;
    case DEPTHWISE:
      n[0] = n[1] = among(state, 7, 80), n[2] = among(state, 16, 400), n[4] = 3 + 2 * (int64_t)(next_random(state) % 2);
      n[5] = 1 + (int64_t)(next_random(state) % 2);
      break;
    default: n[0] = among(state, 16, 1000), n[1] = among(state, 16, 1500); break;
  }
  return s;
}

static void print_shape(const shape *s, char *text, size_t size) {
  const int64_t *n = s->n;
  if (s->kind == CONVOLUTION || s->kind == POINTWISE || s->kind == GROUPED || s->kind == DEPTHWISE) {
    snprintf(text, size, "%s %lldx%lld of %lldx%lld, %lld to %lld, stride %lld", kind_names[s->kind], (long long)n[4],
             (long long)n[4], (long long)n[0], (long long)n[1], (long long)n[2], (long long)n[3], (long long)n[5]);
  } else {
    snprintf(text, size, "%s %lldx%lldx%lld, %lld", kind_names[s->kind], (long long)n[0], (long long)n[1],
             (long long)n[2], (long long)n[3]);
  }
}

typedef struct builder {
  tn__te *te;
  tn__ir *ir;
} builder;

static tn__te_axes axes(builder *b, const char *prefix, int count, const int64_t *extents) {
  const tn__expr *list[6];
  for (int i = 0; i < count; i++) list[i] = tn__ir_index(b->ir, extents[i]);
  return tn__te_axes_create(b->te, prefix, count, list);
}

static const tn__buffer *input(builder *b, const char *name, int count, const int64_t *extents) {
  const tn__expr *list[6];
  for (int i = 0; i < count; i++) list[i] = tn__ir_index(b->ir, extents[i]);
  return tn__te_input(b->te, name, TN_F32, count, list);
}

#define LIST(...) ((const int64_t[]){__VA_ARGS__})
#define AT(buffer, ...) tn__ir_load(b->ir, buffer, (const tn__expr *[]){__VA_ARGS__})

static void rectified(builder *b, const tn__buffer *sum, int rank, const int64_t *extents) {
  const tn__buffer *bias = input(b, "bias", 1, &extents[rank - 1]);
  tn__te_axes y = axes(b, "o", rank, extents);
  const tn__expr *value = tn__ir_add(b->ir, tn__ir_load(b->ir, sum, y.index), AT(bias, y.index[rank - 1]));
  tn__te_output(b->te, tn__te_compute(b->te, "out", &y, tn__ir_max(b->ir, value, tn__ir_constant(b->ir, TN_F32, 0))));
}

static void declare_product(builder *b, const shape *s, const tn__target *target) {
  int64_t m = s->n[0], k = s->n[1], n = s->n[2], w = tn__schedule_pack_width(target, TN_F32, n), batch = s->n[3];
  tn__ir *ir = b->ir;
  tn__te_axes r = axes(b, "k", 1, &k);
  if (s->kind == BATCHED) {
    const tn__buffer *a = input(b, "A", 3, LIST(batch, m, k)), *c = input(b, "B", 3, LIST(batch, k, n));
    tn__te_axes x = axes(b, "i", 3, LIST(batch, m, n));
    const tn__expr *term =
        tn__ir_mul(ir, AT(a, x.index[0], x.index[1], r.index[0]), AT(c, x.index[0], r.index[0], x.index[2]));
    tn__te_output(b->te, tn__te_reduce(b->te, "sum", &x, &r, TN__TE_SUM, term));
    return;
  }
  tn__te_axes x = axes(b, "i", 2, LIST(m, n));
  const tn__buffer *a = input(b, "A", 2, LIST(m, k));
  const tn__expr *right;
  if (s->kind == PACKED) {
    const tn__buffer *c = input(b, "B", 3, LIST((n + w - 1) / w, k, w));
    right = AT(c, tn__ir_div_i(ir, x.index[1], w), r.index[0], tn__ir_mod_i(ir, x.index[1], w));
  } else {
    const tn__buffer *c = input(b, "B", 2, LIST(k, n));
    right = AT(c, r.index[0], x.index[1]);
  }
  const tn__expr *term = tn__ir_mul(ir, AT(a, x.index[0], r.index[0]), right);
  rectified(b, tn__te_reduce(b->te, "sum", &x, &r, TN__TE_SUM, term), 2, LIST(m, n));
}

/* Channels last, weights packed; the input already has its margin. */
static void declare_convolution(builder *b, const shape *s, const tn__target *target) {
  int64_t h = s->n[0], w = s->n[1], in = s->n[2], out = s->n[3], window = s->n[4], stride = s->n[5];
  tn__ir *ir = b->ir;
  if (s->kind == GROUPED) out = in * s->n[3];
  if (s->kind == DEPTHWISE) out = in;
  int64_t all = s->kind == GROUPED ? out : in, rows = (h - 1) * stride + window, columns = (w - 1) * stride + window;
  int64_t panel = tn__schedule_pack_width(target, TN_F32, s->kind == GROUPED ? in : out);
  const tn__buffer *x = input(b, "X", 3, LIST(rows, columns, all));
  tn__te_axes y = axes(b, "i", 3, LIST(h, w, out));
  tn__te_axes r = axes(b, "k", s->kind == DEPTHWISE ? 2 : 3, LIST(window, window, in));
  const tn__expr *i = tn__ir_add(ir, tn__ir_mul_i(ir, y.index[0], stride), r.index[0]);
  const tn__expr *j = tn__ir_add(ir, tn__ir_mul_i(ir, y.index[1], stride), r.index[1]), *c = y.index[2], *term;
  if (s->kind == DEPTHWISE) {
    const tn__buffer *f = input(b, "F", 3, LIST(window, window, out));
    term = tn__ir_mul(ir, AT(x, i, j, c), AT(f, r.index[0], r.index[1], c));
  } else {
    bool fits = s->kind != GROUPED || in % panel == 0;
    const tn__buffer *f = fits ? input(b, "F", 5, LIST((out + panel - 1) / panel, window, window, in, panel))
                               : input(b, "F", 4, LIST(window, window, in, out));
    const tn__expr *channel =
        s->kind == GROUPED ? tn__ir_add(ir, tn__ir_mul_i(ir, tn__ir_div_i(ir, c, in), in), r.index[2]) : r.index[2];
    const tn__expr *weight =
        fits ? AT(f, tn__ir_div_i(ir, c, panel), r.index[0], r.index[1], r.index[2], tn__ir_mod_i(ir, c, panel))
             : AT(f, r.index[0], r.index[1], r.index[2], c);
    term = tn__ir_mul(ir, AT(x, i, j, channel), weight);
  }
  rectified(b, tn__te_reduce(b->te, "sum", &y, &r, TN__TE_SUM, term), 3, LIST(h, w, out));
}

static void declare_rows(builder *b, const shape *s) {
  int64_t m = s->n[0], n = s->n[1];
  tn__ir *ir = b->ir;
  const tn__buffer *a = input(b, "A", 2, LIST(m, n));
  tn__te_axes x = axes(b, "i", 2, LIST(m, n)), rows = axes(b, "r", 1, &m), columns = axes(b, "c", 1, &n),
              over_n = axes(b, "k", 1, &n), over_m = axes(b, "m", 1, &m);
  switch (s->kind) {
    case SUM_ROWS:
      tn__te_output(b->te,
                    tn__te_reduce(b->te, "sum", &rows, &over_n, TN__TE_SUM, AT(a, rows.index[0], over_n.index[0])));
      break;
    case SUM_COLUMNS:
      tn__te_output(
          b->te, tn__te_reduce(b->te, "sum", &columns, &over_m, TN__TE_SUM, AT(a, over_m.index[0], columns.index[0])));
      break;
    case SOFTMAX: {
      const tn__buffer *top =
          tn__te_reduce(b->te, "top", &rows, &over_n, TN__TE_MAX, AT(a, rows.index[0], over_n.index[0]));
      const tn__expr *e =
          tn__ir_call1(ir, TN__CALL_EXP, tn__ir_sub(ir, AT(a, x.index[0], x.index[1]), AT(top, x.index[0])));
      const tn__buffer *powers = tn__te_compute(b->te, "powers", &x, e);
      tn__te_axes again = axes(b, "s", 1, &m), k = axes(b, "t", 1, &n), y = axes(b, "o", 2, LIST(m, n));
      const tn__buffer *sum =
          tn__te_reduce(b->te, "sum", &again, &k, TN__TE_SUM, AT(powers, again.index[0], k.index[0]));
      tn__te_output(b->te, tn__te_compute(b->te, "out", &y,
                                          tn__ir_div(ir, AT(powers, y.index[0], y.index[1]), AT(sum, y.index[0]))));
      break;
    }
    case TRANSPOSE: {
      tn__te_axes y = axes(b, "o", 2, LIST(n, m));
      tn__te_output(b->te, tn__te_compute(b->te, "out", &y, AT(a, y.index[1], y.index[0])));
      break;
    }
    default: {
      const tn__buffer *c = input(b, "B", 2, LIST(m, n)), *d = input(b, "C", 1, &n);
      const tn__expr *v = tn__ir_add(ir, tn__ir_mul(ir, AT(a, x.index[0], x.index[1]), AT(d, x.index[1])),
                                     AT(c, x.index[0], x.index[1]));
      tn__te_output(b->te, tn__te_compute(b->te, "out", &x, tn__ir_max(ir, v, tn__ir_constant(ir, TN_F32, 0))));
    }
  }
}

/* What is measured: a random shape, or a kernel of a file. */
typedef struct subject {
  shape shape;
  const char *path; /* NULL: the shape */
  int kernel;
  char class[64], name[128];
} subject;

static tn__te_source *read_file(tn__arena *arena, const char *path) {
  tn__file_map map;
  tn__te_source *source;
  tn__check(arena->escape, tn__file_map_open(path, &map));
  const char *text = tn__arena_strndup(arena, (const char *)map.data, map.size);
  tn__file_map_close(&map);
  tn__check(arena->escape, tn__te_parse(arena, path, text, strlen(text), &source));
  return source;
}

static tn__te *declare(tn__arena *arena, const subject *what, const tn__target *target) {
  const shape *s = &what->shape;
  if (what->path != NULL) {
    tn__te *te;
    tn__check(arena->escape,
              tn__te_declare(read_file(arena, what->path), what->kernel, NULL, 0, tn__ir_create(arena), &te));
    return te;
  }
  builder b = {.ir = tn__ir_create(arena)};
  b.te = tn__te_create(b.ir, "bench");
  if (s->kind == PRODUCT || s->kind == PACKED || s->kind == BATCHED)
    declare_product(&b, s, target);
  else if (s->kind == CONVOLUTION || s->kind == POINTWISE || s->kind == GROUPED || s->kind == DEPTHWISE)
    declare_convolution(&b, s, target);
  else
    declare_rows(&b, s);
  return b.te;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int32_t serial_for(const tn_kernel_env *env, tn_kernel_task task, void *closure, int64_t count) {
  return task(env, closure, 0, count);
}

typedef struct kernel {
  void *mapped;
  size_t size;
  tn_kernel code;
  size_t workspace_bytes;
} kernel;

static size_t buffer_bytes(const tn__buffer *b) {
  size_t bytes = tn_dtype_size(b->dtype);
  for (int d = 0; d < b->rank; d++) bytes *= (size_t)tn__ir_int_or(b->shape[d], 1);
  return bytes;
}

static void *new_memory(size_t bytes) {
  void *data = aligned_alloc(64, (bytes + 4096 + 63) / 64 * 64);
  if (data == NULL) exit(3);
  memset(data, 0, bytes + 4096);
  return data;
}

static void *new_operand(const tn__te *te, const tn__buffer *buffer) {
  size_t bytes = buffer_bytes(buffer);
  tn__te_operand_use use = tn__te_operand_use_of(te, buffer);
  void *data = new_memory(bytes);
  tn__te_operand_fill(&use, buffer->dtype, 1, bytes / tn_dtype_size(buffer->dtype), data);
  return data;
}

static void compile(kernel *out, const tn__te *te, const tn__schedule *schedule, const tn__target *target) {
  tn__ir *ir = tn__te_ir(te);
  const tn__backend *backend = tn__backend_of(tn__ir_arena(ir)->escape, target);
  const tn__func *func = backend->lower(ir, tn__schedule_func(schedule), NULL);
  tn__kernel_info info = backend->measure(ir, func);
  tn__codegen_module module = {.irs = &ir, .funcs = &func, .count = 1, .target = target};
  tn__code object = backend->compile(tn__ir_arena(ir), &module, TN__EMIT_OBJECT);
  tn__image image = backend->link(tn__ir_arena(ir), &object, 1);
  out->size = (image.size + 4095) & ~(size_t)4095;
  out->mapped = mmap(NULL, out->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(out->mapped, image.data, image.size);
  mprotect(out->mapped, out->size, PROT_READ | PROT_EXEC);
  union {
    void *data;
    tn_kernel code;
  } entry = {.data = (char *)out->mapped + image.symbols[0].offset};
  out->code = entry.code;
  out->workspace_bytes = (size_t)info.workspace_bytes;
}

/* What kernels are given; of it, what is far away when they start. */
typedef struct operands {
  void *buffer[17];
  int count;
  void *workspace; /* of the largest so far */
  size_t workspace_bytes;
  const char *far;
  size_t far_bytes;
} operands;

static void send_away(const operands *o) {
#if defined(__x86_64__)
  for (size_t at = 0; at < o->far_bytes; at += TN__LINE_BYTES) __builtin_ia32_clflush(o->far + at);
  __builtin_ia32_mfence();
#else
  (void)o;
#endif
}

static double run_once(kernel *k, operands *o) {
  tn_kernel_env env = {
      .version = TN_KERNEL_ABI_VERSION, .size = sizeof(env), .parallel_for = serial_for, .thread_count = 1};
  if (k->workspace_bytes > o->workspace_bytes) {
    free(o->workspace);
    o->workspace = new_memory(k->workspace_bytes);
    o->workspace_bytes = k->workspace_bytes;
  }
  o->buffer[o->count] = k->workspace_bytes > 0 ? o->workspace : NULL;
  send_away(o);
  double start = now();
  if (k->code(&env, o->buffer, NULL) != TN_KERNEL_OK) exit(4);
  return now() - start;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* What an eighth of enough runs to fill `seconds` take at the most, or `before` if that is less; stops early when all
 * are far above `best`. Other work makes runs longer; a thread's clock that is wrong now and then makes one shorter. */
static double measure(kernel *k, operands *o, double seconds, double before, double best) {
  enum { MOST_RUNS = 400, FASTEST = 8 };
  double times[MOST_RUNS], total = 0, least = INFINITY;
  int count = 0;
  while (count < MOST_RUNS && (count < 2 || total < seconds)) {
    double t = times[count++] = run_once(k, o);
    total += t;
    least = fmin(least, t);
    if (least > 2 * best && count >= 3) break;
  }
  qsort(times, (size_t)count, sizeof(times[0]), by_size);
  return fmin(before, times[count >= 3 && count < FASTEST ? 1 : count / FASTEST]);
}

static void drop(kernel *k) { munmap(k->mapped, k->size); }

/* ---- one declaration --------------------------------------------------------------------------------------------- */

/* A rule that fits the declaration. */
typedef struct fitting {
  const char *name;
  int64_t points;
} fitting;

enum { MOST_RULES = 16 };

typedef struct bench bench;

typedef struct job {
  const subject *what;
  const tn__target *target;
  tn__arena *arena;
  const int64_t *values; /* NULL: the static choice */
  const char *rule;      /* whose sketch the values are for */
  int64_t point;         /* of the sketch; -1: a random one, or the static choice with what `with` says */
  const char *with;      /* "NAME N, ..."; NULL: nothing */
  const char *measured;  /* a line of a table, instead of measuring; NULL: none */
  uint64_t *random;
  int64_t drawn[TN__MAX_DECISIONS];
  tn__plan plan;
  double predicted, weighed;
  char text[1024];
  kernel *kernel;
  operands *operands;
  int far;                   /* the input that is; -1: none */
  double choosing, planning; /* seconds: weighing the chosen rule's candidates; the whole choice */
  int64_t chosen_of;         /* candidates */
  const char *rule_name;
  int64_t points;
  bool own; /* only the chosen rule is asked for candidates */
  bench *bench;
  int rule_count;
  fitting rules[MOST_RULES]; /* the chosen one's is the first */
  int asked;                 /* which of them the candidate is of */
} job;

static void add_rule(job *j, const tn__sketch *k) {
  for (int i = 0; i < j->rule_count; i++)
    if (strcmp(j->rules[i].name, tn__sketch_name(k)) == 0) return;
  if (j->rule_count < MOST_RULES) j->rules[j->rule_count++] = (fitting){tn__sketch_name(k), tn__sketch_points(k)};
}

static void describe(job *j, const tn__sketch *k, const int64_t *values) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__sketch_print(k, values, &text);
  snprintf(j->text, sizeof(j->text), "%s", tn__strbuf_text(&text));
  tn__strbuf_release(&text);
}

/* The static choice, but for the decisions in the text up to its end or a semicolon. */
static void decide(const tn__sketch *k, const job *j, int64_t *values) {
  memcpy(values, j->plan.values, sizeof(int64_t) * TN__MAX_DECISIONS);
  for (const char *at = j->with; *at != 0 && *at != ';'; at += strcspn(at, ",;"), at += *at == ',') {
    at += strspn(at, " ");
    for (int d = 0; d < k->decision_count; d++) {
      size_t length = strlen(k->decisions[d].name);
      if (strncmp(at, k->decisions[d].name, length) == 0 && at[length] == ' ' && strchr("-0123456789", at[length + 1]))
        values[d] = strtoll(at + length, NULL, 10);
    }
  }
}

/* What the rule that competes says of a point. */
static double weigh(const tn__plan_unit *unit, const tn__sketch *k, const int64_t *values) {
  double cycles = NAN;
  for (int i = 0; i < unit->rules->count && isnan(cycles); i++) {
    const tn__rule *rule = unit->rules->rule[i];
    if (rule->weigh == NULL) continue;
    const tn__sketch *own = tn__sketch_named(unit->rules, unit->te, unit->target, &unit->options, rule->name);
    if (own != NULL) cycles = tn__sketch_weigh(own, k, values, NULL);
  }
  return cycles;
}

static const tn__schedule *prepare_choice(job *j, const tn__te *te, const tn__schedule_options *options) {
  double start = now();
  tn__plan_unit unit = tn__rule_plan_unit_of(te, j->target, options);
  j->plan = *tn__plan_kernel(&unit, &tn__chooser_static);
  j->planning = now() - start;
  j->rule_name = j->plan.rule;
  j->rule_count = 0;
  if (j->plan.sketch == NULL) return j->plan.schedule;
  start = now();
  j->chosen_of = tn__sketch_choose_counting(j->plan.sketch, j->drawn, NULL);
  j->choosing = now() - start;
  j->predicted = j->plan.cost.cycles;
  j->weighed = weigh(&unit, j->plan.sketch, j->plan.values);
  describe(j, j->plan.sketch, j->plan.values);
  add_rule(j, j->plan.sketch);
  for (int i = 0; i < unit.rules->count && !j->own; i++) {
    const tn__sketch *k = tn__sketch_named(unit.rules, unit.te, j->target, options, unit.rules->rule[i]->name);
    if (k != NULL) add_rule(j, k);
  }
  return j->plan.schedule;
}

/* The number of a member of an object that was written with --table; `otherwise` where there is none. */
static double member(const char *text, const char *name, double otherwise) {
  char quoted[128];
  snprintf(quoted, sizeof(quoted), "\"%s\": ", name);
  const char *at = strstr(text, quoted);
  return at != NULL ? strtod(at + strlen(quoted), NULL) : otherwise;
}

static bool has_member(const char *text, const char *name, const char *value) {
  char quoted[256];
  snprintf(quoted, sizeof(quoted), "\"%s\": \"%s\"", name, value);
  return strstr(text, quoted) != NULL;
}

/* A candidate that was measured before. */
static void weigh_again(job *j, const tn__te *te, const tn__schedule_options *options) {
  const tn__plan_unit unit = tn__rule_plan_unit_of(te, j->target, options);
  const tn__sketch *k = tn__sketch_named(unit.rules, unit.te, j->target, options, j->rule);
  if (k == NULL) tn__throwf(j->arena->escape, TN_INVALID_ARGUMENT, "the rule does not fit");
  for (int d = 0; d < k->decision_count; d++)
    j->drawn[d] =
        (int64_t)member(strstr(j->measured, "\"decisions\""), k->decisions[d].name, (double)k->decisions[d].choices[0]);
  j->predicted = tn__sketch_cost(k, j->drawn, NULL);
  j->weighed = weigh(&unit, k, j->drawn);
  describe(j, k, j->drawn);
}

static const tn__schedule *prepare_candidate(job *j, const tn__te *te, const tn__schedule_options *options) {
  const tn__plan_unit unit = tn__rule_plan_unit_of(te, j->target, options);
  const tn__sketch *k = tn__sketch_named(unit.rules, unit.te, j->target, options, j->rule);
  tn__escape *escape = j->arena->escape;
  if (k == NULL) tn__throwf(escape, TN_INVALID_ARGUMENT, "the rule does not fit");
  for (int tries = 0; tries < (j->point < 0 ? 100000 : 1); tries++) {
    int64_t point = j->point < 0 ? (int64_t)(next_random(j->random) % (uint64_t)j->points) : j->point;
    tn__sketch_at(k, point, j->drawn);
    if (j->with != NULL) decide(k, j, j->drawn), tries = 100000;
    j->predicted = tn__sketch_cost(k, j->drawn, NULL);
    if (isfinite(j->predicted)) break;
  }
  if (!isfinite(j->predicted)) tn__throwf(escape, TN_INVALID_ARGUMENT, "the sketch has no such point");
  j->weighed = weigh(&unit, k, j->drawn);
  describe(j, k, j->drawn);
  return tn__sketch_apply(k, j->drawn);
}

static bool is_new(bench *b, const tn__schedule *schedule);

static void prepare(tn__escape *escape, void *arg) {
  job *j = arg;
  j->arena->escape = escape;
  tn__te *te = declare(j->arena, j->what, j->target);
  tn__schedule_options options = {.threads = 1};
  const tn__schedule *schedule;
  if (j->measured != NULL && j->rule != NULL) {
    weigh_again(j, te, &options);
    return;
  }
  if (j->rule == NULL)
    schedule = prepare_choice(j, te, &options);
  else
    schedule = prepare_candidate(j, te, &options);
  if (j->measured != NULL) return;
  if (!is_new(j->bench, schedule)) tn__throwf(escape, TN_INVALID_ARGUMENT, "these steps were measured");
  operands *o = j->operands;
  if (o->count == 0) {
    for (int i = 0; i < tn__te_input_count(te); i++) o->buffer[o->count++] = new_operand(te, tn__te_input_at(te, i));
    if (j->far >= 0 && j->far < o->count)
      o->far = o->buffer[j->far], o->far_bytes = buffer_bytes(tn__te_input_at(te, j->far));
    for (int i = 0; i < tn__te_output_count(te); i++)
      o->buffer[o->count++] = new_memory(buffer_bytes(tn__te_output_at(te, i)));
  }
  compile(j->kernel, te, schedule, j->target);
}

/* False when the schedule was refused. */
static bool build(job *j) {
  tn__arena arena;
  tn__arena_init(&arena, NULL, NULL);
  j->arena = &arena;
  tn__escape escape;
  tn_status *status = tn__protect(&escape, prepare, j);
  tn__arena_release(&arena);
  if (status == NULL) return true;
  if (tn_status_code_of(status) != TN_INVALID_ARGUMENT || j->rule == NULL) {
    fprintf(stderr, "bench_schedules: %s\n", tn_status_message(status));
    exit(5);
  }
  tn_status_free(status);
  return false;
}

/* ---- how well times are predicted -------------------------------------------------------------------------------- */

typedef struct sample {
  int rule; /* of the job's */
  const char *rule_name;
  double predicted, seconds;
  double weighed; /* by the rule that competes, which weighs schedules of others, too; NAN: it cannot tell */
  kernel kernel;
  char *text; /* its decisions */
} sample;

/* Pairs whose times are a factor of 1.3 apart, and those among them that are predicted in that order. */
typedef struct pairs {
  int64_t apart, ordered;
} pairs;

/* Pairs of candidates of the same declarations. */
typedef struct tally {
  char class[64];
  pairs same, other;      /* of candidates of one rule; of two */
  int declarations, near; /* those whose static choice takes at most 1.15 times the best one's time */
  double logs, worst;     /* of the static choice's time over the best one's */
} tally;

struct bench {
  const tn__target *target;
  int candidates, far;
  double seconds; /* of each declaration's candidates, at the most */
  bool verbose;
  const char *with;
  bool own;
  FILE *table, *json; /* NULL: none */
  const char *again;  /* the path of a table; NULL: none */
  int written;        /* declarations, to `json` */
  tally tallies[64];
  int tally_count;
  double slowest, choosing; /* seconds: the longest choice; weighing of all candidates */
  int64_t weighed;
  sample *samples; /* of the current declaration; the static choice is the first */
  int sample_count;
  uint64_t *seen; /* hashes of their steps */
  int seen_count;
};

/* Has no candidate had these steps? Remembers them. */
static bool is_new(bench *b, const tn__schedule *schedule) {
  tn__strbuf text;
  uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
  tn__strbuf_init(&text, NULL);
  tn__sched_trace_print(schedule, &text);
  for (const char *c = tn__strbuf_text(&text); *c != 0; c++)
    hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
  tn__strbuf_release(&text);
  for (int i = 0; i < b->seen_count; i++)
    if (b->seen[i] == hash) return false;
  if (b->seen_count <= b->candidates) b->seen[b->seen_count++] = hash;
  return true;
}

static tally *tally_of(bench *b, const char *class) {
  for (int i = 0; i < b->tally_count; i++)
    if (strcmp(b->tallies[i].class, class) == 0) return &b->tallies[i];
  if (b->tally_count == (int)(sizeof(b->tallies) / sizeof(b->tallies[0]))) {
    fprintf(stderr, "bench_schedules: too many files\n");
    exit(2);
  }
  tally *t = &b->tallies[b->tally_count++];
  snprintf(t->class, sizeof(t->class), "%s", class);
  return t;
}

static void count_pairs(const bench *b, tally *out) {
  for (int i = 0; i < b->sample_count; i++) {
    for (int k = 0; k < i; k++) {
      const sample *slow = &b->samples[i], *fast = &b->samples[k];
      if (slow->seconds < fast->seconds) slow = &b->samples[k], fast = &b->samples[i];
      if (slow->seconds <= 1.3 * fast->seconds) continue;
      pairs *p = slow->rule == fast->rule ? &out->same : &out->other;
      bool by_one = p == &out->other && !isnan(slow->weighed) && !isnan(fast->weighed);
      p->apart++;
      p->ordered += by_one ? slow->weighed > fast->weighed : slow->predicted > fast->predicted;
    }
  }
}

/* "rows 4, vectors 2" as members of an object. */
static void write_decisions(FILE *out, const char *text) {
  for (const char *p = text; *p != 0;) {
    int length = (int)strcspn(p, ","), name = length;
    while (name > 0 && p[name] != ' ') name--;
    fprintf(out, "%s\"%.*s\": %.*s", p == text ? "" : ", ", name, p, length - name - 1, p + name + 1);
    p += length;
    p += strspn(p, ", ");
  }
}

static void write_sample(const bench *b, const job *j, const sample *of) {
  if (b->table == NULL) return;
  /* No name of ours needs to be escaped. */
  fprintf(b->table, "{\"class\": \"%s\", \"declaration\": \"%s\", \"rule\": \"%s\", \"decisions\": {", j->what->class,
          j->what->name, of->rule_name);
  write_decisions(b->table, of->text);
  fprintf(b->table, "}, \"predicted\": %.6g, ", of->predicted);
  if (!isnan(of->weighed)) fprintf(b->table, "\"weighed\": %.6g, ", of->weighed);
  fprintf(b->table, "\"seconds\": %.4g}\n", of->seconds);
}

/* ---- one declaration's candidates -------------------------------------------------------------------------------- */

/* What was compiled last, with its first runs. */
static void add_sample(bench *b, const job *j, const char *rule, double seconds, double best) {
  sample *own = &b->samples[b->sample_count++];
  *own = (sample){.rule = j->asked, .rule_name = rule, .predicted = j->predicted, .weighed = j->weighed};
  own->kernel = *j->kernel;
  own->text = malloc(strlen(j->text) + 1);
  if (own->text == NULL) exit(3);
  memcpy(own->text, j->text, strlen(j->text) + 1);
  own->seconds = measure(&own->kernel, j->operands, seconds, INFINITY, best);
}

/* The fastest candidate; the static choice, which is the first, among equals. */
static int fastest(const bench *b) {
  int best = 0;
  for (int i = 1; i < b->sample_count; i++)
    if (b->samples[i].seconds < b->samples[best].seconds) best = i;
  return best;
}

/* Other work on the machine comes and goes, so that all are measured in turns, and more often what may be the best. */
static void measure_again(bench *b, const job *j) {
  enum { ROUNDS = 3, LAST_ROUNDS = 6 };
  for (int round = 0; round < ROUNDS + LAST_ROUNDS; round++) {
    double best = b->samples[fastest(b)].seconds;
    for (int i = 0; i < b->sample_count; i++) {
      sample *s = &b->samples[i];
      bool near = s->seconds < 1.3 * best || i == 0;
      if (round >= ROUNDS ? !near : s->seconds > 0.01 && !near) continue;
      s->seconds = measure(&s->kernel, j->operands, near ? 0.003 : 0.001, s->seconds, best);
    }
  }
}

/* Compiles candidates out of the sketch of one rule, and runs each for a moment: so many at the most, for `seconds`.
 * Those whose steps are the same as of others are left out. */
static void try_rule(bench *b, job *j, int rule, uint64_t *random, int most, double seconds) {
  kernel other;
  double start = now(), best = b->samples[0].seconds;
  int64_t points = j->rules[rule].points, tries = 4 * (int64_t)most;
  bool all = points <= most;
  j->asked = rule;
  j->rule = j->rules[rule].name;
  j->points = points;
  j->random = random;
  j->kernel = &other;
  j->with = b->with;
  for (int64_t i = 0; i < (all ? points : tries) && most > 0 && now() - start < seconds; i++) {
    if (b->with != NULL && i > 0) {
      j->with = strchr(j->with, ';');
      if (j->with == NULL) break;
      j->with++;
    }
    j->point = all && b->with == NULL ? i : -1;
    if (!build(j)) continue;
    most--;
    add_sample(b, j, j->rule, 0.001, best);
    const sample *own = &b->samples[b->sample_count - 1];
    if (b->verbose)
      printf("    %9.1f us, predicted %9.0f cycles (%.0f): %s: %s\n", own->seconds * 1e6, j->predicted, j->weighed,
             j->rule, j->text);
    best = fmin(best, own->seconds);
  }
}

/* A member of an object, unless there is no such pair. */
static void write_share(FILE *out, const char *name, const pairs *p) {
  if (p->apart > 0)
    fprintf(out, ", \"%s\": %lld, \"%s in order\": %.4f", name, (long long)p->apart, name,
            (double)p->ordered / (double)p->apart);
}

static void write_declaration(bench *b, const job *j, double ratio, const tally *own) {
  const sample *chosen = &b->samples[0], *best = &b->samples[fastest(b)];
  if (b->json == NULL) return;
  fprintf(b->json,
          "%s\n  {\"class\": \"%s\", \"declaration\": \"%s\", \"rule\": \"%s\", \"best rule\": \"%s\", "
          "\"candidates\": %d, \"seconds\": %.4g, \"ratio\": %.3f, \"choice seconds\": %.4g",
          b->written++ > 0 ? "," : "{\"declarations\": [", j->what->class, j->what->name, chosen->rule_name,
          best->rule_name, b->sample_count, chosen->seconds, ratio, j->planning);
  if (j->chosen_of > 0) fprintf(b->json, ", \"candidate seconds\": %.3g", j->choosing / (double)j->chosen_of);
  write_share(b->json, "pairs", &own->same);
  write_share(b->json, "pairs of two rules", &own->other);
  fprintf(b->json, "}");
}

static void add_pairs(pairs *to, const pairs *from) {
  to->apart += from->apart;
  to->ordered += from->ordered;
}

/* What is left of the allowance goes to the rules that have more candidates than their share. */
static void try_rules(bench *b, job *j, uint64_t *random) {
  int order[MOST_RULES];
  double start = now();
  for (int r = 0; r < j->rule_count; r++) {
    int at = r;
    for (; at > 0 && j->rules[order[at - 1]].points > j->rules[r].points; at--) order[at] = order[at - 1];
    order[at] = r;
  }
  for (int r = 0; r < j->rule_count; r++) {
    int left = j->rule_count - r;
    double seconds = b->seconds - (now() - start);
    try_rule(b, j, order[r], random, (b->candidates + 1 - b->sample_count) / left, seconds / left);
  }
}

static void count_declaration(bench *b, const job *j, double ratio) {
  tally own = {.declarations = 1}, *t = tally_of(b, j->what->class);
  count_pairs(b, &own);
  write_declaration(b, j, ratio, &own);
  add_pairs(&t->same, &own.same);
  add_pairs(&t->other, &own.other);
  t->declarations++;
  t->near += ratio <= 1.15;
  t->logs += log(ratio);
  t->worst = fmax(t->worst, ratio);
  b->slowest = fmax(b->slowest, j->planning);
  b->choosing += j->choosing;
  b->weighed += j->chosen_of;
}

/* What was measured before, as it is weighed now. The choice comes first, with its time if it is among that. */
static void try_again(bench *b, const subject *what) {
  operands none = {.count = 0};
  kernel unused = {.code = NULL};
  job j = {.what = what, .target = b->target, .kernel = &unused, .operands = &none, .own = true, .measured = ""};
  static char line[8192];
  char names[MOST_RULES][64] = {""};
  char chosen[sizeof(j.text)];
  FILE *table = fopen(b->again, "r");
  double time = NAN;
  j.bench = b;
  b->sample_count = 0;
  build(&j);
  snprintf(chosen, sizeof(chosen), "%s", j.text);
  while (table != NULL && fgets(line, sizeof(line), table) != NULL && b->sample_count < b->candidates) {
    char rule[64] = "";
    const char *at = strstr(line, "\"rule\": \"");
    if (at == NULL || !has_member(line, "class", what->class) || !has_member(line, "declaration", what->name)) continue;
    snprintf(rule, sizeof(rule), "%.*s", (int)strcspn(at + 9, "\""), at + 9);
    j.measured = line;
    j.rule = rule;
    if (!build(&j)) continue;
    int place = 0;
    while (place < MOST_RULES - 1 && names[place][0] != 0 && strcmp(names[place], rule) != 0) place++;
    snprintf(names[place], sizeof(names[place]), "%s", rule);
    sample *own = &b->samples[b->sample_count++];
    *own = (sample){.rule = place, .rule_name = names[place], .predicted = j.predicted, .weighed = j.weighed};
    own->seconds = member(line, "seconds", NAN);
    own->text = j.text;
    write_sample(b, &j, own);
    if (strcmp(rule, j.rule_name) == 0 && strcmp(j.text, chosen) == 0) time = own->seconds;
  }
  if (table != NULL) fclose(table);
  if (b->sample_count == 0) return;
  double ratio = time / b->samples[fastest(b)].seconds;
  printf("%5.2f  %9.1f us  %s, %d candidates\n       %s: %s\n", ratio, time * 1e6, what->name, b->sample_count,
         j.rule_name, chosen);
  count_declaration(b, &j, isnan(ratio) ? 1 : ratio);
}

static void try_declaration(bench *b, const subject *what, uint64_t seed) {
  if (b->again != NULL) {
    try_again(b, what);
    return;
  }
  kernel chosen;
  operands given = {.count = 0};
  job j = {.what = what, .target = b->target, .kernel = &chosen, .operands = &given, .far = b->far, .own = b->own};
  j.bench = b;
  b->sample_count = b->seen_count = 0;
  build(&j);
  add_sample(b, &j, j.rule_name, 0.02, INFINITY);
  try_rules(b, &j, &seed);
  measure_again(b, &j);
  const sample *first = &b->samples[0], *best = &b->samples[fastest(b)];
  double ratio = first->seconds / best->seconds;
  printf("%5.2f  %9.1f us  %6.2f ms, %6.2f for %5lld  %s, %d candidates\n       %s: %s\n", ratio, first->seconds * 1e6,
         j.planning * 1e3, j.choosing * 1e3, (long long)j.chosen_of, what->name, b->sample_count, first->rule_name,
         first->text);
  if (ratio > 1) {
    printf("  best %s: %s (predicted %.2f of it", best->rule_name, best->text, best->predicted / first->predicted);
    if (!isnan(best->weighed / first->weighed)) printf(", by one function %.2f", best->weighed / first->weighed);
    printf(")\n");
  }
  fflush(stdout);
  count_declaration(b, &j, ratio);
  for (int i = 0; i < b->sample_count; i++) {
    write_sample(b, &j, &b->samples[i]);
    drop(&b->samples[i].kernel);
    free(b->samples[i].text);
  }
  for (int i = 0; i < given.count; i++) free(given.buffer[i]);
  free(given.workspace);
}

static void print_pairs(const pairs *p, const char *of) {
  if (p->apart > 0)
    printf("; %.1f %% of %lld pairs of %s in order", 100.0 * (double)p->ordered / (double)p->apart, (long long)p->apart,
           of);
}

static void print_tally(const bench *b, const char *name, const tally *t, bool first) {
  double mean = exp(t->logs / t->declarations);
  printf("%s: %d declarations, %d within 1.15, geometric mean %.3f, worst %.2f", name, t->declarations, t->near, mean,
         t->worst);
  print_pairs(&t->same, "one rule");
  print_pairs(&t->other, "two");
  printf("\n");
  if (b->json == NULL) return;
  fprintf(b->json,
          "%s\n  {\"class\": \"%s\", \"declarations\": %d, \"within 1.15\": %d, \"mean\": %.4f, \"worst\": %.3f",
          first ? "" : ",", name, t->declarations, t->near, mean, t->worst);
  write_share(b->json, "pairs", &t->same);
  write_share(b->json, "pairs of two rules", &t->other);
  fprintf(b->json, "}");
}

static void print_tallies(const bench *b) {
  tally all = {.worst = 1};
  if (b->json != NULL) fprintf(b->json, "%s],\n\"classes\": [", b->written == 0 ? "{\"declarations\": [" : "");
  for (int i = 0; i < b->tally_count; i++) {
    const tally *t = &b->tallies[i];
    print_tally(b, t->class, t, i == 0);
    all.declarations += t->declarations;
    all.near += t->near;
    all.logs += t->logs;
    all.worst = fmax(all.worst, t->worst);
    add_pairs(&all.same, &t->same);
    add_pairs(&all.other, &t->other);
  }
  if (all.declarations > 0) print_tally(b, "all", &all, false);
  double each = b->weighed > 0 ? b->choosing / (double)b->weighed : 0;
  if (b->json != NULL)
    fprintf(b->json, "],\n\"candidate seconds\": %.3g, \"longest choice seconds\": %.4g}\n", each, b->slowest);
  if (all.declarations > 0)
    printf("%.2f us a weighed candidate; choosing took %.2f ms at the most\n", each * 1e6, b->slowest * 1e3);
}

/* ---- what is measured -------------------------------------------------------------------------------------------- */

typedef struct file_kernels {
  bench *bench;
  const char *path;
  const regex_t *only; /* NULL: all */
  int each;            /* so many of them */
  uint64_t *random;
} file_kernels;

static bool is_wanted(const regex_t *only, const char *name) {
  return only == NULL || regexec(only, name, 0, NULL, 0) == 0;
}

/* The name of the kernel; NULL when it is not measured: some dimension of it is open, or another is wanted. */
static const char *wanted_name(tn__arena *arena, const file_kernels *f, const tn__te_source *source, int index) {
  tn__te *te;
  if (tn__te_kernel_dim_count(source, index) > 0) return NULL;
  tn__check(arena->escape, tn__te_declare(source, index, NULL, 0, tn__ir_create(arena), &te));
  return is_wanted(f->only, tn__te_name(te)) ? tn__te_name(te) : NULL;
}

static void try_file(tn__arena *arena, void *user) {
  const file_kernels *f = user;
  tn__te_source *source = read_file(arena, f->path);
  const char *stem = strrchr(f->path, '/');
  stem = stem != NULL ? stem + 1 : f->path;
  int all = 0, at = 0;
  for (int i = 0; i < tn__te_kernel_count(source); i++) all += wanted_name(arena, f, source, i) != NULL;
  if (all == 0) return;
  int wanted = f->each > 0 && f->each < all ? f->each : all;
  for (int i = 0; i < tn__te_kernel_count(source); i++) {
    const char *name = wanted_name(arena, f, source, i);
    if (name == NULL) continue;
    int place = at++;
    uint64_t draws = next_random(f->random);
    if ((place + 1) * wanted / all == place * wanted / all) continue; /* spread evenly */
    subject what = {.path = f->path, .kernel = i};
    snprintf(what.class, sizeof(what.class), "%.*s", (int)strcspn(stem, "."), stem);
    snprintf(what.name, sizeof(what.name), "%s", name);
    try_declaration(f->bench, &what, draws);
  }
}

static void try_shape(bench *b, const shape *s, uint64_t seed) {
  subject what = {.shape = *s};
  snprintf(what.class, sizeof(what.class), "%s", kind_names[s->kind]);
  print_shape(s, what.name, sizeof(what.name));
  try_declaration(b, &what, seed);
}

static long number(char **argv, int *i, int argc) {
  if (*i + 1 >= argc) {
    fprintf(stderr, "bench_schedules: %s takes a value\n", argv[*i]);
    exit(2);
  }
  return strtol(argv[++*i], NULL, 10);
}

TN_MUST_USE static bool read_shape(const char *text, shape *out) {
  size_t length = strcspn(text, ",");
  *out = (shape){.kind = 0};
  while (out->kind < KINDS &&
         (strlen(kind_names[out->kind]) != length || strncmp(kind_names[out->kind], text, length) != 0))
    out->kind++;
  if (out->kind == KINDS) return false;
  for (int i = 0; i < 6 && text[length] == ','; i++) {
    char *end;
    out->n[i] = strtoll(text + length + 1, &end, 10);
    length = (size_t)(end - text);
  }
  return text[length] == 0;
}

typedef struct arguments {
  long seed, count, candidates, seconds, each;
  const char *only, *table, *json, *machine, *with, *again;
  long far; /* -1: none */
  bool verbose, own;
  shape given;
  int files; /* the first argument that names one */
} arguments;

static arguments read_arguments(int argc, char **argv) {
  arguments a = {.seed = 1, .count = 30, .candidates = 200, .seconds = 60, .given = {.kind = KINDS}, .far = -1};
  a.files = argc;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--seed") == 0) {
      a.seed = number(argv, &i, argc);
    } else if (strcmp(argv[i], "--count") == 0) {
      a.count = number(argv, &i, argc);
    } else if (strcmp(argv[i], "--candidates") == 0) {
      a.candidates = number(argv, &i, argc);
    } else if (strcmp(argv[i], "--seconds") == 0) {
      a.seconds = number(argv, &i, argc);
    } else if (strcmp(argv[i], "--each") == 0) {
      a.each = number(argv, &i, argc);
    } else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
      a.only = argv[++i];
    } else if (strcmp(argv[i], "--table") == 0 && i + 1 < argc) {
      a.table = argv[++i];
    } else if (strcmp(argv[i], "--again") == 0 && i + 1 < argc) {
      a.again = argv[++i];
    } else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      a.json = argv[++i];
    } else if (strcmp(argv[i], "--machine") == 0 && i + 1 < argc) {
      a.machine = argv[++i];
    } else if (strcmp(argv[i], "--with") == 0 && i + 1 < argc) {
      a.with = argv[++i];
    } else if (strcmp(argv[i], "--far") == 0) {
      a.far = number(argv, &i, argc);
    } else if (strcmp(argv[i], "--shape") == 0 && i + 1 < argc) {
      if (!read_shape(argv[++i], &a.given)) {
        fprintf(stderr, "bench_schedules: %s is no shape: KIND,N,N... with a KIND such as packed or convolution\n",
                argv[i]);
        exit(2);
      }
      a.count = 1;
    } else if (strcmp(argv[i], "--verbose") == 0) {
      a.verbose = true;
    } else if (strcmp(argv[i], "--own") == 0) {
      a.own = true;
    } else if (argv[i][0] != '-') {
      a.files = i;
      break;
    } else {
      fprintf(stderr,
              "usage: bench_schedules [--seed N] [--count N] [--candidates N] [--seconds N] [--only REGEX]\n"
              "                       [--each N] [--shape KIND,N...] [--machine FILE] [--far N] [--with TEXT] [--own]\n"
              "                       [--table FILE] [--json FILE] [--again TABLE] [--verbose] [FILE.te...]\n");
      exit(2);
    }
  }
  return a;
}

static void fail(tn_status *status) {
  if (status == NULL) return;
  fprintf(stderr, "bench_schedules: %s\n", tn_status_message(status));
  exit(1);
}

static void use_machine(const char *path, tn__target *target) {
  tn__machine machine = target->cpu.row;
  tn__file_map text;
  if (path == NULL) return;
  fail(tn__file_map_open(path, &text));
  fail(tn__machine_read(path, (const char *)text.data, text.size, target->cpu.arch, &machine));
  tn__file_map_close(&text);
  tn__target_use(target, &machine);
}

/* NULL without a path. */
static FILE *open_for_writing(const char *path) {
  FILE *out = path != NULL ? fopen(path, "w") : NULL;
  if (path != NULL && out == NULL) {
    fprintf(stderr, "bench_schedules: %s cannot be written\n", path);
    exit(1);
  }
  return out;
}

static void close_written(FILE *out, const char *path) {
  if (out == NULL || fclose(out) == 0) return;
  fprintf(stderr, "bench_schedules: %s cannot be written\n", path);
  exit(1);
}

int main(int argc, char **argv) {
  arguments a = read_arguments(argc, argv);
  tn__target target;
  regex_t only;
  if (a.only != NULL && regcomp(&only, a.only, REG_EXTENDED | REG_NOSUB) != 0) {
    fprintf(stderr, "bench_schedules: --only %s is no regular expression\n", a.only);
    return 2;
  }
  fail(tn__target_parse(NULL, &target));
  use_machine(a.machine, &target);
  bench b = {.target = &target,
             .candidates = (int)a.candidates,
             .seconds = (double)a.seconds,
             .far = (int)a.far,
             .with = a.with,
             .own = a.own || a.with != NULL,
             .again = a.again,
             .verbose = a.verbose,
             .table = open_for_writing(a.table),
             .json = open_for_writing(a.json),
             .samples = malloc(sizeof(sample) * (size_t)(a.candidates + 1)),
             .seen = malloc(sizeof(uint64_t) * (size_t)(a.candidates + 1))};
  if (b.samples == NULL || b.seen == NULL) return 3;
  uint64_t state = (uint64_t)a.seed;
  printf("ratio       static   choice, candidates weighed   declaration\n");
  for (int i = a.files; i < argc; i++) {
    file_kernels f = {&b, argv[i], a.only != NULL ? &only : NULL, (int)a.each, &state};
    fail(tn__with_arena(NULL, try_file, &f));
  }
  for (int i = 0; i < a.count && a.files == argc; i++) {
    shape s = random_shape(i, &state);
    if (a.given.kind != KINDS) s = a.given;
    uint64_t draws = next_random(&state);
    if (is_wanted(a.only != NULL ? &only : NULL, kind_names[s.kind])) try_shape(&b, &s, draws);
  }
  print_tallies(&b);
  free(b.samples);
  free(b.seen);
  if (a.only != NULL) regfree(&only);
  close_written(b.table, a.table);
  close_written(b.json, a.json);
  return 0;
}
