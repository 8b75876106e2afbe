#include "schedule/rules/choose.h"

#include "schedule/rules/rules.h"

static const tn__rule *const rules[] = {
    &tn__rule_attention, &tn__rule_groups,    &tn__rule_contraction, &tn__rule_transform, &tn__rule_pipeline,
    &tn__rule_transpose, &tn__rule_map,       &tn__rule_rows,        &tn__rule_sequence,  &tn__rule_pipeline_refused,
    &tn__rule_stages,    &tn__rule_structure, &tn__rule_chain};
const tn__rules tn__all_rules = {rules, sizeof(rules) / sizeof(rules[0])};

static const tn__rule *const gpu_rules[] = {&tn__rule_gpu_matrix, &tn__rule_gpu_product, &tn__rule_gpu};
const tn__rules tn__gpu_rules = {gpu_rules, sizeof(gpu_rules) / sizeof(gpu_rules[0])};

static const tn__rules *rules_for(const tn__target *target) {
  return tn__target_is_gpu(target) ? &tn__gpu_rules : &tn__all_rules;
}

tn__plan_unit tn__rule_plan_unit_of(const tn__te *te, const tn__target *target, const tn__schedule_options *options) {
  return tn__plan_unit_with(rules_for(target), te, target, options);
}

tn__sketch *tn__rule_create_sketch(const tn__te *te, const tn__target *target, const tn__schedule_options *options) {
  return tn__sketch_first(rules_for(target), te, target, options, NULL);
}
