/* Compiles graphs that a test builds by hand, and runs them. */
#ifndef TENON_TESTS_UNIT_COMPILE_CHECK_H
#define TENON_TESTS_UNIT_COMPILE_CHECK_H

#include "driver/driver.h"
#include "unit/check.h"
#include "unit/failing_allocator.h"

typedef struct compile_case {
  void (*build)(tn__graph *g);
  void (*build_from)(tn__graph *g, const void *from); /* where `build` is NULL */
  const void *from;
  tn_executable *executable;
  int threads;
  const char *target; /* NULL: this machine */
} compile_case;

static inline void compile_graph(tn__arena *arena, void *user) {
  compile_case *k = user;
  tn_compile_options options = {
      .size = sizeof options, .no_cache = true, .run_threads = k->threads, .target = k->target};
  tn__compilation *c = TN__NEW(arena, tn__compilation);
  tn__driver_init(&c->driver, arena, &options);
  c->graph = tn__graph_create(tn__ir_create(arena), "test");
  if (k->build != NULL)
    k->build(c->graph);
  else
    k->build_from(c->graph, k->from);
  tn__compilation_prepare(c);
  tn__compilation_back(c);
  tn__bytes file = tn__exe_join(arena, &c->executable);
  tn__check(arena->escape, tn_executable_load_memory(file.data, file.size, NULL, &k->executable));
}

static inline tn_session *compile(compile_case *k) {
  check_ok(tn__with_arena(NULL, compile_graph, k));
  tn_session *session;
  tn_session_options options = {.size = sizeof options, .threads = k->threads};
  check_ok(tn_session_create(k->executable, &options, &session));
  return session;
}

static inline void finish(compile_case *k, tn_session *session) {
  tn_session_release(session);
  tn_executable_release(k->executable);
}

/* Runs in new sessions, in each with another allocation of the run refused, until none is left to refuse: `run` must
 * fail cleanly, unless the session has something to give back for it, and `run_again` find the session as good as
 * before. Returns how many were refused. */
static inline int refuse_each_allocation(const tn_executable *exe, tn_status *(*run)(tn_session *session),
                                         void (*run_again)(tn_session *session)) {
  for (int refused = 0;; refused++) {
    failing_allocator memory;
    failing_allocator_init(&memory, -1);
    tn_session_options options = {.size = sizeof options, .threads = 1, .allocator = &memory.allocator};
    tn_session *session;
    check_ok(tn_session_create(exe, &options, &session));
    memory.fail_at = memory.calls + refused;
    tn_status *status = run(session);
    bool reached = memory.calls > memory.fail_at;
    if (status != NULL) assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
    assert_true(reached || status == NULL);
    tn_status_free(status);
    memory.fail_at = -1;
    run_again(session);
    tn_session_release(session);
    assert_int_equal(memory.live_count, 0);
    if (!reached) return refused;
  }
}

static inline DLTensor f32(float *data, int rank, int64_t *shape) {
  return (DLTensor){.data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = {kDLFloat, 32, 1}, .shape = shape};
}

#endif
