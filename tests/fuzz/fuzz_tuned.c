/* Files of tuned schedules: any bytes yield the schedules for a target, or an error with a line. Then a declaration
 * is scheduled: a trace for that declaration applies, and any other leaves the default schedule. */
#include "fuzz/files.h"
#include "kernels/tuned.h"
#include "schedule/rules/choose.h"
#include "target/text/text.h"
#include "te/text.h"

static const char declaration[] =
    "kernel gemm(A: f32[16, 24], B: f32[24, 32]) -> C: f32[16, 32] {\n"
    "  C[i, j] = sum(k: 24) A[i, k] * B[k, j]\n"
    "}\n";

static void plan(tn__ir *ir, const tn__target *target, const tn__tuned *tuned) {
  tn__te_source *source;
  tn__te *te;
  must(tn__te_parse(tn__ir_arena(ir), "gemm.te", declaration, sizeof(declaration) - 1, &source));
  must(tn__te_declare(source, 0, NULL, 0, ir, &te));
  tn__plan_unit unit = tn__rule_plan_unit_of(te, target, &(tn__schedule_options){.threads = 2});
  const tn__plan *chosen = tn__plan_kernel(&unit, tuned->chooser);
  tn_status *status = tn__func_verify(ir, tn__schedule_func(chosen->schedule));
  require(status == NULL);
}

static void run(tn__escape *escape, void *user) {
  fuzz_input *in = user;
  in->arena.escape = escape;
  in->arena.work = TN__NEW(&in->arena, tn__work); /* lives until the arena is released */
  *in->arena.work = (tn__work){.most = 1 << 26, .of = "a schedule"};
  tn__target target;
  must(tn__target_parse("x86-64-v3", &target));
  const char *path = fuzz_write("fuzz.schedules", in->data, in->size);
  tn__tuned tuned = tn__kernels_tuned(&in->arena, path, NULL, &target, 2, &tn__chooser_static, NULL);
  const tn__site site = {.kind = "winograd", .text = "conv", .usual = 1};
  (void)tn__kernels_variant(tuned.variants, tuned.variant_count, &site);
  plan(tn__ir_create(&in->arena), &target, &tuned);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size <= 1 << 16) fuzz_reader(data, size, run);
  return 0;
}
