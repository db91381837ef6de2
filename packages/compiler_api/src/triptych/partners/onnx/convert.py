"""Walks an ATen graph and applies the rule of each operator."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import onnx
import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from triptych.partners.onnx import elementwise, products, reductions, shapes
from triptych.partners.onnx.builder import ONNX_TYPES, Builder, UnsupportedError, Value

Rule = Callable[..., Any]  # (builder, results as torch gives them, *args, **kwargs) -> Value or list of them
RULES: dict[Any, Rule] = elementwise.RULES | products.RULES | reductions.RULES | shapes.RULES


def convert(gm: GraphModule) -> onnx.ModelProto:
    """The ONNX model of a static, functional ATen graph whose nodes carry `meta["val"]`.

    Raises: UnsupportedError for an operator, or a form of it, without a rule.
    """
    builder, values = Builder(), dict[Node, Any]()
    inputs: list[Value] = []
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            values[node] = _described(node.name, node.meta["val"])
            inputs.append(values[node])
        elif node.op == "output":
            results = [_output(builder, values[n]) for n in node.args[0]]
        else:
            values[node] = _apply(builder, node, values)
    return builder.model(inputs, results)


def _apply(builder: Builder, node: Node, values: dict[Node, Any]) -> Any:
    args = map_arg(node.args, lambda n: values[n])
    kwargs = map_arg(node.kwargs, lambda n: values[n])
    if node.target is operator.getitem:
        return args[0][args[1]]
    rule = RULES.get(node.target)
    if rule is None:
        raise UnsupportedError(f"no conversion rule for {node.target}")
    made = rule(builder, _expected(node.meta["val"]), *args, **kwargs)
    _check(node, made)
    return made


def _expected(val: Any) -> Any:
    return [_expected(v) for v in val] if isinstance(val, (list, tuple)) else _described("", val)


def _described(name: str, val: Any) -> Value:
    if not isinstance(val, torch.Tensor):
        return Value(name, torch.float32, ())  # a result that is left out, such as the gradient of no bias
    if val.dtype not in ONNX_TYPES:
        raise UnsupportedError(f"no {val.dtype} in ONNX")
    return Value(name, val.dtype, tuple(val.shape))


def _check(node: Node, made: Any) -> None:
    """A rule that gives another dtype or size than torch is wrong for this form of the operator."""
    for value, val in (
        zip(made, node.meta["val"], strict=True) if isinstance(made, list) else [(made, node.meta["val"])]
    ):
        if value is not None and (value.dtype, value.shape) != (val.dtype, tuple(val.shape)):
            raise UnsupportedError(
                f"{node.target}: {value.dtype}{value.shape} where torch gives {val.dtype}{val.shape}"
            )


def _output(builder: Builder, value: Value) -> Value:
    """A name of its own for each result: a value may be returned twice, or be an input or a constant."""
    return builder.like("Identity", value, value)
