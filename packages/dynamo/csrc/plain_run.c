/* PlainRun: what compiled code returns when nothing of it has taken effect: the original runs in its place. */
#include "eval_frame.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD PyObject *ended;
} PlainRun;

/* The original has run: what it gave goes on unless `ended` objects; what it raised goes on in any case. */
PyObject *plain_run_end(PyObject *plain, PyObject *result) {
    Scope saved;
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    if (result == NULL) PyErr_Fetch(&type, &value, &trace);
    scope_enter(&saved, NULL, NULL);
    PyObject *answer = PyObject_CallOneArg(((PlainRun *)plain)->ended, result ? Py_True : Py_False);
    scope_leave(&saved);
    if (answer == NULL) Py_CLEAR(result);
    if (type) PyErr_Restore(type, value, trace);
    Py_XDECREF(answer);
    Py_DECREF(plain);
    return result;
}

static PyObject *plain_run_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"ended", NULL};
    PyObject *ended;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &ended)) return NULL;
    PlainRun *self = (PlainRun *)type->tp_alloc(type, 0);
    if (self) self->ended = Py_NewRef(ended);
    return (PyObject *)self;
}

static int plain_run_traverse(PlainRun *self, visitproc visit, void *arg) {
    Py_VISIT(self->ended);
    return 0;
}

static int plain_run_clear(PlainRun *self) {
    Py_XSETREF(self->ended, Py_NewRef(Py_None));
    return 0;
}

static void plain_run_dealloc(PlainRun *self) {
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->ended);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef MEMBERS[] = {
    {"ended", T_OBJECT, offsetof(PlainRun, ended), READONLY, "The callback."},
    {NULL},
};

PyTypeObject PlainRun_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "triptych_dynamo._eval_frame.PlainRun",
    .tp_basicsize = sizeof(PlainRun),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "PlainRun(ended): returned by compiled code, it makes the original run with the hook off.\n\n"
              "ended(True) is called when the original has given a value, and what that raises takes the value's place; "
              "ended(False)\nwhen it has raised.",
    .tp_new = plain_run_new,
    .tp_dealloc = (destructor)plain_run_dealloc,
    .tp_traverse = (traverseproc)plain_run_traverse,
    .tp_clear = (inquiry)plain_run_clear,
    .tp_members = MEMBERS,
};
