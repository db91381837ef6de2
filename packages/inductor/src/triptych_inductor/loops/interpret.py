"""Reference executor of `Kernel`: evaluates bodies on whole index grids with torch. The oracle of code generators;
slow.

Every value is a tensor that broadcasts over (outer axes..., reduction axes...); addresses are int64 tensors of the
same kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch

from triptych_inductor.loops.handlers import OpsHandler, install, loop_variables
from triptych_inductor.loops.kernel import Kernel
from triptych_inductor.loops.table import wraps

_UNARY = {
    "neg": torch.neg,
    "abs": torch.abs,
    "sign": lambda a: torch.sign(a) if a.dtype is not torch.bool else a,
    "relu": torch.relu,
    "bitwise_not": torch.bitwise_not,
    "logical_not": torch.logical_not,
    "erfinv": torch.erfinv,
    "reciprocal": torch.reciprocal,
}

_BINARY: dict[str, Callable[..., torch.Tensor]] = {
    "add": lambda a, b: a | b if a.dtype is torch.bool else a + b,
    "mul": lambda a, b: a & b if a.dtype is torch.bool else a * b,
    "sub": torch.sub,
    "truediv": torch.true_divide,
    "floordiv": torch.floor_divide,
    "mod": torch.remainder,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "pow": torch.pow,
    "shift_left": torch.bitwise_left_shift,
    "shift_right": torch.bitwise_right_shift,
    "fma": lambda a, b, c: a * b + c,
    "where": torch.where,
}


class InterpretError(RuntimeError):
    """A kernel that does not follow the contract of `Kernel`."""


class _Grid(OpsHandler):
    """Evaluates one stage."""

    def __init__(
        self, buffers: Mapping[str, torch.Tensor], symbols: dict[Any, Any], shape: Sequence[int], reduced: int
    ) -> None:
        self.buffers = buffers
        self.symbols = symbols
        self.shape = tuple(shape)
        self.reduced = reduced  # number of reduction dimensions in the grid
        self.locals: dict[str, torch.Tensor] = {}
        self.masks: list[torch.Tensor] = []
        self._indirect = 0

    # -- addresses ----------------------------------------------------------------------------------------------------

    def address(self, expr: Any) -> torch.Tensor:
        value = _evaluate(sympy.sympify(expr), self.symbols)
        return value if isinstance(value, torch.Tensor) else torch.tensor(int(value), dtype=torch.int64)

    def _active(self) -> torch.Tensor | None:
        mask = None
        for m in self.masks:
            mask = m if mask is None else mask & m
        return mask

    def load(self, buffer: str, index: Any) -> torch.Tensor:
        memory, where = self.buffers[buffer], self.address(index)
        mask = self._active()
        if mask is not None:
            where = torch.where(mask, where, torch.zeros_like(where))
            if memory.numel() == 0:
                return torch.zeros(where.shape, dtype=memory.dtype)
        return memory[where]

    def _write(self, buffer: str, index: Any, value: torch.Tensor, shape: Sequence[int], add: bool = False) -> None:
        memory = self.buffers[buffer]
        if value.dtype is not memory.dtype:
            raise InterpretError(f"store of {value.dtype} into {buffer} of {memory.dtype}")
        where = self.address(index).broadcast_to(shape).reshape(-1)
        flat = value.broadcast_to(shape).reshape(-1)
        memory.put_(where, flat, accumulate=add)

    def store(self, buffer: str, index: Any, value: torch.Tensor) -> None:
        self._write(buffer, index, value, self.shape)

    def store_atomic_add(self, buffer: str, index: Any, value: torch.Tensor) -> None:
        self._write(buffer, index, value, self.shape, add=True)

    def store_reduction(self, buffer: str, index: Any, value: torch.Tensor) -> None:
        outer = len(self.shape) - self.reduced
        self._write(buffer, index, value, (*self.shape[:outer], *(1,) * self.reduced))

    # -- values -------------------------------------------------------------------------------------------------------

    def constant(self, value: Any, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(value, dtype=dtype)

    def index_expr(self, expr: Any, dtype: torch.dtype) -> torch.Tensor:
        return self.address(expr).to(dtype)

    def indirect(self, value: torch.Tensor, size: Any, check: tuple[str, int] | None = ("index", 0)) -> sympy.Symbol:
        extent = int(self.address(size))
        place = value.to(torch.int64)
        if wraps(check):
            place = torch.where(place < 0, place + extent, place)
        if check:
            wrong = (place < 0) | (place >= extent)
            mask = self._active()
            if bool((wrong if mask is None else wrong & mask).any()):
                raise (RuntimeError if check[0] == "gather" else IndexError)("index out of range")
        symbol = sympy.Symbol(f"indirect_{self._indirect}", integer=True)
        self._indirect += 1
        self.symbols[symbol] = place
        return symbol

    def masked(self, mask: torch.Tensor, body: Callable[[], torch.Tensor], other: Any) -> torch.Tensor:
        self.masks.append(mask)
        try:
            value = body()
        finally:
            self.masks.pop()
        return torch.where(mask, value, torch.tensor(other, dtype=value.dtype))

    def cast(self, value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return value.to(dtype)

    def bitcast(self, value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return value.contiguous().view(dtype)

    def pointwise(self, name: str, args: tuple[torch.Tensor, ...]) -> torch.Tensor:
        if name in ("floor", "ceil", "round", "trunc") and not args[0].dtype.is_floating_point:
            return args[0]
        if name in ("minimum", "maximum") and args[0].dtype is torch.bool:
            return args[0] & args[1] if name == "minimum" else args[0] | args[1]
        fn = _UNARY.get(name) or _BINARY.get(name) or getattr(torch, name)
        return fn(*args)

    def reduce(self, kind: str, value: torch.Tensor, dtype: torch.dtype) -> Any:
        outer = len(self.shape) - self.reduced
        if self.reduced == 0:
            raise InterpretError("reduce outside a reduced stage")
        flat = value.broadcast_to(self.shape).reshape(*self.shape[:outer], -1)

        def back(result: torch.Tensor) -> torch.Tensor:
            return result.reshape(*self.shape[:outer], *(1,) * self.reduced)

        if kind == "welford":
            mean, count = flat.mean(-1), flat.shape[-1]
            m2 = ((flat - mean.unsqueeze(-1)) ** 2).sum(-1)
            return back(mean), back(m2), back(torch.full_like(mean, count))
        return back(_REDUCE[kind](flat))

    def scan(self, kind: str, value: torch.Tensor, dtype: torch.dtype) -> Any:
        if self.reduced == 0:
            raise InterpretError("scan outside a reduced stage")
        outer = len(self.shape) - self.reduced
        made = _SCAN[kind](value.broadcast_to(self.shape).reshape(*self.shape[:outer], -1))
        parts = tuple(part.reshape(self.shape) for part in (made if isinstance(made, tuple) else (made,)))
        return parts if len(parts) > 1 else parts[0]

    def local_set(self, name: str, value: torch.Tensor) -> None:
        self.locals[name] = value

    def local_get(self, name: str) -> torch.Tensor:
        return self.locals[name]


def _xor(flat: torch.Tensor) -> torch.Tensor:
    result = torch.zeros(flat.shape[:-1], dtype=flat.dtype)
    for k in range(flat.shape[-1]):
        result = result ^ flat[..., k]
    return result


_REDUCE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda t: t.sum(-1, dtype=t.dtype),
    "prod": lambda t: t.prod(-1, dtype=t.dtype),
    "max": lambda t: t.amax(-1),
    "min": lambda t: t.amin(-1),
    "argmax": lambda t: (t.to(torch.uint8) if t.dtype is torch.bool else t).argmax(-1),
    "argmin": lambda t: (t.to(torch.uint8) if t.dtype is torch.bool else t).argmin(-1),
    "any": lambda t: t.any(-1),
    "all": lambda t: t.all(-1),
    "xor": _xor,
}


_SCAN: dict[str, Callable[[torch.Tensor], Any]] = {
    "sum": lambda t: t.cumsum(-1, dtype=t.dtype),
    "prod": lambda t: t.cumprod(-1, dtype=t.dtype),
    "logaddexp": lambda t: t.logcumsumexp(-1),
    "max": lambda t: tuple(t.cummax(-1)),
    "min": lambda t: tuple(t.cummin(-1)),
}


def _evaluate(expr: sympy.Expr, symbols: Mapping[Any, Any]) -> Any:
    """An integer expression with tensors (or ints) for its symbols."""
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return symbols[expr]
    args = [_evaluate(a, symbols) for a in expr.args]
    name = type(expr).__name__
    if name == "FloorDiv":
        return args[0] // args[1]
    if name in ("Mod", "PythonMod"):
        return args[0] % args[1]
    if name == "Pow":
        return args[0] ** args[1]
    if name in ("Max", "Min"):
        combine = torch.maximum if name == "Max" else torch.minimum
        result = torch.as_tensor(args[0])
        for arg in args[1:]:
            result = combine(result, torch.as_tensor(arg))
        return result
    if name not in ("Add", "Mul"):
        raise InterpretError(f"index expression {expr} is not understood")
    result = args[0]
    for arg in args[1:]:
        result = result + arg if name == "Add" else result * arg
    return result


def interpret(kernel: Kernel, buffers: Mapping[str, torch.Tensor], sizes: Sequence[int] = ()) -> None:
    """Run `kernel` on flat (one-dimensional, element-indexed) `buffers` by argument name; outputs are written in place.

    `IndexError` for an index out of range, `InterpretError` where the kernel breaks the contract.
    """
    values = dict(zip(kernel.sizes, sizes, strict=True))

    def extent(e: Any) -> int:
        return e if isinstance(e, int) else int(_evaluate(sympy.sympify(e), values))

    outer, reduction = [extent(e) for e in kernel.outer], [extent(e) for e in kernel.reduction]
    locals_: dict[str, torch.Tensor] = {}
    for stage in kernel.stages:
        reduced = len(reduction)
        shape = [*outer, *(reduction if stage.reduced else [1] * reduced)]
        names = loop_variables("i", len(outer)), loop_variables("r", reduced)
        symbols: dict[Any, Any] = dict(values)
        for axis, (name, count) in enumerate(zip((*names[0], *names[1]), shape, strict=True)):
            grid = [1] * len(shape)
            grid[axis] = count
            symbols[name] = torch.arange(count, dtype=torch.int64).reshape(grid)
        handler = _Grid(buffers, symbols, shape, reduced)
        handler.locals = locals_
        with install(handler):
            stage.body(names[0], names[1] if stage.reduced else ())


def flat_view(tensor: torch.Tensor) -> torch.Tensor:
    """The elements a kernel may address in a tensor, from its first one on."""
    if tensor.numel() == 0:
        return tensor.reshape(-1)
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((extent,), (1,), tensor.storage_offset())


def as_function(kernel: Kernel) -> Callable[..., None]:
    """The kernel as a function of its tensors (inputs, then outputs that are not inputs) and sizes."""
    names = [a.name for a in kernel.inputs]
    names += [a.name for a in kernel.outputs if a.name not in names]

    def run(*args: Any) -> None:
        tensors, sizes = args[: len(names)], args[len(names) :]
        interpret(kernel, {n: flat_view(t) for n, t in zip(names, tensors, strict=True)}, sizes)

    run.__name__ = kernel.name
    return run
