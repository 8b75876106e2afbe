/* Executables in two files, signed ones, ones that are only verified or stripped, and declared aliases. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tenon/te.h"
#include "unit/onnx_build.h"
#include "unit/rehash.h"
#include "unit/session_models.h"

typedef struct files {
  tn_module *module;
  char folder[64], exe[128], constants[128];
} files;

static void compile_embed_with(files *f, const char *texts) {
  tn_compile_options options = {.size = sizeof(options), .no_cache = true, .run_threads = 1, .texts = texts};
  check_ok(tn_compile(TN_TEST_ROOT "/examples/embed/model.onnx", NULL, 0, &options, &f->module));
  strcpy(f->folder, "/tmp/tenon-test-XXXXXX");
  assert_non_null(mkdtemp(f->folder));
  snprintf(f->exe, sizeof(f->exe), "%s/model.tnx", f->folder);
  snprintf(f->constants, sizeof(f->constants), "%s/model.weights", f->folder);
}

static void compile_embed(files *f) { compile_embed_with(f, "all"); }

static void clean_up(files *f) {
  tn_module_release(f->module);
  unlink(f->exe), unlink(f->constants);
  assert_int_equal(rmdir(f->folder), 0);
}

static void check_runs(const char *path, const tn_load_options *options) {
  tn_executable *exe;
  tn_session *session;
  check_ok(tn_executable_load(path, options, &exe));
  check_ok(tn_session_create(exe, NULL, &session));
  static _Alignas(64) float x[3] = {1, 1, 1};
  int64_t shape[2] = {1, 3};
  DLTensor input = test_tensor(TN_F32, 2, shape, x), y;
  check_ok(tn_session_invoke_stateful(session, NULL, &input, 1));
  check_ok(tn_session_get_output(session, NULL, 0, &y));
  assert_memory_equal(y.data, ((float[]){6, 0}), 8);
  tn_session_release(session);
  tn_executable_release(exe);
}

static void change_byte(const char *path, long at) {
  FILE *file = fopen(path, "r+b");
  if (file == NULL) fail_msg("cannot open %s", path);
  if (file == NULL) return;
  fseek(file, at, SEEK_SET);
  int byte = fgetc(file);
  fseek(file, at, SEEK_SET);
  fputc(byte ^ 1, file);
  fclose(file);
}

static char words[512];
static const char *told(const char *format, const char *a, const char *b) {
  snprintf(words, sizeof(words), format, a, b);
  return words;
}

static void constants_live_apart(void **state) {
  files f;
  compile_embed(&f);
  check_ok(tn_module_split(f.module, f.constants, NULL));
  check_fails(tn_module_split(f.module, f.constants, NULL), TN_FAILED_PRECONDITION,
              "the module's constants are in a file of their own already");
  check_ok(tn_module_save(f.module, f.exe));
  tn_load_options verified = {.size = sizeof(verified), .verify_constants = true};
  check_runs(f.exe, NULL);
  check_runs(f.exe, &verified);
  check_ok(tn_executable_verify(f.exe, NULL));
  /* From memory there is no folder to look in. */
  size_t size;
  const void *data = tn_module_data(f.module, &size);
  tn_executable *exe;
  check_fails(tn_executable_load_memory(data, size, NULL, &exe), TN_NOT_FOUND,
              "the constants are in a file of their own: model.weights: cannot open: No such file or directory");
  /* Only plain names are valid: no file outside the executable's folder is opened. */
  static const char *const away[] = {"../l.weights", "/el.weights12", "mo/el.weights"};
  for (int i = 0; i < 3; i++) {
    uint8_t *forged = malloc(size);
    memcpy(forged, data, size);
    for (size_t at = 0; at + 13 <= size; at++)
      if (memcmp(forged + at, "model.weights", 13) == 0) memcpy(forged + at, away[i], strlen(away[i]));
    rehash(forged, size);
    check_fails(tn_executable_load_memory(forged, size, NULL, &exe), TN_DATA_LOSS,
                "the executable is damaged: its link to a file of constants leads to another folder");
    free(forged);
  }
  tn_load_options elsewhere = {.size = sizeof(elsewhere), .constants_path = f.constants};
  check_ok(tn_executable_load_memory(data, size, &elsewhere, &exe));
  tn_executable_release(exe);
  /* Damage to the constants is found on request, another file at once. */
  change_byte(f.constants, TN__FILE_PAGE + 8);
  check_runs(f.exe, NULL); /* the bit belongs to a column that pads the product */
  check_fails(
      tn_executable_verify(f.exe, NULL), TN_DATA_LOSS,
      told("%s: %s: its constants were changed after they were written (the hash differs)", f.exe, f.constants));
  change_byte(f.constants, TN__FILE_PAGE + 8);
  change_byte(f.constants, 16);
  tn_status *status = tn_executable_load(f.exe, NULL, &exe);
  assert_int_equal(tn_status_code_of(status), TN_DATA_LOSS);
  assert_non_null(strstr(tn_status_message(status), "they do not belong together"));
  tn_status_free(status);
  change_byte(f.constants, 16);
  assert_int_equal(truncate(f.constants, TN__FILE_PAGE + 8), 0);
  status = tn_executable_load(f.exe, NULL, &exe);
  assert_non_null(
      strstr(tn_status_message(status), "it is truncated or grew: 8 bytes are there, and its header says "));
  tn_status_free(status);
  assert_int_equal(truncate(f.constants, 100), 0);
  check_fails(tn_executable_load(f.exe, NULL, &exe), TN_DATA_LOSS,
              told("%s: %s: not a file of constants: it does not start with such a header", f.exe, f.constants));
  clean_up(&f);
}

/* Executables may share the old constants, so these go only when everything that is new is there. */
static void constants_stay_when_the_executable_cannot_be_written(void **state) {
  files f, other;
  compile_embed(&f);
  compile_embed(&other);
  check_ok(tn_module_save_split(f.module, f.exe, f.constants, NULL, "secret", 6));
  tn_load_options with = {.size = sizeof(with), .key = "secret", .key_size = 6, .verify_constants = true};
  check_runs(f.exe, &with);
  check_fails(tn_module_save_split(f.module, f.exe, f.constants, NULL, NULL, 0), TN_FAILED_PRECONDITION,
              "the module's constants are in a file of their own already");
  change_byte(f.constants, TN__FILE_PAGE + 8); /* to be told from those that are not written now */
  assert_int_equal(mkdir(other.exe, 0777), 0);
  check_fails(tn_module_save_split(other.module, other.exe, f.constants, NULL, NULL, 0), TN_IO,
              told("%s: cannot write: Is a directory%s", other.exe, ""));
  tn_status *damaged = tn_executable_verify(f.exe, NULL);
  assert_int_equal(tn_status_code_of(damaged), TN_DATA_LOSS);
  tn_status_free(damaged);
  assert_int_equal(rmdir(other.exe), 0);
  check_fails(tn_module_save_split(other.module, other.exe, other.exe, NULL, NULL, 0), TN_INVALID_ARGUMENT,
              "the executable and its constants need a path each");
  /* The module is as it was. */
  check_ok(tn_module_save(other.module, other.exe));
  check_runs(other.exe, NULL);
  check_ok(tn_module_save_split(other.module, other.exe, other.constants, NULL, NULL, 0));
  check_runs(other.exe, NULL);
  clean_up(&f);
  clean_up(&other);
}

static void keys_are_checked(void **state) {
  files f;
  compile_embed(&f);
  check_ok(tn_module_save(f.module, f.exe));
  tn_load_options with = {.size = sizeof(with), .key = "secret", .key_size = 6}, other = with;
  other.key = "Secret";
  tn_executable *exe;
  check_fails(tn_executable_load(f.exe, &with, &exe), TN_FAILED_PRECONDITION,
              told("%s: the executable is not signed, and a key was given to check it with%s", f.exe, ""));
  check_fails(tn_module_sign(f.module, "", 0), TN_INVALID_ARGUMENT, "a signature needs a key of at least one byte");
  check_ok(tn_module_sign(f.module, "secret", 6));
  check_ok(tn_module_save(f.module, f.exe));
  check_runs(f.exe, &with);
  check_runs(f.exe, NULL);
  check_ok(tn_executable_verify(f.exe, &with));
  check_fails(tn_executable_load(f.exe, &other, &exe), TN_DATA_LOSS,
              told("%s: the executable's signature does not belong to this key and these contents%s", f.exe, ""));
  /* Contents that were changed by somebody who made the hashes right again, but has no key. */
  size_t size;
  const uint8_t *data = tn_module_data(f.module, &size);
  uint8_t *forged = malloc(size);
  memcpy(forged, data, size);
  forged[size - 40] ^= 1; /* a constant */
  rehash(forged, size);
  check_fails(tn_executable_load_memory(forged, size, &with, &exe), TN_DATA_LOSS,
              "the executable's signature does not belong to this key and these contents");
  check_ok(tn_executable_load_memory(forged, size, NULL, &exe));
  tn_executable_release(exe);
  free(forged);
  clean_up(&f);
}

/* ---- every byte -------------------------------------------------------------------------------------------------- */

/* A kernel alone: its executable has no constants, and their empty section lies at the end, behind a gap. */
static tn_module *module_without_constants(void) {
  static const char text[] = "kernel twice(X: f32[4]) -> Y: f32[4] { Y[i] = X[i] * 2 }";
  tn_te *te;
  tn_schedule *schedule;
  tn_module *module;
  check_ok(tn_te_parse("twice.te", text, strlen(text), NULL, NULL, 0, NULL, &te));
  check_ok(tn_schedule_create(te, NULL, NULL, &schedule));
  check_ok(tn_te_module(&schedule, 1, NULL, &module));
  tn_schedule_release(schedule);
  tn_te_release(te);
  return module;
}

static bool is_accepted(const uint8_t *file, size_t size, const tn_load_options *options) {
  tn_executable *exe;
  tn_status *status = tn_executable_load_memory(file, size, options, &exe);
  bool accepted = status == NULL;
  tn_executable_release(exe);
  tn_status_free(status);
  return accepted;
}

static bool lies_in_constants(const uint8_t *file, size_t at) {
  const tn__file_header *header = (const void *)file;
  const tn__file_section *sections = (const void *)(file + header->header_size);
  for (uint32_t i = 0; i < header->section_count; i++)
    if (sections[i].kind == TN__SECTION_CONSTANTS && at >= sections[i].offset)
      return at - sections[i].offset < sections[i].size;
  return false;
}

/* Each byte of the signed file is changed in turn, by accident, and where `forge` says so by somebody who makes the
 * hashes right again. */
static void change_every_byte(tn_module *module, bool forge) {
  size_t size;
  check_ok(tn_module_sign(module, "secret", 6));
  const void *data = tn_module_data(module, &size);
  uint8_t *file = aligned_alloc(64, (size + 63) / 64 * 64), *forged = aligned_alloc(64, (size + 63) / 64 * 64);
  assert_non_null(file);
  assert_non_null(forged);
  const tn_load_options plain = {.size = sizeof(plain), .borrow_data = true};
  tn_load_options keyed = plain;
  keyed.key = "secret", keyed.key_size = 6;
  memcpy(file, data, size);
  assert_true(is_accepted(file, size, &keyed));
  for (size_t i = 0; i < size; i++) {
    file[i] ^= 0x11;
    if (is_accepted(file, size, &keyed)) fail_msg("byte %zu of %zu, signed, was changed and not noticed", i, size);
    /* Without a key there are the hashes; that of the constants is looked at on request only. */
    if (!forge && is_accepted(file, size, &plain) != lies_in_constants(data, i))
      fail_msg("byte %zu of %zu was changed and not noticed", i, size);
    memcpy(forged, file, size);
    if (forge) rehash(forged, size);
    bool same = memcmp(forged, file, size) == 0 || memcmp(forged, data, size) == 0;
    if (!same && is_accepted(forged, size, &keyed)) fail_msg("byte %zu of %zu was forged and not noticed", i, size);
    file[i] ^= 0x11;
  }
  free(file);
  free(forged);
}

static void no_byte_is_left_out(void **state) {
  files f;
  compile_embed_with(&f, "none");
  change_every_byte(f.module, false);
  clean_up(&f);
  tn_module *module = module_without_constants();
  change_every_byte(module, true);
  tn_module_release(module);
}

/* Gives the text `name` the kind of a section that this version does not know, with hashes that are right. */
static void hide_text(uint8_t *file, size_t size, const char *name) {
  const tn__file_header *header = (const void *)file;
  tn__file_section *sections = (void *)(file + header->header_size);
  const char *strings = NULL;
  for (uint32_t i = 0; i < header->section_count; i++)
    if (sections[i].kind == TN__SECTION_STRINGS) strings = (const char *)file + sections[i].offset;
  for (uint32_t i = 0; strings != NULL && i < header->section_count; i++)
    if (sections[i].kind == TN__SECTION_TEXT && strcmp(strings + sections[i].name, name) == 0) sections[i].kind = 777;
  rehash(file, size);
}

/* What the sections hold together: the file itself ends at a page. */
static uint64_t bytes_of_sections(const uint8_t *file) {
  const tn__file_header *header = (const void *)file;
  const tn__file_section *sections = (const void *)(file + header->header_size);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < header->section_count; i++) bytes += sections[i].size;
  return bytes;
}

static void check_texts(const char *path, const char *kept, const char *gone) {
  tn_executable *exe;
  size_t size;
  check_ok(tn_executable_load(path, NULL, &exe));
  if (kept != NULL) assert_non_null(tn_executable_text(exe, kept, &size));
  assert_null(tn_executable_text(exe, gone, &size));
  tn_executable_release(exe);
}

static void texts_are_left_out(void **state) {
  files f;
  compile_embed(&f);
  size_t size;
  const void *data = tn_module_data(f.module, &size);
  uint64_t bytes = bytes_of_sections(data);
  uint8_t *changed = malloc(size);
  memcpy(changed, data, size);
  hide_text(changed, size, "schedules");
  check_ok(tn__file_write_atomic(f.exe, &(tn__bytes){changed, size}, 1, 0644));
  free(changed);
  check_ok(tn_executable_strip(f.exe, "graph,loops", NULL, f.exe));
  check_texts(f.exe, "graph", "declarations");
  check_texts(f.exe, "loops", "declarations");
  check_runs(f.exe, NULL);
  check_ok(tn_executable_strip(f.exe, NULL, NULL, f.exe));
  check_texts(f.exe, NULL, "graph");
  check_texts(f.exe, NULL, "loops");
  check_runs(f.exe, NULL);
  tn__file_map map;
  bool hidden = false;
  check_ok(tn__file_map_open(f.exe, &map));
  assert_true(map.size <= size);
  assert_true(bytes_of_sections((const uint8_t *)map.data) < bytes);
  const tn__file_header *header = (const void *)map.data;
  const tn__file_section *sections = (const void *)(map.data + header->header_size);
  for (uint32_t i = 0; i < header->section_count; i++) hidden |= sections[i].kind == 777 && sections[i].size > 0;
  assert_true(hidden); /* what a later version knows is not this one's to leave out */
  tn__file_map_close(&map);
  check_fails(
      tn_executable_strip(f.exe, "loop", NULL, f.exe), TN_INVALID_ARGUMENT,
      "there is no text \"loop\" that an executable could keep: there are schedules, graph, declarations, loops, "
      "all and none; did you mean \"loops\"?");
  change_byte(f.exe, sizeof(tn__file_header) + 6);
  check_fails(tn_executable_strip(f.exe, NULL, NULL, f.constants), TN_DATA_LOSS,
              told("%s: the executable is damaged: its header or section table was changed after it was written (the "
                   "hash differs)%s",
                   f.exe, ""));
  assert_int_not_equal(access(f.constants, F_OK), 0);
  clean_up(&f);
}

static void what_is_stripped_is_signed_again(void **state) {
  files f;
  compile_embed(&f);
  check_ok(tn_module_split(f.module, f.constants, NULL));
  check_ok(tn_module_sign(f.module, "secret", 6));
  check_ok(tn_module_save(f.module, f.exe));
  tn_load_options with = {.size = sizeof(with), .key = "secret", .key_size = 6}, other = with;
  other.key = "Secret";
  check_fails(
      tn_executable_strip(f.exe, NULL, NULL, f.exe), TN_FAILED_PRECONDITION,
      told("%s: the executable is signed, and what is left of it must be signed again: give the key%s", f.exe, ""));
  check_fails(tn_executable_strip(f.exe, NULL, &other, f.exe), TN_DATA_LOSS,
              told("%s: the executable's signature does not belong to this key and these contents%s", f.exe, ""));
  check_texts(f.exe, "loops", "nothing");
  check_ok(tn_executable_strip(f.exe, NULL, &with, f.exe));
  check_texts(f.exe, NULL, "loops");
  check_ok(tn_executable_verify(f.exe, &with));
  check_runs(f.exe, &with);
  clean_up(&f);
}

/* Weights that are products of others are computed here, in vectors that this machine has. */
static void constants_for_wider_machines_are_computed(void **state) {
#if defined(__x86_64__)
  enum { SIDE = 300 };
  static float numbers[SIDE * SIDE];
  pb graph = {0};
  onnx_node(&graph, "MatMul", "weights", "a,b", "w");
  onnx_node(&graph, "MatMul", "layer", "x,w", "y");
  for (int i = 0; i < SIDE * SIDE; i++) numbers[i] = (float)(i % 7);
  onnx_raw(&graph, "a", ONNX_FLOAT, (int64_t[]){SIDE, SIDE}, 2, numbers, sizeof numbers);
  onnx_raw(&graph, "b", ONNX_FLOAT, (int64_t[]){SIDE, SIDE}, 2, numbers, sizeof numbers);
  onnx_input(&graph, "x", ONNX_FLOAT, "2,300");
  onnx_output(&graph, "y", ONNX_FLOAT, "2,300");
  pb model = onnx_model(17, &graph);
  tn_compile_options options = {.size = sizeof(options), .no_cache = true, .run_threads = 1, .target = "x86-64-v4"};
  tn_module *module;
  check_ok(tn_compile("model.onnx", model.data, model.size, &options, &module));
  tn_module_release(module);
  pb_free(&model);
#endif
}

static void other_machines_are_verified(void **state) {
  files f;
  compile_embed(&f);
  tn_module_release(f.module);
  tn_compile_options options = {.size = sizeof(options), .no_cache = true, .run_threads = 1};
#if defined(__x86_64__)
  options.target = "aarch64";
#else
  options.target = "x86-64-v3";
#endif
  check_ok(tn_compile(TN_TEST_ROOT "/examples/embed/model.onnx", NULL, 0, &options, &f.module));
  check_ok(tn_module_save(f.module, f.exe));
  check_ok(tn_executable_verify(f.exe, NULL));
  /* What it holds can be told, and nothing can be run. */
  tn_load_options look = {.size = sizeof(look), .inspect_only = true};
  tn_executable *exe;
  tn_session *session;
  char *text;
  tn_status *here = tn_executable_load(f.exe, NULL, &exe);
  assert_int_equal(tn_status_code_of(here), TN_FAILED_PRECONDITION);
  tn_status_free(here);
  for (int memory = 0; memory < 2; memory++) {
    check_ok(memory ? tn_module_load(f.module, &look, &exe) : tn_executable_load(f.exe, &look, &exe));
    assert_string_equal(tn_executable_input(exe, NULL, 0)->name, "x");
    check_ok(tn_executable_disassemble(exe, &text));
    free(text);
    check_fails(
        tn_session_create(exe, NULL, &session), TN_FAILED_PRECONDITION,
        "the executable was loaded to be inspected only (tn_load_options.inspect_only), and none of its code is "
        "there: load it without that to run it");
    tn_executable_release(exe);
  }
  check_ok(tn_inspect(f.exe, NULL, &text));
  assert_non_null(strstr(text, options.target));
  free(text);
  check_ok(tn_inspect(TN_TEST_ROOT "/examples/embed/model.onnx", &options, &text));
  assert_non_null(strstr(text, options.target));
  free(text);
  change_byte(f.exe, 300);
  tn_status *status = tn_executable_verify(f.exe, NULL);
  assert_int_equal(tn_status_code_of(status), TN_DATA_LOSS);
  tn_status_free(status);
  clean_up(&f);
}

/* ---- declared aliases ------------------------------------------------------------------------------------------- */

static int32_t add_one(const tn_kernel_env *env, void *const *buffers, const int64_t *scalars) {
  const float *a = buffers[0];
  float *b = buffers[1];
  for (int64_t i = 0; i < scalars[0]; i++) b[i] = a[i] + 1;
  return TN_KERNEL_OK;
}

typedef enum alias_case { GOOD, READ_LATER, READ_IN_LOOP, OTHER_TYPE, NO_SUCH_INPUT, TAKEN_TWICE } alias_case;

/* f(a: f32[n], b: f32[n]) -> (x = a + 1 over a, y: b) */
static tn__bytes build_alias(test_exe *t, alias_case which) {
  int kernel = test_exe_kernel(t, "add_one", add_one, 2, 1);
  tn__exe_func *f = tn__exe_function(t->exe, "f");
  int n = tn__exe_symbol(f, "n");
  tn__operand dims[1] = {SYM(n)}, four[1] = {DIM(4)};
  int ins[2], outs[2];
  const char *const in_names[2] = {"a", "b"}, *const out_names[2] = {"x", "y"};
  for (int i = 0; i < 2; i++) {
    const tn__operand *shape = which == OTHER_TYPE && i == 0 ? four : dims;
    tn__exe_input(f, in_names[i], TN_F32, 1, shape);
    tn__exe_output(f, out_names[i], TN_F32, 1, dims);
    ins[i] = tn__exe_register(f, TN_F32, 1, shape, TN__STORAGE_INPUT, i, nowhere);
    outs[i] = tn__exe_register(f, TN_F32, 1, dims, TN__STORAGE_OUTPUT, i, nowhere);
  }
  tn__exe_alias(f, 0, which == NO_SUCH_INPUT ? 2 : 0);
  if (which == TAKEN_TWICE) tn__exe_alias(f, 1, 0);
  uint32_t again = tn__exe_here(f);
  tn__exe_emit_kernel(f, kernel, &ins[0], 1, &outs[0], 1, &n, 1);
  if (which == READ_IN_LOOP) {
    int zero = tn__exe_emit_const(f, 0);
    tn__exe_emit(f, TN__OP_JUMP_IF_ZERO, W((uint32_t)zero, again), 2);
  }
  tn__exe_emit(f, TN__OP_COPY, W((uint32_t)outs[1], (uint32_t)ins[which == READ_LATER ? 0 : 1]), 2);
  tn__exe_emit(f, TN__OP_RETURN, NULL, 0);
  return test_exe_finish(t);
}

static void aliased_outputs_update_in_place(void **state) {
  test_exe t;
  test_exe_init(&t, NULL);
  tn_executable *exe = loaded(build_alias(&t, GOOD));
  test_exe_release(&t);
  assert_int_equal(tn_executable_output_alias(exe, NULL, 0), 0);
  assert_int_equal(tn_executable_output_alias(exe, NULL, 1), -1);
  tn_session *session = session_of(exe);
  fill();
  int64_t n = 8;
  DLTensor inputs[2] = {test_tensor(TN_F32, 1, &n, xs), test_tensor(TN_F32, 1, &n, ys)};
  DLTensor outputs[2] = {inputs[0], test_tensor(TN_F32, 1, &n, zs)};
  check_ok(tn_session_set_inputs(session, NULL, NULL, inputs, 2, TN_BIND_PERSISTENT));
  check_ok(tn_session_set_outputs(session, NULL, NULL, outputs, 2, TN_BIND_PERSISTENT));
  for (int i = 0; i < 3; i++) check_ok(tn_session_invoke(session, NULL));
  for (int i = 0; i < 8; i++) assert_true(xs[i] == (float)(i + 3) && zs[i] == ys[i]);
  outputs[0].data = xs + 16; /* its own buffer is fine too */
  check_ok(tn_session_set_outputs(session, NULL, NULL, outputs, 2, TN_BIND_PERSISTENT));
  check_ok(tn_session_invoke(session, NULL));
  assert_true(xs[0] == 3 && xs[16] == 4);
  outputs[0].data = xs, outputs[0].byte_offset = 4; /* but not a part of it, */
  check_ok(tn_session_set_outputs(session, NULL, NULL, outputs, 2, TN_BIND_NEXT));
  check_fails(tn_session_invoke(session, NULL), TN_INVALID_ARGUMENT, "output \"x\" shares memory with input \"a\"");
  outputs[0].byte_offset = 2; /* nor through a copy */
  check_ok(tn_session_set_outputs(session, NULL, NULL, outputs, 2, TN_BIND_NEXT));
  check_fails(tn_session_invoke(session, NULL), TN_INVALID_ARGUMENT, "output \"x\" shares memory with input \"a\"");
  outputs[0].data = xs + 16, outputs[1].data = ys;
  check_ok(tn_session_set_outputs(session, NULL, NULL, outputs, 2, TN_BIND_NEXT));
  check_fails(tn_session_invoke(session, NULL), TN_INVALID_ARGUMENT, "output \"y\" shares memory with input \"b\"");
  tn_session_release(session);
  tn_executable_release(exe);
}

static void wrong_aliases_are_refused(void **state) {
  static const struct {
    alias_case which;
    const char *text;
  } cases[] = {
      {READ_LATER, "function \"f\": output \"x\" aliases input \"a\", which is read after the output was written"},
      {READ_IN_LOOP, "function \"f\": output \"x\" aliases input \"a\", which is read after the output was written"},
      {OTHER_TYPE, "function \"f\": output \"x\" aliases input \"a\", which has another type or shape"},
      {NO_SUCH_INPUT, "function \"f\": output \"x\" aliases input 2 of 2"},
      {TAKEN_TWICE, "function \"f\": output \"y\" aliases input \"a\", as another output does"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    test_exe t;
    test_exe_init(&t, NULL);
    tn__bytes bytes = build_alias(&t, cases[i].which);
    tn_executable *exe;
    check_fails(tn_executable_load_memory(bytes.data, bytes.size, NULL, &exe), TN_DATA_LOSS,
                told("the executable is damaged: %s%s", cases[i].text, ""));
    test_exe_release(&t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constants_live_apart),
      cmocka_unit_test(constants_stay_when_the_executable_cannot_be_written),
      cmocka_unit_test(keys_are_checked),
      cmocka_unit_test(no_byte_is_left_out),
      cmocka_unit_test(constants_for_wider_machines_are_computed),
      cmocka_unit_test(other_machines_are_verified),
      cmocka_unit_test(aliased_outputs_update_in_place),
      cmocka_unit_test(wrong_aliases_are_refused),
      cmocka_unit_test(texts_are_left_out),
      cmocka_unit_test(what_is_stripped_is_signed_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
