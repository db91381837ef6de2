"""Floats that only the run knows lie on the device whose kernels load them."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from triptych_inductor import Options
from triptych_inductor.ir.extents import hint
from triptych_inductor.lowering.graph import lower
from triptych_inductor.schedule.program import schedule
from triptych_inductor.wrapper.emit import emit

aten = torch.ops.aten


def wrapper_of(number_on: str, tensor_on: str) -> str:
    """The wrapper of `tensor * number.item()` on fake devices."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    graph = Graph()
    with mode:
        number, tensor = graph.placeholder("number"), graph.placeholder("tensor")
        number.meta["val"] = torch.empty((), device=number_on)
        tensor.meta["val"] = torch.empty(10, device=tensor_on)
        item = graph.call_function(aten._local_scalar_dense.default, (number,))
        item.meta["val"] = aten._local_scalar_dense.default(number.meta["val"])
        product = graph.call_function(aten.mul.Tensor, (tensor, item))
        product.meta["val"] = aten.mul.Tensor(tensor.meta["val"], item.meta["val"])
    graph.output((product,))
    options = Options()
    lowered = lower(GraphModule(torch.nn.Module(), graph), options)
    return emit(schedule(lowered, options, lambda e: hint(e, lowered.hints)), options)[0]


@pytest.mark.parametrize("number_on", ["cpu", "cuda"])
def test_the_number_lies_where_the_kernel_runs(number_on: str) -> None:
    text = wrapper_of(number_on, "cuda")
    assert "kernel_0(" in text
    line = next(row for row in text.splitlines() if "scalar_tensor(zuf0" in row)
    assert "cuda" in line


def test_a_kernel_elsewhere_is_left_to_the_library() -> None:
    text = wrapper_of("cuda", "cpu")
    assert "kernel_0(" not in text and "mul_Tensor(" in text
