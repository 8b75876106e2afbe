/* Tasks: what they are, and their identity. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/options.h"
#include "base/utf8.h"
#include "tune/database/records.h"

static bool is_text(const char *text) {
  const char *at = text, *end = text + strlen(text);
  while (at < end)
    if (tn__utf8_next(&at, end) == TN__NOT_UTF8) return false;
  return true;
}

static tn_status *check_text(const char *field, const char *text, bool needed) {
  if (needed && (text == NULL || text[0] == '\0'))
    return tn_status_create(TN_INVALID_ARGUMENT, "field \"%s\": it is missing", field);
  if (text != NULL && !is_text(text))
    return tn_status_create(TN_INVALID_ARGUMENT, "field \"%s\": its text is not UTF-8", field);
  return NULL;
}

/* One word, as it stands in lines of text. */
static tn_status *check_word(const char *field, const char *text, bool needed) {
  TN_RETURN_IF_ERROR(check_text(field, text, needed));
  for (const char *c = text; c != NULL && *c != '\0'; c++)
    if ((unsigned char)*c <= ' ' || *c == 0x7f)
      return tn_status_create(TN_INVALID_ARGUMENT, "field \"%s\": it is one word, without spaces", field);
  return NULL;
}

/* As docs/schedule.md has it, as far as files of traces rely on that: what it says is checked where it is replayed. */
static bool is_trace(const char *text) {
  if (strncmp(text, "trace ", strlen("trace ")) != 0) return false;
  for (const char *line = strchr(text, '\n'); line != NULL; line = strchr(line, '\n')) {
    line++;
    size_t length = strcspn(line, "\n");
    if (length == 3 && strncmp(line, "end", 3) == 0) return line[3 + strspn(line + 3, " \t\r\n")] == '\0';
  }
  return false;
}

static tn_status *check_dims(const tn_tune_task *task) {
  TN_RETURN_IF_ERROR(tn__options_check_list("tn_tune_task", "dims", task->dims, "dim_count", task->dim_count));
  TN_RETURN_IF_ERROR(tn__options_check_list("tn_tune_task", "sizes", task->sizes, "dim_count", task->dim_count));
  for (int i = 0; i < task->dim_count; i++) {
    TN_RETURN_IF_ERROR(check_text("dims", task->dims[i], true));
    if (task->sizes[i] < 0)
      return tn_status_create(TN_INVALID_ARGUMENT, "field \"dims\": the size of %s is %lld, which is less than none",
                              task->dims[i], (long long)task->sizes[i]);
    for (int k = 0; k < i; k++)
      if (strcmp(task->dims[k], task->dims[i]) == 0)
        return tn_status_create(TN_INVALID_ARGUMENT, "field \"dims\": %s is there twice", task->dims[i]);
  }
  return NULL;
}

tn_status *tn__database_check_task(const tn_tune_task *task) {
  TN_RETURN_IF_ERROR(check_text("name", task->name, false));
  TN_RETURN_IF_ERROR(check_text("declaration", task->declaration, true));
  TN_RETURN_IF_ERROR(check_word("target", task->target, true));
  if (task->threads < 1)
    return tn_status_create(TN_INVALID_ARGUMENT, "field \"threads\": %d, where a kernel runs on at least one",
                            task->threads);
  return check_dims(task);
}

bool tn__database_is_hash(const char *text, bool whole) {
  size_t length = strlen(text);
  return length == strspn(text, "0123456789abcdef") && (whole ? length == 64 : length >= 1 && length <= 64);
}

tn_status *tn__database_check_candidate(const tn_record *r) {
  if (r->task == NULL || !tn__database_is_hash(r->task, true))
    return tn_status_create(TN_INVALID_ARGUMENT, "field \"task\": it is no task's hash, 64 hexadecimal digits");
  return check_text("machine", r->machine, true);
}

tn_status *tn__database_check_record(const tn_record *r, bool newer) {
  TN_RETURN_IF_ERROR(tn__database_check_candidate(r));
  TN_RETURN_IF_ERROR(check_text("rule", r->rule, false));
  TN_RETURN_IF_ERROR(check_text("decisions", r->decisions, false));
  TN_RETURN_IF_ERROR(check_text("trace", r->trace, false));
  TN_RETURN_IF_ERROR(check_word("tenon", r->tenon, false));
  bool rule = r->rule != NULL && r->rule[0] != '\0', trace = r->trace != NULL && r->trace[0] != '\0';
  if (!rule && !trace)
    return tn_status_create(TN_INVALID_ARGUMENT, "field \"trace\": a record needs a rule or a trace, and has neither");
  if (trace && !newer && !is_trace(r->trace))
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "field \"trace\": it is no trace: it begins with `trace VERSION DIGEST` and ends with a "
                            "line `end`");
  if (r->format < 1 || r->schedule_version < 1 ||
      (!newer && (r->format > TN_RECORD_FORMAT || r->schedule_version > TN_SCHEDULE_VERSION)))
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "field \"%s\": there is no such version for this Tenon (%s), which has format %d and "
                            "schedule_version %d",
                            r->format < 1 || r->format > TN_RECORD_FORMAT ? "format" : "schedule_version", tn_version(),
                            TN_RECORD_FORMAT, TN_SCHEDULE_VERSION);
  if ((int)r->error < 0 || (!newer && (int)r->error >= TN_TRIAL_ERRORS))
    return tn_status_create(TN_INVALID_ARGUMENT, "field \"error\": there is no kind %d", (int)r->error);
  if ((int)r->origin < 0 || (!newer && (int)r->origin >= TN_RECORD_ORIGINS))
    return tn_status_create(TN_INVALID_ARGUMENT, "field \"origin\": there is no origin %d", (int)r->origin);
  const struct {
    const char *name;
    double value;
  } numbers[] = {{"median", r->median},           {"spread", r->spread},       {"build_seconds", r->build_seconds},
                 {"run_seconds", r->run_seconds}, {"predicted", r->predicted}, {"when", r->when}};
  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
    if (!(numbers[i].value >= 0 && numbers[i].value <= 1e18))
      return tn_status_create(TN_INVALID_ARGUMENT, "field \"%s\": %g is no such number: it is 0 or more",
                              numbers[i].name, numbers[i].value);
  if (r->error == TN_TRIAL_OK && r->median == 0)
    return tn_status_create(TN_INVALID_ARGUMENT, "field \"median\": 0, where the trial was timed");
  if (r->error == TN_TRIAL_OK && r->median < TN__DATABASE_LEAST_SECONDS)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "field \"median\": %g s is less than any machine takes for a call; leave the record out",
                            r->median);
  if (r->calls < 0) return tn_status_create(TN_INVALID_ARGUMENT, "field \"calls\": %lld", (long long)r->calls);
  return NULL;
}

/* ---- identity ---------------------------------------------------------------------------------------------------- */

typedef struct named_size {
  const char *name;
  int64_t size;
} named_size;

static int by_name(const void *a, const void *b) {
  return strcmp(((const named_size *)a)->name, ((const named_size *)b)->name);
}

tn_status *tn_tune_task_hash(const tn_tune_task *task, char out[TN_TASK_HASH_BYTES]) {
  TN__NEED("task", task);
  TN__NEED("out", out);
  tn_tune_task t;
  void *memory;
  TN_RETURN_IF_ERROR(TN__OPTIONS_READ(tn_tune_task, task, &t));
  TN_RETURN_IF_ERROR(tn__database_check_task(&t));
  size_t count = (size_t)t.dim_count;
  TN_RETURN_IF_ERROR(tn__alloc(NULL, count + 1, sizeof(named_size), 0, &memory));
  named_size *dims = memory;
  for (size_t i = 0; i < count; i++) dims[i] = (named_size){t.dims[i], t.sizes[i]};
  qsort(dims, count, sizeof(*dims), by_name);
  tn__sha256 h;
  tn__sha256_init(&h);
  tn__sha256_update_string(&h, "tenon task 1");
  tn__sha256_update_string(&h, t.declaration);
  tn__sha256_update_string(&h, t.target);
  tn__sha256_update_u64(&h, (uint64_t)t.threads);
  tn__sha256_update_u64(&h, t.results_read);
  tn__sha256_update_u64(&h, count);
  for (size_t i = 0; i < count; i++) {
    tn__sha256_update_string(&h, dims[i].name);
    tn__sha256_update_u64(&h, (uint64_t)dims[i].size);
  }
  tn__free(NULL, memory, (count + 1) * sizeof(named_size), 0);
  const tn__digest digest = tn__sha256_final(&h);
  tn__digest_hex(&digest, out);
  return NULL;
}

tn__digest tn__database_candidate(const tn_record *r) {
  bool rule = r->rule != NULL && r->rule[0] != '\0';
  tn__sha256 h;
  tn__sha256_init(&h);
  tn__sha256_update_string(&h, rule ? r->rule : "");
  if (rule)
    tn__sha256_update_string(&h, r->decisions != NULL ? r->decisions : "");
  else
    tn__sha256_update_string(&h, r->trace != NULL ? r->trace : "");
  return tn__sha256_final(&h);
}

const char *tn_record_origin_name(tn_record_origin origin) {
  static const char *const names[TN_RECORD_ORIGINS] = {"static", "search", "exhaustive", "import"};
  return (int)origin >= 0 && (int)origin < TN_RECORD_ORIGINS ? names[origin] : "unknown";
}
