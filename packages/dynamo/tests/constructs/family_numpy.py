"""numpy arrays and numpy functions in a program."""

from __future__ import annotations

import numpy
import numpy as np
import torch
from table import construct

X = torch.arange(6.0).reshape(2, 3)
A = np.arange(6, dtype=np.float32).reshape(2, 3)


@construct(X)
def from_and_to_numpy(x):
    return torch.from_numpy(x.numpy() * 2) + 1


@construct(X)
def returned_array(x):
    return x.numpy() + 1


@construct(A)
def array_argument(a):
    return torch.from_numpy(a) * 2


@construct(A)
def array_in_array_out(a):
    return np.tanh(a) @ a.T + np.float32(1)


@construct(A)
def reductions_of_arrays(a):
    return a.sum(), a.mean(axis=1), np.max(a, axis=0), a.std(), np.argmax(a), a.cumsum(axis=1), np.prod(a, axis=1)


@construct(A)
def shapes_of_arrays(a):
    return a.shape, a.ndim, a.size, a.dtype, len(a), a.T.shape, a.reshape(-1).shape, a.itemsize, a.strides


@construct(A)
def array_construction(a):
    return (
        np.zeros((2, 3)),
        np.ones_like(a),
        np.arange(4),
        np.array([[1.0, 2], [3, 4]]),
        np.full(3, 7),
        np.eye(2),
        np.linspace(0, 1, 3),
    )


@construct(A)
def array_indexing(a):
    b = a.copy()
    b[0, 1:] = 9
    return b, a[0], a[..., -1], a[[1, 0]], a[None].shape


@construct(A, breaks="data-dependent")
def array_mask(a):
    b = a.copy()
    b[b > 4] += 1
    return b, np.unique(a)


@construct(A)
def array_combination(a):
    return (
        np.concatenate([a, a], axis=1),
        np.stack([a, a]),
        np.where(a > 2, a, 0),
        np.vstack([a, a]),
        np.split(a, 3, axis=1)[0],
    )


@construct(A)
def array_types(a):
    return (
        a.astype(np.int64),
        a.astype("float64") / 3,
        np.int32(3) + a,
        a.dtype == np.float32,
        np.float64,
        np.issubdtype(a.dtype, np.floating),
    )


@construct(A)
def array_scalars(a):
    return (
        float(a.sum() * 0 + 3) if False else a.shape[0] * 1.5,
        np.pi,
        np.sqrt(2.0),
        np.prod([2, 3]),
        int(np.prod(a.shape)),
    )


@construct(A)
def linear_algebra(a):
    square = a @ a.T + np.eye(2, dtype=np.float32)
    return np.linalg.norm(a), np.linalg.inv(square), np.dot(a, a.T), np.einsum("ij,kj->ik", a, a), np.linalg.det(square)


@construct(A)
def elementwise(a):
    return (
        np.exp(a),
        np.maximum(a, 2),
        np.clip(a, 1, 3),
        np.abs(-a),
        np.power(a, 2),
        np.logical_and(a > 1, a < 4),
        np.isnan(a),
    )


@construct(X, A)
def mixed_with_tensors(x, a):
    return x + torch.as_tensor(a), torch.tensor(a) * x, torch.from_numpy(a).mean()


@construct(A)
def array_changed_in_place(a):
    a += 1
    a[0] = 0
    return a


@construct(A)
def sorted_arrays(a):
    return np.sort(-a, axis=1), np.argsort(-a, axis=1), np.flip(a, 0), np.transpose(a), np.expand_dims(a, 0).shape


@construct(X, breaks="numpy")
def vectorized_function(x):
    return np.vectorize(lambda v: v + 1)(x.numpy())


@construct(X, breaks="numpy")
def object_array(x):
    return x, np.array([None, "a"], dtype=object).shape


@construct(X)
def array_scalar_arithmetic(x):
    return x * np.float32(2.0), x + np.int64(1)


@construct(X)
def detached_to_numpy(x):
    w = (x * 2).requires_grad_()
    return w.detach().cpu().numpy().mean()


@construct(X)
def array_to_python_number(x):
    return float(numpy.sum(x.numpy()))


@construct(X, A)
def numbers_of_arrays_in_the_graph(x, a):
    found = [float(np.linalg.norm(a)), int(a.sum()), a.max().item(), float(np.array(3)), float((a > 2).any())]
    return x * found[0] + found[1], x / found[2], found, [type(number) for number in found]


@construct(A, breaks="data-dependent")
def numbers_of_arrays_with_dimensions(a):
    found = []
    for convert in (float, int):
        try:
            found.append(convert(a))
        except TypeError as error:
            found.append(str(error))
    return a + 1, found


@construct(A, torch.ones((), dtype=torch.complex64), breaks="data-dependent")
def numbers_of_complex_tensors(a, z):
    return float(z * 2), float(z.numpy().real)
