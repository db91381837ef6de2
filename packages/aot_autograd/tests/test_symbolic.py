"""Symbolic sizes: one trace serves all sizes, forward and backward."""

import pytest
import torch
import torch.nn.functional as F
from aot_testing import keep_graph
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from triptych_aot_autograd import aot_backend, trace_joint

DYNAMIC, STATIC = DimDynamic.DYNAMIC, DimDynamic.STATIC


class Sizes:
    """Fake example inputs of one shape environment, with chosen dimensions symbolic."""

    def __init__(self):
        self.env = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self.env)

    def tensor(self, *size, dynamic=(), requires_grad=True):
        real = torch.randn(*size).requires_grad_(requires_grad)
        dims = [DYNAMIC if i in dynamic else STATIC for i in range(len(size))]
        return self.mode.from_tensor(real, symbolic_context=StatelessSymbolicContext(dims))


def compile_symbolic(fn, *examples):
    gm = torch.fx.symbolic_trace(fn)
    return aot_backend(keep_graph)(gm, list(examples))


def check(fn, compiled, *sizes):
    leaves = [torch.randn(*s, requires_grad=True) for s in sizes]
    expected, found = fn(*leaves), compiled(*leaves)
    torch.testing.assert_close(found, expected)
    assert [o.stride() for o in found] == [o.stride() for o in expected]
    tangents = [torch.randn_like(o) for o in expected]
    torch.testing.assert_close(
        torch.autograd.grad(found, leaves, tangents), torch.autograd.grad(expected, leaves, tangents)
    )


PROGRAMS = {
    "views and a product": lambda x, w: (F.gelu(x @ w).view(-1), (x.transpose(0, 1) * 2).sum(0)),
    "half of the rows": lambda x, w: ((x @ w)[: x.shape[0] // 2].exp(), x.reshape(x.shape[0] * x.shape[1])),
    "mean over a symbolic dimension": lambda x, w: ((x @ w).mean(0), x / x.shape[0]),
    "softmax": lambda x, w: ((x @ w).softmax(-1), torch.cat([x, x], 0)),
    "views of an intermediate": lambda x, w: ((y := x @ w).view(-1), y.view(x.shape[0] * 2, -1)),
    "a bias that broadcasts": lambda x, w: (torch.baddbmm((x[:1] @ w)[None], x[None], w[None]), x * 2),
    "view of an input": lambda x, w: (x.view(x.shape[0] * 2, -1), x @ w),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_trace_serves_all_sizes(name):
    fn = PROGRAMS[name]
    sizes = Sizes()
    compiled = compile_symbolic(fn, sizes.tensor(6, 8, dynamic=(0,)), sizes.tensor(8, 4))
    for rows in (6, 4, 10):
        check(fn, compiled, (rows, 8), (8, 4))


def test_sizes_as_inputs():
    """Front ends pass sizes as inputs of their own, in front of the tensors."""
    sizes = Sizes()
    x = sizes.tensor(6, 8, dynamic=(0,))
    gm = torch.fx.symbolic_trace(lambda s, x: ((x * 2).view(s * 2, 4), x.sum() * s))
    forward = []
    compiled = aot_backend(lambda g, _: forward.append(g) or g)(gm, [x.shape[0], x])
    assert not any("sym_size" in str(n.target) for n in forward[0].graph.nodes)
    for rows in (6, 3):
        real = torch.randn(rows, 8, requires_grad=True)
        out, total = compiled(rows, real)
        torch.testing.assert_close(out, (real * 2).view(rows * 2, 4))
        (out.sum() + total).backward()
        torch.testing.assert_close(real.grad, torch.full((rows, 8), 2.0 + rows))


def test_mutated_buffer_of_symbolic_size():
    sizes = Sizes()
    fn = lambda b, x: (b.add_(x), b[: b.shape[0] // 2] * 2)  # noqa: E731
    compiled = compile_symbolic(fn, *[sizes.tensor(6, 8, dynamic=(0,), requires_grad=False) for _ in range(2)])
    for rows in (6, 4):
        b, x = torch.zeros(rows, 8), torch.ones(rows, 8)
        compiled(b, x)
        torch.testing.assert_close(b, x)


def test_values_carry_symbols():
    sizes = Sizes()
    joint = trace_joint(lambda x: x.sin().view(-1), sizes.tensor(6, 8, dynamic=(0,)))
    (view,) = [n for n in joint.graph.nodes if n.target is torch.ops.aten.view.default and n.meta["phase"] == "forward"]
    assert str(view.meta["val"].shape[0].node.expr) == f"8*{joint.primals[0].meta['val'].shape[0]}"


def test_sizes_that_depend_on_numbers():
    joint = trace_joint(lambda x: x[x > 0] * 2, torch.randn(5))
    fn = joint.compile(keep_graph)
    x = torch.tensor([1.0, -1, 2, -2, 3])
    torch.testing.assert_close(fn(x)[0], torch.tensor([2.0, 4, 6]))
