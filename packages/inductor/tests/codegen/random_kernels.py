"""Random kernels over random layouts: what hypothesis and the fuzz test compare with the reference interpreter."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from triptych_inductor.loops import ops
from triptych_inductor.loops.kernel import Kernel, LocalArg, Stage, TensorArg

F32, F64, I64, I32, BOOL = torch.float32, torch.float64, torch.int64, torch.int32, torch.bool
EXTENTS = (1, 2, 3, 4, 7, 15, 16, 17, 31, 33, 64, 70)
LOADED = (F32, F32, F32, F64, torch.bfloat16, torch.float16, I64, I32, torch.int8, torch.uint8, torch.int16, BOOL)
UNARY = ("neg", "abs", "exp", "tanh", "sigmoid", "relu", "floor", "erf", "sin")
BINARY = ("add", "sub", "mul", "minimum", "maximum")
KINDS = ("sum", "max", "min", "prod", "argmax", "argmin", "any", "all", "welford")


@dataclass
class Layout:
    """A buffer over some of the axes: `index(variables)` is its address."""

    tensor: torch.Tensor
    strides: list[int | None]  # one for each axis of the kernel; None: the buffer does not have it
    offset: int = 0

    def index(self, variables: list[Any]) -> Any:
        return self.offset + sum(s * v for s, v in zip(self.strides, variables, strict=True) if s is not None)


@dataclass
class Case:
    """A random kernel with its arguments."""

    kernel: Kernel
    arguments: list[Any]
    outputs: list[torch.Tensor] = field(default_factory=list)


class Maker:
    """Draws one case from a seeded generator."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.torch_rng = torch.Generator().manual_seed(seed)
        self.inputs: dict[str, Layout] = {}
        self.outputs: dict[str, Layout] = {}
        self.locals: list[LocalArg] = []
        self.symbols: dict[Any, int] = {}

    def values(self, numel: int, dtype: torch.dtype) -> torch.Tensor:
        if dtype is BOOL:
            return torch.rand(numel, generator=self.torch_rng) < 0.5
        if dtype.is_floating_point:
            return (torch.randn(numel, generator=self.torch_rng) * 2).to(dtype)
        low = 0 if dtype is torch.uint8 else -9
        return torch.randint(low, 9, (numel,), generator=self.torch_rng).to(dtype)

    def layout(self, extents: list[int], dtype: torch.dtype, dense: bool) -> Layout:
        """A permuted buffer; unless `dense`, axes may be missing, and memory may have gaps."""
        axes = list(range(len(extents)))
        kept = axes if dense else [a for a in axes if self.rng.random() < 0.8]
        if self.rng.random() < 0.5:
            self.rng.shuffle(kept)
        step = 1 if dense or self.rng.random() < 0.8 else self.rng.choice((2, 3))
        strides: list[int | None] = [None] * len(extents)
        for axis in reversed(kept):
            strides[axis] = step
            step *= extents[axis]
        offset = 0 if dense else self.rng.choice((0, 0, 3))
        return Layout(self.values(step + offset, dtype), strides, offset)

    def extent(self, size: int) -> Any:
        """An extent, sometimes behind a symbol."""
        if self.rng.random() < 0.75:
            return size
        symbol = sympy.Symbol(f"s{len(self.symbols)}", integer=True, positive=True)
        self.symbols[symbol] = size
        return symbol

    def value(self, variables: list[Any], extents: list[int]) -> Any:
        """A float32 expression over loads."""
        rng = self.rng
        name = f"in{len(self.inputs)}"
        dtype = rng.choice(LOADED)
        choice = rng.random()
        layout = self.layout(extents, dtype, False)
        self.inputs[name] = layout
        address = layout.index(variables)
        if choice < 0.15 and variables:
            loaded = self.masked(name, address, variables, extents, dtype)
        elif choice < 0.3 and variables:
            loaded = self.gathered(variables, extents)
        else:
            loaded = ops.load(name, address)
        value = ops.cast(loaded, F32)
        for _ in range(rng.randrange(3)):
            value = getattr(ops, rng.choice(UNARY))(value)
        value = ops.minimum(ops.maximum(value, ops.constant(-50.0, F32)), ops.constant(50.0, F32))
        if rng.random() < 0.6 and len(self.inputs) < 4:
            value = getattr(ops, rng.choice(BINARY))(value, self.value(variables, extents))
        if rng.random() < 0.15 and variables:
            value = ops.add(value, ops.index_expr(rng.choice(variables) * 2 + 1, F32))
        return value

    def masked(self, name: str, address: Any, variables: list[Any], extents: list[int], dtype: torch.dtype) -> Any:
        axis = self.rng.randrange(len(variables))
        limit = max(1, extents[axis] // 2)
        mask = ops.lt(ops.index_expr(variables[axis], I64), ops.constant(limit, I64))
        return ops.masked(mask, lambda: ops.load(name, address), 1)

    def gathered(self, variables: list[Any], extents: list[int]) -> Any:
        """table[index[...], last axis]."""
        rows = self.rng.choice((1, 5, 20))
        where, table = f"in{len(self.inputs)}", f"in{len(self.inputs) + 1}"
        layout = self.layout(extents, I64, False)
        layout.tensor = torch.randint(-rows, rows, layout.tensor.shape, generator=self.torch_rng)
        self.inputs[where] = layout
        width = extents[-1]
        self.inputs[table] = Layout(self.values(rows * width, F32), [None] * len(extents))
        at = ops.indirect(ops.load(where, layout.index(variables)), rows)
        return ops.load(table, at * width + variables[-1])

    # Kernels.

    def make(self) -> Case:
        rng = self.rng
        outer = [rng.choice(EXTENTS) for _ in range(rng.choice((0, 1, 1, 2, 2, 3)))]
        reduction = [rng.choice(EXTENTS) for _ in range(rng.choice((0, 1, 1, 2)))]
        if not outer and not reduction:
            outer = [5]
        while _product(outer + reduction) > 200_000:
            (outer or reduction).pop()
        seed = rng.random()
        stages = self.reduced(outer, reduction, seed) if reduction else self.points(outer, seed)
        return self.case(outer, reduction, stages)

    def body(self, seed: float, write: Any) -> Any:
        """A body that draws the same numbers each time it runs."""

        def run(i: Any, r: Any) -> None:
            state = self.rng.getstate(), self.torch_rng.get_state(), dict(self.inputs)
            self.rng.seed(seed)
            self.torch_rng.manual_seed(int(seed * 2**30))
            known = self.inputs
            self.inputs = {}
            write(list(i), list(r))
            drawn, self.inputs = self.inputs, known
            for name, layout in drawn.items():
                self.inputs.setdefault(name, layout)
            self.rng.setstate(state[0])
            self.torch_rng.set_state(state[1])

        return run

    def points(self, outer: list[int], seed: float) -> list[Stage]:
        dtype = self.rng.choice((F32, F32, F64, torch.bfloat16, torch.float16, I64, torch.int8, BOOL))
        self.outputs["out"] = self.layout(outer, dtype, True)

        def write(i: list[Any], r: list[Any]) -> None:
            ops.store("out", self.outputs["out"].index(i), ops.cast(self.value(i, outer), dtype))

        return [Stage(self.body(seed, write), False)]

    def reduced(self, outer: list[int], reduction: list[int], seed: float) -> list[Stage]:
        """A reduction, and often a second loop that uses its result."""
        kind, rng = self.rng.choice(KINDS), self.rng
        result = {"argmax": I64, "argmin": I64, "any": BOOL, "all": BOOL}.get(kind, F32)
        self.outputs["reduced"] = self.layout(outer, result, True)
        second, row = rng.random() < 0.6, rng.random() < 0.5
        self.locals = [LocalArg("total", F32, True), LocalArg("row", F32, False)]
        self.outputs["out"] = self.layout(outer + reduction, F32, True)

        def first(i: list[Any], r: list[Any]) -> None:
            value = self.value(i + r, outer + reduction)
            if kind == "prod":
                value = ops.add(ops.mul(value, ops.constant(0.001, F32)), ops.constant(1.0, F32))
            ops.local_set("row", value)
            if kind in ("any", "all"):
                total = ops.reduce(kind, ops.gt(value, ops.constant(0.0, F32)), BOOL)
            elif kind == "welford":
                mean, m2, count = ops.reduce(kind, value, F32)
                total = ops.add(mean, ops.truediv(m2, count))
            else:
                total = ops.reduce(kind, value, F32)
            ops.local_set("total", ops.cast(total, F32))
            ops.store_reduction("reduced", self.outputs["reduced"].index(i), total)

        def again(i: list[Any], r: list[Any]) -> None:
            value = ops.local_get("row") if row else self.value(i + r, outer + reduction)
            value = ops.sub(value, ops.mul(ops.local_get("total"), ops.constant(0.01, F32)))
            ops.store("out", self.outputs["out"].index(i + r), value)

        stages = [Stage(self.body(seed, first), True)]
        if not second:
            del self.outputs["out"]
            return stages
        return [*stages, Stage(self.body(seed, again), True)]

    def case(self, outer: list[int], reduction: list[int], stages: list[Stage]) -> Case:
        from triptych_inductor.loops.handlers import RecordingHandler, install, loop_variables

        outer_extents, reduction_extents = tuple(map(self.extent, outer)), tuple(map(self.extent, reduction))
        recorder = RecordingHandler(_AnyDtype(self))
        recorder.dtypes = _AnyDtype(self)  # inputs appear while bodies run
        with install(recorder):
            for stage in stages:
                stage.body(loop_variables("i", len(outer)), loop_variables("r", len(reduction)))
        used = [n for n in self.inputs if any(n == b for b, _ in _loads(recorder))]
        inputs = [TensorArg(n, self.inputs[n].tensor.dtype, self.inputs[n].tensor.numel()) for n in used]
        outputs = [TensorArg(n, o.tensor.dtype, o.tensor.numel()) for n, o in self.outputs.items()]
        kernel = Kernel(
            "random",
            torch.device("cpu"),
            outer_extents,
            reduction_extents,
            stages,
            inputs,
            outputs,
            self.locals,
            list(self.symbols),
        )
        results = [o.tensor for o in self.outputs.values()]
        arguments = [*(self.inputs[n].tensor for n in used), *results, *self.symbols.values()]
        return Case(kernel, arguments, results)


class _AnyDtype(dict[str, torch.dtype]):
    """Dtypes of buffers that are made while a body runs."""

    def __init__(self, maker: Maker) -> None:
        super().__init__({a.name: a.dtype for a in maker.locals})
        self.maker = maker

    def __missing__(self, name: str) -> torch.dtype:
        layout = self.maker.inputs.get(name) or self.maker.outputs[name]
        return layout.tensor.dtype


def _loads(recorder: Any) -> list[tuple[str, Any]]:
    return [(n.attrs[0], n.attrs[1]) for n in recorder.block.walk() if n.op == "load"]


def _product(numbers: list[int]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result


def random_case(seed: int) -> Case:
    """The case of a seed, always the same."""
    return Maker(seed).make()
