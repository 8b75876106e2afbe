/* Recording what a session runs: a row per kernel, and every call for a trace that Chrome and Perfetto show. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "runtime/session/session.h"

enum { MOST_EVENTS = 1 << 20 };

typedef struct event {
  uint32_t row; /* of the kernel; NO_ROW: an invoke */
  uint64_t start, end;
} event;
#define NO_ROW UINT32_MAX

struct tn_profile {
  tn_session *session;
  tn_profile_kernel **rows; /* each of its own, so that they stay where they are */
  event *events;
  uint32_t row_count, row_capacity, event_count, event_capacity;
  uint64_t dropped; /* events without room */
  tn_profile_totals totals;
};

TN_MUST_USE static bool grow(const tn_allocator *allocator, void *array, uint32_t *capacity, size_t size,
                             uint32_t first) {
  void *old, *fresh;
  memcpy(&old, array, sizeof(old));
  uint32_t more = *capacity == 0 ? first : *capacity * 2;
  fresh = tn__realloc(allocator, old, *capacity * size, more * size, 16);
  if (fresh == NULL) return false;
  memcpy(array, &fresh, sizeof(fresh));
  *capacity = more;
  return true;
}

static void add_event(tn_profile *p, uint32_t row, uint64_t start, uint64_t end) {
  bool room = p->event_count < p->event_capacity;
  if (!room && p->event_capacity < MOST_EVENTS)
    room = grow(p->session->allocator, &p->events, &p->event_capacity, sizeof(event), 1024);
  if (room)
    p->events[p->event_count++] = (event){row, start, end};
  else
    p->dropped++;
}

/* What the executable knows of one call; -1 where it is nothing. */
static tn_profile_kernel new_row(const tn_executable *exe, const char *name) {
  tn_profile_kernel row = {.name = name, .flops = -1, .bytes = -1, .least_ns = UINT64_MAX};
  for (uint32_t i = 0; i < exe->kernel_count; i++)
    if (exe->kernels[i].about.name == name)
      row.flops = exe->kernels[i].about.flops, row.bytes = exe->kernels[i].about.bytes;
  return row;
}

static void record(void *user, const char *name, uint64_t start, uint64_t end) {
  tn_profile *p = user;
  uint32_t i = 0;
  while (i < p->row_count && p->rows[i]->name != name && strcmp(p->rows[i]->name, name) != 0) i++;
  if (i == p->row_count) {
    if (i == p->row_capacity && !grow(p->session->allocator, &p->rows, &p->row_capacity, sizeof(*p->rows), 64)) {
      p->dropped++;
      return;
    }
    void *row = tn__realloc(p->session->allocator, NULL, 0, sizeof(tn_profile_kernel), 16);
    if (row == NULL) {
      p->dropped++;
      return;
    }
    p->rows[p->row_count++] = row;
    *p->rows[i] = new_row(p->session->exe, name);
  }
  tn_profile_kernel *row = p->rows[i];
  row->calls++;
  row->total_ns += end - start;
  if (end - start < row->least_ns) row->least_ns = end - start;
  p->totals.attributed_ns += end - start;
  add_event(p, i, start, end);
}

void tn__session_profile_invoke(tn_profile *p, uint64_t start, uint64_t end) {
  p->totals.invokes++;
  p->totals.total_ns += end - start;
  add_event(p, NO_ROW, start, end);
}

static void set_callback(tn_session *session, tn_profile_callback callback, void *user) {
  session->vm.profile = callback;
  session->vm.profile_user = user;
}

static tn_status *set_profile(tn_session *session, tn_profile_callback callback, void *user) {
  if (session->profile != NULL)
    return tn_status_create(TN_FAILED_PRECONDITION, "a profile records the session: release that one first");
  set_callback(session, callback, user);
  return NULL;
}

tn_status *tn_session_set_profile(tn_session *session, tn_profile_callback callback, void *user) {
  TN__NEED("session", session);
  return TN__IN_SESSION(session, set_profile(session, callback, user));
}

static tn_status *start_profile(tn_session *session, tn_profile **out) {
  if (session->profile != NULL)
    return tn_status_create(TN_FAILED_PRECONDITION, "the session has a profile already: release that one first");
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(session->allocator, 1, sizeof(tn_profile), 0, &memory));
  session->profile = *out = memory;
  (*out)->session = session;
  set_callback(session, record, *out);
  return NULL;
}

tn_status *tn_session_start_profile(tn_session *session, tn_profile **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("session", session);
  return TN__IN_SESSION(session, start_profile(session, out));
}

void tn_profile_release(tn_profile *p) {
  if (p == NULL) return;
  tn_session *session = p->session;
  session->profile = NULL;
  set_callback(session, NULL, NULL);
  for (uint32_t i = 0; i < p->row_count; i++) tn__free(session->allocator, p->rows[i], sizeof(tn_profile_kernel), 16);
  tn__free(session->allocator, p->rows, p->row_capacity * sizeof(*p->rows), 16);
  tn__free(session->allocator, p->events, p->event_capacity * sizeof(event), 16);
  tn__free(session->allocator, p, sizeof(*p), 0);
}

int tn_profile_kernels(const tn_profile *p, const tn_profile_kernel *const **out) {
  if (p == NULL || out == NULL) return 0;
  *out = (const tn_profile_kernel *const *)p->rows;
  return (int)p->row_count;
}

const tn_profile_totals *tn_profile_sum(const tn_profile *p) {
  if (p == NULL) return NULL;
  return &p->totals;
}

static const tn__device *device_of(const tn_profile *p, const char *kernel) {
  const tn_executable *exe = p->session->exe;
  for (uint32_t i = 0; i < exe->kernel_count; i++)
    if (strcmp(exe->kernels[i].about.name, kernel) == 0)
      return p->session->vm.devices[exe->kernels[i].device].stream.device;
  return NULL;
}

bool tn_profile_device_limits(const tn_profile *p, const char *kernel, tn_machine_limits *out) {
  if (p == NULL || kernel == NULL || out == NULL) return false;
  enum { OPERATIONS = 2 /* a multiplication and an addition */, MEGA = 1000000 };
  const tn__device *device = device_of(p, kernel);
  tn__device_limits limits;
  *out = (tn_machine_limits){0};
  if (device == NULL) return false;
  device->driver->limits(device, &limits);
  const tn__device_nature *nature = &limits.nature;
  if (nature->is_cpu) return false;
  const double clock = (double)nature->megahertz * MEGA, memory = (double)nature->memory_rate * MEGA;
  const double operations = clock * nature->units * nature->lanes * OPERATIONS;
  if (operations == 0 || memory == 0) return true;
  *out = (tn_machine_limits){.size = sizeof *out,
                             .threads = 1,
                             .clock_hz = clock,
                             .flops_per_second = operations,
                             .l2_bytes_per_second = memory, /* caches are not told of */
                             .l3_bytes_per_second = memory,
                             .memory_bytes_per_second = memory};
  snprintf(out->target, sizeof out->target, "%s:%d", device->driver->name, (int)device->id);
  return true;
}

/* ---- the trace -------------------------------------------------------------------------------------------------- */

static void print_event(const tn_profile *p, const event *e, uint64_t origin, tn__strbuf *out) {
  const tn_profile_kernel *row = e->row == NO_ROW ? NULL : p->rows[e->row];
  tn__strbuf_append(out, ",\n{\"name\": ");
  tn__strbuf_json_string(out, row == NULL ? "invoke" : row->name);
  tn__strbuf_printf(out, ", \"cat\": \"%s\", \"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": %.3f, \"dur\": %.3f",
                    row == NULL ? "invoke" : "kernel", (double)(e->start - origin) * 1e-3,
                    (double)(e->end - e->start) * 1e-3);
  if (row != NULL && row->flops >= 0 && row->bytes >= 0)
    tn__strbuf_printf(out, ", \"args\": {\"flops\": %.0f, \"bytes\": %.0f}", row->flops, row->bytes);
  tn__strbuf_append(out, "}");
}

static tn_status *write_trace(const tn_profile *p, const char *path) {
  uint64_t origin = UINT64_MAX;
  for (uint32_t i = 0; i < p->event_count; i++)
    if (p->events[i].start < origin) origin = p->events[i].start;
  tn__strbuf text;
  tn__strbuf_init(&text, p->session->allocator);
  tn__strbuf_append(&text,
                    "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n"
                    "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"args\": {\"name\": \"tenon\"}}");
  for (uint32_t i = 0; i < p->event_count; i++) print_event(p, &p->events[i], origin, &text);
  tn__strbuf_printf(&text, "\n], \"otherData\": {\"dropped_events\": %llu}}\n", (unsigned long long)p->dropped);
  tn_status *status = tn__strbuf_status(&text);
  tn__bytes piece = {tn__strbuf_text(&text), text.length};
  if (status == NULL) status = tn__file_write_atomic(path, &piece, 1, 0644);
  tn__strbuf_release(&text);
  return status;
}

tn_status *tn_profile_write_trace(const tn_profile *p, const char *path) {
  TN__NEED("profile", p);
  TN__NEED("path", path);
  return TN__IN_SESSION(p->session, write_trace(p, path));
}
