/* usage: import_models FILE
 *
 * Imports every ONNX model of the file, in which each stands behind its size as four bytes, and prints a line for
 * each: "ok", or the error. What the importer builds must be a graph that verifies. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "import/onnx/onnx.h"

typedef struct job {
  tn__arena arena;
  const uint8_t *data;
  size_t size;
} job;

static void import_model(tn__escape *escape, void *arg) {
  job *j = arg;
  tn__onnx_model *model = tn__onnx_open(&j->arena, "m.onnx", j->data, j->size);
  tn__check(escape, tn__graph_verify(tn__onnx_import(model, tn__ir_create(&j->arena), NULL)));
}

static void print_line(const char *text) {
  for (; *text != '\0'; text++) putchar(*text == '\n' ? ' ' : *text);
  putchar('\n');
  fflush(stdout); /* what comes before a crash is to be seen */
}

static void import_next(const uint8_t *data, size_t size) {
  tn__escape escape;
  job j = {.data = data, .size = size};
  tn__arena_init(&j.arena, NULL, &escape);
  tn_status *status = tn__protect(&escape, import_model, &j);
  print_line(status == NULL ? "ok" : tn_status_message(status));
  tn_status_free(status);
  tn__arena_release(&j.arena);
}

int main(int argc, char **argv) {
  tn__file_map file;
  if (argc != 2) {
    fprintf(stderr, "usage: import_models FILE\n");
    return 2;
  }
  tn_status *status = tn__file_map_open(argv[1], &file);
  if (status != NULL) {
    fprintf(stderr, "%s\n", tn_status_message(status));
    tn_status_free(status);
    return 1;
  }
  size_t at = 0;
  for (uint32_t size; file.size - at >= sizeof(size); at += size) {
    memcpy(&size, file.data + at, sizeof(size));
    at += sizeof(size);
    if (size > file.size - at) break;
    import_next(file.data + at, size);
  }
  bool whole = at == file.size;
  tn__file_map_close(&file);
  if (!whole) fprintf(stderr, "%s is cut off\n", argv[1]);
  return whole ? 0 : 1;
}
