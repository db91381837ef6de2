/* Region: the frames that run under one compiled callable and were not inlined, by code object. */
#include "eval_frame.h"

#include <structmember.h>

/* -- the table */
static FrameSlot *place_of(FrameSlot *slots, Py_ssize_t capacity, PyCodeObject *code) {
    size_t index = ((uintptr_t)code >> 4) * 0x9E3779B97F4A7C15u >> 20;
    for (;; index++) {
        FrameSlot *slot = &slots[index & (capacity - 1)];
        if (slot->code == code || slot->code == NULL) return slot;
    }
}

static int grow(Region *region) {
    Py_ssize_t capacity = region->capacity ? 2 * region->capacity : 64;
    FrameSlot *slots = PyMem_Calloc(capacity, sizeof(FrameSlot));
    if (slots == NULL) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < region->capacity; i++)
        if (region->slots[i].code) *place_of(slots, capacity, region->slots[i].code) = region->slots[i];
    PyMem_Free(region->slots);
    region->slots = slots;
    region->capacity = capacity;
    return 0;
}

FrameSlot *region_slot(Region *region, PyCodeObject *code) {
    if (2 * (region->used + 1) > region->capacity && grow(region) < 0) return NULL;
    FrameSlot *slot = place_of(region->slots, region->capacity, code);
    if (slot->code == NULL) {
        if ((slot->entries = PyMem_Calloc(1, sizeof(EntryList))) == NULL) return PyErr_NoMemory(), NULL;
        slot->code = (PyCodeObject *)Py_NewRef(code);
        region->used++;
    }
    return slot;
}

/* Forget what is known of each code object; the table stays, for a call may be looking at it. */
static void region_forget(Region *region) {
    for (Py_ssize_t i = 0; i < region->capacity; i++) {
        region->slots[i].skip = false;
        if (region->slots[i].entries) entries_clear(region->slots[i].entries);
    }
}

static void region_free_table(Region *region) {
    region_forget(region);
    for (Py_ssize_t i = 0; i < region->capacity; i++) {
        PyMem_Free(region->slots[i].entries);
        Py_XDECREF(region->slots[i].code);
    }
    PyMem_Free(region->slots);
    region->slots = NULL;
    region->capacity = region->used = 0;
}

/* -- serving frames */
/* Ask the owner: an Entry (new reference), or NULL: with an exception, or without one for "let it run". */
static Entry *ask(Region *region, PyCodeObject *code, PyObject *function, PyObject *const *locals) {
    Scope saved;
    PyObject *values = as_tuple(locals, parameter_count(code)), *answer = NULL;
    if (values == NULL) return NULL;
    scope_enter(&saved, NULL, NULL);
    answer = PyObject_CallFunctionObjArgs(region->frame_miss, region, function, values, NULL);
    scope_leave(&saved);
    Py_DECREF(values);
    if (answer == NULL) return NULL;
    FrameSlot *slot = region_slot(region, code); /* again: the callback may have changed the table */
    if (slot && answer == Py_None) slot->skip = true;
    if (slot && PyObject_TypeCheck(answer, &Entry_Type)) {
        if (entries_add(slot->entries, (Entry *)answer) == 0) return (Entry *)answer;
    } else if (slot && answer != Py_None && answer != Py_False) {
        PyErr_Format(PyExc_TypeError, "frame_miss must give an Entry, None or False, not %s", Py_TYPE(answer)->tp_name);
    }
    Py_DECREF(answer);
    return NULL;
}

int region_serve(Region *region, PyCodeObject *code, PyObject *function, PyObject *const *locals, PyObject **result) {
    *result = NULL;
    FrameSlot *slot = region_slot(region, code);
    if (slot == NULL) return 1;
    if (slot->skip) return 0;
    Scope saved;
    scope_enter(&saved, NULL, NULL); /* guards may run Python code */
    Entry *entry = entries_find(slot->entries, locals, function);
    scope_leave(&saved);
    if (entry == NULL && (entry = ask(region, code, function, locals)) == NULL) return PyErr_Occurred() ? 1 : 0;
    bool original = entry_is_original(entry, function);
    if (original)
        entry->hits++;
    else
        *result = entry_run(entry, region, locals, parameter_count(code), function, false);
    Py_DECREF(entry);
    return !original && !is_plain_run(*result);
}

/* -- the type */
static PyObject *region_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"frame_miss", NULL};
    PyObject *frame_miss;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &frame_miss)) return NULL;
    Region *self = (Region *)type->tp_alloc(type, 0);
    if (self) self->frame_miss = Py_NewRef(frame_miss);
    return (PyObject *)self;
}

static int region_traverse(Region *self, visitproc visit, void *arg) {
    Py_VISIT(self->frame_miss);
    Py_VISIT(self->dict);
    for (Py_ssize_t i = 0; i < self->capacity; i++) {
        EntryList *entries = self->slots[i].entries;
        for (Py_ssize_t j = 0; entries && j < entries->count; j++) Py_VISIT(entries->items[j]);
    }
    return 0;
}

static int region_clear(Region *self) {
    region_forget(self);
    Py_CLEAR(self->frame_miss);
    Py_CLEAR(self->dict);
    return 0;
}

static void region_dealloc(Region *self) {
    PyObject_GC_UnTrack(self);
    if (self->weakrefs) PyObject_ClearWeakRefs((PyObject *)self);
    region_clear(self);
    region_free_table(self);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *region_entries(Region *self, PyObject *code) {
    if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "entries() takes a code object");
    FrameSlot *slot = self->capacity ? place_of(self->slots, self->capacity, (PyCodeObject *)code) : NULL;
    return slot && slot->code ? entries_as_list(slot->entries) : PyList_New(0);
}

static PyObject *region_add(Region *self, PyObject *args) {
    PyObject *code, *entry;
    if (!PyArg_ParseTuple(args, "O!O!", &PyCode_Type, &code, &Entry_Type, &entry)) return NULL;
    FrameSlot *slot = region_slot(self, (PyCodeObject *)code);
    if (slot == NULL || entries_add(slot->entries, (Entry *)entry) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *region_skip(Region *self, PyObject *code) {
    if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "skip() takes a code object");
    FrameSlot *slot = region_slot(self, (PyCodeObject *)code);
    if (slot == NULL) return NULL;
    slot->skip = true;
    Py_RETURN_NONE;
}

static PyObject *region_codes(Region *self, void *unused) {
    PyObject *codes = PyDict_New();
    for (Py_ssize_t i = 0; codes && i < self->capacity; i++) {
        FrameSlot *slot = &self->slots[i];
        PyObject *count =
            slot->code ? slot->skip ? Py_NewRef(Py_None) : PyLong_FromSsize_t(slot->entries->count) : NULL;
        if (slot->code && (count == NULL || PyDict_SetItem(codes, (PyObject *)slot->code, count) < 0)) Py_CLEAR(codes);
        Py_XDECREF(count);
    }
    return codes;
}

static PyObject *region_clear_method(Region *self, PyObject *unused) {
    region_forget(self);
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"entries", (PyCFunction)region_entries, METH_O, "entries(code): its entries, most recently hit first."},
    {"add", (PyCFunction)region_add, METH_VARARGS, "add(code, entry)"},
    {"skip", (PyCFunction)region_skip, METH_O, "skip(code): frames of this code run as they are, in this region."},
    {"clear", (PyCFunction)region_clear_method, METH_NOARGS, "Forget all entries and skips."},
    {NULL},
};

static PyGetSetDef ATTRIBUTES[] = {
    {"codes", (getter)region_codes, NULL, "Code objects seen: number of entries, or None where skipped."},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict},
    {NULL},
};

static PyMemberDef MEMBERS[] = {
    {"frame_miss", T_OBJECT, offsetof(Region, frame_miss), READONLY, "The callback."},
    {NULL},
};

PyTypeObject Region_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "triptych_dynamo._eval_frame.Region",
    .tp_basicsize = sizeof(Region),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc =
        "Region(frame_miss): frames reached under a compiled callable.\n\n"
        "frame_miss(region, function, locals) is asked, with the hook off, for each frame without a fitting entry. It "
        "gives an\n"
        "Entry (kept and run at once), None (this code is skipped in this region from now on) or False (run as it is, "
        "this time).\n"
        "locals is a tuple of the parameters' values in the order of the frame's variables.",
    .tp_new = region_new,
    .tp_dealloc = (destructor)region_dealloc,
    .tp_traverse = (traverseproc)region_traverse,
    .tp_clear = (inquiry)region_clear,
    .tp_methods = METHODS,
    .tp_members = MEMBERS,
    .tp_getset = ATTRIBUTES,
    .tp_dictoffset = offsetof(Region, dict),
    .tp_weaklistoffset = offsetof(Region, weakrefs),
};
