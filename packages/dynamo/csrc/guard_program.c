/* GuardProgram: construction from a list of tuples, the run loop, and the Python type around it. */
#include "guard_program.h"

#include "snapshot.h"

static const OpRow *const TABLES[] = {READ_ROWS, CHECK_ROWS, TENSOR_ROWS, APART_ROWS, SHAPE_ROWS};

static const OpRow *find_row(const char *name) {
    for (size_t t = 0; t < sizeof TABLES / sizeof *TABLES; t++)
        for (const OpRow *row = TABLES[t]; row->name; row++)
            if (strcmp(row->name, name) == 0) return row;
    PyErr_Format(PyExc_ValueError, "no guard operation is called %s", name);
    return NULL;
}

static int run_ops(const GuardProgram *program, Run *run) {
    const Op *op = program->ops, *end = op + program->count;
    for (; op < end; op++)
        if (!op->step(op, run)) return op->guard;
    return -1;
}

static void release_owned(Run *run) {
    for (Py_ssize_t i = 0; i < run->owned_count; i++) Py_DECREF(run->owned[i]);
    run->owned_count = 0;
}

/* A check that came while another of this program is under way: with space of its own, and in full. */
static Py_ssize_t run_aside(GuardProgram *program, PyObject *const *locals, PyObject *function) {
    PyObject **space = PyMem_Malloc(sizeof(PyObject *) * (program->slot_count + program->owned_limit + 1));
    if (space == NULL) return 0;
    Run run = {space, space + program->slot_count, 0, locals, function};
    Py_ssize_t violated = run_ops(program, &run);
    release_owned(&run);
    PyMem_Free(space);
    return violated;
}

Py_ssize_t guard_program_run(GuardProgram *program, PyObject *const *locals, PyObject *function) {
    /* A check that runs user code may come back here, or let another thread in. */
    if (program->busy) return run_aside(program, locals, function);
    program->busy = true;
    Run run = {program->scratch, program->scratch + program->slot_count, 0, locals, function};
    Py_ssize_t violated = snapshot_run(program, &run);
    if (violated == STALE) {
        release_owned(&run);
        run.slots = program->scratch;
        violated = run_ops(program, &run);
        if (violated < 0) snapshot_record(program, run.slots);
    }
    release_owned(&run);
    program->busy = false;
    return violated;
}

static int parse_op(GuardProgram *self, Op *op, PyObject *tuple) {
    const char *name;
    PyObject *object;
    if (!PyArg_ParseTuple(tuple, "siiiiO", &name, &op->slot, &op->other, &op->flag, &op->guard, &object)) return -1;
    const OpRow *row = find_row(name);
    if (row == NULL) return -1;
    op->step = row->step;
    op->row = row;
    op->object = Py_NewRef(object);
    if (op->slot >= self->slot_count || op->other >= self->slot_count) {
        PyErr_Format(PyExc_ValueError, "operation %s names a slot past the last", name);
        return -1;
    }
    if (row->creates) self->owned_limit++;
    if (row->memo == MEMO_INSTANCE_DICT) self->dict_reads++;
    return row->prepare ? row->prepare(op) : 0;
}

static void release_ops(GuardProgram *self) {
    Py_ssize_t count = self->count;
    self->count = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_CLEAR(self->ops[i].object);
        PyMem_Free(self->ops[i].data);
        self->ops[i].data = NULL;
    }
}

static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"operations", "slots", "guards", NULL};
    PyObject *operations, *guards = Py_None;
    Py_ssize_t slots;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!n|O", names, &PyList_Type, &operations, &slots, &guards))
        return NULL;
    GuardProgram *self = (GuardProgram *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    Py_ssize_t count = PyList_GET_SIZE(operations);
    self->slot_count = slots;
    self->guards = Py_NewRef(guards);
    self->ops = PyMem_Calloc(count ? count : 1, sizeof(Op));
    if (self->ops == NULL) goto no_memory;
    for (Py_ssize_t i = 0; i < count; i++) {
        self->count = i + 1;
        if (parse_op(self, &self->ops[i], PyList_GET_ITEM(operations, i)) < 0) {
            Py_DECREF(self);
            return NULL;
        }
    }
    self->scratch = PyMem_Calloc(slots + self->owned_limit + 1, sizeof(PyObject *));
    self->strikes = PyMem_Calloc(slots + 1, 1);
    if (self->scratch && self->strikes) return (PyObject *)self;
no_memory:
    Py_DECREF(self);
    return PyErr_NoMemory();
}

static int program_traverse(GuardProgram *self, visitproc visit, void *arg) {
    for (Py_ssize_t i = 0; i < self->count; i++) Py_VISIT(self->ops[i].object);
    Py_VISIT(self->guards);
    return 0;
}

static int program_clear(GuardProgram *self) {
    snapshot_free(self);
    release_ops(self);
    Py_CLEAR(self->guards);
    return 0;
}

static void program_dealloc(GuardProgram *self) {
    PyObject_GC_UnTrack(self);
    program_clear(self);
    PyMem_Free(self->ops);
    PyMem_Free(self->scratch);
    PyMem_Free(self->strikes);
    Py_TYPE(self)->tp_free(self);
}

/* failed(locals, function) -> index of the first violated guard, or None. */
static PyObject *program_failed(GuardProgram *self, PyObject *args) {
    PyObject *locals, *function = Py_None;
    if (!PyArg_ParseTuple(args, "O!|O", &PyTuple_Type, &locals, &function)) return NULL;
    Py_ssize_t violated = guard_program_run(self, &PyTuple_GET_ITEM(locals, 0), function);
    if (violated < 0) Py_RETURN_NONE;
    return PyLong_FromSsize_t(violated);
}

/* time(locals, function, repeats): runs the program so often and gives back nothing; for measurements. */
static PyObject *program_repeat(GuardProgram *self, PyObject *args) {
    PyObject *locals, *function = Py_None;
    Py_ssize_t repeats;
    if (!PyArg_ParseTuple(args, "O!On", &PyTuple_Type, &locals, &function, &repeats)) return NULL;
    for (Py_ssize_t i = 0; i < repeats; i++) guard_program_run(self, &PyTuple_GET_ITEM(locals, 0), function);
    Py_RETURN_NONE;
}

static PyObject *program_size(GuardProgram *self, void *unused) { return PyLong_FromSsize_t(self->count); }
static PyObject *program_guards(GuardProgram *self, void *unused) {
    return Py_NewRef(self->guards ? self->guards : Py_None);
}

static PyObject *program_remaining(GuardProgram *self, void *unused) { return snapshot_operations(self); }

static PyMethodDef METHODS[] = {
    {"failed", (PyCFunction)program_failed, METH_VARARGS,
     "failed(locals, function=None): index of the first violated guard, or None when all hold.\n\n"
     "locals is a tuple of the parameters' values in the order of the code's variables."},
    {"repeat", (PyCFunction)program_repeat, METH_VARARGS,
     "repeat(locals, function, count): runs the check, for timing."},
    {NULL},
};

static PyGetSetDef ATTRIBUTES[] = {
    {"operation_count", (getter)program_size, NULL, "How many operations one check runs at most."},
    {"remaining", (getter)program_remaining, NULL,
     "Operations that a check runs while nothing that was noted changed; empty: all of them."},
    {"guards", (getter)program_guards, NULL, "The guards that indices refer to."},
    {NULL},
};

PyTypeObject GuardProgram_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "triptych_dynamo._eval_frame.GuardProgram",
    .tp_basicsize = sizeof(GuardProgram),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "GuardProgram(operations, slots, guards=None): a list of (name, slot, other, flag, guard, constant).",
    .tp_new = program_new,
    .tp_dealloc = (destructor)program_dealloc,
    .tp_traverse = (traverseproc)program_traverse,
    .tp_clear = (inquiry)program_clear,
    .tp_methods = METHODS,
    .tp_getset = ATTRIBUTES,
};
