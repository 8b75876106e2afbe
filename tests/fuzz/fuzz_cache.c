/* Entries of the compile cache. Arbitrary bytes under an entry's name must be a miss and be removed, or be the
 * stored contents. Input that begins with a 1 gets a valid seal, so that it is an entry. */
#include <string.h>
#include <sys/stat.h>

#include "cache/cache.h"
#include "fuzz/files.h"

static void run(tn__escape *escape, void *user) {
  fuzz_input *in = user;
  in->arena.escape = escape;
  static const tn__digest key = {{1, 2, 3}}, other = {{4}};
  char folder[192], path[320], hex[65];
  bool sealed = in->size > 0 && in->data[0] == 1;
  snprintf(folder, sizeof(folder), "%s", fuzz_path("cache"));
  tn__cache *cache = tn__cache_open(&in->arena, folder, 1 << 20, NULL);
  require(cache != NULL);
  tn__digest_hex(&key, hex);
  snprintf(path, sizeof(path), "%s/obj-%s", folder, hex);
  const tn__bytes bytes = {in->data, in->size};
  if (sealed)
    tn__cache_put(cache, &in->arena, "obj", &key, &(tn__pieces){&bytes, 1, bytes.size});
  else
    must(tn__file_write_atomic(path, &bytes, 1, 0600));
  tn__bytes out;
  bool found = tn__cache_get(cache, &in->arena, "obj", &key, &out);
  require(!sealed || found);
  if (found) require(!sealed || (out.size == in->size && memcmp(out.data, in->data, in->size) == 0));
  struct stat info;
  require(found || stat(path, &info) != 0);
  require(!tn__cache_get(cache, &in->arena, "exe", &key, &out) &&
          !tn__cache_get(cache, &in->arena, "obj", &other, &out));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 << 16) must(fuzz_with(data, size, run));
  return 0;
}
