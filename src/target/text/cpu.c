/* The words of CPUs and of C for them. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "target/text/kinds.h"

/* "+avx512vnni,-fma" behind what `-mcpu` says. */
static tn_status *add_items(const char *text, const char *mattr, char *mcpu, size_t size) {
  while (*mattr != '\0') {
    char item[64];
    size_t length = strcspn(mattr, ",");
    snprintf(item, sizeof item, "%.*s", (int)length, mattr);
    if ((item[0] != '+' && item[0] != '-') || !tn__target_append(mcpu, size, item, ""))
      return tn_status_create(TN_INVALID_ARGUMENT,
                              "target \"%s\": mattr is like +avx512vnni,-fma, and at \"%s\" it is not", text, mattr);
    mattr += length + (mattr[length] == ',');
  }
  return NULL;
}

static tn_status *unknown_cpu(const char *text, const char *mcpu) {
  char known[512] = "";
  const char *name;
  tn__nearest nearest = {.name = mcpu, .length = strcspn(mcpu, "+")};
  for (int i = 0; (name = tn__target_cpu_name(i)) != NULL; i++) {
    tn__target_list(known, sizeof known, i > 0 ? ", " : "", name);
    tn__nearest_consider(&nearest, name, strlen(name));
  }
  return tn_status_create(TN_INVALID_ARGUMENT, "target \"%s\": there is no CPU \"%s\"; %s%.*s%sknown are %s", text,
                          mcpu, nearest.best ? "did you mean \"" : "", (int)nearest.best_length,
                          nearest.best ? nearest.best : "", nearest.best ? "\"? " : "", known);
}

tn_status *tn__target_words_cpu(const char *text, tn__target *target) {
  char mcpu[sizeof target->cpu.mcpu];
  snprintf(mcpu, sizeof mcpu, "%s", target->cpu.mcpu[0] ? target->cpu.mcpu : "native");
  if (!tn__target_is_cpu_word(mcpu)) return unknown_cpu(text, mcpu);
  TN_RETURN_IF_ERROR(add_items(text, target->mattr, mcpu, sizeof mcpu));
  target->mattr[0] = '\0';
  return tn__target_describe_cpu(mcpu, target);
}

/* What C for any CPU relies on: the least of all. */
tn_status *tn__target_words_c99(const char *text, tn__target *target) {
  return tn__target_describe_cpu("x86-64", target);
}

const tn__target_attribute tn__target_attributes_cpu[] = {
    TN__TARGET_CPU_WORDS, TN__TARGET_CPU_NUMBERS(TN__ATTRIBUTE_LOWERS), TN__TARGET_NO_MORE};
const tn__target_attribute tn__target_attributes_island[] = {
    TN__TARGET_CPU_WORDS,
    TN__TARGET_CPU_NUMBERS(TN__ATTRIBUTE_LOWERS),
    {"texture_bytes", "that kernels may want of the second memory for a tensor that they read several times", 0,
     TN__TARGET_AT(texture_bytes), 0, 1 << 28},
    TN__TARGET_NO_MORE};
const tn__target_attribute tn__target_attributes_c99[] = {TN__TARGET_CPU_NUMBERS(0), TN__TARGET_NO_MORE};
