"""Library calls: row alignment of products, bias added by the kernel that reads the product."""

import pytest
import torch
import torch.nn.functional as F
from triptych_inductor.ir import alignment
from triptych_inductor.lowering import externs


def test_rows_of_products_are_aligned(check, monkeypatch):
    """As on GPUs: a product with odd rows gets longer ones, and everything behind it still agrees with eager."""
    monkeypatch.setitem(alignment.ROW_ALIGNMENT, "cpu", 16)

    def fn(x, w, t):
        y = (x @ w).view(3, 2, -1)
        return torch.log_softmax(y.float(), -1), y.sum(0), y[:, 1].relu() @ t, x @ w + 1

    x, w, t = (torch.randn(s).to(torch.bfloat16) for s in ((6, 8), (8, 521), (521, 4)))
    compiled = check(fn, x, w, t, rtol=2e-2, atol=2e-2)
    assert "(528, 1)" in compiled.source


def test_returned_products_have_eagers_strides(check, monkeypatch):
    monkeypatch.setitem(alignment.ROW_ALIGNMENT, "cpu", 16)
    x, w = torch.randn(6, 8).to(torch.bfloat16), torch.randn(8, 521).to(torch.bfloat16)
    check(lambda x, w: (x @ w, (x @ w).view(3, 2, 521), (x @ w) * 2), x, w, rtol=2e-2, atol=2e-2)


def test_operands_of_products_have_aligned_rows(check, monkeypatch):
    """As in the backward of a vocabulary's product: the gradient of the logits is read by two products and a sum."""
    monkeypatch.setitem(alignment.ROW_ALIGNMENT, "cpu", 16)

    def fn(grad, log, w, x):
        inner = torch.ops.aten._log_softmax_backward_data(grad, log, -1, torch.float32).to(torch.bfloat16)
        flat = inner.view(12, 521)
        return flat @ w, flat.t() @ x, inner.sum((0, 1))

    grad, log = torch.randn(3, 4, 521), torch.log_softmax(torch.randn(3, 4, 521), -1)
    w, x = torch.randn(521, 8).to(torch.bfloat16), torch.randn(12, 8).to(torch.bfloat16)
    compiled = check(fn, grad, log, w, x, rtol=4e-2, atol=4e-2)
    assert "(2112, 528, 1)" in compiled.source

    def returning(grad, w):
        half = (grad * 2).to(torch.bfloat16)
        return half @ w, half

    returned = check(returning, grad[0], w, rtol=4e-2, atol=4e-2)
    assert "528" not in returned.source


@pytest.mark.parametrize("rows", [17, 64, 90])
def test_returned_products_with_odd_rows_are_made_in_pieces(check, monkeypatch, rows):
    monkeypatch.setitem(alignment.ROW_ALIGNMENT, "cpu", 16)
    monkeypatch.setattr(externs, "PIECE_ROWS", 16)
    x, w, b = (torch.randn(s).to(torch.bfloat16) for s in ((rows, 8), (8, 521), (521,)))
    compiled = check(lambda x, w: (x @ w).view(1, rows, 521), x, w, rtol=2e-2, atol=2e-2)
    assert ("mm_in_pieces(arg" in compiled.source) == (rows >= 32)
    compiled = check(lambda x, w, b: torch.addmm(b, x, w), x, w, b, rtol=2e-2, atol=2e-2)
    assert ("addmm_in_pieces(arg" in compiled.source) == (rows >= 32)
    check(lambda x, w, b: torch.addmm(b, x, w), x, w, torch.randn(rows, 521).to(torch.bfloat16), rtol=2e-2, atol=2e-2)


def test_bias_is_added_by_the_reading_kernel(check):
    x, w, b = torch.randn(4, 6), torch.randn(5, 6), torch.randn(5)
    compiled = check(lambda x, w, b: F.gelu(F.linear(x, w, b)), x, w, b)
    assert "torch.mm(" in compiled.source and len(compiled.kernels) == 1
    compiled = check(lambda x, w, b: F.linear(x, w, b), x, w, b)
    assert "torch.addmm(" in compiled.source and not compiled.kernels
