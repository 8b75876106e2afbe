/* Messages between a tuner and its worker processes, over a stream of bytes in both directions.
 *
 * A message is a frame: a mark, its kind, the length and a checksum of what follows, and then fields one behind the
 * other, numbers as this machine has them, texts with their length and a NUL. Nothing of it is trusted: a worker may
 * have run a kernel that wrote over anything. A length is bounded, and a reader that finds less than it was told is
 * bad from then on.
 *
 * A tuner sends SETUP once, TASK when a worker lacks a task, which it keeps in a slot that the tuner names, and BUILD
 * or RUN for a trial. A worker answers SETUP with READY, and each trial with PREPARED, when all that is not the
 * candidate's is done and its limits begin to count, and BUILT or RAN. */
#ifndef TENON_TUNE_MESSAGE_MESSAGE_H
#define TENON_TUNE_MESSAGE_MESSAGE_H

#include "tenon/tune.h"

enum {
  TN__MESSAGE_PROTOCOL = 2, /* raised when fields change: both sides compare */
  TN__MESSAGE_SLOTS = 64,   /* tasks that a worker keeps */
  TN__MESSAGE_MOST_CORES = 1024,
  TN__MESSAGE_FD = 3 /* of a worker: its end of the stream */
};

typedef enum tn__message_kind {
  TN__MESSAGE_SETUP = 1,
  TN__MESSAGE_TASK,
  TN__MESSAGE_BUILD,
  TN__MESSAGE_RUN,
  TN__MESSAGE_READY,
  TN__MESSAGE_PREPARED,
  TN__MESSAGE_BUILT,
  TN__MESSAGE_RAN
} tn__message_kind;

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Zeroed at first; released by whoever has it. */
typedef struct tn__message {
  uint8_t *data; /* a whole frame, after tn__message_end() */
  size_t size, capacity;
  bool failed; /* out of memory */
} tn__message;

void tn__message_begin(tn__message *m, tn__message_kind kind); /* what was in it is gone; its memory stays */
void tn__message_u64(tn__message *m, uint64_t value);
void tn__message_f64(tn__message *m, double value);
void tn__message_text(tn__message *m, const char *text); /* may be NULL */
void tn__message_bytes(tn__message *m, const void *data, size_t size);
/* The frame's head. TN_OUT_OF_MEMORY when there was no room for a part, TN_OUT_OF_RANGE when it is too large. */
TN_MUST_USE tn_status *tn__message_end(tn__message *m);
/* Changes the first field, a number, of a message that has ended. */
void tn__message_set_first(tn__message *m, uint64_t value);
void tn__message_release(tn__message *m);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct tn__message_reader {
  const uint8_t *at, *end;
  bool bad;
} tn__message_reader;

/* What a bad reader gives is 0, "" and nothing. */
uint64_t tn__message_get_u64(tn__message_reader *r);
double tn__message_get_f64(tn__message_reader *r);
const char *tn__message_get_text(tn__message_reader *r); /* in the message; NULL where NULL was written */
const void *tn__message_get_bytes(tn__message_reader *r, size_t *size);
/* A number from `least` to `most`; others make the reader bad. */
int64_t tn__message_get_int(tn__message_reader *r, int64_t least, int64_t most);
bool tn__message_got_all(const tn__message_reader *r); /* all was good, and nothing is left */

typedef enum tn__message_state { TN__MESSAGE_PART, TN__MESSAGE_WHOLE, TN__MESSAGE_GARBLED } tn__message_state;

typedef struct tn__message_frame {
  tn__message_kind kind;
  tn__message_reader fields;
  size_t size; /* of the whole frame: what follows begins there */
} tn__message_frame;

/* Is there a whole frame at the start of these bytes? */
tn__message_state tn__message_parse(const uint8_t *data, size_t size, tn__message_frame *out);

/* ---- what is said ------------------------------------------------------------------------------------------------ */

/* Of SETUP. */
typedef struct tn__message_setup {
  bool runs;             /* else it builds */
  double cpu_seconds;    /* of a candidate; 0: no limit */
  uint64_t memory_bytes; /* beyond what a worker has at its start; 0: no limit */
  int nice;              /* added to the priority */
  int core_count;        /* 0: any */
  int cores[TN__MESSAGE_MOST_CORES];
  tn_timing_options timing;
} tn__message_setup;

void tn__message_put_setup(tn__message *m, const tn__message_setup *setup);
TN_MUST_USE bool tn__message_get_setup(tn__message_reader *r, tn__message_setup *out);
/* Of TASK, behind the slot. */
void tn__message_put_task(tn__message *m, const tn_tune_task *task);
enum { TN__MESSAGE_MOST_DIMS = 16 };
typedef struct tn__message_task {
  tn_tune_task task; /* whose texts are in the message */
  const char *dims[TN__MESSAGE_MOST_DIMS];
  int64_t sizes[TN__MESSAGE_MOST_DIMS];
} tn__message_task;
TN_MUST_USE bool tn__message_get_task(tn__message_reader *r, tn__message_task *out);
/* Of BUILT and RAN, behind the number of the trial. What is got lies in the message. */
void tn__message_put_built(tn__message *m, const tn_build_result *result);
TN_MUST_USE bool tn__message_get_built(tn__message_reader *r, tn_build_result *out);
void tn__message_put_ran(tn__message *m, const tn_run_result *result);
TN_MUST_USE bool tn__message_get_ran(tn__message_reader *r, tn_run_result *out);

#endif
