/* Tensor files: the first byte chooses the kind of file, the rest is the file. An accepted tensor is written as .npy
 * and must read back unchanged. Checksums of an archive's stored members are corrected, so that they reject no
 * input. */
#include "fuzz/files.h"
#include "fuzz/memory.h"
#include "tenon/compile.h"
#include "tenon/runtime.h"

enum { MOST_MEMORY = 64 << 20 };

static uint32_t little(const uint8_t *p, int bytes) {
  uint32_t value = 0;
  for (int i = bytes - 1; i >= 0; i--) value = value << 8 | p[i];
  return value;
}

static uint32_t crc32_of(const uint8_t *data, size_t size) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < size; i++) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

/* Corrects them in every record of a directory, wherever one seems to start. */
static void make_checksums_right(uint8_t *zip, size_t size) {
  for (size_t at = 0; at + 46 <= size; at++) {
    uint8_t *entry = zip + at;
    if (little(entry, 4) != 0x02014b50 || little(entry + 10, 2) != 0) continue;
    size_t packed = little(entry + 20, 4), local = little(entry + 42, 4);
    if (local > size || size - local < 30) continue;
    size_t start = local + 30 + little(zip + local + 26, 2) + little(zip + local + 28, 2);
    if (start > size || packed > size - start) continue;
    uint32_t crc = crc32_of(zip + start, packed);
    for (int i = 0; i < 4; i++) entry[16 + i] = (uint8_t)(crc >> (8 * i));
  }
}

static void write_again(const tn_named_tensor *tensors, int count) {
  for (int i = 0; i < count; i++) {
    tn_tensor *again;
    const DLTensor *t = tn_tensor_dl(tensors[i].tensor);
    const char *path = fuzz_path("again.npy");
    tn_status *status = tn_tensor_write_npy(t, path);
    if (status != NULL) { /* strings that are not UTF-8, or types that NumPy lacks */
      tn_status_free(status);
      continue;
    }
    must(tn_tensor_read_npy(path, NULL, &again));
    const DLTensor *a = tn_tensor_dl(again);
    require(a->ndim == t->ndim);
    for (int d = 0; d < t->ndim; d++) require(a->shape[d] == t->shape[d]);
    size_t size = (size_t)tn_element_count(t->ndim, t->shape) * tn_dtype_size(tn_dtype_of_dl(t->dtype));
    if (tn_dtype_of_dl(t->dtype) != TN_STRING && size > 0) require(memcmp(a->data, t->data, size) == 0);
    tn_tensor_release(again);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[] = {"in.npy", "in.npz", "in.pb", "list.pb", "optional.pb"};
  size_t left = MOST_MEMORY;
  const tn_allocator allocator = {fuzz_limited, &left};
  tn_named_tensor *tensors;
  int count;
  if (size == 0) return 0;
  unsigned kind = data[0] % 5u;
  uint8_t *file = malloc(size);
  memcpy(file, data + 1, size - 1);
  if (kind == 1) make_checksums_right(file, size - 1);
  const char *path = fuzz_write(names[kind], file, size - 1);
  free(file);
  tn_status *status = kind < 3 ? tn_tensors_read(path, &allocator, &tensors, &count)
                               : tn_tensors_read_list(path, kind == 4, &allocator, &tensors, &count);
  if (status == NULL) {
    write_again(tensors, count);
    tn_tensors_free(tensors, count);
  }
  require(tn_status_code_of(status) != TN_INTERNAL);
  tn_status_free(status);
  require(left == MOST_MEMORY);
  return 0;
}
