"""Functions of torch as values: which become one graph node, which are answered while tracing, which end the graph.

A function goes into the graph whole when it is one of torch's C functions, an operator of `torch.ops`, or one of the
Python functions listed in `LEAVES` (`torch.nn.functional` and its like) and its arguments can be arguments of a node;
other Python functions of torch are inlined like anybody's.
"""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from triptych_dynamo._torch_compat import (
    C_NAMESPACES,
    CustomOpDef,
    OpOverload,
    OpOverloadPacket,
)
from triptych_dynamo.sources import Source
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables import operators
from triptych_dynamo.values.callables.builtin_functions import FunctionObjectValue, builtin, name_of, wrap_substituted
from triptych_dynamo.values.callables.functions import wrap_function
from triptych_dynamo.values.containers.mappings import DictValue
from triptych_dynamo.values.containers.ranges import SliceValue
from triptych_dynamo.values.containers.sequences import SequenceValue
from triptych_dynamo.values.registry import wraps, wraps_object
from triptych_dynamo.values.tensors import overrides

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

# Python functions of torch.nn.functional that are not operations on tensors, or that are better traced into.
_INLINED = frozenset(
    {
        *("multi_head_attention_forward", "handle_torch_function", "boolean_dispatch", "assert_int_or_pair"),
        *("triplet_margin_with_distance_loss",),
    }
)
# Python functions of torch that are one node of the graph.
_TORCH_LEAVES = (
    *("atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_tensors", "cartesian_prod", "cdist"),
    *("chain_matmul", "einsum", "istft", "meshgrid", "norm", "split", "stft", "tensordot", "unique"),
    *("unique_consecutive", "unravel_index", "sym_float", "sym_int", "sym_max", "sym_min", "sym_not", "sym_sum"),
    *("sym_ite", "sym_sqrt", "_sym_sqrt", "lu"),
)


def _functional_leaves() -> list[Any]:
    found = []
    for name, function in vars(F).items():
        public = not name.startswith("_") and name not in _INLINED
        if public and isinstance(function, FunctionType) and function.__module__.startswith("torch"):
            found.append(function)
    return found


def _c_functions() -> list[Any]:
    found = []
    for namespace in C_NAMESPACES:
        for name in dir(namespace):
            function = getattr(namespace, name)
            if isinstance(function, BuiltinFunctionType) and not name.startswith("__"):
                found.append(function)
    return found


LEAVES: list[Any] = [*_functional_leaves(), *(getattr(torch, name) for name in _TORCH_LEAVES if hasattr(torch, name))]


class TorchFunctionValue(FunctionObjectValue):
    """A function of torch that becomes a graph node; `body` is its Python code for arguments that no node can take."""

    def __init__(self, function: Any, source: Source | None = None, body: Value | None = None) -> None:
        super().__init__(function, source)
        self.body = body

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        overridden = overrides.dispatch(tx, self, args, kwargs)
        if overridden is not None:
            return overridden
        if not all(graphable(arg) for arg in (*args, *kwargs.values())):
            if self.body is not None:
                return tx.call(self.body, args, kwargs)
            return self._ungraphable(tx, args, kwargs)
        return tx.call_graph(self.obj, args, kwargs)

    def _ungraphable(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        found = next(arg for arg in (*args, *kwargs.values()) if not graphable(arg))
        return tx.unsupported("graph-argument", f"{found!r} as an argument of {name_of(self.obj)}")

    def __repr__(self) -> str:
        return f"TorchFunction({name_of(self.obj)})"


def graphable(value: Value) -> bool:
    """Whether the value can be an argument of a graph node."""
    if operators.in_graph(value) or operators.is_number(value):
        return True
    if isinstance(value, SequenceValue):
        return all(graphable(item) for item in value.items)
    if isinstance(value, DictValue):
        return all(entry.key.is_constant() and graphable(entry.value) for entry in value.all_entries(None))
    if isinstance(value, SliceValue):
        return all(graphable(part) for part in value.parts)
    return value.is_constant()


@wraps_object(*_c_functions())
def wrap_c_function(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A C function of torch."""
    tx.guard("is", source, obj)
    return TorchFunctionValue(obj, source)


@wraps_object(*LEAVES)
def wrap_leaf(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A Python function of torch that is one graph node."""
    tx.guard("is", source, obj)
    body = wrap_function(tx, obj, None) if isinstance(obj, FunctionType) else None
    value = TorchFunctionValue(obj, source, body)
    tx.trace.remember(obj, value)
    return value


@wraps(OpOverload, OpOverloadPacket)
def wrap_operator(tx: Frame, obj: Any, source: Source | None) -> Value:
    """An operator of `torch.ops`."""
    tx.guard("is", source, obj)
    return TorchFunctionValue(obj, source)


@wraps(CustomOpDef)
def wrap_custom_op(tx: Frame, obj: CustomOpDef, source: Source | None) -> Value:
    """An operator defined with `torch.library.custom_op`."""
    tx.guard("is", source, obj)
    return TorchFunctionValue(obj._opoverload, source)


# -- breaks ------------------------------------------------------------------------------------------------------------
_BREAKS: dict[str, tuple[Any, ...]] = {
    "input-output": (torch.save, torch.load, torch.set_printoptions),
    "random-state": (
        *(torch.seed, torch.random.seed, torch.cuda.manual_seed, torch.cuda.manual_seed_all),
        *(torch.cuda.get_rng_state, torch.cuda.set_rng_state),
    ),
    "library": (torch.set_num_threads, torch.set_default_device, torch.use_deterministic_algorithms),
}


def _breaks(kind: str, functions: tuple[Any, ...]) -> None:
    def stop(tx: Frame, *args: Value, **kwargs: Value) -> Value:
        return tx.unsupported(kind, f"a call of {name_of(functions[0])} or its like")

    for function in dict.fromkeys(functions):
        builtin(function)(stop)
        if isinstance(function, BuiltinFunctionType):
            wraps_object(function)(wrap_substituted)


for _kind, _functions in _BREAKS.items():
    _breaks(_kind, _functions)
