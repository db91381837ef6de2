/* Binding to torch at run time. Nothing here needs torch to build or to load. */
#include "torch_api.h"

#include <dlfcn.h>

TorchApi torch_api;

static const struct {
    const char *symbol;
    void *place;
} SYMBOLS[] = {
    {"aoti_torch_get_dim", &torch_api.dim},
    {"aoti_torch_get_sizes", &torch_api.sizes},
    {"aoti_torch_get_strides", &torch_api.strides},
    {"aoti_torch_get_storage_offset", &torch_api.offset_of},
    {"aoti_torch_get_dtype", &torch_api.dtype},
    {"aoti_torch_get_layout", &torch_api.layout},
    {"aoti_torch_get_device_type", &torch_api.device_type},
    {"aoti_torch_get_device_index", &torch_api.device_index},
    {"aoti_torch_get_data_ptr", &torch_api.data},
    {"aoti_torch_dtype_element_size", &torch_api.element_size},
    {"aoti_torch_grad_mode_is_enabled", &torch_api.grad_enabled},
};

/* The library that Python loaded torch from: its names are not in the global scope, so it is asked for by its own. */
static void *find_library(void) {
    static const char *const names[] = {"libtorch_cpu.so", "libtorch.so", "libtorch_python.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library && dlsym(library, SYMBOLS[0].symbol)) return library;
    }
    return RTLD_DEFAULT;
}

static const struct {
    const char *symbol;
    void *place;
} QUICK_SYMBOLS[] = {
    {"_ZNK3c1010TensorImpl13requires_gradEv", &torch_api.impl_requires_grad},
    {"_ZN3c1013InferenceMode10is_enabledEv", &torch_api.inference_enabled},
    {"_ZN3c1031get_default_dtype_as_scalartypeEv", &torch_api.default_dtype},
};

static const char DISPATCH_STATE[] = "_ZN3c104impl26raw_local_dispatch_key_setE"; /* a variable of each thread */

static void find_quick_symbols(void *library) {
    for (size_t i = 0; i < sizeof QUICK_SYMBOLS / sizeof *QUICK_SYMBOLS; i++) {
        void *found = dlsym(library, QUICK_SYMBOLS[i].symbol);
        memcpy(QUICK_SYMBOLS[i].place, &found, sizeof found);
    }
    torch_api.has_dispatch_state = dlsym(library, DISPATCH_STATE) != NULL;
}

static bool find_symbols(void) {
    void *library = find_library(), *found;
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof *SYMBOLS; i++) {
        if ((found = dlsym(library, SYMBOLS[i].symbol)) == NULL) return false;
        memcpy(SYMBOLS[i].place, &found, sizeof found);
    }
    int32_t (*strided)(void) = NULL;
    find_quick_symbols(library);
    if ((found = dlsym(library, "aoti_torch_layout_strided")) == NULL) return false;
    memcpy(&strided, &found, sizeof found);
    torch_api.strided = strided();
    return true;
}

/* Where in the object the pointer `identity` lies: right after the head, or after a flag word. */
static bool find_handle(PyObject *tensor, void *identity) {
    char *start = (char *)tensor + sizeof(PyObject);
    for (Py_ssize_t word = 0; word < 2; word++)
        if (memcmp(start + word * sizeof(void *), &identity, sizeof identity) == 0) {
            torch_api.offset = sizeof(PyObject) + word * sizeof(void *);
            torch_api.maybe_borrowed = word == 1;
            return true;
        }
    return false;
}

const uint64_t *dispatch_state(void) {
    static _Thread_local const uint64_t *words;
    if (!torch_api.has_dispatch_state) return NULL;
    if (words == NULL) words = dlsym(find_library(), DISPATCH_STATE);
    return words;
}

PyObject *read_dispatch_state(PyObject *module, PyObject *unused) {
    const uint64_t *words = dispatch_state();
    if (words == NULL) Py_RETURN_NONE;
    return Py_BuildValue("(KK)", (unsigned long long)words[0], (unsigned long long)words[1]);
}

PyObject *forget_dispatch_state(PyObject *module, PyObject *unused) {
    torch_api.has_dispatch_state = false;
    Py_RETURN_NONE;
}

static void forget_quick_ways(void) {
    torch_api.has_dispatch_state = false;
    torch_api.impl_requires_grad = NULL;
    torch_api.inference_enabled = NULL;
    torch_api.default_dtype = NULL;
    torch_api.key_word = 0;
}

/* Bits: which of the tensor's first words equal its dispatch keys, as Python tells them; 0 with an exception. */
static uint32_t words_with_keys(PyObject *tensor) {
    PyObject *value = PyObject_CallOneArg(torch_api.dispatch_keys, tensor);
    uint32_t found = 0;
    if (value == NULL) return 0;
    uint64_t keys = PyLong_AsUnsignedLongLongMask(value);
    Py_DECREF(value);
    for (int word = 1; word < 24; word++) /* the base of every tensor is a little over 200 bytes */
        if (impl_of(tensor)[word] == keys) found |= 1u << word;
    return found;
}

/* The one word that holds the keys of all samples; unequal samples make an accident next to impossible. */
static int find_key_word(PyObject *samples) {
    uint32_t words = ~0u;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(samples); i++) {
        if (!is_direct(PyTuple_GET_ITEM(samples, i))) return 0;
        words &= words_with_keys(PyTuple_GET_ITEM(samples, i));
        if (PyErr_Occurred()) return -1;
    }
    bool single = words && (words & (words - 1)) == 0;
    torch_api.key_word = single && PyTuple_GET_SIZE(samples) > 1 ? __builtin_ctz(words) : 0;
    return 0;
}

/* Compare what the quick functions say of the sample (which requires a gradient) and of now with what Python says. */
static bool agrees_with_python(PyObject *sample, bool inferring) {
    int32_t dtype;
    if (torch_api.impl_requires_grad && !torch_api.impl_requires_grad(impl_of(sample))) return false;
    if (torch_api.inference_enabled && torch_api.inference_enabled() != inferring) return false;
    if (torch_api.dtype(handle_of(sample), &dtype)) return false;
    return torch_api.default_dtype == NULL || torch_api.default_dtype() == dtype;
}

static bool bind_directly(PyObject *sample, void *identity) {
    int64_t dims;
    if (!find_symbols() || !find_handle(sample, identity)) return false;
    return torch_api.dim(handle_of(sample), &dims) == 0 && dims == 1; /* a last look, before anything relies on it */
}

PyObject *init_torch(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"samples",       "identity",  "tensor_type", "requires_grad",
                            "dispatch_keys", "inference", "direct",      NULL};
    PyObject *samples, *identity, *requires_grad, *dispatch_keys;
    PyTypeObject *type;
    int direct = 1, inferring;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!OOp|p", names, &PyTuple_Type, &samples, &PyLong_Type,
                                     &identity, &PyType_Type, &type, &requires_grad, &dispatch_keys, &inferring,
                                     &direct))
        return NULL;
    void *address = PyLong_AsVoidPtr(identity);
    if (address == NULL && PyErr_Occurred()) return NULL;
    if (PyTuple_GET_SIZE(samples) == 0) return PyErr_Format(PyExc_ValueError, "at least one sample is needed");
    PyObject *sample = PyTuple_GET_ITEM(samples, 0);
    bool getter = Py_IS_TYPE(requires_grad, &PyGetSetDescr_Type);
    Py_XSETREF(torch_api.tensor_type, (PyTypeObject *)Py_NewRef(type));
    Py_XSETREF(torch_api.dispatch_keys, Py_NewRef(dispatch_keys));
    Py_XSETREF(torch_api.requires_grad, getter ? (PyGetSetDescrObject *)Py_NewRef(requires_grad) : NULL);
    torch_api.direct = direct && getter && bind_directly(sample, address);
    if (!torch_api.direct || !agrees_with_python(sample, inferring))
        forget_quick_ways();
    else if (find_key_word(samples) < 0)
        return NULL;
    return PyBool_FromLong(torch_api.direct);
}
