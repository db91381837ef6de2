/* What differs between CPython 3.11 to 3.14, behind one set of names. */
#ifndef TRIPTYCH_COMPAT_H
#define TRIPTYCH_COMPAT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#if PY_VERSION_HEX >= 0x030F0000
#error "this interpreter is newer than the newest supported one (3.14)"
#elif PY_VERSION_HEX >= 0x030E0000
#include "cpython_3_14.h"
#elif PY_VERSION_HEX >= 0x030D0000
#include "cpython_3_13.h"
#elif PY_VERSION_HEX >= 0x030C0000
#include "cpython_3_12.h"
#elif PY_VERSION_HEX >= 0x030B0000
#include "cpython_3_11.h"
#else
#error "this interpreter is older than the oldest supported one (3.11)"
#endif

/* The attribute, a new reference, or NULL; no exception stays set. */
static inline PyObject *get_attribute_quietly(PyObject *object, PyObject *name) {
    PyObject *value = NULL;
    if (compat_get_optional_attr(object, name, &value) < 0) PyErr_Clear();
    return value;
}

/* A strong reference to what a weak reference points at, or NULL when that is gone. */
static inline PyObject *weakref_target(PyObject *reference) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *target = NULL;
    if (PyWeakref_GetRef(reference, &target) < 0) PyErr_Clear();
    return target;
#else
    PyObject *target = PyWeakref_GET_OBJECT(reference);
    return target == Py_None ? NULL : Py_NewRef(target);
#endif
}

/* The dictionary of a class, a new reference. */
static inline PyObject *compat_type_dict(PyTypeObject *type) {
#if PY_VERSION_HEX >= 0x030C0000
    return PyType_GetDict(type);
#else
    return Py_XNewRef(type->tp_dict);
#endif
}

#endif
