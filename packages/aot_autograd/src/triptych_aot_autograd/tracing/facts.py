"""Facts of traced tensors: size, stride, offset, dtype and device, interned so that they can be compared by identity.

A traced tensor (`TracedTensor`) has metadata that torch reads natively and no memory. What it means in the graph
(its node,
its storage, how it was derived from it) hangs on it as attributes; `storages` gives them their meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.errors import AotError

if TYPE_CHECKING:
    from torch.fx import Node

    from triptych_aot_autograd.tracing.storages import TracedStorage, ViewStep


def hashable_size(value: Any) -> Any:
    """An int, or the sympy expression of a symbolic one."""
    return value.node.expr if isinstance(value, torch.SymInt) else value


class Facts:
    """Metadata of a tensor. One object for one set of facts in a trace: compare and hash by identity."""

    __slots__ = ("size", "stride", "offset", "dtype", "device", "symbolic", "meta", "fake")

    def __init__(self, size: tuple, stride: tuple, offset: Any, dtype: torch.dtype, device: torch.device) -> None:
        self.size = size
        self.stride = stride
        self.offset = offset
        self.dtype = dtype
        self.device = device
        self.symbolic = not all(type(v) is int for v in (*size, *stride, offset))
        self.meta: torch.Tensor | None = None  # a meta tensor of these facts, made on demand
        self.fake: Any = None  # a fake tensor of these facts, made on demand

    def as_meta(self) -> torch.Tensor:
        """A meta tensor with these facts (shared by all who ask: never to be changed)."""
        if self.meta is None:
            self.meta = _strided_meta(self)
        return self.meta

    def as_fake(self, mode: compat.FakeTensorMode) -> Any:
        """A fake tensor with these facts (shared by all who ask: never to be changed)."""
        if self.fake is None:
            self.fake = compat.new_fake_tensor(mode, self.as_meta(), self.device)
        return self.fake

    def fresh_fake(self, mode: compat.FakeTensorMode) -> Any:
        """A fake tensor with these facts and a storage of its own."""
        return compat.new_fake_tensor(mode, _strided_meta(self), self.device)

    def __repr__(self) -> str:
        return f"Facts({self.dtype}, {list(self.size)}, {list(self.stride)}, +{self.offset}, {self.device})"


def _strided_meta(facts: Facts) -> torch.Tensor:
    if type(facts.offset) is int and facts.offset == 0:
        return torch.empty_strided(facts.size, facts.stride, dtype=facts.dtype, device="meta")
    extent = facts.offset + 1 + sum((n - 1) * s for n, s in zip(facts.size, facts.stride, strict=True))
    if not facts.symbolic and 0 in facts.size:
        extent = facts.offset
    flat = torch.empty((extent,), dtype=facts.dtype, device="meta")
    return flat.as_strided(facts.size, facts.stride, facts.offset)


class FactsTable:
    """Interns facts: equal metadata gives the same object."""

    def __init__(self) -> None:
        self._known: dict[Any, Facts] = {}

    def get(self, size: Sequence, stride: Sequence, offset: Any, dtype: torch.dtype, device: torch.device) -> Facts:
        """The one `Facts` of this metadata."""
        size, stride = tuple(size), tuple(stride)
        key: Any = (size, stride, offset, dtype, device)
        try:
            known = self._known.get(key)
        except TypeError:  # a symbolic integer does not hash: its expression does
            numbers = tuple(map(hashable_size, size)), tuple(map(hashable_size, stride)), hashable_size(offset)
            key = (*numbers, dtype, device)
            known = self._known.get(key)
        if known is None:
            known = self._known[key] = Facts(size, stride, offset, dtype, device)
        return known

    def of(self, tensor: torch.Tensor, device: torch.device | None = None) -> Facts:
        """The facts of any strided tensor; `device` replaces that of a meta tensor."""
        return self.get(tensor.size(), tensor.stride(), tensor.storage_offset(), tensor.dtype, device or tensor.device)


class TracedTensor(torch.Tensor):
    """A tensor of a trace: metadata, no memory, a node of the graph being written."""

    _facts: Facts
    _value: Node  # the node that holds its value as of `_generation` of its storage
    _generation: int
    _storage: TracedStorage
    _chain: tuple[ViewStep, ...]  # how it is derived from the storage's base
    _constant: torch.Tensor | None  # its numbers, where they are known (literal scalars)

    __torch_function__ = compat.no_torch_function

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AotError(f"{func}: a tensor of a finished trace was used outside of it")

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"TracedTensor({self._value}, {self._facts})"


def new_traced(facts: Facts) -> TracedTensor:
    """A traced tensor with these facts; the caller gives it its node and storage."""
    return compat.make_traced(TracedTensor, facts.size, facts.stride, facts.offset, facts.dtype, facts.device)


def new_view(facts: Facts, source: torch.Tensor) -> TracedTensor:
    """A traced tensor that becomes a view of `source`: of a normal tensor that is no inference tensor in any mode."""
    if torch.is_inference_mode_enabled() and not source.is_inference():
        with torch.inference_mode(False):
            return new_traced(facts)
    return new_traced(facts)
