#include "target/text/text.h"

#include <elf.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "target/limits.h"
#include "tenon/dlpack.h"
#include "unit/check.h"

static tn__target parsed(const char *text) {
  tn__target target;
  check_ok(tn__target_parse(text, &target));
  return target;
}

static void names_are_canonical(void **state) {
  static const char *const cases[][2] = {
      {"x86-64", "x86-64"},
      {"x86-64-v2", "x86-64-v2"},
      {"x86-64-v3", "x86-64-v3"},
      {"x86-64-v4", "x86-64-v4"},
      {"aarch64", "aarch64"},
      {"aarch64+i8mm+bf16", "aarch64+bf16+i8mm"},
      {"aarch64+sve", "aarch64+sve"},
      {"x86-64-v3+avx512f", "x86-64-v3+avx512f"},
      {"x86-64-v3+avx512bw+avx512cd+avx512dq+avx512vl", "x86-64-v4"},
      {"x86-64-v4+avx512vnni+avx512bf16", "x86-64-v4+avx512bf16+avx512vnni"},
      {"x86-64-v4+amx-bf16+amx-tile", "x86-64-v4+amx-bf16"},
      {"x86-64-v4-avx512f", "x86-64-v3"},
      {"x86-64-v4-avx512f+avx512f", "x86-64-v3+avx512f"},
      {"x86-64-v3-fma", "x86-64-v2+avx2+f16c+bmi+bmi2+lzcnt+movbe"},
      {"x86-64-v2-sse3", "x86-64+popcnt"},
      {"x86-64+avx", "x86-64-v2+avx"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    tn__target target = parsed(cases[i][0]), again = parsed(target.name);
    assert_string_equal(target.name, cases[i][1]);
    assert_memory_equal(&target.cpu.features, &again.cpu.features, sizeof(target.cpu.features));
    assert_string_equal(again.name, target.name);
  }
}

static void vectors_follow_features(void **state) {
  assert_int_equal(parsed("x86-64-v2").cpu.vector_bytes, 16);
  assert_int_equal(parsed("x86-64-v2").cpu.vector_registers, 16);
  assert_int_equal(parsed("x86-64-v3").cpu.vector_bytes, 32);
  assert_int_equal(parsed("x86-64-v3").cpu.vector_registers, 16);
  assert_int_equal(parsed("x86-64-v4").cpu.vector_bytes, 64);
  assert_int_equal(parsed("x86-64-v4").cpu.vector_registers, 32);
  assert_int_equal(parsed("aarch64+sve").cpu.vector_bytes, 16);
  assert_int_equal(parsed("aarch64").cpu.vector_registers, 32);
}

static void native_reads_back(void **state) {
  tn__target native = parsed(NULL), again = parsed(native.name);
  assert_true(native.cpu.arch == again.cpu.arch && native.cpu.features == again.cpu.features);
  assert_int_equal(native.cpu.vector_bytes, again.cpu.vector_bytes);
  assert_true(native.cpu.machine.l1_bytes >= 8 << 10 && native.cpu.machine.l2_bytes > native.cpu.machine.l1_bytes &&
              native.cpu.cores >= 1);
  char missing[64];
  assert_false(tn__target_missing(native.cpu.arch, native.cpu.features, tn__host_features(), missing, sizeof(missing)));
  assert_string_equal(missing, "");
}

static void errors_say_what_is_known(void **state) {
  tn__target target;
#define KNOWN                                                                                                         \
  "known are native, aarch64, x86-64, x86-64-v2, x86-64-v3, x86-64-v4, haswell, skylake, skylake-avx512, "            \
  "icelake-server, sapphirerapids, alderlake, znver2, znver3, znver4, znver5, neoverse-n1, neoverse-v1, apple-m1, "   \
  "each with +feature and -feature items; the kinds cpu, gpu, c99, opencl, cuda, island; and the presets nvidia-t4, " \
  "nvidia-a100, nvidia-a10, nvidia-l4, nvidia-rtx-4090, nvidia-h100, nvidia-h200, pocl; all with "                    \
  "-attribute=value words"
  check_fails(tn__target_parse("riscv64", &target), TN_INVALID_ARGUMENT, "unknown target \"riscv64\"; " KNOWN);
  check_fails(tn__target_parse("", &target), TN_INVALID_ARGUMENT, "unknown target \"\"; " KNOWN);
  check_fails(tn__target_parse("znver", &target), TN_INVALID_ARGUMENT,
              "unknown target \"znver\"; did you mean \"znver2\"? " KNOWN);
  check_fails(tn__target_parse("haswell4", &target), TN_INVALID_ARGUMENT,
              "unknown target \"haswell4\"; did you mean \"haswell\"? " KNOWN);
#undef KNOWN
  check_fails(
      tn__target_parse("aarch64+avx2", &target), TN_INVALID_ARGUMENT,
      "target \"aarch64+avx2\": unknown feature at \"+avx2\"; aarch64 has neon, fullfp16, dotprod, bf16, i8mm, sve");
  check_fails(tn__target_parse("aarch64-neon", &target), TN_INVALID_ARGUMENT,
              "target \"aarch64-neon\": aarch64 without neon is not supported");
  tn_status *status = tn__target_parse("x86-64-v5", &target);
  assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
  assert_non_null(
      strstr(tn_status_message(status), "target \"x86-64-v5\": unknown feature at \"-v5\"; x86-64 has sse3, "));
  tn_status_free(status);
  status = tn__target_parse("x86-64-v3+", &target);
  assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
  tn_status_free(status);
}

static void missing_features_are_named(void **state) {
  char text[64], tiny[12];
  tn__features v4 = parsed("x86-64-v4+avx512bf16").cpu.features, v3 = parsed("x86-64-v3").cpu.features;
  assert_true(tn__target_missing(TN__ARCH_X86_64, v4, v3, text, sizeof(text)));
  assert_string_equal(text, "avx512f, avx512bw, avx512cd, avx512dq, avx512vl, avx512bf16");
  assert_false(tn__target_missing(TN__ARCH_X86_64, v3, v4, text, sizeof(text)));
  assert_true(tn__target_missing(TN__ARCH_X86_64, v4, v3, tiny, sizeof(tiny)));
  assert_string_equal(tiny, "avx512f...");
  assert_true(tn__target_missing(TN__ARCH_AARCH64, TN__FEATURE(40), ~TN__FEATURE(40), text, sizeof(text)));
  assert_string_equal(text, "feature 40");
}

static void gpus_are_a_kind(void **state) {
  tn__target usual = parsed("gpu"), other = parsed("gpu,threads=256,warp=16");
  assert_int_equal(usual.kind, TN__TARGET_GPU);
  assert_string_equal(usual.name, "gpu");
  assert_int_equal(usual.gpu.warp, 32);
  assert_int_equal(usual.gpu.threads, 1024);
  assert_int_equal(usual.gpu.registers, 65536);
  assert_int_equal(usual.gpu.shared_bytes, 49152);
  assert_string_equal(other.name, "gpu -warp=16 -threads=256");
  assert_int_equal(other.gpu.warp, 16);
  assert_int_equal(other.gpu.threads, 256);
  assert_string_equal(parsed("gpu,warp=32,shared_bytes=0").name, "gpu -shared_bytes=0");
  assert_string_equal(parsed(other.name).name, other.name);
  assert_int_equal(parsed("x86-64-v3").kind, TN__TARGET_CPU);
  assert_string_equal(tn__target_kind_name(TN__TARGET_CPU), "cpu");
  assert_string_equal(tn__target_kind_name(TN__TARGET_GPU), "gpu");
  tn__target opencl = parsed("opencl -type=cpu -mcpu=haswell -vector-bytes=16 -l2-bytes=4096");
  assert_string_equal(opencl.name, "opencl -type=cpu -mcpu=x86-64-v3 -vector_bytes=16");
  assert_string_equal(parsed(opencl.name).name, opencl.name);
  assert_true(tn__target_is_cpu(&opencl) && !tn__target_may_host(&opencl) && !tn__target_runs_here(&opencl));
  assert_int_equal(opencl.cpu.machine.l2_bytes, 4096);
  assert_true(tn__target_can(&opencl, TN__CAN_FMA));
  tn__target wide = parsed("opencl -type=cpu -mcpu=sapphirerapids");
  assert_false(tn__target_can(&wide, TN__CAN_DPBUSD)); /* loops do not become instructions on small tensors */
}

static void items_of_gpus_are_checked(void **state) {
  static const char *const bad[] = {",",         ",warp",      ",warp=",          ",warp=x",
                                    ",warp=0",   ",warp=129",  ",warp=-32",       ",warp= 3",
                                    ",warps=32", ",warp=32+x", ",threads=100000", ",=3",
                                    ",warp=32,", ",war=32",    ",warp=32a=1",     ",warp=99999999999999999999"};
  tn__target target;
  check_fails(tn__target_parse("gpu,threads=512,warp=1000", &target), TN_INVALID_ARGUMENT,
              "target \"gpu,threads=512,warp=1000\": \"1000\" is not what warp can be: 1 to 128");
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char text[64];
    snprintf(text, sizeof text, "gpu%s", bad[i]);
    tn_status *status = tn__target_parse(text, &target);
    assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
    tn_status_free(status);
  }
  /* A warp of which nothing is said follows. */
  char printed[TN__TARGET_TEXT];
  check_ok(tn__target_parse("gpu,threads=16", &target));
  tn__target_print(&target, printed);
  assert_string_equal(printed, "gpu -warp=16 -threads=16");
  check_fails(
      tn__target_parse("gpu,threads=16,warp=32", &target), TN_INVALID_ARGUMENT,
      "target \"gpu,threads=16,warp=32\": a warp has 32 threads and a block 16 at the most: it has one warp or more");
  check_fails(tn__target_parse("opencl -type=fpga", &target), TN_INVALID_ARGUMENT,
              "target \"opencl -type=fpga\": the type of a device is cpu or gpu, not \"fpga\"");
  check_fails(tn__target_parse("opencl -mcpu=haswell", &target), TN_INVALID_ARGUMENT,
              "target \"opencl -mcpu=haswell\": mcpu and mattr are of CPUs: say -type=cpu, too");
  check_fails(tn__target_parse("opencl -cores=2", &target), TN_INVALID_ARGUMENT,
              "target \"opencl -cores=2\": cores is nothing that devices of type gpu have");
  check_fails(tn__target_parse("opencl -type=cpu -shared-bytes=2", &target), TN_INVALID_ARGUMENT,
              "target \"opencl -type=cpu -shared-bytes=2\": shared_bytes is nothing that devices of type cpu have");
  tn_status *status = tn__target_parse("gpus", &target); /* no name of a kind */
  assert_non_null(
      strstr(tn_status_message(status), "unknown target \"gpus\"; did you mean \"gpu\"? known are native, "));
  tn_status_free(status);
}

static void words_describe_a_target(void **state) {
  tn__target cpu = parsed("cpu -mcpu=x86-64-v4 -cores=2"), opencl = parsed("opencl -device=0"),
             cuda = parsed("cuda -arch=sm_90"), c99 = parsed("c99 -vector-bytes=32");
  assert_string_equal(cpu.name, "x86-64-v4");
  assert_int_equal(cpu.cpu.cores, 2);
  assert_int_equal(tn__target_threads(&cpu), 2);
  assert_int_equal(parsed("x86-64-v4").cpu.cores, 4);
  assert_int_equal(tn__target_threads(&(tn__target){.kind = TN__TARGET_GPU}), 1);
  assert_int_equal(cpu.device, TN__DEVICE_ID_FREE);
  assert_int_equal(opencl.device, 0);
  assert_int_equal(opencl.kind, TN__TARGET_OPENCL);
  assert_int_equal(tn__target_device_type(&opencl), kDLOpenCL);
  assert_int_equal(cuda.kind, TN__TARGET_CUDA);
  assert_int_equal(tn__target_device_type(&cuda), kDLCUDA);
  assert_string_equal(cuda.gpu.arch, "sm_90");
  assert_int_equal(tn__target_device_type(&c99), kDLCPU);
  assert_int_equal(c99.cpu.vector_bytes, 32);
  assert_true(tn__target_is_cpu(&c99) && tn__target_is_gpu(&cuda) && tn__target_is_gpu(&opencl));
  assert_false(tn__target_runs_here(&c99) || tn__target_runs_here(&cuda) || tn__target_can(&c99, TN__CAN_FMA));
  tn__target narrow = parsed("x86-64-v4 -vector_bytes=32 -l2_bytes=65536 -l1_bytes=4096 -l3_bytes=131072");
  assert_int_equal(narrow.cpu.vector_bytes, 32);
  assert_int_equal(narrow.cpu.machine.l2_bytes, 65536);
  assert_string_equal(narrow.name, "x86-64-v4 -vector_bytes=32");
  /* What orders terms of sums is of the table, whatever caches are said to be. */
  assert_int_equal(narrow.cpu.row.l2_bytes, parsed("x86-64-v4").cpu.row.l2_bytes);
  assert_true(tn__target_is_native(&(tn__target){0}) == false);
  tn__target native = parsed("cpu"), said = parsed("native -l2_bytes=65536"), cores = parsed("native -cores=1");
  assert_true(tn__target_is_native(&native) && tn__target_is_native(&cores) && !tn__target_is_native(&said));
}

/* What is printed is read as the same, and printed alike; the same texts are the same targets, others are others. */
static void targets_print_and_compare(void **state) {
  static const char *const texts[][2] = {
      {"x86-64-v3", "cpu -mcpu=x86-64-v3"},
      {"cpu -mcpu=x86-64-v3+avx512f", "cpu -mcpu=x86-64-v3+avx512f"},
      {"cpu  -mcpu=x86-64-v4  -cores=2 ", "cpu -mcpu=x86-64-v4 -cores=2"},
      {"x86-64-v4 -cores=4", "cpu -mcpu=x86-64-v4 -cores=4"},
      {"haswell -device=1 -name=old", "cpu -mcpu=haswell -device=1 -name=old"},
      {"haswell-fma+avx512f", "cpu -mcpu=haswell+avx512f"},
      {"haswell-bmi2", "cpu -mcpu=haswell-bmi2"},
      {"cpu -mcpu=x86-64-v4 -mattr=+avx512vnni,-bmi", "cpu -mcpu=x86-64-v4-bmi+avx512vnni"},
      {"gpu,warp=64", "gpu -warp=64"},
      {"gpu", "gpu"},
      {"c99", "c99"},
      {"c99 -cores=3", "c99 -cores=3"},
      {"pocl -device=2", "opencl -type=cpu -mcpu=native -device=2 -link_rate=5000 -link_wait=5000"},
      {"opencl -type=gpu -warp=64", "opencl -warp=64"},
      {"opencl -type=cpu -mcpu=haswell -vector-bytes=16 -cores=3",
       "opencl -type=cpu -mcpu=haswell -cores=3 -vector_bytes=16"},
      {"opencl -type=cpu -mcpu=haswell -fp64=1", "opencl -type=cpu -mcpu=haswell"},
      {"opencl -type=cpu -mcpu=haswell -fp64=0", "opencl -type=cpu -fp64=0 -mcpu=haswell"},
      {"nvidia-h100", "cuda -arch=sm_90 -gflops=67000 -memory_rate=3350000"},
      {"opencl -fp64=1", "opencl -fp64=1"},
      {"opencl -fp64=0", "opencl"},
      {"haswell -gflops=100 -memory-rate=2", "cpu -mcpu=haswell -gflops=100 -memory_rate=2"},
      {"cuda", "cuda -arch=sm_80"},
      {"cuda -arch=sm_90a -host='cpu -mcpu=haswell'", "cuda -arch=sm_90a -host=\"cpu -mcpu=haswell\""},
      {"opencl -device=0 -host=aarch64", "opencl -device=0 -host=\"cpu -mcpu=aarch64\""},
      {"opencl -device=1 -name=big_one", "opencl -device=1 -name=big_one"},
      {"x86-64-v4 -vector-bytes=32 -l2-bytes=4096", "cpu -mcpu=x86-64-v4 -vector_bytes=32 -l2_bytes=4096"},
  };
  enum { COUNT = sizeof texts / sizeof texts[0] };
  tn__target targets[COUNT];
  for (int i = 0; i < COUNT; i++) {
    char text[TN__TARGET_TEXT], again[TN__TARGET_TEXT];
    targets[i] = parsed(texts[i][0]);
    tn__target_print(&targets[i], text);
    assert_string_equal(text, texts[i][1]);
    tn__target back = parsed(text);
    tn__target_print(&back, again);
    assert_string_equal(text, again);
    assert_true(tn__target_equal(&targets[i], &back));
    assert_true(tn__target_key(&targets[i]) == tn__target_key(&back));
    tn__target of_name = parsed(targets[i].name);
    assert_string_equal(of_name.name, targets[i].name);
    for (int k = 0; k <= i; k++) {
      assert_int_equal(tn__target_equal(&targets[i], &targets[k]), i == k);
      assert_int_equal(tn__target_key(&targets[i]) == tn__target_key(&targets[k]), i == k);
    }
  }
  tn__target native = parsed(NULL), named = parsed("cpu -mcpu=native"), measured = native;
  assert_true(tn__target_equal(&native, &named));
  measured.cpu.measured = true;
  assert_false(tn__target_equal(&native, &measured));
  /* No code depends on where it runs. */
  tn__target first = parsed("x86-64-v3 -device=0 -name=a -host=haswell"), second = parsed("x86-64-v3 -device=1");
  assert_string_equal(first.name, second.name);
  /* Nor on how fast it is said to be. */
  tn__target fast = parsed("native -gflops=100 -memory_rate=5000 -link_rate=1 -link_wait=1 -launch=1");
  assert_string_equal(fast.name, native.name);
  assert_true(tn__target_is_native(&fast) && !tn__target_equal(&fast, &native));
  assert_string_equal(parsed("pocl").name, parsed("opencl -type=cpu").name);
}

static void bad_words_are_told(void **state) {
  tn__target target;
#define CPU_HAS                                                                                             \
  "attributes are words like -mcpu=VALUE, and cpu has mcpu, mattr, cores, vector_bytes, vector_registers, " \
  "l1_bytes, l2_bytes, l3_bytes, device, name, host, gflops, memory_rate, link_rate, link_wait, launch"
  static const char *const cases[][2] = {
      {"cpu -croes=2", "target \"cpu -croes=2\": there is no attribute \"-croes=2\"; did you mean \"cores\"? " CPU_HAS},
      {"cpu -mcpu=haswell -mcpu=haswell",
       "target \"cpu -mcpu=haswell -mcpu=haswell\": mcpu is given twice: \"haswell\" and \"haswell\"; leave one out"},
      {"haswell -mcpu=znver3",
       "target \"haswell -mcpu=znver3\": mcpu is given twice: \"haswell\" and \"znver3\"; leave one out"},
      {"cpu cores=2", "target \"cpu cores=2\": there is no attribute \"cores=2\"; did you mean \"cores\"? " CPU_HAS},
      {"cpu -cores", "target \"cpu -cores\": there is no attribute \"-cores\"; did you mean \"cores\"? " CPU_HAS},
      {"cpu -warp=32", "target \"cpu -warp=32\": there is no attribute \"-warp=32\"; " CPU_HAS},
      {"cpu -cores=0", "target \"cpu -cores=0\": \"0\" is not what cores can be: 1 to 1024"},
      {"cpu -cores=2x", "target \"cpu -cores=2x\": \"2x\" is not what cores can be: 1 to 1024"},
      {"x86-64-v4 -vector_bytes=48",
       "target \"x86-64-v4 -vector_bytes=48\": \"48\" is not what vector_bytes can be: a power of two, 16 to 64"},
      {"x86-64-v3 -vector_bytes=64", "target \"x86-64-v3 -vector_bytes=64\": vector_bytes is at most 32 there, not 64"},
      {"opencl -device=300", "target \"opencl -device=300\": \"300\" is not what device can be: 0 to 255"},
      {"opencl -name=cuda",
       "target \"opencl -name=cuda\": \"cuda\" cannot be its name: letters, digits and _, and not a type of devices"},
      {"opencl -name=a:b",
       "target \"opencl -name=a:b\": \"a:b\" cannot be its name: letters, digits and _, and not a type of devices"},
      {"opencl -gflops=0", "target \"opencl -gflops=0\": \"0\" is not what gflops can be: 1 to 1000000000"},
      {"opencl -name=", "target \"opencl -name=\": name has 1 to 31 characters"},
      {"cuda -arch=hopper",
       "target \"cuda -arch=hopper\": \"hopper\" is no architecture of NVIDIA's: they are named like sm_75, sm_80, "
       "sm_86, sm_89, sm_90, sm_90a"},
      {"cuda -arch=sm_10",
       "target \"cuda -arch=sm_10\": \"sm_10\" is no architecture of NVIDIA's: they are named like sm_75, sm_80, "
       "sm_86, sm_89, sm_90, sm_90a"},
      {"cuda -arch=sm_81",
       "target \"cuda -arch=sm_81\": \"sm_81\" is no architecture of NVIDIA's: they are named like sm_75, sm_80, "
       "sm_86, sm_89, sm_90, sm_90a"},
      {"cuda -arch=sm_80a",
       "target \"cuda -arch=sm_80a\": \"sm_80a\" is no architecture of NVIDIA's: they are named like sm_75, sm_80, "
       "sm_86, sm_89, sm_90, sm_90a"},
      {"cuda -host=\"cpu -host=cpu\"", "target \"cuda -host=\"cpu -host=cpu\"\": a host has no host of its own"},
      {"cuda -host='cpu -cores=0'",
       "target \"cuda -host='cpu -cores=0'\": its host: target \"cpu -cores=0\": \"0\" is not "
       "what cores can be: 1 to 1024"},
      {"cpu -mcpu=x86-64-v4 -mattr=avx512vnni",
       "target \"cpu -mcpu=x86-64-v4 -mattr=avx512vnni\": mattr is like "
       "+avx512vnni,-fma, and at \"avx512vnni\" it is not"},
      {"cpu -mcpu=haswel",
       "target \"cpu -mcpu=haswel\": there is no CPU \"haswel\"; did you mean \"haswell\"? known are native, aarch64, "
       "x86-64, "
       "x86-64-v2, x86-64-v3, x86-64-v4, haswell, skylake, skylake-avx512, icelake-server, sapphirerapids, alderlake, "
       "znver2, znver3, znver4, znver5, neoverse-n1, neoverse-v1, apple-m1"},
  };
#undef CPU_HAS
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    check_fails(tn__target_parse(cases[i][0], &target), TN_INVALID_ARGUMENT, cases[i][1]);
  static const char *const near[][2] = {
      {"opncl", "opencl"}, {"nvidia-h1000", "nvidia-h100"}, {"cdua -arch=sm_90", "cuda"}};
  for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
    char want[64];
    snprintf(want, sizeof want, "did you mean \"%s\"?", near[i][1]);
    tn_status *status = tn__target_parse(near[i][0], &target);
    assert_non_null(strstr(tn_status_message(status), want));
    tn_status_free(status);
  }
}

/* Texts of any bytes are read or refused, and what is read is printed and read again. */
static void any_text_is_read_or_refused(void **state) {
  static const char *const parts[] = {
      "cpu",      " ",        "-mcpu=", "x86-64-v3", "haswell", "+avx512f", "-fma", "\"",
      "gpu",      ",warp=32", "cuda",   "-arch=",    "sm_90",   "opencl",   "'",    "=",
      "-device=", "0",        "-host=", "-name=",    "a",       "native",   "c99",  "-cores=2"};
  uint64_t random = 1;
  for (int i = 0; i < 20000; i++) {
    char text[256] = "";
    for (int k = 0; k < 8; k++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      strcat(text, parts[(random >> 33) % (sizeof parts / sizeof parts[0])]);
    }
    tn__target target;
    tn_status *status = tn__target_parse(text, &target);
    if (status == NULL) {
      char printed[TN__TARGET_TEXT];
      tn__target_print(&target, printed);
      tn__target back = parsed(printed);
      assert_true(tn__target_equal(&target, &back));
    }
    tn_status_free(status);
  }
}

static tn__digest digest_of(const char *text) {
  tn__target target = parsed(text);
  tn__sha256 h;
  tn__sha256_init(&h);
  tn__target_hash(&target, &h);
  return tn__sha256_final(&h);
}

static void kinds_have_hashes_of_their_own(void **state) {
  static const char *const texts[] = {"gpu", "gpu,warp=64", "x86-64-v3", "haswell", "skylake", "aarch64"};
  for (int i = 0; i < 6; i++)
    for (int k = 0; k < 6; k++) {
      tn__digest a = digest_of(texts[i]), b = digest_of(texts[k]);
      assert_int_equal(memcmp(&a, &b, sizeof a) == 0, i == k);
    }
}

static void abilities_follow_features(void **state) {
  static const struct {
    const char *target;
    bool fma, halves, round, dpbf16ps, dpbusd, mask, keep_nan;
    int nan_registers;
  } rows[] = {{"x86-64", false, false, false, false, false, false, false, 4},
              {"x86-64-v2", false, false, true, false, false, false, false, 4},
              {"x86-64-v3", true, true, true, false, false, false, false, 4},
              {"x86-64-v4", true, true, true, false, false, true, false, 6},
              {"x86-64-v4+avx512vnni", true, true, true, false, true, true, false, 6},
              {"znver4", true, true, true, true, true, true, false, 6},
              {"aarch64", true, true, true, false, false, false, true, 4},
              {"aarch64+bf16+dotprod", true, true, true, false, false, false, true, 4}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tn__target target = parsed(rows[i].target);
    assert_int_equal(tn__target_can(&target, TN__CAN_FMA), rows[i].fma);
    assert_int_equal(tn__target_can(&target, TN__CAN_CONVERT_HALVES), rows[i].halves);
    assert_int_equal(tn__target_can(&target, TN__CAN_ROUND), rows[i].round);
    assert_int_equal(tn__target_can(&target, TN__CAN_DPBF16PS), rows[i].dpbf16ps);
    assert_int_equal(tn__target_can(&target, TN__CAN_DPBUSD), rows[i].dpbusd);
    assert_int_equal(tn__target_can(&target, TN__CAN_MASK), rows[i].mask);
    assert_int_equal(tn__target_can(&target, TN__CAN_KEEP_NAN), rows[i].keep_nan);
    assert_int_equal(tn__target_nan_registers(&target), rows[i].nan_registers);
  }
  tn__target native = parsed("native"), other = native;
  assert_true(tn__target_runs_here(&native));
  other.cpu.features |= TN__FEATURE(60);
  assert_false(tn__target_runs_here(&other));
}

static void architectures_have_numbers(void **state) {
  assert_int_equal(tn__arch_elf_machine(parsed("x86-64").cpu.arch), EM_X86_64);
  assert_int_equal(tn__arch_elf_machine(parsed("aarch64").cpu.arch), EM_AARCH64);
  assert_int_equal(tn__arch_elf_machine((tn__arch)77), EM_NONE);
  assert_string_equal(tn__arch_name((tn__arch)77), "unknown");
}

/* What the kernel lends is part of what the machine has, and needs nobody to ask for it when it is not needed. */
static void granted_features(void **state) {
  tn__features have = tn__host_features();
  assert_true(tn__host_granted(0) == have);
  assert_true((tn__host_granted(have) & ~have) == 0);
}

static void llvm_spelling(void **state) {
  char triple[64], cpu[32], features[1024];
  tn__target target = parsed("x86-64-v3");
  tn__target_llvm(&target, triple, cpu, features);
  assert_string_equal(triple, "x86_64-unknown-linux-gnu");
  assert_string_equal(cpu, "x86-64-v3");
  assert_string_equal(features, "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe");
  target = parsed("aarch64+dotprod");
  tn__target_llvm(&target, triple, cpu, features);
  assert_string_equal(triple, "aarch64-unknown-linux-gnu");
  assert_string_equal(cpu, "generic");
  assert_string_equal(features, "+neon,+dotprod");
}

/* ---- quotas and caches, on made-up machines --------------------------------------------------------------------- */

static void put(const char *root, const char *path, const char *text) {
  char full[512];
  snprintf(full, sizeof(full), "%s%s", root, path);
  *strrchr(full, '/') = '\0';
  check_ok(tn__make_directories(full));
  snprintf(full, sizeof(full), "%s%s", root, path);
  tn__bytes piece = {text, strlen(text)};
  check_ok(tn__file_write_atomic(full, &piece, 1, 0644));
}

static void remove_tree(const char *root) {
  char command[128];
  snprintf(command, sizeof(command), "rm -rf '%s'", root);
  assert_int_equal(system(command), 0);
}

static void quota_of_cgroup_v2(void **state) {
  char root[] = "/tmp/tenon-target-XXXXXX";
  assert_non_null(mkdtemp(root));
  assert_int_equal(tn__target_cgroup_cpu_limit(root), 0);
  put(root, "/proc/self/cgroup", "0::/a/b\n");
  assert_int_equal(tn__target_cgroup_cpu_limit(root), 0);
  put(root, "/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  assert_int_equal(tn__target_cgroup_cpu_limit(root), 0);
  put(root, "/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  assert_int_equal(tn__target_cgroup_cpu_limit(root), 3);
  put(root, "/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  assert_int_equal(tn__target_cgroup_cpu_limit(root), 1);
  put(root, "/proc/self/cgroup", "0::/elsewhere\n");
  assert_int_equal(tn__target_cgroup_cpu_limit(root), 0);
  put(root, "/sys/fs/cgroup/cpu.max", "200000 100000\n");
  assert_int_equal(tn__target_cgroup_cpu_limit(root), 2);
  remove_tree(root);
}

static void quota_of_cgroup_v1(void **state) {
  char root[] = "/tmp/tenon-target-XXXXXX";
  assert_non_null(mkdtemp(root));
  put(root, "/proc/self/cgroup", "5:cpuset:/x\n4:cpu,cpuacct:/job/one\n1:name=systemd:/\n");
  put(root, "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  put(root, "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  assert_int_equal(tn__target_cgroup_cpu_limit(root), 0);
  put(root, "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "400000\n");
  assert_int_equal(tn__target_cgroup_cpu_limit(root), 4);
  put(root, "/proc/self/cgroup", "5:cpuset:/x\n4:cpuacct,cpus:/job/one\n");
  assert_int_equal(tn__target_cgroup_cpu_limit(root), 0);
  remove_tree(root);
}

static void caches_from_sysfs(void **state) {
  char root[] = "/tmp/tenon-target-XXXXXX";
  assert_non_null(mkdtemp(root));
  static const char *const rows[][4] = {{"Data", "1", "48K", "64"},
                                        {"Instruction", "1", "32K", "128"},
                                        {"Unified", "2", "2048K", "2048"},
                                        {"Unified", "3", "32M", "32768"}};
  for (int i = 0; i < 4; i++) {
    static const char *const names[4] = {"type", "level", "size", "number_of_sets"};
    for (int j = 0; j < 4; j++) {
      char path[128];
      snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/%s", i, names[j]);
      put(root, path, rows[i][j]);
    }
  }
  tn__machine m = {.l1_bytes = 1, .l2_bytes = 2, .l3_bytes = 3, .costs.l1_sets = 4};
  tn__host_caches("/nonexistent", &m);
  assert_true(m.l1_bytes == 1 && m.l2_bytes == 2 && m.l3_bytes == 3 && m.costs.l1_sets == 4);
  tn__host_caches(root, &m);
  assert_true(m.l1_bytes == 48 << 10 && m.l2_bytes == 2048 << 10 && m.l3_bytes == 32 << 20);
  assert_int_equal(m.costs.l1_sets, 64);
  put(root, "/sys/devices/system/cpu/cpu0/cache/index0/number_of_sets", "0"); /* a hypervisor says nothing */
  m.costs.l1_sets = 4;
  tn__host_caches(root, &m);
  assert_int_equal(m.costs.l1_sets, 4);
  remove_tree(root);
}

static void threads_follow_affinity(void **state) {
  cpu_set_t before, one;
  assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
  int all = tn__target_default_thread_count();
  assert_true(all >= 1 && all <= CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
  int limited = tn__target_default_thread_count();
  assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
  assert_int_equal(limited, 1);
}

static void rooflines(void **state) {
  tn_machine_limits m = {.size = sizeof m,
                         .threads = 2,
                         .l2_bytes = 1000,
                         .l3_bytes = 10000,
                         .flops_per_second = 100,
                         .l2_bytes_per_second = 50,
                         .l3_bytes_per_second = 25,
                         .memory_bytes_per_second = 10};
  const char *bound;
  assert_true(tn_machine_roofline(&m, 400, 100, &bound) == 2); /* two threads at 100 */
  assert_string_equal(bound, "arithmetic");
  assert_true(tn_machine_roofline(&m, 0, 2000, &bound) == 20); /* two caches of 1000 at 50 each */
  assert_string_equal(bound, "L2");
  assert_true(tn_machine_roofline(&m, 0, 2500, &bound) == 50);
  assert_string_equal(bound, "L3");
  assert_true(tn_machine_roofline(&m, 0, 20000, &bound) == 2000); /* one memory */
  assert_string_equal(bound, "memory");
  assert_true(tn_machine_roofline(&m, -1, 100, &bound) < 0);
  assert_string_equal(bound, "-");
}

static void limits_of_machines(void **state) {
  tn_machine_limits m = {.size = sizeof m};
  check_ok(tn_machine_measure(3, &m));
  assert_int_equal(m.threads, 3);
  assert_true(m.measured && m.flops_per_second > m.clock_hz && m.memory_bytes_per_second > 0);
  check_ok(tn_machine_measure(0, &m));
  assert_int_equal(m.threads, tn__target_default_thread_count());
  tn__target other;
  check_ok(tn__target_parse(tn__host_arch() == TN__ARCH_AARCH64 ? "x86-64" : "aarch64", &other));
  check_ok(tn__target_limits(&other, 1, &m));
  assert_false(m.measured);
  assert_true(m.flops_per_second > m.clock_hz);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_canonical),
      cmocka_unit_test(vectors_follow_features),
      cmocka_unit_test(native_reads_back),
      cmocka_unit_test(errors_say_what_is_known),
      cmocka_unit_test(missing_features_are_named),
      cmocka_unit_test(gpus_are_a_kind),
      cmocka_unit_test(items_of_gpus_are_checked),
      cmocka_unit_test(words_describe_a_target),
      cmocka_unit_test(targets_print_and_compare),
      cmocka_unit_test(bad_words_are_told),
      cmocka_unit_test(any_text_is_read_or_refused),
      cmocka_unit_test(kinds_have_hashes_of_their_own),
      cmocka_unit_test(abilities_follow_features),
      cmocka_unit_test(architectures_have_numbers),
      cmocka_unit_test(granted_features),
      cmocka_unit_test(llvm_spelling),
      cmocka_unit_test(quota_of_cgroup_v2),
      cmocka_unit_test(quota_of_cgroup_v1),
      cmocka_unit_test(caches_from_sysfs),
      cmocka_unit_test(threads_follow_affinity),
      cmocka_unit_test(rooflines),
      cmocka_unit_test(limits_of_machines),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
