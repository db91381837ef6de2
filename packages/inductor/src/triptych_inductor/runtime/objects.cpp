// Tensors as Python objects, for the builtins of `allocate.cpp` and `calls.cpp`, which are built behind this text as one library. torch's
// argument parser and dispatcher, which take most of the time of a small call, are left out. While a dispatch mode is active (fake tensors,
// counters of operators), and for objects of other classes, each builtin calls the Python function that does the same. No header is included.
extern "C" {
struct Object;
typedef Object *(*FastCall)(Object *, Object *const *, long);
typedef Object *(*NamedCall)(Object *, Object *const *, long, Object *);
struct MethodDef { const char *name; FastCall call; int flags; const char *doc; };
Object *PyCFunction_NewEx(MethodDef *, Object *, Object *);
Object *PyLong_FromVoidPtr(void *);
void *PyLong_AsVoidPtr(Object *);
long PyLong_AsLong(Object *);
long PyTuple_Size(Object *);
Object *PyTuple_GetItem(Object *, long);
Object *PyObject_Vectorcall(Object *, Object *const *, unsigned long, Object *);
Object *PyErr_Occurred();
void PyErr_Clear();
void Py_IncRef(Object *);
void *PyEval_SaveThread();
void PyEval_RestoreThread(void *);
extern Object _Py_NoneStruct;
}

enum { FASTCALL = 0x80, KEYWORDS = 0x2 };

struct Torch {
  int (*empty)(long, const long *, const long *, int, int, int, void **);
  int (*window)(void *, long, const long *, const long *, long, void **);
  int (*drop)(void *);
  int (*dim)(void *, long *);
  int (*strides)(void *, long **);
  Object *(*wrap)(const void *);  // a Python object for a tensor
  long (*modes)();
  bool (*callbacks)();            // whether a profiler wants to see each operator
  long type_offset, handle_offset;  // in a Python object: its type; in a tensor: what torch calls its handle
  Object *tensor_type, *parameter_type;
};

static int is_plain(const Torch *t, Object *o) {
  Object *type = *(Object **)((char *)o + t->type_offset);
  return type == t->tensor_type || type == t->parameter_type;
}

static void *handle_of(const Torch *t, Object *o) { return (char *)o + t->handle_offset; }

static Object *given(const Torch *t, void *handle) {
  Object *made = t->wrap(handle);
  t->drop(handle);
  return made;
}
