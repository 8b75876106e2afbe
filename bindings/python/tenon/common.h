// SPDX-License-Identifier: Apache-2.0
/* What the extensions of the Python package share: errors, warnings and options. */
#ifndef TENON_BINDINGS_PYTHON_COMMON_H
#define TENON_BINDINGS_PYTHON_COMMON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>

#include "options/options.h"
#include "tenon/compile.h"
#include "tenon/runtime.h"
#include "tenon/te.h"

/* A text of the library's, which may quote bytes that are no UTF-8: those are told as \xNN. */
PyObject *binding_text(const char *text);

/* Raises an exception of the type, tenon.Error, with the status's words and its code's name, and takes the status.
 * Returns NULL. */
PyObject *binding_raise(PyObject *type, tn_status *status);

/* What the library warns of, from any of its threads, until somebody with Python's lock tells it. */
typedef struct binding_warnings {
  tn_log_sink sink;
  pthread_mutex_t lock;
  char text[2048];
  size_t length;
} binding_warnings;

binding_warnings *binding_new_warnings(void); /* NULL without memory */
void binding_free_warnings(binding_warnings *w);
/* False when Python makes an exception of the warning. The caller is whoever called tenon's function. */
bool binding_tell_warnings(binding_warnings *w);

/* Options as a dictionary has them, by the names of their fields. What is allocated for them is `kept`. */
typedef struct binding_options {
  tn_compile_options options;
  tn_schedule_options declared; /* those of declarations alone */
  void *kept[32];
  int kept_count;
} binding_options;

/* {field: value}, which the caller keeps while the options are in use. False with an exception. */
bool binding_read_options(PyObject *fields, binding_options *out);
void binding_free_options(binding_options *given);

/* tenon._tenon.DeviceTensor, the type, and one of it, which takes the tensor, also when it fails. */
extern PyType_Spec binding_device_tensor_spec;
PyObject *binding_device_tensor(PyObject *type, DLManagedTensorVersioned *tensor);

#endif
