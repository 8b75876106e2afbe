/* Shapes of outputs without running: the prologue over the inputs' shapes, where what is loaded from an input is not
 * known, nor what is computed of it. */
#include "base/alloc.h"
#include "base/arguments.h"
#include "base/dtype.h"
#include "runtime/vm/vm.h"

typedef struct inference {
  const tn_executable *exe;
  const tn__function *f;
  const int64_t *const *shapes;
  int64_t *scalars;
  uint8_t *known;
} inference;

static int64_t dim_of(const inference *n, uint32_t number, uint32_t dim) {
  const tn__register *r = &n->f->registers[number];
  bool given = r->storage == TN__STORAGE_INPUT && r->container == TN__CONTAINER_TENSOR; /* a list has no shape */
  bool whole = !given || n->f->inputs[r->index].grows == (int)dim;
  return whole ? r->dims[dim].value : n->shapes[r->index][dim];
}

static tn_status *load(inference *n, const tn__instruction *in) {
  const tn__register *r = &n->f->registers[in->b], *root = &n->f->registers[r->root];
  n->known[in->a] = 0;
  if (root->storage != TN__STORAGE_CONSTANT) return NULL;
  const tn__constant_entry *constant = &n->exe->constants[root->index];
  if ((uint64_t)in->c * tn__dtype_stored(r->dtype) >= constant->size)
    return tn_status_create(TN_OUT_OF_RANGE, "element %u of a tensor of %llu bytes is needed", in->c,
                            (unsigned long long)constant->size);
  n->scalars[in->a] = tn__load_i64(r->dtype, constant->data, in->c);
  n->known[in->a] = 1;
  return NULL;
}

/* Is what it computes known? Of a selection, what is chosen must be. */
static bool is_known(const inference *n, const tn__instruction *in) {
  if (in->op == TN__OP_SCALAR_SELECT) return n->known[in->b] && n->known[n->scalars[in->b] != 0 ? in->c : in->d];
  tn__code_uses uses = tn__code_uses_of(n->f->code + in->word);
  for (tn__code_use use; tn__code_uses_next(&uses, &use);)
    if (use.letter == 's' && !n->known[use.word]) return false;
  return true;
}

static tn_status *step(inference *n, const tn__instruction *in) {
  bool known = is_known(n, in);
  tn_status *status = NULL;
  switch (in->op) {
    case TN__OP_SCALAR_CONST:
    case TN__OP_SCALAR_OP:
    case TN__OP_SCALAR_SELECT:
      if (known) status = tn__vm_run_scalar(in, n->scalars);
      break;
    case TN__OP_SCALAR_SHAPE: n->scalars[in->a] = dim_of(n, in->b, in->c); break;
    case TN__OP_SCALAR_LOAD: return load(n, in);
    case TN__OP_ASSERT:
      if (known && n->scalars[in->a] == 0) return tn__exe_assert_failed(n->exe, n->f, in, n->scalars, n->known);
      return NULL;
    default: known = false;
  }
  if (status != NULL) return tn__exe_at_origin(n->exe, n->f, in, status);
  if (tn__instruction_assigns_scalar(in->op)) n->known[in->a] = known;
  return NULL;
}

static tn_status *read_output(const inference *n, const tn__function_value *output, int64_t *shape) {
  const tn__register *r = &n->f->registers[output->reg];
  for (int i = 0; i < r->rank; i++) {
    const tn__operand *dim = tn__function_value_dim(n->f, output, i);
    bool unknown = dim->symbolic && (!r->early || !n->known[dim->value]);
    if (unknown || r->container != TN__CONTAINER_TENSOR) {
      shape[i] = -1;
      continue;
    }
    shape[i] = tn__operand_value(dim, n->scalars);
    if (i == output->grows && shape[i] > output->info.dims[i]->capacity)
      return tn__vm_beyond_capacity(output, shape[i]);
    if (shape[i] < 0)
      return tn_status_create(TN_OUT_OF_RANGE, "output \"%s\" gets the negative dimension %lld", output->info.name,
                              (long long)shape[i]);
  }
  return NULL;
}

/* Uses the shape of the default for each input without a shape. */
static tn_status *take_shapes(inference *n, tn__region *scratch, const int64_t *const *given) {
  const int64_t **shapes;
  TN_RETURN_IF_ERROR(tn__region_alloc(scratch, n->f->input_count, sizeof(*shapes), &shapes));
  for (uint32_t i = 0; i < n->f->input_count; i++) {
    const DLTensor *fallback = n->f->inputs[i].info.fallback;
    shapes[i] = given != NULL && given[i] != NULL ? given[i] : fallback != NULL ? fallback->shape : NULL;
  }
  n->shapes = shapes;
  return NULL;
}

static tn_status *infer(inference *n, tn__region *scratch, const int64_t *const *given,
                        int64_t (*output_shapes)[TN_MAX_RANK]) {
  const tn__function *f = n->f;
  TN_RETURN_IF_ERROR(take_shapes(n, scratch, given));
  TN_RETURN_IF_ERROR(tn__region_alloc(scratch, f->scalar_count, sizeof(int64_t), &n->scalars));
  TN_RETURN_IF_ERROR(tn__region_alloc(scratch, f->scalar_count, 1, &n->known));
  TN_RETURN_IF_ERROR(tn__vm_bind_symbols(f, n->shapes, n->scalars));
  for (uint32_t i = 0; i < f->scalar_count; i++) n->known[i] = f->signature_scalar[i];
  for (uint32_t i = 0; i < f->prologue_count; i++) TN_RETURN_IF_ERROR(step(n, &f->instructions[i]));
  for (uint32_t i = 0; i < f->output_count; i++) TN_RETURN_IF_ERROR(read_output(n, &f->outputs[i], output_shapes[i]));
  return NULL;
}

/* Lists have no shape to check, and for tensors of rank 0 the shape is not read. */
static tn_status *check_shapes(const tn__function *f, const int64_t *const *shapes, const void *output_shapes) {
  for (uint32_t i = 0; i < f->input_count; i++) {
    const tn_value_info *info = &f->inputs[i].info;
    if (info->kind != TN_VALUE_TENSOR || info->rank == 0 || info->fallback != NULL ||
        (shapes != NULL && shapes[i] != NULL))
      continue;
    return tn_status_create(
        TN_INVALID_ARGUMENT,
        "tn_function_infer_shapes: cannot run: input \"%s\" of function \"%s\" has %d dimensions and "
        "its shape is NULL; pass them",
        info->name, f->name, info->rank);
  }
  if (f->output_count > 0 && output_shapes == NULL)
    return tn__argument_missing("tn_function_infer_shapes", "output_shapes");
  return NULL;
}

tn_status *tn_function_infer_shapes(const tn_executable *exe, const char *function, const int64_t *const *input_shapes,
                                    int64_t (*output_shapes)[TN_MAX_RANK]) {
  TN__NEED("executable", exe);
  const tn__function *f;
  TN_RETURN_IF_ERROR(tn__executable_function(exe, function, &f));
  TN_RETURN_IF_ERROR(check_shapes(f, input_shapes, output_shapes));
  inference n = {.exe = exe, .f = f};
  tn__region scratch;
  tn__region_init(&scratch, exe->region.allocator);
  tn_status *status = infer(&n, &scratch, input_shapes, output_shapes);
  tn__region_release(&scratch);
  return status;
}
