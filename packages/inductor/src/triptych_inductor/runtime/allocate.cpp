// Makes tensors of forms that are fixed when a graph is compiled: fresh ones, and windows of another tensor's memory. Each is a builtin;
// torch's argument parser and dispatcher, which take most of the time of `torch.empty_strided`, are left out. While a dispatch mode is
// active (fake tensors, counters of operators) the Python function that does the same is called. No header is included.
extern "C" {
struct Object;
typedef Object *(*FastCall)(Object *, Object *const *, long);
struct MethodDef { const char *name; FastCall call; int flags; const char *doc; };
Object *PyCFunction_NewEx(MethodDef *, Object *, Object *);
Object *PyLong_FromVoidPtr(void *);
void *PyLong_AsVoidPtr(Object *);
Object *PyObject_Vectorcall(Object *, Object *const *, unsigned long, Object *);
}

struct Torch {
  int (*empty)(long, const long *, const long *, int, int, int, void **);
  int (*window)(void *, long, const long *, const long *, long, void **);
  int (*drop)(void *);
  Object *(*wrap)(const void *);  // a Python object for a tensor
  long (*modes)();
  long type_offset, handle_offset;  // in a Python object: its type; in a tensor: what torch calls its handle
  Object *tensor_type, *parameter_type;
};

struct Form {
  const Torch *torch;
  long dim;
  const long *size, *stride;
  long offset;
  int dtype, device_type, device_index;
  Object *otherwise;  // does the same in Python
  MethodDef method;
};

static Object *given(const Form *f, void *handle) {
  Object *made = f->torch->wrap(handle);
  f->torch->drop(handle);
  return made;
}

static Object *empty(Object *self, Object *const *arguments, long count) {
  const Form *f = (const Form *)PyLong_AsVoidPtr(self);
  void *handle = 0;
  if (count || f->torch->modes() ||
      f->torch->empty(f->dim, f->size, f->stride, f->dtype, f->device_type, f->device_index, &handle))
    return PyObject_Vectorcall(f->otherwise, arguments, count, 0);  // which raises torch's own error, where there is one
  return given(f, handle);
}

static int is_plain(const Torch *t, Object *o) {
  Object *type = *(Object **)((char *)o + t->type_offset);
  return type == t->tensor_type || type == t->parameter_type;
}

static Object *window(Object *self, Object *const *arguments, long count) {
  const Form *f = (const Form *)PyLong_AsVoidPtr(self);
  void *handle = 0;
  if (count != 1 || f->torch->modes() || !is_plain(f->torch, arguments[0]) ||
      f->torch->window((char *)arguments[0] + f->torch->handle_offset, f->dim, f->size, f->stride, f->offset, &handle))
    return PyObject_Vectorcall(f->otherwise, arguments, count, 0);
  return given(f, handle);
}

extern "C" __attribute__((visibility("default"))) Object *triptych_form(Form *f, int fresh) {
  f->method.name = fresh ? "empty" : "window";
  f->method.call = fresh ? empty : window;
  f->method.flags = 0x80;  // METH_FASTCALL
  f->method.doc = 0;
  return PyCFunction_NewEx(&f->method, PyLong_FromVoidPtr(f), 0);
}
