// SPDX-License-Identifier: Apache-2.0
/* Tensors on devices, as objects that speak DLPack through __init__.py. */
#include "common.h"

#include <stdlib.h>

typedef struct device_tensor {
  PyObject_HEAD DLManagedTensorVersioned *tensor;
} device_tensor;

PyObject *binding_device_tensor(PyObject *type, DLManagedTensorVersioned *tensor) {
  device_tensor *self = PyObject_New(device_tensor, (PyTypeObject *)type);
  if (self == NULL)
    tensor->deleter(tensor);
  else
    self->tensor = tensor;
  return (PyObject *)self;
}

static void tensor_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  DLManagedTensorVersioned *tensor = ((device_tensor *)self)->tensor;
  Py_BEGIN_ALLOW_THREADS tensor->deleter(tensor);
  Py_END_ALLOW_THREADS PyObject_Free(self);
  Py_DECREF(type);
}

/* What a capsule holds keeps the object; whoever took it over may be without Python's lock. */
static void let_go(PyObject *owner) {
  PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF(owner);
  PyGILState_Release(state);
}

static void delete_plain(DLManagedTensor *self) {
  let_go(self->manager_ctx);
  free(self);
}

static void delete_versioned(DLManagedTensorVersioned *self) {
  let_go(self->manager_ctx);
  free(self);
}

/* Those that nobody took over have their first names. */
static void forget_plain(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor")) delete_plain(PyCapsule_GetPointer(capsule, "dltensor"));
}

static void forget_versioned(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
    delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

static PyObject *plain_capsule(PyObject *self, const DLTensor *tensor) {
  DLManagedTensor *managed = malloc(sizeof *managed);
  if (managed == NULL) return PyErr_NoMemory();
  *managed = (DLManagedTensor){*tensor, Py_NewRef(self), delete_plain};
  PyObject *capsule = PyCapsule_New(managed, "dltensor", forget_plain);
  if (capsule == NULL) delete_plain(managed);
  return capsule;
}

static PyObject *versioned_capsule(PyObject *self, const DLManagedTensorVersioned *tensor) {
  DLManagedTensorVersioned *managed = malloc(sizeof *managed);
  if (managed == NULL) return PyErr_NoMemory();
  *managed = *tensor;
  managed->manager_ctx = Py_NewRef(self);
  managed->deleter = delete_versioned;
  PyObject *capsule = PyCapsule_New(managed, "dltensor_versioned", forget_versioned);
  if (capsule == NULL) delete_versioned(managed);
  return capsule;
}

/* A capsule, of DLPack 1 or of before. */
static PyObject *tensor_dlpack(PyObject *self, PyObject *args) {
  int versioned;
  if (!PyArg_ParseTuple(args, "p:dlpack", &versioned)) return NULL;
  const DLManagedTensorVersioned *tensor = ((device_tensor *)self)->tensor;
  return versioned ? versioned_capsule(self, tensor) : plain_capsule(self, &tensor->dl_tensor);
}

static PyMethodDef tensor_methods[] = {{"dlpack", tensor_dlpack, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyType_Slot tensor_slots[] = {
    {Py_tp_dealloc, (void *)tensor_dealloc},
    {Py_tp_methods, tensor_methods},
    {0, NULL},
};

PyType_Spec binding_device_tensor_spec = {
    .name = "tenon._tenon.DeviceTensor",
    .basicsize = sizeof(device_tensor),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = tensor_slots,
};
