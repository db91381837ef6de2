/* Snapshots make the cost of guards on module trees small and nearly flat.
 *
 * Most guards read through instance dictionaries and compare what cannot change by itself. Such a fact holds again when
 * the objects that it starts from (roots) are the same and no dictionary on the way was written to. After a full check
 * that held, the dictionaries' versions, the words that hold the instance dictionaries and the types of checked objects
 * are noted; the next check compares these words, in an order in which each is reached through words already found
 * unchanged, and runs only the operations that are left: tensors, lists, sizes, modes.
 *
 * A dictionary that keeps changing between checks that hold is no longer noted (its slot is "volatile").
 */
#include "snapshot.h"

typedef struct {
    const uint64_t *address;
    uint64_t expected;
    int32_t slot; /* whose change this would be */
} Watch;

typedef struct {
    PyObject *reference; /* weak, to the object in `slot`; NULL for a constant of the program */
    int32_t slot;
    int32_t changed_slot;
    Py_ssize_t count, capacity;
    Watch *watches;
} Root;

struct Snapshot {
    Op *ops;
    Py_ssize_t count;
    PyObject **slots;
    Root **roots;
    Py_ssize_t root_count;
    Py_ssize_t hits;
};

enum { MAX_STRIKES = 3, QUICK_CHANGE = 16, WORTH_IT = 4 };

/* -- running */
static bool check_root(const Op *op, Run *run) {
    Root *root = op->data;
    if (root->reference && ((PyWeakReference *)root->reference)->wr_object != run->slots[root->slot]) {
        root->changed_slot = root->slot;
        return false;
    }
    for (const Watch *watch = root->watches, *end = watch + root->count; watch < end; watch++)
        if (*watch->address != watch->expected) {
            root->changed_slot = watch->slot;
            return false;
        }
    return true;
}

Py_ssize_t snapshot_run(GuardProgram *program, Run *run) {
    Snapshot *snapshot = program->snapshot;
    if (snapshot == NULL) return STALE;
    run->slots = snapshot->slots;
    for (const Op *op = snapshot->ops, *end = op + snapshot->count; op < end; op++)
        if (!op->step(op, run)) return op->guard;
    snapshot->hits++;
    return -1;
}

/* -- recording: one pass over the operations with the slots of a run that held */
typedef struct {
    GuardProgram *program;
    Snapshot *snapshot;
    PyObject **slots;
    Root **root_of; /* by slot: the root that vouches for what the slot holds; NULL: read at each check */
    bool *constant; /* by slot: an object of the program itself */
    bool *watched;  /* by slot: the dictionary in it is noted already */
    bool failed;
} Recorder;

static void add_op(Recorder *recorder, const Op *op) { recorder->snapshot->ops[recorder->snapshot->count++] = *op; }

static void add_watch(Recorder *recorder, Root *root, const void *address, int32_t slot) {
    if (root->count == root->capacity) {
        Py_ssize_t capacity = root->capacity ? 2 * root->capacity : 16;
        Watch *watches = PyMem_Realloc(root->watches, capacity * sizeof(Watch));
        if (watches == NULL) {
            recorder->failed = true;
            return;
        }
        root->watches = watches;
        root->capacity = capacity;
    }
    const uint64_t *word = address;
    root->watches[root->count++] = (Watch){word, *word, slot};
}

static bool is_volatile(const Recorder *recorder, int32_t slot) {
    return recorder->program->strikes[slot] >= MAX_STRIKES;
}

/* A new root for the object in `slot`, with the operation that makes sure of it; NULL where that cannot be. */
static Root *make_root(Recorder *recorder, int32_t slot) {
    Snapshot *snapshot = recorder->snapshot;
    PyObject *reference = NULL;
    if (is_volatile(recorder, slot)) return NULL;
    if (!recorder->constant[slot] && (reference = PyWeakref_NewRef(recorder->slots[slot], NULL)) == NULL)
        return PyErr_Clear(), NULL;
    Root *root = PyMem_Calloc(1, sizeof(Root));
    Root **roots = root ? PyMem_Realloc(snapshot->roots, (snapshot->root_count + 1) * sizeof(Root *)) : NULL;
    if (roots == NULL) {
        PyMem_Free(root);
        Py_XDECREF(reference);
        recorder->failed = true;
        return NULL;
    }
    *root = (Root){reference, slot, -1};
    snapshot->roots = roots;
    snapshot->roots[snapshot->root_count++] = root;
    add_op(recorder, &(Op){.step = check_root, .slot = slot, .guard = STALE, .data = root});
    return root;
}

/* The dictionary in `slot` is noted as part of `root`; false where it must be looked at each time. */
static bool note_dict(Recorder *recorder, Root *root, int32_t slot) {
    if (root == NULL || is_volatile(recorder, slot)) return false;
    if (recorder->watched[slot]) return true;
    const uint64_t *word = dict_version_word(recorder->slots[slot]);
    if (word == NULL) return false;
    add_watch(recorder, root, word, slot);
    return recorder->watched[slot] = true;
}

static bool note_instance_dict(Recorder *recorder, const Op *op) {
    PyObject *object = recorder->slots[op->slot];
    if (PyType_Check(object) || PyModule_Check(object) || is_volatile(recorder, op->other)) return false;
    Root *root = recorder->root_of[op->slot];
    PyObject **place = _PyObject_GetDictPtr(object);
    if (place == NULL || *place != recorder->slots[op->other]) return false;
    if (root == NULL && (root = recorder->root_of[op->slot] = make_root(recorder, op->slot)) == NULL) return false;
    add_watch(recorder, root, place, op->slot);
    recorder->root_of[op->other] = root;
    return true;
}

static bool note_item(Recorder *recorder, const Op *op) {
    PyObject *container = recorder->slots[op->slot];
    Root *root = recorder->root_of[op->slot];
    bool fixed = op->row->memo == MEMO_INDEX && PyTuple_Check(container);
    if (root == NULL || !(fixed || (PyDict_Check(container) && note_dict(recorder, root, op->slot)))) return false;
    recorder->root_of[op->other] = root;
    return true;
}

/* Nothing about the object itself can change, nor about what it consists of. */
static bool is_immutable(PyObject *object) {
    if (object == Py_None || PyLong_CheckExact(object) || PyBool_Check(object) || PyFloat_CheckExact(object) ||
        PyComplex_CheckExact(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) ||
        PyRange_Check(object))
        return true;
    if (PyFrozenSet_CheckExact(object)) return true; /* of hashable items, compared with constants */
    if (!PyTuple_CheckExact(object)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++)
        if (!is_immutable(PyTuple_GET_ITEM(object, i))) return false;
    return true;
}

static bool note_contents(Recorder *recorder, const Op *op) {
    PyObject *value = recorder->slots[op->slot];
    Root *root = recorder->root_of[op->slot];
    if (root == NULL) return false;
    if (PyDict_Check(value)) {
        bool order_elsewhere = op->row->memo == MEMO_KEYS && PyODict_Check(value);
        return !order_elsewhere && note_dict(recorder, root, op->slot);
    }
    return is_immutable(value) || (op->row->memo == MEMO_CONTENTS && PyTuple_Check(value));
}

static bool note_type(Recorder *recorder, const Op *op) {
    Root *root = recorder->root_of[op->slot];
    if (root == NULL) return false;
    add_watch(recorder, root, &recorder->slots[op->slot]->ob_type, op->slot); /* __class__ may be assigned */
    return true;
}

static bool note_many(const Recorder *recorder, const Op *op) {
    int32_t count;
    const int32_t *slots = apart_slots(op, &count);
    for (int32_t i = 0; i < count; i++)
        if (recorder->root_of[slots[i]] == NULL) return false;
    return true;
}

/* Whether the operation need not run while the snapshot holds. */
static bool is_covered(Recorder *recorder, const Op *op) {
    switch (op->row->memo) {
        case MEMO_PINNED: return recorder->constant[op->other] = true, false;
        case MEMO_INSTANCE_DICT: return note_instance_dict(recorder, op);
        case MEMO_INDEX:
        case MEMO_ITEM: return note_item(recorder, op);
        case MEMO_TYPE: return note_type(recorder, op);
        case MEMO_IDENTITY: return recorder->root_of[op->slot] != NULL;
        case MEMO_TWO: return recorder->root_of[op->slot] && recorder->root_of[op->other];
        case MEMO_MANY: return note_many(recorder, op);
        case MEMO_VALUE: return recorder->root_of[op->slot] && is_immutable(recorder->slots[op->slot]);
        case MEMO_CONTENTS:
        case MEMO_KEYS: return note_contents(recorder, op);
        default: return false;
    }
}

/* Everything holds although the last snapshot did not: count against what changed, if it did so quickly. */
static void strike(GuardProgram *program) {
    Snapshot *snapshot = program->snapshot;
    for (Py_ssize_t i = 0; snapshot && i < snapshot->root_count; i++) {
        int32_t slot = snapshot->roots[i]->changed_slot;
        if (slot < 0 || snapshot->hits >= QUICK_CHANGE || program->strikes[slot] == MAX_STRIKES) continue;
        program->strikes[slot]++;
    }
}

static bool allocate(Recorder *recorder, GuardProgram *program, PyObject **slots) {
    Py_ssize_t width = program->slot_count;
    *recorder = (Recorder){.program = program, .slots = slots};
    if ((recorder->snapshot = PyMem_Calloc(1, sizeof(Snapshot))) == NULL) return false;
    program->snapshot = recorder->snapshot;
    recorder->root_of = PyMem_Calloc(width, sizeof(Root *));
    recorder->constant = PyMem_Calloc(width, sizeof(bool));
    recorder->watched = PyMem_Calloc(width, sizeof(bool));
    recorder->snapshot->ops = PyMem_Calloc(program->count + width, sizeof(Op)); /* at most one root a slot */
    recorder->snapshot->slots = PyMem_Malloc(width * sizeof(PyObject *));
    return recorder->root_of && recorder->constant && recorder->watched && recorder->snapshot->ops &&
           recorder->snapshot->slots;
}

void snapshot_record(GuardProgram *program, PyObject **slots) {
    Recorder recorder;
    strike(program);
    snapshot_free(program);
    if (program->dict_reads < WORTH_IT || PyErr_Occurred()) return;
    recorder.failed = !allocate(&recorder, program, slots);
    for (Py_ssize_t i = 0; i < program->count && !recorder.failed; i++)
        if (!is_covered(&recorder, &program->ops[i])) add_op(&recorder, &program->ops[i]);
    if (!recorder.failed) memcpy(recorder.snapshot->slots, slots, program->slot_count * sizeof(PyObject *));
    PyMem_Free(recorder.root_of);
    PyMem_Free(recorder.constant);
    PyMem_Free(recorder.watched);
    if (recorder.failed || program->snapshot->root_count == 0) snapshot_free(program);
}

PyObject *snapshot_operations(const GuardProgram *program) {
    const Snapshot *snapshot = program->snapshot;
    PyObject *names = PyList_New(0);
    for (Py_ssize_t i = 0; names && snapshot && i < snapshot->count; i++) {
        const Op *op = &snapshot->ops[i];
        PyObject *name = op->row ? PyUnicode_FromString(op->row->name)
                                 : PyUnicode_FromFormat("root of %zd", ((Root *)op->data)->count);
        if (name == NULL || PyList_Append(names, name) < 0) Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

void snapshot_free(GuardProgram *program) {
    Snapshot *snapshot = program->snapshot;
    program->snapshot = NULL;
    if (snapshot == NULL) return;
    for (Py_ssize_t i = 0; i < snapshot->root_count; i++) {
        Py_XDECREF(snapshot->roots[i]->reference);
        PyMem_Free(snapshot->roots[i]->watches);
        PyMem_Free(snapshot->roots[i]);
    }
    PyMem_Free(snapshot->roots);
    PyMem_Free(snapshot->slots);
    PyMem_Free(snapshot->ops);
    PyMem_Free(snapshot);
}
