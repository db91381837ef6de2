/* Another tool's frame evaluator (PEP 523), which counts frames and hands each on to whatever was installed before. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static _PyFrameEvalFunction below;
static Py_ssize_t frames;

static PyObject *evaluate(PyThreadState *thread, struct _PyInterpreterFrame *frame, int throwing) {
    frames++;
    return below(thread, frame, throwing);
}

static PyObject *install(PyObject *module, PyObject *unused) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    below = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
    Py_RETURN_NONE;
}

static PyObject *uninstall(PyObject *module, PyObject *unused) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == evaluate)
        _PyInterpreterState_SetEvalFrameFunc(interpreter, below);
    Py_RETURN_NONE;
}

static PyObject *seen(PyObject *module, PyObject *unused) { return PyLong_FromSsize_t(frames); }

static PyMethodDef METHODS[] = {
    {"install", install, METH_NOARGS, "On top of the present evaluator."},
    {"uninstall", uninstall, METH_NOARGS, "Put back what was there, when still on top."},
    {"seen", seen, METH_NOARGS, "How many frames came by."},
    {NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "other_evaluator", NULL, -1, METHODS};

PyMODINIT_FUNC PyInit_other_evaluator(void) { return PyModule_Create(&MODULE); }
