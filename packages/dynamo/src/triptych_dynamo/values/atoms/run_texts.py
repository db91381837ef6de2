"""`RunText`: the text of a number that differs from run to run, as f-strings, `str` and `format` make it.

It is made by the compiled code, from where the number is read; so a message about a step or a learning rate does not
compile again for each. A program that looks into the text (compares it, looks it up) gets that of this run, guarded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo._torch_compat import tensor_version
from triptych_dynamo.guards.number_facts import equality_fact
from triptych_dynamo.sources import ComputedSource
from triptych_dynamo.values.atoms import numbers
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source
    from triptych_dynamo.trace.trace import Trace


class RunText(ConstantValue):
    """A string constant whose value is known only once somebody asks for it."""

    def __init__(self, text: str, source: ComputedSource, trace: Trace) -> None:
        Value.__init__(self, source)
        self._text, self._trace, self.is_computed = text, trace, True

    @property
    def value(self) -> str:  # type: ignore[override]
        """The text of this run, guarded from now on."""
        if self.is_computed:
            self.is_computed = False
            assert self.source is not None
            self._trace.guard("python", None, equality_fact(self.source, self._text))
        return self._text

    @property
    def shown(self) -> str:
        """The text of this run, for a text that is made of it."""
        return self._text

    def python_type(self) -> type:
        return str

    def __repr__(self) -> str:
        return f"RunText({self.source})"


_CONVERSIONS: dict[str, Callable[[Any], str]] = {"str": str, "repr": repr, "ascii": ascii}


@dataclass(frozen=True)
class Formatted:
    """`format(number, spec)`, of what a conversion makes of it."""

    conversion: str
    spec: str

    def __call__(self, number: Any) -> str:
        how = _CONVERSIONS.get(self.conversion)
        return format(number if how is None else how(number), self.spec)


@dataclass(frozen=True)
class Joined:
    """Constant parts, with texts of the run where there is None."""

    parts: tuple[str | None, ...]

    def __call__(self, *texts: str) -> str:
        found = iter(texts)
        return "".join(next(found) if part is None else part for part in self.parts)


@dataclass(frozen=True)
class NumberAt:
    """The number of a tensor with one element, behind some indices."""

    path: tuple[int, ...]

    def __call__(self, tensor: torch.Tensor) -> Any:
        with torch.no_grad():
            for index in self.path:
                tensor = tensor[index]
            return tensor.item()


def text_of_number(tx: Frame, value: Value, conversion: str, spec: str) -> RunText | None:
    """The text of a number that is known before the graph runs; None for other values. Raises what `format` raises."""
    if isinstance(value, ConstantValue):
        return None
    found = _number(tx, value) if numbers.is_number(value) else _number_of_input(tx, value) if not conversion else None
    if found is None:
        return None
    function, (number, source) = Formatted(conversion, spec), found
    return RunText(function(number), ComputedSource(function, (source,)), tx.trace)


def _number(tx: Frame, value: Value) -> tuple[Any, Source] | None:
    source = numbers.source_of(tx, value)
    return None if source is None else (numbers.number_of(tx, value), source)


def _number_of_input(tx: Frame, value: Value) -> tuple[Any, Source] | None:
    """The number of a tensor on the CPU that is an input of the graph, or an element of one."""
    if not isinstance(value, TensorValue) or value.fake.ndim or value.fake.device.type != "cpu":
        return None
    node, path = value.node, list[int]()
    while node.op == "call_function" and node.target is operator.getitem and type(node.args[1]) is int:
        path.insert(0, node.args[1])
        node = node.args[0]
    graph = tx.trace.graph
    source = graph.inputs.get(node)
    real = tx.trace.inputs.real_tensors().get(source) if source is not None else None
    if source is None or type(real) is not torch.Tensor:
        return None
    if tensor_version(node.meta["val"]) != graph.input_versions[node]:  # the graph writes it before
        return None
    read = NumberAt(tuple(path))
    return read(real), ComputedSource(read, (source,))


def join(tx: Frame, parts: list[Value]) -> Value:
    """The parts of an f-string as one text."""
    if not any(isinstance(part, RunText) and part.is_computed for part in parts):
        return ConstantValue("".join(part.as_constant() for part in parts))
    texts = [part for part in parts if isinstance(part, RunText) and part.is_computed]
    function = Joined(tuple(None if part in texts else part.as_constant() for part in parts))
    source = ComputedSource(function, tuple(text.source for text in texts if text.source is not None))
    return RunText(function(*[text.shown for text in texts]), source, tx.trace)
