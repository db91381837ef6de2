"""`capture`, `capture_all` and `explain`."""

from __future__ import annotations

import pytest
import torch
import triptych_dynamo as td
from torch import fx


class Net(torch.nn.Module):
    """A small module with a buffer that it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)
        self.register_buffer("calls", torch.zeros(()))
        self.log: list[str] = []

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> dict[str, torch.Tensor]:
        self.log.append("forward")
        self.calls.add_(1)
        return {"out": self.fc(x).relu() * scale}


def test_capture_runs_nothing() -> None:
    net, x = Net(), torch.ones(2, 3)
    captured = td.capture(net)(x, scale=2.0)
    assert net.log == [] and net.calls.item() == 0
    assert isinstance(captured.graph_module, fx.GraphModule)
    sources = set(captured.inputs.values())
    assert any("weight" in source for source in sources) and len(captured.inputs) == 4
    assert len(captured.outputs) == 1
    assert "relu" in captured.python_code()
    assert any(guard.kind == "tensor" for guard in captured.guards)


def test_captured_graph_is_called_like_the_function() -> None:
    net, x = Net(), torch.ones(2, 3)
    captured = td.capture(net)(x, scale=2.0)
    result = captured(x, scale=2.0)
    assert net.log == ["forward"] and net.calls.item() == 1
    assert torch.equal(result["out"], net.fc(x).relu() * 2)
    with pytest.raises(td.GuardViolation, match="expected 2, got 5") as caught:
        captured(torch.ones(5, 3), scale=2.0)
    assert caught.value.guard.kind == "tensor"
    with pytest.raises(td.GuardViolation):
        captured(x, scale=3.0)


def test_capture_with_symbolic_sizes() -> None:
    captured = td.capture(lambda x: x.reshape(-1) * x.shape[0], dynamic=True)(torch.ones(4, 3))
    for rows in (2, 7):
        x = torch.ones(rows, 3)
        assert torch.equal(captured(x), x.reshape(-1) * rows)


def test_capture_refuses_breaks() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum().item() > 0 else x

    with pytest.raises(td.GraphBreakError) as caught:
        td.capture(fn)(torch.ones(2))
    assert caught.value.reason.user_line.endswith(f"test_capture.py:{fn.__code__.co_firstlineno + 1}")


def test_capture_of_a_function_without_tensors() -> None:
    captured = td.capture(lambda a, b: a + b)(1, 2)
    assert captured(1, 2) == 3
    assert captured.inputs == {} and captured.outputs == []


def test_capture_all_and_explain() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        td.graph_break("one")
        x = x * 2
        td.graph_break("two")
        return x - 1

    pieces = td.capture_all(fn)(torch.ones(2))
    assert [reason.reason if reason else None for _, reason in pieces] == ["one", "two", None]
    assert [[n.name for n in gm.graph.nodes if n.op == "call_function"] for gm, _ in pieces] == [
        ["add"],
        ["mul"],
        ["sub"],
    ]
    explanation = td.explain(fn)(torch.ones(2))
    assert (explanation.graph_count, explanation.graph_break_count, explanation.op_count) == (3, 2, 3)
    assert torch.equal(explanation.result, torch.full((2,), 3.0))
    text = str(explanation)
    assert "3 graphs, 2 graph breaks" in text and "test_capture.py:" in text


def test_unused_inputs_and_dead_code_leave_the_graph() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        _ = y * 100
        x.sin()
        return x + 1

    captured = td.capture(fn)(torch.ones(2), torch.ones(3))
    assert list(captured.inputs.values()) == ["L['x']"]
    assert [node.op for node in captured.graph_module.graph.nodes] == ["placeholder", "call_function", "output"]


def test_one_placeholder_for_one_tensor() -> None:
    weight = torch.ones(2)
    holder = [weight, {"w": weight}]
    captured = td.capture(lambda h, x: h[0] * x + h[1]["w"])(holder, torch.ones(2))
    assert len(captured.inputs) == 2
    assert any(guard.kind == "same_as" for guard in captured.guards)
