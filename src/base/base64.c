#include "base/base64.h"

#include <stdint.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void tn__base64_append(tn__strbuf *out, const void *data, size_t size) {
  const uint8_t *bytes = data;
  for (size_t i = 0; i < size; i += 3) {
    size_t left = size - i;
    uint32_t group = (uint32_t)bytes[i] << 16;
    if (left > 1) group |= (uint32_t)bytes[i + 1] << 8;
    if (left > 2) group |= bytes[i + 2];
    char text[4] = {digits[group >> 18], digits[group >> 12 & 63], left > 1 ? digits[group >> 6 & 63] : '=',
                    left > 2 ? digits[group & 63] : '='};
    tn__strbuf_append_n(out, text, sizeof text);
  }
}

static int digit_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool tn__base64_decode(const char *text, size_t length, void *out, size_t *size) {
  uint8_t *at = out;
  *size = 0;
  if (length % 4 != 0) return false;
  for (size_t i = 0; i < length; i += 4) {
    int missing = i + 4 < length || text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
    uint32_t group = 0;
    for (int k = 0; k < 4; k++) {
      int value = k < 4 - missing ? digit_value(text[i + (size_t)k]) : 0;
      if (value < 0) return false;
      group = group << 6 | (uint32_t)value;
    }
    /* What is left over of the last digit is 0: one text for any bytes. */
    if (group & ((UINT32_C(1) << 8 * missing) - 1)) return false;
    for (int k = 0; k < 3 - missing; k++) *at++ = (uint8_t)(group >> (16 - 8 * k));
  }
  *size = (size_t)(at - (uint8_t *)out);
  return true;
}
