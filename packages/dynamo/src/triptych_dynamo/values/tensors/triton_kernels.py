"""Launches of Triton kernels: `kernel[grid](...)` becomes one operator of the graph.

The grid is evaluated while tracing (a function of the launch's arguments is inlined), once for each configuration of an
autotuned kernel. The launch gives None here, where Triton gives the compiled kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo.triton_kernels.bodies import is_kernel
from triptych_dynamo.triton_kernels.launch import Slot, configurations, constant_parameters, heuristics, launch_operator
from triptych_dynamo.values.atoms.numbers import NumberValue
from triptych_dynamo.values.atoms.symbolic import SymbolicValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.containers.mappings import DictValue
from triptych_dynamo.values.real_object import RealObjectValue
from triptych_dynamo.values.registry import wraps_if
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source


class TritonKernelValue(RealObjectValue):
    """A kernel; indexing it with a grid gives a launch."""

    def key(self, tx: Frame) -> Any:
        return id(self.obj)

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name in ("__name__", "__module__", "__qualname__", "__doc__", "arg_names"):
            return tx.wrap(getattr(self.obj, name), None)
        return super().get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__getitem__":
            return TritonLaunchValue(self.obj, args[0])
        if name == "run":
            grid = kwargs.pop("grid", None)
            warm = kwargs.pop("warmup", None)
            if grid is not None and (warm is None or not warm.truth(tx)):
                return TritonLaunchValue(self.obj, grid).call(tx, args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.obj)


class TritonLaunchValue(Value):
    """`kernel[grid]`, to be called with the kernel's arguments."""

    def __init__(self, kernel: Any, grid: Value) -> None:
        super().__init__()
        self.kernel = kernel
        self.grid = grid

    def python_type(self) -> type:
        return type(lambda: None)

    def truth(self, tx: Frame) -> bool:
        return True

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        names = list(self.kernel.arg_names)
        if len(args) > len(names):
            return tx.raise_python(TypeError, f"{len(args)} arguments for the {len(names)} parameters of a kernel")
        given = [(name, value, False) for name, value in zip(names, args, strict=False)]
        given += [(name, value, True) for name, value in kwargs.items()]
        constants = constant_parameters(self.kernel)
        slots = [self._slot(tx, name, value, keyword, name in constants) for name, value, keyword in given]
        grids = self._grids(tx, {name: value for name, value, _ in given})
        passed = [value for (_, value, _), slot in zip(given, slots, strict=True) if slot.kind != "constant"]
        return tx.call_graph(launch_operator(self.kernel, slots), [*passed, grids])

    def _slot(self, tx: Frame, name: str, value: Value, keyword: bool, constant: bool) -> Slot:
        """How one argument reaches the operator."""
        if isinstance(value, TensorValue):
            return Slot(name, "tensor", keyword=keyword)
        if isinstance(value, SymbolicValue) and not constant:
            kinds = {int: "int", float: "float", bool: "bool"}
            return Slot(name, kinds[value.python_type()], keyword=keyword)
        if isinstance(value, NumberValue) and not constant:
            return Slot(name, "float", keyword=keyword)
        found = value.as_constant() if value.is_constant() else _specialised(tx, value, name)
        if type(found) is int and not constant and name in self.kernel.arg_names:
            return Slot(name, "int", keyword=keyword)
        return Slot(name, "constant", found, keyword)

    def _grids(self, tx: Frame, given: dict[str, Value]) -> list[Any]:
        """Three numbers for each configuration; three in all where no configuration differs."""
        rows = []
        for config in configurations(self.kernel):
            meta = dict(given) | {name: tx.constant(value) for name, value in config.items()}
            for name, function in heuristics(self.kernel):
                meta[name] = tx.call(tx.wrap(function, None), [_dictionary(tx, meta)], {})
            rows.append(self._grid(tx, meta))
            if not _is_function(self.grid):
                break
        texts = {str([_text(v) for v in row]) for row in rows}
        return rows[0] if len(texts) == 1 else [value for row in rows for value in row]

    def _grid(self, tx: Frame, meta: dict[str, Value]) -> list[Any]:
        grid = self.grid
        if _is_function(grid):
            grid = tx.call(grid, [_dictionary(tx, meta)], {})
        if isinstance(grid, SymbolicValue) or (grid.is_constant() and isinstance(grid.as_constant(), int)):
            sizes = [grid]
        else:
            sizes = list(grid.iterate(tx))
        if not 1 <= len(sizes) <= 3:
            return tx.unsupported("call", f"a Triton kernel's grid of {len(sizes)} dimensions")
        return [*sizes, *[tx.constant(1)] * (3 - len(sizes))]

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.kernel)
        cg.load(self.grid)
        cg.subscr()


def _specialised(tx: Frame, value: Value, name: str) -> Any:
    """A number that must be known while tracing, guarded."""
    if isinstance(value, SymbolicValue):
        return tx.trace.shapes.specialize(tx, value.sym)
    return tx.unsupported("graph-argument", f"{value!r} as the argument {name!r} of a Triton kernel")


def _is_function(grid: Value) -> bool:
    return not isinstance(grid, SymbolicValue) and not issubclass(grid.python_type(), (int, tuple, list))


def _dictionary(tx: Frame, values: dict[str, Value]) -> DictValue:
    return DictValue([(tx.constant(name), value) for name, value in values.items()])


def _text(value: Value) -> str:
    return repr(value.as_constant()) if value.is_constant() else f"at {id(value)}"


@wraps_if(is_kernel, order=5)
def wrap_kernel(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A Triton kernel, or one wrapped by `autotune` or `heuristics`."""
    tx.guard("is", source, obj)
    value = TritonKernelValue(obj, source)
    tx.trace.remember(obj, value)
    return value


@builtin(torch.library.wrap_triton)
def _wrap_triton(tx: Frame, kernel: Value, /) -> Value:
    """`torch.library.wrap_triton(kernel)`: the kernel itself, whose launches stay in the graph anyway."""
    if not isinstance(kernel, TritonKernelValue):
        return tx.raise_python(
            RuntimeError, "wrap_triton only works on functions annotated with triton.jit or triton.autotune"
        )
    return kernel
