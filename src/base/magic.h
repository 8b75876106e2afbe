/* What a file is that somebody took for a model, a tensor or a text: formats that Tenon does not read, known by the
 * bytes that they begin with. None of them is the beginning of an ONNX model. */
#ifndef TENON_BASE_MAGIC_H
#define TENON_BASE_MAGIC_H

#include <stddef.h>

/* "a GGUF file, which holds weights and no graph; export the model to ONNX": for the end of a message. NULL: it is none
 * of those that are known. */
const char *tn__magic_of(const void *data, size_t size);

#endif
