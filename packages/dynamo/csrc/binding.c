/* Binding of a call's arguments to a function's parameters, in the order of its frame's variables. */
#include "eval_frame.h"

static Py_ssize_t find_parameter(const PyCodeObject *code, PyObject *name) {
    PyObject *names = code->co_localsplusnames;
    Py_ssize_t count = code->co_argcount + code->co_kwonlyargcount;
    for (Py_ssize_t i = code->co_posonlyargcount; i < count; i++)
        if (PyTuple_GET_ITEM(names, i) == name) return i;
    for (Py_ssize_t i = code->co_posonlyargcount; i < count; i++)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), name) == 0) return i;
    return -1;
}

static int bind_keyword(const PyCodeObject *code, PyObject *name, PyObject *value, PyObject **values, PyObject *rest) {
    Py_ssize_t index = find_parameter(code, name);
    if (index < 0) return rest == NULL ? 0 : PyDict_SetItem(rest, name, value) < 0 ? -1 : 1;
    if (values[index] != NULL) return 0;
    values[index] = Py_NewRef(value);
    return 1;
}

static int fill_defaults(PyFunctionObject *function, const PyCodeObject *code, PyObject **values) {
    PyObject *defaults = function->func_defaults, *named = function->func_kwdefaults;
    Py_ssize_t positional = code->co_argcount, total = positional + code->co_kwonlyargcount;
    Py_ssize_t first = positional - (defaults ? PyTuple_GET_SIZE(defaults) : 0);
    for (Py_ssize_t i = 0; i < total; i++) {
        PyObject *value = NULL;
        if (values[i] != NULL) continue;
        if (i >= positional && named)
            value = PyDict_GetItemWithError(named, PyTuple_GET_ITEM(code->co_localsplusnames, i));
        else if (i < positional && i >= first)
            value = PyTuple_GET_ITEM(defaults, i - first);
        if (value == NULL) return PyErr_Occurred() ? -1 : 0;
        values[i] = Py_NewRef(value);
    }
    return 1;
}

int bind_arguments(PyObject *callee, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **values) {
    PyFunctionObject *function = (PyFunctionObject *)callee;
    const PyCodeObject *code = (PyCodeObject *)function->func_code;
    Py_ssize_t positional = code->co_argcount, total = positional + code->co_kwonlyargcount;
    Py_ssize_t given = nargs < positional ? nargs : positional;
    PyObject *rest = NULL;
    for (Py_ssize_t i = 0; i < given; i++) values[i] = Py_NewRef(args[i]);
    if (code->co_flags & CO_VARARGS) {
        if ((values[total] = as_tuple(args + given, nargs - given)) == NULL) return -1;
    } else if (nargs > given) {
        return 0;
    }
    if (code->co_flags & CO_VARKEYWORDS) {
        if ((rest = values[total + !!(code->co_flags & CO_VARARGS)] = PyDict_New()) == NULL) return -1;
    }
    Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t i = 0; i < keywords; i++) {
        int status = bind_keyword(code, PyTuple_GET_ITEM(kwnames, i), args[nargs + i], values, rest);
        if (status != 1) return status;
    }
    return fill_defaults(function, code, values);
}
