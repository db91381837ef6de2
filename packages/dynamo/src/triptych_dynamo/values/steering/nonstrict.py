"""Calls of functions marked with `nonstrict_trace`: one node of the graph, whose target rebuilds the arguments.

A node's arguments are tensors, numbers and constants, so what the program passes is taken apart into these: containers
by their items, classes registered with pytree by their flatten function, modules by their parameters and buffers, which
are inputs of the graph and stand in the module while the function runs.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.utils import _pytree as pytree

from triptych_dynamo.values.atoms.symbolic import SymbolicValue
from triptych_dynamo.values.base import NotConstant, Value
from triptych_dynamo.values.tensors.nn_module import NNModuleValue
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

Rebuild = Callable[[Sequence[Any]], Any]  # the leaves of a call -> one of its arguments


@dataclass(frozen=True)
class ModuleState:
    """A module argument: which leaves stand for which of its parameters and buffers."""

    module: nn.Module
    names: tuple[tuple[str, int], ...]

    @contextlib.contextmanager
    def entered(self, leaves: Sequence[Any]) -> Iterator[None]:
        """The leaves in the module's own tables, and back."""
        before: list[tuple[dict[str, Any], str, Any]] = []
        try:
            for name, index in self.names:
                path, _, own = name.rpartition(".")
                owner = self.module.get_submodule(path)
                table: dict[str, Any] = owner._parameters if own in owner._parameters else owner._buffers
                before.append((table, own, table[own]))
                table[own] = leaves[index]
            yield
        finally:
            for table, own, value in reversed(before):
                table[own] = value


class NonstrictCall:
    """The target of the node."""

    def __init__(
        self, fn: Callable[..., Any], args: list[Rebuild], kwargs: dict[str, Rebuild], modules: list[ModuleState]
    ) -> None:
        self.fn, self.args, self.kwargs, self.modules = fn, args, kwargs, modules
        self.__name__ = self.__qualname__ = re.sub(r"\W", "_", getattr(fn, "__name__", "nonstrict"))
        self.__module__ = getattr(fn, "__module__", None) or ""

    def __call__(self, *leaves: Any) -> Any:
        args = [rebuild(leaves) for rebuild in self.args]
        kwargs = {name: rebuild(leaves) for name, rebuild in self.kwargs.items()}
        with contextlib.ExitStack() as stack:
            for state in self.modules:
                stack.enter_context(state.entered(leaves))
            return self.fn(*args, **kwargs)


class _Taker:
    """Takes the arguments of one call apart."""

    def __init__(self, tx: Frame) -> None:
        self.tx = tx
        self.leaves: list[Value] = []
        self.modules: dict[int, ModuleState] = {}

    def take(self, value: Value) -> Rebuild:
        """Note the leaves of an argument; gives what rebuilds it of them."""
        if isinstance(value, (TensorValue, SymbolicValue)):
            return self._leaf(value)
        with contextlib.suppress(NotConstant):
            constant = value.as_constant()
            return lambda leaves: constant
        cls = value.python_type()
        if isinstance(value, NNModuleValue):
            return self._module(value)
        if issubclass(cls, (list, tuple)):
            items = [self.take(item) for item in value.iterate(self.tx)]
            make = cls._make if hasattr(cls, "_make") else cls
            return lambda leaves: make([item(leaves) for item in items])
        if cls is dict:
            return self._dict(value)
        if cls in pytree.SUPPORTED_NODES:
            return self._registered(value, pytree.SUPPORTED_NODES[cls])
        return self.tx.unsupported("graph-argument", f"{cls.__name__} as argument of a nonstrict_trace function")

    def _leaf(self, value: Value) -> Rebuild:
        index = len(self.leaves)
        self.leaves.append(value)
        return lambda leaves: leaves[index]

    def _dict(self, value: Value) -> Rebuild:
        keys = [key.as_constant() for key in value.iterate(self.tx)]
        get = lambda key: value.call_method(self.tx, "__getitem__", [self.tx.constant(key)], {})
        items = {key: self.take(get(key)) for key in keys}
        return lambda leaves: {key: item(leaves) for key, item in items.items()}

    def _registered(self, value: Value, node: Any) -> Rebuild:
        pair = list(self.tx.constant(node.flatten_fn).call(self.tx, [value], {}).iterate(self.tx))
        children = [self.take(child) for child in pair[0].iterate(self.tx)]
        try:
            context = pair[1].as_constant()
        except NotConstant:
            return self.tx.unsupported("not-constant", f"the context that {value.python_type().__name__} flattens to")
        return lambda leaves: node.unflatten_fn([child(leaves) for child in children], context)

    def _module(self, value: NNModuleValue) -> Rebuild:
        if value.is_new:
            return self.tx.unsupported("module-construction", "a module made in the region, for a nonstrict_trace call")
        module = value.real
        if id(module) not in self.modules:
            self.tx.guard("is", value.source, module)
            named = [*module.named_parameters(), *module.named_buffers()]
            self.modules[id(module)] = ModuleState(module, tuple((name, self._state(value, name)) for name, _ in named))
        return lambda leaves: module

    def _state(self, value: Value, name: str) -> int:
        for part in name.split("."):
            value = value.get_attr(self.tx, part)
        self.leaves.append(value)
        return len(self.leaves) - 1


def call_nonstrict(tx: Frame, fn: Callable[..., Any], args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The call as one node."""
    taker = _Taker(tx)
    positional = [taker.take(arg) for arg in args]
    named = {name: taker.take(arg) for name, arg in kwargs.items()}
    target = NonstrictCall(fn, positional, named, list(taker.modules.values()))
    return tx.call_graph(target, taker.leaves)
