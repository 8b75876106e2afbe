#include "tune/search/samples.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"

/* A sample as it lies in a file. */
typedef struct kept {
  uint64_t task; /* what tn__model_task_key() says */
  float error;
  float row[TN__MODEL_FEATURES + TN__FEATURES];
} kept;
_Static_assert(sizeof(kept) == 8 + 4 * (1 + TN__MODEL_FEATURES + TN__FEATURES), "there are no gaps");

static tn__digest digest_of(const void *head, size_t head_size, const void *data, size_t size) {
  tn__sha256 h;
  tn__sha256_init(&h);
  tn__sha256_update(&h, head, head_size);
  tn__sha256_update(&h, data, size);
  return tn__sha256_final(&h);
}

static void print_head(tn__strbuf *out, const char *of, int count) {
  tn__strbuf_printf(out, "tenon model %d\nof %s\nsamples %d\n", TN__MODEL_FILE_VERSION, of, count);
}

tn_status *tn__model_write(const tn__cost_model *model, const char *of, const char *path) {
  int all = tn__model_samples(model), first = all > TN__MODEL_MOST_SAMPLES ? all - TN__MODEL_MOST_SAMPLES : 0;
  int count = all - first;
  kept *list = calloc((size_t)count + 1, sizeof *list);
  if (list == NULL) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for %d samples", count);
  for (int i = 0; i < count; i++) {
    const tn__model_sample *s = tn__model_sample_at(model, first + i);
    list[i].task = tn__model_task_key(model, s->task);
    list[i].error = s->error;
    memcpy(list[i].row, &s->row, sizeof s->row);
  }
  tn__strbuf head;
  tn__strbuf_init(&head, NULL);
  print_head(&head, of, count);
  tn__digest digest = digest_of(tn__strbuf_text(&head), head.length, list, (size_t)count * sizeof *list);
  const tn__bytes parts[] = {
      {tn__strbuf_text(&head), head.length}, {list, (size_t)count * sizeof *list}, {&digest, sizeof digest}};
  tn_status *status = tn__strbuf_status(&head);
  if (status == NULL) status = tn__file_write_atomic(path, parts, 3, 0644);
  tn__strbuf_release(&head);
  free(list);
  return status;
}

static bool is_sample(const kept *k) {
  bool good = isfinite(k->error) && fabsf(k->error) <= 4;
  for (int i = 0; good && i < TN__MODEL_FEATURES + TN__FEATURES; i++) good = isfinite(k->row[i]);
  return good;
}

enum { NO_HEAD = -1, OF_ANOTHER = -2, LONGEST_HEAD = 2048 };

/* How many samples stand behind the head, when it is of this. */
TN_MUST_USE static int read_head(const uint8_t *data, size_t size, const char *of, size_t *head_size) {
  char text[LONGEST_HEAD + 1];
  size_t length = size < LONGEST_HEAD ? size : LONGEST_HEAD, end = 0;
  int lines = 0, version, count;
  memcpy(text, data, length);
  while (lines < 3 && end < length) lines += text[end++] == '\n';
  text[end] = 0;
  if (lines < 3 || strlen(text) != end || sscanf(text, "tenon model %d", &version) != 1) return NO_HEAD;
  const char *last = strstr(text, "\nsamples ");
  if (version != TN__MODEL_FILE_VERSION) return OF_ANOTHER;
  if (last == NULL || sscanf(last, "\nsamples %d", &count) != 1 || count < 0 || count > TN__MODEL_MOST_SAMPLES)
    return NO_HEAD;
  tn__strbuf head;
  tn__strbuf_init(&head, NULL);
  print_head(&head, of, count);
  bool same = strcmp(tn__strbuf_text(&head), text) == 0;
  tn__strbuf_release(&head);
  *head_size = end;
  return same ? count : OF_ANOTHER;
}

static tn_status *add_samples(tn__cost_model *model, const char *data, int count) {
  int known = tn__model_tasks(model); /* those that have their own samples */
  for (int i = 0; i < count; i++) {
    kept k;
    memcpy(&k, data + (size_t)i * sizeof k, sizeof k);
    tn__model_sample s = {.task = tn__model_task(model, k.task), .error = k.error};
    if (s.task < known) continue;
    memcpy(&s.row, k.row, sizeof s.row);
    TN_RETURN_IF_ERROR(tn__model_add(model, &s));
  }
  return NULL;
}

tn_status *tn__model_read(tn__cost_model *model, const char *of, const char *path) {
  tn__file_map map;
  size_t head = 0;
  TN_RETURN_IF_ERROR(tn__file_map_open(path, &map));
  const char *text = (const char *)map.data;
  int count = read_head(map.data, map.size, of, &head);
  tn_status *status = NULL;
  if (count == OF_ANOTHER) {
    status = tn_status_create(TN_FAILED_PRECONDITION, "%s: the samples are of another version or machine", path);
  } else {
    size_t samples = count > 0 ? (size_t)count * sizeof(kept) : 0;
    bool whole = count >= 0 && map.size == head + samples + sizeof(tn__digest);
    tn__digest digest = {0};
    if (whole) digest = digest_of(text, head, text + head, samples);
    whole = whole && memcmp(&digest, text + head + samples, sizeof digest) == 0;
    for (int i = 0; whole && i < count; i++) {
      kept k;
      memcpy(&k, text + head + (size_t)i * sizeof k, sizeof k);
      whole = is_sample(&k);
    }
    status = whole ? add_samples(model, text + head, count)
                   : tn_status_create(TN_DATA_LOSS, "%s: the file of samples is damaged", path);
  }
  tn__file_map_close(&map);
  return status;
}
