#include "graph/relations.h"

#include <string.h>

#include "graph/internal.h"

enum { MOST_NAMES = 32, MOST_OPERANDS = 16 };

/* A stretch of the text. */
typedef struct word {
  const char *text;
  int length;
} word;

/* A size that has a name, and where it was met first. */
typedef struct size {
  word name;
  const tn__expr *value;
  int operand, axis;
} size;

/* Dimensions that have one name. */
typedef struct group {
  word name;
  int operand, first, count;
} group;

/* An operand that is there: the shape of it that counts, behind its bracket. */
typedef struct shape {
  int index, wide; /* wide: the number of dimensions of its group */
  const char *at;
} shape;

typedef struct relating {
  const tn__relating *r; /* NULL: the text is only read */
  const char *at;
  bool wrong; /* the text is not one of relations */
  int size_count, group_count, shape_count, name_count;
  size sizes[MOST_NAMES];
  group groups[MOST_NAMES];
  shape shapes[TN__MAX_ELEMENTS]; /* of the operands that have one */
  word names[MOST_OPERANDS];
  bool repeats; /* the last name is that of all further operands */
} relating;

/* ---- text -------------------------------------------------------------------------------------------------------- */

static bool same_word(word a, word b) { return a.length == b.length && memcmp(a.text, b.text, (size_t)a.length) == 0; }

static void skip_blanks(relating *c) {
  while (*c->at == ' ') c->at++;
}

static bool take(relating *c, const char *sign) {
  size_t length = strlen(sign);
  skip_blanks(c);
  if (strncmp(c->at, sign, length) != 0) return false;
  c->at += length;
  return true;
}

static void expect(relating *c, const char *sign) {
  if (!take(c, sign)) c->wrong = true;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static word take_name(relating *c) {
  skip_blanks(c);
  word w = {c->at, 0};
  if (!is_letter(*c->at)) c->wrong = true;
  while (is_letter(*c->at) || is_digit(*c->at)) c->at++;
  w.length = (int)(c->at - w.text);
  return w;
}

static int64_t take_number(relating *c) {
  int64_t number = 0;
  if (!is_digit(*c->at)) c->wrong = true;
  for (; is_digit(*c->at) && number < INT32_MAX; c->at++) number = number * 10 + (*c->at - '0');
  return number;
}

/* The end of a dimension or of a sum in a condition. */
static const char *end_of_sum(const char *at) {
  int depth = 0;
  for (; *at != '\0' && (depth > 0 || strchr(",]<>=", *at) == NULL || (*at == '=' && is_digit(at[1]))); at++) {
    depth += *at == '(';
    depth -= *at == ')';
  }
  return at;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static const size *find_size(const relating *c, word name) {
  for (int i = 0; i < c->size_count; i++)
    if (same_word(c->sizes[i].name, name)) return &c->sizes[i];
  return NULL;
}

static tn__ir *ir_of(const relating *c) { return c->r->graph->ir; }

static const tn__expr *attribute(relating *c) {
  word name = take_name(c);
  int64_t value = 0, own;
  bool given = *c->at == '=' && is_digit(c->at[1]);
  if (given) {
    c->at++;
    value = take_number(c);
  }
  if (c->r == NULL || c->wrong) return NULL;
  char text[64] = "";
  if (name.length < (int)sizeof(text)) memcpy(text, name.text, (size_t)name.length);
  if (c->r->attribute != NULL && c->r->attribute(c->r->user, text, &own)) {
    given = true;
    value = own;
  }
  return given ? tn__ir_index(ir_of(c), value) : NULL;
}

/* The element of an operand that is one integer. */
static const tn__expr *element(relating *c) {
  word name = take_name(c);
  if (c->r == NULL || c->wrong) return NULL;
  for (int i = 0; i < c->name_count; i++) {
    tn__value *value = i < c->r->count ? c->r->operands[i] : NULL;
    if (value == NULL || !same_word(c->names[i], name) || !tn__dtype_is_int(value->dtype)) continue;
    int count;
    const tn__expr *const *elements = tn__graph_elements(c->r->graph, value, &count);
    return elements != NULL && count == 1 ? elements[0] : NULL;
  }
  return NULL;
}

/* NULL: not known. */
static const tn__expr *take_sum(relating *c);

static const tn__expr *take_factor(relating *c) {
  skip_blanks(c);
  if (take(c, "(")) {
    const tn__expr *inner = take_sum(c);
    expect(c, ")");
    return inner;
  }
  if (take(c, "$")) return attribute(c);
  if (take(c, "#")) return element(c);
  if (is_digit(*c->at)) {
    int64_t number = take_number(c);
    return c->r == NULL ? NULL : tn__ir_index(ir_of(c), number);
  }
  word name = take_name(c);
  const size *known = find_size(c, name);
  return known == NULL ? NULL : known->value;
}

static const tn__expr *take_term(relating *c) {
  const tn__expr *a = take_factor(c);
  for (;;) {
    char sign = take(c, "*") ? '*' : take(c, "/") ? '/' : take(c, "%") ? '%' : '\0';
    if (sign == '\0' || c->wrong) return a;
    const tn__expr *b = take_factor(c);
    int64_t divisor;
    if (a == NULL || b == NULL)
      a = NULL;
    else if (sign == '*')
      a = tn__ir_mul(ir_of(c), a, b);
    else if (!tn__ir_as_int(b, &divisor) || divisor < 1)
      a = NULL;
    else
      a = sign == '/' ? tn__ir_div(ir_of(c), a, b) : tn__ir_mod(ir_of(c), a, b);
  }
}

static const tn__expr *take_sum(relating *c) {
  const tn__expr *a = take_term(c);
  for (;;) {
    bool minus = take(c, "-");
    if ((!minus && !take(c, "+")) || c->wrong) return a;
    const tn__expr *b = take_term(c);
    if (a == NULL || b == NULL)
      a = NULL;
    else
      a = minus ? tn__ir_sub(ir_of(c), a, b) : tn__ir_add(ir_of(c), a, b);
  }
}

/* ---- what must hold ---------------------------------------------------------------------------------------------- */

static const char *operand_text(const relating *c, int index) {
  const word *name = &c->names[index < c->name_count ? index : c->name_count - 1];
  return tn__arena_printf(c->r->graph->arena, "%s %d (%.*s)", c->r->word, index, name->length, name->text);
}

static const char *dimension_text(const relating *c, int operand, int axis) {
  return tn__arena_printf(c->r->graph->arena, "dimension %d of %s", axis, operand_text(c, operand));
}

/* What a sum is called: by the dimension that it is, or as it is written; "" for a number. */
static const char *sum_text(const relating *c, word text) {
  while (text.length > 0 && text.text[text.length - 1] == ' ') text.length--;
  while (text.length > 0 && *text.text == ' ') text.text++, text.length--;
  const size *known = find_size(c, text);
  if (known != NULL) return dimension_text(c, known->operand, known->axis);
  bool number = true;
  for (int i = 0; i < text.length; i++) number = number && is_digit(text.text[i]);
  return number ? "" : tn__arena_strndup(c->r->graph->arena, text.text, (size_t)text.length);
}

void tn__relate_sizes(tn__graph *graph, const char *left, const tn__expr *a, const char *sign, const char *right,
                      const tn__expr *b) {
  static const char *const signs[] = {"==", "<=", "<", ">=", ">"};
  static const char *const words[] = {"equal to", "at most", "less than", "at least", "greater than"};
  tn__ir *ir = graph->ir;
  int which = 0;
  while (which < 4 && strcmp(signs[which], sign) != 0) which++;
  const tn__expr *condition = which == 0   ? tn__ir_eq(ir, a, b)
                              : which == 1 ? tn__ir_le(ir, a, b)
                              : which == 2 ? tn__ir_lt(ir, a, b)
                              : which == 3 ? tn__ir_le(ir, b, a)
                                           : tn__ir_lt(ir, b, a);
  const char *comma = right[0] == '\0' ? "" : ", ";
  if (tn__ir_is_false(condition))
    tn__graph_fail(graph, TN_INVALID_ARGUMENT, "%s is %s, but must be %s %s%s%s", left, tn__g_expr_text(graph, a),
                   words[which], tn__g_expr_text(graph, b), comma, right);
  if (tn__ir_is_true(condition)) return;
  tn__graph_assume(graph, condition, "%s is %s, but must be %s %s%s%s", left, tn__g_size_text(graph, a), words[which],
                   tn__g_size_text(graph, b), comma, right);
}

static void require(const relating *c, const char *left, const tn__expr *a, const char *sign, const char *right,
                    const tn__expr *b) {
  const char *name = c->r->name;
  left = tn__arena_printf(c->r->graph->arena, "%s%s%s", name, name[0] == '\0' ? "" : ": ", left);
  tn__relate_sizes(c->r->graph, left, a, sign, right, b);
}

/* ---- shapes: met first, and then looked at when all names are known ---------------------------------------------- */

static _Noreturn void fail_rank(const relating *c, int index, const char *expected) {
  tn__graph_fail(c->r->graph, TN_INVALID_ARGUMENT, "%s%s%s must have %s dimension%s, but is %s", c->r->name,
                 c->r->name[0] == '\0' ? "" : ": ", operand_text(c, index), expected,
                 tn__plural(expected[strlen(expected) - 1] - '0'),
                 tn__value_type_text(c->r->graph, c->r->operands[index]));
}

static group *find_group(relating *c, word name) {
  for (int i = 0; i < c->group_count; i++)
    if (same_word(c->groups[i].name, name)) return &c->groups[i];
  return NULL;
}

/* One shape as it is written: how many dimensions it has beside its group, and what the group is called. */
typedef struct written {
  const char *at; /* behind the bracket */
  int fixed;
  bool open; /* has a group */
  word group;
} written;

/* Reads a shape; *fits tells whether its numbers are the sizes of `value`, which may be NULL. */
static written read_shape(relating *c, const tn__value *value, bool *fits) {
  written w = {.at = c->at};
  *fits = true;
  if (take(c, "]")) return w;
  for (int axis = 0; !c->wrong; axis++) {
    skip_blanks(c);
    int64_t number = -1;
    if (take(c, "*")) {
      w.open = true;
      w.group = take_name(c);
    } else {
      const char *end = end_of_sum(c->at);
      bool digits = is_digit(*c->at);
      for (const char *at = c->at; at < end; at++) digits = digits && is_digit(*at);
      if (digits)
        number = take_number(c);
      else
        (void)take_sum(c);
      w.fixed++;
    }
    if (number >= 0 && !w.open && value != NULL && axis < value->rank && tn__g_dim_const(value, axis) != number)
      *fits = false;
    if (take(c, "]")) break;
    expect(c, ",");
  }
  return w;
}

/* The number of dimensions that a group has when the operand has this shape; -1: it cannot have it. */
static int width_of(relating *c, const written *w, int rank) {
  const group *known = w->open ? find_group(c, w->group) : NULL;
  int wide = rank - w->fixed;
  if (wide < 0 || (!w->open && wide > 0) || (known != NULL && known->count != wide)) return -1;
  return wide;
}

static const char *rank_text(relating *c, const char *before, const written *w) {
  const group *known = w->open ? find_group(c, w->group) : NULL;
  bool open = w->open && known == NULL;
  if (!w->open && before[0] != '\0' && before[strlen(before) - 1] - '0' == w->fixed) return before;
  return tn__arena_printf(c->r->graph->arena, "%s%s%s%d", before, before[0] == '\0' ? "" : " or ",
                          open ? "at least " : "", w->fixed + (known != NULL ? known->count : 0));
}

/* Gives names to the sizes of a shape that have none yet. */
static void bind_shape(relating *c, const shape *s) {
  const tn__value *value = c->r->operands[s->index];
  const char *before = c->at;
  c->at = s->at;
  for (int axis = 0; !take(c, "]") && !c->wrong; (void)take(c, ",")) {
    skip_blanks(c);
    if (take(c, "*")) {
      word name = take_name(c);
      if (find_group(c, name) == NULL && c->group_count < MOST_NAMES)
        c->groups[c->group_count++] = (group){name, s->index, axis, s->wide};
      axis += s->wide;
      continue;
    }
    const char *end = end_of_sum(c->at);
    if (is_letter(*c->at)) {
      word name = take_name(c);
      bool plain = c->at == end && !(name.length == 1 && *name.text == '_');
      if (plain && find_size(c, name) == NULL && c->size_count < MOST_NAMES)
        c->sizes[c->size_count++] = (size){name, value->dims[axis], s->index, axis};
    }
    c->at = end;
    axis++;
  }
  c->at = before;
}

static void check_group(relating *c, const shape *s, const group *g, int axis) {
  const tn__value *value = c->r->operands[s->index], *first = c->r->operands[g->operand];
  for (int i = 0; i < g->count && g->operand != s->index; i++) {
    if (value->dims[axis + i] == first->dims[g->first + i]) continue; /* no words for what agrees, as nearly all does */
    require(c, dimension_text(c, s->index, axis + i), value->dims[axis + i],
            "==", dimension_text(c, g->operand, g->first + i), first->dims[g->first + i]);
  }
}

static void check_shape(relating *c, const shape *s) {
  const tn__value *value = c->r->operands[s->index];
  c->at = s->at;
  for (int axis = 0; !take(c, "]") && !c->wrong; (void)take(c, ",")) {
    skip_blanks(c);
    if (take(c, "*")) {
      const group *g = find_group(c, take_name(c));
      if (g != NULL) check_group(c, s, g, axis);
      axis += s->wide;
      continue;
    }
    word text = {c->at, 0};
    const tn__expr *wanted = take_sum(c);
    text.length = (int)(c->at - text.text);
    const size *named = find_size(c, text);
    bool own = named != NULL && named->operand == s->index && named->axis == axis;
    if (wanted != NULL && wanted != value->dims[axis] && !own)
      require(c, dimension_text(c, s->index, axis), value->dims[axis], "==", sum_text(c, text), wanted);
    axis++;
  }
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

/* Reads the shapes of operand `index` and chooses one. */
static void take_shapes(relating *c, int index) {
  const tn__value *value = c->r != NULL && index < c->r->count ? c->r->operands[index] : NULL;
  if (value != NULL && value->holds != TN__HOLDS_TENSOR)
    tn__graph_fail(c->r->graph, TN_INVALID_ARGUMENT, "%s%s%s is a sequence, expected a tensor", c->r->name,
                   c->r->name[0] == '\0' ? "" : ": ", operand_text(c, index));
  const char *expected = "";
  shape chosen = {.at = NULL};
  bool sure = false;
  do {
    bool fits;
    expect(c, "[");
    written w = read_shape(c, value, &fits);
    if (value == NULL || c->wrong) continue;
    int wide = width_of(c, &w, value->rank);
    expected = rank_text(c, expected, &w);
    if (wide < 0 || sure) continue;
    chosen = (shape){index, wide, w.at};
    sure = fits;
  } while (!c->wrong && take(c, "|"));
  if (value == NULL || c->wrong) return;
  if (chosen.at == NULL) fail_rank(c, index, expected);
  if (c->shape_count == TN__MAX_ELEMENTS) tn__graph_fail(c->r->graph, TN_UNSUPPORTED, "has too many operands");
  c->shapes[c->shape_count++] = chosen;
  bind_shape(c, &chosen);
}

/* One operand, or the last one and all further ones. */
TN_MUST_USE static bool take_operand(relating *c, int *least) {
  int index = c->name_count;
  if (index == MOST_OPERANDS) c->wrong = true;
  word name = take_name(c);
  if (c->wrong) return false;
  c->names[c->name_count++] = name;
  const char *shapes = c->at;
  bool shaped = *c->at == '[';
  if (shaped) take_shapes(c, index);
  bool absent = take(c, "?");
  c->repeats = !absent && take(c, "...");
  const char *end = c->at;
  for (int i = index + 1; c->r != NULL && c->repeats && shaped && i < c->r->count; i++) {
    c->at = shapes;
    take_shapes(c, i);
  }
  c->at = end;
  if (!absent && !c->repeats) *least = index + 1;
  bool given = c->r == NULL || (index < c->r->count && c->r->operands[index] != NULL);
  if (!given && !absent && !c->repeats)
    tn__graph_fail(c->r->graph, TN_INVALID_ARGUMENT, "%s%s%s is missing", c->r->name, c->r->name[0] == '\0' ? "" : ": ",
                   operand_text(c, index));
  return true;
}

static void take_condition(relating *c) {
  static const char *const signs[] = {"==", "<=", ">=", "<", ">"};
  skip_blanks(c);
  word left = {c->at, 0}, right;
  const tn__expr *a = take_sum(c);
  left.length = (int)(c->at - left.text);
  int which = 0;
  while (which < 5 && !take(c, signs[which])) which++;
  if (which == 5) c->wrong = true;
  if (c->wrong) return;
  skip_blanks(c);
  right = (word){c->at, 0};
  const tn__expr *b = take_sum(c);
  right.length = (int)(c->at - right.text);
  if (a != NULL && b != NULL) require(c, sum_text(c, left), a, signs[which], sum_text(c, right), b);
}

static void relate(relating *c, int *least) {
  *least = 0;
  for (skip_blanks(c); *c->at != '\0' && *c->at != ':' && !c->wrong; skip_blanks(c))
    if (c->repeats || !take_operand(c, least)) c->wrong = true;
  const char *conditions = c->at;
  for (int i = 0; i < c->shape_count && !c->wrong; i++) check_shape(c, &c->shapes[i]);
  c->at = conditions;
  if (take(c, ":")) do
      take_condition(c);
    while (!c->wrong && take(c, ","));
  skip_blanks(c);
  if (*c->at != '\0') c->wrong = true;
}

void tn__relate(const tn__relating *r, const char *relations) {
  relating c = {.r = r, .at = relations};
  int least;
  relate(&c, &least);
  if (c.wrong) tn__graph_fail(r->graph, TN_INTERNAL, "%s: these are no relations: %s", r->name, relations);
}

bool tn__relations_parse(const char *relations, int *least, int *most) {
  relating c = {.at = relations};
  relate(&c, least);
  *most = c.repeats ? -1 : c.name_count;
  return !c.wrong;
}
