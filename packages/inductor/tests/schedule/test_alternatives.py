"""Choices for whole graphs under `max_autotune`: what is open, what is taken, and that results stay right."""

import pytest
import torch
import torch.nn.functional as F
import triptych_inductor
from torch.fx.experimental.proxy_tensor import make_fx
from triptych_inductor import alternatives

X, W = torch.randn(2, 3, 16, 16), torch.randn(8, 3, 3, 3)


def convolution(x, w):
    return F.relu(F.conv2d(x, w, padding=1)) + 1


def compiled(function, *inputs, dynamic=False, **options):
    gm = make_fx(function, tracing_mode="symbolic" if dynamic else "fake")(*inputs)
    examples = [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]
    made = triptych_inductor.compile(gm, examples, options={"max_autotune": True, **options})
    torch.testing.assert_close(made(*inputs), function(*inputs), rtol=1e-4, atol=1e-4)
    return made.provenance["alternatives"]


@pytest.mark.parametrize("times", [(2e-3, 1e-3), (1e-3, 2e-3), (1e-3, 0.99e-3)])
def test_the_faster_layout_is_taken(monkeypatch, times):
    left = iter(times)
    monkeypatch.setattr(alternatives, "call_seconds", lambda call, inputs: next(left))
    (row,) = compiled(convolution, X, W)
    assert row["choice"] == "layout of convolutions" and row["other"] == {"channels_last": "always"}
    assert row["microseconds"] == [pytest.approx(t * 1e6) for t in times] and row["taken"] == (
        times[1] < 0.97 * times[0]
    )


def test_by_the_clock():
    (row,) = compiled(convolution, X, W)
    assert all(0 < t < 1e6 for t in row["microseconds"])


def test_where_nothing_is_open():
    assert compiled(lambda x: x.sin(), X) == []
    assert compiled(convolution, X, W, channels_last="always") == []
    assert compiled(convolution, X, W, dynamic=True) == []
