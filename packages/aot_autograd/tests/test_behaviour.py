"""Views, in-place changes, aliases and random draws behave as in eager: values, gradients, aliasing, versions."""

import pytest
import torch
import torch.nn.functional as F
from aot_testing import check_against_eager, grad, plain
from triptych_aot_autograd import aot_function, default_partition, min_cut_partition


def no_grad_view(x):
    with torch.no_grad():
        y = x * 2
        v = y[0]
    return v, x * y


class Halved(torch.autograd.Function):
    """Its argument as it is; half of the gradient."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 0.5


class HalvedRow(Halved):
    """The same, as one row."""

    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad.view(3, 4) * 0.5


PROGRAMS = {
    "mutate plain input": (lambda x, y: (x.add_(1) * y).sum(), plain(3, 4), grad(3, 4)),
    "mutate input with history": (lambda x, y: x.mul_(y).sum(), grad(3, 4), grad(3, 4)),
    "mutate views of input": (lambda x, y: (x[0].mul_(y[0]), x.t()[1].add_(2), x + 1)[2], grad(3, 4), grad(3, 4)),
    "views of input returned": (lambda x: (x.t(), x, x[0]), grad(3, 4)),
    "base and views of intermediate": (lambda x: ((y := x * 2).t(), y[0], y), grad(3, 4)),
    "views of hidden intermediate": (lambda x: ((y := x * 2).t(), y[0]), grad(3, 4)),
    "metadata change": (lambda x: x.t_() + 1, plain(3, 4)),
    "metadata and data change": (lambda x: x.t_().add_(1) + 1, plain(3, 4)),
    "one tensor returned twice": (lambda x: ((y := x * 2), y, y.detach()), grad(3, 4)),
    "dropout": (lambda x: F.dropout(x, 0.5) * x, grad(3, 4)),
    "batch norm": (
        lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, training=True),
        *(grad(3, 4), plain(4), lambda: torch.rand(4), grad(4), grad(4)),
    ),
    "literals": (lambda x: x * torch.tensor(2.0) + torch.ones(4), grad(3, 4)),
    "plain input gets a history": (lambda b, w: b.copy_(w * 2), plain(3, 4), grad(3, 4)),
    "zero_": (lambda x: (x.zero_(), x + 1)[1], plain(3, 4)),
    "out=": (lambda x, y: torch.add(x, y, out=torch.empty(3, 4)), plain(3, 4), plain(3, 4)),
    "out= grows": (lambda x, y: torch.add(x, y, out=torch.empty(0)), plain(3, 4), plain(3, 4)),
    "index_put_": (lambda x, y: (x.index_put_((torch.tensor([0, 1]),), y), x * 2)[1], grad(3, 4), grad(2, 4)),
    "setitem": (lambda x, y: (x.__setitem__((slice(None), 1), y), x * 2)[1], grad(3, 4), grad(3)),
    "expanded input": (lambda x: x.expand(5, 3, 4), grad(3, 4)),
    "expanded intermediate": (lambda x: (x + 1).expand(5, 3, 4), grad(3, 4)),
    "split intermediate": (lambda x: (x * 2).split(2, dim=1), grad(3, 4)),
    "split input": (lambda x: x.split(2, dim=1), grad(3, 4)),
    "mutated chunks": (lambda x: [c.mul_(2) for c in x.clone().chunk(2)], plain(4, 4)),
    "detach": (lambda x: (x.detach() + 1, x * 2), grad(3, 4)),
    "view under no_grad": (no_grad_view, grad(3, 4)),
    "integers and None": (lambda x: (x.argmax(), x.sum(), 3, None), grad(3, 4)),
    "convolution": (lambda x, w, b: F.conv2d(x, w, b, padding=1).relu(), grad(2, 3, 8, 8), grad(4, 3, 3, 3), grad(4)),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *[grad(2, 2, 8, 16)] * 3),
    "layer norm": (lambda x, w: F.gelu(F.layer_norm(x, (4,), w)).softmax(-1), grad(3, 4), grad(4)),
    "embedding and loss": (
        lambda w: F.cross_entropy(F.embedding(torch.tensor([1, 2]), w), torch.tensor([0, 1])),
        grad(3, 4),
    ),
    "foreach": (lambda x, y: torch._foreach_add_([x, y], 1.0), plain(3, 4), plain(3, 4)),
    "numbers of two tensors": (
        lambda x, v, w: torch.addcdiv(x.add(x, alpha=v.sum()), x, x + 9, value=w.sum()),
        *[plain(4)] * 3,
    ),
    "lengths of two tensors": (lambda x, y: x[x > 0].sum() + y[y > 0.5].sum(), plain(9), plain(9)),
    "complex": (lambda x: torch.view_as_complex(x).conj().abs(), grad(3, 2)),
    "relu_": (lambda x: F.relu(x * 2, inplace=True), grad(3, 4)),
    "draws in order": (lambda x: x + torch.randn(3, 4) + torch.rand_like(x) + torch.empty(3, 4).uniform_(), grad(3, 4)),
    "bernoulli_": (lambda x: x * torch.empty(3, 4).bernoulli_(0.5), grad(3, 4)),
    "unused input": (lambda x, y: x * 2, grad(3, 4), grad(3, 4)),
    "identity": (lambda x: x, grad(3, 4)),
    "nothing": (lambda x: None, grad(3, 4)),
    "fill_diagonal_": (lambda x: x.fill_diagonal_(0), plain(4, 4)),
    "mutated diagonal": (lambda x: x.diagonal().add_(1), plain(4, 4)),
    "unfold": (lambda x: x.unfold(0, 2, 1), grad(4, 4)),
    "mutated as_strided": (lambda x: x.as_strided((2, 2), (4, 1), 1).mul_(2), plain(4, 4)),
    "masked_fill_": (lambda x: x.clone().masked_fill_(x > 0, 0.0), grad(4, 4)),
    "scan and maximum": (lambda x: x.cumsum(0) + x.max(1)[0], grad(4, 4)),
    "own backward of an input": (lambda x: Halved.apply(x), grad(3, 4)),
    "own backward of a view of an input": (lambda x: (HalvedRow.apply(x), Halved.apply(x.t()), x), grad(3, 4)),
    "own backward of an input, view of it": (lambda x: Halved.apply(x).t(), grad(3, 4)),
    "own backward of a shared value": (lambda x: ((y := x * 2), Halved.apply(y), y.t()), grad(3, 4)),
    "own backward before views": (lambda x: ((y := Halved.apply(x * 2)), y.t()), grad(3, 4)),
    "own backward before a mutation": (lambda x, y: (x.copy_(Halved.apply(y)), x[0]), grad(3, 4), grad(3, 4)),
    "mutated detached alias": (lambda x: ((y := x * 2), y.detach().add_(1))[1], grad(4, 4)),
}


@pytest.mark.parametrize("partition_fn", [default_partition, min_cut_partition])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, partition_fn):
    fn, *makers = PROGRAMS[name]
    check_against_eager(fn, *makers, partition_fn=partition_fn)


def test_attention_is_not_taken_apart_where_its_backward_needs_it_whole():
    from torch._decomp import core_aten_decompositions

    def attention(x):
        q, k, v = (t.reshape(2, 9, 2, 4).transpose(1, 2) for t in x.chunk(3, -1))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).square().sum()

    x = torch.randn(2, 9, 24, requires_grad=True)
    compiled = aot_function(attention, lambda graph, inputs: graph, decompositions=core_aten_decompositions())
    torch.testing.assert_close(
        torch.autograd.grad(compiled(x), x)[0], torch.autograd.grad(attention(x), x)[0], rtol=1e-4, atol=1e-5
    )
