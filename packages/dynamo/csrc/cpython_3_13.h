/* CPython 3.13: the evaluator owns the frame; the interpreter exports the function that ends one. */
#ifndef TRIPTYCH_CPYTHON_3_13_H
#define TRIPTYCH_CPYTHON_3_13_H

#include "internal/pycore_frame.h"

#define compat_get_optional_attr PyObject_GetOptionalAttr

extern void _PyEval_FrameClearAndPop(PyThreadState *thread, _PyInterpreterFrame *frame);

static inline PyCodeObject *frame_code(_PyInterpreterFrame *frame) {
    return PyCode_Check(frame->f_executable) ? (PyCodeObject *)frame->f_executable : NULL;
}
static inline PyObject *frame_function(_PyInterpreterFrame *frame) { return frame->f_funcobj; }
enum { VARIABLES_ARE_TAGGED = false };
static inline PyObject *const *frame_variables(_PyInterpreterFrame *frame, Py_ssize_t count, PyObject **room) {
    (void)count;
    (void)room;
    return frame->localsplus;
}

static inline bool frame_is_fresh_call(_PyInterpreterFrame *frame) {
    return frame->owner == FRAME_OWNED_BY_THREAD && PyCode_Check(frame->f_executable) &&
           frame->instr_ptr == _PyCode_CODE((PyCodeObject *)frame->f_executable);
}

/* What the evaluator owes the frame when it did not run it. */
static inline void frame_finish(PyThreadState *thread, _PyInterpreterFrame *frame) {
    _PyEval_FrameClearAndPop(thread, frame);
}

/* The limit of nested C calls leaves room for as many Python calls as Python allows: nothing to do. */
static inline bool relieve_c_recursion(PyThreadState *thread, int levels) {
    (void)thread;
    (void)levels;
    return false;
}

#endif
