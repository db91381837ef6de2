"""Guards as facts: what a trace took for granted, one fact a record.

A `Guard` is data: a kind (a row of `KINDS`), the source it speaks of and the expected value. `guards.program` turns a
list of them into the flat check that runs in C; `guards.python_check` runs the same list in plain Python (the twin used
in tests, for `GuardViolation` texts and for the reason of a recompile).
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from triptych_dynamo.sources import Source


@dataclass(frozen=True)
class GuardKind:
    """A row of the table: `cost` orders checks, cheapest first; `text` is a format over source and value.

    A `sourceless` kind names its sources, if any, in its value.
    """

    name: str
    cost: int
    text: str
    sourceless: bool = False


KINDS: dict[str, GuardKind] = {
    row.name: row
    for row in (
        GuardKind("type_is", 1, "type({source}) is {value}"),  # value: the type object
        GuardKind("is", 1, "{source} is {value}"),  # value: the object itself (held)
        GuardKind(
            "is_weak", 1, "{source} is {value}"
        ),  # value: weakref.ref, or an object that is then held weakly in C; dead: violated
        GuardKind("same_as", 2, "{source} is {value}"),  # value: another Source; both must give one object
        GuardKind("not_same_as", 2, "{source} is not {value}"),  # value: another Source
        GuardKind("distinct", 3, "{value} is another object", sourceless=True),  # value: Apart
        GuardKind("equals", 2, "{source} == {value!r}"),  # value: constant; type must match exactly too (True is not 1)
        GuardKind("length", 2, "len({source}) == {value}"),  # value: int; list, tuple, dict, set
        GuardKind("truth", 2, "bool({source}) is {value}"),  # value: bool; containers by length
        GuardKind("dict_keys", 3, "list({source}) == {value!r}"),  # value: tuple of constant keys, in order
        GuardKind("dict_has", 3, "{value!r} in {source}"),  # value: key
        GuardKind("dict_lacks", 3, "{value!r} not in {source}"),  # value: key
        GuardKind("dict_has_at", 3, "{value} in {source}"),  # value: the key's Source
        GuardKind("dict_lacks_at", 3, "{value} not in {source}"),  # value: the key's Source
        GuardKind("lacks_attr", 3, "not hasattr({source}, {value!r})"),  # value: attribute name
        GuardKind("cell_empty", 2, "{source} is an empty cell"),
        GuardKind("range_is", 3, "{source} == {value!r}"),  # value: range
        GuardKind("set_is", 4, "{source} == {value!r}"),  # value: frozenset of constants
        GuardKind("int_in", 2, "{value[0]} <= {source} <= {value[1]}"),  # an int that became symbolic: type and bounds
        GuardKind("tensor", 5, "{source}: {value}"),  # value: TensorFacts
        GuardKind("no_overlap", 6, "{value} is in other memory", sourceless=True),  # value: Apart, of tensors
        GuardKind("overlap", 6, "{value} shares memory", sourceless=True),  # value: Apart, of two tensors
        # value: (name, expected): grad, inference, autocast..., default dtype/device
        GuardKind("mode", 1, "{value}", sourceless=True),
        # value: tuple of tensor Sources; one of them may require a gradient where gradients are off
        GuardKind("no_gradients", 6, "no gradient of {value} is asked for", sourceless=True),
        GuardKind("shape", 7, "{value}", sourceless=True),  # value: ShapeFact
        GuardKind("python", 9, "{value}", sourceless=True),  # value: PythonFact; last resort, any callable
    )
}


def object_text(value: Any) -> str:
    """An object in texts: its name or `repr`; of arrays, whose `repr` reads all their numbers, type and address.

    A weak reference is what it refers to.
    """
    if isinstance(value, weakref.ref):
        value = value()
        if value is None:
            return "an object that is gone"
    if hasattr(type(value), "shape") and hasattr(type(value), "dtype"):
        return f"the {type(value).__name__} at {id(value):#x}"
    return getattr(value, "__qualname__", None) or repr(value)


@dataclass(frozen=True)
class TensorFacts:
    """What is known of a tensor: any None in `sizes` or `strides` is free (a shape guard may speak of it)."""

    cls: type  # torch.Tensor, torch.nn.Parameter, a subclass
    dtype: Any  # torch.dtype
    device: Any  # torch.device
    requires_grad: bool | None  # None: not guarded
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...] | None  # None: not guarded (as many as sizes otherwise)
    dispatch_keys: int | None = None  # raw key set where it is not implied by the rest (conj, neg, inference ...)
    key_mask: int = -1  # the keys that count

    def __str__(self) -> str:
        return (
            f"{self.cls.__name__}({self.dtype}, {self.device}, grad={self.requires_grad}, {self.sizes}, {self.strides})"
        )


@dataclass(frozen=True)
class ShapeFact:
    """A boolean over integers. `expr` is a sympy expression; `symbols` maps its symbols to integer sources."""

    expr: Any
    symbols: tuple[tuple[Any, Source], ...]

    def __str__(self) -> str:
        text = str(self.expr)
        for symbol, source in self.symbols:
            text = text.replace(str(symbol), str(source))
        return text


@dataclass(frozen=True)
class Apart:
    """Each of `sources` is apart from each of `others`, but for itself where it is one of them."""

    sources: tuple[Source, ...]
    others: tuple[Source, ...]

    def __str__(self) -> str:
        lists = ("[" + ", ".join(map(str, group)) + "]" for group in (self.sources, self.others))
        return "each of {} beside each of {}".format(*lists)


@dataclass(frozen=True)
class PythonFact:
    """A check by a Python callable of the source's value (all values of `sources` when given)."""

    check: Any  # Callable[..., bool]
    label: str
    sources: tuple[Source, ...] = ()

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True)
class Guard:
    """One fact. `user_line` is 'file:line' of the user's code that made it matter."""

    kind: str
    source: Source | None
    value: Any = None
    user_line: str = ""

    def __str__(self) -> str:
        value = self.value
        if isinstance(value, tuple) and value and all(isinstance(item, Source) for item in value):
            value = ", ".join(map(str, value))
        if self.kind in ("is", "is_weak", "type_is"):
            value = object_text(value)[:60]
        return KINDS[self.kind].text.format(source=self.source, value=value)
