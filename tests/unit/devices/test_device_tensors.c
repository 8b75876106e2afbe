/* Callers' tensors on devices: what is bound there is used where it is, what is bound on the host is copied once, and
 * tensors that the library made live as long as somebody wants them. On an island, and on OpenCL's first device where
 * there is one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tenon/compile.h"
#include "unit/devices.h"
#include "unit/failing_allocator.h"
#include "unit/profile_check.h"

enum { N = 24, BYTES = N * 4 };

/* y = -|x|, y is made of a on the device; z = a + a on the host. */
static const char text[] =
    "graph \"g\" {\n  input x: f32[n]\n  a: f32[n] = abs(x)\n  y: f32[n] = negate(a)\n  z: f32[n] = add(a, a)\n"
    "  output \"y\" = y\n  output \"z\" = z\n}\n";

static const char *device_name;
static DLDevice there;
static const DLDevice host = {kDLCPU, 0};

static tn_executable *load(const char *graph, size_t length, const char *const *place, int place_count,
                           const tn_load_options *options) {
  tn_module *module;
  tn_executable *exe;
  char targets[64];
  snprintf(targets, sizeof targets, "native;%s;island -device=3", device_name);
  tn_compile_options compile = {
      .size = sizeof compile, .target = targets, .host = "native", .place = place, .place_count = place_count};
  check_ok(tn_compile("g.tng", graph, length, &compile, &module));
  check_ok(tn_module_load(module, options, &exe));
  tn_module_release(module);
  return exe;
}

static tn_executable *load_text(const tn_load_options *options) {
  char a[32], y[32];
  snprintf(a, sizeof a, "a=%s:0", device_name);
  snprintf(y, sizeof y, "y=%s:0", device_name);
  const char *const place[] = {a, y, "z=cpu:0"};
  return load(text, sizeof text - 1, place, 3, options);
}

static DLManagedTensorVersioned *make(const tn_executable *exe, DLDevice device) {
  DLManagedTensorVersioned *tensor;
  const int64_t shape[1] = {N};
  check_ok(tn_device_tensor_create(exe, device, TN_F32, 1, shape, &tensor));
  assert_int_equal(tensor->version.major, 1);
  assert_int_equal(tensor->flags, 0);
  assert_int_equal(tensor->dl_tensor.device.device_type, device.device_type);
  assert_int_equal(tensor->dl_tensor.device.device_id, device.device_id);
  return tensor;
}

static DLTensor on_host(float *data) {
  static int64_t shape[1] = {N};
  return (DLTensor){.data = data, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
}

static void write_to(const tn_executable *exe, DLManagedTensorVersioned *tensor, float *data) {
  DLTensor from = on_host(data);
  check_ok(tn_device_tensor_copy(exe, &from, &tensor->dl_tensor));
}

static void read_from(const tn_executable *exe, DLManagedTensorVersioned *tensor, float *data) {
  DLTensor to = on_host(data);
  check_ok(tn_device_tensor_copy(exe, &tensor->dl_tensor, &to));
}

static void fill(float *x, int seed) {
  for (int i = 0; i < N; i++) x[i] = (float)((i + seed) % 5) - 2;
}

static void check_results(const float *x, const float *y, const float *z) {
  for (int i = 0; i < N; i++) {
    float a = x[i] < 0 ? -x[i] : x[i];
    if (y != NULL) assert_true(y[i] == -a);
    if (z != NULL) assert_true(z[i] == a + a);
  }
}

static void test_what_is_told(void **state) {
  tn_executable *exe = load_text(NULL);
  const tn_value_info *values[] = {tn_executable_input(exe, NULL, 0), tn_executable_output(exe, NULL, 0),
                                   tn_executable_output(exe, NULL, 1)};
  for (int i = 0; i < 3; i++) {
    const DLDevice want = i < 2 ? there : host;
    assert_int_equal(values[i]->device.device_type, want.device_type);
    assert_int_equal(values[i]->device.device_id, want.device_id);
  }
  tn_executable_release(exe);
  if (there.device_type != kDLExtDev) return;
  const char *const map[] = {"island:0=cpu:0"};
  const tn_load_options mapped = {.size = sizeof mapped, .device_map = map, .device_map_count = 1};
  exe = load_text(&mapped);
  assert_int_equal(tn_executable_input(exe, NULL, 0)->device.device_type, kDLCPU);
  tn_executable_release(exe);
}

/* Each of the input and the first output on the host, on the device, or, of the output, nowhere. */
static void test_every_way_to_bind(void **state) {
  static _Alignas(64) float x[N], y[N], z[N];
  tn_executable *exe = load_text(NULL);
  DLManagedTensorVersioned *in = make(exe, there), *out = make(exe, there);
  for (int way = 0; way < 6; way++) {
    tn_session *session;
    tn_profile *profile;
    bool away = way % 2 != 0;
    int output = way / 2; /* 0: host, 1: device, 2: nobody's */
    DLTensor host_x = on_host(x), host_y = on_host(y), host_z = on_host(z), result;
    check_ok(tn_session_create(exe, NULL, &session));
    check_ok(tn_session_set_input(session, NULL, "x", away ? &in->dl_tensor : &host_x,
                                  away ? TN_BIND_PERSISTENT_IN_PLACE : TN_BIND_PERSISTENT));
    check_ok(tn_session_set_output(session, NULL, "z", &host_z, TN_BIND_PERSISTENT));
    if (output < 2)
      check_ok(tn_session_set_output(session, NULL, "y", output == 1 ? &out->dl_tensor : &host_y, TN_BIND_PERSISTENT));
    for (int run = 0; run < 3; run++) {
      fill(x, way + run);
      memset(y, 0, sizeof y);
      if (away) write_to(exe, in, x);
      check_ok(tn_session_invoke(session, NULL));
      check_ok(tn_session_get_output(session, NULL, 0, &result));
      assert_int_equal(result.device.device_type, output == 1 ? there.device_type : kDLCPU);
      if (output == 0) assert_ptr_equal(result.data, y);
      if (output == 1) assert_ptr_equal(result.data, out->dl_tensor.data);
      if (output == 1) read_from(exe, out, y);
      check_results(x, output == 2 ? result.data : y, z);
    }
    check_ok(tn_session_start_profile(session, &profile));
    check_ok(tn_session_invoke(session, NULL));
    /* a goes to the host for z, whatever is bound */
    assert_int_equal(copies_of(profile), 1 + !away + (output != 1));
    tn_session_release(session);
  }
  in->deleter(in);
  out->deleter(out);
  tn_executable_release(exe);
}

/* What one session makes another reads, without a copy. */
static void test_from_session_to_session(void **state) {
  static _Alignas(64) float x[N], y[N];
  tn_executable *exe = load_text(NULL);
  tn_session *sessions[2];
  DLManagedTensorVersioned *in = make(exe, there), *between = make(exe, there), *out = make(exe, there);
  for (int i = 0; i < 2; i++) check_ok(tn_session_create(exe, NULL, &sessions[i]));
  fill(x, 1);
  write_to(exe, in, x);
  DLTensor results[2] = {between->dl_tensor, {0}}, last[2] = {out->dl_tensor, {0}};
  check_ok(tn_session_invoke_with_outputs(sessions[0], NULL, &in->dl_tensor, 1, results, 2));
  check_ok(tn_session_invoke_with_outputs(sessions[1], NULL, &between->dl_tensor, 1, last, 2));
  read_from(exe, out, y);
  check_results(x, y, NULL); /* -|-|x|| */
  for (int i = 0; i < 2; i++) tn_session_release(sessions[i]);
  DLManagedTensorVersioned *const all[] = {in, between, out};
  for (int i = 0; i < 3; i++) all[i]->deleter(all[i]);
  tn_executable_release(exe);
}

/* The result of an invoke as the next one's input, on the host: two memories take turns. */
static void test_results_that_are_inputs(void **state) {
  static _Alignas(64) float x[N];
  tn_executable *exe = load_text(NULL);
  tn_session *session;
  DLTensor in = on_host(x), result;
  check_ok(tn_session_create(exe, NULL, &session));
  fill(x, 2);
  for (int run = 0; run < 4; run++) {
    check_ok(tn_session_set_input(session, NULL, "x", &in, TN_BIND_NEXT));
    check_ok(tn_session_invoke(session, NULL));
    check_ok(tn_session_get_output(session, NULL, 0, &result));
    if (run > 0) assert_ptr_not_equal(result.data, in.data);
    check_results(x, result.data, NULL);
    in = result;
  }
  tn_session_release(session);
  tn_executable_release(exe);
}

static void test_a_tensor_that_outlives_its_executable(void **state) {
  static _Alignas(64) float x[N], y[N];
  tn_executable *exe = load_text(NULL);
  DLManagedTensorVersioned *tensor = make(exe, there), *other = make(exe, there), *here = make(exe, host);
  fill(x, 3);
  write_to(exe, tensor, x);
  check_ok(tn_device_tensor_copy(exe, &tensor->dl_tensor, &other->dl_tensor));
  check_ok(tn_device_tensor_copy(exe, &other->dl_tensor, &here->dl_tensor));
  assert_memory_equal(here->dl_tensor.data, x, BYTES);
  read_from(exe, other, y);
  assert_memory_equal(y, x, BYTES);
  tn_executable_release(exe);
  tensor->deleter(tensor);
  here->deleter(here);
  other->deleter(other);
}

/* A value that an island reads may be on another one. */
static void test_copies_between_devices(void **state) {
  static _Alignas(64) float x[N], y[N];
  char a[32];
  snprintf(a, sizeof a, "a=%s:0", device_name);
  const char *const place[] = {a, "y=island:3", "z=cpu:0"};
  tn_executable *exe = load(text, sizeof text - 1, place, 3, NULL);
  DLManagedTensorVersioned *one = make(exe, there), *two = make(exe, (DLDevice){kDLExtDev, 3});
  fill(x, 4);
  write_to(exe, one, x);
  check_ok(tn_device_tensor_copy(exe, &one->dl_tensor, &two->dl_tensor));
  read_from(exe, two, y);
  assert_memory_equal(y, x, BYTES);
  one->deleter(one);
  two->deleter(two);
  tn_executable_release(exe);
}

/* ---- the state of a loop ----------------------------------------------------------------------------------------- */

static const char loop_text[] =
    "graph \"g\" {\n  input x: f32[n]\n  input rounds: i64[]\n  const zero: i64[] = 0\n"
    "  i: i64[], m: i64[], y: f32[n] = while(zero, rounds, x)\n"
    "    graph \"condition\" {\n      input i: i64[]\n      input m: i64[]\n      input s: f32[n]\n"
    "      more: bool[] = compare(i, m) {direction=\"LT\"}\n      output \"more\" = more\n    }\n"
    "    graph \"body\" {\n      input i: i64[]\n      input m: i64[]\n      input s: f32[n]\n"
    "      const one: i64[] = 1\n      j: i64[] = add(i, one)\n      t: f32[n] = add(s, s)\n"
    "      output \"next0\" = j\n      output \"next1\" = m\n      output \"next2\" = t\n    }\n"
    "  output \"y\" = y\n}\n";

static void test_a_loop_between_device_tensors(void **state) {
  static _Alignas(64) float x[N], y[N];
  char t[32];
  snprintf(t, sizeof t, "t=%s:0", device_name);
  const char *const place[] = {t};
  tn_executable *exe = load(loop_text, sizeof loop_text - 1, place, 1, NULL);
  DLManagedTensorVersioned *in = make(exe, there), *out = make(exe, there);
  tn_session *session;
  tn_profile *profile;
  int64_t rounds = 9;
  DLTensor inputs[2] = {in->dl_tensor, {.data = &rounds, .device = {kDLCPU, 0}, .dtype = {kDLInt, 64, 1}}};
  check_ok(tn_session_create(exe, NULL, &session));
  check_ok(tn_session_start_profile(session, &profile));
  fill(x, 5);
  write_to(exe, in, x);
  check_ok(tn_session_invoke_with_outputs(session, NULL, inputs, 2, &out->dl_tensor, 1));
  read_from(exe, out, y);
  for (int i = 0; i < N; i++) assert_true(y[i] == x[i] * 512);
  assert_int_equal(copies_of(profile), 3); /* on the device to the state and from it, and the counter's start */
  tn_session_release(session);
  in->deleter(in);
  out->deleter(out);
  tn_executable_release(exe);
}

/* ---- sizes that values tell -------------------------------------------------------------------------------------- */

/* y = -x where m is true; s = y beside itself, as often as the loop's list says. */
static const char picks[] =
    "graph \"g\" {\n  input x: f32[n]\n  input m: bool[n]\n"
    "  symbol k in [0, +n + 1) = element 0 of found\n  symbol rows = dimension 0 of joined\n"
    "  all: i64[n], found: i64[] = find_true(m)\n"
    "  at: i64[k] = slice(all) {starts=(0), limits=(k), strides=1}\n"
    "  t: f32[k] = take(x, at) {axis=0, trusted=1}\n  y: f32[k] = negate(t)\n"
    "  e: sequence f32[?] = sequence_empty() {dtype=\"f32\", rank=1}\n"
    "  one: sequence f32[?] = sequence_insert(e, y)\n  two: sequence f32[?] = sequence_insert(one, y)\n"
    "  joined: f32[rows] = sequence_join(two) {axis=0, shape=(-1), empty=[0]}\n"
    "  s: f32[rows] = abs(joined)\n"
    "  output \"y\" = y\n  output \"s\" = s\n}\n";

static tn_executable *load_picks(void) {
  char y[32], s[32];
  snprintf(y, sizeof y, "y=%s:0", device_name);
  snprintf(s, sizeof s, "s=%s:0", device_name);
  const char *const place[] = {y, s};
  return load(picks, sizeof picks - 1, place, 2, NULL);
}

/* Results of `count` picked elements, in memory of the device that has room for N, or not, and on the host. */
static void check_picks(tn_session *session, const tn_executable *exe, DLManagedTensorVersioned *const *bound,
                        const float *x, const bool *m) {
  static _Alignas(64) float got[N];
  float want[3 * N];
  int64_t count = 0, room = bound == NULL ? 0 : bound[0]->dl_tensor.shape[0];
  for (int i = 0; i < N; i++)
    if (m[i]) want[count++] = -x[i];
  for (int64_t i = 0; i < 2 * count; i++) want[count + i] = fabsf(want[i % count]);
  tn_status *status = tn_session_invoke(session, NULL);
  if (bound != NULL && room < count) {
    char words[200];
    snprintf(words, sizeof words,
             "output \"y\": the value has shape [%d] and needs %d bytes, and the bound tensor of shape [%d] has %d; "
             "tn_session_get_output() has the value",
             (int)count, (int)count * 4, (int)room, (int)room * 4);
    check_fails(status, TN_OUT_OF_RANGE, words);
  } else {
    check_ok(status);
  }
  for (int k = 0; k < 2; k++) {
    DLTensor result;
    int64_t size = k == 0 ? count : 2 * count;
    bool fits = bound != NULL && bound[k]->dl_tensor.shape[0] >= size;
    check_ok(tn_session_get_output(session, NULL, k, &result));
    assert_int_equal(result.shape[0], size);
    assert_int_equal(result.device.device_type, fits ? there.device_type : kDLCPU);
    if (fits) assert_ptr_equal(result.data, bound[k]->dl_tensor.data);
    if (size == 0) continue;
    DLTensor to = result;
    to.device = host, to.data = got, to.byte_offset = 0;
    if (fits) check_ok(tn_device_tensor_copy(exe, &result, &to));
    assert_memory_equal(fits ? got : result.data, want + (k == 0 ? 0 : count), (size_t)size * 4);
  }
}

/* Bound memory is room: what fits is there, however much of it is used, and what does not is on the host. */
static void test_sizes_that_values_tell(void **state) {
  static _Alignas(64) float x[N];
  static _Alignas(64) bool m[N];
  static const int rooms[] = {-1, N, 4, 0}, counts[] = {4, 0, 1, 6, 4};
  tn_executable *exe = load_picks();
  for (int k = 0; k < 2; k++) {
    const tn_value_info *info = tn_executable_output(exe, NULL, k);
    assert_int_equal(info->size_rule, TN_SIZE_CAPACITY);
    assert_int_equal(info->device.device_type, there.device_type);
  }
  fill(x, 7);
  for (size_t way = 0; way < sizeof rooms / sizeof *rooms; way++) {
    tn_session *session;
    DLManagedTensorVersioned *bound[2] = {NULL, NULL};
    DLTensor in = on_host(x), mask = on_host(x);
    mask.data = m, mask.dtype = tn_dtype_to_dl(TN_BOOL);
    check_ok(tn_session_create(exe, NULL, &session));
    check_ok(tn_session_set_input(session, NULL, "x", &in, TN_BIND_PERSISTENT));
    check_ok(tn_session_set_input(session, NULL, "m", &mask, TN_BIND_PERSISTENT));
    for (int k = 0; k < 2 && rooms[way] >= 0; k++) {
      const int64_t shape[1] = {k == 0 ? rooms[way] : 2 * N};
      check_ok(tn_device_tensor_create(exe, there, TN_F32, 1, shape, &bound[k]));
      check_ok(tn_session_set_output_at(session, NULL, k, &bound[k]->dl_tensor, TN_BIND_PERSISTENT));
    }
    for (size_t run = 0; run < sizeof counts / sizeof *counts; run++) {
      for (int i = 0; i < N; i++) m[i] = i % 3 == 1 && i / 3 < counts[run];
      check_picks(session, exe, bound[0] == NULL ? NULL : bound, x, m);
    }
    tn_session_release(session);
    for (int k = 0; k < 2 && bound[k] != NULL; k++) bound[k]->deleter(bound[k]);
  }
  tn_executable_release(exe);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void test_tensors_that_cannot_be_bound(void **state) {
  static _Alignas(64) float x[2 * N];
  char words[160];
  tn_executable *exe = load_text(NULL);
  tn_session *session;
  DLManagedTensorVersioned *tensor = make(exe, there);
  int64_t two = 2, half = N / 2;
  check_ok(tn_session_create(exe, NULL, &session));
  DLTensor elsewhere = on_host(x), strided = tensor->dl_tensor, odd = tensor->dl_tensor, plain = on_host(x);
  elsewhere.device = (DLDevice){kDLExtDev, 7};
  snprintf(words, sizeof words,
           "input \"x\": the tensor is on island:7 and must be on %s:0 or cpu:0: copy it there first", device_name);
  check_fails(tn_session_set_input(session, NULL, "x", &elsewhere, TN_BIND_NEXT), TN_INVALID_ARGUMENT, words);
  snprintf(words, sizeof words, "output \"z\": the tensor is on %s:0 and must be on cpu:0: copy it there first",
           device_name);
  check_fails(tn_session_set_output(session, NULL, "z", &tensor->dl_tensor, TN_BIND_NEXT), TN_INVALID_ARGUMENT, words);
  strided.strides = &two, strided.shape = &half;
  check_fails(
      tn_session_set_output(session, NULL, "y", &strided, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
      "output \"y\": the tensor of shape [12] has strides [2]: to be used in place it must be dense and row-major");
  odd.byte_offset = 2, odd.shape = &half;
  check_fails(tn_session_set_input(session, NULL, "x", &odd, TN_BIND_NEXT), TN_INVALID_ARGUMENT,
              "input \"x\": the tensor's data is aligned to 2 bytes; to be used in place it must be to 4");
  snprintf(words, sizeof words, "input \"x\": the tensor is on cpu:0; to be used in place it must be on %s:0",
           device_name);
  check_fails(tn_session_set_input(session, NULL, "x", &plain, TN_BIND_NEXT_IN_PLACE), TN_INVALID_ARGUMENT, words);
  tn_session_release(session);
  tensor->deleter(tensor);
  tn_executable_release(exe);
}

/* What is on the same device, but not the executable's that is called, and what is in no device's memory at all. */
static void test_tensors_of_somebody_else(void **state) {
  static _Alignas(64) float x[N], y[N], z[N];
  char words[320];
  tn_executable *own = load_text(NULL), *other = load_text(NULL);
  tn_session *session;
  DLManagedTensorVersioned *tensor = make(own, there), *foreign = make(other, there);
  DLTensor claimed = on_host(z), in = on_host(x), out = on_host(y), outputs[2] = {foreign->dl_tensor, {0}};
  claimed.device = there;
  fill(x, 3);
  check_ok(tn_session_create(own, NULL, &session));
  const DLTensor *const wrong[] = {&foreign->dl_tensor, &claimed};
  for (int i = 0; i < 2; i++) {
    const char *what[] = {"input \"x\"", "output \"y\"", "the tensor to copy from"};
    for (int k = 0; k < 3; k++) {
      snprintf(words, sizeof words,
               "%s: the tensor says that it is on %s:0, but its memory is not that of this executable there: make it "
               "with tn_device_tensor_create(), in Python Model.device_array(), of the executable that it is for",
               what[k], device_name);
      outputs[0] = k == 0 ? tensor->dl_tensor : *wrong[i];
      tn_status *status = k == 2
                              ? tn_device_tensor_copy(own, wrong[i], &out)
                              : tn_session_invoke_with_outputs(session, NULL, k == 0 ? wrong[i] : &in, 1, outputs, 2);
      check_fails(status, TN_INVALID_ARGUMENT, words);
    }
  }
  DLTensor results[2] = {tensor->dl_tensor, {0}}; /* and the session goes on */
  check_ok(tn_session_invoke_with_outputs(session, NULL, &in, 1, results, 2));
  read_from(own, tensor, y);
  check_results(x, y, NULL);
  tn_session_release(session);
  tensor->deleter(tensor);
  foreign->deleter(foreign);
  tn_executable_release(own);
  tn_executable_release(other);
}

/* Tensors that exceed their memory by one element or by many, before or after it, in all bindings and in copies.
 * None of them may be accessed. */
static void test_tensors_that_reach_too_far(void **state) {
  static _Alignas(64) float x[2 * N], y[2 * N], z[2 * N];
  static const struct {
    int64_t from, count; /* in elements; N exist */
    const char *words;
  } cases[] = {{0, N + 1, "ends before"},
               {0, 2 * N, "ends before"},
               {1, N, "ends before"},
               {N - 1, 2, "ends before"},
               {-1, N, "not that of this executable"},
               {N, 1, "not that of this executable"},
               {-N, N, "not that of this executable"},
               {0, 1 << 24, "ends before"},
               {1 << 26, 1, "not that of this executable"}};
  tn_executable *exe = load_text(NULL);
  DLManagedTensorVersioned *tensor = make(exe, there);
  tn_session *session;
  check_ok(tn_session_create(exe, NULL, &session));
  fill(x, 1);
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
    for (int way = 0; way < 8; way++) {
      const bool fits = cases[c].count <= 2 * N, output = way % 2 == 1;
      const tn_binding binding = way / 2 == 0   ? TN_BIND_NEXT
                                 : way / 2 == 1 ? TN_BIND_PERSISTENT
                                                : TN_BIND_NEXT_IN_PLACE;
      int64_t shape[1] = {cases[c].count};
      DLTensor wrong = tensor->dl_tensor, in = on_host(x), outs[2] = {on_host(y), on_host(z)};
      wrong.shape = in.shape = outs[0].shape = outs[1].shape = shape;
      wrong.data = (char *)wrong.data + 4 * cases[c].from;
      if (way >= 6 && cases[c].from >= 0)
        wrong.data = tensor->dl_tensor.data, wrong.byte_offset = (uint64_t)(4 * cases[c].from);
      if (!fits && output) continue; /* the host tensor would have to be as large */
      tn_status *status = NULL;
      if (way < 6) {
        if (output) check_ok(tn_session_set_input(session, NULL, "x", &in, TN_BIND_NEXT));
        status = output ? tn_session_set_output(session, NULL, "y", &wrong, binding)
                        : tn_session_set_input(session, NULL, "x", &wrong, binding);
        if (status == NULL) status = tn_session_invoke(session, NULL);
      } else if (output) {
        outs[0] = wrong;
        status = tn_session_invoke_with_outputs(session, NULL, &in, 1, outs, 2);
      } else if (fits) {
        status = tn_device_tensor_copy(exe, &wrong, &outs[0]);
      } else {
        status = tn_session_invoke_with_outputs(session, NULL, &wrong, 1, NULL, 0);
      }
      assert_non_null(status);
      assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
      if (strstr(tn_status_message(status), cases[c].words) == NULL) print_message("%s\n", tn_status_message(status));
      assert_non_null(strstr(tn_status_message(status), cases[c].words));
      tn_status_free(status);
      check_ok(tn_session_set_input(session, NULL, "x", NULL, TN_BIND_NEXT));
      check_ok(tn_session_set_output(session, NULL, "y", NULL, TN_BIND_NEXT));
    }
  DLTensor in = on_host(x), results[2] = {tensor->dl_tensor, {0}}; /* the session still works */
  check_ok(tn_session_invoke_with_outputs(session, NULL, &in, 1, results, 2));
  read_from(exe, tensor, y);
  check_results(x, y, NULL);
  tn_session_release(session);
  tensor->deleter(tensor);
  tn_executable_release(exe);
}

static void test_tensors_that_cannot_be_made(void **state) {
  const int64_t shape[1] = {N}, negative[1] = {-1}, huge[2] = {INT64_MAX, 2};
  char words[160];
  DLManagedTensorVersioned *out;
  tn_executable *exe = load_text(NULL);
  snprintf(words, sizeof words, "the tensor to be made is on cuda:3, and the executable runs on cpu:0, %s:0",
           device_name);
  check_fails(tn_device_tensor_create(exe, (DLDevice){kDLCUDA, 3}, TN_F32, 1, shape, &out), TN_INVALID_ARGUMENT, words);
  assert_null(out);
  check_fails(tn_device_tensor_create(exe, there, TN_STRING, 1, shape, &out), TN_INVALID_ARGUMENT,
              "a tensor on a device has elements of a type of numbers, not 896");
  check_fails(tn_device_tensor_create(exe, there, TN_F32, 1, negative, &out), TN_INVALID_ARGUMENT,
              "a tensor of shape [-1]: a dimension is negative or the size overflows");
  check_fails(tn_device_tensor_create(exe, there, TN_F32, 2, huge, &out), TN_INVALID_ARGUMENT,
              "a tensor of shape [9223372036854775807, 2]: a dimension is negative or the size overflows");
  check_fails(tn_device_tensor_create(exe, there, TN_F32, 17, shape, &out), TN_INVALID_ARGUMENT,
              "a tensor of rank 17: it can be 0 to 16");
  check_fails(tn_device_tensor_create(exe, there, TN_F32, 1, NULL, &out), TN_INVALID_ARGUMENT,
              "tn_device_tensor_create: shape is NULL and rank is 1: give the elements, or no number of them");
  DLManagedTensorVersioned *tensor = make(exe, there);
  DLTensor other = tensor->dl_tensor, moon = tensor->dl_tensor;
  int64_t half = N / 2;
  other.shape = &half;
  check_fails(tn_device_tensor_copy(exe, &tensor->dl_tensor, &other), TN_INVALID_ARGUMENT,
              "a copy is between tensors of one type of numbers and one shape");
  moon.device.device_type = (DLDeviceType)9;
  snprintf(words, sizeof words,
           "the tensor to copy from is on device 0 of type 9, and the executable runs on cpu:0, %s:0", device_name);
  check_fails(tn_device_tensor_copy(exe, &moon, &tensor->dl_tensor), TN_INVALID_ARGUMENT, words);
  DLTensor nothing = tensor->dl_tensor;
  nothing.data = NULL;
  check_fails(tn_device_tensor_copy(exe, &nothing, &tensor->dl_tensor), TN_INVALID_ARGUMENT,
              "the tensor to copy from has no data");
  nothing.device = (DLDevice){kDLCPU, 0};
  check_fails(tn_device_tensor_copy(exe, &tensor->dl_tensor, &nothing), TN_INVALID_ARGUMENT,
              "the tensor to copy to has no data");
  tensor->deleter(tensor);
  tn_executable_release(exe);
}

/* Each allocation fails once: nothing is lost, and the next time it works. */
static void test_without_memory(void **state) {
  const int64_t shape[1] = {N};
  for (int at = 0;; at++) {
    failing_allocator failing;
    failing_allocator_init(&failing, -1);
    const tn_load_options options = {.size = sizeof options, .allocator = &failing.allocator};
    tn_executable *exe = load_text(&options);
    DLManagedTensorVersioned *tensor;
    failing.fail_at = failing.calls + at;
    tn_status *status = tn_device_tensor_create(exe, there, TN_F32, 1, shape, &tensor);
    failing.fail_at = -1;
    bool done = status == NULL;
    if (done)
      tensor->deleter(tensor);
    else
      assert_int_equal(tn_status_code_of(status), TN_OUT_OF_MEMORY);
    tn_status_free(status);
    tn_executable_release(exe);
    assert_int_equal(failing.live_count, 0);
    if (done) break;
  }
}

static int run_on(const char *name, DLDevice device) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_told),
      cmocka_unit_test(test_every_way_to_bind),
      cmocka_unit_test(test_from_session_to_session),
      cmocka_unit_test(test_results_that_are_inputs),
      cmocka_unit_test(test_a_tensor_that_outlives_its_executable),
      cmocka_unit_test(test_copies_between_devices),
      cmocka_unit_test(test_a_loop_between_device_tensors),
      cmocka_unit_test(test_sizes_that_values_tell),
      cmocka_unit_test(test_tensors_that_cannot_be_bound),
      cmocka_unit_test(test_tensors_of_somebody_else),
      cmocka_unit_test(test_tensors_that_reach_too_far),
      cmocka_unit_test(test_tensors_that_cannot_be_made),
      cmocka_unit_test(test_without_memory),
  };
  device_name = name, there = device;
  return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(void) {
  const tn__device_driver *driver;
  char *cache = test_cache_folder();
  int failed = run_on("island", (DLDevice){kDLExtDev, 0});
  if (plugin_devices(kDLOpenCL, "opencl", &driver) > 0)
    failed += run_on("opencl", (DLDevice){kDLOpenCL, 0});
  else
    print_message("on islands alone: there is no device of OpenCL\n");
  remove_folder(cache);
  return failed;
}
