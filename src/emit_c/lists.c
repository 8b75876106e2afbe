/* Lists in emitted C. What is done with them is the runtime's own text (runtime/values/list_work.h and list_steps.h);
 * here is where their memory comes from, which is the workspace, and the instructions. */
#include <stdio.h>

#include "emit_c/emit_c.h"
#include "list_steps_text.inc.h"
#include "list_work_text.inc.h"

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static const char list_type[] =
    "\n/* Lists of tensors: sequences, optional values, and what loops collect. A list has a block of the workspace "
    "for "
    "its\n"
    " * tensors' elements and one for their records; both double when they are full, where they are when there is room "
    "around\n"
    " * them, and grow by what is needed alone when there is no room to double. */\n"
    "typedef struct tni_@_list {\n"
    "  int absent; /* an optional without value; then it is empty, too */\n"
    "  int64_t count, capacity;\n"
    "  int64_t *items; /* per tensor, `stride` numbers */\n"
    "  int64_t stride;\n"
    "  struct {\n"
    "    void *data;\n"
    "    int64_t capacity;\n"
    "  } elements;\n"
    "  int64_t used; /* bytes of `elements`, those of tensors that were taken out included */\n"
    "} tni_@_list;\n"
    "typedef tni_@_context tni_@_list_memory;\n\n";

static const char list_memory[] =
    "\nstatic inline int32_t tni_@_list_status(int problem) {\n"
    "  switch (problem) {\n"
    "    case 0: return 0;\n"
    "    case TNI_^_LIST_NO_POSITION: return TN_^_INDEX_OUT_OF_RANGE;\n"
    "    case TNI_^_LIST_NO_MEMORY: return TN_^_WORKSPACE_TOO_SMALL;\n"
    "    case TNI_^_LIST_DIFFERS: case TNI_^_LIST_TOO_LONG: case TNI_^_LIST_OTHER_RANK: return TN_^_BAD_SIZE;\n"
    "    default: return TN_^_BAD_VALUE;\n"
    "  }\n"
    "}\n"
    "static inline void tni_@_list_release(tni_@_context *c, tni_@_list *list) {\n"
    "  tni_@_drop(c, list->items);\n"
    "  tni_@_drop(c, list->elements.data);\n"
    "}\n"
    "/* Makes a block larger without another one, if it can: `kept` bytes stay, and the rest of it is what it may have "
    "had. */\n"
    "static inline int tni_@_widen(tni_@_context *c, void **data, int64_t *capacity, int64_t bytes, int64_t kept) {\n"
    "  const int64_t want = tni_@_add_bytes(64, bytes);\n"
    "  tni_@_block **link = &c->blocks, *next;\n"
    "  char *ceiling = c->end, *floor;\n"
    "  if (want < 0 || !*data) return 0;\n"
    "  while ((char *)*link + 64 != (char *)*data) ceiling = (char *)*link, link = &(*link)->next;\n"
    "  next = (*link)->next;\n"
    "  floor = next ? (char *)next + 64 + next->bytes : c->low;\n"
    "  if (ceiling - floor < want) return 0;\n"
    "  *link = (tni_@_block *)(void *)(ceiling - want);\n"
    "  if (kept > 0) memmove((char *)*link + 64, *data, (size_t)kept);\n"
    "  (*link)->next = next, (*link)->bytes = want - 64;\n"
    "  if (!next) tni_@_leave(c, (char *)*link - c->low);\n"
    "  *data = (char *)*link + 64, *capacity = want - 64;\n"
    "  return 1;\n"
    "}\n"
    "/* Records of `rank` dimensions for `count` tensors. */\n"
    "static inline int32_t tni_@_list_records(tni_@_context *c, tni_@_list *list, int rank, int64_t count) {\n"
    "  const int64_t least = TNI_^_LIST_DIMS + rank, stride = least > list->stride ? least : list->stride;\n"
    "  int64_t capacity = tni_@_max(list->capacity, tni_@_max(count, 4)), bytes = 0;\n"
    "  void *records = 0, *old = list->items;\n"
    "  int32_t status;\n"
    "  if (count <= list->capacity && stride == list->stride) return 0;\n"
    "  if (count > list->capacity) capacity = tni_@_max(capacity, 2 * list->capacity);\n"
    "  status = tni_@_take(c, &records, &bytes, capacity * stride * 8);\n"
    "  if (status != 0) status = tni_@_take(c, &records, &bytes, count * stride * 8);\n"
    "  if (status != 0) return status;\n"
    "  tni_@_list_gather_records(list, (int64_t *)records, stride);\n"
    "  list->capacity = bytes / (stride * 8);\n"
    "  tni_@_drop(c, old);\n"
    "  return 0;\n"
    "}\n"
    "static inline int32_t tni_@_list_replace(tni_@_context *c, tni_@_list *list, int64_t element, int64_t bytes) {\n"
    "  void *data = 0, *old = list->elements.data;\n"
    "  int64_t capacity = 0;\n"
    "  const int32_t status = tni_@_take(c, &data, &capacity, bytes);\n"
    "  if (status != 0) return status;\n"
    "  tni_@_list_gather(list, element, data);\n"
    "  list->elements.capacity = capacity;\n"
    "  tni_@_drop(c, old);\n"
    "  return 0;\n"
    "}\n"
    "static inline int32_t tni_@_list_elements(tni_@_context *c, tni_@_list *list, int64_t element, int64_t bytes,\n"
    "    int times) {\n"
    "  int64_t alive;\n"
    "  if (list->count == 0) list->used = 0;\n"
    "  if (list->elements.data && bytes <= list->elements.capacity - list->used) return 0;\n"
    "  alive = tni_@_list_alive(list, element);\n"
    "  if (bytes > INT64_MAX / 4 - alive) return tni_@_lack(c, -1);\n"
    "  if (alive == list->used && tni_@_widen(c, &list->elements.data, &list->elements.capacity, (alive + bytes) * "
    "times, alive))\n"
    "    return 0;\n"
    "  if (tni_@_list_replace(c, list, element, (alive + bytes) * times) == 0) return 0;\n"
    "  if (tni_@_widen(c, &list->elements.data, &list->elements.capacity, list->used + bytes, list->used)) return 0;\n"
    "  return tni_@_list_replace(c, list, element, alive + bytes);\n"
    "}\n"
    "/* Room for `count` tensors and `bytes` more of elements; `times` of what is needed is asked for. */\n"
    "static inline int tni_@_list_room(tni_@_list_memory *c, tni_@_list *list, int64_t element, int rank, int64_t "
    "count,\n"
    "    int64_t bytes, int times) {\n"
    "  int32_t status = tni_@_list_records(c, list, rank, count);\n"
    "  if (status == 0) status = tni_@_list_elements(c, list, element, bytes, times);\n"
    "  return status == 0 ? 0 : TNI_^_LIST_NO_MEMORY;\n"
    "}\n\n";

/* ---- what callers give and get ---------------------------------------------------------------------------------- */

static const char list_values[] =
    "/* Lists: sequences and optional values. Of inputs and outputs that are lists, inputs[i] and outputs[i] point to "
    "a "
    "tn_@_list.\n"
    " * The tensors of an input may lie anywhere. For an output the caller gives `tensors` with room for `capacity` of "
    "them, and\n"
    " * `bytes` of memory at `data`; the function sets `count`, the tensors, which lie in that memory, each at a "
    "multiple "
    "of 64\n"
    " * bytes, and `needed`, the bytes of it that they take, or, when they do not fit "
    "(TN_^_OUTPUT_TOO_SMALL), would take.\n"
    " * That is -1 when the function failed before it knew. */\n"
    "typedef struct tn_@_tensor {\n"
    "  void *data;\n"
    "  int64_t rank, dims[TN_^_MAX_RANK];\n"
    "} tn_@_tensor;\n"
    "typedef struct tn_@_list {\n"
    "  int64_t count; /* of tensors; -1: an optional value that is absent */\n"
    "  tn_@_tensor *tensors;\n"
    "  /* of outputs alone */\n"
    "  int64_t capacity;\n"
    "  void *data;\n"
    "  int64_t bytes, needed;\n"
    "} tn_@_list;\n\n";

static const char list_boundary[] =
    "/* `rank` negative: any. `least`: -1 when it may be absent. */\n"
    "static inline int32_t tni_@_list_in(tni_@_context *c, tni_@_list *list, const void *from, int64_t element, int "
    "rank,\n"
    "    int least, int one) {\n"
    "  const tn_@_list *given = (const tn_@_list *)from;\n"
    "  int64_t total = 0, i;\n"
    "  int widest = 0;\n"
    "  int32_t status;\n"
    "  if (given->count < least || (one && given->count != 1 && given->count != -1)) return TN_^_BAD_VALUE;\n"
    "  tni_@_list_clear(list, given->count < 0);\n"
    "  for (i = 0; i < given->count; i++) {\n"
    "    const tn_@_tensor *t = &given->tensors[i];\n"
    "    int64_t bytes;\n"
    "    if (t->rank < 0 || t->rank > TN_^_MAX_RANK || (rank >= 0 && t->rank != rank)) return TN_^_BAD_SIZE;\n"
    "    bytes = tni_@_bytes(t->dims, (int)t->rank, element);\n"
    "    if (bytes < 0 || bytes > INT64_MAX / 4 || total > INT64_MAX / 4) return TN_^_BAD_SIZE;\n"
    "    total += tni_@_list_padded(bytes);\n"
    "    if (t->rank > widest) widest = (int)t->rank;\n"
    "  }\n"
    "  if (given->count <= 0) return 0;\n"
    "  status = tni_@_list_status(tni_@_list_room(c, list, element, widest, given->count, total, 1));\n"
    "  for (i = 0; i < given->count && status == 0; i++) {\n"
    "    const tn_@_tensor *t = &given->tensors[i];\n"
    "    tni_@_copy(tni_@_list_put(list, i, (int)t->rank, t->dims, element), t->data,\n"
    "        tni_@_list_tensor_bytes(t->dims, (int)t->rank, element));\n"
    "  }\n"
    "  return status;\n"
    "}\n"
    "static inline int32_t tni_@_list_out(tni_@_list *list, void *to, int64_t element) {\n"
    "  tn_@_list *out = (tn_@_list *)to;\n"
    "  int64_t i;\n"
    "  int d;\n"
    "  out->count = list->absent ? -1 : list->count;\n"
    "  out->needed = tni_@_list_alive(list, element);\n"
    "  if (list->count > out->capacity || out->needed > out->bytes) return TN_^_OUTPUT_TOO_SMALL;\n"
    "  tni_@_list_gather(list, element, out->data);\n"
    "  for (i = 0; i < list->count; i++) {\n"
    "    tn_@_tensor *t = &out->tensors[i];\n"
    "    t->data = tni_@_list_data(list, i);\n"
    "    t->rank = tni_@_list_rank(list, i);\n"
    "    for (d = 0; d < t->rank; d++) t->dims[d] = tni_@_list_dims(list, i)[d];\n"
    "  }\n"
    "  return 0;\n"
    "}\n";

void tn__c_write_list_support(const tn__c_emitter *e) {
  tn__c_append_text(e, list_type);
  tn__c_append_text(e, list_work_text);
  tn__c_append_text(e, list_memory);
  tn__c_append_text(e, list_steps_text);
  if (e->list_values) tn__c_append_text(e, list_boundary);
}

void tn__c_write_list_types(const tn__c_emitter *e) { tn__c_append_text(e, list_values); }

static uint32_t count_lists(const tn__c_writer *w, const tn__function_value *values, uint32_t count) {
  uint32_t lists = 0;
  for (uint32_t i = 0; i < count; i++) lists += tn__c_is_list(w->f, values[i].reg);
  return lists;
}

void tn__c_write_list_locals(const tn__c_writer *w) {
  const tn__function *f = w->f;
  uint32_t in = count_lists(w, f->inputs, f->input_count), out = count_lists(w, f->outputs, f->output_count);
  if (in > 0) tn__strbuf_printf(w->out, "  tni_%s_list given[%u];\n", w->e->name, in);
  if (out > 0) tn__strbuf_printf(w->out, "  tni_%s_list made[%u];\n", w->e->name, out);
}

/* Ends with `status` set, if only to 0. */
void tn__c_write_lists_in(const tn__c_writer *w) {
  const tn__function *f = w->f;
  uint32_t in = 0, out = 0;
  tn__strbuf_append(w->out, "  status = 0;\n");
  if (count_lists(w, f->inputs, f->input_count) > 0) tn__strbuf_append(w->out, "  memset(given, 0, sizeof given);\n");
  if (count_lists(w, f->outputs, f->output_count) > 0) tn__strbuf_append(w->out, "  memset(made, 0, sizeof made);\n");
  for (uint32_t i = 0; i < f->output_count; i++) {
    if (!tn__c_is_list(f, f->outputs[i].reg)) continue;
    tn__strbuf_printf(w->out, "  out[%u].data = &made[%u];\n  ((tn_%s_list *)outputs[%u])->needed = -1;\n", i, out++,
                      w->e->name, i);
  }
  for (uint32_t i = 0; i < f->input_count; i++) {
    const tn__register *r = &f->registers[f->inputs[i].reg];
    if (!tn__c_is_list(f, f->inputs[i].reg)) continue;
    bool sequence = r->container == TN__CONTAINER_SEQUENCE, one = r->container == TN__CONTAINER_OPTIONAL;
    tn__strbuf_printf(w->out,
                      "  in[%u].data = &given[%u];\n"
                      "  if (status == 0) status = tni_%s_list_in(&c, &given[%u], inputs[%u], %zu, %d, %d, %d);\n",
                      i, in, w->e->name, in, i, tn_dtype_size(r->dtype), r->any_rank ? -1 : r->rank, sequence ? 0 : -1,
                      one);
    in++;
  }
  if (in > 0) tn__strbuf_printf(w->out, "  if (status != 0) status += %d;\n", tn__c_status(0, w->c->entry));
}

/* What each needs is told, also when another does not fit. */
void tn__c_write_lists_out(const tn__c_writer *w) {
  const tn__function *f = w->f;
  if (count_lists(w, f->outputs, f->output_count) == 0) return;
  tn__strbuf_append(w->out, "  if (status == 0) {\n");
  for (uint32_t i = 0, out = 0; i < f->output_count; i++) {
    const tn__register *r = &f->registers[f->outputs[i].reg];
    if (!tn__c_is_list(f, f->outputs[i].reg)) continue;
    tn__strbuf_printf(w->out, "    if (tni_%s_list_out(&made[%u], outputs[%u], %zu) != 0) status = %d;\n", w->e->name,
                      out++, i, tn_dtype_size(r->dtype), tn__c_status(TN__C_OUTPUT, w->c->entry));
  }
  tn__strbuf_append(w->out, "  }\n");
}

/* ---- instructions ----------------------------------------------------------------------------------------------- */

static size_t element_size(const tn__c_writer *w, uint32_t number) {
  return tn_dtype_size(w->f->registers[number].dtype);
}

/* Begins a call that gives x a status; its other arguments follow. */
static void begin(const tn__c_writer *w, const char *function, bool takes_memory) {
  tn__strbuf_printf(w->out, "    x = tni_%s_list_status(tni_%s_list_%s(%s", w->e->name, w->e->name, function,
                    takes_memory ? "c, " : "");
}

static void end(const tn__c_writer *w, uint32_t place) {
  tn__strbuf_printf(w->out, "));\n    if (x != 0) return (int32_t)x + %d;\n", tn__c_status(0, place));
}

static void comma(const tn__c_writer *w) { tn__strbuf_append(w->out, ", "); }

/* Two lists, from the second to the first, and the size of an element. */
static void write_lists(const tn__c_writer *w, uint32_t to, uint32_t from) {
  tn__c_write_address(w, to);
  comma(w);
  tn__c_write_address(w, from);
  tn__strbuf_printf(w->out, ", %zu", element_size(w, to));
}

/* Declares `d`, the dimensions of a tensor. */
static void write_dims(const tn__c_writer *w, uint32_t number) {
  tn__strbuf_append(w->out, "    const int64_t d[] = {");
  for (int i = 0; i < w->f->registers[number].rank; i++) {
    tn__c_write_dim(w, number, i);
    comma(w);
  }
  tn__strbuf_append(w->out, "0};\n");
}

/* A result gets the dimensions in `d`, or must have them. */
static void write_result(const tn__c_writer *w, uint32_t number, uint32_t place) {
  const tn__register *r = &w->f->registers[number];
  bool late = tn__c_is_late(w->c, number), output = r->storage == TN__STORAGE_OUTPUT;
  for (int i = 0; i < r->rank; i++) {
    if (late && r->dims[i].symbolic) continue;
    tn__strbuf_printf(w->out, "    if (d[%d] != ", i);
    tn__c_write_dim(w, number, i);
    tn__strbuf_printf(w->out, ") return %d;\n", tn__c_status(TN__C_SIZE, place));
  }
  if (!late) return;
  for (int i = 0; i < r->rank; i++)
    tn__strbuf_printf(w->out, "    %s[%u].dims[%d] = d[%d];\n", output ? "out" : "t",
                      output ? r->index : w->c->place[number], i, i);
  tn__c_write_fit(w, number, place);
}

static void write_insert(const tn__c_writer *w, const tn__instruction *in, uint32_t place) {
  uint32_t tensor = in->operands[1];
  write_dims(w, tensor);
  begin(w, "insert", true);
  write_lists(w, in->operands[2], in->operands[0]);
  tn__strbuf_printf(w->out, ", s[%u], d, %d, ", in->operands[3], w->f->registers[tensor].rank);
  tn__c_write_address(w, tensor);
  end(w, place);
}

static void write_at(const tn__c_writer *w, const tn__instruction *in, uint32_t place) {
  uint32_t list = in->operands[0], result = in->operands[1];
  tn__strbuf_append(w->out, "    const int64_t *d;\n    int64_t at = 0;\n");
  begin(w, "look", false);
  tn__c_write_address(w, list);
  tn__strbuf_printf(w->out, ", s[%u], %d, &at", in->operands[2], w->f->registers[result].rank);
  end(w, place);
  tn__strbuf_printf(w->out, "    d = tni_%s_list_dims(", w->e->name);
  tn__c_write_address(w, list);
  tn__strbuf_append(w->out, ", at);\n    (void)d;\n");
  write_result(w, result, place);
  tn__strbuf_printf(w->out, "    tni_%s_list_read(", w->e->name);
  tn__c_write_address(w, list);
  tn__strbuf_printf(w->out, ", at, %zu, ", element_size(w, result));
  tn__c_write_address(w, result);
  tn__strbuf_append(w->out, ");\n");
}

static void write_join(const tn__c_writer *w, const tn__instruction *in, uint32_t place) {
  uint32_t list = in->operands[0], number = in->operands[1], axis = in->operands[2];
  const tn__register *result = &w->f->registers[number];
  int rank = w->f->registers[list].rank;
  tn__strbuf_append(w->out, "    int64_t at = 0, d[] = {");
  for (int i = 0; i < result->rank; i++)
    tn__strbuf_printf(w->out, result->dims[i].symbolic ? "s[%lld], " : "INT64_C(%lld), ",
                      (long long)result->dims[i].value);
  tn__strbuf_append(w->out, "0};\n");
  begin(w, "joined_shape", false);
  tn__c_write_address(w, list);
  tn__strbuf_printf(w->out, ", %d, s[%u], %d, d, &at", rank, axis, result->rank);
  end(w, place);
  write_result(w, number, place);
  tn__strbuf_printf(w->out, "    tni_%s_list_join(", w->e->name);
  tn__c_write_address(w, list);
  tn__strbuf_printf(w->out, ", %d, (int)s[%u], %d, d, %zu, ", rank, axis, result->rank, element_size(w, list));
  tn__c_write_address(w, number);
  tn__strbuf_append(w->out, ");\n");
}

static void write_split(const tn__c_writer *w, const tn__instruction *in, uint32_t place) {
  uint32_t tensor = in->operands[0], sizes = in->operands[1], list = in->operands[2];
  const tn__register *r = &w->f->registers[tensor];
  tn__c_write_bytes(w, sizes, "b");
  write_dims(w, tensor);
  tn__strbuf_printf(w->out, "    int64_t own[%d], at, start;\n", r->rank + 1);
  begin(w, "split", true);
  tn__c_write_address(w, list);
  tn__strbuf_printf(w->out, ", %zu, %d, d, %d, s[%u], ", element_size(w, list), w->f->registers[list].rank, r->rank,
                    in->operands[3]);
  tn__strbuf_append(w->out, "(const int64_t *)(const void *)(");
  tn__c_write_address(w, sizes);
  tn__strbuf_append(w->out, "), b / 8, ");
  tn__c_write_address(w, tensor);
  tn__strbuf_append(w->out, ", own, &at, &start");
  end(w, place);
}

/* The length, or whether there is a value, as the one element of a tensor. */
static void write_answer(const tn__c_writer *w, const tn__instruction *in, uint32_t place) {
  begin(w, in->callee == TN__BUILTIN_LIST_LENGTH ? "length" : "present", false);
  tn__c_write_address(w, in->operands[0]);
  comma(w);
  tn__c_write_address(w, in->operands[1]);
  end(w, place);
}

static void write_builtin(const tn__c_writer *w, const tn__instruction *in, uint32_t place) {
  switch ((tn__builtin)in->callee) {
    case TN__BUILTIN_LIST_CLEAR:
      tn__strbuf_printf(w->out, "    tni_%s_list_clear(", w->e->name);
      tn__c_write_address(w, in->operands[0]);
      tn__strbuf_printf(w->out, ", s[%u] == 0);\n", in->operands[1]);
      return;
    case TN__BUILTIN_LIST_INSERT: write_insert(w, in, place); return;
    case TN__BUILTIN_LIST_ERASE:
      begin(w, "erase", true);
      write_lists(w, in->operands[1], in->operands[0]);
      tn__strbuf_printf(w->out, ", s[%u]", in->operands[2]);
      end(w, place);
      return;
    case TN__BUILTIN_LIST_AT: write_at(w, in, place); return;
    case TN__BUILTIN_LIST_JOIN: write_join(w, in, place); return;
    case TN__BUILTIN_LIST_SPLIT: write_split(w, in, place); return;
    default: write_answer(w, in, place);
  }
}

static void write_copy(const tn__c_writer *w, const tn__instruction *in, uint32_t place) {
  const tn__register *to = &w->f->registers[in->a], *from = &w->f->registers[in->b];
  if (from->any_rank && !to->any_rank) {
    tn__strbuf_append(w->out, "    int64_t at;\n");
    begin(w, "require", false);
    tn__c_write_address(w, in->b);
    tn__strbuf_printf(w->out, ", %d, &at", to->rank);
    end(w, place);
  }
  begin(w, "assign", true);
  write_lists(w, in->a, in->b);
  end(w, place);
}

static void write_move(const tn__c_writer *w, const tn__instruction *in) {
  tn__strbuf_printf(w->out, "    tni_%s_list *to = ", w->e->name);
  tn__c_write_address(w, in->a);
  tn__strbuf_append(w->out, ", *from = ");
  tn__c_write_address(w, in->b);
  tn__strbuf_append(w->out, ", kept = *to;\n    *to = *from, *from = kept;\n");
}

void tn__c_write_list_instruction(const tn__c_writer *w, const tn__instruction *in, uint32_t place) {
  for (uint32_t i = 0; in->op == TN__OP_BUILTIN && i < in->read_count + in->write_count; i++)
    if (!tn__c_is_list(w->f, in->operands[i])) tn__c_write_view_check(w, in->operands[i], place);
  tn__strbuf_append(w->out, "  {\n");
  if (in->op == TN__OP_COPY)
    write_copy(w, in, place);
  else if (in->op == TN__OP_MOVE)
    write_move(w, in);
  else
    write_builtin(w, in, place);
  tn__strbuf_append(w->out, "  }\n");
}
