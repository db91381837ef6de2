"""Code of a program that runs while it is traced, and marks that keep functions out of graphs."""

import pytest
import torch
import triptych_dynamo as td
from triptych_dynamo import comptime

X = torch.ones(2, 3)


def compiled_with_graphs(fn, **settings):
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    return td.optimize(backend, **settings)(fn), graphs


# -- comptime ----------------------------------------------------------------------------------------------------------
def test_the_context():
    seen = {}

    def look(ctx):
        y = ctx.get_local("y")
        seen["fake"] = y.as_fake().shape, y.python_type(), y.is_proxy(), y.size(0), y.is_dynamic()
        seen["node"] = y.as_proxy().name in {node.name for node in ctx.graph().nodes}
        seen["constant"] = ctx.get_local("k").as_python_constant(), ctx.get_local("k").is_python_constant()
        seen["outer"] = ctx.get_local("text", stacklevel=1).as_python_constant()
        with pytest.raises(ValueError):
            ctx.get_local("y", stacklevel=5)

    def inner(x, k):
        y = x * k
        comptime(look)
        return y

    def fn(x):
        text = "outer"
        return inner(x, 2), text

    compiled, graphs = compiled_with_graphs(fn, fullgraph=True)
    assert torch.equal(compiled(X)[0], X * 2) and len(graphs) == 1
    assert seen == {
        "fake": (X.shape, torch.Tensor, True, 2, False),
        "node": True,
        "constant": (2, True),
        "outer": "outer",
    }
    seen.clear()
    compiled(X)
    assert not seen, "it runs while tracing alone"
    fn(X)
    assert not seen, "and not when the program runs"


def test_what_it_prints(capsys):
    def fn(x, n):
        y = x.sin() * n
        comptime.print(y)
        comptime.print(n)
        comptime.print_graph()
        comptime.print_locals()
        comptime.print_bt()
        comptime.print_guards()
        comptime.print_disas()
        comptime.print_value_stack()
        return y

    compiled, _ = compiled_with_graphs(fn, fullgraph=True)
    compiled(X, 3)
    text = capsys.readouterr().out
    for part in ("mul: FakeTensor", "\n3\n", "x.sin()", "n = 3", "test_trace_time.py", "L['n'] == 3", "RETURN"):
        assert part in text, part
    compiled(X, 3)
    assert capsys.readouterr().out == ""
    fn(X, 3)
    assert capsys.readouterr().out.startswith("tensor(")


def test_static_and_changing_numbers():
    def fn(x, check):
        n = x.shape[0]
        if check == "assert":
            comptime.assert_static(n)
            comptime.assert_static(x)
        if check == "force":
            comptime.force_static(x)
            comptime.assert_static(n)
        return x * n

    compiled, graphs = compiled_with_graphs(fn, dynamic=True, fullgraph=True)
    with pytest.raises(td.TraceTimeError, match="AssertionError in .*changes between calls"):
        compiled(X, "assert")
    compiled(X, "force"), compiled(torch.ones(5, 3), "force")
    assert len(graphs) == 2, "one graph for each size"
    compiled(X, ""), compiled(torch.ones(5, 3), "")
    assert len(graphs) == 3


def test_fallback_and_errors():
    calls = []

    def fn(x, fail):
        comptime(lambda ctx: 1 // 0 if fail else calls.append("traced"), lambda: calls.append("eager"))
        return x + 1

    compiled, _ = compiled_with_graphs(fn, fullgraph=True)
    compiled(X, False), fn(X, False)
    assert calls == ["traced", "eager"]
    with pytest.raises(td.TraceTimeError, match="ZeroDivisionError in") as caught:
        compiled(X, True)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


# -- functions kept out of graphs --------------------------------------------------------------------------------------
def helper(x):
    return x * 3


def test_disallow_in_graph():
    def own(x):
        return x * 3

    assert td.disallow_in_graph(own) is own

    def fn(x):
        return own(x + 1) - 1

    compiled, graphs = compiled_with_graphs(fn)
    assert torch.equal(compiled(X), fn(X)) and len(graphs) == 3, "before, the function's own, behind"
    with pytest.raises(td.GraphBreakError, match="disallow_in_graph"):
        td.optimize("eager", fullgraph=True)(fn)(X)
    with pytest.raises(TypeError, match="a function is expected"):
        td.disallow_in_graph(3)


def test_disallow_a_function_of_torch():
    def fn(x):
        return torch.lgamma(x + 1) - 1

    before = dict(td.steering.MARKED)
    try:
        assert td.disallow_in_graph([torch.lgamma]) == [torch.lgamma]
        compiled, graphs = compiled_with_graphs(fn)
        assert torch.equal(compiled(X), fn(X))
        assert not any("lgamma" in str(graph.graph) for graph in graphs) and len(graphs) == 2
    finally:
        td.steering.MARKED.clear()
        td.steering.MARKED.update(before)


def test_forbid_in_graph():
    def own(x):
        return x * 3

    td.forbid_in_graph(own)
    compiled, _ = compiled_with_graphs(lambda x: own(x))
    with pytest.raises(td.GraphBreakError, match="forbidden in compiled code"):
        compiled(X)
    assert torch.equal(own(X), X * 3)


def test_step_unsupported():
    """The rest of the function and of its callers runs as it is, loops included; what they call is compiled."""

    def inner(x):
        y = x.sin()
        td.step_unsupported("enough")
        for _ in range(3):
            y = helper(y).cos()
        return y

    def fn(x):
        return inner(x + 1).exp()

    compiled, graphs = compiled_with_graphs(fn)
    for _ in range(2):
        assert torch.equal(compiled(X), fn(X))
    text = "\n".join(str(graph.graph) for graph in graphs)
    assert "sin" in text and "exp" not in text and "cos" not in text
    assert any("* 3" in graph.code for graph in graphs), "what it calls is compiled"
    with pytest.raises(td.GraphBreakError, match="enough"):
        td.optimize("eager", fullgraph=True)(fn)(X)
