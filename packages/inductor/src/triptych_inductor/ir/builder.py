"""`Builder`: makes buffers and nodes for lowering functions, and decides when a lazy tensor is realised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from triptych_inductor.ir import extents, views
from triptych_inductor.ir.alignment import extended, strides_like, tails
from triptych_inductor.ir.extents import Extent, contiguous_strides, same, same_all, tidy
from triptych_inductor.ir.index import Index
from triptych_inductor.ir.nodes import Buffer, ExternNode, IRGraph, LoopNode, Strided, map_leaves, walk
from triptych_inductor.ir.tensors import (
    Indices,
    LazyTensor,
    address,
    axis_vars,
    compute_dtype,
    fresh_axes,
    memory_order,
    new_buffer,
    number_name,
    record_body,
    store_node,
)
from triptych_inductor.loops import ops
from triptych_inductor.loops.table import reduction_dtype, scan_dtypes

# Note [When a lazy tensor is realised]
# Inlining recomputes, storing costs memory traffic unless fusion keeps the value in the kernel. A tensor of several
# users is stored when recomputing it is dear (its arithmetic weighs HEAVY or more) or reads more than storing it
# would (two or more buffers). Any recipe is stored once it weighs LIMIT or reads READ_LIMIT buffers, which bounds the
# size of inlined expressions.
HEAVY = 6
LIMIT = 160
READ_LIMIT = 12


class Builder:
    """Grows an `IRGraph`. Lowering functions see it as `ctx.builder`."""

    def __init__(self, graph: IRGraph, exact: bool = False, channels_last: bool = False) -> None:
        self.graph = graph
        self.channels_last = channels_last  # lay out what comes from convolutions channels-last
        self.exact = exact  # round half types after each op, as eager does
        self.main_device = torch.device("cpu")
        self.dtypes: dict[str, torch.dtype] = {}
        self.origin: tuple[str, ...] = ()
        self.rooms: dict[str, tuple[Extent, ...]] = {}  # buffer -> sizes of what is stored in it, where it has room
        self._copies: dict[Any, Strided] = {}  # windows copied to memory with room
        self._counts: dict[str, int] = {}
        self.results: list[LazyTensor] = []  # values of graph nodes so far: a mutation must not overtake their reads

    def fresh_name(self, prefix: str) -> str:
        """`buf0`, `buf1`, ..."""
        count = self._counts.get(prefix, 0)
        self._counts[prefix] = count + 1
        return f"{prefix}{count}"

    def hint(self, value: Extent) -> int:
        """A typical number for an extent; for cost and order only."""
        return extents.hint(value, self.graph.hints)

    def add_buffer(self, buffer: Buffer) -> Buffer:
        self.graph.buffers[buffer.name] = buffer
        self.dtypes[buffer.name] = buffer.dtype
        return buffer

    def add_node(self, node: LoopNode | ExternNode) -> None:
        self.graph.nodes.append(node)

    def of_buffer(self, buffer: Buffer) -> LazyTensor:
        """A buffer as a (realised) lazy tensor."""
        window = Strided(buffer, buffer.size, buffer.stride)
        return LazyTensor(self, buffer.size, buffer.dtype, buffer.device, strided=window, weight=0)

    # -- realising ----------------------------------------------------------------------------------------------------

    def realise(self, tensor: LazyTensor, stride: Sequence[Extent] | None = None) -> Strided:
        """Store the tensor (views: their base, where the view is then a strided window) and give its window.

        `stride`: strides wanted for a newly made buffer; default those of eager's result.
        """
        if tensor.strided is not None:
            return tensor.strided
        if tensor.base is not None and tensor.restride is not None:
            window = tensor.restride(self.realise(tensor.base))
            if window is not None:
                tensor.strided = window
                tensor.recipe, tensor.parents = None, ()
                return window
        wanted = stride or tensor.layout or tensor.stride or contiguous_strides(tensor.size)
        if not extents.is_dense(tensor.size, wanted):
            wanted = contiguous_strides(tensor.size)
        if tensor.room is not None and tuple(wanted) == contiguous_strides(tensor.size):
            window = self._in_room(tensor, tensor.room, contiguous_strides(tensor.room))
        else:
            buffer = new_buffer(self, tensor.size, wanted, tensor.dtype, tensor.device)
            window = Strided(buffer, buffer.size, buffer.stride)
            self.store(tensor, window)
        tensor.strided = window
        tensor.recipe, tensor.parents, tensor.base = None, (), None
        return window

    def store(
        self, value: LazyTensor, target: Strided, part: bool = False, alone: bool = False, apart: bool = False
    ) -> None:
        """A node that writes `value` into the window `target` of the same size; `part`, `alone` as in `LoopNode`.

        apart: what `value` reads of the target's buffer lies outside the window.
        """
        if any(e == 0 for e in target.size):
            return
        node = store_node(self.fresh_name("op"), value, target, self.hint, self.origin)
        name, place = node.writes[0]
        if not apart and any(read == name and index != place for read, index in node.reads):
            self.realise(value)  # it reads elements that the loop has overwritten
            node = store_node(self.fresh_name("op"), value, target, self.hint, self.origin)
        node.part, node.alone = part, alone
        self.add_node(node)

    def copy(self, value: LazyTensor, stride: Sequence[Extent]) -> Strided:
        """The tensor in new memory with exactly these strides (dense or not)."""
        buffer = new_buffer(self, value.size, stride, value.dtype, value.device)
        window = Strided(buffer, buffer.size, buffer.stride)
        self.store(value, window)
        return window

    def _in_room(self, tensor: LazyTensor, room: Sequence[int], stride: Sequence[Extent]) -> Strided:
        """The tensor stored at the start of larger memory, the rest of which is zero."""
        buffer = new_buffer(self, room, stride, tensor.dtype, tensor.device)
        window = Strided(buffer, tensor.size, buffer.stride)
        self.rooms[buffer.name] = tensor.size
        self.store(tensor, window)
        kind = compute_dtype(tensor.dtype)
        for tail in tails(window):
            zero = LazyTensor(self, tail.size, tensor.dtype, tensor.device, lambda i: ops.constant(0, kind), weight=0)
            self.store(zero, tail, part=True)
        return window

    def with_room(self, tensor: LazyTensor, wanted: Sequence[int]) -> Strided:
        """The matrix in memory with room up to the sizes `wanted`, zero beyond its own; copied where there is none."""
        window = self.realise(tensor)
        if window.size == tuple(wanted):
            return window
        used = self.rooms.get(window.buffer.name)
        found = extended(window, used, wanted) if used is not None else None
        if found is None:
            key = (window, tuple(wanted))
            found = self._copies.get(key)
        if found is None:
            inner = self._in_room(tensor, wanted, strides_like(window, wanted))
            found = self._copies[key] = Strided(inner.buffer, tuple(wanted), inner.stride)
        return found

    def realise_with(self, tensor: LazyTensor, stride: Sequence[Extent]) -> Strided:
        """The tensor in memory with exactly these strides, copied when it lies otherwise."""
        window = self.realise(tensor, stride)
        if _strides_agree(window, stride):
            return window
        return self.copy(tensor, stride)

    def consider(self, tensor: LazyTensor, users: int) -> None:
        """Realise a new result where inlining it into its users would be dear; see Note [When a lazy tensor is
        realised]."""
        if tensor.strided is not None or tensor.base is not None:
            return
        pending = tensor.pending()
        weight = sum(t.weight for t in pending)
        reads = len(tensor.read_buffers())
        if weight >= LIMIT or reads >= READ_LIMIT:
            self.realise(tensor)
        elif users > 1 and (weight >= HEAVY or reads > 1) and self.hint(extents.product(tensor.size)) > 1:
            self.realise(tensor)

    def finish_readers(self, name: str, source: LazyTensor, again: bool = False) -> None:
        """Before buffer `name` is overwritten by `source`: store all results that would still read it.

        `again`: `source` itself has further users.
        """
        for tensor in self.results:
            if (again or tensor is not source) and tensor.strided is None and name in tensor.read_buffers():
                self.realise(tensor)
        self.results = [t for t in self.results if t.strided is None]

    def choose_layout(self, tensor: LazyTensor) -> None:
        """In a channels-last graph, results follow the layout of what they are computed from."""
        if tensor.strided is not None or tensor.ndim != 4:
            return
        if not any(_is_channels_last(p) for p in tensor.pending_parents()):
            return
        if any(t.base is not None for t in tensor.pending()):
            tensor.layout = self._walked(tensor)
        else:
            tensor.layout = extents.channels_last_strides(tensor.size)

    def _walked(self, tensor: LazyTensor) -> tuple[Extent, ...] | None:
        """Strides at which the tensor, through views, reads channels-last memory of as many elements; None if none."""
        axes = fresh_axes(tensor.size)

        def body() -> None:
            tensor.at(axes)

        values = record_body(self.dtypes, body)
        names = [next(iter(axis.terms), None) for axis in axes]
        for load in (v for v in walk(values) if v.op == "load"):
            name, index = load.attrs
            buffer = self.graph.buffers[name]
            if not isinstance(index, Index) or not same(buffer.numel, extents.product(tensor.size)):
                continue
            if not _is_channels_last(self.of_buffer(buffer)):
                continue
            own = contiguous_strides(tensor.size)
            strides = tuple([own[d] if n is None else index.terms.get(n, 0) for d, n in enumerate(names)])
            if extents.is_dense(tensor.size, strides):
                return strides
        return None

    def reuse(self, *tensors: LazyTensor) -> None:
        """Announce that a lowering reads these several times: dear recipes are stored (fusion keeps them in the
        kernel)."""
        for tensor in tensors:
            self.consider(tensor, 2)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def reduction(
        self,
        kind: str,
        value: LazyTensor,
        dims: Sequence[int],
        dtype: torch.dtype,
        keepdim: bool = False,
    ) -> tuple[LazyTensor, ...]:
        """Reduce over `dims`, accumulating in `dtype`: one result (welford: mean, m2, count) in the accumulation
        dtype."""
        reduced = set(dims)
        indices = fresh_axes(value.size)
        kept_size = tuple([1 if d in reduced else e for d, e in enumerate(value.size)])
        size = kept_size if keepdim else tuple([e for d, e in enumerate(value.size) if d not in reduced])
        kept = [indices[d] for d in range(value.ndim) if d not in reduced]
        result_type = reduction_dtype(kind, dtype)
        red = axis_vars([indices[d] for d in range(value.ndim) if d in reduced])
        if not red:
            return self._trivial_reduction(kind, value, size, indices, dtype)
        count = 3 if kind == "welford" else 1
        buffers = [new_buffer(self, size, None, result_type, value.device) for _ in range(count)]
        flat = Strided(buffers[0], tuple(size), buffers[0].stride)
        where = [ix for d, ix in enumerate(indices) if d not in reduced]
        if keepdim:
            where = [indices[d] if d not in reduced else indices[d] * 0 for d in range(value.ndim)]

        def body() -> None:
            result = ops.reduce(kind, ops.cast(value.at(indices), dtype), dtype)
            for buffer, part in zip(buffers, result if count == 3 else (result,), strict=True):
                ops.store_reduction(buffer.name, address(flat, where), part)

        values = record_body(self.dtypes, body)
        axes = axis_vars(kept)
        if not any(e == 0 for e in size):
            self.add_node(LoopNode(self.fresh_name("op"), "reduction", axes, red, values, value.device, self.origin))
        return tuple([self.of_buffer(b) for b in buffers])

    def scan(
        self,
        kind: str,
        value: LazyTensor,
        dim: int,
        dtype: torch.dtype,
        result: torch.dtype,
        stride: Sequence[Extent],
        from_the_end: bool = False,
    ) -> tuple[LazyTensor, ...]:
        """Running results along `dim`, computed in `dtype` and stored as `result`; with positions for `max`, `min`.

        from_the_end: the last element is the first of the scan.
        """
        indices = fresh_axes(value.size)
        types = (result, *scan_dtypes(kind, dtype)[1:])
        buffers = [new_buffer(self, value.size, stride, part, value.device) for part in types]
        windows = [Strided(b, b.size, b.stride) for b in buffers]
        order = [d for d in memory_order(value.size, stride, self.hint) if d != dim]
        places = list(indices)
        if from_the_end and value.size[dim] != 1:
            places[dim] = Index.of(tidy(value.size[dim] - 1)) - indices[dim]

        def body() -> None:
            made = ops.scan(kind, ops.cast(value.at(places), dtype), dtype)
            for window, part in zip(windows, made if len(types) > 1 else (made,), strict=True):
                ops.store(window.buffer.name, address(window, places), ops.cast(part, window.buffer.dtype))

        values = record_body(self.dtypes, body)
        axes, along = axis_vars([indices[d] for d in order]), axis_vars([indices[dim]])
        if not any(e == 0 for e in value.size):
            self.add_node(LoopNode(self.fresh_name("op"), "scan", axes, along, values, value.device, self.origin))
        return tuple([self.of_buffer(b) for b in buffers])

    def _trivial_reduction(
        self, kind: str, value: LazyTensor, size: Sequence[Extent], indices: Indices, dtype: torch.dtype
    ) -> tuple[LazyTensor, ...]:
        """A reduction over one element each: the element itself."""
        flat = views.reshape(value, size)

        def constant(number: float, kind_: torch.dtype) -> LazyTensor:
            return LazyTensor(self, size, kind_, value.device, lambda i: ops.constant(number, kind_), weight=0)

        if kind in ("argmax", "argmin"):
            return (constant(0, torch.int64),)
        result = reduction_dtype(kind, dtype)
        element = LazyTensor(self, size, result, value.device, lambda i: ops.cast(flat.at(i), result), parents=(flat,))
        return (element, constant(0.0, dtype), constant(1.0, dtype)) if kind == "welford" else (element,)

    def scatter(
        self, target: Strided, size: Sequence[Extent], body: Callable[[Any], None], device: torch.device
    ) -> None:
        """A node over points of `size` whose `body(indices)` stores into `target`'s buffer at computed places."""
        indices = fresh_axes(size)
        values = record_body(self.graph.dtypes, lambda: body(indices))
        self.add_node(LoopNode(self.fresh_name("op"), "scatter", axis_vars(indices), (), values, device, self.origin))

    def extern(
        self,
        target: Callable[..., Any] | str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        outputs: list[Buffer | None],
        *,
        single: bool = True,
        **facts: Any,
    ) -> list[LazyTensor | None]:
        """A call on realised arguments; its output buffers are registered here."""
        real_args, real_kwargs = map_leaves(self._operand, tuple(args)), map_leaves(self._operand, kwargs)
        for buffer in outputs:
            if buffer is not None and buffer.name not in self.graph.buffers:
                self.add_buffer(buffer)
        node = ExternNode(
            self.fresh_name("op"), target, real_args, real_kwargs, outputs, single, origin=self.origin, **facts
        )
        self.add_node(node)
        return [None if b is None else self.of_buffer(b) for b in outputs]

    def number(self, symbol: Any) -> None:
        """Bring a symbolic float into memory of the main device, where its kernels can load it (their arguments are
        tensors and ints).
        """
        buffer = Buffer(number_name(symbol), (), (), torch.float64, self.main_device, kind="extern")
        self.extern("torch.scalar_tensor", (symbol,), {"dtype": torch.float64, "device": buffer.device}, [buffer])

    def _operand(self, leaf: Any) -> Any:
        return self.realise(leaf) if isinstance(leaf, LazyTensor) else leaf


def _is_channels_last(tensor: LazyTensor) -> bool:
    """Whether a tensor lies (or will lie) channels-last and not contiguously."""
    if tensor.strided is None:
        return tensor.layout is not None and tensor.layout == extents.channels_last_strides(tensor.size)
    if tensor.ndim != 4 or tensor.strided.stride[1] != 1:
        return False
    wanted = extents.channels_last_strides(tensor.size)
    return _strides_agree(tensor.strided, wanted) and not _strides_agree(
        tensor.strided, contiguous_strides(tensor.size)
    )


def _strides_agree(window: Strided, stride: Sequence[Extent]) -> bool:
    """Whether the strides are equal where they matter (dimensions of size 1 do not)."""
    pairs = [(s, w) for s, w, e in zip(window.stride, stride, window.size, strict=True) if e != 1]
    return any(e == 0 for e in window.size) or same_all([a for a, _ in pairs], [b for _, b in pairs])
