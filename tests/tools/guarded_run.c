/* usage: guarded_run
 *
 * Runs executables on inputs that come over stdin, and answers over stdout, so that whoever attacks a model from Python
 * gets every read and write outside of a tensor as a fault. tests/onnx/attack_suite.py speaks to it.
 *
 * Every block of memory that a run may touch lies against a page without access: inputs, outputs, what the session
 * allocates, and the executable itself, whose constants are used in place. Each case runs twice, in sessions of their
 * own: first with blocks that end at such a page, fresh memory full of ones and outputs that the session allocates;
 * then with blocks that begin behind one, other fresh bytes, and outputs bound to exactly their size. Both must have
 * the same outcome, byte for byte: what reads memory that nobody wrote, of a neighbour in the arena say, tells itself
 * so. Bytes between a block and the page are checked when it is freed.
 *
 * A fault ends the process with a line on stderr that says where the address lies. Numbers are little-endian:
 *   request: u8 'L', u32 length, path             loads an executable; the reply is a u32 status and a text
 *            u8 'R', u32 count, values            runs it; with status 0 the outputs follow: u32 count, values
 *            u8 'F'                               reads the byte behind a block, to show that a fault is told
 *   value:   u8 is_list, i32 count (-1: an optional without value), that many tensors (one if it is no list)
 *   tensor:  u32 dtype, u32 rank, i64 dimensions, u64 size, bytes; of strings: each a u64 length and bytes
 *   text:    u32 length, bytes */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "guarded.h"

enum { MAX_PATH = 4096 };

/* ---- reading and writing ----------------------------------------------------------------------------------------- */

static void need(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "guarded_run: %s\n", what);
  exit(2);
}

static void get(void *into, size_t size) {
  need(size == 0 || fread(into, size, 1, stdin) == 1, "the request ends early");
}

static uint32_t get_u32(void) {
  uint32_t value;
  get(&value, sizeof value);
  return value;
}

static uint64_t get_u64(void) {
  uint64_t value;
  get(&value, sizeof value);
  return value;
}

static void put(const void *from, size_t size) {
  need(size == 0 || fwrite(from, size, 1, stdout) == 1, "nobody reads the reply");
}

static void put_u32(uint32_t value) { put(&value, sizeof value); }

static void put_text(const char *text) {
  put_u32((uint32_t)strlen(text));
  put(text, strlen(text));
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

typedef struct tensor {
  DLTensor dl;
  tn_dtype dtype;
  int64_t shape[TN_MAX_RANK];
  size_t size; /* bytes; of strings, those of the array of tn_string */
} tensor;

typedef struct value {
  bool is_list;
  int count;
  tensor *tensors;
} value;

static void *checked_alloc(size_t count, size_t size) {
  void *memory = calloc(count == 0 ? 1 : count, size);
  need(memory != NULL, "no memory");
  return memory;
}

static void read_strings(tensor *t) {
  size_t count = t->size;
  tn_string *strings = checked_alloc(count, sizeof(tn_string));
  for (size_t i = 0; i < count; i++) {
    strings[i].length = get_u64();
    char *bytes = checked_alloc(strings[i].length, 1);
    get(bytes, strings[i].length);
    strings[i].data = bytes;
  }
  t->dl.data = strings, t->size = count * sizeof(tn_string);
}

static void read_tensor(tensor *t) {
  t->dtype = (tn_dtype)get_u32();
  uint32_t rank = get_u32();
  need(rank <= TN_MAX_RANK, "a rank beyond all");
  get(t->shape, rank * sizeof(int64_t));
  t->size = get_u64();
  t->dl = (DLTensor){.device = {kDLCPU, 0}, .ndim = (int)rank, .dtype = tn_dtype_to_dl(t->dtype), .shape = t->shape};
  if (t->dtype == TN_STRING) {
    read_strings(t);
  } else {
    t->dl.data = checked_alloc(t->size, 1);
    get(t->dl.data, t->size);
  }
}

static void read_value(value *v) {
  uint8_t is_list;
  get(&is_list, 1);
  v->is_list = is_list, v->count = (int)get_u32();
  v->tensors = checked_alloc(v->count < 0 ? 0 : (size_t)v->count, sizeof(tensor));
  for (int i = 0; i < v->count; i++) read_tensor(&v->tensors[i]);
}

static void free_value(value *v) {
  for (int i = 0; i < v->count; i++) {
    tensor *t = &v->tensors[i];
    const tn_string *strings = t->dl.data;
    for (size_t j = 0; t->dtype == TN_STRING && j < t->size / sizeof(tn_string); j++)
      free((void *)(uintptr_t)strings[j].data);
    free(t->dl.data);
  }
  free(v->tensors);
  *v = (value){0};
}

/* A copy of a result, in memory of malloc. */
static void keep_tensor(const DLTensor *from, tensor *to) {
  to->dtype = tn_dtype_of_dl(from->dtype);
  for (int i = 0; i < from->ndim; i++) to->shape[i] = from->shape[i];
  int64_t count = tn_element_count(from->ndim, to->shape);
  need(count >= 0, "a result without size");
  to->size = (size_t)count * tn_dtype_size(to->dtype);
  to->dl = *from, to->dl.shape = to->shape, to->dl.strides = NULL, to->dl.byte_offset = 0;
  to->dl.data = checked_alloc(to->size, 1);
  tn_tensor_copy(from, &to->dl);
  if (to->dtype != TN_STRING) return;
  tn_string *strings = to->dl.data;
  for (int64_t i = 0; i < count; i++) {
    char *bytes = checked_alloc(strings[i].length, 1);
    if (strings[i].length > 0) memcpy(bytes, strings[i].data, strings[i].length);
    strings[i].data = bytes;
  }
}

static void write_tensor(const tensor *t) {
  uint32_t head[2] = {(uint32_t)t->dtype, (uint32_t)t->dl.ndim};
  put(head, sizeof head);
  put(t->shape, head[1] * sizeof(int64_t));
  if (t->dtype != TN_STRING) {
    put(&(uint64_t){t->size}, sizeof(uint64_t));
    put(t->dl.data, t->size);
    return;
  }
  const tn_string *strings = t->dl.data;
  uint64_t count = t->size / sizeof(tn_string);
  put(&count, sizeof count);
  for (uint64_t i = 0; i < count; i++) {
    put(&strings[i].length, sizeof(uint64_t));
    put(strings[i].data, strings[i].length);
  }
}

static void write_value(const value *v) {
  put(&(uint8_t){v->is_list}, 1);
  put_u32((uint32_t)v->count);
  for (int i = 0; i < v->count; i++) write_tensor(&v->tensors[i]);
}

static bool same_tensor(const tensor *a, const tensor *b) {
  if (a->dtype != b->dtype || a->dl.ndim != b->dl.ndim || a->size != b->size) return false;
  if (memcmp(a->shape, b->shape, (size_t)a->dl.ndim * sizeof(int64_t)) != 0) return false;
  if (a->dtype != TN_STRING) return memcmp(a->dl.data, b->dl.data, a->size) == 0;
  const tn_string *as = a->dl.data, *bs = b->dl.data;
  for (size_t i = 0; i < a->size / sizeof(tn_string); i++)
    if (as[i].length != bs[i].length || memcmp(as[i].data, bs[i].data, as[i].length) != 0) return false;
  return true;
}

static bool same_value(const value *a, const value *b) {
  if (a->is_list != b->is_list || a->count != b->count) return false;
  for (int i = 0; i < a->count; i++)
    if (!same_tensor(&a->tensors[i], &b->tensors[i])) return false;
  return true;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct model {
  tn_executable *executable;
  value *inputs, *outputs, *again; /* `again`: those of the second run */
  int input_count, output_count;
} model;

static tn_status *no_memory(void) { return tn_status_create(TN_OUT_OF_MEMORY, "the memory for tests is exhausted"); }

static tn_status *bind_input(const model *m, tn_session *session, int index, value *v) {
  const tn_value_info *info = tn_executable_input(m->executable, NULL, index);
  DLTensor *placed = checked_alloc(v->count < 0 ? 0 : (size_t)v->count, sizeof(DLTensor));
  tn_status *status = NULL;
  for (int i = 0; i < v->count && !status; i++) {
    placed[i] = v->tensors[i].dl;
    placed[i].data = guarded_place(v->tensors[i].dl.data, v->tensors[i].size, (size_t)info->alignment);
    if (placed[i].data == NULL) status = no_memory();
    guarded_protect(placed[i].data);
  }
  if (!status && v->is_list) status = tn_session_set_input_list(session, NULL, index, placed, v->count);
  if (!status && !v->is_list) status = tn_session_set_input_at(session, NULL, index, &placed[0], TN_BIND_PERSISTENT);
  free(placed);
  return status;
}

/* Exactly as much memory as the value takes. Strings stay the session's. */
static tn_status *bind_output(const model *m, tn_session *session, int index, const value *v) {
  const tn_value_info *info = tn_executable_output(m->executable, NULL, index);
  if (info->dtype == TN_STRING || v->count < 0) return NULL;
  size_t size = 0;
  for (int i = 0; i < v->count; i++) size += v->is_list ? guarded_round(v->tensors[i].size, 64) : v->tensors[i].size;
  void *memory = guarded_place(NULL, size, v->is_list ? 64 : (size_t)info->alignment);
  if (memory == NULL) return no_memory();
  if (v->is_list) return tn_session_set_output_list(session, NULL, index, memory, size);
  DLTensor bound = v->tensors[0].dl;
  bound.data = memory;
  return tn_session_set_output_at(session, NULL, index, &bound, TN_BIND_PERSISTENT);
}

static tn_status *keep_output(const model *m, tn_session *session, int index, value *out) {
  const tn_value_info *info = tn_executable_output(m->executable, NULL, index);
  DLTensor view;
  out->is_list = info->kind != TN_VALUE_TENSOR, out->count = 1;
  tn_status *status = NULL;
  if (out->is_list) status = tn_session_get_output_count(session, NULL, index, &out->count);
  if (status) out->count = 0;
  out->tensors = checked_alloc(out->count < 0 ? 0 : (size_t)out->count, sizeof(tensor));
  for (int i = 0; i < out->count && !status; i++) {
    status = out->is_list ? tn_session_get_output_item(session, NULL, index, i, &view)
                          : tn_session_get_output(session, NULL, index, &view);
    if (!status) keep_tensor(&view, &out->tensors[i]);
  }
  return status;
}

static tn_status *run_once(model *m, value *outputs, const value *bound) {
  tn_session *session = NULL;
  tn_session_options options = {.size = sizeof options, .allocator = &guarded_allocator, .threads = 1};
  guarded_memory.instruction = NULL;
  tn_status *status = tn_session_create(m->executable, &options, &session);
  if (!status) status = tn_session_set_profile(session, guarded_instruction, NULL);
  for (int i = 0; i < m->input_count && !status; i++) status = bind_input(m, session, i, &m->inputs[i]);
  for (int i = 0; i < m->output_count && bound != NULL && !status; i++) status = bind_output(m, session, i, &bound[i]);
  if (!status) status = tn_session_invoke(session, NULL);
  for (int i = 0; i < m->output_count && !status; i++) status = keep_output(m, session, i, &outputs[i]);
  tn_session_release(session);
  return status;
}

/* `whole`: nobody wrote around a block. */
static tn_status *compare_runs(model *m, tn_status *first, tn_status *second, bool whole) {
  if (tn_status_code_of(first) != tn_status_code_of(second)) {
    tn_status *status = tn_status_create(TN_INTERNAL, "one run says: %s; another: %s", tn_status_message(first),
                                         tn_status_message(second));
    tn_status_free(first);
    tn_status_free(second);
    return status;
  }
  tn_status_free(second);
  for (int i = 0; i < m->output_count && !first; i++)
    if (!same_value(&m->outputs[i], &m->again[i]))
      first = tn_status_create(TN_INTERNAL, "output %d depends on memory that nobody wrote", i);
  if (!whole) {
    tn_status_free(first);
    first = tn_status_create(TN_INTERNAL, "memory around a block was written");
  }
  return first;
}

static void run_case(model *m) {
  int kept = guarded_memory.block_count;
  m->input_count = (int)get_u32();
  m->inputs = checked_alloc((size_t)m->input_count, sizeof(value));
  for (int i = 0; i < m->input_count; i++) read_value(&m->inputs[i]);
  m->output_count = tn_executable_output_count(m->executable, NULL);
  m->outputs = checked_alloc((size_t)m->output_count, sizeof(value));
  m->again = checked_alloc((size_t)m->output_count, sizeof(value));
  guarded_memory.at_start = false, guarded_memory.fill = 0xff;
  tn_status *first = run_once(m, m->outputs, NULL);
  bool whole = guarded_sweep(kept);
  guarded_memory.at_start = true, guarded_memory.fill = 0x5a;
  tn_status *second = run_once(m, m->again, first ? NULL : m->outputs);
  whole = guarded_sweep(kept) && whole;
  tn_status *status = compare_runs(m, first, second, whole);
  put_u32((uint32_t)tn_status_code_of(status));
  put_text(tn_status_message(status));
  if (!status) put_u32((uint32_t)m->output_count);
  for (int i = 0; i < m->output_count; i++) {
    if (!status) write_value(&m->outputs[i]);
    free_value(&m->outputs[i]);
    free_value(&m->again[i]);
  }
  for (int i = 0; i < m->input_count; i++) free_value(&m->inputs[i]);
  free(m->inputs);
  free(m->outputs);
  free(m->again);
  tn_status_free(status);
}

static tn_status *load(model *m, const char *path) {
  tn_executable_release(m->executable);
  m->executable = NULL;
  (void)guarded_sweep(0);
  guarded_memory.at_start = false, guarded_memory.fill = 0xff;
  FILE *file = fopen(path, "rb");
  if (file == NULL) return tn_status_create(TN_IO, "%s: %s", path, strerror(errno));
  struct stat info;
  uint8_t *data = fstat(fileno(file), &info) == 0 ? guarded_alloc((size_t)info.st_size, 64) : NULL;
  bool whole = data != NULL && fread(data, (size_t)info.st_size, 1, file) == 1;
  fclose(file);
  if (!whole) return tn_status_create(TN_IO, "%s: cannot be read", path);
  guarded_protect(data);
  tn_load_options options = {.size = sizeof options, .borrow_data = true};
  return tn_executable_load_memory(data, (size_t)info.st_size, &options, &m->executable);
}

int main(void) {
  guarded_catch_faults();
  model m = {0};
  uint8_t request;
  while (fread(&request, 1, 1, stdin) == 1) {
    if (request == 'L') {
      uint32_t length = get_u32();
      char path[MAX_PATH];
      need(length < sizeof path, "a path beyond all");
      get(path, length);
      path[length] = '\0';
      tn_status *status = load(&m, path);
      put_u32((uint32_t)tn_status_code_of(status));
      put_text(tn_status_message(status));
      tn_status_free(status);
    } else if (request == 'F') {
      const volatile uint8_t *block = guarded_place(NULL, 24, 8);
      put(&(uint8_t){block[24]}, 1);
    } else {
      need(request == 'R' && m.executable != NULL, "nothing is loaded");
      run_case(&m);
    }
    fflush(stdout);
  }
  tn_executable_release(m.executable);
  return 0;
}
