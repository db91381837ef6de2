"""Programs that launch Triton kernels, through the whole stack; run by Triton's interpreter on the CPU."""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")

import pytest
import torch
import triptych

triton = pytest.importorskip("triton")
tl = triton.language
if not hasattr(tl.sum, "rewrite"):  # some builds of torch import Triton themselves
    pytest.skip("Triton was imported without TRITON_INTERPRET=1; set it for the whole run", allow_module_level=True)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + tl.load(y_ptr + offsets, mask=mask), mask=mask)


def add(x, y, out=None):
    out = torch.empty_like(x) if out is None else out
    n = x.numel()
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=16)
    return out


def test_fused_surroundings_and_no_copies():
    compiled = triptych.compile(lambda x, y: add(x.sin(), y).cos(), fullgraph=True)
    for size in (50, 20, 33):
        x, y = torch.randn(size), torch.randn(size)
        torch.testing.assert_close(compiled(x, y), (x.sin() + y).cos())
    stages = triptych.report(compiled).stages
    assert len(stages) == 2 and all(len(stage.kernels) == 2 for stage in stages)
    assert all("triptych_triton" in name for name, _ in stages[0].fallbacks)


def test_inputs_and_views_are_written():
    def function(x, y):
        add(x[1], y[0], out=y[2])
        add(x[0], y[2], out=x[0])
        return x.sum() + y.sum()

    x, y = torch.randn(2, 8), torch.randn(3, 8)
    mine = x.clone(), y.clone()
    want = function(x, y)
    got = triptych.compile(function, fullgraph=True)(*mine)
    torch.testing.assert_close((got, *mine), (want, x, y))


def test_differentiated_around():
    """The launch has no derivative, as in eager; what flows past it has."""

    def function(x, y):
        return (x * add(x.detach(), y)).sum()

    x, y = torch.randn(20, requires_grad=True), torch.randn(20)
    triptych.compile(function, fullgraph=True)(x, y).backward()
    torch.testing.assert_close(x.grad, x.detach() + y)


def scaled(x, y, grid):
    """A helper that launches."""
    out = torch.empty_like(x)
    add_kernel[grid](x, y, out, x.numel(), BLOCK=16)
    return out


class Sum(torch.autograd.Function):
    """x + y by a kernel, with a backward that launches one too."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        return scaled(x, y, (triton.cdiv(x.numel(), 16),))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        n = x.numel()
        return scaled(grad * x, grad, lambda meta: (triton.cdiv(n, meta["BLOCK"]),)), grad


def test_differentiable_functions_that_launch():
    def function(x, y):
        return Sum.apply(x.sin(), y).cos()

    compiled = triptych.compile(function, fullgraph=True)
    for size in (40, 23):
        x, y = torch.randn(size, requires_grad=True), torch.randn(size, requires_grad=True)
        want = torch.autograd.grad(function(x, y).sum(), (x, y))
        got = compiled(x, y)
        torch.testing.assert_close(got, function(x, y))
        torch.testing.assert_close(torch.autograd.grad(got.sum(), (x, y)), want)
    stages = triptych.report(compiled).stages
    assert {stage.role for stage in stages} == {"forward", "backward"}
    assert all(any("triptych_triton" in name for name, _ in stage.fallbacks) for stage in stages)
    torch.testing.assert_close(Sum.apply(x, y), x + y)  # eager launches are what they were
