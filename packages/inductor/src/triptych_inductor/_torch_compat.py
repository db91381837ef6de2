"""The only place of this package that touches names of torch without a public promise, and their differences by
release."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import sympy
import torch
from torch._decomp import decomposition_table as decomposition_table
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
from torch.utils._sympy.functions import FloorDiv as FloorDiv
from torch.utils._sympy.functions import Mod as Mod
from torch.utils._sympy.functions import ToFloat, TruncToInt
from torch.utils._sympy.printers import PythonPrinter as PythonPrinter


def symbol_hints(values: Iterable[Any]) -> dict[Any, int]:
    """Typical values of the symbols in fake tensors and SymInts, as their shape environment recorded them."""
    hints: dict[Any, int] = {}
    for value in values:
        numbers = (
            [*value.shape, *value.stride()]
            if isinstance(value, torch.Tensor) and value.layout is torch.strided
            else [value]
        )
        for number in numbers:
            if isinstance(number, torch.SymInt) and number.node.expr.is_Symbol:
                typical = number.node.hint if number.node.has_hint() else _typical(number)
                if typical is not None:
                    hints[expression(number)] = int(typical)
    return hints


def free_symbols(value: Any) -> set[Any]:
    """The symbols in a fake tensor's size, stride and offset, in a symbolic number, or in a nest of those."""
    if isinstance(value, (tuple, list)):
        return set().union(*map(free_symbols, value)) if value else set()
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return set()
        numbers = [*value.shape, *value.stride(), value.storage_offset()]
        return set().union(*[free_symbols(number) for number in numbers if type(number) is not int])
    if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return set()
    return expression(value).free_symbols | written_expression(value).free_symbols


def written_expression(number: Any) -> Any:
    """A symbolic number's expression as the program wrote it: without what checks have shown to be equal."""
    return _sized(number.node._expr, number.node.shape_env)


def expression(number: Any) -> Any:
    """A symbolic number's expression. Symbols that are known not to be negative say so, which index algebra needs."""
    return _sized(number.node.expr, number.node.shape_env)


def _whole(number: Any) -> Any:
    """`int(c * float(n))` for a size `n` in integers, where `c` is whole or half of a power of two: exact."""
    factor, rest = number.as_coeff_Mul()
    if isinstance(rest, ToFloat) and factor > 0:
        c = float(factor)
        if c.is_integer():
            return int(c) * rest.args[0]
        if math.frexp(c)[0] == 0.5:
            return FloorDiv(rest.args[0], int(1 / c))
    return TruncToInt(number)


def _sized(expr: Any, shape_env: Any) -> Any:
    if expr.has(TruncToInt):
        expr = expr.replace(TruncToInt, _whole)
    ranges = getattr(shape_env, "var_to_range", {})
    vague = [s for s in expr.free_symbols if s.is_integer and s.is_nonnegative is None and s in ranges]
    known = {s: sympy.Symbol(s.name, integer=True, nonnegative=True) for s in vague if ranges[s].lower >= 0}
    return expr.xreplace(known) if known else expr


def _typical(number: Any) -> Any:
    """What the user said of a size that has no value while compiling."""
    return getattr(number.node.shape_env, "var_to_hint_override", {}).get(number.node.expr)


def detect_fake_mode(values: Iterable[Any]) -> FakeTensorMode | None:
    """The fake mode of the first fake tensor among the values."""
    for value in values:
        if isinstance(value, FakeTensor):
            return value.fake_mode
    return None


def get_decompositions(packets: Any) -> dict[Any, Any]:
    """torch's decompositions of these ops, by overload; ops without one are left out."""
    wanted = set(packets)
    return {
        target: rule
        for target, rule in decomposition_table.items()
        if isinstance(target, torch._ops.OpOverload) and target.overloadpacket in wanted
    }


foreach_copy = torch._foreach_copy_
"""Copies each tensor of the second list into its partner of the first, in as few launches as the device allows."""


WRAP_TENSOR = "_Z16THPVariable_WrapRKN2at10TensorBaseE"
"""The C++ function of torch's Python library that gives the Python object of a tensor."""

dispatch_mode_depth = "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv"
"""The C++ function of torch's core library that counts the dispatch modes of this thread."""

operator_callbacks = "_ZN2at12hasCallbacksEv"
"""The C++ function of torch's library that says whether somebody, such as a profiler, watches operators."""

storage_users = torch._C._storage_Use_Count
"""How many tensors and storage objects hold the memory of a storage, given its `_cdata`."""


def environment_of(number: Any) -> Any:
    """The shape environment of a SymInt, SymFloat or SymBool; None for a nested one."""
    return getattr(number.node, "shape_env", None)


def forget_unclaimed_symbols(mode: FakeTensorMode) -> None:
    """Sizes that depend on data have nodes here; torch's tracers take them for lost while they are on this list."""
    if mode.shape_env is not None:
        mode.shape_env.pending_fresh_unbacked_symbols.clear()
