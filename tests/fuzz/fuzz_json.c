/* The JSON reader: any bytes yield a value or an error with a location. A value is written, and the text must read
 * back as the same value. */
#include <string.h>

#include "base/strbuf.h"
#include "fuzz/fuzz.h"
#include "json/json.h"

static void print(const tn__json *json, tn__strbuf *out) {
  switch (json->kind) {
    case TN__JSON_NULL: tn__strbuf_append(out, "null"); break;
    case TN__JSON_BOOL: tn__strbuf_append(out, json->truth ? "true" : "false"); break;
    case TN__JSON_NUMBER: tn__strbuf_append(out, json->text); break;
    case TN__JSON_TEXT: tn__strbuf_json_string(out, json->text); break;
    default: {
      bool list = json->kind == TN__JSON_LIST;
      tn__strbuf_char(out, list ? '[' : '{');
      for (const tn__json *item = json->first; item != NULL; item = item->next) {
        if (!list) {
          tn__strbuf_json_string(out, item->key);
          tn__strbuf_char(out, ':');
        }
        print(item, out);
        if (item->next != NULL) tn__strbuf_char(out, ',');
      }
      tn__strbuf_char(out, list ? ']' : '}');
    }
  }
}

static const char *printed(tn__arena *arena, const tn__json *json) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  print(json, &text);
  const char *copy = tn__arena_strdup(arena, tn__strbuf_text(&text));
  tn__strbuf_release(&text);
  return copy;
}

static void check(tn__arena *arena, const tn__json *json) {
  const char *first = printed(arena, json);
  const char *second = printed(arena, tn__json_read(arena, first, strlen(first)));
  require(strcmp(first, second) == 0);
}

static void read_line(tn__escape *escape, void *user) {
  fuzz_input *in = user;
  check(&in->arena, tn__json_read(&in->arena, (const char *)in->data, in->size));
}

static void read_text(tn__escape *escape, void *user) {
  fuzz_input *in = user;
  check(&in->arena, tn__json_read_text(&in->arena, (const char *)in->data, in->size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_reader(data, size, read_line);
  fuzz_reader(data, size, read_text);
  return 0;
}
