"""Parameters and buffers of captured graphs: their names in the module, and graphs that own them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import fx

from triptych_dynamo.sources import InstanceDictSource, ItemSource, LocalSource, Source

_TABLES = ("_parameters", "_buffers", "_modules")


def qualified_name(source: Source) -> tuple[Source, str] | None:
    """The module at which a path of attributes begins, and the dotted name from there; None for other paths.

    `L['self']._modules['fc']._parameters['weight']` gives `(L['self'], "fc.weight")`.
    """
    names: list[str] = []
    while not isinstance(source, LocalSource):
        table = source.base
        if not isinstance(source, ItemSource) or not isinstance(table, (ItemSource, InstanceDictSource)):
            break
        if isinstance(table, ItemSource):
            if table.key not in _TABLES or not isinstance(table.base, InstanceDictSource):
                break
            table = table.base
        names.append(str(source.key))
        assert table.base is not None
        source = table.base
    return (source, ".".join(reversed(names))) if names else None


def attribute_names(sources: Mapping[str, Source]) -> dict[str, str]:
    """Placeholder -> dotted name, of the tensors that modules own; all modules but the first have a prefix."""
    found = {name: qualified_name(source) for name, source in sources.items()}
    roots = list(dict.fromkeys(item[0] for item in found.values() if item is not None))
    names = {}
    for name, item in found.items():
        if item is not None:
            root, dotted = item
            names[name] = dotted if root == roots[0] else f"module{roots.index(root)}.{dotted}"
    return names


def with_attributes(module: fx.GraphModule, tensors: Mapping[str, tuple[str, torch.Tensor]]) -> fx.GraphModule:
    """A copy of the graph in which placeholders are attributes.

    Args:
        module: the captured graph.
        tensors: placeholder -> (dotted attribute name, tensor; a Parameter is registered as one).
    """
    root = torch.nn.Module()
    for dotted, tensor in tensors.values():
        _register(root, dotted, tensor)
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in module.graph.nodes:
        if node.op == "placeholder" and node.name in tensors:
            copies[node] = graph.get_attr(tensors[node.name][0])
            copies[node].meta = dict(node.meta)
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    made = fx.GraphModule(root, graph)
    made.meta.update(module.meta)
    return made


def _register(root: torch.nn.Module, dotted: str, tensor: torch.Tensor) -> None:
    *path, leaf = dotted.split(".")
    for part in path:
        if part not in root._modules:
            root.add_module(part, torch.nn.Module())
        root = root.get_submodule(part)
    if isinstance(tensor, torch.nn.Parameter):
        root.register_parameter(leaf, tensor)
    else:
        root.register_buffer(leaf, tensor)
