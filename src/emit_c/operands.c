/* What every piece of emitted C is written with: text, numbers, strings, and a register's dimensions, address, size and
 * checks. */
#include <stdio.h>

#include "emit_c/emit_c.h"

typedef tn__c_writer writer;

/* ---- text ------------------------------------------------------------------------------------------------------- */

void tn__c_append_text(const tn__c_emitter *e, const char *text) {
  for (; *text; text++) {
    if ((*text == '@' || *text == '^') && text[1] == *text)
      tn__strbuf_char(e->out, *text++);
    else if (*text == '@')
      tn__strbuf_append(e->out, e->name);
    else if (*text == '^')
      tn__strbuf_append(e->out, e->upper);
    else
      tn__strbuf_char(e->out, *text);
  }
}

void tn__c_write_number(tn__strbuf *out, int64_t value) {
  if (value > INT32_MAX || value < -INT32_MAX)
    tn__strbuf_printf(out, value == INT64_MIN ? "INT64_MIN" : "INT64_C(%lld)", (long long)value);
  else
    tn__strbuf_printf(out, "%lld", (long long)value);
}

void tn__c_write_string(tn__strbuf *out, const char *text) {
  tn__strbuf_char(out, '"');
  for (const char *c = text; *c; c++) {
    if (*c == '"' || *c == '\\' || *c == '?')
      tn__strbuf_printf(out, "\\%c", *c);
    else if ((unsigned char)*c < 32 || *c == 127)
      tn__strbuf_printf(out, "\\%03o", (unsigned)*c);
    else
      tn__strbuf_char(out, *c);
  }
  tn__strbuf_char(out, '"');
}

/* ---- operands --------------------------------------------------------------------------------------------------- */

void tn__c_write_operand(const writer *w, const tn__operand *o) {
  if (o->symbolic)
    tn__strbuf_printf(w->out, "s[%lld]", (long long)o->value);
  else
    tn__c_write_number(w->out, o->value);
}

void tn__c_write_dim(const writer *w, uint32_t number, int d) {
  const tn__register *r = &w->f->registers[number];
  if (!r->dims[d].symbolic || !tn__c_is_late(w->c, number))
    tn__c_write_operand(w, &r->dims[d]);
  else if (r->storage == TN__STORAGE_OUTPUT)
    tn__strbuf_printf(w->out, "out[%u].dims[%d]", r->index, d);
  else
    tn__strbuf_printf(w->out, "t[%u].dims[%d]", w->c->place[number], d);
}

void tn__c_write_address(const writer *w, uint32_t number) {
  uint32_t root = w->f->registers[number].root;
  const tn__register *r = &w->f->registers[root];
  const tn__c_function *c = w->c;
  if (tn__c_is_list(w->f, number)) {
    const char *from = r->storage == TN__STORAGE_INPUT ? "in" : "out";
    if (c->memory[root] == TN__C_LIST)
      tn__strbuf_printf(w->out, "&l[%u]", c->place[root]);
    else
      tn__strbuf_printf(w->out, "(tni_%s_list *)%s[%u].data", w->e->name, from, r->index);
    return;
  }
  switch (r->storage) {
    case TN__STORAGE_INPUT: tn__strbuf_printf(w->out, "in[%u].data", r->index); return;
    case TN__STORAGE_OUTPUT: tn__strbuf_printf(w->out, "out[%u].data", r->index); return;
    case TN__STORAGE_CONSTANT:
      if (w->e->source != NULL) {
        tn__strbuf_printf(w->out, "(void *)(uintptr_t)tni_%s_constants[%u]", w->e->name, r->index);
        return;
      }
      tn__strbuf_printf(
          w->out, "(void *)(uintptr_t)(tni_%s_constants + %llu)", w->e->name,
          (unsigned long long)((const uint8_t *)w->e->exe->constants[r->index].data - w->e->exe->constant_data));
      return;
    case TN__STORAGE_ARENA:
      tn__strbuf_append(w->out, "frame + ");
      tn__c_write_operand(w, &r->offset);
      return;
    default:
      if (c->memory[root] == TN__C_LATE)
        tn__strbuf_printf(w->out, "t[%u].data", c->place[root]);
      else
        tn__strbuf_printf(w->out, "p[%u]", c->memory[root] == TN__C_SLOT ? c->place[root] : c->slot_count);
  }
}

void tn__c_write_bytes(const writer *w, uint32_t number, const char *into) {
  const tn__register *r = &w->f->registers[number];
  if (r->static_bytes >= 0) {
    tn__strbuf_printf(w->out, "  %s = ", into);
    tn__c_write_number(w->out, r->static_bytes);
    tn__strbuf_append(w->out, ";\n");
    return;
  }
  tn__strbuf_append(w->out, "  {\n    const int64_t d[] = {");
  for (int d = 0; d < r->rank; d++) {
    if (d > 0) tn__strbuf_append(w->out, ", ");
    tn__c_write_dim(w, number, d);
  }
  tn__strbuf_printf(w->out, "};\n    %s = tni_%s_bytes(d, %d, %zu);\n  }\n", into, w->e->name, r->rank,
                    tn_dtype_size(r->dtype));
}

void tn__c_write_failure(const writer *w, const char *condition, int kind, uint32_t place) {
  tn__strbuf_printf(w->out, "  if (%s) return %d;\n", condition, tn__c_status(kind, place));
}

void tn__c_write_view_check(const writer *w, uint32_t number, uint32_t place) {
  const tn__register *r = &w->f->registers[number];
  if (r->root == number || tn__c_same_size(r, &w->f->registers[r->root])) return;
  if (tn__c_knows(w->c, r) && !tn__c_is_late(w->c, r->root)) return;
  tn__c_write_bytes(w, number, "b");
  tn__c_write_bytes(w, r->root, "x");
  tn__c_write_failure(w, "b < 0 || b != x", TN__C_SIZE, place);
}

const char *tn__c_late_tensor(const writer *w, uint32_t number, uint32_t *index) {
  const tn__register *r = &w->f->registers[number];
  bool output = r->storage == TN__STORAGE_OUTPUT;
  *index = output ? r->index : w->c->place[number];
  return output ? "out" : "t";
}

void tn__c_write_fit(const writer *w, uint32_t number, uint32_t place) {
  const tn__register *r = &w->f->registers[number];
  uint32_t index;
  const char *what = tn__c_late_tensor(w, number, &index);
  tn__strbuf_printf(w->out,
                    "  x = tni_%s_fit(c, &%s[%u], %d, %zu);\n"
                    "  if (x != 0) return (int32_t)x + %d;\n",
                    w->e->name, what, index, r->rank, tn_dtype_size(r->dtype), tn__c_status(0, place));
}
