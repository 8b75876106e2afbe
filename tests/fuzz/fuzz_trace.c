/* The reader of traces: any text gives a schedule or an error that names a line. Text that begins with a digit is the
 * steps of a trace for the declaration of that number, and gets the right head; what such a trace makes of the
 * declaration must verify, print, replay to itself, and compute the same. */
#include "fuzz/fuzz.h"
#include "unit/schedule_oracle.h"

static void check_error(tn_status *status) {
  tn_status_code code = tn_status_code_of(status);
  require(code == TN_INVALID_ARGUMENT && strncmp(tn_status_message(status), "trace:", 6) == 0);
  tn_status_free(status);
}

/* May the interpreter run it in a moment? */
static bool is_small(const tn__schedule *s) {
  tn__snodes blocks = {0};
  tn__sched_blocks(tn__sched_mutable(s), s->root, &blocks);
  for (int i = 0; i < blocks.count; i++) {
    int64_t times = 1, extent;
    for (const tn__snode *n = blocks.data[i]->parent; n->var != NULL; n = n->parent) {
      if (!tn__ir_as_int(n->var->extent, &extent)) extent = OPEN_DIM;
      if (extent < 1 || extent > 10000 || times > 10000) return false;
      times *= extent;
    }
  }
  return blocks.count < 20;
}

/* Expanding unrolled loops in unrolled loops takes as long as the pass allows. */
static tn_status *check_small(const tn__schedule *s, const pair *p, void *user) {
  if (tn__stmt_weight(tn__schedule_func(s)->body) > MOST_STATEMENTS) return NULL;
  return check_pair(s, p, user);
}

static tn_status *replay(tn__ir *ir, const recipe *r, const tn__target *target, const char *text) {
  tn__te *te = make_recipe(ir, r);
  tn__schedule *s;
  TN_RETURN_IF_ERROR(tn__sched_trace_replay(te, target, text, &s));
  pair p = {.r = *r};
  if (!is_small(s)) return NULL;
  attempt a = {.s = s, .p = &p, .check = check_small};
  tn_status *status = attempted(&a, attempt_check);
  /* Steps that leave no function are found at the end only. */
  if (tn_status_code_of(status) == TN_INVALID_ARGUMENT) {
    tn_status_free(status);
    return NULL;
  }
  require(status == NULL);
  return NULL;
}

static void run(tn__escape *escape, void *user) {
  fuzz_input *j = user;
  j->arena.escape = escape;
  tn__ir *ir = tn__ir_create(&j->arena);
  tn__target target;
  oracle_target(&target);
  const char *text = tn__arena_strndup(&j->arena, (const char *)j->data, j->size);
  recipe r = {.dtype = TN_F32, .dims = {3, 5, 4}, .stride = 1, .variant = 2};
  if (j->size > 0 && text[0] >= '0' && text[0] <= '9') {
    r.kind = text[0] - '0';
    char digest[17];
    tn__sched_digest(make_recipe(ir, &r), digest);
    text = tn__arena_printf(&j->arena, "trace 1 %s\n%s", digest, text + 1);
  }
  tn_status *status = replay(ir, &r, &target, text);
  if (status != NULL) check_error(status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size <= 4096) require(fuzz_with(data, size, run) == NULL);
  return 0;
}
