/* The bytecode as text, by the operands of TN__INSTRUCTIONS. */
#include <stdlib.h>

#include "base/arguments.h"
#include "base/message.h"
#include "base/shown.h"
#include "base/strbuf.h"
#include "runtime/executable/executable.h"

static void put_operand(tn__strbuf *out, const tn__operand *operand) {
  tn__strbuf_printf(out, operand->symbolic ? "s%lld" : "%lld", (long long)operand->value);
}

static const char *const container_names[] = {"", "sequence of ", "optional ", "optional sequence of "};

/* "device 2", and which of its memories: "device 2 (texture)" */
static void put_device(tn__strbuf *out, const tn_executable *exe, uint32_t device) {
  tn__strbuf_printf(out, ", on device %u", device);
  if (exe->scopes[device] != TN__MEMORY_GLOBAL)
    tn__strbuf_printf(out, " (%s)", tn__memory_scope_name(exe->scopes[device]));
}

static void put_register(tn__strbuf *out, const tn_executable *exe, const tn__function *f, uint32_t number) {
  const tn__register *r = &f->registers[number];
  bool list = r->container != TN__CONTAINER_TENSOR;
  tn__strbuf_printf(out, "  r%u: %s%s[", number, container_names[r->container], tn_dtype_name(r->dtype));
  for (int i = 0; i < r->rank; i++) {
    if (i > 0) tn__strbuf_append(out, ", ");
    if (list)
      tn__strbuf_char(out, '?');
    else
      put_operand(out, &r->dims[i]);
  }
  tn__strbuf_append(out, r->any_rank ? "...] " : "] ");
  switch (r->storage) {
    case TN__STORAGE_INPUT: tn__strbuf_shown_printf(out, "input \"%s\"", f->inputs[r->index].info.name); break;
    case TN__STORAGE_OUTPUT: tn__strbuf_shown_printf(out, "output \"%s\"", f->outputs[r->index].info.name); break;
    case TN__STORAGE_CONSTANT: tn__strbuf_shown_printf(out, "constant \"%s\"", exe->constants[r->index].name); break;
    case TN__STORAGE_ARENA:
      tn__strbuf_append(out, "arena at ");
      put_operand(out, &r->offset);
      break;
    case TN__STORAGE_DYNAMIC: tn__strbuf_append(out, "dynamic"); break;
    case TN__STORAGE_VIEW: tn__strbuf_printf(out, "view of r%u", r->index); break;
  }
  if (r->device > 0) put_device(out, exe, r->device);
  tn__strbuf_char(out, '\n');
}

static void put_use(tn__strbuf *out, const tn_executable *exe, const tn__instruction *in, const tn__code_use *use) {
  switch (use->letter) {
    case 'r':
    case 'w':
    case 'q':
    case 'a':
    case 't':
    case 'n': tn__strbuf_printf(out, "r%u", use->word); break;
    case 's':
    case 'd': tn__strbuf_printf(out, "s%u", use->word); break;
    case 'k': tn__strbuf_shown_printf(out, "\"%s\"", exe->kernels[use->word].about.name); break;
    case 'f': tn__strbuf_shown_printf(out, "\"%s\"", exe->functions[use->word].name); break;
    case 'b': tn__strbuf_append(out, tn__builtin_find(use->word)->name); break;
    case 'm': tn__strbuf_json_string(out, exe->strings + use->word); break;
    case 'o': tn__strbuf_append(out, tn__scalar_op_find(use->word)->text); break;
    case 'l': tn__strbuf_printf(out, "%lld", (long long)in->immediate); break;
    case 'c': tn__strbuf_printf(out, "@%u", use->word); break;
    default: tn__strbuf_printf(out, "%u", use->word); break;
  }
}

static const char *group_name(char letter) { return letter == 'r' ? "reads" : letter == 'w' ? "writes" : "scalars"; }

static void put_instruction(tn__strbuf *out, const tn_executable *exe, const tn__function *f,
                            const tn__instruction *in) {
  tn__strbuf_printf(out, "  %5u  %s", in->word, tn__instruction_find(in->op)->name);
  const char *separator = " ";
  tn__code_uses uses = tn__code_uses_of(f->code + in->word);
  for (tn__code_use use; tn__code_uses_next(&uses, &use);) {
    if (use.letter == 'h') continue; /* was printed with l */
    if (use.grouped && use.index == 0)
      tn__strbuf_printf(out, " %s(", group_name(use.letter));
    else
      tn__strbuf_append(out, separator);
    put_use(out, exe, in, &use);
    separator = ", ";
    if (use.grouped && use.index == use.count - 1) tn__strbuf_char(out, ')');
  }
  tn__strbuf_char(out, '\n');
}

static void put_values(tn__strbuf *out, const tn__function_value *values, uint32_t count) {
  char dims[512];
  for (uint32_t i = 0; i < count; i++) {
    tn__rt_format_dims(values[i].info.dims, values[i].info.rank, dims, sizeof(dims));
    tn__strbuf_append(out, i > 0 ? ", " : "");
    tn__strbuf_shown(out, values[i].info.name);
    tn__strbuf_printf(out, ": %s%s%s%s", container_names[values[i].info.kind], tn_dtype_name(values[i].info.dtype),
                      dims, values[i].info.fallback != NULL ? " = default" : "");
  }
}

static void put_function(tn__strbuf *out, const tn_executable *exe, const tn__function *f) {
  tn__strbuf_shown_printf(out, "function \"%s\"(", f->name);
  put_values(out, f->inputs, f->input_count);
  tn__strbuf_append(out, ") -> (");
  put_values(out, f->outputs, f->output_count);
  tn__strbuf_printf(out, ")%s\n  arena ", f->inner ? ", inner" : "");
  put_operand(out, &f->arena);
  for (uint32_t i = 1; i < exe->device_count && f->arenas != NULL; i++) {
    put_device(out, exe, i);
    tn__strbuf_char(out, ' ');
    put_operand(out, &f->arenas[i - 1]);
  }
  tn__strbuf_char(out, '\n');
  for (uint32_t i = 0; i < f->scalar_count; i++)
    if (f->scalar_names[i] != NULL) {
      tn__strbuf_printf(out, "  s%u: ", i);
      tn__strbuf_shown(out, f->scalar_names[i]);
      tn__strbuf_char(out, '\n');
    }
  for (uint32_t i = 0; i < f->register_count; i++) put_register(out, exe, f, i);
  for (uint32_t i = 0; i < f->instruction_count; i++) put_instruction(out, exe, f, &f->instructions[i]);
}

tn_status *tn_executable_disassemble(const tn_executable *exe, char **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("executable", exe);
  tn__strbuf text;
  tn__strbuf_init(&text, NULL); /* the caller frees it with free() */
  for (uint32_t i = 0; i < exe->function_count; i++) put_function(&text, exe, &exe->functions[i]);
  tn_status *status = tn__strbuf_status(&text);
  if (status != NULL) {
    tn__strbuf_release(&text);
    return status;
  }
  *out = text.text;
  return NULL;
}
