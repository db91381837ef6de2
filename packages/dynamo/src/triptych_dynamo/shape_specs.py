"""What the caller says of the sizes and numbers of all calls (`shapes_spec`), as marks by the text of their source.

    optimize("inductor", shapes_spec={"x": [Dim("batch", max=64), 10], "n": Dim(), "table": {"mask": ["batch", None]}})

A tensor is described by a list with an entry for each dimension: `Dim` or a name (open: one compile serves all sizes,
equal names are equal sizes), a number or None (fixed). An integer argument is described by `Dim` (symbolic) or a number
(fixed). Dictionaries and sequences are described item by item, other objects by `{"attribute": ...}` in `Fields`. The
records of `torch.fx.experimental.dynamic_spec` are taken too, as far as they say the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from triptych_dynamo._torch_compat import spec_parts
from triptych_dynamo.marks import Mark


@dataclass(frozen=True)
class Dim:
    """A size or an integer that varies.

    Attributes:
        name: sizes of equal names are equal.
        min, max: bounds; None: none (0 for sizes).
        hint: a typical value, for code generators.
    """

    name: str | None = None
    min: int | None = None
    max: int | None = None
    hint: int | None = None


class Fields(dict[str, Any]):
    """Descriptions of an object's attributes."""


@dataclass(frozen=True)
class Declared:
    """The marks of a specification.

    Attributes:
        sizes: source as text -> dimension -> mark.
        numbers: source as text -> whether the integer varies.
        patterns: what sources' texts match -> a dimension (None: all, and numbers) and its mark.
        values: sizes and numbers that vary where they are one of these.
    """

    sizes: Mapping[str, Mapping[int, Mark]] = field(default_factory=dict)
    numbers: Mapping[str, bool] = field(default_factory=dict)
    patterns: Sequence[tuple[re.Pattern[str], int | None, Mark]] = ()
    values: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.sizes or self.numbers or self.patterns or self.values)

    def marks(self, source: str, shape: Sequence[int], owned: bool) -> dict[int, Mark]:
        """The marks of a tensor; `owned`: it is a module's, to which `values` do not speak."""
        ndim = len(shape)
        found = {dim: Mark("maybe") for dim, size in enumerate(shape) if not owned and size in self.values}
        for pattern, dim, mark in self.patterns:
            if pattern.fullmatch(source):
                found.update(dict.fromkeys([d for d in range(ndim) if dim is None or d == dim % max(ndim, 1)], mark))
        return found | dict(self.sizes.get(source, {}))

    def varies(self, source: str, number: float, owned: bool) -> bool | None:
        """Whether a number varies; None: nothing is said."""
        said = self.numbers.get(source)
        if said is None and any(dim is None and pattern.fullmatch(source) for pattern, dim, _ in self.patterns):
            return True
        if said is None and not owned and type(number) is int and number in self.values:
            return True
        return said


def declared(
    spec: Any,
    dynamic_sources: Sequence[str] = (),
    unbacked_sources: Sequence[str] = (),
    dynamic_values: Sequence[int] = (),
) -> Declared:
    """The marks of `shapes_spec`: a mapping of parameter names to descriptions, or None; and those of lists of sources
    and of values.

    Raises:
        TypeError: something that is no description.
        ValueError: something that is no source and no regular expression.
    """
    patterns = [_pattern(text, Mark("maybe")) for text in dynamic_sources]
    patterns += [_pattern(text, Mark("unbacked")) for text in unbacked_sources]
    parts = spec_parts(spec)
    if parts is not None:
        spec = parts[1]
    if spec is None:
        return Declared(patterns=patterns, values=frozenset(dynamic_values))
    if not isinstance(spec, Mapping):
        raise TypeError(f"shapes_spec is a mapping of parameter names to descriptions, not {type(spec).__name__}")
    found = Declared({}, {}, patterns, frozenset(dynamic_values))
    for name, description in spec.items():
        _describe(found, [f"L[{name!r}]"], description)
    return found


def _pattern(text: str, mark: Mark) -> tuple[re.Pattern[str], int | None, Mark]:
    """`L['x']`, `L['x']:0`, or a regular expression in place of the source."""
    whole = re.fullmatch(r"(.+?)(?::(-?\d+))?", text.strip())
    if whole is None:
        raise ValueError(f"{text!r} names no source; sources look like L['x'] or L['x']:0")
    source, dim = whole.groups()
    try:
        pattern = re.compile(f"{re.escape(source)}|{source}")
    except re.error:
        pattern = re.compile(re.escape(source))
    return pattern, None if dim is None else int(dim), mark


def _describe(found: Declared, sources: list[str], spec: Any) -> None:
    """Note what `spec` says of the object that is read at any of the sources."""
    parts = spec_parts(spec)
    kind, content = parts if parts is not None else ("", spec)
    if content is None:
        return
    for source in sources:
        if kind == "object" or isinstance(content, Fields):
            for name, part in content.items():
                _describe(found, [f"{source}.{name}", f"{source}.__dict__[{name!r}]"], part)
        elif isinstance(content, Mapping):
            for key, part in content.items():
                _describe(found, [f"{source}[{key!r}]"], part)
        elif isinstance(content, Sequence) and not isinstance(content, str):
            if kind != "sequence" and all(_is_leaf(part) for part in content):
                found.sizes[source] = {dim: _mark(part) for dim, part in enumerate(content)}  # type: ignore[index]
            else:
                for index, part in enumerate(content):
                    _describe(found, [f"{source}[{index}]"], part)
        elif _is_leaf(content):
            found.numbers[source] = not isinstance(content, int)  # type: ignore[index]
        else:
            raise TypeError(f"{source}: {type(content).__name__} does not describe a tensor, number or container")


def _is_leaf(spec: Any) -> bool:
    return spec is None or type(spec) is int or isinstance(spec, (str, Dim)) or spec_parts(spec) == ("variable", spec)


def _mark(spec: Any) -> Mark:
    if spec is None or type(spec) is int:
        return Mark("static")
    if isinstance(spec, str):
        return Mark("unbacked", shape_id=spec)
    if isinstance(spec, Dim):
        name = spec.name if spec.name is not None else id(spec)
        return Mark("unbacked", spec.min, spec.max, spec.hint, name)
    return Mark("unbacked", spec.min, spec.max, spec.optimization_hint, id(spec))  # torch's: one object, one size
