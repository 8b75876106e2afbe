/* Numbers as text and back. Both ways are independent of the process's locale: no decimal separator ever comes near the
 * functions of libc. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "runtime/values/strings.h"

enum { MOST_CHARACTERS = 40, MOST_DIGITS = 17 };

/* ---- to text ----------------------------------------------------------------------------------------------------- */

/* "d.ddde-07" of printf without what it puts for the point: digits, and the exponent of the first one. */
TN_MUST_USE static int decimal_digits(double value, int count, char digits[MOST_DIGITS + 1]) {
  char text[64];
  int n = 0;
  snprintf(text, sizeof(text), "%.*e", count - 1, value);
  const char *p = text;
  for (; *p != 'e'; p++)
    if (*p >= '0' && *p <= '9') digits[n++] = *p;
  digits[n] = '\0';
  return atoi(p + 1);
}

/* The number that digits d.ddd times ten to the exponent stand for, in the type. */
static double value_of(tn_dtype dtype, const char *digits, int exponent) {
  char text[MOST_DIGITS + 24];
  snprintf(text, sizeof(text), "%se%d", digits, exponent - (int)strlen(digits) + 1);
  if (dtype == TN_F32) return (double)strtof(text, NULL);
  double value = strtod(text, NULL);
  if (dtype == TN_F16) return (double)tn__f16_to_f32(tn__f64_to_f16(value));
  if (dtype == TN_BF16) return (double)tn__bf16_to_f32(tn__f64_to_bf16(value));
  return value;
}

/* The fewest digits that read back as the same number of the type. */
TN_MUST_USE static int shortest_digits(tn_dtype dtype, double value, char digits[MOST_DIGITS + 1]) {
  int exponent = 0;
  for (int count = 1; count <= MOST_DIGITS; count++) {
    exponent = decimal_digits(value, count, digits);
    if (value_of(dtype, digits, exponent) == value) break;
  }
  for (size_t n = strlen(digits); n > 1 && digits[n - 1] == '0'; n--) digits[n - 1] = '\0';
  return exponent;
}

/* As Python writes a float: plainly from 1e-4 to below 1e16, else with an exponent of at least two digits. */
TN_MUST_USE static int float_text(tn_dtype dtype, double value, char *out) {
  char digits[MOST_DIGITS + 1];
  const char *sign = signbit(value) ? "-" : "";
  if (isnan(value)) return snprintf(out, MOST_CHARACTERS, "nan");
  if (isinf(value)) return snprintf(out, MOST_CHARACTERS, "%sinf", sign);
  if (value == 0) return snprintf(out, MOST_CHARACTERS, "%s0.0", sign);
  int exponent = shortest_digits(dtype, fabs(value), digits), count = (int)strlen(digits);
  if (exponent < -4 || exponent >= 16)
    return snprintf(out, MOST_CHARACTERS, "%s%c%s%se%c%02d", sign, digits[0], count > 1 ? "." : "", digits + 1,
                    exponent < 0 ? '-' : '+', abs(exponent));
  if (exponent < 0) return snprintf(out, MOST_CHARACTERS, "%s0.%.*s%s", sign, -exponent - 1, "000", digits);
  if (count <= exponent + 1)
    return snprintf(out, MOST_CHARACTERS, "%s%s%.*s.0", sign, digits, exponent + 1 - count, "0000000000000000");
  return snprintf(out, MOST_CHARACTERS, "%s%.*s.%s", sign, exponent + 1, digits, digits + exponent + 1);
}

TN_MUST_USE static int number_text(tn_dtype dtype, const void *data, int64_t at, char *out) {
  if (tn__dtype_is_float(dtype)) return float_text(dtype, tn__load_f64(dtype, data, at), out);
  int64_t value = tn__load_i64(dtype, data, at);
  if (dtype == TN_BOOL) return snprintf(out, MOST_CHARACTERS, "%s", value != 0 ? "True" : "False");
  if (dtype == TN_U64) return snprintf(out, MOST_CHARACTERS, "%llu", (unsigned long long)value);
  return snprintf(out, MOST_CHARACTERS, "%lld", (long long)value);
}

tn_status *tn__string_from(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  tn__operand_tensor x, result;
  char text[MOST_CHARACTERS];
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[0], &x));
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[1], &result));
  TN_RETURN_IF_ERROR(tn__values_same_count(&x, &result));
  if (x.r->dtype == TN_STRING) return tn_status_create(TN_INVALID_ARGUMENT, "strings are text already");
  for (int64_t i = 0; i < x.count; i++) {
    int length = number_text(x.r->dtype, x.data, i, text);
    tn_string number = {text, (uint64_t)length};
    TN_RETURN_IF_ERROR(tn__strings_add(vm->allocator, vm->strings, number, (uint64_t *)result.data + i));
  }
  return NULL;
}

/* ---- from text --------------------------------------------------------------------------------------------------- */

typedef struct reader {
  const char *at, *end;
} reader;

static bool take_word(reader *r, const char *word) {
  const char *p = r->at;
  for (; *word != '\0'; word++, p++)
    if (p == r->end || (*p | 0x20) != *word) return false;
  r->at = p;
  return true;
}

static bool is_digit(const reader *r) { return r->at < r->end && *r->at >= '0' && *r->at <= '9'; }

/* A number as text is read in two parts: the digits, of which those that can matter are kept, and an exponent. */
typedef struct decimal {
  bool negative;
  char digits[800]; /* no f64 needs more than 767 to be rounded rightly */
  int count;
  int64_t exponent; /* of ten, behind the last digit kept */
} decimal;

static void take_digits(reader *r, decimal *d, bool fraction, bool *any) {
  for (; is_digit(r); r->at++) {
    *any = true;
    if (d->count == 0 && *r->at == '0') { /* leading */
      d->exponent -= fraction;
    } else if (d->count < (int)sizeof(d->digits) - 32) {
      d->digits[d->count++] = *r->at;
      d->exponent -= fraction;
    } else {
      if (*r->at != '0') d->digits[d->count - 1] |= 1; /* sticky: what follows is not nothing */
      d->exponent += !fraction;
    }
  }
}

static bool take_exponent(reader *r, decimal *d) {
  int64_t exponent = 0;
  if (r->at == r->end || (*r->at | 0x20) != 'e') return true;
  r->at++;
  bool down = r->at < r->end && *r->at == '-';
  if (r->at < r->end && (*r->at == '-' || *r->at == '+')) r->at++;
  if (!is_digit(r)) return false;
  for (; is_digit(r); r->at++)
    if (exponent < 1000000000) exponent = exponent * 10 + (*r->at - '0');
  d->exponent += down ? -exponent : exponent;
  return true;
}

/* Reads [sign] digits [. digits] [e [sign] digits] and nothing else. */
TN_MUST_USE static bool read_decimal(reader r, decimal *d) {
  bool any = false;
  *d = (decimal){0};
  if (r.at < r.end && (*r.at == '-' || *r.at == '+')) d->negative = *r.at++ == '-';
  take_digits(&r, d, false, &any);
  if (r.at < r.end && *r.at == '.') {
    r.at++;
    take_digits(&r, d, true, &any);
  }
  return any && take_exponent(&r, d) && r.at == r.end;
}

static double decimal_f64(decimal *d, bool f32) {
  if (d->count == 0) return d->negative ? -0.0 : 0.0;
  int64_t exponent = d->exponent < -100000 ? -100000 : d->exponent > 100000 ? 100000 : d->exponent;
  snprintf(d->digits + d->count, sizeof(d->digits) - (size_t)d->count, "e%d", (int)exponent);
  double value = f32 ? (double)strtof(d->digits, NULL) : strtod(d->digits, NULL);
  return d->negative ? -value : value;
}

/* "inf", "+inf", "-inf" and "nan" in any case. */
TN_MUST_USE static bool read_special(reader r, double *out) {
  bool negative = false;
  if (r.at < r.end && (*r.at == '-' || *r.at == '+')) negative = *r.at++ == '-';
  double value = 0;
  if (take_word(&r, "inf"))
    value = (double)INFINITY;
  else if (take_word(&r, "nan"))
    value = (double)NAN;
  else
    return false;
  if (!isnan(value)) take_word(&r, "inity");
  *out = negative ? -value : value;
  return r.at == r.end;
}

/* The whole part as an integer; false when they are more than 64 bits hold, with the sign. */
TN_MUST_USE static bool decimal_i64(const decimal *d, bool is_unsigned, uint64_t *out) {
  uint64_t value = 0;
  for (int64_t i = 0; d->count > 0 && i < d->count + d->exponent; i++) {
    uint64_t digit = i < d->count ? (uint64_t)(d->digits[i] - '0') : 0;
    if (value > (UINT64_MAX - digit) / 10) return false;
    value = value * 10 + digit;
  }
  uint64_t most = is_unsigned ? UINT64_MAX : (uint64_t)INT64_MAX + d->negative;
  if (value > most || (is_unsigned && d->negative && value != 0)) return false;
  *out = d->negative ? 0 - value : value;
  return true;
}

/* Writes one number; false when the text is none that the type has. */
static bool read_number(tn_dtype dtype, tn_string text, void *data, int64_t at) {
  reader r = {text.data, text.data == NULL ? NULL : text.data + text.length};
  while (r.at < r.end && tn__values_is_space(*r.at)) r.at++;
  while (r.at < r.end && tn__values_is_space(r.end[-1])) r.end--;
  double value;
  decimal d;
  bool is_float = tn__dtype_is_float(dtype);
  if (dtype == TN_BOOL) {
    reader word = r;
    bool yes = take_word(&word, "true");
    if ((yes || take_word(&word, "false")) && word.at == word.end) {
      tn__store_i64(dtype, data, at, yes);
      return true;
    }
  }
  if (read_special(r, &value)) {
    if (is_float) tn__store_f64(dtype, data, at, value);
    return is_float;
  }
  if (!read_decimal(r, &d)) return false;
  if (!is_float && dtype != TN_BOOL) { /* of "2.718" the whole part, without going through a float */
    uint64_t whole;
    if (!decimal_i64(&d, dtype == TN_U64, &whole)) return false;
    tn__store_i64(dtype, data, at, (int64_t)whole);
    return tn__load_i64(dtype, data, at) == (int64_t)whole;
  }
  value = decimal_f64(&d, dtype == TN_F32);
  tn__store_f64(dtype, data, at, value);
  return true;
}

tn_status *tn__string_to(tn__vm *vm, tn__frame *frame, const tn__instruction *in) {
  tn__operand_tensor x, result;
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[0], &x));
  TN_RETURN_IF_ERROR(tn__values_operand_at(frame, in->operands[1], &result));
  TN_RETURN_IF_ERROR(tn__values_same_count(&x, &result));
  if (result.r->dtype == TN_STRING) return tn_status_create(TN_INVALID_ARGUMENT, "strings are no numbers");
  for (int64_t i = 0; i < x.count; i++) {
    tn_string text;
    TN_RETURN_IF_ERROR(tn__string_at(vm->strings, ((const uint64_t *)x.data)[i], &text));
    if (read_number(result.r->dtype, text, result.data, i)) continue;
    int shown = text.length > 40 ? 40 : (int)text.length;
    return tn_status_create(TN_OUT_OF_RANGE, "string %lld, \"%.*s\"%s, is no number that %s has", (long long)i, shown,
                            shown == 0 ? "" : text.data, shown < (int64_t)text.length ? "..." : "",
                            tn_dtype_name(result.r->dtype));
  }
  return NULL;
}
