/* Operators on strings, and tables of labels and n-grams. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "import/onnx/ops_more.h"
#include "import/onnx/regex_compile.h"

static tn__value *node(tn__onode *n, const char *op, tn__value *const *inputs, int count, const tn__attr *attrs,
                       int attr_count) {
  return tn__g_node(n->g, op, inputs, count, attrs, attr_count)->outputs[0];
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */

void tn__onnx_string_concat(tn__onode *n) { n->out[0] = tn__g_binary(n->g, "string_concat", n->in[0], n->in[1]); }

void tn__onnx_string_split(tn__onode *n) {
  const tn__text *delimiter = tn__on_text(n, "delimiter");
  tn__value *inputs[] = {n->in[0], tn__graph_strings(n->g, 0, NULL, &delimiter)};
  int64_t most = tn__on_attr(n, "maxsplit") == NULL ? -1 : tn__on_int(n, "maxsplit", 0);
  const tn__attr attr = tn__attr_int(n->g, "most", most);
  const tn__node *split = tn__g_node(n->g, "string_split", inputs, 2, &attr, 1);
  for (int i = 0; i < 2 && i < n->output_count; i++) n->out[i] = split->outputs[i];
}

void tn__onnx_string_normalizer(tn__onode *n) {
  static const char *const actions[] = {"NONE", "LOWER", "UPPER"};
  const char *action = tn__on_string(n, "case_change_action", "NONE");
  int64_t which = -1;
  for (int i = 0; i < 3; i++)
    if (strcmp(action, actions[i]) == 0) which = i;
  if (which < 0) tn__on_fail(n, "case_change_action \"%s\" is neither NONE, LOWER nor UPPER", action);
  int count;
  const tn__text *const *words = tn__on_texts(n, "stopwords", &count);
  const tn__text *none = NULL;
  int64_t shape = count;
  tn__value *inputs[] = {n->in[0], tn__graph_strings(n->g, 1, &shape, words == NULL ? &none : words)};
  const tn__attr attrs[] = {tn__attr_int(n->g, "case", which),
                            tn__attr_int(n->g, "sensitive", tn__on_int(n, "is_case_sensitive", 0) != 0)};
  n->out[0] = node(n, "string_normalize", inputs, 2, attrs, 2);
}

void tn__onnx_regex_full_match(tn__onode *n) {
  const tn__text *pattern = tn__on_text(n, "pattern");
  int count;
  const int64_t *program =
      tn__onnx_compile_regex(n->arena, tn__graph_origin(n->g), pattern == NULL ? "" : pattern->bytes,
                             pattern == NULL ? 0 : (size_t)pattern->length, &count);
  tn__value *inputs[] = {n->in[0], tn__g_i64s(n->g, program, count)};
  n->out[0] = node(n, "string_match", inputs, 2, NULL, 0);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* A list of elements: of an attribute of three types, or of a tensor. */
typedef struct column {
  tn_dtype dtype; /* TN_DTYPE_INVALID: not given */
  const void *data;
  int64_t count;
} column;

static column read_column(tn__onode *n, const char *prefix, const char *suffix, const char *tensor) {
  column c = {0};
  int count = 0;
  const char *name = tn__arena_printf(n->arena, "%sstrings%s", prefix, suffix);
  if (tn__on_attr(n, name) != NULL) c = (column){TN_STRING, tn__on_texts(n, name, &count), 0};
  if (c.data != NULL) c.count = count;
  name = tn__arena_printf(n->arena, "%sint64s%s", prefix, suffix);
  if (tn__on_attr(n, name) != NULL) {
    c = (column){TN_I64, tn__on_ints(n, name, &count), 0};
    c.count = count;
  }
  name = tn__arena_printf(n->arena, "%sfloats%s", prefix, suffix);
  if (tn__on_attr(n, name) != NULL) {
    c = (column){TN_F32, tn__on_floats(n, name, &count), 0};
    c.count = count;
  }
  const Onnx__AttributeProto *given = tensor == NULL ? NULL : tn__on_attr(n, tensor);
  if (given == NULL) return c;
  tn__onnx_tensor t;
  tn__onnx_tensor_read(tn__onode_model(n), given->t, tn__graph_origin(n->g), &t);
  return (column){t.dtype, t.data, (int64_t)(t.size / tn__dtype_stored(t.dtype))};
}

static int compare_texts(const tn__text *a, const tn__text *b) {
  uint64_t a_length = a == NULL ? 0 : a->length, b_length = b == NULL ? 0 : b->length;
  uint64_t shared = a_length < b_length ? a_length : b_length;
  int order = shared == 0 ? 0 : memcmp(a->bytes, b->bytes, (size_t)shared);
  return order != 0 ? order : (a_length > b_length) - (a_length < b_length);
}

/* As the machine's table_find and table_grams order them. */
static int compare_elements(const column *c, int64_t i, int64_t j) {
  if (c->dtype == TN_STRING) {
    const tn__text *const *texts = c->data;
    return compare_texts(texts[i], texts[j]);
  }
  if (tn__dtype_is_float(c->dtype)) {
    double a = tn__load_f64(c->dtype, c->data, i), b = tn__load_f64(c->dtype, c->data, j);
    if (isnan(a) || isnan(b)) return (isnan(a) != 0) - (isnan(b) != 0);
    return (a > b) - (a < b);
  }
  int64_t a = tn__load_i64(c->dtype, c->data, i), b = tn__load_i64(c->dtype, c->data, j);
  return (a > b) - (a < b);
}

/* A run of `width` elements of a column, which was number `order`. */
typedef struct item {
  const column *of;
  int64_t first, order;
  int64_t width;
} item;

static int compare_runs(const item *x, const item *y) {
  int order = 0;
  for (int64_t k = 0; k < x->width && order == 0; k++) order = compare_elements(x->of, x->first + k, y->first + k);
  return order;
}

static int compare_items(const void *a, const void *b) {
  const item *x = a, *y = b;
  int order = compare_runs(x, y);
  return order != 0 ? order : (x->order > y->order) - (x->order < y->order);
}

/* Sorts runs that follow each other; of equal ones the last stays. Returns how many. */
static int64_t sort_items(item *items, const column *of, int64_t start, int64_t count, int64_t width) {
  int64_t kept = 0;
  for (int64_t i = 0; i < count; i++) items[i] = (item){of, start + i * width, i, width};
  if (count > 0) qsort(items, (size_t)count, sizeof(item), compare_items);
  for (int64_t i = 0; i < count; i++)
    if (i + 1 == count || compare_runs(&items[i], &items[i + 1]) != 0) items[kept++] = items[i];
  return kept;
}

static void copy_element(const column *from, int64_t at, void *to, int64_t position) {
  size_t size = tn__dtype_stored(from->dtype);
  tn__copy((char *)to + (size_t)position * size, (const char *)from->data + (size_t)at * size, size);
}

static tn__value *column_constant(tn__onode *n, tn_dtype dtype, const void *data, int64_t count) {
  return tn__g_constant_value(n->g, dtype, 1, &count, data, false);
}

/* ---- LabelEncoder ------------------------------------------------------------------------------------------------ */

/* What stands for keys that are not in the table. */
static column default_value(tn__onode *n, tn_dtype dtype) {
  const tn__text **text = TN__NEW(n->arena, const tn__text *);
  void *data = tn__arena_alloc_array(n->arena, 1, 8);
  if (tn__on_attr(n, "default_tensor") != NULL) {
    column given = read_column(n, "no_", "", "default_tensor");
    if (given.dtype != dtype || given.count != 1)
      tn__on_fail(n, "default_tensor is not one element of type %s", tn_dtype_name(dtype));
    return given;
  }
  if (dtype == TN_STRING) {
    *text = tn__on_attr(n, "default_string") != NULL ? tn__on_text(n, "default_string")
                                                     : tn__text_create(n->arena, "_Unused", strlen("_Unused"));
    return (column){dtype, text, 1};
  }
  if (tn__dtype_is_float(dtype))
    tn__store_f64(dtype, data, 0, tn__on_float(n, "default_float", -0.0));
  else
    tn__store_i64(dtype, data, 0, tn__on_int(n, "default_int64", -1));
  return (column){dtype, data, 1};
}

/* Version 1: strings and their positions, in the direction that the operand says. */
static void read_classes(tn__onode *n, column *keys, column *values) {
  column classes = read_column(n, "classes_", "", NULL), places = {TN_I64, NULL, classes.count};
  if (classes.dtype != TN_STRING) tn__on_fail(n, "attribute \"classes_strings\" is missing");
  int64_t *all = TN__NEW_ARRAY(n->arena, classes.count + 1, int64_t);
  for (int64_t i = 0; i < classes.count; i++) all[i] = i;
  places.data = all;
  bool by_name = n->in[0]->dtype == TN_STRING;
  *keys = by_name ? classes : places;
  *values = by_name ? places : classes;
}

void tn__onnx_label_encoder(tn__onode *n) {
  column keys, values;
  if (n->version < 2) {
    read_classes(n, &keys, &values);
  } else {
    keys = read_column(n, "keys_", "", "keys_tensor");
    values = read_column(n, "values_", "", "values_tensor");
  }
  if (keys.dtype == TN_DTYPE_INVALID || values.dtype == TN_DTYPE_INVALID || keys.count != values.count)
    tn__on_fail(n, "has %lld keys and %lld values", (long long)keys.count, (long long)values.count);
  if (keys.dtype != n->in[0]->dtype)
    tn__on_fail(n, "its keys are %s and its operand is %s", tn_dtype_name(keys.dtype), tn_dtype_name(n->in[0]->dtype));
  column otherwise = default_value(n, values.dtype);
  item *items = TN__NEW_ARRAY(n->arena, keys.count + 1, item);
  int64_t count = sort_items(items, &keys, 0, keys.count, 1);
  void *sorted = tn__arena_alloc_array(n->arena, (size_t)count + 1, 8);
  void *results = tn__arena_alloc_array(n->arena, (size_t)count + 1, 8);
  for (int64_t i = 0; i < count; i++) {
    copy_element(&keys, items[i].first, sorted, i);
    copy_element(&values, items[i].first, results, i);
  }
  copy_element(&otherwise, 0, results, count);
  tn__value *inputs[] = {n->in[0], column_constant(n, keys.dtype, sorted, count)};
  tn__value *found = node(n, "table_find", inputs, 2, NULL, 0);
  /* table_find gives positions of keys, or their number, where the default stands. */
  n->out[0] = tn__g_take_trusted(n->g, column_constant(n, values.dtype, results, count + 1), found, 0);
}

/* ---- TfIdfVectorizer --------------------------------------------------------------------------------------------- */

typedef struct gram_pool {
  column pool;
  const int64_t *starts, *columns;
  int start_count, column_count;
  /* sorted by length, each length by itself; of equal n-grams the last */
  void *elements;
  int64_t *new_starts, *new_columns;
  int64_t element_count, gram_count;
} gram_pool;

static void sort_pool(tn__onode *n, gram_pool *g) {
  int64_t number = 0; /* of n-grams seen, those that are dropped included */
  g->elements = tn__arena_alloc_array(n->arena, (size_t)g->pool.count + 1, 8);
  g->new_starts = TN__NEW_ARRAY(n->arena, g->start_count + 1, int64_t);
  g->new_columns = TN__NEW_ARRAY(n->arena, g->column_count + 1, int64_t);
  item *items = TN__NEW_ARRAY(n->arena, g->pool.count + 1, item);
  for (int i = 0; i < g->start_count; i++) {
    int64_t start = g->starts[i], end = i + 1 < g->start_count ? g->starts[i + 1] : g->pool.count, width = i + 1;
    if (start < 0 || end < start || end > g->pool.count || (end - start) % width != 0)
      tn__on_fail(n, "ngram_counts: the %lld-grams at %lld to %lld do not fit into a pool of %lld", (long long)width,
                  (long long)start, (long long)end, (long long)g->pool.count);
    int64_t given = (end - start) / width, count = sort_items(items, &g->pool, start, given, width);
    if (number + given > g->column_count)
      tn__on_fail(n, "ngram_indexes has %d columns, and the pool has more n-grams", g->column_count);
    g->new_starts[i] = g->element_count;
    for (int64_t k = 0; k < count; k++) {
      g->new_columns[g->gram_count++] = g->columns[number + items[k].order];
      for (int64_t e = 0; e < width; e++) copy_element(&g->pool, items[k].first + e, g->elements, g->element_count++);
    }
    number += given;
  }
}

/* Frequencies, whether there is one, or both weighed. */
static tn__value *weigh(tn__onode *n, tn__value *counts, int64_t width) {
  const char *mode = tn__on_string(n, "mode", "");
  bool tf = strcmp(mode, "TF") == 0, idf = strcmp(mode, "IDF") == 0;
  if (!tf && !idf && strcmp(mode, "TFIDF") != 0) tn__on_fail(n, "mode \"%s\" is neither TF, IDF nor TFIDF", mode);
  int weight_count, column_count;
  const float *weights = tn__on_floats(n, "weights", &weight_count);
  const int64_t *columns = tn__on_ints(n, "ngram_indexes", &column_count);
  tn__value *result = tn__g_convert(n->g, counts, TN_F32);
  if (idf) result = tn__on_min(n, result, tn__on_scalar(n, 1, result));
  if (tf || weights == NULL) return result;
  if (weight_count != column_count) tn__on_fail(n, "has %d weights for %d n-grams", weight_count, column_count);
  float *by_column = TN__NEW_ARRAY(n->arena, width + 1, float);
  for (int64_t i = 0; i < width; i++) by_column[i] = 1;
  for (int i = 0; i < weight_count; i++) by_column[columns[i]] = weights[i];
  return tn__on_mul(n, result, column_constant(n, TN_F32, by_column, width));
}

void tn__onnx_tfidf_vectorizer(tn__onode *n) {
  enum { MOST_WIDTH = 1 << 26 };
  gram_pool g = {.pool = read_column(n, "pool_", "", NULL)};
  g.starts = tn__on_ints(n, "ngram_counts", &g.start_count);
  g.columns = tn__on_ints(n, "ngram_indexes", &g.column_count);
  int64_t shortest = tn__on_int(n, "min_gram_length", 0), longest = tn__on_int(n, "max_gram_length", 0);
  int64_t skips = tn__on_int(n, "max_skip_count", 0), width = 0;
  if (g.pool.dtype != TN_I64 && g.pool.dtype != TN_STRING) tn__on_fail(n, "has no pool of integers or strings");
  if (shortest < 1 || longest < shortest || longest > 1 << 16 || skips < 0 || skips > 1 << 16)
    tn__on_fail(n, "counts n-grams of lengths %lld to %lld with %lld skips", (long long)shortest, (long long)longest,
                (long long)skips);
  for (int i = 0; i < g.column_count; i++) {
    if (g.columns[i] < 0 || g.columns[i] >= MOST_WIDTH)
      tn__on_fail(n, "ngram_indexes has column %lld", (long long)g.columns[i]);
    if (g.columns[i] >= width) width = g.columns[i] + 1;
  }
  if (width == 0) tn__on_fail(n, "has no n-grams");
  sort_pool(n, &g);
  tn__value *x = n->in[0];
  if (x->dtype == TN_I32) x = tn__g_convert(n->g, x, TN_I64);
  tn__value *inputs[4] = {x};
  inputs[1] = column_constant(n, g.pool.dtype, g.elements, g.element_count);
  inputs[2] = tn__g_i64s(n->g, g.new_starts, g.start_count);
  inputs[3] = tn__g_i64s(n->g, g.new_columns, (int)g.gram_count);
  const tn__attr attrs[] = {tn__attr_int(n->g, "shortest", shortest), tn__attr_int(n->g, "longest", longest),
                            tn__attr_int(n->g, "skips", skips), tn__attr_int(n->g, "width", width)};
  n->out[0] = weigh(n, node(n, "table_grams", inputs, 4, attrs, 4), width);
}
