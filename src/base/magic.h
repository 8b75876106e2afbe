/* Recognises files that Tenon cannot read by their first bytes, so that errors can name the actual format of a
 * supposed model, tensor or text. No ONNX model begins with any of these. */
#ifndef TENON_BASE_MAGIC_H
#define TENON_BASE_MAGIC_H

#include <stddef.h>

/* Returns the end of a message, such as "a GGUF file, which holds weights and no graph; export the model to ONNX",
 * or NULL for an unknown format. */
const char *tn__magic_of(const void *data, size_t size);

#endif
