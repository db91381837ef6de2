"""Python's random numbers, and clocks.

A generator that the region seeds itself gives the same numbers in every run: it is run while tracing, and its last
state is an effect. Any other draws a number that only the run knows: a graph break.
"""

from __future__ import annotations

import random
import time
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo.sources import Source
from triptych_dynamo.values import attributes
from triptych_dynamo.values.base import NotConstant, Value
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.callables.builtin_methods import BuiltinMethodValue
from triptych_dynamo.values.callables.functions import wrap_function
from triptych_dynamo.values.common import fold, none, origin_of
from triptych_dynamo.values.objects.classes import constructs
from triptych_dynamo.values.registry import wraps

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

_OF_CONTAINERS = frozenset({"shuffle", "choice", "choices", "sample"})  # traced through, their items are values


class RandomValue(Value):
    """A `random.Random`; `generator` draws in the place of the real one, None while its state is not known."""

    def __init__(self, generator: random.Random | None, source: Source | None = None) -> None:
        super().__init__(source)
        self.generator = generator

    def python_type(self) -> type:
        return random.Random

    def truth(self, tx: Frame) -> bool:
        return True

    def key(self, tx: Frame) -> Any:
        return self

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name.startswith("_") or name in _OF_CONTAINERS or name == "__class__":
            return attributes.class_attribute(tx, self, name)
        if not callable(getattr(random.Random, name, None)):
            return tx.unsupported("random-state", f"reading {name!r} of a random number generator")
        return BuiltinMethodValue(self, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        try:
            plain = [arg.as_constant() for arg in args]
            named = {key: arg.as_constant() for key, arg in kwargs.items()}
        except NotConstant:
            return tx.unsupported("random-state", f"Random.{name} of values that are not known while tracing")
        if name in ("seed", "setstate") and (plain or named) and plain[:1] != [None]:
            return self._restart(tx, name, plain, named)
        if self.generator is None or name in ("seed", "getstate"):
            return tx.unsupported("random-state", f"Random.{name} of a generator that the region did not seed")
        if self.source is not None:
            tx.effects.mutated(self)
        return fold(tx, getattr(self.generator, name), plain, named)

    def _restart(self, tx: Frame, name: str, args: list[Any], kwargs: dict[str, Any]) -> Value:
        self.generator = random.Random(0)
        fold(tx, getattr(self.generator, name), args, kwargs)
        if self.source is not None:
            tx.effects.mutated(self)
        return none(tx)

    def _emit_state(self, cg: Writer) -> None:
        assert self.generator is not None
        cg.load_attr("setstate")
        cg.load_object(self.generator.getstate())
        cg.call(1)
        cg.pop()

    def replay(self, cg: Writer) -> None:
        """Give the real generator the state that it has at the end."""
        cg.load(self)
        self._emit_state(cg)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(random.Random)
        cg.call(0)
        cg.copy()
        self._emit_state(cg)


def _method_written_in_python(name: str, function: FunctionType) -> None:
    def call(tx: Frame, generator: Value, *args: Value, **kwargs: Value) -> Value:
        if isinstance(generator, RandomValue):
            return generator.call_method(tx, name, list(args), kwargs)
        return tx.call(wrap_function(tx, function, None), [generator, *args], kwargs)

    builtin(function)(call)


for _name, _method in vars(random.Random).items():
    if isinstance(_method, FunctionType) and not _name.startswith("_") and _name not in _OF_CONTAINERS:
        _method_written_in_python(_name, _method)


@constructs(random.Random)
def _random(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    made = RandomValue(None)
    if args and args[0].is_constant() and args[0].as_constant() is not None:
        made.call_method(tx, "seed", args, kwargs)
        return made
    return tx.unsupported("random-state", "a random number generator seeded by the system")


@wraps(random.Random)
def wrap_random(tx: Frame, obj: random.Random, source: Source | None) -> Value:
    """A generator of the program."""
    source = origin_of(obj, source)
    tx.guard("type_is", source, random.Random)
    return RandomValue(None, source)


@constructs(torch.Generator)
def _generator(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tx.unsupported("random-state", "a torch.Generator made inside the compiled region")


# -- clocks ------------------------------------------------------------------------------------------------------------
_CLOCKS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")


def _clock(function: Any) -> None:
    def read(tx: Frame, *args: Value, **kwargs: Value) -> Value:
        return tx.unsupported("input-output", f"time.{function.__name__}()")

    builtin(function)(read)


for _name in (*_CLOCKS, *(f"{name}_ns" for name in _CLOCKS), "sleep", "localtime", "gmtime"):
    _clock(getattr(time, _name))
