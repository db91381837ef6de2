// Calls kernels of torch's library by its C functions: products into memory that the wrapper made, convolutions. The interpreter's lock is
// given up meanwhile, as torch's own bindings do. Where a C function fails the Python function is called, which raises torch's own error.
typedef int (*Product)(void *out, void *, void *);
typedef int (*ScaledProduct)(void *out, void *, void *, void *, double, double);
typedef int (*Convolution)(void *, void *, void **, const long *, long, const long *, long, const long *, long, int, const long *, long, long,
                           void **);

struct Call {
  const Torch *torch;
  long inputs;  // of a product: its tensors without the result; 3: the first is added to the product of the others
  void *function;
  const long *lists;  // of a convolution: strides, paddings, dilations, paddings of the output
  long dim, transposed, groups;
  Object *otherwise;  // the Python function
  MethodDef method;
};

static int is_seen(const Torch *t) { return t->modes() || t->callbacks(); }

static Object *product(Object *self, Object *const *arguments, long count, Object *names) {
  const Call *c = (const Call *)PyLong_AsVoidPtr(self);
  const Torch *t = c->torch;
  const long total = count + (names ? PyTuple_Size(names) : 0);
  int failed = total != c->inputs + 1 || is_seen(t);
  void *h[4];
  for (long k = 0; !failed && k < total; k++) {
    failed = !is_plain(t, arguments[k]);
    h[k] = handle_of(t, arguments[k]);
  }
  if (!failed) {
    void *state = PyEval_SaveThread();
    failed = c->inputs == 2 ? ((Product)c->function)(h[2], h[0], h[1])
                            : ((ScaledProduct)c->function)(h[3], h[0], h[1], h[2], 1, 1);
    PyEval_RestoreThread(state);
  }
  if (failed) return PyObject_Vectorcall(c->otherwise, arguments, count, names);
  Py_IncRef(arguments[total - 1]);
  return arguments[total - 1];
}

static Object *convolution(Object *self, Object *const *arguments, long count) {
  const Call *c = (const Call *)PyLong_AsVoidPtr(self);
  const Torch *t = c->torch;
  int failed = count != 3 || is_seen(t) || !is_plain(t, arguments[0]) || !is_plain(t, arguments[1]);
  const int biased = !failed && arguments[2] != &_Py_NoneStruct;
  if (failed || (biased && !is_plain(t, arguments[2]))) return PyObject_Vectorcall(c->otherwise, arguments, count, 0);
  void *bias = handle_of(t, arguments[2]), *made = 0;
  const long n = c->dim, *lists = c->lists;
  void *state = PyEval_SaveThread();
  failed = ((Convolution)c->function)(handle_of(t, arguments[0]), handle_of(t, arguments[1]), biased ? &bias : 0, lists, n, lists + n, n,
                                      lists + 2 * n, n, (int)c->transposed, lists + 3 * n, n, c->groups, &made);
  PyEval_RestoreThread(state);
  return failed ? PyObject_Vectorcall(c->otherwise, arguments, count, 0) : given(t, made);
}

// laid_out(tensor, stride): the tensor, where its strides are these.
static Object *laid_out(Object *self, Object *const *arguments, long count) {
  const Call *c = (const Call *)PyLong_AsVoidPtr(self);
  const Torch *t = c->torch;
  long dim = 0, *strides = 0;
  int same = count == 2 && is_plain(t, arguments[0]) && !t->modes() && !t->dim(handle_of(t, arguments[0]), &dim) &&
             !t->strides(handle_of(t, arguments[0]), &strides) && PyTuple_Size(arguments[1]) == dim;
  for (long k = 0; same && k < dim; k++) same = PyLong_AsLong(PyTuple_GetItem(arguments[1], k)) == strides[k];
  if (PyErr_Occurred()) PyErr_Clear();
  if (!same) return PyObject_Vectorcall(c->otherwise, arguments, count, 0);
  Py_IncRef(arguments[0]);
  return arguments[0];
}

extern "C" __attribute__((visibility("default"))) Object *triptych_call(Call *c, long kind) {
  const struct { const char *name; FastCall call; int flags; } KINDS[] = {
      {"product", (FastCall)product, FASTCALL | KEYWORDS}, {"convolution", convolution, FASTCALL}, {"laid_out", laid_out, FASTCALL}};
  c->method.name = KINDS[kind].name;
  c->method.call = KINDS[kind].call;
  c->method.flags = KINDS[kind].flags;
  c->method.doc = 0;
  return PyCFunction_NewEx(&c->method, PyLong_FromVoidPtr(c), 0);
}
