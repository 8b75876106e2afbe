/* Shapes of outputs without running: the prologue over the inputs' shapes, where what is loaded from an input is not
 * known, nor what is computed of it. */
#include "base/alloc.h"
#include "base/dtype.h"
#include "runtime/vm.h"

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

static tn_status *step(inference *n, const tn__instruction *in) {
  int64_t *s = n->scalars;
  uint8_t *known = n->known;
  switch (in->op) {
    case TN__OP_SCALAR_CONST: s[in->a] = in->immediate, known[in->a] = 1; return NULL;
    case TN__OP_SCALAR_SHAPE: s[in->a] = dim_of(n, in->b, in->c), known[in->a] = 1; return NULL;
    case TN__OP_SCALAR_LOAD: return load(n, in);
    case TN__OP_SCALAR_OP:
      if (known[in->b] && known[in->c]) {
        tn_status *status = tn__scalar_compute(in->d, s[in->b], s[in->c], &s[in->a]);
        if (status != NULL) return tn__at_origin(n->exe, n->f, in, status);
        known[in->a] = 1;
      } else {
        known[in->a] = 0;
      }
      return NULL;
    case TN__OP_SCALAR_SELECT: {
      uint32_t chosen = s[in->b] != 0 ? in->c : in->d;
      bool sure = known[in->b] && known[chosen];
      s[in->a] = s[chosen], known[in->a] = sure;
      return NULL;
    }
    case TN__OP_ASSERT:
      if (known[in->a] && s[in->a] == 0) return tn__assert_failed(n->exe, n->f, in, s, known);
      return NULL;
    default: return NULL; /* nothing else is in a prologue */
  }
}

static tn_status *read_output(const inference *n, const tn__function_value *output, int64_t *shape) {
  const tn__register *r = &n->f->registers[output->reg];
  for (int i = 0; i < r->rank; i++) {
    const tn__operand *dim = tn__value_dim(n->f, output, i);
    bool unknown = dim->symbolic && (!r->early || !n->known[dim->value]);
    if (unknown || r->container != TN__CONTAINER_TENSOR) {
      shape[i] = -1;
      continue;
    }
    shape[i] = tn__operand_value(dim, n->scalars);
    if (i == output->grows && shape[i] > output->info.dims[i]->capacity) return tn__beyond_capacity(output, shape[i]);
    if (shape[i] < 0)
      return tn_status_create(TN_OUT_OF_RANGE, "output \"%s\" gets the negative dimension %lld", output->info.name,
                              (long long)shape[i]);
  }
  return NULL;
}

static tn_status *infer(inference *n, tn__region *scratch, int64_t (*output_shapes)[TN_MAX_RANK]) {
  const tn__function *f = n->f;
  TN_RETURN_IF_ERROR(tn__region_alloc(scratch, f->scalar_count, sizeof(int64_t), &n->scalars));
  TN_RETURN_IF_ERROR(tn__region_alloc(scratch, f->scalar_count, 1, &n->known));
  TN_RETURN_IF_ERROR(tn__bind_symbols(f, n->shapes, n->scalars));
  for (uint32_t i = 0; i < f->scalar_count; i++) n->known[i] = f->signature_scalar[i];
  for (uint32_t i = 0; i < f->prologue_count; i++) TN_RETURN_IF_ERROR(step(n, &f->instructions[i]));
  for (uint32_t i = 0; i < f->output_count; i++) TN_RETURN_IF_ERROR(read_output(n, &f->outputs[i], output_shapes[i]));
  return NULL;
}

tn_status *tn_function_infer_shapes(const tn_executable *exe, const char *function, const int64_t *const *input_shapes,
                                    int64_t (*output_shapes)[TN_MAX_RANK]) {
  const tn__function *f;
  TN_RETURN_IF_ERROR(tn__executable_function(exe, function, &f));
  inference n = {.exe = exe, .f = f, .shapes = input_shapes};
  tn__region scratch;
  tn__region_init(&scratch, exe->region.allocator);
  tn_status *status = infer(&n, &scratch, output_shapes);
  tn__region_release(&scratch);
  return status;
}
