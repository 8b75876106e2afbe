/* Which operators a model uses and whether they are supported, functions and branches included; and ONNX's own function
 * bodies. */
#include <stdlib.h>
#include <string.h>

#include "import/onnx/internal.h"

#include "import/onnx/function_bodies.inc"

/* ---- ONNX's function bodies -------------------------------------------------------------------------------------- */

/* The newest definition that is not newer than `version`, in the oldest operator set that it is written in from there
 * on. */
static const struct function_body *find_body(const char *name, int64_t version) {
  const struct function_body *best = NULL;
  for (size_t i = 0; i < sizeof(function_bodies) / sizeof(*function_bodies); i++) {
    const struct function_body *body = &function_bodies[i];
    if (strcmp(body->op_type, name) != 0 || body->since_version > version) continue;
    if (best == NULL || body->since_version > best->since_version ||
        (body->since_version == best->since_version && body->body_opset <= version))
      best = body;
  }
  return best;
}

const Onnx__FunctionProto *tn__onnx_function_body(tn__onnx_model *model, const char *name, int64_t version,
                                                  int64_t *opset) {
  const struct function_body *body = find_body(name, version);
  if (body == NULL) return NULL;
  *opset = body->body_opset;
  return (const Onnx__FunctionProto *)tn__onnx_decode_wire(model->arena, &onnx__function_proto__descriptor, body->bytes,
                                                           body->size);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

const tn__onnx_op *tn__onnx_op_find(const char *domain, const char *name) {
  int low = 0, high = tn__onnx_op_count;
  while (low < high) {
    int middle = (low + high) / 2;
    const tn__onnx_op *op = &tn__onnx_ops[middle];
    int order = strcmp(domain, op->domain);
    if (order == 0) order = strcmp(name, op->name);
    if (order == 0) return op;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}

/* ---- uses -------------------------------------------------------------------------------------------------------- */

typedef struct walk {
  tn__onnx_model *model;
  tn__map uses;    /* "domain:name version" -> tn__onnx_op_use * */
  tn__map visited; /* functions */
  int depth;       /* of functions */
} walk;

static int64_t version_in(Onnx__OperatorSetIdProto *const *imports, size_t count, const char *domain) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(tn__onnx_domain(imports[i]->domain), domain) == 0) return imports[i]->version;
  return 0;
}

/* ONNX's own domains; others are of who made the model. */
static bool is_known_domain(const char *domain) {
  static const char *const domains[] = {"ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training",
                                        "ai.onnx.training"};
  for (size_t i = 0; i < sizeof(domains) / sizeof(domains[0]); i++)
    if (strcmp(domain, domains[i]) == 0) return true;
  return false;
}

static tn__onnx_op_use describe(const char *domain, const char *name, int64_t version) {
  const tn__onnx_op *op = tn__onnx_op_find(domain, name);
  tn__onnx_op_use use = {.domain = domain, .name = name, .since_version = (int)version};
  bool has_body = domain[0] == '\0' && find_body(name, version) != NULL;
  use.supported = (op != NULL && op->fn != NULL) || has_body;
  if (!use.supported)
    use.why = op != NULL                ? op->why
              : domain[0] == '\0'       ? "unknown to ONNX's operator sets 6 to 28"
              : is_known_domain(domain) ? "Tenon does not have it yet"
                                        : "its domain is unknown";
  for (size_t i = 0; op != NULL && i < sizeof(op->versions) && op->versions[i] != 0; i++)
    if (op->versions[i] <= version) use.since_version = op->versions[i];
  return use;
}

static void visit_nodes(walk *w, Onnx__NodeProto *const *nodes, size_t count, Onnx__OperatorSetIdProto *const *imports,
                        size_t import_count);

static void visit_function(walk *w, const char *key, const Onnx__FunctionProto *f) {
  if (tn__map_has(&w->visited, key)) return;
  tn__map_set(&w->visited, key, w);
  if (++w->depth > TN__ONNX_MAX_FUNCTION_DEPTH)
    tn__throwf(w->model->arena->escape, TN_UNSUPPORTED, "functions call functions more than %d deep",
               TN__ONNX_MAX_FUNCTION_DEPTH);
  visit_nodes(w, f->node, f->n_node, f->opset_import, f->n_opset_import);
  w->depth--;
}

/* Recursion is bounded by the nesting of graphs that the wire allows times the functions, each of which is entered
 * once. */
static void visit_nodes(walk *w, Onnx__NodeProto *const *nodes, size_t count, Onnx__OperatorSetIdProto *const *imports,
                        size_t import_count) {
  tn__arena *arena = w->model->arena;
  for (size_t i = 0; i < count; i++) {
    const Onnx__NodeProto *node = nodes[i];
    for (size_t k = 0; k < node->n_attribute; k++) {
      const Onnx__GraphProto *body = node->attribute[k]->g;
      if (body != NULL) visit_nodes(w, body->node, body->n_node, imports, import_count);
    }
    const char *domain = tn__onnx_domain(node->domain), *name = node->op_type == NULL ? "" : node->op_type;
    const char *function_key = tn__onnx_function_key(arena, domain, name, node->overload);
    const Onnx__FunctionProto *function = tn__map_get(&w->model->functions, function_key);
    if (function != NULL) {
      visit_function(w, function_key, function);
      continue;
    }
    tn__onnx_op_use fresh = describe(domain, name, version_in(imports, import_count, domain));
    const char *key = tn__arena_printf(arena, "%s:%s %d", domain, name, fresh.since_version);
    tn__onnx_op_use *use = tn__map_get(&w->uses, key);
    if (use == NULL) {
      use = tn__arena_copy(arena, &fresh, sizeof(fresh));
      tn__map_set(&w->uses, key, use);
    }
    use->count++;
  }
}

static int by_name(const void *a, const void *b) {
  const tn__onnx_op_use *x = a, *y = b;
  int order = strcmp(x->domain, y->domain);
  if (order == 0) order = strcmp(x->name, y->name);
  return order != 0 ? order : (x->since_version > y->since_version) - (x->since_version < y->since_version);
}

int tn__onnx_op_uses(tn__onnx_model *model, const tn__onnx_op_use **out) {
  walk *w = TN__NEW(model->arena, walk);
  w->model = model;
  tn__map_init(&w->uses, model->arena);
  tn__map_init(&w->visited, model->arena);
  const Onnx__ModelProto *proto = model->proto;
  visit_nodes(w, proto->graph->node, proto->graph->n_node, proto->opset_import, proto->n_opset_import);
  tn__onnx_op_use *uses = TN__NEW_ARRAY(model->arena, w->uses.count, tn__onnx_op_use);
  for (int i = 0; i < w->uses.count; i++) uses[i] = *(const tn__onnx_op_use *)w->uses.entries[i].value;
  qsort(uses, (size_t)w->uses.count, sizeof(*uses), by_name);
  *out = uses;
  return w->uses.count;
}

int tn__onnx_known_ops(tn__arena *arena, const tn__onnx_op_use **out) {
  int bodies = (int)(sizeof(function_bodies) / sizeof(*function_bodies)), count = 0;
  tn__onnx_op_use *uses = TN__NEW_ARRAY(arena, tn__onnx_op_count + bodies, tn__onnx_op_use);
  for (int i = 0; i < tn__onnx_op_count; i++)
    uses[count++] = describe(tn__onnx_ops[i].domain, tn__onnx_ops[i].name, TN__ONNX_NEWEST);
  for (int i = 0; i < bodies; i++) {
    const char *name = function_bodies[i].op_type;
    bool repeated = i > 0 && strcmp(function_bodies[i - 1].op_type, name) == 0;
    if (repeated || tn__onnx_op_find("", name) != NULL) continue;
    uses[count] = describe("", name, TN__ONNX_NEWEST);
    uses[count++].since_version = find_body(name, TN__ONNX_NEWEST)->since_version;
  }
  qsort(uses, (size_t)count, sizeof(*uses), by_name);
  *out = uses;
  return count;
}
