/* Graphs and their values: names, constants, elements that are known, symbols, checks. */
#include <stdio.h>
#include <string.h>

#include "base/invariant.h"

#include "graph/internal.h"

/* ---- construction ------------------------------------------------------------------------------------------------ */

tn__graph *tn__graph_create(tn__ir *ir, const char *name) {
  tn__arena *arena = tn__ir_arena(ir);
  tn__graph *graph = TN__NEW(arena, tn__graph);
  graph->ir = ir;
  graph->arena = arena;
  graph->name = tn__arena_strdup(arena, name);
  tn__map_init(&graph->value_names, arena);
  tn__map_init(&graph->dim_names, arena);
  tn__map_init(&graph->output_names, arena);
  tn__map_init(&graph->promised, arena);
  return graph;
}

tn__ir *tn__graph_ir(const tn__graph *graph) { return graph->ir; }
tn__arena *tn__graph_arena(const tn__graph *graph) { return graph->arena; }
const char *tn__graph_name(const tn__graph *graph) { return graph->name; }
int tn__graph_input_count(const tn__graph *graph) { return graph->inputs.count; }
tn__value *tn__graph_input_at(const tn__graph *graph, int index) { return graph->inputs.data[index]; }
int tn__graph_output_count(const tn__graph *graph) { return graph->outputs.count; }
tn__value *tn__graph_output_at(const tn__graph *graph, int index) { return graph->outputs.data[index].value; }
const char *tn__graph_output_name(const tn__graph *graph, int index) { return graph->outputs.data[index].name; }
tn__extent tn__graph_output_extent(const tn__graph *graph, int index) { return graph->outputs.data[index].extent; }
int tn__graph_node_count(const tn__graph *graph) { return graph->nodes.count; }
tn__node *tn__graph_node_at(const tn__graph *graph, int index) { return graph->nodes.data[index]; }
int tn__graph_symbol_count(const tn__graph *graph) { return graph->symbols.count; }
const tn__symbol *tn__graph_symbol_at(const tn__graph *graph, int index) { return graph->symbols.data[index]; }
int tn__graph_check_count(const tn__graph *graph) { return graph->checks.count; }
const tn__check_at_run *tn__graph_check_at(const tn__graph *graph, int index) { return &graph->checks.data[index]; }
void tn__graph_set_origin(tn__graph *graph, const char *origin) { graph->origin = origin; }
const char *tn__graph_origin(const tn__graph *graph) { return graph->origin; }

static _Noreturn void fail_at(const tn__graph *graph, const char *origin, tn_status_code code, const char *format,
                              va_list args) {
  tn_status *status = tn_status_create_v(code, format, args);
  if (origin != NULL) status = tn_status_prefix(status, "%s", origin);
  tn__throw(graph->arena->escape, status);
}

void tn__graph_fail(const tn__graph *graph, tn_status_code code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fail_at(graph, graph->origin, code, format, args);
}

void tn__node_fail(const tn__graph *graph, const tn__node *node, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tn_status *status = tn_status_create_v(TN_INVALID_ARGUMENT, format, args);
  va_end(args);
  status = tn_status_prefix(status, "%s", node->op->name);
  if (node->origin != NULL) status = tn_status_prefix(status, "%s", node->origin);
  tn__throw(graph->arena->escape, status);
}

static const char *unique_name(tn__graph *graph, const char *name) {
  const char *unique = name;
  for (int i = 1; tn__map_has(&graph->value_names, unique); i++)
    unique = tn__arena_printf(graph->arena, "%s_%d", name, i);
  return unique;
}

/* Sizes whose product overflows would wrap silently in every address computation later, and in every estimate of what a
 * loop costs: a dimension of 0 beside them makes no difference to that (nor does it to NumPy). */
void tn__value_check_size(const tn__graph *graph, const char *name, tn_dtype dtype, int rank,
                          const tn__expr *const *dims) {
  if (rank > TN__MAX_RANK)
    tn__graph_fail(graph, TN_UNSUPPORTED, "tensor \"%s\" has %d dimensions; at most %d are supported", name, rank,
                   TN__MAX_RANK);
  int64_t bytes = (int64_t)tn__dtype_stored(dtype);
  if (bytes == 0) tn__graph_fail(graph, TN_INTERNAL, "tensor \"%s\" has no element type", name);
  for (int i = 0; i < rank; i++) {
    int64_t size;
    if (dims[i] == NULL || !tn__ir_as_int(dims[i], &size) || size == 0) continue;
    if (size < 0)
      tn__graph_fail(graph, TN_INVALID_ARGUMENT, "dimension %d of tensor \"%s\" is negative (%lld)", i, name,
                     (long long)size);
    if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > INT64_MAX / 4)
      tn__graph_fail(graph, TN_INVALID_ARGUMENT, "tensor \"%s\" would have more bytes than can be addressed", name);
  }
}

tn__value *tn__value_create(tn__graph *graph, const char *name, tn_dtype dtype, int rank, const tn__expr *const *dims) {
  tn__value_check_size(graph, name, dtype, rank, dims);
  tn__value *value = TN__NEW(graph->arena, tn__value);
  value->name = unique_name(graph, name);
  value->dtype = dtype;
  value->rank = rank;
  value->dims = tn__arena_copy(graph->arena, dims, (size_t)rank * sizeof(*dims));
  value->id = (uint32_t)graph->values.count;
  tn__vec_push(graph->arena, &graph->values, value);
  tn__map_set(&graph->value_names, value->name, value);
  return value;
}

void tn__value_set_name(tn__graph *graph, tn__value *value, const char *name) {
  if (strcmp(value->name, name) == 0) return;
  tn__value *taken = tn__map_get(&graph->value_names, name);
  if (taken != NULL && strcmp(taken->name, name) == 0) { /* else it had the name and gave it up */
    taken->name = value->name;
    tn__map_set(&graph->value_names, taken->name, taken);
  }
  value->name = tn__arena_strdup(graph->arena, name);
  tn__map_set(&graph->value_names, value->name, value);
}

tn__value *tn__graph_input(tn__graph *graph, const char *name, tn_dtype dtype, int rank, const tn__expr *const *dims) {
  tn__value *taken = tn__map_get(&graph->value_names, name);
  if (taken != NULL && taken->producer == NULL && taken->data == NULL)
    tn__graph_fail(graph, TN_INVALID_ARGUMENT, "there are two graph inputs named \"%s\"", name);
  tn__value *value = tn__value_create(graph, tn__arena_strdup(graph->arena, name), dtype, rank, dims);
  tn__value_set_name(graph, value, name);
  tn__vec_push(graph->arena, &graph->inputs, value);
  return value;
}

void tn__graph_output(tn__graph *graph, const char *name, tn__value *value) {
  const int *same = tn__map_get(&graph->output_names, name);
  if (same != NULL && graph->outputs.data[*same].value != value)
    tn__graph_fail(graph, TN_INVALID_ARGUMENT, "there are two graph outputs named \"%s\"", name);
  const tn__graph_result result = {.name = tn__arena_strdup(graph->arena, name), .value = NULL};
  int *number = TN__NEW(graph->arena, int);
  *number = graph->outputs.count;
  tn__map_set(&graph->output_names, result.name, number);
  tn__vec_push(graph->arena, &graph->outputs, result);
  tn__graph_set_output(graph, *number, value);
}

void tn__graph_set_output(tn__graph *graph, int index, tn__value *value) {
  if (graph->outputs.data[index].value == value) return;
  graph->outputs.data[index].value = value;
  tn__vec_push(graph->arena, &value->results, index);
}

/* ---- constants and elements -------------------------------------------------------------------------------------- */

int tn__g_element_count(int rank, const tn__expr *const *dims) {
  int64_t count = 1, size;
  for (int i = 0; i < rank; i++) {
    if (dims[i] == NULL || !tn__ir_as_int(dims[i], &size) || size < 0 || size > TN__MAX_ELEMENTS) return -1;
    count *= size;
    if (count > TN__MAX_ELEMENTS) return -1;
  }
  return (int)count;
}

int64_t tn__g_constant_count(const tn__value *value) {
  int64_t count = 1, size;
  for (int i = 0; i < value->rank; i++)
    if (tn__ir_as_int(value->dims[i], &size)) count *= size;
  return count;
}

bool tn__g_element_strides(const tn__value *a, int64_t *strides) {
  int64_t stride = 1, size;
  for (int i = a->rank - 1; i >= 0; i--) {
    strides[i] = stride;
    if (!tn__ir_as_int(a->dims[i], &size) || __builtin_mul_overflow(stride, size, &stride)) return false;
  }
  return true;
}

const tn__expr *const *tn__g_moved_elements(tn__graph *graph, const tn__value *a, int rank, const tn__expr *const *dims,
                                            int64_t offset, const int64_t *strides) {
  int count = tn__g_element_count(rank, dims), own = tn__g_element_count(a->rank, a->dims);
  if (a->elements == NULL || count < 0 || own < 0) return NULL;
  const tn__expr **elements = TN__NEW_ARRAY(graph->arena, count, const tn__expr *);
  for (int p = 0; p < count; p++) {
    int64_t from = offset, rest = p, size = 1;
    for (int i = rank - 1; i >= 0; i--, rest /= size)
      if (tn__ir_as_int(dims[i], &size)) from += rest % size * strides[i];
    if (from < 0 || from >= own) return NULL; /* an error that the operator reports, or one of the run */
    elements[p] = a->elements[from];
  }
  return elements;
}

bool tn__g_carries_elements(tn_dtype dtype) { return dtype == TN_I64 || dtype == TN_I32 || dtype == TN_BOOL; }

int tn__g_constant_elements(const tn__value *value, int64_t *out) {
  int count = tn__g_element_count(value->rank, value->dims);
  if (count < 0 || value->elements == NULL) return -1;
  for (int i = 0; i < count; i++)
    if (!tn__ir_as_int(value->elements[i], &out[i])) return -1;
  return count;
}

tn__value *tn__g_constant_like(tn__graph *graph, const tn__value *like, const void *data, bool splat) {
  int64_t shape[TN__MAX_RANK];
  bool constant_shape = tn__g_shape_const(like, shape);
  TN__INVARIANT(constant_shape); /* constants replace only values of known sizes */
  tn__value *constant = tn__g_constant_value(graph, like->dtype, like->rank, shape, data, splat);
  constant->held = like->held;
  return constant;
}

const tn__text *tn__text_create(tn__arena *arena, const void *data, size_t length) {
  _Static_assert(sizeof(const tn__text *) == 8, "a string's element is a pointer to it");
  if (length == 0) return NULL;
  tn__text *text = tn__arena_alloc(arena, sizeof(*text) + length);
  text->length = length;
  memcpy(text->bytes, data, length);
  return text;
}

void tn__graph_check_rank(const tn__graph *graph, const char *what, int rank) {
  if (rank > TN__MAX_RANK)
    tn__graph_fail(graph, TN_UNSUPPORTED, "%s: makes a tensor with %d dimensions; at most %d are supported", what, rank,
                   TN__MAX_RANK);
}

tn__value *tn__graph_strings(tn__graph *graph, int rank, const int64_t *shape, const tn__text *const *texts) {
  int64_t count = 1;
  for (int i = 0; i < rank; i++) count *= shape[i];
  return tn__g_constant_value(graph, TN_STRING, rank, shape, tn__arena_copy(graph->arena, texts, (size_t)count * 8),
                              false);
}

tn__value *tn__g_constant_value(tn__graph *graph, tn_dtype dtype, int rank, const int64_t *shape, const void *data,
                                bool splat) {
  const tn__expr *dims[TN__MAX_RANK];
  if (rank > TN__MAX_RANK)
    tn__graph_fail(graph, TN_UNSUPPORTED, "a constant has %d dimensions; at most %d are supported", rank, TN__MAX_RANK);
  for (int i = 0; i < rank; i++) dims[i] = tn__ir_index(graph->ir, shape[i]);
  tn__value *value =
      tn__value_create(graph, tn__arena_printf(graph->arena, "c%d", graph->values.count), dtype, rank, dims);
  static const int64_t nothing = 0; /* an empty constant is one too, and what tells is its data */
  value->data = data != NULL ? data : &nothing;
  value->splat = splat || rank == 0;
  int count = dtype == TN_STRING ? -1 : tn__g_element_count(rank, dims);
  if (count >= 0) {
    const tn__expr **elements = TN__NEW_ARRAY(graph->arena, count, const tn__expr *);
    for (int i = 0; i < count; i++) {
      int64_t at = value->splat ? 0 : i;
      elements[i] = tn__dtype_is_float(dtype) ? tn__ir_float(graph->ir, dtype, tn__load_f64(dtype, data, at))
                                              : tn__ir_index(graph->ir, tn__load_i64(dtype, data, at));
    }
    value->elements = elements;
  }
  return value;
}

/* ---- symbols ----------------------------------------------------------------------------------------------------- */

static const char *promise_key(const tn__graph *graph, tn__symbol_source source, const char *value, int index) {
  return tn__arena_printf(graph->arena, "%d %d %s", (int)source, index, value);
}

tn__symbol *tn__symbol_promise(tn__graph *graph, const tn__var *var, tn__symbol_source source, const char *value,
                               int index) {
  const char *key = promise_key(graph, source, value, index);
  if (tn__map_has(&graph->promised, key)) return NULL;
  tn__symbol *symbol = TN__NEW(graph->arena, tn__symbol);
  *symbol = (tn__symbol){.var = var, .source = source, .index = index};
  tn__vec_push(graph->arena, &graph->symbols, symbol);
  tn__map_set(&graph->promised, key, symbol);
  return symbol;
}

void tn__symbol_set_value(tn__graph *graph, tn__symbol *symbol, tn__value *value) {
  if (symbol->value == value) return;
  symbol->value = value;
  tn__vec_push(graph->arena, &value->symbols, symbol);
}

static tn__symbol *symbol_create(tn__graph *graph, const char *name, tn__symbol_source source, tn__value *value,
                                 int index, const tn__expr *min, const tn__expr *extent) {
  tn__symbol *symbol = NULL;
  if (graph->promised.count > 0) symbol = tn__map_get(&graph->promised, promise_key(graph, source, value->name, index));
  if (symbol != NULL) {
    tn__symbol_set_value(graph, symbol, value);
    return symbol;
  }
  symbol = TN__NEW(graph->arena, tn__symbol);
  symbol->var = tn__var_create(graph->ir, name, TN_I64, min, extent);
  symbol->source = source;
  tn__symbol_set_value(graph, symbol, value);
  symbol->index = index;
  tn__vec_push(graph->arena, &graph->symbols, symbol);
  return symbol;
}

/* Symbols are in the order in which their variables were made. */
int tn__symbol_index(const tn__graph *graph, uint32_t var) {
  int low = 0, high = graph->symbols.count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (graph->symbols.data[middle]->var->id < var)
      low = middle + 1;
    else
      high = middle;
  }
  return low < graph->symbols.count && graph->symbols.data[low]->var->id == var ? low : -1;
}

const tn__symbol *tn__graph_symbol_of(const tn__graph *graph, uint32_t var) {
  int index = tn__symbol_index(graph, var);
  return index < 0 ? NULL : graph->symbols.data[index];
}

static void set_dim(tn__graph *graph, tn__value *value, int axis, const tn__expr *dim) {
  const tn__expr **dims = tn__arena_copy(graph->arena, value->dims, (size_t)value->rank * sizeof(*dims));
  dims[axis] = dim;
  value->dims = dims;
}

const tn__expr *tn__graph_input_symbol(tn__graph *graph, const char *name, tn__value *input, int axis) {
  tn__symbol *symbol = tn__map_get(&graph->dim_names, name);
  if (symbol == NULL) {
    name = tn__arena_strdup(graph->arena, name);
    symbol = symbol_create(graph, name, TN__SYMBOL_INPUT_DIM, input, axis, tn__ir_index(graph->ir, 0), NULL);
    tn__map_set(&graph->dim_names, name, symbol);
  }
  if (axis < 0 || axis >= input->rank)
    tn__graph_fail(graph, TN_INTERNAL, "input \"%s\" has no dimension %d", input->name, axis);
  set_dim(graph, input, axis, symbol->var->self);
  return symbol->var->self;
}

const tn__expr *tn__graph_dim_symbol(tn__graph *graph, tn__value *value, int axis) {
  const char *name = tn__arena_printf(graph->arena, "%s_d%d", value->name, axis);
  const tn__expr *zero = tn__ir_index(graph->ir, 0);
  return symbol_create(graph, name, TN__SYMBOL_INPUT_DIM, value, axis, zero, NULL)->var->self;
}

const tn__expr *const *tn__graph_elements(tn__graph *graph, tn__value *value, int *count) {
  *count = tn__g_element_count(value->rank, value->dims);
  if (*count < 0 || tn__dtype_is_float(value->dtype)) return NULL;
  if (value->elements == NULL) {
    const tn__expr **elements = TN__NEW_ARRAY(graph->arena, *count, const tn__expr *);
    for (int i = 0; i < *count; i++) {
      const char *name = tn__arena_printf(graph->arena, "%s_e%d", value->name, i);
      elements[i] = symbol_create(graph, name, TN__SYMBOL_ELEMENT, value, i, NULL, NULL)->var->self;
    }
    value->elements = elements;
  }
  return value->elements;
}

const tn__expr *tn__graph_count_symbol(tn__graph *graph, tn__value *value, const tn__expr *limit) {
  if (value->elements != NULL) return value->elements[0];
  if (tn__g_element_count(value->rank, value->dims) != 1)
    tn__graph_fail(graph, TN_INTERNAL, "\"%s\" is not one element", value->name);
  const tn__expr *extent = limit == NULL ? NULL : tn__ir_add_i(graph->ir, limit, 1);
  const char *name = tn__arena_printf(graph->arena, "%s_n", value->name);
  const tn__expr **elements = TN__NEW_ARRAY(graph->arena, 1, const tn__expr *);
  elements[0] = symbol_create(graph, name, TN__SYMBOL_ELEMENT, value, 0, tn__ir_index(graph->ir, 0), extent)->var->self;
  value->elements = elements;
  return elements[0];
}

void tn__graph_assume(tn__graph *graph, const tn__expr *condition, const char *format, ...) {
  if (tn__ir_is_true(condition) || tn__ir_prove(graph->ir, condition)) return;
  va_list args;
  va_start(args, format);
  if (tn__ir_is_false(condition)) fail_at(graph, graph->origin, TN_INVALID_ARGUMENT, format, args);
  char text[512];
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  for (int i = 0; i < graph->checks.count; i++)
    if (graph->checks.data[i].condition == condition) return;
  tn__check_at_run check = {condition, graph->origin, tn__arena_strdup(graph->arena, text)};
  tn__vec_push(graph->arena, &graph->checks, check);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

tn_dtype tn__g_tensor_dtype(const tn__value *value) { return value->held != NULL ? value->held->dtype : value->dtype; }

int tn__g_tensor_rank(const tn__value *value) { return value->held != NULL ? value->held->rank : value->rank; }

const tn__expr *const *tn__g_tensor_dims(const tn__value *value) {
  return value->held != NULL ? value->held->dims : value->dims;
}

bool tn__value_is_held(const tn__graph *graph, const tn__value *value) {
  const tn__held *held = value->held;
  const tn__expr *shape[TN__MAX_RANK];
  if (tn__layout_fault(graph->arena, &held->layout, held->rank) != NULL || held->layout.rank != value->rank ||
      tn__layout_stored(&held->layout, held->dtype) != value->dtype)
    return false;
  tn__layout_shape(graph->ir, &held->layout, held->dims, shape);
  for (int i = 0; i < value->rank; i++)
    if (shape[i] != value->dims[i]) return false;
  return true;
}

void tn__value_hold(tn__graph *graph, tn__value *value, const tn__held *held) {
  tn__held *own = TN__NEW(graph->arena, tn__held);
  *own = *held;
  own->dims = tn__arena_copy(graph->arena, held->dims, (size_t)held->rank * sizeof(*held->dims));
  value->held = own;
}

bool tn__held_equal(const tn__held *a, const tn__held *b) {
  if (a == b || a == NULL || b == NULL) return a == b;
  bool same = a->dtype == b->dtype && a->rank == b->rank && tn__layout_equal(&a->layout, &b->layout);
  for (int i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
  return same;
}

int64_t tn__g_dim_const(const tn__value *value, int axis) {
  int64_t size;
  if (axis < 0 || axis >= value->rank) return -1;
  return tn__ir_as_int(value->dims[axis], &size) ? size : -1;
}

bool tn__g_shape_const(const tn__value *value, int64_t *shape) {
  for (int i = 0; i < value->rank; i++)
    if (!tn__ir_as_int(value->dims[i], &shape[i])) return false;
  return true;
}
