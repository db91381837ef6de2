"""Functional forms of ops that write: called on memory of the graph's own, without needless copies."""

import torch
import triptych_inductor
from torch.fx.experimental.proxy_tensor import make_fx

LIBRARY = "triptych_inductor_tests"
torch.library.define(f"{LIBRARY}::double_into", "(Tensor x, Tensor(a!) out, int times) -> ()")
torch.library.define(f"{LIBRARY}::double_into_functional", "(Tensor x, Tensor out, int times) -> Tensor")


def _double_into(x, out, times):
    out[: len(x)] = x * times


def _functional(x, out, times):
    fresh = out.clone()
    _double_into(x, fresh, times)
    return fresh


torch.library.impl(f"{LIBRARY}::double_into", "CompositeExplicitAutograd", _double_into)
torch.library.impl(f"{LIBRARY}::double_into_functional", "CompositeExplicitAutograd", _functional)
torch.library.register_fake(f"{LIBRARY}::double_into_functional", lambda x, out, times: out.clone())
OP = getattr(torch.ops, LIBRARY).double_into_functional.default
OP.writing_op = getattr(torch.ops, LIBRARY).double_into.default


def compiled(function, *inputs):
    gm = make_fx(function, tracing_mode="fake")(*inputs)
    made = triptych_inductor.compile(gm, [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"])
    given = [t.clone() for t in inputs]
    got, want = made(*given), function(*inputs)
    torch.testing.assert_close((got, given), (want, list(inputs)))
    assert "double_into(" in made.source and "functional(" not in made.source
    return made


def test_fresh_memory_is_written_where_it_lies():
    made = compiled(lambda x: OP(x, torch.zeros(8), 3) + 1, torch.randn(8))
    assert len(made.kernels) == 2  # the zeros, and the addition
    assert not compiled(lambda x: OP(x, torch.empty_like(x), 3), torch.randn(8)).kernels


def test_what_others_read_is_copied():
    def function(x, y):
        shared = torch.zeros(8)
        return OP(x, y, 3), OP(x, shared, 2), shared + y

    compiled(function, torch.randn(8), torch.randn(8))


def test_views_keep_their_base():
    def function(x, y):
        base = y * 2
        return OP(x, base[2:], 3), base

    compiled(function, torch.randn(4), torch.randn(8))


def test_one_after_the_other():
    compiled(lambda x, y: OP(x, OP(x, y, 3), 2) + y, torch.randn(4), torch.randn(8))


def test_two_writes_into_copies_of_one_tensor_stay_apart():
    """The parts of a decomposed op may write through a view: what they write into is no common subexpression."""

    def program(x):
        zeros = torch.zeros(2, 6)
        first = torch.diagonal_scatter(zeros, x[:2], 0)
        second = torch.diagonal_scatter(zeros, x[:2], 2)
        return first * 2, second * 2

    x = torch.randn(4)
    gm = make_fx(program, tracing_mode="fake")(x)
    made = triptych_inductor.compile(gm, [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"])
    torch.testing.assert_close(tuple(made(x)), program(x))
