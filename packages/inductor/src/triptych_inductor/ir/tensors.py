"""Lazy tensors: what lowering functions take and give.

A lazy tensor is a recipe for one element (`at`). It costs nothing until it is realised, that is stored to a buffer by
a loop node; from then on its recipe is a load. Views are recipes that translate the index, and stay strided windows
where that is possible.

Elements of half types are computed in float32: `at` of a bfloat16 tensor gives a float32 value (see `compute_dtype`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from triptych_inductor.ir.extents import Extent, contiguous_strides
from triptych_inductor.ir.index import ZERO, Index, Var
from triptych_inductor.ir.nodes import Buffer, LoopNode, Strided
from triptych_inductor.ir.record import IndexRecorder
from triptych_inductor.loops import ops
from triptych_inductor.loops.handlers import Value, current, install
from triptych_inductor.loops.table import HALF

if TYPE_CHECKING:
    from triptych_inductor.ir.builder import Builder

Indices = tuple[Index, ...]


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which elements of `dtype` are computed: float32 for half types."""
    return torch.float32 if dtype in HALF else dtype


class LazyTensor:
    """A tensor of known size, dtype and device whose elements are computed on demand.

    `parents`: the lazy tensors its recipe reads; `weight`: the price of its own arithmetic (an addition is 1).
    `stride`: the strides that eager's result would have (None: contiguous). `layout`: strides that suit its users
    better. `room`: sizes of the memory that it is to be stored in, where they are larger (see `ir/alignment.py`).
    """

    __slots__ = (
        "builder",
        "size",
        "dtype",
        "device",
        "recipe",
        "parents",
        "weight",
        "stride",
        "layout",
        "room",
        "strided",
        "base",
        "restride",
    )

    def __init__(
        self,
        builder: Builder,
        size: Sequence[Extent],
        dtype: torch.dtype,
        device: torch.device,
        recipe: Callable[[Indices], Value] | None = None,
        *,
        parents: Sequence[LazyTensor] = (),
        weight: int = 1,
        strided: Strided | None = None,
    ) -> None:
        self.builder = builder
        self.size = tuple(size)
        self.dtype = dtype
        self.device = device
        self.recipe = recipe
        self.parents = tuple(parents)
        self.weight = weight
        self.stride: tuple[Extent, ...] | None = None
        self.layout: tuple[Extent, ...] | None = None
        self.room: tuple[int, ...] | None = None
        self.strided = strided
        self.base: LazyTensor | None = None
        self.restride: Callable[[Strided], Strided | None] | None = None

    @property
    def ndim(self) -> int:
        return len(self.size)

    def at(self, indices: Sequence[Index]) -> Value:
        """The element at `indices`, of `compute_dtype(self.dtype)`, evaluated under the installed recorder."""
        recorder = current()
        key = (id(self), tuple(indices))
        found = recorder.recall(key)  # type: ignore[attr-defined]
        if found is None:
            found = self._load(key[1]) if self.strided is not None else self.recipe(key[1])  # type: ignore[misc]
            recorder.remember(key, found)  # type: ignore[attr-defined]
        return found

    def _load(self, indices: Indices) -> Value:
        window = self.strided
        assert window is not None
        value = ops.load(window.buffer.name, address(window, indices))
        return ops.cast(value, compute_dtype(self.dtype)) if self.dtype in HALF else value

    def pending(self) -> list[LazyTensor]:
        """This tensor and all ancestors that its recipe would inline (nothing when it is realised)."""
        found: dict[int, LazyTensor] = {}
        stack = [self]
        while stack:
            tensor = stack.pop()
            if tensor.strided is None and id(tensor) not in found:
                found[id(tensor)] = tensor
                stack.extend(tensor.parents)
        return list(found.values())

    def pending_parents(self) -> list[LazyTensor]:
        """What the recipe reads, through parents that are not realised themselves."""
        return [p for t in self.pending() for p in t.parents]

    def read_buffers(self) -> set[str]:
        """Names of the buffers that the recipe would load from."""
        names = {p.strided.buffer.name for t in self.pending() for p in t.parents if p.strided is not None}
        if self.strided is not None:
            names.add(self.strided.buffer.name)
        return names

    def __repr__(self) -> str:
        state = "strided" if self.strided is not None else "view" if self.base is not None else "recipe"
        return f"LazyTensor({state}, {self.dtype}, {list(self.size)})"


def number_name(symbol: Any) -> str:
    """The name of the buffer that holds a symbolic float."""
    return f"number_{symbol}"


def address(window: Strided, indices: Sequence[Index]) -> Index:
    """The buffer element of a window's element."""
    result = Index({}, window.offset)
    for index, stride, extent in zip(indices, window.stride, window.size, strict=True):
        if stride != 0 and extent != 1:
            result = result + index * stride
    return result


def fresh_axes(size: Sequence[Extent], prefix: str = "i") -> Indices:
    """One loop variable for each dimension (0 for those of size 1)."""
    return tuple([ZERO if e == 1 else Index({Var(f"{prefix}{k}", e): 1}) for k, e in enumerate(size)])


def axis_vars(indices: Sequence[Index]) -> tuple[Var, ...]:
    """The variables of indices made by `fresh_axes`."""
    return tuple([next(iter(i.terms)) for i in indices if i.terms])


def memory_order(size: Sequence[Extent], stride: Sequence[Extent], hint: Callable[[Extent], int]) -> list[int]:
    """Dimensions from the slowest to the fastest in memory (those of size 1 left out)."""
    kept = [d for d, e in enumerate(size) if e != 1]
    return sorted(kept, key=lambda d: (-hint(stride[d]), d))


def view(
    base: LazyTensor,
    size: Sequence[Extent],
    translate: Callable[[Indices], Sequence[Index]],
    restride: Callable[[Strided], Strided | None],
) -> LazyTensor:
    """A view of `base`: `translate` maps its indices to the base's; `restride` gives the same as a strided window, or
    None.

    `restride` must decide by structure alone, so that it can be asked again when the base is realised later.
    """
    if base.strided is not None:
        window = restride(base.strided)
        if window is not None:
            return LazyTensor(base.builder, size, base.dtype, base.device, strided=window, weight=0)
    result = LazyTensor(
        base.builder, size, base.dtype, base.device, lambda i: base.at(translate(i)), parents=(base,), weight=0
    )
    result.base = base
    result.restride = restride
    return result


def record_body(dtypes: dict[str, torch.dtype], body: Callable[[], None]) -> list[Value]:
    """The SSA form of what `body` calls."""
    recorder = IndexRecorder(dtypes)
    with install(recorder):
        body()
    return recorder.block.nodes


def store_node(
    name: str, value: LazyTensor, target: Strided, hint: Callable[[Extent], int], origin: tuple[str, ...]
) -> LoopNode:
    """A pointwise node that writes `value` into `target`, its loops in the target's memory order."""
    indices = fresh_axes(value.size)
    order = memory_order(value.size, target.stride, hint)
    buffer = target.buffer

    def body() -> None:
        ops.store(buffer.name, address(target, indices), ops.cast(value.at(indices), buffer.dtype))

    values = record_body(value.builder.dtypes, body)
    return LoopNode(name, "pointwise", axis_vars([indices[d] for d in order]), (), values, buffer.device, origin)


def new_buffer(builder: Builder, size: Sequence[Extent], stride: Any, dtype: torch.dtype, device: Any) -> Buffer:
    """A temporary buffer registered with the builder; `stride` None means contiguous."""
    size = tuple(size)
    strides = contiguous_strides(size) if stride is None else tuple(stride)
    return builder.add_buffer(Buffer(builder.fresh_name("buf"), size, strides, dtype, device))


__all__ = [
    "Indices",
    "LazyTensor",
    "address",
    "axis_vars",
    "compute_dtype",
    "fresh_axes",
    "memory_order",
    "new_buffer",
    "number_name",
    "record_body",
    "store_node",
    "view",
]
