/* The flat guard program: a list of reads and checks over slots. */
#ifndef TRIPTYCH_GUARD_PROGRAM_H
#define TRIPTYCH_GUARD_PROGRAM_H

#include "compat.h"

typedef struct Op Op;

/* One run: slots hold borrowed references; those that a read had to create are listed in `owned` too. */
typedef struct {
    PyObject **slots;
    PyObject **owned;
    Py_ssize_t owned_count;
    PyObject *const *locals;
    PyObject *function;
} Run;

typedef bool (*OpStep)(const Op *op, Run *run); /* whether it holds; never leaves an exception set */

struct Op {
    OpStep step;
    int32_t slot;  /* what it reads from */
    int32_t other; /* where it puts the result, or the second slot of a comparison */
    int32_t guard; /* index of the guard that it belongs to */
    int32_t flag;
    PyObject *object; /* constant, held */
    void *data;       /* payload made by the row's `prepare`, freed with PyMem_Free */
    const struct OpRow *row;
};

/* What an operation's outcome hangs on, for snapshots; the default hangs on anything and runs at each check. */
typedef enum {
    MEMO_NEVER,
    MEMO_PINNED,        /* gives a constant */
    MEMO_INSTANCE_DICT, /* the word that holds the dictionary */
    MEMO_ITEM,          /* the dictionary's version */
    MEMO_INDEX,         /* the same, or nothing for a tuple */
    MEMO_TYPE,          /* the object's type */
    MEMO_IDENTITY,      /* which object it is */
    MEMO_TWO,           /* which objects the two are */
    MEMO_MANY,          /* which objects those of `data` are */
    MEMO_VALUE,         /* which object, where that cannot change */
    MEMO_CONTENTS,      /* the version of a dictionary */
    MEMO_KEYS,          /* the same, but for dictionaries that keep their order elsewhere */
} Memo;

/* A row of the table of operations. `prepare` turns the constant into a payload: 0, or -1 with an exception. */
typedef struct OpRow {
    const char *name;
    OpStep step;
    int (*prepare)(Op *op);
    bool creates; /* the read gives a new reference */
    Memo memo;
} OpRow;

typedef struct {
    PyObject_HEAD Op *ops;
    Py_ssize_t count;
    Py_ssize_t slot_count;
    Py_ssize_t owned_limit;
    PyObject **scratch; /* slots and owned references of a run, when none is going on */
    bool busy;
    Py_ssize_t dict_reads;
    struct Snapshot *snapshot;
    uint8_t *strikes; /* by slot: how often it changed right after a snapshot */
    PyObject *guards; /* what the ops' guard indices mean, for whoever asks */
} GuardProgram;

extern PyTypeObject GuardProgram_Type;

/* The index of the first violated guard, or -1 when all hold. Never leaves an exception set. */
Py_ssize_t guard_program_run(GuardProgram *program, PyObject *const *locals, PyObject *function);

extern const OpRow READ_ROWS[], CHECK_ROWS[], TENSOR_ROWS[], APART_ROWS[], SHAPE_ROWS[]; /* end with a NULL name */

/* torch_api.c */
PyObject *init_torch(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *read_dispatch_state(PyObject *module, PyObject *unused);
PyObject *forget_dispatch_state(PyObject *module, PyObject *unused);

/* tensor_facts.c */
PyObject *tensor_facts(PyObject *module, PyObject *tensor);
bool tensor_integer(PyObject *tensor, int kind, Py_ssize_t dim, int64_t *out); /* for shape_vm.c */
typedef struct {
    uintptr_t start, end;
} Range;
/* The bytes from the tensor's first element to its last; false when it has none to tell of. */
bool tensor_memory(PyObject *tensor, Range *range);
enum { TENSOR_SIZE, TENSOR_STRIDE, TENSOR_OFFSET };

/* apart.c: the slots that an operation with MEMO_MANY compares, and how many */
const int32_t *apart_slots(const Op *op, int32_t *count);

/* guard_checks.c */
bool equal_exactly(PyObject *left, PyObject *right); /* same type and value, without numbers being confused */
Py_ssize_t container_length(PyObject *object);       /* -1 when it is no container, no exception */
int prepare_slots(Op *op); /* constant: slots; data: their number, and they */
int prepare_call(Op *op);  /* the same of a constant (callable, slots) */
bool check_mode(const Op *op, Run *run);
bool mode_is(PyObject *reader, PyObject *expected);

#endif
