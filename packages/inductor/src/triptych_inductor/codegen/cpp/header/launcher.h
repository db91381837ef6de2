// Entry from Python: each kernel is a builtin function that takes tensors (their data pointers are read through torch's
// stable C functions) and integers. The few names of CPython's stable ABI are declared here, so that no header is
// needed.
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
void *PyEval_SaveThread();
void PyEval_RestoreThread(void *);
int PyType_IsSubtype(Object *, Object *);
void Py_IncRef(Object *);
extern Object _Py_NoneStruct;
extern Object PyLong_Type;
extern Object *PyExc_IndexError, *PyExc_RuntimeError, *PyExc_TypeError;
}
typedef void (*KernelEntry)(const long *, Failure *);
struct KernelRow { const char *name; KernelEntry run; long count; MethodDef method; };
struct Runtime {
  long type_offset, handle_offset;  // in a Python object: its type; in a tensor: what torch calls its handle
  Object *tensor_type;
  int (*data_ptr)(void *, void **);
  void *max_threads, *thread_number, *thread_count, *gomp_parallel;
};
static Runtime runtime;
INL Object *type_of(Object *o) { return *(Object **)((char *)o + runtime.type_offset); }
static Object *launch(Object *self, Object *const *arguments, long given) {
  const KernelRow *row = (const KernelRow *)PyLong_AsVoidPtr(self);
  long values[MOST_ARGUMENTS];
  if (given != row->count)
    return PyErr_Format(PyExc_TypeError, "%s takes %ld arguments, not %ld", row->name, row->count, given);
  for (long i = 0; i < given; i++) {
    Object *o = arguments[i], *type = type_of(o);
    if (type == &PyLong_Type) {
      values[i] = PyLong_AsLongLong(o);
      if (values[i] == -1 && PyErr_Occurred()) return 0;
    } else if (type == runtime.tensor_type || PyType_IsSubtype(type, runtime.tensor_type)) {
      void *p = 0;
      if (runtime.data_ptr((char *)o + runtime.handle_offset, &p))
        return PyErr_Format(PyExc_RuntimeError, "%s: argument %ld has no memory", row->name, i);
      values[i] = (long)p;
    } else {
      return PyErr_Format(PyExc_TypeError, "%s: argument %ld is neither a tensor nor an int", row->name, i);
    }
  }
  Failure failure = {};
  void *state = PyEval_SaveThread();
  row->run(values, &failure);
  PyEval_RestoreThread(state);
  if (failure.code == 1 || failure.code == 3)
    return PyErr_Format(failure.code == 1 ? PyExc_IndexError : PyExc_RuntimeError,
                        "index %ld is out of bounds for dimension %ld with size %ld", failure.value, failure.dimension,
                        failure.size);
  if (failure.code == 4) return PyErr_Format(PyExc_IndexError, "index out of range in self");
  if (failure.code == 5) return PyErr_Format(PyExc_IndexError, "Target %ld is out of bounds.", failure.value);
  if (failure.code == 2) return PyErr_Format(PyExc_RuntimeError, "ZeroDivisionError");
  Py_IncRef(&_Py_NoneStruct);
  return &_Py_NoneStruct;
}
