/* Common subexpressions: equal nodes become one, and so do equal constants. */
#include <string.h>

#include "base/hash.h"
#include "graph/passes/rewrite.h"

/* Larger constants are equal only when they are the same memory: reading all weights would cost more than it finds. */
enum { MAX_COMPARED_BYTES = 1 << 14, SAMPLES = 8, SAMPLE_BYTES = 16 };

typedef struct entry {
  uint64_t hash;
  tn__node *node;   /* or, in the table of constants, */
  tn__value *value; /* a value */
  struct entry *next;
} entry;

typedef struct table {
  entry **buckets;
  uint32_t mask;
} table;

static table table_create(tn__arena *arena, int expected) {
  uint32_t size = 64;
  while (size < (uint32_t)expected) size *= 2;
  return (table){TN__NEW_ARRAY(arena, size, entry *), size - 1};
}

static void table_add(tn__arena *arena, table *t, uint64_t hash, tn__node *node, tn__value *value) {
  entry *e = TN__NEW(arena, entry);
  entry **bucket = &t->buckets[hash & t->mask];
  *e = (entry){hash, node, value, *bucket};
  *bucket = e;
}

/* The first entry of a chain that has the hash. Each is a step of work: what is compared must not grow with the square
 * of the graph. */
static const entry *with_hash(tn__arena *arena, const entry *e, uint64_t hash) {
  while (e != NULL && e->hash != hash) e = e->next;
  tn__work_step(arena, e != NULL);
  return e;
}

/* ---- constants ---------------------------------------------------------------------------------- */

static int64_t data_bytes(const tn__value *value) {
  int64_t total = value->splat ? 1 : tn__pass_element_total(value);
  return total * (int64_t)tn__dtype_stored(value->dtype);
}

static uint64_t hash_constant(const tn__value *value) {
  uint64_t hash = tn__hash_mix((uint64_t)value->dtype, (uint64_t)value->rank * 2 + value->splat);
  for (int i = 0; i < value->rank; i++) hash = tn__hash_mix(hash, (uint64_t)tn__g_dim_const(value, i));
  size_t bytes = (size_t)data_bytes(value), apart = bytes / SAMPLES;
  if (bytes <= MAX_COMPARED_BYTES) return tn__hash_bytes(hash, value->data, bytes);
  for (size_t i = 0; i < SAMPLES; i++) hash = tn__hash_bytes(hash, (const char *)value->data + i * apart, SAMPLE_BYTES);
  return hash;
}

/* What was planned for two devices stays two values. */
static bool may_be_together(const tn__value *a, const tn__value *b) {
  return a->device == NULL || b->device == NULL || a->device == b->device;
}

static bool equal_constants(const tn__value *a, const tn__value *b) {
  if (!tn__pass_same_type(a, b) || a->splat != b->splat || !may_be_together(a, b)) return false;
  if (a->data == b->data) return true;
  return data_bytes(a) <= MAX_COMPARED_BYTES && memcmp(a->data, b->data, (size_t)data_bytes(a)) == 0;
}

static tn__value *unique_constant(tn__arena *arena, table *t, tn__value *value) {
  uint64_t hash = hash_constant(value);
  const entry *e = with_hash(arena, t->buckets[hash & t->mask], hash);
  while (e != NULL && !equal_constants(e->value, value)) e = with_hash(arena, e->next, hash);
  if (e != NULL) return e->value;
  table_add(arena, t, hash, NULL, value);
  return value;
}

/* ---- nodes -------------------------------------------------------------------------------------- */

static uint64_t hash_node(const tn__node *node) {
  uint64_t hash = tn__hash_string(0, node->op->name);
  for (int i = 0; i < node->input_count; i++)
    hash = tn__hash_mix(hash, node->inputs[i] == NULL ? UINT64_MAX : node->inputs[i]->id);
  for (int i = 0; i < node->attr_count; i++) {
    const tn__attr *attr = &node->attrs[i];
    hash = tn__hash_mix(tn__hash_string(hash, attr->name), (uint64_t)attr->count);
    if (attr->kind == TN__ATTR_INTS) hash = tn__hash_bytes(hash, attr->ints, (size_t)attr->count * sizeof *attr->ints);
    if (attr->kind == TN__ATTR_FLOATS)
      hash = tn__hash_bytes(hash, attr->floats, (size_t)attr->count * sizeof *attr->floats);
    if (attr->kind == TN__ATTR_STRING) hash = tn__hash_string(hash, attr->string);
    for (int j = 0; attr->kind == TN__ATTR_EXPRS && j < attr->count; j++)
      hash = tn__hash_mix(hash, attr->exprs[j]->hash);
  }
  return hash;
}

static bool equal_attrs(const tn__attr *a, const tn__attr *b) {
  if (a->kind != b->kind || a->count != b->count || strcmp(a->name, b->name) != 0) return false;
  size_t count = (size_t)a->count;
  switch (a->kind) {
    case TN__ATTR_INTS: return memcmp(a->ints, b->ints, count * sizeof *a->ints) == 0;
    case TN__ATTR_FLOATS: return memcmp(a->floats, b->floats, count * sizeof *a->floats) == 0;
    case TN__ATTR_STRING: return strcmp(a->string, b->string) == 0;
    case TN__ATTR_EXPRS:
      return count == 0 || memcmp(a->exprs, b->exprs, count * sizeof(*a->exprs)) == 0; /* hash-consed */
  }
  return false;
}

static bool equal_nodes(const tn__node *a, const tn__node *b) {
  if (a->op != b->op || a->input_count != b->input_count || a->attr_count != b->attr_count) return false;
  if (a->output_count != b->output_count) return false;
  for (int i = 0; i < a->input_count; i++)
    if (a->inputs[i] != b->inputs[i]) return false;
  for (int i = 0; i < a->attr_count; i++)
    if (!equal_attrs(&a->attrs[i], &b->attrs[i])) return false;
  for (int i = 0; i < a->output_count; i++)
    if (!tn__pass_same_type(a->outputs[i], b->outputs[i]) || !may_be_together(a->outputs[i], b->outputs[i]))
      return false;
  return true;
}

/* What a control operator's bodies do is not compared. */
static bool may_merge(const tn__node *node) {
  return node->op->lowering == TN__LOWER_DECLARE && node->graph_count == 0;
}

typedef struct uniter {
  tn__arena *arena;
  tn__rewriter rewriter;
  table nodes, constants;
} uniter;

static void unite(void *user, tn__node *node) {
  uniter *u = user;
  for (int i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NULL && tn__pass_is_constant(node->inputs[i]))
      tn__node_set_input(u->rewriter.graph, node, i, unique_constant(u->arena, &u->constants, node->inputs[i]));
  if (!may_merge(node)) return;
  uint64_t hash = hash_node(node);
  const entry *e = with_hash(u->arena, u->nodes.buckets[hash & u->nodes.mask], hash);
  while (e != NULL && !equal_nodes(e->node, node)) e = with_hash(u->arena, e->next, hash);
  if (e == NULL) table_add(u->arena, &u->nodes, hash, node, NULL);
  for (int i = 0; e != NULL && i < node->output_count; i++)
    tn__pass_put_in_place(&u->rewriter, node->outputs[i], e->node->outputs[i]);
}

void tn__pass_cse(tn__graph *graph, const tn__optimize_options *options) {
  uniter u = {.arena = tn__graph_arena(graph)};
  int count = tn__graph_node_count(graph), operands = 0;
  tn__rewriter_init(&u.rewriter, graph, options);
  for (int i = 0; i < count; i++) operands += tn__graph_node_at(graph, i)->input_count;
  u.nodes = table_create(u.arena, count);
  u.constants = table_create(u.arena, operands);
  tn__pass_visit(graph, unite, &u);
  tn__graph_sweep(graph);
}
