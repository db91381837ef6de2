// Launches device functions from Python. Each function is a builtin that takes tensors (their data pointers are read through torch's
// stable C functions) and integers; the current stream is asked for at each launch. No header is included: the few names of CPython's
// stable ABI and of the driver that are used are declared here.
extern "C" {
struct Object;
typedef Object *(*FastCall)(Object *, Object *const *, long);
struct MethodDef { const char *name; FastCall call; int flags; const char *doc; };
Object *PyCFunction_NewEx(MethodDef *, Object *, Object *);
Object *PyLong_FromVoidPtr(void *);
void *PyLong_AsVoidPtr(Object *);
long long PyLong_AsLongLong(Object *);
Object *PyErr_Occurred();
Object *PyErr_Format(Object *, const char *, ...);
Object *PyObject_Vectorcall(Object *, Object *const *, unsigned long, Object *);
void *PyEval_SaveThread();
void PyEval_RestoreThread(void *);
int PyType_IsSubtype(Object *, Object *);
void Py_IncRef(Object *);
extern Object _Py_NoneStruct;
extern Object PyLong_Type;
extern Object *PyExc_RuntimeError, *PyExc_TypeError;
}

struct Driver {
  long type_offset, handle_offset;  // in a Python object: its type; in a tensor: what torch calls its handle
  Object *tensor_type;
  int (*data_ptr)(void *, void **);
  int (*stream)(int, void **);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
  int (*get_context)(void **);  // null where the driver has no contexts
  int (*push_context)(void *);
  int (*pop_context)(void **);
  int (*error_text)(int, const char **);
};

// One launchable function. `grid` is a postfix program of (code, value) pairs: code 0 pushes value, 1 pushes size argument `value`, others
// are operators; it is empty where the grid is fixed.
struct Row {
  const char *name;
  void *function, *context;
  const Driver *driver;
  long device, threads, shared, given, count, programs, grid_length, extra;
  const int *source;             // argument of each kernel parameter
  const unsigned char *aligned;  // whether the parameter must be a multiple of 16
  const long *grid;
  Object *otherwise;             // called with the same arguments where one is not
  MethodDef method;
};

enum { MOST = 256, DEEP = 64 };

static inline Object *type_of(const Driver *d, Object *o) { return *(Object **)((char *)o + d->type_offset); }

static long quotient(long a, long b) { return b ? a / b : 0; }

static long programs_of(const Row *row, const long *values) {
  long stack[DEEP];
  int top = 0;
  for (long k = 0; k < row->grid_length; k++) {
    long code = row->grid[2 * k], value = row->grid[2 * k + 1];
    if (code == 0) stack[top++] = value;
    else if (code == 1) stack[top++] = values[value];
    else {
      long b = stack[--top], a = stack[top - 1], r = 0;
      switch (code) {
        case 2: r = a + b; break;
        case 3: r = a * b; break;
        case 4: r = quotient(a, b); break;
        case 5: r = b ? a % b : 0; break;
        case 6: r = a > b ? a : b; break;
        case 7: r = a < b ? a : b; break;
        case 8: r = quotient(a + b - 1, b); break;
      }
      stack[top - 1] = r;
    }
  }
  return top ? stack[top - 1] : 0;
}

static Object *failed(const Row *row, int status) {
  const char *text = 0;
  if (row->driver->error_text) row->driver->error_text(status, &text);
  return PyErr_Format(PyExc_RuntimeError, "%s: launch failed: %s (%d)", row->name, text ? text : "driver error", status);
}

static int run(const Row *row, void *stream, long programs, void **parameters) {
  const Driver *d = row->driver;
  void *current = 0;
  int foreign = 0;
  if (d->get_context && row->context) {
    int status = d->get_context(&current);
    if (status) return status;
    foreign = current != row->context;
    if (foreign && (status = d->push_context(row->context))) return status;
  }
  int status = d->launch(row->function, (unsigned)programs, 1, 1, (unsigned)row->threads, 1, 1, (unsigned)row->shared, stream,
                         parameters, 0);
  if (foreign) d->pop_context(&current);
  return status;
}

static Object *launch(Object *self, Object *const *arguments, long given) {
  Row *row = (Row *)PyLong_AsVoidPtr(self);
  const Driver *d = row->driver;
  long values[MOST];
  if (given != row->given)
    return PyErr_Format(PyExc_TypeError, "%s takes %ld arguments, not %ld", row->name, row->given, given);
  for (long i = 0; i < given; i++) {
    Object *o = arguments[i], *type = type_of(d, o);
    if (type == &PyLong_Type) {
      values[i] = PyLong_AsLongLong(o);
      if (values[i] == -1 && PyErr_Occurred()) return 0;
    } else if (type == d->tensor_type || PyType_IsSubtype(type, d->tensor_type)) {
      void *p = 0;
      if (d->data_ptr((char *)o + d->handle_offset, &p))
        return PyErr_Format(PyExc_RuntimeError, "%s: argument %ld has no memory", row->name, i);
      values[i] = (long)p;
    } else {
      return PyErr_Format(PyExc_TypeError, "%s: argument %ld is neither a tensor nor an int", row->name, i);
    }
  }
  void *parameters[MOST + 4];
  long scratch[4] = {0, 0, 0, 0};  // Triton's own scratch pointers, unused
  for (long k = 0; k < row->count; k++) {
    long *value = &values[row->source[k]];
    if (row->aligned[k] && (*value & 15)) return PyObject_Vectorcall(row->otherwise, arguments, given, 0);
    parameters[k] = value;
  }
  for (long k = 0; k < row->extra; k++) parameters[row->count + k] = &scratch[k];
  long programs = row->grid_length ? programs_of(row, values) : row->programs;
  if (programs > 0) {
    void *stream = 0;
    if (d->stream((int)row->device, &stream)) return PyErr_Format(PyExc_RuntimeError, "%s: no current stream", row->name);
    void *state = PyEval_SaveThread();
    int status = run(row, stream, programs, parameters);
    PyEval_RestoreThread(state);
    if (status) return failed(row, status);
  }
  Py_IncRef(&_Py_NoneStruct);
  return &_Py_NoneStruct;
}

extern "C" __attribute__((visibility("default"))) Object *triptych_function(Row *row) {
  row->method.name = row->name;
  row->method.call = launch;
  row->method.flags = 0x80;  // METH_FASTCALL
  row->method.doc = 0;
  return PyCFunction_NewEx(&row->method, PyLong_FromVoidPtr(row), 0);
}
