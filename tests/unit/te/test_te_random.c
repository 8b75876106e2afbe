/* Seeded random kernels: what is read prints, and what was printed reads back and prints the same. */
#include "unit/te_text_check.h"

enum { KERNELS = 400, TEXT = 1 << 14 };

typedef struct maker {
  uint64_t state;
  char text[TEXT];
  size_t length;
  int axes;    /* in scope: i0.. */
  int vectors; /* v0.. over [N], defined so far */
} maker;

static int any(maker *m, int count) {
  m->state = m->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((m->state >> 33) % (uint64_t)count);
}

static void add(maker *m, const char *text) {
  size_t length = strlen(text);
  assert_true(m->length + length < TEXT);
  memcpy(m->text + m->length, text, length + 1);
  m->length += length;
}

static void add_number(maker *m, const char *format, int number) {
  char text[64];
  snprintf(text, sizeof(text), format, number);
  add(m, text);
}

static void value(maker *m, int depth);

static void pair(maker *m, const char *before, const char *between, int depth) {
  add(m, before);
  value(m, depth - 1);
  add(m, between);
  value(m, depth - 1);
  add(m, ")");
}

static void condition(maker *m, int depth) {
  static const char *const between[] = {" < ", " <= ", " == ", " != ", " >= "};
  if (any(m, 4) == 0) {
    add_number(m, "1 <= i%d < N", any(m, m->axes));
    return;
  }
  pair(m, "(", between[any(m, 5)], depth);
  if (any(m, 3) == 0) {
    add(m, any(m, 2) ? " && " : " || ");
    add_number(m, "i%d %% 2 == 0", any(m, m->axes));
  }
}

static void leaf(maker *m) {
  switch (any(m, 6)) {
    case 0: add(m, any(m, 2) ? "0.25" : "3"); return;
    case 1: add_number(m, "f32(i%d)", any(m, m->axes)); return;
    case 2:
      add_number(m, "pad(X[i%d - 1, ", any(m, m->axes));
      add_number(m, "i%d + 1], 0.5)", any(m, m->axes));
      return;
    case 3:
      if (m->vectors > 0) {
        add_number(m, "v%d[min(", any(m, m->vectors));
        add_number(m, "i%d, N - 1)]", any(m, m->axes));
        return;
      }
      add(m, "s");
      return;
    default:
      add_number(m, "X[clamp(2*i%d - 1, 0, N - 1), ", any(m, m->axes));
      add_number(m, "clamp(i%d / 3 + 1, 0, M - 1)]", any(m, m->axes));
      return;
  }
}

static void reduction(maker *m, int depth) {
  static const char *const words[] = {"sum", "max", "min", "prod"};
  if (m->axes >= 6) {
    leaf(m);
    return;
  }
  add(m, "(");
  add(m, words[any(m, 4)]);
  add_number(m, any(m, 2) ? "(i%d: M) " : "(i%d: 3) ", m->axes++);
  value(m, depth - 1);
  add(m, ")");
  m->axes--;
}

static void value(maker *m, int depth) {
  static const char *const calls[] = {"exp(", "tanh(", "abs(", "-(", "sqrt(", "f32(i32("};
  int which = depth <= 0 ? 9 : any(m, 10);
  if (which < 3) {
    static const char *const signs[] = {" + ", " - ", " * ", " / "};
    pair(m, "(", signs[any(m, 4)], depth);
  } else if (which == 3) {
    pair(m, any(m, 2) ? "max(" : "min(", ", ", depth);
  } else if (which == 4) {
    add(m, "select(");
    condition(m, depth);
    pair(m, ", ", ", ", depth);
  } else if (which == 5) {
    int call = any(m, 6);
    add(m, calls[call]);
    value(m, depth - 1);
    add(m, call == 5 ? "))" : ")");
  } else if (which == 6) {
    reduction(m, depth);
  } else {
    leaf(m);
  }
}

static void statement(maker *m) {
  add_number(m, "  v%d: f32", m->vectors);
  m->axes = 1;
  switch (any(m, 4)) {
    case 0:
      add(m, "[i0: N] = scan(i0) ");
      value(m, 1);
      add_number(m, " then v%d[i0 - 1] * ", m->vectors);
      leaf(m);
      if (any(m, 2) == 0) break;
      add_number(m, " + (max(i1: i0) v%d[i1] * ", m->vectors);
      m->axes = 2;
      leaf(m);
      add(m, ")");
      break;
    case 1:
      add(m, "[i0: N] = sum(i1: M, i2: 2) ");
      m->axes = 3;
      value(m, 3);
      break;
    default:
      add(m, "[i0: N] = ");
      value(m, 4);
      break;
  }
  add(m, "\n");
  m->vectors++;
}

static void random_kernels_keep_their_text(void **state) {
  int lifted = 0;
  maker *m = malloc(sizeof *m);
  for (int seed = 0; seed < KERNELS; seed++) {
    *m = (maker){.state = (uint64_t)seed * 77 + 5};
    for (int i = 0; i < 4; i++) (void)any(m, 2);
    add(m, "kernel k(X: f32[N, M], s: f32) -> Y: f32[N] {\n");
    int statements = any(m, 4);
    for (int i = 0; i < statements; i++) statement(m);
    add(m, "  Y[i0] = ");
    m->axes = 1;
    value(m, 4);
    add(m, "\n}\n");
    char *first = te_text_print(m->text), *second = te_text_print(first);
    assert_string_equal(second, first);
    lifted += strstr(first, "Y.sum") != NULL || strstr(first, "Y.max") != NULL;
    free(first);
    free(second);
  }
  free(m);
  assert_true(lifted > 20); /* the kernels are not trivial */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_kernels_keep_their_text)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
