/* The machine's code as C: scalars in `s`, memory of sizes known at entry in `frame`, what is found later in tensors
 * `t` of the workspace's other end. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/message.h"
#include "emit_c/emit_c.h"

typedef tn__c_writer writer;

/* ---- places of failures ----------------------------------------------------------------------------------------- */

static tn_status *add_place(tn__c_emitter *e, const char *text, uint32_t *out) {
  if (e->place_count > 0 && strcmp(e->places[e->place_count - 1], text) == 0) {
    *out = e->place_count - 1;
    return NULL;
  }
  if (e->place_count == e->place_capacity) {
    const char **grown;
    uint32_t capacity = e->place_capacity ? 2 * e->place_capacity : 64;
    TN_RETURN_IF_ERROR(tn__region_alloc(e->region, capacity, sizeof *grown, &grown));
    if (e->place_count > 0) memcpy(grown, e->places, e->place_count * sizeof *grown);
    e->places = grown, e->place_capacity = capacity;
  }
  char *copy;
  size_t size = strlen(text) + 1;
  TN_RETURN_IF_ERROR(tn__region_alloc(e->region, size, 1, &copy));
  memcpy(copy, text, size);
  *out = e->place_count;
  e->places[e->place_count++] = copy;
  return NULL;
}

/* Where an instruction stands, for people. `in` NULL: the function's entry. */
static tn_status *place_of(const writer *w, const tn__instruction *in, uint32_t *out) {
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  const char *origin = in ? tn__function_origin(w->e->exe, w->f, in->word) : NULL;
  bool kernel = in && in->op == TN__OP_KERNEL;
  if (origin) tn__strbuf_append(&text, origin);
  if (kernel)
    tn__strbuf_shown_printf(&text, "%skernel \"%s\"", origin ? ": " : "", w->e->exe->kernels[in->callee].about.name);
  if (!origin && !kernel) tn__strbuf_shown_printf(&text, "function \"%s\"", w->f->name);
  tn_status *status = tn__strbuf_status(&text);
  if (status == NULL) status = add_place(w->e, tn__strbuf_text(&text), out);
  tn__strbuf_release(&text);
  return status;
}

/* ---- scalars ---------------------------------------------------------------------------------------------------- */

/* Each operator is a function of the header, which is the machine's. */
static void write_scalar_op(const writer *w, const tn__instruction *in, uint32_t place) {
  const tn__scalar_op_row *row = tn__scalar_op_find(in->d);
  if (row->divides)
    tn__strbuf_printf(w->out, "  if (s[%u] == 0) return %d;\n", in->c, tn__c_status(TN_KERNEL_DIVISION_BY_ZERO, place));
  tn__strbuf_printf(w->out, "  s[%u] = tni_%s_%s(s[%u], s[%u]);\n", in->a, w->e->name, row->function, in->b, in->c);
}

static void write_load(const writer *w, const tn__instruction *in, uint32_t place) {
  const tn__register *r = &w->f->registers[in->b];
  size_t element = tn_dtype_size(r->dtype);
  char condition[64];
  tn__c_write_view_check(w, in->b, place);
  if (r->static_bytes < 0) {
    tn__c_write_bytes(w, in->b, "b");
    snprintf(condition, sizeof condition, "b / %zu <= %u", element, in->c);
    tn__c_write_failure(w, condition, TN_KERNEL_INDEX_OUT_OF_RANGE, place);
  } else if ((uint64_t)r->static_bytes / element <= in->c) {
    tn__c_write_failure(w, "1", TN_KERNEL_INDEX_OUT_OF_RANGE, place);
    return;
  }
  tn__strbuf_printf(w->out, "  s[%u] = tni_%s_load_%s(", in->a, w->e->name, tn_dtype_name(r->dtype));
  tn__c_write_address(w, in->b);
  tn__strbuf_printf(w->out, ", %u);\n", in->c);
}

/* What a message says of a scalar: how it is computed from sizes, as far as that is known. */
static void write_scalar_text(const tn__c_function *c, tn__strbuf *out, uint32_t scalar, int depth) {
  const tn__instruction *in = c->made_by[scalar];
  const char *name = c->symbols[scalar] ? c->symbols[scalar] : c->f->scalar_names[scalar];
  if (name) {
    tn__strbuf_append(out, name);
  } else if (in && in->op == TN__OP_SCALAR_CONST) {
    tn__strbuf_printf(out, "%lld", (long long)in->immediate);
  } else if (in && in->op == TN__OP_SCALAR_SHAPE && c->f->registers[in->b].dims[in->c].symbolic &&
             (uint32_t)c->f->registers[in->b].dims[in->c].value != scalar && depth < 8) {
    write_scalar_text(c, out, (uint32_t)c->f->registers[in->b].dims[in->c].value, depth + 1);
  } else if (in && in->op == TN__OP_SCALAR_OP && depth < 8) {
    const char *operator= tn__scalar_op_find(in->d)->text;
    bool call = isalpha((unsigned char)operator[0]) != 0;
    tn__strbuf_printf(out, "%s(", call ? operator : "");
    write_scalar_text(c, out, in->b, depth + 1);
    tn__strbuf_printf(out, call ? ", " : " %s ", operator);
    write_scalar_text(c, out, in->c, depth + 1);
    tn__strbuf_char(out, ')');
  } else {
    tn__strbuf_char(out, '?');
  }
}

void tn__c_write_dim_text(const tn__c_function *c, tn__strbuf *out, const tn__operand *dim) {
  if (dim->symbolic)
    write_scalar_text(c, out, (uint32_t)dim->value, 0);
  else
    tn__strbuf_printf(out, "%lld", (long long)dim->value);
}

static tn_status *add_message(const writer *w, const tn__instruction *in, uint32_t *place) {
  tn__strbuf text, what;
  tn__strbuf_init(&text, NULL);
  tn__strbuf_init(&what, NULL);
  tn__strbuf_shown_printf(&what, "check %u of function \"%s\"", in->word, w->f->name);
  for (const char *at = w->e->exe->strings + in->callee; *at;) {
    unsigned scalar;
    int length = 0;
    if (*at == TN__SCALAR_MARK && sscanf(at + 1, "%u\1%n", &scalar, &length) == 1 && length > 0 &&
        scalar < w->f->scalar_count) {
      /* In `n + 1 = 5` the expression has said it: values are not told here. */
      bool told = text.length >= 3 && strcmp(text.text + text.length - 3, " = ") == 0;
      if (told) text.text[text.length -= 3] = '\0';
      if (!told) write_scalar_text(w->c, &text, scalar, 0);
      at += 1 + length;
    } else {
      tn__strbuf_char(&text, *at++);
    }
  }
  tn_status *status = tn__strbuf_status(&text);
  if (status == NULL) status = tn__strbuf_status(&what);
  if (status == NULL) status = add_place(w->e, tn__strbuf_text(&what), place);
  if (status == NULL) {
    tn__strbuf_printf(&w->e->asserts, "    case %d: return ", tn__c_status(TN__C_CHECK, *place));
    tn__c_write_string(&w->e->asserts, tn__strbuf_text(&text));
    tn__strbuf_append(&w->e->asserts, ";\n");
  }
  tn__strbuf_release(&text);
  tn__strbuf_release(&what);
  return status;
}

static tn_status *write_assert(const writer *w, const tn__instruction *in) {
  uint32_t place;
  TN_RETURN_IF_ERROR(add_message(w, in, &place));
  tn__strbuf_printf(w->out, "  if (s[%u] == 0) return %d;\n", in->a, tn__c_status(TN__C_CHECK, place));
  return NULL;
}

static void write_scalar(const writer *w, const tn__instruction *in, uint32_t place) {
  switch ((tn__opcode)in->op) {
    case TN__OP_SCALAR_CONST:
      tn__strbuf_printf(w->out, "  s[%u] = ", in->a);
      tn__c_write_number(w->out, in->immediate);
      tn__strbuf_append(w->out, ";\n");
      return;
    case TN__OP_SCALAR_OP: write_scalar_op(w, in, place); return;
    case TN__OP_SCALAR_LOAD: write_load(w, in, place); return;
    case TN__OP_SCALAR_SELECT:
      tn__strbuf_printf(w->out, "  s[%u] = tni_%s_select(s[%u], s[%u], s[%u]);\n", in->a, w->e->name, in->b, in->c,
                        in->d);
      return;
    default: /* SCALAR_SHAPE */
      tn__c_write_view_check(w, in->b, place);
      tn__strbuf_printf(w->out, "  s[%u] = ", in->a);
      tn__c_write_dim(w, in->b, (int)in->c);
      tn__strbuf_append(w->out, ";\n");
  }
}

/* ---- entry ------------------------------------------------------------------------------------------------------ */

/* Symbols from the sizes of inputs. Public functions make the inputs themselves, so nothing contradicts there. */
static void write_binding(const writer *w, uint32_t place) {
  for (uint32_t i = 0; i < w->f->input_count; i++) {
    const tn__function_value *input = &w->f->inputs[i];
    for (int d = 0; d < input->info.rank && input->info.kind == TN_VALUE_TENSOR; d++) {
      const tn__operand *dim = tn__function_value_dim(w->f, input, d);
      bool binds = dim->symbolic && input->binds[d];
      if (!binds && !w->c->called) continue;
      if (binds) tn__strbuf_printf(w->out, "  s[%lld] = in[%u].dims[%d];\n", (long long)dim->value, i, d);
      tn__strbuf_printf(w->out, "  if (in[%u].dims[%d] ", i, d);
      tn__strbuf_append(w->out, binds ? "< 0" : "!= ");
      if (!binds) tn__c_write_operand(w, dim);
      if (d == input->grows)
        tn__strbuf_printf(w->out, " || in[%u].dims[%d] > %lld", i, d, (long long)input->info.dims[d]->capacity);
      tn__strbuf_printf(w->out, ") return %d;\n", tn__c_status(TN__C_SIZE, place));
    }
  }
}

/* What counts of outputs that grow fits their buffers. */
static void write_extents(const writer *w, uint32_t place) {
  for (uint32_t i = 0; i < w->f->output_count; i++) {
    const tn__function_value *output = &w->f->outputs[i];
    if (output->grows < 0) continue;
    tn__strbuf_append(w->out, "  b = ");
    tn__c_write_operand(w, &output->valid);
    tn__strbuf_printf(w->out, ";\n  if (b < 0 || b > %lld) return %d;\n",
                      (long long)output->info.dims[output->grows]->capacity, tn__c_status(TN__C_SIZE, place));
  }
}

/* Scalars and checks of the prologue, and scalars of later that can be computed now. */
static tn_status *write_known(const writer *w, bool from_sizes) {
  for (uint32_t i = 0; i < w->f->instruction_count; i++) {
    const tn__instruction *in = &w->f->instructions[i];
    if (!tn__c_is_done_at_entry(w->c, in) || (from_sizes && w->c->tainted[in->a])) continue;
    uint32_t place;
    TN_RETURN_IF_ERROR(place_of(w, in, &place));
    if (in->op == TN__OP_ASSERT)
      TN_RETURN_IF_ERROR(write_assert(w, in));
    else
      write_scalar(w, in, place);
  }
  return NULL;
}

/* What the sizes given make impossible: too large, or not fitting what was planned for them. */
static void write_shape_checks(const writer *w, uint32_t place) {
  const tn__function *f = w->f;
  for (uint32_t i = 0; i < f->register_count; i++) {
    const tn__register *r = &f->registers[i], *root = &f->registers[r->root];
    bool open = r->static_bytes < 0, early = tn__c_knows(w->c, r) && !tn__c_is_late(w->c, r->root);
    if (!early || r->storage == TN__STORAGE_DYNAMIC) continue;
    if (r->storage == TN__STORAGE_VIEW) {
      if (tn__c_same_size(r, root) || !tn__c_knows(w->c, root)) continue;
      tn__c_write_bytes(w, i, "b");
      tn__c_write_bytes(w, r->root, "x");
      tn__c_write_failure(w, "b < 0 || b != x", TN__C_SIZE, place);
    } else if (r->storage == TN__STORAGE_ARENA && (open || r->offset.symbolic || f->arena.symbolic)) {
      tn__c_write_bytes(w, i, "b");
      tn__strbuf_append(w->out, "  x = ");
      tn__c_write_operand(w, &r->offset);
      tn__strbuf_append(w->out, ";\n");
      tn__c_write_failure(w, "b < 0 || x < 0 || b > arena || x > arena - b", TN__C_SIZE, place);
    } else if (open) {
      tn__c_write_bytes(w, i, "b");
      tn__c_write_failure(w, "b < 0", TN__C_SIZE, place);
    }
  }
}

/* The bytes of the function's own memory, in `size`, and the places in it. */
static void write_frame(const writer *w, uint32_t place) {
  const tn__function *f = w->f;
  const tn__c_function *c = w->c;
  tn__strbuf_append(w->out, "  arena = ");
  tn__c_write_operand(w, &f->arena);
  tn__strbuf_printf(w->out, ";\n  size = tni_%s_add_bytes(0, arena);\n", w->e->name);
  for (uint32_t i = 0; i < f->register_count; i++) {
    if (c->memory[i] != TN__C_SLOT) continue;
    tn__c_write_bytes(w, i, "b");
    tn__strbuf_printf(w->out, "  o[%u] = size;\n  size = tni_%s_add_bytes(size, b);\n", c->place[i], w->e->name);
  }
  bool scratch = false;
  for (uint32_t i = 0; i < f->register_count; i++) {
    if (c->memory[i] != TN__C_SCRATCH) continue;
    tn__strbuf_append(w->out, scratch ? "" : "  x = 0;\n");
    scratch = true;
    tn__c_write_bytes(w, i, "b");
    tn__strbuf_append(w->out, "  x = b < 0 || x < 0 ? -1 : b > x ? b : x;\n");
  }
  if (scratch)
    tn__strbuf_printf(w->out, "  o[%u] = size;\n  size = tni_%s_add_bytes(size, x);\n", c->slot_count, w->e->name);
  tn__c_write_failure(w, "size < 0", TN__C_SIZE, place);
}

static void write_locals(const writer *w) {
  const tn__c_function *c = w->c;
  tn__strbuf_printf(w->out, "  int64_t s[%u] = {0}, o[%u], arena, size, b = 0, x = 0;\n",
                    w->f->scalar_count > 0 ? w->f->scalar_count : 1, c->slot_count + 1);
  if (w->space) {
    tn__strbuf_append(w->out, "  (void)in, (void)s, (void)o, (void)b, (void)x;\n");
    return;
  }
  tn__strbuf_printf(w->out, "  char *frame;\n  void *p[%u];\n", c->slot_count + 1);
  if (c->late_count > 0) tn__strbuf_printf(w->out, "  tni_%s_tensor t[%u];\n", w->e->name, c->late_count);
  if (c->list_count > 0) tn__strbuf_printf(w->out, "  tni_%s_list l[%u];\n", w->e->name, c->list_count);
  tn__strbuf_append(w->out, "  (void)in, (void)out, (void)s, (void)o, (void)b, (void)x, (void)frame, (void)p;\n");
}

static void write_taking(const writer *w, uint32_t place) {
  const tn__c_function *c = w->c;
  tn__strbuf_printf(w->out,
                    "  frame = c->low;\n"
                    "  x = tni_%s_claim(c, size);\n"
                    "  if (x != 0) return (int32_t)x + %d;\n",
                    w->e->name, tn__c_status(0, place));
  bool scratch = false;
  for (uint32_t i = 0; i < w->f->register_count; i++) scratch = scratch || c->memory[i] == TN__C_SCRATCH;
  for (uint32_t i = 0; i < c->slot_count + scratch; i++) tn__strbuf_printf(w->out, "  p[%u] = frame + o[%u];\n", i, i);
  for (uint32_t i = 0; i < c->late_count; i++)
    tn__strbuf_printf(w->out, "  t[%u].data = 0, t[%u].capacity = 0, t[%u].grows = 1;\n", i, i, i);
  if (c->list_count > 0) tn__strbuf_append(w->out, "  memset(l, 0, sizeof l);\n");
}

/* The shape of an output is known, and its memory looked for. */
static void write_placing(const writer *w, uint32_t number, uint32_t place) {
  const tn__register *r = &w->f->registers[number];
  uint32_t index;
  const char *what = tn__c_late_tensor(w, number, &index);
  for (int d = 0; d < r->rank; d++) {
    tn__strbuf_printf(w->out, "  %s[%u].dims[%d] = ", what, index, d);
    tn__c_write_operand(w, &r->dims[d]);
    tn__strbuf_append(w->out, ";\n");
  }
  if (w->c->called || tn__c_is_late(w->c, number)) /* otherwise it is the caller's, and large enough */
    tn__c_write_fit(w, number, place);
}

/* ---- instructions ----------------------------------------------------------------------------------------------- */

/* Sets `x` to 2 when a kernel that is known to have no result with elements is left out, as the machine does. */
static void write_emptiness(const writer *w, const tn__instruction *in) {
  tn__strbuf_append(w->out, "  x = 1;\n");
  for (uint32_t i = in->read_count; i < in->read_count + in->write_count; i++) {
    int rank = w->f->registers[in->operands[i]].rank;
    tn__strbuf_append(w->out, "  {\n    const int64_t d[] = {");
    for (int d = 0; d < rank; d++) {
      if (d > 0) tn__strbuf_append(w->out, ", ");
      tn__c_write_dim(w, in->operands[i], d);
    }
    tn__strbuf_printf(w->out,
                      "};\n    b = tni_%s_emptiness(d, %d);\n  }\n"
                      "  x = b == 0 || x == 0 ? 0 : b > x ? b : x;\n",
                      w->e->name, rank);
  }
}

static void write_kernel(const writer *w, const tn__instruction *in, uint32_t place) {
  uint32_t buffers = in->read_count + in->write_count;
  if (in->may_make_nothing) {
    write_emptiness(w, in);
    tn__strbuf_append(w->out, "  if (x < 2)\n");
  }
  tn__strbuf_append(w->out, "  {\n    void *buffers[] = {");
  for (uint32_t i = 0; i < buffers; i++) {
    if (i > 0) tn__strbuf_append(w->out, ", ");
    tn__c_write_address(w, in->operands[i]);
  }
  tn__strbuf_append(w->out, "};\n");
  if (in->scalar_count > 0) {
    tn__strbuf_append(w->out, "    const int64_t scalars[] = {");
    for (uint32_t i = 0; i < in->scalar_count; i++)
      tn__strbuf_printf(w->out, "%ss[%u]", i > 0 ? ", " : "", in->operands[buffers + i]);
    tn__strbuf_append(w->out, "};\n");
  }
  tn__strbuf_printf(w->out,
                    "    const int32_t result = tni_%s_kernel_%u(&c->env, buffers, %s); /* %s */\n"
                    "    if (result != 0) return result + %d;\n  }\n",
                    w->e->name, in->callee, in->scalar_count > 0 ? "scalars" : "0",
                    w->e->exe->kernels[in->callee].about.name, tn__c_status(0, place));
}

/* Rows times this are bytes. */
static void write_row_bytes(const writer *w, const tn__register *r, int axis) {
  int64_t inner = (int64_t)tn_dtype_size(r->dtype);
  for (int d = axis + 1; d < r->rank; d++) inner *= r->dims[d].symbolic ? 1 : r->dims[d].value;
  tn__strbuf_printf(w->out, " * %lld", (long long)inner);
  for (int d = axis + 1; d < r->rank; d++)
    if (r->dims[d].symbolic) tn__strbuf_printf(w->out, " * s[%lld]", (long long)r->dims[d].value);
}

/* To an output that grows: the bytes of a row of its buffer, and of those what counts in both, as an input that grows
 * may have fewer or more of them. */
static void write_rows(const writer *w, const tn__function_value *output, const tn__register *from) {
  const tn__register *r = &w->f->registers[output->reg];
  bool both = from->storage == TN__STORAGE_INPUT && w->f->inputs[from->index].grows >= 0;
  tn__strbuf_append(w->out, ", ");
  tn__c_write_operand(w, &r->dims[output->grows]);
  write_row_bytes(w, r, output->grows);
  if (both) {
    tn__strbuf_printf(w->out, ", tni_%s_min(", w->e->name);
    tn__c_write_operand(w, &w->f->inputs[from->index].valid);
  }
  tn__strbuf_append(w->out, ", ");
  tn__c_write_operand(w, &output->valid);
  if (both) tn__strbuf_append(w->out, ")");
  write_row_bytes(w, r, output->grows);
}

static void write_copy(const writer *w, const tn__instruction *in, uint32_t place) {
  const tn__register *to = &w->f->registers[in->a], *from = &w->f->registers[in->b];
  tn__c_write_view_check(w, in->a, place);
  tn__c_write_view_check(w, in->b, place);
  tn__c_write_bytes(w, in->a, "b");
  bool late = tn__c_is_late(w->c, to->root) || tn__c_is_late(w->c, from->root);
  if (late || !tn__c_same_size(to, from)) {
    tn__c_write_bytes(w, in->b, "x");
    tn__c_write_failure(w, "b != x", TN__C_SIZE, place);
  }
  bool grows = to->storage == TN__STORAGE_OUTPUT && w->f->outputs[to->index].grows >= 0;
  tn__strbuf_printf(w->out, grows ? "  tni_%s_copy_rows(" : "  tni_%s_copy(", w->e->name);
  tn__c_write_address(w, in->a);
  tn__strbuf_append(w->out, ", ");
  tn__c_write_address(w, in->b);
  tn__strbuf_append(w->out, ", b");
  if (grows) write_rows(w, &w->f->outputs[to->index], from);
  tn__strbuf_append(w->out, ");\n");
}

/* A late tensor got the dimensions that `of` has; those that its readers take for constant must be what they are. */
static void write_constant_dims(const writer *w, uint32_t number, const char *of, uint32_t index,
                                const tn__register *made, uint32_t place) {
  const tn__register *r = &w->f->registers[number];
  for (int d = 0; d < r->rank; d++) {
    if (r->dims[d].symbolic || (made && !made->dims[d].symbolic)) continue;
    char condition[96];
    snprintf(condition, sizeof condition, "%s[%u].dims[%d] != %lld", of, index, d, (long long)r->dims[d].value);
    tn__c_write_failure(w, condition, TN__C_SIZE, place);
  }
}

static void write_move(const writer *w, const tn__instruction *in, uint32_t place) {
  const tn__c_function *c = w->c;
  bool late = tn__c_is_late(c, in->a);
  const char *what = late ? "t" : "p";
  if (late)
    tn__strbuf_printf(w->out, "  {\n    const tni_%s_tensor kept", w->e->name);
  else
    tn__strbuf_append(w->out, "  {\n    void *kept");
  uint32_t a = c->place[in->a], b = c->place[in->b];
  tn__strbuf_printf(w->out, " = %s[%u];\n    %s[%u] = %s[%u], %s[%u] = kept;\n  }\n", what, a, what, a, what, b, what,
                    b);
  if (late) write_constant_dims(w, in->a, "t", a, &w->f->registers[in->b], place);
}

static bool is_read(const writer *w, const tn__instruction *in, uint32_t root) {
  for (uint32_t i = 0; i < in->read_count; i++)
    if (w->f->registers[in->operands[i]].root == root) return true;
  return false;
}

static void write_argument(const writer *w, const tn__instruction *in, uint32_t index, uint32_t place) {
  uint32_t number = in->operands[index];
  const tn__register *r = &w->f->registers[number];
  int grows = w->e->exe->functions[in->callee].inputs[index].grows; /* then the register is an input that grows, too */
  if (!w->space) {
    tn__c_write_view_check(w, number, place);
    tn__strbuf_printf(w->out, "    a[%u].data = ", index);
    tn__c_write_address(w, number);
    tn__strbuf_append(w->out, ";\n");
  }
  for (int d = 0; d < r->rank && !tn__c_is_list(w->f, number); d++) {
    tn__strbuf_printf(w->out, "    a[%u].dims[%d] = ", index, d);
    if (d == grows)
      tn__strbuf_printf(w->out, "in[%u].dims[%d]", r->index, d);
    else
      tn__c_write_dim(w, number, d);
    tn__strbuf_append(w->out, ";\n");
  }
}

/* Where a call's result goes. */
static void write_destination(const writer *w, const tn__instruction *in, uint32_t index, uint32_t place) {
  uint32_t number = in->operands[in->read_count + index];
  const tn__register *r = &w->f->registers[number];
  if (tn__c_is_list(w->f, number)) {
    tn__strbuf_printf(w->out, "    r[%u].data = ", index);
    tn__c_write_address(w, number);
    tn__strbuf_append(w->out, ";\n");
  } else if (tn__c_is_late(w->c, number) && r->storage == TN__STORAGE_OUTPUT) {
    tn__strbuf_printf(w->out, "    r[%u] = out[%u];\n", index, r->index);
  } else if (tn__c_is_late(w->c, number) && !is_read(w, in, number)) {
    tn__strbuf_printf(w->out, "    r[%u] = t[%u];\n", index, w->c->place[number]);
  } else if (tn__c_is_late(w->c, number)) { /* not over what is read */
    tn__strbuf_printf(w->out, "    r[%u].data = 0, r[%u].capacity = 0, r[%u].grows = 1;\n", index, index, index);
  } else {
    char capacity[32];
    snprintf(capacity, sizeof capacity, "r[%u].capacity", index);
    tn__c_write_view_check(w, number, place);
    tn__c_write_bytes(w, number, capacity);
    tn__strbuf_printf(w->out, "    r[%u].grows = 0, r[%u].data = ", index, index);
    tn__c_write_address(w, number);
    tn__strbuf_append(w->out, ";\n");
  }
}

/* After the call, also when it failed: an output's size is told when it does not fit. */
static void write_taking_over(const writer *w, const tn__instruction *in, uint32_t index) {
  uint32_t number = in->operands[in->read_count + index];
  const tn__register *r = &w->f->registers[number];
  if (!tn__c_is_late(w->c, number)) return;
  if (r->storage == TN__STORAGE_OUTPUT) {
    tn__strbuf_printf(w->out, "    out[%u] = r[%u];\n", r->index, index);
    return;
  }
  uint32_t at = w->c->place[number];
  if (is_read(w, in, number)) tn__strbuf_printf(w->out, "    tni_%s_give(c, &t[%u]);\n", w->e->name, at);
  tn__strbuf_printf(w->out, "    t[%u] = r[%u];\n", at, index);
}

static void write_result_checks(const writer *w, const tn__instruction *in, uint32_t index, uint32_t place) {
  uint32_t number = in->operands[in->read_count + index];
  const tn__register *r = &w->f->registers[number];
  const tn__function *callee = w->e->functions[in->callee].f;
  const tn__register *made = &callee->registers[callee->outputs[index].reg];
  if (tn__c_is_list(w->f, number)) return;
  if (tn__c_is_late(w->c, number)) {
    write_constant_dims(w, number, "r", index, made, place);
    return;
  }
  for (int d = 0; d < r->rank; d++) {
    if (!r->dims[d].symbolic && !made->dims[d].symbolic) continue;
    tn__strbuf_printf(w->out, "    if (r[%u].dims[%d] != ", index, d);
    tn__c_write_dim(w, number, d);
    tn__strbuf_printf(w->out, ") return %d;\n", tn__c_status(TN__C_SIZE, place));
  }
}

static void write_call(const writer *w, const tn__instruction *in, uint32_t place) {
  const char *n = w->e->name;
  tn__strbuf_printf(w->out, "  { /* %s */\n    tni_%s_tensor a[%u], r[%u];\n    int32_t result;\n",
                    w->e->functions[in->callee].name, n, in->read_count > 0 ? in->read_count : 1,
                    in->write_count > 0 ? in->write_count : 1);
  for (uint32_t i = 0; i < in->read_count; i++) write_argument(w, in, i, place);
  for (uint32_t i = 0; i < in->write_count; i++) write_destination(w, in, i, place);
  tn__strbuf_printf(w->out, "    result = tni_%s_run_%u(c, a, r);\n", n, in->callee);
  for (uint32_t i = 0; i < in->write_count; i++) write_taking_over(w, in, i);
  tn__strbuf_append(w->out, "    if (result != 0) return result;\n");
  for (uint32_t i = 0; i < in->write_count; i++) write_result_checks(w, in, i, place);
  tn__strbuf_append(w->out, "  }\n");
}

static void write_return(const writer *w) {
  for (uint32_t i = 0; i < w->c->late_count; i++)
    tn__strbuf_printf(w->out, "  tni_%s_give(c, &t[%u]);\n", w->e->name, i);
  for (uint32_t i = 0; i < w->c->list_count; i++)
    tn__strbuf_printf(w->out, "  tni_%s_list_release(c, &l[%u]);\n", w->e->name, i);
  tn__strbuf_append(w->out, "  c->low -= size, c->left += size;\n  return 0;\n");
}

static void write_fill_zero(const writer *w, const tn__instruction *in, uint32_t place) {
  tn__c_write_view_check(w, in->operands[0], place);
  tn__c_write_bytes(w, in->operands[0], "b");
  tn__strbuf_printf(w->out, "  tni_%s_fill_zero(", w->e->name);
  tn__c_write_address(w, in->operands[0]);
  tn__strbuf_append(w->out, ", b);\n");
}

static bool is_over_lists(const writer *w, const tn__instruction *in) {
  if (in->op == TN__OP_BUILTIN) return tn__builtin_find(in->callee)->about == TN__ABOUT_LISTS;
  return (in->op == TN__OP_COPY || in->op == TN__OP_MOVE) && tn__c_is_list(w->f, in->a);
}

static tn_status *write_instruction(const writer *w, const tn__instruction *in) {
  uint32_t place;
  TN_RETURN_IF_ERROR(place_of(w, in, &place));
  if (is_over_lists(w, in)) {
    tn__c_write_list_instruction(w, in, place);
    return NULL;
  }
  switch ((tn__opcode)in->op) {
    case TN__OP_RETURN: write_return(w); break;
    case TN__OP_ASSERT: return write_assert(w, in);
    case TN__OP_ALLOC:
      if (tn__c_is_late(w->c, in->a)) write_placing(w, in->a, place);
      break;
    case TN__OP_KERNEL: write_kernel(w, in, place); break;
    case TN__OP_COPY: write_copy(w, in, place); break;
    case TN__OP_JUMP: tn__strbuf_printf(w->out, "  goto L%u;\n", in->callee); break;
    case TN__OP_JUMP_IF_ZERO: tn__strbuf_printf(w->out, "  if (s[%u] == 0) goto L%u;\n", in->a, in->callee); break;
    case TN__OP_CALL: write_call(w, in, place); break;
    case TN__OP_MOVE: write_move(w, in, place); break;
    case TN__OP_BUILTIN: write_fill_zero(w, in, place); break;
    case TN__OP_RECORD:
    case TN__OP_AWAIT:
    case TN__OP_HOST_AWAIT: break;       /* C does one thing after the other */
    default: write_scalar(w, in, place); /* tensors to scalars, and scalars */
  }
  return NULL;
}

/* ---- functions -------------------------------------------------------------------------------------------------- */

static void write_prototype(const writer *w) {
  const char *n = w->e->name;
  if (w->space)
    tn__strbuf_printf(w->out,
                      "static inline int32_t tni_%s_space_%d(const tni_%s_tensor *in, int64_t *space,\n"
                      "    int64_t (*dims)[TN_%s_MAX_RANK])",
                      n, w->f->index, n, w->e->upper);
  else
    tn__strbuf_printf(
        w->out, "static inline int32_t tni_%s_run_%d(tni_%s_context *c, const tni_%s_tensor *in, tni_%s_tensor *out)",
        n, w->f->index, n, n, n);
}

static tn_status *write_run(const writer *w) {
  const tn__function *f = w->f;
  uint8_t *target;
  uint32_t place;
  TN_RETURN_IF_ERROR(place_of(w, NULL, &place));
  w->e->functions[f->index].entry = place;
  TN_RETURN_IF_ERROR(tn__region_alloc(w->e->region, f->instruction_count, 1, &target));
  for (uint32_t i = 0; i < f->instruction_count; i++) {
    const tn__instruction *in = &f->instructions[i];
    if (tn__instruction_jumps(in->op)) target[in->callee] = 1;
  }
  tn__strbuf_printf(w->out, "\n/* %s */\n", w->c->name);
  write_prototype(w);
  tn__strbuf_append(w->out, " {\n");
  write_locals(w);
  write_binding(w, place);
  TN_RETURN_IF_ERROR(write_known(w, false));
  write_extents(w, place);
  write_frame(w, place);
  write_shape_checks(w, place);
  write_taking(w, place);
  for (uint32_t i = 0; (w->c->called || w->c->late_outputs) && i < f->output_count; i++)
    if (!tn__c_is_late(w->c, f->outputs[i].reg) && !tn__c_is_list(f, f->outputs[i].reg))
      write_placing(w, f->outputs[i].reg, place);
  for (uint32_t i = 0; i < f->instruction_count; i++) {
    if (target[i]) tn__strbuf_printf(w->out, "L%u:;\n", i);
    if (!tn__c_is_done_at_entry(w->c, &f->instructions[i]))
      TN_RETURN_IF_ERROR(write_instruction(w, &f->instructions[i]));
  }
  tn__strbuf_append(w->out, "}\n");
  return NULL;
}

static void write_callee_space(const writer *w, const tn__instruction *in) {
  const tn__c_function *callee = &w->e->functions[in->callee];
  if (callee->workspace >= 0) {
    tn__strbuf_append(w->out, "  b = ");
    tn__c_write_number(w->out, callee->workspace);
    tn__strbuf_append(w->out, ";\n  if (b > x) x = b;\n");
    return;
  }
  tn__strbuf_printf(w->out, "  {\n    tni_%s_tensor a[%u];\n    int32_t result;\n", w->e->name,
                    in->read_count > 0 ? in->read_count : 1);
  for (uint32_t i = 0; i < in->read_count; i++) write_argument(w, in, i, 0);
  tn__strbuf_printf(w->out,
                    "    result = tni_%s_space_%u(a, &b, 0);\n"
                    "    if (result != 0) return result;\n"
                    "    if (b > x) x = b;\n  }\n",
                    w->e->name, in->callee);
}

/* What can be asked before a call: the workspace, and the dimensions of outputs. */
static tn_status *write_space(const writer *w) {
  const tn__function *f = w->f;
  const tn__c_function *c = w->c;
  uint32_t place;
  TN_RETURN_IF_ERROR(place_of(w, NULL, &place));
  tn__strbuf_append(w->out, "\n");
  write_prototype(w);
  tn__strbuf_append(w->out, " {\n");
  write_locals(w);
  write_binding(w, place);
  TN_RETURN_IF_ERROR(write_known(w, c->called || !c->by_value));
  if (!c->called) write_extents(w, place);
  if (c->planned) {
    write_frame(w, place);
    tn__strbuf_append(w->out, "  x = 0;\n");
    for (uint32_t i = 0; i < f->instruction_count; i++)
      if (f->instructions[i].op == TN__OP_CALL) write_callee_space(w, &f->instructions[i]);
    tn__strbuf_printf(w->out, "  *space = tni_%s_add_bytes(size, x);\n", w->e->name);
    tn__c_write_failure(w, "*space < 0", TN__C_SIZE, place);
  } else {
    tn__strbuf_append(w->out, "  (void)arena, (void)size, (void)space;\n");
  }
  tn__strbuf_append(w->out, "  if (!dims) return 0;\n");
  for (uint32_t i = 0; !c->called && i < f->output_count; i++) {
    uint32_t number = f->outputs[i].reg;
    const tn__register *r = &f->registers[number];
    for (int d = 0; d < r->rank && !tn__c_is_list(f, number); d++) {
      const tn__operand *dim = tn__function_value_dim(f, &f->outputs[i], d);
      tn__strbuf_printf(w->out, "  dims[%u][%d] = ", i, d);
      if (!dim->symbolic || c->known[dim->value])
        tn__c_write_operand(w, dim);
      else
        tn__strbuf_append(w->out, "-1");
      tn__strbuf_append(w->out, ";\n");
    }
    if (tn__c_is_late(c, number) || r->static_bytes >= 0) continue;
    tn__c_write_bytes(w, number, "b");
    tn__c_write_failure(w, "b < 0", TN__C_SIZE, place);
  }
  tn__strbuf_append(w->out, "  return 0;\n}\n");
  return NULL;
}

static bool needs_space(const tn__c_function *c) {
  return c->called ? c->planned && c->workspace < 0 && !c->by_value : c->sized;
}

static writer writer_of(tn__c_emitter *e, uint32_t i, bool space) {
  return (writer){.e = e, .c = &e->functions[i], .f = e->functions[i].f, .out = e->out, .space = space};
}

void tn__c_write_declarations(tn__c_emitter *e) {
  for (uint32_t i = 0; i < e->exe->function_count; i++) {
    for (int space = 0; space <= (int)needs_space(&e->functions[i]); space++) {
      writer w = writer_of(e, i, space != 0);
      write_prototype(&w);
      tn__strbuf_append(e->out, ";\n");
    }
  }
}

tn_status *tn__c_write_functions(tn__c_emitter *e) {
  for (uint32_t i = 0; i < e->exe->function_count; i++) {
    writer run = writer_of(e, i, false), space = writer_of(e, i, true);
    TN_RETURN_IF_ERROR(write_run(&run));
    if (needs_space(&e->functions[i])) TN_RETURN_IF_ERROR(write_space(&space));
  }
  return NULL;
}
