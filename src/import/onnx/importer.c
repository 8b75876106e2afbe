/* Walks a model's graph, its functions and branches, and has each node's operator build core operators. */
#include <string.h>

#include "base/message.h"
#include "import/onnx/body.h"
#include "import/onnx/schema.h"

/* A node of a function is a node as often as the function is called. */
enum { MAX_NODES = 1 << 20, STEPS_PER_NODE = 1000000 };

struct tn__importer {
  tn__onnx_model *model;
  tn__graph *main;
  tn__graph *g;   /* the one that nodes go into, */
  tn__body *body; /* of this body; NULL: the main graph */
  tn__ir *ir;
  tn__arena *arena;
  const tn__onnx_options *options;
  bool *dim_used; /* by option */
  int node_count; /* imported so far, functions expanded */
  tn__forks forks;
};

/* What a name may stand for besides a value. */
static const char absent[] = "absent"; /* an optional operand that was not given */
static const char unmade[] = "unmade"; /* an optional result that the importer does not make */

static const char *text_of(const char *text) { return text == NULL ? "" : text; }
tn__onnx_model *tn__onode_model(const tn__onode *n) { return n->importer->model; }
tn__forks *tn__onode_forks(const tn__onode *n) { return &n->importer->forks; }

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool outputs_name(const Onnx__NodeProto *node, const char *name) {
  for (size_t i = 0; i < node->n_output; i++)
    if (strcmp(node->output[i], name) == 0) return true;
  return false;
}

static const char *node_text(tn__arena *arena, const Onnx__NodeProto *node, size_t index) {
  const char *op = tn__shown_name(arena, text_of(node->op_type)), *name = text_of(node->name);
  return name[0] != '\0' ? tn__shown_text(arena, "node \"%s\" (%s)", name, op)
                         : tn__arena_printf(arena, "node #%zu (%s)", index, op);
}

/* Says why a name means nothing here. */
static _Noreturn void fail_undefined(const tn__oscope *scope, const char *name, const char *user) {
  const tn__importer *im = scope->importer;
  for (const tn__oscope *s = scope; s != NULL; s = s->parent)
    for (size_t i = s->position; i < s->node_count; i++)
      if (outputs_name(s->nodes[i], name))
        tn__graph_fail(
            im->g, TN_INVALID_ARGUMENT,
            "%s \"%s\" is used before %s produces it; the nodes are not in topological order, or form a cycle", user,
            name, node_text(im->arena, s->nodes[i], i));
  tn__graph_fail(im->g, TN_INVALID_ARGUMENT, "%s \"%s\" is not produced by any node, initializer or input", user, name);
}

/* A value of the graph of `of`, seen from inside of `body`. */
static tn__value *seen_from(tn__body *body, const tn__body *of, tn__value *value) {
  if (body == of) return value;
  value = seen_from(body->parent, of, value);
  return tn__g_is_sequence(value) ? tn__g_sequence_inside(body, value) : tn__body_capture(body, value);
}

tn__value *tn__onnx_see(const tn__onode *n, tn__value *value) {
  return seen_from(n->importer->body, n->scope->body, value);
}

/* NULL for an operand that is absent. */
static tn__value *look_up(const tn__oscope *scope, const char *name, const char *user) {
  const void *found = NULL;
  const tn__body *of = NULL;
  for (const tn__oscope *s = scope; s != NULL && found == NULL; s = s->parent) {
    found = tn__map_get(&s->names, name);
    of = s->body;
  }
  if (found == NULL) fail_undefined(scope, name, user);
  if (found == absent) return NULL;
  if (found == unmade)
    tn__graph_fail(scope->importer->g, TN_UNSUPPORTED,
                   "%s \"%s\" is an optional result that the importer does not make", user, name);
  return seen_from(scope->body, of, (tn__value *)(uintptr_t)found);
}

/* Names in functions mean something there alone. */
static void tell_name(const tn__oscope *scope, const char *name, const void *meaning) {
  tn__importer *im = scope->importer;
  tn__named_values *named = im->options->named;
  if (named == NULL || scope->caller != NULL) return;
  bool made = meaning != absent && meaning != unmade;
  tn__named_value one = {.name = name,
                         .graph = scope->body != NULL ? scope->body->g : im->main,
                         .value = made ? (tn__value *)(uintptr_t)meaning : NULL};
  tn__vec_push(im->arena, &named->list, one);
}

static void define(tn__oscope *scope, const char *name, const void *meaning, const char *what) {
  if (tn__map_has(&scope->names, name))
    tn__graph_fail(scope->importer->g, TN_INVALID_ARGUMENT, "%s \"%s\" is defined already; every name is defined once",
                   what, name);
  tn__map_set(&scope->names, name, (void *)(uintptr_t)meaning);
  tell_name(scope, name, meaning);
}

static void scope_init(tn__oscope *scope, tn__importer *importer, const tn__oscope *parent) {
  if (parent != NULL) *scope = *parent;
  scope->importer = importer;
  scope->parent = parent;
  scope->position = 0;
  scope->body = importer->body;
  scope->is_rest = scope->has_ended = false;
  tn__map_init(&scope->names, importer->arena);
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

static tn__value *constant(tn__importer *im, const tn__onnx_tensor *t) {
  tn__value *value = tn__g_constant_value(im->g, t->dtype, t->rank,
                                          tn__arena_copy(im->arena, t->shape, sizeof(t->shape)), t->data, false);
  value->narrow = t->bits;
  return value;
}
tn__value *tn__onnx_constant(tn__onode *n, const tn__onnx_tensor *tensor) { return constant(n->importer, tensor); }

static void define_initializers(tn__oscope *scope, const Onnx__GraphProto *graph) {
  tn__importer *im = scope->importer;
  tn__graph_set_origin(im->g, NULL);
  for (size_t i = 0; i < graph->n_initializer; i++) {
    const char *name = text_of(graph->initializer[i]->name);
    tn__onnx_tensor t;
    tn__onnx_tensor_read(im->model, graph->initializer[i], tn__shown_text(im->arena, "initializer \"%s\"", name), &t);
    define(scope, name, constant(im, &t), "initializer");
  }
  for (size_t i = 0; i < graph->n_sparse_initializer; i++) {
    const Onnx__SparseTensorProto *sparse = graph->sparse_initializer[i];
    const char *name = sparse->values == NULL ? "" : text_of(sparse->values->name);
    tn__onnx_tensor t;
    tn__onnx_sparse_read(im->model, sparse, tn__shown_text(im->arena, "sparse initializer \"%s\"", name), &t);
    define(scope, name, constant(im, &t), "sparse initializer");
  }
}

/* ---- inputs and outputs of the model ----------------------------------------------------------------------------- */

static const tn__expr *bound_dim(tn__importer *im, const char *name) {
  for (int i = 0; i < im->options->dim_count; i++)
    if (strcmp(im->options->dims[i].name, name) == 0) {
      im->dim_used[i] = true;
      return tn__ir_index(im->ir, im->options->dims[i].size);
    }
  return NULL;
}

/* The type of the tensor, or of the tensors in a sequence or optional value. */
static const Onnx__TypeProto__Tensor *tensor_type(tn__importer *im, const Onnx__ValueInfoProto *info,
                                                  tn__value_holds *holds) {
  const Onnx__TypeProto *type = info->type;
  bool optional = false, sequence = false;
  if (type != NULL && type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE) {
    optional = true;
    type = type->optional_type->elem_type;
  }
  if (type != NULL && type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE) {
    sequence = true;
    type = type->sequence_type->elem_type;
  }
  if (type == NULL || type->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET)
    tn__graph_fail(im->g, TN_INVALID_ARGUMENT, "has no type");
  if (type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
    tn__graph_fail(im->g, TN_UNSUPPORTED, "is a %s; only tensors, sequences and optional values are supported",
                   type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE ? "sequence of sequences"
                   : type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE
                       ? sequence ? "sequence of optional values" : "value that is optional twice over"
                       : "map or sparse tensor");
  *holds = optional && sequence ? TN__HOLDS_OPTIONAL_SEQUENCE
           : optional           ? TN__HOLDS_OPTIONAL
           : sequence           ? TN__HOLDS_SEQUENCE
                                : TN__HOLDS_TENSOR;
  return type->tensor_type;
}

/* Exporters write "no dimensions" for "not known", too. */
static void define_list(tn__oscope *scope, const char *name, tn_dtype dtype, const Onnx__TypeProto__Tensor *type,
                        tn__value_holds holds) {
  tn__importer *im = scope->importer;
  if (type->shape != NULL && type->shape->n_dim > TN__MAX_RANK)
    tn__graph_fail(im->g, TN_UNSUPPORTED, "its tensors have %zu dimensions; at most %d are supported",
                   type->shape->n_dim, TN__MAX_RANK);
  if (tn__map_get(&scope->names, name) != NULL) tn__graph_fail(im->g, TN_INVALID_ARGUMENT, "two inputs have this name");
  tn__value *value = tn__graph_input(im->g, name, dtype, 0, NULL);
  value->holds = holds;
  value->item_rank = type->shape == NULL || type->shape->n_dim == 0 ? TN__ANY_RANK : (int)type->shape->n_dim;
  define(scope, name, value, "input");
}

/* Returns whether callers may replace the initializer of an input. Before IR version 4 every initializer had to be
 * declared as an input, so none is a default there. Inputs have no type of fewer than 8 bits. */
static bool is_default(const tn__importer *im, const tn__value *initializer, tn_dtype declared) {
  const Onnx__ModelProto *proto = im->model->proto;
  if (im->options->fold_defaults || proto->ir_version < 4 || initializer->narrow != 0) return false;
  if (initializer->dtype != declared)
    tn__graph_fail(im->g, TN_INVALID_ARGUMENT, "is declared as %s, and its initializer is %s", tn_dtype_name(declared),
                   tn_dtype_name(initializer->dtype));
  return true;
}

/* Returns the size of a dimension, or NULL if it is open; then *name is its symbol's name. */
static const tn__expr *declared_dim(tn__importer *im, const char *input, int axis,
                                    const Onnx__TensorShapeProto__Dimension *dim, const char **name) {
  if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) {
    if (dim->dim_value < 0)
      tn__graph_fail(im->g, TN_INVALID_ARGUMENT, "dimension %d is negative (%lld)", axis, (long long)dim->dim_value);
    return tn__ir_index(im->ir, dim->dim_value);
  }
  bool named =
      dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && text_of(dim->dim_param)[0] != '\0';
  *name = named ? dim->dim_param : tn__arena_printf(im->arena, "%s_d%d", input, axis);
  return bound_dim(im, *name);
}

/* Marks the --dim names that a constant's declaration uses. */
static void check_dims(tn__importer *im, const char *input, const Onnx__TensorShapeProto *shape) {
  const char *name;
  for (size_t i = 0; shape != NULL && i < shape->n_dim; i++) declared_dim(im, input, (int)i, shape->dim[i], &name);
}

/* A default overrides the fixed sizes that the model declares. If --dim fixes other sizes, the input has no default. */
static void define_tensor(tn__oscope *scope, const char *name, tn_dtype dtype, const Onnx__TensorShapeProto *shape,
                          tn__value *fallback) {
  tn__importer *im = scope->importer;
  int rank = (int)shape->n_dim;
  const tn__expr *dims[TN__MAX_RANK] = {NULL};
  const char *names[TN__MAX_RANK] = {NULL};
  bool own = fallback != NULL && fallback->rank != rank, fits = true;
  for (int i = 0; i < rank; i++) {
    dims[i] = declared_dim(im, name, i, shape->dim[i], &names[i]);
    if (fallback == NULL || own || dims[i] == NULL || dims[i] == fallback->dims[i]) continue;
    if (names[i] != NULL)
      fits = false;
    else
      dims[i] = fallback->dims[i];
  }
  if (own) rank = fallback->rank;
  for (int i = 0; own && i < rank; i++) dims[i] = fallback->dims[i];
  tn__value *value = tn__graph_input(im->g, name, dtype, rank, dims);
  for (int i = 0; i < rank; i++)
    if (dims[i] == NULL) tn__graph_input_symbol(im->g, names[i], value, i);
  if (fallback == NULL) {
    define(scope, name, value, "input");
    return;
  }
  if (fits) value->fallback = fallback;
  tn__map_set(&scope->names, name, value);
  tell_name(scope, name, value);
}

static void define_input(tn__oscope *scope, const Onnx__ValueInfoProto *info) {
  tn__importer *im = scope->importer;
  const char *name = text_of(info->name);
  if (name[0] == '\0') tn__graph_fail(im->g, TN_INVALID_ARGUMENT, "an input of the graph has no name");
  tn__graph_set_origin(im->g, tn__shown_text(im->arena, "input \"%s\"", name));
  tn__value_holds holds;
  const Onnx__TypeProto__Tensor *type = tensor_type(im, info, &holds);
  tn_dtype dtype = tn__onnx_dtype(type->elem_type);
  if (dtype == TN_DTYPE_INVALID)
    tn__graph_fail(im->g, TN_UNSUPPORTED, "element type %s (%d) is not supported", tn__onnx_dtype_name(type->elem_type),
                   type->elem_type);
  if (holds != TN__HOLDS_TENSOR) {
    define_list(scope, name, dtype, type, holds);
    return;
  }
  tn__value *fallback = tn__map_get(&scope->names, name);
  if (fallback != NULL && fallback->data == NULL)
    tn__graph_fail(im->g, TN_INVALID_ARGUMENT, "two inputs have this name");
  if (fallback != NULL && !is_default(im, fallback, dtype)) {
    check_dims(im, name, type->shape);
    return;
  }
  if (type->shape == NULL)
    tn__graph_fail(im->g, TN_UNSUPPORTED, "has no shape; the number of its dimensions must be known");
  if (type->shape->n_dim > TN__MAX_RANK)
    tn__graph_fail(im->g, TN_UNSUPPORTED, "has %zu dimensions; at most %d are supported", type->shape->n_dim,
                   TN__MAX_RANK);
  define_tensor(scope, name, dtype, type->shape, fallback);
}

static void check_bindings(const tn__importer *im) {
  for (int i = 0; i < im->options->dim_count; i++)
    if (im->options->dims_used)
      im->options->dims_used[i] |= im->dim_used[i];
    else if (!im->dim_used[i])
      tn__throwf(im->arena->escape, TN_INVALID_ARGUMENT, "no dimension of an input is named \"%s\"",
                 im->options->dims[i].name);
}

static void define_list_output(tn__importer *im, const char *name, tn__value *value,
                               const Onnx__TypeProto__Tensor *type, tn__value_holds holds) {
  tn_dtype dtype = type == NULL ? TN_DTYPE_INVALID : tn__onnx_dtype(type->elem_type);
  int rank = type == NULL || type->shape == NULL || type->shape->n_dim == 0 ? TN__ANY_RANK : (int)type->shape->n_dim;
  bool container = tn__g_is_sequence(value) || tn__g_is_list(value);
  if (container && holds == TN__HOLDS_TENSOR && type != NULL)
    tn__graph_fail(im->g, TN_INVALID_ARGUMENT, "\"%s\" is declared as a tensor, and its node makes a sequence", name);
  if (!container && holds != TN__HOLDS_OPTIONAL)
    tn__graph_fail(im->g, TN_INVALID_ARGUMENT, "\"%s\" is declared as a sequence, and its node makes a tensor", name);
  tn_dtype own = TN_DTYPE_INVALID;
  int own_rank;
  if (tn__g_list_type(value, &own, &own_rank)) rank = own_rank; /* otherwise it is empty, and has its declared type */
  if (own != TN_DTYPE_INVALID && dtype != TN_DTYPE_INVALID && own != dtype && !tn__g_is_absent(value))
    tn__graph_fail(im->g, TN_INVALID_ARGUMENT, "\"%s\" is declared with tensors of %s, and its node makes %s", name,
                   tn_dtype_name(dtype), tn_dtype_name(own));
  if (holds == TN__HOLDS_TENSOR) holds = value->holds != TN__HOLDS_TENSOR ? value->holds : TN__HOLDS_SEQUENCE;
  value = tn__g_list(im->g, value, dtype == TN_DTYPE_INVALID ? own : dtype, rank, holds);
  tn__graph_output(im->g, name, value);
}

int tn__onnx_info_rank(const Onnx__ValueInfoProto *info) {
  const Onnx__TypeProto *type = info->type;
  if (type == NULL || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || type->tensor_type->shape == NULL)
    return -1;
  return (int)type->tensor_type->shape->n_dim;
}

int64_t tn__onnx_info_dim(const Onnx__ValueInfoProto *info, int axis) {
  if (axis < 0 || axis >= tn__onnx_info_rank(info)) return -1;
  const Onnx__TensorShapeProto__Dimension *dim = info->type->tensor_type->shape->dim[axis];
  bool told = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && dim->dim_value >= 0;
  return told ? dim->dim_value : -1;
}

static int declared_rank(Onnx__ValueInfoProto *const *infos, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (infos[i]->name != NULL && strcmp(infos[i]->name, name) == 0) return tn__onnx_info_rank(infos[i]);
  return -1;
}

int tn__onnx_declared_rank(const tn__onode *n, int output) {
  const Onnx__GraphProto *graph = n->scope->graph;
  if (graph == NULL || output < 0 || (size_t)output >= n->proto->n_output) return -1;
  const char *name = n->proto->output[output];
  int rank = declared_rank(graph->value_info, graph->n_value_info, name);
  return rank >= 0 ? rank : declared_rank(graph->output, graph->n_output, name);
}

/* Of the model's outputs only: what bodies declare is not held to anything. */
int tn__onnx_result_rank(const tn__onode *n, const tn__oscope *scope, int index) {
  const Onnx__GraphProto *main = n->importer->model->proto->graph;
  return scope->graph == main ? tn__onnx_info_rank(main->output[index]) : -1;
}

static void define_outputs(const tn__oscope *scope, const Onnx__GraphProto *graph) {
  tn__importer *im = scope->importer;
  if (graph->n_output == 0) tn__throwf(im->arena->escape, TN_INVALID_ARGUMENT, "the graph has no outputs");
  for (size_t i = 0; i < graph->n_output; i++) {
    const char *name = text_of(graph->output[i]->name);
    tn__graph_set_origin(im->g, tn__arena_printf(im->arena, "output #%zu", i));
    tn__value *value = look_up(scope, name, "the tensor");
    tn__value_holds holds = TN__HOLDS_TENSOR;
    const Onnx__TypeProto__Tensor *type =
        graph->output[i]->type == NULL ? NULL : tensor_type(im, graph->output[i], &holds);
    if (value == NULL) tn__graph_fail(im->g, TN_UNSUPPORTED, "\"%s\" is an input that is absent", name);
    if (value->narrow > 0)
      tn__graph_fail(im->g, TN_UNSUPPORTED, "\"%s\" is %s, which is not supported outside of the model", name,
                     tn__g_narrow_name(value));
    if (tn__g_is_sequence(value) || tn__g_is_list(value) || holds != TN__HOLDS_TENSOR) {
      define_list_output(im, name, value, type, holds);
      continue;
    }
    if (type != NULL && type->elem_type != 0 && tn__onnx_dtype(type->elem_type) != value->dtype)
      tn__graph_fail(im->g, TN_INVALID_ARGUMENT, "the tensor \"%s\" is declared as %s, and its node makes %s", name,
                     tn__onnx_dtype_name(type->elem_type), tn_dtype_name(value->dtype));
    if (type != NULL && type->shape != NULL) {
      if (type->shape->n_dim != (size_t)value->rank)
        tn__graph_fail(im->g, TN_INVALID_ARGUMENT,
                       "the tensor \"%s\" is declared with %zu dimension%s, and its node makes %d", name,
                       type->shape->n_dim, tn__plural((int64_t)type->shape->n_dim), value->rank);
      for (int d = 0; d < value->rank; d++) {
        int64_t declared = tn__onnx_info_dim(graph->output[i], d), made = tn__g_dim_const(value, d);
        if (declared >= 0 && made >= 0 && declared != made)
          tn__graph_fail(im->g, TN_INVALID_ARGUMENT,
                         "dimension %d of the tensor \"%s\" is declared as %lld, and its node makes %lld", d, name,
                         (long long)declared, (long long)made);
      }
    }
    tn__graph_output(im->g, name, value);
  }
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static int64_t imported_version(const tn__oscope *scope, const char *domain) {
  for (size_t i = 0; i < scope->import_count; i++)
    if (strcmp(tn__onnx_domain(scope->imports[i]->domain), domain) == 0) return scope->imports[i]->version;
  return 0;
}

static bool takes_narrow(const tn__onnx_op *op, int input) {
  return input < 32 && (op->takes_narrow >> input & 1) != 0;
}

static bool passes_narrow(const tn__onode *n) { return n->op->passes_narrow && n->in[0]->narrow > 0; }

static void check_narrow(const tn__onode *n) {
  for (int i = 0; i < n->input_count; i++)
    if (n->in[i] != NULL && n->in[i]->narrow > 0 && !takes_narrow(n->op, i) && !(i == 0 && n->op->passes_narrow))
      tn__on_unsupported(n,
                         "input %d is %s, which is supported for quantised weights only: constants that "
                         "DequantizeLinear takes",
                         i, tn__g_narrow_name(n->in[i]));
}

static void run_operator(tn__onode *n) {
  tn__onnx_model *model = n->importer->model;
  const Onnx__FunctionProto *function =
      tn__map_get(&model->functions, tn__onnx_function_key(n->arena, n->domain, n->name, n->proto->overload));
  if (function != NULL) {
    tn__onnx_inline_function(n, function, NULL);
    return;
  }
  if (n->version == 0)
    tn__on_fail(n, "the model does not import operator set \"%s\"", n->domain[0] == '\0' ? "ai.onnx" : n->domain);
  n->op = tn__onnx_op_find(n->domain, n->name);
  if (n->op != NULL && n->op->fn != NULL) {
    if (n->version < n->op->versions[0])
      tn__on_fail(n, "%s is not in operator set %lld; it came with %d", n->name, (long long)n->version,
                  n->op->versions[0]);
    tn__onnx_schema_check(n);
    check_narrow(n);
    if (n->op->operands != NULL) tn__on_relate(n, n->op->operands);
    n->op->fn(n);
    if (passes_narrow(n) && n->out[0] != NULL) n->out[0]->narrow = n->in[0]->narrow;
    return;
  }
  int64_t opset = 0;
  function = n->domain[0] == '\0' ? tn__onnx_function_body(model, n->name, n->version, &opset) : NULL;
  if (function == NULL)
    tn__on_unsupported(n, "the operator is not supported%s%s", n->op == NULL ? "" : ": ",
                       n->op == NULL ? "" : n->op->why);
  tn__onnx_schema_check(n);
  Onnx__OperatorSetIdProto *import = TN__NEW(n->arena, Onnx__OperatorSetIdProto);
  *import = (Onnx__OperatorSetIdProto){.domain = tn__arena_strdup(n->arena, ""), .version = opset, .has_version = 1};
  tn__onnx_inline_function(n, function, import);
}

static const char *node_origin(const tn__oscope *scope, const Onnx__NodeProto *proto, int64_t version) {
  tn__arena *arena = scope->importer->arena;
  const char *domain = tn__onnx_domain(proto->domain), *name = text_of(proto->name);
  const char *which =
      name[0] != '\0' ? tn__shown_text(arena, "\"%s\"", name) : tn__arena_printf(arena, "#%zu", scope->position);
  const char *set = domain[0] == '\0' ? "opset" : tn__shown_name(arena, domain);
  const char *outer = scope->caller == NULL ? NULL : scope->caller->proto->name;
  const char *inside = scope->caller == NULL
                           ? ""
                           : tn__arena_printf(arena, "function %s%s%s: ", tn__shown_name(arena, scope->caller->name),
                                              outer == NULL ? "" : " of node ",
                                              outer == NULL ? "" : tn__shown_text(arena, "\"%s\"", outer));
  return tn__arena_printf(arena, "%snode %s (%s, %s %lld)", inside, which,
                          tn__shown_name(arena, text_of(proto->op_type)), set, (long long)version);
}

/* Records the outcome of a node, for placement rules that name it. */
static void tell_node(const tn__onode *n, const char *origin) {
  tn__named_values *named = n->importer->options->named;
  tn__named_node one = {.origin = origin, .made = n->output_count > 0 ? n->out[0] : NULL};
  if (named == NULL) return;
  for (int i = 0; i < n->input_count; i++) one.hands_on |= n->in[i] != NULL && n->in[i] == one.made;
  tn__vec_push(n->arena, &named->nodes, one);
}

static void import_node(tn__oscope *scope, const Onnx__NodeProto *proto) {
  tn__importer *im = scope->importer;
  tn__onode *n = TN__NEW(im->arena, tn__onode);
  *n = (tn__onode){.importer = im, .scope = scope, .g = im->g, .ir = im->ir, .arena = im->arena, .proto = proto};
  n->domain = tn__onnx_domain(proto->domain);
  n->name = text_of(proto->op_type);
  n->version = imported_version(scope, n->domain);
  n->input_count = (int)proto->n_input;
  n->output_count = (int)proto->n_output;
  const char *origin = node_origin(scope, proto, n->version);
  tn__graph_set_origin(im->g, origin);
  if (++im->node_count > MAX_NODES)
    tn__on_unsupported(n, "the model has more than %d nodes when its functions are expanded", MAX_NODES);
  tn__arena_allow(im->arena, STEPS_PER_NODE);
  n->in = TN__NEW_ARRAY(im->arena, n->input_count + TN__ONODE_MIN_INPUTS, tn__value *);
  n->out = TN__NEW_ARRAY(im->arena, n->output_count + TN__ONODE_MIN_INPUTS, tn__value *);
  for (int i = 0; i < n->input_count; i++)
    if (proto->input[i][0] != '\0')
      n->in[i] = look_up(scope, proto->input[i], tn__arena_printf(im->arena, "input %d", i));
  while (n->input_count > 0 && n->in[n->input_count - 1] == NULL) n->input_count--;
  while (n->output_count > 0 && proto->output[n->output_count - 1][0] == '\0') n->output_count--;
  run_operator(n);
  tell_node(n, origin);
  for (int i = 0; i < n->output_count; i++) {
    if (proto->output[i][0] == '\0') continue;
    const void *meaning = n->out[i] == NULL ? (const void *)unmade : n->out[i];
    define(scope, proto->output[i], meaning, tn__arena_printf(im->arena, "output %d", i));
  }
}

static void import_nodes(tn__oscope *scope, Onnx__NodeProto *const *nodes, size_t count) {
  scope->nodes = nodes;
  scope->node_count = count;
  for (scope->position = 0; scope->position < count; scope->position++) import_node(scope, nodes[scope->position]);
}

/* ---- what follows on a node -------------------------------------------------------------------------------------- */

static void set_results(tn__oscope *scope, Onnx__ValueInfoProto *const *infos, size_t count) {
  const char **names = TN__NEW_ARRAY(scope->importer->arena, count, const char *);
  for (size_t i = 0; i < count; i++) names[i] = text_of(infos[i]->name);
  scope->results = names, scope->result_count = (int)count;
}

/* Was the name there before the node? Scopes of what follows on a node are inside of the node's. */
static bool is_defined(const tn__oscope *scope, const char *name) {
  for (const tn__oscope *s = scope; s != NULL && s->results == scope->results; s = s->parent)
    if (tn__map_has(&s->names, name)) return true;
  return false;
}

int tn__onnx_levels(const tn__onode *n) {
  int levels = 0;
  for (const tn__onode *out = n->scope->inlined; out != NULL; out = out->scope->inlined) levels++;
  return levels;
}

const tn__oscope *tn__onnx_level(const tn__onode *n, int levels) {
  const tn__oscope *scope = n->scope;
  for (int i = 0; i < levels; i++) scope = scope->inlined->scope;
  return scope;
}

/* A scope for what is imported behind the node, whatever graph that is for. */
static tn__oscope *rest_scope(const tn__onode *n) {
  tn__oscope *scope = TN__NEW(n->arena, tn__oscope);
  scope_init(scope, n->importer, n->scope);
  scope->is_rest = true;
  return scope;
}

/* The nodes behind `n`, in its own scope or, when a fork among them goes further, out of it. */
static tn__orest import_behind(tn__onode *n, int *most) {
  const tn__oscope *outer = n->scope;
  tn__oscope *scope = rest_scope(n);
  tn__orest rest = {.levels = 0};
  for (int i = 0; i < n->output_count; i++)
    if (n->proto->output[i][0] != '\0')
      define(scope, n->proto->output[i], n->out[i] == NULL ? (const void *)unmade : n->out[i], "output");
  size_t left = outer->node_count - outer->position - 1;
  bool all = left <= (size_t)*most;
  import_nodes(scope, outer->nodes + outer->position + 1, all ? left : (size_t)*most);
  *most -= all ? (int)left : *most;
  if (!all || scope->has_ended) return all ? scope->ended : rest;
  rest.results = TN__NEW_ARRAY(n->arena, outer->result_count, tn__value *);
  for (int i = 0; i < outer->result_count; i++)
    if (!is_defined(outer, outer->results[i])) rest.results[i] = look_up(scope, outer->results[i], "result");
  return rest;
}

/* The node that the scope of `n` was inlined for, as what is imported now sees it, with its outputs. */
static tn__onode *inlined_here(const tn__onode *n, tn__value *const *results) {
  const tn__oscope *scope = n->scope;
  tn__onode *out = tn__arena_copy(n->arena, scope->inlined, sizeof(*out));
  const tn__oscope *here = rest_scope(n);
  out->g = n->g;
  out->out = TN__NEW_ARRAY(n->arena, out->output_count + TN__ONODE_MIN_INPUTS, tn__value *);
  for (int i = 0; i < scope->result_count; i++)
    if (out->proto->output[i][0] != '\0')
      out->out[i] = results[i] != NULL ? results[i] : look_up(here, scope->results[i], "result");
  return out;
}

tn__orest tn__onnx_import_rest(tn__onode *n, int most, int levels, tn__orest first) {
  tn__orest rest = first;
  int at = 0; /* the level of n */
  if (rest.results == NULL) rest = import_behind(n, &most);
  while (rest.results != NULL && rest.levels < levels) {
    while (at < rest.levels) { /* the results are those of a scope further out */
      tn__onode *out = tn__arena_copy(n->arena, n->scope->inlined, sizeof(*out));
      out->g = n->g;
      n = out, at++;
    }
    n = inlined_here(n, rest.results), at++;
    rest = import_behind(n, &most);
    rest.levels += at;
  }
  return rest;
}

/* From scope to scope, as far as the scopes are those that the nodes of the graph are imported in. */
void tn__onnx_end_scope(tn__onode *n, tn__orest rest) {
  tn__oscope *scope = n->scope;
  for (; rest.levels > 0; rest.levels--) {
    scope->position = scope->node_count;
    scope->has_ended = true;
    scope->ended = rest;
    if (scope->is_rest) return;
    n = scope->inlined;
    scope = n->scope;
  }
  for (int i = 0; i < scope->result_count; i++) {
    int own = 0;
    while (own < n->output_count && strcmp(n->proto->output[own], scope->results[i]) != 0) own++;
    if (own < n->output_count)
      n->out[own] = rest.results[i]; /* defined with the node */
    else if (rest.results[i] != NULL && !tn__map_has(&scope->names, scope->results[i]))
      define(scope, scope->results[i], rest.results[i], "result");
  }
  scope->position = scope->node_count;
}

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

static void inline_graph(tn__onode *n, const Onnx__GraphProto *body, tn__value *const *inputs, int input_count,
                         tn__value **outputs, int output_count, tn__onode *inlined) {
  const char *origin = tn__graph_origin(n->g);
  tn__oscope *scope = TN__NEW(n->arena, tn__oscope);
  scope_init(scope, n->importer, n->scope);
  if (body->n_input != (size_t)input_count)
    tn__on_fail(n, "its body \"%s\" takes %zu inputs, expected %d", text_of(body->name), body->n_input, input_count);
  if (body->n_output != (size_t)output_count)
    tn__on_fail(n, "its body \"%s\" makes %zu results, expected %d", text_of(body->name), body->n_output, output_count);
  scope->graph = body;
  scope->inlined = inlined;
  set_results(scope, body->output, body->n_output);
  define_initializers(scope, body);
  tn__graph_set_origin(n->g, origin);
  for (int i = 0; i < input_count; i++)
    define(scope, text_of(body->input[i]->name), inputs[i] == NULL ? (const void *)absent : inputs[i], "body input");
  import_nodes(scope, body->node, body->n_node);
  tn__graph_set_origin(n->g, origin);
  for (int i = 0; i < output_count && !scope->has_ended; i++) {
    outputs[i] = look_up(scope, text_of(body->output[i]->name), "result");
    if (outputs[i] == NULL) tn__on_fail(n, "its body \"%s\" leaves result %d out", text_of(body->name), i);
  }
}

void tn__onnx_inline_graph(tn__onode *n, const Onnx__GraphProto *body, tn__value *const *inputs, int input_count,
                           tn__value **outputs, int output_count) {
  inline_graph(n, body, inputs, input_count, outputs, output_count, NULL);
}

void tn__onnx_inline_whole(tn__onode *n, const Onnx__GraphProto *body) {
  inline_graph(n, body, NULL, 0, n->out, n->output_count, n);
}

tn__body *tn__onnx_body(const tn__onode *n) { return n->importer->body; }

tn__onode *tn__onnx_enter(tn__onode *n, tn__body *body) {
  tn__onode *inside = tn__arena_copy(n->arena, n, sizeof(*n));
  n->importer->body = body;
  n->importer->g = inside->g = body->g;
  return inside;
}

void tn__onnx_leave(tn__onode *n, tn__body *body) {
  n->importer->body = body->parent;
  n->importer->g = n->g;
}

void tn__onnx_inline_function(tn__onode *n, const Onnx__FunctionProto *function,
                              const Onnx__OperatorSetIdProto *override_import) {
  const char *origin = tn__graph_origin(n->g);
  tn__oscope *scope = TN__NEW(n->arena, tn__oscope);
  scope_init(scope, n->importer, NULL);
  for (const tn__onode *caller = n; caller != NULL; caller = caller->scope->caller)
    if (caller->scope->function == function) tn__on_fail(n, "function %s calls itself", n->name);
  scope->depth = n->scope->depth + 1;
  if (scope->depth > TN__ONNX_MAX_FUNCTION_DEPTH)
    tn__on_unsupported(n, "functions call functions more than %d deep", TN__ONNX_MAX_FUNCTION_DEPTH);
  if ((size_t)n->input_count > function->n_input)
    tn__on_fail(n, "has %d inputs; function %s takes at most %zu", n->input_count, n->name, function->n_input);
  if ((size_t)n->output_count > function->n_output)
    tn__on_fail(n, "has %d outputs; function %s makes at most %zu", n->output_count, n->name, function->n_output);
  scope->caller = n;
  scope->function = function;
  if (override_import != NULL) {
    Onnx__OperatorSetIdProto **imports = TN__NEW_ARRAY(n->arena, 1, Onnx__OperatorSetIdProto *);
    imports[0] = tn__arena_copy(n->arena, override_import, sizeof(*override_import));
    scope->imports = imports;
    scope->import_count = 1;
  } else {
    scope->imports = function->opset_import;
    scope->import_count = function->n_opset_import;
  }
  scope->results = (const char *const *)function->output, scope->result_count = n->output_count;
  scope->inlined = n;
  for (size_t i = 0; i < function->n_input; i++) {
    tn__value *value = i < (size_t)n->input_count ? n->in[i] : NULL;
    define(scope, function->input[i], value == NULL ? (const void *)absent : value, "parameter");
  }
  import_nodes(scope, function->node, function->n_node);
  tn__graph_set_origin(n->g, origin);
  for (int i = 0; i < n->output_count && !scope->has_ended; i++)
    if (n->proto->output[i][0] != '\0') n->out[i] = look_up(scope, function->output[i], "result");
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static void check_supported(tn__importer *im) {
  const tn__onnx_op_use *uses;
  int count = tn__onnx_op_uses(im->model, &uses), missing = 0;
  const char *text = "";
  for (int i = 0; i < count; i++) {
    if (uses[i].supported) continue;
    text = tn__arena_printf(im->arena, "%s%s %s%s%s (%s)", text, missing > 0 ? "," : "", uses[i].domain,
                            uses[i].domain[0] == '\0' ? "" : ":", uses[i].name, uses[i].why);
    missing++;
  }
  if (missing > 0)
    tn__throwf(im->arena->escape, TN_UNSUPPORTED, "%d operator%s not supported:%s", missing,
               missing == 1 ? " is" : "s are", text);
}

static void import_body(tn__escape *escape, void *arg) {
  tn__importer *im = arg;
  const Onnx__ModelProto *proto = im->model->proto;
  check_supported(im);
  const char *name = text_of(proto->graph->name);
  im->g = im->main = tn__graph_create(im->ir, name[0] == '\0' ? "main" : tn__arena_strdup(im->arena, name));
  im->dim_used = TN__NEW_ARRAY(im->arena, im->options->dim_count, bool);
  tn__oscope *scope = TN__NEW(im->arena, tn__oscope);
  scope_init(scope, im, NULL);
  scope->imports = proto->opset_import;
  scope->import_count = proto->n_opset_import;
  scope->graph = proto->graph;
  set_results(scope, proto->graph->output, proto->graph->n_output);
  define_initializers(scope, proto->graph);
  for (size_t i = 0; i < proto->graph->n_input; i++) define_input(scope, proto->graph->input[i]);
  check_bindings(im);
  import_nodes(scope, proto->graph->node, proto->graph->n_node);
  define_outputs(scope, proto->graph);
  tn__graph_set_origin(im->g, NULL);
}

tn__graph *tn__onnx_import(tn__onnx_model *model, tn__ir *ir, const tn__onnx_options *options) {
  static const tn__onnx_options none = {0};
  tn__arena *arena = tn__ir_arena(ir);
  tn__importer *im = TN__NEW(arena, tn__importer);
  *im = (tn__importer){.model = model, .ir = ir, .arena = arena, .options = options == NULL ? &none : options};
  tn__onnx_with_path(model->path, arena, arena == model->arena ? NULL : model->arena, import_body, im);
  return im->g;
}
