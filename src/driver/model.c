#include "driver/model.h"

#include <string.h>

#include "base/file.h"
#include "base/magic.h"
#include "graph/place/annotate.h"
#include "graph/text.h"

static bool has_text_name(const char *path) {
  size_t length = strlen(path);
  return length > 4 && strcmp(path + length - 4, ".tng") == 0;
}

static bool is_saved_model(const char *path) {
  const char *slash = strrchr(path, '/');
  return strcmp(slash == NULL ? path : slash + 1, "saved_model.pb") == 0;
}

/* Is the first word "graph", behind blanks and comments? */
static bool is_text(const char *text, size_t length) {
  const char *at = text, *end = text + length;
  while (at < end) {
    if (end - at >= 2 && at[0] == '/' && at[1] == '/')
      while (at < end && *at != '\n') at++;
    else if (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')
      at++;
    else
      break;
  }
  return end - at > 5 && memcmp(at, "graph", 5) == 0 && (at[5] == ' ' || at[5] == '"');
}

static void close_map(void *map) { tn__file_map_close(map); }

tn__model *tn__model_open(tn__arena *arena, const char *path, const void *data, size_t size) {
  tn__model *model = TN__NEW(arena, tn__model);
  *model = (tn__model){.path = path, .text = data, .length = size};
  if (data == NULL) {
    tn__file_map *map = TN__NEW(arena, tn__file_map);
    tn__check(arena->escape, tn__file_map_open(path, map));
    tn__arena_defer(arena, close_map, map);
    model->text = (const char *)map->data;
    model->length = map->size;
  }
  static const char magic[] = {0x7f, 'T', 'N', 'X'};
  if (model->length >= sizeof magic && memcmp(model->text, magic, sizeof magic) == 0)
    tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "%s: it is compiled already: an executable is loaded, not compiled",
               path);
  if (has_text_name(path) || is_text(model->text, model->length)) return model;
  const char *other = is_saved_model(path) ? "a SavedModel of TensorFlow; export the model to ONNX, with tf2onnx, say"
                                           : tn__magic_of(model->text, model->length);
  if (other != NULL) tn__throwf(arena->escape, TN_UNSUPPORTED, "%s: cannot be read as a model: it is %s", path, other);
  model->text = NULL;
  model->onnx = tn__onnx_open(arena, path, data, size);
  return model;
}

tn__digest tn__model_digest(const tn__model *model, int threads) {
  if (model->onnx != NULL) return tn__onnx_digest(model->onnx, threads);
  tn__sha256 h;
  tn__sha256_init(&h);
  tn__sha256_update(&h, model->text, model->length);
  return tn__sha256_final(&h);
}

uint64_t tn__model_structure(const tn__model *model) {
  return model->onnx != NULL ? tn__onnx_structure(model->onnx) : tn__graph_text_structure(model->text, model->length);
}

void tn__model_forget_pages(const tn__model *model) {
  if (model->onnx != NULL) tn__onnx_forget_pages(model->onnx);
}

tn__graph *tn__model_import(tn__model *model, tn__ir *ir, const tn__onnx_options *options) {
  if (model->onnx != NULL) return tn__onnx_import(model->onnx, ir, options);
  tn__graph_read_options read = {options->dims, options->dim_count, options->dims_used};
  tn__graph *graph;
  tn__check(tn__ir_arena(ir)->escape, tn__graph_read(ir, model->path, model->text, model->length, &read, &graph));
  for (int i = 0; options->fold_defaults && i < tn__graph_input_count(graph); i++)
    if (tn__graph_input_at(graph, i)->fallback != NULL)
      tn__throwf(tn__ir_arena(ir)->escape, TN_UNSUPPORTED,
                 "%s: cannot make the default of input \"%s\" a constant: only ONNX models' are; write the input as a "
                 "constant",
                 model->path, tn__graph_input_at(graph, i)->name);
  if (options->named != NULL) tn__place_name_values(graph, options->named);
  return graph;
}
