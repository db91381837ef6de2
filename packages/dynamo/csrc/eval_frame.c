/* The frame hook (PEP 523) and the module.
 *
 * The hook is installed while some thread is inside a region, on top of whatever evaluator was there, and taken out
 * when the last one leaves. In a thread without a current region it only passes frames on. It replaces a call's first
 * entry into its frame, never a generator that goes on: what runs instead is an ordinary function, called with the
 * frame's variables.
 */
#include "eval_frame.h"

/* The arguments of the rest of a frame, which nobody but that frame is to hold once it runs. */
typedef struct {
    PyCodeObject *code;
    PyObject *args;
} Given;

static _Thread_local struct {
    Region *region;
    PyCodeObject *expected;
    _PyInterpreterFrame *passing; /* handed to another evaluator, which may hand it back to us */
    Py_ssize_t depth;             /* frames of this thread that are inside the hook */
    Given given;                  /* what the next frame of its code was called with */
} current;

enum { MAX_RELIEVED = 3000 }; /* levels of about a kilobyte of C stack each */

/* Under the interpreter lock. */
static Py_ssize_t install_count;
static _PyFrameEvalFunction evaluator_below = _PyEval_EvalFrameDefault;
static _PyFrameEvalFunction buried_over; /* what was below us when another evaluator came on top of us, or NULL */

Region *current_region(void) { return current.region; }

static PyObject *evaluate(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing);

static PyObject *pass_on(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing) {
    if (evaluator_below == _PyEval_EvalFrameDefault || current.passing == frame)
        return _PyEval_EvalFrameDefault(thread, frame, throwing);
    _PyInterpreterFrame *outer = current.passing;
    current.passing = frame;
    PyObject *result = evaluator_below(thread, frame, throwing);
    current.passing = outer;
    return result;
}

/* Frames of plain function calls: no module or class bodies, no generators. */
static bool is_servable(const PyCodeObject *code) {
    enum { WANTED = CO_OPTIMIZED | CO_NEWLOCALS, UNWANTED = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR };
    return (code->co_flags & (WANTED | UNWANTED)) == WANTED;
}

/* Serve a fresh frame from the region, and end it; false: it is to run, under *result if that is a PlainRun. */
static bool serve(Region *region, PyThreadState *thread, _PyInterpreterFrame *frame, PyObject **result) {
    enum { SMALL = 16 };
    PyCodeObject *code = frame_code(frame);
    Py_ssize_t count = parameter_count(code);
    PyObject *small[SMALL], **room = small;
    if (VARIABLES_ARE_TAGGED && count > SMALL && (room = PyMem_Malloc(count * sizeof *room)) == NULL) return false;
    bool served = region_serve(region, code, frame_function(frame), frame_variables(frame, count, room), result);
    if (served) frame_finish(thread, frame);
    if (room != small) PyMem_Free(room);
    return served;
}

/* Whether those who came on top of us are gone and have put us back: then nobody of theirs is below us any more. */
static bool put_back(void) {
    if (buried_over == NULL) return false;
    if (_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) != evaluate) return false;
    evaluator_below = buried_over;
    buried_over = NULL;
    return true;
}

static void leave_top(void) { _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluator_below); }

/* A frame whose compiled code failed and had no effect. */
static PyObject *run_plain(PyThreadState *thread, _PyInterpreterFrame *frame, PyObject *plain) {
    Scope saved;
    scope_enter(&saved, NULL, NULL);
    PyObject *result = pass_on(thread, frame, 0);
    scope_leave(&saved);
    return plain_run_end(plain, result);
}

/* A frame of the original runs, and has its variables: the tuple that they came in lets go of them, so that they die
 * where the program drops them. */
static void let_go(PyCodeObject *code) {
    PyObject *args = current.given.args;
    if (args == NULL || current.given.code != code) return;
    current.given.args = NULL;
    if (Py_REFCNT(args) > 1) return; /* somebody looks at it */
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *item = PyTuple_GET_ITEM(args, i);
        PyTuple_SET_ITEM(args, i, Py_NewRef(Py_None));
        Py_DECREF(item);
    }
}

/* run_rest(function, args): the call, after which the frame alone holds the arguments if it runs as it is. */
static PyObject *run_rest(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    if (count != 2 || !PyTuple_Check(given[1]))
        return PyErr_Format(PyExc_TypeError, "run_rest() takes a function and a tuple");
    Given outer = current.given;
    current.given = (Given){code_behind(given[0]), given[1]};
    PyObject *result = PyObject_Call(given[0], given[1], NULL);
    current.given = outer;
    return result;
}

static PyObject *evaluate_in(Region *region, PyThreadState *thread, _PyInterpreterFrame *frame, int throwing) {
    if (throwing || !frame_is_fresh_call(frame)) return pass_on(thread, frame, throwing);
    PyCodeObject *code = frame_code(frame);
    if (code == current.expected) {
        current.expected = NULL;
        let_go(code);
        return pass_on(thread, frame, throwing);
    }
    PyObject *result = NULL;
    if (is_servable(code) && serve(region, thread, frame, &result)) return result;
    if (result) return run_plain(thread, frame, result);
    let_go(code);
    return pass_on(thread, frame, throwing);
}

static PyObject *evaluate(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing) {
    Region *region = current.region;
    if (install_count == 0 && put_back()) leave_top();
    /* A frame that comes back from the evaluator it was handed to was looked at already. Frames of trace functions and
     * of audit hooks belong to whoever watches the program. */
    if (region == NULL || thread->tracing || current.passing == frame) return pass_on(thread, frame, throwing);
    /* Without the hook a call of a Python function takes no C stack, and the interpreter would not count it as if it
     * did. */
    bool relieved = current.depth++ < MAX_RELIEVED && relieve_c_recursion(thread, 1);
    PyObject *result = evaluate_in(region, thread, frame, throwing);
    if (relieved) relieve_c_recursion(thread, -1);
    current.depth--;
    return result;
}

/* -- compiled code beside another evaluator: only the default one sees its frame, for it is nothing to compile again */
static PyCodeObject *own_code; /* under the interpreter lock, from a call to the start of its frame */
static _PyFrameEvalFunction evaluator_around;

static PyObject *evaluate_own(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing) {
    bool own = !throwing && frame_is_fresh_call(frame) && frame_code(frame) == own_code;
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluator_around);
    own_code = NULL;
    if (!own) return evaluator_around(thread, frame, throwing);
    if (frame_code(frame) == current.expected) current.expected = NULL;
    return _PyEval_EvalFrameDefault(thread, frame, throwing);
}

PyObject *call_compiled(PyObject *callable, PyObject *const *locals, Py_ssize_t count) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    _PyFrameEvalFunction present = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    bool alone = present == _PyEval_EvalFrameDefault ||
                 (present == evaluate && evaluator_below == _PyEval_EvalFrameDefault) || present == evaluate_own;
    if (!alone && PyFunction_Check(callable)) {
        own_code = (PyCodeObject *)PyFunction_GET_CODE(callable);
        evaluator_around = present;
        _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate_own);
    }
    return PyObject_Vectorcall(callable, locals, count, NULL);
}

static void install(void) {
    if (install_count++ || put_back()) return;
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    _PyFrameEvalFunction present = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    if (present == evaluate) return;
    evaluator_below = present;
    _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
}

static void uninstall(void) {
    if (--install_count) return;
    if (_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == evaluate)
        leave_top();
    else if (buried_over == NULL) /* somebody sits on top of us: we only pass */
        buried_over = evaluator_below;
}

void scope_enter(Scope *saved, Region *region, PyCodeObject *expected) {
    *saved = (Scope){current.region, current.expected, region != NULL};
    if (region) {
        Py_INCREF(region);
        install();
    }
    current.region = region;
    current.expected = region ? expected : NULL;
}

void scope_leave(const Scope *saved) {
    Region *left = current.region;
    current.region = saved->region;
    current.expected = saved->expected;
    if (!saved->counted) return;
    uninstall();
    Py_DECREF(left);
}

/* -- the module */
static PyObject *hook_state(PyObject *module, PyObject *unused) {
    bool ours = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == evaluate;
    return Py_BuildValue("(Onn)", current.region ? (PyObject *)current.region : Py_None, install_count,
                         (Py_ssize_t)ours);
}

static PyMethodDef METHODS[] = {
    {"run_rest", (PyCFunction)(void *)run_rest, METH_FASTCALL,
     "run_rest(function, args): function(*args), whose frame alone holds what is in args if it runs as it is: the "
     "tuple is emptied."},
    {"hook_state", hook_state, METH_NOARGS,
     "hook_state(): (this thread's region or None, how many scopes want the hook, whether it is on top now)."},
    {"set_router", set_router, METH_O,
     "set_router(fn): every call of a compiled callable becomes fn(callable, args, kwargs); None: no more."},
    {"init_torch", (PyCFunction)(void *)init_torch, METH_VARARGS | METH_KEYWORDS,
     "init_torch(samples, identity, tensor_type, requires_grad, dispatch_keys, inference, direct=True) -> bool\n\n"
     "Makes tensor guards possible. samples are tensors with different dispatch keys; the first has one dimension and "
     "the\n"
     "default dtype and requires a gradient; identity is its _cdata. requires_grad is the attribute's descriptor,\n"
     "dispatch_keys a callable, inference whether inference mode is on. True when facts are read through the C ABI, "
     "False\n"
     "when by attribute."},
    {"dispatch_state", read_dispatch_state, METH_NOARGS,
     "dispatch_state(): two words that change with this thread's dispatch modes, or None where they are not found."},
    {"forget_dispatch_state", forget_dispatch_state, METH_NOARGS, "Do without dispatch_state from now on."},
    {"tensor_facts", tensor_facts, METH_O,
     "tensor_facts(tensor): codes of (dtype, device type, device index); -1 without the C ABI."},
    {NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_eval_frame", "Frame hook, compiled callables and guard programs in C.", -1, METHODS,
};

PyMODINIT_FUNC PyInit__eval_frame(void) {
    PyTypeObject *const types[] = {&GuardProgram_Type, &Entry_Type, &Region_Type, &CompiledCallable_Type,
                                   &Unhooked_Type,    &PlainRun_Type};
    PyObject *module = PyModule_Create(&MODULE);
    for (size_t i = 0; module && i < sizeof types / sizeof *types; i++)
        if (PyModule_AddType(module, types[i]) < 0) Py_CLEAR(module);
    return module;
}
