"""Library calls: row alignment of products, bias added by the kernel that reads the product."""

import torch
import torch.nn.functional as F
from triptych_inductor.lowering import externs


def test_rows_of_products_are_aligned(check, monkeypatch):
    """As on GPUs: a product with odd rows gets longer ones, and everything behind it still agrees with eager."""
    monkeypatch.setitem(externs.ROW_ALIGNMENT, "cpu", 16)

    def fn(x, w, t):
        y = (x @ w).view(3, 2, -1)
        return torch.log_softmax(y.float(), -1), y.sum(0), y[:, 1].relu() @ t, x @ w + 1

    x, w, t = (torch.randn(s).to(torch.bfloat16) for s in ((6, 8), (8, 521), (521, 4)))
    compiled = check(fn, x, w, t, rtol=2e-2, atol=2e-2)
    assert "(528, 1)" in compiled.source


def test_returned_products_have_eagers_strides(check, monkeypatch):
    monkeypatch.setitem(externs.ROW_ALIGNMENT, "cpu", 16)
    x, w = torch.randn(6, 8).to(torch.bfloat16), torch.randn(8, 521).to(torch.bfloat16)
    check(lambda x, w: (x @ w, (x @ w).view(3, 2, 521), (x @ w) * 2), x, w, rtol=2e-2, atol=2e-2)


def test_bias_is_added_by_the_reading_kernel(check):
    x, w, b = torch.randn(4, 6), torch.randn(5, 6), torch.randn(5)
    compiled = check(lambda x, w, b: F.gelu(F.linear(x, w, b)), x, w, b)
    assert "torch.mm(" in compiled.source and len(compiled.kernels) == 1
    compiled = check(lambda x, w, b: F.linear(x, w, b), x, w, b)
    assert "torch.addmm(" in compiled.source and not compiled.kernels
