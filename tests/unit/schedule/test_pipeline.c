/* The rule "pipeline": declarations of several stages, drawn at random as text, of fixed and of open sizes, with tiles
 * and caches of all sizes, must compute what their plain loops do. */
#include <math.h>

#include "schedule/sketch/sketch.h"
#include "te/text.h"
#include "unit/schedule_check.h"

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

enum { MOST_STAGES = 7, KINDS = 16 };

typedef struct drawing {
  uint64_t seed;
  tn__strbuf text;
  int count; /* tensors so far; the first is the input */
  bool open; /* the input's sizes are H and W */
  int high[MOST_STAGES + 1], wide[MOST_STAGES + 1];
  char rows[MOST_STAGES + 1][80], columns[MOST_STAGES + 1][80]; /* the same as text */
  int drawn[KINDS];                                             /* how many of each kind */
} drawing;

static int draw(drawing *d, int below) {
  d->seed = d->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (int)((d->seed >> 33) % (uint64_t)below);
}

static void name_of(int tensor, char *out) { snprintf(out, 16, tensor == 0 ? "A" : "S%d", tensor); }

/* Elements of two tensors of any size, where the axes are; indices are clamped. */
static void draw_pointwise(drawing *d, const char *name, int from) {
  char other[16];
  int second = draw(d, d->count), up = draw(d, 3), right = draw(d, 3);
  name_of(second, other);
  tn__strbuf_printf(&d->text,
                    "%s[clamp(y, 0, %s - 1), clamp(x, 0, %s - 1)] + "
                    "%s[clamp(y - %d, 0, %s - 1), clamp(x + %d, 0, %s - 1)]",
                    name, d->rows[from], d->columns[from], other, up, d->rows[second], right, d->columns[second]);
}

/* Neighbours on all sides, with elements beyond the edges; some go around more than once in a small tensor. */
static void draw_edges(drawing *d, const char *from) {
  static const char *const edges[] = {"repeat", "mirror", "reflect", "wrap"};
  const char *edge = edges[draw(d, 4)];
  int far = 1 + draw(d, 3);
  tn__strbuf_printf(&d->text, "%s(%s[y - %d, x + 1]) + %s(%s[y + 1, x - %d]) - %s(%s[y, x + %d])", edge, from, far,
                    edge, from, far, edge, from, far);
}

/* A window whose rows and columns are clamped: a reduction, or written out. */
static void draw_clamped(drawing *d, const char *from, int number, bool written_out) {
  const int length = 2 + draw(d, 4), start = draw(d, length), down = draw(d, 2);
  const char *size = down ? d->rows[number] : d->columns[number], *axis = down ? "y" : "x";
  for (int i = 0; i < (written_out ? length : 1); i++) {
    char place[160];
    if (written_out)
      snprintf(place, sizeof place, "clamp(%s + %d - %d, 0, %s - 1)", axis, i, start, size);
    else
      snprintf(place, sizeof place, "clamp(%s + r - %d, 0, %s - 1)", axis, start, size);
    if (!written_out) tn__strbuf_printf(&d->text, "%s(r: %d) ", draw(d, 2) ? "sum" : "max", length);
    tn__strbuf_printf(&d->text, "%s%s[%s, %s]", i == 0 ? "" : " + ", from, down ? place : "y", down ? "x" : place);
  }
}

/* What a sum over offsets needs of each of them: a map, and a window over it. Both are stages of their own, before the
 * sum. */
static void draw_offsets(drawing *d, const char *from) {
  tn__strbuf_printf(&d->text, "  M%d[r: 3, q: 2, y: %s, x: %s + 1] = min(%s[y + 1, x] - %s[y + r, x + q], 9)\n",
                    d->count, d->rows[d->count], d->columns[d->count], from, from);
  tn__strbuf_printf(&d->text, "  N%d[r: 3, q: 2, y: %s, x: %s] = sum(k: 2) M%d[r, q, y, x + k]\n", d->count,
                    d->rows[d->count], d->columns[d->count], d->count);
}

/* The right side of a stage; gives its size. */
static void draw_value(drawing *d, int kind, const char *from, int number) {
  tn__strbuf *t = &d->text;
  switch (kind) {
    case 0: draw_pointwise(d, from, number); return;
    case 1: tn__strbuf_printf(t, "%s[y, x] + %s[y + 1, x] * 2 + %s[y + 2, x]", from, from, from); return;
    case 2: tn__strbuf_printf(t, "max(%s[y, x], max(%s[y, x + 1], %s[y, x + 2]))", from, from, from); return;
    case 3: tn__strbuf_printf(t, "pad(%s[y - 1, x], 1) + pad(%s[y + 1, x - 2], 2)", from, from); return;
    case 4: tn__strbuf_printf(t, "%s[2 * y, 2 * x] + %s[2 * y + 1, 2 * x + 1]", from, from); return;
    case 5: tn__strbuf_printf(t, "%s[y / 2, x / 2] - %s[(y + 1) / 2, (x + 1) / 2]", from, from); return;
    case 6: tn__strbuf_printf(t, "sum(r: 3) %s[y + r, x]", from); return;
    case 7: tn__strbuf_printf(t, "max(r: 2, q: 3) min(%s[y + r, x + q], 9)", from); return;
    case 8: draw_edges(d, from); return;
    case 10: tn__strbuf_printf(t, "sum(r: 3, q: 2) max(N%d[r, q, y, x], %s[y + r, x])", d->count, from); return;
    case 11:
      tn__strbuf_printf(t, "scan(y) %s[0, x] then min(S%d[y - 1, x], 90) + %s[y, x]", from, d->count, from);
      return;
    case 12:
      tn__strbuf_printf(t, "scan(-y) %s[0, x] then max(S%d[y + 1, x], %s[y, x]) - 1", from, d->count, from);
      return;
    case 13: tn__strbuf_printf(t, "%s[x, y] + %s[%s - 1 - x, y]", from, from, d->rows[number]); return;
    case 14: draw_clamped(d, from, number, false); return;
    case 15: draw_clamped(d, from, number, true); return;
    default: tn__strbuf_printf(t, "select(y %% 2 == 0, %s[y / 2, x], %s[y / 2 + 1, x] + 1)", from, from); return;
  }
}

/* A size of a stage as text. */
static void size_of(char out[80], bool open, int size, const char *from, const char *format, int less) {
  char text[80];
  snprintf(text, sizeof text, format == NULL ? "%s" : format, from);
  if (!open)
    snprintf(out, 80, "%d", size);
  else if (less > 0)
    snprintf(out, 80, "(%.60s - %d)", text, less);
  else
    snprintf(out, 80, format == NULL ? "%.70s" : "(%.70s)", text);
}

/* Appends a stage of the kind over `from`; false when the tensor is too small for it. */
static bool draw_stage(drawing *d, int kind, int from) {
  static const struct {
    int rows, columns; /* what it loses at the end */
  } loses[KINDS] = {[1] = {2, 0}, [2] = {0, 2}, [6] = {2, 0}, [7] = {1, 2}, [10] = {2, 2}};
  char name[16], source[16], *rows = d->rows[d->count], *columns = d->columns[d->count];
  const char *format = kind == 4 ? "%s / 2" : kind == 5 ? "2 * %s - 1" : kind == 9 ? "2 * %s - 2" : NULL;
  int high = d->high[from] - loses[kind].rows, wide = d->wide[from] - loses[kind].columns;
  if (kind == 4) high /= 2, wide /= 2;
  if (kind == 5) high = 2 * high - 1, wide = 2 * wide - 1;
  if (kind == 9) high = 2 * high - 2;
  if (high < 2 || wide < 2 || high > (d->open ? 120 : 60) || wide > 320) return false;
  if (strlen(d->rows[from]) > 60 || strlen(d->columns[from]) > 60) return false;
  const bool turned = kind == 13;
  if (turned && wide > 60) return false;
  size_of(turned ? columns : rows, d->open, high, d->rows[from], format, loses[kind].rows);
  size_of(turned ? rows : columns, d->open, wide, d->columns[from], kind == 9 ? NULL : format, loses[kind].columns);
  name_of(d->count, name);
  name_of(from, source);
  if (kind == 10) draw_offsets(d, source);
  tn__strbuf_printf(&d->text, "  %s[y: %s, x: %s] = ", name, rows, columns);
  draw_value(d, kind, source, from);
  tn__strbuf_append(&d->text, "\n");
  d->high[d->count] = turned ? wide : high;
  d->wide[d->count++] = turned ? high : wide;
  d->drawn[kind]++;
  return true;
}

static void draw_kernel(drawing *d) {
  static const char *const types[] = {"f32", "i32", "f64", "i16"};
  const char *type = types[draw(d, 4)];
  char last[16], least[32];
  int stages = 2 + draw(d, MOST_STAGES - 1), body;
  tn__strbuf head;
  tn__strbuf_init(&d->text, NULL);
  d->high[0] = 8 + draw(d, 30);
  d->wide[0] = 20 + draw(d, 160);
  d->open = draw(d, 3) == 0;
  /* Both are one number when it is run. */
  if (d->open) open_dim = d->high[0] = d->wide[0] = 20 + draw(d, 30);
  int less = draw(d, 9);
  snprintf(least, sizeof least, "[H >= %d, W >= %d]", d->high[0] - less, d->wide[0] - less / 2);
  size_of(d->rows[0], d->open, d->high[0], "H", NULL, 0);
  size_of(d->columns[0], d->open, d->wide[0], "W", NULL, 0);
  d->count = 1;
  /* Mostly what was made last, so that there are chains; sometimes what several read. */
  while (d->count <= stages)
    for (body = 0; !draw_stage(d, draw(d, KINDS), draw(d, 4) > 0 ? d->count - 1 : draw(d, d->count)); body++)
      assert_true(body < 1000);
  name_of(d->count - 1, last);
  tn__strbuf_init(&head, NULL);
  tn__strbuf_printf(&head, "kernel drawn%s(A: %s[%s, %s]) -> %s: %s[%s, %s] {\n%s}\n", d->open ? least : "", type,
                    d->rows[0], d->columns[0], last, type, d->rows[d->count - 1], d->columns[d->count - 1],
                    tn__strbuf_text(&d->text));
  tn__strbuf_release(&d->text);
  d->text = head;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* What came of the declarations that were drawn. */
typedef struct tally {
  drawing *drawing;
  uint64_t seed;
  int pipelines, open, refused, tiles, sliding, terms, scans, registers, columns, fused;
} tally;

typedef struct applying {
  const tn__sketch *k;
  int64_t values[TN__MAX_DECISIONS];
  tn__schedule *s;
} applying;

static void apply_values(tn__escape *escape, void *arg) {
  applying *a = arg;
  tn__ir_arena(tn__te_ir(a->k->te))->escape = escape;
  a->s = tn__sketch_apply(a->k, a->values);
}

/* Much wider tiles of an open size than the tensors are: as it is, before passes cut its loops, the nest has the
 * interpreter ask for each position whether it is one. */
static bool is_wide(const tn__sketch *k, const applying *a) {
  bool wide = false;
  for (int i = 0; i < k->decision_count; i++) wide |= a->values[i] > 256;
  return wide && tn__te_dim_count(k->te) > 0;
}

/* Is a stage computed in the loops over offsets of a sum? */
static bool adds_terms(const char *text) {
  for (text = strstr(text, "\ncompute_at "); text != NULL; text = strstr(text + 1, "\ncompute_at ")) {
    const char *end = strchr(text + 1, '\n');
    if (end != NULL && strncmp(end - 3, ".q\"", 3) == 0) return true;
  }
  return false;
}

/* Is a scan computed where it is read? */
static bool moves_scan(const char *steps, const char *kernel) {
  for (int i = 1; i <= MOST_STAGES; i++) {
    char step[32], name[8];
    snprintf(step, sizeof step, "\ncompute_at \"S%d\" ", i);
    snprintf(name, sizeof name, "  S%d[", i);
    const char *stage = strstr(kernel, name), *end = stage != NULL ? strchr(stage, '\n') : NULL;
    const char *scan = stage != NULL ? strstr(stage, "= scan(") : NULL;
    if (scan != NULL && scan < end && strstr(steps, step) != NULL) return true;
  }
  return false;
}

/* Are parts of a tile in registers, which no reduction's sums are? */
static bool keeps_maps(const char *steps) {
  if (strstr(steps, "\ncache_write ") != NULL) return false;
  for (steps = strstr(steps, "\nset_scope "); steps != NULL; steps = strstr(steps + 1, "\nset_scope ")) {
    const char *end = strchr(steps + 1, '\n');
    if (end != NULL && strncmp(end - 2, " 3", 2) == 0) return true;
  }
  return false;
}

/* Do strips of a reduction's columns go through all rows of a tile? */
static bool walks_columns(const char *steps) {
  for (steps = strstr(steps, "\nreorder \""); steps != NULL; steps = strstr(steps + 1, "\nreorder \"")) {
    const char *end = strchr(steps + 1, '\n'), *first = strstr(steps, ".write.");
    const char *second = first == NULL ? NULL : strstr(first + 1, ".write.");
    if (end != NULL && second != NULL && second < end) return true;
  }
  return false;
}

/* Points of the pipeline's space: those that primitives don't refuse compute what the declaration says. */
static void try_points(const tn__sketch *k, tally *t) {
  tn__arena *arena = tn__ir_arena(tn__te_ir(k->te));
  for (int point = 0; point < 4; point++) {
    applying a = {.k = k};
    tn__escape *outer = arena->escape, escape;
    t->seed = t->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    tn__sketch_at(k, (int64_t)((t->seed >> 16) % (uint64_t)tn__sketch_points(k)), a.values);
    if (isinf(tn__sketch_cost(k, a.values, NULL)) || is_wide(k, &a)) continue; /* no tiles at all */
    tn_status *status = tn__protect(&escape, apply_values, &a);
    arena->escape = outer;
    t->tiles++;
    t->refused += status != NULL;
    if (status != NULL) {
      assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
      tn_status_free(status);
    } else {
      const char *text = schedule_text(a.s, false);
      t->sliding += strstr(text, "\nslide ") != NULL;
      t->fused += strstr(text, ".c\"\n") != NULL && strstr(text, "\nfuse \"S") != NULL;
      t->terms += adds_terms(text);
      const bool scans = moves_scan(text, tn__strbuf_text(&t->drawing->text));
      t->scans += scans;
      t->registers += !scans && keeps_maps(text);
      t->columns += walks_columns(text);
      check_same(a.s);
    }
  }
}

/* The same of steps that were chosen for a declaration of open sizes, from their text. */
static bool splits_widely(const tn__te *te, const char *text) {
  for (text = strstr(text, "\nsplit "); tn__te_dim_count(te) > 0 && text != NULL; text = strstr(text + 1, "\nsplit ")) {
    const char *end = strchr(text + 1, '\n');
    const char *last = end;
    while (last > text && *last != ' ') last--;
    if (end != NULL && strtol(last, NULL, 10) > 256) return true;
  }
  return false;
}

static void try_drawing(tn__ir *ir, const void *arg) {
  tally *t = *(tally *const *)arg;
  tn__target target = test_target("x86-64-v3");
  const int64_t l1[] = {1 << 10, 4 << 10, 32 << 10};
  /* Small caches make memory dear, as it is for larger tensors than the interpreter has time for. */
  target.cpu.machine.l1_bytes = l1[draw(t->drawing, 3)];
  target.cpu.machine.l2_bytes = 4 * target.cpu.machine.l1_bytes;
  target.cpu.machine.l3_bytes = 2 * target.cpu.machine.l2_bytes;
  target.cpu.row = target.cpu.machine;
  tn__schedule_options options = {.threads = 1 + draw(t->drawing, 2), .cache_bytes = target.cpu.machine.l2_bytes};
  const tn__te *te = declare_text(ir, tn__strbuf_text(&t->drawing->text));
  const tn__schedule *chosen = default_schedule(te, &target, &options);
  if (!splits_widely(te, schedule_text(chosen, false))) check_same(chosen);
  for (const tn__sketch *k = tn__rule_create_sketch(te, &target, &options); k != NULL; k = tn__sketch_next(k)) {
    if (strcmp(tn__sketch_name(k), "pipeline") != 0) continue;
    t->pipelines++;
    t->open += t->drawing->open;
    try_points(k, t);
  }
}

static void drawn_pipelines_compute_what_they_declare(void **state) {
  enum { DRAWN = 400 };
  drawing d = {.seed = 20261123};
  tally t = {.drawing = &d, .seed = 7}, *arg = &t;
  for (int i = 0; i < DRAWN; i++) {
    draw_kernel(&d);
    tn_status *status = in_context(try_drawing, &arg);
    if (status != NULL) fail_msg("%s\n%s", tn_status_message(status), tn__strbuf_text(&d.text));
    tn__strbuf_release(&d.text);
  }
  print_message(
      "%d of %d drawn declarations are pipelines, %d of open sizes; of %d tiles %d were refused, in %d rows "
      "slide, in %d terms are added one after the other, in %d a scan is computed where it is read, in %d maps are "
      "in registers, and in %d columns are walked down\n",
      t.pipelines, DRAWN, t.open, t.tiles, t.refused, t.sliding, t.terms, t.scans, t.registers, t.columns);
  assert_true(t.columns > 0);
  assert_true(t.registers > 0);
  assert_true(t.scans > DRAWN / 20);
  assert_true(t.terms > DRAWN / 20);
  assert_true(t.sliding > DRAWN / 10);
  assert_true(t.pipelines > DRAWN / 4);
  assert_true(t.open > DRAWN / 12);
  assert_true(t.tiles > DRAWN / 2);
  assert_true(t.refused < t.tiles / 10);
  for (int kind = 0; kind < KINDS; kind++) assert_true(d.drawn[kind] > 20);
}

/* ---- pixels of a few channels ------------------------------------------------------------------------------------ */

/* Stages over rows and columns of pixels, channels last: one row of all channels where all is read at its own. */
static void draw_pixels(drawing *d) {
  static const char *const types[] = {"f32", "i32", "u8", "i16"}, *const edges[] = {"repeat", "mirror", "wrap"};
  const char *type = types[draw(d, 4)];
  const int high = 6 + draw(d, 20), wide = 9 + draw(d, 60), channels = 2 + draw(d, 5), stages = 2 + draw(d, 3);
  tn__strbuf_init(&d->text, NULL);
  tn__strbuf_printf(&d->text, "kernel drawn(A: %s[%d, %d, %d], M: %s[%d]) -> S%d: %s[%d, %d, %d] {\n", type, high, wide,
                    channels, type, channels, stages, type, high, wide, channels);
  for (int i = 1; i <= stages; i++) {
    const char *edge = edges[draw(d, 3)];
    const int far = 1 + draw(d, 2), kind = draw(d, 6);
    char from[16];
    name_of(draw(d, 4) > 0 ? i - 1 : draw(d, i), from);
    tn__strbuf_printf(&d->text, "  S%d[y: %d, x: %d, c: %d] = ", i, high, wide, channels);
    if (kind == 0)
      tn__strbuf_printf(&d->text, "%s(%s[y - %d, x, c]) + %s[y, x, c]\n", edge, from, far, from);
    else if (kind == 1)
      tn__strbuf_printf(&d->text, "%s(%s[y, x - %d, c]) + 2 * %s(%s[y, x + 1, c])\n", edge, from, far, edge, from);
    else if (kind == 2)
      tn__strbuf_printf(&d->text, "pad(%s[y + 1, x - %d, c], 3) - %s[y, x, c]\n", from, far, from);
    else if (kind == 3)
      tn__strbuf_printf(&d->text, "max(r: 3, q: 2) %s(%s[y + r - 1, x + q, c])\n", edge, from);
    else if (kind == 4)
      tn__strbuf_printf(&d->text, "min(%s[y, x, c] + M[c], A[y, x, %d])\n", from, draw(d, channels));
    else
      tn__strbuf_printf(&d->text, "select(c == 1, %s[y, x, 0], %s(%s[y, x + %d, c]))\n", from, edge, from, far);
  }
  tn__strbuf_append(&d->text, "}\n");
}

static void drawn_pixels_compute_what_they_declare(void **state) {
  enum { DRAWN = 150 };
  drawing d = {.seed = 20261125};
  tally t = {.drawing = &d, .seed = 9}, *arg = &t;
  for (int i = 0; i < DRAWN; i++) {
    draw_pixels(&d);
    tn_status *status = in_context(try_drawing, &arg);
    if (status != NULL) fail_msg("%s\n%s", tn_status_message(status), tn__strbuf_text(&d.text));
    tn__strbuf_release(&d.text);
  }
  print_message(
      "%d of %d drawn declarations of pixels are pipelines; of %d tiles %d were refused, in %d rows of pixels "
      "are fused\n",
      t.pipelines, DRAWN, t.tiles, t.refused, t.fused);
  assert_true(t.pipelines > DRAWN / 4);
  assert_true(t.fused > DRAWN / 5);
  assert_true(t.refused < t.tiles / 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_pipelines_compute_what_they_declare),
                                     cmocka_unit_test(drawn_pixels_compute_what_they_declare)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
