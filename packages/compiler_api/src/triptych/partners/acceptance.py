"""Which nodes of an ATen graph a partner takes: static facts first, then the partner's own front end is asked.

Each distinct question (operator, types, sizes, constants) is put once, as a graph of that one operator.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

Executable = Callable[[list[torch.Tensor]], list[torch.Tensor]]
aten = torch.ops.aten
# Operators that raise for indices out of range, which most partners do not.
INDEXING = frozenset(
    (
        *(aten.embedding.default, aten.index.Tensor, aten.index_select.default, aten.gather.default, aten.take.default),
        *(
            aten.scatter.src,
            aten.scatter.value,
            aten.scatter_add.default,
            aten.index_put.default,
            aten.index_add.default,
        ),
    )
)
UNCHECKED = "it would not find indices out of range"


class Partner(Protocol):
    """A third party's compiler of static, functional ATen graphs.

    name: of the backend. dtypes: of tensors it computes with as torch does. devices: device types it takes tensors of.
    """

    name: str
    dtypes: frozenset[torch.dtype]
    devices: frozenset[str]

    def refuses(self, target: Any, dtypes: set[torch.dtype]) -> str:
        """Why it shall not take an operator with results of these dtypes, although it converts it; "" where it may."""

    def convert(self, gm: GraphModule) -> Any:
        """The graph in the partner's own form; raises whatever the partner raises where it has none."""

    def build(self, gm: GraphModule) -> Executable:
        """The graph compiled: a function of its inputs, in order, to its outputs, in order."""


def values_of(node: Node) -> list[Any]:
    """The node's value, or its values where it has several."""
    value = node.meta.get("val")
    return list(value) if isinstance(value, (tuple, list)) else [value]


def is_view(node: Node) -> bool:
    """Whether the node computes nothing: it shows the memory of its input, or picks one of several results."""
    target = node.target
    return target is operator.getitem or (isinstance(target, torch._ops.OpOverload) and target.is_view)


class Acceptance:
    """Decides for nodes of one graph and remembers answers for all; `refused` maps nodes to reasons."""

    def __init__(self, partner: Partner, known: dict[Any, str]) -> None:
        self.partner = partner
        self.known = known
        self.refused: dict[Node, str] = {}
        self._answers: dict[Node, str] = {}

    def __call__(self, node: Node) -> bool:
        """Whether the partner takes `node`."""
        if node not in self._answers:
            self._answers[node] = self._reason(node)
            if self._answers[node]:
                self.refused[node] = self._answers[node]
        return not self._answers[node]

    def lacks_rule(self, node: Node) -> bool:
        """Whether it is the operator itself that the partner cannot take, so that others may do in its place."""
        if node.target is operator.getitem or self(node):
            return False
        return bool(self._refusal(node)) or not self._static_reason(node)

    def _reason(self, node: Node) -> str:
        """Why not; "" where it does."""
        if node.op != "call_function":
            return "not an operator"
        if node.target is operator.getitem:
            source = node.args[0]
            return "" if isinstance(source, Node) and self(source) else "part of a result of torch's own kernel"
        return self._static_reason(node) or self._asked(node)

    def _static_reason(self, node: Node) -> str:
        target = node.target
        if not isinstance(target, torch._ops.OpOverload):
            return "not an ATen operator"
        if target._schema.is_mutable:
            return "it writes to its input"
        if torch.Tag.nondeterministic_seeded in target.tags:
            return "it draws random numbers"
        refusal = self._refusal(node)
        if refusal:
            return refusal
        several = isinstance(node.meta.get("val"), (tuple, list))
        if several and any(user.target is not operator.getitem for user in node.users):
            return "its results are used as one list"
        used = {user.args[1] for user in node.users} if several else {0}
        inputs = [v for n in node.all_input_nodes for v in values_of(n)]
        outputs = [v for k, v in enumerate(values_of(node)) if k in used]
        for value in (*inputs, *outputs):
            reason = self._value_reason(value)
            if reason:
                return reason
        return ""

    def _refusal(self, node: Node) -> str:
        return self.partner.refuses(node.target, {v.dtype for v in values_of(node) if isinstance(v, torch.Tensor)})

    def _value_reason(self, value: Any) -> str:
        if not isinstance(value, torch.Tensor):
            return "a value of it is no tensor"
        if value.dtype not in self.partner.dtypes:
            return f"no {str(value.dtype).removeprefix('torch.')}"
        if value.device.type not in self.partner.devices:
            return f"no tensors on {value.device.type}"
        if not all(isinstance(n, int) for n in value.shape):
            return "a size that depends on numbers in tensors"
        return "an empty tensor" if value.numel() == 0 else ""

    def _asked(self, node: Node) -> str:
        key = _question(node)
        if key not in self.known:
            try:
                self.partner.convert(alone(node))
            except Exception as error:  # noqa: BLE001 - whatever the partner's front end raises means no
                self.known[key] = first_line(error)
            else:
                self.known[key] = ""
        return self.known[key]


def first_line(error: Exception) -> str:
    """The line of a partner's message that says most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "rule" in line or "nsupported" in line]
    return (telling or lines or [type(error).__name__])[0][:160]


def _question(node: Node) -> Any:
    """What tells nodes apart for the partner: the operator, metadata of tensors, constants, and what is used of it."""
    facts = map_arg((node.args, node.kwargs), lambda n: _Shown(_meta(n)))
    used = sorted(str(user.args[1]) for user in node.users if user.target is operator.getitem)
    return node.target, repr(facts), tuple(used)


def _meta(node: Node) -> str:
    return ", ".join(f"{v.dtype}{tuple(v.shape)}" for v in values_of(node) if isinstance(v, torch.Tensor))


class _Shown:
    """Prints as its text, and is what `map_arg` may put in place of a node."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def alone(node: Node) -> GraphModule:
    """A graph of `node`, with what is read of its results, and nothing else; its inputs are placeholders."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    for source in node.all_input_nodes:
        copies[source] = graph.placeholder(source.name)
        copies[source].meta["val"] = source.meta["val"]
    copy = copies[node] = graph.node_copy(node, copies.__getitem__)
    items = [user for user in node.users if user.target is operator.getitem]
    results = [graph.node_copy(item, copies.__getitem__) for item in items]
    graph.output(tuple(results) if isinstance(node.meta.get("val"), (tuple, list)) else (copy,))
    return GraphModule(torch.nn.Module(), graph)
