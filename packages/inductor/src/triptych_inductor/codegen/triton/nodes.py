"""The text of recorded values: loads, stores, pointwise ops, casts, masks and gathers, one method an op.

`NodeWriter.write` emits one node of a stage; its operands have been written before. Reductions are in `sections.py`,
where it
is known whether a loop is open.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from triptych_inductor.codegen.triton.dtypes import DTYPES, literal, text_of
from triptych_inductor.codegen.triton.facts import StageFacts
from triptych_inductor.codegen.triton.layout import Layout
from triptych_inductor.codegen.triton.text_math import OP_TEXT
from triptych_inductor.codegen.triton.text_pointwise import KEEPS_BOOL, cast_text
from triptych_inductor.codegen.triton.writer import HEAD, LOOP, KernelContext, Text, Writer
from triptych_inductor.loops.handlers import Value
from triptych_inductor.loops.table import wraps

ATOMIC_ADD = frozenset(
    {torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint32, torch.uint64}
)


class NodeWriter(Writer):
    """A `Writer` that knows the ops. `stay`: buffers that the open loop writes, whose loads must not leave it."""

    def __init__(self, context: KernelContext, layout: Layout) -> None:
        super().__init__(context, layout)
        self.values: dict[
            tuple[int, int], Any
        ] = {}  # (stage, value) -> Text, or a tuple for a reduction of several parts
        self.stay: frozenset[str] = frozenset()
        self._version: dict[str, int] = {}
        self._dirty: set[str] = set()  # written since the last barrier: other threads of the program may not see it yet

    # Access to written values.

    def get(self, stage: StageFacts, node: Value) -> Any:
        """The text of a value written before."""
        return self.values[(stage.number, node.number)]

    def write(self, stage: StageFacts, node: Value) -> None:
        """Emit a node and remember its text."""
        key = (stage.number, node.number)
        if key in self.values:
            return
        method = getattr(self, "on_" + node.op, None)
        self.values[key] = self.on_pointwise(stage, node) if method is None else method(stage, node)

    def forget_loop(self) -> None:
        """Drop values whose names live in a loop that was closed."""
        self.values = {
            k: v
            for k, v in self.values.items()
            if all(p.place != LOOP for p in (v if isinstance(v, tuple) else (v,)) if isinstance(p, Text))
        }

    def _indirect(self, stage: StageFacts) -> dict[Any, Text]:
        table = stage.recorded.indirect
        return {
            s: self.values[(stage.number, n.number)]
            for s, n in table.items()
            if (stage.number, n.number) in self.values
        }

    # Memory.

    def on_load(self, stage: StageFacts, node: Value) -> Text:
        buffer, index = node.attrs
        address = self.address(index, self._indirect(stage))
        region = (self.region,) if self.region is not None else ()
        dims = address.dims.union(*(r.dims for r in region))
        place = self.place_of(dims, address, *region)
        if buffer in self.stay and self.loop is not None:
            place = LOOP
        key = ("load", buffer, address.name, self._version.get(buffer, 0), tuple(r.name for r in region))
        found = self.known(key)
        if found is not None:
            return found
        self._barrier(buffer, place)
        dtype = self.context.buffers[buffer]
        return self.assign(self._load_text(buffer, address, dims), dtype, dims, place, key)

    def _load_text(self, buffer: str, address: Text, dims: frozenset[int]) -> str:
        pointer = f"{self.use(buffer)} + ({self.spread(address, dims)})"
        masks = self.mask(dims)
        return f"tl.load({pointer}, {' & '.join(masks)})" if masks else f"tl.load({pointer})"

    def _barrier(self, buffer: str, place: int) -> None:
        if buffer in self._dirty:
            self.line("tl.debug_barrier()", place)
            self._dirty.clear()

    def on_store(self, stage: StageFacts, node: Value) -> None:
        buffer, index = node.attrs
        value = self.get(stage, node.args[0])
        address = self.address(index, self._indirect(stage))
        dims = address.dims | value.dims
        place = self.place_of(dims, address, value)
        pointer = f"{self.use(buffer)} + ({self.spread(address, dims)})"
        masks = self.mask(dims)
        suffix = f", {' & '.join(masks)}" if masks else ""
        self.line(f"tl.store({pointer}, {value.name}{suffix})", place)
        self._wrote(buffer)
        if dims == address.dims and not self.mask(frozenset()):
            key = ("load", buffer, address.name, self._version[buffer], ())
            self.remember(key, Text(value.name, value.dtype, value.dims, place))

    on_store_reduction = on_store

    def on_store_atomic_add(self, stage: StageFacts, node: Value) -> None:
        buffer, index = node.attrs
        value = self.get(stage, node.args[0])
        if value.dtype not in ATOMIC_ADD:
            raise TypeError(f"the device has no atomic addition of {value.dtype}")
        address = self.address(index, self._indirect(stage))
        walked = self.layout.dims if stage.stage.reduced else self.layout.outer
        dims = frozenset(d.position for d in walked)
        place = self.place_of(dims, address, value)
        pointer = (
            f"{self.use(buffer)} + {self.spread(address, dims)}"
            if address.dims != dims
            else (f"{self.use(buffer)} + ({address.name})")
        )
        shown = value.name if value.dims == dims else f"tl.broadcast_to({value.name}, {self.layout.shape(dims)})"
        masks = self.mask(dims)
        suffix = f", {' & '.join(masks)}" if masks else ""
        self.line(f'tl.atomic_add({pointer}, {shown}{suffix}, sem="relaxed")', place)
        self._wrote(buffer)

    def _wrote(self, buffer: str) -> None:
        self._version[buffer] = self._version.get(buffer, 0) + 1
        self._dirty.add(buffer)

    # Numbers and indices.

    def on_constant(self, stage: StageFacts, node: Value) -> Text:
        assert node.dtype is not None
        return Text(literal(node.attrs[0], node.dtype), node.dtype, frozenset())

    def on_index_expr(self, stage: StageFacts, node: Value) -> Text:
        assert node.dtype is not None
        address = self.address(node.attrs[0], self._indirect(stage))
        if not address.dims and address.name.lstrip("-").isdigit():
            return Text(literal(int(address.name), node.dtype), node.dtype, frozenset())
        whole = cast_text(f"({address.name})", torch.int64, node.dtype)
        return self.assign(whole, node.dtype, address.dims, address.place)

    def on_indirect(self, stage: StageFacts, node: Value) -> Text:
        size, check = node.attrs
        value = self.get(stage, node.args[0])
        extent = self.extent(size)
        wrapped = value
        if wraps(check):
            text = f"tl.where({value.name} < 0, {value.name} + {extent}, {value.name})"
            wrapped = self.assign(text, torch.int64, value.dims, value.place)
        if check and self.context.clamped:
            text = f"tl.maximum(tl.minimum({wrapped.name}, {extent} - 1), 0)"
            wrapped = self.assign(text, torch.int64, value.dims, value.place)
        elif check:
            self.checked = True
            inside = f"({wrapped.name} >= 0) & ({wrapped.name} < {extent})"
            masks = self.mask(value.dims)
            if masks:
                inside = f"({inside}) | (({' & '.join(masks)}) == 0)"
            self.line(f'tl.device_assert({inside}, "index out of range")', value.place)
        width = "tl.int64" if self.layout.wide else "tl.int32"
        return self.assign(f"{wrapped.name}.to({width})", torch.int64, value.dims, value.place)

    # Regions and locals.

    def on_masked(self, stage: StageFacts, node: Value) -> Text:
        mask = self.get(stage, node.args[0])
        assert node.region is not None and node.region.result is not None and node.dtype is not None
        outside = self.region
        if outside is not None:
            dims = outside.dims | mask.dims
            mask_here = self.assign(
                f"{outside.name} & {mask.name}", torch.bool, dims, self.place_of(dims, outside, mask)
            )
        else:
            mask_here = mask
        self.region = mask_here
        for inner in node.region.nodes:
            self.write(stage, inner)
        self.region = outside
        value = self.get(stage, node.region.result)
        dims = mask.dims | value.dims
        other = literal(node.attrs[0], node.dtype)
        place = self.place_of(dims, mask, value)
        return self.assign(f"tl.where({mask.name}, {value.name}, {other})", node.dtype, dims, place)

    def on_local_set(self, stage: StageFacts, node: Value) -> None:
        return None

    def on_local_get(self, stage: StageFacts, node: Value) -> Any:
        made = self.context.definitions[(stage.number, node.number)]
        return self.get(made.stage, made.value)

    def on_project(self, stage: StageFacts, node: Value) -> Text:
        return self.get(stage, node.args[0])[node.attrs[0]]

    # Pointwise.

    def on_cast(self, stage: StageFacts, node: Value) -> Text:
        value = self.get(stage, node.args[0])
        assert node.dtype is not None
        return self._unary(cast_text(value.name, value.dtype, node.dtype), value, node.dtype)

    def on_bitcast(self, stage: StageFacts, node: Value) -> Text:
        value = self.get(stage, node.args[0])
        assert node.dtype is not None
        return self._unary(f"{value.name}.to({text_of(node.dtype)}, bitcast=True)", value, node.dtype)

    def _unary(self, text: str, value: Text, dtype: torch.dtype) -> Text:
        return self.assign(text, dtype, value.dims, value.place)

    def on_random(self, stage: StageFacts, node: Value) -> Text:
        seed, offset = (self.get(stage, a) for a in node.args)
        assert node.dtype is not None
        dims = seed.dims | offset.dims
        text = f"tl.{node.attrs[0]}({seed.name}, {offset.name}).to({text_of(node.dtype)})"
        return self.assign(text, node.dtype, dims, self.place_of(dims, seed, offset))

    def on_pointwise(self, stage: StageFacts, node: Value) -> Text:
        args = [self.get(stage, a) for a in node.args]
        dims = frozenset().union(*(a.dims for a in args))
        assert node.dtype is not None
        reciprocal = _exact_reciprocal(node)
        if reciprocal is None:
            text = pointwise_text(node.op, [a.name for a in args], args[-1].dtype)
        else:
            text = pointwise_text("mul", [args[0].name, literal(reciprocal, node.dtype)], node.dtype)
        return self.assign(text, node.dtype, dims, self.place_of(dims, *args))


def _exact_reciprocal(node: Value) -> float | None:
    """1 / c for a division by a constant power of two, where a product gives the very same number."""
    if node.op != "truediv" or node.args[1].op != "constant":
        return None
    mantissa, exponent = math.frexp(float(node.args[1].attrs[0]))
    limit = 14 if node.dtype in (torch.float16, torch.bfloat16) else 100  # beyond it the reciprocal loses bits
    return 1.0 / float(node.args[1].attrs[0]) if abs(mantissa) == 0.5 and abs(exponent) < limit else None


def pointwise_text(name: str, args: list[str], dtype: torch.dtype) -> str:
    """Text of a pointwise op on operands of `dtype`; half types without a form of their own go through float32."""
    row = DTYPES[dtype]
    text = OP_TEXT[name].template(row.kind)
    if text:
        return text.format(*args, T=row.text, bits=row.bits)
    if row.kind != "half":
        raise TypeError(f"no Triton text for {name} of {dtype}")
    single = DTYPES[torch.float32]
    inner = OP_TEXT[name].template("float").format(*(f"{a}.to(tl.float32)" for a in args), T=single.text, bits=32)
    return inner if name in KEEPS_BOOL else f"({inner}).to({row.text})"


__all__ = ["ATOMIC_ADD", "HEAD", "LOOP", "NodeWriter", "pointwise_text"]
