/* Random index expressions, built by the canonical constructors and evaluated beside a plain tree in C that knows
 * nothing of them. */
#include "ir/passes.h"
#include "ir/scalar.h"
#include "unit/ir_check.h"

enum { VARS = 8, NODES = 24, ASSIGNMENTS = 12 };

typedef struct tree {
  char op; /* a letter of OPS, 'v' for a variable, 'c' for a constant */
  int left, right;
  int64_t value;
} tree;

typedef struct world {
  tn__ir *ir;
  uint64_t state;
  const tn__var *vars[VARS]; /* n, m: dimensions; i < n; j < m; k, l: constant ranges; o < ceil(n / 6); p in [n, 2 n) */
  tree nodes[NODES];
  int count;
} world;

static uint64_t next(world *w) {
  w->state ^= w->state << 13;
  w->state ^= w->state >> 7;
  w->state ^= w->state << 17;
  return w->state;
}

static int64_t between(world *w, int64_t low, int64_t high) {
  return low + (int64_t)(next(w) % (uint64_t)(high - low + 1));
}

static void make_vars(world *w) {
  tn__ir *ir = w->ir;
  const tn__expr *zero = tn__ir_index(ir, 0);
  w->vars[0] = tn__var_create(ir, "n", TN_I64, zero, NULL);
  w->vars[1] = tn__var_create(ir, "m", TN_I64, tn__ir_index(ir, 1), tn__ir_index(ir, 100));
  w->vars[2] = tn__var_create(ir, "i", TN_I64, zero, w->vars[0]->self);
  w->vars[3] = tn__var_create(ir, "j", TN_I64, zero, w->vars[1]->self);
  w->vars[4] = tn__var_create(ir, "k", TN_I64, zero, tn__ir_index(ir, between(w, 1, 40)));
  w->vars[5] =
      tn__var_create(ir, "l", TN_I64, tn__ir_index(ir, between(w, -20, 20)), tn__ir_index(ir, between(w, 1, 9)));
  w->vars[6] = tn__var_create(ir, "o", TN_I64, zero, tn__ir_ceildiv(ir, w->vars[0]->self, tn__ir_index(ir, 6)));
  w->vars[7] = tn__var_create(ir, "p", TN_I64, w->vars[0]->self, w->vars[0]->self);
}

static void assign(world *w, int64_t *values) {
  values[0] = between(w, 1, 50);
  values[1] = between(w, 1, 100);
  values[2] = between(w, 0, values[0] - 1);
  values[3] = between(w, 0, values[1] - 1);
  values[4] = between(w, 0, w->vars[4]->extent->value.i - 1);
  values[5] = w->vars[5]->min->value.i + between(w, 0, w->vars[5]->extent->value.i - 1);
  values[6] = between(w, 0, (values[0] + 5) / 6 - 1);
  values[7] = between(w, values[0], 2 * values[0] - 1);
}

static const int64_t constants[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, -1, -2, -5, 7, 14};

/* A random tree; divisors are mostly positive constants, as in kernels, and now and then anything. */
static int grow(world *w, int depth) {
  int at = w->count++;
  tree *t = &w->nodes[at];
  if (depth == 0 || w->count + 2 >= NODES || next(w) % 6 == 0) {
    t->op = next(w) % 3 != 0 ? 'v' : 'c';
    t->value = t->op == 'v' ? (int64_t)(next(w) % VARS) : constants[next(w) % 16];
    return at;
  }
  t->op = "++++--****//////%%%%%%mM"[next(w) % 24];
  t->left = grow(w, depth - 1);
  if ((t->op == '*' || t->op == '/' || t->op == '%') && next(w) % 8 != 0 && w->count < NODES) {
    t->right = w->count++;
    w->nodes[t->right] = (tree){.op = 'c', .value = constants[next(w) % 16]};
    if (next(w) % 5 == 0) w->nodes[t->right] = (tree){.op = 'v', .value = (int64_t)(next(w) % 2)};
  } else {
    t->right = grow(w, depth - 1);
  }
  return at;
}

static const tn__expr *build(world *w, int at) {
  const tree *t = &w->nodes[at];
  if (t->op == 'v') return w->vars[t->value]->self;
  if (t->op == 'c') return tn__ir_index(w->ir, t->value);
  const tn__expr *a = build(w, t->left), *b = build(w, t->right);
  switch (t->op) {
    case '+': return tn__ir_add(w->ir, a, b);
    case '-': return tn__ir_sub(w->ir, a, b);
    case '*': return tn__ir_mul(w->ir, a, b);
    case '/': return tn__ir_div(w->ir, a, b);
    case '%': return tn__ir_mod(w->ir, a, b);
    case 'm': return tn__ir_min(w->ir, a, b);
    default: return tn__ir_max(w->ir, a, b);
  }
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* False: it divides by zero or leaves what index arithmetic may use. */
static bool evaluate_tree(const world *w, int at, const int64_t *values, int64_t *out) {
  const tree *t = &w->nodes[at];
  int64_t a, b;
  if (t->op == 'v' || t->op == 'c') {
    *out = t->op == 'v' ? values[t->value] : t->value;
    return true;
  }
  if (!evaluate_tree(w, t->left, values, &a) || !evaluate_tree(w, t->right, values, &b)) return false;
  if ((t->op == '/' || t->op == '%') && b == 0) return false;
  switch (t->op) {
    case '+': *out = a + b; break;
    case '-': *out = a - b; break;
    case '*': *out = a * b; break;
    case '/': *out = floor_div(a, b); break;
    case '%': *out = a - floor_div(a, b) * b; break;
    case 'm': *out = a < b ? a : b; break;
    default: *out = a > b ? a : b; break;
  }
  return *out > -(INT64_C(1) << 30) && *out < INT64_C(1) << 30;
}

static int64_t evaluate_expr(const world *w, const tn__expr *e, const int64_t *values) {
  if (e->kind == TN__EXPR_INT) return e->value.i;
  for (int i = 0; i < VARS && e->kind == TN__EXPR_VAR; i++)
    if (w->vars[i] == e->value.var) return values[i];
  tn__scalar r = {0}, a = {.i = evaluate_expr(w, e->args[0], values)};
  if (e->kind == TN__EXPR_NOT) return !a.i;
  tn__scalar b = {.i = evaluate_expr(w, e->args[1], values)};
  if (!tn__scalar_binary(e->kind, e->args[0]->dtype, a, b, &r)) fail_msg("the canonical form divides by zero");
  return r.i;
}

static void explain(const world *w, const tn__expr *e, const int64_t *values, int64_t expected, int64_t actual,
                    uint64_t seed) {
  tn__strbuf buf;
  tn__strbuf_init(&buf, NULL);
  tn__expr_print(e, &buf);
  for (int i = 0; i < VARS; i++) tn__strbuf_printf(&buf, " %s=%lld", w->vars[i]->name, (long long)values[i]);
  fprintf(stderr, "seed %llu: %s: %lld, not %lld\n", (unsigned long long)seed, tn__strbuf_text(&buf), (long long)actual,
          (long long)expected);
  for (int i = 0; i < w->count; i++)
    fprintf(stderr, "  %d: %c %d %d %lld\n", i, w->nodes[i].op, w->nodes[i].left, w->nodes[i].right,
            (long long)w->nodes[i].value);
  tn__strbuf_release(&buf);
  fail();
}

typedef struct claims {
  const tn__expr *low, *high, *less, *equal, *at_most, *replaced;
  bool bounded;
  tn__interval range;
} claims;

static claims claim(world *w, const tn__expr *e, const tn__expr *other) {
  claims c = {.range = tn__interval_of(w->ir, e)};
  const tn__var *over[2] = {w->vars[2], w->vars[4]};
  c.bounded = tn__ir_bounds_over(w->ir, e, over, 2, &c.low, &c.high);
  c.less = tn__ir_lt(w->ir, e, other);
  c.at_most = tn__ir_le(w->ir, e, other);
  c.equal = tn__ir_eq(w->ir, e, other);
  c.replaced = tn__ir_substitute(w->ir, e, &w->vars[4], &w->vars[4]->min, 1);
  return c;
}

static void check_one(world *w, uint64_t seed) {
  int first = grow(w, 4), split = w->count;
  w->count = split < NODES - 4 ? split : NODES - 4;
  int second = grow(w, 2);
  const tn__expr *e = build(w, first), *other = build(w, second);
  claims c = claim(w, e, other);
  for (int k = 0; k < ASSIGNMENTS; k++) {
    int64_t values[VARS], expected, against;
    assign(w, values);
    if (!evaluate_tree(w, first, values, &expected)) continue;
    int64_t actual = evaluate_expr(w, e, values);
    if (actual != expected) explain(w, e, values, expected, actual, seed);
    if (expected < c.range.min) explain(w, e, values, expected, c.range.min, seed);
    if (expected > c.range.max) explain(w, e, values, expected, c.range.max, seed);
    if (c.bounded && evaluate_expr(w, c.low, values) > expected) explain(w, c.low, values, expected, actual, seed);
    if (c.bounded && evaluate_expr(w, c.high, values) < expected) explain(w, c.high, values, expected, actual, seed);
    if (evaluate_tree(w, second, values, &against)) {
      if (evaluate_expr(w, c.less, values) != (expected < against)) explain(w, c.less, values, expected, against, seed);
      if (evaluate_expr(w, c.at_most, values) != (expected <= against))
        explain(w, c.at_most, values, expected, against, seed);
      if (evaluate_expr(w, c.equal, values) != (expected == against))
        explain(w, c.equal, values, expected, against, seed);
    }
    values[4] = 0;
    if (!evaluate_tree(w, first, values, &expected)) continue;
    actual = evaluate_expr(w, c.replaced, values);
    if (actual != expected) explain(w, c.replaced, values, expected, actual, seed);
  }
}

static void test_canonical_forms_keep_values(void **state) {
  for (uint64_t seed = 1; seed <= 300; seed++) {
    ir_set_up(state);
    world w = {.ir = ir_of(state), .state = seed * UINT64_C(0x9e3779b97f4a7c15)};
    make_vars(&w);
    for (int round = 0; round < 100; round++) {
      w.count = 0;
      check_one(&w, seed);
    }
    ir_tear_down(state);
  }
}

/* A function that stores random expressions of its loops; its text must be stable and the interpreter must agree with
 * the tree. */
static void test_functions_of_random_expressions(void **state) {
  for (uint64_t seed = 1; seed <= 200; seed++) {
    ir_set_up(state);
    tn__ir *ir = ir_of(state);
    world w = {.ir = ir, .state = seed * UINT64_C(0x9e3779b97f4a7c15)};
    make_vars(&w);
    int root = grow(&w, 4);
    const tn__expr *e = build(&w, root);
    int64_t extent_k = w.vars[4]->extent->value.i, extent_l = w.vars[5]->extent->value.i;
    const tn__expr *shape[4] = {w.vars[0]->self, w.vars[1]->self, w.vars[4]->extent, w.vars[5]->extent};
    const tn__buffer *out = tn__buffer_create(ir, "out", TN_I64, TN__SCOPE_PARAM, 4, shape);
    const tn__expr *at[4] = {w.vars[2]->self, w.vars[3]->self, w.vars[4]->self,
                             tn__ir_sub(ir, w.vars[5]->self, w.vars[5]->min)};
    const tn__stmt *s = tn__ir_store(ir, out, at, e);
    s = tn__ir_for(ir, w.vars[4], TN__LOOP_SERIAL, tn__ir_for(ir, w.vars[5], TN__LOOP_SERIAL, s));
    s = tn__ir_for(ir, w.vars[2], TN__LOOP_SERIAL, tn__ir_for(ir, w.vars[3], TN__LOOP_SERIAL, s));
    const tn__var *scalars[4] = {w.vars[0], w.vars[1], w.vars[6], w.vars[7]};
    tn__func *func = tn__func_create(ir, "f", NULL, 0, &out, 1, scalars, 4, s), *again;
    check_ok(tn__func_verify(ir, func));
    tn__strbuf text, second;
    tn__strbuf_init(&text, NULL);
    tn__strbuf_init(&second, NULL);
    tn__func_print(func, &text);
    check_ok(tn__func_parse(ir, "random", tn__strbuf_text(&text), text.length, &again));
    tn__func_print(again, &second);
    assert_string_equal(tn__strbuf_text(&text), tn__strbuf_text(&second));
    int64_t values[VARS], numbers[4], place = 0;
    assign(&w, values);
    values[0] = values[0] % 5 + 1;
    values[1] = values[1] % 4 + 1;
    values[6] = 0;
    values[7] = values[0];
    for (int k = 0; k < 4; k++) numbers[k] = values[k < 2 ? k : k + 4];
    int64_t *data = calloc((size_t)(values[0] * values[1] * extent_k * extent_l), sizeof(int64_t));
    void *buffers[1] = {data};
    tn_status *status = tn__ir_interpret(ir, again, buffers, numbers, NULL);
    bool failed = status != NULL;
    tn_status_free(status);
    for (values[2] = 0; values[2] < values[0]; values[2]++)
      for (values[3] = 0; values[3] < values[1]; values[3]++)
        for (values[4] = 0; values[4] < extent_k; values[4]++)
          for (int64_t l = 0; l < extent_l; l++, place++) {
            int64_t expected;
            values[5] = w.vars[5]->min->value.i + l;
            bool good = evaluate_tree(&w, root, values, &expected);
            if (good && !failed && data[place] != expected) explain(&w, e, values, expected, data[place], seed);
          }
    free(data);
    tn__strbuf_release(&text);
    tn__strbuf_release(&second);
    ir_tear_down(state);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_canonical_forms_keep_values),
      cmocka_unit_test(test_functions_of_random_expressions),
  };
  return cmocka_run_group_tests_name("ir_fuzz", tests, NULL, NULL);
}
