/* The reader of .te text: any bytes give declarations or an error with a place; what is declared prints, and its text
 * is stable: it reads back and prints the same. Small ones are lowered and run for a while. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "te/text.h"

static void check_text(tn__arena *arena, const tn__te *te) {
  tn__strbuf first, second;
  tn__te_source *source;
  tn__te *again;
  tn__strbuf_init(&first, NULL);
  tn__strbuf_init(&second, NULL);
  tn__te_print(te, &first);
  tn_status *status = tn__te_parse(arena, "printed", tn__strbuf_text(&first), first.length, &source);
  if (status == NULL) status = tn__te_declare(source, 0, NULL, 0, tn__ir_create(arena), &again);
  if (status == NULL) { /* expanded calls may be nested deeper than the reader allows */
    tn__te_print(again, &second);
    require(strcmp(tn__strbuf_text(&first), tn__strbuf_text(&second)) == 0);
  }
  tn_status_free(status);
  tn__strbuf_release(&first);
  tn__strbuf_release(&second);
}

static bool small_buffer(const tn__buffer *buffer, int64_t *elements) {
  *elements = 1;
  for (int d = 0; d < buffer->rank; d++) {
    int64_t n;
    if (!tn__ir_as_int(buffer->shape[d], &n) || n > 4096 || *elements > 4096) return false;
    *elements *= n;
  }
  return *elements <= 4096;
}

static bool small_alloc(const tn__stmt *s, void *user) {
  int64_t elements;
  if (s->kind == TN__STMT_ALLOC && !small_buffer(s->as.alloc.buffer, &elements)) *(bool *)user = false;
  return true;
}

static void interpret(tn__ir *ir, const tn__te *te) {
  tn__func *func = tn__te_lower(te);
  tn_status *broken = tn__func_verify(ir, func);
  tn_status_free(broken);
  if (broken != NULL || func->scalar_count > 0) return;
  int count = func->input_count + func->output_count;
  void **buffers = TN__NEW_ARRAY(tn__ir_arena(ir), count, void *);
  bool small = true;
  tn__stmt_walk(func->body, small_alloc, &small);
  for (int i = 0; i < count && small; i++) {
    int64_t elements;
    small = small_buffer(func->params[i], &elements);
    if (small)
      buffers[i] = tn__arena_alloc_array(tn__ir_arena(ir), (size_t)elements, tn_dtype_size(func->params[i]->dtype));
  }
  tn__interpret_options options = {.max_operations = 20000};
  if (small) tn_status_free(tn__ir_interpret(ir, func, buffers, NULL, &options));
}

static void run(tn__escape *escape, void *user) {
  fuzz_input *j = user;
  j->arena.escape = escape;
  tn__te_source *source;
  tn__te_dim_value dims[] = {{"N", 5}, {"K", 3}};
  tn__check(escape, tn__te_parse(&j->arena, "fuzz", (const char *)j->data, j->size, &source));
  int count = tn__te_kernel_count(source);
  for (int i = 0; i < count && i < 8; i++) {
    tn__te *te;
    tn__ir *ir = tn__ir_create(&j->arena);
    tn__check(escape, tn__te_declare(source, i, dims, 2, ir, &te));
    check_text(&j->arena, te);
    interpret(ir, te);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_reader(data, size, run);
  return 0;
}
