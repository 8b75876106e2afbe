/* Tuning: building and timing candidates for the schedules of kernels, and keeping what was found. Link libtenon_tune.
 *
 * Three parts measure, each usable alone:
 *  - a *builder* makes code of candidates, a few at a time;
 *  - a *runner* times code on a device, a few at a time (mostly one);
 *  - a *measurer* asks a source for candidates, gives them to a builder, gives what was built to runners, and tells the
 *    source what came out. It alone knows what waits for what.
 * A *tuner* (tn_tuner) is all of it together: kernels of models and declarations, a search for each, the database, and
 * the file of schedules that compilations take. It is what `tenon tune` is made of.
 * Submitting never blocks, and each submission has exactly one callback, also when it is cancelled or its builder or
 * runner is released. The builders and runners of this library own worker processes (tn_worker_builder,
 * tn_worker_runner); a program may supply its own (tn_builder_create, tn_runner_create), and tn_simulator has some that
 * only take time, on a clock of its own.
 *
 * The design is that of TVM's meta-schedule (Shao et al., NeurIPS 2022) without its barriers: there a whole batch is
 * built, then a whole batch is run.
 *
 * Threads: a builder, its runners and their measurer belong to one thread, that of their event loop, and call back in
 * it, as a tuner does. A callback may submit, cancel and release. What may be called from elsewhere says so.
 * Everything here is since 0.2. */
#ifndef TENON_TUNE_H
#define TENON_TUNE_H

#include "tenon/compile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- candidates and what comes of them --------------------------------------------------------------------------- */

/* What is tuned: one kernel's declaration for one target. Texts are the caller's, and live as long as anybody works on
 * the task. */
typedef struct tn_tune_task {
  size_t size;             /* sizeof(tn_tune_task) */
  const char *name;        /* for people: "conv2d_relu", "gemm" */
  const char *declaration; /* a text with this one kernel, in the language of declarations (docs/te-language.md) */
  const char *target;      /* "x86-64-v4"; as tn_compile_options.target */
  const char *machine; /* the text of a machine file, from which the static choice is made; NULL: the target's row */
  int threads;         /* that the kernel runs on; at least 1 */
  bool results_read;   /* another kernel reads the results soon */
  const char *const *dims; /* the names of open dimensions */
  const int64_t *sizes;    /* that they have while it is timed */
  int dim_count;           /* of them */
} tn_tune_task;

/* How a trial ended. The numbers are kept in databases and never change. */
typedef enum tn_trial_error {
  TN_TRIAL_OK = 0,         /* it was timed */
  TN_TRIAL_INSTANTIATION,  /* a primitive refused a step of the schedule */
  TN_TRIAL_HOST_COMPILE,   /* the code generator failed */
  TN_TRIAL_DEVICE_COMPILE, /* the device's own compiler failed */
  TN_TRIAL_RUN_TIME,       /* the kernel failed: a status of its own, or a signal */
  TN_TRIAL_WRONG_ANSWER,   /* it ran, and its results are not the declaration's */
  TN_TRIAL_BUILD_TIMEOUT,  /* building took more time or memory than a trial may */
  TN_TRIAL_RUN_TIMEOUT,    /* running did */
  TN_TRIAL_WORKER_LOST,    /* the worker ended, for a reason that is not the candidate's or is not known */
  TN_TRIAL_CANCELLED       /* somebody ended it */
} tn_trial_error;

#define TN_TRIAL_ERRORS (TN_TRIAL_CANCELLED + 1) /* how many kinds there are */

/* "ok", "instantiation", "host compile", ...: for people and for files; "unknown" for a number that is none. */
TN_API const char *tn_trial_error_name(tn_trial_error error);

/* What a builder is given. Texts and data live until the trial's last callback has returned. */
typedef struct tn_build_input {
  uint64_t id;              /* the source's own number of the candidate */
  const tn_tune_task *task; /* what it is a candidate for; builders of other things may be given NULL */
  const char *rule;         /* of its schedule: "contraction"; NULL: `schedule` is a trace (docs/schedule.md) */
  const char *schedule;     /* a trace, or the decisions of a point of the rule's sketch: "rows 14, vectors 2" */
  double slow_seconds;      /* a kernel that takes longer than this is of no interest, and timed in haste; 0: none is */
} tn_build_input;

/* What a builder made. */
typedef struct tn_build_result {
  tn_trial_error error;    /* what went wrong */
  const char *message;     /* the whole text of the error; "" where there is none */
  double seconds;          /* that building took, by the builder's clock */
  const void *code;        /* as the runner wants it */
  size_t code_size;        /* in bytes */
  int64_t workspace_bytes; /* that the kernel needs at each call */
  const char *trace;       /* of the schedule, as docs/schedule.md has it; NULL or "" where there is none */
  int buffer_count;        /* that the kernel is given, inputs and outputs */
} tn_build_result;

/* What a runner found. */
typedef struct tn_run_result {
  tn_trial_error error; /* what went wrong */
  const char *message;  /* the whole text of the error; "" where there is none */
  double seconds;       /* that the trial took in all: loading, warming up, all repeats, comparing */
  double median;        /* seconds of one call of the kernel */
  double spread;        /* distance of the quartiles of the repeats over their median */
  int64_t calls;        /* that were timed */
  bool verified;        /* its results were compared with the declaration's */
} tn_run_result;

/* A submission's number in its builder or runner; never 0. */
typedef uint64_t tn_trial_handle;

/* ---- builders and runners ---------------------------------------------------------------------------------------- */

typedef struct tn_builder tn_builder; /* makes code */
typedef struct tn_runner tn_runner;   /* times it */

/* Exactly one comes for each submission. What it is given lives for the call. */
typedef void (*tn_build_callback)(void *user, const tn_build_input *input, const tn_build_result *result);
/* The same of a run. */
typedef void (*tn_run_callback)(void *user, const tn_build_input *input, const tn_run_result *result);

/* One that a program supplies. A builder is told to `start` at most `slots` candidates at a time and answers each with
 * one tn_builder_finish(), in `start` itself or later. All functions are called in the loop's thread. A result that
 * arrives during a submission is queued; tn_builder_poll() delivers its callback. */
typedef struct tn_builder_functions {
  size_t size; /* sizeof(tn_builder_functions) */
  /* Begins a candidate. */
  void (*start)(void *self, tn_builder *builder, tn_trial_handle handle, const tn_build_input *input);
  /* The candidate's callback has been called; its end may still be told, which frees the slot. May be NULL: it is then
   * left to end by itself. */
  void (*cancel)(void *self, tn_trial_handle handle);
  /* Stands still, or goes on, while something is timed on the cores that it uses. May be NULL. */
  void (*pause)(void *self, bool pause);
  void (*release)(void *self); /* ends it; called once, after all callbacks. May be NULL */
} tn_builder_functions;

/* The same for runners. */
typedef struct tn_runner_functions {
  size_t size; /* sizeof(tn_runner_functions) */
  /* Begins to time what was built. */
  void (*start)(void *self, tn_runner *runner, tn_trial_handle handle, const tn_build_input *input,
                const tn_build_result *build);
  void (*cancel)(void *self, tn_trial_handle handle); /* as a builder's */
  void (*release)(void *self);                        /* as a builder's */
} tn_runner_functions;

/* How many things a builder or runner does at once, and how many may wait for that. */
typedef struct tn_station_options {
  size_t size; /* sizeof(tn_station_options) */
  int slots;   /* 1 to 1024; 0: 1 */
  int waiting; /* submissions beyond the slots that are taken; 0: as many as there are slots; -1: none */
  /* Called when a submission was refused because all places were taken, and one is free again. May be NULL. */
  void (*drained)(void *user);
  void *user; /* for drained */
} tn_station_options;

/* `self` belongs to the builder from now on, also when that cannot be made: `release` is called then, unless there is
 * something wrong with the functions themselves. */
TN_API TN_MUST_USE tn_status *tn_builder_create(const tn_builder_functions *functions, void *self,
                                                const tn_station_options *options, tn_builder **out);
/* The same of a runner. */
TN_API TN_MUST_USE tn_status *tn_runner_create(const tn_runner_functions *functions, void *self,
                                               const tn_station_options *options, tn_runner **out);
/* Ends all submissions with TN_TRIAL_CANCELLED, in their order, and then what was supplied. Within one of its own
 * callbacks, the object ends when that has returned. NULL is fine. */
TN_API void tn_builder_release(tn_builder *builder);
TN_API void tn_runner_release(tn_runner *runner); /* the same */

/* Never blocks. TN_OUT_OF_RANGE when all places are taken (the message says how many there are): `drained` tells when
 * to try again. TN_FAILED_PRECONDITION when the builder is being released. `handle` may be NULL. The callback is never
 * called before this returns. */
TN_API TN_MUST_USE tn_status *tn_builder_submit(tn_builder *builder, const tn_build_input *input,
                                                tn_build_callback callback, void *user, tn_trial_handle *handle);
/* The same of a run; `build` and its code live until the callback has returned. */
TN_API TN_MUST_USE tn_status *tn_runner_submit(tn_runner *runner, const tn_build_input *input,
                                               const tn_build_result *build, tn_run_callback callback, void *user,
                                               tn_trial_handle *handle);
/* Ends a submission: its callback comes with TN_TRIAL_CANCELLED before this returns. False when it has ended before.
 * The slot is free when what was supplied has told its end. */
TN_API bool tn_builder_cancel(tn_builder *builder, tn_trial_handle handle);
TN_API bool tn_runner_cancel(tn_runner *runner, tn_trial_handle handle); /* the same */
/* For what was supplied: the candidate is done. The result lives for the call. A handle that is not in a slot, told
 * twice or made up, is passed over. An error or a time that is none becomes TN_TRIAL_WORKER_LOST, a text that is NULL
 * "". */
TN_API void tn_builder_finish(tn_builder *builder, tn_trial_handle handle, const tn_build_result *result);
TN_API void tn_runner_finish(tn_runner *runner, tn_trial_handle handle, const tn_run_result *result); /* the same */
/* Delivers the callbacks of results that arrived during a submission, for example of a builder that finishes in
 * `start`, and of those that arrive meanwhile; returns how many it delivered. Call it after submitting to such a
 * builder; measurers and tuners do so themselves. Within a callback of the same builder it returns 0, because the
 * outer call delivers the rest. */
TN_API int tn_builder_poll(tn_builder *builder);
TN_API int tn_runner_poll(tn_runner *runner); /* the same */
/* Stands still while something is timed on its cores: nothing starts, and what runs is paused where the builder can do
 * that. Nested: as many times on as off. */
TN_API void tn_builder_pause(tn_builder *builder, bool pause);
TN_API int tn_builder_slots(const tn_builder *builder); /* as created with */
TN_API int tn_runner_slots(const tn_runner *runner);    /* the same */
TN_API int tn_builder_busy(const tn_builder *builder);  /* slots that are taken now */
TN_API int tn_runner_busy(const tn_runner *runner);     /* the same */

/* ---- worker processes -------------------------------------------------------------------------------------------- */

/* Builders and runners that own processes for their life, and use them for every submission: a compiler that aborts and
 * a kernel that crashes, spins, eats memory or writes over its heap cost one trial and one process, which is replaced.
 * What each kind of error means is in docs/tuning.md, "Workers".
 *
 * They belong to a libuv loop, and call back while it runs. Releasing one ends its processes before it returns; what it
 * leaves is given back when the loop runs next. SIGPIPE is blocked in the thread that creates one. The processes end
 * when that thread does. */
typedef struct tn_worker_options {
  size_t size;                 /* sizeof(tn_worker_options) */
  struct uv_loop_s *loop;      /* a libuv loop of the caller's; outlives what is created */
  const char *program;         /* NULL: $TENON_WORKER, or tenon-tune beside the running program, or in $PATH */
  int workers;                 /* processes, and so slots; 1 to 256; 0: 1 */
  int waiting;                 /* as in tn_station_options, and so the next two */
  void (*drained)(void *user); /* may be NULL */
  void *user;                  /* for drained */
  double wall_seconds;         /* a candidate's limit while it has at least half of a processor; 0: 10 */
  double cpu_seconds;          /* the same of CPU time, of all threads together; 0: no limit */
  uint64_t memory_bytes;       /* that a process may have beyond what it starts with; 0: half of this machine's */
  double prepare_seconds; /* for what is not the candidate's: opening a task, its inputs and right results; 0: 120 */
  const int *cores;       /* that processes may run on; NULL: any */
  int core_count;         /* of them */
  int nice;               /* added to the processes' nice value, 0 to 19 */
} tn_worker_options;

/* What is in the caches when a kernel is called. */
typedef enum tn_cache_state {
  TN_CACHE_WARM = 0, /* what its last call left */
  TN_CACHE_FLUSHED   /* nothing of its buffers, before each call that is timed */
} tn_cache_state;

/* Which candidates' results are compared with those of the declaration's own loops. */
typedef enum tn_verify_mode {
  TN_VERIFY_ALWAYS = 0, /* all */
  TN_VERIFY_FIRST,      /* not those whose very code was compared before by the same process */
  TN_VERIFY_NEVER       /* none */
} tn_verify_mode;

/* How a kernel is timed. Its inputs are made from the seed and the declaration: eighths from -1 to 1, and indices that
 * are within what they choose from. */
typedef struct tn_timing_options {
  size_t size;           /* sizeof(tn_timing_options) */
  double warm_seconds;   /* in which it is called before; 0: 0.003 */
  double least_seconds;  /* of all repeats together; 0: 0.03 */
  int least_repeats;     /* each of as many calls as it takes to get there; 0: 7 */
  int most_repeats;      /* of single calls, where these are long; 0: 50 */
  double most_seconds;   /* after which no repeat begins; a call that takes longer is timed once (warm); 0: 0.5 */
  double noise;          /* spread above which it is measured again; 0: 0.08 */
  int again;             /* how often at the most; 0: 3; -1: never */
  double rest_seconds;   /* without work before the first repeat, for a processor to cool down */
  tn_cache_state cache;  /* what is in the caches at a call */
  tn_verify_mode verify; /* whose results are compared */
  uint64_t seed;         /* of the inputs */
} tn_timing_options;

/* What has become of the processes. */
typedef struct tn_worker_statistics {
  size_t size;  /* sizeof(tn_worker_statistics), set by the caller */
  int workers;  /* that there are to be */
  int started;  /* so far, with those that were replaced */
  int replaced; /* as they ended, or had to be ended */
  bool ended;   /* they ended several times at their start: no more are started, and all trials end with
                   TN_TRIAL_WORKER_LOST */
} tn_worker_statistics;

/* Builds candidates for CPUs: tasks may not be NULL. TN_NOT_FOUND when there is no program. */
TN_API TN_MUST_USE tn_status *tn_worker_builder_create(const tn_worker_options *options, tn_builder **out);
/* Times them on this machine. `timing` may be NULL. */
TN_API TN_MUST_USE tn_status *tn_worker_runner_create(const tn_worker_options *options, const tn_timing_options *timing,
                                                      tn_runner **out);
/* Fills *out, whose `size` is set. TN_FAILED_PRECONDITION when the builder owns no processes. */
TN_API TN_MUST_USE tn_status *tn_worker_builder_statistics(const tn_builder *builder, tn_worker_statistics *out);
TN_API TN_MUST_USE tn_status *tn_worker_runner_statistics(const tn_runner *runner,
                                                          tn_worker_statistics *out); /* the same */

/* ---- functions that block ---------------------------------------------------------------------------------------- */

/* Builders and runners whose function does one candidate and returns when it is done: each call has a thread of the
 * library's own, as many as there are slots, and the loop never waits for them. Who has an event loop of its own, or
 * answers later, takes tn_builder_functions instead. */
typedef struct tn_thread_builder_functions {
  size_t size; /* sizeof(tn_thread_builder_functions) */
  /* Builds the candidate and fills in what came of it, which is zero before. Called in several threads at once where
   * there are several slots. What `input` points to lives for the call. */
  void (*build)(void *self, const tn_build_input *input, tn_build_result *result);
  /* What `result` points to is not needed any more; called in the thread of its `build`. May be NULL. */
  void (*dispose)(void *self, tn_build_result *result);
  void (*release)(void *self); /* ends it; called once, after all others, in any thread. May be NULL */
} tn_thread_builder_functions;

/* The same for runners. */
typedef struct tn_thread_runner_functions {
  size_t size; /* sizeof(tn_thread_runner_functions) */
  /* Times what was built, and fills in what came of it. */
  void (*run)(void *self, const tn_build_input *input, const tn_build_result *build, tn_run_result *result);
  void (*dispose)(void *self, tn_run_result *result); /* as a builder's */
  void (*release)(void *self);                        /* as a builder's */
} tn_thread_runner_functions;

/* Their threads. A signal is for the program's threads, and blocked in them. */
typedef struct tn_thread_options {
  size_t size;                 /* sizeof(tn_thread_options) */
  struct uv_loop_s *loop;      /* a libuv loop of the caller's; outlives what is created */
  int threads;                 /* and so slots; 1 to 256; 0: 1 */
  int waiting;                 /* as in tn_station_options, and so the next two */
  void (*drained)(void *user); /* may be NULL */
  void *user;                  /* for drained */
} tn_thread_options;

/* `self` belongs to the builder from now on, as of tn_builder_create(). Cancelling and releasing wait for nothing: a
 * call that has begun runs to its end, unseen, and `release` comes after the last one, which may be later. */
TN_API TN_MUST_USE tn_status *tn_thread_builder_create(const tn_thread_builder_functions *functions, void *self,
                                                       const tn_thread_options *options, tn_builder **out);
/* The same of a runner. */
TN_API TN_MUST_USE tn_status *tn_thread_runner_create(const tn_thread_runner_functions *functions, void *self,
                                                      const tn_thread_options *options, tn_runner **out);

/* ---- the measurer ------------------------------------------------------------------------------------------------ */

/* When a source is asked for candidates, and when they wait for each other. */
typedef enum tn_measure_mode {
  /* As soon as there is room: builds run ahead of runs by the window, and nothing waits for all. */
  TN_MEASURE_ASYNC = 0,
  /* A round at a time; in it builds and runs overlap, and there is one wait at its end. */
  TN_MEASURE_BATCHED,
  /* A round at a time: all of it is built, and then all of it is run. */
  TN_MEASURE_BLOCKING
} tn_measure_mode;

/* What came of one candidate: a build, and a run when that went well. */
typedef struct tn_measure_result {
  tn_trial_error error;      /* of the build, or else of the run */
  const char *message;       /* of that error */
  tn_build_result build;     /* without code and trace */
  tn_run_result run;         /* zero where nothing ran */
  int runner;                /* that ran it; -1: none did */
  double asked;              /* when the source was asked for it, by the measurer's clock */
  double build_start, built; /* when it got to the builder, and came back */
  double run_start, ended;   /* the same of the runner; `ended` is when all was known */
} tn_measure_result;

/* What a source answers. */
typedef enum tn_source_answer {
  TN_SOURCE_CANDIDATE, /* *input is filled in */
  TN_SOURCE_WAIT,      /* nothing now: ask again when a result has come, or after tn_measurer_wake() */
  TN_SOURCE_END        /* nothing any more */
} tn_source_answer;

/* Where candidates come from and where results go: a search. Both functions are called in the loop's thread. */
typedef struct tn_measure_source {
  /* Fills in a candidate when there is one. */
  tn_source_answer (*next)(void *user, tn_build_input *input);
  /* Exactly once for each candidate that `next` gave. */
  void (*done)(void *user, const tn_build_input *input, const tn_measure_result *result);
  void *user; /* for both */
} tn_measure_source;

/* How a measurer works. */
typedef struct tn_measure_options {
  size_t size;          /* sizeof(tn_measure_options) */
  tn_measure_mode mode; /* what waits for what */
  int window; /* most candidates that are built, or being built, and wait for a runner (ASYNC); 0: 16, and at least as
                 many as the builder and the runners have slots */
  int round;  /* candidates of a round (others); 0: 64 */
  bool exclusive;              /* the builder is paused while anything runs: they share cores */
  double (*clock)(void *user); /* seconds; NULL: this machine's monotonic clock */
  void *clock_user;            /* for clock */
  /* Called when there is nothing left to wait for: the source has ended, or was stopped, and all results were told. May
   * be NULL. */
  void (*idle)(void *user);
  void *user; /* for idle */
} tn_measure_options;

/* How busy all were, up to now. */
typedef struct tn_measure_statistics {
  size_t size;                        /* sizeof(tn_measure_statistics), set by the caller */
  int64_t asked, built, ended;        /* candidates */
  int64_t errors[TN_TRIAL_ERRORS];    /* ended so */
  double seconds;                     /* since the measurer was started */
  double build_seconds, run_seconds;  /* slots' seconds in which they were busy */
  double builder_share, runner_share; /* of the time of all slots */
} tn_measure_statistics;

typedef struct tn_measurer tn_measurer; /* brings candidates from a source through a builder and runners */

/* Builder and runners stay the caller's and outlive the measurer; nobody else submits to them meanwhile. */
TN_API TN_MUST_USE tn_status *tn_measurer_create(tn_builder *builder, tn_runner *const *runners, int runner_count,
                                                 const tn_measure_source *source, const tn_measure_options *options,
                                                 tn_measurer **out);
/* Cancels what is in flight, whose results are told, and asks no more. NULL is fine. Within one of its own callbacks,
 * the object ends when that has returned. */
TN_API void tn_measurer_release(tn_measurer *measurer);
/* Begins to ask the source. */
TN_API void tn_measurer_start(tn_measurer *measurer);
/* The source that answered TN_SOURCE_WAIT has something again. */
TN_API void tn_measurer_wake(tn_measurer *measurer);
/* Asks for nothing more; what is in flight is finished, or, with `now`, cancelled. */
TN_API void tn_measurer_stop(tn_measurer *measurer, bool now);
TN_API bool tn_measurer_is_idle(const tn_measurer *measurer); /* nothing in flight, and nothing to ask for */
/* Fills *out, whose `size` is set. */
TN_API TN_MUST_USE tn_status *tn_measurer_statistics(const tn_measurer *measurer, tn_measure_statistics *out);

/* ---- the tuner --------------------------------------------------------------------------------------------------- */

/* All of `tenon tune`:
 *
 *   tn_tuner_options options = {.size = sizeof options, .budget_seconds = 600};
 *   tn_tuner_create(&options, &tuner);
 *   tn_tuner_add_model(tuner, "model.onnx", NULL, 0, NULL, &compile, NULL);
 *   tn_tuner_run(tuner);                                // or tn_tuner_start() on a loop of the caller's
 *   tn_tuner_save(tuner, "model.schedules", NULL);      // for tn_compile_options.tuned
 *   tn_tuner_release(tuner);
 *
 * How it decides is in docs/tuning.md. A tuner is used by one thread at a time, and by that of its loop while it works;
 * tn_tuner_stop() may be called from any thread and from handlers of signals. */
typedef struct tn_tuner tn_tuner;

/* How candidates are chosen. */
typedef enum tn_tuner_search {
  TN_SEARCH_EVOLUTION = 0, /* from the static choice on, by what was measured */
  TN_SEARCH_RANDOM,        /* by chance alone, to compare searches with */
  TN_SEARCH_EXHAUSTIVE     /* all of about `points` points around each static choice: tn_tuner_save_table() */
} tn_tuner_search;

/* What a tuner does. Texts are copied. */
typedef struct tn_tuner_options {
  size_t size; /* sizeof(tn_tuner_options) */
  /* The end, whichever comes first; without any it goes on until no kernel gains any more. */
  double budget_seconds; /* of trials and comparisons, those of earlier tunings of the same kernels counted; 0: none */
  int64_t trials;        /* of all kernels, those that are known counted; 0: no limit */
  double target_speedup; /* of all kernels together over their static choices; above 1; 0: none */
  int patience;          /* trials of a kernel that gain less than a hundredth, after which it gets no more; 0: 128 */
  /* The search. */
  tn_tuner_search search; /* how candidates are chosen */
  int64_t points;         /* of each kernel's space (TN_SEARCH_EXHAUSTIVE); 0: all of it */
  uint64_t seed;          /* of what the search draws */
  bool draws_seed;        /* another seed each time instead, so that several tuners differ */
  bool no_comparison;     /* the best candidates are taken without being timed beside the static choices */
  bool no_seeds;          /* searches begin without candidates that were fast for similar kernels, or elsewhere */
  /* Nothing is built or timed: kernels take what the static cost function and the seed say, on a clock that jumps. The
   * same options, files and seed give the same candidates in the same order and the same schedules, which mean nothing
   * for any machine. Records are kept only where `database` names a file, are not verified, and are of a machine
   * "simulated". */
  bool deterministic;
  /* Measuring. */
  tn_measure_mode mode; /* whether candidates wait for each other */
  int window, round;    /* as in tn_measure_options */
  int builders;         /* worker processes that compile; 0: one for each core that no kernel is timed on */
  tn_cache_state cache; /* at each call that is timed */
  const char *program;  /* of worker processes, as in tn_worker_options */
  /* Records. */
  const char *database;    /* NULL: the usual file (tn_database_open()) */
  bool no_database;        /* nothing is kept, and nothing known */
  const char *fingerprint; /* of the machine that the runners time on; NULL: this one's */
  /* Telling. */
  struct uv_loop_s *loop; /* a libuv loop of the caller's, which outlives the tuner; NULL: one of its own */
  const tn_log_sink *log; /* of warnings; copied; NULL: nothing is told */
  /* Called in the loop's thread while it works, and once when it is done: tn_tuner_look() tells what there is to see.
   * It may stop the tuner, and nothing else. May be NULL. */
  void (*progress)(void *user, const tn_tuner *tuner);
  void *user;              /* for progress */
  double progress_seconds; /* between two calls; 0: 0.25 */
} tn_tuner_options;

/* Nothing is opened or started yet. */
TN_API TN_MUST_USE tn_status *tn_tuner_create(const tn_tuner_options *options, tn_tuner **out);
/* Stops at once, if it works, and ends the builder and the runners. Not within a callback. On a loop of the caller's
 * what it leaves is given back when that runs next. NULL is fine. */
TN_API void tn_tuner_release(tn_tuner *tuner);

/* Adds the kernels of a model, which is read as by tn_compile(): from the file `path`, or from `data` if that is not
 * NULL. `kernel` says how names of kernels begin; NULL: all. Kernels of open sizes are left out, and `left_out` (may be
 * NULL) counts them: the options' dims fix sizes. Equal kernels are tuned once. */
TN_API TN_MUST_USE tn_status *tn_tuner_add_model(tn_tuner *tuner, const char *path, const void *data, size_t size,
                                                 const char *kernel, const tn_compile_options *options, int *left_out);
/* Adds the kernels of declarations (docs/te-language.md): of the file `path`, or of `text` if that is not NULL, which
 * imports nothing. `kernel` names one; NULL: all. Reads only the options `target`, `dims`, `run_threads`, `machine`,
 * `no_measure` and `log`. Skips kernels with open dimensions with a warning; rejects a file in which all kernels have
 * open dimensions. */
TN_API TN_MUST_USE tn_status *tn_tuner_add_declarations(tn_tuner *tuner, const char *path, const char *text,
                                                        size_t size, const char *kernel,
                                                        const tn_compile_options *options);
/* The loop that builders and runners of this tuner belong to: the caller's, or its own. */
TN_API struct uv_loop_s *tn_tuner_loop(tn_tuner *tuner);
/* Takes a builder for worker processes' place, or a runner (several: each call adds one). They belong to the tuner from
 * now on, also when it refuses them, as it does once it has begun (TN_FAILED_PRECONDITION). */
TN_API TN_MUST_USE tn_status *tn_tuner_use_builder(tn_tuner *tuner, tn_builder *builder);
TN_API TN_MUST_USE tn_status *tn_tuner_use_runner(tn_tuner *tuner, tn_runner *runner); /* the same */

/* Begins, once; `done` (may be NULL) is called in the loop's thread when it has ended, and not if this fails. Errors:
 * no kernels or options that make no sense (TN_INVALID_ARGUMENT), a target that this machine does not run
 * (TN_UNSUPPORTED) and no worker program (TN_NOT_FOUND), both without builders and runners of the caller's, and those
 * of tn_database_open(). */
TN_API TN_MUST_USE tn_status *tn_tuner_start(tn_tuner *tuner, void (*done)(void *user, tn_tuner *tuner), void *user);
/* The same, and runs the loop until it has ended: tn_tuner_start() and then tn_tuner_result(). The caller's loop must
 * not be running. */
TN_API TN_MUST_USE tn_status *tn_tuner_run(tn_tuner *tuner);
/* Asks for the end: what is in flight is finished, the best are compared; or, `at_once`, all that is in flight is
 * cancelled. What has ended is kept in either case. From any thread, and from handlers of signals; also before it has
 * begun. */
TN_API void tn_tuner_stop(tn_tuner *tuner, bool at_once);

/* Why a tuner ended. */
typedef enum tn_tuner_end {
  TN_TUNER_WORKS = 0,       /* it has not */
  TN_TUNER_BUDGET,          /* the time is spent */
  TN_TUNER_TRIALS,          /* there were as many trials */
  TN_TUNER_SPEEDUP,         /* the speedup is reached */
  TN_TUNER_NOTHING_LEFT,    /* all kernels are out of patience, or of candidates */
  TN_TUNER_STOPPED,         /* by tn_tuner_stop() */
  TN_TUNER_STOPPED_AT_ONCE, /* the same; not all that was found was compared */
  TN_TUNER_FAILED           /* tn_tuner_result() tells why */
} tn_tuner_end;

/* What a tuner does now. */
typedef enum tn_tuner_phase {
  TN_TUNER_NOT_BEGUN = 0, /* kernels may be added */
  TN_TUNER_MEASURES,      /* candidates */
  TN_TUNER_COMPARES,      /* the best candidates with the static choices */
  TN_TUNER_DONE           /* nothing any more */
} tn_tuner_phase;

/* NULL when all went well, also when it was stopped; else a copy of what went wrong while it worked: a database that
 * cannot be written, workers that do not start. */
TN_API TN_MUST_USE tn_status *tn_tuner_result(const tn_tuner *tuner);

/* What there is to see of all kernels together. Times are seconds. */
typedef struct tn_tuner_view {
  size_t size;           /* sizeof(tn_tuner_view), set by the caller */
  tn_tuner_phase phase;  /* what it does */
  tn_tuner_end end;      /* why it ended */
  int tasks;             /* kernels: tn_tuner_look_at() */
  int64_t trials;        /* that have ended in this tuning */
  int64_t known;         /* that were known before */
  double seconds;        /* of trials, in this tuning */
  double spent;          /* of the budget, with what earlier tunings took */
  double left;           /* until the end, estimated; INFINITY: nobody knows */
  double builder_share;  /* of the builders' time in which they were busy, 0 to 1 */
  double runner_share;   /* the same of the runners */
  double static_seconds; /* of one run of all kernels with the static choices; INFINITY: not known */
  double best_seconds;   /* the same with the best, or, when it is done, with what is shown to be better */
  int64_t seeds;         /* candidates that searches began with, as they were fast for similar kernels or elsewhere */
  int seeded;            /* kernels that have some */
  double overhead;       /* share of the seconds that search and database took in the loop's thread */
  double beside;         /* share of a core that the thread took that learns and proposes meanwhile */
} tn_tuner_view;

/* What there is to see of a kernel. Texts live until the tuner goes on or is released. */
typedef struct tn_task_view {
  size_t size;              /* sizeof(tn_task_view), set by the caller */
  const tn_tune_task *task; /* what it is */
  double weight;            /* calls of it in a run of each model and declaration */
  double static_seconds;    /* of one call with the static choice; INFINITY: not known, or it failed */
  double best_seconds;      /* the same of the best; compared: in turns, of what is better */
  int64_t trials;           /* that have ended, with those that were known before */
  const int64_t *errors;    /* TN_TRIAL_ERRORS of them: how many of this tuning's trials ended so */
  const char *first_error;  /* text of this tuning's first failure; NULL: none */
  bool stopped;             /* it gets no more trials */
  bool compared;            /* the best was timed in turns with the static choice */
  bool better;              /* and is faster: tn_tuner_save() writes it. Without comparisons: it is, by its time */
  double ratio;             /* of the best to the static choice there */
  int best;                 /* number of the best candidate: 0 is the static choice; -1: none works so far */
  const char *rule;         /* of the best candidate: "contraction"; NULL: none works */
  const char *decisions;    /* of the rule: "rows 14, vectors 2" */
  const char *trace;        /* its steps (docs/schedule.md) */
  /* How well the times of candidates were predicted; known when the trials have ended, from eight of them on, else
   * NAN. */
  double correlation; /* Spearman's, of predicted and measured times: 1 is the same order */
  double recall;      /* share of the fastest tenth, of four at least, that are among as many predicted fastest */
  bool exhausted;     /* it gets no more trials: all candidates of its rules are measured */
} tn_task_view;

/* Fills *out, whose `size` is set. */
TN_API TN_MUST_USE tn_status *tn_tuner_look(const tn_tuner *tuner, tn_tuner_view *out);
/* The same of a kernel, 0 to `tasks` - 1, in the order in which they were added (TN_OUT_OF_RANGE). */
TN_API TN_MUST_USE tn_status *tn_tuner_look_at(const tn_tuner *tuner, int task, tn_task_view *out);

/* The schedules that are better, as a text that the compiler reads (docs/tuning-records.md), freed with free(); `count`
 * (may be NULL) is how many. TN_FAILED_PRECONDITION before it is done. After TN_TUNER_STOPPED_AT_ONCE and
 * TN_TUNER_FAILED not all that is known was compared. */
TN_API TN_MUST_USE tn_status *tn_tuner_schedules(const tn_tuner *tuner, char **text, int *count);
/* The same to a file, which is written whole or not at all. */
TN_API TN_MUST_USE tn_status *tn_tuner_save(const tn_tuner *tuner, const char *path, int *count);
/* The table of a kernel whose space was gone through (TN_SEARCH_EXHAUSTIVE), compressed. TN_FAILED_PRECONDITION: not
 * all of it was measured. TN_NOT_FOUND: no candidate of it works. */
TN_API TN_MUST_USE tn_status *tn_tuner_save_table(const tn_tuner *tuner, int task, const char *path);

/* ---- a simulator ------------------------------------------------------------------------------------------------- */

/* Builders and runners that take time and do nothing, on a clock of their own that jumps from one event to the next:
 * what the scheduling of a measurer is worth is computed exactly, and the same for the same seed. */
typedef struct tn_simulator tn_simulator;

/* How long a thing takes: a lognormal distribution, by its mean and standard deviation in seconds, or, with `ratio`
 * above 1, evenly spread in the logarithm from `mean / sqrt(ratio)` to `mean * sqrt(ratio)`. */
typedef struct tn_time_distribution {
  double mean;          /* above 0 */
  double deviation;     /* at least 0; 0: all take the mean */
  double ratio;         /* of the longest to the shortest; 0: lognormal */
  double failures;      /* share of trials that fail, 0 to 1, with `error` */
  tn_trial_error error; /* TN_TRIAL_OK: of builds HOST_COMPILE, of runs RUN_TIME */
} tn_time_distribution;

/* Its clock is at 0. */
TN_API TN_MUST_USE tn_status *tn_simulator_create(uint64_t seed, tn_simulator **out);
/* After its builders and runners. NULL is fine. */
TN_API void tn_simulator_release(tn_simulator *simulator);
/* The time that a candidate takes depends on the seed, its id and the distribution, and not on when it comes or where
 * it goes: different measurers are compared on the same times. */
TN_API TN_MUST_USE tn_status *tn_simulator_builder(tn_simulator *simulator, const tn_time_distribution *times,
                                                   const tn_station_options *options, tn_builder **out);
TN_API TN_MUST_USE tn_status *tn_simulator_runner(tn_simulator *simulator, const tn_time_distribution *times,
                                                  const tn_station_options *options, tn_runner **out); /* the same */
/* What a builder (or, with `run`, a runner) of this distribution takes for a candidate, in seconds. */
TN_API double tn_simulator_duration(const tn_simulator *simulator, const tn_time_distribution *times, uint64_t id,
                                    bool run);
TN_API double tn_simulator_now(void *simulator); /* seconds since 0; a measurer's clock */
/* Goes on to the next event; false when there is none. */
TN_API bool tn_simulator_step(tn_simulator *simulator);

#ifdef __cplusplus
}
#endif
#endif
