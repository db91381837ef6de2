/* Entry: compiled code with the guards under which it stands for the original; lists of entries. */
#include "eval_frame.h"

/* -- lists */
int entries_add(EntryList *list, Entry *entry) {
    if (list->count == list->capacity) {
        Py_ssize_t capacity = list->capacity ? 2 * list->capacity : 4;
        Entry **items = PyMem_Realloc(list->items, capacity * sizeof(Entry *));
        if (items == NULL) return PyErr_NoMemory(), -1;
        list->items = items;
        list->capacity = capacity;
    }
    memmove(list->items + 1, list->items, list->count * sizeof(Entry *));
    list->items[0] = (Entry *)Py_NewRef(entry);
    list->count++;
    return 0;
}

void entries_clear(EntryList *list) {
    Entry **items = list->items;
    Py_ssize_t count = list->count;
    *list = (EntryList){NULL, 0, 0};
    for (Py_ssize_t i = 0; i < count; i++) Py_DECREF(items[i]);
    PyMem_Free(items);
}

PyObject *entries_as_list(const EntryList *list) {
    PyObject *result = PyList_New(list->count);
    for (Py_ssize_t i = 0; result && i < list->count; i++) PyList_SET_ITEM(result, i, Py_NewRef(list->items[i]));
    return result;
}

static void move_to_front(EntryList *list, Entry *entry) {
    for (Py_ssize_t i = 1; i < list->count; i++)
        if (list->items[i] == entry) {
            memmove(list->items + 1, list->items, i * sizeof(Entry *));
            list->items[0] = entry;
            return;
        }
}

Entry *entries_find(EntryList *list, PyObject *const *locals, PyObject *function) {
    for (Py_ssize_t i = 0; i < list->count; i++) { /* a check may run user code, which may change the list */
        Entry *entry = (Entry *)Py_NewRef(list->items[i]);
        if (entry->program == NULL || guard_program_run(entry->program, locals, function) < 0) {
            if (i > 0) move_to_front(list, entry);
            return entry;
        }
        Py_DECREF(entry);
    }
    return NULL;
}

/* -- running */
static PyObject *joined_closure(PyObject *closure, PyObject *cells) {
    if (closure == NULL || PyTuple_GET_SIZE(closure) == 0) return Py_NewRef(cells);
    return PySequence_Concat(closure, cells);
}

/* The code as a function like `original`: its globals, its closure and the entry's own cells. */
static PyObject *make_function(Entry *entry, PyObject *original) {
    PyObject *closure = PyFunction_GET_CLOSURE(original);
    PyObject *function = PyFunction_New(entry->target, PyFunction_GET_GLOBALS(original));
    PyObject *cells = function ? joined_closure(closure, entry->cells) : NULL;
    Py_ssize_t wanted = ((PyCodeObject *)entry->target)->co_nfreevars;
    if (cells && PyTuple_GET_SIZE(cells) != wanted) {
        PyErr_Format(PyExc_ValueError, "the compiled code of %U takes %zd cells, its entry and caller have %zd",
                     ((PyCodeObject *)entry->target)->co_qualname, wanted, PyTuple_GET_SIZE(cells));
        Py_CLEAR(cells);
    }
    if (cells == NULL || (wanted && PyFunction_SetClosure(function, cells) < 0)) Py_CLEAR(function);
    Py_XDECREF(cells);
    return function;
}

/* The callable to run for `original`, a new reference. Functions with closures are kept for one owner only: a region's
 * entry serves many functions and must not keep their cells alive. */
static PyObject *entry_callable(Entry *entry, PyObject *original, bool keep_closure) {
    if (!PyCode_Check(entry->target)) return Py_NewRef(entry->target);
    if (!PyFunction_Check(original)) {
        PyErr_SetString(PyExc_TypeError, "a code target needs the function that it stands for");
        return NULL;
    }
    PyObject *globals = PyFunction_GET_GLOBALS(original), *closure = PyFunction_GET_CLOSURE(original);
    if (entry->function && entry->made_for[0] == globals && entry->made_for[1] == closure)
        return Py_NewRef(entry->function);
    PyObject *function = make_function(entry, original);
    if (function && (closure == NULL || keep_closure)) {
        Py_XSETREF(entry->function, Py_NewRef(function));
        Py_XSETREF(entry->made_for[0], Py_NewRef(globals));
        Py_XSETREF(entry->made_for[1], Py_XNewRef(closure));
    }
    return function;
}

PyObject *entry_run(Entry *entry, Region *region, PyObject *const *locals, Py_ssize_t count, PyObject *function,
                    bool keep_closure) {
    PyObject *callable = entry_callable(entry, function, keep_closure), *result;
    if (callable == NULL) return NULL;
    entry->hits++;
    Region *inside = entry->nested ? region : NULL;
    if (inside == NULL && current_region() == NULL) {
        result = call_compiled(callable, locals, count);
    } else {
        Scope saved;
        PyObject *code = PyFunction_Check(callable) ? PyFunction_GET_CODE(callable) : NULL;
        scope_enter(&saved, inside, (PyCodeObject *)code);
        result = call_compiled(callable, locals, count);
        scope_leave(&saved);
    }
    Py_DECREF(callable);
    return result;
}

/* -- the type */
static PyObject *entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"program", "target", "cells", "nested", "info", NULL};
    PyObject *program, *target, *cells = NULL, *info = Py_None;
    int nested = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|O!pO", names, &program, &target, &PyTuple_Type, &cells, &nested,
                                     &info))
        return NULL;
    if (program != Py_None && !PyObject_TypeCheck(program, &GuardProgram_Type))
        return PyErr_Format(PyExc_TypeError, "program must be a GuardProgram or None, not %s",
                            Py_TYPE(program)->tp_name);
    if (!PyCode_Check(target) && !PyCallable_Check(target))
        return PyErr_Format(PyExc_TypeError, "target must be a code object or callable, not %s",
                            Py_TYPE(target)->tp_name);
    Entry *self = (Entry *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    self->program = program == Py_None ? NULL : (GuardProgram *)Py_NewRef(program);
    self->target = Py_NewRef(target);
    self->cells = cells ? Py_NewRef(cells) : PyTuple_New(0);
    self->info = Py_NewRef(info);
    self->nested = nested;
    return (PyObject *)self;
}

static int entry_traverse(Entry *self, visitproc visit, void *arg) {
    Py_VISIT(self->program);
    Py_VISIT(self->target);
    Py_VISIT(self->cells);
    Py_VISIT(self->info);
    Py_VISIT(self->function);
    Py_VISIT(self->made_for[0]);
    Py_VISIT(self->made_for[1]);
    return 0;
}

static int entry_clear(Entry *self) {
    Py_CLEAR(self->program);
    Py_CLEAR(self->info);
    Py_CLEAR(self->function);
    Py_CLEAR(self->made_for[0]);
    Py_CLEAR(self->made_for[1]);
    Py_CLEAR(self->cells);
    Py_CLEAR(self->target);
    return 0;
}

static void entry_dealloc(Entry *self) {
    PyObject_GC_UnTrack(self);
    entry_clear(self);
    Py_TYPE(self)->tp_free(self);
}

#define GETTER(field)                                                      \
    static PyObject *entry_##field(Entry *self, void *unused) {            \
        return Py_NewRef(self->field ? (PyObject *)self->field : Py_None); \
    }
GETTER(program)
GETTER(target)
GETTER(cells)
GETTER(info)
static PyObject *entry_hits(Entry *self, void *unused) { return PyLong_FromSsize_t(self->hits); }
static PyObject *entry_nested(Entry *self, void *unused) { return PyBool_FromLong(self->nested); }
static int entry_set_info(Entry *self, PyObject *value, void *unused) {
    Py_XSETREF(self->info, Py_NewRef(value ? value : Py_None));
    return 0;
}

static PyGetSetDef ATTRIBUTES[] = {
    {"program", (getter)entry_program, NULL, "The GuardProgram, or None: fits always."},
    {"target", (getter)entry_target, NULL, "Code object or callable."},
    {"cells", (getter)entry_cells, NULL, "Cells of a code target that follow the original's closure."},
    {"nested", (getter)entry_nested, NULL, "Whether frames under it go through the region's hook."},
    {"info", (getter)entry_info, (setter)entry_set_info, "Anything of the owner's."},
    {"hits", (getter)entry_hits, NULL, "How often it ran."},
    {NULL},
};

PyTypeObject Entry_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "triptych_dynamo._eval_frame.Entry",
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc =
        "Entry(program, target, cells=(), nested=True, info=None)\n\n"
        "target takes every parameter of the original positionally (*args as a tuple, **kwargs as a dictionary). A "
        "code object\n"
        "becomes a function with the original's globals and closure, `cells` following the closure's own; the "
        "original's own code\n"
        "means that the original runs as it is. nested=False says that no frame under it needs the hook.",
    .tp_new = entry_new,
    .tp_dealloc = (destructor)entry_dealloc,
    .tp_traverse = (traverseproc)entry_traverse,
    .tp_clear = (inquiry)entry_clear,
    .tp_getset = ATTRIBUTES,
};
