#include "schedule/rules/choose.h"

#include "schedule/rules/rules.h"

static const tn__rule *const rules[] = {&tn__rule_attention, &tn__rule_contraction, &tn__rule_transform,
                                        &tn__rule_transpose, &tn__rule_map,         &tn__rule_rows,
                                        &tn__rule_sequence,  &tn__rule_stages};
const tn__rules tn__all_rules = {rules, sizeof(rules) / sizeof(rules[0])};

tn__sketch *tn__sketch_create(const tn__te *te, const tn__target *target, const tn__schedule_options *options) {
  return tn__sketch_first(&tn__all_rules, te, target, options);
}

tn__schedule *tn__schedule_choose(const tn__te *te, const tn__target *target, const tn__schedule_options *options,
                                  tn__schedule_plan *plan) {
  return tn__schedule_choose_among(&tn__all_rules, te, target, options, plan);
}

tn__schedule *tn__schedule_default(const tn__te *te, const tn__target *target, const tn__schedule_options *options) {
  tn__schedule_plan plan;
  return tn__schedule_choose(te, target, options, &plan);
}
