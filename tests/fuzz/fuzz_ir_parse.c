/* The reader of loop IR text: any bytes give a function or an error; a function is verified, printed, and its text is
 * stable; what verifies and asks for nothing symbolic is lowered and both forms are run for a while. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "ir/passes.h"

static void check_text(tn__ir *ir, const tn__func *func) {
  tn__strbuf first, second;
  tn__func *again;
  tn__strbuf_init(&first, NULL);
  tn__strbuf_init(&second, NULL);
  tn__func_print(func, &first);
  tn_status *status = tn__func_parse(ir, "printed", tn__strbuf_text(&first), first.length, &again);
  if (status == NULL) { /* the printed form may be nested deeper than the reader allows */
    tn__func_print(again, &second);
    require(strcmp(tn__strbuf_text(&first), tn__strbuf_text(&second)) == 0);
  }
  tn_status_free(status);
  tn__strbuf_release(&first);
  tn__strbuf_release(&second);
}

static bool small_buffers(const tn__func *func) {
  for (int i = 0; i < func->input_count + func->output_count; i++) {
    int64_t elements = 1, dim;
    for (int d = 0; d < func->params[i]->rank; d++) {
      if (!tn__ir_as_int(func->params[i]->shape[d], &dim) || dim < 0 || dim > 4096 || elements > 4096) return false;
      elements *= dim;
    }
  }
  return true;
}

static bool allocates(const tn__stmt *s, void *user) {
  if (s->kind == TN__STMT_ALLOC && s->as.alloc.buffer->scope == TN__SCOPE_WORKSPACE) *(bool *)user = true;
  return true;
}

static void interpret(tn__ir *ir, const tn__func *func) {
  int count = func->input_count + func->output_count;
  bool large = false;
  tn__stmt_walk(func->body, allocates, &large);
  if (large || func->scalar_count > 0 || !small_buffers(func)) return;
  void **buffers = TN__NEW_ARRAY(tn__ir_arena(ir), count, void *);
  for (int i = 0; i < count; i++) {
    size_t elements = 1;
    for (int d = 0; d < func->params[i]->rank; d++) elements *= (size_t)func->params[i]->shape[d]->value.i;
    buffers[i] = tn__arena_alloc_array(tn__ir_arena(ir), elements, tn_dtype_size(func->params[i]->dtype));
  }
  tn__interpret_options options = {.max_operations = 20000};
  tn_status_free(tn__ir_interpret(ir, func, buffers, NULL, &options));
}

static void run(tn__escape *escape, void *user) {
  fuzz_input *j = user;
  j->arena.escape = escape;
  tn__ir *ir = tn__ir_create(&j->arena);
  tn__func *func;
  tn__check(escape, tn__func_parse(ir, "fuzz", (const char *)j->data, j->size, &func));
  check_text(ir, func);
  tn_status *broken = tn__func_verify(ir, func);
  tn_status_free(broken);
  if (broken != NULL) return;
  interpret(ir, func);
  tn__func *lowered = tn__ir_lower_for_codegen(ir, func, NULL);
  broken = tn__func_verify(ir, lowered);
  require(broken == NULL);
  check_text(ir, lowered);
  interpret(ir, lowered);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_reader(data, size, run);
  return 0;
}
