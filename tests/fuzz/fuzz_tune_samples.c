/* Sample files, the training data of the tuner's cost model: any bytes yield samples or an error. Accepted samples
 * are written, and read back in the same number. The checksum is corrected, so that it rejects no input. */
#include <string.h>

#include "base/hash.h"
#include "fuzz/files.h"
#include "tune/search/samples.h"

static void make_checksum_right(uint8_t *data, size_t size) {
  tn__sha256 h;
  if (size < sizeof(tn__digest)) return;
  tn__sha256_init(&h);
  tn__sha256_update(&h, data, size - sizeof(tn__digest));
  const tn__digest digest = tn__sha256_final(&h);
  memcpy(data + size - sizeof(digest), &digest, sizeof(digest));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tn__cost_model *model, *again;
  if (size > 1 << 18) return 0;
  uint8_t *file = malloc(size + 1);
  memcpy(file, data, size);
  make_checksum_right(file, size);
  must(tn__model_create(&model));
  tn_status *status = tn__model_read(model, "fuzz", fuzz_write("samples", file, size));
  tn_status_code code = tn_status_code_of(status);
  require(code == TN_OK || code == TN_FAILED_PRECONDITION || code == TN_DATA_LOSS);
  if (status == NULL) {
    must(tn__model_write(model, "fuzz", fuzz_path("again")));
    must(tn__model_create(&again));
    must(tn__model_read(again, "fuzz", fuzz_path("again")));
    require(tn__model_samples(again) == tn__model_samples(model));
    tn__model_release(again);
  }
  tn_status_free(status);
  tn__model_release(model);
  free(file);
  return 0;
}
