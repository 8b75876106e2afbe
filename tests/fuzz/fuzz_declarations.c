/* Declarations of any kind, drawn from the fuzzer's bytes: what is chosen for them must compute what they declare. The
 * text of one that fails is printed. */
#include "target/text/text.h"
#include "te/text.h"
#include "unit/draw_declaration.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct job {
  tn__arena arena;
  const char *text;
  tn_status *refused; /* by the language: dice without bytes read outside of tensors */
  tn_status *wrong;
} job;

static void try_declaration(tn__escape *escape, void *arg) {
  job *j = arg;
  tn__arena_init(&j->arena, NULL, escape);
  tn__ir *ir = tn__ir_create(&j->arena);
  tn__te_source *source;
  tn__te *te;
  tn__target target;
  j->refused = tn__te_parse(&j->arena, "drawn.te", j->text, strlen(j->text), &source);
  if (j->refused == NULL) j->refused = tn__te_declare(source, 0, NULL, 0, ir, &te);
  if (j->refused == NULL) j->wrong = tn__target_parse("x86-64-v3", &target);
  if (j->refused != NULL || j->wrong != NULL) return;
  j->wrong = compare_results(default_schedule(te, &target, &(tn__schedule_options){.threads = 2}), 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  draw d = {.dice = {.data = data, .size = size}};
  tn__escape escape;
  if (size < 8 || size > 600) return 0;
  draw_kernel(&d);
  job j = {.text = tn__strbuf_text(&d.text)};
  tn_status *thrown = tn__protect(&escape, try_declaration, &j);
  tn_status *bad = thrown != NULL ? thrown : j.wrong;
  if (bad != NULL && tn_status_code_of(bad) == TN_CANCELLED) { /* too many operations for the interpreter */
    tn_status_free(bad);
    bad = NULL;
  }
  if (bad != NULL) {
    fprintf(stderr, "%s\n%s", tn_status_message(bad), j.text);
    __builtin_trap();
  }
  tn_status_free(j.refused);
  tn__arena_release(&j.arena);
  tn__strbuf_release(&d.text);
  return 0;
}
