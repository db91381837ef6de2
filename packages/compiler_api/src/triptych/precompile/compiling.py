"""Between graphs and kernels: how precompiled programs use the code generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triptych_inductor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from triptych_inductor import CompiledGraph


def compile_graph(gm: GraphModule, example_inputs: Sequence[Any]) -> CompiledGraph:
    """The kernels of an ATen graph."""
    with torch.no_grad():
        return triptych_inductor.compile(gm, example_inputs)


def boxed_call(compiled: CompiledGraph) -> Callable[[list[Any]], Any]:
    """The graph as a callable of one list, which it empties."""

    def run(args: list[Any]) -> Any:
        return compiled.call(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def examples(described: Sequence[Any]) -> list[Any]:
    """Fake tensors of descriptions as `source.inputs_of` gives them; symbols become sizes of unknown value."""
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    symbols: dict[str, Any] = {}

    def number(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        product: Any = 1
        for factor in value.split("*"):
            if factor.isdigit():
                product = product * int(factor)
            else:
                product = product * (symbols.get(factor) or symbols.setdefault(factor, env.create_unbacked_symint()))
        return product

    def made(item: Any) -> Any:
        if not isinstance(item, list):
            return number(item)
        size, stride, dtype, device = item
        with mode:
            sizes, strides = [number(n) for n in size], [number(n) for n in stride]
            return torch.empty_strided(sizes, strides, dtype=getattr(torch, dtype), device=device)

    return [made(item) for item in described]
