/* The null device: a driver that computes nothing and writes down what it is asked, so that tests see what planning and
 * the VM make of a program, in its order, without a device. Its memory is address space without access; what is copied
 * out of it is zeros. It can be told to be gone from some call on, as a device that is pulled out of a machine is.
 *
 * Each number of a device has a record of its own, as those of several are written by several threads: lines like
 *   open
 *   stream            (it is open; and "end" when it is closed)
 *   allocate a0 1024
 *   allocate a1 64 in texture
 *   copy in a0+64 24
 *   launch 16 (a0+0 a0+64 | 3)
 *   wait
 * where a0 is the first allocation of the device, and 64 an offset in it. */
#ifndef TENON_TESTS_UNIT_NULL_DEVICE_H
#define TENON_TESTS_UNIT_NULL_DEVICE_H

#include <pthread.h>
#include <sys/mman.h>

#include "runtime/device.h"
#include "unit/check.h"

enum { NULL_DEVICES = 16, NULL_ALLOCATIONS = 256, NULL_TEXT = 1 << 16 };
#define NULL_MOST_BYTES ((size_t)1 << 24)

typedef struct null_record {
  char text[NULL_TEXT];
  size_t length;
  struct {
    char *address; /* of NULL_MOST_BYTES; NULL: it was freed */
    size_t bytes;
  } allocations[NULL_ALLOCATIONS];
  int allocation_count; /* ever */
  int open, loaded, live, streams;
} null_record;

static null_record null_records[NULL_DEVICES];
/* Calls that may fail, of all null devices; from the one with the number `null_gone_at` on all do. -1: none. */
static int null_calls, null_gone_at = -1;
static int null_most_live;  /* allocations that one may have at once; 0: as many as there are */
static int32_t null_result; /* of all kernels */
static bool null_tells_nature;
static size_t null_memory_bytes;                              /* that there are; 0: it does not tell */
static bool null_shares_memory;                               /* with the host */
static pthread_mutex_t null_lock = PTHREAD_MUTEX_INITIALIZER; /* of all records: streams are of several threads */

static inline void null_forget(void) {
  memset(null_records, 0, sizeof null_records);
  null_calls = 0, null_gone_at = -1, null_most_live = 0, null_result = TN_KERNEL_OK;
  null_memory_bytes = 0, null_shares_memory = false;
}

static inline null_record *null_record_of(const tn__device *device) { return &null_records[device->id]; }

/* A whole line, as several streams write. `count` of what the record counts becomes so many more. */
TN_PRINTF(4, 5)
static inline void null_write(const tn__device *device, int *count, int more, const char *format, ...) {
  null_record *r = null_record_of(device);
  va_list args;
  va_start(args, format);
  pthread_mutex_lock(&null_lock);
  r->length += (size_t)vsnprintf(r->text + r->length, sizeof r->text - r->length, format, args);
  if (count != NULL) *count += more;
  bool fits = r->length < sizeof r->text;
  pthread_mutex_unlock(&null_lock);
  va_end(args);
  assert_true(fits);
}

static inline tn_status *null_call(const tn__device *device) {
  pthread_mutex_lock(&null_lock);
  bool gone = null_gone_at >= 0 && null_calls >= null_gone_at;
  null_calls++;
  pthread_mutex_unlock(&null_lock);
  return gone ? tn_status_create(TN_FAILED_PRECONDITION, "null:%d is gone", (int)device->id) : NULL;
}

#define NULL_CALL(device)                      \
  do {                                         \
    tn_status *null_gone_ = null_call(device); \
    if (null_gone_ != NULL) return null_gone_; \
  } while (0)

/* "a1+64" */
static inline const char *null_name(const tn__device *device, const void *address, char name[32]) {
  const null_record *r = null_record_of(device);
  snprintf(name, 32, "%s", address == NULL ? "none" : "foreign"); /* no memory of this device */
  pthread_mutex_lock(&null_lock);
  for (int i = 0; i < r->allocation_count; i++) {
    const char *begin = r->allocations[i].address;
    if (begin == NULL || (const char *)address < begin || (const char *)address > begin + r->allocations[i].bytes)
      continue;
    snprintf(name, 32, "a%d+%td", i, (const char *)address - begin);
    break;
  }
  pthread_mutex_unlock(&null_lock);
  return name;
}

static inline tn_status *null_open(tn__device *device) {
  device->state = NULL;
  if (device->id < 0 || device->id >= NULL_DEVICES)
    return tn_status_create(TN_NOT_FOUND, "there is no null:%d", (int)device->id);
  NULL_CALL(device);
  null_write(device, &null_record_of(device)->open, 1, "open\n");
  return NULL;
}

static inline void null_close(tn__device *device) { null_write(device, &null_record_of(device)->open, -1, "close\n"); }

static inline void null_limits(const tn__device *device, tn__device_limits *out) {
  *out = (tn__device_limits){.alignment = 4096, .most_bytes = NULL_MOST_BYTES, .threads_of_block = 1};
  out->memory_bytes = null_memory_bytes;
  if (null_tells_nature)
    out->nature = (tn__device_nature){.units = 10, .lanes = 64, .megahertz = 1000, .memory_rate = 100000};
  out->nature.shares_memory = null_shares_memory;
}

static inline tn_status *null_allocate(tn__device *device, size_t bytes, void **out) {
  null_record *r = null_record_of(device);
  NULL_CALL(device);
  pthread_mutex_lock(&null_lock);
  bool full = null_most_live > 0 && r->live >= null_most_live;
  pthread_mutex_unlock(&null_lock);
  if (bytes > NULL_MOST_BYTES || full)
    return tn_status_create(TN_OUT_OF_MEMORY, "out of memory: null:%d has none for %zu bytes", (int)device->id, bytes);
  char *address = mmap(NULL, NULL_MOST_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_true(address != MAP_FAILED);
  pthread_mutex_lock(&null_lock);
  int number = r->allocation_count++;
  assert_true(number < NULL_ALLOCATIONS);
  r->allocations[number].address = address;
  r->allocations[number].bytes = bytes;
  pthread_mutex_unlock(&null_lock);
  bool global = device->scope == TN__MEMORY_GLOBAL;
  null_write(device, &r->live, 1, "allocate a%d %zu%s%s\n", number, bytes, global ? "" : " in ",
             global ? "" : tn__memory_scope_name(device->scope));
  *out = address;
  return NULL;
}

static inline void null_free(tn__device *device, void *memory, size_t bytes) {
  null_record *r = null_record_of(device);
  if (memory == NULL) return;
  int i = 0;
  pthread_mutex_lock(&null_lock);
  while (i < r->allocation_count && r->allocations[i].address != memory) i++;
  assert_true(i < r->allocation_count && r->allocations[i].bytes == bytes);
  munmap(memory, NULL_MOST_BYTES);
  r->allocations[i].address = NULL;
  pthread_mutex_unlock(&null_lock);
  null_write(device, &r->live, -1, "free a%d\n", i);
}

static inline void *null_view(const tn__device *device, void *memory, size_t offset) { return (char *)memory + offset; }

static inline tn_status *null_load_code(tn__device *device, const void *bytes, size_t size, bool in_place,
                                        tn__device_code *out) {
  *out = (tn__device_code){0};
  NULL_CALL(device);
  *out = (tn__device_code){.base = bytes, .size = size};
  null_write(device, &null_record_of(device)->loaded, 1, "load %zu\n", size);
  return NULL;
}

static inline void null_unload_code(tn__device *device, tn__device_code *code) {
  if (code->base != NULL) null_write(device, &null_record_of(device)->loaded, -1, "unload\n");
  *code = (tn__device_code){0};
}

static inline tn_status *null_open_stream(tn__stream *stream) {
  stream->state = NULL;
  NULL_CALL(stream->device);
  null_write(stream->device, &null_record_of(stream->device)->streams, 1, "stream\n");
  return NULL;
}

static inline void null_close_stream(tn__stream *stream) {
  null_write(stream->device, &null_record_of(stream->device)->streams, -1, "end\n");
}

static inline tn_status *null_copy(tn__stream *stream, tn__copy_kind kind, void *to, const void *from, size_t bytes) {
  const tn__device *device = stream->device;
  char a[32], b[32];
  if (bytes == 0) return NULL;
  NULL_CALL(device);
  if (kind == TN__COPY_IN) null_write(device, NULL, 0, "copy in %s %zu\n", null_name(device, to, a), bytes);
  if (kind == TN__COPY_OUT) null_write(device, NULL, 0, "copy out %s %zu\n", null_name(device, from, a), bytes);
  if (kind == TN__COPY_WITHIN)
    null_write(device, NULL, 0, "copy %s to %s %zu\n", null_name(device, from, a), null_name(device, to, b), bytes);
  if (kind == TN__COPY_OUT) memset(to, 0, bytes);
  return NULL;
}

static inline tn_status *null_launch(tn__stream *stream, const tn__device_launch *launch) {
  const tn__device *device = stream->device;
  char name[32], line[1024];
  NULL_CALL(device);
  size_t at = (size_t)snprintf(line, sizeof line, "launch %llu (", (unsigned long long)launch->offset);
  for (uint32_t i = 0; i < launch->buffer_count && at < sizeof line; i++)
    at += (size_t)snprintf(line + at, sizeof line - at, "%s%s", i > 0 ? " " : "",
                           null_name(device, launch->buffers[i], name));
  if (at < sizeof line) at += (size_t)snprintf(line + at, sizeof line - at, " |");
  for (uint32_t i = 0; i < launch->scalar_count && at < sizeof line; i++)
    at += (size_t)snprintf(line + at, sizeof line - at, " %lld", (long long)launch->scalars[i]);
  assert_true(at < sizeof line);
  null_write(device, NULL, 0, "%s)\n", line);
  return NULL;
}

static inline tn_status *null_wait(tn__stream *stream, int32_t *result) {
  *result = null_result;
  NULL_CALL(stream->device);
  null_write(stream->device, NULL, 0, "wait\n");
  return NULL;
}

/* A driver of devices of the type. */
static inline tn__device_driver null_driver(DLDeviceType type) {
  return (tn__device_driver){.name = "null",
                             .type = type,
                             .scopes = (1u << TN__MEMORY_SCOPES) - 1,
                             .open = null_open,
                             .close = null_close,
                             .limits = null_limits,
                             .allocate = null_allocate,
                             .free = null_free,
                             .view = null_view,
                             .load_code = null_load_code,
                             .unload_code = null_unload_code,
                             .open_stream = null_open_stream,
                             .close_stream = null_close_stream,
                             .copy = null_copy,
                             .launch = null_launch,
                             .wait = null_wait};
}

/* Nothing is open, loaded or allocated. */
static inline void null_check_closed(void) {
  for (int i = 0; i < NULL_DEVICES; i++) {
    assert_int_equal(null_records[i].open, 0);
    assert_int_equal(null_records[i].loaded, 0);
    assert_int_equal(null_records[i].live, 0);
    assert_int_equal(null_records[i].streams, 0);
  }
}

#endif
