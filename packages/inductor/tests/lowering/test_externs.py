"""Library calls: bias added by the kernel that reads the product."""

import torch
import torch.nn.functional as F


def test_bias_is_added_by_the_reading_kernel(check):
    x, w, b = torch.randn(4, 6), torch.randn(5, 6), torch.randn(5)
    compiled = check(lambda x, w, b: F.gelu(F.linear(x, w, b)), x, w, b)
    assert "torch.mm(" in compiled.source and len(compiled.kernels) == 1
    compiled = check(lambda x, w, b: F.linear(x, w, b), x, w, b)
    assert "torch.addmm(" in compiled.source and not compiled.kernels
