"""`__torch_function__`: modes that the region enters, objects and tensor subclasses that override functions of torch.

Modes are a stack of the trace. While it is not empty, or an argument overrides, a call of a function of torch is a
call of the innermost override; inside of it that override is off. Modes that are open where the graph ends are entered
for real by the code behind it. The table of what operators are to an override is asked of torch itself.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, GetSetDescriptorType
from typing import TYPE_CHECKING, Any

import torch
from torch import overrides

from triptych_dynamo._torch_compat import function_mode_count, pop_function_mode, push_function_mode, torch_names
from triptych_dynamo.values import attributes
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin, wrap_substituted
from triptych_dynamo.values.common import is_constant_equal, none
from triptych_dynamo.values.objects.classes import constructs
from triptych_dynamo.values.objects.objects import ObjectValue
from triptych_dynamo.values.registry import wraps_object
from triptych_dynamo.values.tensors.contexts import ContextValue
from triptych_dynamo.values.tensors.tensor import METHODS, OVERRIDES, TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

_NAME = "__torch_function__"


@builtin(push_function_mode)
def _push(tx: Frame, mode: Value) -> Value:
    tx.trace.function_modes.stack.append(mode)
    tx.effects.mutated(tx.trace.function_modes)
    return none(tx)


@builtin(pop_function_mode)
def _pop(tx: Frame) -> Value:
    stack = tx.trace.function_modes.stack
    return (
        stack.pop() if stack else tx.unsupported("subclass", "leaving a mode that was entered before the graph began")
    )


@builtin(function_mode_count)
def _count(tx: Frame) -> Value:
    """Modes that were entered before the graph began (guarded), and those of the region."""
    return tx.constant(function_mode_count() + len(tx.trace.function_modes.stack))


for _function in (push_function_mode, pop_function_mode, function_mode_count):
    wraps_object(_function)(wrap_substituted)


class DisabledOverrides(ContextValue):
    """`torch._C.DisableTorchFunction()` and its like."""

    def __init__(self, cls: type) -> None:
        super().__init__()
        self.cls = cls

    def enter(self, tx: Frame) -> Value:
        tx.trace.function_modes.disabled += 1
        return self

    def leave(self, tx: Frame) -> None:
        tx.trace.function_modes.disabled -= 1


def _disabling(cls: type) -> None:
    def construct(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return DisabledOverrides(cls)

    constructs(cls)(construct)


for _cls in torch_names("_C.DisableTorchFunction", "_C.DisableTorchFunctionSubclass"):
    _disabling(_cls)


# -- dispatch ----------------------------------------------------------------------------------------------------------
def overriding(value: Value) -> bool:
    """Whether the value's class has a `__torch_function__` of its own."""
    if isinstance(value, TensorValue):
        if value.cls is torch.Tensor or value.cls.__module__.startswith("torch."):
            return False
        return attributes.defines(value.cls, _NAME) is not attributes.defines(torch.nn.Parameter, _NAME)
    if not isinstance(value, ObjectValue):
        return False
    found = attributes.defines(value.cls, _NAME)
    return isinstance(getattr(found, "__func__", found), FunctionType)


def dispatch(
    tx: Frame, function: Value, args: list[Value], kwargs: dict[str, Value], *, is_operator: bool = False
) -> Value | None:
    """The result of the override that takes the call; None when nothing overrides.

    Where all decline, that is a TypeError, or for an operator the constant NotImplemented.
    """
    modes = tx.trace.function_modes
    if modes.disabled:
        return None
    operands = _distinct([*args, *kwargs.values()])
    if not modes.stack and not operands:
        return None
    types = tx.trace.make_tuple([tx.wrap(value.python_type(), None) for value in operands])
    packed = [function, types, tx.trace.make_tuple(args), tx.trace.make_dict(_pairs(tx, kwargs))]
    if modes.stack:
        mode = modes.stack.pop()
        try:
            result = tx.call(mode.get_attr(tx, _NAME), packed)
        finally:
            modes.stack.append(mode)
        if not is_constant_equal(result, NotImplemented):
            return result
    for value in operands:
        owner = tx.wrap(value.python_type(), None) if isinstance(value, TensorValue) else value
        result = tx.call(owner.get_attr(tx, _NAME), packed)
        if not is_constant_equal(result, NotImplemented):
            return result
    if is_operator:
        return tx.constant(NotImplemented)
    names = ", ".join(value.python_type().__name__ for value in operands)
    return tx.raise_python(
        TypeError, f"no implementation found for a function of torch on types that implement it: {names}"
    )


def _pairs(tx: Frame, kwargs: dict[str, Value]) -> list[tuple[Value, Value]]:
    return [(tx.constant(name), value) for name, value in kwargs.items()]


def _distinct(values: list[Value]) -> list[Value]:
    """The first overriding argument of each type, subclasses before their bases; items of sequences count."""
    found: list[Value] = []
    for value in values:
        for item in (value, *getattr(value, "items", ())):
            if isinstance(item, Value) and overriding(item):
                _insert(found, item)
    return found


def _insert(found: list[Value], item: Value) -> None:
    cls = item.python_type()
    if any(other.python_type() is cls for other in found):
        return
    place = next((i for i, other in enumerate(found) if issubclass(cls, other.python_type())), len(found))
    found.insert(place, item)


def overriding_any(tx: Frame, values: list[Value]) -> bool:
    """Whether a call with these arguments goes to an override."""
    modes = tx.trace.function_modes
    return not modes.disabled and (bool(modes.stack) or bool(_distinct(values)))


# -- what operators are to an override ---------------------------------------------------------------------------------
class _Asking(overrides.TorchFunctionMode):
    """Notes the first function that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.function: Any = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.function = self.function or func
        return func(*args, **(kwargs or {}))


_KNOWN: dict[Any, Any] = {}


def function_of(run: Callable[..., Any], *operands: Any) -> Any:
    """What `run(*operands)` on real tensors is to an override: a pure fact of torch, asked for once."""
    key = (run, *(type(operand) for operand in operands))
    if key not in _KNOWN:
        with _Asking() as asking:
            run(*operands)
        _KNOWN[key] = asking.function
    return _KNOWN[key]


def _real(value: Value) -> Any:
    return torch.ones(2, 2) if isinstance(value, TensorValue) else 1


def operator_call(tx: Frame, run: Callable[..., Any], operands: list[Value]) -> Value | None:
    """An operator on tensors as an override sees it; None when nothing overrides."""
    if not tx.trace.function_modes.active and not any(overriding(value) for value in operands):
        return None
    function = function_of(run, *[_real(value) for value in operands])
    if len(operands) == 2 and not isinstance(operands[0], TensorValue):  # a reflected operator is the tensor's
        operands = operands[::-1]
    return dispatch(tx, tx.wrap(function, None), operands, {}, is_operator=True)


def method_call(tx: Frame, tensor: TensorValue, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """A method of a tensor as an override sees it; None when nothing overrides."""
    if name == "as_subclass" or tx.trace.function_modes.disabled:  # torch asks nobody about that one
        return None
    if not (tx.trace.function_modes.stack or _distinct([tensor, *args])):
        return None
    found = attributes.defines(torch.Tensor, name)
    return dispatch(tx, tx.wrap(found, None), [tensor, *args], kwargs)


class GetterValue(Value):
    """`torch.Tensor.shape.__get__`: what reading an attribute of a tensor is to an override."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def python_type(self) -> type:
        return type(torch.Tensor.shape.__get__)

    def is_constant(self) -> bool:
        return True

    def as_constant(self) -> Any:
        return attributes.defines(torch.Tensor, self.name).__get__

    def truth(self, tx: Frame) -> bool:
        return True

    def get_attr(self, tx: Frame, name: str) -> Value:
        return tx.constant(getattr(self.as_constant(), name))

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return args[0].get_attr(tx, self.name)


def attribute_read(tx: Frame, tensor: TensorValue, name: str) -> Value | None:
    """An attribute that C computes as an override sees it; None for any other."""
    if not tx.trace.function_modes.active and (tx.trace.function_modes.disabled or not overriding(tensor)):
        return None
    if not isinstance(attributes.defines(torch.Tensor, name), GetSetDescriptorType) or name.startswith("__"):
        return None
    return dispatch(tx, GetterValue(name), [tensor], {})


OVERRIDES.update(operator=operator_call, method=method_call, attribute=attribute_read)


# -- subclasses --------------------------------------------------------------------------------------------------------
def _as_subclass(tensor: TensorValue, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`tensor.as_subclass(cls)`: the same memory and history as an object of another class."""
    cls = args[0].as_constant()
    if not (isinstance(cls, type) and issubclass(cls, torch.Tensor)):
        return tx.unsupported("subclass", f"as_subclass({cls!r})")
    if attributes.defines(cls, "__torch_dispatch__") is not attributes.defines(torch.Tensor, "__torch_dispatch__"):
        return tx.unsupported("subclass", f"a tensor of class {cls.__qualname__}")
    made = tx.call_graph("view_as", [tensor, tensor])
    assert isinstance(made, TensorValue)
    made.cls = cls
    return made


METHODS["as_subclass"] = _as_subclass
