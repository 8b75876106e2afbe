/* Files of tuning records: whatever they hold, they are refused or taken whole; what was taken comes out again as lines
 * that change nothing when they are taken once more. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "fuzz/fuzz.h"
#include "tune/database/database.h"

static char folder[64];

static void remove_folder(void) {
  char command[128];
  snprintf(command, sizeof(command), "rm -rf %s", folder);
  if (system(command) != 0) abort();
}

static void enter_folder(void) {
  const char *memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  snprintf(folder, sizeof(folder), "%s/tenon-fuzz-XXXXXX", memory);
  if (mkdtemp(folder) == NULL) abort();
  atexit(remove_folder);
}

static void must(tn_status *status) {
  if (status == NULL) return;
  fprintf(stderr, "%s\n", tn_status_message(status));
  abort();
}

static tn_database *open_database(void) {
  char path[128];
  tn_database *db;
  snprintf(path, sizeof(path), "%s/tuning.db", folder);
  must(tn_database_open(path, NULL, &db));
  must(tn__database_run(db, "PRAGMA synchronous = OFF", ""));
  return db;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static tn_database *db;
  char lines[128], again[128];
  if (db == NULL) enter_folder(), db = open_database();
  snprintf(lines, sizeof(lines), "%s/lines", folder);
  snprintf(again, sizeof(again), "%s/again", folder);
  must(tn__file_write_atomic(lines, &(tn__bytes){data, size}, 1, 0600));
  tn_database_change change = {.size = sizeof(change)}, nothing = {.size = sizeof(nothing)};
  tn_status *status = tn_database_import(db, lines, &change);
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
