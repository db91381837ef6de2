"""Sizes and strides that calls change in place: of inputs (`x.t_()`), and of results given as `out` that do not fit.

A backend is given inputs as they come to the graph, but a fake tensor is what the last call made of it. So inputs are
noted as they came, and those that changed are handed over in that form. Memory that grows is left to plain Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import fx

    from triptych_dynamo.interpreter.frame import Frame


class EntryForms:
    """The forms in which tensors come to the graph."""

    def __init__(self) -> None:
        self._forms: dict[fx.Node, tuple[Any, ...]] = {}

    def note(self, node: fx.Node, fake: torch.Tensor) -> None:
        """Remember an input as it is now."""
        self._forms[node] = (fake, *_form(fake), fake.requires_grad, fake.is_leaf)

    def now(self, node: fx.Node) -> torch.Tensor:
        """The fake tensor of an input, which all calls so far have changed."""
        fake: torch.Tensor = self._forms[node][0]
        return fake

    def restore(self) -> None:
        """Give the placeholders of inputs that have another form by now a fake tensor of the first one."""
        for node, (fake, size, stride, offset, requires_grad, is_leaf) in self._forms.items():
            if not _is_same(_form(fake), (size, stride, offset)):
                node.meta["val"] = _remade(fake, (size, stride, offset), requires_grad, is_leaf)


def _form(fake: torch.Tensor) -> tuple[Any, ...]:
    if fake.layout is not torch.strided:
        return (fake.shape, (), 0)
    return (fake.shape, fake.stride(), fake.storage_offset())


def _is_same(form: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Compare by expression, so that nothing new is guarded."""
    return _plain(form) == _plain(other)


def _plain(form: tuple[Any, ...]) -> list[Any]:
    size, stride, offset = form
    return [len(size), *(n.node.expr if isinstance(n, torch.SymInt) else n for n in (*size, *stride, offset))]


def _remade(fake: torch.Tensor, form: tuple[Any, ...], requires_grad: bool, is_leaf: bool) -> torch.Tensor:
    with torch.no_grad():
        first = fake.detach().as_strided(*form)
    first.requires_grad_(requires_grad)
    if is_leaf:
        return first
    with torch.enable_grad():
        return first.view_as(first)


class Results:
    """Tensors that one call is given to write its results into (`out=`, `resize_as_`), as they are `before` it."""

    def __init__(self, target: Any, args: Any, kwargs: dict[str, Any]) -> None:
        given = kwargs.get("out")
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        if given is None and name.startswith("resize_"):
            given = args[0] if args else None
        tensors = given if isinstance(given, (list, tuple)) else (given,)
        self._sizes = [(tensor, tensor.shape) for tensor in tensors if isinstance(tensor, torch.Tensor)]

    def check(self, tx: Frame, operands: list[fx.Node], what: str) -> None:
        """Break where one got another size, unless it is an empty one that the graph made: that may take any."""
        inputs = {id(node.meta["val"]) for node in operands if node.op == "placeholder"}
        for tensor, size in self._sizes:
            if _is_same((size, (), 0), (tensor.shape, (), 0)):
                continue
            empty = any(type(n) is int and n == 0 for n in size)
            if not empty or tensor._is_view() or id(tensor) in inputs:
                tx.unsupported("graph-output", f"{what} resizes a tensor that it is given for its result")
