"""`disable`, `allow_in_graph`, `assume_constant_result`, `substitute_in_graph` and `is_compiling`."""

from __future__ import annotations

import pytest
import torch
import triptych_dynamo as td


def test_is_compiling() -> None:
    def fn(x: torch.Tensor) -> tuple[bool, bool, bool]:
        return td.is_compiling(), torch.compiler.is_compiling(), torch.compiler.is_dynamo_compiling()

    assert fn(torch.ones(1)) == (False, False, False)
    assert td.optimize("eager", fullgraph=True)(fn)(torch.ones(1)) == (True, True, True)
    assert fn(torch.ones(1)) == (False, False, False)


def test_disable() -> None:
    inside: list[bool] = []

    @td.disable
    def plain(x: torch.Tensor) -> torch.Tensor:
        inside.append(td.is_compiling())
        return x * 2

    def fn(x: torch.Tensor) -> torch.Tensor:
        return plain(x + 1) + 1

    compiled = td.optimize("eager")(fn)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 5.0))
    assert inside == [False]
    with pytest.raises(td.GraphBreakError, match="disabled"):
        td.optimize("eager", fullgraph=True)(fn)(torch.ones(2))


def _opaque(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x + 1
    return x


def test_allow_in_graph() -> None:
    def leaf(x: torch.Tensor) -> torch.Tensor:
        assert not td.is_compiling()
        return x * 3

    td.allow_in_graph(leaf)
    explanation = td.explain(lambda x: leaf(x) + 1)(torch.ones(2))
    assert explanation.graph_break_count == 0
    assert leaf in [node.target for node in explanation.graphs[0].graph.nodes]


def test_assume_constant_result_and_substitute() -> None:
    calls: list[int] = []

    @td.assume_constant_result
    def constant(n: int) -> int:
        calls.append(n)
        return n + 1

    compiled = td.optimize("eager", fullgraph=True)(lambda x: x * constant(3))
    x = torch.ones(2)
    assert torch.equal(compiled(x), x * 4) and torch.equal(compiled(x), x * 4)
    assert calls == [3]

    @td.substitute_in_graph(_opaque)
    def replacement(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x.sum() > 0, x + 1, x)

    assert torch.equal(td.optimize("eager", fullgraph=True)(lambda x: _opaque(x))(x), x + 1)
