/* Declarations of any kind as text, drawn from dice: some stages, each a map, a reduction along any axes, a scan, an
 * accumulation or the place of a greatest element, of tensors of any rank that are read at shifted, clamped, mirrored,
 * divided, turned and looked-up places under conditions of all sorts. All of them are legal, and small.
 *
 * Their numbers are small and whole, so that floating-point results are exact in whatever order terms are taken: each
 * stage ends between -9 and 9, factors are few, and so are terms. */
#ifndef TENON_TESTS_UNIT_DRAW_DECLARATION_H
#define TENON_TESTS_UNIT_DRAW_DECLARATION_H

#include "base/strbuf.h"
#include "unit/schedule_recipes.h"

enum { DRAW_RANK = 4, DRAW_TENSORS = 13, DRAW_AXES = 8, DRAW_KINDS = 10 };

typedef enum drawn_kind {
  DRAWN_MAP,
  DRAWN_REDUCE,
  DRAWN_PRODUCT,
  DRAWN_PLACE,
  DRAWN_SCAN,
  DRAWN_ACCUMULATE,
  DRAWN_RAGGED,
  DRAWN_WINDOW,
  DRAWN_RECURRENCE,
  DRAWN_PAIR /* two tensors of one scan */
} drawn_kind;

typedef struct drawn_tensor {
  char name[16];
  int rank, size[DRAW_RANK];
  bool wide; /* of type i64, whatever the type of the others */
} drawn_tensor;

typedef struct drawn_axis {
  char name[16];
  int extent;
} drawn_axis;

typedef struct draw {
  dice dice;
  tn__strbuf text;
  const char *type;
  bool is_unsigned;
  int count; /* tensors so far */
  drawn_tensor tensor[DRAW_TENSORS];
  int axis_count; /* in scope */
  drawn_axis axis[DRAW_AXES];
  int points;            /* of the stage: elements times terms */
  int drawn[DRAW_KINDS]; /* how many of each kind */
} draw;

static inline void draw_text(draw *d, const char *text) { tn__strbuf_append(&d->text, text); }

static inline int draw_axis_at_most(draw *d, int size) {
  int start = roll(&d->dice, d->axis_count);
  for (int i = 0; i < d->axis_count; i++)
    if (d->axis[(start + i) % d->axis_count].extent <= size) return (start + i) % d->axis_count;
  return -1;
}

/* An index of a dimension of `size` elements that is inside of it wherever the axes are. */
static inline void draw_index(draw *d, int size) {
  tn__strbuf *t = &d->text;
  int fitting = draw_axis_at_most(d, size), any = roll(&d->dice, d->axis_count), by = roll(&d->dice, 5);
  const char *name = d->axis[any].name;
  switch (roll(&d->dice, 12)) {
    case 0: tn__strbuf_printf(t, "clamp(%s + %d, 0, %d)", name, by - 2, size - 1); return;
    case 1: tn__strbuf_printf(t, "(%s + %d) %% %d", name, by, size); return;
    case 2: tn__strbuf_printf(t, "%d", roll(&d->dice, size)); return;
    case 3: tn__strbuf_printf(t, "i64(I[%s %% 23])", name); return;
    case 4: tn__strbuf_printf(t, "min(%s / %d, %d)", name, by + 1, size - 1); return;
    case 5:
      tn__strbuf_printf(t, "(%d * %s + %s) %% %d", by + 1, name, d->axis[roll(&d->dice, d->axis_count)].name, size);
      return;
    case 6:
      if (fitting >= 0) tn__strbuf_printf(t, "%d - %s", size - 1, d->axis[fitting].name);
      break;
    default:
      if (fitting >= 0) tn__strbuf_append(t, d->axis[fitting].name);
      break;
  }
  if (fitting < 0)
    tn__strbuf_printf(t, "clamp(%s, 0, %d)", name, size - 1);
  else if (t->text[t->length - 1] == '[' || t->text[t->length - 1] == ' ')
    tn__strbuf_append(t, d->axis[fitting].name);
}

static inline void draw_load(draw *d, const drawn_tensor *from) {
  if (from->wide) tn__strbuf_printf(&d->text, "%s(", d->type);
  tn__strbuf_printf(&d->text, "%s[", from->name);
  for (int i = 0; i < from->rank; i++) {
    if (i > 0) draw_text(d, ", ");
    draw_index(d, from->size[i]);
  }
  draw_text(d, from->wide ? "])" : "]");
}

/* An element that may lie beyond an edge. */
static inline void draw_edge(draw *d, const drawn_tensor *from) {
  static const char *const edges[] = {"repeat(", "mirror(", "reflect(", "wrap(", "pad("};
  int edge = roll(&d->dice, 5);
  draw_text(d, edges[edge]);
  tn__strbuf_printf(&d->text, "%s[", from->name);
  for (int i = 0; i < from->rank; i++) { /* inside somewhere, or `pad` is refused */
    const drawn_axis *axis = &d->axis[roll(&d->dice, d->axis_count)];
    int by = roll(&d->dice, 5) - 2, reach = by < 0 ? axis->extent : from->size[i];
    tn__strbuf_printf(&d->text, "%s%s + %d", i > 0 ? ", " : "", axis->name, reach > 2 ? by : 0);
  }
  draw_text(d, edge == 4 ? "], 3)" : "])");
}

static inline void draw_leaf(draw *d) {
  const drawn_tensor *from = &d->tensor[roll(&d->dice, 2) ? d->count - 1 : roll(&d->dice, d->count)];
  switch (roll(&d->dice, 8)) {
    case 0: tn__strbuf_printf(&d->text, "%d%s", 1 + roll(&d->dice, 5), d->type); return;
    case 1: tn__strbuf_printf(&d->text, "%s(%s %% 5)", d->type, d->axis[roll(&d->dice, d->axis_count)].name); return;
    case 2:
      if (!from->wide) {
        draw_edge(d, from);
        return;
      }
      break;
    default: break;
  }
  draw_load(d, from);
}

static inline void draw_condition(draw *d, int depth);

static inline void draw_value(draw *d, int depth) {
  static const char *const calls[] = {"max(", "min(", "max(", "min("};
  static const char *const between[] = {" + ", " - "};
  if (depth == 0) {
    draw_leaf(d);
    return;
  }
  int kind = roll(&d->dice, 8);
  if (kind < 3) {
    draw_text(d, "(");
    draw_value(d, depth - 1);
    draw_text(d, between[kind % 2]);
    draw_value(d, depth - 1);
  } else if (kind == 3) {
    draw_leaf(d);
    tn__strbuf_printf(&d->text, " * %s(", d->type);
    draw_leaf(d);
  } else if (kind == 4) {
    draw_text(d, "select(");
    draw_condition(d, depth - 1);
    draw_text(d, ", ");
    draw_value(d, depth - 1);
    draw_text(d, ", ");
    draw_value(d, depth - 1);
  } else {
    draw_text(d, calls[kind - 4]);
    draw_value(d, depth - 1);
    draw_text(d, ", ");
    draw_value(d, depth - 1);
  }
  draw_text(d, ")");
}

static inline void draw_condition(draw *d, int depth) {
  static const char *const between[] = {" < ", " <= ", " == ", " != ", " >= ", " > "};
  const drawn_axis *a = &d->axis[roll(&d->dice, d->axis_count)], *b = &d->axis[roll(&d->dice, d->axis_count)];
  int number = roll(&d->dice, 9);
  draw_text(d, "(");
  switch (roll(&d->dice, 6)) {
    case 0: tn__strbuf_printf(&d->text, "%s%s%s", a->name, between[number % 6], b->name); break;
    case 1: tn__strbuf_printf(&d->text, "%s %% %d == %d", a->name, 2 + number % 3, number % 2); break;
    case 2: tn__strbuf_printf(&d->text, "%d <= %s < %d", number / 2, a->name, number + 2); break;
    case 3: tn__strbuf_printf(&d->text, "%s + %s%s%d", a->name, b->name, between[number % 6], 3 * number); break;
    case 4:
      if (depth > 0) {
        draw_condition(d, depth - 1);
        draw_text(d, number % 2 ? " && " : " || ");
        draw_condition(d, depth - 1);
        break;
      }
      draw_text(d, "false");
      break;
    default:
      draw_value(d, 0);
      draw_text(d, between[number % 6]);
      draw_value(d, depth > 0 ? depth - 1 : 0);
  }
  draw_text(d, ")");
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

/* An axis whose extent leaves the stage small; mostly that of a dimension that there is, so that axes fit tensors. */
static inline int draw_extent(draw *d, int most) {
  static const int extents[] = {1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33, 40, 64, 67, 130};
  const drawn_tensor *like = &d->tensor[roll(&d->dice, d->count)];
  int extent = roll(&d->dice, 3) ? like->size[roll(&d->dice, like->rank)]
                                 : extents[roll(&d->dice, (int)(sizeof(extents) / sizeof(extents[0])))];
  return extent > most ? 1 + roll(&d->dice, most) : extent;
}

static inline drawn_axis *draw_axis(draw *d, char letter, int most) {
  enum { POINTS = 24000 };
  int room = POINTS / d->points;
  drawn_axis *a = &d->axis[d->axis_count];
  a->extent = draw_extent(d, room < most ? room : most);
  snprintf(a->name, sizeof a->name, "%c%d", letter, d->axis_count++);
  d->points *= a->extent;
  return a;
}

/* "S3[i0: 5, i1: 7]"; the axes are in scope then. */
static inline drawn_tensor *draw_target(draw *d, int rank) {
  drawn_tensor *made = &d->tensor[d->count];
  snprintf(made->name, sizeof made->name, "S%d", d->count);
  made->rank = rank;
  made->wide = false;
  d->axis_count = 0;
  d->points = 1;
  for (int i = 0; i < rank; i++) made->size[i] = draw_axis(d, 'i', i < rank - 1 ? 40 : 130)->extent;
  return made;
}

static inline void draw_left(draw *d, const drawn_tensor *made) {
  tn__strbuf_printf(&d->text, "  %s[", made->name);
  for (int i = 0; i < made->rank; i++)
    tn__strbuf_printf(&d->text, "%s%s: %d", i > 0 ? ", " : "", d->axis[i].name, d->axis[i].extent);
  draw_text(d, "] = ");
}

static inline void draw_reduce_axes(draw *d, int count, int most) {
  for (int i = 0; i < count; i++) {
    const drawn_axis *k = draw_axis(d, 'k', most);
    tn__strbuf_printf(&d->text, "%s%s: %d", i > 0 ? ", " : "", k->name, k->extent);
  }
  draw_text(d, ") ");
}

/* The end of a stage: between what all types hold and products of few keep exact. */
static inline void draw_end(draw *d) { draw_text(d, d->is_unsigned ? ", 0, 9)\n" : ", -9, 9)\n"); }

static inline void draw_reduction(draw *d, drawn_kind kind) {
  static const char *const reducers[] = {"sum(", "max(", "min(", "sum("};
  int reducer = kind == DRAWN_PRODUCT ? 0 : roll(&d->dice, 4);
  draw_text(d, "clamp((");
  draw_text(d, reducers[reducer]);
  if (kind == DRAWN_RAGGED) {
    const drawn_axis *outer = &d->axis[roll(&d->dice, d->axis_count)];
    drawn_axis *k = &d->axis[d->axis_count];
    k->extent = outer->extent + 3;
    snprintf(k->name, sizeof k->name, "k%d", d->axis_count++);
    d->points *= k->extent;
    if (roll(&d->dice, 2))
      tn__strbuf_printf(&d->text, "%s: %s + %d) ", k->name, outer->name, 1 + roll(&d->dice, 2));
    else
      tn__strbuf_printf(&d->text, "%s: %s / 2 .. %s + %d) ", k->name, outer->name, outer->name, 1 + roll(&d->dice, 2));
  } else if (kind == DRAWN_WINDOW) {
    draw_reduce_axes(d, 1 + roll(&d->dice, 2), 5);
  } else {
    draw_reduce_axes(d, 1 + roll(&d->dice, 3), 64);
  }
  if (kind == DRAWN_PRODUCT) {
    draw_load(d, &d->tensor[roll(&d->dice, d->count)]);
    draw_text(d, " * ");
    draw_load(d, &d->tensor[roll(&d->dice, d->count)]);
  } else if (kind == DRAWN_WINDOW) {
    draw_edge(d, &d->tensor[0]);
    draw_text(d, " + ");
    draw_value(d, 1);
  } else {
    draw_value(d, roll(&d->dice, 3));
  }
  draw_text(d, ")");
  draw_end(d);
}

/* Values and places; the places are a tensor of their own. */
static inline void draw_place(draw *d, drawn_tensor *made) {
  static const char *const places[] = {"argmax(", "argmin(", "argmax_last(", "argmin_last("};
  drawn_tensor *at = &d->tensor[d->count + 1];
  tn__strbuf_printf(&d->text, "  %s[", made->name);
  for (int i = 0; i < made->rank; i++)
    tn__strbuf_printf(&d->text, "%s%s: %d", i > 0 ? ", " : "", d->axis[i].name, d->axis[i].extent);
  *at = *made;
  at->wide = true;
  snprintf(at->name, sizeof at->name, "S%d", d->count + 1);
  tn__strbuf_printf(&d->text, "], %s[", at->name);
  for (int i = 0; i < made->rank; i++) tn__strbuf_printf(&d->text, "%s%s", i > 0 ? ", " : "", d->axis[i].name);
  tn__strbuf_printf(&d->text, "] = %s", places[roll(&d->dice, 4)]);
  draw_reduce_axes(d, 1 + roll(&d->dice, 2), 64);
  draw_value(d, 1 + roll(&d->dice, 2));
  draw_text(d, "\n");
  d->count++;
}

/* A running value, by an operation whose order makes no difference. */
static inline void draw_running(draw *d, const drawn_tensor *made) {
  static const char *const steps[] = {"max(", "min(", "("};
  int along = roll(&d->dice, made->rank), step = roll(&d->dice, d->type[0] == 'f' ? 2 : 3);
  tn__strbuf_printf(&d->text, "scan(%s) ", d->axis[along].name);
  draw_value(d, 1);
  tn__strbuf_printf(&d->text, " then %s%s[", steps[step], made->name);
  for (int i = 0; i < made->rank; i++)
    tn__strbuf_printf(&d->text, i == along ? "%s%s - 1" : "%s%s", i > 0 ? ", " : "", d->axis[i].name);
  draw_text(d, step < 2 ? "], " : "] + ");
  draw_value(d, 1);
  draw_text(d, ")\n");
}

/* Of one axis, at any place; a step reads its own element before, or a neighbour's. */
static inline void draw_scan(draw *d, const drawn_tensor *made) {
  int along = roll(&d->dice, made->rank), back = 1 + roll(&d->dice, 2);
  bool turned = roll(&d->dice, 3) == 0, beside = roll(&d->dice, 4) == 0;
  tn__strbuf_printf(&d->text, back > 1 ? "scan(%s%s, %d) " : "scan(%s%s) ", turned ? "-" : "", d->axis[along].name,
                    back);
  draw_value(d, 1);
  draw_text(d, " then clamp(");
  tn__strbuf_printf(&d->text, "%s[", made->name);
  for (int i = 0; i < made->rank; i++) {
    if (i > 0) draw_text(d, ", ");
    if (i == along)
      tn__strbuf_printf(&d->text, "%s %s %d", d->axis[i].name, turned ? "+" : "-", 1 + roll(&d->dice, back));
    else if (beside)
      tn__strbuf_printf(&d->text, "clamp(%s - 1, 0, %d)", d->axis[i].name, d->axis[i].extent - 1);
    else
      draw_text(d, d->axis[i].name);
  }
  static const char *const steps[] = {"] + ", "] - ", "] * 2 - "};
  draw_text(d, steps[roll(&d->dice, 3)]);
  draw_value(d, roll(&d->dice, 3));
  draw_end(d);
}

/* Two tensors of one scan, each of which reads its own place of both, a step or two back. */
static inline void draw_pair(draw *d, drawn_tensor *made) {
  static const char *const between[] = {" + ", " - "};
  drawn_tensor *second = &d->tensor[d->count + 1];
  int along = roll(&d->dice, made->rank), back = 1 + roll(&d->dice, 2);
  bool turned = roll(&d->dice, 3) == 0;
  *second = *made;
  snprintf(second->name, sizeof second->name, "S%d", d->count + 1);
  for (int t = 0; t < 2; t++) {
    tn__strbuf_printf(&d->text, "%s%s[", t == 0 ? "  " : ", ", t == 0 ? made->name : second->name);
    for (int i = 0; i < made->rank; i++)
      tn__strbuf_printf(&d->text, t == 0 ? "%s%s: %d" : "%s%s", i > 0 ? ", " : "", d->axis[i].name, d->axis[i].extent);
    draw_text(d, "]");
  }
  tn__strbuf_printf(&d->text, back > 1 ? " = scan(%s%s, %d) (" : " = scan(%s%s) (", turned ? "-" : "",
                    d->axis[along].name, back);
  draw_value(d, 1);
  draw_text(d, ", ");
  draw_value(d, 0);
  draw_text(d, ") then (");
  for (int t = 0; t < 2; t++) {
    draw_text(d, t == 0 ? "clamp(" : ", clamp(");
    for (int from = 0; from < 2; from++) {
      tn__strbuf_printf(&d->text, "%s[", (from == t) == (roll(&d->dice, 4) > 0) ? made->name : second->name);
      for (int i = 0; i < made->rank; i++)
        if (i == along)
          tn__strbuf_printf(&d->text, "%s%s %s %d", i > 0 ? ", " : "", d->axis[i].name, turned ? "+" : "-",
                            1 + roll(&d->dice, back));
        else
          tn__strbuf_printf(&d->text, "%s%s", i > 0 ? ", " : "", d->axis[i].name);
      tn__strbuf_printf(&d->text, "]%s", from == 0 ? between[roll(&d->dice, 2)] : " + ");
    }
    draw_value(d, roll(&d->dice, 2));
    draw_text(d, d->is_unsigned ? ", 0, 9)" : ", -9, 9)");
  }
  draw_text(d, ")\n");
  d->count++;
}

/* What reads the end of a scan, or reduces over its steps, at each place of its other axes. */
static inline void draw_reader_of_steps(draw *d) {
  const drawn_tensor from = d->tensor[d->count - 1];
  drawn_tensor *made = &d->tensor[d->count];
  int along = roll(&d->dice, from.rank), reduces = roll(&d->dice, 3);
  if (from.rank < 2 || d->count + 2 > DRAW_TENSORS) return;
  snprintf(made->name, sizeof made->name, "S%d", d->count);
  made->rank = from.rank - 1;
  made->wide = false;
  d->axis_count = 0;
  tn__strbuf_printf(&d->text, "  %s[", made->name);
  for (int i = 0; i < from.rank; i++) {
    if (i == along) continue;
    drawn_axis *a = &d->axis[d->axis_count];
    made->size[d->axis_count] = a->extent = from.size[i];
    snprintf(a->name, sizeof a->name, "i%d", d->axis_count++);
    tn__strbuf_printf(&d->text, "%s%s: %d", d->axis_count > 1 ? ", " : "", a->name, a->extent);
  }
  draw_text(d, "] = clamp((");
  if (reduces) tn__strbuf_printf(&d->text, "%s(k8: %d) ", reduces == 1 ? "sum" : "max", from.size[along]);
  tn__strbuf_printf(&d->text, "%s[", from.name);
  for (int i = 0, a = 0; i < from.rank; i++) {
    draw_text(d, i > 0 ? ", " : "");
    if (i != along)
      draw_text(d, d->axis[a++].name);
    else if (reduces)
      draw_text(d, "k8");
    else
      tn__strbuf_printf(&d->text, "%d", roll(&d->dice, 4) ? from.size[i] - 1 : 0);
  }
  draw_text(d, "]) + ");
  draw_value(d, 1);
  draw_end(d);
  d->count++;
}

/* A scan along the first axis whose steps reduce what they made before. */
static inline void draw_recurrence(draw *d, const drawn_tensor *made) {
  static const char *const reducers[] = {"sum", "max", "min"};
  draw_text(d, "scan(i0) ");
  draw_value(d, 1);
  tn__strbuf_printf(&d->text, " then clamp((%s(k9: %d) %s[i0 - 1", reducers[roll(&d->dice, 3)], d->axis[1].extent,
                    made->name);
  tn__strbuf_printf(&d->text, ", k9%s] + ", made->rank > 2 ? ", i2" : "");
  int scope = d->axis_count;
  d->axis[scope] = (drawn_axis){"k9", d->axis[1].extent};
  d->axis_count++;
  draw_value(d, 1);
  d->axis_count = scope;
  draw_text(d, ") + ");
  draw_value(d, 1);
  draw_end(d);
}

static inline void draw_accumulation(draw *d, const drawn_tensor *made) {
  static const char *const reducers[] = {"sum(", "max(", "min("};
  int kept = roll(&d->dice, made->rank + 1); /* an axis that terms share with the result; rank: none */
  drawn_axis all[DRAW_AXES];
  memcpy(all, d->axis, sizeof all);
  draw_text(d, reducers[roll(&d->dice, 3)]);
  int scope = 0;
  d->points = kept < made->rank ? all[kept].extent : 1;
  if (kept < made->rank) d->axis[scope++] = all[kept];
  d->axis_count = scope;
  for (int i = 0, count = 1 + roll(&d->dice, 2); i < count; i++) {
    drawn_axis *k = draw_axis(d, 'n', 130);
    tn__strbuf_printf(&d->text, "%s%s: %d", i > 0 ? ", " : "", k->name, k->extent);
  }
  draw_text(d, ") clamp(");
  draw_value(d, 1);
  draw_text(d, d->is_unsigned ? ", 0, 9)" : ", -9, 9)");
  draw_text(d, " into [");
  for (int i = 0; i < made->rank; i++) {
    if (i > 0) draw_text(d, ", ");
    if (i == kept)
      draw_text(d, all[i].name);
    else if (roll(&d->dice, 3) == 0)
      tn__strbuf_printf(&d->text, "(3 * %s) %% %d", d->axis[scope].name, all[i].extent);
    else
      tn__strbuf_printf(&d->text, "i64(I[(%s + %d) %% 23]) + %d", d->axis[scope].name, i, roll(&d->dice, 6));
  }
  draw_text(d, "]\n");
}

static inline void draw_stage(draw *d) {
  drawn_kind kind = (drawn_kind)roll(&d->dice, DRAW_KINDS);
  int rank = 1 + roll(&d->dice, DRAW_RANK);
  if (kind == DRAWN_RECURRENCE) rank = 2 + rank % 2;
  drawn_tensor *made = draw_target(d, rank);
  /* A scan of which no step follows the first positions reads nothing, which is refused as reading outside. */
  for (int i = 0; i < rank && (kind == DRAWN_SCAN || kind == DRAWN_PAIR || kind == DRAWN_RECURRENCE); i++)
    if (d->axis[i].extent < 3) kind = DRAWN_MAP;
  if (kind == DRAWN_RECURRENCE && d->points * d->axis[1].extent > 200000) kind = DRAWN_MAP; /* its terms */
  d->drawn[kind]++;
  if (kind == DRAWN_PLACE) {
    draw_place(d, made);
    d->count++;
    return;
  }
  if (kind == DRAWN_PAIR) {
    draw_pair(d, made);
    d->count++;
    draw_reader_of_steps(d);
    return;
  }
  draw_left(d, made);
  switch (kind) {
    case DRAWN_MAP:
      draw_text(d, "clamp(");
      draw_value(d, 1 + roll(&d->dice, 3));
      draw_end(d);
      break;
    case DRAWN_SCAN:
      if (roll(&d->dice, 3) == 0)
        draw_running(d, made);
      else
        draw_scan(d, made);
      break;
    case DRAWN_RECURRENCE: draw_recurrence(d, made); break;
    case DRAWN_ACCUMULATE: draw_accumulation(d, made); break;
    default: draw_reduction(d, kind); break;
  }
  d->count++;
  if (kind == DRAWN_SCAN && roll(&d->dice, 2)) draw_reader_of_steps(d);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static inline void draw_parameter(tn__strbuf *head, const drawn_tensor *t, const char *type) {
  tn__strbuf_printf(head, "%s: %s[", t->name, t->wide ? "i64" : type);
  for (int i = 0; i < t->rank; i++) tn__strbuf_printf(head, "%s%d", i > 0 ? ", " : "", t->size[i]);
  tn__strbuf_append(head, "]");
}

/* Draws a kernel into d->text, which the caller releases; the dice are the caller's, and drawn[] is added to. */
static inline void draw_kernel(draw *d) {
  static const char *const types[] = {"f32", "i32", "f64", "u8", "i16", "f32", "i64", "i8"};
  tn__strbuf head;
  tn__strbuf_init(&head, NULL);
  tn__strbuf_init(&d->text, NULL);
  d->type = types[roll(&d->dice, 8)];
  d->is_unsigned = d->type[0] == 'u';
  tn__strbuf_append(&head, "kernel drawn(");
  for (d->count = 0; d->count < 3; d->count++) {
    drawn_tensor *in = &d->tensor[d->count];
    static const int sizes[] = {1, 3, 4, 7, 8, 12, 16, 17, 23, 33, 40};
    *in = (drawn_tensor){.rank = d->count == 2 ? 1 : 1 + roll(&d->dice, 3)};
    snprintf(in->name, sizeof in->name, "%c", 'A' + d->count);
    for (int i = 0; i < in->rank; i++) in->size[i] = sizes[roll(&d->dice, 11)];
    draw_parameter(&head, in, d->type);
    tn__strbuf_append(&head, ", ");
  }
  tn__strbuf_append(&head, "I: i32[23]) -> (");
  for (int i = 1 + roll(&d->dice, 5), most = DRAW_TENSORS - 3; i > 0 && d->count <= most; i--) draw_stage(d);
  int last = d->count - 1, outputs = 1 + roll(&d->dice, 3);
  for (int i = 0; i < outputs && last - i > 2; i++) {
    if (i > 0) tn__strbuf_append(&head, ", ");
    draw_parameter(&head, &d->tensor[last - i], d->type);
  }
  tn__strbuf_printf(&head, ") {\n%s}\n", tn__strbuf_text(&d->text));
  tn__strbuf_release(&d->text);
  d->text = head;
}

#endif
