/* Messages between a tuner and its workers. A stream of any bytes is split into frames with corrected checksums, and
 * each frame is read as each kind of message. An accepted message is written, and its frame must have the same
 * fields. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "fuzz/fuzz.h"
#include "tune/message/message.h"

/* The header of a frame, as in message.c. */
typedef struct head {
  uint32_t mark, kind;
  uint64_t size, checksum;
} head;

static void make_checksum_right(uint8_t *data, size_t size) {
  head h;
  if (size < sizeof(h)) return;
  memcpy(&h, data, sizeof(h));
  if (h.size > size - sizeof(h)) return;
  h.checksum = tn__hash_bytes(h.kind, data + sizeof(h), h.size);
  memcpy(data, &h, sizeof(h));
}

/* Requires that writing restores the bytes read, because each field has one encoding. */
static void require_same(tn__message *m, tn__message_reader from) {
  tn__message_frame frame;
  tn_status *status = tn__message_end(m);
  require(status == NULL);
  require(tn__message_parse(m->data, m->size, &frame) == TN__MESSAGE_WHOLE && frame.size == m->size);
  size_t size = (size_t)(from.end - from.at);
  require((size_t)(frame.fields.end - frame.fields.at) == size);
  require(size == 0 || memcmp(frame.fields.at, from.at, size) == 0);
  tn__message_release(m);
}

static void read_as(tn__message_kind kind, tn__message_reader r) {
  tn__message m = {0};
  tn__message_reader from = r;
  tn__message_setup setup;
  tn__message_task task;
  tn_build_result built;
  tn_run_result ran;
  tn__message_begin(&m, kind);
  if (kind == TN__MESSAGE_SETUP && tn__message_get_setup(&r, &setup)) {
    tn__message_put_setup(&m, &setup);
    require_same(&m, from);
  } else if (kind == TN__MESSAGE_TASK && tn__message_get_task(&r, &task)) {
    tn__message_put_task(&m, &task.task);
    tn_status_free(tn__message_end(&m));
  } else if (kind == TN__MESSAGE_BUILT && tn__message_get_built(&r, &built)) {
    tn__message_put_built(&m, &built);
    tn_status_free(tn__message_end(&m));
  } else if (kind == TN__MESSAGE_RAN && tn__message_get_ran(&r, &ran)) {
    require(ran.median >= 0 && ran.spread >= 0 && ran.seconds >= 0 && ran.calls >= 0);
    tn__message_put_ran(&m, &ran);
    tn_status_free(tn__message_end(&m));
  }
  tn__message_release(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tn__message_frame frame;
  size_t at = 0;
  uint8_t *stream = malloc(size + 1);
  memcpy(stream, data, size);
  for (;;) {
    make_checksum_right(stream + at, size - at);
    if (tn__message_parse(stream + at, size - at, &frame) != TN__MESSAGE_WHOLE) break;
    require(frame.size <= size - at);
    for (tn__message_kind kind = TN__MESSAGE_SETUP; kind <= TN__MESSAGE_RAN; kind++) read_as(kind, frame.fields);
    tn__message_reader behind = frame.fields; /* a trial's number precedes results */
    (void)tn__message_get_u64(&behind);
    for (tn__message_kind kind = TN__MESSAGE_TASK; kind <= TN__MESSAGE_RAN; kind++) read_as(kind, behind);
    at += frame.size;
  }
  free(stream);
  return 0;
}
