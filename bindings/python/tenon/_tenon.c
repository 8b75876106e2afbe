// SPDX-License-Identifier: Apache-2.0
/* The C half of the Python package: models, and running them on buffers, over Tenon's public C API, the table of its
 * options and CPython's stable ABI (3.11). What a person types is in __init__.py. A model is used by one thread at a
 * time; __init__.py holds a lock. */
#include "common.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/dtype.h"
#include "tenon/runtime.h"

typedef struct module_state {
  PyObject *error;       /* tenon.Error */
  PyObject *model_type;  /* tenon._tenon.Model */
  PyObject *tensor_type; /* tenon._tenon.DeviceTensor */
} module_state;

typedef struct model_object {
  PyObject_HEAD tn_module *module; /* NULL when it came from a .tnx file */
  tn_executable *executable;
  tn_session *session;   /* NULL: it was compiled for another machine */
  tn_status *foreign;    /* why it cannot run here */
  struct argument *held; /* what is bound for good: inputs, then outputs */
  binding_warnings *warnings;
  int64_t bound_elements; /* of all inputs that are bound for good */
  bool bound_counts;      /* some of them may be counts */
  int64_t listed;         /* the size of the lists that the next run gets */
  int64_t quick;          /* runs of this size and less take little time; -1: it is not known of any */
  bool cancelled_late;    /* an invoke had ended when it was cancelled, and the next one will end at once */
} model_object;

static void release_held(model_object *model);

/* ---- errors ----------------------------------------------------------------------------------------------------- */

static PyObject *raise_status(module_state *state, tn_status *status) { return binding_raise(state->error, status); }

static module_state *state_of(PyObject *model) { return PyType_GetModuleState(Py_TYPE(model)); }

/* ---- interruption ----------------------------------------------------------------------------------------------- */

/* A call of the library that may take long. Python tells the main thread alone of signals, so that one looks for them
 * while another thread makes it. What the handler of a signal raises ends the call; other handlers do not. */
typedef struct long_call {
  tn_status *(*make)(void *arguments);
  void (*cancel)(void *arguments); /* makes it end soon, with TN_CANCELLED */
  void *arguments;
  tn_status *status;
  pthread_mutex_t lock;
  pthread_cond_t end;
  bool ended;
} long_call;

enum { LOOK_NS = 20000000, STACK_BYTES = 8 << 20 };

static void *make_apart(void *user) {
  long_call *call = user;
  sigset_t signals;
  sigfillset(&signals); /* they are for the threads of the program; those of its own errors cannot wait */
  sigdelset(&signals, SIGSEGV);
  sigdelset(&signals, SIGBUS);
  sigdelset(&signals, SIGFPE);
  sigdelset(&signals, SIGILL);
  pthread_sigmask(SIG_SETMASK, &signals, NULL);
  call->status = call->make(call->arguments);
  pthread_mutex_lock(&call->lock);
  call->ended = true;
  pthread_cond_signal(&call->end);
  pthread_mutex_unlock(&call->lock);
  return NULL;
}

/* Waits for the end of the call, with Python's lock in each look for signals. */
static bool wait_looking(long_call *call) {
  bool raised = false;
  Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&call->lock);
  while (!call->ended) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (raised)
      pthread_cond_wait(&call->end, &call->lock);
    else
      pthread_cond_timedwait(&call->end, &call->lock, &until);
    if (call->ended || raised) continue;
    pthread_mutex_unlock(&call->lock);
    Py_BLOCK_THREADS raised = PyErr_CheckSignals() != 0;
    Py_UNBLOCK_THREADS if (raised) call->cancel(call->arguments);
    pthread_mutex_lock(&call->lock);
  }
  pthread_mutex_unlock(&call->lock);
  Py_END_ALLOW_THREADS return raised;
}

/* Makes the call in a thread of its own; false when there can be none. `*raised`: a handler raised an exception. */
static bool make_watched(long_call *call, bool *raised) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_condattr_t clock;
  pthread_mutex_init(&call->lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&call->end, &clock);
  pthread_condattr_destroy(&clock);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  bool started = pthread_create(&thread, &attributes, make_apart, call) == 0;
  pthread_attr_destroy(&attributes);
  if (started) {
    *raised = wait_looking(call);
    pthread_join(thread, NULL);
  }
  pthread_cond_destroy(&call->end);
  pthread_mutex_destroy(&call->lock);
  return started;
}

/* Makes the call without Python's lock. True when it was interrupted, and the exception is set; its status is then
 * what it came to. */
static bool make_long_call(long_call *call) {
  bool raised = false;
  if (gettid() == getpid() && make_watched(call, &raised)) return raised;
  Py_BEGIN_ALLOW_THREADS call->status = call->make(call->arguments);
  Py_END_ALLOW_THREADS return false;
}

/* ---- compiling and loading -------------------------------------------------------------------------------------- */

static void model_dealloc(PyObject *self) {
  model_object *model = (model_object *)self;
  PyTypeObject *type = Py_TYPE(self);
  tn_session_release(model->session);
  release_held(model);
  tn_executable_release(model->executable);
  tn_module_release(model->module);
  tn_status_free(model->foreign);
  binding_free_warnings(model->warnings);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

static model_object *new_model(module_state *state) {
  allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)state->model_type, Py_tp_alloc);
  model_object *model = (model_object *)allocate((PyTypeObject *)state->model_type, 0);
  if (model != NULL) model->quick = -1;
  if (model != NULL) model->warnings = binding_new_warnings();
  if (model == NULL || model->warnings != NULL) return model;
  Py_DECREF(model);
  PyErr_NoMemory();
  return NULL;
}

static tn_status *open_session(model_object *model, int threads) {
  tn_session_options options = {.size = sizeof(options), .threads = threads};
  return tn_session_create(model->executable, &options, &model->session);
}

typedef struct compile_arguments {
  model_object *model;
  const char *path, *data;
  Py_ssize_t size;
  binding_options given;
  atomic_bool cancelled;
} compile_arguments;

/* What a call that made a model gives: the model, whose reference it takes, or the error. A NULL model has set one. */
static PyObject *opened(module_state *state, model_object *model, tn_status *status) {
  if (status == NULL && (model == NULL || binding_tell_warnings(model->warnings))) return (PyObject *)model;
  Py_DECREF(model);
  return status == NULL ? NULL : raise_status(state, status);
}

static bool is_cancelled(void *user) { return atomic_load(&((compile_arguments *)user)->cancelled); }
static void cancel_compilation(void *user) { atomic_store(&((compile_arguments *)user)->cancelled, true); }

/* What another machine runs is kept to be saved and looked at. */
static tn_status *open_foreign(model_object *model, tn_status *status) {
  tn_load_options load = {.size = sizeof(load), .borrow_data = true, .inspect_only = true};
  if (tn_status_code_of(status) != TN_FAILED_PRECONDITION) return status; /* it runs on no machine */
  tn_status *other = tn_module_load(model->module, &load, &model->executable);
  if (other == NULL) model->foreign = status;
  tn_status_free(other);
  return model->foreign != NULL ? NULL : status;
}

static tn_status *compile_and_open(void *user) {
  compile_arguments *a = user;
  model_object *model = a->model;
  tn_compile_options options = a->given.options;
  options.log = &model->warnings->sink;
  options.cancelled = is_cancelled;
  options.user = a;
  tn_status *status = tn_compile(a->path, a->data, (size_t)a->size, &options, &model->module);
  if (status != NULL) return status;
  /* The executable uses the module's bytes in place; the model keeps both. */
  tn_load_options load = {.size = sizeof(load), .borrow_data = true};
  status = tn_module_load(model->module, &load, &model->executable);
  return status != NULL ? open_foreign(model, status) : open_session(model, a->given.options.run_threads);
}

/* The table of options, a dictionary for each row. */
static PyObject *options(PyObject *self, PyObject *args) {
  PyObject *rows = PyList_New(0);
  const tn__option_row *row = tn__option_rows;
  for (bool alone = false; rows != NULL; row++) {
    if (row->name == NULL && alone) break;
    if (row->name == NULL) {
      alone = true;
      row = tn__option_declared_rows;
    }
    const tn__cli_option *other = row->declaration.name != NULL ? &row->declaration : &row->cli;
    PyObject *fields = Py_BuildValue(
        "{s:O,s:s,s:s,s:O,s:O,s:O,s:z,s:i,s:s,s:s,s:z,s:z,s:z,s:L,s:L}", "alone", alone ? Py_True : Py_False, "name",
        row->name, "kind", tn__option_kind_name(row->kind), "code", row->flags & TN__OPTION_CODE ? Py_True : Py_False,
        "declared", row->flags & TN__OPTION_DECLARED ? Py_True : Py_False, "reversed",
        row->flags & TN__OPTION_REVERSED ? Py_True : Py_False, "python", row->python, "position", row->position,
        "usual", row->usual, "help", row->help, "cli", row->cli.name, "value", row->cli.value, "declaration_value",
        other->value, "low", (long long)row->low, "high", (long long)row->high);
    if (fields == NULL || PyList_Append(rows, fields) != 0) Py_CLEAR(rows);
    Py_XDECREF(fields);
  }
  return rows;
}

static PyObject *compile(PyObject *self, PyObject *args) {
  module_state *state = PyModule_GetState(self);
  compile_arguments a = {0};
  PyObject *fields;
  if (!PyArg_ParseTuple(args, "zz#O!:compile", &a.path, &a.data, &a.size, &PyDict_Type, &fields)) return NULL;
  if (!binding_read_options(fields, &a.given)) return NULL;
  model_object *model = a.model = new_model(state);
  long_call call = {.make = compile_and_open, .cancel = cancel_compilation, .arguments = &a};
  bool interrupted = model != NULL && make_long_call(&call);
  binding_free_options(&a.given);
  if (!interrupted) return opened(state, model, call.status);
  tn_status_free(call.status);
  Py_DECREF(model);
  return NULL;
}

typedef struct te_arguments {
  const char *folder, *name, *text, *kernel;
  Py_ssize_t size;
  binding_options given;
  char *schedule, *trace; /* out; freed with free() */
} te_arguments;

/* What both tables of options say of a declaration's schedule. */
static tn_schedule_options schedule_options_of(const binding_options *given) {
  tn_schedule_options options = given->declared;
  for (const tn__option_row *row = tn__option_rows; row->name != NULL; row++)
    if (row->declared_at > 0)
      memcpy((char *)&options + row->declared_at, (const char *)&given->options + row->at, row->bytes);
  options.dense = true; /* arrays have strides of their own */
  return options;
}

static tn_status *parse_te(const te_arguments *a, tn_te **te) {
  const tn_compile_options *o = &a->given.options;
  return tn_te_parse_in(a->folder, a->name, a->text, (size_t)a->size, a->kernel, o->dims, o->dim_count, NULL, te);
}

static tn_status *build_and_open(model_object *model, te_arguments *a) {
  tn_te *te = NULL;
  tn_schedule *schedule = NULL;
  const tn_compile_options *o = &a->given.options;
  tn_schedule_options options = schedule_options_of(&a->given);
  options.log = &model->warnings->sink;
  tn_load_options load = {.size = sizeof(load), .borrow_data = true};
  tn_status *status = parse_te(a, &te);
  if (status == NULL) status = tn_schedule_create(te, o->target, &options, &schedule);
  if (status == NULL) status = tn_te_module(&schedule, 1, NULL, &model->module);
  if (status == NULL) status = tn_schedule_text(schedule, &a->schedule);
  if (status == NULL) status = tn_schedule_trace(schedule, &a->trace);
  tn_schedule_release(schedule);
  tn_te_release(te);
  if (status == NULL) status = tn_module_load(model->module, &load, &model->executable);
  return status != NULL ? status : open_session(model, o->run_threads);
}

static bool read_te(PyObject *args, te_arguments *a) {
  PyObject *fields;
  return PyArg_ParseTuple(args, "zss#zO!", &a->folder, &a->name, &a->text, &a->size, &a->kernel, &PyDict_Type,
                          &fields) &&
         binding_read_options(fields, &a->given);
}

/* The kernel, its schedule as text, and its trace. */
static PyObject *build_te(PyObject *self, PyObject *args) {
  module_state *state = PyModule_GetState(self);
  te_arguments a = {0};
  if (!read_te(args, &a)) return NULL;
  model_object *model = new_model(state);
  tn_status *status = NULL;
  if (model != NULL) {
    Py_BEGIN_ALLOW_THREADS status = build_and_open(model, &a);
    Py_END_ALLOW_THREADS
  }
  binding_free_options(&a.given);
  PyObject *kernel = opened(state, model, status), *result = NULL;
  if (kernel != NULL) result = Py_BuildValue("(Nss)", kernel, a.schedule, a.trace);
  free(a.schedule);
  free(a.trace);
  return result;
}

static tn_status *explain_one(const te_arguments *a, tn_explanation **out) {
  tn_te *te = NULL;
  tn_schedule_options options = schedule_options_of(&a->given);
  tn_status *status = parse_te(a, &te);
  if (status == NULL) status = tn_te_explain(&te, 1, a->given.options.target, &options, out);
  tn_te_release(te);
  return status;
}

/* A dictionary of what is expected of the kernel's schedule. */
static PyObject *explain_te(PyObject *self, PyObject *args) {
  te_arguments a = {0};
  tn_explanation *explanation = NULL;
  tn_status *status;
  if (!read_te(args, &a)) return NULL;
  Py_BEGIN_ALLOW_THREADS status = explain_one(&a, &explanation);
  Py_END_ALLOW_THREADS binding_free_options(&a.given);
  if (status != NULL) return raise_status(PyModule_GetState(self), status);
  const tn_kernel_plan *const *plans;
  if (tn_explanation_kernels(explanation, &plans) < 1) {
    tn_explanation_release(explanation);
    PyErr_SetString(PyExc_SystemError, "explain: a declaration has no kernel");
    return NULL;
  }
  const tn_kernel_plan *p = plans[0];
  PyObject *result = Py_BuildValue(
      "{s:s,s:s,s:s,s:L,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:s,s:d,s:i}", "kernel", p->kernel, "rule", p->rule, "decisions",
      p->decisions, "weighed", (long long)p->weighed, "seconds", p->seconds, "cycles", p->cycles, "work_cycles",
      p->work_cycles, "l2_cycles", p->l2_cycles, "l3_cycles", p->l3_cycles, "memory_cycles", p->memory_cycles,
      "overhead_cycles", p->overhead_cycles, "bound_by", p->bound, "tail", p->tail, "registers", p->registers);
  tn_explanation_release(explanation);
  return result;
}

/* The texts of a list, which keeps them; NULL with an exception. To be freed. */
static const char **read_texts(PyObject *list, int *count) {
  Py_ssize_t size = PyList_Size(list);
  if (size < 0) return NULL;
  const char **texts = PyMem_Malloc(((size_t)size + 1) * sizeof *texts);
  if (texts == NULL) return (const char **)(void *)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < size; i++) {
    texts[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(list, i), NULL);
    if (texts[i] != NULL) continue;
    PyMem_Free(texts);
    return NULL;
  }
  *count = (int)size;
  return texts;
}

static PyObject *load(PyObject *self, PyObject *args) {
  module_state *state = PyModule_GetState(self);
  const char *path, *data;
  Py_ssize_t size;
  int threads, verify, map_count, memory_count, concurrent;
  PyObject *map_list, *memory_list;
  if (!PyArg_ParseTuple(args, "zz#ipO!O!p:load", &path, &data, &size, &threads, &verify, &PyList_Type, &map_list,
                        &PyList_Type, &memory_list, &concurrent))
    return NULL;
  const char **map = read_texts(map_list, &map_count);
  const char **memory = map != NULL ? read_texts(memory_list, &memory_count) : NULL;
  model_object *model = memory != NULL ? new_model(state) : NULL;
  if (model == NULL) {
    PyMem_Free(map);
    PyMem_Free(memory);
    return NULL;
  }
  tn_load_options options = {.size = sizeof(options),
                             .verify_constants = verify,
                             .log = &model->warnings->sink,
                             .device_map = map,
                             .device_map_count = map_count,
                             .concurrent_islands = concurrent,
                             .memory = memory,
                             .memory_count = memory_count};
  tn_status *status;
  Py_BEGIN_ALLOW_THREADS if (data != NULL) status =
      tn_executable_load_memory(data, (size_t)size, &options, &model->executable);
  else status = tn_executable_load(path, &options, &model->executable);
  if (status == NULL) status = open_session(model, threads);
  Py_END_ALLOW_THREADS PyMem_Free(map);
  PyMem_Free(memory);
  return opened(state, model, status);
}

/* ---- what a model holds ----------------------------------------------------------------------------------------- */

static PyObject *shape_tuple(const int64_t *shape, int rank) {
  PyObject *tuple = PyTuple_New(rank);
  for (int i = 0; tuple != NULL && i < rank; i++) {
    PyObject *size = PyLong_FromLongLong(shape[i]);
    if (size == NULL || PyTuple_SetItem(tuple, i, size) != 0) Py_CLEAR(tuple);
  }
  return tuple;
}

static PyObject *describe_dim(const tn_dim_info *dim) {
  if (dim->size >= 0) return PyLong_FromLongLong(dim->size);
  return dim->name != NULL ? binding_text(dim->name) : Py_NewRef(Py_None);
}

static PyObject *describe_capacity(const tn_dim_info *dim) {
  return dim->capacity > 0 ? PyLong_FromLongLong(dim->capacity) : Py_NewRef(Py_None);
}

static PyObject *describe_dims(const tn_value_info *info, PyObject *(*describe)(const tn_dim_info *dim)) {
  if (info->rank == TN_ANY_RANK) return Py_BuildValue("(O)", Py_Ellipsis);
  PyObject *dims = PyTuple_New(info->rank);
  for (int i = 0; dims != NULL && i < info->rank; i++) {
    PyObject *item = describe(info->dims[i]);
    if (item == NULL || PyTuple_SetItem(dims, i, item) != 0) Py_CLEAR(dims);
  }
  return dims;
}

static PyObject *describe_value(const tn_value_info *info) {
  bool grows = false;
  for (int i = 0; i < info->rank; i++) grows = grows || info->dims[i]->capacity > 0;
  PyObject *shape = describe_dims(info, describe_dim);
  PyObject *capacity = grows ? describe_dims(info, describe_capacity) : Py_NewRef(Py_None);
  PyObject *fallback =
      info->fallback != NULL ? shape_tuple(info->fallback->shape, info->fallback->ndim) : Py_NewRef(Py_None);
  if (shape != NULL && capacity != NULL && fallback != NULL)
    return Py_BuildValue("(NiNiNNi(ii)N)", binding_text(info->name), (int)info->dtype, shape, (int)info->kind, capacity,
                         PyBool_FromLong(info->strided), (int)info->size_rule, (int)info->device.device_type,
                         (int)info->device.device_id, fallback);
  Py_XDECREF(shape);
  Py_XDECREF(capacity);
  Py_XDECREF(fallback);
  return NULL;
}

/* ([(name, dtype code, shape, kind, capacity, strided, size rule, device, shape of the default)] of inputs, the same of
 * outputs) */
static PyObject *model_signature(PyObject *self, PyObject *unused) {
  const tn_executable *exe = ((model_object *)self)->executable;
  int inputs = tn_executable_input_count(exe, NULL), outputs = tn_executable_output_count(exe, NULL);
  PyObject *in = PyList_New(inputs), *out = PyList_New(outputs);
  bool good = in != NULL && out != NULL;
  for (int i = 0; good && i < inputs + outputs; i++) {
    PyObject *item =
        describe_value(i < inputs ? tn_executable_input(exe, NULL, i) : tn_executable_output(exe, NULL, i - inputs));
    good = item != NULL && PyList_SetItem(i < inputs ? in : out, i < inputs ? i : i - inputs, item) == 0;
  }
  if (good) return Py_BuildValue("(NN)", in, out);
  Py_XDECREF(in);
  Py_XDECREF(out);
  return NULL;
}

static PyObject *model_save(PyObject *self, PyObject *args) {
  model_object *model = (model_object *)self;
  const char *path;
  if (!PyArg_ParseTuple(args, "s:save", &path)) return NULL;
  tn_status *status;
  Py_BEGIN_ALLOW_THREADS status =
      model->module != NULL ? tn_module_save(model->module, path) : tn_executable_save(model->executable, path);
  Py_END_ALLOW_THREADS if (status != NULL) return raise_status(state_of(self), status);
  return binding_tell_warnings(model->warnings) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *model_text(PyObject *self, PyObject *args) {
  const char *name;
  size_t size;
  if (!PyArg_ParseTuple(args, "s:text", &name)) return NULL;
  const char *text = tn_executable_text(((model_object *)self)->executable, name, &size);
  return text == NULL ? Py_NewRef(Py_None) : PyUnicode_FromStringAndSize(text, (Py_ssize_t)size);
}

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

/* A Python object seen as a tensor; holds what keeps its memory alive. */
typedef struct argument {
  DLTensor tensor;
  int64_t shape[TN_MAX_RANK], strides[TN_MAX_RANK];
  Py_buffer view;
  PyObject *capsule;
  PyObject *texts; /* the bytes objects that `strings` points into */
  tn_string *strings;
} argument;

static void release_argument(argument *a) {
  if (a->view.obj != NULL) PyBuffer_Release(&a->view);
  Py_CLEAR(a->capsule);
  Py_CLEAR(a->texts);
  PyMem_Free(a->strings);
  *a = (argument){0};
}

static void release_arguments(argument *arguments, Py_ssize_t count) {
  for (Py_ssize_t i = 0; arguments != NULL && i < count; i++) release_argument(&arguments[i]);
  PyMem_Free(arguments);
}

static int held_count(const model_object *model) {
  return tn_executable_input_count(model->executable, NULL) + tn_executable_output_count(model->executable, NULL);
}

static void release_held(model_object *model) {
  if (model->held != NULL) release_arguments(model->held, held_count(model));
  model->held = NULL;
}

/* The element type of a buffer by its struct format: one letter for the kind, the size from the item. */
static tn_dtype buffer_dtype(const Py_buffer *view) {
  const char *format = view->format == NULL ? "B" : view->format;
  if (*format == '@' || *format == '=' || *format == '<')
    format++;
  else if (*format == '>' || *format == '!')
    return TN_DTYPE_INVALID;
  if (format[0] == '\0' || format[1] != '\0') return TN_DTYPE_INVALID;
  int kind = strchr("bhilqn", *format) != NULL   ? 0
             : strchr("BHILQN", *format) != NULL ? 1
             : strchr("efd", *format) != NULL    ? 2
             : *format == '?'                    ? 6
                                                 : -1;
  if (kind < 0 || view->itemsize > 8) return TN_DTYPE_INVALID;
  tn_dtype dtype = (tn_dtype)(kind << 8 | (int)view->itemsize * 8);
  return tn_dtype_size(dtype) == 0 ? TN_DTYPE_INVALID : dtype;
}

/* `code`, when not 0, says what the elements mean instead of the buffer's own format (bfloat16 seen as uint16). */
static bool take_buffer(PyObject *object, int code, bool writable, argument *out) {
  int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object, &out->view, flags) != 0) return false;
  const Py_buffer *view = &out->view;
  tn_dtype dtype = code != 0 ? (tn_dtype)code : buffer_dtype(view);
  if (dtype == TN_DTYPE_INVALID || view->ndim > TN_MAX_RANK) {
    PyErr_Format(PyExc_TypeError, "Tenon has no tensors of %d dimensions with elements of format \"%s\"", view->ndim,
                 view->format == NULL ? "B" : view->format);
    return false;
  }
  for (int i = 0; i < view->ndim; i++) {
    out->shape[i] = view->shape[i];
    if (view->strides[i] % view->itemsize != 0) {
      PyErr_SetString(PyExc_ValueError, "an array whose strides are not multiples of its element size");
      return false;
    }
    out->strides[i] = view->strides[i] / view->itemsize;
  }
  out->tensor = (DLTensor){.data = view->buf,
                           .device = {kDLCPU, 0},
                           .ndim = view->ndim,
                           .dtype = tn_dtype_to_dl(dtype),
                           .shape = out->shape,
                           .strides = out->strides};
  return true;
}

/* The capsule's own destructor frees the tensor: the name "dltensor" says that nobody took it over. */
static bool take_capsule(PyObject *object, argument *out) {
  out->capsule = Py_NewRef(object);
  DLManagedTensor *managed = PyCapsule_GetPointer(object, "dltensor");
  if (managed == NULL) return false;
  out->tensor = managed->dl_tensor;
  return true;
}

static bool read_shape(PyObject *tuple, int64_t *shape) {
  Py_ssize_t rank = PyTuple_Size(tuple);
  if (rank < 0 || rank > TN_MAX_RANK) return false;
  for (Py_ssize_t i = 0; i < rank; i++) shape[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
  return !PyErr_Occurred();
}

/* Strings: ([bytes, ...], shape). */
static bool take_strings(PyObject *object, argument *out) {
  PyObject *texts, *shape;
  if (!PyArg_ParseTuple(object, "O!O!", &PyList_Type, &texts, &PyTuple_Type, &shape)) return false;
  Py_ssize_t count = PyList_Size(texts), rank = PyTuple_Size(shape);
  if (!read_shape(shape, out->shape) || tn_element_count((int)rank, out->shape) != count) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "strings of another number than their shape says");
    return false;
  }
  out->strings = PyMem_Calloc((size_t)count + 1, sizeof(*out->strings));
  if (out->strings == NULL) return PyErr_NoMemory() != NULL;
  for (Py_ssize_t i = 0; i < count; i++) {
    char *data;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(PyList_GetItem(texts, i), &data, &length) != 0) return false;
    out->strings[i] = (tn_string){data, (uint64_t)length};
  }
  out->texts = Py_NewRef(texts);
  out->tensor = (DLTensor){.data = out->strings,
                           .device = {kDLCPU, 0},
                           .ndim = (int)rank,
                           .dtype = tn_dtype_to_dl(TN_STRING),
                           .shape = out->shape};
  return true;
}

/* (object, dtype code or 0): a buffer, a DLPack capsule, strings, or None, which leaves `out` empty. */
static bool take_argument(PyObject *pair, bool writable, argument *out) {
  PyObject *object;
  int code;
  if (!PyArg_ParseTuple(pair, "Oi", &object, &code)) return false;
  if (object == Py_None) return true;
  if (PyTuple_Check(object)) return take_strings(object, out);
  return PyCapsule_CheckExact(object) ? take_capsule(object, out) : take_buffer(object, code, writable, out);
}

static bool is_given(const argument *a) { return a->view.obj != NULL || a->capsule != NULL || a->strings != NULL; }

/* A list of such pairs; None stands for an output that the session allocates. */
static argument *take_arguments(PyObject *list, bool writable) {
  Py_ssize_t count = PyList_Size(list);
  if (count < 0) return NULL;
  argument *arguments = PyMem_Calloc((size_t)count + 1, sizeof(*arguments));
  if (arguments == NULL) return (argument *)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < count; i++) {
    if (take_argument(PyList_GetItem(list, i), writable, &arguments[i])) continue;
    release_arguments(arguments, count);
    return NULL;
  }
  return arguments;
}

static tn_status *copy_tensor(const tn_executable *exe, const DLTensor *from, const DLTensor *to) {
  tn_status *status;
  Py_BEGIN_ALLOW_THREADS status = tn_device_tensor_copy(exe, from, to);
  Py_END_ALLOW_THREADS return status;
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

/* Lists are bound one by one, and so is everything beside them. */
static tn_status *invoke_with_lists(const tn_executable *exe, tn_session *session, argument *inputs, int input_count,
                                    argument *outputs, int output_count) {
  tn_status *status = NULL;
  for (int i = 0; i < input_count && status == NULL; i++) {
    const tn_value_info *info = tn_executable_input(exe, NULL, i);
    if (info != NULL && info->kind != TN_VALUE_TENSOR) continue; /* set_list gave it */
    status = tn_session_set_input_at(session, NULL, i, is_given(&inputs[i]) ? &inputs[i].tensor : NULL, TN_BIND_NEXT);
  }
  for (int i = 0; i < output_count && status == NULL; i++) {
    bool given = is_given(&outputs[i]);
    status = tn_session_set_output_at(session, NULL, i, given ? &outputs[i].tensor : NULL, TN_BIND_NEXT);
  }
  return status != NULL ? status : tn_session_invoke(session, NULL);
}

static bool has_lists(const tn_executable *exe) {
  bool lists = false;
  for (int i = 0; i < tn_executable_input_count(exe, NULL); i++)
    lists = lists || tn_executable_input(exe, NULL, i)->kind != TN_VALUE_TENSOR;
  for (int i = 0; i < tn_executable_output_count(exe, NULL); i++)
    lists = lists || tn_executable_output(exe, NULL, i)->kind != TN_VALUE_TENSOR;
  return lists;
}

/* The tensors of all arguments in a row; those that are not given have no data. */
static DLTensor *tensors_of(argument *arguments, int count) {
  DLTensor *tensors = PyMem_Calloc((size_t)count + 1, sizeof(*tensors));
  for (int i = 0; tensors != NULL && i < count; i++) {
    if (!is_given(&arguments[i])) continue;
    tensors[i] = arguments[i].tensor;
    if (arguments[i].strings != NULL) tensors[i].shape = arguments[i].shape;
    if (arguments[i].view.obj == NULL) continue;
    tensors[i].shape = arguments[i].shape;
    tensors[i].strides = arguments[i].strides;
  }
  return tensors;
}

/* A run of a model, on arguments or, without `in`, on what is bound. */
typedef struct run_arguments {
  model_object *model;
  argument *inputs, *outputs;
  DLTensor *in, *out;
  int input_count, output_count;
} run_arguments;

static tn_status *run_once(const run_arguments *r) {
  tn_session *session = r->model->session;
  const tn_executable *exe = r->model->executable;
  if (r->in == NULL) return tn_session_invoke(session, NULL);
  if (has_lists(exe)) return invoke_with_lists(exe, session, r->inputs, r->input_count, r->outputs, r->output_count);
  return tn_session_invoke_with_outputs(session, NULL, r->in, r->input_count, r->out, r->output_count);
}

static tn_status *run(void *arguments) {
  const run_arguments *r = arguments;
  tn_status *status = run_once(r);
  if (!r->model->cancelled_late || tn_status_code_of(status) != TN_CANCELLED) return status;
  tn_status_free(status);
  r->model->cancelled_late = false;
  return run_once(r);
}

static void cancel_run(void *arguments) { tn_session_cancel(((const run_arguments *)arguments)->model->session); }

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A thread takes longer than a small model. So what is no larger than a run that took little time does without. */
static PyObject *make_run(run_arguments *r, int64_t size) {
  enum { LITTLE_NS = 10000000 };
  model_object *model = r->model;
  long_call call = {.make = run, .cancel = cancel_run, .arguments = r};
  bool raised = false;
  size += model->listed;
  model->listed = 0;
  if (size <= model->quick) {
    Py_BEGIN_ALLOW_THREADS call.status = run(r);
    Py_END_ALLOW_THREADS
  } else {
    int64_t began = now_ns();
    raised = make_long_call(&call);
    if (!raised && call.status == NULL && now_ns() - began < LITTLE_NS) model->quick = size;
  }
  if (!raised) return call.status == NULL ? Py_NewRef(Py_None) : raise_status(state_of((PyObject *)model), call.status);
  if (tn_status_code_of(call.status) != TN_CANCELLED) model->cancelled_late = true;
  tn_status_free(call.status);
  return NULL;
}

static int64_t elements_of(const argument *a) {
  return tn_element_count(a->tensor.ndim, a->capsule != NULL ? a->tensor.shape : a->shape);
}

/* Few integers: they may be counts and sizes, and say how much is to be done. */
static bool holds_counts(const argument *a) {
  unsigned kind = a->tensor.dtype.code;
  return is_given(a) && a->tensor.device.device_type == kDLCPU && (kind == kDLInt || kind == kDLUInt) &&
         a->tensor.ndim <= 1 && elements_of(a) <= 8;
}

static int64_t counts_of(const argument *a) {
  int64_t sum = 0, stride = 1;
  tn_dtype dtype = tn_dtype_of_dl(a->tensor.dtype);
  const char *data = (const char *)a->tensor.data + a->tensor.byte_offset;
  if (a->tensor.ndim == 1 && a->tensor.strides != NULL)
    stride = a->capsule != NULL ? a->tensor.strides[0] : a->strides[0];
  for (int64_t i = 0; i < elements_of(a); i++) {
    int64_t count = tn__load_i64(dtype, data, i * stride);
    sum += count < 0 ? 0 : count > INT32_MAX ? INT32_MAX : count;
  }
  return sum;
}

/* How much a run on these inputs has to do, as far as they tell. */
static int64_t size_of(const argument *inputs, int count) {
  int64_t size = 0;
  for (int i = 0; i < count; i++) {
    if (is_given(&inputs[i])) size += elements_of(&inputs[i]);
    if (holds_counts(&inputs[i])) size += counts_of(&inputs[i]);
  }
  return size;
}

static PyObject *invoke_arguments(PyObject *self, argument *inputs, int input_count, argument *outputs,
                                  int output_count) {
  run_arguments r = {.model = (model_object *)self,
                     .inputs = inputs,
                     .outputs = outputs,
                     .in = tensors_of(inputs, input_count),
                     .out = tensors_of(outputs, output_count),
                     .input_count = input_count,
                     .output_count = output_count};
  PyObject *result = NULL;
  if (r.in != NULL && r.out != NULL)
    result = make_run(&r, size_of(inputs, input_count));
  else
    PyErr_NoMemory();
  PyMem_Free(r.in);
  PyMem_Free(r.out);
  return result;
}

static PyObject *model_invoke(PyObject *self, PyObject *args) {
  PyObject *input_list, *output_list;
  if (!PyArg_ParseTuple(args, "O!O!:invoke", &PyList_Type, &input_list, &PyList_Type, &output_list)) return NULL;
  int input_count = (int)PyList_Size(input_list), output_count = (int)PyList_Size(output_list);
  argument *inputs = take_arguments(input_list, false);
  argument *outputs = inputs == NULL ? NULL : take_arguments(output_list, true);
  PyObject *result = outputs == NULL ? NULL : invoke_arguments(self, inputs, input_count, outputs, output_count);
  if (inputs != NULL) release_arguments(inputs, input_count);
  if (outputs != NULL) release_arguments(outputs, output_count);
  return result;
}

/* For an output that is a sequence or optional the tensor is memory: bytes. */
static tn_status *bind_persistently(model_object *model, bool output, int index, const DLTensor *tensor) {
  if (!output) return tn_session_set_input_at(model->session, NULL, index, tensor, TN_BIND_PERSISTENT);
  const tn_value_info *info = tn_executable_output(model->executable, NULL, index);
  if (info == NULL || info->kind == TN_VALUE_TENSOR) /* one that is not there is refused */
    return tn_session_set_output_at(model->session, NULL, index, tensor, TN_BIND_PERSISTENT);
  return tn_session_set_output_list(model->session, NULL, index, tensor == NULL ? NULL : tensor->data,
                                    tensor == NULL ? 0 : (size_t)tn_element_count(tensor->ndim, tensor->shape));
}

static void sum_up_bound(model_object *model) {
  model->bound_elements = 0;
  model->bound_counts = false;
  for (int i = 0; i < tn_executable_input_count(model->executable, NULL); i++) {
    const argument *a = &model->held[i];
    if (is_given(a)) model->bound_elements += elements_of(a);
    model->bound_counts = model->bound_counts || holds_counts(a);
  }
}

/* bind(output, index, pair): persistently; the object is kept alive until something else, or None, is bound. */
static PyObject *model_bind(PyObject *self, PyObject *args) {
  model_object *model = (model_object *)self;
  int output, index;
  PyObject *pair;
  if (!PyArg_ParseTuple(args, "piO!:bind", &output, &index, &PyTuple_Type, &pair)) return NULL;
  if (model->held == NULL) model->held = PyMem_Calloc((size_t)held_count(model) + 1, sizeof(*model->held));
  if (model->held == NULL) return PyErr_NoMemory();
  argument fresh = {0};
  if (!take_argument(pair, output, &fresh)) {
    release_argument(&fresh);
    return NULL;
  }
  DLTensor tensor = fresh.tensor;
  if (fresh.strings != NULL) tensor.shape = fresh.shape;
  if (fresh.view.obj != NULL) tensor.shape = fresh.shape, tensor.strides = fresh.strides;
  tn_status *status = bind_persistently(model, output, index, is_given(&fresh) ? &tensor : NULL);
  if (status != NULL) {
    release_argument(&fresh);
    return raise_status(state_of(self), status);
  }
  int place = index + (output ? tn_executable_input_count(model->executable, NULL) : 0);
  argument old = model->held[place];
  model->held[place] = fresh;
  release_argument(&old);
  sum_up_bound(model);
  return Py_NewRef(Py_None);
}

static PyObject *strings_list(const tn_string *strings, int64_t count) {
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (Py_ssize_t i = 0; list != NULL && i < (Py_ssize_t)count; i++) {
    PyObject *text = PyBytes_FromStringAndSize(strings[i].data, (Py_ssize_t)strings[i].length);
    if (text == NULL || PyList_SetItem(list, i, text) != 0) Py_CLEAR(list);
  }
  return list;
}

/* What the last invoke wrote into the array of strings that is bound for output `index`: its first `count` elements. */
static PyObject *model_bound_strings(PyObject *self, PyObject *args) {
  model_object *model = (model_object *)self;
  int index;
  Py_ssize_t count;
  if (!PyArg_ParseTuple(args, "in:bound_strings", &index, &count)) return NULL;
  bool there = index >= 0 && index < tn_executable_output_count(model->executable, NULL) && model->held != NULL;
  const argument *held = there ? &model->held[index + tn_executable_input_count(model->executable, NULL)] : NULL;
  if (held != NULL && held->strings != NULL && count >= 0 && count <= PyList_Size(held->texts))
    return strings_list(held->strings, count);
  PyErr_SetString(PyExc_ValueError, "no array of so many strings is bound for the output");
  return NULL;
}

/* Runs on what is bound. */
static PyObject *model_invoke_bound(PyObject *self, PyObject *unused) {
  model_object *model = (model_object *)self;
  run_arguments r = {.model = model};
  int64_t size = model->bound_elements;
  int inputs = model->bound_counts ? tn_executable_input_count(model->executable, NULL) : 0;
  for (int i = 0; i < inputs; i++)
    if (holds_counts(&model->held[i])) size += counts_of(&model->held[i]);
  return make_run(&r, size);
}

static PyObject *model_start(PyObject *self, PyObject *unused) {
  tn_status *status = tn_session_start(((model_object *)self)->session, NULL);
  return status == NULL ? Py_NewRef(Py_None) : raise_status(state_of(self), status);
}

/* As run() does, which an earlier run that was cancelled too late would otherwise end. */
static tn_status *wait_for(void *arguments) {
  model_object *model = ((const run_arguments *)arguments)->model;
  tn_status *status = tn_session_wait(model->session);
  if (!model->cancelled_late || tn_status_code_of(status) != TN_CANCELLED) return status;
  tn_status_free(status);
  model->cancelled_late = false;
  status = tn_session_start(model->session, NULL);
  return status != NULL ? status : tn_session_wait(model->session);
}

static PyObject *model_wait(PyObject *self, PyObject *unused) {
  run_arguments r = {.model = (model_object *)self};
  long_call call = {.make = wait_for, .cancel = cancel_run, .arguments = &r};
  if (!make_long_call(&call))
    return call.status == NULL ? Py_NewRef(Py_None) : raise_status(state_of(self), call.status);
  if (tn_status_code_of(call.status) != TN_CANCELLED) r.model->cancelled_late = true;
  tn_status_free(call.status);
  return NULL;
}

/* Input `index`, a sequence or optional: [(object, dtype code or 0), ...], or None for an optional without value. */
static PyObject *model_set_list(PyObject *self, PyObject *args) {
  int index;
  PyObject *items;
  if (!PyArg_ParseTuple(args, "iO:set_list", &index, &items)) return NULL;
  tn_session *session = ((model_object *)self)->session;
  if (items == Py_None) {
    tn_status *none = tn_session_set_input_list(session, NULL, index, NULL, -1);
    return none == NULL ? Py_NewRef(Py_None) : raise_status(state_of(self), none);
  }
  Py_ssize_t count = PyList_Size(items);
  argument *arguments = count < 0 ? NULL : take_arguments(items, false);
  DLTensor *tensors = arguments == NULL ? NULL : PyMem_Calloc((size_t)count + 1, sizeof(*tensors));
  if (tensors == NULL) {
    if (arguments != NULL) release_arguments(arguments, count);
    return arguments == NULL ? NULL : PyErr_NoMemory();
  }
  for (Py_ssize_t i = 0; i < count; i++) tensors[i] = arguments[i].tensor;
  ((model_object *)self)->listed += size_of(arguments, (int)count);
  tn_status *status = tn_session_set_input_list(session, NULL, index, tensors, (int)count);
  PyMem_Free(tensors);
  release_arguments(arguments, count);
  return status == NULL ? Py_NewRef(Py_None) : raise_status(state_of(self), status);
}

/* The number of tensors in output `index` of the last invoke, a sequence or optional; -1 for one without value. */
static PyObject *model_list_count(PyObject *self, PyObject *args) {
  int index, count;
  if (!PyArg_ParseTuple(args, "i:list_count", &index)) return NULL;
  tn_status *status = tn_session_get_output_count(((model_object *)self)->session, NULL, index, &count);
  return status == NULL ? PyLong_FromLong(count) : raise_status(state_of(self), status);
}

/* Output `index`, or with `item` not negative that tensor of it. */
static tn_status *get_output(PyObject *self, int index, int item, DLTensor *out) {
  tn_session *session = ((model_object *)self)->session;
  return item < 0 ? tn_session_get_output(session, NULL, index, out)
                  : tn_session_get_output_item(session, NULL, index, item, out);
}

/* The shape of output `index` of the last invoke. */
static PyObject *model_output_shape(PyObject *self, PyObject *args) {
  int index, item = -1;
  if (!PyArg_ParseTuple(args, "i|i:output_shape", &index, &item)) return NULL;
  DLTensor tensor;
  tn_status *status = get_output(self, index, item, &tensor);
  return status == NULL ? shape_tuple(tensor.shape, tensor.ndim) : raise_status(state_of(self), status);
}

/* Copies the elements of output `index` of the last invoke into a buffer of just that many bytes. */
static PyObject *model_copy_output(PyObject *self, PyObject *args) {
  int index, item = -1;
  PyObject *target;
  if (!PyArg_ParseTuple(args, "iO|i:copy_output", &index, &target, &item)) return NULL;
  DLTensor tensor;
  tn_status *status = get_output(self, index, item, &tensor);
  if (status != NULL) return raise_status(state_of(self), status);
  Py_buffer view;
  if (PyObject_GetBuffer(target, &view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) != 0) return NULL;
  size_t bytes = (size_t)tn_element_count(tensor.ndim, tensor.shape) * tn_dtype_size(tn_dtype_of_dl(tensor.dtype));
  bool fits = (size_t)view.len == bytes;
  DLTensor dense = tensor;
  dense.data = view.buf, dense.device = (DLDevice){kDLCPU, 0}, dense.byte_offset = 0, dense.strides = NULL;
  if (fits) status = copy_tensor(((model_object *)self)->executable, &tensor, &dense);
  PyBuffer_Release(&view);
  if (status != NULL) return raise_status(state_of(self), status);
  if (fits) return Py_NewRef(Py_None);
  PyErr_SetString(PyExc_ValueError, "a buffer of another size than the output's");
  return NULL;
}

/* The strings of output `index` of the last invoke, in the order of the elements: [bytes, ...]. */
static PyObject *model_output_strings(PyObject *self, PyObject *args) {
  int index, item = -1;
  if (!PyArg_ParseTuple(args, "i|i:output_strings", &index, &item)) return NULL;
  DLTensor tensor;
  tn_status *status = get_output(self, index, item, &tensor);
  if (status != NULL) return raise_status(state_of(self), status);
  if (tn_dtype_of_dl(tensor.dtype) != TN_STRING) {
    PyErr_SetString(PyExc_ValueError, "the output holds no strings");
    return NULL;
  }
  return strings_list(tensor.data, tn_element_count(tensor.ndim, tensor.shape));
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* A tensor on the device: its type and number, the code of its elements, its shape. */
static PyObject *model_device_tensor(PyObject *self, PyObject *args) {
  int type, number, code;
  PyObject *tuple;
  int64_t shape[TN_MAX_RANK];
  DLManagedTensorVersioned *tensor;
  if (!PyArg_ParseTuple(args, "iiiO!:device_tensor", &type, &number, &code, &PyTuple_Type, &tuple)) return NULL;
  if (!read_shape(tuple, shape)) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "a tensor has at most %d dimensions", TN_MAX_RANK);
    return NULL;
  }
  const DLDevice device = {(DLDeviceType)type, number};
  const tn_executable *exe = ((model_object *)self)->executable;
  int rank = (int)PyTuple_Size(tuple);
  tn_status *status;
  Py_BEGIN_ALLOW_THREADS status = tn_device_tensor_create(exe, device, (tn_dtype)code, rank, shape, &tensor);
  Py_END_ALLOW_THREADS if (status != NULL) return raise_status(state_of(self), status);
  return binding_device_tensor(state_of(self)->tensor_type, tensor);
}

/* From one pair to another, either of which may be on a device. */
static PyObject *model_copy_tensor(PyObject *self, PyObject *args) {
  PyObject *from, *to;
  argument ends[2] = {0};
  tn_status *status = NULL;
  if (!PyArg_ParseTuple(args, "OO:copy_tensor", &from, &to)) return NULL;
  bool taken = take_argument(from, false, &ends[0]) && take_argument(to, true, &ends[1]);
  const tn_executable *exe = ((model_object *)self)->executable;
  if (taken) status = copy_tensor(exe, &ends[0].tensor, &ends[1].tensor);
  for (int i = 0; i < 2; i++) release_argument(&ends[i]);
  if (!taken) return NULL;
  return status == NULL ? Py_NewRef(Py_None) : raise_status(state_of(self), status);
}

typedef struct shapes {
  const int64_t **of_inputs;
  int64_t (*inputs)[TN_MAX_RANK], (*outputs)[TN_MAX_RANK];
} shapes;

static bool read_shapes(PyObject *list, int count, const tn_executable *exe, shapes *s) {
  for (int i = 0; i < count; i++) {
    PyObject *tuple = PyList_GetItem(list, i);
    const tn_value_info *info = tn_executable_input(exe, NULL, i);
    s->of_inputs[i] = s->inputs[i];
    if (info->kind != TN_VALUE_TENSOR) continue; /* whose shapes are not looked at */
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != info->rank) {
      PyErr_Format(PyExc_ValueError, "input '%s' has rank %d", info->name, info->rank);
      return false;
    }
    if (!read_shape(tuple, s->inputs[i])) return false;
  }
  return true;
}

/* One that depends on the values of inputs is None. */
static PyObject *inferred_shape(const tn_value_info *info, const int64_t *shape) {
  if (info->kind != TN_VALUE_TENSOR) return describe_dims(info, describe_dim);
  PyObject *tuple = PyTuple_New(info->rank);
  for (int i = 0; tuple != NULL && i < info->rank; i++) {
    PyObject *size = shape[i] < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(shape[i]);
    if (size == NULL || PyTuple_SetItem(tuple, i, size) != 0) Py_CLEAR(tuple);
  }
  return tuple;
}

static PyObject *inferred(PyObject *self, const tn_executable *exe, int output_count, const shapes *s) {
  tn_status *status = tn_function_infer_shapes(exe, NULL, s->of_inputs, s->outputs);
  if (status != NULL) return raise_status(state_of(self), status);
  PyObject *list = PyList_New(output_count);
  for (int i = 0; list != NULL && i < output_count; i++) {
    PyObject *tuple = inferred_shape(tn_executable_output(exe, NULL, i), s->outputs[i]);
    if (tuple == NULL || PyList_SetItem(list, i, tuple) != 0) Py_CLEAR(list);
  }
  return list;
}

/* Shapes of the outputs for shapes of the inputs, those of sequences and optional values as the signature has them. */
static PyObject *model_infer_shapes(PyObject *self, PyObject *args) {
  const tn_executable *exe = ((model_object *)self)->executable;
  PyObject *list;
  if (!PyArg_ParseTuple(args, "O!:infer_shapes", &PyList_Type, &list)) return NULL;
  int inputs = tn_executable_input_count(exe, NULL), outputs = tn_executable_output_count(exe, NULL);
  if (PyList_Size(list) != inputs) return PyErr_Format(PyExc_ValueError, "the model has %d inputs", inputs);
  shapes s = {.of_inputs = PyMem_Calloc((size_t)inputs + 1, sizeof(*s.of_inputs)),
              .inputs = PyMem_Calloc((size_t)inputs + 1, sizeof(*s.inputs)),
              .outputs = PyMem_Calloc((size_t)outputs + 1, sizeof(*s.outputs))};
  PyObject *result = NULL;
  if (s.of_inputs == NULL || s.inputs == NULL || s.outputs == NULL)
    PyErr_NoMemory();
  else if (read_shapes(list, inputs, exe, &s))
    result = inferred(self, exe, outputs, &s);
  PyMem_Free(s.of_inputs);
  PyMem_Free(s.inputs);
  PyMem_Free(s.outputs);
  return result;
}

/* ---- the module ------------------------------------------------------------------------------------------------- */

/* Sets an error where the model is for another machine. */
static bool runs_here(PyObject *self) {
  const model_object *model = (const model_object *)self;
  if (model->foreign == NULL) return true;
  raise_status(state_of(self), tn_status_create(TN_FAILED_PRECONDITION, "the model cannot run here, only be saved: %s",
                                                tn_status_message(model->foreign)));
  return false;
}

/* Methods of models that run on this machine. */
#define HERE(name)                                               \
  static PyObject *here_##name(PyObject *self, PyObject *args) { \
    return runs_here(self) ? model_##name(self, args) : NULL;    \
  }
HERE(invoke)
HERE(set_list)
HERE(list_count)
HERE(output_shape)
HERE(copy_output)
HERE(output_strings)
HERE(bound_strings)
HERE(bind)
HERE(invoke_bound)
HERE(start)
HERE(wait)
#undef HERE

static PyMethodDef model_methods[] = {
    {"signature", model_signature, METH_NOARGS, NULL},
    {"save", model_save, METH_VARARGS, NULL},
    {"text", model_text, METH_VARARGS, NULL},
    {"invoke", here_invoke, METH_VARARGS, NULL},
    {"set_list", here_set_list, METH_VARARGS, NULL},
    {"list_count", here_list_count, METH_VARARGS, NULL},
    {"output_shape", here_output_shape, METH_VARARGS, NULL},
    {"copy_output", here_copy_output, METH_VARARGS, NULL},
    {"output_strings", here_output_strings, METH_VARARGS, NULL},
    {"bound_strings", here_bound_strings, METH_VARARGS, NULL},
    {"infer_shapes", model_infer_shapes, METH_VARARGS, NULL},
    {"bind", here_bind, METH_VARARGS, NULL},
    {"device_tensor", model_device_tensor, METH_VARARGS, NULL},
    {"copy_tensor", model_copy_tensor, METH_VARARGS, NULL},
    {"invoke_bound", here_invoke_bound, METH_NOARGS, NULL},
    {"start", here_start, METH_NOARGS, NULL},
    {"wait", here_wait, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot model_slots[] = {
    {Py_tp_dealloc, (void *)model_dealloc},
    {Py_tp_methods, model_methods},
    {0, NULL},
};

static PyType_Spec model_spec = {
    .name = "tenon._tenon.Model",
    .basicsize = sizeof(model_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = model_slots,
};

/* Where a buffer begins: NumPy's own way of asking, array.ctypes.data, takes longer than small models run. */
static PyObject *address(PyObject *self, PyObject *object) {
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) != 0) return NULL;
  PyObject *number = PyLong_FromVoidPtr(view.buf);
  PyBuffer_Release(&view);
  return number;
}

static PyMethodDef module_methods[] = {
    {"address", address, METH_O, NULL},
    {"build_te", build_te, METH_VARARGS, NULL},
    {"explain_te", explain_te, METH_VARARGS, NULL},
    {"compile", compile, METH_VARARGS, NULL},
    {"options", options, METH_NOARGS, NULL},
    {"load", load, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module) {
  module_state *state = PyModule_GetState(module);
  state->error = PyErr_NewExceptionWithDoc(
      "tenon.Error", "Tenon could not do what it was asked; `code` names the kind.", PyExc_RuntimeError, NULL);
  if (state->error == NULL || PyModule_AddObjectRef(module, "Error", state->error) != 0) return -1;
  state->model_type = PyType_FromModuleAndSpec(module, &model_spec, NULL);
  if (state->model_type == NULL || PyModule_AddObjectRef(module, "Model", state->model_type) != 0) return -1;
  state->tensor_type = PyType_FromModuleAndSpec(module, &binding_device_tensor_spec, NULL);
  if (state->tensor_type == NULL || PyModule_AddObjectRef(module, "DeviceTensor", state->tensor_type) != 0) return -1;
  return PyModule_AddStringConstant(module, "version", tn_version());
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
  module_state *state = PyModule_GetState(module);
  Py_VISIT(state->error);
  Py_VISIT(state->model_type);
  Py_VISIT(state->tensor_type);
  return 0;
}

static int module_clear(PyObject *module) {
  module_state *state = PyModule_GetState(module);
  Py_CLEAR(state->error);
  Py_CLEAR(state->model_type);
  Py_CLEAR(state->tensor_type);
  return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, (void *)module_exec}, {0, NULL}};

static struct PyModuleDef module_def = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "tenon._tenon",
    .m_size = sizeof(module_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__tenon(void);
PyMODINIT_FUNC PyInit__tenon(void) { return PyModuleDef_Init(&module_def); }
