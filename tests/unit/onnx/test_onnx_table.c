/* The table of ONNX operators, the networks that need them, and docs/onnx-operators.md, which "unit_onnx onnx_table
 * --write" generates from both. */
#include <string.h>

#include "base/arena.h"
#include "import/onnx/onnx.h"
#include "unit/page.h"

#define PAGE TN_TEST_ROOT "/docs/onnx-operators.md"
#define NETWORKS TN_TEST_ROOT "/tools/onnx_network_operators.txt"

enum { MOST_NETWORK_OPS = 512 };

typedef struct network_op {
  char name[64];
  bool torchvision, transformers;
} network_op;

typedef struct known {
  tn__arena arena;
  const tn__onnx_op_use *ops;
  int count;
} known;

static void known_body(tn__escape *escape, void *arg) {
  known *k = arg;
  k->count = tn__onnx_known_ops(&k->arena, &k->ops);
}

static known read_known(void) {
  tn__escape escape;
  known k = {0};
  tn__arena_init(&k.arena, NULL, &escape);
  check_ok(tn__protect(&escape, known_body, &k));
  k.arena.escape = NULL;
  return k;
}

static int read_networks(network_op *out) {
  FILE *file = fopen(NETWORKS, "r");
  assert_non_null(file);
  char line[256];
  int count = 0;
  while (fgets(line, sizeof(line), file) != NULL) {
    if (line[0] == '#' || line[0] == '\n') continue;
    assert_true(count < MOST_NETWORK_OPS);
    network_op *op = &out[count++];
    assert_int_equal(sscanf(line, "%63s", op->name), 1);
    op->torchvision = strstr(line, " torchvision") != NULL;
    op->transformers = strstr(line, " transformers") != NULL;
    assert_true(op->torchvision || op->transformers);
  }
  fclose(file);
  return count;
}

static const tn__onnx_op_use *find(const known *k, const char *domain, const char *name) {
  for (int i = 0; i < k->count; i++)
    if (strcmp(k->ops[i].domain, domain) == 0 && strcmp(k->ops[i].name, name) == 0) return &k->ops[i];
  return NULL;
}

static void operators_are_sorted_and_explained(void **state) {
  known k = read_known();
  assert_true(k.count > 180);
  for (int i = 0; i < k.count; i++) {
    assert_int_equal(k.ops[i].supported, k.ops[i].why == NULL);
    if (i == 0) continue;
    int order = strcmp(k.ops[i - 1].domain, k.ops[i].domain);
    assert_true(order < 0 || (order == 0 && strcmp(k.ops[i - 1].name, k.ops[i].name) < 0));
  }
  tn__arena_release(&k.arena);
}

static void supports_what_networks_use(void **state) {
  static network_op networks[MOST_NETWORK_OPS];
  known k = read_known();
  int count = read_networks(networks);
  assert_true(count > 120);
  for (int i = 0; i < count; i++) {
    const tn__onnx_op_use *op = find(&k, "", networks[i].name);
    if (op == NULL || !op->supported)
      fail_msg("%s is used by networks and not supported: %s", networks[i].name, op == NULL ? "unknown" : op->why);
  }
  tn__arena_release(&k.arena);
}

static void write_page(tn__strbuf *out) {
  static network_op networks[MOST_NETWORK_OPS];
  known k = read_known();
  int network_count = read_networks(networks), supported = 0, count = 0, learned = 0;
  for (int i = 0; i < k.count; i++) {
    bool own = k.ops[i].domain[0] == '\0';
    count += own;
    supported += own && k.ops[i].supported;
    learned += strcmp(k.ops[i].domain, "ai.onnx.ml") == 0 && k.ops[i].supported;
  }
  tn__strbuf_printf(
      out,
      "# ONNX operators\n\n"
      "%d of the %d operators in ONNX's operator sets 6 to 28 are imported, each with the meaning that its version "
      "has; of the 19 operators of `ai.onnx.ml` %d are, and of `ai.onnx.preview` and `ai.onnx.preview.training`, which "
      "have 5, none. "
      "The version is the newest one. Branches and loops run or are\nresolved, whatever is known; sequences and "
      "optional "
      "values hold tensors of one type, strings among "
      "them. Types of 8 bits and less that are not integers are not supported; integers of 2 and 4 bits are, as "
      "quantised weights. Written by `unit_onnx onnx_table --write` "
      "from the table\nand from "
      "`tools/onnx_network_operators.txt`; do not edit. [howto-onnx-operator.md](howto-onnx-operator.md) tells how to "
      "add "
      "one.\n\n"
      "| operator | version | state | used by exported networks of |\n| --- | --: | --- | --- |\n",
      supported, count, learned);
  for (int i = 0; i < k.count; i++) {
    const tn__onnx_op_use *op = &k.ops[i];
    const network_op *use = NULL;
    for (int n = 0; n < network_count && op->domain[0] == '\0'; n++)
      if (strcmp(networks[n].name, op->name) == 0) use = &networks[n];
    tn__strbuf_printf(out, "| `%s%s%s` | %d | %s | %s%s%s |\n", op->domain, op->domain[0] == '\0' ? "" : ":", op->name,
                      op->since_version, op->supported ? "imported" : op->why,
                      use != NULL && use->torchvision ? "torchvision" : "",
                      use != NULL && use->torchvision && use->transformers ? ", " : "",
                      use != NULL && use->transformers ? "transformers" : "");
  }
  tn__arena_release(&k.arena);
}

static void page_is_fresh(void **state) { page_check(PAGE, write_page); }

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--write") == 0) return page_write(PAGE, write_page);
  const struct CMUnitTest tests[] = {cmocka_unit_test(operators_are_sorted_and_explained),
                                     cmocka_unit_test(supports_what_networks_use), cmocka_unit_test(page_is_fresh)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
