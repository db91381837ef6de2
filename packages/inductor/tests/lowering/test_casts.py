"""Casts of many small weights become one library call, as on GPUs."""

import pytest
import torch
import torch.nn.functional as F
from triptych_inductor.lowering import casts

LOOSE = {"rtol": 4e-2, "atol": 4e-2}


@pytest.fixture(autouse=True)
def as_on_gpus(monkeypatch):
    monkeypatch.setattr(casts, "DEVICES", frozenset({"cpu"}))


def products(x, *weights):
    x = x.to(torch.bfloat16)
    for w in weights:
        x = torch.tanh(x @ w.to(torch.bfloat16).t())
    return x


def chain(*widths):
    return [torch.randn(b, a) / a**0.5 for a, b in zip(widths[:-1], widths[1:], strict=True)]


def test_one_call_for_all(check):
    compiled = check(products, torch.randn(4, 6), *chain(6, 9, 5, 7, 8, 3), **LOOSE)
    assert compiled.source.count("_foreach_copy_(") == 1


def test_calls_are_limited_in_bytes(check, monkeypatch):
    monkeypatch.setattr(casts, "BYTES", 300)
    monkeypatch.setattr(casts, "FEWEST", 2)
    compiled = check(products, torch.randn(4, 6), *chain(6, 9, 5, 7, 8, 3), **LOOSE)
    assert compiled.source.count("_foreach_copy_(") == 2


def test_the_first_calls_take_little(check, monkeypatch):
    monkeypatch.setattr(casts, "FIRST", 64)
    monkeypatch.setattr(casts, "FEWEST", 2)
    compiled = check(products, torch.randn(4, 4), *chain(*[4] * 14), **LOOSE)  # weights of 32 bytes
    assert compiled.source.count("_foreach_copy_(") == 3  # two, eight, the last


def test_a_call_is_for_the_fewest_at_least(check, monkeypatch):
    monkeypatch.setattr(casts, "FIRST", 8)
    compiled = check(products, torch.randn(4, 4), *chain(*[4] * 10), **LOOSE)
    assert compiled.source.count("_foreach_copy_(") == 2


def test_convolutions(check):
    def fn(x, *weights):
        x = x.to(torch.bfloat16)
        for w in weights:
            x = F.conv2d(x, w.to(torch.bfloat16), groups=x.shape[1] if w.shape[1] == 1 else 1)
        return x

    weights = [torch.randn(4, 3, 1, 1), torch.randn(4, 1, 3, 3), torch.randn(6, 4, 1, 1), torch.randn(5, 6, 1, 1)]
    for layout in ("never", "always"):
        compiled = check(fn, torch.randn(2, 3, 6, 6), *weights, channels_last=layout, **LOOSE)
        assert compiled.source.count("_foreach_copy_(") == 1
    weights = [torch.randn(3, 3, 3, 3) for _ in range(4)]  # another order in memory when laid out channels-last
    assert "_foreach_copy_(" not in check(fn, torch.randn(2, 3, 12, 12), *weights, **LOOSE).source


def test_what_is_cast_alone(check):
    weights = chain(6, 6, 6, 6, 6)
    few = check(products, torch.randn(4, 6), *weights[:2], **LOOSE)  # three, with that of `x`
    assert "_foreach_copy_(" not in few.source

    def read_by_loops(x, *weights):
        x = x.to(torch.bfloat16)
        for half in [w.to(torch.bfloat16) for w in weights]:
            x = x @ half + half.sum()
        return x

    assert "_foreach_copy_(" not in check(read_by_loops, torch.randn(4, 6), *weights, **LOOSE).source
    turned = [w.t() for w in weights]
    assert "_foreach_copy_(" not in check(products, torch.randn(4, 6), *turned, **LOOSE).source


def test_results_may_be_returned(check):
    def fn(x, *weights):
        halves = [w.to(torch.bfloat16) for w in weights]
        for w in halves:
            x = x.to(torch.bfloat16) @ w
        return x, *halves

    compiled = check(fn, torch.randn(4, 6), *[torch.randn(6, 6) for _ in range(5)], **LOOSE)
    assert compiled.source.count("_foreach_copy_(") == 1
