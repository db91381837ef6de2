"""Scans on the CPU: every op, dtype and axis against eager; scans fused with what is around them."""

import pytest
import torch
import triptych_inductor
from torch.fx.experimental.proxy_tensor import make_fx

OPS = {
    "cumsum": lambda x, d: x.cumsum(d),
    "cumprod": lambda x, d: x.cumprod(d),
    "logcumsumexp": lambda x, d: x.logcumsumexp(d),
    "cummax": lambda x, d: tuple(x.cummax(d)),
    "cummin": lambda x, d: tuple(x.cummin(d)),
}
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool]


def check(function, *inputs, dynamic=False, fallbacks=0, **tolerance):
    gm = make_fx(function, tracing_mode="symbolic" if dynamic else "fake")(*inputs)
    placeholders = [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]
    compiled = triptych_inductor.compile(gm, placeholders)
    assert sum(compiled.fallbacks.values()) == fallbacks, compiled.fallbacks
    got, want = compiled(*inputs), function(*inputs)
    for mine, theirs in zip(_flat(got), _flat(want), strict=True):
        torch.testing.assert_close(mine, theirs, equal_nan=True, check_stride=True, **tolerance)
    return compiled


def _flat(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize(
    ("name", "dtype"), [(n, d) for n in OPS for d in DTYPES if n != "logcumsumexp" or d.is_floating_point]
)
def test_axes(name, dtype):
    """All axes of several shapes in one graph, with NaN and infinities in it."""
    inputs = []
    for shape in [(7, 100), (3, 5, 17), (1, 40), (0, 3), ()]:
        x = (torch.randn(shape) * 2).to(dtype) if dtype.is_floating_point else torch.randint(0, 5, shape).to(dtype)
        if dtype.is_floating_point and x.numel() > 100:
            x.view(-1)[17], x.view(-1)[60], x.view(-1)[90] = float("nan"), float("inf"), -float("inf")
        inputs.append(x)
    function = lambda *xs: [r for x in xs for d in range(max(x.ndim, 1)) for r in _flat(OPS[name](x, d))]  # noqa: E731
    check(function, *inputs)


def test_long_sums_are_carried_in_double():
    x = torch.rand(2, 300_001) + 0.5
    check(lambda x: x.cumsum(1), x)
    check(lambda x: x.cumsum(0), x.t().contiguous())


X = torch.randn(16, 300)
CASES = {
    "a scan among reductions": (lambda x: (x.softmax(-1).cumsum(-1) * 2, (x.cumsum(-1) > 3).sum(-1)), {}),
    "a scan of a scan": (lambda x: x.cumsum(-1).cumsum(-1).amax(-1), {}),
    "both axes": (lambda x: x.cumsum(0) + x.cumsum(1), {}),
    "a transposed input": (lambda x: (x.t().cumsum(0), x.t().cumsum(1)), {}),
    "flipped": (lambda x: x.flip(1).cumsum(1).flip(1), {}),
    "other dtype": (lambda x: (x > 0).cumsum(1, dtype=torch.int32), {}),
    "positions of a mask": (lambda x: (x > 0).long().cumsum(1) * (x > 0), {}),
}


@pytest.mark.parametrize("name", list(CASES))
def test_fused(name):
    check(CASES[name][0], X, **CASES[name][1])


REVERSED = {
    "sum": lambda x, d: x.flip(d).cumsum(d).flip(d),
    "product, negative dimensions": lambda x, d: x.flip(d).cumprod(d - x.ndim).flip(d - x.ndim),
    "logsumexp": lambda x, d: x.flip(d).logcumsumexp(d).flip(d),
    "in a wider type": lambda x, d: x.flip(d).cumsum(d, dtype=torch.float64).flip(d),
}


def _before(function, dim):
    """With work before it, which the scan does as it goes."""
    return lambda x: function(x * 2, dim)


@pytest.mark.parametrize("name", list(REVERSED))
@pytest.mark.parametrize("dynamic", [False, True])
def test_from_the_end(name, dynamic):
    """One kernel: neither flip is computed."""
    for shape, dim in (((7, 300), 1), ((7, 300), 0), ((3, 5, 17), 1)):
        compiled = check(_before(REVERSED[name], dim), torch.randn(shape), dynamic=dynamic)
        assert len(compiled.kernels) == 1
    check(lambda x: REVERSED[name](x.t(), 0), torch.randn(5, 40), dynamic=dynamic)
    check(lambda x: REVERSED[name](x, 1), torch.randn(5, 1))


def test_flips_that_are_no_scan_from_the_end():
    """Along another dimension, of several, or where somebody else reads what lies between."""
    check(lambda x: x.flip(0).cumsum(1).flip(0), X)
    check(lambda x: x.flip(1).cumsum(1).flip(0), X)
    check(lambda x: x.flip(0, 1).cumsum(1).flip(1), X)
    check(lambda x: (lambda y: (y, y.flip(1)))(x.flip(1).cumsum(1)), X)
    check(lambda x: (lambda y: (y.cumsum(1).flip(1), y))(x.flip(1)), X)
    check(lambda x: x.cumsum(1).flip(1), X)


def test_from_the_end_by_the_library():
    """Dtypes without a kernel go to torch, flips and all."""
    x = torch.randn(4, 30, dtype=torch.complex64)
    check(lambda x: x.flip(1).cumsum(1).flip(1), x, fallbacks=1)


def test_the_gradient_of_a_sum_is_one_kernel():
    def gradient(x, g):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(x.cumsum(1), x, g * 2)[0]

    compiled = check(gradient, X, torch.randn_like(X))
    assert len(compiled.kernels) == 1


def test_nucleus_sampling_is_one_kernel():
    compiled = check(lambda x: torch.where(x.softmax(-1).cumsum(-1) > 0.9, 0, x), X)
    assert len(compiled.kernels) == 1


def test_symbolic_sizes():
    check(lambda x: (x.cumsum(0) * 2, x.cumsum(1).tanh()), X, dynamic=True)


def test_order_of_the_reduced_axes():
    """Kernels that share a buffer but count its elements in another order stay apart."""
    x = torch.randn(37, 53)
    check(lambda x: (x.argmax(), x.t().argmax(), x.sum()), x)
    check(lambda x: (x.sum(), x.t().reshape(-1).argmin(), x.t().reshape(-1).cumsum(0)), x, rtol=1e-4, atol=1e-4)
