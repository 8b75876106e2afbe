/* Machine files: any text yields a machine or an error that names a line. A machine is printed, and the text must
 * read back as the same machine. The first byte chooses the architecture. */
#include <string.h>

#include "base/strbuf.h"
#include "fuzz/fuzz.h"
#include "machine/machine_file.h"
#include "target/text/text.h"

static void require_equal(const tn__machine *a, const tn__machine *b) {
  for (const tn__machine_row *row = tn__machine_rows; row->name != NULL; row++)
    require(tn__machine_get(a, row) == tn__machine_get(b, row));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const targets[] = {"x86-64-v3", "aarch64"};
  tn__target target;
  tn__strbuf text;
  if (size == 0) return 0;
  tn_status *status = tn__target_parse(targets[data[0] % 2], &target);
  require(status == NULL);
  tn__machine machine = target.cpu.machine, again = target.cpu.machine;
  status = tn__machine_read("fuzz", (const char *)data + 1, size - 1, target.cpu.arch, &machine);
  if (status == NULL) {
    tn__strbuf_init(&text, NULL);
    tn__machine_print(&machine, target.cpu.arch, &text);
    tn_status *broken = tn__machine_read("again", tn__strbuf_text(&text), text.length, target.cpu.arch, &again);
    require(broken == NULL);
    require_equal(&machine, &again);
    tn__strbuf_release(&text);
  } else {
    require(tn_status_code_of(status) == TN_INVALID_ARGUMENT || tn_status_code_of(status) == TN_UNSUPPORTED);
    require(strncmp(tn_status_message(status), "fuzz:", 5) == 0);
  }
  tn_status_free(status);
  return 0;
}
