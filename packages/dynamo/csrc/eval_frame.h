/* The objects of the frame hook and what they share. */
#ifndef TRIPTYCH_EVAL_FRAME_H
#define TRIPTYCH_EVAL_FRAME_H

#include "compat.h"
#include "guard_program.h"

/* -- entries (entry.c): one piece of compiled code with its guards */
typedef struct {
    PyObject_HEAD GuardProgram *program; /* NULL: always fits */
    PyObject *target;   /* a callable, or a code object that becomes a function with the caller's globals and closure */
    PyObject *cells;    /* tuple of cells that follow the closure's own */
    PyObject *info;     /* the owner's */
    PyObject *function; /* the last function made of a code target ... */
    PyObject *made_for[2]; /* ... for these globals and closure */
    bool nested;           /* frames reached under it are of interest to the region */
    Py_ssize_t hits;
} Entry;

/* A list with the most recently hit entry first. */
typedef struct {
    Entry **items;
    Py_ssize_t count, capacity;
} EntryList;

extern PyTypeObject Entry_Type, Region_Type, CompiledCallable_Type, Unhooked_Type, PlainRun_Type;

int entries_add(EntryList *list, Entry *entry);
void entries_clear(EntryList *list);
PyObject *entries_as_list(const EntryList *list);
/* The entry that fits, a new reference, now first in the list; NULL when none does. */
Entry *entries_find(EntryList *list, PyObject *const *locals, PyObject *function);

/* -- regions (region.c): what is compiled while one compiled callable runs */
typedef struct {
    PyCodeObject *code; /* held; NULL: free place */
    EntryList *entries; /* of its own, so that it stays where it is when the table grows */
    bool skip;
} FrameSlot;

typedef struct {
    PyObject_HEAD PyObject *frame_miss;
    FrameSlot *slots; /* open addressing by code object */
    Py_ssize_t capacity, used;
    PyObject *dict, *weakrefs;
} Region;

/* The slot of `code`, made when missing; NULL with an exception when memory is out. */
FrameSlot *region_slot(Region *region, PyCodeObject *code);
/* Serve a frame from the region: 1 served with *result (NULL with an exception set for a failure), 0 let it run (under
 * *result, if that is a PlainRun). */
int region_serve(Region *region, PyCodeObject *code, PyObject *function, PyObject *const *locals, PyObject **result);

/* -- the hook (eval_frame.c) */
typedef struct {
    Region *region; /* whose hook is on in this thread; held by the C frame that entered it */
    PyCodeObject
        *expected; /* the next frame of this code runs as it is: it is compiled code, or an original on purpose */
    bool counted;
} Scope;

/* Make `region` (NULL: none) the thread's current one, and let the next frame of `expected` through. */
void scope_enter(Scope *saved, Region *region, PyCodeObject *expected);
void scope_leave(const Scope *saved);
Region *current_region(void);
/* Call compiled code; another evaluator that is installed does not see its frame, but those under it. */
PyObject *call_compiled(PyObject *callable, PyObject *const *locals, Py_ssize_t count);

/* Call the entry's code on bound variables; `keep_closure`: the entry may hold on to the function's closure. */
PyObject *entry_run(Entry *entry, Region *region, PyObject *const *locals, Py_ssize_t count, PyObject *function,
                    bool keep_closure);
/* Whether the entry says that the original itself is to run: its target is the function's own code. */
static inline bool entry_is_original(const Entry *entry, PyObject *function) {
    return PyFunction_Check(function) && entry->target == PyFunction_GET_CODE(function);
}
/* How many variables of a frame of this code its caller fills in. */
static inline Py_ssize_t parameter_count(const PyCodeObject *code) {
    return code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
           !!(code->co_flags & CO_VARKEYWORDS);
}
static inline PyObject *as_tuple(PyObject *const *items, Py_ssize_t count) {
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple && i < count; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(items[i]));
    return tuple;
}

/* -- runs in place of compiled code that failed before anything of it took effect (plain_run.c) */
static inline bool is_plain_run(PyObject *result) { return result != NULL && Py_IS_TYPE(result, &PlainRun_Type); }
/* Take the PlainRun and what the original gave (NULL: it raised), and give the call's result. */
PyObject *plain_run_end(PyObject *plain, PyObject *result);

/* -- routing (compiled_callable.c) */
PyObject *set_router(PyObject *module, PyObject *value);
/* The code that runs when a function or a compiled callable runs as it is; NULL for others. Borrowed. */
PyCodeObject *code_behind(PyObject *callable);

/* -- binding (binding.c) */
/* Fill `values` (parameter_count places, zeroed) with new references. 1 bound, 0 the call does not fit, -1 exception.
 */
int bind_arguments(PyObject *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **values);

#endif
