/* Malicious databases of tuning records, made to mislead or harm their readers. */
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tenon/database.h"
#include "tune/database/database.h"
#include "unit/check.h"

/* Every test starts in its own empty folder, with an open database in a.db. */
typedef struct place {
  char folder[64];
  tn_database *db;
} place;

static int set_up(void **state) {
  place *p = calloc(1, sizeof(*p));
  strcpy(p->folder, "/tmp/tenon-test-database-XXXXXX");
  if (mkdtemp(p->folder) == NULL || chdir(p->folder) != 0) return -1;
  check_ok(tn_database_open("a.db", NULL, &p->db));
  *state = p;
  return 0;
}

static int tear_down(void **state) {
  place *p = *state;
  char command[128];
  tn_database_release(p->db);
  snprintf(command, sizeof(command), "rm -rf %s", p->folder);
  free(p);
  return chdir("/") != 0 || system(command) != 0;
}

static void run_sql(const char *path, const char *sql) {
  sqlite3 *handle;
  assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
  assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(handle);
}

/* Requires an error with these words, and an unchanged file. */
static void expect_refused(const char *path, const char *words) {
  tn__file_map before, now;
  tn_database *db;
  char copy[64];
  check_ok(tn__file_map_open(path, &before));
  snprintf(copy, sizeof(copy), "%s.before", path);
  check_ok(tn__file_write_atomic(copy, &(tn__bytes){before.data, before.size}, 1, 0600));
  tn__file_map_close(&before);
  check_fails(tn_database_open(path, NULL, &db), TN_DATA_LOSS, words);
  assert_null(db);
  check_ok(tn__file_map_open(copy, &before));
  check_ok(tn__file_map_open(path, &now));
  assert_int_equal(now.size, before.size);
  assert_memory_equal(now.data, before.data, now.size);
  tn__file_map_close(&before);
  tn__file_map_close(&now);
}

/* Foreign objects beside, or in place of, Tenon's own. */
static void other_schemas_are_refused_and_left(void **state) {
  static const struct {
    const char *sql, *words;
  } rows[] = {
      {"ALTER TABLE task RENAME TO t; CREATE VIEW task AS WITH RECURSIVE c(id) AS (SELECT 1 UNION ALL SELECT id + 1 "
       "FROM c) SELECT id, hex(id) hash, 'n' name, 'd' declaration, 't' target, 1 threads, 0 results_read FROM c",
       "it has the table \"t\", which Tenon does not create"},
      {"CREATE VIEW every AS SELECT * FROM record", "it has the view \"every\", which Tenon does not create"},
      {"CREATE TRIGGER \"lie\x1b[2J\" AFTER INSERT ON record BEGIN UPDATE record SET median = 1e-9; END",
       "it has the trigger \"lie\\u001b[2J\", which Tenon does not create"},
      {"CREATE VIRTUAL TABLE words USING fts5(text)", "it has the table \"words\", which Tenon does not create"},
      {"CREATE TABLE sub (x TEXT CHECK (length(x) != 3))", "it has the table \"sub\", which Tenon does not create"},
      {"CREATE INDEX upper_name ON task (upper(name))", "it has the index \"upper_name\", which Tenon does not create"},
      {"ALTER TABLE spent ADD COLUMN dear INTEGER AS (length(zeroblob(1000000)))",
       "its table \"spent\" differs from what Tenon creates"},
      {"DROP INDEX record_by_time; CREATE INDEX record_by_time ON record (median)",
       "its index \"record_by_time\" differs from what Tenon creates"},
      {"DROP INDEX record_by_time", "it lacks the index \"record_by_time\""},
      {"DROP TABLE spent; PRAGMA user_version = 1", "its table \"record\" differs from what Tenon creates"},
      {"PRAGMA user_version = 0", "its schema has number 0, and the first one has 1"},
      {"PRAGMA user_version = -1000000", "its schema has number -1000000, and the first one has 1"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    char path[32], words[512];
    tn_database *db;
    snprintf(path, sizeof(path), "%zu.db", i);
    check_ok(tn_database_open(path, NULL, &db));
    tn_database_release(db);
    run_sql(path, rows[i].sql);
    snprintf(words, sizeof(words),
             "%s: cannot open the database: %s; name another file, or move this one away and import what was exported "
             "before; it was left as it is",
             path, rows[i].words);
    expect_refused(path, words);
  }
  (void)state;
}

/* Whitespace in the text of a definition depends on SQLite's version. */
static void space_in_definitions_does_not_count(void **state) {
  place *p = *state;
  tn_database_release(p->db);
  p->db = NULL;
  run_sql("a.db",
          "DROP TABLE spent; CREATE TABLE spent(tasks TEXT NOT NULL,machine  TEXT NOT NULL,\n\tseconds REAL NOT NULL ,"
          " PRIMARY KEY ( tasks,machine ) )STRICT,WITHOUT ROWID");
  check_ok(tn_database_open("a.db", NULL, &p->db));
}

/* Statements end whatever the file contains: in one endless step, and in endless rows. */
static void steps_are_counted(void **state) {
  const place *p = *state;
#define NUMBERS "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT "
  static const char words[] =
      "a.db: cannot read the database: a statement took more steps than a file of its size needs, so the file is "
      "damaged or was made to mislead; move it away, and import what was exported before";
  int64_t count = 0, rows = 0;
  check_fails(tn__database_number(p->db, &count, NUMBERS "count(*) FROM c", ""), TN_DATA_LOSS, words);
  sqlite3_stmt *s;
  bool row = true;
  check_ok(tn__database_prepare(p->db, &s, NUMBERS "x FROM c", ""));
  tn_status *status = NULL;
  for (; row && status == NULL; rows++) status = tn__database_step(p->db, s, &row);
  check_fails(status, TN_DATA_LOSS, words);
  assert_true(rows > 10000);
  sqlite3_finalize(s);
  check_ok(tn__database_number(p->db, &count, NUMBERS "count(*) FROM (SELECT 1 FROM c LIMIT 100000)", ""));
  assert_int_equal(count, 100000);
#undef NUMBERS
}

/* SQLite's switches, each by an operation that it forbids. */
static void a_database_is_opened_defensively(void **state) {
  const place *p = *state;
  char *message = NULL;
  int64_t value = -1;
  assert_int_equal(sqlite3_exec(p->db->handle, "CREATE TABLE plain (x)", NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(
      sqlite3_exec(p->db->handle, "CREATE VIEW seen AS SELECT 1; SELECT * FROM seen", NULL, NULL, &message),
      SQLITE_ERROR);
  sqlite3_free(message);
  check_ok(tn__database_run(p->db, "PRAGMA writable_schema = ON", ""));
  assert_int_equal(sqlite3_exec(p->db->handle, "DELETE FROM sqlite_schema", NULL, NULL, &message), SQLITE_ERROR);
  assert_string_equal(message, "table sqlite_master may not be modified");
  sqlite3_free(message);
  check_ok(tn__database_number(p->db, &value, "PRAGMA trusted_schema", ""));
  assert_int_equal(value, 0);
  check_fails(tn__database_run(p->db, "INSERT INTO plain VALUES (zeroblob(67108865))", ""), TN_INVALID_ARGUMENT,
              "a.db: cannot read or write a record: its texts have more than 67108864 bytes");
}

/* The default path is in the folder of the compile cache, which the user has not named. */
static void the_usual_place_is_the_users_alone(void **state) {
  tn_database *db;
  assert_int_equal(unsetenv("TENON_TUNE_DB") + setenv("TENON_CACHE_DIR", "cache", 1), 0);
  check_ok(tn_database_open(NULL, NULL, &db));
  tn_database_release(db);
  assert_int_equal(chmod("cache", 0777), 0);
  check_fails(tn_database_open(NULL, NULL, &db), TN_FAILED_PRECONDITION,
              "cache: cannot use the folder: others may write to it (mode 777); make it yours alone (chown, chmod "
              "go-w), or name another one in TENON_TUNE_DB or TENON_CACHE_DIR");
  check_ok(tn_database_open("cache/tuning.db", NULL, &db)); /* named explicitly */
  tn_database_release(db);
  assert_int_equal(unsetenv("TENON_CACHE_DIR"), 0);
  (void)state;
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {TEST(other_schemas_are_refused_and_left),
                                     TEST(space_in_definitions_does_not_count), TEST(steps_are_counted),
                                     TEST(a_database_is_opened_defensively), TEST(the_usual_place_is_the_users_alone)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
