/* Virtual devices: joining and completing them, over all combinations of fields, and canonical objects. */
#include "target/devices/device.h"

#include <string.h>

#include "base/hash.h"
#include "target/devices/config.h"
#include "unit/check.h"

enum { TYPES = 3, IDS = 3, TARGETS = 4, SCOPES = 3, MOST = TYPES * IDS * TARGETS * SCOPES };

typedef struct table {
  tn__arena *arena;
  tn__device_cache cache;
  tn__target targets[TARGETS]; /* from 1 on */
  const tn__virtual_device *devices[MOST];
  int count;
} table;

static tn__target parsed(const char *text) {
  tn__target target;
  check_ok(tn__target_parse(text, &target));
  return target;
}

/* All devices of two types, two ids, two targets of the first type and one of the second, and two scopes, each field
 * also free; a target goes with its type alone. */
static void fill(table *t) {
  static const int types[TYPES] = {0, 1, 4}, ids[IDS] = {TN__DEVICE_ID_FREE, 0, 1};
  static const char *const scopes[SCOPES] = {NULL, "global", "texture"};
  t->targets[1] = parsed("x86-64-v3"), t->targets[2] = parsed("x86-64-v4"), t->targets[3] = parsed("opencl");
  tn__device_cache_init(&t->cache, t->arena);
  for (int i = 0; i < MOST; i++) {
    int target = i / (TYPES * IDS) % TARGETS, type = types[i % TYPES];
    if (target > 0 && type != (target == 3 ? 4 : 1)) continue;
    tn__virtual_device d = {type, ids[i / TYPES % IDS], target > 0 ? &t->targets[target] : NULL,
                            scopes[i / (TYPES * IDS * TARGETS)]};
    t->devices[t->count++] = tn__virtual_device_of(&t->cache, &d);
  }
}

static bool agree_on(int a, int b, int nothing) { return a == nothing || b == nothing || a == b; }

/* What a table of four columns says, written down without the code that is tested. */
static tn__device_field expected(const tn__virtual_device *a, const tn__virtual_device *b) {
  if (!agree_on(a->device_type, b->device_type, 0)) return TN__DEVICE_TYPE;
  if (!agree_on(a->device_id, b->device_id, -1)) return TN__DEVICE_ID;
  if (a->target && b->target && strcmp(a->target->name, b->target->name) != 0) return TN__DEVICE_TARGET;
  if (a->memory_scope && b->memory_scope && strcmp(a->memory_scope, b->memory_scope) != 0) return TN__DEVICE_SCOPE;
  return TN__DEVICE_AGREES;
}

static void join_all(tn__arena *arena, void *user) {
  table t = {.arena = arena};
  fill(&t);
  assert_int_equal(t.count, 3 * 3 * (3 + 2 + 1));
  int made = t.cache.devices.count;
  int fields[5] = {0};
  for (int i = 0; i < t.count; i++)
    for (int k = 0; k < t.count; k++) {
      const tn__virtual_device *a = t.devices[i], *b = t.devices[k], *joined, *other;
      tn__device_field field = tn__virtual_device_join(&t.cache, a, b, &joined);
      fields[field]++;
      assert_int_equal(field, expected(a, b));
      assert_int_equal(tn__virtual_device_join(&t.cache, b, a, &other), field);
      assert_ptr_equal(joined, other); /* either way round, and canonical */
      if (field != TN__DEVICE_AGREES) {
        assert_null(joined);
        continue;
      }
      assert_int_equal(joined->device_type, a->device_type ? a->device_type : b->device_type);
      assert_int_equal(joined->device_id, a->device_id >= 0 ? a->device_id : b->device_id);
      assert_ptr_equal(joined->target, a->target ? a->target : b->target);
      const char *scope = a->memory_scope ? a->memory_scope : b->memory_scope;
      assert_true((joined->memory_scope == NULL) == (scope == NULL) &&
                  (scope == NULL || strcmp(joined->memory_scope, scope) == 0));
      assert_int_equal(tn__virtual_device_join(&t.cache, a, a, &other), TN__DEVICE_AGREES);
      assert_ptr_equal(other, a);
      assert_int_equal(tn__virtual_device_join(&t.cache, joined, a, &other), TN__DEVICE_AGREES);
      assert_ptr_equal(other, joined);
      assert_int_equal(tn__virtual_device_join(&t.cache, tn__virtual_device_free(&t.cache), a, &other),
                       TN__DEVICE_AGREES);
      assert_ptr_equal(other, a);
    }
  for (int i = 0; i < 5; i++) assert_true(fields[i] > 0);
  assert_int_equal(t.cache.devices.count, made); /* all that come of it were there */
}

static void default_all(tn__arena *arena, void *user) {
  table t = {.arena = arena};
  fill(&t);
  for (int i = 0; i < t.count; i++)
    for (int k = 0; k < t.count; k++) {
      const tn__virtual_device *a = t.devices[i], *b = t.devices[k], *d = tn__virtual_device_default(&t.cache, a, b);
      assert_int_equal(d->device_type, a->device_type ? a->device_type : b->device_type);
      assert_int_equal(d->device_id, a->device_id >= 0 ? a->device_id : b->device_id);
      const tn__target *target = a->target;
      if (target == NULL && (a->device_type == 0 || a->device_type == b->device_type)) target = b->target;
      assert_ptr_equal(d->target, target);
      const char *scope = a->memory_scope ? a->memory_scope : b->memory_scope;
      assert_true(d->memory_scope == scope || strcmp(d->memory_scope, scope) == 0);
      assert_ptr_equal(tn__virtual_device_default(&t.cache, d, b), d);
    }
}

static void canonical(tn__arena *arena, void *user) {
  tn__device_cache cache;
  tn__device_cache_init(&cache, arena);
  tn__target one = parsed("haswell"), same = parsed("cpu -mcpu=haswell"), other = parsed("skylake");
  char scope[] = "texture";
  tn__virtual_device a = {1, 0, &one, "texture"}, b = {1, 0, &same, scope}, c = {1, 0, &other, scope};
  const tn__virtual_device *first = tn__virtual_device_of(&cache, &a);
  assert_ptr_equal(tn__virtual_device_of(&cache, &b), first);
  assert_true(first->target != &one && first->target != &same); /* kept, not borrowed */
  assert_true(tn__virtual_device_of(&cache, &c) != first);
  scope[0] = 'x';
  assert_string_equal(first->memory_scope, "texture");
  tn__virtual_device typed = {0, 0, &one, "texture"}; /* the target says the type */
  assert_ptr_equal(tn__virtual_device_of(&cache, &typed), first);
  assert_true(tn__virtual_device_is_full(first) && !tn__virtual_device_is_free(first));
  tn__virtual_device zero = {0, 0, NULL, NULL}; /* 0 is an id like any other */
  assert_false(tn__virtual_device_is_free(tn__virtual_device_of(&cache, &zero)));
  tn__virtual_device none = {0, TN__DEVICE_ID_FREE, NULL, NULL};
  assert_ptr_equal(tn__virtual_device_of(&cache, &none), tn__virtual_device_free(&cache));
  assert_true(tn__virtual_device_is_free(tn__virtual_device_free(&cache)));
  tn__device_cache apart; /* another compilation's */
  tn__device_cache_init(&apart, arena);
  assert_true(tn__virtual_device_of(&apart, &a) != first);
}

static void texts(tn__arena *arena, void *user) {
  static const char *const good[][2] = {{"cpu", "cpu"},
                                        {"opencl:0", "opencl:0"},
                                        {"cuda:12/shared", "cuda:12/shared"},
                                        {"cpu/global", "cpu"},
                                        {"?:1", "?:1"},
                                        {"?", "?"},
                                        {"?/texture", "?/texture"},
                                        {"gpu:255", "gpu:255"},
                                        {"cpu:0/host-pinned", "cpu:0/host-pinned"}};
  static const char *const bad[][2] = {
      {"opncl:0",
       "device \"opncl:0\": there is no type of devices \"opncl\"; did you mean \"opencl\"? there are cpu, gpu, "
       "opencl, cuda, island"},
      {"c99:0", "device \"c99:0\": there is no type of devices \"c99\"; there are cpu, gpu, opencl, cuda, island"},
      {"", "device \"\": there is no type of devices \"\"; there are cpu, gpu, opencl, cuda, island"},
      {"cpu:", "device \"cpu:\": behind the colon stands a number from 0 to 255"},
      {"cpu:256", "device \"cpu:256\": behind the colon stands a number from 0 to 255"},
      {"cpu:0x", "device \"cpu:0x\": behind the colon stands a number from 0 to 255"},
      {"cpu:9999999999", "device \"cpu:9999999999\": behind the colon stands a number from 0 to 255"},
      {"cpu/textur",
       "device \"cpu/textur\": there is no scope of memory \"textur\"; did you mean \"texture\"? there are "
       "global, shared, texture, host-pinned, tile"}};
  tn__device_cache cache;
  const tn__virtual_device *device, *again;
  tn__device_cache_init(&cache, arena);
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    check_ok(tn__virtual_device_parse(&cache, good[i][0], &device));
    assert_string_equal(tn__virtual_device_text(arena, device), good[i][1]);
    check_ok(tn__virtual_device_parse(&cache, good[i][0], &again));
    assert_ptr_equal(again, device);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    check_fails(tn__virtual_device_parse(&cache, bad[i][0], &device), TN_INVALID_ARGUMENT, bad[i][1]);
    assert_null(device);
  }
}

/* ---- configurations ---------------------------------------------------------------------------------------------- */

typedef struct wanted {
  const char *targets, *host;
  const char *list, *primitive, *is_host, *rule; /* list NULL: it fails with `rule` */
  const char *warning;
} wanted;

static void make(tn__arena *arena, void *user) {
  const wanted *w = user;
  tn__compile_config *config = tn__compile_config_create(arena, w->targets, w->host);
  assert_string_equal(tn__compile_config_list(config), w->list);
  assert_string_equal(tn__virtual_device_text(arena, config->primitive), w->primitive);
  assert_string_equal(tn__virtual_device_text(arena, config->host), w->is_host);
  assert_string_equal(config->host_rule, w->rule);
  assert_int_equal(config->warnings.count, w->warning != NULL);
  if (w->warning != NULL) assert_string_equal(config->warnings.data[0], w->warning);
  assert_true(tn__virtual_device_is_full(config->primitive) && tn__virtual_device_is_full(config->host));
  for (int i = 0; i < config->devices.count; i++) {
    assert_true(tn__virtual_device_is_full(config->devices.data[i]));
    assert_int_equal(tn__compile_config_rank(config, config->devices.data[i]), i);
  }
}

#define THIS tn__arch_name(tn__host_arch())

static void rules_of_configurations(void **state) {
  char guess[128], warning[256], both[64];
  snprintf(both, sizeof both, "opencl:0 (opencl), cpu:0 (%s)", THIS);
  snprintf(guess, sizeof guess, "no CPU is among the targets: it is a guess, the CPU of this build");
  snprintf(warning, sizeof warning,
           "no CPU is among the targets, and no host is given: the host is taken to be %s, the CPU of this build; say "
           "--host=TARGET",
           THIS);
  const wanted cases[] = {
      {"x86-64-v3", NULL, "cpu:0 (x86-64-v3)", "cpu:0", "cpu:0", "it is the only CPU among the targets"},
      {"aarch64", NULL, "cpu:0 (aarch64)", "cpu:0", "cpu:0", "it is the only CPU among the targets"},
      {"aarch64; opencl", NULL, "cpu:0 (aarch64), opencl:0 (opencl)", "cpu:0", "cpu:0",
       "it is the only CPU among the targets"},
      {"opencl ; aarch64", NULL, "opencl:0 (opencl), cpu:0 (aarch64)", "opencl:0", "cpu:0",
       "it is the only CPU among the targets"},
      {"x86-64-v4;x86-64-v3 -device=1", NULL, "cpu:0 (x86-64-v4), cpu:1 (x86-64-v3)", "cpu:0", "cpu:0",
       "it is the default device, and a CPU"},
      {"x86-64-v4 -device=1; x86-64-v3", NULL, "cpu:1 (x86-64-v4), cpu:0 (x86-64-v3)", "cpu:1", "cpu:1",
       "it is the default device, and a CPU"},
      {"x86-64-v4 -name=big; x86-64-v3 -name=small", NULL, "cpu:0 (big, x86-64-v4), cpu:1 (small, x86-64-v3)", "cpu:0",
       "cpu:0", "it is the default device, and a CPU"},
      {"opencl; opencl -device=1; x86-64-v3", NULL, "opencl:0 (opencl), opencl:1 (opencl), cpu:0 (x86-64-v3)",
       "opencl:0", "cpu:0", "it is the only CPU among the targets"},
      {"x86-64-v3; cuda -host=x86-64-v3", NULL, "cpu:0 (x86-64-v3), cuda:0 (cuda -arch=sm_80)", "cpu:0", "cpu:0",
       "the target cuda -arch=sm_80 names it"},
      {"cuda -host=haswell", NULL, "cuda:0 (cuda -arch=sm_80), cpu:0 (x86-64-v3)", "cuda:0", "cpu:0",
       "the target cuda -arch=sm_80 names it"},
      {"x86-64-v4; cuda -host=x86-64-v3", NULL, "cpu:0 (x86-64-v4), cuda:0 (cuda -arch=sm_80), cpu:1 (x86-64-v3)",
       "cpu:0", "cpu:1", "the target cuda -arch=sm_80 names it"},
      {"x86-64-v4; x86-64-v3 -device=1; cuda -host=x86-64-v3", "x86-64-v3",
       "cpu:0 (x86-64-v4), cpu:1 (x86-64-v3), cuda:0 (cuda -arch=sm_80)", "cpu:0", "cpu:1", "it was given as the host"},
      {"cuda -host=aarch64; opencl -host=x86-64", "x86-64-v2",
       "cuda:0 (cuda -arch=sm_80), opencl:0 (opencl), cpu:0 (x86-64-v2)", "cuda:0", "cpu:0",
       "it was given as the host"},
      {"opencl", NULL, both, "opencl:0", "cpu:0", guess, warning},
      {"x86-64-v3; opencl", "opencl", "cpu:0 (x86-64-v3), opencl:0 (opencl)", "cpu:0", "opencl:0",
       "it was given as the host",
       "the host opencl:0 is no CPU: shapes, conditions, lists and strings will live there"},
      {"opencl; x86-64-v3; x86-64-v4 -device=1", NULL, NULL, NULL, NULL,
       "several CPUs could be the host, and the default device opencl:0 is none: say which with --host, there are "
       "opencl:0 (opencl), cpu:0 (x86-64-v3), cpu:1 (x86-64-v4)"},
      {"cuda -host=aarch64; opencl -host=x86-64", NULL, NULL, NULL, NULL,
       "the targets name two hosts, \"cpu -mcpu=aarch64\" and \"cpu -mcpu=x86-64\": leave one out, or say which with "
       "--host"},
      {"opencl -device=1; opencl -device=1", NULL, NULL, NULL, NULL,
       "the target \"opencl -device=1\" is given twice: leave one out, or tell them apart with -device=N or "
       "-name=NAME; given are \"opencl -device=1\" and \"opencl -device=1\""},
      {"cuda; x86-64-v3; x86-64-v3", NULL, NULL, NULL, NULL,
       "the target \"cpu -mcpu=x86-64-v3\" is given twice: leave one out, or tell them apart with -device=N or "
       "-name=NAME; given are \"cuda -arch=sm_80\", \"cpu -mcpu=x86-64-v3\" and \"cpu -mcpu=x86-64-v3\""},
      {"x86-64-v3", "aarch64", NULL, NULL, NULL,
       "cpu:0 (x86-64-v3) is x86-64, and the host cpu:1 (aarch64) is aarch64: a program loads on machines of one "
       "architecture only; compile once for each, or give both CPUs of one, with -mcpu or --host"},
      {"x86-64-v3; opencl; aarch64 -device=1", NULL, NULL, NULL, NULL,
       "cpu:1 (aarch64) is aarch64, and the host cpu:0 (x86-64-v3) is x86-64: a program loads on machines of one "
       "architecture only; compile once for each, or give both CPUs of one, with -mcpu or --host"},
      {"aarch64; island -mcpu=x86-64-v3", NULL, NULL, NULL, NULL,
       "island:0 (x86-64-v3) is x86-64, and the host cpu:0 (aarch64) is aarch64: a program loads on "
       "machines of one architecture only; compile once for each, or give both CPUs of one, with -mcpu or --host"},
      {"cuda -device=0 -arch=sm_90; cuda -device=0", NULL, NULL, NULL, NULL,
       "the targets \"cuda -arch=sm_90 -device=0\" and \"cuda -arch=sm_80 -device=0\" are both cuda:0; given "
       "are \"cuda -arch=sm_90 -device=0\" and \"cuda -arch=sm_80 -device=0\""},
      {"cuda -name=a; opencl -name=a", NULL, NULL, NULL, NULL,
       "the targets \"cuda -arch=sm_80 -name=a\" and \"opencl -name=a\" have one name; given are \"cuda "
       "-arch=sm_80 -name=a\" and \"opencl -name=a\""},
      {"x86-64-v3;x86-64-v4", NULL, NULL, NULL, NULL,
       "the targets \"cpu -mcpu=x86-64-v3\" and \"cpu -mcpu=x86-64-v4\" are both of type cpu, and nothing tells them "
       "apart: give them -device=N or -name=NAME; given are \"cpu -mcpu=x86-64-v3\" and \"cpu -mcpu=x86-64-v4\""},
      {"x86-64-v3; c99", NULL, NULL, NULL, NULL,
       "the targets \"cpu -mcpu=x86-64-v3\" and \"c99\" are both of type cpu, and nothing tells them apart: give them "
       "-device=N or -name=NAME; given are \"cpu -mcpu=x86-64-v3\" and \"c99\""},
      {"x86-64-v3;", NULL, NULL, NULL, NULL,
       "there is no target before or behind a semicolon of \"x86-64-v3;\": targets are listed as in \"cpu; opencl "
       "-device=0\""},
      {";x86-64-v3", NULL, NULL, NULL, NULL,
       "there is no target before or behind a semicolon of \";x86-64-v3\": targets are listed as in \"cpu; opencl "
       "-device=0\""},
      {"opencl", "haswell -host=x86-64", NULL, NULL, NULL, "the host \"haswell -host=x86-64\" has no host of its own"},
      {"cpu -device=1; opencl", "haswell -device=1", NULL, NULL, NULL,
       "the host \"haswell -device=1\" is cpu:1, and so is another target: there are cpu:1 (NATIVE), opencl:0 "
       "(opencl)"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    wanted w = cases[i];
    tn_status *status = tn__with_arena(NULL, make, &w);
    if (w.list != NULL) {
      check_ok(status);
      continue;
    }
    const char *native = strstr(w.rule, "NATIVE");
    assert_int_equal(tn_status_code_of(status), TN_INVALID_ARGUMENT);
    if (native == NULL)
      assert_string_equal(tn_status_message(status), w.rule);
    else
      assert_memory_equal(tn_status_message(status), w.rule, (size_t)(native - w.rule));
    tn_status_free(status);
  }
}

static void finding(tn__arena *arena, void *user) {
  tn__compile_config *config =
      tn__compile_config_create(arena, "opencl -name=slow; x86-64-v4; x86-64-v3 -device=1 -name=old", "x86-64-v4");
  static const char *const found[][3] = {
      {"opencl", "opencl", "opencl:0"}, {"opencl:0", "opencl:0", "opencl:0"},
      {"slow", "opencl:0", "opencl:0"}, {"slow/texture", "opencl:0/texture", "opencl:0/texture"},
      {"cpu", "cpu", "cpu:0"},          {"cpu:1", "cpu:1", "cpu:1"},
      {"old", "cpu:1", "cpu:1"},        {"?", "?", "opencl:0"},
      {"?:1", "?:1", "cpu:1"},          {"?/shared", "?/shared", "opencl:0/shared"}};
  const tn__virtual_device *device, *full;
  for (size_t i = 0; i < sizeof found / sizeof found[0]; i++) {
    check_ok(tn__compile_config_find(config, found[i][0], &device));
    assert_string_equal(tn__virtual_device_text(arena, device), found[i][1]);
    full = tn__compile_config_complete(config, device);
    assert_string_equal(tn__virtual_device_text(arena, full), found[i][2]);
    assert_true(tn__virtual_device_is_full(full));
    assert_ptr_equal(tn__compile_config_complete(config, full), full);
  }
  check_ok(tn__compile_config_find(config, "old", &device));
  assert_string_equal(device->target->name, "x86-64-v3");
  check_fails(
      tn__compile_config_find(config, "opencl:1", &device), TN_NOT_FOUND,
      "there is no device \"opencl:1\" among the targets: there are opencl:0 (slow, opencl), cpu:0 (x86-64-v4), "
      "cpu:1 (old, x86-64-v3)");
  check_fails(tn__compile_config_find(config, "cuda", &device), TN_NOT_FOUND,
              "there is no device \"cuda\" among the targets: there are opencl:0 (slow, opencl), cpu:0 (x86-64-v4), "
              "cpu:1 (old, x86-64-v3)");
  check_fails(
      tn__compile_config_find(config, "olt:1", &device), TN_NOT_FOUND,
      "there is no device \"olt:1\" among the targets; did you mean \"old\"? there are opencl:0 (slow, opencl), "
      "cpu:0 (x86-64-v4), cpu:1 (old, x86-64-v3)");
  check_fails(tn__compile_config_find(config, "slwo/texture", &device), TN_NOT_FOUND,
              "there is no device \"slwo/texture\" among the targets; did you mean \"slow\"? there are opencl:0 (slow, "
              "opencl), cpu:0 (x86-64-v4), cpu:1 (old, x86-64-v3)");
  check_fails(tn__compile_config_find(config, "elsewhere", &device), TN_NOT_FOUND,
              "there is no device \"elsewhere\" among the targets: there are opencl:0 (slow, opencl), cpu:0 "
              "(x86-64-v4), cpu:1 (old, x86-64-v3)");
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn__compile_config_print(config, &text);
  assert_string_equal(tn__strbuf_text(&text),
                      "devices:\n"
                      "  opencl:0   opencl -device=0 -name=slow\n"
                      "  cpu:0      cpu -mcpu=x86-64-v4 -device=0\n"
                      "  cpu:1      cpu -mcpu=x86-64-v3 -device=1 -name=old\n"
                      "operators run on opencl:0 unless something else is said: it is the first target\n"
                      "the host is cpu:0 (x86-64-v4): it was given as the host\n");
  tn__strbuf_release(&text);
}

static void in_arena(void (*body)(tn__arena *, void *)) { check_ok(tn__with_arena(NULL, body, NULL)); }
static void joins_are_field_by_field(void **state) { in_arena(join_all); }
static void left_wins_in_defaults(void **state) { in_arena(default_all); }
static void devices_are_canonical(void **state) { in_arena(canonical); }
static void texts_are_read(void **state) { in_arena(texts); }
static void devices_are_found(void **state) { in_arena(finding); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(joins_are_field_by_field), cmocka_unit_test(left_wins_in_defaults),
      cmocka_unit_test(devices_are_canonical),    cmocka_unit_test(texts_are_read),
      cmocka_unit_test(rules_of_configurations),  cmocka_unit_test(devices_are_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
