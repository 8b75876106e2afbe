/* Machine files: what is read, what is refused and in which words, and that answers don't depend on them. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "driver/module.h"
#include "kernels/machine.h"
#include "machine/fork.h"
#include "machine/identity.h"
#include "machine/machine_file.h"
#include "machine/measure.h"
#include "machine/reach.h"
#include "target/text/text.h"
#include "tenon/te.h"
#include "unit/check.h"

static const char narrow[] = TN_TEST_ROOT "/tests/machines/narrow.machine";
static const char wide[] = TN_TEST_ROOT "/tests/machines/wide.machine";

static tn__target table(const char *name) {
  tn__target target;
  check_ok(tn__target_parse(name, &target));
  return target;
}

/* ---- which machine it is ----------------------------------------------------------------------------------------- */

typedef struct facts {
  const char *threads, *clock, *l1, *l2, *l3, *flags;
} facts;

static void write_below(const char *root, const char *path, const char *text) {
  char command[1024];
  snprintf(command, sizeof command, "mkdir -p \"$(dirname %s%s)\" && printf '%%s\\n' '%s' > %s%s", root, path, text,
           root, path);
  assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a fixed command */
}

static void write_cache(const char *root, int index, const char *level, const char *size) {
  static const char *const names[] = {"type", "level", "size", "number_of_sets"};
  const char *const texts[] = {"Data", level, size, "64"};
  char path[128];
  for (int i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, names[i]);
    write_below(root, path, texts[i]);
  }
}

static void identity_of(const facts *f, char text[TN__MACHINE_IDENTITY_BYTES]) {
  char root[] = "/tmp/tenon-identity-XXXXXX", line[256], command[64];
  assert_non_null(mkdtemp(root));
  write_below(root, "/sys/devices/system/cpu/present", f->threads);
  write_below(root, "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", f->clock);
  write_cache(root, 0, "1", f->l1);
  write_cache(root, 1, "2", f->l2);
  write_cache(root, 2, "3", f->l3);
  snprintf(line, sizeof line, "processor : 0\ncpu MHz : 1234.5\nflags : fpu %s", f->flags);
  write_below(root, "/proc/cpuinfo", line);
  tn__machine_identity(root, text);
  snprintf(command, sizeof command, "rm -r %s", root);
  assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
}

static void machines_that_differ_have_other_identities(void **state) {
  static const facts all[] = {
      {"0-3", "2500000", "32K", "512K", "32M", "sse"},           {"0-7", "2500000", "32K", "512K", "32M", "sse"},
      {"0-3", "3100000", "32K", "512K", "32M", "sse"},           {"0-3", "2500000", "48K", "512K", "32M", "sse"},
      {"0-3", "2500000", "32K", "1024K", "32M", "sse"},          {"0-3", "2500000", "32K", "512K", "16M", "sse"},
      {"0-3", "2500000", "32K", "512K", "32M", "sse hypervisor"}};
  enum { COUNT = sizeof all / sizeof all[0] };
  char texts[COUNT][TN__MACHINE_IDENTITY_BYTES], again[TN__MACHINE_IDENTITY_BYTES];
  for (int i = 0; i < COUNT; i++) {
    identity_of(&all[i], texts[i]);
    identity_of(&all[i], again);
    assert_string_equal(again, texts[i]);
    for (int k = 0; k < i; k++) assert_string_not_equal(texts[i], texts[k]);
  }
  assert_non_null(strstr(texts[0], ", 4 threads, 2.5 GHz, L1 32 KiB, L2 512 KiB, L3 32 MiB"));
  assert_non_null(strstr(texts[6], ", virtual"));
  tn__machine_identity("", texts[0]); /* this machine: the same each time */
  tn__machine_identity("", again);
  assert_string_equal(again, texts[0]);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static void prints_and_reads_back(void **state) {
  static const char *const names[] = {"x86-64", "x86-64-v3", "x86-64-v4", "aarch64"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    tn__target target = table(names[i]);
    tn__machine machine = target.cpu.machine, again;
    for (const tn__machine_row *row = tn__machine_rows; row->name; row++)
      tn__machine_set(&machine, row,
                      row->real ? row->low + (row->high - row->low) / 7 : tn__machine_get(&machine, row));
    tn__strbuf text;
    tn__strbuf_init(&text, NULL);
    tn__machine_print(&machine, target.cpu.arch, &text);
    memset(&again, 0, sizeof(again));
    check_ok(tn__machine_read("m", tn__strbuf_text(&text), text.length, target.cpu.arch, &again));
    for (const tn__machine_row *row = tn__machine_rows; row->name; row++)
      if (tn__machine_get(&machine, row) != tn__machine_get(&again, row)) fail_msg("%s does not come back", row->name);
    tn__strbuf_release(&text);
  }
}

/* Every number of the structure has a row, so that files, hashes and what is printed have it. */
static void every_number_has_a_row(void **state) {
  bool seen[sizeof(tn__machine)] = {false};
  for (const tn__machine_row *row = tn__machine_rows; row->name; row++)
    for (size_t i = 0; i < row->bytes; i++) {
      assert_false(seen[row->at + i]);
      seen[row->at + i] = true;
    }
  for (size_t at = 0; at < sizeof(seen); at += sizeof(int))
    if (!seen[at] && at + sizeof(int) < sizeof(seen) && seen[at + sizeof(int)] == false)
      fail_msg("tn__machine has a number at %zu without a row", at);
}

static void what_is_left_out_is_the_tables(void **state) {
  tn__target target = table("x86-64-v3");
  tn__machine machine = target.cpu.row;
  static const char text[] = "# mine\n\ntenon machine 1\nmegahertz 4100 # boost\r\n";
  check_ok(tn__machine_read("m", text, strlen(text), target.cpu.arch, &machine));
  assert_int_equal(machine.core.megahertz, 4100);
  machine.core.megahertz = target.cpu.row.core.megahertz;
  for (const tn__machine_row *row = tn__machine_rows; row->name; row++)
    assert_true(tn__machine_get(&machine, row) == tn__machine_get(&target.cpu.row, row));
}

static void bad_files_are_refused(void **state) {
#define BEGIN "tenon machine 1\n"
  static const char *const cases[][2] = {
      {"", "m: this is no machine file: it is empty"},
      {"# nothing\n", "m: this is no machine file: it is empty"},
      {"tenon machine 2\n", "m:1: this is no machine file: one begins with \"tenon machine 1\""},
      {"l1_bytes 32768\n", "m:1: this is no machine file: one begins with \"tenon machine 1\""},
      {BEGIN "l1_bytes\n", "m:2: a line is a name and a number, as in \"l2_bytes 1048576\""},
      {BEGIN "l1_bytes 32768 bytes\n", "m:2: a line is a name and a number, as in \"l2_bytes 1048576\""},
      {BEGIN "\nl5_bytes 32768\n",
       "m:3: a machine has no number \"l5_bytes\"; `tenon machine` prints those that there are"},
      {BEGIN "issue 4\nissue 4\n", "m:3: issue is in line 2 already"},
      {BEGIN "issue 0\n", "m:2: issue (1/cycle) is a number from 1 to 64, not \"0\""},
      {BEGIN "issue 65\n", "m:2: issue (1/cycle) is a number from 1 to 64, not \"65\""},
      {BEGIN "issue -4\n", "m:2: issue (1/cycle) is a number from 1 to 64, not \"-4\""},
      {BEGIN "issue nan\n", "m:2: issue (1/cycle) is a number from 1 to 64, not \"nan\""},
      {BEGIN "issue 0x4\n", "m:2: issue (1/cycle) is a number from 1 to 64, not \"0x4\""},
      {BEGIN "issue 4e999\n", "m:2: issue (1/cycle) is a number from 1 to 64, not \"4e999\""},
      {BEGIN "issue 4x\n", "m:2: issue (1/cycle) is a number from 1 to 64, not \"4x\""},
      {BEGIN "issue 4.5\n", "m:2: issue (1/cycle) is a whole number, not \"4.5\""},
      {BEGIN "arch aarch64\n", "m:2: the machine's arch is aarch64, and code is made for x86-64"},
      {BEGIN "l1_bytes 1048576\nl2_bytes 65536\n",
       "m: caches grow from level to level, not from l1_bytes 1048576 to l2_bytes 65536 to l3_bytes 8388608; what the "
       "file leaves out is the target's"},
      {BEGIN "load_bytes 4\nload_ports 8\n",
       "m: each port does at least one byte a cycle: load_bytes and fma_bytes are of all ports together"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    tn__target target = table("x86-64-v3");
    tn__machine machine = target.cpu.row;
    check_fails(tn__machine_read("m", cases[i][0], strlen(cases[i][0]), target.cpu.arch, &machine), TN_INVALID_ARGUMENT,
                cases[i][1]);
    assert_memory_equal(&machine.core, &target.cpu.row.core, sizeof(machine.core)); /* as it was */
  }
  tn__machine machine = table("x86-64-v3").cpu.row;
  char line[400];
  memset(line, 'a', sizeof(line));
  check_fails(tn__machine_read("m", line, sizeof(line), TN__ARCH_X86_64, &machine), TN_INVALID_ARGUMENT,
              "m:1: this is no machine file: lines are text of at most 256 bytes");
  check_fails(tn__machine_read("m", "\0\n", 2, TN__ARCH_X86_64, &machine), TN_INVALID_ARGUMENT,
              "m:1: this is no machine file: lines are text of at most 256 bytes");
}

/* Any single byte of a file changed: it is read or refused with words, never more. */
static void changed_files_are_read_or_refused(void **state) {
  tn__target target = table("x86-64-v4");
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__machine_print(&target.cpu.row, target.cpu.arch, &text);
  char *copy = malloc(text.length);
  assert_non_null(copy);
  for (size_t at = 0; at < text.length; at++)
    for (int to = 0; to < 256; to += 5) {
      tn__machine machine = target.cpu.row;
      memcpy(copy, tn__strbuf_text(&text), text.length);
      copy[at] = (char)to;
      tn_status *status = tn__machine_read("m", copy, text.length, target.cpu.arch, &machine);
      if (status) assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
      tn_status_free(status);
    }
  free(copy);
  tn__strbuf_release(&text);
}

/* ---- what follows from it ---------------------------------------------------------------------------------------- */

typedef struct answer {
  char *trace;
  size_t bytes;
  void *data;
} answer;

static void fill(float *data, int64_t count, unsigned seed) {
  for (int64_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    data[i] = (float)((double)(seed >> 8) / (1 << 24) - 0.5);
  }
}

/* Compiles a kernel for a machine file and runs it. */
static answer run(const char *text, const char *machine, int threads) {
  tn_te *te;
  tn_schedule *schedule;
  tn_module *module;
  tn_executable *exe;
  tn_session *session;
  answer a = {0};
  tn_schedule_options options = {.size = sizeof(options), .machine = machine, .threads = threads};
  tn_session_options one = {.size = sizeof(one), .threads = 1};
  check_ok(tn_te_parse("k.te", text, strlen(text), NULL, NULL, 0, NULL, &te));
  check_ok(tn_schedule_create(te, NULL, &options, &schedule));
  check_ok(tn_schedule_trace(schedule, &a.trace));
  check_ok(tn_te_module(&schedule, 1, NULL, &module));
  check_ok(tn_module_load(module, NULL, &exe));
  check_ok(tn_session_create(exe, &one, &session));
  void *inputs[8] = {NULL};
  int count = tn_executable_input_count(exe, NULL);
  for (int i = 0; i < count; i++) {
    const tn_value_info *info = tn_executable_input(exe, NULL, i);
    int64_t shape[8], elements = 1;
    for (int d = 0; d < info->rank; d++) elements *= shape[d] = info->dims[d]->size;
    inputs[i] = malloc((size_t)elements * sizeof(float));
    assert_non_null(inputs[i]);
    fill(inputs[i], elements, 77u + (unsigned)i);
    DLTensor x = {
        .data = inputs[i], .device = {kDLCPU, 0}, .ndim = info->rank, .dtype = tn_dtype_to_dl(TN_F32), .shape = shape};
    check_ok(tn_session_set_input_at(session, NULL, i, &x, TN_BIND_NEXT));
  }
  DLTensor out;
  check_ok(tn_session_invoke(session, NULL));
  check_ok(tn_session_get_output(session, NULL, 0, &out));
  a.bytes = (size_t)tn_element_count(out.ndim, out.shape) * sizeof(float);
  a.data = malloc(a.bytes);
  assert_non_null(a.data);
  memcpy(a.data, out.data, a.bytes);
  for (int i = 0; i < count; i++) free(inputs[i]);
  tn_session_release(session);
  tn_executable_release(exe);
  tn_module_release(module);
  tn_schedule_release(schedule);
  tn_te_release(te);
  return a;
}

static void answers_do_not_depend_on_it(void **state) {
  static const char *const kernels[] = {
      "kernel dot(A: f32[4096], B: f32[4096]) -> C: f32 { C = sum(k: 4096) A[k] * B[k] }",
      "kernel gemm(A: f32[96, 700], B: f32[700, 130]) -> C: f32[96, 130] {\n"
      "  C[i, j] = sum(k: 700) A[i, k] * B[k, j]\n}",
      "kernel deep(A: f32[8, 30000], B: f32[30000, 16]) -> C: f32[8, 16] {\n"
      "  C[i, j] = sum(k: 30000) A[i, k] * B[k, j]\n}",
      "kernel gemv(A: f32[300, 2000], x: f32[2000]) -> y: f32[300] { y[i] = sum(k: 2000) A[i, k] * x[k] }",
      "kernel rows(A: f32[200, 777]) -> B: f32[200] { B[i] = sum(k: 777) A[i, k] }",
      "kernel columns(A: f32[5000, 60]) -> B: f32[60] { B[j] = sum(i: 5000) A[i, j] }",
      "kernel all(A: f32[300000]) -> B: f32 { B = sum(i: 300000) A[i] }",
      "kernel softmax(X: f32[40, 333]) -> Y: f32[40, 333] {\n"
      "  M[i] = max(j: 333) X[i, j]\n  E[i, j] = exp(X[i, j] - M[i])\n  S[i] = sum(j: 333) E[i, j]\n"
      "  Y[i, j] = E[i, j] / S[i]\n}",
      "kernel conv(X: f32[30, 30, 32], W: f32[3, 3, 32, 48]) -> Y: f32[28, 28, 48] {\n"
      "  Y[y, x, o] = sum(r: 3, s: 3, c: 32) X[y + r, x + s, c] * W[r, s, c, o]\n}",
  };
  int different = 0;
  for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
    for (int threads = 1; threads <= 4; threads += 3) {
      answer a = run(kernels[i], narrow, threads), b = run(kernels[i], wide, threads),
             c = run(kernels[i], wide, threads);
      different += strcmp(a.trace, b.trace) != 0;
      assert_string_equal(b.trace, c.trace);
      assert_int_equal(a.bytes, b.bytes);
      if (memcmp(a.data, b.data, a.bytes) != 0)
        fail_msg("%s, %d threads: answers differ\n%s\n%s", kernels[i], threads, a.trace, b.trace);
      free(a.trace), free(b.trace), free(c.trace);
      free(a.data), free(b.data), free(c.data);
    }
  if (different < 5) fail_msg("just %d schedules differ: the machines have no say", different);
}

static void schedules_name_the_file(void **state) {
  tn_te *te;
  tn_schedule *schedule;
  static const char text[] = "kernel k(A: f32[4]) -> B: f32[4] { B[i] = A[i] }";
  check_ok(tn_te_parse("k.te", text, strlen(text), NULL, NULL, 0, NULL, &te));
  tn_schedule_options options = {.size = sizeof(options), .machine = TN_TEST_ROOT "/README.md"};
  check_fails(tn_schedule_create(te, NULL, &options, &schedule), TN_INVALID_ARGUMENT,
              TN_TEST_ROOT "/README.md:3: this is no machine file: one begins with \"tenon machine 1\"");
  tn_te_release(te);
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

/* Steps as caches and TLBs have them, with points that other work disturbed. */
static void finds_steps(void **state) {
  static const int count[] = {8, 16, 32, 64, 128, 256, 512, 1024, 2048};
  static const double clean[] = {0, 0, 0, 0.9, 7, 7, 8, 8.1, 30}, flat[9] = {0},
                      disturbed[] = {0, 5, 9, 0.9, 7, 40, 8, 8.1, 30}, far[] = {9, 9, 9, 9, 9, 9, 9, 9, 9};
  assert_int_equal(tn__machine_last_within(count, clean, 9, 2.5), 64);
  assert_int_equal(tn__machine_last_within(count, clean, 9, 7 + 6), 1024);
  assert_int_equal(tn__machine_last_within(count, disturbed, 9, 2.5), 64);
  assert_int_equal(tn__machine_last_within(count, disturbed, 9, 7 + 6), 1024);
  assert_int_equal(tn__machine_last_within(count, flat, 9, 2.5), 0);
  assert_int_equal(tn__machine_last_within(count, far, 9, 2.5), 0);
}

/* One piece after the other: whoever waits for the others waits in vain. */
static int32_t one_by_one(const tn_kernel_env *env, tn_kernel_task task, void *closure, int64_t count) {
  for (int64_t i = 0; i < count; i++) task(env, closure, i, i + 1);
  return TN_KERNEL_OK;
}

static int32_t at_once(const tn_kernel_env *env, tn_kernel_task task, void *closure, int64_t count) {
  return task(env, closure, 0, count);
}

static void threads_that_never_meet_measure_nothing(void **state) {
  assert_true(tn__machine_fork(&(tn_kernel_env){.thread_count = 1}) == 0);
  assert_true(tn__machine_fork(&(tn_kernel_env){.thread_count = 2, .parallel_for = one_by_one}) == 0);
  assert_true(tn__machine_fork(&(tn_kernel_env){.thread_count = 2, .parallel_for = at_once}) > 0);
}

/* On a busy machine, unsteady parameters keep their usual values. */
static void measures_what_can_be(void **state) {
  tn__target target = table("native");
  tn__machine machine = target.cpu.row;
  tn_kernel_env alone = {.thread_count = 1};
  bool disturbed;
  tn__strbuf notes;
  tn__strbuf_init(&notes, NULL);
  check_ok(tn__machine_measure(&target, &alone, &machine, &notes, &disturbed));
  if (strstr(tn__strbuf_text(&notes), "# usual: all numbers") == NULL)
    assert_non_null(strstr(tn__strbuf_text(&notes), "# usual: fork, as there is one thread\n"));
  else
    assert_true(disturbed);
  assert_true(machine.costs.fork == target.cpu.row.costs.fork);
  if (!disturbed) assert_int_equal(machine.costs.page_bytes, sysconf(_SC_PAGESIZE));
  assert_int_equal(machine.l1_bytes % ((int64_t)machine.costs.l1_sets * machine.costs.line_bytes), 0);
  if (strstr(tn__strbuf_text(&notes), "# usual: pages") == NULL && strstr(tn__strbuf_text(&notes), "l1_pages") == NULL)
    assert_true(machine.costs.l1_pages < machine.costs.pages);
  tn__strbuf_release(&notes);
  assert_in_range(machine.core.megahertz, 300, 10000);
  assert_in_range(machine.core.fma_ports, 1, 8);
  assert_in_range(machine.core.fma_bytes, 8, 512);
  assert_true(machine.core.memory_bytes <= machine.core.l3_bytes && machine.core.l3_bytes <= machine.core.l2_bytes);
  for (const tn__machine_row *row = tn__machine_rows; row->name; row++) {
    double value = tn__machine_get(&machine, row);
    assert_true(value >= row->low && value <= row->high);
    if (row->step == 0) assert_true(value == tn__machine_get(&target.cpu.row, row));
  }
}

/* Other numbers in a measurement that is kept, one of them not measured, and a hash that agrees with it. */
static void change_megahertz(const char *path) {
  char command[2000];
  snprintf(command, sizeof(command),
           "sed -i -e 's/^megahertz .*/megahertz 777/' -e 's/^broadcast .*/broadcast 55/' -e '/^# sha256/d' %s && "
           "hash=$(sha256sum %s) && "
           "echo \"# sha256 ${hash%%%% *}\" >>%s",
           path, path, path);
  assert_int_equal(system(command), 0);
}

/* What was not found stands in the measurement, and `tenon machine` says it. */
static void notes_are_kept_and_told(const char *path) {
  char command[2000], *text;
  snprintf(command, sizeof(command),
           "sed -i -e '/^# sha256/d' -e '1a # usual: threads, as a test says' %s && hash=$(sha256sum %s) && "
           "echo \"# sha256 ${hash%%%% *}\" >>%s",
           path, path, path);
  assert_int_equal(system(command), 0);
  check_ok(tn_machine_text(NULL, false, &text));
  assert_non_null(strstr(text, "\n# usual: threads, as a test says\n"));
  assert_null(strstr(text, "# sha256"));
  free(text);
}

/* Replaces a measurement with a disturbed one of this age. */
static void disturb(const char *path, const char *age) {
  char command[4000];
  snprintf(command, sizeof(command),
           "sed -i -e '/^# sha256/d' -e '/^# disturbed/d' -e 's/^megahertz .*/megahertz 779/' "
           "-e '1a # disturbed: it is made again in ten minutes' %s && hash=$(sha256sum %s) && "
           "echo \"# sha256 ${hash%%%% *}\" >>%s && touch -d '%s' %s",
           path, path, path, age, path);
  assert_int_equal(system(command), 0);
}

static void what_was_disturbed_is_measured_again(void **state) {
  char folder[] = "/tmp/tenon-machine-XXXXXX", from[512], command[600];
  static const struct {
    const char *age;
    bool holds;
  } cases[] = {{"now", true}, {"1 hour ago", false}, {"5 minutes ago", true}, {"1 day", false}};
  assert_non_null(mkdtemp(folder));
  tn_compile_options options = {.size = sizeof(options)};
  assert_int_equal(setenv("TENON_CACHE_DIR", folder, 1), 0);
  tn__target target;
  check_ok(tn__kernels_machine_target(&options, &target, from));
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    disturb(from + strlen("measured, and kept in "), cases[i].age);
    check_ok(tn__kernels_machine_target(&options, &target, from));
    assert_int_equal(target.cpu.machine.core.megahertz == 779, cases[i].holds);
  }
  snprintf(command, sizeof(command), "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

static void is_measured_once(void **state) {
  char folder[] = "/tmp/tenon-machine-XXXXXX", from[512], command[600];
  assert_non_null(mkdtemp(folder));
  tn_compile_options options = {.size = sizeof(options)};
  assert_int_equal(setenv("TENON_CACHE_DIR", folder, 1), 0);
  tn__target first, second;
  check_ok(tn__kernels_machine_target(&options, &first, from));
  assert_true(first.cpu.measured);
  char begin[600];
  snprintf(begin, sizeof(begin), "measured, and kept in %s/machine-", folder);
  assert_int_equal(strncmp(from, begin, strlen(begin)), 0);
  const char *path = from + strlen("measured, and kept in ");
  change_megahertz(path);
  check_ok(tn__kernels_machine_target(&options, &second, NULL));
  assert_int_equal(second.cpu.machine.core.megahertz, 777); /* it was read, and nothing measured */
  assert_true(second.cpu.machine.costs.broadcast == first.cpu.machine.costs.broadcast); /* this version's own */
  /* What is damaged is measured again: also a file that would be read, cut off behind a line or with another digit. */
  static const char *const damages[] = {"echo damaged >", "sed -i '/^l2_bytes/,$d' ", "sed -i '/^l3_bytes/d' ",
                                        "sed -i 's/^megahertz .*/megahertz 778/' ", "echo >>"};
  for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
    change_megahertz(path);
    snprintf(command, sizeof(command), "%s%s", damages[i], path);
    assert_int_equal(system(command), 0);
    check_ok(tn__kernels_machine_target(&options, &second, NULL));
    assert_true(second.cpu.measured && second.cpu.machine.core.megahertz != 777 &&
                second.cpu.machine.core.megahertz != 778);
  }
  notes_are_kept_and_told(path);
  change_megahertz(path);
  char *text;
  check_ok(tn_machine_text(&options, true, &text));
  assert_non_null(strstr(text, "measured, and kept in"));
  assert_null(strstr(text, "megahertz                777"));
  free(text);
  snprintf(command, sizeof(command), "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

/* A measurement in a file, or a folder, that other users may write to. */
static void others_measurements_are_not_used(void **state) {
  char folder[] = "/tmp/tenon-machine-XXXXXX", from[512], command[600], path[512];
  assert_non_null(mkdtemp(folder));
  tn_compile_options options = {.size = sizeof(options)};
  assert_int_equal(setenv("TENON_CACHE_DIR", folder, 1), 0);
  tn__target target;
  check_ok(tn__kernels_machine_target(&options, &target, from));
  assert_int_equal(strncmp(from, "measured, and kept in ", 22), 0);
  snprintf(path, sizeof(path), "%s", from + 22);
  change_megahertz(path);
  assert_int_equal(chmod(path, 0666), 0);
  check_ok(tn__kernels_machine_target(&options, &target, from));
  assert_int_not_equal(target.cpu.machine.core.megahertz, 777);
  assert_int_equal(strncmp(from, "measured, and kept in ", 22), 0); /* a new file */
  change_megahertz(path);
  assert_int_equal(chmod(folder, 0777), 0);
  check_ok(tn__kernels_machine_target(&options, &target, from));
  assert_string_equal(from,
                      "usual for such a CPU; nothing is measured without a folder for the cache that is yours alone");
  snprintf(command, sizeof(command), "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

static void is_not_measured_without_a_place(void **state) {
  char from[512];
  tn__target target, plain_native = table("native");
  assert_int_equal(setenv("TENON_CACHE_DIR", "/proc/nowhere", 1), 0);
  const struct {
    tn_compile_options options;
    const char *from;
  } cases[] = {
      {{0}, "usual for such a CPU; nothing is measured without a folder for the cache that is yours alone"},
      {{.no_measure = true}, "usual for such a CPU; nothing is measured, as the options say"},
      {{.target = "x86-64-v3"}, "usual for the target"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    check_ok(tn__kernels_machine_target(&cases[i].options, &target, from));
    assert_string_equal(from, cases[i].from);
    assert_false(target.cpu.measured);
    if (!cases[i].options.target)
      assert_memory_equal(&target.cpu.machine.core, &plain_native.cpu.machine.core, sizeof(target.cpu.machine.core));
  }
  char *text;
  tn_compile_options cross = {.size = sizeof(cross), .target = "aarch64"};
  check_fails(tn_machine_text(&cross, true, &text), TN_INVALID_ARGUMENT, "only this machine can be measured again");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(machines_that_differ_have_other_identities),
      cmocka_unit_test(prints_and_reads_back),
      cmocka_unit_test(every_number_has_a_row),
      cmocka_unit_test(what_is_left_out_is_the_tables),
      cmocka_unit_test(bad_files_are_refused),
      cmocka_unit_test(changed_files_are_read_or_refused),
      cmocka_unit_test(answers_do_not_depend_on_it),
      cmocka_unit_test(schedules_name_the_file),
      cmocka_unit_test(finds_steps),
      cmocka_unit_test(threads_that_never_meet_measure_nothing),
      cmocka_unit_test(measures_what_can_be),
      cmocka_unit_test(is_measured_once),
      cmocka_unit_test(what_was_disturbed_is_measured_again),
      cmocka_unit_test(others_measurements_are_not_used),
      cmocka_unit_test(is_not_measured_without_a_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
