"""Pass `attach_values`: gives every node its `meta["val"]`.

In: a recorded graph whose nodes carry `meta["facts"]` (a template of `Facts`). Out: the same graph; `meta["val"]` is
a fake tensor, a
symbolic number, a Python number, or a nest of those. Values of view ops share the storage of their source's value.
"""

from __future__ import annotations

from typing import Any

from torch.fx import Graph, Node

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.tracing.facts import Facts


def attach_values(graph: Graph, mode: compat.FakeTensorMode) -> None:
    """Compute `meta["val"]` for all nodes that have facts."""
    for node in graph.nodes:
        if "facts" not in node.meta:
            continue
        source = None
        if node.op == "call_function":
            if node.target is compat.getitem:
                node.meta["val"] = node.args[0].meta["val"][node.args[1]]
                continue
            if compat.is_view_target(node.target):
                source = node.args[0].meta.get("val")
        node.meta["val"] = _value(node.meta["facts"], mode, source)


def _value(template: Any, mode: compat.FakeTensorMode, source: Any) -> Any:
    if type(template) is Facts:
        if source is not None and not template.symbolic:
            return compat.fake_view(mode, source, template.size, template.stride, template.offset, template.dtype)
        return template.fresh_fake(mode)
    if isinstance(template, (list, tuple)):
        return type(template)(_value(t, mode, source) for t in template)
    return template


def value_of(argument: Any) -> Any:
    """The value of a node argument."""
    return argument.meta.get("val") if isinstance(argument, Node) else argument
