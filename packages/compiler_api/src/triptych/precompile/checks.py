"""What the arguments of a precompiled program must be, as its literals say; one check for each of six invariants.

1 structure, 2 parameters and buffers, 3 sizes, 4 strides, 5 Python values, 6 dtypes and devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch.utils._pytree import TreeSpec, treespec_loads
from triptych_aot_autograd.runtime import plan_json

from triptych.errors import PrecompileError
from triptych.precompile.lifting import Arguments, State


def refuse(invariant: int, text: str) -> NoReturn:
    """Raises PrecompileError that names the invariant."""
    raise PrecompileError(f"{text} (invariant {invariant})")


def check_structure(facts: dict[str, Any], arguments: Arguments, spec: TreeSpec) -> None:
    """Number of arguments, which of them are modules, and the nesting of the others."""
    if arguments.count != facts["NUM_POSITIONAL_ARGS"]:
        refuse(1, f"{arguments.count} arguments were given where {facts['NUM_POSITIONAL_ARGS']} were captured")
    if arguments.positions != facts["MODULE_POSITIONS"]:
        refuse(1, f"modules are at {arguments.positions}; captured were modules at {facts['MODULE_POSITIONS']}")
    if arguments.spec != spec:
        refuse(1, f"the arguments are nested as {arguments.spec}, captured were {spec}")


def check_state(facts: dict[str, Any], prefix: str, state: State, strides: bool) -> None:
    """Names, their order, sizes, dtypes, devices (and strides) of parameters or buffers."""
    kind = {"PARAM": "parameter", "BUFFER": "buffer"}[prefix]
    names = facts[f"{prefix}_NAMES"]
    if state.names != names:
        missing = [n for n in names if n not in state.names]
        added = [n for n in state.names if n not in names]
        detail = f"missing {missing}, not captured {added}" if missing or added else f"in the order {state.names}"
        refuse(2, f"the {kind}s differ from those captured: {detail}")
    columns: list[tuple[str, Callable[[torch.Tensor], Any]]] = [
        ("SHAPES", lambda t: list(t.shape)),
        ("DTYPES", lambda t: str(t.dtype).removeprefix("torch.")),
        ("DEVICES", lambda t: str(t.device)),
    ]
    if strides:
        columns.append(("STRIDES", lambda t: list(t.stride())))
    for column, read in columns:
        for name, tensor, wanted in zip(names, state.tensors, facts[f"{prefix}_{column}"], strict=True):
            if read(tensor) != wanted:
                refuse(2, f"{kind} {name} has {column[:-1].lower()} {read(tensor)}, captured was {wanted}")


class LeafCheck:
    """Checks the leaves of the other arguments at each call, and reads the symbolic sizes among them."""

    def __init__(self, facts: dict[str, Any]) -> None:
        columns = ("SHAPES", "STRIDES", "DTYPES", "DEVICES", "BOUNDS")
        self._rows = list(zip(*(facts[f"USER_INPUT_{column}"] for column in columns), strict=True))
        self._constants = [None if c is None else (plan_json.decode(c[0]),) for c in facts["USER_INPUT_CONSTANTS"]]
        self._strides = facts["BACKEND"] == "inductor"
        self._dtypes = [None if row[2] is None else getattr(torch, row[2]) for row in self._rows]
        self._devices = [None if row[3] is None else torch.device(row[3]) for row in self._rows]

    def __call__(self, leaves: Sequence[Any]) -> dict[str, int]:
        """Symbol -> its value at this call. Raises PrecompileError."""
        symbols: dict[str, int] = {}
        for index, leaf in enumerate(leaves):
            constant = self._constants[index]
            if constant is not None:
                self._constant(index, leaf, constant[0])
            else:
                self._tensor(index, leaf, symbols)
        return symbols

    def _constant(self, index: int, leaf: Any, wanted: Any) -> None:
        if type(leaf) is not type(wanted) or not (leaf == wanted or (leaf != leaf and wanted != wanted)):
            refuse(5, f"input {index} is {leaf!r}, captured was {wanted!r}, which is part of the program")

    def _tensor(self, index: int, leaf: Any, symbols: dict[str, int]) -> None:
        if not isinstance(leaf, torch.Tensor):
            refuse(1, f"input {index} is a {type(leaf).__name__}, captured was a tensor")
        shape, strides, dtype, device, bounds = self._rows[index]
        if leaf.dtype != self._dtypes[index]:
            refuse(6, f"input {index} has dtype {leaf.dtype}, captured was torch.{dtype}")
        if not _same_device(leaf.device, self._devices[index]):
            refuse(6, f"input {index} is on {leaf.device}, captured was {device}")
        if leaf.dim() != len(shape):
            refuse(3, f"input {index} has {leaf.dim()} dimensions, captured were {len(shape)}")
        for dim, (size, wanted) in enumerate(zip(leaf.shape, shape, strict=True)):
            if isinstance(wanted, str):
                self._symbol(index, dim, size, wanted, bounds, symbols)
            elif size != wanted:
                refuse(3, f"input {index} has size {size} in dimension {dim}, captured was {wanted}")
        if self._strides and not _strides_fit(leaf, strides, symbols):
            refuse(4, f"input {index} has strides {list(leaf.stride())}, compiled was {strides}")

    def _symbol(
        self, index: int, dim: int, size: int, name: str, bounds: dict[int, Any] | None, symbols: dict[str, int]
    ) -> None:
        low, high = (bounds or {}).get(dim, (None, None))
        for limit, wrong, word in (
            (low, low is not None and size < low, "min"),
            (high, high is not None and size > high, "max"),
        ):
            if wrong:
                refuse(3, f"input {index} has size {size} in dimension {dim} but mark_unbacked declared {word}={limit}")
        if symbols.setdefault(name, size) != size:
            refuse(3, f"input {index} has size {size} in dimension {dim}; it shares its shape_id with {symbols[name]}")


def _same_device(found: torch.device, wanted: torch.device | None) -> bool:
    return found == wanted or (wanted is not None and wanted.index is None and found.type == wanted.type)


def _strides_fit(leaf: torch.Tensor, strides: Sequence[Any], symbols: dict[str, int]) -> bool:
    """Whether the strides are those of the capture; those of dimensions of size 1 do not matter."""
    for size, found, wanted in zip(leaf.shape, leaf.stride(), strides, strict=True):
        if size == 1 or found == wanted:
            continue
        if not isinstance(wanted, str) or found != _product(wanted, symbols):
            return False
    return True


def _product(text: str, symbols: dict[str, int]) -> int:
    """The value of a stride such as "4*u0"."""
    value = 1
    for factor in text.split("*"):
        value *= symbols[factor] if factor in symbols else int(factor)
    return value


def spec_of(text: str) -> TreeSpec:
    """A structure from its text."""
    return treespec_loads(text)
