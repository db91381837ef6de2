/* CompiledCallable: stands for a function, checks guards in C and calls the compiled code that fits. */
#include "eval_frame.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *function; /* the original, a Python function */
    PyObject *miss;
    Region *region; /* NULL: frames under it are none of our business */
    EntryList entries;
    PyObject *dict, *weakrefs;
    Py_ssize_t hits, misses;
    char eager; /* run the original without asking */
} CompiledCallable;

/* While a router is set, it gets every call of every compiled callable: `router(callable, args, kwargs)`. */
static PyObject *router;
typedef enum { ROUTED, DIRECT, UNGUARDED, ANEW } CallMode;
static _Thread_local CallMode next_call; /* of this thread's next call of a compiled callable */

static PyObject *run_in(CompiledCallable *self, Region *region, PyObject *const *args, size_t nargsf,
                        PyObject *kwnames) {
    Scope saved;
    PyObject *function = Py_NewRef(self->function);
    scope_enter(&saved, region, (PyCodeObject *)PyFunction_GET_CODE(function));
    PyObject *result = PyObject_Vectorcall(function, args, nargsf, kwnames);
    scope_leave(&saved);
    Py_DECREF(function);
    return result;
}

/* The original under the same conditions: its own frame as it is, frames under it through the region. */
static PyObject *run_original(CompiledCallable *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    return run_in(self, self->region, args, nargsf, kwnames);
}

/* The original alone. */
static PyObject *run_plain(CompiledCallable *self, PyObject *plain, PyObject *const *args, size_t nargsf,
                           PyObject *kwnames) {
    return plain_run_end(plain, run_in(self, NULL, args, nargsf, kwnames));
}

/* What `miss` answers: an Entry, now in the list, or NULL: with an exception, or without one for "run the original". */
static Entry *ask(CompiledCallable *self, PyObject *const *locals, Py_ssize_t count) {
    Scope saved;
    PyObject *values = as_tuple(locals, count), *miss = Py_NewRef(self->miss);
    self->misses++;
    scope_enter(&saved, NULL, NULL);
    PyObject *answer = values ? PyObject_CallFunctionObjArgs(miss, self, self->function, values, NULL) : NULL;
    scope_leave(&saved);
    Py_XDECREF(values);
    Py_DECREF(miss);
    if (answer == NULL) return NULL;
    if (PyObject_TypeCheck(answer, &Entry_Type)) {
        if (entries_add(&self->entries, (Entry *)answer) == 0) return (Entry *)answer;
    } else if (answer != Py_None) {
        PyErr_Format(PyExc_TypeError, "miss must give an Entry or None, not %s", Py_TYPE(answer)->tp_name);
    }
    Py_DECREF(answer);
    return NULL;
}

static Entry *find_entry(CompiledCallable *self, PyObject *const *locals, CallMode mode) {
    Entry *entry;
    if (mode == ANEW) return NULL;
    if (mode == UNGUARDED && self->entries.count == 1) return (Entry *)Py_NewRef(self->entries.items[0]);
    if (current_region() == NULL) return entries_find(&self->entries, locals, self->function);
    Scope saved; /* guards that run Python code are none of the region's frames */
    scope_enter(&saved, NULL, NULL);
    entry = entries_find(&self->entries, locals, self->function);
    scope_leave(&saved);
    return entry;
}

/* The call with its variables bound; `args` ... are the call as it came, for the original. */
static PyObject *run_bound(CompiledCallable *self, CallMode mode, PyObject *const *locals, Py_ssize_t count,
                           PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    Entry *entry = find_entry(self, locals, mode);
    if (entry)
        self->hits++;
    else if ((entry = ask(self, locals, count)) == NULL)
        return PyErr_Occurred() ? NULL : run_original(self, args, nargsf, kwnames);
    PyObject *result;
    if (entry_is_original(entry, self->function)) {
        entry->hits++;
        result = run_original(self, args, nargsf, kwnames);
    } else {
        result = entry_run(entry, self->region, locals, count, self->function, true);
        if (is_plain_run(result)) result = run_plain(self, result, args, nargsf, kwnames);
    }
    Py_DECREF(entry);
    return result;
}

static PyObject *bind_and_run(CompiledCallable *self, CallMode mode, PyObject *const *args, size_t nargsf,
                              PyObject *kwnames) {
    Py_ssize_t count = parameter_count((PyCodeObject *)PyFunction_GET_CODE(self->function));
    PyObject *few[32], **values = count <= 32 ? few : PyMem_Malloc(count * sizeof(PyObject *)), *result = NULL;
    if (values == NULL) return PyErr_NoMemory();
    memset(values, 0, count * sizeof(PyObject *));
    int bound = bind_arguments(self->function, args, PyVectorcall_NARGS(nargsf), kwnames, values);
    if (bound == 1)
        result = run_bound(self, mode, values, count, args, nargsf, kwnames);
    else if (bound == 0)
        result = run_original(self, args, nargsf, kwnames); /* for Python's own words about the mistake */
    for (Py_ssize_t i = 0; i < count; i++) Py_XDECREF(values[i]);
    if (values != few) PyMem_Free(values);
    return result;
}

/* The call through the router, with the hook off. */
static PyObject *route(CompiledCallable *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    Scope saved;
    PyObject *result = NULL, *positional = as_tuple(args, nargs), *named = PyDict_New(), *target = Py_NewRef(router);
    for (Py_ssize_t i = 0; named && kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
        if (PyDict_SetItem(named, PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) < 0) Py_CLEAR(named);
    scope_enter(&saved, NULL, NULL);
    if (positional && named) result = PyObject_CallFunctionObjArgs(target, self, positional, named, NULL);
    scope_leave(&saved);
    Py_XDECREF(positional);
    Py_XDECREF(named);
    Py_DECREF(target);
    return result;
}

static PyObject *callable_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    CompiledCallable *self = (CompiledCallable *)callable;
    PyObject *result;
    Py_INCREF(self);
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(self->function);
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    bool plain = kwnames == NULL && nargs == code->co_argcount && code->co_kwonlyargcount == 0 &&
                 (code->co_flags & (CO_VARARGS | CO_VARKEYWORDS)) == 0;
    CallMode mode = next_call;
    next_call = ROUTED;
    if (router && mode == ROUTED)
        result = route(self, args, nargs, kwnames);
    else if (self->eager)
        result = run_original(self, args, nargsf, kwnames);
    else if (plain) /* the caller's arguments are the variables */
        result = run_bound(self, mode, args, nargs, args, nargsf, kwnames);
    else
        result = bind_and_run(self, mode, args, nargsf, kwnames);
    Py_DECREF(self);
    return result;
}

/* -- the type */
static int copy_metadata(CompiledCallable *self) {
    static const char *const names[] = {"__module__", "__name__", "__qualname__", "__doc__", "__annotations__"};
    PyFunctionObject *function = (PyFunctionObject *)self->function;
    self->dict = function->func_dict ? PyDict_Copy(function->func_dict) : PyDict_New();
    if (self->dict == NULL) return -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        PyObject *value = PyObject_GetAttrString(self->function, names[i]);
        int status = value ? PyDict_SetItemString(self->dict, names[i], value) : -1;
        Py_XDECREF(value);
        if (status < 0) return -1;
    }
    return PyDict_SetItemString(self->dict, "__wrapped__", self->function);
}

static PyObject *callable_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"fn", "miss", "region", NULL};
    PyObject *function, *miss, *region = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|O", names, &PyFunction_Type, &function, &miss, &region))
        return NULL;
    if (region != Py_None && !PyObject_TypeCheck(region, &Region_Type))
        return PyErr_Format(PyExc_TypeError, "region must be a Region or None, not %s", Py_TYPE(region)->tp_name);
    CompiledCallable *self = (CompiledCallable *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    self->vectorcall = callable_call;
    self->function = Py_NewRef(function);
    self->miss = Py_NewRef(miss);
    self->region = region == Py_None ? NULL : (Region *)Py_NewRef(region);
    if (copy_metadata(self) < 0) Py_CLEAR(self);
    return (PyObject *)self;
}

static int callable_traverse(CompiledCallable *self, visitproc visit, void *arg) {
    Py_VISIT(self->function);
    Py_VISIT(self->miss);
    Py_VISIT(self->region);
    Py_VISIT(self->dict);
    for (Py_ssize_t i = 0; i < self->entries.count; i++) Py_VISIT(self->entries.items[i]);
    return 0;
}

/* The function, the callback and the region stay until the end: a call may come while a cycle is taken apart. */
static int callable_clear(CompiledCallable *self) {
    entries_clear(&self->entries);
    Py_CLEAR(self->dict);
    Py_XSETREF(self->miss, Py_NewRef(Py_None));
    Py_CLEAR(self->region);
    return 0;
}

static void callable_dealloc(CompiledCallable *self) {
    PyObject_GC_UnTrack(self);
    if (self->weakrefs) PyObject_ClearWeakRefs((PyObject *)self);
    callable_clear(self);
    Py_CLEAR(self->miss);
    Py_CLEAR(self->function);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *callable_get(PyObject *self, PyObject *instance, PyObject *owner) {
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static PyObject *callable_repr(CompiledCallable *self) { return PyUnicode_FromFormat("<compiled %R>", self->function); }

static PyObject *callable_reduce(CompiledCallable *self, PyObject *unused) {
    return PyObject_GetAttrString(self->function, "__qualname__"); /* copied and pickled like a function: by name */
}

static PyObject *callable_entries(CompiledCallable *self, void *unused) { return entries_as_list(&self->entries); }

static PyObject *callable_add(CompiledCallable *self, PyObject *entry) {
    if (!PyObject_TypeCheck(entry, &Entry_Type)) return PyErr_Format(PyExc_TypeError, "add() takes an Entry");
    if (entries_add(&self->entries, (Entry *)entry) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *callable_forget(CompiledCallable *self, PyObject *unused) {
    entries_clear(&self->entries);
    Py_RETURN_NONE;
}

static PyObject *callable_direct(PyObject *self, PyObject *given) {
    PyObject *args, *kwargs;
    int mode = DIRECT;
    if (!PyArg_ParseTuple(given, "O!O!|i", &PyTuple_Type, &args, &PyDict_Type, &kwargs, &mode)) return NULL;
    if (mode < DIRECT || mode > ANEW) return PyErr_Format(PyExc_ValueError, "there is no mode %d", mode);
    next_call = mode;
    PyObject *result = PyObject_Call(self, args, kwargs);
    next_call = ROUTED;
    return result;
}

static PyObject *callable_fits(CompiledCallable *self, PyObject *given) {
    PyObject *args, *kwargs, *few[32], *answer = NULL;
    if (!PyArg_ParseTuple(given, "O!O!", &PyTuple_Type, &args, &PyDict_Type, &kwargs)) return NULL;
    Py_ssize_t count = parameter_count((PyCodeObject *)PyFunction_GET_CODE(self->function));
    PyObject **values = count <= 32 ? few : PyMem_Malloc(count * sizeof(PyObject *));
    if (values == NULL) return PyErr_NoMemory();
    memset(values, 0, count * sizeof(PyObject *));
    Py_ssize_t nargs = PyTuple_GET_SIZE(args), total = nargs + PyDict_GET_SIZE(kwargs);
    PyObject *names = PySequence_Tuple(kwargs), *named = PyDict_Values(kwargs), *all = NULL;
    if (names && named) all = PyList_New(total);
    for (Py_ssize_t i = 0; all && i < total; i++)
        PyList_SET_ITEM(all, i, Py_NewRef(i < nargs ? PyTuple_GET_ITEM(args, i) : PyList_GET_ITEM(named, i - nargs)));
    PyObject **items = all ? ((PyListObject *)all)->ob_item : NULL;
    int bound = all ? bind_arguments(self->function, items, nargs, PyTuple_GET_SIZE(names) ? names : NULL, values) : -1;
    Entry *entry = bound == 1 ? find_entry(self, values, DIRECT) : NULL;
    if (!PyErr_Occurred()) answer = PyBool_FromLong(entry != NULL);
    Py_XDECREF(entry);
    for (Py_ssize_t i = 0; i < count; i++) Py_XDECREF(values[i]);
    Py_XDECREF(names);
    Py_XDECREF(named);
    Py_XDECREF(all);
    if (values != few) PyMem_Free(values);
    return answer;
}

PyCodeObject *code_behind(PyObject *callable) {
    if (Py_IS_TYPE(callable, &CompiledCallable_Type)) callable = ((CompiledCallable *)callable)->function;
    return PyFunction_Check(callable) ? (PyCodeObject *)PyFunction_GET_CODE(callable) : NULL;
}

PyObject *set_router(PyObject *module, PyObject *value) {
    Py_XSETREF(router, value == Py_None ? NULL : Py_NewRef(value));
    Py_RETURN_NONE;
}

/* The attribute alone: the slot stays, so that a call costs what it did. */
static PyObject *show(PyObject *unused, PyObject *given) {
    PyObject *name, *function;
    if (!PyArg_ParseTuple(given, "UO", &name, &function)) return NULL;
    if (PyDict_SetItem(CompiledCallable_Type.tp_dict, name, function) < 0) return NULL;
    PyType_Modified(&CompiledCallable_Type);
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"show", (PyCFunction)show, METH_VARARGS | METH_STATIC,
     "show(name, function): what tracers of others find as a special method of the type and look into; what Python\n"
     "itself does is unchanged."},
    {"direct", (PyCFunction)callable_direct, METH_VARARGS,
     "direct(args, kwargs, mode=1): the call itself, whatever router is set. mode 2: the only entry, if there is just "
     "one,\nruns without a look at its guards; 3: as if no entry fitted."},
    {"fits", (PyCFunction)callable_fits, METH_VARARGS,
     "fits(args, kwargs): whether there is an entry whose guards hold for this call."},
    {"add", (PyCFunction)callable_add, METH_O, "add(entry): puts it first."},
    {"clear", (PyCFunction)callable_forget, METH_NOARGS, "Forget all entries."},
    {"__reduce__", (PyCFunction)callable_reduce, METH_NOARGS, NULL},
    {NULL},
};

static PyMemberDef MEMBERS[] = {
    {"fn", T_OBJECT_EX, offsetof(CompiledCallable, function), READONLY, "The original function."},
    {"miss", T_OBJECT, offsetof(CompiledCallable, miss), READONLY, "The callback."},
    {"region", T_OBJECT, offsetof(CompiledCallable, region), READONLY, "The Region, or None."},
    {"hits", T_PYSSIZET, offsetof(CompiledCallable, hits), READONLY, "Calls that found an entry."},
    {"misses", T_PYSSIZET, offsetof(CompiledCallable, misses), READONLY, "Calls that asked `miss`."},
    {"eager", T_BOOL, offsetof(CompiledCallable, eager), 0, "Run the original without looking at entries."},
    {NULL},
};

static PyGetSetDef ATTRIBUTES[] = {
    {"entries", (getter)callable_entries, NULL, "A list of the entries, most recently hit first."},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict},
    {NULL},
};

PyTypeObject CompiledCallable_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "triptych_dynamo._eval_frame.CompiledCallable",
    .tp_basicsize = sizeof(CompiledCallable),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_doc =
        "CompiledCallable(fn, miss, region=None): calls the first entry whose guards hold, most recently hit first.\n\n"
        "When none does, miss(callable, fn, locals) is asked with the hook off: it gives an Entry (kept and run at "
        "once) or None\n"
        "(the original runs). locals is a tuple of the parameters' values in the order of fn's variables: positional,\n"
        "keyword-only, *args as a tuple, **kwargs as a dictionary. A call that does not fit fn raises fn's own "
        "TypeError.",
    .tp_new = callable_new,
    .tp_dealloc = (destructor)callable_dealloc,
    .tp_traverse = (traverseproc)callable_traverse,
    .tp_clear = (inquiry)callable_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(CompiledCallable, vectorcall),
    .tp_descr_get = callable_get,
    .tp_repr = (reprfunc)callable_repr,
    .tp_methods = METHODS,
    .tp_members = MEMBERS,
    .tp_getset = ATTRIBUTES,
    .tp_dictoffset = offsetof(CompiledCallable, dict),
    .tp_weaklistoffset = offsetof(CompiledCallable, weakrefs),
};
