"""Library calls: bias added by the kernel that reads the product."""

import pytest
import torch
import torch.nn.functional as F
from triptych_inductor.lowering import externs


def test_bias_is_added_by_the_reading_kernel(check):
    x, w, b = torch.randn(4, 6), torch.randn(5, 6), torch.randn(5)
    compiled = check(lambda x, w, b: F.gelu(F.linear(x, w, b)), x, w, b)
    assert "mm(arg" in compiled.source and len(compiled.kernels) == 1
    compiled = check(lambda x, w, b: F.linear(x, w, b), x, w, b)
    assert "addmm(arg" in compiled.source and not compiled.kernels


@pytest.mark.parametrize("layout", ["never", "always"])
def test_convolutions_as_on_gpus(check, monkeypatch, layout):
    """The weight is laid out by our kernel, and the bias added by the one that reads the result."""
    monkeypatch.setattr(externs, "OWN_LAYOUT", frozenset({"cpu"}))
    x, w, b = torch.randn(2, 3, 8, 9), torch.randn(5, 3, 3, 3), torch.randn(5)
    fn = lambda x, w, b: F.relu(F.conv2d(x, w * 2, b, padding=1))
    compiled = check(fn, x, w, b, channels_last=layout, rtol=1e-4, atol=1e-4)
    assert ("(27, 1, 9, 3)" in compiled.source) == (layout == "always")
    check(lambda x, w, b: F.conv2d(x, w, b), x, w, b, channels_last=layout, rtol=1e-4, atol=1e-4)
    check(lambda x, w, b: F.conv1d(x, w, b), x[:, :, 0], w[:, :, 0], b, channels_last=layout, rtol=1e-4, atol=1e-4)
    check(
        lambda x, w, b: F.conv_transpose2d(x, w, b), x, w.transpose(0, 1), b, channels_last=layout, rtol=1e-4, atol=1e-4
    )
