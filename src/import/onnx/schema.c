/* Holds nodes to the generated table of schemas. */
#include "import/onnx/schema.h"
#include "base/message.h"
#include "graph/build/list.h"

#include <string.h>

#include "import/onnx/ops.h"

/* Bits are ONNX's numbers of element types. */
typedef struct type_set {
  uint32_t tensors, sequences; /* of which elements */
  bool optional;               /* values that are optional, too */
} type_set;

typedef enum input_option { SINGLE, OPTIONAL, VARIADIC } input_option;

typedef struct schema_input {
  const char *name;
  uint8_t option; /* input_option; VARIADIC stands for itself and for all that follow */
  uint8_t types;  /* in type_sets */
  uint8_t shared; /* operands with the same number other than 0 have one element type */
  uint16_t ranks; /* bits */
  int8_t like, shift;
  bool at_most; /* when like >= 0: also the rank of operand `like` + shift, or any up to that */
} schema_input;

typedef struct schema_attribute {
  const char *name;
  uint8_t kind; /* ONNX's AttributeProto.AttributeType */
  bool required;
} schema_attribute;

struct tn__onnx_schema {
  const char *domain, *name;
  int version;
  const schema_input *inputs;
  int input_count;
  int min_inputs, max_inputs, max_outputs; /* -1: any number */
  const schema_attribute *attributes;
  int attribute_count;
  bool open; /* any other attribute may be there, too */
};

#include "import/onnx/schemas.inc"

static_assert(TN__MAX_RANK == 12, "the ranks of schemas.inc are those up to 12");
enum { SCHEMA_COUNT = sizeof(schemas) / sizeof(*schemas), ANY_RANKS = (1 << (TN__MAX_RANK + 1)) - 1 };

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* By domain and name, then by version. */
static int order(const tn__onnx_schema *s, const char *domain, const char *name, int64_t version) {
  int by = strcmp(s->domain, domain);
  if (by == 0) by = strcmp(s->name, name);
  return by != 0 ? by : (s->version > version) - (s->version < version);
}

const tn__onnx_schema *tn__onnx_schema_find(const char *domain, const char *name, int64_t version) {
  int low = 0, high = SCHEMA_COUNT; /* those before `low` are not behind what is looked for */
  while (low < high) {
    int middle = (low + high) / 2;
    if (order(&schemas[middle], domain, name, version) <= 0)
      low = middle + 1;
    else
      high = middle;
  }
  const tn__onnx_schema *found = low == 0 ? NULL : &schemas[low - 1];
  return found != NULL && strcmp(found->domain, domain) == 0 && strcmp(found->name, name) == 0 ? found : NULL;
}

static const schema_input *input_at(const tn__onnx_schema *s, int input) {
  return &s->inputs[input < s->input_count ? input : s->input_count - 1];
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

static void check_counts(const tn__onode *n, const tn__onnx_schema *s) {
  if (s->max_inputs >= 0 && n->input_count > s->max_inputs)
    tn__on_fail(n, "has %d inputs; %s takes at most %d", n->input_count, n->name, s->max_inputs);
  if (s->max_outputs >= 0 && n->output_count > s->max_outputs)
    tn__on_fail(n, "has %d outputs; %s makes at most %d", n->output_count, n->name, s->max_outputs);
  int count = s->min_inputs > n->input_count ? s->min_inputs : n->input_count;
  for (int i = 0; i < count; i++) {
    const schema_input *in = input_at(s, i);
    /* The values that bodies take may be absent. */
    bool needed = in->option == SINGLE || (in->option == VARIADIC && (in->shared != 0 || i < s->min_inputs));
    if (needed && (i >= n->input_count || n->in[i] == NULL))
      tn__on_fail(n, "input %d (%s) is missing; %s needs at least %d", i, in->name, n->name, s->min_inputs);
  }
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static const char *input_text(const tn__onode *n, const schema_input *in, int input) {
  return tn__shown_text(n->arena, "input %d \"%s\" (%s of %s)", input, n->proto->input[input], in->name, n->name);
}

/* "f32, f64 or bool": those of the set that Tenon has. */
static const char *types_text(tn__arena *arena, uint32_t types) {
  const char *text = "", *last = NULL;
  for (int32_t i = 0; i < 32; i++) {
    tn_dtype dtype = types >> i & 1 ? tn__onnx_dtype(i) : TN_DTYPE_INVALID;
    if (dtype == TN_DTYPE_INVALID) continue;
    if (last != NULL) text = tn__arena_printf(arena, "%s%s%s", text, text[0] == '\0' ? "" : ", ", last);
    last = tn_dtype_name(dtype);
  }
  return last == NULL ? "nothing that is supported"
                      : tn__arena_printf(arena, "%s%s%s", text, text[0] == '\0' ? "" : " or ", last);
}

static const char *type_name(const tn__value *v) {
  return v->narrow > 0 ? tn__g_narrow_name(v) : tn_dtype_name(v->dtype);
}

static bool is_tensor(const tn__value *v) { return !tn__g_is_sequence(v) && !tn__g_is_list(v); }

static const char *kinds_text(const type_set *set) {
  return set->tensors == 0 ? "a sequence" : set->sequences == 0 ? "a tensor" : "a tensor or a sequence";
}

static void check_kind(const tn__onode *n, const schema_input *in, int input, const type_set *set) {
  const tn__value *v = n->in[input];
  bool optional = tn__g_is_absent(v) || (tn__g_is_list(v) && v->holds != TN__HOLDS_SEQUENCE);
  if (optional && !set->optional)
    tn__on_fail(n, "%s is an optional value%s, expected %s", input_text(n, in, input),
                tn__g_is_absent(v) ? " that is absent" : "", kinds_text(set));
  if (!optional && (is_tensor(v) ? set->tensors : set->sequences) == 0)
    tn__on_fail(n, "%s is a %s, expected %s", input_text(n, in, input), is_tensor(v) ? "tensor" : "sequence",
                kinds_text(set));
}

static void check_type(const tn__onode *n, const tn__onnx_schema *s, int input) {
  const schema_input *in = input_at(s, input);
  const tn__value *v = n->in[input];
  const type_set *set = &type_sets[in->types];
  check_kind(n, in, input, set);
  tn_dtype dtype;
  int rank;
  if (!tn__g_list_type(v, &dtype, &rank)) return; /* an empty sequence: nothing tells it */
  bool listed = tn__g_is_list(v) && v->holds == TN__HOLDS_OPTIONAL;
  uint32_t taken = is_tensor(v) || listed ? set->tensors : set->sequences;
  if ((taken >> tn__onnx_element(dtype, v->narrow) & 1) == 0)
    tn__on_fail(n, "%s is %s, expected %s", input_text(n, in, input),
                is_tensor(v) ? type_name(v) : tn_dtype_name(dtype), types_text(n->arena, taken));
  for (int i = 0; i < input && in->shared != 0; i++) {
    const schema_input *other = input_at(s, i);
    if (n->in[i] == NULL || other->shared != in->shared || !is_tensor(v) || !is_tensor(n->in[i])) continue;
    if (n->in[i]->dtype != dtype || n->in[i]->narrow != v->narrow)
      tn__on_fail(n, "%s is %s, expected %s, the type of input %d (%s)", input_text(n, in, input), type_name(v),
                  type_name(n->in[i]), i, other->name);
    return;
  }
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

/* "2", "3 or 4", "1 to 4", "at least 2". */
static const char *ranks_text(tn__arena *arena, unsigned ranks) {
  int low = 0, high = TN__MAX_RANK;
  while ((ranks >> low & 1) == 0) low++;
  while ((ranks >> high & 1) == 0) high--;
  if (low == high) return tn__arena_printf(arena, "%d", low);
  if (high == TN__MAX_RANK) return tn__arena_printf(arena, "at least %d", low);
  return tn__arena_printf(arena, "%d %s %d", low, low + 1 == high ? "or" : "to", high);
}

static void check_rank(const tn__onode *n, const tn__onnx_schema *s, int input) {
  const schema_input *in = input_at(s, input);
  int rank = n->in[input]->rank;
  const tn__value *like = in->like >= 0 && n->in[in->like] != NULL ? n->in[in->like] : NULL;
  int other = like == NULL ? 0 : like->rank + in->shift;
  if (in->ranks >> rank & 1) return;
  if (like != NULL && (in->at_most ? rank <= other : rank == other)) return;
  const char *expected = in->ranks == 0 ? "" : ranks_text(n->arena, in->ranks);
  if (like != NULL)
    expected = tn__arena_printf(n->arena, "%s%s%s%d, %s input %d (%s)", expected, in->ranks == 0 ? "" : " or ",
                                in->at_most ? "at most " : "", other, in->shift == 0 ? "as many as" : "one less than",
                                in->like, s->inputs[in->like].name);
  tn__on_fail(n, "%s has %d dimension%s, expected %s", input_text(n, in, input), rank, tn__plural(rank), expected);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

typedef enum attribute_kind { /* ONNX's AttributeProto.AttributeType */
                              KIND_FLOAT = 1,
                              KIND_INT,
                              KIND_STRING,
                              KIND_TENSOR,
                              KIND_GRAPH,
                              KIND_FLOATS,
                              KIND_INTS,
                              KIND_STRINGS,
                              KIND_TENSORS,
                              KIND_GRAPHS,
                              KIND_SPARSE_TENSOR,
                              KIND_SPARSE_TENSORS,
                              KIND_TYPE,
                              KIND_TYPES
} attribute_kind;

/* Messages must be there; of numbers and lists the absent one is 0 or empty, so that `type` is enough. Old files leave
 * `type` out (0). */
static bool holds(const Onnx__AttributeProto *a, attribute_kind kind) {
  if (a->type != 0 && a->type != (int32_t)kind) return false;
  bool named = a->type != 0;
  switch (kind) {
    case KIND_FLOAT: return named || a->has_f;
    case KIND_INT: return named || a->has_i;
    case KIND_STRING: return named || a->has_s;
    case KIND_TENSOR: return a->t != NULL;
    case KIND_GRAPH: return a->g != NULL;
    case KIND_FLOATS: return named || a->n_floats > 0;
    case KIND_INTS: return named || a->n_ints > 0;
    case KIND_STRINGS: return named || a->n_strings > 0;
    case KIND_SPARSE_TENSOR: return a->sparse_tensor != NULL;
    case KIND_TYPE: return a->tp != NULL;
    default: return named;
  }
}

static const char *kind_text(attribute_kind kind) {
  static const char *const texts[] = {"",
                                      "a float",
                                      "an integer",
                                      "a string",
                                      "a tensor",
                                      "a graph",
                                      "a list of floats",
                                      "a list of integers",
                                      "a list of strings",
                                      "a list of tensors",
                                      "a list of graphs",
                                      "a sparse tensor",
                                      "a list of sparse tensors",
                                      "a type",
                                      "a list of types"};
  return texts[kind];
}

static const schema_attribute *find_attribute(const tn__onnx_schema *s, const char *name) {
  for (int i = 0; i < s->attribute_count; i++)
    if (strcmp(s->attributes[i].name, name) == 0) return &s->attributes[i];
  return NULL;
}

/* An attribute that means nothing in this version would be ignored, and whoever wrote it meant something. */
static _Noreturn void fail_unknown(const tn__onode *n, const tn__onnx_schema *s, const char *name) {
  const tn__onnx_schema *last = s, *end = schemas + SCHEMA_COUNT;
  const char *when = "";
  for (const tn__onnx_schema *o = s + 1; o < end && when[0] == '\0' && order(o, s->domain, s->name, o->version) == 0;
       o++)
    if (find_attribute(o, name) != NULL) when = tn__arena_printf(n->arena, "; it came with %d", o->version);
  for (const tn__onnx_schema *o = s; o > schemas && when[0] == '\0'; o--, last = o) {
    if (order(o - 1, s->domain, s->name, o[-1].version) != 0) break;
    if (find_attribute(o - 1, name) != NULL) when = tn__arena_printf(n->arena, "; it went with %d", last->version);
  }
  tn__on_fail(n, "attribute \"%s\" is unknown to %s in operator set %lld%s", name, n->name, (long long)n->version,
              when);
}

static void check_attributes(const tn__onode *n, const tn__onnx_schema *s) {
  for (size_t i = 0; i < n->proto->n_attribute; i++) {
    const char *name = n->proto->attribute[i]->name == NULL ? "" : n->proto->attribute[i]->name;
    const schema_attribute *known = find_attribute(s, name);
    if (known == NULL && (s->open || strncmp(name, "__", 2) == 0)) continue; /* names of "__" are tools' own */
    if (known == NULL) fail_unknown(n, s, name);
    const Onnx__AttributeProto *a = tn__on_attr(n, name);
    if (a != NULL && !holds(a, (attribute_kind)known->kind))
      tn__on_fail(n, "attribute \"%s\" is not %s", name, kind_text((attribute_kind)known->kind));
  }
  for (int i = 0; i < s->attribute_count; i++)
    if (s->attributes[i].required && tn__on_attr(n, s->attributes[i].name) == NULL)
      tn__on_fail(n, "attribute \"%s\" is missing", s->attributes[i].name);
}

void tn__onnx_schema_check(const tn__onode *n) {
  const tn__onnx_schema *s = tn__onnx_schema_find(n->domain, n->name, n->version);
  if (s == NULL) return; /* the operator is not in this version, which is the importer's to say */
  check_counts(n, s);
  for (int i = 0; i < n->input_count; i++) {
    if (n->in[i] == NULL) continue;
    check_type(n, s, i);
    if (is_tensor(n->in[i])) check_rank(n, s, i);
  }
  check_attributes(n, s);
}
