"""Programs with graph breaks: eager's results, and eager's side effects in eager's order."""

import pytest
import torch
import triptych
import triptych_dynamo

LOG = []


@triptych.compiler.disable
def unsupported(x, step):
    LOG.append(("unsupported", step, float(x.sum())))
    return x + step


class Held:
    """A context manager that notes when it is entered and left."""

    def __enter__(self):
        LOG.append("enter")
        return 2.0

    def __exit__(self, *error):
        LOG.append(("exit", error[0]))
        return False


def three_breaks(x, notes):
    y = torch.relu(x) * 2
    print("first", tuple(y.shape))
    notes.append("printed")
    for step in range(3):
        y = unsupported(y.sin(), step) + 1
        notes.append(step)
    with Held() as factor:
        y = y * factor
        print("inside")
        y = y.cos()
    notes.append("done")
    return y, y.sum()


def run(function, x, capsys):
    LOG.clear()
    notes = []
    result = function(x, notes)
    return result, notes, list(LOG), capsys.readouterr().out


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_three_breaks(backend, capsys):
    x = torch.randn(5, 7)
    compiled = triptych.compile(three_breaks, backend=backend)
    wanted = run(three_breaks, x, capsys)
    for _ in range(2):
        got = run(compiled, x, capsys)
        torch.testing.assert_close(got[0], wanted[0])
        assert got[1] == wanted[1]
        assert got[3] == wanted[3]
        assert [entry if isinstance(entry, str) else entry[:2] for entry in got[2]] == [
            entry if isinstance(entry, str) else entry[:2] for entry in wanted[2]
        ]
    assert len(triptych.report(compiled).graphs) > 1


def test_gradients_flow_through_breaks():
    def program(x):
        y = x.exp()
        triptych_dynamo.graph_break()
        return (y * x).sum()

    grads = []
    for fn in (triptych.compile(program), program):
        x = torch.linspace(-1, 1, 10).requires_grad_()
        fn(x).backward()
        grads.append(x.grad)
    torch.testing.assert_close(*grads)


def test_exception_inside_a_held_context(capsys):
    def program(x):
        with Held():
            print("inside")
            raise ValueError("mine")

    for fn in (program, triptych.compile(program, backend="eager")):
        LOG.clear()
        with pytest.raises(ValueError, match="mine"):
            fn(torch.ones(1))
        assert LOG == ["enter", ("exit", ValueError)]


def test_fullgraph_tells_the_line_the_reason_and_a_hint():
    def program(x):
        y = x + 1
        triptych_dynamo.graph_break()
        return y

    with pytest.raises(RuntimeError) as caught:
        triptych.compile(program, fullgraph=True)(torch.ones(2))
    text = str(caught.value)
    line = program.__code__.co_firstlineno + 2
    assert "DYN" in text and f"test_breaks.py:{line}" in text and "hint" in text
    torch.testing.assert_close(triptych.compile(program)(torch.ones(2)), torch.full((2,), 2.0))
