/* GPUs as targets: how many threads, and what they share. Texts are "gpu" and items, as "gpu,warp=64,threads=256". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "target/kinds.h"

#define AT(field) offsetof(tn__gpu_target, field)

/* What is usual, and what can be: limits that OpenCL's and CUDA's devices keep to. */
static const struct {
  char name[16];
  size_t at;
  int usual, low, high;
} rows[] = {
    {"warp", AT(warp), 32, 1, 128},
    {"threads", AT(threads), 1024, 1, 1 << 16},
    {"registers", AT(registers), 1 << 16, 1, 1 << 24},
    {"shared_bytes", AT(shared_bytes), 48 << 10, 0, 1 << 24},
};
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]), NAME_BYTES = 3 };

static int *field(tn__gpu_target *gpu, int row) { return (int *)(void *)((char *)gpu + rows[row].at); }
static int value_of(const tn__gpu_target *gpu, int row) {
  return *(const int *)(const void *)((const char *)gpu + rows[row].at);
}

bool tn__target_is_gpu(const char *text) {
  return strncmp(text, "gpu", NAME_BYTES) == 0 && (text[NAME_BYTES] == '\0' || text[NAME_BYTES] == ',');
}

static tn_status *bad_item(const char *text, const char *item) {
  char known[256] = "";
  size_t used = 0;
  for (int i = 0; i < ROW_COUNT; i++) {
    int more = snprintf(known + used, sizeof(known) - used, "%s%s (%d to %d)", i > 0 ? ", " : "", rows[i].name,
                        rows[i].low, rows[i].high);
    if (more < 0 || (size_t)more >= sizeof(known) - used) break;
    used += (size_t)more;
  }
  return tn_status_create(TN_INVALID_ARGUMENT,
                          "target \"%s\": at \"%s\" there is no item like \",warp=32\"; a gpu has %s", text, item,
                          known);
}

tn_status *tn__target_parse_gpu(const char *text, tn__target *out) {
  out->kind = TN__TARGET_GPU;
  for (int i = 0; i < ROW_COUNT; i++) *field(&out->gpu, i) = rows[i].usual;
  for (const char *item = text + NAME_BYTES; *item != '\0';) {
    int row = 0;
    const char *name = item + 1, *number = name + strcspn(name, "=,");
    while (row < ROW_COUNT && (strlen(rows[row].name) != (size_t)(number - name) ||
                               strncmp(rows[row].name, name, strlen(rows[row].name)) != 0))
      row++;
    if (row == ROW_COUNT || number[0] != '=' || number[1] < '0' || number[1] > '9') return bad_item(text, item);
    char *end;
    long long value = strtoll(number + 1, &end, 10);
    if ((*end != '\0' && *end != ',') || value < rows[row].low || value > rows[row].high) return bad_item(text, item);
    *field(&out->gpu, row) = (int)value;
    item = end;
  }
  if (out->gpu.warp > out->gpu.threads)
    return tn_status_create(TN_INVALID_ARGUMENT,
                            "target \"%s\": a warp has %d threads and a block %d at the most: it has one warp or more",
                            text, out->gpu.warp, out->gpu.threads);
  return NULL;
}

void tn__target_print_gpu(const tn__target *target, char *name, size_t size) {
  size_t used = (size_t)snprintf(name, size, "gpu");
  for (int i = 0; i < ROW_COUNT; i++) {
    int value = value_of(&target->gpu, i);
    if (value != rows[i].usual && used < size)
      used += (size_t)snprintf(name + used, size - used, ",%s=%d", rows[i].name, value);
  }
}
