/* CPUs by name: what their rows hold, that code comes of each, and how a machine finds its own. */
#include "target/cpus.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "machine/machine_file.h"
#include "target/text/text.h"
#include "tenon/te.h"
#include "unit/check.h"

static tn__target parsed(const char *text) {
  tn__target target;
  check_ok(tn__target_parse(text, &target));
  return target;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void rows_are_the_targets(void **state) {
  for (const tn__cpu *cpu = tn__cpus; cpu->name[0]; cpu++) {
    tn__target target = parsed(cpu->name), plain = parsed(cpu->features);
    assert_string_equal(target.name, plain.name);
    assert_true(target.cpu.features == plain.cpu.features && target.cpu.arch == plain.cpu.arch);
    assert_int_equal(target.cpu.vector_bytes, cpu->vector_bytes);
    assert_int_equal(target.cpu.vector_registers, plain.cpu.vector_registers);
    assert_memory_equal(&target.cpu.row, &cpu->machine, sizeof(cpu->machine));
    tn__machine machine = target.cpu.machine;
    assert_memory_equal(&machine, &cpu->machine, sizeof(machine));
    assert_false(target.cpu.measured);
  }
}

static void rows_are_sane(void **state) {
  for (const tn__cpu *cpu = tn__cpus; cpu->name[0]; cpu++) {
    const tn__machine *m = &cpu->machine;
    const tn__core *core = &m->core;
    for (const tn__machine_row *row = tn__machine_rows; row->name; row++) {
      double value = tn__machine_get(m, row);
      if (value < row->low || value > row->high) fail_msg("%s: %s is %g", cpu->name, row->name, value);
    }
    assert_in_range(m->l1_bytes, 32 << 10, 128 << 10);
    assert_in_range(m->l2_bytes, 256 << 10, 4 << 20);
    assert_in_range(m->l3_bytes, 2 * m->l2_bytes, 128 << 20);
    assert_in_range(core->fma_ports, 2, 4);
    assert_in_range(core->fma_bytes, 2 * 16, core->fma_ports * cpu->vector_bytes);
    assert_in_range(core->fma_latency, 3, 5);
    assert_in_range(core->load_ports, 2, 4);
    assert_in_range(core->load_bytes, 2 * 16, core->load_ports * cpu->vector_bytes);
    assert_in_range(core->store_bytes, 16, core->load_bytes);
    assert_in_range(core->shuffle_bytes, 16, 128);
    assert_in_range(core->issue, 4, 8);
    assert_in_range(core->megahertz, 2000, 5000);
    assert_true(core->l2_bytes <= core->load_bytes && core->l3_bytes < core->l2_bytes);
    assert_true(core->memory_bytes < core->l3_bytes);
  }
}

static void items_follow_names(void **state) {
  assert_string_equal(parsed("skylake-avx512").name, "x86-64-v4");
  assert_string_equal(parsed("skylake").name, "x86-64-v3");
  assert_string_equal(parsed("skylake-avx512+avx512vnni").name, "x86-64-v4+avx512vnni");
  assert_string_equal(parsed("skylake+avx512f-avx512f").name, "x86-64-v3");
  assert_string_equal(parsed("neoverse-n1-dotprod").name, "aarch64+fullfp16");
  assert_string_equal(parsed("sapphirerapids-amx-tile").name,
                      "x86-64-v4+avx512bf16+avx512vbmi+avx512vnni+avx512vpopcntdq+avxvnni+avx512fp16");
  tn__target target;
  check_fails(tn__target_parse("neoverse-v1-neon", &target), TN_INVALID_ARGUMENT,
              "target \"neoverse-v1-neon\": aarch64 without neon is not supported");
  check_fails(
      tn__target_parse("apple-m1+avx2", &target), TN_INVALID_ARGUMENT,
      "target \"apple-m1+avx2\": unknown feature at \"+avx2\"; aarch64 has neon, fullfp16, dotprod, bf16, i8mm, "
      "sve");
}

/* Ports do as many instructions of narrower vectors. */
static void narrower_vectors_do_less(void **state) {
  tn__core core = parsed("icelake-server-avx512f").cpu.machine.core;
  assert_int_equal(core.fma_bytes, 64);
  assert_int_equal(core.load_bytes, 64);
  assert_int_equal(core.store_bytes, 32);
  core = parsed("znver4-avx512f").cpu.machine.core;
  assert_int_equal(core.fma_bytes, 64);
  assert_int_equal(core.load_bytes, 64);
  assert_int_equal(core.store_bytes, 32);
}

/* ---- code -------------------------------------------------------------------------------------------------------- */

enum { M = 24, K = 70, N = 40 };

static const char product[] =
    "kernel gemm(A: f32[24, 70], B: f32[70, 40]) -> C: f32[24, 40] {\n"
    "  C[i, j] = sum(k: 70) A[i, k] * B[k, j]\n}";

static tn_schedule *scheduled(const char *target) {
  tn_te *te;
  tn_schedule *schedule;
  tn_schedule_options options = {.size = sizeof(options), .threads = 1};
  check_ok(tn_te_parse("gemm.te", product, strlen(product), NULL, NULL, 0, NULL, &te));
  check_ok(tn_schedule_create(te, target, &options, &schedule));
  tn_te_release(te);
  return schedule;
}

static void check_object(tn_schedule *schedule, tn__arch arch) {
  tn_build *build;
  tn_build_options options = {.size = sizeof(options)};
  check_ok(tn_te_build(&schedule, 1, &options, &build));
  size_t size;
  const void *object = tn_build_object(build, &size);
  Elf64_Ehdr header;
  assert_true(size > sizeof(header));
  memcpy(&header, object, sizeof(header));
  assert_memory_equal(header.e_ident, ELFMAG, SELFMAG);
  assert_int_equal(header.e_type, ET_REL);
  assert_int_equal(header.e_machine, arch == TN__ARCH_X86_64 ? EM_X86_64 : EM_AARCH64);
  tn_build_release(build);
}

static void check_answers(const tn_executable *exe, const char *name) {
  static float a[M * K], b[K * N];
  for (int i = 0; i < M * K; i++) a[i] = (float)(i * 7 % 11 - 5);
  for (int i = 0; i < K * N; i++) b[i] = (float)(i * 5 % 13 - 6);
  tn_session *session;
  tn_session_options one = {.size = sizeof(one), .threads = 1};
  check_ok(tn_session_create(exe, &one, &session));
  DLTensor x = {.data = a, .device = {kDLCPU, 0}, .ndim = 2, .dtype = tn_dtype_to_dl(TN_F32)}, y = x, out;
  int64_t x_shape[2] = {M, K}, y_shape[2] = {K, N};
  x.shape = x_shape, y.shape = y_shape, y.data = b;
  check_ok(tn_session_set_input_at(session, NULL, 0, &x, TN_BIND_NEXT));
  check_ok(tn_session_set_input_at(session, NULL, 1, &y, TN_BIND_NEXT));
  check_ok(tn_session_invoke(session, NULL));
  check_ok(tn_session_get_output(session, NULL, 0, &out));
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float sum = 0; /* of whole numbers, and so exact in any order */
      for (int k = 0; k < K; k++) sum += a[i * K + k] * b[k * N + j];
      if (((const float *)out.data)[i * N + j] != sum) fail_msg("%s: C[%d, %d] is wrong", name, i, j);
    }
  tn_session_release(session);
}

/* An object of the CPU's architecture for each, and right answers where this machine has the features. */
static void code_comes_of_each(void **state) {
  for (const tn__cpu *cpu = tn__cpus; cpu->name[0]; cpu++) {
    tn__target target = parsed(cpu->name);
    tn_schedule *schedule = scheduled(cpu->name);
    check_object(schedule, target.cpu.arch);
    char missing[256];
    if (target.cpu.arch == tn__host_arch() &&
        !tn__target_missing(target.cpu.arch, target.cpu.features, tn__host_features(), missing, sizeof(missing))) {
      tn_module *module;
      tn_executable *exe;
      check_ok(tn_te_module(&schedule, 1, NULL, &module));
      check_ok(tn_module_load(module, NULL, &exe));
      check_answers(exe, cpu->name);
      tn_executable_release(exe);
      tn_module_release(module);
    }
    tn_schedule_release(schedule);
  }
}

/* ---- this machine ------------------------------------------------------------------------------------------------ */

static void ids_are_decoded(void **state) {
  static const struct {
    const char *maker;
    uint32_t eax;
    const char *name;
  } cases[] = {
      {"GenuineIntel", 0x306f2, "haswell"},
      {"GenuineIntel", 0x506e3, "skylake"},
      {"GenuineIntel", 0x50654, "skylake-avx512"},
      {"GenuineIntel", 0x50657, "skylake-avx512"},
      {"GenuineIntel", 0x606a6, "icelake-server"},
      {"GenuineIntel", 0x806f8, "sapphirerapids"},
      {"GenuineIntel", 0x90672, "alderlake"},
      {"AuthenticAMD", 0x830f10, "znver2"},
      {"AuthenticAMD", 0xa00f11, "znver3"},
      {"AuthenticAMD", 0xa10f11, "znver4"},
      {"AuthenticAMD", 0xb00f21, "znver5"},
      {"AuthenticAMD", 0x800f12, NULL},
      {"GenuineIntel", 0x206a7, NULL},
      {"GenuineIntel", 0xa00f11, NULL},
      {"AuthenticAMD", 0xb20f40, NULL},
      {"", 0, NULL},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char maker[13] = "";
    snprintf(maker, sizeof(maker), "%s", cases[i].maker);
    tn__cpu_id id = tn__cpu_id_of_leaf(maker, cases[i].eax);
    const tn__cpu *cpu = tn__cpu_find(&id);
    if (cases[i].name == NULL)
      assert_null(cpu);
    else
      assert_string_equal(cpu ? cpu->name : "none", cases[i].name);
  }
  tn__cpu_id n1 = tn__cpu_id_of_midr(0x413fd0c1), v1 = tn__cpu_id_of_midr(0x411fd401),
             m1 = tn__cpu_id_of_midr(0x611f0231), a72 = tn__cpu_id_of_midr(0x410fd083);
  assert_string_equal(tn__cpu_find(&n1)->name, "neoverse-n1");
  assert_string_equal(tn__cpu_find(&v1)->name, "neoverse-v1");
  assert_string_equal(tn__cpu_find(&m1)->name, "apple-m1");
  assert_null(tn__cpu_find(&a72));
}

static void native_takes_its_row(void **state) {
  for (const tn__cpu *cpu = tn__cpus; cpu->name[0]; cpu++) {
    static const tn__cpu_id ids[] = {
        {"GenuineIntel", 6, 0x3f, 2},  {"GenuineIntel", 6, 0x55, 4},  {"GenuineIntel", 6, 0x8f, 8},
        {"AuthenticAMD", 0x17, 49, 0}, {"AuthenticAMD", 0x19, 17, 1}, {"AuthenticAMD", 0x1a, 2, 1},
        {"ARM", 0x41, 0xd0c, 1},       {"ARM", 0x41, 0xd40, 1},       {"ARM", 0x61, 0x23, 1},
    };
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
      if (tn__cpu_find(&ids[i]) != cpu) continue;
      tn__target target = parsed(cpu->features), usual = target;
      tn__cpu_use_id(&ids[i], &target);
      tn__machine machine = target.cpu.machine;
      assert_memory_equal(&machine, &cpu->machine, sizeof(machine));
      assert_memory_equal(&target.cpu.row, &usual.cpu.row, sizeof(usual.cpu.row)); /* in what order is added stays */
    }
  }
}

static void unknown_ones_stay_usual(void **state) {
  static const tn__cpu_id intel = {"GenuineIntel", 6, 0x2a, 7}, none = {0}, sapphire = {"GenuineIntel", 6, 0x8f, 8},
                          zen1 = {"AuthenticAMD", 0x17, 1, 2}, later = {"AuthenticAMD", 0x1b, 0, 0};
  tn__target usual = parsed("x86-64-v3"), target = usual;
  tn__cpu_use_id(&intel, &target);
  tn__cpu_use_id(&none, &target);
  tn__cpu_use_id(&sapphire, &target); /* of which a virtual machine hides the wide vectors */
  assert_memory_equal(&target, &usual, sizeof(usual));
  const tn__cpu_id masked = {"GenuineIntel", 6, 0xa7, 1}; /* an older model than the features that it lends */
  tn__target sapphires = parsed("sapphirerapids");
  target = parsed(sapphires.name);
  tn__cpu_use_id(&masked, &target);
  assert_memory_equal(&target.cpu.machine, &sapphires.cpu.machine, sizeof(sapphires.cpu.machine));
  usual = target = parsed("x86-64-v4");
  tn__cpu_use_id(&masked, &target);
  assert_memory_equal(&target, &usual, sizeof(usual));
  target = parsed("x86-64-v4");
  tn__cpu_use_id(&zen1, &target);
  assert_int_equal(target.cpu.machine.core.fma_bytes, 64);
  assert_int_equal(target.cpu.machine.core.l2_bytes, 26);
  target = parsed("x86-64-v4");
  tn__cpu_use_id(&later, &target);
  assert_int_equal(target.cpu.machine.core.fma_bytes, 128);
  assert_int_equal(target.cpu.machine.core.l3_bytes, 14);
}

static void native_is_this_machine(void **state) {
  tn__cpu_id id = tn__host_cpu();
  tn__target native = parsed("native"), expected = parsed(native.name);
  assert_memory_equal(&native.cpu.row, &expected.cpu.row, sizeof(native.cpu.row));
  tn__cpu_use_id(&id, &expected);
  assert_memory_equal(&native.cpu.machine.core, &expected.cpu.machine.core, sizeof(native.cpu.machine.core));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_the_targets),   cmocka_unit_test(rows_are_sane),
      cmocka_unit_test(items_follow_names),     cmocka_unit_test(narrower_vectors_do_less),
      cmocka_unit_test(code_comes_of_each),     cmocka_unit_test(ids_are_decoded),
      cmocka_unit_test(native_takes_its_row),   cmocka_unit_test(unknown_ones_stay_usual),
      cmocka_unit_test(native_is_this_machine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
