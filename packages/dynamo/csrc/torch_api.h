/* Where the facts of a tensor are read: libtorch's stable C ABI, found in the running process by `init_torch`. */
#ifndef TRIPTYCH_TORCH_API_H
#define TRIPTYCH_TORCH_API_H

#include "guard_program.h"

typedef void *Handle; /* AtenTensorHandle: the address of the tensor smart pointer inside the Python object */

typedef struct {
    bool direct;         /* the C ABI is in use */
    Py_ssize_t offset;   /* of the handle in the object */
    bool maybe_borrowed; /* a flag before the handle says whether it is owned in place */
    int32_t strided;
    PyTypeObject *tensor_type;
    PyGetSetDescrObject *requires_grad;
    PyObject *dispatch_keys; /* callable: tensor -> int */
    bool (*grad_enabled)(void);
    int32_t (*dim)(Handle, int64_t *), (*sizes)(Handle, int64_t **), (*strides)(Handle, int64_t **);
    int32_t (*offset_of)(Handle, int64_t *), (*dtype)(Handle, int32_t *), (*layout)(Handle, int32_t *);
    int32_t (*device_type)(Handle, int32_t *), (*device_index)(Handle, int32_t *), (*data)(Handle, void **);
    size_t (*element_size)(int32_t);
    /* Not part of the C ABI: used where they are found and agree with Python on samples, else Python is asked. */
    bool (*impl_requires_grad)(const void *);
    bool (*inference_enabled)(void);
    int8_t (*default_dtype)(void);
    bool has_dispatch_state;
    Py_ssize_t key_word; /* index of the 64-bit word of the tensor that holds its dispatch keys; 0: not known */
} TorchApi;

extern TorchApi torch_api;

/* Two words of this thread: the dispatch keys that its modes include and exclude (autocast, inference mode, dispatch
 * modes, function transforms). NULL where they are not found. */
const uint64_t *dispatch_state(void);

static inline Handle handle_of(PyObject *tensor) { return (char *)tensor + torch_api.offset; }
static inline const uint64_t *impl_of(PyObject *tensor) { return *(const uint64_t **)handle_of(tensor); }

static inline bool is_direct(PyObject *tensor) {
    return torch_api.direct && !(torch_api.maybe_borrowed && ((char *)tensor)[sizeof(PyObject)]);
}

#endif
