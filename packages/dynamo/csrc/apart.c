/* Checks that objects, or the memory of tensors, are apart: each of one group from each of another.
 *
 * Both are one question about ranges of addresses: an object is a range of one byte. The first group is what a program
 * writes to and mostly small; the second may be everything that it reads.
 */
#include "guard_program.h"

enum { LEFT = 1, RIGHT = 2, FEW = 4, ON_STACK = 128 };

/* Slots of members of the left group come first; the first `left` of them are in it, those after `only_left` are in the
 * right one. A slot in both stands in between. */
typedef struct {
    int32_t count, left, only_left;
    int32_t slots[];
} Groups;

typedef struct {
    Range range;
    int32_t sides;
} Member;

const int32_t *apart_slots(const Op *op, int32_t *count) {
    const Groups *groups = op->data;
    *count = groups->count;
    return groups->slots;
}

static bool overlap(const Member *one, const Member *two) {
    return one->range.start < two->range.end && two->range.start < one->range.end;
}

/* Each of the first few against all that it must not meet. */
static bool apart_by_pairs(const Member *members, const Groups *groups) {
    for (int32_t i = 0; i < groups->left; i++)
        for (int32_t j = i < groups->only_left ? groups->only_left : 0; j < groups->count; j++)
            if (i != j && overlap(&members[i], &members[j])) return false;
    return true;
}

static int by_start(const void *left, const void *right) {
    uintptr_t a = ((const Member *)left)->range.start, b = ((const Member *)right)->range.start;
    return a < b ? -1 : a > b;
}

/* One pass in the order of addresses: a member meets the other side where it starts before that side's last end. */
static bool apart_by_order(Member *members, int32_t count) {
    uintptr_t left_end = 0, right_end = 0;
    qsort(members, count, sizeof(Member), by_start);
    for (int32_t i = 0; i < count; i++) {
        const Member *member = &members[i];
        if (member->sides & LEFT && member->range.start < right_end) return false;
        if (member->sides & RIGHT && member->range.start < left_end) return false;
        if (member->sides & LEFT && member->range.end > left_end) left_end = member->range.end;
        if (member->sides & RIGHT && member->range.end > right_end) right_end = member->range.end;
    }
    return true;
}

/* flag: whether memory of tensors is meant. Ranges that merely interleave count as overlapping.
 * 1: apart, 0: some meet, -1: a tensor has no memory to tell of. */
static int are_apart(const Op *op, Run *run) {
    const Groups *groups = op->data;
    Member few[ON_STACK], *members = groups->count <= ON_STACK ? few : PyMem_Malloc(groups->count * sizeof(Member));
    bool good = members != NULL;
    for (int32_t i = 0; i < groups->count && good; i++) {
        PyObject *object = run->slots[groups->slots[i]];
        Member *member = &members[i];
        member->sides = (i < groups->left ? LEFT : 0) | (i >= groups->only_left ? RIGHT : 0);
        member->range = (Range){(uintptr_t)object, (uintptr_t)object + 1};
        if (op->flag) good = tensor_memory(object, &member->range);
        if (member->range.start == member->range.end) member->range = (Range){0, 0}; /* nothing to meet */
    }
    int apart = -1;
    if (good) apart = groups->left <= FEW ? apart_by_pairs(members, groups) : apart_by_order(members, groups->count);
    if (members != few) PyMem_Free(members);
    return apart;
}

static bool check_apart(const Op *op, Run *run) { return are_apart(op, run) == 1; }
static bool check_meeting(const Op *op, Run *run) { return are_apart(op, run) == 0; }

/* constant: (slots, how many of them are in the left group, where the right group begins) */
static int prepare_apart(Op *op) {
    PyObject *slots;
    int left, only_left;
    if (!PyArg_ParseTuple(op->object, "O!ii", &PyTuple_Type, &slots, &left, &only_left)) return -1;
    Py_ssize_t count = PyTuple_GET_SIZE(slots);
    Groups *groups = op->data = PyMem_Malloc(sizeof(Groups) + count * sizeof(int32_t));
    if (groups == NULL) return PyErr_NoMemory(), -1;
    *groups = (Groups){(int32_t)count, left, only_left};
    for (Py_ssize_t i = 0; i < count; i++) groups->slots[i] = (int32_t)PyLong_AsLong(PyTuple_GET_ITEM(slots, i));
    return PyErr_Occurred() ? -1 : 0;
}

const OpRow APART_ROWS[] = {
    {"distinct", check_apart, prepare_apart, false, MEMO_MANY},
    {"no_overlap", check_apart, prepare_apart},
    {"overlap", check_meeting, prepare_apart},
    {NULL},
};
