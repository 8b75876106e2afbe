#include "base/magic.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define EXPORT "export the model to ONNX"
#define UNPACK "unpack it, and give the file inside"

typedef struct format {
  size_t at; /* offset of the bytes in the file */
  size_t length;
  const char *bytes, *what;
} format;

static const format formats[] = {
    {0, 4, "GGUF",
     "a GGUF file (llama.cpp), which holds weights and no graph; " EXPORT " with the tool that trained it"},
    {0, 4, "ggml",
     "a GGML file (llama.cpp), which holds weights and no graph; " EXPORT " with the tool that trained it"},
    {4, 4, "TFL3", "a TensorFlow Lite model; " EXPORT ", with tf2onnx --tflite, say"},
    {0, 8, "\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes; " EXPORT ", with tf2onnx, say"},
    {0, 4, "ML\xefR", "MLIR bytecode; " EXPORT},
    {0, 5, "<?xml", "a text of XML, as OpenVINO's models have; give the ONNX model that it was made from"},
    {0, 9, "<!DOCTYPE", "a web page; download the file itself"},
    {0, 5, "<html", "a web page; download the file itself"},
    {0, 23, "version https://git-lfs", "a pointer of Git LFS and not the file; fetch the file with `git lfs pull`"},
    {0, 6, "\x93NUMPY", "a tensor of NumPy (.npy), not a model; give it as an input"},
    {0, 4, "\177ELF", "a program or library (ELF); give the model"},
    {0, 2, "\x1f\x8b", "a gzip archive; " UNPACK},
    {0, 4, "\x28\xb5\x2f\xfd", "a Zstandard archive; " UNPACK},
    {0, 6, "\3757zXZ", "an xz archive; " UNPACK},
    {0, 6, "7z\xbc\xaf\x27\x1c", "a 7z archive; " UNPACK},
    {0, 3, "BZh", "a bzip2 archive; " UNPACK},
    {257, 5, "ustar", "a tar archive; " UNPACK},
};

static bool begins(const uint8_t *data, size_t size, size_t at, const char *bytes, size_t length) {
  return size >= at + length && memcmp(data + at, bytes, length) == 0;
}

/* Returns whether the text occurs in the first bytes, where a zip file names its first members. */
static bool names(const uint8_t *data, size_t size, const char *text) {
  enum { NEAR = 1024 };
  size_t length = strlen(text);
  for (size_t i = 0; i + length <= size && i < NEAR; i++)
    if (memcmp(data + i, text, length) == 0) return true;
  return false;
}

/* Recognises a 64-bit length followed by a JSON header of that length. */
static bool is_safetensors(const uint8_t *data, size_t size) {
  uint64_t header = 0;
  if (size < 10) return false;
  for (int i = 7; i >= 0; i--) header = header << 8 | data[i];
  return header >= 2 && header <= (uint64_t)100 << 20 && header <= size - 8 && data[8] == '{' &&
         (data[9] == '"' || data[9] == '}' || data[9] == ' ' || data[9] == '\n');
}

const char *tn__magic_of(const void *bytes, size_t size) {
  const uint8_t *data = bytes;
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
    if (begins(data, size, formats[i].at, formats[i].bytes, formats[i].length)) return formats[i].what;
  if (is_safetensors(data, size))
    return "a safetensors file, which holds weights and no graph; " EXPORT " with the tool that trained it";
  if (begins(data, size, 0, "PK\x03\x04", 4)) {
    if (names(data, size, "data.pkl") || names(data, size, ".data/"))
      return "a PyTorch file (a zip archive with a pickle); " EXPORT " with torch.onnx.export()";
    if (names(data, size, ".npy")) return "an archive of NumPy's tensors (.npz), not a model; give it as inputs";
    return "a zip archive; " UNPACK;
  }
  if (size > 2 && data[0] == 0x0a && names(data, size, "Placeholder"))
    return "a graph of TensorFlow; " EXPORT ", with tf2onnx --graphdef, say";
  /* A pickle begins with its protocol and ends with a period. */
  if (size > 2 && data[0] == 0x80 && data[1] >= 2 && data[1] <= 5 && data[size - 1] == '.')
    return "a Python pickle, as PyTorch and scikit-learn write; " EXPORT;
  return NULL;
}
