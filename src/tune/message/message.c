#include "tune/message/message.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

#define MOST_BYTES ((uint64_t)256 << 20) /* of a frame */

typedef struct head {
  uint32_t mark, kind;
  uint64_t size, checksum; /* of the fields */
} head;

enum { MARK = 0x4d574e54 }; /* "TNWM" */

static uint64_t checksum_of(uint32_t kind, const uint8_t *fields, size_t size) {
  return tn__hash_bytes(kind, fields, size);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void append(tn__message *m, const void *data, size_t size) {
  if (m->failed || size > MOST_BYTES - m->size) {
    m->failed = true;
    return;
  }
  if (m->capacity - m->size < size) {
    size_t capacity = m->capacity * 2 > m->size + size ? m->capacity * 2 : m->size + size + 256;
    void *grown = tn__realloc(NULL, m->data, m->capacity, capacity, 0);
    if (grown == NULL) {
      m->failed = true;
      return;
    }
    m->data = grown;
    m->capacity = capacity;
  }
  if (size > 0) memcpy(m->data + m->size, data, size);
  m->size += size;
}

void tn__message_begin(tn__message *m, tn__message_kind kind) {
  m->size = 0;
  m->failed = false;
  append(m, &(head){.mark = MARK, .kind = (uint32_t)kind}, sizeof(head));
}

void tn__message_u64(tn__message *m, uint64_t value) { append(m, &value, sizeof value); }

void tn__message_f64(tn__message *m, double value) { append(m, &value, sizeof value); }

void tn__message_bytes(tn__message *m, const void *data, size_t size) {
  tn__message_u64(m, size);
  append(m, data, size);
}

void tn__message_text(tn__message *m, const char *text) {
  tn__message_u64(m, text != NULL);
  if (text != NULL) tn__message_bytes(m, text, strlen(text) + 1);
}

static void seal(tn__message *m) {
  head h;
  memcpy(&h, m->data, sizeof h);
  h.size = m->size - sizeof h;
  h.checksum = checksum_of(h.kind, m->data + sizeof h, h.size);
  memcpy(m->data, &h, sizeof h);
}

tn_status *tn__message_end(tn__message *m) {
  if (m->failed)
    return tn_status_create(TN_OUT_OF_MEMORY, "no memory for a message of more than %zu bytes to a worker", m->size);
  seal(m);
  return NULL;
}

void tn__message_set_first(tn__message *m, uint64_t value) {
  memcpy(m->data + sizeof(head), &value, sizeof value);
  seal(m);
}

void tn__message_release(tn__message *m) {
  tn__free(NULL, m->data, m->capacity, 0);
  *m = (tn__message){0};
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static const void *take(tn__message_reader *r, size_t size) {
  if (r->bad || size > (size_t)(r->end - r->at)) {
    r->bad = true;
    return NULL;
  }
  const void *data = r->at;
  r->at += size;
  return data;
}

uint64_t tn__message_get_u64(tn__message_reader *r) {
  uint64_t value = 0;
  const void *data = take(r, sizeof value);
  if (data != NULL) memcpy(&value, data, sizeof value);
  return value;
}

double tn__message_get_f64(tn__message_reader *r) {
  double value = 0;
  const void *data = take(r, sizeof value);
  if (data != NULL) memcpy(&value, data, sizeof value);
  return value;
}

const void *tn__message_get_bytes(tn__message_reader *r, size_t *size) {
  uint64_t length = tn__message_get_u64(r);
  const void *data = take(r, (size_t)length);
  *size = data != NULL ? (size_t)length : 0;
  return data;
}

const char *tn__message_get_text(tn__message_reader *r) {
  size_t size;
  uint64_t there = tn__message_get_u64(r);
  if (there == 0) return r->bad ? "" : NULL;
  const char *text = tn__message_get_bytes(r, &size);
  if (there > 1 || size == 0 || text[size - 1] != 0) r->bad = true;
  return r->bad ? "" : text;
}

int64_t tn__message_get_int(tn__message_reader *r, int64_t least, int64_t most) {
  int64_t value = (int64_t)tn__message_get_u64(r);
  if (value >= least && value <= most) return value;
  r->bad = true;
  return least;
}

bool tn__message_got_all(const tn__message_reader *r) { return !r->bad && r->at == r->end; }

tn__message_state tn__message_parse(const uint8_t *data, size_t size, tn__message_frame *out) {
  head h;
  if (size < sizeof h) return TN__MESSAGE_PART;
  memcpy(&h, data, sizeof h);
  if (h.mark != MARK || h.kind < TN__MESSAGE_SETUP || h.kind > TN__MESSAGE_RAN || h.size > MOST_BYTES)
    return TN__MESSAGE_GARBLED;
  if (size - sizeof h < h.size) return TN__MESSAGE_PART;
  const uint8_t *fields = data + sizeof h;
  if (checksum_of(h.kind, fields, (size_t)h.size) != h.checksum) return TN__MESSAGE_GARBLED;
  *out = (tn__message_frame){(tn__message_kind)h.kind, {fields, fields + h.size, false}, sizeof h + (size_t)h.size};
  return TN__MESSAGE_WHOLE;
}
