/* Source units: a module's text with the table of its launches. */
#include <string.h>

#include "base/copy.h"
#include "codegen/c/emit.h"
#include "runtime/format/source_unit.h"

static uint64_t aligned(uint64_t size) { return (size + 7) & ~(uint64_t)7; }

/* Which scalar of the kernel the extent is: one of the function's, or one behind them. */
static int64_t scalar_of(tn__arena *arena, const tn__func *func, tn__source_kernel_use *use, const tn__expr *extent) {
  for (int i = 0; i < func->scalar_count; i++)
    if (extent == func->scalars[i]->self) return i;
  for (int i = 0; i < use->extents.count; i++)
    if (use->extents.data[i] == extent) return func->scalar_count + i;
  tn__vec_push(arena, &use->extents, extent);
  return func->scalar_count + use->extents.count - 1;
}

static tn__source_extent extent_of(tn__arena *arena, const tn__func *func, tn__source_kernel_use *use,
                                   const tn__expr *extent) {
  tn__source_extent out = {0};
  if (tn__ir_as_int(extent, &out.value)) {
    if (out.value < 0) out.value = 0;
    return out;
  }
  out.symbolic = 1;
  out.value = scalar_of(arena, func, use, extent);
  return out;
}

static void fill_kernel(tn__ir *ir, const tn__func *func, tn__source_kernel *out) {
  tn__kernel_info info = tn__cc_measure(ir, func);
  out->buffer_count = (uint32_t)(func->input_count + func->output_count);
  out->has_workspace = info.workspace_expr != NULL || info.workspace_bytes > 0;
  out->text_scalar_count = (uint32_t)func->scalar_count;
}

tn__source tn__cc_unit(tn__arena *arena, const tn__cc_dialect *dialect, uint32_t language,
                       const tn__codegen_module *module) {
  tn__launches *launches = TN__NEW_ARRAY(arena, module->count, tn__launches);
  tn__code text = tn__cc_launched(arena, dialect, module, launches);
  return tn__cc_unit_of(arena, language, module, text, launches);
}

tn__source tn__cc_unit_of(tn__arena *arena, uint32_t language, const tn__codegen_module *module, tn__code text,
                          const tn__launches *launches) {
  tn__source_unit head = {.language = language, .kernel_count = (uint32_t)module->count, .text_size = text.size};
  uint64_t names = 0;
  memcpy(head.magic, TN__SOURCE_MAGIC, sizeof head.magic);
  for (int i = 0; i < module->count; i++) {
    head.launch_count += (uint32_t)launches[i].items.count;
    for (int k = 0; k < launches[i].items.count; k++) names += strlen(launches[i].items.data[k].name) + 1;
  }
  head.kernels = aligned(sizeof head);
  head.launches = aligned(head.kernels + head.kernel_count * sizeof(tn__source_kernel));
  head.names = head.launches + head.launch_count * sizeof(tn__source_launch);
  head.text = head.names + names;
  size_t size = head.text + head.text_size + 1;
  char *bytes = tn__arena_alloc(arena, size);
  memset(bytes, 0, size);
  tn__source_kernel_use *uses = TN__NEW_ARRAY(arena, module->count, tn__source_kernel_use);
  uint64_t name = head.names;
  uint32_t at = 0;
  for (int i = 0; i < module->count; i++) {
    const tn__func *func = module->funcs[i];
    tn__source_kernel kernel = {.first_launch = at, .launch_count = (uint32_t)launches[i].items.count};
    fill_kernel(module->irs[i], func, &kernel);
    uses[i].offset = head.kernels + (uint64_t)i * sizeof kernel;
    for (int k = 0; k < launches[i].items.count; k++, at++) {
      const tn__launch *l = &launches[i].items.data[k];
      tn__source_launch launch = {.name = name, .shared_bytes = (uint32_t)l->shared_bytes};
      for (int a = 0; a < 3; a++) {
        launch.block[a] = (uint32_t)l->block[a];
        launch.grid[a] = extent_of(arena, func, &uses[i], l->grid[a]);
      }
      memcpy(bytes + head.launches + at * sizeof launch, &launch, sizeof launch);
      memcpy(bytes + name, l->name, strlen(l->name));
      name += strlen(l->name) + 1;
    }
    kernel.scalar_count = kernel.text_scalar_count + (uint32_t)uses[i].extents.count;
    memcpy(bytes + uses[i].offset, &kernel, sizeof kernel);
  }
  memcpy(bytes, &head, sizeof head);
  tn__copy(bytes + head.text, text.data, text.size);
  return (tn__source){.data = bytes, .size = size, .kernels = uses};
}
