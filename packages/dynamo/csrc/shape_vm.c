/* Guards on sizes: a small stack machine over 64-bit integers. An overflow or a division by zero counts as violated. */
#include "guard_program.h"

enum { MAX_DEPTH = 64 };
typedef struct {
    int64_t stack[MAX_DEPTH];
    int top; /* index of the topmost value */
} Machine;

typedef struct {
    int32_t code;
    int64_t operand;
} Step;

typedef struct {
    int32_t kind, slot; /* kind: TENSOR_SIZE ..., or PLAIN_INTEGER for an int object */
    int64_t dim;
} Input;

enum { PLAIN_INTEGER = 3 };

typedef struct {
    Py_ssize_t step_count, input_count;
    Input *inputs;
    Step steps[];
} ShapeProgram;

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

static bool power(int64_t base, int64_t exponent, int64_t *out) {
    *out = 1;
    if (exponent < 0) return false;
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(*out, base, out)) return false;
    return true;
}

enum {
    ADD,
    SUB,
    MUL,
    FLOORDIV,
    MOD,
    POW,
    MIN,
    MAX,
    EQ,
    NE,
    LT,
    LE,
    GT,
    GE,
    AND,
    OR,
    LAST_BINARY = OR,
    NEG,
    NOT,
    CONST,
    INPUT
};

static const char *const NAMES[] = {"add", "sub", "mul", "floordiv", "mod", "pow", "min", "max", "eq",    "ne",
                                    "lt",  "le",  "gt",  "ge",       "and", "or",  "neg", "not", "const", "input"};

static bool binary(int32_t code, int64_t a, int64_t b, int64_t *out) {
    switch (code) {
        case ADD: return !__builtin_add_overflow(a, b, out);
        case SUB: return !__builtin_sub_overflow(a, b, out);
        case MUL: return !__builtin_mul_overflow(a, b, out);
        case FLOORDIV:
            if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
            *out = floor_divide(a, b);
            return true;
        case MOD: /* the sign of the divisor, as in Python */
            if (b == 0) return false;
            *out = b == -1 ? 0 : a - floor_divide(a, b) * b;
            return true;
        case POW: return power(a, b, out);
        case MIN: return *out = a < b ? a : b, true;
        case MAX: return *out = a > b ? a : b, true;
        case EQ: return *out = a == b, true;
        case NE: return *out = a != b, true;
        case LT: return *out = a < b, true;
        case LE: return *out = a <= b, true;
        case GT: return *out = a > b, true;
        case GE: return *out = a >= b, true;
        case AND: return *out = a && b, true;
        case OR: return *out = a || b, true;
        default: return false;
    }
}

static bool read_input(const Input *input, Run *run, int64_t *out) {
    PyObject *value = run->slots[input->slot];
    int overflow;
    if (input->kind != PLAIN_INTEGER) return tensor_integer(value, input->kind, input->dim, out);
    if (!PyLong_CheckExact(value)) return false;
    *out = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow;
}

static bool check_shape(const Op *op, Run *run) {
    const ShapeProgram *program = op->data;
    Machine machine = {.top = -1};
    int64_t *stack = machine.stack;
    for (const Step *step = program->steps; step < program->steps + program->step_count; step++) {
        int32_t code = step->code;
        if (code == CONST) {
            stack[++machine.top] = step->operand;
        } else if (code == INPUT) {
            if (!read_input(&program->inputs[step->operand], run, &stack[++machine.top])) return false;
        } else if (code == NOT) {
            stack[machine.top] = !stack[machine.top];
        } else if (code == NEG) {
            if (__builtin_sub_overflow(0, stack[machine.top], &stack[machine.top])) return false;
        } else {
            machine.top--;
            if (!binary(code, stack[machine.top], stack[machine.top + 1], &stack[machine.top])) return false;
        }
    }
    return stack[0] != 0;
}

/* Integers read as for the machine, then a Python callable over them: for expressions that the machine has no words
 * for. */
static bool check_shape_python(const Op *op, Run *run) {
    const ShapeProgram *program = op->data;
    PyObject *args = PyTuple_New(program->input_count);
    bool readable = args != NULL;
    for (Py_ssize_t i = 0; i < program->input_count && readable; i++) {
        int64_t value;
        readable = read_input(&program->inputs[i], run, &value);
        PyObject *number = readable ? PyLong_FromLongLong(value) : NULL;
        readable = number != NULL;
        if (readable) PyTuple_SET_ITEM(args, i, number);
    }
    PyObject *result = readable ? PyObject_Call(PyTuple_GET_ITEM(op->object, 0), args, NULL) : NULL;
    int truth = result ? PyObject_IsTrue(result) : 0;
    Py_XDECREF(result);
    Py_XDECREF(args);
    PyErr_Clear();
    return truth == 1;
}

static int find_code(const char *name) {
    for (int i = 0; i < (int)(sizeof NAMES / sizeof *NAMES); i++)
        if (strcmp(NAMES[i], name) == 0) return i;
    PyErr_Format(PyExc_ValueError, "no shape operation is called %s", name);
    return -1;
}

static int parse_inputs(ShapeProgram *program, PyObject *inputs) {
    for (Py_ssize_t i = 0; i < program->input_count; i++) {
        Input *input = &program->inputs[i];
        long long dim;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(inputs, i), "iiL", &input->kind, &input->slot, &dim)) return -1;
        input->dim = dim;
    }
    return 0;
}

/* The steps, with a proof that the stack neither runs dry nor over and ends with one value. */
static int parse_steps(ShapeProgram *program, PyObject *steps) {
    int depth = 0;
    for (Py_ssize_t i = 0; i < program->step_count; i++) {
        const char *name;
        long long operand;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(steps, i), "sL", &name, &operand)) return -1;
        int code = find_code(name);
        if (code < 0) return -1;
        program->steps[i] = (Step){code, operand};
        int needs = code <= LAST_BINARY ? 2 : code <= NOT ? 1 : 0;
        bool known = code != INPUT || (operand >= 0 && operand < program->input_count);
        depth += 1 - needs;
        if (depth < 1 || depth > MAX_DEPTH || !known) {
            PyErr_SetString(PyExc_ValueError, "the shape program's stack does not come out even");
            return -1;
        }
    }
    if (depth == 1 || program->step_count == 0) return 0;
    PyErr_SetString(PyExc_ValueError, "the shape program's stack does not come out even");
    return -1;
}

/* constant: ((name, operand) ..., (kind, slot, dim) ...) or (callable, inputs) */
static int prepare_shape(Op *op) {
    PyObject *steps, *inputs;
    if (!PyArg_ParseTuple(op->object, "OO!", &steps, &PyTuple_Type, &inputs)) return -1;
    Py_ssize_t step_count = PyTuple_Check(steps) ? PyTuple_GET_SIZE(steps) : 0, input_count = PyTuple_GET_SIZE(inputs);
    ShapeProgram *program = op->data =
        PyMem_Calloc(1, sizeof(ShapeProgram) + step_count * sizeof(Step) + input_count * sizeof(Input));
    if (program == NULL) return PyErr_NoMemory(), -1;
    program->step_count = step_count;
    program->input_count = input_count;
    program->inputs = (Input *)(program->steps + step_count);
    if (parse_inputs(program, inputs) < 0) return -1;
    return PyTuple_Check(steps) ? parse_steps(program, steps) : 0;
}

const OpRow SHAPE_ROWS[] = {
    {"shape", check_shape, prepare_shape},
    {"shape_python", check_shape_python, prepare_shape},
    {NULL},
};
