/* Unsupported file formats are recognised by their first bytes, and no model is mistaken for one. */
#include <string.h>

#include "base/magic.h"
#include "unit/check.h"

typedef struct sample {
  const char *bytes;
  size_t size;
  const char *what; /* the start of the text; NULL: unknown format */
} sample;
#define SAMPLE(bytes, what) {bytes, sizeof bytes - 1, what}

static void formats_are_named(void **state) {
  static char tar[512],
      safetensors[] = "\x40\0\0\0\0\0\0\0{\"weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}    1234";
  memcpy(tar + 257, "ustar", 5);
  const sample samples[] = {
      SAMPLE("GGUF\x03\0\0\0", "a GGUF file"),
      SAMPLE(safetensors, "a safetensors file"),
      SAMPLE("\x1c\0\0\0TFL3\0\0", "a TensorFlow Lite model"),
      SAMPLE("\x89HDF\r\n\x1a\n\0\0", "an HDF5 file"),
      SAMPLE("PK\x03\x04\x14\0\0\0\0\0......model/data.pkl", "a PyTorch file"),
      SAMPLE("PK\x03\x04\x14\0\0\0\0\0......x.npy", "an archive of NumPy's"),
      SAMPLE("PK\x03\x04\x14\0\0\0\0\0......x.txt", "a zip archive"),
      SAMPLE("\x80\x02}q\0.", "a Python pickle"),
      SAMPLE("\x1f\x8b\x08\0\0\0", "a gzip archive"),
      SAMPLE("\x28\xb5\x2f\xfd\0\0", "a Zstandard archive"),
      SAMPLE("\xfd"
             "7zXZ\0\0",
             "an xz archive"),
      SAMPLE("BZh9....", "a bzip2 archive"),
      SAMPLE("<?xml version=\"1.0\"?>", "a text of XML"),
      SAMPLE("<!DOCTYPE html>", "a web page"),
      SAMPLE("version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
      SAMPLE("\x93NUMPY\x01\0", "a tensor of NumPy"),
      SAMPLE("\x7f"
             "ELF\x02\x01",
             "a program or library"),
      SAMPLE("ML\xefR\x0d", "MLIR bytecode"),
      SAMPLE("\x0a\x17\x0a\x01x\x12\x0bPlaceholder", "a graph of TensorFlow"),
      SAMPLE("", NULL),
      SAMPLE("G", NULL),
      SAMPLE("\x08\x09\x12\x07pytorch\x1a\x05"
             "2.4.0",
             NULL), /* an ONNX model */
      SAMPLE("\x08\x0a:\x40\x0a\x0f\x0a\x01x\x12\x01y\"\x04Relu", NULL),
      SAMPLE("graph \"g\" {\n", NULL),
      SAMPLE("kernel f(X: f32[4])", NULL),
  };
  for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
    const char *what = tn__magic_of(samples[i].bytes, samples[i].size);
    if (samples[i].what == NULL)
      assert_null(what);
    else
      assert_true(what != NULL && strncmp(what, samples[i].what, strlen(samples[i].what)) == 0);
    /* Any prefix is safe. */
    for (size_t n = 0; n < samples[i].size; n++) (void)tn__magic_of(samples[i].bytes, n);
  }
  assert_true(strncmp(tn__magic_of(tar, sizeof tar), "a tar archive", 13) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(formats_are_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
