/* Checks of plain Python objects: identity, type, equality, lengths, keys. */
#include "guard_program.h"

#define VALUE run->slots[op->slot]

static bool check_type_is(const Op *op, Run *run) { return (PyObject *)Py_TYPE(VALUE) == op->object; }
static bool check_is(const Op *op, Run *run) { return VALUE == op->object; }
static bool check_same(const Op *op, Run *run) { return VALUE == run->slots[op->other]; }
static bool check_not_same(const Op *op, Run *run) { return VALUE != run->slots[op->other]; }

static bool check_is_weak(const Op *op, Run *run) {
    PyObject *target = weakref_target(op->object);
    Py_XDECREF(target); /* only its address counts from here */
    return target != NULL && target == VALUE;
}

static bool equal_sequences(PyObject *left, PyObject *right) {
    Py_ssize_t size = PyTuple_GET_SIZE(left);
    if (size != PyTuple_GET_SIZE(right)) return false;
    for (Py_ssize_t i = 0; i < size; i++)
        if (!equal_exactly(PyTuple_GET_ITEM(left, i), PyTuple_GET_ITEM(right, i))) return false;
    return true;
}

/* A number made of each item's hash and type, in whatever order: equal sets with 1 in place of True differ in it. */
static uint64_t set_signature(PyObject *set) {
    uint64_t signature = 0;
    PyObject *iterator = PyObject_GetIter(set), *item;
    while (iterator && (item = PyIter_Next(iterator))) {
        uint64_t hash = (uint64_t)PyObject_Hash(item), type = (uint64_t)(uintptr_t)Py_TYPE(item);
        signature += (hash ^ 0x9E3779B97F4A7C15u) * (type | 1);
        Py_DECREF(item);
    }
    Py_XDECREF(iterator);
    return signature;
}

static bool equal_sets(PyObject *left, PyObject *right) {
    if (PySet_GET_SIZE(left) != PySet_GET_SIZE(right)) return false;
    int equal = PyObject_RichCompareBool(left, right, Py_EQ);
    bool same = equal == 1 && set_signature(left) == set_signature(right);
    PyErr_Clear();
    return same;
}

static bool equal_doubles(double left, double right) { return memcmp(&left, &right, sizeof left) == 0; }

static bool rich_equal(PyObject *left, PyObject *right) {
    int equal = PyObject_RichCompareBool(left, right, Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal == 1;
}

bool equal_exactly(PyObject *left, PyObject *right) {
    if (left == right) return true;
    if (Py_TYPE(left) != Py_TYPE(right)) return false;
    if (PyFloat_CheckExact(left)) return equal_doubles(PyFloat_AS_DOUBLE(left), PyFloat_AS_DOUBLE(right));
    if (PyComplex_CheckExact(left)) {
        Py_complex a = PyComplex_AsCComplex(left), b = PyComplex_AsCComplex(right);
        return equal_doubles(a.real, b.real) && equal_doubles(a.imag, b.imag);
    }
    if (PyTuple_CheckExact(left)) return equal_sequences(left, right);
    if (PyAnySet_CheckExact(left)) return equal_sets(left, right);
    return rich_equal(left, right);
}

static bool check_equals(const Op *op, Run *run) { return equal_exactly(VALUE, op->object); }

Py_ssize_t container_length(PyObject *object) {
    if (PyList_Check(object) || PyTuple_Check(object)) return Py_SIZE(object);
    if (PyDict_Check(object)) return PyDict_GET_SIZE(object);
    if (PyAnySet_Check(object)) return PySet_GET_SIZE(object);
    if (PyUnicode_Check(object)) return PyUnicode_GET_LENGTH(object);
    if (PyBytes_Check(object)) return PyBytes_GET_SIZE(object);
    /* Other classes written in C cannot run user code for it: deque, range, views of dictionaries. */
    if (PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) &&
        !PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_IMMUTABLETYPE))
        return -1;
    Py_ssize_t size = PyObject_Size(object);
    if (size < 0) PyErr_Clear();
    return size;
}

static bool check_length(const Op *op, Run *run) { return container_length(VALUE) == op->flag; }

static bool check_truth(const Op *op, Run *run) {
    PyObject *value = VALUE;
    Py_ssize_t size = PyLong_Check(value) || PyFloat_Check(value) ? -1 : container_length(value);
    int truth = size >= 0 ? size > 0 : PyObject_IsTrue(value);
    if (truth < 0) PyErr_Clear();
    return truth == op->flag;
}

static bool same_keys_ordered(PyObject *dict, PyObject *expected) {
    bool same = true;
    PyObject *keys = PySequence_Tuple(dict);
    if (keys == NULL) PyErr_Clear();
    same = keys && equal_sequences(keys, expected);
    Py_XDECREF(keys);
    return same;
}

static bool check_dict_keys(const Op *op, Run *run) {
    PyObject *dict = VALUE, *expected = op->object, *key;
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(expected)) return false;
    if (PyODict_Check(dict)) return same_keys_ordered(dict, expected);
    Py_ssize_t position = 0;
    for (Py_ssize_t i = 0; PyDict_Next(dict, &position, &key, NULL); i++)
        if (i >= PyTuple_GET_SIZE(expected) || !equal_exactly(key, PyTuple_GET_ITEM(expected, i))) return false;
    return true;
}

/* 1 inside, 0 outside, -1 not a container that answers without user code. */
static int holds_key(PyObject *object, PyObject *key) {
    int inside = -1;
    if (PyDict_Check(object))
        inside = PyDict_Contains(object, key);
    else if (PyAnySet_Check(object))
        inside = PySet_Contains(object, key);
    else if (Py_IS_TYPE(object, &PyDictProxy_Type))
        inside = PySequence_Contains(object, key);
    if (inside < 0) PyErr_Clear();
    return inside;
}

static bool check_dict_has(const Op *op, Run *run) { return holds_key(VALUE, op->object) == 1; }
static bool check_dict_lacks(const Op *op, Run *run) { return holds_key(VALUE, op->object) == 0; }
static bool check_dict_has_at(const Op *op, Run *run) { return holds_key(VALUE, run->slots[op->other]) == 1; }
static bool check_dict_lacks_at(const Op *op, Run *run) { return holds_key(VALUE, run->slots[op->other]) == 0; }

/* Classes are asked for their names by the type's own lookup, which makes no exception of what is not there. */
static bool check_lacks_attr(const Op *op, Run *run) {
    PyTypeObject *kind = Py_TYPE(VALUE);
    if (PyType_Check(VALUE) && kind->tp_getattro == PyType_Type.tp_getattro)
        return !_PyType_Lookup((PyTypeObject *)VALUE, op->object) && !_PyType_Lookup(kind, op->object);
    PyObject *found = NULL;
    int status = compat_get_optional_attr(VALUE, op->object, &found);
    if (status < 0) PyErr_Clear();
    Py_XDECREF(found);
    return status == 0;
}

static bool check_cell_empty(const Op *op, Run *run) {
    PyObject *cell = VALUE;
    return PyCell_Check(cell) && PyCell_GET(cell) == NULL;
}

static bool check_range_is(const Op *op, Run *run) {
    static const char *const parts[] = {"start", "stop",
                                        "step"}; /* range(0) and range(1, 1) are equal, yet not alike */
    PyObject *value = VALUE;
    if (!PyRange_Check(value)) return false;
    bool same = true;
    for (int i = 0; i < 3 && same; i++) {
        PyObject *left = PyObject_GetAttrString(value, parts[i]), *right = PyObject_GetAttrString(op->object, parts[i]);
        same = left && right && rich_equal(left, right);
        Py_XDECREF(left);
        Py_XDECREF(right);
    }
    PyErr_Clear();
    return same;
}

static bool check_set_is(const Op *op, Run *run) {
    PyObject *value = VALUE;
    return PyAnySet_Check(value) && equal_sets(value, op->object);
}

static bool check_int_in(const Op *op, Run *run) {
    PyObject *value = VALUE;
    if (!PyLong_CheckExact(value)) return false;
    int overflow;
    int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    const int64_t *bounds = op->data;
    return !overflow && bounds[0] <= number && number <= bounds[1];
}

static int prepare_int_in(Op *op) {
    int64_t *bounds = op->data = PyMem_Malloc(2 * sizeof(int64_t));
    if (bounds == NULL) return PyErr_NoMemory(), -1;
    long long low, high;
    if (!PyArg_ParseTuple(op->object, "LL", &low, &high)) return -1;
    bounds[0] = low;
    bounds[1] = high;
    return 0;
}

int prepare_slots(Op *op) {
    Py_ssize_t count = PyTuple_GET_SIZE(op->object);
    int32_t *slots = op->data = PyMem_Malloc((count + 1) * sizeof(int32_t));
    if (slots == NULL) return PyErr_NoMemory(), -1;
    slots[0] = (int32_t)count;
    for (Py_ssize_t i = 0; i < count; i++) slots[i + 1] = (int32_t)PyLong_AsLong(PyTuple_GET_ITEM(op->object, i));
    return PyErr_Occurred() ? -1 : 0;
}

static bool is_true_result(PyObject *result) {
    int truth = result ? PyObject_IsTrue(result) : -1;
    Py_XDECREF(result);
    if (truth < 0) PyErr_Clear();
    return truth == 1;
}

/* constant: (callable, (slot, ...)) */
static bool check_python(const Op *op, Run *run) {
    const int32_t *slots = op->data;
    PyObject *args[16];
    for (int i = 0; i < slots[0]; i++) args[i] = run->slots[slots[i + 1]];
    return is_true_result(PyObject_Vectorcall(PyTuple_GET_ITEM(op->object, 0), args, slots[0], NULL));
}

static bool check_python_many(const Op *op, Run *run) {
    const int32_t *slots = op->data;
    PyObject *args = PyTuple_New(slots[0]);
    if (args == NULL) return PyErr_Clear(), false;
    for (int i = 0; i < slots[0]; i++) PyTuple_SET_ITEM(args, i, Py_NewRef(run->slots[slots[i + 1]]));
    PyObject *result = PyObject_Call(PyTuple_GET_ITEM(op->object, 0), args, NULL);
    Py_DECREF(args);
    return is_true_result(result);
}

int prepare_call(Op *op) {
    PyObject *whole = op->object, *slots = PyTuple_GetItem(whole, 1);
    if (slots == NULL || !PyTuple_Check(slots)) return -1;
    op->object = slots;
    int status = prepare_slots(op);
    op->object = whole;
    return status;
}

static int prepare_python(Op *op) {
    int status = prepare_call(op);
    if (status == 0 && *(int32_t *)op->data > 16) op->step = check_python_many;
    return status;
}

bool mode_is(PyObject *reader, PyObject *expected) {
    PyObject *value = PyObject_CallNoArgs(reader);
    bool same = value && equal_exactly(value, expected);
    Py_XDECREF(value);
    PyErr_Clear();
    return same;
}

/* constant: (reader, expected): a mode of the process or thread */
bool check_mode(const Op *op, Run *run) {
    (void)run;
    return mode_is(PyTuple_GET_ITEM(op->object, 0), PyTuple_GET_ITEM(op->object, 1));
}

const OpRow CHECK_ROWS[] = {
    {"type_is", check_type_is, NULL, false, MEMO_TYPE},
    {"is", check_is, NULL, false, MEMO_IDENTITY},
    {"is_weak", check_is_weak},
    {"same_as", check_same, NULL, false, MEMO_TWO},
    {"not_same_as", check_not_same, NULL, false, MEMO_TWO},
    {"equals", check_equals, NULL, false, MEMO_VALUE},
    {"length", check_length, NULL, false, MEMO_CONTENTS},
    {"truth", check_truth, NULL, false, MEMO_CONTENTS},
    {"dict_keys", check_dict_keys, NULL, false, MEMO_KEYS},
    {"dict_has", check_dict_has, NULL, false, MEMO_CONTENTS},
    {"dict_lacks", check_dict_lacks, NULL, false, MEMO_CONTENTS},
    {"dict_has_at", check_dict_has_at},
    {"dict_lacks_at", check_dict_lacks_at},
    {"lacks_attr", check_lacks_attr},
    {"cell_empty", check_cell_empty},
    {"range_is", check_range_is, NULL, false, MEMO_VALUE},
    {"set_is", check_set_is, NULL, false, MEMO_VALUE},
    {"int_in", check_int_in, prepare_int_in, false, MEMO_VALUE},
    {"python", check_python, prepare_python},
    {"mode", check_mode},
    {NULL},
};
