"""What graphs call in place of numpy: functions of numpy over tensors, by torch's own numpy-compatible layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from triptych_dynamo._torch_compat import numpy_layer


class ArrayFunction:
    """A function of numpy (`linalg.norm`), a method of arrays (`.sum`) or an operator, over tensors in place of arrays.

    dtypes: the dtypes that numpy's results have, leaf by leaf; results that differ are converted.
    """

    def __init__(self, path: str, dtypes: tuple[torch.dtype | None, ...]) -> None:
        self.path, self.dtypes = path, dtypes
        self.__name__ = self.__qualname__ = "numpy_" + path.strip("._").replace(".", "_")
        self.__module__ = __name__

    def _function(self) -> Callable[..., Any]:
        if self.path.startswith("."):
            return getattr(numpy_layer.ndarray, self.path[1:])  # type: ignore[no-any-return]
        found: Any = numpy_layer
        for part in self.path.split("."):
            found = getattr(found, part)
        return found  # type: ignore[no-any-return]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(_as_array, (args, kwargs))
        result = tree_map(_as_tensor, self._function()(*args, **kwargs), is_leaf=_is_array)
        wanted = iter(self.dtypes)
        if isinstance(result, (tuple, list)):
            return type(result)([_converted(item, next(wanted)) for item in result])
        return _converted(result, next(wanted))


def _is_array(value: Any) -> bool:
    return isinstance(value, numpy_layer.ndarray)


def _as_array(value: Any) -> Any:
    return numpy_layer.ndarray(value) if isinstance(value, torch.Tensor) else value


def _as_tensor(value: Any) -> Any:
    return value.tensor if _is_array(value) else value


def _converted(value: Any, dtype: torch.dtype | None) -> Any:
    return value.to(dtype) if isinstance(value, torch.Tensor) and dtype is not None else value


def assign_item(array: torch.Tensor, key: Any, item: Any) -> torch.Tensor:
    """`array[key] = item` on the memory of the array."""
    target = numpy_layer.ndarray(array)
    key, item = tree_map(_as_array, (key, item))
    target[key] = item
    return array


def assign_whole(array: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """The result of an operator such as `+=` goes into the memory of the array."""
    return array.copy_(value)


def returned_array(data: torch.Tensor) -> Any:
    """An array of a graph's result."""
    return data.numpy()


def returned_scalar(data: torch.Tensor) -> Any:
    """A numpy scalar of a graph's result."""
    return data.numpy()[()]


def apart_in_memory(first: Any, second: Any) -> bool:
    """Whether two arrays or tensors share no memory."""
    spans = []
    for item in (first, second):
        tensor = item if isinstance(item, torch.Tensor) else torch.from_numpy(item)
        extent = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
        spans.append((tensor.data_ptr(), tensor.data_ptr() + extent * tensor.element_size()))
    (start, end), (other_start, other_end) = spans
    return end <= other_start or other_end <= start


def together_in_memory(first: Any, second: Any) -> bool:
    """Whether two arrays or tensors share memory."""
    return not apart_in_memory(first, second)


def tensor_as_array(value: Any) -> Any:
    """An array over a tensor's memory; anything else is what it is."""
    return value.numpy() if isinstance(value, torch.Tensor) else value


def array_as_tensor(value: Any) -> Any:
    """A tensor over an array's memory, or of a number of numpy; anything else is what it is."""
    return torch.as_tensor(value) if type(value).__module__ == "numpy" else value
