/* Checks and reads of tensors: through the C ABI where `init_torch` found it, else by attribute. */
#include "torch_api.h"

/* -- what is expected of a tensor */
typedef struct {
    int32_t dtype, device_type, device_index; /* device_index -2: any */
    int32_t requires_grad; /* -1: any */
    int64_t dims;
    int64_t dispatch_keys, key_mask;
    bool has_strides, has_keys;
    int64_t extents[]; /* sizes, then strides; FREE where anything goes */
} Expected;

#define FREE INT64_MIN

/* Fill `out` from a tuple of ints and Nones. */
static int read_extents(PyObject *tuple, int64_t *out) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        out[i] = item == Py_None ? FREE : PyLong_AsLongLong(item);
        if (out[i] == -1 && PyErr_Occurred()) return -1;
    }
    return 0;
}

/* constant: (class, dtype code, device type, device index, requires_grad, sizes, strides or None, keys or None, dtype,
 * device, mask of keys) */
static int prepare_tensor(Op *op) {
    PyObject *cls, *sizes, *strides, *keys, *dtype, *device, *mask;
    int code, device_type, device_index, requires_grad;
    if (!PyArg_ParseTuple(op->object, "O!iiiiO!OOOOO", &PyType_Type, &cls, &code, &device_type, &device_index,
                          &requires_grad, &PyTuple_Type, &sizes, &strides, &keys, &dtype, &device, &mask))
        return -1;
    if (torch_api.tensor_type == NULL || !PyType_IsSubtype((PyTypeObject *)cls, torch_api.tensor_type)) {
        PyErr_SetString(PyExc_TypeError, "tensor guards need init_torch first, and a class of tensors");
        return -1;
    }
    Py_ssize_t dims = PyTuple_GET_SIZE(sizes);
    Expected *expected = op->data = PyMem_Calloc(1, sizeof(Expected) + 2 * dims * sizeof(int64_t));
    if (expected == NULL) return PyErr_NoMemory(), -1;
    *expected = (Expected){code, device_type, device_index, requires_grad, dims};
    expected->has_strides = strides != Py_None;
    expected->has_keys = keys != Py_None;
    expected->key_mask = (int64_t)PyLong_AsUnsignedLongLongMask(mask);
    if (expected->has_keys)
        expected->dispatch_keys = (int64_t)PyLong_AsUnsignedLongLongMask(keys) & expected->key_mask;
    if (expected->has_strides && (!PyTuple_Check(strides) || PyTuple_GET_SIZE(strides) != dims)) {
        PyErr_SetString(PyExc_ValueError, "as many strides as sizes");
        return -1;
    }
    if (read_extents(sizes, expected->extents) < 0) return -1;
    if (expected->has_strides && read_extents(strides, expected->extents + dims) < 0) return -1;
    return PyErr_Occurred() ? -1 : 0;
}

static inline bool fits(const int64_t *expected, const int64_t *actual, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (expected[i] != actual[i] && expected[i] != FREE) return false;
    return true;
}

static bool same_grad_flag(PyObject *tensor, int expected) {
    if (expected < 0) return true;
    if (torch_api.impl_requires_grad) return torch_api.impl_requires_grad(impl_of(tensor)) == expected;
    PyGetSetDef *getter = torch_api.requires_grad->d_getset;
    PyObject *value = getter->get(tensor, getter->closure);
    bool same = value && (value == Py_True) == expected;
    Py_XDECREF(value);
    if (value == NULL) PyErr_Clear();
    return same;
}

static bool same_keys(PyObject *tensor, const Expected *expected) {
    const int64_t keys = expected->dispatch_keys, mask = expected->key_mask;
    if (torch_api.key_word && is_direct(tensor)) return ((int64_t)impl_of(tensor)[torch_api.key_word] & mask) == keys;
    PyObject *value = PyObject_CallOneArg(torch_api.dispatch_keys, tensor);
    bool same = value && PyLong_Check(value) && ((int64_t)PyLong_AsUnsignedLongLongMask(value) & mask) == keys;
    Py_XDECREF(value);
    PyErr_Clear();
    return same;
}

static bool check_direct(const Expected *expected, PyObject *tensor) {
    Handle handle = handle_of(tensor);
    int64_t dims, *sizes, *strides;
    int32_t code;
    if (torch_api.dim(handle, &dims) || dims != expected->dims) return false;
    if (torch_api.dtype(handle, &code) || code != expected->dtype) return false;
    if (torch_api.device_type(handle, &code) || code != expected->device_type) return false;
    if (expected->device_index != -2 && (torch_api.device_index(handle, &code) || code != expected->device_index))
        return false;
    if (torch_api.sizes(handle, &sizes) || !fits(expected->extents, sizes, dims)) return false;
    if (!expected->has_strides) return true;
    if (torch_api.layout(handle, &code) || code != torch_api.strided) return false; /* others have no strides to read */
    return torch_api.strides(handle, &strides) == 0 && fits(expected->extents + dims, strides, dims);
}

/* -- the twin that only uses attributes */
static bool attribute_equals(PyObject *tensor, const char *name, PyObject *expected) {
    PyObject *value = PyObject_GetAttrString(tensor, name);
    bool same = value && PyObject_RichCompareBool(value, expected, Py_EQ) == 1;
    Py_XDECREF(value);
    PyErr_Clear();
    return same;
}

/* `tuple` is what the attribute or method gave; consumed. */
static bool tuple_fits(PyObject *tuple, const int64_t *expected, int64_t count) {
    int64_t actual;
    bool same = tuple && PyTuple_Check(tuple) && PyTuple_GET_SIZE(tuple) == count;
    for (int64_t i = 0; i < count && same; i++) {
        actual = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
        same = fits(expected + i, &actual, 1);
    }
    Py_XDECREF(tuple);
    PyErr_Clear();
    return same;
}

static bool check_by_attributes(const Op *op, PyObject *tensor) {
    const Expected *expected = op->data;
    PyObject *flag = expected->requires_grad ? Py_True : Py_False;
    if (!attribute_equals(tensor, "dtype", PyTuple_GET_ITEM(op->object, 8))) return false;
    if (!attribute_equals(tensor, "device", PyTuple_GET_ITEM(op->object, 9))) return false;
    if (expected->requires_grad >= 0 && !attribute_equals(tensor, "requires_grad", flag)) return false;
    if (!tuple_fits(PyObject_GetAttrString(tensor, "shape"), expected->extents, expected->dims)) return false;
    if (!expected->has_strides) return true;
    PyObject *name = PyUnicode_InternFromString("stride"), *strides = PyObject_CallMethodNoArgs(tensor, name);
    Py_DECREF(name);
    return tuple_fits(strides, expected->extents + expected->dims, expected->dims);
}

static bool check_tensor(const Op *op, Run *run) {
    PyObject *tensor = run->slots[op->slot];
    const Expected *expected = op->data;
    if ((PyObject *)Py_TYPE(tensor) != PyTuple_GET_ITEM(op->object, 0)) return false;
    if (is_direct(tensor)) {
        if (!check_direct(expected, tensor) || !same_grad_flag(tensor, expected->requires_grad)) return false;
    } else if (!check_by_attributes(op, tensor)) {
        return false;
    }
    return !expected->has_keys || same_keys(tensor, expected);
}

/* -- integers of a tensor, memory, modes */
static bool integer_by_method(PyObject *tensor, const char *name, Py_ssize_t dim, int64_t *out) {
    PyObject *value = dim < 0 ? PyObject_CallMethod(tensor, name, NULL) : PyObject_CallMethod(tensor, name, "n", dim);
    bool good = value && PyLong_Check(value);
    if (good) *out = PyLong_AsLongLong(value);
    Py_XDECREF(value);
    good = good && !PyErr_Occurred();
    PyErr_Clear();
    return good;
}

bool tensor_integer(PyObject *tensor, int kind, Py_ssize_t dim, int64_t *out) {
    static const char *const methods[] = {"size", "stride", "storage_offset"};
    if (torch_api.tensor_type == NULL || !PyObject_TypeCheck(tensor, torch_api.tensor_type)) return false;
    if (!is_direct(tensor) || Py_TYPE(tensor)->tp_getattro != torch_api.tensor_type->tp_getattro)
        return integer_by_method(tensor, methods[kind], kind == TENSOR_OFFSET ? -1 : dim, out);
    Handle handle = handle_of(tensor);
    int64_t dims, *extents;
    int32_t layout;
    if (torch_api.dim(handle, &dims) || (kind != TENSOR_OFFSET && (dim < 0 || dim >= dims))) return false;
    if (kind == TENSOR_SIZE) return torch_api.sizes(handle, &extents) == 0 && (*out = extents[dim], true);
    if (torch_api.layout(handle, &layout) || layout != torch_api.strided) return false;
    if (kind == TENSOR_OFFSET) return torch_api.offset_of(handle, out) == 0;
    return torch_api.strides(handle, &extents) == 0 && (*out = extents[dim], true);
}

/* The bytes that a strided tensor can reach, from its first element to its last. */
static bool memory_range_direct(Handle handle, Range *range) {
    int64_t dims, *sizes, *strides, last = 0;
    int32_t code;
    void *data;
    if (torch_api.layout(handle, &code) || code != torch_api.strided || torch_api.dtype(handle, &code)) return false;
    if (torch_api.dim(handle, &dims) || torch_api.sizes(handle, &sizes) || torch_api.strides(handle, &strides))
        return false;
    if (torch_api.data(handle, &data)) return false;
    range->start = range->end = (uintptr_t)data;
    for (int64_t i = 0; i < dims; i++) {
        if (sizes[i] == 0) return true;
        last += (sizes[i] - 1) * strides[i];
    }
    range->end = range->start + (last + 1) * torch_api.element_size(code);
    return true;
}

bool tensor_memory(PyObject *tensor, Range *range) {
    int64_t dims, extent, stride, data, width, last = 0;
    if (torch_api.tensor_type == NULL || !PyObject_TypeCheck(tensor, torch_api.tensor_type)) return false;
    if (is_direct(tensor)) return memory_range_direct(handle_of(tensor), range);
    if (!integer_by_method(tensor, "dim", -1, &dims) || !integer_by_method(tensor, "data_ptr", -1, &data)) return false;
    if (!integer_by_method(tensor, "element_size", -1, &width)) return false;
    range->start = range->end = (uintptr_t)data;
    for (int64_t i = 0; i < dims; i++) {
        if (!integer_by_method(tensor, "size", i, &extent) || !integer_by_method(tensor, "stride", i, &stride))
            return false;
        if (extent == 0) return true;
        last += (extent - 1) * stride;
    }
    range->end = range->start + (last + 1) * width;
    return true;
}

/* flag: expected; constant: a callable that tells the same, for a torch without the C ABI. */
static bool check_grad_mode(const Op *op, Run *run) {
    (void)run;
    if (torch_api.grad_enabled) return torch_api.grad_enabled() == op->flag;
    PyObject *value = PyObject_CallNoArgs(op->object);
    int truth = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    PyErr_Clear();
    return truth == op->flag;
}

/* constant: (a callable that tells whether gradients are on, slots): off, or wanted for none of the tensors */
static bool check_no_gradients(const Op *op, Run *run) {
    const int32_t *slots = op->data;
    if (torch_api.grad_enabled ? !torch_api.grad_enabled() : mode_is(PyTuple_GET_ITEM(op->object, 0), Py_False))
        return true;
    for (int32_t i = 1; i <= slots[0]; i++)
        if (!PyObject_TypeCheck(run->slots[slots[i]], torch_api.tensor_type) ||
            !same_grad_flag(run->slots[slots[i]], false))
            return false;
    return true;
}

/* constant: (reader, expected) for a torch without the quick function */
static bool check_inference_mode(const Op *op, Run *run) {
    return torch_api.inference_enabled ? torch_api.inference_enabled() == op->flag : check_mode(op, run);
}

/* flag: the expected dtype's code; constant as above */
static bool check_default_dtype(const Op *op, Run *run) {
    return torch_api.default_dtype ? torch_api.default_dtype() == op->flag : check_mode(op, run);
}

/* constant: (reader, expected) ... for modes that the dispatch state shows; data: the words when all of them were right
 */
static bool check_dispatch_modes(const Op *op, Run *run) {
    (void)run;
    const uint64_t *words = dispatch_state();
    uint64_t *known = op->data;
    if (words && known[2] && known[0] == words[0] && known[1] == words[1]) return true;
    for (Py_ssize_t i = 0; i + 1 < PyTuple_GET_SIZE(op->object); i += 2)
        if (!mode_is(PyTuple_GET_ITEM(op->object, i), PyTuple_GET_ITEM(op->object, i + 1))) return false;
    if (words) known[0] = words[0], known[1] = words[1], known[2] = 1;
    return true;
}

static int prepare_dispatch_modes(Op *op) {
    op->data = PyMem_Calloc(3, sizeof(uint64_t));
    return op->data ? 0 : (PyErr_NoMemory(), -1);
}

PyObject *tensor_facts(PyObject *module, PyObject *tensor) {
    int32_t dtype, device_type, device_index;
    if (torch_api.tensor_type == NULL || !PyObject_TypeCheck(tensor, torch_api.tensor_type)) {
        PyErr_SetString(PyExc_TypeError, "not a tensor, or init_torch was not called");
        return NULL;
    }
    if (!is_direct(tensor)) return Py_BuildValue("(iii)", -1, -1, -1);
    Handle handle = handle_of(tensor);
    if (torch_api.dtype(handle, &dtype) || torch_api.device_type(handle, &device_type) ||
        torch_api.device_index(handle, &device_index)) {
        PyErr_SetString(PyExc_RuntimeError, "the tensor's facts cannot be read");
        return NULL;
    }
    return Py_BuildValue("(iii)", dtype, device_type, device_index);
}

const OpRow TENSOR_ROWS[] = {
    {"tensor", check_tensor, prepare_tensor},
    {"no_gradients", check_no_gradients, prepare_call},
    {"grad_mode", check_grad_mode},
    {"inference_mode", check_inference_mode},
    {"dispatch_modes", check_dispatch_modes, prepare_dispatch_modes},
    {"default_dtype", check_default_dtype},
    {NULL},
};
