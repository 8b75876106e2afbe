/* Functions: a kernel's parameters and workspace. */
#include "codegen/c/emit.h"

/* ---- parameters and workspace ------------------------------------------------------------------------------------ */

static bool is_input(const tn__cc *cc, int param) { return param < cc->func->input_count; }

/* A caller may let an output take the place of an input of the same size in bytes; everything else is apart. */
bool tn__cc_is_apart(const tn__cc *cc, int param) {
  const tn__func *func = cc->func;
  const tn__expr *bytes = tn__cg_bytes_of(cc->ir, func->params[param]);
  for (int i = 0; i < func->input_count + func->output_count; i++)
    if (is_input(cc, i) != is_input(cc, param) && tn__cg_bytes_of(cc->ir, func->params[i]) == bytes) return false;
  return true;
}

static void open_params(tn__cc *cc) {
  const tn__func *func = cc->func;
  for (int i = 0; i < func->scalar_count; i++) {
    const char *name = tn__cc_bind_var(cc, func->scalars[i]);
    tn__cc_line(cc, "const tn_i64 %s = scalars[%d];", name, i);
    tn__cc_line(cc, "(void)%s;", name);
  }
  for (int i = 0; i < func->input_count + func->output_count; i++) {
    const char *type = tn__cc_memory_type(func->params[i]->dtype), *name = tn__cc_bind_buffer(cc, func->params[i]);
    const char *constant = is_input(cc, i) ? "const " : "";
    tn__cc_line(cc, "%s%s *%s%s = (%s%s *)buffers[%d];", constant, type, tn__cc_is_apart(cc, i) ? "restrict " : "",
                name, constant, type, i);
    tn__cc_line(cc, "(void)%s;", name);
  }
}

static void open_workspace(tn__cc *cc) {
  const tn__cg_layout *layout = tn__cg_layout_of(cc->ir, cc->func);
  bool none = tn__ir_is_int_value(layout->total, 0);
  int params = cc->func->input_count + cc->func->output_count;
  if (!none) tn__cc_line(cc, "tn_u8 *const workspace = (tn_u8 *)buffers[%d];", params);
  for (int i = 0; i < layout->places.count; i++) {
    const tn__cg_place *place = &layout->places.data[i];
    const char *type = tn__cc_memory_type(place->buffer->dtype);
    const char *offset = tn__cc_whole(cc, place->offset), *name = tn__cc_bind_buffer(cc, place->buffer);
    if (none) /* without elements */
      tn__cc_line(cc, "%s *%s = 0;", type, name);
    else
      tn__cc_line(cc, "%s *%s = (%s *)(void *)(workspace + %s);", type, name, type, offset);
    tn__cc_line(cc, "(void)%s;", name);
  }
}

void tn__cc_func(tn__cc *cc, const tn__c_entry *entry) {
  tn__strbuf *out = cc->out;
  cc->before = out;
  cc->out = tn__cc_text(cc->arena);
  cc->indent = 0;
  tn__cc_open(cc, "%stn_i32 %s%s(const struct tn_kernel_env *env, void *const *buffers, const tn_i64 *scalars)",
              entry != NULL ? "static " : "", cc->func->name, entry != NULL ? "_kernel" : "");
  tn__cc_line(cc, "(void)env, (void)buffers, (void)scalars;");
  open_params(cc);
  open_workspace(cc);
  tn__cc_stmt(cc, cc->func->body);
  tn__cc_line(cc, "return 0;");
  tn__cc_close(cc);
  tn__strbuf_char(out, '\n');
  tn__strbuf_append(out, tn__arena_take(cc->arena, cc->out));
  cc->out = out;
}

tn__kernel_info tn__cc_measure(tn__ir *ir, const tn__func *func) {
  tn__kernel_info info = {0};
  const tn__expr *total = tn__cg_layout_of(ir, func)->total;
  if (!tn__ir_as_int(total, &info.workspace_bytes)) info.workspace_expr = total;
  return info;
}
