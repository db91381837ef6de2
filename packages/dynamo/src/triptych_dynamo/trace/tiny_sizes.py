"""Functions that give a view or a copy, as the layout wants it: what they do at size 1 must be what the trace saw.

`x.t().contiguous()` copies, but gives `x` itself where a size is 1. An open size (see `trace.sizes`) may be 1 in a
later call. That matters only if the program can tell: one of the two is written afterwards, or both can be seen
outside. Then the size is decided in the trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.utils import _pytree as pytree

from triptych_dynamo._torch_compat import tensor_version

if TYPE_CHECKING:
    from torch import fx

    from triptych_dynamo.trace.shapes import Shapes

_VIEW_OR_COPY = frozenset({"contiguous", "reshape", "reshape_as", "flatten", "ravel", "to"})
_USUAL = 6  # stands for a size that is not known, or is itself tiny


@dataclass(frozen=True)
class _Copy:
    """A copy in the trace that is a view at size 1 of `symbols`, with the writes that the two had seen by then."""

    base: torch.Tensor
    copy: torch.Tensor
    symbols: frozenset[Any]
    versions: tuple[int, int]
    line: str


class Copies:
    """The copies of one trace that may be views in other calls."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self._found: list[_Copy] = []

    def note(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, line: str) -> None:
        """A call was traced."""
        if (
            not self.shapes.open
            or (target if isinstance(target, str) else getattr(target, "__name__", "")) not in _VIEW_OR_COPY
        ):
            return
        base = args[0] if args else kwargs.get("input")
        if not isinstance(base, torch.Tensor) or not isinstance(result, torch.Tensor) or _share(base, result):
            return
        symbols = frozenset(s for size in base.shape for s in _symbols(size) if s in self.shapes.open)
        trials = [frozenset({symbol}) for symbol in symbols] + [symbols] * (len(symbols) > 1)
        tiny = [trial for trial in trials if self._is_view(target, args, kwargs, trial)]
        if tiny:
            versions = tensor_version(base), tensor_version(result)
            self._found.append(_Copy(base, result, frozenset().union(*tiny), versions, line))

    def _is_view(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tiny: frozenset[Any]) -> bool:
        """Whether the call gives a view when the sizes of `tiny` are 1."""
        values = {
            symbol: sympy.Integer(1 if symbol in tiny else value if isinstance(value, int) and value > 1 else _USUAL)
            for symbol, value in self.shapes.values.items()
        }
        leaves, tree = pytree.tree_flatten((args, kwargs))
        try:
            (first, *rest), named = pytree.tree_unflatten([_concrete(leaf, values) for leaf in leaves], tree)
            result = (
                getattr(first, target)(*rest, **named) if isinstance(target, str) else target(first, *rest, **named)
            )
        except (RuntimeError, TypeError, ValueError):  # the stand-ins do not fit each other
            return True
        return _share(first, result)

    def decide(self, outputs: list[fx.Node], inputs: list[fx.Node]) -> None:
        """Trace again with decided sizes where the program can tell a copy from a view.

        Raises:
            RestartTrace: it can.
            ConstraintViolationError: it can, and the size is marked so that nothing may be decided by it.
        """
        if not self._found:
            return
        returned, given = _memory(outputs), _memory(inputs)
        for copy in self._found:
            base, own = _place(copy.base), _place(copy.copy)
            seen = (own in returned) and (base in returned or base in given)
            if seen or (tensor_version(copy.base), tensor_version(copy.copy)) != copy.versions:
                self.shapes.keep_backed(copy.symbols)
                for symbol in copy.symbols:
                    self.shapes.grant(sympy.Ne(symbol, 1), copy.line)


def _memory(nodes: list[fx.Node]) -> set[int]:
    values = [node.meta["val"] for node in nodes]
    return {_place(leaf) for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)}


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _share(one: torch.Tensor, other: torch.Tensor) -> bool:
    return _place(one) == _place(other)


def _symbols(size: Any) -> Any:
    return size.node.expr.free_symbols if isinstance(size, torch.SymInt) else ()


def _concrete(leaf: Any, values: dict[Any, Any]) -> Any:
    """An argument with numbers in place of symbols; tensors without memory."""
    if isinstance(leaf, torch.SymInt):
        expression = leaf.node.expr.xreplace(values)
        return int(expression.xreplace(dict.fromkeys(expression.free_symbols, sympy.Integer(_USUAL))))
    if isinstance(leaf, torch.Tensor):
        sizes, strides = ([_concrete(number, values) for number in numbers] for numbers in (leaf.shape, leaf.stride()))
        return torch.empty_strided(sizes, strides, dtype=leaf.dtype, device="meta")
    return leaf
