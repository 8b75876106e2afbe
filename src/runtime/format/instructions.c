/* The rows of the tables in instructions.h, and the walk over an instruction's operands. */
#include "runtime/format/instructions.h"

#include <stddef.h>
#include <string.h>

#include "base/invariant.h"

const tn__instruction_row *tn__instruction_find(uint32_t opcode) {
  static const tn__instruction_row rows[] = {
#define X(name, operands, traits, text) {#name, operands, traits},
      TN__INSTRUCTIONS(X)
#undef X
  };
  return opcode < TN__OP_COUNT ? &rows[opcode] : NULL;
}

const tn__scalar_op_row *tn__scalar_op_find(uint32_t op) {
  static const tn__scalar_op_row rows[] = {
#define X(name, text, function, divides) {text, #function, divides},
      TN__SCALAR_OPS(X)
#undef X
  };
  return op < TN__SCALAR_OP_COUNT ? &rows[op] : NULL;
}

const tn__builtin_row *tn__builtin_find(uint32_t builtin) {
  static const tn__builtin_row rows[] = {
#define X(name, about, text, reads, writes, scalars, doc) {text, about, reads, writes, scalars},
      TN__BUILTINS(X)
#undef X
  };
  return builtin < TN__BUILTIN_COUNT ? &rows[builtin] : NULL;
}

static const char *operands_of(uint32_t opcode) {
  const tn__instruction_row *row = tn__instruction_find(opcode);
  TN__INVARIANT(row != NULL && row->operands != NULL); /* the decoder let it pass */
  return row->operands;
}

bool tn__instruction_assigns_scalar(uint32_t opcode) { return operands_of(opcode)[0] == 'd'; }

bool tn__instruction_jumps(uint32_t opcode) { return strchr(operands_of(opcode), 'c') != NULL; }

tn__code_uses tn__code_uses_of(const uint32_t *code) {
  return (tn__code_uses){.letters = operands_of(code[0]), .words = code + 2};
}

bool tn__code_uses_next(tn__code_uses *u, tn__code_use *out) {
  TN__INVARIANT(u->words != NULL);
  if (*u->letters == '*') {
    u->letters++;
    u->counts = u->words;
    u->words += strlen(u->letters);
  }
  for (; u->counts != NULL && *u->letters != '\0' && u->index == *u->counts; u->letters++, u->counts++) u->index = 0;
  if (*u->letters == '\0') return false;
  *out = (tn__code_use){.letter = *u->letters, .word = *u->words++};
  if (u->counts == NULL) {
    u->letters++;
    return true;
  }
  out->grouped = true, out->index = u->index++, out->count = *u->counts;
  out->letter = (char)(out->letter - 'A' + 'a'); /* groups have capitals */
  return true;
}
