#include "graph/place/support.h"

#include "target/devices/rates.h"

static bool is_tensor_of_numbers(const tn__value *value) {
  return value->holds == TN__HOLDS_TENSOR && value->dtype != TN_STRING;
}

bool tn__place_is_of_host(const tn__node *node) {
  bool host = node->op->lowering == TN__LOWER_BUILTIN;
  if (tn__op_has(node, TN__FACT_COPIES) || tn__op_has(node, TN__FACT_SAYS_PLACE)) return false;
  for (int i = 0; i < node->input_count && !host; i++)
    host = node->inputs[i] != NULL && !is_tensor_of_numbers(node->inputs[i]);
  for (int i = 0; i < node->output_count && !host; i++) host = !is_tensor_of_numbers(node->outputs[i]);
  return host;
}

static const tn__virtual_device *device_at(const tn__compile_config *config, int rank) {
  return rank < config->devices.count ? config->devices.data[rank] : config->host;
}

/* With a host that is no target behind them. */
static int count_of(const tn__compile_config *config) {
  int rank = tn__compile_config_rank(config, config->host);
  return config->devices.count + (rank == config->devices.count);
}

static const char *lacks_value(const tn__virtual_device *device, const tn__value *value) {
  return value != NULL ? tn__device_lacks_type(device->target, value->dtype) : NULL;
}

/* Types of operands and results, and in the bodies that composites carry along. */
static const char *lacks_types(const tn__node *node, const tn__virtual_device *device) {
  const char *lack = NULL;
  const tn__graph *body = node->graph_count > 0 ? tn__composite_body(node) : NULL;
  for (int i = 0; i < node->input_count && lack == NULL; i++) lack = lacks_value(device, node->inputs[i]);
  for (int i = 0; i < node->output_count && lack == NULL; i++) lack = lacks_value(device, node->outputs[i]);
  for (int i = 0; body != NULL && lack == NULL && i < tn__graph_node_count(body); i++)
    lack = lacks_types(tn__graph_node_at(body, i), device);
  return lack;
}

uint64_t tn__place_devices_of(tn__compile_config *config, const tn__node *node) {
  uint64_t devices = 0;
  int count = count_of(config);
  if (tn__place_is_of_host(node)) return tn__place_bit(config, config->host);
  if (node->op->lowering == TN__LOWER_CONTROL || count == 1) return TN__EVERY_DEVICE;
  for (int i = 0; i < count; i++)
    if (lacks_types(node, device_at(config, i)) == NULL) devices |= UINT64_C(1) << i;
  return devices == (UINT64_C(1) << count) - 1 ? TN__EVERY_DEVICE : devices;
}

const char *tn__place_lacks(tn__compile_config *config, const tn__node *node, const tn__virtual_device *device) {
  if (!tn__place_is_of_host(node)) return lacks_types(node, device);
  return device->device_type == config->host->device_type && device->device_id == config->host->device_id
             ? NULL
             : "no lists and strings, which only the host has";
}

const char *tn__place_list(tn__compile_config *config, uint64_t devices) {
  tn__arena *arena = config->cache.arena;
  const char *text = "";
  for (int i = 0; i < count_of(config); i++)
    if (devices >> i & 1)
      text = tn__arena_printf(arena, "%s%s%s", text, text[0] != '\0' ? ", " : "",
                              tn__virtual_device_text(arena, device_at(config, i)));
  return text;
}

const tn__virtual_device *tn__place_first(tn__compile_config *config, uint64_t devices,
                                          const tn__virtual_device *place) {
  const tn__virtual_device *joined;
  tn__virtual_device anywhere = place != NULL ? *place : *tn__virtual_device_free(&config->cache);
  anywhere.memory_scope = NULL;
  const tn__virtual_device *wanted = tn__virtual_device_of(&config->cache, &anywhere);
  for (int i = 0; i < count_of(config); i++) {
    const tn__virtual_device *d = device_at(config, i);
    if (!(devices >> i & 1) || tn__virtual_device_join(&config->cache, wanted, d, &joined) != TN__DEVICE_AGREES)
      continue;
    return place != NULL ? tn__virtual_device_default(&config->cache, place, d) : d;
  }
  return NULL;
}
