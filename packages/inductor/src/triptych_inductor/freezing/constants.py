"""The constants of a graph under freezing: tensors by value, `get_attr` nodes, and new ones that passes make."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from triptych_inductor._torch_compat import FakeTensorMode, detect_fake_mode
from triptych_inductor.errors import InductorError
from triptych_inductor.options import Options

aten = torch.ops.aten
VIEWS = frozenset({aten.view.default, aten._unsafe_view.default, aten.reshape.default})


def freeze(gm: GraphModule, values: Mapping[str, torch.Tensor]) -> GraphModule:
    """The graph with some of its placeholders made constants; it takes the other inputs, in their order.

    values: name of a placeholder's node -> the tensor that it is from now on. `gm` is not changed. Compile the result
    with `Options(freezing=True)` to have everything that follows from the constants computed at once.

    >>> frozen = freeze(gm, {"weight": model.weight})
    >>> compile(frozen, [x], options={"freezing": True})(x)
    """
    graph = Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    graph.output_node().meta = dict(gm.graph.output_node().meta)
    placeholders = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    missing = [name for name in values if name not in placeholders]
    if missing:
        raise InductorError(f"the graph has no placeholder {missing[0]!r}; it has {', '.join(placeholders)}")
    root = torch.nn.Module()
    for name, module in gm.named_children():
        root.register_module(name, module)
    for node in gm.graph.find_nodes(op="get_attr"):
        first = str(node.target).split(".")[0]
        if not hasattr(root, first):
            setattr(root, first, getattr(gm, first))
    for name, tensor in values.items():
        attribute = f"frozen_input_{name}"
        setattr(root, attribute, tensor.detach())
        node = placeholders[name]
        with graph.inserting_before(node):
            constant = graph.get_attr(attribute)
        constant.meta = dict(node.meta)
        node.replace_all_uses_with(constant)
        graph.erase_node(node)
    return GraphModule(root, graph)


class Constants:
    """What of a graph is known by value.

    In: a graph that may be changed, its nodes with fake values. Passes ask `value`, and put new constants in with
    `insert`.
    """

    def __init__(self, gm: GraphModule, options: Options) -> None:
        self.gm, self.options = gm, options
        self.graph: Graph = gm.graph
        self.values: dict[Node, torch.Tensor] = {}
        self._count = 0
        for node in self.graph.find_nodes(op="get_attr"):
            found = attrgetter(str(node.target))(gm)
            if isinstance(found, torch.Tensor) and found.layout is torch.strided and not _is_fake(found):
                if not any(map(_writes, node.users)):
                    self.values[node] = found.detach()
        known = [n.meta.get("val") for n in self.graph.nodes]
        self.mode = detect_fake_mode(known) or FakeTensorMode(allow_non_fake_inputs=True)
        for node, value in self.values.items():
            node.meta.setdefault("val", self.fake(value))
        self.given = {v.untyped_storage().data_ptr(): v for v in self.values.values()}

    def value(self, node: Any) -> torch.Tensor | None:
        """The tensor of a constant; None for every other node or argument."""
        return self.values.get(node) if isinstance(node, Node) else None

    def insert(self, tensor: torch.Tensor, before: Node, like: torch.Tensor | None = None) -> Node:
        """A new constant. like: the tensor whose metadata stand for it, where it has a form of its own (packed)."""
        name = self._store(tensor)
        with self.graph.inserting_before(before):
            node = self.graph.get_attr(name)
        shown = tensor if like is None else like
        node.meta["val"] = self.fake(shown)
        if "stack_trace" in before.meta:
            node.meta["stack_trace"] = before.meta["stack_trace"]
        if like is None:
            self.values[node] = tensor
        return node

    def fake(self, tensor: torch.Tensor) -> torch.Tensor:
        """Metadata of a tensor."""
        with self.mode:
            return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)

    def remove_unused(self) -> int:
        """Erase constants that nothing reads; gives how many of the graph's own these were."""
        unused = [node for node in self.values if not node.users]
        for node in unused:
            del self.values[node]
            self.graph.erase_node(node)
        return len(unused)

    def copy_given(self) -> None:
        """Give constants that still lie in the program's memory memory of their own."""
        copies: dict[int, torch.UntypedStorage] = {}
        for node, tensor in self.values.items():
            storage = tensor.untyped_storage()
            key = storage.data_ptr()
            if key not in self.given or key == 0:
                continue
            if key not in copies:
                copies[key] = storage.clone()
            own = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            own.set_(copies[key], tensor.storage_offset(), tensor.size(), tensor.stride())  # type: ignore[call-overload]
            self.values[node] = own
            node.target = self._store(own)

    def _store(self, tensor: torch.Tensor) -> str:
        """The name of a new attribute that holds the tensor."""
        while hasattr(self.gm, f"frozen_{self._count}"):
            self._count += 1
        setattr(self.gm, f"frozen_{self._count}", tensor)
        return f"frozen_{self._count}"


def only_reader(node: Node) -> Node | None:
    """The node that reads `node`, where it is one."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def _writes(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _is_fake(tensor: torch.Tensor) -> bool:
    return detect_fake_mode([tensor]) is not None
