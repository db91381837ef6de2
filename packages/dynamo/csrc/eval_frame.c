#define PY_SSIZE_T_CLEAN
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_eval_frame", "Frame evaluation hook.", -1, NULL};
PyMODINIT_FUNC PyInit__eval_frame(void) { return PyModule_Create(&module); }
