/* Primitives on how tensors lie in memory: storage_align, fold_storage, store_over, declare_constant,
 * transform_layout. */
#include <string.h>

#include "schedule/internal.h"

/* ---- storage_align ----------------------------------------------------------------------------------------------- */

static int64_t positive_mod(int64_t a, int64_t b) { return (a % b + b) % b; }

bool tn__sched_aligned_shape(tn__ir *ir, const tn__sched_align *align, int rank, const tn__expr **shape) {
  int64_t inner = 1, size, factor = align->factor;
  for (int d = align->dim + 2; d < rank; d++) {
    if (!tn__ir_as_int(shape[d], &size) || size < 1 || inner > INT32_MAX) return false;
    inner *= size;
  }
  const tn__expr **padded = &shape[align->dim + 1];
  if (tn__ir_as_int(*padded, &size)) {
    for (int64_t more = 0; more < factor; more++)
      if (positive_mod((size + more) % factor * (inner % factor), factor) == align->offset) {
        *padded = tn__ir_index(ir, size + more);
        return true;
      }
    return false;
  }
  if (inner != 1) return false;
  /* The least number from the size on that is offset modulo factor. */
  const tn__expr *above = tn__ir_ceildiv(ir, tn__ir_add_i(ir, *padded, -align->offset), tn__ir_index(ir, factor));
  *padded = tn__ir_add_i(ir, tn__ir_mul_i(ir, above, factor), align->offset);
  return true;
}

/* Throws when a block that uses the tensor cannot follow it into another layout. */
static void check_users(tn__schedule *s, const char *step, const tn__buffer *buffer) {
  tn__snodes users = {0};
  tn__sched_users(s, buffer, &users);
  for (int i = 0; i < users.count; i++) {
    const tn__snode *block = users.data[i];
    tn__sched_check_not_frozen(s, step, block);
    if (block->block.axis_count == 0 && block->block.body->kind != TN__STMT_STORE)
      tn__sched_refuse(s, "%s of \"%s\": the imperative block \"%s\" uses it", step, buffer->name, block->name);
  }
}

void tn__sched_storage_align(tn__schedule *s, const char *name, int index, int dim, int64_t factor, int64_t offset) {
  const tn__snode *block = tn__sched_block(s, "storage_align", name);
  if (index < 0 || index >= block->block.write_count)
    tn__sched_refuse(s, "storage_align of \"%s\": there is no tensor %d, it has %d", name, index,
                     block->block.write_count);
  const tn__buffer *buffer = block->block.writes[index].buffer;
  tn__sched_check_not_bounding(s, "storage_align", buffer);
  const tn__expr *shape[TN__MAX_RANK] = {NULL};
  if (tn__sched_is_param(s, buffer))
    tn__sched_refuse(s, "storage_align of \"%s\": %s is an output", name, buffer->name);
  int rank = buffer->rank;
  if (dim < 0 || dim + 1 >= rank)
    tn__sched_refuse(s, "storage_align of \"%s\": dimension %d of %s, of rank %d, has none behind it", name, dim,
                     buffer->name, rank);
  if (factor < 1 || factor > 4096 || offset < 0 || offset >= factor)
    tn__sched_refuse(s, "storage_align of \"%s\": the factor is 1 to 4096 and the offset less than it", name);
  check_users(s, "storage_align", buffer);
  tn__sched_align align = {.buffer = buffer, .dim = dim, .factor = factor, .offset = offset};
  for (int d = 0; d < rank; d++) shape[d] = buffer->shape[d];
  if (!tn__sched_aligned_shape(s->ir, &align, rank, shape))
    tn__sched_refuse(s, "storage_align of \"%s\": no width makes the stride %lld modulo %lld", name, (long long)offset,
                     (long long)factor);
  for (int i = 0; i < s->aligns.count; i++)
    if (s->aligns.data[i].buffer == buffer)
      tn__sched_refuse(s, "storage_align of \"%s\": %s is aligned already", name, buffer->name);
  tn__vec_push(s->arena, &s->aligns, align);
  const int64_t numbers[] = {index, dim, factor, offset};
  tn__sched_record(s, "storage_align", &name, 1, numbers, 4);
}

/* ---- fold_storage ------------------------------------------------------------------------------------------------ */

/* Why one iteration of the loop does not make and use up all that it needs of the buffer; NULL when it does. `*by` is
 * the block or loop that says so. */
static const char *cannot_fold(tn__schedule *s, const tn__buffer *buffer, const tn__snode *loop, const tn__snode **by) {
  tn__snodes users = {0}, writers = {0};
  tn__sched_readers(s, buffer, &users);
  tn__sched_writers(s, buffer, &users);
  tn__sched_writers(s, buffer, &writers);
  *by = loop;
  if (users.count == 0) return "has nothing that uses it"; /* nor is the loop there any more, maybe */
  for (int i = 0; i < users.count; i++) {
    *by = users.data[i];
    if (!tn__sched_is_under(users.data[i], loop)) return "uses it outside of the loop";
  }
  for (const tn__snode *n = loop; n->var != NULL; n = n->parent) {
    *by = n;
    if (n->kind == TN__LOOP_VECTORIZED) return "is vectorised";
    for (int i = 0; i < writers.count; i++)
      if (tn__sched_carries(s, n, writers.data[i], buffer)) return "carries its values on";
  }
  return NULL;
}

const tn__snode *tn__sched_folded_in(tn__schedule *s, const tn__buffer *buffer) {
  const tn__snode *by;
  tn__sched_window window;
  if (tn__sched_slides(s, buffer, &window)) return window.loop->parent->var == NULL ? NULL : window.loop->parent;
  for (int i = 0; i < s->folds.count; i++)
    if (s->folds.data[i].buffer == buffer && cannot_fold(s, buffer, s->folds.data[i].loop, &by) == NULL)
      return s->folds.data[i].loop;
  return NULL;
}

void tn__sched_fold_storage(tn__schedule *s, const char *name, int index, const char *loop_name) {
  const tn__snode *block = tn__sched_block(s, "fold_storage", name), *by;
  const tn__snode *loop = tn__sched_loop(s, "fold_storage", loop_name);
  if (index < 0 || index >= block->block.write_count)
    tn__sched_refuse(s, "fold_storage of \"%s\": there is no tensor %d, it has %d", name, index,
                     block->block.write_count);
  const tn__buffer *buffer = block->block.writes[index].buffer;
  tn__sched_check_not_bounding(s, "fold_storage", buffer);
  if (tn__sched_is_param(s, buffer)) tn__sched_refuse(s, "fold_storage of \"%s\": %s is an output", name, buffer->name);
  tn__sched_check_not_frozen(s, "fold_storage", loop);
  const char *why = cannot_fold(s, buffer, loop, &by);
  if (why != NULL) tn__sched_refuse(s, "fold_storage of \"%s\" in \"%s\": \"%s\" %s", name, loop_name, by->name, why);
  for (int i = 0; i < s->folds.count; i++)
    if (s->folds.data[i].buffer == buffer)
      tn__sched_refuse(s, "fold_storage of \"%s\": %s is folded already", name, buffer->name);
  tn__sched_fold fold = {.buffer = buffer, .loop = loop};
  tn__vec_push(s->arena, &s->folds, fold);
  const char *names[] = {name, loop_name};
  int64_t number = index;
  tn__sched_record(s, "fold_storage", names, 2, &number, 1);
}

/* ---- store_over -------------------------------------------------------------------------------------------------- */

tn__snode *tn__sched_common_ancestor(tn__snode *a, const tn__snode *b) {
  while (!tn__sched_is_under(b, a)) a = a->parent;
  return a;
}

static bool is_same_element(const tn__region *a, const tn__region *b) {
  for (int d = 0; d < a->buffer->rank; d++)
    if (a->min[d] != b->min[d] || !tn__ir_is_int_value(a->extent[d], 1) || !tn__ir_is_int_value(b->extent[d], 1))
      return false;
  return true;
}

/* Does the block read, in each of its points, just the element of `over` that it writes, in a place of its own? */
static bool maps_element(const tn__snode *block, const tn__buffer *over) {
  int dims[TN__MAX_RANK];
  const tn__block *b = &block->block;
  if (block->combiner != NULL || b->init != NULL || b->write_count != 1 || b->body->kind != TN__STMT_STORE)
    return false;
  for (int i = 0; i < b->axis_count; i++)
    if (b->axes[i].kind != TN__AXIS_SPATIAL) return false;
  const tn__buffer *buffer = b->writes[0].buffer;
  if (buffer->dtype != over->dtype || buffer->rank != over->rank || !tn__sched_identity_write(block, dims))
    return false;
  for (int d = 0; d < buffer->rank; d++)
    if (buffer->shape[d] != over->shape[d]) return false;
  for (int r = 0; r < b->read_count; r++)
    if (b->reads[r].buffer == over) return is_same_element(&b->reads[r], &b->writes[0]);
  return false;
}

const char *tn__sched_cannot_store_over(tn__schedule *s, const tn__buffer *buffer, const tn__buffer *over) {
  tn__snodes users = {0}, before = {0}, writers = {0}, makers = {0};
  tn__sched_writers(s, buffer, &writers);
  if (buffer == over || tn__sched_is_param(s, buffer) || tn__sched_is_param(s, over))
    return "which is no other intermediate tensor";
  if (writers.count != 1 || !maps_element(writers.data[0], over))
    return "and does not map each element of that to its own";
  tn__snode *block = writers.data[0];
  tn__sched_readers(s, over, &before);
  tn__sched_writers(s, over, &before);
  tn__sched_writers(s, over, &makers);
  tn__sched_readers(s, buffer, &users);
  tn__snode *top = block;
  for (int i = 0; i < before.count; i++) top = tn__sched_common_ancestor(top, before.data[i]);
  for (int i = 0; i < users.count; i++) top = tn__sched_common_ancestor(top, users.data[i]);
  if (top == block) return "which nobody writes";
  int at = tn__sched_index(tn__sched_child_around(top, block));
  for (int i = 0; i < before.count; i++)
    if (before.data[i] != block && tn__sched_index(tn__sched_child_around(top, before.data[i])) >= at)
      return "which others use in the same loops or behind it";
  for (int i = 0; i < users.count; i++)
    if (tn__sched_index(tn__sched_child_around(top, users.data[i])) <= at)
      return "while its own result is read in the same loops";
  for (const tn__snode *n = block->parent; n != top; n = n->parent)
    if (!tn__sched_disjoint(s, n, block)) return "more than once";
  for (const tn__snode *n = top; n->var != NULL; n = n->parent) {
    if (n->kind == TN__LOOP_VECTORIZED) return "in lanes of a vector";
    for (int i = 0; i < makers.count; i++)
      if (tn__sched_drives(n, makers.data[i], TN__AXIS_REDUCE) || tn__sched_drives(n, makers.data[i], TN__AXIS_SCAN))
        return "whose values a loop carries on";
  }
  return NULL;
}

void tn__sched_store_over(tn__schedule *s, const char *name, int index) {
  const tn__snode *block = tn__sched_block(s, "store_over", name);
  if (index < 0 || index >= block->block.read_count)
    tn__sched_refuse(s, "store_over of \"%s\": there is no tensor %d, it reads %d", name, index,
                     block->block.read_count);
  if (block->block.write_count != 1) tn__sched_refuse(s, "store_over of \"%s\": it does not write one tensor", name);
  tn__sched_check_not_bounding(s, "store_over", block->block.writes[0].buffer);
  tn__sched_check_not_bounding(s, "store_over", block->block.reads[index].buffer);
  tn__sched_check_not_frozen(s, "store_over", block);
  tn__sched_over over = {.buffer = block->block.writes[0].buffer, .over = block->block.reads[index].buffer};
  const char *why = tn__sched_cannot_store_over(s, over.buffer, over.over);
  if (why != NULL) tn__sched_refuse(s, "store_over of \"%s\": it reads %s, %s", name, over.over->name, why);
  for (int i = 0; i < s->overs.count; i++)
    if (s->overs.data[i].buffer == over.buffer)
      tn__sched_refuse(s, "store_over of \"%s\": it is stored over %s already", name, s->overs.data[i].over->name);
  tn__vec_push(s->arena, &s->overs, over);
  int64_t number = index;
  tn__sched_record(s, "store_over", &name, 1, &number, 1);
}

/* ---- transform_layout -------------------------------------------------------------------------------------------- */

static void map_layout(tn__ir *ir, const tn__expr *const *indices, const tn__expr **out, void *user) {
  tn__layout_map(ir, user, indices, out);
}

/* Do the blocks of an intermediate tensor's layout divide its dimensions? Elements that only fill a last block have no
 * producer that writes them. Whoever reads the tensor asks for none of them, but a copy of it would. */
static bool divides(tn__schedule *s, const tn__buffer *buffer, const tn__layout *layout) {
  for (int i = 0; i < layout->rank; i++) {
    const tn__layout_part *part = &layout->parts[i];
    const tn__expr *rest = tn__ir_mod_i(s->ir, buffer->shape[part->dim], part->divisor);
    if (part->modulus == 0 && !tn__ir_is_int_value(rest, 0)) return false;
  }
  return true;
}

void tn__sched_check_filled(const tn__schedule *s, const char *step, const tn__buffer *buffer) {
  for (int i = 0; i < s->ragged.count; i++)
    if (s->ragged.data[i] == buffer)
      tn__sched_refuse(s, "%s: the layout of %s has blocks that are filled in part", step, buffer->name);
}

static int find_input(const tn__schedule *s, const char *name) {
  for (int i = 0; i < tn__te_input_count(s->te); i++)
    if (strcmp(tn__te_input_at(s->te, i)->name, name) == 0) return i;
  return -1;
}

static tn__sched_constant *find_constant(tn__schedule *s, int input) {
  for (int i = 0; i < s->constants.count; i++)
    if (s->constants.data[i].input == input) return &s->constants.data[i];
  return NULL;
}

void tn__sched_declare_constant(tn__schedule *s, const char *name) {
  int64_t size;
  int input = find_input(s, name);
  if (input < 0) tn__sched_refuse(s, "declare_constant: there is no input \"%s\"", name);
  if (find_constant(s, input) != NULL) tn__sched_refuse(s, "declare_constant of \"%s\": it is declared already", name);
  const tn__buffer *buffer = tn__te_input_at(s->te, input);
  for (int d = 0; d < buffer->rank; d++)
    if (!tn__ir_as_int(buffer->shape[d], &size))
      tn__sched_refuse(s, "declare_constant of \"%s\": dimension %d is open", name, d);
  for (int d = 0; buffer->strides != NULL && d < buffer->rank; d++)
    if (!tn__ir_as_int(buffer->strides[d], &size))
      tn__sched_refuse(s, "declare_constant of \"%s\": the stride of dimension %d is open", name, d);
  tn__sched_constant constant = {.input = input};
  tn__vec_push(s->arena, &s->constants, constant);
  tn__sched_record(s, "declare_constant", &name, 1, NULL, 0);
}

void tn__sched_transform_layout(tn__schedule *s, const char *name, const tn__layout *layout) {
  const tn__buffer *buffer = tn__sched_tensor(s, "transform_layout", name);
  tn__sched_check_not_bounding(s, "transform_layout", buffer);
  const tn__expr *shape[TN__MAX_RANK] = {NULL};
  tn__sched_constant *constant = NULL;
  if (tn__sched_is_output(s, buffer)) tn__sched_refuse(s, "transform_layout of \"%s\": it is an output", name);
  if (tn__sched_is_param(s, buffer)) {
    int input = find_input(s, name);
    constant = input < 0 ? NULL : find_constant(s, input);
    if (constant == NULL || buffer != tn__te_input_at(s->te, input))
      tn__sched_refuse(s, "transform_layout of \"%s\": an input must be declared constant first", name);
    if (constant->packed != NULL) tn__sched_refuse(s, "transform_layout of \"%s\": it has been packed already", name);
  }
  const char *fault = tn__layout_fault(s->arena, layout, buffer->rank);
  if (fault != NULL) tn__sched_refuse(s, "transform_layout of \"%s\": %s", name, fault);
  tn__sched_check_filled(s, "transform_layout", buffer);
  check_users(s, "transform_layout", buffer);
  for (int i = 0; i < s->aligns.count; i++)
    if (s->aligns.data[i].buffer == buffer)
      tn__sched_refuse(s, "transform_layout of \"%s\": its storage is aligned; do that afterwards", name);
  tn__layout_shape(s->ir, layout, buffer->shape, shape);
  tn__layout copy = *layout;
  const char *new_name = constant == NULL ? name : tn__arena_printf(s->arena, "%s.packed", name);
  const tn__buffer *packed = tn__buffer_create(s->ir, new_name, buffer->dtype, buffer->scope, layout->rank, shape);
  bool whole = constant != NULL || divides(s, buffer, layout);
  tn__sched_replace_buffer(s, buffer, packed, map_layout, &copy);
  if (!whole) tn__vec_push(s->arena, &s->ragged, packed);
  if (constant != NULL) {
    constant->packed = packed;
    constant->layout = copy;
  }
  int64_t numbers[3 * TN__MAX_RANK];
  for (int i = 0; i < layout->rank; i++) {
    numbers[3 * i] = layout->parts[i].dim;
    numbers[3 * i + 1] = layout->parts[i].divisor;
    numbers[3 * i + 2] = layout->parts[i].modulus;
  }
  tn__sched_record(s, "transform_layout", &name, 1, numbers, 3 * layout->rank);
}

tn__te *tn__sched_layout_packing(tn__ir *ir, const char *kernel, const tn__buffer *from, const tn__layout *layout) {
  tn__arena *arena = tn__ir_arena(ir);
  char *name = tn__arena_printf(arena, "%s_pack_%s", kernel, from->name);
  for (char *c = name; *c != 0; c++)
    if (*c == '.') *c = '_';
  tn__te *te = tn__te_create(ir, name);
  const tn__buffer *input = tn__te_strided_input(te, from->name, from->dtype, from->rank, from->shape, from->strides);
  tn__te_output(te, tn__te_in_layout(te, "packed", input, NULL, input->shape, layout));
  return te;
}

tn__te *tn__schedule_packing(const tn__schedule *s, int index) {
  const tn__sched_constant *constant = find_constant(tn__sched_mutable(s), index);
  if (constant == NULL || constant->packed == NULL) return NULL;
  return tn__sched_layout_packing(s->ir, tn__te_name(s->te), tn__te_input_at(s->te, index), &constant->layout);
}
