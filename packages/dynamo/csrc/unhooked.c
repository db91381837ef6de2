/* Unhooked: a callable under which no frame goes through the hook. */
#include "eval_frame.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *callable;
    PyObject *dict, *weakrefs;
} Unhooked;

static PyObject *unhooked_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    PyObject *callable = ((Unhooked *)object)->callable;
    if (current_region() == NULL) return PyObject_Vectorcall(callable, args, nargsf, kwnames);
    Scope saved;
    Py_INCREF(callable);
    scope_enter(&saved, NULL, NULL);
    PyObject *result = PyObject_Vectorcall(callable, args, nargsf, kwnames);
    scope_leave(&saved);
    Py_DECREF(callable);
    return result;
}

static PyObject *unhooked_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"fn", NULL};
    PyObject *callable;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &callable)) return NULL;
    if (!PyCallable_Check(callable)) return PyErr_Format(PyExc_TypeError, "fn must be callable");
    Unhooked *self = (Unhooked *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    self->vectorcall = unhooked_call;
    self->callable = Py_NewRef(callable);
    self->dict = PyDict_New();
    if (self->dict == NULL || PyDict_SetItemString(self->dict, "__wrapped__", callable) < 0) Py_CLEAR(self);
    return (PyObject *)self;
}

/* Names and texts that a function has are those of what it wraps. */
static PyObject *unhooked_getattr(PyObject *self, PyObject *name) {
    static const char *const shared[] = {"__name__", "__qualname__", "__doc__", "__module__", "__annotations__"};
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (PyUnicode_CompareWithASCIIString(name, shared[i]) == 0)
            return PyObject_GetAttr(((Unhooked *)self)->callable, name);
    return PyObject_GenericGetAttr(self, name);
}

static int unhooked_traverse(Unhooked *self, visitproc visit, void *arg) {
    Py_VISIT(self->callable);
    Py_VISIT(self->dict);
    return 0;
}

static int unhooked_clear(Unhooked *self) {
    Py_XSETREF(self->callable, Py_NewRef(Py_None));
    Py_CLEAR(self->dict);
    return 0;
}

static void unhooked_dealloc(Unhooked *self) {
    PyObject_GC_UnTrack(self);
    if (self->weakrefs) PyObject_ClearWeakRefs((PyObject *)self);
    unhooked_clear(self);
    Py_CLEAR(self->callable);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *unhooked_get(PyObject *self, PyObject *instance, PyObject *owner) {
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static PyObject *unhooked_repr(Unhooked *self) { return PyUnicode_FromFormat("<unhooked %R>", self->callable); }

static PyObject *unhooked_reduce(Unhooked *self, PyObject *unused) {
    return Py_BuildValue("(O(O))", Py_TYPE(self), self->callable);
}

static PyMethodDef METHODS[] = {{"__reduce__", (PyCFunction)unhooked_reduce, METH_NOARGS, NULL}, {NULL}};

static PyMemberDef MEMBERS[] = {
    {"fn", T_OBJECT, offsetof(Unhooked, callable), READONLY, "What it calls."},
    {NULL},
};

static PyGetSetDef ATTRIBUTES[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict}, {NULL}};

PyTypeObject Unhooked_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "triptych_dynamo._eval_frame.Unhooked",
    .tp_basicsize = sizeof(Unhooked),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "Unhooked(fn): calls fn with the frame hook off, and on again afterwards.",
    .tp_new = unhooked_new,
    .tp_dealloc = (destructor)unhooked_dealloc,
    .tp_traverse = (traverseproc)unhooked_traverse,
    .tp_clear = (inquiry)unhooked_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Unhooked, vectorcall),
    .tp_descr_get = unhooked_get,
    .tp_repr = (reprfunc)unhooked_repr,
    .tp_getattro = unhooked_getattr,
    .tp_methods = METHODS,
    .tp_members = MEMBERS,
    .tp_getset = ATTRIBUTES,
    .tp_dictoffset = offsetof(Unhooked, dict),
    .tp_weaklistoffset = offsetof(Unhooked, weakrefs),
};
