/* The tables of kinds and presets, and texts of targets. */
#include "target/text/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/strbuf.h"
#include "target/text/kinds.h"

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static const tn__target_kind_row kinds[] = {
    [TN__TARGET_CPU] = {"this compiler's own code for a CPU", tn__target_attributes_cpu, tn__target_words_cpu, NULL},
    [TN__TARGET_GPU] = {"some GPU, to look at schedules", tn__target_attributes_gpu, tn__target_words_gpu,
                        tn__target_check_gpu},
    [TN__TARGET_C99] = {"C for any CPU", tn__target_attributes_c99, tn__target_words_c99, NULL},
    [TN__TARGET_OPENCL] = {"OpenCL C", tn__target_attributes_opencl, tn__target_words_opencl, tn__target_check_opencl},
    [TN__TARGET_CUDA] = {"CUDA C for NVIDIA's GPUs", tn__target_attributes_cuda, tn__target_words_cuda,
                         tn__target_check_gpu},
    [TN__TARGET_ISLAND] = {"a CPU with memory of its own, for tests of placements", tn__target_attributes_island,
                           tn__target_words_cpu, NULL},
};
_Static_assert(sizeof kinds / sizeof kinds[0] == TN__TARGET_KINDS, "a row for each kind");

enum { MOST_RATE = 1000000000 };

/* Of every kind, behind its own; no code depends on them. */
static const tn__target_attribute common[] = {
    {"device", "which device of its type", TN__ATTRIBUTE_SAID, TN__TARGET_AT(device), 0, TN__TARGET_MOST_ID},
    {"name", "a name of its own, for placements", TN__ATTRIBUTE_WORD, TN__TARGET_AT(label), 0, 0},
    {"host", "the target that runs what is no kernel", TN__ATTRIBUTE_WORD, TN__TARGET_AT(host), 0, 0},
    {"gflops", "operations in f32 a nanosecond, for --place auto", TN__ATTRIBUTE_SAID, TN__TARGET_AT(rates.gflops), 1,
     MOST_RATE},
    {"memory_rate", "of its memory, MB/s, for --place auto", TN__ATTRIBUTE_SAID, TN__TARGET_AT(rates.memory_rate), 1,
     MOST_RATE},
    {"link_rate", "between the host's memory and its own, MB/s, for --place auto", TN__ATTRIBUTE_SAID,
     TN__TARGET_AT(rates.link_rate), 1, MOST_RATE},
    {"link_wait", "until a copy begins, ns, for --place auto", TN__ATTRIBUTE_SAID, TN__TARGET_AT(rates.link_wait), 1,
     MOST_RATE},
    {"launch", "to start a kernel, ns, for --place auto", TN__ATTRIBUTE_SAID, TN__TARGET_AT(rates.launch), 1,
     MOST_RATE},
    {.name = NULL}};

/* Common machines. CPUs by name are cpus.c's. */
static const struct preset {
  const char *name, *text, *help;
} presets[] = {{"nvidia-t4", "cuda -arch=sm_75 -gflops=8100 -memory_rate=320000", "Turing"},
               {"nvidia-a100", "cuda -arch=sm_80 -gflops=19500 -memory_rate=1555000", "Ampere"},
               {"nvidia-a10", "cuda -arch=sm_86 -gflops=31200 -memory_rate=600000", "Ampere"},
               {"nvidia-l4", "cuda -arch=sm_89 -gflops=30300 -memory_rate=300000", "Ada Lovelace"},
               {"nvidia-rtx-4090", "cuda -arch=sm_89 -gflops=82600 -memory_rate=1008000", "Ada Lovelace"},
               {"nvidia-h100", "cuda -arch=sm_90 -gflops=67000 -memory_rate=3350000", "Hopper"},
               {"nvidia-h200", "cuda -arch=sm_90 -gflops=67000 -memory_rate=4800000", "Hopper"},
               {"pocl", "opencl -type=cpu -link_rate=5000 -link_wait=5000", "OpenCL on this machine's CPU"},
               {.name = NULL}};

const char *tn__target_kind_help(tn__target_kind kind) { return kinds[kind].help; }

static const char *name_of_kind(int kind) { return tn__target_kind_name((tn__target_kind)kind); }

/* The first kind of a type has its name. */
static bool names_type(int kind) {
  int type = tn__target_device_type(&(tn__target){.kind = (tn__target_kind)kind});
  return strcmp(tn__target_type_name(type), name_of_kind(kind)) == 0;
}

int tn__target_type_find(const char *name, size_t length) {
  for (int k = 0; k < TN__TARGET_KINDS; k++)
    if (names_type(k) && strlen(name_of_kind(k)) == length && strncmp(name_of_kind(k), name, length) == 0)
      return tn__target_device_type(&(tn__target){.kind = (tn__target_kind)k});
  return -1;
}

void tn__target_type_names(char *text, size_t size) {
  text[0] = '\0';
  for (int k = 0; k < TN__TARGET_KINDS; k++)
    if (names_type(k)) tn__target_list(text, size, text[0] ? ", " : "", name_of_kind(k));
}

const char *tn__target_name_at(int index) {
  for (int i = 0; i < index; i++)
    if (tn__target_cpu_name(i) == NULL) return presets[index - i].name;
  const char *cpu = tn__target_cpu_name(index);
  return cpu != NULL ? cpu : presets[0].name;
}

/* The row of attribute `index` of a kind, those of every kind last; NULL behind the last. */
static const tn__target_attribute *attribute_at(tn__target_kind kind, int index) {
  const tn__target_attribute *rows[] = {kinds[kind].attributes, common};
  for (int t = 0; t < 2; t++)
    for (const tn__target_attribute *a = rows[t]; a->name != NULL; a++)
      if (index-- == 0) return a;
  return NULL;
}

static char *word_of(tn__target *target, const tn__target_attribute *a) { return (char *)target + a->at; }
static int64_t number_of(const tn__target *target, const tn__target_attribute *a) {
  const void *at = (const char *)target + a->at;
  return a->bytes == sizeof(int) ? *(const int *)at : *(const int64_t *)at;
}
static void set_number(tn__target *target, const tn__target_attribute *a, int64_t value) {
  void *at = (char *)target + a->at;
  if (a->bytes == sizeof(int))
    *(int *)at = (int)value;
  else
    *(int64_t *)at = value;
}

bool tn__target_attribute_at(int kind, int index, char name[32], char values[64], const char **help) {
  const tn__target_attribute *a = kind == TN__TARGET_EVERY_KIND ? common : kinds[kind].attributes;
  for (; a->name != NULL && index > 0; index--) a++;
  if (a->name == NULL) return false;
  snprintf(name, 32, "%s", a->name);
  if (a->flags & TN__ATTRIBUTE_WORD)
    values[0] = '\0';
  else
    snprintf(values, 64, "%" PRId64 " to %" PRId64, a->low, a->high);
  *help = a->help;
  return true;
}

/* ---- what is unknown --------------------------------------------------------------------------------------------- */

enum { KNOWN_BYTES = 1024, HINT_BYTES = 64 };

static void hint(const tn__nearest *nearest, char out[HINT_BYTES]) {
  out[0] = '\0';
  if (nearest->best != NULL)
    snprintf(out, HINT_BYTES, "did you mean \"%.*s\"? ", (int)nearest->best_length, nearest->best);
}

static void list(char known[KNOWN_BYTES], tn__nearest *nearest, const char *before, const char *name) {
  tn__target_list(known, KNOWN_BYTES, before, name);
  tn__nearest_consider(nearest, name, strlen(name));
}

static tn_status *unknown_target(const char *text) {
  if (strchr(text, ';') != NULL)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "\"%s\" are several targets, which models may have; here it is one, as \"%.*s\"", text,
                            (int)strcspn(text, ";"), text);
  char known[KNOWN_BYTES] = "", near[HINT_BYTES];
  tn__nearest nearest = {.name = text, .length = strcspn(text, " +")};
  const char *name;
  for (int i = 0; (name = tn__target_cpu_name(i)) != NULL; i++) list(known, &nearest, i > 0 ? ", " : "", name);
  tn__target_list(known, KNOWN_BYTES, ", each with +feature and -feature items; ", "the kinds");
  for (int k = 0; k < TN__TARGET_KINDS; k++) list(known, &nearest, k > 0 ? ", " : " ", name_of_kind(k));
  tn__target_list(known, KNOWN_BYTES, "; and ", "the presets");
  for (int i = 0; presets[i].name != NULL; i++) list(known, &nearest, i > 0 ? ", " : " ", presets[i].name);
  hint(&nearest, near);
  return tn_status_create(TN_INVALID_ARGUMENT, "unknown target \"%s\"; %sknown are %s; all with -attribute=value words",
                          text, near, known);
}

static tn_status *unknown_attribute(const char *text, const char *word, tn__target_kind kind) {
  char known[KNOWN_BYTES] = "", near[HINT_BYTES];
  size_t dash = word[0] == '-';
  tn__nearest nearest = {.name = word + dash, .length = strcspn(word + dash, "=")};
  const tn__target_attribute *a;
  for (int i = 0; (a = attribute_at(kind, i)) != NULL; i++) list(known, &nearest, i > 0 ? ", " : "", a->name);
  hint(&nearest, near);
  return tn_status_create(TN_INVALID_ARGUMENT,
                          "target \"%s\": there is no attribute \"%s\"; %sattributes are words like -%s=VALUE, and %s "
                          "has %s",
                          text, word, near, kinds[kind].attributes[0].name, tn__target_kind_name(kind), known);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

enum { MOST_ATTRIBUTES = 32 };

typedef struct reader {
  const char *text; /* all of it, for messages */
  tn__target target;
  int64_t numbers[MOST_ATTRIBUTES];
  char first_cpu[64];             /* the CPU named by the first word, which is an mcpu; "": none */
  char said[MOST_ATTRIBUTES][32]; /* the value of each attribute, truncated; "": not set */
} reader;

/* The next word, which ends at a blank that is not in quotes; the quotes are dropped. False at the end; a word that is
 * too long is cut, and known to nobody then. */
TN_MUST_USE static bool next_word(const char **at, char *word, size_t size) {
  size_t length = 0;
  char quote = '\0';
  while (**at == ' ' || **at == '\t') ++*at;
  if (**at == '\0') return false;
  for (; **at != '\0' && (quote != '\0' || (**at != ' ' && **at != '\t')); ++*at) {
    if (quote == '\0' ? **at == '"' || **at == '\'' : **at == quote)
      quote = quote == '\0' ? **at : '\0';
    else if (length + 1 < size)
      word[length++] = **at;
  }
  word[length] = '\0';
  return true;
}

/* Attributes may be written with - for _, as options are. */
static bool same_name(const char *word, size_t length, const char *name) {
  for (size_t i = 0; i < length; i++)
    if (name[i] == '\0' || (word[i] != name[i] && !(word[i] == '-' && name[i] == '_'))) return false;
  return name[length] == '\0';
}

static tn_status *bad_number(const reader *r, const tn__target_attribute *a, const char *value) {
  return tn_status_create(TN_INVALID_ARGUMENT, "target \"%s\": \"%s\" is not what %s can be: %s%" PRId64 " to %" PRId64,
                          r->text, value, a->name, a->flags & TN__ATTRIBUTE_POWER ? "a power of two, " : "", a->low,
                          a->high);
}

static tn_status *read_number(reader *r, int index, const tn__target_attribute *a, const char *value) {
  enum { DECIMAL = 10, MOST_DIGITS = 18 };
  char *end;
  if (value[0] < '0' || value[0] > '9' || strlen(value) > MOST_DIGITS) return bad_number(r, a, value);
  int64_t number = strtoll(value, &end, DECIMAL);
  bool power = (number & (number - 1)) == 0;
  if (*end != '\0' || number < a->low || number > a->high || ((a->flags & TN__ATTRIBUTE_POWER) && !power))
    return bad_number(r, a, value);
  r->numbers[index] = number;
  return NULL;
}

/* A word of the common ones, for which there are rules here: names are words, and a host is a target without one. */
static tn_status *check_word(const reader *r, const tn__target_attribute *a, const char *value) {
  if (value[0] == '\0' || strlen(value) >= a->bytes)
    return tn_status_create(TN_INVALID_ARGUMENT, "target \"%s\": %s has 1 to %zu characters", r->text, a->name,
                            a->bytes - 1);
  if (a->at != offsetof(tn__target, label)) return NULL;
  bool type = tn__target_type_find(value, strlen(value)) >= 0;
  if (!tn__is_c_word(value) || type)
    return tn_status_create(
        TN_INVALID_ARGUMENT,
        "target \"%s\": \"%s\" cannot be its name: letters, digits and _, and not a type of devices", r->text, value);
  return NULL;
}

/* Rejects contradictory values, because neither takes precedence. Only a preset's value may be replaced. */
static tn_status *say_once(reader *r, int index, const tn__target_attribute *a, const char *value) {
  bool is_cpu = a->at == offsetof(tn__target, cpu.mcpu);
  const char *before = is_cpu && r->first_cpu[0] != '\0' ? r->first_cpu : r->said[index];
  if (before[0] != '\0')
    return tn_status_create(TN_INVALID_ARGUMENT, "target \"%s\": %s is given twice: \"%s\" and \"%s\"; leave one out",
                            r->text, a->name, before, value);
  snprintf(r->said[index], sizeof r->said[index], "%s", value);
  return NULL;
}

static tn_status *read_attribute(reader *r, const char *word, bool preset) {
  const tn__target_attribute *a;
  const char *value = strchr(word, '=');
  if (word[0] != '-' || value == NULL) return unknown_attribute(r->text, word, r->target.kind);
  for (int i = 0; (a = attribute_at(r->target.kind, i)) != NULL; i++) {
    if (!same_name(word + 1, (size_t)(value - word) - 1, a->name)) continue;
    if (!preset) TN_RETURN_IF_ERROR(say_once(r, i, a, value + 1));
    r->target.given |= 1U << i;
    if (!(a->flags & TN__ATTRIBUTE_WORD)) return read_number(r, i, a, value + 1);
    TN_RETURN_IF_ERROR(check_word(r, a, value + 1));
    snprintf(word_of(&r->target, a), a->bytes, "%s", value + 1);
    return NULL;
  }
  return unknown_attribute(r->text, word, r->target.kind);
}

static tn_status *read_words(reader *r, const char *words, bool preset) {
  char word[TN__TARGET_TEXT];
  while (next_word(&words, word, sizeof word)) TN_RETURN_IF_ERROR(read_attribute(r, word, preset));
  return NULL;
}

/* "gpu,warp=64" is "gpu -warp=64". */
static tn_status *read_items(reader *r, const char *items) {
  while (*items != '\0') {
    char word[HINT_BYTES] = "-";
    size_t length = strcspn(items + 1, ",");
    if (length + 2 > sizeof word) return unknown_attribute(r->text, items, r->target.kind);
    snprintf(word + 1, sizeof word - 1, "%.*s", (int)length, items + 1);
    TN_RETURN_IF_ERROR(read_attribute(r, word, false));
    items += 1 + length;
  }
  return NULL;
}

static int kind_of(const char *word) {
  for (int k = 0; k < TN__TARGET_KINDS; k++)
    if (strcmp(name_of_kind(k), word) == 0) return k;
  return -1;
}

static const struct preset *preset_of(const char *word) {
  for (const struct preset *p = presets; p->name != NULL; p++)
    if (strcmp(p->name, word) == 0) return p;
  return NULL;
}

static tn_status *read_first(reader *r, const char *first, size_t size) {
  char word[HINT_BYTES];
  const struct preset *preset = preset_of(first);
  const char *text = preset != NULL ? preset->text : first;
  int kind = kind_of(first);
  if (preset != NULL && next_word(&text, word, sizeof word)) kind = kind_of(word);
  const char *comma = strchr(first, ',');
  bool items = comma != NULL && strncmp(first, "gpu,", (size_t)(comma - first) + 1) == 0;
  r->target.kind = items ? TN__TARGET_GPU : kind >= 0 ? (tn__target_kind)kind : TN__TARGET_CPU;
  if (items) return read_items(r, comma);
  if (preset != NULL) return read_words(r, text, true);
  if (kind >= 0) return NULL;
  if (!tn__target_is_cpu_word(first) || size > sizeof r->target.cpu.mcpu) return unknown_target(r->text);
  snprintf(r->target.cpu.mcpu, sizeof r->target.cpu.mcpu, "%s", first);
  snprintf(r->first_cpu, sizeof r->first_cpu, "%s", first);
  return NULL;
}

static bool is_of_cpu(const tn__target_attribute *a) {
  return a->at >= offsetof(tn__target, cpu) && a->at < offsetof(tn__target, cpu) + sizeof(tn__cpu_target);
}

static tn_status *set_numbers(reader *r) {
  const tn__target_attribute *a;
  for (int i = 0; (a = attribute_at(r->target.kind, i)) != NULL; i++) {
    if ((a->flags & TN__ATTRIBUTE_WORD) || !(r->target.given & 1U << i)) continue;
    int64_t most = number_of(&r->target, a);
    if ((a->flags & TN__ATTRIBUTE_LOWERS) && r->numbers[i] > most)
      return tn_status_create(TN_INVALID_ARGUMENT, "target \"%s\": %s is at most %" PRId64 " there, not %" PRId64,
                              r->text, a->name, most, r->numbers[i]);
    /* What describes the machine takes the place of what would be measured. */
    if (is_of_cpu(a) && !(a->flags & TN__ATTRIBUTE_SAID)) r->target.cpu.native = false;
    set_number(&r->target, a, r->numbers[i]);
  }
  return NULL;
}

static tn_status *read_host(const reader *r, char *host, size_t size) {
  tn__target parsed;
  char text[TN__TARGET_TEXT];
  if (host[0] == '\0') return NULL;
  if (strstr(host, "-host") != NULL)
    return tn_status_create(TN_INVALID_ARGUMENT, "target \"%s\": a host has no host of its own", r->text);
  TN_RETURN_IF_ERROR(tn_status_prefix(tn__target_parse(host, &parsed), "target \"%s\": its host", r->text));
  tn__target_print(&parsed, text);
  if (strlen(text) >= size)
    return tn_status_create(TN_INVALID_ARGUMENT, "target \"%s\": the text of its host is too long", r->text);
  memcpy(host, text, strlen(text) + 1);
  return NULL;
}

/* What a text that says `said` and nothing else would give. */
static tn_status *describe(tn__target *target, const char *text) {
  target->device = TN__DEVICE_ID_FREE;
  return kinds[target->kind].words(text, target);
}

static void print_attributes(const tn__target *target, unsigned flags, unsigned without, char *text, size_t size);

/* A warp of which nothing is said is no larger than a block may be. */
static void fit_warp(tn__target *target) {
  if (!tn__target_is_gpu(target) || tn__target_says(target, offsetof(tn__target, gpu.warp))) return;
  if (target->gpu.warp > target->gpu.threads) target->gpu.warp = target->gpu.threads;
}

static tn_status *read_target(reader *r) {
  char first[TN__TARGET_TEXT] = "";
  const char *rest = r->text;
  if (!next_word(&rest, first, sizeof first)) first[0] = '\0';
  TN_RETURN_IF_ERROR(read_first(r, first, strlen(first) + 1));
  TN_RETURN_IF_ERROR(read_words(r, rest, false));
  TN_RETURN_IF_ERROR(describe(&r->target, r->text));
  TN_RETURN_IF_ERROR(set_numbers(r));
  fit_warp(&r->target);
  if (kinds[r->target.kind].check != NULL) TN_RETURN_IF_ERROR(kinds[r->target.kind].check(r->text, &r->target));
  return read_host(r, r->target.host, sizeof r->target.host);
}

tn_status *tn__target_parse(const char *text, tn__target *out) {
  reader r = {.text = text != NULL ? text : "native"};
  *out = (tn__target){0};
  TN_RETURN_IF_ERROR(read_target(&r));
  tn__target *t = &r.target;
  if (tn__target_is_own(t))
    tn__target_name_features(t, t->name, sizeof t->name);
  else
    snprintf(t->name, sizeof t->name, "%s", tn__target_kind_name(t->kind));
  /* Of a CPU its features are in the name already, or stand there in the place of what it is called. */
  tn__target named = *t;
  if (tn__target_is_cpu(t)) tn__target_name_features(t, named.cpu.mcpu, sizeof named.cpu.mcpu);
  print_attributes(&named, TN__ATTRIBUTE_CODE, tn__target_is_own(t) ? TN__ATTRIBUTE_WORD : 0, t->name, sizeof t->name);
  *out = *t;
  return NULL;
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

/* The words alone, from which `describe` makes the rest. */
static tn__target usual_of(const tn__target *target) {
  tn__target usual = {.kind = target->kind};
  memcpy(usual.type, target->type, sizeof usual.type);
  if (tn__target_is_cpu(target))
    memcpy(usual.cpu.mcpu, target->cpu.mcpu, sizeof usual.cpu.mcpu);
  else
    memcpy(usual.gpu.arch, target->gpu.arch, sizeof usual.gpu.arch);
  tn_status_free(describe(&usual, "")); /* words that were described before */
  return usual;
}

/* Attributes with all of `flags` and none of `without`, where they say something. */
static void print_attributes(const tn__target *target, unsigned flags, unsigned without, char *text, size_t size) {
  const tn__target usual = usual_of(target);
  tn__target copy = *target;
  const tn__target_attribute *a;
  for (int i = 0; (a = attribute_at(target->kind, i)) != NULL; i++) {
    char value[TN__TARGET_TEXT], word[TN__TARGET_TEXT + HINT_BYTES];
    bool said = (a->flags & TN__ATTRIBUTE_SAID) && (target->given & 1U << i);
    if ((a->flags & flags) != flags || (a->flags & without)) continue;
    if (a->flags & TN__ATTRIBUTE_WORD) {
      const char *stored = word_of(&copy, a);
      if (stored[0] == '\0') continue;
      const char *quote = strpbrk(stored, " \t") != NULL ? "\"" : "";
      snprintf(value, sizeof value, "%s%.320s%s", quote, stored, quote);
    } else {
      if (!said && number_of(target, a) == number_of(&usual, a)) continue;
      snprintf(value, sizeof value, "%" PRId64, number_of(target, a));
    }
    snprintf(word, sizeof word, "%s=%s", a->name, value);
    tn__target_list(text, size, " -", word);
  }
}

void tn__target_print(const tn__target *target, char text[TN__TARGET_TEXT]) {
  snprintf(text, TN__TARGET_TEXT, "%s", tn__target_kind_name(target->kind));
  print_attributes(target, 0, 0, text, TN__TARGET_TEXT);
}

bool tn__target_says(const tn__target *target, size_t at) {
  const tn__target_attribute *a;
  for (int i = 0; (a = attribute_at(target->kind, i)) != NULL; i++)
    if (a->at == at) return (target->given & 1U << i) != 0;
  return false;
}

int tn__target_threads(const tn__target *target) {
  if (tn__target_is_gpu(target)) return 1;
  bool said = tn__target_says(target, offsetof(tn__target, cpu.cores));
  return said || target->cpu.native ? target->cpu.cores : 1;
}

/* ---- the same ---------------------------------------------------------------------------------------------------- */

/* Everything, as one digest: two targets are the same when it is. */
static tn__digest digest_of(const tn__target *target) {
  char text[TN__TARGET_TEXT];
  tn__sha256 h;
  tn__sha256_init(&h);
  tn__target_hash(target, &h);
  tn__target_print(target, text);
  tn__sha256_update_string(&h, text);
  return tn__sha256_final(&h);
}

bool tn__target_equal(const tn__target *a, const tn__target *b) {
  if (a == b) return true;
  if (a->kind != b->kind || a->device != b->device || strcmp(a->name, b->name) != 0) return false;
  tn__digest x = digest_of(a), y = digest_of(b);
  return memcmp(&x, &y, sizeof x) == 0;
}

uint64_t tn__target_key(const tn__target *target) {
  tn__digest digest = digest_of(target);
  uint64_t key;
  memcpy(&key, digest.bytes, sizeof key);
  return key;
}
