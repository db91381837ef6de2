"""Convolutions that are differentiated, laid out channels-last before autograd: as on GPUs, tried on the CPU."""

import pytest
import torch
import torch.nn.functional as F
import triptych_inductor
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import symbolic_trace
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from triptych_inductor.passes import channels_last


@pytest.fixture(autouse=True)
def as_on_gpus(monkeypatch):
    monkeypatch.setitem(channels_last.DTYPES, "cpu", frozenset({torch.float64}))


def traced(fn, arguments):
    gm = symbolic_trace(fn)
    FakeTensorProp(gm, FakeTensorMode(allow_non_fake_inputs=True)).propagate(*arguments)
    for node, value in zip([n for n in gm.graph.nodes if n.op == "placeholder"], arguments, strict=True):
        node.meta["val"].requires_grad_(value.requires_grad)
    return gm


def run(gm, **options):
    return triptych_inductor.run_front_passes(gm, {"channels_last": "always", **options})


def weights(*sizes):
    return [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in sizes]


def block(x, w, v, gamma, beta):
    x = F.relu(F.batch_norm(F.conv2d(x, w, padding=1), None, None, gamma, beta, True))
    return x + F.conv2d(x, v)


def head(x, w, v, gamma, beta):
    y = block(x, w, v, gamma, beta)
    return F.adaptive_avg_pool2d(y, 1).flatten(1), y.view(2, -1).sum(1)


def pooled(x, w, v, gamma, beta):
    return block(x, w, v, gamma, beta).mean((2, 3))


def turned(x, w, v, gamma, beta):
    return block(x, w, v, gamma, beta).transpose(2, 3)


def twice(x, w, v, gamma, beta):
    y = block(x, w, v, gamma, beta)
    return y, y.flatten(1)


def permuted(x, w, v, gamma, beta):
    y = F.layer_norm(block(x, w, v, gamma, beta).permute(0, 2, 3, 1), (6,), gamma, beta)
    return F.gelu(y).permute(0, 3, 1, 2).mean((2, 3))


PROGRAMS = {"image returned": block, "head": head, "permuted": permuted}


def arguments():
    return [torch.randn(2, 4, 7, 9, dtype=torch.float64), *weights((6, 4, 3, 3), (6, 6, 1, 1), (6,), (6,))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_right_and_in_eagers_layout_outside(name):
    torch.manual_seed(0)
    fn, given = PROGRAMS[name], arguments()
    gm = traced(fn, given)
    changed, counts = run(gm)
    assert counts == {"channels_last": 2}
    results = [r if isinstance(r, tuple) else (r,) for r in (fn(*given), changed(*given))]
    for eager, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours, eager)
        assert ours.stride() == eager.stride()
    grads = [torch.autograd.grad(sum(t.square().sum() for t in r), given[1:]) for r in results]
    for eager, ours in zip(*grads, strict=True):
        torch.testing.assert_close(ours, eager)


def test_all_between_is_channels_last():
    given = arguments()
    changed, _ = run(traced(pooled, given))
    FakeTensorProp(changed).propagate(*given)
    images = [n.meta["val"] for n in changed.graph.nodes if n.op != "placeholder" and n.meta["val"].ndim == 4]
    assert len(images) > 5 and all(v.is_contiguous(memory_format=torch.channels_last) for v in images)


def left_alone(fn, given, **options):
    gm = traced(fn, given)
    return run(gm, **options) == (gm, {})


def test_what_is_left_alone(monkeypatch):
    given = arguments()
    assert left_alone(block, [a.detach() for a in given])  # nothing to differentiate
    assert left_alone(block, given, channels_last="never")
    assert left_alone(block, given, channels_last="auto")
    assert left_alone(block, given, exclude_passes=("channels_last",))
    assert left_alone(turned, given)  # strides of its own
    assert left_alone(twice, given)  # outputs that share memory
    assert left_alone(lambda x, w: F.conv1d(x, w), [torch.randn(2, 4, 9, dtype=torch.float64), *weights((6, 4, 3))])
    with torch.no_grad():
        gm = traced(block, given)
        assert run(gm) == (gm, {})
    monkeypatch.setitem(channels_last.DTYPES, "cpu", frozenset({torch.bfloat16}))
    assert left_alone(block, given)


def test_modules_are_kept():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(6, 1, 1, dtype=torch.float64))

        def forward(self, x, w):
            return F.conv2d(x, w) * self.scale

    net, given = Net(), [torch.randn(2, 4, 5, 5, dtype=torch.float64), *weights((6, 4, 3, 3))]
    changed, counts = run(traced(net, given))
    assert counts
    changed(*given).sum().backward()
    assert net.scale.grad is not None
