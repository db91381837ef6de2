import pytest
import torch
import triptych_inductor
from torch.fx.experimental.proxy_tensor import make_fx


@pytest.fixture(autouse=True)
def _no_stored_graphs(monkeypatch):
    """What is tested here is compiled here; kernels are kept."""
    monkeypatch.setenv("TRIPTYCH_GRAPH_CACHE", "0")


class Checker:
    """Compiles a function's ATen graph and compares it with eager."""

    def __init__(self, **options):
        self.options = options

    def graph(self, fn, args, tracing="fake"):
        return make_fx(fn, tracing_mode=tracing)(*args)

    def __call__(self, fn, *args, tracing="fake", rtol=None, atol=None, stride=True, **options):
        gm = self.graph(fn, args, tracing)
        compiled = triptych_inductor.compile(gm, list(args), options={**self.options, **options})
        copies = [a.detach().clone() if isinstance(a, torch.Tensor) and a.is_contiguous() else a for a in args]
        again = [a.detach().clone() if isinstance(a, torch.Tensor) and a.is_contiguous() else a for a in args]
        torch.manual_seed(42)
        expected = fn(*copies)
        torch.manual_seed(42)
        actual = compiled(*again)
        torch.testing.assert_close(actual, expected, equal_nan=True, check_stride=stride, rtol=rtol, atol=atol)
        torch.testing.assert_close(again, copies, equal_nan=True)  # mutated inputs agree as well
        return compiled


@pytest.fixture
def check():
    """Through the reference interpreter: no compiler needed."""
    return Checker(interpret=True)


@pytest.fixture
def check_cpp():
    """Through compiled C++."""
    return Checker()
