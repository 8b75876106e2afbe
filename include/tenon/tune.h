/* Tuning: building and timing candidates for the schedules of kernels, and keeping what was found. Link libtenon_tune.
 *
 * Three parts measure, each usable alone:
 *  - a *builder* makes code of candidates, a few at a time;
 *  - a *runner* times code on a device, a few at a time (mostly one);
 *  - a *measurer* asks a source for candidates, gives them to a builder, gives what was built to runners, and tells the
 *    source what came out. It alone knows what waits for what.
 * Submitting never blocks, and each submission has exactly one callback, also when it is cancelled or its builder or
 * runner is released. The builders and runners of this library own worker processes (tn_worker_builder,
 * tn_worker_runner); a program may supply its own (tn_builder_create, tn_runner_create), and tn_simulator has some that
 * only take time, on a clock of its own.
 *
 * The design is that of TVM's meta-schedule (Shao et al., NeurIPS 2022) without its barriers: there a whole batch is
 * built, then a whole batch is run.
 *
 * Threads: a builder, its runners and their measurer belong to one thread, that of their event loop, and call back in
 * it. A callback may submit, cancel and release.
 * Everything here is since 0.2. */
#ifndef TENON_TUNE_H
#define TENON_TUNE_H

#include "tenon/base.h"

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
 * one tn_builder_finish(), in `start` itself or later. All functions are called in the loop's thread. */
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
  double wall_seconds;         /* that a candidate may take; 0: 10 */
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
