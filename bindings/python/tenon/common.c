// SPDX-License-Identifier: Apache-2.0
#include "common.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

PyObject *binding_text(const char *text) {
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
}

PyObject *binding_raise(PyObject *type, tn_status *status) {
  PyObject *message = binding_text(tn_status_message(status));
  PyObject *error = message == NULL ? NULL : PyObject_CallFunction(type, "O", message);
  PyObject *code = PyUnicode_FromString(tn_status_code_name(tn_status_code_of(status)));
  if (error != NULL && code != NULL && PyObject_SetAttrString(error, "code", code) == 0) PyErr_SetObject(type, error);
  Py_XDECREF(message);
  Py_XDECREF(error);
  Py_XDECREF(code);
  tn_status_free(status);
  return NULL;
}

/* ---- warnings --------------------------------------------------------------------------------------------------- */

static void keep_warning(void *user, tn_log_level level, const char *line) {
  binding_warnings *w = user;
  if (level < TN_LOG_WARNING) return;
  pthread_mutex_lock(&w->lock);
  size_t left = sizeof(w->text) - w->length;
  int n = snprintf(w->text + w->length, left, "%s%s", w->length > 0 ? "\n" : "", line);
  if (n > 0) w->length += (size_t)n < left ? (size_t)n : left - 1;
  pthread_mutex_unlock(&w->lock);
}

binding_warnings *binding_new_warnings(void) {
  binding_warnings *w = PyMem_Malloc(sizeof(*w));
  if (w == NULL) return NULL;
  w->length = 0;
  w->sink = (tn_log_sink){keep_warning, w};
  if (pthread_mutex_init(&w->lock, NULL) == 0) return w;
  PyMem_Free(w);
  return NULL;
}

void binding_free_warnings(binding_warnings *w) {
  if (w == NULL) return;
  pthread_mutex_destroy(&w->lock);
  PyMem_Free(w);
}

bool binding_tell_warnings(binding_warnings *w) {
  char text[sizeof(w->text)];
  pthread_mutex_lock(&w->lock);
  size_t length = w->length;
  memcpy(text, w->text, sizeof(text));
  w->length = 0;
  pthread_mutex_unlock(&w->lock);
  if (length == 0) return true;
  PyObject *message = binding_text(text);
  bool told = message != NULL && PyErr_WarnFormat(PyExc_RuntimeWarning, 2, "%U", message) == 0;
  Py_XDECREF(message);
  return told;
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

static size_t item_size(tn__option_kind kind) {
  if (kind == TN__OPTION_PAIRS) return sizeof(tn_alias_setting);
  if (kind == TN__OPTION_ON_DEVICE) return sizeof(tn_on_device);
  return kind == TN__OPTION_NAMES ? sizeof(const char *) : sizeof(tn_dim_setting);
}

/* One item of a list, whose texts are borrowed from it. */
static bool read_item(tn__option_kind kind, PyObject *item, char *out) {
  if (kind == TN__OPTION_PAIRS) {
    tn_alias_setting *pair = (void *)out;
    return PyArg_ParseTuple(item, "ss", &pair->output, &pair->input) != 0;
  }
  if (kind == TN__OPTION_ON_DEVICE) {
    tn_on_device *said = (void *)out;
    int body, result;
    if (!PyArg_ParseTuple(item, "sspp", &said->value, &said->device, &body, &result)) return false;
    said->constrain_body = body != 0;
    said->constrain_result = result != 0;
    return true;
  }
  if (kind == TN__OPTION_NAMES) {
    *(const char **)(void *)out = PyUnicode_AsUTF8AndSize(item, NULL);
    return *(const char **)(void *)out != NULL;
  }
  tn_dim_setting *dim = (void *)out;
  long long size;
  if (!PyArg_ParseTuple(item, "sL", &dim->name, &size)) return false;
  dim->size = size;
  return true;
}

static bool read_list(const tn__option_row *row, PyObject *list, binding_options *out) {
  Py_ssize_t count = PyList_Size(list);
  if (count < 0) return false;
  char *items = PyMem_Malloc(((size_t)count + 1) * item_size(row->kind));
  if (items == NULL) {
    PyErr_NoMemory();
    return false;
  }
  out->kept[out->kept_count++] = items;
  for (Py_ssize_t i = 0; i < count; i++)
    if (!read_item(row->kind, PyList_GetItem(list, i), items + (size_t)i * item_size(row->kind))) return false;
  char *options = (char *)&out->options;
  *(void **)(void *)(options + row->at) = items;
  *(int *)(void *)(options + row->count_at) = (int)count;
  return true;
}

static bool read_option(const tn__option_row *row, PyObject *value, binding_options *out) {
  bool declared = row->bytes > 0 && row->at == 0 && row->declared_at > 0; /* of declarations alone */
  void *field = declared ? (char *)&out->declared + row->declared_at : (char *)&out->options + row->at;
  int truth;
  long number;
  switch (row->kind) {
    case TN__OPTION_FLAG:
      truth = PyObject_IsTrue(value);
      *(bool *)field = truth > 0;
      return truth >= 0;
    case TN__OPTION_COUNT:
      number = PyLong_AsLong(value);
      if (number == -1 && PyErr_Occurred()) return false;
      *(int *)field = number < INT_MIN ? INT_MIN : number > INT_MAX ? INT_MAX : (int)number;
      return true;
    case TN__OPTION_BYTES: *(uint64_t *)field = PyLong_AsUnsignedLongLong(value); return PyErr_Occurred() == NULL;
    case TN__OPTION_FILE:
    case TN__OPTION_TEXT:
    case TN__OPTION_PATH:
    case TN__OPTION_WORDS:
      *(const char **)field = PyUnicode_AsUTF8AndSize(value, NULL);
      return *(const char **)field != NULL;
    case TN__OPTION_CALLER: PyErr_Format(PyExc_TypeError, "%s is no option of Python's", row->name); return false;
    default: return read_list(row, value, out);
  }
}

void binding_free_options(binding_options *given) {
  for (int i = 0; i < given->kept_count; i++) PyMem_Free(given->kept[i]);
}

bool binding_read_options(PyObject *fields, binding_options *out) {
  PyObject *key, *value;
  Py_ssize_t position = 0;
  *out = (binding_options){.options.size = sizeof(out->options), .declared.size = sizeof(out->declared)};
  while (PyDict_Next(fields, &position, &key, &value)) {
    const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
    const tn__option_row *row = name != NULL ? tn__options_find(name) : NULL;
    if (row == NULL && !PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "there is no option %s", name);
    if (row != NULL && read_option(row, value, out)) continue;
    binding_free_options(out);
    return false;
  }
  return true;
}
