/* What can be compiled: an ONNX model, or a graph as text (docs/graph.md). */
#ifndef TENON_DRIVER_MODEL_H
#define TENON_DRIVER_MODEL_H

#include "import/onnx/onnx.h"

typedef struct tn__model {
  const char *path;
  tn__onnx_model *onnx; /* NULL: a text */
  const char *text;
  size_t length;
} tn__model;

/* `data` NULL: the file's bytes, else those, which must outlive the result. A text is known by its first word, or by a
 * name that ends in ".tng". Throws on the arena's escape. */
tn__model *tn__model_open(tn__arena *arena, const char *path, const void *data, size_t size);
/* Over everything that it consists of, the same for any number of threads. */
tn__digest tn__model_digest(const tn__model *model, int threads);
/* Bytes of its structure: what tensors hold counts little. */
uint64_t tn__model_structure(const tn__model *model);
/* Gives the pages of its files back to the system until they are read again. */
void tn__model_forget_pages(const tn__model *model);
tn__graph *tn__model_import(tn__model *model, tn__ir *ir, const tn__onnx_options *options);

#endif
