/* What the loader refuses, with its words, and what it tells about what it accepts. */
#include <stdlib.h>
#include <unistd.h>

#include "kernels/slab.h"
#include "runtime/executable/apart.h"
#include "runtime/executable/executable.h"
#include "unit/check.h"
#include "unit/rehash.h"
#include "unit/trampoline.h"

#define DIM(v) tn__prog_operand_const(v)
#define SYM(s) tn__prog_operand_scalar(s)
#define W(...) \
  (uint32_t[]) { __VA_ARGS__ }
static const tn__operand nowhere = {0, 0, 0};

static int32_t nothing_kernel(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  return TN_KERNEL_OK;
}

/* One function over x: f32[n] -> y: f32[n] with a constant, an arena register, a kernel and a text. */
typedef struct sample {
  test_exe t;
  tn__exe_func *f;
  int n, x, y, arena, constant, kernel;
} sample;

static void begin(sample *s) {
  static const float ones[3] = {1, 1, 1};
  test_exe_init(&s->t, NULL);
  s->kernel = test_exe_kernel(&s->t, "nothing", nothing_kernel, 2, 1);
  int constant = tn__exe_constant(s->t.exe, "ones", TN_F32, 1, (int64_t[]){3}, ones, sizeof(ones));
  tn__exe_text(s->t.exe, "graph", "hello", 5);
  s->f = tn__exe_function(s->t.exe, "main");
  s->n = tn__exe_symbol(s->f, "n");
  tn__operand dims[1] = {SYM(s->n)}, three[1] = {DIM(3)};
  tn__exe_input(s->f, "x", TN_F32, 1, dims);
  tn__exe_output(s->f, "y", TN_F32, 1, dims);
  s->x = tn__exe_register(s->f, TN_F32, 1, dims, TN__STORAGE_INPUT, 0, nowhere);
  s->y = tn__exe_register(s->f, TN_F32, 1, dims, TN__STORAGE_OUTPUT, 0, nowhere);
  s->constant = tn__exe_register(s->f, TN_F32, 1, three, TN__STORAGE_CONSTANT, constant, nowhere);
  s->arena = tn__exe_register(s->f, TN_F32, 1, three, TN__STORAGE_ARENA, 0, DIM(64));
  tn__exe_arena(s->f, DIM(128));
}

static void emit(sample *s, tn__opcode opcode, const uint32_t *words, int count) {
  tn__exe_emit(s->f, opcode, words, count);
}

static tn__bytes finish(sample *s) {
  emit(s, TN__OP_COPY, W((uint32_t)s->y, (uint32_t)s->x), 2);
  emit(s, TN__OP_RETURN, NULL, 0);
  return test_exe_finish(&s->t);
}

static tn_status *load(const void *data, size_t size, tn_executable **exe) {
  return tn_executable_load_memory(data, size, NULL, exe);
}

static void good_samples_load(void **state) {
  sample s;
  begin(&s);
  tn__bytes bytes = finish(&s);
  tn_executable *exe;
  check_ok(load(bytes.data, bytes.size, &exe));
  const tn_executable_summary *summary = tn_executable_summarize(exe);
  assert_string_equal(summary->producer, "test 1");
  assert_int_equal(summary->file_bytes, bytes.size);
  assert_int_equal(summary->code_bytes, TRAMPOLINE_SIZE);
  assert_int_equal(summary->constant_bytes, 12);
  assert_int_equal(summary->workspace_bytes, 128);
  assert_true(summary->kernel_count == 1 && summary->constant_count == 1);
  const tn_kernel_summary *kernel = tn_executable_kernel(exe, 0);
  assert_string_equal(kernel->name, "nothing");
  assert_true(kernel->flops == 1.0 && kernel->bytes == 2.0 && kernel->code_bytes == TRAMPOLINE_SIZE);
  assert_null(tn_executable_kernel(exe, 1));
  assert_null(tn_executable_kernel(exe, -1));
  size_t size;
  assert_memory_equal(tn_executable_text(exe, "graph", &size), "hello", 5);
  assert_int_equal(size, 5);
  assert_null(tn_executable_text(exe, "schedules", &size));
  assert_int_equal(tn_executable_function_count(exe), 1);
  assert_string_equal(tn_executable_function_name(exe, 0), "main");
  assert_null(tn_executable_function_name(exe, 1));
  assert_int_equal(tn_executable_input_index(exe, NULL, "x"), 0);
  assert_int_equal(tn_executable_input_index(exe, NULL, "y"), -1);
  assert_int_equal(tn_executable_output_index(exe, "main", "y"), 0);
  const tn_value_info *x = tn_executable_input(exe, NULL, 0);
  assert_true(x->dtype == TN_F32 && x->rank == 1 && x->dims[0]->size == -1);
  assert_string_equal(x->dims[0]->name, "n");
  assert_null(tn_executable_output(exe, NULL, 1));
  assert_int_equal(tn_executable_input_count(exe, "no"), -1);
  tn_executable_release(exe);
  test_exe_release(&s.t);
}

static void writing_is_deterministic(void **state) {
  sample a, b;
  begin(&a), begin(&b);
  tn__bytes first = finish(&a), second = finish(&b);
  assert_int_equal(first.size, second.size);
  assert_memory_equal(first.data, second.data, first.size);
  test_exe_release(&a.t), test_exe_release(&b.t);
}

static void equal_constants_are_stored_once(void **state) {
  sample s;
  begin(&s);
  static const float ones[3] = {1, 1, 1}, twos[3] = {2, 2, 2};
  int64_t three = 3;
  assert_int_equal(tn__exe_constant(s.t.exe, "again", TN_F32, 1, &three, ones, sizeof(ones)), 0);
  assert_int_equal(tn__exe_constant(s.t.exe, "twos", TN_F32, 1, &three, twos, sizeof(twos)), 1);
  assert_int_equal(tn__exe_constant(s.t.exe, "bits", TN_I32, 1, &three, ones, sizeof(ones)), 2);
  test_exe_release(&s.t);
}

static void large_constants_are_compared_whole(void **state) {
  enum { COUNT = 100000 };
  sample s;
  begin(&s);
  int32_t *a = calloc(COUNT, sizeof *a), *b = calloc(COUNT, sizeof *b), *c = calloc(COUNT, sizeof *c);
  assert_true(a && b && c);
  for (int i = 0; i < COUNT; i++) a[i] = b[i] = c[i] = i;
  int64_t shape = COUNT;
  int first = tn__exe_constant(s.t.exe, "a", TN_I32, 1, &shape, a, COUNT * sizeof *a);
  assert_int_equal(tn__exe_constant(s.t.exe, "b", TN_I32, 1, &shape, b, COUNT * sizeof *b), first);
  for (int i = 0; i < COUNT; i += 97) { /* any element may be the one that differs */
    c[i]++;
    int other = tn__exe_constant(s.t.exe, "c", TN_I32, 1, &shape, c, COUNT * sizeof *c);
    assert_int_not_equal(other, first);
    /* what the writer has must stay as it is */
    int32_t *next = malloc(COUNT * sizeof *next);
    assert_non_null(next);
    memcpy(next, a, COUNT * sizeof *next);
    tn__arena_defer(&s.t.arena, free, c);
    c = next;
    if (i > 97 * 20) break;
  }
  test_exe_release(&s.t);
  free(a), free(b), free(c);
}

static const int64_t lengths[3] = {100, 7, 300};

/* Constants in a slab, and one beside it; loads them from the file that is made around the slab, and checks each.
 * Returns the bytes of constants in the file. */
static uint64_t file_around_slab(bool equal) {
  test_exe t;
  test_exe_init(&t, NULL);
  t.arena.escape = &t.escape;
  tn__slab *slab = tn__slab_create(&t.arena, 3 * 1216, 64, 1);
  float *at[3], beside[2] = {-1, -2};
  for (int i = 0; i < 3; i++) {
    at[i] = tn__slab_take(slab, (size_t)lengths[i] * sizeof(float));
    assert_non_null(at[i]);
    assert_int_equal((uintptr_t)at[i] % 64, 0);
    for (int64_t k = 0; k < lengths[i]; k++) at[i][k] = (float)(equal ? k : 1000 * i + k);
  }
  assert_null(tn__slab_take(slab, 100000));
  if (!equal) tn__slab_hash(slab);
  tn__exe_keep_in_place(t.exe, slab);
  int64_t two = 2, seven = 7;
  tn__exe_constant(t.exe, "beside", TN_F32, 1, &two, beside, sizeof beside);
  for (int i = 2; i >= 0; i--)
    tn__exe_constant(t.exe, "c", TN_F32, 1, equal ? &seven : &lengths[i], at[i],
                     (size_t)(equal ? 7 : lengths[i]) * sizeof(float));
  tn__exe_func *f = tn__exe_function(t.exe, "main");
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn__exe_image(t.exe, t.image, 0);
  tn__pieces pieces = tn__exe_pieces(t.exe);
  tn__bytes joined = tn__exe_join(&t.arena, &pieces);
  char *in_place = tn__slab_join(slab, &pieces);
  assert_non_null(in_place);
  assert_memory_equal(in_place, joined.data, joined.size);
  assert_true((const char *)at[2] > in_place && (const char *)at[2] < in_place + joined.size);
  tn_executable *exe;
  check_ok(load(in_place, joined.size, &exe));
  assert_int_equal(exe->constant_count, equal ? 2 : 4);
  assert_memory_equal(exe->constants[0].data, beside, sizeof beside);
  for (uint32_t i = 1; i < exe->constant_count; i++) {
    assert_int_equal((uintptr_t)exe->constants[i].data % 64, 0);
    const float *values = exe->constants[i].data;
    for (uint32_t k = 0; k < exe->constants[i].size / sizeof(float); k++)
      assert_true(values[k] == (float)(equal ? k : 1000 * (3 - i) + k));
  }
  uint64_t bytes = exe->constant_bytes;
  tn_executable_release(exe);
  test_exe_release(&t);
  return bytes;
}

static void files_are_made_around_constants(void **state) {
  assert_int_equal(file_around_slab(false), 448 + 64 + 1216 + 8);
  assert_int_equal(file_around_slab(true), 64 + 28); /* most of the slab would be unused: it goes */
}

/* The compiler's own: constants at odd addresses, and none in the file. */
static void constants_may_lie_apart(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  char bytes[32] = "";
  const float values[3] = {1, 2, 3};
  memcpy(bytes + 1, values, sizeof(values));
  int constant = tn__exe_constant(t.exe, "c", TN_F32, 1, (int64_t[]){3}, bytes + 1, sizeof(values));
  const void *const *places = tn__exe_leave_constants(t.exe);
  assert_ptr_equal(places[constant], bytes + 1);
  tn__exe_func *f = tn__exe_function(t.exe, "main");
  tn__operand three[1] = {DIM(3)};
  tn__exe_output(f, "y", TN_F32, 1, three);
  int y = tn__exe_register(f, TN_F32, 1, three, TN__STORAGE_OUTPUT, 0, nowhere);
  int c = tn__exe_register(f, TN_F32, 1, three, TN__STORAGE_CONSTANT, constant, nowhere);
  tn__exe_emit(f, TN__OP_COPY, W((uint32_t)y, (uint32_t)c), 2);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  tn__bytes file = test_exe_finish(&t);
  tn_executable *exe;
  tn_session *session;
  DLTensor out;
  check_ok(tn__executable_load_apart(file.data, file.size, &(tn__apart){.constants = places}, NULL, &exe));
  check_ok(tn_session_create(exe, NULL, &session));
  check_ok(tn_session_invoke(session, NULL));
  check_ok(tn_session_get_output(session, NULL, 0, &out));
  assert_memory_equal(out.data, values, sizeof(values));
  tn_session_release(session);
  tn_executable_release(exe);
  tn_status *refused = load(file.data, file.size, &exe);
  assert_int_equal(tn_status_code_of(refused), TN_DATA_LOSS);
  tn_status_free(refused);
  test_exe_release(&t);
}

static void disassembly_reads_well(void **state) {
  sample s;
  begin(&s);
  int big = tn__exe_emit_const(s.f, -5000000000);
  int sum = tn__exe_emit_scalar_op(s.f, TN__SCALAR_ADD, s.n, big);
  tn__exe_emit_assert(s.f, sum, "say \"no\"");
  tn__exe_emit_kernel(s.f, s.kernel, &s.constant, 1, &s.arena, 1, &s.n, 1);
  tn__bytes bytes = finish(&s);
  tn_executable *exe;
  check_ok(load(bytes.data, bytes.size, &exe));
  char *text;
  check_ok(tn_executable_disassemble(exe, &text));
  assert_string_equal(text,
                      "function \"main\"(x: f32[n]) -> (y: f32[n])\n"
                      "  arena 128\n"
                      "  s0: n\n"
                      "  r0: f32[s0] input \"x\"\n"
                      "  r1: f32[s0] output \"y\"\n"
                      "  r2: f32[3] constant \"ones\"\n"
                      "  r3: f32[3] arena at 64\n"
                      "      0  SCALAR_CONST s1, -5000000000\n"
                      "      5  SCALAR_OP s2, s0, s1, +\n"
                      "     11  ASSERT s2, \"say \\\"no\\\"\"\n"
                      "     15  KERNEL \"nothing\" reads(r2) writes(r3) scalars(s0)\n"
                      "     24  COPY r1, r0\n"
                      "     28  RETURN\n");
  free(text);
  tn_executable_release(exe);
  test_exe_release(&s.t);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

static void truncation_is_refused_everywhere(void **state) {
  sample s;
  begin(&s);
  tn__bytes bytes = finish(&s);
  tn_executable *exe;
  for (size_t size = 0; size < bytes.size; size++) {
    tn_status *status = load(bytes.data, size, &exe);
    assert_non_null(status);
    assert_int_equal(tn_status_code_of(status), TN_DATA_LOSS);
    tn_status_free(status);
  }
  check_fails(load(bytes.data, 0, &exe), TN_DATA_LOSS, "not a Tenon executable: it does not start with a .tnx header");
  check_fails(load(bytes.data, 40, &exe), TN_DATA_LOSS,
              "the executable is damaged: it ends after 40 bytes, inside of its header");
  char text[128];
  snprintf(text, sizeof(text), "the executable is damaged: it is truncated: 100 of %zu bytes are there", bytes.size);
  check_fails(load(bytes.data, 100, &exe), TN_DATA_LOSS, text);
  uint8_t *longer = calloc(1, bytes.size + 3);
  memcpy(longer, bytes.data, bytes.size);
  check_fails(load(longer, bytes.size + 3, &exe), TN_DATA_LOSS,
              "the executable is damaged: 3 bytes follow after its end");
  free(longer);
  test_exe_release(&s.t);
}

/* One bit of each byte, also of the padding between sections. */
static void flips_are_refused(void **state) {
  sample s;
  begin(&s);
  tn__bytes bytes = finish(&s);
  uint8_t *copy = malloc(bytes.size);
  size_t accepted = 0;
  for (size_t i = 0; i < bytes.size; i++) {
    memcpy(copy, bytes.data, bytes.size);
    if (copy[i] == 0 && i % 16 != 0) continue; /* much of the file is padding */
    copy[i] ^= (uint8_t)(1u << (i % 8));
    tn_executable *exe;
    tn_load_options options = {.size = sizeof(options), .verify_constants = true};
    tn_status *status = tn_executable_load_memory(copy, bytes.size, &options, &exe);
    accepted += status == NULL;
    tn_executable_release(exe);
    tn_status_free(status);
  }
  assert_int_equal(accepted, 0);
  free(copy);
  test_exe_release(&s.t);
}

static void damaged_constants_are_found_on_request(void **state) {
  sample s;
  begin(&s);
  tn__bytes bytes = finish(&s);
  uint8_t *copy = malloc(bytes.size);
  memcpy(copy, bytes.data, bytes.size);
  copy[bytes.size - 1] ^= 1; /* the constants come last */
  tn_executable *exe;
  check_ok(load(copy, bytes.size, &exe));
  tn_executable_release(exe);
  tn_load_options options = {.size = sizeof(options), .verify_constants = true};
  check_fails(
      tn_executable_load_memory(copy, bytes.size, &options, &exe), TN_DATA_LOSS,
      "the executable is damaged: its section of constants was changed after it was written (the hash differs)");
  free(copy);
  test_exe_release(&s.t);
}

/* With right hashes behind any change of one byte, the verifier must still refuse or accept without touching foreign
 * memory. */
static void rehashed_changes_are_survived(void **state) {
  sample s;
  begin(&s);
  tn__exe_emit_assert(s.f, tn__exe_emit_scalar_op(s.f, TN__SCALAR_LE, s.n, s.n), "no");
  tn__exe_emit_kernel(s.f, s.kernel, &s.constant, 1, &s.arena, 1, &s.n, 1);
  tn__bytes bytes = finish(&s);
  uint8_t *copy = malloc(bytes.size);
  static const uint8_t values[] = {0x00, 0x01, 0x07, 0x80, 0xff};
  for (size_t i = 0; i < TN__FILE_PAGE; i++) { /* the image and the constants come behind */
    for (size_t v = 0; v < sizeof(values); v++) {
      memcpy(copy, bytes.data, bytes.size);
      if (copy[i] == values[v] || (copy[i] == 0 && i % 4 != 0)) continue;
      copy[i] = values[v];
      rehash(copy, bytes.size);
      tn_executable *exe;
      tn_status *status = load(copy, bytes.size, &exe);
      tn_executable_release(exe);
      tn_status_free(status);
    }
  }
  free(copy);
  test_exe_release(&s.t);
}

static tn_status *load_changed(const tn__bytes *bytes, size_t at, const void *data, size_t size, bool right_hashes) {
  uint8_t *copy = malloc(bytes->size);
  memcpy(copy, bytes->data, bytes->size);
  memcpy(copy + at, data, size);
  if (right_hashes) rehash(copy, bytes->size);
  tn_executable *exe;
  tn_status *status = load(copy, bytes->size, &exe);
  tn_executable_release(exe);
  free(copy);
  return status;
}

static void versions_are_told_apart(void **state) {
  sample s;
  begin(&s);
  tn__bytes bytes = finish(&s);
  uint16_t two = 2, more = TN__FILE_MINOR + 1;
  check_fails(
      load_changed(&bytes, offsetof(tn__file_header, major), &two, 2, true), TN_UNSUPPORTED,
      "the executable has format version 2.11 and this Tenon (0.2.0) reads 1.x: compile the model anew, or use the "
      "Tenon that goes with it");
  check_ok(load_changed(&bytes, offsetof(tn__file_header, minor), &more, 2, true));
  check_fails(
      load_changed(&bytes, offsetof(tn__file_header, minor), &more, 2, false), TN_DATA_LOSS,
      "the executable is damaged: its header or section table was changed after it was written (the hash differs)");
  check_fails(load_changed(&bytes, 0, "ELF", 3, true), TN_DATA_LOSS,
              "not a Tenon executable: it does not start with a .tnx header");
  /* A kind of section that this reader does not know (a text's was 64) is skipped. */
  for (uint32_t i = 0; i < 9; i++) {
    size_t at = sizeof(tn__file_header) + i * sizeof(tn__file_section);
    uint32_t kind, unknown = 777;
    memcpy(&kind, (const uint8_t *)bytes.data + at, sizeof(kind));
    if (kind == TN__SECTION_TEXT) check_ok(load_changed(&bytes, at, &unknown, sizeof(unknown), true));
    if (kind == TN__SECTION_KERNELS)
      check_fails(load_changed(&bytes, at, &unknown, sizeof(unknown), true), TN_DATA_LOSS,
                  "the executable is damaged: it has no section of kernels");
  }
  test_exe_release(&s.t);
}

static void other_machines_are_named(void **state) {
  static const float zero;
  test_exe t;
#if defined(__x86_64__)
  test_exe_init(&t, "aarch64");
  const char *words =
      "the executable was compiled for aarch64 and this machine is x86-64: compile it for this one, or run it there";
#else
  test_exe_init(&t, "x86-64-v3");
  const char *words =
      "the executable was compiled for x86-64-v3 and this machine is aarch64: compile it for this one, or run it there";
#endif
  tn__exe_constant(t.exe, "zero", TN_F32, 0, NULL, &zero, sizeof(zero));
  tn__exe_emit(tn__exe_function(t.exe, "main"), TN__OP_RETURN, NULL, 0);
  tn__bytes bytes = test_exe_finish(&t);
  tn_executable *exe;
  check_fails(load(bytes.data, bytes.size, &exe), TN_FAILED_PRECONDITION, words);
  test_exe_release(&t);
}

/* ---- the verifier ----------------------------------------------------------------------------------------------- */

/* Each case spoils the sample in one way. */
static void read_unset_scalar(sample *s) {
  int unset = tn__exe_scalar(s->f);
  tn__exe_emit_scalar_op(s->f, TN__SCALAR_ADD, s->n, unset);
}
static void write_input_dimension(sample *s) { emit(s, TN__OP_SCALAR_CONST, W((uint32_t)s->n, 1, 0), 3); }
static void write_input(sample *s) { emit(s, TN__OP_COPY, W((uint32_t)s->x, (uint32_t)s->y), 2); }
static void write_constant(sample *s) { emit(s, TN__OP_COPY, W((uint32_t)s->constant, (uint32_t)s->arena), 2); }
static void no_such_register(sample *s) { emit(s, TN__OP_COPY, W((uint32_t)s->y, 99), 2); }
static void no_such_scalar(sample *s) { emit(s, TN__OP_ASSERT, W(99, 0), 2); }
static void no_such_kernel(sample *s) { emit(s, TN__OP_KERNEL, W(5, 0, 0, 0), 4); }
static void no_such_function(sample *s) { emit(s, TN__OP_CALL, W(5, 0, 0), 3); }
static void no_such_builtin(sample *s) { emit(s, TN__OP_BUILTIN, W(50, 0, 0, 0), 4); }
static void no_such_message(sample *s) { emit(s, TN__OP_ASSERT, W((uint32_t)s->n, 4000), 2); }
static void no_such_operator(sample *s) {
  emit(s, TN__OP_SCALAR_OP, W((uint32_t)tn__exe_scalar(s->f), (uint32_t)s->n, (uint32_t)s->n, 77), 4);
}
static void no_such_opcode(sample *s) { emit(s, (tn__opcode)200, NULL, 0); }
static void too_few_operands(sample *s) { emit(s, TN__OP_COPY, W((uint32_t)s->y), 1); }
static void too_many_operands(sample *s) { emit(s, TN__OP_COPY, W((uint32_t)s->y, (uint32_t)s->x, 0), 3); }
static void group_past_the_end(sample *s) { emit(s, TN__OP_KERNEL, W(0, 4000000000u, 1, 1, 0), 5); }
static void kernel_arity(sample *s) { tn__exe_emit_kernel(s->f, s->kernel, &s->x, 1, &s->arena, 1, NULL, 0); }
static void builtin_arity(sample *s) { tn__exe_emit_builtin(s->f, TN__BUILTIN_FILL_ZERO, &s->x, 1, &s->y, 1, NULL, 0); }
static void call_arity(sample *s) { tn__exe_emit_call(s->f, 0, &s->x, 1, NULL, 0); }
static void call_type(sample *s) {
  tn__exe_emit_call(s->f, 0, (int[]){tn__exe_register(s->f, TN_I32, 0, NULL, TN__STORAGE_ARENA, 0, nowhere)}, 1, &s->y,
                    1);
}
static void jump_into_instruction(sample *s) { emit(s, TN__OP_JUMP, W(1), 1); }
static void jump_outside(sample *s) { emit(s, TN__OP_JUMP, W(1000), 1); }
static void shape_of_no_dimension(sample *s) {
  emit(s, TN__OP_SCALAR_SHAPE, W((uint32_t)tn__exe_scalar(s->f), (uint32_t)s->x, 1), 3);
}
static void load_of_float(sample *s) {
  emit(s, TN__OP_SCALAR_LOAD, W((uint32_t)tn__exe_scalar(s->f), (uint32_t)s->x, 0), 3);
}
static void alloc_of_arena(sample *s) { emit(s, TN__OP_ALLOC, W((uint32_t)s->arena), 1); }
static void move_of_arena(sample *s) { emit(s, TN__OP_MOVE, W((uint32_t)s->arena, (uint32_t)s->arena), 2); }
static void copy_of_types(sample *s) {
  int other = tn__exe_register(s->f, TN_I32, 1, (tn__operand[]){DIM(3)}, TN__STORAGE_ARENA, 0, nowhere);
  emit(s, TN__OP_COPY, W((uint32_t)other, (uint32_t)s->constant), 2);
}
static void copy_of_sizes(sample *s) {
  int other = tn__exe_register(s->f, TN_F32, 1, (tn__operand[]){DIM(4)}, TN__STORAGE_ARENA, 0, nowhere);
  emit(s, TN__OP_COPY, W((uint32_t)other, (uint32_t)s->constant), 2);
}
static void dynamic_without_memory(sample *s) {
  int d = tn__exe_register(s->f, TN_F32, 1, (tn__operand[]){DIM(3)}, TN__STORAGE_DYNAMIC, 0, nowhere);
  emit(s, TN__OP_COPY, W((uint32_t)d, (uint32_t)s->constant), 2);
}
static void dynamic_not_written(sample *s) {
  int d = tn__exe_register(s->f, TN_F32, 1, (tn__operand[]){DIM(3)}, TN__STORAGE_DYNAMIC, 0, nowhere);
  emit(s, TN__OP_ALLOC, W((uint32_t)d), 1);
  emit(s, TN__OP_COPY, W((uint32_t)s->arena, (uint32_t)d), 2);
}
static void moved_away(sample *s) {
  int a = tn__exe_register(s->f, TN_F32, 1, (tn__operand[]){DIM(3)}, TN__STORAGE_DYNAMIC, 0, nowhere);
  int b = tn__exe_register(s->f, TN_F32, 1, (tn__operand[]){DIM(3)}, TN__STORAGE_DYNAMIC, 0, nowhere);
  emit(s, TN__OP_ALLOC, W((uint32_t)a), 1);
  emit(s, TN__OP_COPY, W((uint32_t)a, (uint32_t)s->constant), 2);
  emit(s, TN__OP_MOVE, W((uint32_t)b, (uint32_t)a), 2);
  emit(s, TN__OP_COPY, W((uint32_t)s->arena, (uint32_t)a), 2);
}
static void written_on_one_path(sample *s) {
  uint32_t branch = tn__exe_emit(s->f, TN__OP_JUMP_IF_ZERO, W((uint32_t)s->n, 0), 2);
  emit(s, TN__OP_COPY, W((uint32_t)s->y, (uint32_t)s->x), 2);
  tn__exe_patch(s->f, branch, 1, tn__exe_here(s->f));
  emit(s, TN__OP_RETURN, NULL, 0);
}
static void arena_too_small(sample *s) {
  tn__exe_register(s->f, TN_F32, 1, (tn__operand[]){DIM(17)}, TN__STORAGE_ARENA, 0, DIM(64));
}
static void arena_unaligned(sample *s) { tn__exe_register(s->f, TN_F32, 0, NULL, TN__STORAGE_ARENA, 0, DIM(4)); }
static void view_of_later(sample *s) { tn__exe_register(s->f, TN_F32, 0, NULL, TN__STORAGE_VIEW, 9, nowhere); }
static void view_of_other_size(sample *s) {
  tn__exe_register(s->f, TN_F32, 1, (tn__operand[]){DIM(4)}, TN__STORAGE_VIEW, s->constant, nowhere);
}
static void constant_of_other_shape(sample *s) {
  tn__exe_register(s->f, TN_F32, 1, (tn__operand[]){DIM(4)}, TN__STORAGE_CONSTANT, 0, nowhere);
}
static void no_such_constant(sample *s) { tn__exe_register(s->f, TN_F32, 0, NULL, TN__STORAGE_CONSTANT, 3, nowhere); }
static void second_input_register(sample *s) { tn__exe_register(s->f, TN_F32, 0, NULL, TN__STORAGE_INPUT, 0, nowhere); }
static void no_such_type(sample *s) {
  tn__exe_register(s->f, (tn_dtype)0x0999, 0, NULL, TN__STORAGE_DYNAMIC, 0, nowhere);
}
static void no_such_storage(sample *s) { tn__exe_register(s->f, TN_F32, 0, NULL, (tn__storage)9, 0, nowhere); }
static void negative_dimension(sample *s) {
  tn__exe_register(s->f, TN_F32, 1, (tn__operand[]){DIM(-2)}, TN__STORAGE_DYNAMIC, 0, nowhere);
}
static void huge_register(sample *s) {
  tn__exe_register(s->f, TN_F32, 2, (tn__operand[]){DIM(INT64_MAX / 2), DIM(5)}, TN__STORAGE_DYNAMIC, 0, nowhere);
}
static void arena_sized_late(sample *s) {
  emit(s, TN__OP_COPY, W((uint32_t)s->arena, (uint32_t)s->constant), 2);
  int late = tn__exe_emit_const(s->f, 64);
  tn__exe_register(s->f, TN_F32, 1, (tn__operand[]){SYM(late)}, TN__STORAGE_ARENA, 0, nowhere);
}
static void arena_bytes_late(sample *s) {
  emit(s, TN__OP_COPY, W((uint32_t)s->arena, (uint32_t)s->constant), 2);
  tn__exe_arena(s->f, SYM(tn__exe_emit_const(s->f, 64)));
}
static void kernel_outside(sample *s) { tn__exe_kernel(s->t.exe, "far", 4096, 16, 0, 0, 0, 0); }

#define DAMAGED "the executable is damaged: "
#define AT(word, op) DAMAGED "function \"main\", code word " #word ", " op

static const struct {
  void (*spoil)(sample *s);
  const char *words;
} bad_samples[] = {
    {read_unset_scalar, AT(0, "SCALAR_OP: scalar 1 is not assigned on every path to here")},
    {write_input_dimension, AT(0, "SCALAR_CONST: scalar 0 is written, which is a dimension of an input")},
    {write_input, AT(0, "COPY: register 0 is written, which is an input or a constant")},
    {write_constant, AT(0, "COPY: register 2 is written, which is an input or a constant")},
    {no_such_register, AT(0, "COPY: register 99 of 4")},
    {no_such_scalar, AT(0, "ASSERT: scalar 99 of 1")},
    {no_such_kernel, AT(0, "KERNEL: kernel 5 of 1")},
    {no_such_function, AT(0, "CALL: function 5 of 1")},
    {no_such_builtin, AT(0, "BUILTIN: builtin 50 is not known")},
    {no_such_message, DAMAGED "the text of a message is at 4000, outside of its strings"},
    {no_such_operator, AT(0, "SCALAR_OP: scalar operator 77 is not known")},
    {no_such_opcode, DAMAGED "function \"main\": word 0 of the code is the unknown opcode 200"},
    {too_few_operands, AT(0, "COPY: 1 operands are too few")},
    {too_many_operands, AT(0, "COPY: 3 operands are too many")},
    {group_past_the_end, AT(0, "KERNEL: 5 operands are too few")},
    {kernel_arity, AT(0, "KERNEL: kernel \"nothing\" takes 2 buffers and 1 scalars, not 2 and 0")},
    {builtin_arity, AT(0, "BUILTIN: builtin \"fill_zero\" takes 0, 1 and 0 operands, not 1, 1 and 0")},
    {call_arity, AT(0, "CALL: function \"main\" has 1 inputs and 1 outputs, not 1 and 0")},
    {call_type, AT(0, "CALL: the argument for \"x\" differs in type or shape")},
    {jump_into_instruction, AT(0, "JUMP: word 1 is not the start of an instruction")},
    {jump_outside, AT(0, "JUMP: word 1000 is not the start of an instruction")},
    {shape_of_no_dimension, AT(0, "SCALAR_SHAPE: dimension 1 of a tensor of rank 1")},
    {load_of_float, AT(0, "SCALAR_LOAD: a scalar is loaded from a tensor of f32")},
    {alloc_of_arena, AT(0, "ALLOC: register 3 is neither DYNAMIC nor OUTPUT")},
    {move_of_arena, AT(0, "MOVE: registers 3 and 3 are not two DYNAMIC ones of one type and device")},
    {copy_of_types, AT(0, "COPY: from f32 to i32")},
    {copy_of_sizes, AT(0, "COPY: from 12 to 16 bytes")},
    {dynamic_without_memory, AT(0, "COPY: register 4 has no memory on some path to here (ALLOC comes first)")},
    {dynamic_not_written, AT(3, "COPY: register 4 is read but not written on every path to here")},
    {moved_away, AT(11, "COPY: register 4 has no memory on some path to here (ALLOC comes first)")},
    {written_on_one_path, AT(8, "RETURN: output \"y\" is not written on every path to here")},
    {arena_too_small, DAMAGED "function \"main\": register 4 (68 bytes at 64) does not fit into the arena of 128"},
    {arena_unaligned, DAMAGED "function \"main\": register 4 is at arena offset 4, which is not aligned"},
    {view_of_later, DAMAGED "function \"main\": register 4 is a view of register 9, which does not come before it"},
    {view_of_other_size, DAMAGED "function \"main\": register 4 is a view of 16 bytes of register 2, which has 12"},
    {constant_of_other_shape,
     DAMAGED "function \"main\": register 4 and its constant \"ones\" differ in type or shape"},
    {no_such_constant, DAMAGED "function \"main\": register 4 holds constant 3 of 1"},
    {second_input_register, DAMAGED "function \"main\": register 4 is not that of input 0"},
    {no_such_type, DAMAGED "function \"main\": register 4 has type 2457, rank 0 and device 0"},
    {no_such_storage, DAMAGED "function \"main\": register 4 has the unknown storage 9"},
    {negative_dimension, DAMAGED "function \"main\": a dimension is -2"},
    {huge_register, DAMAGED "function \"main\": register 4 is too large"},
    {arena_sized_late,
     DAMAGED "function \"main\": the shape or place of arena register 4 is not found by its prologue"},
    {arena_bytes_late, DAMAGED "function \"main\": the size of its arena is not found by its prologue"},
    {kernel_outside, DAMAGED "kernel \"far\" is at 4096 with 16 bytes in an image of 16"},
};

static void bad_samples_are_refused(void **state) {
  for (size_t i = 0; i < sizeof(bad_samples) / sizeof(bad_samples[0]); i++) {
    sample s;
    begin(&s);
    bad_samples[i].spoil(&s);
    tn__bytes bytes = finish(&s);
    tn_executable *exe;
    check_fails(load(bytes.data, bytes.size, &exe), TN_DATA_LOSS, bad_samples[i].words);
    assert_null(exe);
    test_exe_release(&s.t);
  }
}

static void code_ends_with_return(void **state) {
  sample s;
  begin(&s);
  emit(&s, TN__OP_COPY, W((uint32_t)s.y, (uint32_t)s.x), 2);
  tn__bytes bytes = test_exe_finish(&s.t);
  tn_executable *exe;
  check_fails(load(bytes.data, bytes.size, &exe), TN_DATA_LOSS,
              DAMAGED "function \"main\": the code does not end with RETURN or JUMP");
  test_exe_release(&s.t);
}

static void loops_are_verified(void **state) {
  /* A scalar that only the loop's body assigns is not assigned at its head; one from before the loop is. */
  for (int good = 0; good < 2; good++) {
    sample s;
    begin(&s);
    int before = tn__exe_emit_const(s.f, 1), inside = tn__exe_scalar(s.f);
    uint32_t head = tn__exe_here(s.f);
    uint32_t leave = tn__exe_emit(s.f, TN__OP_JUMP_IF_ZERO, W((uint32_t)(good ? before : inside), 0), 2);
    emit(&s, TN__OP_SCALAR_CONST, W((uint32_t)inside, 0, 0), 3);
    emit(&s, TN__OP_JUMP, &head, 1);
    tn__exe_patch(s.f, leave, 1, tn__exe_here(s.f));
    tn__bytes bytes = finish(&s);
    tn_executable *exe;
    if (good)
      check_ok(load(bytes.data, bytes.size, &exe));
    else
      check_fails(load(bytes.data, bytes.size, &exe), TN_DATA_LOSS,
                  AT(5, "JUMP_IF_ZERO: scalar 2 is not assigned on every path to here"));
    tn_executable_release(exe);
    test_exe_release(&s.t);
  }
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

/* perf looks kernels up in its map for memory that is nobody's file, and nowhere else. */
static void check_nameless(const tn_executable *exe) {
  tn_kernel code = exe->kernels[0].call;
  uintptr_t address;
  memcpy(&address, &code, sizeof(address));
  FILE *maps = fopen("/proc/self/maps", "r");
  assert_non_null(maps);
  char line[512];
  bool found = false;
  while (fgets(line, sizeof(line), maps) != NULL) {
    unsigned long start, end, inode;
    if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &start, &end, &inode) != 3 || address < start || address >= end)
      continue;
    found = true;
    assert_int_equal(inode, 0);
  }
  fclose(maps);
  assert_true(found);
}

static void files_are_mapped(void **state) {
  sample s;
  begin(&s);
  tn__exe_emit_kernel(s.f, s.kernel, &s.constant, 1, &s.arena, 1, &s.n, 1);
  tn__bytes bytes = finish(&s);
  char path[64];
  snprintf(path, sizeof(path), "/tmp/tenon-test-%ld.tnx", (long)getpid());
  check_ok(tn__file_write_atomic(path, &bytes, 1, 0644));
  tn_load_options options = {.size = sizeof(options), .perf_map = true, .verify_constants = true};
  tn_executable *exe, *borrowed;
  check_ok(tn_executable_load(path, &options, &exe));
  options.borrow_data = true, options.perf_map = false;
  _Alignas(4096) static uint8_t copy[1 << 15];
  assert_true(bytes.size <= sizeof(copy));
  memcpy(copy, bytes.data, bytes.size);
  check_ok(tn_executable_load_memory(copy, bytes.size, &options, &borrowed));
  float values[5] = {1, 2, 3, 4, 5};
  int64_t five = 5;
  DLTensor x = test_tensor(TN_F32, 1, &five, values), y;
  check_nameless(exe);
  tn_executable *both[2] = {exe, borrowed};
  for (int i = 0; i < 2; i++) {
    tn_session *session;
    tn_session_options one = {.size = sizeof(one), .threads = 1};
    check_ok(tn_session_create(both[i], &one, &session));
    check_ok(tn_session_invoke_with_outputs(session, NULL, &x, 1, NULL, 0));
    check_ok(tn_session_get_output(session, NULL, 0, &y));
    assert_memory_equal(y.data, values, sizeof(values));
    tn_session_release(session);
    tn_executable_release(both[i]);
  }
  char map[64], line[128];
  snprintf(map, sizeof(map), "/tmp/perf-%ld.map", (long)getpid());
  FILE *file = fopen(map, "r");
  assert_non_null(file);
  assert_non_null(fgets(line, sizeof(line), file));
  assert_non_null(strstr(line, " 10 nothing\n"));
  fclose(file);
  unlink(map);
  /* Another user may have created a link with that name to a file of this user. */
  char target[96];
  snprintf(target, sizeof(target), "%s.kept", path);
  check_ok(tn__file_write_atomic(target, &(tn__bytes){"kept", 4}, 1, 0644));
  assert_int_equal(symlink(target, map), 0);
  options.borrow_data = false, options.perf_map = true;
  check_ok(tn_executable_load(path, &options, &exe));
  tn_executable_release(exe);
  tn__file_map kept;
  check_ok(tn__file_map_open(target, &kept));
  assert_int_equal(kept.size, 4);
  tn__file_map_close(&kept);
  unlink(map), unlink(path), unlink(target);
  char words[160];
  snprintf(words, sizeof(words), "%s: cannot open: No such file or directory", path);
  check_fails(tn_executable_load(path, NULL, &exe), TN_NOT_FOUND, words);
  test_exe_release(&s.t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_samples_load),
      cmocka_unit_test(writing_is_deterministic),
      cmocka_unit_test(equal_constants_are_stored_once),
      cmocka_unit_test(large_constants_are_compared_whole),
      cmocka_unit_test(files_are_made_around_constants),
      cmocka_unit_test(constants_may_lie_apart),
      cmocka_unit_test(disassembly_reads_well),
      cmocka_unit_test(truncation_is_refused_everywhere),
      cmocka_unit_test(flips_are_refused),
      cmocka_unit_test(damaged_constants_are_found_on_request),
      cmocka_unit_test(rehashed_changes_are_survived),
      cmocka_unit_test(versions_are_told_apart),
      cmocka_unit_test(other_machines_are_named),
      cmocka_unit_test(bad_samples_are_refused),
      cmocka_unit_test(code_ends_with_return),
      cmocka_unit_test(loops_are_verified),
      cmocka_unit_test(files_are_mapped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
