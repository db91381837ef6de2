"""Bodies of higher-order operators (the branches of `cond`, the steps of `while_loop`) as functions of the wrapper.

A body is an ATen graph. Written as Python text, it travels with the wrapper's source, so that graphs which call it can
be stored like any other.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from triptych_inductor.ir.nodes import map_leaves

OWNERS: dict[str, Any] = {"operator": operator, "math": math, "torch": torch}
"""Modules whose functions a body may call by name."""


class Printed:
    """Text that prints without quotes, so that containers of it print as code."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


class Bodies:
    """The bodies of one wrapper, each written once.

    target, constant: the wrapper's text of a function and of a constant.
    """

    def __init__(self, target: Callable[[Any], str], constant: Callable[[Any], str]) -> None:
        self._target, self._constant = target, constant
        self._names: dict[int, tuple[GraphModule, str]] = {}
        self.functions: list[str] = []

    def name_of(self, body: GraphModule) -> str:
        """The name of the function that runs a body."""
        if id(body) not in self._names:
            name = f"body_{len(self._names)}"
            self._names[id(body)] = body, name
            local = {node: f"v{number}" for number, node in enumerate(body.graph.nodes)}
            lines = "\n".join(f"    {line}" for line in self._lines(body, local))
            parameters = ", ".join(local[node] for node in body.graph.nodes if node.op == "placeholder")
            self.functions.append(f"\n\ndef {name}({parameters}):\n{lines}\n")
        return self._names[id(body)][1]

    def text(self) -> str:
        """All functions."""
        text = "".join(self.functions)
        return f"import operator\n{text}" if "operator." in text else text

    def _lines(self, body: GraphModule, local: dict[Node, str]) -> Iterator[str]:
        last = {used: node for node in body.graph.nodes for used in node.all_input_nodes}
        for node in body.graph.nodes:
            if node.op == "output":
                yield f"return {self._argument(node.args[0], local)}"
            elif node.op == "get_attr":
                held: Any = getattr(body, str(node.target))
                yield f"{local[node]} = {self._constant(held)}"
            elif node.op != "placeholder":
                yield f"{local[node]} = {self._call(node, local)}"
            free = [local[used] for used in node.all_input_nodes if last[used] is node]
            if free and node.op != "output":
                yield f"del {', '.join(free)}"

    def _call(self, node: Node, local: dict[Node, str]) -> str:
        args = [self._argument(arg, local) for arg in node.args]
        args += [f"{key}={self._argument(arg, local)}" for key, arg in node.kwargs.items()]
        if node.target is operator.getitem:
            return f"{args[0]}[{args[1]}]"
        name = getattr(node.target, "__name__", "")
        owner = next((o for o, module in OWNERS.items() if getattr(module, name, None) is node.target), None)
        function = f"{owner}.{name}" if owner is not None else self._target(node.target)
        return f"{function}({', '.join(args)})"

    def _argument(self, argument: Any, local: dict[Node, str]) -> str:
        def spelled(leaf: Any) -> Printed:
            return leaf if isinstance(leaf, Printed) else Printed(self._constant(leaf))

        return repr(map_leaves(spelled, map_arg(argument, lambda node: Printed(local[node]))))
