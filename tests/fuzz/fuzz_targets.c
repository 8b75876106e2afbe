/* Texts of targets and devices, one a line: a list of targets, the host, then devices. Each yields a value or an
 * error. An accepted target prints as the text of an equal one. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "target/devices/config.h"

static void check_target(const char *text) {
  char printed[TN__TARGET_TEXT];
  tn__target target, again;
  tn_status *status = tn__target_parse(text, &target);
  if (status == NULL) {
    tn__target_print(&target, printed);
    tn_status *broken = tn__target_parse(printed, &again);
    require(broken == NULL && tn__target_equal(&target, &again));
    require(tn__target_key(&target) == tn__target_key(&again));
  }
  require(tn_status_code_of(status) != TN_INTERNAL);
  tn_status_free(status);
}

static void check_device(tn__compile_config *config, const char *text) {
  const tn__virtual_device *device, *again;
  tn_status *status = tn__virtual_device_parse(&config->cache, text, &device);
  if (status == NULL) {
    const char *printed = tn__virtual_device_text(config->cache.arena, device);
    tn_status *broken = tn__virtual_device_parse(&config->cache, printed, &again);
    require(broken == NULL && device == again);
  }
  tn_status_free(status);
  status = tn__compile_config_find(config, text, &device);
  if (status == NULL) (void)tn__compile_config_complete(config, device);
  tn_status_free(status);
}

static void run(tn__escape *escape, void *user) {
  fuzz_input *in = user;
  in->arena.escape = escape;
  char *texts[8] = {0}, *at = tn__arena_strndup(&in->arena, (const char *)in->data, in->size);
  int count = 0;
  while (at != NULL && count < 8) {
    char *end = strchr(at, '\n');
    if (end != NULL) *end++ = '\0';
    texts[count++] = at;
    at = end;
  }
  for (int i = 0; i < count; i++) check_target(texts[i]);
  tn__compile_config *config =
      tn__compile_config_create(&in->arena, texts[0], count < 2 || texts[1][0] == '\0' ? NULL : texts[1]);
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__compile_config_print(config, &text);
  tn__strbuf_release(&text);
  for (int i = 2; i < count; i++) check_device(config, texts[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_reader(data, size, run);
  return 0;
}
