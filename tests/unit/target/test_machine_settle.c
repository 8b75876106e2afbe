/* Derives machine parameters from disturbed measurements of a simulated machine: repeats them, falls back to usual
 * values, and yields the same parameters, schedules and bytes under mere noise. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine/settle.h"
#include "runtime/executable/executable.h"
#include "target/text/text.h"
#include "tenon/compile.h"
#include "unit/check.h"

enum { MOST_READS = 8 };

/* A machine with the parameters `real`. Each reading is reduced, as by other work. */
typedef struct simulated {
  tn__machine real;
  double noise;              /* the largest share by which a reading is reduced at random */
  double waited[MOST_READS]; /* of each reading */
  double lost[MOST_READS];   /* a further reduction of all rates, as a share */
  const char *unseen, *why;  /* a row whose measurement fails */
  const char *wild;          /* a row that is halved in every other reading */
  uint64_t random;
  int reads, fails_at;
} simulated;

static double draw(simulated *s) {
  s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(s->random >> 40) / (double)(1 << 24);
}

static tn_status *read_simulated(void *user, tn__machine_reading *out) {
  simulated *s = user;
  int read = s->reads++;
  assert_in_range(read, 0, MOST_READS - 1);
  if (s->fails_at == read + 1) return tn_status_create(TN_OUT_OF_MEMORY, "no memory, as a test says");
  out->waited = s->waited[read];
  for (int i = 0; tn__machine_rows[i].name; i++) {
    const tn__machine_row *row = &tn__machine_rows[i];
    if (row->step == 0) continue;
    double value = tn__machine_get(&s->real, row);
    bool takes_time = strcmp(row->name, "fork") == 0;
    if (row->step > 1) {
      double seen = (1 - s->noise * draw(s)) * (1 - s->lost[read]);
      if (s->wild && strcmp(row->name, s->wild) == 0) seen = read % 2 ? 0.5 - 0.1 * read : 1 - 0.1 * read;
      value = takes_time ? value / seen : value * seen;
    }
    out->value[i] = value;
    if (s->unseen && strcmp(row->name, s->unseen) == 0) {
      out->value[i] = 0;
      snprintf(out->why[i], sizeof(out->why[i]), "%s", s->why);
    }
  }
  return NULL;
}

typedef struct outcome {
  tn__machine machine;
  bool disturbed;
  char notes[4000];
} outcome;

static tn__machine usual(void) {
  tn__target target;
  check_ok(tn__target_parse("x86-64-v3", &target));
  return target.cpu.machine;
}

static outcome settle(simulated *s) {
  outcome o = {.machine = usual()};
  tn__strbuf notes;
  tn__strbuf_init(&notes, NULL);
  check_ok(tn__machine_settle(&(tn__machine_meter){s, read_simulated}, &o.machine, &notes, &o.disturbed));
  snprintf(o.notes, sizeof(o.notes), "%s", tn__strbuf_text(&notes));
  tn__strbuf_release(&notes);
  return o;
}

static void assert_same(const tn__machine *a, const tn__machine *b) {
  for (const tn__machine_row *row = tn__machine_rows; row->name; row++)
    if (tn__machine_get(a, row) != tn__machine_get(b, row))
      fail_msg("%s: %g and %g", row->name, tn__machine_get(a, row), tn__machine_get(b, row));
}

/* ---- bands ------------------------------------------------------------------------------------------------------- */

static void numbers_are_those_of_bands(void **state) {
  assert_true(tn__machine_band(48, 48, 2) == 48);
  assert_true(tn__machine_band(25, 48, 2) == 48 && tn__machine_band(95, 48, 2) == 48);
  assert_true(tn__machine_band(97, 48, 2) == 192 && tn__machine_band(23, 48, 2) == 12);
  assert_true(tn__machine_band(1e6, 48, 2) >= 5e5 && tn__machine_band(1e6, 48, 2) <= 2e6);
  assert_true(tn__machine_band(0.3, 7, 1) == 1 && tn__machine_band(1.8, 7, 1) == 2 && tn__machine_band(4.4, 7, 1) == 4);
  for (double value = 0.02; value < 5000; value *= 1.037) {
    double band = tn__machine_band(value, 30, 2);
    assert_true(band <= value * 2 && value <= band * 2);
    assert_true(tn__machine_band(band, 30, 2) == band);
  }
}

/* ---- readings ---------------------------------------------------------------------------------------------------- */

static void quiet_machines_are_read_twice(void **state) {
  simulated s = {.real = usual(), .noise = 0.1, .random = 1};
  outcome o = settle(&s);
  tn__machine want = usual();
  assert_int_equal(s.reads, 2);
  assert_false(o.disturbed);
  assert_same(&o.machine, &want);
  assert_non_null(strstr(o.notes, "# measured: l2_rate "));
  assert_non_null(strstr(o.notes, ", taken as 4000\n"));
  assert_null(strstr(o.notes, "# usual"));
}

static void other_machines_have_other_numbers(void **state) {
  simulated s = {.real = usual(), .noise = 0.1, .random = 1};
  s.real.costs.fork *= 5;
  s.real.core.fma_ports = 3, s.real.core.fma_bytes = 96;
  outcome o = settle(&s);
  assert_false(o.disturbed);
  assert_true(o.machine.costs.fork == 4 * usual().costs.fork);
  assert_int_equal(o.machine.core.fma_ports, 3);
}

static void a_spike_is_read_over(void **state) {
  simulated s = {.real = usual(), .noise = 0.05, .lost = {0, 0.7}, .random = 2};
  outcome o = settle(&s);
  tn__machine want = usual();
  assert_int_equal(s.reads, 3);
  assert_false(o.disturbed);
  assert_same(&o.machine, &want);
}

static void readings_that_waited_do_not_count(void **state) {
  simulated s = {.real = usual(), .noise = 0.05, .waited = {0.1, 0, 0.2}, .lost = {0.9, 0, 0.9}, .random = 3};
  outcome o = settle(&s);
  tn__machine want = usual();
  assert_int_equal(s.reads, 4);
  assert_false(o.disturbed);
  assert_same(&o.machine, &want);
}

static void under_load_numbers_are_usual(void **state) {
  simulated some = {.real = usual(), .waited = {0.1, 0.1, 0.1, 0}, .lost = {0.9, 0.9, 0.9}, .random = 4};
  simulated much = {.real = usual(), .waited = {0.6, 0.5, 0.5, 0.5}, .lost = {0.9, 0.9, 0.9, 0.9}, .random = 5};
  some.real.costs.fork = much.real.costs.fork = 1e6;
  tn__machine want = usual();
  outcome o = settle(&some);
  assert_int_equal(some.reads, 4);
  assert_true(o.disturbed);
  assert_same(&o.machine, &want);
  assert_string_equal(
      o.notes, "# usual: all numbers, as other work kept 3 of 4 measurements waiting, up to 10 % of their time\n");
  o = settle(&much);
  assert_int_equal(much.reads, 2);
  assert_true(o.disturbed);
  assert_same(&o.machine, &want);
}

static void what_is_not_steady_is_usual(void **state) {
  simulated s = {.real = usual(), .wild = "l3_rate", .random = 6};
  s.real.core.l3_bytes = 999, s.real.core.megahertz *= 4;
  outcome o = settle(&s);
  assert_true(s.reads > 2);
  tn__machine want = usual();
  assert_int_equal(o.machine.core.megahertz, 4 * want.core.megahertz);
  if (o.disturbed) {
    assert_int_equal(o.machine.core.l3_bytes, want.core.l3_bytes);
    assert_non_null(strstr(o.notes, "# usual: l3_rate, as 4 measurements do not agree\n"));
  } else {
    fail_msg("%s", o.notes);
  }
}

static void what_shows_nothing_is_usual(void **state) {
  simulated s = {.real = usual(), .unseen = "pages", .why = "loads show no step", .random = 7};
  outcome o = settle(&s);
  assert_int_equal(s.reads, 2);
  assert_false(o.disturbed);
  assert_true(o.machine.costs.pages == usual().costs.pages);
  assert_non_null(strstr(o.notes, "# usual: pages, as loads show no step\n"));
}

static void failures_are_told(void **state) {
  for (int at = 1; at <= 2; at++) {
    simulated s = {.real = usual(), .fails_at = at};
    tn__machine machine = usual(), want = usual();
    tn__strbuf notes;
    bool disturbed;
    tn__strbuf_init(&notes, NULL);
    check_fails(tn__machine_settle(&(tn__machine_meter){&s, read_simulated}, &machine, &notes, &disturbed),
                TN_OUT_OF_MEMORY, "no memory, as a test says");
    assert_same(&machine, &want);
    tn__strbuf_release(&notes);
  }
}

/* ---- effects of noise -------------------------------------------------------------------------------------------- */

/* A machine slightly different from the usual one, measured at different times. */
static outcome measured(uint64_t random) {
  simulated s = {.real = usual(), .noise = 0.14, .random = random};
  s.real.core.l2_bytes = (int)(0.75 * s.real.core.l2_bytes);
  s.real.core.memory_bytes = (int)(1.3 * s.real.core.memory_bytes);
  s.real.costs.fork *= 5;
  s.real.costs.l1_pages = 101, s.real.costs.pages = 1648;
  if (random % 3 == 0) s.lost[random % 2] = 0.5;
  return settle(&s);
}

static void noise_changes_no_number(void **state) {
  outcome first = measured(1);
  assert_false(first.disturbed);
  for (uint64_t random = 2; random < 1000; random++) {
    outcome o = measured(random);
    assert_false(o.disturbed);
    assert_same(&o.machine, &first.machine);
  }
}

static tn_module *compile_for(const tn__machine *machine, const char *folder) {
  char path[200];
  tn__strbuf text;
  tn_module *module;
  tn__strbuf_init(&text, NULL);
  tn__machine_print(machine, TN__ARCH_X86_64, &text);
  snprintf(path, sizeof(path), "%s/m.machine", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(tn__strbuf_text(&text), 1, text.length, file), text.length);
  assert_int_equal(fclose(file), 0);
  tn_compile_options options = {.size = sizeof(options), .target = "x86-64-v3", .machine = path, .no_cache = true};
  check_ok(tn_compile(TN_TEST_ROOT "/tests/golden/cli/Inputs/wide.tng", NULL, 0, &options, &module));
  tn__strbuf_release(&text);
  unlink(path);
  return module;
}

static void noise_changes_no_byte(void **state) {
  char folder[] = "/tmp/tenon-settle-XXXXXX";
  assert_non_null(mkdtemp(folder));
  outcome first = measured(1);
  tn_module *want = compile_for(&first.machine, folder);
  size_t size, other_size;
  const void *bytes = tn_module_data(want, &size);
  for (uint64_t random = 2; random < 8; random++) {
    outcome o = measured(random);
    tn_module *module = compile_for(&o.machine, folder);
    const void *other = tn_module_data(module, &other_size);
    assert_int_equal(other_size, size);
    assert_memory_equal(other, bytes, size);
    tn_module_release(module);
  }
  tn_module_release(want);
  assert_int_equal(rmdir(folder), 0);
}

/* Names of kernels depend only on the computation. */
static void names_do_not_depend_on_the_machine(void **state) {
  char folder[] = "/tmp/tenon-settle-XXXXXX";
  assert_non_null(mkdtemp(folder));
  tn__machine machines[2] = {usual(), usual()};
  machines[1].l2_bytes /= 8, machines[1].core.fma_ports = 5, machines[1].costs.fork *= 100;
  tn_module *modules[2];
  tn_executable *exes[2];
  for (int i = 0; i < 2; i++) {
    size_t size;
    modules[i] = compile_for(&machines[i], folder);
    const void *data = tn_module_data(modules[i], &size);
    check_ok(tn__executable_look_into(data, size, &exes[i]));
  }
  assert_true(exes[0]->kernel_count > 0);
  assert_int_equal(exes[0]->kernel_count, exes[1]->kernel_count);
  for (uint32_t k = 0; k < exes[0]->kernel_count; k++)
    assert_string_equal(exes[0]->kernels[k].about.name, exes[1]->kernels[k].about.name);
  for (int i = 0; i < 2; i++) tn_executable_release(exes[i]), tn_module_release(modules[i]);
  assert_int_equal(rmdir(folder), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_are_those_of_bands),
      cmocka_unit_test(quiet_machines_are_read_twice),
      cmocka_unit_test(other_machines_have_other_numbers),
      cmocka_unit_test(a_spike_is_read_over),
      cmocka_unit_test(readings_that_waited_do_not_count),
      cmocka_unit_test(under_load_numbers_are_usual),
      cmocka_unit_test(what_is_not_steady_is_usual),
      cmocka_unit_test(what_shows_nothing_is_usual),
      cmocka_unit_test(failures_are_told),
      cmocka_unit_test(noise_changes_no_number),
      cmocka_unit_test(noise_changes_no_byte),
      cmocka_unit_test(names_do_not_depend_on_the_machine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
