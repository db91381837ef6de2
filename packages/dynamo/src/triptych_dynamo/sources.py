"""Sources: where the running program can read a value again.

A source is a path from something the compiled callable is handed at each call (an argument, a closure cell, a globals
dictionary) to a value. Guards are stated about sources, and generated code reads values through them. Sources are
hashable, immutable and know nothing of torch or of bytecode.

    >>> str(AttrSource(LocalSource("self"), "weight"))
    "L['self'].weight"
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


class Source:
    """One step of a read path. `base` is the step before, or None at a root."""

    base: (
        Source | None
    )  # a class attribute on roots, a field on the rest (a default here would become the fields' default)

    def path(self) -> Iterator[Source]:
        """This source and every one before it, root first."""
        if self.base is not None:
            yield from self.base.path()
        yield self

    @property
    def root(self) -> Source:
        """The first step of the path."""
        return next(self.path())


def _cached_hash(self: Any) -> int:
    """The hash of a source's fields, computed once: sources are long chains that are looked up often."""
    known = self.__dict__.get("_hash")
    if known is None:
        values = [getattr(self, name) for name in self.__dataclass_fields__]
        known = self.__dict__["_hash"] = hash((type(self).__name__, *values))
    return known  # type: ignore[no-any-return]


@dataclass(frozen=True)
class LocalSource(Source):
    """Parameter `name` of the compiled frame."""

    __hash__ = _cached_hash
    base = None
    name: str

    def __str__(self) -> str:
        return f"L[{self.name!r}]"


@dataclass(frozen=True)
class CellSource(Source):
    """The cell object of free variable `name` of the compiled function (its content is `ContentSource`)."""

    __hash__ = _cached_hash
    base = None
    name: str

    def __str__(self) -> str:
        return f"C[{self.name!r}]"


@dataclass(frozen=True, eq=False)
class PinnedSource(Source):
    """An object that the guard program holds on to itself: a globals dictionary, a module, a class.

    `weak` says whether it is held weakly; equality is identity of the object held.
    """

    base = None
    value: Any
    label: str
    weak: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PinnedSource) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True)
class GlobalSource(Source):
    """Global variable `name`; `base` is the `PinnedSource` of its globals dictionary."""

    __hash__ = _cached_hash
    base: PinnedSource
    name: str

    def __str__(self) -> str:
        return f"G[{self.name!r}]" if self.base.label == "G" else f"{self.base.label}[{self.name!r}]"


@dataclass(frozen=True)
class AttrSource(Source):
    """`getattr(base, name)` by the full attribute protocol."""

    __hash__ = _cached_hash
    base: Source
    name: str

    def __str__(self) -> str:
        return f"{self.base}.{self.name}"


@dataclass(frozen=True)
class InstanceDictSource(Source):
    """`object.__getattribute__(base, '__dict__')`, read without running user code."""

    __hash__ = _cached_hash
    base: Source

    def __str__(self) -> str:
        return f"{self.base}.__dict__"


@dataclass(frozen=True)
class ItemSource(Source):
    """`base[key]` of a list, tuple or dictionary, read without running user code; `key` is a constant."""

    __hash__ = _cached_hash
    base: Source
    key: Any

    def __str__(self) -> str:
        return f"{self.base}[{self.key!r}]"


@dataclass(frozen=True)
class KeyedItemSource(Source):
    """`base[key]` of a dictionary, `key` found at another source: an object that is itself alone."""

    __hash__ = _cached_hash
    base: Source
    key: Source

    def path(self) -> Iterator[Source]:
        """All that the key is read through, then the dictionary's path and this source."""
        yield from self.key.path()
        yield from super().path()

    @property
    def root(self) -> Source:
        """The first step of the dictionary's path."""
        return self.base.root

    def __str__(self) -> str:
        return f"{self.base}[{self.key}]"


@dataclass(frozen=True)
class DictKeySource(Source):
    """The `index`-th key of a dictionary, in its order (for keys that are not constants)."""

    __hash__ = _cached_hash
    base: Source
    index: int

    def __str__(self) -> str:
        return f"list({self.base})[{self.index}]"


@dataclass(frozen=True)
class ContentSource(Source):
    """What a cell object holds."""

    __hash__ = _cached_hash
    base: Source

    def __str__(self) -> str:
        return f"{self.base}.cell_contents"


@dataclass(frozen=True)
class TypeSource(Source):
    """`type(base)`."""

    __hash__ = _cached_hash
    base: Source

    def __str__(self) -> str:
        return f"type({self.base})"


@dataclass(frozen=True)
class GradSource(Source):
    """`base.grad` of a tensor."""

    __hash__ = _cached_hash
    base: Source

    def __str__(self) -> str:
        return f"{self.base}.grad"


@dataclass(frozen=True)
class DerivedSource(Source):
    """`function(base)`, where `function` only looks at the object; what it raises means that there is no such thing."""

    __hash__ = _cached_hash
    base: Source
    function: Any

    def __str__(self) -> str:
        return f"({self.function} of {self.base})"


@dataclass(frozen=True)
class TensorSizeSource(Source):
    """`base.size(dim)`, an integer; only shape guards and symbols have it."""

    __hash__ = _cached_hash
    base: Source
    dim: int

    def __str__(self) -> str:
        return f"{self.base}.size()[{self.dim}]"


@dataclass(frozen=True)
class TensorStrideSource(Source):
    """`base.stride(dim)`, an integer."""

    __hash__ = _cached_hash
    base: Source
    dim: int

    def __str__(self) -> str:
        return f"{self.base}.stride()[{self.dim}]"


@dataclass(frozen=True)
class TensorOffsetSource(Source):
    """`base.storage_offset()`, an integer."""

    __hash__ = _cached_hash
    base: Source

    def __str__(self) -> str:
        return f"{self.base}.storage_offset()"


@dataclass(frozen=True, eq=False)
class LiteralSource(Source):
    """A number that is the same in every run: an operand of a `ComputedSource`. 1, 1.0 and True are three of them."""

    base = None
    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LiteralSource) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[type, str]:
        return type(self.value), repr(self.value)

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class ComputedSource(Source):
    """`function(*operands)`: a number that Python computes from other numbers of the call; `function` is pure."""

    __hash__ = _cached_hash
    base = None
    function: Any
    operands: tuple[Source, ...]

    def path(self) -> Iterator[Source]:
        """All that the operands are read through, then this source."""
        for operand in self.operands:
            yield from operand.path()
        yield self

    def __str__(self) -> str:
        name = getattr(self.function, "__name__", None) or repr(self.function)
        symbol = _SYMBOLS.get(name)
        if symbol is not None and len(self.operands) == 2:
            return f"({self.operands[0]} {symbol} {self.operands[1]})"
        return f"{name}({', '.join(map(str, self.operands))})"


_SYMBOLS = {
    **{"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"},
    **{"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">="},
}  # how functions of `operator` are written


def is_owned(source: Source) -> bool:
    """Whether the path goes through an instance dictionary, as that of a module's parameter or buffer does."""
    return any(isinstance(step, InstanceDictSource) for step in source.path())
