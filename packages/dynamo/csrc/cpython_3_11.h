/* CPython 3.11: the caller of the evaluator clears the frame and pops it. */
#ifndef TRIPTYCH_CPYTHON_3_11_H
#define TRIPTYCH_CPYTHON_3_11_H

#include "internal/pycore_frame.h"

#define compat_get_optional_attr _PyObject_LookupAttr

static inline PyCodeObject *frame_code(_PyInterpreterFrame *frame) { return frame->f_code; }
static inline PyObject *frame_function(_PyInterpreterFrame *frame) { return (PyObject *)frame->f_func; }
enum { VARIABLES_ARE_TAGGED = false };
static inline PyObject *const *frame_variables(_PyInterpreterFrame *frame, Py_ssize_t count, PyObject **room) {
    (void)count;
    (void)room;
    return frame->localsplus;
}

/* A call that has not run an instruction yet, as against a generator that goes on. */
static inline bool frame_is_fresh_call(_PyInterpreterFrame *frame) {
    return frame->owner == FRAME_OWNED_BY_THREAD && frame->prev_instr == _PyCode_CODE(frame->f_code) - 1;
}

/* What the evaluator owes the frame when it did not run it: nothing here. */
static inline void frame_finish(PyThreadState *thread, _PyInterpreterFrame *frame) {
    (void)thread;
    (void)frame;
}

/* The limit of nested C calls leaves room for as many Python calls as Python allows: nothing to do. */
static inline bool relieve_c_recursion(PyThreadState *thread, int levels) {
    (void)thread;
    (void)levels;
    return false;
}

#endif
