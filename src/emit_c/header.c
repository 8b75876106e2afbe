/* The header: what a caller must know of each function, the functions that stand for them, and their implementation. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/shown.h"
#include "emit_c/emit_c.h"
#include "work_text.inc.h"

typedef tn__c_writer writer;

/* ---- what every program needs ----------------------------------------------------------------------------------- */

static const char introduction[] =
    " *\n"
    " * Tensors are dense and row-major; their memory is the caller's and aligned as their element type wants it, or "
    "as "
    "it\n"
    " * says below, and so is the workspace, aligned to 64 bytes. inputs[i] and outputs[i] are in the order below; "
    "outputs\n"
    " * overlap nothing else, unless it says so there. A workspace holds nothing between calls. The functions keep no "
    "pointer\n"
    " * and no state, allocate nothing, run on the caller's thread, and may run in several threads at once on "
    "different\n"
    " * outputs and workspaces.\n"
    " *\n"
    " * They return 0, or a status other than 0: then outputs and workspace hold nothing of use, inputs are as they "
    "were\n"
    " * unless an output has their memory, and the next call is as good as the first. status % 16 is the kind of "
    "failure,\n"
    " * one of those below; tn_@_message() says what it means and tn_@_place() where it happened. Sizes are counts of\n"
    " * elements and may be 0; `n of 64` is a buffer of 64, of which the first n count; capacities and workspaces are "
    "in\n"
    " * bytes. */\n";

static const char kinds[] =
    "enum {\n"
    "  TN_^_INDEX_OUT_OF_RANGE = 1,  /* an index that is data is outside of its axis */\n"
    "  TN_^_DIVISION_BY_ZERO = 2,    /* of integers */\n"
    "  TN_^_BAD_VALUE = 3,           /* an operand's value is outside of what its operator allows */\n"
    "  TN_^_CHECK_FAILED = 5,        /* the inputs' sizes or values contradict what the model says of them */\n"
    "  TN_^_BAD_SIZE = 6,            /* a size is negative, too large, or does not fit another */\n"
    "  TN_^_OUTPUT_TOO_SMALL = 7,    /* an output does not fit its capacity: its dimensions say what it needs */\n"
    "  TN_^_WORKSPACE_TOO_SMALL = 8, /* the workspace given is used up */\n"
    "  TN_^_MAX_RANK = ";

static const char after_rank[] =
    "\n};\n\n"
    "static inline const char *tn_@_message(int32_t status);\n"
    "static inline const char *tn_@_place(int32_t status);\n";

static const char support[] =
    "\n/* ---- what follows is the implementation ---- */\n\n"
    "typedef struct tni_@_env tni_@_env;\n"
    "typedef int32_t (*tni_@_task)(const tni_@_env *env, void *closure, int64_t begin, int64_t end);\n"
    "struct tni_@_env {\n"
    "  uint32_t version, size;\n"
    "  int32_t (*parallel_for)(const tni_@_env *env, tni_@_task task, void *closure, int64_t count);\n"
    "  int32_t thread_count, cancel;\n"
    "  void *user;\n"
    "};\n"
    "static inline int32_t tni_@_serial(const tni_@_env *env, tni_@_task task, void *closure, int64_t count) {\n"
    "  return count <= 0 ? 0 : task(env, closure, 0, count);\n"
    "}\n\n"
    "typedef struct tni_@_tensor {\n"
    "  void *data;\n"
    "  int64_t capacity; /* bytes */\n"
    "  int64_t dims[TN_^_MAX_RANK];\n"
    "  int grows; /* it takes more memory from the workspace when it needs it */\n"
    "} tni_@_tensor;\n\n"
    "/* The part of a workspace that is free lies between what functions took from its start, one after another, and "
    "the\n"
    " * blocks of tensors at its end, which are listed from the last to the first. */\n"
    "typedef struct tni_@_block {\n"
    "  struct tni_@_block *next;\n"
    "  int64_t bytes; /* behind this header of 64 */\n"
    "} tni_@_block;\n"
    "typedef struct tni_@_context {\n"
    "  tni_@_env env;\n"
    "  char *low, *end;\n"
    "  int64_t left; /* from low to the first block */\n"
    "  tni_@_block *blocks;\n"
    "  int64_t total, least; /* what was given; what was left when the least was */\n"
    "  int64_t needed;       /* of a workspace, to get past the step that failed for want of it */\n"
    "} tni_@_context;\n\n";

static const char sizes[] =
    "static inline int64_t tni_@_add_bytes(int64_t total, int64_t bytes) {\n"
    "  if (total < 0 || bytes < 0 || bytes > INT64_MAX / 2 || total > INT64_MAX / 2 - 64) return -1;\n"
    "  return total + (bytes + 63) / 64 * 64;\n"
    "}\n";

static const char memory[] =
    "static inline int32_t tni_@_lack(tni_@_context *c, int64_t bytes) {\n"
    "  c->needed = bytes < 0 ? INT64_MAX : c->total - c->left + bytes;\n"
    "  return TN_^_WORKSPACE_TOO_SMALL;\n"
    "}\n"
    "static inline void tni_@_leave(tni_@_context *c, int64_t bytes) {\n"
    "  c->left = bytes;\n"
    "  if (bytes < c->least) c->least = bytes;\n"
    "}\n"
    "/* At the start of what is free. */\n"
    "static inline int32_t tni_@_claim(tni_@_context *c, int64_t size) {\n"
    "  if (size > c->left) return tni_@_lack(c, size);\n"
    "  c->low += size;\n"
    "  tni_@_leave(c, c->left - size);\n"
    "  return 0;\n"
    "}\n"
    "static inline void tni_@_drop(tni_@_context *c, void *data) {\n"
    "  tni_@_block **link = &c->blocks;\n"
    "  if (!data) return;\n"
    "  while ((char *)*link + 64 != (char *)data) link = &(*link)->next;\n"
    "  *link = (*link)->next;\n"
    "  if (!*link) c->left = (link == &c->blocks ? c->end : (char *)link) - c->low;\n"
    "}\n"
    "/* The first place from the end where a block of the bytes fits, between `floor` and `ceiling`. */\n"
    "static inline int32_t tni_@_take(tni_@_context *c, void **data, int64_t *capacity, int64_t bytes) {\n"
    "  const int64_t want = tni_@_add_bytes(64, bytes < 1 ? 1 : bytes);\n"
    "  tni_@_block **link = &c->blocks, *block;\n"
    "  char *ceiling = c->end;\n"
    "  for (;; link = &(*link)->next) {\n"
    "    const char *floor = *link ? (char *)*link + 64 + (*link)->bytes : c->low;\n"
    "    if (want >= 0 && ceiling - floor >= want) break;\n"
    "    if (!*link) return tni_@_lack(c, want);\n"
    "    ceiling = (char *)*link;\n"
    "  }\n"
    "  block = (tni_@_block *)(void *)(ceiling - want);\n"
    "  block->next = *link, block->bytes = want - 64;\n"
    "  *link = block;\n"
    "  if (!block->next) tni_@_leave(c, (char *)block - c->low);\n"
    "  *data = (char *)block + 64, *capacity = block->bytes;\n"
    "  return 0;\n"
    "}\n"
    "static inline void tni_@_give(tni_@_context *c, tni_@_tensor *t) {\n"
    "  if (!t->grows) return;\n"
    "  tni_@_drop(c, t->data);\n"
    "  t->data = 0, t->capacity = 0;\n"
    "}\n"
    "static inline int32_t tni_@_fit(tni_@_context *c, tni_@_tensor *t, int rank, int64_t element) {\n"
    "  const int64_t bytes = tni_@_bytes(t->dims, rank, element);\n"
    "  if (bytes < 0) return TN_^_BAD_SIZE;\n"
    "  if (bytes <= t->capacity && (t->data || !t->grows)) return 0;\n"
    "  if (!t->grows) return TN_^_OUTPUT_TOO_SMALL;\n"
    "  tni_@_give(c, t);\n"
    "  return tni_@_take(c, &t->data, &t->capacity, bytes);\n"
    "}\n"
    "/* `bytes` negative: as many as were asked for. */\n"
    "static inline void tni_@_enter(tni_@_context *c, void *workspace, int64_t bytes) {\n"
    "  const tni_@_env env = {1, sizeof(tni_@_env), tni_@_serial, 1, 0, 0};\n"
    "  c->env = env;\n"
    "  c->low = (char *)workspace, c->blocks = 0;\n"
    "  c->left = c->total = c->least = bytes < 0 ? INT64_MAX : bytes / 64 * 64;\n"
    "  c->end = bytes < 0 ? c->low : c->low + c->left;\n"
    "  c->needed = 0;\n"
    "}\n"
    "static inline int64_t tni_@_used(const tni_@_context *c, int32_t status) {\n"
    "  return status % 16 == TN_^_WORKSPACE_TOO_SMALL ? c->needed : c->total - c->least;\n"
    "}\n";

static void write_load(const tn__c_emitter *e, const char *dtype, const char *type) {
  tn__strbuf_printf(e->out,
                    "static inline int64_t tni_%s_load_%s(const void *data, int64_t index) {\n"
                    "  %s value;\n"
                    "  memcpy(&value, (const char *)data + index * (int64_t)sizeof value, sizeof value);\n"
                    "  return (int64_t)value;\n"
                    "}\n",
                    e->name, dtype, type);
}

static void write_support(const tn__c_emitter *e) {
  static const char *const types[][2] = {{"bool", "uint8_t"}, {"i8", "int8_t"},    {"i16", "int16_t"},
                                         {"i32", "int32_t"},  {"i64", "int64_t"},  {"u8", "uint8_t"},
                                         {"u16", "uint16_t"}, {"u32", "uint32_t"}, {"u64", "uint64_t"}};
  tn__c_append_text(e, support);
  tn__c_append_text(e, work_text);
  tn__c_append_text(e, sizes);
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) write_load(e, types[i][0], types[i][1]);
  tn__c_append_text(e, memory);
  if (e->lists) tn__c_write_list_support(e);
  tn__c_append_text(e, e->source != NULL ? "\nextern const void *const tni_@_constants[];\n"
                                         : "\nextern const unsigned char tni_@_constants[];\n");
  for (uint32_t i = 0; i < e->exe->kernel_count; i++)
    tn__strbuf_printf(
        e->out, "int32_t tni_%s_kernel_%u(const tni_%s_env *env, void *const *buffers, const int64_t *scalars);\n",
        e->name, i, e->name);
}

/* ---- public functions ------------------------------------------------------------------------------------------- */

static void append_in_comment(tn__strbuf *out, const char *text) {
  char shown[TN__SHOWN_CHAR];
  for (const char *at = text; *at;) {
    size_t length = tn__shown_char(at, shown);
    tn__strbuf_append(out, *at == '*' || *at == '?' ? "_" : shown);
    at += length;
  }
}

static void describe_value(const writer *w, const char *what, uint32_t index, const tn__function_value *value) {
  const tn__register *r = &w->f->registers[value->reg];
  static const char *const containers[] = {[TN__CONTAINER_TENSOR] = "",
                                           [TN__CONTAINER_SEQUENCE] = "sequence of ",
                                           [TN__CONTAINER_OPTIONAL] = "optional ",
                                           [TN__CONTAINER_OPTIONAL_SEQUENCE] = "optional sequence of "};
  bool list = tn__c_is_list(w->f, value->reg);
  tn__strbuf_printf(w->out, " *   %s[%u]: %s%s[%s", what, index, containers[r->container], tn_dtype_name(r->dtype),
                    r->any_rank ? "..." : "");
  for (int d = 0; d < r->rank; d++) {
    if (d > 0) tn__strbuf_append(w->out, ", ");
    if (list)
      tn__strbuf_char(w->out, '?');
    else
      tn__c_write_dim_text(w->c, w->out, tn__function_value_dim(w->f, value, d));
    if (d == value->grows) tn__strbuf_printf(w->out, " of %lld", (long long)value->info.dims[d]->capacity);
  }
  tn__strbuf_append(w->out, "] ");
  append_in_comment(w->out, value->info.name);
  if (r->storage == TN__STORAGE_OUTPUT && value->alias >= 0)
    tn__strbuf_printf(w->out, "; may have the memory of inputs[%d], and is then updated in place", value->alias);
  if (!list && value->info.alignment > (int)tn_dtype_size(r->dtype))
    tn__strbuf_printf(w->out, "; aligned to %d bytes", value->info.alignment);
  if (tn__c_is_late(w->c, value->reg))
    tn__strbuf_printf(w->out, "; of a size that values decide: at most capacities[%u] bytes", index);
  tn__strbuf_append(w->out, "\n");
}

static void append_function(const writer *w, bool upper) {
  if (!upper)
    tn__strbuf_printf(w->out, "tn_%s_%s", w->e->name, w->c->name);
  else
    tn__strbuf_printf(w->out, "TN_%s_", w->e->upper);
  for (const char *c = upper ? w->c->name : ""; *c; c++)
    tn__strbuf_char(w->out, *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c);
}

static void describe_memory(const writer *w) {
  const tn__c_function *c = w->c;
  tn__strbuf_append(w->out, " *   workspace: ");
  if (c->workspace >= 0) {
    append_function(w, true);
    tn__strbuf_append(w->out, "_WORKSPACE bytes");
  } else if (c->planned) {
    append_function(w, false);
    tn__strbuf_append(w->out, "_workspace_size() bytes; that is negative, -status, where the sizes are impossible");
  } else {
    tn__c_append_text(
        w->e,
        "workspace_bytes; how many are needed depends on values: too few make a status. *workspace_used,\n"
        " *     unless it is NULL, gets the bytes that were used, so many do for the same call again, or, after\n"
        " *     TN_^_WORKSPACE_TOO_SMALL, at least how many are needed");
  }
  if (c->late_outputs)
    tn__c_append_text(
        w->e,
        "\n *   dims: room for TN_^_MAX_RANK of each output; gets their dimensions, also those of an output that"
        "\n *     does not fit its capacity; -1 where nothing is known");
  if (c->sized && c->by_value)
    tn__strbuf_append(w->out, "\n *   Sizes depend on values of the inputs: what asks for them reads the inputs.");
  tn__strbuf_append(w->out, " */\n");
}

typedef enum which { RUN, WORKSPACE_SIZE, OUTPUT_DIMS } which;

/* The head of one of the three functions, up to its closing parenthesis. */
static void write_head(const writer *w, which what) {
  const tn__function *f = w->f;
  tn__strbuf_append(w->out, what == WORKSPACE_SIZE ? "static inline int64_t " : "static inline int32_t ");
  append_function(w, false);
  tn__strbuf_append(w->out, what == RUN ? "(" : what == WORKSPACE_SIZE ? "_workspace_size(" : "_output_dims(");
  bool first = true;
  for (uint32_t i = 0; i < f->input_count; i++) {
    for (int d = 0; d < f->inputs[i].info.rank; d++) {
      const tn__operand *dim = tn__function_value_dim(f, &f->inputs[i], d);
      if (!dim->symbolic || !f->inputs[i].binds[d]) continue;
      tn__strbuf_printf(w->out, "%sint64_t %s", first ? "" : ", ", w->c->symbols[dim->value]);
      first = false;
    }
  }
  if (what == RUN || w->c->by_value) {
    tn__strbuf_printf(w->out, "%sconst void *const *inputs", first ? "" : ", ");
    first = false;
  }
  if (what == RUN) tn__strbuf_append(w->out, ", void *const *outputs");
  if (what == RUN && w->c->late_outputs) tn__strbuf_append(w->out, ",\n    const int64_t *capacities");
  if (what == OUTPUT_DIMS || (what == RUN && w->c->late_outputs))
    tn__strbuf_printf(w->out, "%sint64_t (*dims)[TN_%s_MAX_RANK]", first ? "" : ", ", w->e->upper);
  if (what == RUN) tn__strbuf_append(w->out, ", void *workspace");
  if (what == RUN && !w->c->planned) tn__strbuf_append(w->out, ", int64_t workspace_bytes, int64_t *workspace_used");
  if (what == WORKSPACE_SIZE && first) tn__strbuf_append(w->out, "void");
  tn__strbuf_append(w->out, ")");
}

static bool sizes_workspace(const tn__c_function *c) { return c->planned && c->workspace < 0; }

static bool tells_dims(const writer *w) {
  for (uint32_t i = 0; i < w->f->output_count; i++)
    if ((w->f->outputs[i].grows >= 0 && w->f->outputs[i].valid.symbolic) ||
        (w->f->registers[w->f->outputs[i].reg].static_bytes < 0 && !tn__c_is_late(w->c, w->f->outputs[i].reg)))
      return true;
  return false;
}

static void write_interface(const writer *w) {
  tn__strbuf_append(w->out, "\n/* The function \"");
  append_in_comment(w->out, w->f->name);
  tn__strbuf_append(w->out, "\":\n");
  for (uint32_t i = 0; i < w->f->input_count; i++) describe_value(w, "inputs", i, &w->f->inputs[i]);
  for (uint32_t i = 0; i < w->f->output_count; i++) describe_value(w, "outputs", i, &w->f->outputs[i]);
  describe_memory(w);
  if (w->c->workspace >= 0) {
    tn__strbuf_append(w->out, "#define ");
    append_function(w, true);
    tn__strbuf_printf(w->out, "_WORKSPACE %lld\n", (long long)w->c->workspace);
  }
  for (int what = RUN; what <= OUTPUT_DIMS; what++) {
    if ((what == WORKSPACE_SIZE && !sizes_workspace(w->c)) || (what == OUTPUT_DIMS && !tells_dims(w))) continue;
    write_head(w, (which)what);
    tn__strbuf_append(w->out, ";\n");
  }
}

static void write_inputs(const writer *w, bool data) {
  const tn__function *f = w->f;
  for (uint32_t i = 0; i < f->input_count; i++) {
    if (data && !tn__c_is_list(f, f->inputs[i].reg))
      tn__strbuf_printf(w->out, "  in[%u].data = (void *)(uintptr_t)inputs[%u];\n", i, i);
    for (int d = 0; d < f->inputs[i].info.rank; d++) {
      const tn__operand *dim = tn__function_value_dim(f, &f->inputs[i], d);
      if (!dim->symbolic || (!f->inputs[i].binds[d] && d != f->inputs[i].grows)) continue;
      tn__strbuf_printf(w->out, "  in[%u].dims[%d] = %s;\n", i, d, w->c->symbols[dim->value]);
    }
  }
}

static void write_run(const writer *w) {
  const tn__function *f = w->f;
  const char *n = w->e->name;
  tn__strbuf_append(w->out, "\n");
  write_head(w, RUN);
  tn__strbuf_printf(w->out, " {\n  tni_%s_context c;\n  tni_%s_tensor in[%u], out[%u];\n  int32_t status;\n", n, n,
                    f->input_count > 0 ? f->input_count : 1, f->output_count > 0 ? f->output_count : 1);
  tn__c_write_list_locals(w);
  tn__strbuf_printf(w->out, "  (void)inputs, (void)outputs;\n  tni_%s_enter(&c, workspace, ", n);
  if (w->c->planned)
    tn__strbuf_printf(w->out, "%lld", (long long)w->c->workspace);
  else
    tn__strbuf_append(w->out, "workspace_bytes < 0 ? 0 : workspace_bytes");
  tn__strbuf_append(w->out, ");\n");
  write_inputs(w, true);
  for (uint32_t i = 0; i < f->output_count; i++) {
    if (!tn__c_is_list(f, f->outputs[i].reg)) tn__strbuf_printf(w->out, "  out[%u].data = outputs[%u];\n", i, i);
    if (!w->c->late_outputs) continue;
    for (int d = 0; d < f->registers[f->outputs[i].reg].rank; d++)
      tn__strbuf_printf(w->out, "  out[%u].dims[%d] = -1;\n", i, d);
    if (tn__c_is_late(w->c, f->outputs[i].reg))
      tn__strbuf_printf(w->out, "  out[%u].capacity = capacities[%u], out[%u].grows = 0;\n", i, i, i);
  }
  tn__c_write_lists_in(w);
  tn__strbuf_printf(w->out, "  if (status == 0) status = tni_%s_run_%d(&c, in, out);\n", n, f->index);
  tn__c_write_lists_out(w);
  for (uint32_t i = 0; w->c->late_outputs && i < f->output_count; i++)
    for (int d = 0; d < f->registers[f->outputs[i].reg].rank; d++)
      tn__strbuf_printf(w->out, "  dims[%u][%d] = out[%u].dims[%d];\n", i, d, i, d);
  if (!w->c->planned)
    tn__strbuf_printf(w->out, "  if (workspace_used) *workspace_used = tni_%s_used(&c, status);\n", n);
  tn__strbuf_append(w->out, "  return status;\n}\n");
}

static void write_questions(const writer *w) {
  for (int what = WORKSPACE_SIZE; what <= OUTPUT_DIMS; what++) {
    bool size = what == WORKSPACE_SIZE;
    if (size ? !sizes_workspace(w->c) : !tells_dims(w)) continue;
    write_head(w, (which)what);
    tn__strbuf_printf(w->out, " {\n  tni_%s_tensor in[%u];\n  int64_t space = 0;\n%s", w->e->name,
                      w->f->input_count > 0 ? w->f->input_count : 1, size ? "  int32_t status;\n" : "");
    write_inputs(w, w->c->by_value);
    tn__strbuf_printf(w->out, "  %s tni_%s_space_%d(in, &space, %s);\n%s}\n", size ? "status =" : "return", w->e->name,
                      w->f->index, size ? "0" : "dims",
                      size ? "  return status != 0 ? -(int64_t)status : space;\n" : "");
  }
}

/* ---- statuses --------------------------------------------------------------------------------------------------- */

static const char kind_messages[] =
    "  switch (status % 16) {\n"
    "    case 0: return \"nothing failed\";\n"
    "    case TN_^_INDEX_OUT_OF_RANGE: return \"an index is out of range\";\n"
    "    case TN_^_DIVISION_BY_ZERO: return \"an integer is divided by zero\";\n"
    "    case TN_^_BAD_VALUE: return \"a value is not one that the operator allows\";\n"
    "    case TN_^_BAD_SIZE: return \"a size is negative, too large, or does not fit another\";\n"
    "    case TN_^_OUTPUT_TOO_SMALL: return \"an output does not fit its capacity\";\n"
    "    case TN_^_WORKSPACE_TOO_SMALL: return \"the workspace is too small\";\n"
    "    default: return \"an unknown status\";\n"
    "  }\n"
    "}\n";

static void write_messages(const tn__c_emitter *e) {
  tn__c_append_text(e, "\nstatic inline const char *tn_@_message(int32_t status) {\n");
  if (e->asserts.length > 0) {
    tn__strbuf_append(e->out, "  switch (status) {\n");
    tn__strbuf_append(e->out, tn__strbuf_text(&e->asserts));
    tn__strbuf_append(e->out, "    default: break;\n  }\n");
  }
  tn__c_append_text(e, kind_messages);
  tn__c_append_text(
      e, "\nstatic inline const char *tn_@_place(int32_t status) {\n  static const char *const places[] = {\n");
  for (uint32_t i = 0; i < e->place_count; i++) {
    tn__strbuf_append(e->out, "      ");
    tn__c_write_string(e->out, e->places[i]);
    tn__strbuf_append(e->out, ",\n");
  }
  tn__strbuf_printf(e->out, "  };\n  return status < 0 || status / %d >= %u ? \"\" : places[status / %d];\n}\n",
                    TN__C_KINDS, e->place_count, TN__C_KINDS);
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static void write_public(tn__c_emitter *e, void (*write)(const writer *w)) {
  for (uint32_t i = 0; i < e->exe->function_count; i++) {
    writer w = {.e = e, .c = &e->functions[i], .f = e->functions[i].f, .out = e->out};
    if (!w.c->called) write(&w);
  }
}

tn_status *tn__c_write_header(tn__c_emitter *e) {
  tn__strbuf *out = e->out;
  tn__strbuf_printf(out, "/* %s, compiled for %s by %s. Link the object of the same name%s.\n", e->name,
                    e->exe->targets[0], e->exe->producer, e->source != NULL ? ", which its C file becomes" : "");
  tn__c_append_text(e, introduction);
  tn__c_append_text(e,
                    "#ifndef TN_^_H\n#define TN_^_H\n\n#include <stdint.h>\n#include <string.h>\n\n"
                    "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  tn__c_append_text(e, kinds);
  tn__strbuf_printf(out, "%d", e->max_rank);
  tn__c_append_text(e, after_rank);
  if (e->list_values) tn__c_write_list_types(e);
  write_public(e, write_interface);
  write_support(e);
  tn__strbuf_append(out, "\n");
  tn__c_write_declarations(e);
  TN_RETURN_IF_ERROR(tn__c_write_functions(e));
  write_public(e, write_run);
  write_public(e, write_questions);
  write_messages(e);
  tn__strbuf_append(out, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
  return NULL;
}
