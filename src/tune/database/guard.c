/* Protection against untrusted databases: SQLite's switches and limits, and a step budget for each statement. */
#include <sys/stat.h>

#include "base/alloc.h"
#include "tune/database/database.h"

/* ---- switches and limits ----------------------------------------------------------------------------------------- */

typedef struct switch_row {
  int option, on;
} switch_row;

/* SQL in the file must not call harmful functions. Views and triggers do not run at all. */
static const switch_row switches[] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},      {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                                      {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                                      {SQLITE_DBCONFIG_DQS_DDL, 0},        {SQLITE_DBCONFIG_DQS_DML, 0},
                                      {SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0}};

typedef struct limit_row {
  int limit, most;
} limit_row;

/* Limits several times above the needs of Tenon's own statements and texts. */
static const limit_row limits[] = {{SQLITE_LIMIT_LENGTH, TN__DATABASE_LONGEST_TEXT},
                                   {SQLITE_LIMIT_SQL_LENGTH, 64 * 1024},
                                   {SQLITE_LIMIT_COLUMN, 100},
                                   {SQLITE_LIMIT_EXPR_DEPTH, 100},
                                   {SQLITE_LIMIT_COMPOUND_SELECT, 10},
                                   {SQLITE_LIMIT_VDBE_OP, 25000},
                                   {SQLITE_LIMIT_FUNCTION_ARG, 16},
                                   {SQLITE_LIMIT_ATTACHED, 0},
                                   {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100},
                                   {SQLITE_LIMIT_VARIABLE_NUMBER, 100},
                                   {SQLITE_LIMIT_TRIGGER_DEPTH, 4}, /* cascading deletes are triggers */
                                   {SQLITE_LIMIT_WORKER_THREADS, 0}};

tn_status *tn__database_guard(const tn_database *db) {
  for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++) {
    int now = -1;
    int result = sqlite3_db_config(db->handle, switches[i].option, switches[i].on, &now);
    if (result != SQLITE_OK || now != switches[i].on)
      return tn_status_create(TN_UNSUPPORTED,
                              "%s: cannot open the database: SQLite %s lacks its protection %d against hostile files; "
                              "use SQLite 3.37 or later",
                              db->path, sqlite3_libversion(), switches[i].option);
  }
  for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
    (void)sqlite3_limit(db->handle, limits[i].limit, limits[i].most);
  return NULL;
}

/* ---- step budget ------------------------------------------------------------------------------------------------- */

enum {
  FREE_STEPS = 4000000, /* per statement, regardless of the file's size: about 0.1 s */
  STEPS_PER_BYTE = 16,  /* the most expensive statement needs two */
  STEPS_PER_CALL = 1000 /* between two checks of the budget */
};

typedef struct budget {
  const tn_database *db;
  uint64_t spent;
} budget;

static uint64_t size_of(const char *file) {
  struct stat info;
  return file != NULL && stat(file, &info) == 0 && info.st_size > 0 ? (uint64_t)info.st_size : 0;
}

/* Returns the step limit of a statement, which grows with the size of the file and its log. */
static uint64_t most_steps(const tn_database *db) {
  const char *file = sqlite3_db_filename(db->handle, "main");
  if (file == NULL) return FREE_STEPS;
  uint64_t most = FREE_STEPS + STEPS_PER_BYTE * (size_of(file) + size_of(sqlite3_filename_wal(file)));
  return most < UINT32_MAX ? most : UINT32_MAX; /* SQLite counts steps in 32 bits */
}

static bool is_over(const tn_database *db, uint64_t steps) { return steps > FREE_STEPS && steps > most_steps(db); }

/* Aborts the statement with SQLITE_INTERRUPT. */
static int spend(void *user) {
  budget *b = user;
  b->spent += STEPS_PER_CALL;
  return is_over(b->db, b->spent);
}

/* The handler belongs to the connection, which threads share, so it is set under the connection's mutex. */
static void begin_guarded(budget *b) {
  sqlite3_mutex_enter(sqlite3_db_mutex(b->db->handle));
  sqlite3_progress_handler(b->db->handle, STEPS_PER_CALL, spend, b);
}

static void end_guarded(const budget *b) {
  sqlite3_progress_handler(b->db->handle, 0, NULL, NULL);
  sqlite3_mutex_leave(sqlite3_db_mutex(b->db->handle));
}

int tn__database_prepare_guarded(const tn_database *db, const char *sql, sqlite3_stmt **out) {
  budget b = {.db = db};
  begin_guarded(&b);
  int result = sqlite3_prepare_v2(db->handle, sql, -1, out, NULL); /* preparing may read the schema */
  end_guarded(&b);
  return result;
}

int tn__database_step_guarded(const tn_database *db, sqlite3_stmt *statement) {
  budget b = {.db = db};
  begin_guarded(&b);
  int result = sqlite3_step(statement);
  end_guarded(&b);
  /* Limits rows too, because each may need few steps. */
  uint32_t all = (uint32_t)sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 0);
  return result == SQLITE_ROW && is_over(db, all) ? SQLITE_INTERRUPT : result;
}
