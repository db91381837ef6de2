/* CPython 3.14: a frame's variables are tagged references, and some of them are borrowed from the caller's stack. */
#ifndef TRIPTYCH_CPYTHON_3_14_H
#define TRIPTYCH_CPYTHON_3_14_H

#include "internal/pycore_ceval.h"
#include "internal/pycore_interpframe.h"

#define compat_get_optional_attr PyObject_GetOptionalAttr

static inline PyCodeObject *frame_code(_PyInterpreterFrame *frame) {
    PyObject *executable = PyStackRef_AsPyObjectBorrow(frame->f_executable);
    return PyCode_Check(executable) ? (PyCodeObject *)executable : NULL;
}
static inline PyObject *frame_function(_PyInterpreterFrame *frame) {
    return PyStackRef_AsPyObjectBorrow(frame->f_funcobj);
}

enum { VARIABLES_ARE_TAGGED = true };
/* The objects without their tags, in `room`; whoever lent them to the frame keeps them alive while it lasts. */
static inline PyObject *const *frame_variables(_PyInterpreterFrame *frame, Py_ssize_t count, PyObject **room) {
    for (Py_ssize_t i = 0; i < count; i++) room[i] = PyStackRef_AsPyObjectBorrow(frame->localsplus[i]);
    return room;
}

static inline bool frame_is_fresh_call(_PyInterpreterFrame *frame) {
    PyCodeObject *code = frame->owner == FRAME_OWNED_BY_THREAD ? frame_code(frame) : NULL;
    return code != NULL && frame->instr_ptr == _PyCode_CODE(code);
}

/* What the evaluator owes the frame when it did not run it. */
static inline void frame_finish(PyThreadState *thread, _PyInterpreterFrame *frame) {
    _PyEval_FrameClearAndPop(thread, frame);
}

/* The limit of nested C calls is the C stack's own size here: nothing to do. */
static inline bool relieve_c_recursion(PyThreadState *thread, int levels) {
    (void)thread;
    (void)levels;
    return false;
}

#endif
