// Makes tensors of forms that are fixed when a graph is compiled: fresh ones, and windows of another tensor's memory. Each is a builtin.
struct Form {
  const Torch *torch;
  long dim;
  const long *size, *stride;
  long offset;
  int dtype, device_type, device_index;
  Object *otherwise;  // does the same in Python
  MethodDef method;
};

static Object *empty(Object *self, Object *const *arguments, long count) {
  const Form *f = (const Form *)PyLong_AsVoidPtr(self);
  void *handle = 0;
  if (count || f->torch->modes() ||
      f->torch->empty(f->dim, f->size, f->stride, f->dtype, f->device_type, f->device_index, &handle))
    return PyObject_Vectorcall(f->otherwise, arguments, count, 0);  // which raises torch's own error, where there is one
  return given(f->torch, handle);
}

static Object *window(Object *self, Object *const *arguments, long count) {
  const Form *f = (const Form *)PyLong_AsVoidPtr(self);
  void *handle = 0;
  if (count != 1 || f->torch->modes() || !is_plain(f->torch, arguments[0]) ||
      f->torch->window(handle_of(f->torch, arguments[0]), f->dim, f->size, f->stride, f->offset, &handle))
    return PyObject_Vectorcall(f->otherwise, arguments, count, 0);
  return given(f->torch, handle);
}

extern "C" __attribute__((visibility("default"))) Object *triptych_form(Form *f, int fresh) {
  f->method.name = fresh ? "empty" : "window";
  f->method.call = fresh ? empty : window;
  f->method.flags = FASTCALL;
  f->method.doc = 0;
  return PyCFunction_NewEx(&f->method, PyLong_FromVoidPtr(f), 0);
}
