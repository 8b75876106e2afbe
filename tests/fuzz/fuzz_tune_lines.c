/* Files of tuning records: whatever they hold, they are refused or taken whole; what was taken comes out again as lines
 * that change nothing when they are taken once more. */
#include <sqlite3.h>

#include "fuzz/files.h"
#include "tune/database/database.h"

static tn_database *open_database(void) {
  tn_database *db;
  must(tn_database_open(fuzz_path("tuning.db"), NULL, &db));
  must(tn__database_run(db, "PRAGMA synchronous = OFF", ""));
  return db;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static tn_database *db;
  char again[192];
  if (db == NULL) db = open_database();
  snprintf(again, sizeof(again), "%s", fuzz_path("again"));
  tn_database_change change = {.size = sizeof(change)}, nothing = {.size = sizeof(nothing)};
  tn_status *status = tn_database_import(db, fuzz_write("lines", data, size), &change);
  if (status == NULL) {
    must(tn_database_export(db, NULL, again, &change));
    must(tn_database_import(db, again, &nothing));
    if (nothing.tasks + nothing.records + nothing.measurements != 0 || nothing.known != change.records) abort();
    must(tn_database_save_best(db, NULL, NULL, again, NULL));
  }
  tn_status_free(status);
  must(tn__database_run(db, "DELETE FROM record", ""));
  must(tn__database_run(db, "DELETE FROM task", ""));
  must(tn__database_run(db, "DELETE FROM machine", ""));
  return 0;
}
