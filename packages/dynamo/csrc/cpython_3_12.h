/* CPython 3.12: the evaluator owns the frame: it clears it and pops the thread's data stack. */
#ifndef TRIPTYCH_CPYTHON_3_12_H
#define TRIPTYCH_CPYTHON_3_12_H

#include "internal/pycore_frame.h"

#define compat_get_optional_attr _PyObject_LookupAttr

static inline PyCodeObject *frame_code(_PyInterpreterFrame *frame) { return frame->f_code; }
static inline PyObject *frame_function(_PyInterpreterFrame *frame) { return frame->f_funcobj; }
enum { VARIABLES_ARE_TAGGED = false };
static inline PyObject *const *frame_variables(_PyInterpreterFrame *frame, Py_ssize_t count, PyObject **room) {
    (void)count;
    (void)room;
    return frame->localsplus;
}

static inline bool frame_is_fresh_call(_PyInterpreterFrame *frame) {
    return frame->owner == FRAME_OWNED_BY_THREAD && frame->prev_instr == _PyCode_CODE(frame->f_code) - 1;
}

/* Give the frame's part of the data stack back; a frame that began a chunk takes the chunk with it. */
static inline void frame_pop(PyThreadState *thread, _PyInterpreterFrame *frame) {
    _PyStackChunk *chunk = thread->datastack_chunk;
    if ((PyObject **)frame != &chunk->data[0]) {
        thread->datastack_top = (PyObject **)frame;
        return;
    }
    _PyStackChunk *previous = chunk->previous;
    thread->datastack_top = &previous->data[previous->top];
    thread->datastack_chunk = previous;
    thread->datastack_limit = (PyObject **)((char *)previous + previous->size);
    PyObjectArenaAllocator arena;
    PyObject_GetArenaAllocator(&arena);
    arena.free(arena.ctx, chunk, chunk->size);
}

/* What the evaluator owes the frame when it did not run it. */
static inline void frame_finish(PyThreadState *thread, _PyInterpreterFrame *frame) {
    for (int i = 0; i < frame->stacktop; i++) Py_CLEAR(frame->localsplus[i]);
    Py_CLEAR(frame->f_locals);
    Py_CLEAR(frame->f_funcobj);
    Py_CLEAR(frame->f_code);
    frame_pop(thread, frame);
}

/* Let `levels` more C calls nest than the interpreter's count says; its limit here is lower than that of Python calls.
 */
static inline bool relieve_c_recursion(PyThreadState *thread, int levels) {
    thread->c_recursion_remaining += levels;
    return true;
}

#endif
