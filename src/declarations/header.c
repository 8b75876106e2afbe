#include "declarations/header.h"

#include <ctype.h>
#include <string.h>

typedef struct header {
  tn__strbuf *out;
  bool parallel, workspace;
  const tn__te_item *items;
  int count;
} header;

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool is_keyword(const char *name) {
  static const char *const words[] = {
      "alignas", "alignof", "and",       "and_eq",    "asm",      "auto",     "bitand",   "bitor",     "bool",
      "break",   "case",    "catch",     "char",      "class",    "compl",    "const",    "constexpr", "continue",
      "default", "delete",  "do",        "double",    "else",     "enum",     "env",      "explicit",  "export",
      "extern",  "false",   "float",     "for",       "friend",   "goto",     "if",       "inline",    "int",
      "long",    "mutable", "namespace", "new",       "noexcept", "not",      "not_eq",   "nullptr",   "operator",
      "or",      "or_eq",   "private",   "protected", "public",   "register", "requires", "restrict",  "return",
      "short",   "signed",  "sizeof",    "static",    "struct",   "switch",   "template", "this",      "throw",
      "true",    "try",     "typedef",   "typeid",    "typename", "typeof",   "union",    "unsigned",  "using",
      "virtual", "void",    "volatile",  "wchar_t",   "while",    "xor",      "xor_eq"};
  static const char *const longer[] = {
      "co_await", "co_return",    "co_yield",         "concept",       "consteval",   "constinit",    "const_cast",
      "decltype", "dynamic_cast", "reinterpret_cast", "static_assert", "static_cast", "thread_local", "typeof_unqual"};
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
    if (strcmp(words[i], name) == 0) return true;
  for (size_t i = 0; i < sizeof(longer) / sizeof(longer[0]); i++)
    if (strcmp(longer[i], name) == 0) return true;
  return false;
}

bool tn__decl_is_taken_in_c(const char *name) {
  /* What the object file itself asks for, and what every program has. */
  static const char *const functions[] = {"main", "malloc", "free", "memcpy", "memmove", "memset"};
  for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
    if (strcmp(functions[i], name) == 0) return true;
  return is_keyword(name);
}

/* What C calls a parameter: dots become underscores, keywords and the names of memory that comes last get one. */
static void append_name(tn__strbuf *out, const char *name) {
  for (const char *p = name; *p != 0; p++) tn__strbuf_char(out, *p == '.' ? '_' : *p);
  if (is_keyword(name) || strcmp(name, "workspace") == 0 || strcmp(name, "workspace_size") == 0)
    tn__strbuf_char(out, '_');
}

static const char *c_type(tn_dtype dtype) {
  switch (dtype) {
    case TN_BOOL: return "bool";
    case TN_I8: return "int8_t";
    case TN_I16: return "int16_t";
    case TN_I32: return "int32_t";
    case TN_I64: return "int64_t";
    case TN_U8: return "uint8_t";
    case TN_U16:
    case TN_F16:
    case TN_BF16: return "uint16_t";
    case TN_U32: return "uint32_t";
    case TN_U64: return "uint64_t";
    case TN_F32: return "float";
    case TN_F64: return "double";
    case TN_STRING:
    case TN_DTYPE_INVALID: break;
  }
  return "void";
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

/* `packing`: what makes it; `over`: what it is written over; NULL: neither. */
static void print_tensor(header *h, const tn__buffer *buffer, const tn__te_item *packing, const tn__buffer *over) {
  tn__strbuf_append(h->out, " *   ");
  append_name(h->out, buffer->name);
  tn__strbuf_printf(h->out, ": %s", tn_dtype_name(buffer->dtype));
  if (buffer->rank > 0) tn__strbuf_char(h->out, '[');
  for (int d = 0; d < buffer->rank; d++) {
    if (d > 0) tn__strbuf_append(h->out, ", ");
    tn__expr_print(buffer->shape[d], h->out);
  }
  if (buffer->rank > 0) tn__strbuf_char(h->out, ']');
  for (int d = 0; buffer->strides != NULL && d < buffer->rank; d++) {
    tn__strbuf_append(h->out, d == 0 ? " strides [" : ", ");
    tn__expr_print(buffer->strides[d], h->out);
  }
  if (buffer->strides != NULL) tn__strbuf_char(h->out, ']');
  if (over != NULL) {
    tn__strbuf_append(h->out, ", in the memory of ");
    append_name(h->out, over->name);
  }
  if (packing != NULL) {
    tn__strbuf_printf(h->out, ", which %s() makes of ", tn__te_name(packing->te));
    append_name(h->out, tn__te_input_at(packing->te, 0)->name);
  }
  tn__strbuf_char(h->out, '\n');
}

static void print_memory(header *h, const tn__kernel_info *info) {
  if (h->workspace) {
    bool any = info->workspace_expr != NULL || info->workspace_bytes > 0;
    tn__strbuf_append(h->out, any ? " * Works in the workspace. */\n" : " * Needs no workspace. */\n");
  } else if (info->workspace_expr != NULL) {
    tn__strbuf_append(h->out, " * Needs working memory, ");
    tn__expr_print(info->workspace_expr, h->out);
    tn__strbuf_append(h->out, " bytes, from malloc until it returns. */\n");
  } else if (info->workspace_bytes > 16 << 10) {
    tn__strbuf_printf(h->out, " * Needs %lld bytes of working memory, from malloc until it returns. */\n",
                      (long long)info->workspace_bytes);
  } else {
    tn__strbuf_append(h->out, " * Allocates nothing. */\n");
  }
}

/* One parameter a line where there are many. */
static void separate(header *h, bool first, int params) {
  if (!first) tn__strbuf_append(h->out, params > 4 ? "," : ", ");
  if (params > 4) tn__strbuf_append(h->out, "\n    ");
}

/* What makes input `input` of items[kernel]; NULL when the caller has it. */
static const tn__te_item *packing_of(const header *h, int kernel, int input) {
  for (int i = kernel + 1; i < h->count && h->items[i].schedule == NULL; i++)
    if (h->items[i].input == input) return &h->items[i];
  return NULL;
}

static void print_size_function(header *h, const tn__te *te) {
  tn__strbuf_append(h->out, "int64_t ");
  tn__strbuf_printf(h->out, TN__C_ENTRY_SIZE_FORMAT, tn__te_name(te));
  tn__strbuf_char(h->out, '(');
  for (int i = 0; i < tn__te_dim_count(te); i++) {
    separate(h, i == 0, tn__te_dim_count(te));
    tn__strbuf_append(h->out, "int64_t ");
    append_name(h->out, tn__te_dim_at(te, i)->name);
  }
  tn__strbuf_append(h->out, tn__te_dim_count(te) == 0 ? "void);\n" : ");\n");
}

static bool is_overwritten(const tn__te_item *item, int input) {
  for (int i = 0; item->over != NULL && i < item->func->output_count; i++)
    if (item->over[i] == input) return true;
  return false;
}

static void print_function(header *h, int index, const tn__kernel_info *info) {
  const tn__te_item *item = &h->items[index];
  const tn__te *te = item->te;
  const tn__func *func = item->func;
  int params = tn__te_dim_count(te) + func->input_count + func->output_count + h->parallel + 2 * h->workspace;
  tn__strbuf_append(h->out, "\n/* Reads\n");
  for (int i = 0; i < func->input_count; i++)
    print_tensor(h, func->params[i], item->schedule != NULL ? packing_of(h, index, i) : NULL, NULL);
  tn__strbuf_append(h->out, " * and writes\n");
  for (int i = 0; i < func->output_count; i++) {
    int over = item->over == NULL ? -1 : item->over[i];
    print_tensor(h, func->params[func->input_count + i], NULL, over < 0 ? NULL : func->params[over]);
    params -= over >= 0;
  }
  print_memory(h, info);
  tn__strbuf_printf(h->out, "int32_t %s(", tn__te_name(te));
  bool first = true;
  if (h->parallel) {
    separate(h, first, params);
    tn__strbuf_append(h->out, "const struct tn_kernel_env *env");
    first = false;
  }
  for (int i = 0; i < tn__te_dim_count(te); i++) {
    separate(h, first, params);
    tn__strbuf_append(h->out, "int64_t ");
    append_name(h->out, tn__te_dim_at(te, i)->name);
    first = false;
  }
  for (int i = 0; i < func->input_count + func->output_count; i++) {
    bool output = i >= func->input_count;
    const tn__buffer *b = func->params[i];
    if (output && item->over != NULL && item->over[i - func->input_count] >= 0) continue;
    separate(h, first, params);
    first = false;
    if (b->rank == 0 && !output)
      tn__strbuf_printf(h->out, "%s ", c_type(b->dtype));
    else
      tn__strbuf_printf(h->out, "%s%s *TENON_RESTRICT ", output || is_overwritten(item, i) ? "" : "const ",
                        c_type(b->dtype));
    append_name(h->out, b->name);
  }
  if (h->workspace) {
    separate(h, first, params);
    tn__strbuf_append(h->out, "void *workspace");
    separate(h, false, params);
    tn__strbuf_append(h->out, "int64_t workspace_size");
  }
  tn__strbuf_append(h->out, ");\n");
  if (h->workspace) print_size_function(h, te);
}

static void print_guard(header *h, const char *guard) {
  if (guard != NULL) {
    tn__strbuf_append(h->out, guard);
    return;
  }
  tn__strbuf_append(h->out, "TENON_BUILT");
  for (int i = 0; i < h->count && i < 4; i++) {
    tn__strbuf_char(h->out, '_');
    for (const char *p = tn__te_name(h->items[i].te); *p != 0; p++)
      tn__strbuf_char(h->out, (char)toupper((unsigned char)*p));
  }
  tn__strbuf_append(h->out, "_H");
}

void tn__decl_header(const tn__te_item *items, const tn__kernel_info *infos, int count, const tn_build_options *options,
                     tn__strbuf *out) {
  bool parallel = options->parallel;
  header h = {.out = out, .parallel = parallel, .workspace = options->workspace, .items = items, .count = count};
  tn__strbuf_printf(out, "/* Made by tenon %s.\n *\n", tn_version());
  tn__strbuf_append(
      out,
      " * Tensors are dense and row-major, or have the strides that are stated, in elements, and are of any\n"
      " * alignment that their type allows. They do not overlap; what lies between the elements of one stays as\n"
      " * it is, and other tensors may have it. f16 and bf16 are held in uint16_t. Functions keep no state and\n"
      " * may be called from several threads at once. They return 0, or\n"
      " *   1: an imperative stage says that an index is outside of its tensor; elsewhere the nearest element is "
      "taken\n"
      " *   2: a whole number was divided by zero\n"
      " *   3: a value is outside of what the kernel allows\n"
      " *   4: the environment was told to stop\n"
      " *   5: no working memory, or a workspace of fewer bytes than it takes\n"
      " *   6: a dimension is outside of what the kernel allows; nothing was read or written\n");
  if (parallel)
    tn__strbuf_append(out, " * `env` runs parallel loops (<tenon/kernel_abi.h>); NULL: on the calling thread.\n");
  if (options->workspace)
    tn__strbuf_append(out,
                      " * They allocate nothing: `workspace` is memory at any address, of at least as many bytes as "
                      "..._workspace_size() says.\n"
                      " * 0: none, and it may be NULL; -6: a dimension is refused. Calls at the same time need one "
                      "each; what is in it does not\n * matter before and after a call.\n");
  tn__strbuf_append(out, " */\n");
  tn__strbuf_append(out, "#ifndef ");
  print_guard(&h, options->guard);
  tn__strbuf_append(out, "\n#define ");
  print_guard(&h, options->guard);
  tn__strbuf_append(out,
                    "\n\n#include <stdbool.h>\n#include <stdint.h>\n\n#ifndef TENON_RESTRICT\n#if defined(__GNUC__) || "
                    "defined(__clang__)\n#define TENON_RESTRICT __restrict__\n#else\n#define TENON_RESTRICT\n#endif\n"
                    "#endif\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
  if (parallel) tn__strbuf_append(out, "\nstruct tn_kernel_env;\n");
  for (int i = 0; i < count; i++) print_function(&h, i, &infos[i]);
  tn__strbuf_append(out, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}
