/* What `tenon run` says: summaries of tensors, comparisons, latency tables, files. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/tolerance.h"
#include "cli/cli.h"

static const void *data_of(const DLTensor *t) { return (const char *)t->data + t->byte_offset; }

typedef struct summary {
  int64_t count, nans;
  int64_t least, greatest; /* where the extreme elements are; there is one unless count == nans */
  double mean;
} summary;

/* In the element's own type: a double has not all digits of 64 bits. */
static bool is_less(const DLTensor *t, int64_t i, int64_t j) {
  tn_dtype dtype = tn_dtype_of_dl(t->dtype);
  if (tn__dtype_is_float(dtype)) return tn__load_f64(dtype, data_of(t), i) < tn__load_f64(dtype, data_of(t), j);
  int64_t a = tn__load_i64(dtype, data_of(t), i), b = tn__load_i64(dtype, data_of(t), j);
  return dtype == TN_U64 ? (uint64_t)a < (uint64_t)b : a < b;
}

static summary summarize(const DLTensor *t) {
  tn_dtype dtype = tn_dtype_of_dl(t->dtype);
  summary s = {.count = tn_element_count(t->ndim, t->shape), .least = -1, .greatest = -1};
  double sum = 0;
  for (int64_t i = 0; i < s.count; i++) {
    double v = tn__load_f64(dtype, data_of(t), i);
    if (isnan(v)) {
      s.nans++;
      continue;
    }
    if (s.least < 0 || is_less(t, i, s.least)) s.least = i;
    if (s.greatest < 0 || is_less(t, s.greatest, i)) s.greatest = i;
    sum += v;
  }
  s.mean = s.count > s.nans ? sum / (double)(s.count - s.nans) : NAN;
  return s;
}

/* Integers as they are, others with so many digits. */
static const char *element_text(const DLTensor *t, int64_t i, int digits, char text[32]) {
  tn_dtype dtype = tn_dtype_of_dl(t->dtype);
  if (dtype == TN_U64) {
    snprintf(text, 32, "%llu", (unsigned long long)tn__load_i64(dtype, data_of(t), i));
  } else if (tn__dtype_is_float(dtype)) {
    snprintf(text, 32, "%.*g", digits, tn__load_f64(dtype, data_of(t), i));
  } else {
    snprintf(text, 32, "%lld", (long long)tn__load_i64(dtype, data_of(t), i));
  }
  return text;
}

/* ---- what came out ----------------------------------------------------------------------------------------------- */

void cli_free_results(cli_result *results, int count) {
  for (int i = 0; results && i < count; i++) {
    free(results[i].name);
    tn_tensor_release(results[i].dense);
  }
  free(results);
}

/* The number of results that output `i` is: one, or one for each tensor of a sequence that has any. */
static tn_status *count_results(const tn_executable *exe, tn_session *session, const char *function, int i,
                                int *tensors, int *results) {
  *tensors = *results = 1;
  if (tn_executable_output(exe, function, i)->kind == TN_VALUE_TENSOR) return NULL;
  TN_RETURN_IF_ERROR(tn_session_get_output_count(session, function, i, tensors));
  if (*tensors > 1) *results = *tensors;
  return NULL;
}

/* Results that lie in a buffer with room to grow are copied together. */
static tn_status *make_dense(cli_result *result) {
  const DLTensor *t = &result->tensor;
  if (!t->strides) return NULL;
  TN_RETURN_IF_ERROR(tn_tensor_create(tn_dtype_of_dl(t->dtype), t->ndim, t->shape, NULL, &result->dense));
  tn_tensor_copy(t, tn_tensor_dl(result->dense));
  result->tensor = *tn_tensor_dl(result->dense);
  return NULL;
}

static tn_status *fill_result(tn_session *session, const char *function, const tn_value_info *info, int output,
                              int item, int tensors, cli_result *result) {
  char name[4096 + 16];
  bool sequence = info->kind == TN_VALUE_SEQUENCE || info->kind == TN_VALUE_OPTIONAL_SEQUENCE;
  bool numbered = sequence && tensors > 0;
  int length = numbered ? snprintf(name, sizeof name, "%s[%d]", info->name, item) : 0;
  result->name = numbered && length < (int)sizeof name ? strdup(name) : strdup(info->name);
  if (!result->name) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for the name of an output");
  result->output = output;
  if (info->kind == TN_VALUE_TENSOR) {
    TN_RETURN_IF_ERROR(tn_session_get_output(session, function, output, &result->tensor));
    return make_dense(result);
  }
  if (tensors > 0) return tn_session_get_output_item(session, function, output, item, &result->tensor);
  result->note = tensors < 0 ? "no value" : "empty sequence";
  return NULL;
}

tn_status *cli_results(const tn_executable *exe, tn_session *session, const char *function, cli_result **out,
                       int *count) {
  int outputs = tn_executable_output_count(exe, function), total = 0, tensors, results;
  for (int i = 0; i < outputs; i++) {
    TN_RETURN_IF_ERROR(count_results(exe, session, function, i, &tensors, &results));
    total += results;
  }
  *out = calloc((size_t)total + 1, sizeof **out);
  if (!*out) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for a list of outputs");
  for (int i = 0; i < outputs; i++) {
    TN_RETURN_IF_ERROR(count_results(exe, session, function, i, &tensors, &results));
    for (int item = 0; item < results; item++)
      TN_RETURN_IF_ERROR(fill_result(session, function, tn_executable_output(exe, function, i), i, item, tensors,
                                     &(*out)[(*count)++]));
  }
  return NULL;
}

void cli_print_outputs(const cli_result *results, int count) {
  char least[32], greatest[32];
  for (int i = 0; i < count; i++) {
    const DLTensor *t = &results[i].tensor;
    cli_put_shown(stdout, results[i].name);
    if (results[i].note) {
      printf(": %s\n", results[i].note);
      continue;
    }
    if (tn_dtype_of_dl(t->dtype) == TN_STRING) {
      cli_print_strings(t);
      continue;
    }
    summary s = summarize(t);
    printf(": %s ", tn_dtype_name(tn_dtype_of_dl(t->dtype)));
    cli_print_shape(stdout, t->ndim, t->shape);
    if (s.count > s.nans)
      printf("  min %s  max %s  mean %.6g", element_text(t, s.least, 6, least),
             element_text(t, s.greatest, 6, greatest), s.mean);
    if (s.nans) printf("  NaN %lld of %lld", (long long)s.nans, (long long)s.count);
    printf("\n ");
    for (int64_t e = 0; e < s.count && e < 8; e++) {
      printf(" %s", element_text(t, e, 6, least));
    }
    printf("%s\n", s.count == 0 ? " (empty)" : s.count > 8 ? " ..." : "");
  }
}

static void json_number(tn__strbuf *json, double v) {
  if (isfinite(v)) {
    tn__strbuf_printf(json, "%.9g", v);
  } else {
    tn__strbuf_append(json, "null");
  }
}

/* An element, null where JSON has no number for it; -1: there is none. */
static void json_element(tn__strbuf *json, const DLTensor *t, int64_t i) {
  char text[32];
  tn_dtype dtype = tn_dtype_of_dl(t->dtype);
  bool number = i >= 0 && (!tn__dtype_is_float(dtype) || isfinite(tn__load_f64(dtype, data_of(t), i)));
  tn__strbuf_append(json, number ? element_text(t, i, 9, text) : "null");
}

void cli_json_outputs(tn__strbuf *json, const cli_result *results, int count) {
  tn__strbuf_append(json, "\"outputs\": [");
  for (int i = 0; i < count; i++) {
    const DLTensor *t = &results[i].tensor;
    tn__strbuf_append(json, i ? ", {\"name\": " : "{\"name\": ");
    tn__strbuf_json_string(json, results[i].name);
    if (results[i].note) {
      tn__strbuf_printf(json, ", \"note\": \"%s\"}", results[i].note);
      continue;
    }
    if (tn_dtype_of_dl(t->dtype) == TN_STRING) {
      cli_json_strings(json, t);
      continue;
    }
    summary s = summarize(t);
    tn__strbuf_printf(json, ", \"dtype\": \"%s\", \"shape\": [", tn_dtype_name(tn_dtype_of_dl(t->dtype)));
    for (int d = 0; d < t->ndim; d++) tn__strbuf_printf(json, "%s%lld", d ? ", " : "", (long long)t->shape[d]);
    tn__strbuf_printf(json, "], \"nan\": %lld, \"min\": ", (long long)s.nans);
    json_element(json, t, s.least);
    tn__strbuf_append(json, ", \"max\": ");
    json_element(json, t, s.greatest);
    tn__strbuf_append(json, ", \"mean\": ");
    json_number(json, s.mean);
    tn__strbuf_append(json, ", \"first\": [");
    for (int64_t e = 0; e < s.count && e < 8; e++) {
      if (e) tn__strbuf_append(json, ", ");
      json_element(json, t, e);
    }
    tn__strbuf_append(json, "]}");
  }
  tn__strbuf_append(json, "]");
}

/* ---- latency ----------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

cli_latency cli_summarize_latency(double *seconds, int runs) {
  qsort(seconds, (size_t)runs, sizeof *seconds, ascending);
  double sum = 0;
  for (int i = 0; i < runs; i++) sum += seconds[i];
  double median = runs % 2 ? seconds[runs / 2] : (seconds[runs / 2 - 1] + seconds[runs / 2]) / 2;
  return (cli_latency){seconds[0], median, sum / runs, seconds[(runs * 9 - 1) / 10], seconds[runs - 1], runs};
}

/* ---- comparing: numpy.testing.assert_allclose(rtol=1e-3, atol=1e-7), as ONNX's own runner has it ----------------- */

static bool same_shape(const DLTensor *a, const DLTensor *b) {
  if (a->ndim != b->ndim) return false;
  for (int i = 0; i < a->ndim; i++)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

/* f32 uses the absolute tolerance of ONNX's own test suite. Other types use the type's tolerance. */
static tn__tolerance tolerance_of(tn_dtype dtype, const DLTensor *want, int64_t count, double rtol, double atol) {
  tn__tolerance t = tn__tolerance_of(dtype, tn__tolerance_greatest(dtype, data_of(want), count));
  if (dtype == TN_F32) t.atol = 1e-7;
  if (rtol >= 0) t.rtol = rtol;
  if (atol >= 0) t.atol = atol;
  return t;
}

bool cli_agree(const DLTensor *got, const DLTensor *want, double rtol, double atol, char *why, size_t size) {
  tn_dtype dtype = tn_dtype_of_dl(got->dtype), wanted = tn_dtype_of_dl(want->dtype);
  if (dtype != wanted) {
    snprintf(why, size, "type %s, expected %s", tn_dtype_name(dtype), tn_dtype_name(wanted));
    return false;
  }
  if (!same_shape(got, want)) {
    int at = snprintf(why, size, "shape [");
    for (int i = 0; i < got->ndim && at < (int)size; i++)
      at += snprintf(why + at, size - (size_t)at, "%s%lld", i ? ", " : "", (long long)got->shape[i]);
    if (at < (int)size) at += snprintf(why + at, size - (size_t)at, "], expected [");
    for (int i = 0; i < want->ndim && at < (int)size; i++)
      at += snprintf(why + at, size - (size_t)at, "%s%lld", i ? ", " : "", (long long)want->shape[i]);
    if (at < (int)size) snprintf(why + at, size - (size_t)at, "]");
    return false;
  }
  if (dtype == TN_STRING) return cli_strings_agree(got, want, why, size);
  double worst = 0;
  int64_t bad = 0, first = -1, count = tn_element_count(got->ndim, got->shape);
  const tn__tolerance tolerance = tolerance_of(dtype, want, count, rtol, atol);
  for (int64_t i = 0; i < count; i++) {
    double b = tn__load_f64(dtype, data_of(want), i);
    double difference = tn__tolerance_apart(dtype, data_of(got), data_of(want), i);
    if (difference > worst || isnan(difference)) worst = difference;
    if (difference == 0 || (isfinite(difference) && difference <= tn__tolerance_allows(&tolerance, b))) continue;
    if (first < 0) first = i;
    bad++;
  }
  if (bad == 0) {
    snprintf(why, size, "greatest difference %.3g", worst);
    return true;
  }
  snprintf(why, size, "%lld of %lld elements differ, first at %lld: %.9g, expected %.9g; greatest difference %.3g",
           (long long)bad, (long long)count, (long long)first, tn__load_f64(dtype, data_of(got), first),
           tn__load_f64(dtype, data_of(want), first), worst);
  return false;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* One `_` for each character that is not plain: of those that UTF-8 writes in several bytes, the first one counts. */
static void file_name(const cli_result *result, char *name, size_t size) {
  const char *from = result->name;
  size_t length = 0;
  for (const char *c = from; *c && length + 1 < size; c++) {
    bool plain = (*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || strchr("_.-", *c);
    if (((unsigned char)*c & 0xc0) == 0x80 && c > from) continue;
    name[length++] = *c;
    if (!plain) name[length - 1] = '_';
  }
  name[length] = '\0';
}

/* Is output `i` the same as an earlier one? ONNX names each value once, so one name is one value. */
static bool listed_before(const cli_result *results, int i) {
  for (int j = 0; j < i; j++)
    if (strcmp(results[j].name, results[i].name) == 0) return true;
  return false;
}

/* Found before the first file is written: no output may silently take another's place. */
static tn_status *check_file_names(const cli_result *results, int count) {
  for (int i = 0; i < count; i++) {
    char mine[4096], other[4096];
    if (strlen(results[i].name) >= sizeof mine - 5)
      return tn_status_create(TN_INVALID_ARGUMENT, "the name of output %d makes a path that is too long",
                              results[i].output);
    file_name(&results[i], mine, sizeof mine);
    for (int j = 0; j < i && !listed_before(results, i); j++) {
      file_name(&results[j], other, sizeof other);
      if (strcmp(mine, other) == 0)
        return tn_status_create(TN_INVALID_ARGUMENT, "outputs \"%s\" and \"%s\" would both be written to %s.npy",
                                results[j].name, results[i].name, mine);
    }
  }
  return NULL;
}

tn_status *cli_write_outputs(const cli_args *args, const cli_result *results, int count, const char *directory) {
  tn_status *status = check_file_names(results, count);
  if (!status) status = tn__make_directories(directory);
  for (int i = 0; i < count && !status; i++) {
    char name[4096], path[8192];
    if (results[i].note) continue; /* nothing to write */
    file_name(&results[i], name, sizeof name);
    if (snprintf(path, sizeof path, "%s/%s.npy", directory, name) >= (int)sizeof path)
      return tn_status_create(TN_INVALID_ARGUMENT, "the name of output %d makes a path that is too long",
                              results[i].output);
    const char *taken = cli_taken_place(args, path);
    if (taken)
      return tn_status_create(TN_INVALID_ARGUMENT, "output \"%s\" would take the place of \"%s\", which was read",
                              results[i].name, taken);
    status = tn_tensor_write_npy(&results[i].tensor, path);
  }
  return status;
}
