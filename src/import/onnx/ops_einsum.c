/* Einsum: operands are reduced to products of two, one after another. */
#include <string.h>

#include "import/onnx/ops.h"

/* Labels: a letter, or ELLIPSIS + k for the k-th dimension from the end that "..." stands for. */
enum { ELLIPSIS = 128, MAX_LABELS = ELLIPSIS + TN__MAX_RANK };

typedef struct term { /* a tensor with a label for each dimension, no label twice */
  tn__value *value;
  int labels[TN__MAX_RANK];
} term;

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static int find(const int *labels, int count, int label) {
  for (int i = 0; i < count; i++)
    if (labels[i] == label) return i;
  return -1;
}

/* Reads one operand's subscripts, up to ',' or '-' or the end; `dots` is how many dimensions "..." stands for, -1: as
 * many as `rank` leaves. */
TN_MUST_USE static int parse_labels(tn__onode *n, const char **text, int rank, int dots, int *labels) {
  const char *p = *text;
  int letters = 0, count = 0;
  bool ellipsis = false;
  for (const char *q = p; *q != '\0' && *q != ',' && *q != '-'; q++) letters += is_letter(*q);
  if (dots < 0) dots = rank - letters;
  for (; *p != '\0' && *p != ',' && *p != '-'; p++) {
    if (*p == ' ') continue;
    if (is_letter(*p)) {
      if (count == TN__MAX_RANK)
        tn__on_unsupported(n, "equation names more than %d dimensions of one tensor", TN__MAX_RANK);
      labels[count++] = (unsigned char)*p;
    } else if (strncmp(p, "...", 3) == 0 && !ellipsis && dots >= 0 && count + dots <= TN__MAX_RANK) {
      for (int k = dots - 1; k >= 0; k--) labels[count++] = ELLIPSIS + k;
      ellipsis = true;
      p += 2;
    } else {
      tn__on_fail(n, "equation \"%s\" cannot be read at \"%s\"", tn__on_string(n, "equation", ""), p);
    }
  }
  *text = p;
  return count;
}

/* Of dimensions that share a label only the diagonal counts. */
static void take_diagonals(tn__onode *n, term *t, int input) {
  for (int i = 0; i < t->value->rank; i++) {
    for (int k = t->value->rank - 1; k > i; k--) {
      if (t->labels[k] != t->labels[i]) continue;
      tn__value *v = t->value;
      const int64_t axis = k;
      tn__relate_sizes(n->g, tn__arena_printf(n->arena, "dimension %d of input %d", k, input), v->dims[k],
                       "==", tn__arena_printf(n->arena, "dimension %d, which has the same label", i), v->dims[i]);
      tn__value *other = tn__g_iota(n->g, TN_I64, v->rank, v->dims, k);
      tn__value *same = tn__g_compare(n->g, TN__CMP_EQ, tn__g_iota(n->g, TN_I64, v->rank, v->dims, i), other);
      v = tn__g_select(n->g, same, v, tn__on_scalar(n, 0, v));
      t->value = tn__g_reduce(n->g, TN__REDUCE_SUM, v, &axis, 1, false);
      for (int m = k; m < t->value->rank; m++) t->labels[m] = t->labels[m + 1];
    }
  }
}

/* Sums over the labels that `needed` does not list. */
static void sum_unneeded(tn__onode *n, term *t, const bool *needed) {
  int64_t axes[TN__MAX_RANK];
  int count = 0, kept = 0;
  for (int i = 0; i < t->value->rank; i++) {
    if (needed[t->labels[i]])
      t->labels[kept++] = t->labels[i];
    else
      axes[count++] = i;
  }
  if (count > 0) t->value = tn__g_reduce(n->g, TN__REDUCE_SUM, t->value, axes, count, false);
}

/* A dimension of size 1 beside a larger one of the same label stretches: it is dropped. */
static void drop_ones(tn__onode *n, term *a, const term *b) {
  int64_t axes[TN__MAX_RANK];
  int count = 0, kept = 0;
  for (int i = 0; i < a->value->rank; i++) {
    int other = find(b->labels, b->value->rank, a->labels[i]);
    if (other >= 0 && tn__g_dim_const(a->value, i) == 1 && tn__g_dim_const(b->value, other) != 1)
      axes[count++] = i;
    else
      a->labels[kept++] = a->labels[i];
  }
  if (count > 0) a->value = tn__on_squeeze(n, a->value, axes, count);
}

static const char *label_text(tn__onode *n, int label, const char *where) {
  if (label >= ELLIPSIS)
    return tn__arena_printf(n->arena, "dimension %d from the end of \"...\" of %s", label - ELLIPSIS, where);
  return tn__arena_printf(n->arena, "label %c of %s", (char)label, where);
}

/* The open sizes of one label are equal, or one is 1 at run time and is broadcast. */
static void stretch_both(tn__onode *n, term *a, term *b, int input) {
  const char *before = input == 1 ? "input 0" : "the inputs before";
  const tn__expr *a_dims[TN__MAX_RANK], *b_dims[TN__MAX_RANK];
  for (int i = 0; i < b->value->rank; i++) b_dims[i] = b->value->dims[i];
  for (int i = 0; i < a->value->rank; i++) {
    int label = a->labels[i], other = find(b->labels, b->value->rank, label);
    a_dims[i] = a->value->dims[i];
    if (other < 0 || a_dims[i] == b_dims[other]) continue;
    const char *right = label_text(n, label, tn__arena_printf(n->arena, "input %d", input));
    a_dims[i] = tn__g_broadcast_size(n->g, label_text(n, label, before), a_dims[i], right, b_dims[other]);
    b_dims[other] = a_dims[i];
  }
  a->value = tn__g_stretch(n->g, a->value, a->value->rank, a_dims);
  b->value = tn__g_stretch(n->g, b->value, b->value->rank, b_dims);
}

static term multiply(tn__onode *n, term a, term b, int input, const bool *needed) {
  drop_ones(n, &a, &b);
  drop_ones(n, &b, &a);
  stretch_both(n, &a, &b, input);
  int64_t lhs_batch[TN__MAX_RANK], rhs_batch[TN__MAX_RANK], lhs_contract[TN__MAX_RANK], rhs_contract[TN__MAX_RANK];
  int batch = 0, contract = 0, free_count = 0;
  int labels[2 * TN__MAX_RANK], free_labels[2 * TN__MAX_RANK];
  for (int i = 0; i < a.value->rank; i++) {
    int other = find(b.labels, b.value->rank, a.labels[i]);
    if (other < 0) {
      free_labels[free_count++] = a.labels[i];
    } else if (needed[a.labels[i]]) {
      lhs_batch[batch] = i;
      rhs_batch[batch] = other;
      labels[batch++] = a.labels[i];
    } else {
      lhs_contract[contract] = i;
      rhs_contract[contract++] = other;
    }
  }
  for (int i = 0; i < b.value->rank; i++)
    if (find(a.labels, a.value->rank, b.labels[i]) < 0) free_labels[free_count++] = b.labels[i];
  if (batch + free_count > TN__MAX_RANK)
    tn__on_unsupported(n, "makes a tensor with %d dimensions; at most %d are supported", batch + free_count,
                       TN__MAX_RANK);
  term result = {.value = tn__g_dot_general(n->g, a.value, b.value, lhs_batch, rhs_batch, batch, lhs_contract,
                                            rhs_contract, contract, a.value->dtype)};
  memcpy(result.labels, labels, (size_t)batch * sizeof(int));
  memcpy(result.labels + batch, free_labels, (size_t)free_count * sizeof(int));
  return result;
}

/* Without "->": the labels that occur once, in alphabetical order, after the dimensions of "...". */
TN_MUST_USE static int implied_output(const int *uses, int dots, int *labels) {
  int count = 0;
  for (int k = dots - 1; k >= 0; k--) labels[count++] = ELLIPSIS + k;
  for (int c = 0; c < ELLIPSIS; c++)
    if (uses[c] == 1 && count < TN__MAX_RANK) labels[count++] = c;
  return count;
}

/* The dimensions in the order of `labels`; one that was dropped everywhere is 1. */
static tn__value *arrange(tn__onode *n, const term *t, const int *labels, int count) {
  int64_t order[TN__MAX_RANK], fresh[TN__MAX_RANK];
  int found = 0, missing = 0;
  for (int i = 0; i < count; i++) {
    int at = find(t->labels, t->value->rank, labels[i]);
    if (at >= 0)
      order[found++] = at;
    else
      fresh[missing++] = i;
  }
  if (found != t->value->rank)
    tn__on_fail(n, "equation \"%s\" gives its result a label twice", tn__on_string(n, "equation", ""));
  tn__value *y = tn__on_transpose(n, t->value, order);
  return missing > 0 ? tn__on_unsqueeze(n, y, fresh, missing) : y;
}

void tn__onnx_einsum(tn__onode *n) {
  const char *equation = tn__on_string(n, "equation", "");
  term *terms = TN__NEW_ARRAY(n->arena, n->input_count, term);
  int uses[MAX_LABELS] = {0}, output[TN__MAX_RANK], output_count, dots = 0;
  const char *p = equation;
  for (int i = 0; i < n->input_count; i++) {
    int count = parse_labels(n, &p, n->in[i]->rank, -1, terms[i].labels);
    if (count != n->in[i]->rank)
      tn__on_fail(n, "equation \"%s\" gives input %d %d dimensions, and it has %d", equation, i, count, n->in[i]->rank);
    if ((*p == ',') != (i + 1 < n->input_count))
      tn__on_fail(n, "equation \"%s\" is not for %d inputs", equation, n->input_count);
    p += *p == ',';
    terms[i].value = tn__on_widen(n, n->in[i]);
    for (int k = 0; k < count; k++) {
      uses[terms[i].labels[k]]++;
      if (terms[i].labels[k] >= ELLIPSIS && terms[i].labels[k] - ELLIPSIS >= dots)
        dots = terms[i].labels[k] - ELLIPSIS + 1;
    }
    take_diagonals(n, &terms[i], i);
  }
  if (strncmp(p, "->", 2) == 0) {
    p += 2;
    output_count = parse_labels(n, &p, 0, dots, output);
  } else {
    output_count = implied_output(uses, dots, output);
  }
  if (*p != '\0') tn__on_fail(n, "equation \"%s\" cannot be read at \"%s\"", equation, p);
  for (int i = 0; i < output_count; i++)
    if (uses[output[i]] == 0) tn__on_fail(n, "equation \"%s\" has a label in its result that no input has", equation);
  term result = terms[0];
  for (int i = 0; i < n->input_count; i++) {
    bool needed[MAX_LABELS] = {false};
    for (int k = 0; k < output_count; k++) needed[output[k]] = true;
    for (int later = i + 1; later < n->input_count; later++)
      for (int k = 0; k < terms[later].value->rank; k++) needed[terms[later].labels[k]] = true;
    bool kept[MAX_LABELS];
    memcpy(kept, needed, sizeof(kept));
    for (int k = 0; i > 0 && k < result.value->rank; k++) kept[result.labels[k]] = true;
    if (i > 0) {
      sum_unneeded(n, &terms[i], kept);
      result = multiply(n, result, terms[i], i, needed);
    }
    sum_unneeded(n, &result, needed);
  }
  n->out[0] = tn__g_convert(n->g, arrange(n, &result, output, output_count), n->in[0]->dtype);
}
