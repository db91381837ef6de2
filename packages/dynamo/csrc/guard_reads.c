/* Reads: one step of a source each, from slot to slot. A read that finds nothing means that its guard is violated. */
#include "guard_program.h"

static inline bool put(Run *run, const Op *op, PyObject *value) {
    run->slots[op->other] = value;
    return value != NULL;
}

static inline bool put_new(Run *run, const Op *op, PyObject *value) {
    if (value == NULL) {
        PyErr_Clear();
        return false;
    }
    run->owned[run->owned_count++] = value;
    run->slots[op->other] = value;
    return true;
}

static bool read_local(const Op *op, Run *run) { return put(run, op, run->locals[op->flag]); }

static bool read_cell(const Op *op, Run *run) {
    if (!PyFunction_Check(run->function)) return false;
    PyObject *closure = PyFunction_GET_CLOSURE(run->function);
    if (closure == NULL || PyTuple_GET_SIZE(closure) <= op->flag) return false;
    return put(run, op, PyTuple_GET_ITEM(closure, op->flag));
}

static bool read_pinned(const Op *op, Run *run) { return put(run, op, op->object); }
static bool read_weak(const Op *op, Run *run) { return put_new(run, op, weakref_target(op->object)); }

static bool read_content(const Op *op, Run *run) {
    PyObject *cell = run->slots[op->slot];
    return PyCell_Check(cell) && put(run, op, PyCell_GET(cell));
}

static bool read_type(const Op *op, Run *run) { return put(run, op, (PyObject *)Py_TYPE(run->slots[op->slot])); }

static bool read_attribute(const Op *op, Run *run) {
    return put_new(run, op, get_attribute_quietly(run->slots[op->slot], op->object));
}

static bool read_instance_dict(const Op *op, Run *run) {
    PyObject *object = run->slots[op->slot], *dict;
    if (PyType_Check(object)) /* the dictionary behind the read-only view that Python shows */
        dict = compat_type_dict((PyTypeObject *)object);
    else if (PyModule_Check(object))
        dict = Py_XNewRef(PyModule_GetDict(object));
    else
        dict = PyObject_GenericGetDict(object, NULL);
    return put_new(run, op, dict);
}

static bool read_dict_item(const Op *op, Run *run) {
    PyObject *dict = run->slots[op->slot];
    if (!PyDict_Check(dict)) return false;
    PyObject *value = PyDict_GetItemWithError(dict, op->object);
    if (value == NULL) PyErr_Clear();
    return put(run, op, value);
}

/* An item of a list or tuple by position, or what C sequences without user code give. */
static bool read_index(const Op *op, Run *run) {
    PyObject *object = run->slots[op->slot];
    Py_ssize_t index = op->flag;
    if (PyDict_Check(object)) return read_dict_item(op, run); /* an integer key */
    if (!PyList_Check(object) && !PyTuple_Check(object)) {
        if (container_length(object) < 0) return false;
        return put_new(run, op, PySequence_GetItem(object, index));
    }
    Py_ssize_t size = Py_SIZE(object);
    if (index < 0) index += size;
    if (index < 0 || index >= size) return false;
    return put(run, op, PyList_Check(object) ? PyList_GET_ITEM(object, index) : PyTuple_GET_ITEM(object, index));
}

/* An item by any constant key. */
static bool read_item(const Op *op, Run *run) {
    PyObject *object = run->slots[op->slot];
    if (PyDict_Check(object)) return read_dict_item(op, run);
    if (Py_IS_TYPE(object, &PyDictProxy_Type) || PyList_CheckExact(object) || PyTuple_CheckExact(object))
        return put_new(run, op, PyObject_GetItem(object, op->object));
    return false;
}

/* The item whose key is the object in another slot. */
static bool read_dict_item_at(const Op *op, Run *run) {
    PyObject *dict = run->slots[op->slot];
    if (!PyDict_Check(dict)) return false;
    PyObject *value = PyDict_GetItemWithError(dict, run->slots[op->flag]);
    if (value == NULL) PyErr_Clear();
    return put(run, op, value);
}

static bool read_dict_key(const Op *op, Run *run) {
    PyObject *dict = run->slots[op->slot], *key = NULL;
    if (!PyDict_Check(dict)) return false;
    if (!PyODict_Check(dict)) {
        Py_ssize_t position = 0;
        for (int i = 0; i <= op->flag; i++)
            if (!PyDict_Next(dict, &position, &key, NULL)) return false;
        return put(run, op, key);
    }
    PyObject *keys = PySequence_List(dict); /* its order is not that of the table beneath */
    if (keys && op->flag < PyList_GET_SIZE(keys)) key = Py_NewRef(PyList_GET_ITEM(keys, op->flag));
    Py_XDECREF(keys);
    return put_new(run, op, key);
}

/* What a function that only looks at the object makes of it. */
static bool read_derived(const Op *op, Run *run) {
    return put_new(run, op, PyObject_CallOneArg(op->object, run->slots[op->slot]));
}

static int prepare_attribute(Op *op) {
    if (!PyUnicode_Check(op->object)) {
        PyErr_SetString(PyExc_TypeError, "an attribute's name must be a string");
        return -1;
    }
    PyUnicode_InternInPlace(&op->object);
    return 0;
}

static int prepare_key(Op *op) { return PyObject_Hash(op->object) == -1 ? -1 : 0; }

const OpRow READ_ROWS[] = {
    {"local", read_local, NULL, false},
    {"cell", read_cell, NULL, false},
    {"pinned", read_pinned, NULL, false, MEMO_PINNED},
    {"weak", read_weak, NULL, true},
    {"content", read_content, NULL, false},
    {"type", read_type, NULL, false},
    {"attribute", read_attribute, prepare_attribute, true},
    {"instance_dict", read_instance_dict, NULL, true, MEMO_INSTANCE_DICT},
    {"dict_item", read_dict_item, prepare_key, false, MEMO_ITEM},
    {"dict_item_at", read_dict_item_at, NULL, false},
    {"index", read_index, prepare_key, true, MEMO_INDEX},
    {"item", read_item, prepare_key, true, MEMO_ITEM},
    {"dict_key", read_dict_key, NULL, true},
    {"derived", read_derived, NULL, true},
    {NULL},
};
