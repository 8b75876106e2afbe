// SPDX-License-Identifier: Apache-2.0
/* The C half of tenon.tune(): tn_tuner of <tenon/tune.h>. What a person types is in tuning.py, which also makes tuples
 * of what builders and runners written in Python are given and answer, and records of what they raise.
 *
 * A tuner works in the thread that called run(), without Python's lock. It takes that to look for signals and to tell
 * how far it is; builders and runners of Python's are called in threads of the library's, each with the lock. */
#include "common.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/tune.h"

typedef struct module_state {
  PyObject *error; /* tenon.Error */
  PyObject *tuner_type;
} module_state;

typedef struct tuner_object {
  PyObject_HEAD tn_tuner *tuner;
  binding_warnings *warnings;
  PyObject *progress;  /* called with nothing; NULL: nothing is told */
  PyObject *raised[3]; /* what a handler of signals, or the progress, raised */
  bool runs;
} tuner_object;

static module_state *state_of(PyObject *tuner) { return PyType_GetModuleState(Py_TYPE(tuner)); }

static PyObject *done(tuner_object *t, tn_status *status) {
  if (status != NULL) return binding_raise(state_of((PyObject *)t)->error, status);
  return binding_tell_warnings(t->warnings) ? Py_NewRef(Py_None) : NULL;
}

/* ---- builders and runners ---------------------------------------------------------------------------------------- */

static const char no_answer[] = "the Python package could not answer: it is out of memory, or Python is ending";

/* The function's answer to the arguments, which it takes; NULL without one. No Python code is to raise here: what
 * builders and runners raise is an answer (tuning.py). */
static PyObject *ask(PyObject *function, PyObject *arguments) {
  PyObject *answer = arguments != NULL ? PyObject_CallObject(function, arguments) : NULL;
  Py_XDECREF(arguments);
  if (answer == NULL) PyErr_Clear();
  return answer;
}

static PyObject *input_tuple(const tn_build_input *input) {
  static const tn_tune_task none = {.name = "", .declaration = "", .target = ""};
  const tn_tune_task *task = input->task != NULL ? input->task : &none;
  return Py_BuildValue("(KsszsiOzsd)", (unsigned long long)input->id, task->name, task->declaration, task->machine,
                       task->target, task->threads, task->results_read ? Py_True : Py_False, input->rule,
                       input->schedule, input->slow_seconds);
}

/* Texts and code go into one piece of memory, which begins with the message. */
static void answer_build(PyObject *answer, tn_build_result *result) {
  const char *message = NULL, *trace = NULL, *code = NULL;
  Py_ssize_t code_size = 0;
  int error = 0;
  long long workspace = 0;
  *result = (tn_build_result){.error = TN_TRIAL_WORKER_LOST, .message = no_answer};
  if (answer == NULL) return;
  if (!PyArg_ParseTuple(answer, "isdy#Lsi", &error, &message, &result->seconds, &code, &code_size, &workspace, &trace,
                        &result->buffer_count)) {
    PyErr_Clear();
    return;
  }
  size_t words = strlen(message) + 1, steps = strlen(trace) + 1;
  char *memory = malloc(words + steps + (size_t)code_size);
  if (memory == NULL) return;
  memcpy(memory, message, words);
  memcpy(memory + words, trace, steps);
  memcpy(memory + words + steps, code, (size_t)code_size);
  result->error = (tn_trial_error)error;
  result->message = memory;
  result->trace = memory + words;
  result->code = memory + words + steps;
  result->code_size = (size_t)code_size;
  result->workspace_bytes = workspace;
}

static void build(void *self, const tn_build_input *input, tn_build_result *result) {
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *answer = ask(self, Py_BuildValue("(N)", input_tuple(input)));
  answer_build(answer, result);
  Py_XDECREF(answer);
  PyGILState_Release(state);
}

static void dispose_build(void *self, tn_build_result *result) {
  if (result->message != no_answer) free((void *)(uintptr_t)result->message);
}

static void answer_run(PyObject *answer, tn_run_result *result) {
  const char *message = NULL;
  int error = 0, verified = 0;
  long long calls = 0;
  *result = (tn_run_result){.error = TN_TRIAL_WORKER_LOST, .message = no_answer};
  if (answer == NULL) return;
  if (!PyArg_ParseTuple(answer, "isdddLp", &error, &message, &result->seconds, &result->median, &result->spread, &calls,
                        &verified)) {
    PyErr_Clear();
    return;
  }
  char *memory = strdup(message);
  if (memory == NULL) return;
  result->error = (tn_trial_error)error;
  result->message = memory;
  result->calls = calls;
  result->verified = verified != 0;
}

static void run(void *self, const tn_build_input *input, const tn_build_result *made, tn_run_result *result) {
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *built =
      Py_BuildValue("(dy#Lsi)", made->seconds, (const char *)made->code, (Py_ssize_t)made->code_size,
                    (long long)made->workspace_bytes, made->trace != NULL ? made->trace : "", made->buffer_count);
  PyObject *answer = ask(self, Py_BuildValue("(NN)", input_tuple(input), built));
  answer_run(answer, result);
  Py_XDECREF(answer);
  PyGILState_Release(state);
}

static void dispose_run(void *self, tn_run_result *result) {
  if (result->message != no_answer) free((void *)(uintptr_t)result->message);
}

/* At the end of the process there may be no interpreter any more. */
static void release(void *self) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF((PyObject *)self);
  PyGILState_Release(state);
}

static PyObject *use_builder(PyObject *self, PyObject *args) {
  static const tn_thread_builder_functions functions = {
      .size = sizeof(functions), .build = build, .dispose = dispose_build, .release = release};
  tuner_object *t = (tuner_object *)self;
  PyObject *function;
  tn_thread_options options = {.size = sizeof(options), .loop = tn_tuner_loop(t->tuner)};
  if (!PyArg_ParseTuple(args, "Oi:use_builder", &function, &options.threads)) return NULL;
  tn_builder *builder;
  tn_status *status = tn_thread_builder_create(&functions, Py_NewRef(function), &options, &builder);
  if (status == NULL) status = tn_tuner_use_builder(t->tuner, builder);
  return done(t, status);
}

static PyObject *use_runner(PyObject *self, PyObject *args) {
  static const tn_thread_runner_functions functions = {
      .size = sizeof(functions), .run = run, .dispose = dispose_run, .release = release};
  tuner_object *t = (tuner_object *)self;
  PyObject *function;
  tn_thread_options options = {.size = sizeof(options), .loop = tn_tuner_loop(t->tuner)};
  if (!PyArg_ParseTuple(args, "Oi:use_runner", &function, &options.threads)) return NULL;
  tn_runner *runner;
  tn_status *status = tn_thread_runner_create(&functions, Py_NewRef(function), &options, &runner);
  if (status == NULL) status = tn_tuner_use_runner(t->tuner, runner);
  return done(t, status);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static void on_progress(void *user, const tn_tuner *tuner);

static bool open_tuner(tuner_object *t, const tn_tuner_options *given) {
  tn_tuner_options options = *given;
  t->warnings = binding_new_warnings();
  if (t->warnings == NULL) {
    PyErr_NoMemory();
    return false;
  }
  options.log = &t->warnings->sink;
  options.progress = on_progress;
  options.progress_seconds = 0.05; /* so often is looked for signals */
  options.user = t;
  tn_status *status = tn_tuner_create(&options, &t->tuner);
  if (status != NULL) binding_raise(state_of((PyObject *)t)->error, status);
  return status == NULL;
}

/* tuner(words): the options as a tuple, in the order of the fields. */
static PyObject *tuner(PyObject *self, PyObject *args) {
  module_state *state = PyModule_GetState(self);
  int search, mode, cold, no_comparison, deterministic, draws_seed, no_database;
  long long trials, points;
  unsigned long long seed;
  tn_tuner_options o = {.size = sizeof(o)};
  if (!PyArg_ParseTuple(args, "dLdiiLKppppiiiipzzz:tuner", &o.budget_seconds, &trials, &o.target_speedup, &o.patience,
                        &search, &points, &seed, &draws_seed, &no_comparison, &deterministic, &cold, &mode, &o.window,
                        &o.round, &o.builders, &no_database, &o.database, &o.program, &o.fingerprint))
    return NULL;
  o.trials = trials;
  o.search = (tn_tuner_search)search;
  o.points = points;
  o.seed = seed;
  o.draws_seed = draws_seed != 0;
  o.no_comparison = no_comparison != 0;
  o.deterministic = deterministic != 0;
  o.cache = cold ? TN_CACHE_FLUSHED : TN_CACHE_WARM;
  o.mode = (tn_measure_mode)mode;
  o.no_database = no_database != 0;
  PyTypeObject *type = (PyTypeObject *)state->tuner_type;
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  tuner_object *t = (tuner_object *)allocate(type, 0);
  if (t == NULL || open_tuner(t, &o)) return (PyObject *)t;
  Py_DECREF(t);
  return NULL;
}

static void drop_raised(tuner_object *t) {
  for (int i = 0; i < 3; i++) Py_CLEAR(t->raised[i]);
}

static void tuner_dealloc(PyObject *self) {
  tuner_object *t = (tuner_object *)self;
  PyTypeObject *type = Py_TYPE(self);
  /* Threads that end take the lock to drop their functions. */
  Py_BEGIN_ALLOW_THREADS tn_tuner_release(t->tuner);
  Py_END_ALLOW_THREADS binding_free_warnings(t->warnings);
  Py_CLEAR(t->progress);
  drop_raised(t);
  freefunc free_self = (freefunc)PyType_GetSlot(type, Py_tp_free);
  free_self(self);
  Py_DECREF(type);
}

static PyObject *add_model(PyObject *self, PyObject *args) {
  tuner_object *t = (tuner_object *)self;
  binding_options given;
  PyObject *fields;
  const char *path, *data, *kernel;
  Py_ssize_t size;
  int left_out = 0;
  if (!PyArg_ParseTuple(args, "sz#zO!:add_model", &path, &data, &size, &kernel, &PyDict_Type, &fields)) return NULL;
  if (!binding_read_options(fields, &given)) return NULL;
  given.options.log = &t->warnings->sink;
  tn_status *status;
  Py_BEGIN_ALLOW_THREADS status =
      tn_tuner_add_model(t->tuner, path, data, (size_t)size, kernel, &given.options, &left_out);
  Py_END_ALLOW_THREADS binding_free_options(&given);
  PyObject *told = done(t, status);
  if (told == NULL) return NULL;
  Py_DECREF(told);
  return PyLong_FromLong(left_out);
}

static PyObject *add_declarations(PyObject *self, PyObject *args) {
  tuner_object *t = (tuner_object *)self;
  binding_options given;
  PyObject *fields;
  const char *path, *text, *kernel;
  Py_ssize_t size;
  if (!PyArg_ParseTuple(args, "sz#zO!:add_declarations", &path, &text, &size, &kernel, &PyDict_Type, &fields))
    return NULL;
  if (!binding_read_options(fields, &given)) return NULL;
  tn_status *status;
  Py_BEGIN_ALLOW_THREADS status = tn_tuner_add_declarations(t->tuner, path, text, (size_t)size, kernel, &given.options);
  Py_END_ALLOW_THREADS binding_free_options(&given);
  return done(t, status);
}

/* ---- working ----------------------------------------------------------------------------------------------------- */

static void keep_raised(tuner_object *t) {
  drop_raised(t);
  PyErr_Fetch(&t->raised[0], &t->raised[1], &t->raised[2]);
  tn_tuner_stop(t->tuner, true);
}

/* Python tells the main thread alone of signals. What a handler raises, as Ctrl-C does, ends the tuning at once. */
static void on_progress(void *user, const tn_tuner *tuner) {
  tuner_object *t = user;
  PyGILState_STATE state = PyGILState_Ensure();
  if (t->raised[0] == NULL && PyErr_CheckSignals() != 0) keep_raised(t);
  if (t->raised[0] == NULL && t->progress != NULL) {
    PyObject *answer = PyObject_CallObject(t->progress, NULL);
    if (answer == NULL)
      keep_raised(t);
    else if (answer == Py_False)
      tn_tuner_stop(t->tuner, false);
    Py_XDECREF(answer);
  }
  PyGILState_Release(state);
}

static PyObject *run_all(PyObject *self, PyObject *progress) {
  tuner_object *t = (tuner_object *)self;
  tn_status *status;
  if (t->runs) {
    PyErr_SetString(PyExc_RuntimeError, "the tuner works already");
    return NULL;
  }
  t->progress = progress != Py_None ? Py_NewRef(progress) : NULL;
  t->runs = true;
  Py_BEGIN_ALLOW_THREADS status = tn_tuner_run(t->tuner);
  Py_END_ALLOW_THREADS t->runs = false;
  Py_CLEAR(t->progress);
  if (t->raised[0] == NULL) return done(t, status);
  tn_status_free(status);
  PyErr_Restore(t->raised[0], t->raised[1], t->raised[2]);
  t->raised[0] = t->raised[1] = t->raised[2] = NULL;
  return NULL;
}

static PyObject *stop(PyObject *self, PyObject *at_once) {
  int truth = PyObject_IsTrue(at_once);
  if (truth < 0) return NULL;
  tn_tuner_stop(((tuner_object *)self)->tuner, truth != 0);
  return Py_NewRef(Py_None);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

static PyObject *look(PyObject *self, PyObject *unused) {
  tuner_object *t = (tuner_object *)self;
  tn_tuner_view v = {.size = sizeof(v)};
  tn_status *status = tn_tuner_look(t->tuner, &v);
  if (status != NULL) return done(t, status);
  return Py_BuildValue("(iiiLLddddddd)", (int)v.phase, (int)v.end, v.tasks, (long long)v.trials, (long long)v.known,
                       v.seconds, v.spent, v.left, v.builder_share, v.runner_share, v.static_seconds, v.best_seconds);
}

static PyObject *errors_of(const tn_task_view *v) {
  PyObject *errors = PyDict_New();
  for (int i = TN_TRIAL_OK + 1; errors != NULL && i < TN_TRIAL_ERRORS; i++) {
    if (v->errors[i] == 0) continue;
    PyObject *count = PyLong_FromLongLong(v->errors[i]);
    if (count == NULL || PyDict_SetItemString(errors, tn_trial_error_name((tn_trial_error)i), count) != 0)
      Py_CLEAR(errors);
    Py_XDECREF(count);
  }
  return errors;
}

static PyObject *look_at(PyObject *self, PyObject *index) {
  tuner_object *t = (tuner_object *)self;
  tn_task_view v = {.size = sizeof(v)};
  long task = PyLong_AsLong(index);
  if (task == -1 && PyErr_Occurred()) return NULL;
  tn_status *status = tn_tuner_look_at(t->tuner, task < 0 || task > INT_MAX ? -1 : (int)task, &v);
  if (status != NULL) return done(t, status);
  PyObject *errors = errors_of(&v);
  if (errors == NULL) return NULL;
  return Py_BuildValue("(sssidddLNzOOOdzzz)", v.task->name, v.task->declaration, v.task->target, v.task->threads,
                       v.weight, v.static_seconds, v.best_seconds, (long long)v.trials, errors, v.first_error,
                       v.stopped ? Py_True : Py_False, v.compared ? Py_True : Py_False, v.better ? Py_True : Py_False,
                       v.ratio, v.rule, v.decisions, v.trace);
}

static PyObject *schedules(PyObject *self, PyObject *unused) {
  tuner_object *t = (tuner_object *)self;
  char *text;
  int count = 0;
  tn_status *status = tn_tuner_schedules(t->tuner, &text, &count);
  if (status != NULL) return done(t, status);
  PyObject *told = Py_BuildValue("(si)", text, count);
  free(text);
  return told;
}

static PyObject *save(PyObject *self, PyObject *args) {
  const char *path;
  if (!PyArg_ParseTuple(args, "s:save", &path)) return NULL;
  return done((tuner_object *)self, tn_tuner_save(((tuner_object *)self)->tuner, path, NULL));
}

static PyObject *save_table(PyObject *self, PyObject *args) {
  const char *path;
  int task;
  if (!PyArg_ParseTuple(args, "is:save_table", &task, &path)) return NULL;
  return done((tuner_object *)self, tn_tuner_save_table(((tuner_object *)self)->tuner, task, path));
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

static PyMethodDef tuner_methods[] = {
    {"add_declarations", add_declarations, METH_VARARGS, NULL},
    {"add_model", add_model, METH_VARARGS, NULL},
    {"look", look, METH_NOARGS, NULL},
    {"look_at", look_at, METH_O, NULL},
    {"run", run_all, METH_O, NULL},
    {"save", save, METH_VARARGS, NULL},
    {"save_table", save_table, METH_VARARGS, NULL},
    {"schedules", schedules, METH_NOARGS, NULL},
    {"stop", stop, METH_O, NULL},
    {"use_builder", use_builder, METH_VARARGS, NULL},
    {"use_runner", use_runner, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot tuner_slots[] = {{Py_tp_dealloc, (void *)tuner_dealloc}, {Py_tp_methods, tuner_methods}, {0, NULL}};

static PyType_Spec tuner_spec = {
    .name = "tenon._tune.Tuner",
    .basicsize = sizeof(tuner_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = tuner_slots,
};

static PyObject *error_names(PyObject *self, PyObject *unused) {
  PyObject *names = PyList_New(0);
  for (int i = 0; names != NULL && i < TN_TRIAL_ERRORS; i++) {
    PyObject *name = PyUnicode_FromString(tn_trial_error_name((tn_trial_error)i));
    if (name == NULL || PyList_Append(names, name) != 0) Py_CLEAR(names);
    Py_XDECREF(name);
  }
  return names;
}

static PyMethodDef module_methods[] = {
    {"error_names", error_names, METH_NOARGS, NULL},
    {"tuner", tuner, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module) {
  module_state *state = PyModule_GetState(module);
  PyObject *other = PyImport_ImportModule("tenon._tenon");
  if (other == NULL) return -1;
  state->error = PyObject_GetAttrString(other, "Error");
  Py_DECREF(other);
  if (state->error == NULL) return -1;
  state->tuner_type = PyType_FromModuleAndSpec(module, &tuner_spec, NULL);
  return state->tuner_type != NULL ? PyModule_AddObjectRef(module, "Tuner", state->tuner_type) : -1;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
  module_state *state = PyModule_GetState(module);
  Py_VISIT(state->error);
  Py_VISIT(state->tuner_type);
  return 0;
}

static int module_clear(PyObject *module) {
  module_state *state = PyModule_GetState(module);
  Py_CLEAR(state->error);
  Py_CLEAR(state->tuner_type);
  return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, (void *)module_exec}, {0, NULL}};

static struct PyModuleDef module_def = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "tenon._tune",
    .m_size = sizeof(module_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__tune(void);
PyMODINIT_FUNC PyInit__tune(void) { return PyModuleDef_Init(&module_def); }
