/* The database of tuning records: what was measured, kept in one SQLite file. Link libtenon_tune.
 *
 * A *task* is a kernel's declaration for one target (tn_tune_task). A *record* is one candidate of a task on one
 * machine and what came of it: it is there once, and knows all of its measurements. docs/tuning-records.md has the
 * schema, the formats of files, and what holds after a crash.
 *
 * - What a function has returned from without an error survives the end of the process at any instant.
 * - Several processes may have a database open at once, and each may write. One that waits longer for another than it
 *   may (tn_database_options.wait_seconds) gets TN_FAILED_PRECONDITION, and nothing was written.
 * - A file that is damaged (TN_DATA_LOSS), of another program (TN_INVALID_ARGUMENT) or of a newer schema
 *   (TN_UNSUPPORTED) is refused and stays as it is. Records that a newer Tenon wrote in formats of its own are kept and
 *   passed over; functions tell how many there were.
 * - A full disk is TN_IO; what was recorded before stays.
 *
 * Texts are UTF-8. One tn_database is used by one thread at a time, and not by two processes: who forks opens anew.
 * Everything here is since 0.2. */
#ifndef TENON_DATABASE_H
#define TENON_DATABASE_H

#include "tenon/tune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- opening ----------------------------------------------------------------------------------------------------- */

typedef struct tn_database tn_database; /* an open database */

/* How a database is opened. */
typedef struct tn_database_options {
  size_t size;         /* sizeof(tn_database_options) */
  bool read_only;      /* the file must be there; nothing is changed */
  bool synced;         /* what was acknowledged survives a loss of power, too: slower */
  double wait_seconds; /* for other processes that write; 0: 10; below 0: not at all */
} tn_database_options;

/* Opens the database in the file `path`, and makes it, and its folders, where it is not there. NULL is $TENON_TUNE_DB,
 * or else the file tuning.db in the folder of the compile cache ($TENON_CACHE_DIR, else $XDG_CACHE_HOME/tenon, else
 * ~/.cache/tenon). A database of an older schema is brought to this one. */
TN_API TN_MUST_USE tn_status *tn_database_open(const char *path, const tn_database_options *options, tn_database **out);
TN_API void tn_database_release(tn_database *database);           /* NULL is fine */
TN_API const char *tn_database_path(const tn_database *database); /* of its file */

/* ---- tasks and records ------------------------------------------------------------------------------------------- */

#define TN_RECORD_FORMAT 1    /* version of what a record's fields mean */
#define TN_SCHEDULE_VERSION 1 /* version of rules' decisions and of traces, as their first line has it */

#define TN_TASK_HASH_BYTES 65 /* of a task's hash as text: 64 hexadecimal digits and a NUL */

/* The task's identity: SHA-256 of its declaration, target, threads, `results_read`, and its dimensions with their sizes
 * in the order of their names. Neither its name nor its machine is in it. */
TN_API TN_MUST_USE tn_status *tn_tune_task_hash(const tn_tune_task *task, char out[TN_TASK_HASH_BYTES]);

/* Where a candidate came from. The numbers are kept in databases and never change. */
typedef enum tn_record_origin {
  TN_ORIGIN_STATIC = 0, /* the choice that is made without measuring */
  TN_ORIGIN_SEARCH,     /* a tuner's search */
  TN_ORIGIN_EXHAUSTIVE, /* a table of a whole space */
  TN_ORIGIN_IMPORT      /* a file of records */
} tn_record_origin;

#define TN_RECORD_ORIGINS (TN_ORIGIN_IMPORT + 1) /* how many there are */

/* "static", "search", "exhaustive", "import"; "unknown" for a number that is none. */
TN_API const char *tn_record_origin_name(tn_record_origin origin);

/* The result of comparing a candidate with the static choice. Databases store these numbers; they never change. */
typedef enum tn_verdict {
  TN_VERDICT_NONE = 0,  /* not compared */
  TN_VERDICT_BETTER,    /* shown to be faster than the static choice */
  TN_VERDICT_NOT_BETTER /* not shown to be faster */
} tn_verdict;

/* A candidate and what came of it. It is the same candidate when task, machine, both versions, and rule and decisions,
 * or without a rule the trace, are the same. */
typedef struct tn_record {
  size_t size;             /* sizeof(tn_record) */
  const char *task;        /* the task's hash */
  const char *machine;     /* the fingerprint of the machine that ran it */
  int format;              /* 0: TN_RECORD_FORMAT */
  int schedule_version;    /* 0: TN_SCHEDULE_VERSION */
  const char *rule;        /* NULL or "": the trace alone says what it is */
  const char *decisions;   /* of the rule: "rows 14, vectors 2"; NULL: "" */
  const char *trace;       /* the steps (docs/schedule.md); NULL or "": not known */
  tn_record_origin origin; /* where it came from */
  /* Of one measurement, as it is added. As it is told: of the newest that counts. */
  tn_trial_error error;
  const char *message;  /* the whole text of the error; NULL: "" */
  double median;        /* seconds of a call, above 0 where it was timed; told: the median of all that count */
  double spread;        /* distance of the quartiles over the median */
  int64_t calls;        /* that were timed */
  bool verified;        /* its results were compared with the declaration's; told: one that counts was */
  double build_seconds; /* that building took */
  double run_seconds;   /* that running took, in all */
  double predicted;     /* seconds of a call, before it was measured; told: at first; 0: nobody said */
  double when;          /* seconds since 1970, UTC; 0: now */
  const char *tenon;    /* the version that measured; NULL: this one */
  /* Only told. */
  int64_t id;                 /* of the record in this file */
  int64_t measurements;       /* that there are */
  double best;                /* the least time of those that count; 0: there is none */
  bool other_machine;         /* tn_database_best(): it was not found on the machine that was asked for */
  const tn_tune_task *kernel; /* what the task is; its `machine` is NULL */
  bool proven;                /* measured by a process that wrote to this file; false: it comes from another file */
  tn_verdict verdict;         /* of the newest comparison with the static choice */
  double ratio;               /* its time over the static choice's in that comparison; 0: not compared */
} tn_record;

/* What became of a record that was added. */
typedef enum tn_added {
  TN_ADDED_RECORD = 0,  /* it is new */
  TN_ADDED_MEASUREMENT, /* the candidate was known, and has one measurement more */
  TN_ADDED_NOTHING      /* it was known */
} tn_added;

/* Puts a task into the database, so that records can be of it; fills in its hash (`hash` may be NULL). One that is
 * there stays as it is. */
TN_API TN_MUST_USE tn_status *tn_database_add_task(tn_database *database, const tn_tune_task *task,
                                                   char hash[TN_TASK_HASH_BYTES]);

/* Adds what was measured, in one transaction; `added` may be NULL. A candidate is measured once: one that is known
 * stays as it is, unless its measurement was only cancelled, or this one is made `again`. Then all measurements are
 * kept, and the record tells of those that count: the newest one decides between a time and an error of the candidate's
 * own (instantiation to wrong answer); what came before such an error does not count any more. Timeouts, lost workers
 * and cancelled trials decide only where nothing else does. The order in which measurements come does not matter, and
 * the same one twice is one.
 * TN_NOT_FOUND where the task was not added. */
TN_API TN_MUST_USE tn_status *tn_database_add(tn_database *database, const tn_record *record, bool again,
                                              tn_added *added);
/* The same for several in one transaction: all or none. `added` is NULL or has as many elements. */
TN_API TN_MUST_USE tn_status *tn_database_add_many(tn_database *database, const tn_record *const *records, int count,
                                                   bool again, tn_added *added);

/* Stores the result of comparing a candidate with the static choice in `turns` turns. `ratio` is its time over the
 * static choice's; `better` is whether it was shown to be faster. Reads only `when` and the fields that identify the
 * candidate. The newest verdict counts. TN_NOT_FOUND if no process that wrote to this file measured the candidate. */
TN_API TN_MUST_USE tn_status *tn_database_judge(tn_database *database, const tn_record *candidate, bool better,
                                                double ratio, int turns);

/* Was the candidate measured? Of the record what tells candidates apart is read; its machine may be NULL: any. A trial
 * that was cancelled or came from another file does not count. `error` (may be NULL) is how it ended; if several
 * machines measured it, a time takes precedence over errors. */
TN_API TN_MUST_USE tn_status *tn_database_has(tn_database *database, const tn_record *candidate, bool *known,
                                              tn_trial_error *error);

/* Adds to the seconds that were spent on tuning a set of tasks on a machine, and tells how many there are (`total` may
 * be NULL): a tuner that is started again counts them against its budget. `tasks` are hashes, in any order. Merging,
 * exporting and pruning pass them over. */
TN_API TN_MUST_USE tn_status *tn_database_spend(tn_database *database, const char *const *tasks, int count,
                                                const char *machine, double seconds, double *total);

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* In which order records are told. */
typedef enum tn_record_order {
  TN_ORDER_ADDED = 0, /* as they were added */
  TN_ORDER_NEWEST,    /* the newest measurement first */
  TN_ORDER_FASTEST    /* the least median first; those without one last */
} tn_record_order;

/* Which records are meant: those for which all that is given holds. */
typedef struct tn_record_filter {
  size_t size;           /* sizeof(tn_record_filter) */
  const char *task;      /* the task's hash, or how it begins; NULL: any */
  const char *name;      /* the task's name; NULL: any */
  const char *target;    /* the task's target; NULL: any */
  const char *machine;   /* its fingerprint; NULL: any */
  unsigned errors;       /* bits 1u << tn_trial_error; 0: all kinds */
  unsigned origins;      /* bits 1u << tn_record_origin; 0: all */
  bool verified;         /* only those */
  double since;          /* newest measurement at this time or later; 0: any */
  double until;          /* before this time; 0: any */
  int64_t limit;         /* at most so many; 0: all */
  tn_record_order order; /* in which they are told */
} tn_record_filter;

/* Is called with one record after the other; what it is given lives for the call. False: no more are wanted. It may ask
 * the database, and not change it (TN_FAILED_PRECONDITION). */
typedef bool (*tn_record_callback)(void *user, const tn_record *record);

/* Tells the records that the filter means; NULL: all. `newer` (may be NULL) counts those of newer formats or schedule
 * versions that were passed over, whatever the limit. */
TN_API TN_MUST_USE tn_status *tn_database_query(tn_database *database, const tn_record_filter *filter,
                                                tn_record_callback callback, void *user, int64_t *newer);

/* Tells all measurements of a record that was told, the oldest first: each as that record, with the fields of one
 * measurement as it was added. */
TN_API TN_MUST_USE tn_status *tn_database_measurements(tn_database *database, const tn_record *record,
                                                       tn_record_callback callback, void *user);

/* The fastest verified record of a task on a machine, or else on any other, which `other_machine` tells; with a machine
 * of NULL the fastest of all. Proven records precede those from other files. `*out` is NULL if there is none, and is
 * released with tn_record_release(). */
TN_API TN_MUST_USE tn_status *tn_database_best(tn_database *database, const char *task, const char *machine,
                                               tn_record **out);
/* The task's winner: among proven, verified records with a trace whose verdict is TN_VERDICT_BETTER, the one with the
 * least ratio. Otherwise as tn_database_best(). */
TN_API TN_MUST_USE tn_status *tn_database_winner(tn_database *database, const char *task, const char *machine,
                                                 tn_record **out);
TN_API void tn_record_release(tn_record *record); /* a record of the two functions above; NULL is fine */

/* A task and how far it is. */
typedef struct tn_task_records {
  const char *hash;                /* of the task */
  const tn_tune_task *kernel;      /* its `machine` is NULL */
  int64_t records;                 /* of it that the filter means */
  int64_t errors[TN_TRIAL_ERRORS]; /* of them that ended so; [TN_TRIAL_OK]: that were timed */
  int64_t measurements;            /* of all of them */
  int64_t newer;                   /* records of newer formats, which nothing else counts */
  double best;                     /* seconds of the fastest verified and proven record; 0: none */
  double first, last;              /* when the earliest and the latest were measured; 0: there is none */
} tn_task_records;

/* As tn_record_callback. */
typedef bool (*tn_task_callback)(void *user, const tn_task_records *task);

/* Tells tasks in the order in which they were added: those that the filter's task, name and target mean, also without a
 * record. The other conditions say which records are counted, `limit` is the most tasks, and `order` means nothing. */
TN_API TN_MUST_USE tn_status *tn_database_tasks(tn_database *database, const tn_record_filter *filter,
                                                tn_task_callback callback, void *user);

/* ---- tidying ----------------------------------------------------------------------------------------------------- */

/* What goes: each record that one of these means. The best verified record of a task on a machine stays, unless the
 * task goes, and so do all records of newer formats. */
typedef struct tn_prune_options {
  size_t size;              /* sizeof(tn_prune_options) */
  double older_than;        /* whose newest measurement is from before this time; 0: none for its age */
  int64_t keep;             /* of a task on a machine all but so many, the fastest; 0: none for their number */
  bool failed;              /* that have no time */
  const char *const *tasks; /* all of other tasks than these, and those tasks: hashes, or how they begin */
  int task_count;           /* of them; 0: none for its task */
  bool only_count;          /* nothing goes; `removed` tells what would */
} tn_prune_options;

/* In one transaction. TN_NOT_FOUND where there is no task of `tasks`: nothing goes then. */
TN_API TN_MUST_USE tn_status *tn_database_prune(tn_database *database, const tn_prune_options *options,
                                                int64_t *removed);

/* ---- other files ------------------------------------------------------------------------------------------------- */

/* What came out of another file, or went into one. */
typedef struct tn_database_change {
  size_t size;            /* sizeof(tn_database_change), set by the caller */
  int64_t tasks;          /* that are new here; or were written */
  int64_t records;        /* that are new here; or were written */
  int64_t measurements;   /* known records that have more measurements now */
  int64_t known;          /* records of the file that changed nothing */
  int64_t newer;          /* records of newer formats: merged as they are; left out of exports and imports */
  int64_t unknown_fields; /* that an import passed over */
  int64_t without_trace;  /* tasks that tn_database_save_best() omitted because they have no winner */
} tn_database_change;

/* Takes over all that another database has, in one transaction; that one stays as it is. Doing it again changes
 * nothing. Merged measurements are unproven; verdicts are not merged. `out` may be NULL. */
TN_API TN_MUST_USE tn_status *tn_database_merge(tn_database *database, const char *path, tn_database_change *out);

/* What the filter means as JSON lines: each task before its first record. The text is the caller's: free(). `out` may
 * be NULL. */
TN_API TN_MUST_USE tn_status *tn_database_export_text(tn_database *database, const tn_record_filter *filter,
                                                      char **text, tn_database_change *out);
/* The same to a file, which is written whole or not at all. */
TN_API TN_MUST_USE tn_status *tn_database_export(tn_database *database, const tn_record_filter *filter,
                                                 const char *path, tn_database_change *out);
/* Takes over JSON lines from a file, all or none of them. What is wrong with a line is told with its number and field
 * (TN_INVALID_ARGUMENT). Known candidates get measurements that they do not have; records that are new have the origin
 * "import". `out` may be NULL. */
TN_API TN_MUST_USE tn_status *tn_database_import(tn_database *database, const char *path, tn_database_change *out);

/* Writes the winner's trace of each task that matches the filter's task, name and target, in order of name and hash.
 * The compiler reads this text without a database (docs/tuning-records.md). `machine` is that of tn_database_winner().
 * `out` may be NULL. */
TN_API TN_MUST_USE tn_status *tn_database_save_best(tn_database *database, const tn_record_filter *filter,
                                                    const char *machine, const char *path, tn_database_change *out);

#ifdef __cplusplus
}
#endif
#endif
