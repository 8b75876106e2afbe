/* Whether a regular expression matches all of a text, in time linear in the text: the set of states that a
 * non-deterministic automaton can be in, code point by code point (Thompson 1968; Cox, "Regular Expression Matching:
 * the Virtual Machine Approach", 2009). There are no captures, so no order of preference between states either.
 *
 * The compiler makes the program from RE2's syntax (src/import/onnx/regex_compile.c). It is an array of i64: the number
 * n of instructions, then n times three words (opcode, a, b), then ranges of code points, two words each, both ends
 * included. */
#ifndef TENON_TEXT_REGEX_H
#define TENON_TEXT_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tenon/base.h"

typedef enum tn__regex_op {
  TN__REGEX_MATCH, /* all of the text, when it has ended */
  TN__REGEX_CLASS, /* a code point in one of `b` rising ranges from number `a` on, then the next instruction */
  TN__REGEX_SPLIT, /* at a and at b */
  TN__REGEX_JUMP,  /* at a */
  TN__REGEX_ASSERT /* tn__regex_assertion a, then the next instruction */
} tn__regex_op;

typedef enum tn__regex_assertion {
  TN__REGEX_TEXT_START,
  TN__REGEX_TEXT_END,
  TN__REGEX_LINE_START,
  TN__REGEX_LINE_END,
  TN__REGEX_WORD_BOUNDARY, /* of ASCII words, as in RE2 */
  TN__REGEX_NO_WORD_BOUNDARY
} tn__regex_assertion;

typedef struct tn__regex {
  const int64_t *code; /* 3 words each */
  const int64_t *ranges;
  uint32_t count;
} tn__regex;

/* False when the words are no sound program: an instruction or range that is not there, or no end. */
TN_MUST_USE bool tn__regex_open(const int64_t *words, int64_t count, tn__regex *out);
int64_t tn__regex_scratch(const tn__regex *regex); /* bytes that matching works in */
/* Bytes that are not UTF-8 are in no class, not even in that of any character: such a text matches nothing that has to
 * go over them. */
bool tn__regex_matches(const tn__regex *regex, const char *text, size_t length, void *scratch);

#endif
