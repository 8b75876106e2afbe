/* The declarations of <tenon/te.h>: from text, and built piece by piece. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "declarations/handle.h"

typedef struct arena_call {
  tn__arena *arena;
  void (*body)(void *user);
  void *user;
} arena_call;

static void run_in_arena(tn__escape *escape, void *arg) {
  arena_call *call = arg;
  call->arena->escape = escape;
  call->body(call->user);
}

tn_status *tn__decl_in_arena(tn__arena *arena, void (*body)(void *user), void *user) {
  arena_call call = {arena, body, user};
  tn__escape escape, *outer = arena->escape;
  tn_status *status = tn__protect(&escape, run_in_arena, &call);
  arena->escape = outer;
  return status;
}

tn_status *tn__decl_text_out(tn__strbuf *text, char **out, size_t *size) {
  tn_status *status = tn__strbuf_status(text);
  *out = status == NULL ? malloc(text->length + 1) : NULL;
  if (*out != NULL) {
    memcpy(*out, tn__strbuf_text(text), text->length + 1);
    if (size != NULL) *size = text->length;
  } else if (status == NULL) {
    status = tn_status_create(TN_OUT_OF_MEMORY, "out of memory for %zu bytes of text", text->length);
  }
  tn__strbuf_release(text);
  return status;
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

/* LeNet takes a sixtieth of what it may, chains of 400 stages a hundredth to a fifteenth: the limits are there so that
 * what nobody thought of ends with words instead of not ending. */
#define STEPS_AT_LEAST UINT64_C(20000000)
enum { STEPS_PER_STEP = 200 };

static void limit(tn__work *work, tn__arena *arena, const char *of, uint64_t each, uint64_t count) {
  uint64_t most = count > (UINT64_MAX / 2 - STEPS_AT_LEAST) / each ? UINT64_MAX / 2 : STEPS_AT_LEAST + each * count;
  *work = (tn__work){.most = most, .of = of};
  arena->work = work;
}

void tn__decl_limit_reading(tn__work *work, tn__arena *arena, const char *name, size_t bytes) {
  limit(work, arena, name, TN__TE_STEPS_PER_BYTE, bytes);
}

void tn__decl_limit_work(tn__work *work, tn__arena *arena, const char *kernel, uint64_t declared) {
  limit(work, arena, kernel, STEPS_PER_STEP, declared);
}

/* ---- handles ----------------------------------------------------------------------------------------------------- */

static tn_status *new_handle(const tn_allocator *allocator, tn_te **out) {
  void *memory;
  TN_RETURN_IF_ERROR(tn__alloc(allocator, 1, sizeof(tn_te), 0, &memory));
  tn_te *te = memory;
  if (allocator != NULL) {
    te->allocator_copy = *allocator;
    te->allocator = &te->allocator_copy;
  }
  tn__arena_init(&te->arena, te->allocator, NULL);
  *out = te;
  return NULL;
}

void tn_te_release(tn_te *te) {
  if (te == NULL) return;
  tn_status_free(te->refusal);
  tn__arena_release(&te->arena);
  tn_allocator copy = te->allocator_copy;
  tn__free(te->allocator != NULL ? &copy : NULL, te, sizeof *te, 0);
}

const char *tn_te_name(const tn_te *te) {
  if (te == NULL) return NULL;
  return tn__te_name(te->te);
}

tn_status *tn_te_print(const tn_te *te, char **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("te", te);
  tn__strbuf text;
  tn__strbuf_init(&text, te->allocator);
  tn__te_print(te->te, &text);
  return tn__decl_text_out(&text, out, NULL);
}

/* ---- from text --------------------------------------------------------------------------------------------------- */

typedef struct parsing {
  const char *name, *text, *kernel; /* text NULL: in the file called so */
  const char *folder;               /* of imports in a text; NULL: none */
  size_t length;
  const tn_dim_setting *dims;
  int dim_count;
  const tn_allocator *allocator;
  tn__arena arena; /* of the source */
  tn__work work;
  const tn__te_source *source;
  bool last; /* without a kernel's name: the last one, not all */
  tn_te **list;
  int count; /* made so far */
  tn_te *making;
  int index; /* of its kernel */
} parsing;

static void declare_one(void *user) {
  parsing *p = user;
  tn_te *te = p->making;
  te->ir = tn__ir_create(&te->arena);
  tn__te_dim_value *dims = TN__NEW_ARRAY(&te->arena, p->dim_count, tn__te_dim_value);
  for (int i = 0; i < p->dim_count; i++) dims[i] = (tn__te_dim_value){p->dims[i].name, p->dims[i].size};
  tn__check(te->arena.escape, tn__te_declare(p->source, p->index, dims, p->dim_count, te->ir, &te->te));
  te->finished = true;
  te->dims = dims;
  te->dim_count = p->dim_count;
  for (int i = 0; i < p->dim_count; i++) dims[i].name = tn__arena_strdup(&te->arena, dims[i].name);
  int line;
  const char *text = tn__te_schedules(p->source, p->index, &line);
  if (text == NULL) return;
  tn__check(te->arena.escape, tn__written_parse(&te->arena, p->name, text, strlen(text), line, &te->written));
}

static tn_status *declare_kernel(parsing *p, int index) {
  TN_RETURN_IF_ERROR(new_handle(p->allocator, &p->list[p->count]));
  tn_te *te = p->making = p->list[p->count++];
  p->index = index;
  te->arena.work = &p->work;
  tn_status *status = tn__decl_in_arena(&te->arena, declare_one, p);
  te->arena.work = NULL; /* which it outlives */
  return status;
}

static _Noreturn void give_up(parsing *p, tn_te **list, int room, tn_status *status) {
  for (int i = 0; i < p->count; i++) tn_te_release(list[i]);
  tn__free(p->allocator, list, (size_t)room * sizeof(tn_te *), 0);
  tn__throw(p->arena.escape, status);
}

static void check_dims(const parsing *p, int first, int last) {
  for (int i = 0; i < p->dim_count; i++) {
    bool known = false;
    for (int k = first; k <= last; k++)
      for (int d = 0; d < tn__te_kernel_dim_count(p->source, k); d++)
        known |= strcmp(tn__te_kernel_dim(p->source, k, d), p->dims[i].name) == 0;
    if (!known)
      tn__throwf(p->arena.escape, TN_INVALID_ARGUMENT, "%s: no kernel has a dimension %s", p->name, p->dims[i].name);
    for (int j = 0; j < i; j++)
      if (strcmp(p->dims[i].name, p->dims[j].name) == 0)
        tn__throwf(p->arena.escape, TN_INVALID_ARGUMENT, "%s: the dimension %s is given twice: %lld and %lld", p->name,
                   p->dims[i].name, (long long)p->dims[j].size, (long long)p->dims[i].size);
  }
}

static void parse_all(void *user) {
  parsing *p = user;
  tn__te_source *source;
  tn_status *errors = p->text != NULL ? tn__te_parse_in(&p->arena, p->folder, p->name, p->text, p->length, &source)
                                      : tn__te_parse_file(&p->arena, p->name, &source);
  if (source == NULL || (errors != NULL && tn__te_kernel_count(source) == 0)) tn__check(p->arena.escape, errors);
  bool understood = errors == NULL;
  tn_status_free(errors); /* declaring tells them, and those that only it finds */
  p->source = source;
  int first = 0, last = tn__te_kernel_count(source) - 1;
  if (p->kernel != NULL) {
    first = last = tn__te_kernel_find(source, p->kernel);
    if (first < 0 && understood)
      tn__throwf(p->arena.escape, TN_NOT_FOUND, "%s: there is no kernel called %s", p->name, p->kernel);
  } else if (p->last) {
    first = last;
  }
  if (!understood) first = 0, last = tn__te_kernel_count(source) - 1; /* for all errors; nothing comes of it */
  if (understood) check_dims(p, first, last);
  void *memory;
  tn__check(p->arena.escape, tn__alloc(p->allocator, (size_t)(last - first + 1), sizeof(tn_te *), 0, &memory));
  p->list = memory;
  tn_status *refused = NULL;
  for (int k = first; k <= last; k++) {
    tn_status *status = declare_kernel(p, k);
    if (status == NULL) continue;
    tn_status_free(refused);
    refused = status;
    if (!tn__te_has_errors(source) || tn_status_code_of(status) != TN_INVALID_ARGUMENT) break;
  }
  if (refused != NULL) give_up(p, memory, last - first + 1, refused);
}

static tn_status *check_sizes(const parsing *p) {
  for (int i = 0; i < p->dim_count; i++)
    if (p->dims[i].name == NULL)
      return tn_status_create(TN_INVALID_ARGUMENT, "%s: dims[%d] has no name: it is NULL", p->name, i);
  return NULL;
}

static tn_status *parse(parsing *p) {
  if (p->name == NULL) p->name = "te";
  TN_RETURN_IF_ERROR(check_sizes(p));
  tn__arena_init(&p->arena, p->allocator, NULL);
  tn__decl_limit_reading(&p->work, &p->arena, p->name, p->length);
  tn_status *status = tn__decl_in_arena(&p->arena, parse_all, p);
  tn__arena_release(&p->arena);
  return status;
}

tn_status *tn_te_parse_all(const char *name, const char *text, size_t length, const char *kernel,
                           const tn_dim_setting *dims, int dim_count, tn_te ***out, int *count) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("count", count);
  TN__NEED_LIST("text", text, "length", length);
  TN__NEED_LIST("dims", dims, "dim_count", dim_count);
  parsing p = {.name = name, .text = text, .length = length, .kernel = kernel, .dims = dims, .dim_count = dim_count};
  *count = 0;
  TN_RETURN_IF_ERROR(parse(&p));
  *out = p.list;
  *count = p.count;
  return NULL;
}

tn_status *tn_te_parse_file(const char *path, const char *kernel, const tn_dim_setting *dims, int dim_count,
                            tn_te ***out, int *count) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED("path", path);
  TN__NEED("count", count);
  TN__NEED_LIST("dims", dims, "dim_count", dim_count);
  parsing p = {.name = path, .kernel = kernel, .dims = dims, .dim_count = dim_count};
  *count = 0;
  TN_RETURN_IF_ERROR(parse(&p));
  *out = p.list;
  *count = p.count;
  return NULL;
}

void tn_te_list_release(tn_te **list, int count) {
  if (list == NULL) return;
  for (int i = 0; i < count; i++) tn_te_release(list[i]);
  tn__free(NULL, list, (size_t)count * sizeof(tn_te *), 0);
}

tn_status *tn_te_parse(const char *name, const char *text, size_t length, const char *kernel,
                       const tn_dim_setting *dims, int dim_count, const tn_allocator *allocator, tn_te **out) {
  TN__NEED("out", out);
  *out = NULL;
  return tn_te_parse_in(NULL, name, text, length, kernel, dims, dim_count, allocator, out);
}

tn_status *tn_te_parse_in(const char *folder, const char *name, const char *text, size_t length, const char *kernel,
                          const tn_dim_setting *dims, int dim_count, const tn_allocator *allocator, tn_te **out) {
  TN__NEED("out", out);
  *out = NULL;
  TN__NEED_LIST("text", text, "length", length);
  TN__NEED_LIST("dims", dims, "dim_count", dim_count);
  parsing p = {.name = name, .text = text, .length = length, .kernel = kernel, .dims = dims, .dim_count = dim_count};
  p.folder = folder;
  p.allocator = allocator;
  p.last = true;
  TN_RETURN_IF_ERROR(parse(&p));
  *out = p.list[0];
  tn__free(allocator, p.list, sizeof(tn_te *), 0);
  return NULL;
}

/* ---- piece by piece ---------------------------------------------------------------------------------------------- */

static tn_te_expr *expr_out(const tn__expr *e) {
  union {
    const tn__expr *in;
    tn_te_expr *out;
  } cast = {.in = e};
  return cast.out;
}

static const tn__expr *expr_in(const tn_te_expr *e) {
  union {
    const tn_te_expr *in;
    const tn__expr *out;
  } cast = {.in = e};
  return cast.out;
}

static tn_te_tensor *tensor_out(const tn__buffer *b) {
  union {
    const tn__buffer *in;
    tn_te_tensor *out;
  } cast = {.in = b};
  return cast.out;
}

static const tn__buffer *tensor_in(const tn_te_tensor *t) {
  union {
    const tn_te_tensor *in;
    const tn__buffer *out;
  } cast = {.in = t};
  return cast.out;
}

/* One call of the builder: its arguments, and what it gives. */
typedef struct building {
  tn_te *te;
  const char *name, *const *names;
  tn_dtype dtype;
  int64_t number;
  double real;
  int count, over_count, along;
  tn_te_expr *const *list, *const *over, *const *terms;
  tn_te_expr *value, *first;
  tn_te_tensor *tensor;
  const tn_te_combiner *combiner;
  bool greatest;
  const tn__expr *expr; /* out */
  const tn__buffer *buffers[4];
} building;

static _Noreturn void refuse(const building *b, const char *what) {
  tn__throwf(b->te->arena.escape, TN_INVALID_ARGUMENT, "te %s: %s: %s", tn__te_name(b->te->te), b->name, what);
}

static bool start(const building *b) { return b->te != NULL && b->te->refusal == NULL; }

/* False when the call was refused, or one before it. */
static bool build(building *b, void (*body)(void *user)) {
  if (!start(b)) return false;
  tn_te *te = b->te;
  if (te->finished) {
    te->refusal = tn_status_create(TN_FAILED_PRECONDITION, "te %s: %s: the declaration is finished",
                                   tn__te_name(te->te), b->name);
    return false;
  }
  te->refusal = tn__decl_in_arena(&te->arena, body, b);
  return te->refusal == NULL;
}

static bool all_there(tn_te_expr *const *list, int count) {
  for (int i = 0; i < count; i++)
    if (list == NULL || list[i] == NULL) return false;
  return true;
}

/* Checks the operand of a call. NULL is the result of an earlier rejected call, or a misuse. */
static bool given(const building *b, bool there) {
  if (!there && start(b))
    b->te->refusal = tn_status_create(TN_INVALID_ARGUMENT, "te %s: cannot add %s: an argument is NULL; pass a value",
                                      tn__te_name(b->te->te), b->name == NULL ? "an unnamed item" : b->name);
  return there;
}

static void check_name(const building *b, const char *name) {
  bool good = name != NULL && (isalpha((unsigned char)name[0]) || name[0] == '_') && strlen(name) < 256;
  for (const char *p = name; good && *p != 0; p++) good = isalnum((unsigned char)*p) || *p == '_' || *p == '.';
  if (!good || tn__te_is_word(name))
    tn__throwf(b->te->arena.escape, TN_INVALID_ARGUMENT,
               "te %s: \"%s\" is no name: letters, digits and _, no word of "
               "the language",
               tn__te_name(b->te->te), name == NULL ? "" : name);
  if (tn__te_has_name(b->te->te, name))
    tn__throwf(b->te->arena.escape, TN_INVALID_ARGUMENT, "te %s: the name %s is taken already", tn__te_name(b->te->te),
               name);
}

static void create(void *user) {
  building *b = user;
  b->te->ir = tn__ir_create(&b->te->arena);
  b->te->te = tn__te_create(b->te->ir, b->name);
  check_name(b, b->name);
  if (strchr(b->name, '.') != NULL) refuse(b, "a kernel's name is a C identifier: no '.' in it");
}

tn_status *tn_te_create(const char *name, const tn_allocator *allocator, tn_te **out) {
  TN__NEED("out", out);
  *out = NULL;
  building b = {.name = name == NULL ? "" : name};
  TN_RETURN_IF_ERROR(new_handle(allocator, &b.te));
  tn_status *status = tn__decl_in_arena(&b.te->arena, create, &b);
  if (status != NULL)
    tn_te_release(b.te);
  else
    *out = b.te;
  return status;
}

static void finish(void *user) {
  building *b = user;
  tn__check(b->te->arena.escape, tn__te_verify(b->te->te));
  tn__te_secure(b->te->te, NULL, NULL);
}

tn_status *tn_te_finish(tn_te *te) {
  TN__NEED("te", te);
  if (te->finished) return NULL;
  building b = {.te = te, .name = "the whole"};
  if (te->refusal == NULL) te->refusal = tn__decl_in_arena(&te->arena, finish, &b);
  if (te->refusal != NULL)
    return tn_status_create(tn_status_code_of(te->refusal), "%s", tn_status_message(te->refusal));
  te->finished = true;
  return NULL;
}

static void make_dim(void *user) {
  building *b = user;
  check_name(b, b->name);
  if (b->number < 0 || b->number > INT64_C(1) << 48) refuse(b, "the least value of a dimension is from 0 to 2^48");
  b->expr = tn__te_dim(b->te->te, b->name, b->number)->self;
}

tn_te_expr *tn_te_dim(tn_te *te, const char *name, int64_t least) {
  building b = {.te = te, .name = name, .number = least};
  return build(&b, make_dim) ? expr_out(b.expr) : NULL;
}

static void make_int(void *user) {
  building *b = user;
  const tn__expr *wide = tn__ir_index(b->te->ir, b->number);
  b->expr = tn__ir_cast(b->te->ir, b->dtype, wide);
  if (!tn__dtype_is_float(b->dtype) && tn__ir_cast(b->te->ir, TN_I64, b->expr) != wide)
    refuse(b, "the number does not fit into its type");
}

tn_te_expr *tn_te_int(tn_te *te, tn_dtype dtype, int64_t value) {
  building b = {.te = te, .name = "tn_te_int", .dtype = dtype, .number = value};
  return build(&b, make_int) ? expr_out(b.expr) : NULL;
}

static void make_float(void *user) {
  building *b = user;
  if (!tn__dtype_is_float(b->dtype)) refuse(b, "the type is no floating one");
  b->expr = tn__ir_float(b->te->ir, b->dtype, b->real);
}

tn_te_expr *tn_te_float(tn_te *te, tn_dtype dtype, double value) {
  building b = {.te = te, .name = "tn_te_float", .dtype = dtype, .real = value};
  return build(&b, make_float) ? expr_out(b.expr) : NULL;
}

static void make_axis(void *user) {
  building *b = user;
  const tn__expr *extent = expr_in(b->value);
  int64_t n;
  check_name(b, b->name);
  if (extent->dtype != TN_I64) refuse(b, "an extent is of type i64");
  if (tn__ir_as_int(extent, &n) && n < 1) refuse(b, "an extent must be at least 1");
  b->expr =
      tn__var_create(b->te->ir, tn__arena_strdup(&b->te->arena, b->name), TN_I64, tn__ir_index(b->te->ir, 0), extent)
          ->self;
}

tn_te_expr *tn_te_axis(tn_te *te, const char *name, tn_te_expr *extent) {
  building b = {.te = te, .name = name, .value = extent};
  return given(&b, extent != NULL) && build(&b, make_axis) ? expr_out(b.expr) : NULL;
}

static void make_variable(void *user) {
  building *b = user;
  check_name(b, b->name);
  b->expr = tn__var_create(b->te->ir, tn__arena_strdup(&b->te->arena, b->name), b->dtype, NULL, NULL)->self;
}

tn_te_expr *tn_te_variable(tn_te *te, const char *name, tn_dtype dtype) {
  building b = {.te = te, .name = name, .dtype = dtype};
  return build(&b, make_variable) ? expr_out(b.expr) : NULL;
}

static void make_op(void *user) {
  building *b = user;
  const tn__expr *args[8];
  if (b->count < 1 || b->count > 8) refuse(b, "an operation takes 1 to 8 values");
  for (int i = 0; i < b->count; i++) args[i] = expr_in(b->list[i]);
  b->expr = tn__te_operation(b->te->te, b->name, args, b->count);
}

tn_te_expr *tn_te_op(tn_te *te, const char *operation, int count, tn_te_expr *const *args) {
  building b = {.te = te, .name = operation, .count = count, .list = args};
  return given(&b, operation != NULL && all_there(args, count)) && build(&b, make_op) ? expr_out(b.expr) : NULL;
}

static void make_cast(void *user) {
  building *b = user;
  b->expr = tn__ir_cast(b->te->ir, b->dtype, expr_in(b->value));
}

tn_te_expr *tn_te_cast(tn_te *te, tn_dtype dtype, tn_te_expr *value) {
  building b = {.te = te, .name = "tn_te_cast", .dtype = dtype, .value = value};
  return given(&b, value != NULL) && build(&b, make_cast) ? expr_out(b.expr) : NULL;
}

static void make_read(void *user) {
  building *b = user;
  const tn__buffer *buffer = tensor_in(b->tensor);
  const tn__expr *indices[TN__MAX_RANK];
  b->name = buffer->name;
  if (b->count != buffer->rank) refuse(b, "an element has as many indices as its tensor has dimensions");
  for (int i = 0; i < b->count; i++) {
    indices[i] = expr_in(b->list[i]);
    if (indices[i]->dtype != TN_I64) refuse(b, "an index is of type i64");
  }
  b->expr = tn__ir_load(b->te->ir, buffer, indices);
}

tn_te_expr *tn_te_read(tn_te *te, tn_te_tensor *tensor, int count, tn_te_expr *const *indices) {
  building b = {.te = te, .name = "tn_te_read", .tensor = tensor, .count = count, .list = indices};
  return given(&b, tensor != NULL && all_there(indices, count)) && build(&b, make_read) ? expr_out(b.expr) : NULL;
}

static void make_input(void *user) {
  building *b = user;
  const tn__expr *shape[TN__MAX_RANK];
  check_name(b, b->name);
  if (tn_dtype_size(b->dtype) == 0) refuse(b, "there is no such element type");
  if (b->count < 0 || b->count > TN__MAX_RANK) refuse(b, "more dimensions than a tensor may have");
  for (int i = 0; i < b->count; i++) {
    int64_t n;
    shape[i] = expr_in(b->list[i]);
    if (shape[i]->dtype != TN_I64) refuse(b, "a dimension is of type i64");
    if (tn__ir_as_int(shape[i], &n) && n < 1) refuse(b, "a dimension must be at least 1");
  }
  b->buffers[0] = tn__te_input(b->te->te, b->name, b->dtype, b->count, shape);
}

tn_te_tensor *tn_te_input(tn_te *te, const char *name, tn_dtype dtype, int rank, tn_te_expr *const *shape) {
  building b = {.te = te, .name = name, .dtype = dtype, .count = rank, .list = shape};
  return given(&b, all_there(shape, rank)) && build(&b, make_input) ? tensor_out(b.buffers[0]) : NULL;
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

/* Axes are made anew for every stage, so that one axis may serve several. */
typedef struct fresh_axes {
  tn__te_axes outer, over;
  const tn__var *from[2 * TN__MAX_RANK];
  const tn__expr *to[2 * TN__MAX_RANK];
  int count;
} fresh_axes;

static void add_axes(const building *b, tn_te_expr *const *list, int count, fresh_axes *all, tn__te_axes *axes) {
  if (count < 0 || count > TN__MAX_RANK) refuse(b, "more axes than a declaration may have");
  axes->count = count;
  for (int i = 0; i < count; i++) {
    const tn__expr *e = expr_in(list[i]);
    if (e->kind != TN__EXPR_VAR || e->value.var->extent == NULL) refuse(b, "what it runs over is no axis");
    const tn__var *var = e->value.var;
    for (int k = 0; k < all->count; k++)
      if (all->from[k] == var) refuse(b, "an axis is given twice");
    axes->var[i] = tn__var_create(b->te->ir, var->name, TN_I64, var->min, var->extent);
    axes->index[i] = axes->var[i]->self;
    all->from[all->count] = var;
    all->to[all->count++] = axes->index[i];
  }
}

static fresh_axes axes_of(const building *b) {
  fresh_axes all = {.count = 0};
  add_axes(b, b->list, b->count, &all, &all.outer);
  add_axes(b, b->over, b->over_count, &all, &all.over);
  return all;
}

static const tn__expr *renamed(const building *b, const fresh_axes *all, const tn_te_expr *e) {
  return tn__ir_substitute(b->te->ir, expr_in(e), all->from, all->to, all->count);
}

static void make_compute(void *user) {
  building *b = user;
  check_name(b, b->name);
  fresh_axes all = axes_of(b);
  b->buffers[0] = tn__te_compute(b->te->te, b->name, &all.outer, renamed(b, &all, b->value));
}

tn_te_tensor *tn_te_compute(tn_te *te, const char *name, int axis_count, tn_te_expr *const *axes, tn_te_expr *value) {
  building b = {.te = te, .name = name, .count = axis_count, .list = axes, .value = value};
  return given(&b, value != NULL && all_there(axes, axis_count)) && build(&b, make_compute) ? tensor_out(b.buffers[0])
                                                                                            : NULL;
}

static void make_reduce(void *user) {
  building *b = user;
  static const char *const names[] = {"sum", "prod", "max", "min", "any", "all"};
  int which = -1;
  check_name(b, b->name);
  for (int i = 0; i < 6; i++)
    if (b->names[0] != NULL && strcmp(names[i], b->names[0]) == 0) which = i;
  if (which < 0) refuse(b, "the reduction is none of sum, prod, max, min, any, all");
  fresh_axes all = axes_of(b);
  const tn__expr *term = renamed(b, &all, b->value);
  bool logic = which >= TN__TE_ANY;
  if (logic ? tn__dtype_is_float(term->dtype) : term->dtype == TN_BOOL)
    refuse(b, "the reduction does not take this type");
  if (all.over.count == 0) refuse(b, "a reduction over no axis");
  b->buffers[0] = tn__te_reduce(b->te->te, b->name, &all.outer, &all.over, (tn__te_reducer)which, term);
}

tn_te_tensor *tn_te_reduce(tn_te *te, const char *name, const char *reduction, int axis_count, tn_te_expr *const *axes,
                           int over_count, tn_te_expr *const *over, tn_te_expr *term) {
  building b = {.te = te, .name = name, .names = &reduction, .count = axis_count, .list = axes, .value = term};
  b.over = over;
  b.over_count = over_count;
  bool there = term != NULL && all_there(axes, axis_count) && all_there(over, over_count);
  return given(&b, there) && build(&b, make_reduce) ? tensor_out(b.buffers[0]) : NULL;
}

static const tn__te_combiner *combiner_of(const building *b) {
  const tn_te_combiner *given = b->combiner;
  tn__te_combiner *c = TN__NEW(&b->te->arena, tn__te_combiner);
  c->count = given->count;
  c->reorderable = !given->in_order;
  for (int i = 0; i < c->count; i++) {
    const tn__expr *before = expr_in(given->before[i]), *after = expr_in(given->after[i]);
    c->result[i] = expr_in(given->results[i]);
    c->identity[i] = expr_in(given->identities[i]);
    if (before->kind != TN__EXPR_VAR || after->kind != TN__EXPR_VAR)
      refuse(b, "a value of the combiner is no variable");
    tn_dtype dtype = before->dtype;
    if (after->dtype != dtype || c->result[i]->dtype != dtype || c->identity[i]->dtype != dtype ||
        expr_in(b->terms[i])->dtype != dtype)
      refuse(b, "before, after, result, identity and term are of different types");
    c->lhs[i] = before->value.var;
    c->rhs[i] = after->value.var;
  }
  return c;
}

static void make_reduce_with(void *user) {
  building *b = user;
  const tn__expr *terms[4];
  if (b->combiner->count < 1 || b->combiner->count > 4) refuse(b, "a combiner has 1 to 4 values");
  for (int i = 0; i < b->combiner->count; i++) check_name(b, b->names[i]);
  const tn__te_combiner *combiner = combiner_of(b);
  fresh_axes all = axes_of(b);
  if (all.over.count == 0) refuse(b, "a reduction over no axis");
  for (int i = 0; i < combiner->count; i++) terms[i] = renamed(b, &all, b->terms[i]);
  tn__te_reduce_as(b->te->te, b->names, &all.outer, &all.over, combiner, terms, b->buffers);
}

void tn_te_reduce_with(tn_te *te, const char *const *names, const tn_te_combiner *combiner, int axis_count,
                       tn_te_expr *const *axes, int over_count, tn_te_expr *const *over, tn_te_expr *const *terms,
                       tn_te_tensor **out) {
  building b = {.te = te, .name = names == NULL ? NULL : names[0], .names = names, .combiner = combiner};
  b.count = axis_count;
  b.list = axes;
  b.over = over;
  b.over_count = over_count;
  b.terms = terms;
  int count = combiner == NULL || combiner->count < 0 || combiner->count > 4 ? 0 : combiner->count;
  bool there = names != NULL && combiner != NULL && out != NULL && all_there(axes, axis_count) &&
               all_there(over, over_count) && all_there(terms, count) && all_there(combiner->before, count) &&
               all_there(combiner->after, count) && all_there(combiner->results, count) &&
               all_there(combiner->identities, count);
  bool made = given(&b, there) && build(&b, make_reduce_with);
  for (int i = 0; i < count && out != NULL; i++) out[i] = made ? tensor_out(b.buffers[i]) : NULL;
}

static void make_arg(void *user) {
  building *b = user;
  for (int i = 0; i < 2; i++) check_name(b, b->names[i]);
  fresh_axes all = axes_of(b);
  const tn__expr *terms[2] = {renamed(b, &all, b->value), all.over.index[0]};
  if (terms[0]->dtype == TN_BOOL) refuse(b, "there is no greatest bool");
  const tn__te_combiner *c = tn__te_arg_combiner(b->te->te, terms[0]->dtype, TN_I64, b->greatest, false);
  tn__te_reduce_as(b->te->te, b->names, &all.outer, &all.over, c, terms, b->buffers);
}

void tn_te_arg_reduce(tn_te *te, const char *const *names, bool greatest, int axis_count, tn_te_expr *const *axes,
                      tn_te_expr *over, tn_te_expr *value, tn_te_tensor **out) {
  building b = {.te = te, .name = names == NULL ? NULL : names[0], .names = names, .greatest = greatest};
  b.count = axis_count;
  b.list = axes;
  b.over = &over;
  b.over_count = 1;
  b.value = value;
  bool there = names != NULL && out != NULL && over != NULL && value != NULL && all_there(axes, axis_count);
  bool made = given(&b, there) && build(&b, make_arg);
  for (int i = 0; i < 2 && out != NULL; i++) out[i] = made ? tensor_out(b.buffers[i]) : NULL;
}

static void make_scan(void *user) {
  building *b = user;
  check_name(b, b->name);
  fresh_axes all = axes_of(b);
  tn__te_scan_declare(b->te->te, b->name, &all.outer, &b->dtype, 1, b->buffers);
}

tn_te_tensor *tn_te_scan(tn_te *te, const char *name, tn_dtype dtype, int axis_count, tn_te_expr *const *axes) {
  building b = {.te = te, .name = name, .dtype = dtype, .count = axis_count, .list = axes};
  return given(&b, all_there(axes, axis_count)) && build(&b, make_scan) ? tensor_out(b.buffers[0]) : NULL;
}

static void define_scan(void *user) {
  building *b = user;
  const tn__buffer *buffer = tensor_in(b->tensor);
  b->name = buffer->name;
  fresh_axes all = axes_of(b);
  if (b->count != buffer->rank) refuse(b, "a scan is defined over as many axes as it was declared with");
  for (int i = 0; i < b->count; i++)
    if (all.outer.var[i]->extent != buffer->shape[i]) refuse(b, "a scan is defined over the axes it was declared with");
  if (b->along < 0 || b->along >= b->count) refuse(b, "it scans along an axis that it does not have");
  if (b->number < 0 || (b->number > 0 && b->first == NULL)) refuse(b, "its first values are missing");
  const tn__expr *next = renamed(b, &all, b->value), *first = NULL;
  if (b->number > 0) first = renamed(b, &all, b->first);
  tn__te_scan_define(b->te->te, &all.outer, b->along, b->number, &first, &next, &buffer, 1);
}

void tn_te_scan_define(tn_te *te, tn_te_tensor *tensor, int axis_count, tn_te_expr *const *axes, int along,
                       int64_t depth, tn_te_expr *first, tn_te_expr *next) {
  building b = {.te = te, .name = "tn_te_scan_define", .tensor = tensor, .count = axis_count, .list = axes};
  b.along = along;
  b.number = depth;
  b.first = first;
  b.value = next;
  if (given(&b, tensor != NULL && next != NULL && all_there(axes, axis_count))) (void)build(&b, define_scan);
}

static void make_output(void *user) {
  building *b = user;
  tn__te_output(b->te->te, tensor_in(b->tensor));
}

void tn_te_output(tn_te *te, tn_te_tensor *tensor) {
  building b = {.te = te, .name = "tn_te_output", .tensor = tensor};
  if (given(&b, tensor != NULL)) (void)build(&b, make_output);
}
