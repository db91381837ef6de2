"""Attention written out becomes `scaled_dot_product_attention`: what is found, what is left alone, and the numbers."""

import math

import pytest
import torch
import torch.nn.functional as F
import triptych_inductor
from torch.fx import symbolic_trace
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from triptych_inductor.passes import attention

L, S, D = 40, 48, 16


def inputs(dtype=torch.float32, lead=(2, 3)):
    make = lambda n: torch.randn(*lead, n, D, dtype=dtype)
    return make(L), make(S), make(S)


def additive():
    return torch.zeros(2, 1, 1, S).masked_fill(torch.rand(2, 1, 1, S) < 0.3, torch.finfo(torch.float32).min)


def bert(q, k, v, mask):
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(D)
    return torch.matmul(F.dropout(F.softmax(scores + mask, dim=-1), 0.1, False), v).transpose(1, 2).contiguous()


def vit(q, k, v):
    scores = torch.matmul(q, k.transpose(2, 3)) * 0.25
    return torch.matmul(F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype), v)


def with_bias(q, k, v, bias):
    scores = q @ k.mT
    scores += bias
    return scores.float().softmax(-1).type_as(scores) @ v


def batched(q, k, v):
    return torch.bmm(torch.softmax(0.5 * torch.bmm(q, k.transpose(1, 2)), 2), v)


def two_masks(q, k, v, mask, bias):
    return torch.softmax(bias + (q * 0.1) @ k.transpose(-2, -1) + mask, -1) @ v


FOUND = {
    "bert": (bert, lambda: (*inputs(), additive())),
    "vit": (vit, inputs),
    "vit, half": (vit, lambda: inputs(torch.bfloat16)),
    "bias": (with_bias, lambda: (*inputs(), torch.randn(1, 3, L, S))),
    "half with a float mask": (with_bias, lambda: (*inputs(torch.bfloat16), torch.randn(3, L, S).to(torch.bfloat16))),
    "one row of bias": (with_bias, lambda: (*inputs(), torch.randn(S))),
    "batched": (batched, lambda: inputs(lead=(6,))),
    "two masks": (two_masks, lambda: (*inputs(), additive(), torch.randn(3, L, S))),
}


def traced(fn, arguments):
    gm = symbolic_trace(fn)
    FakeTensorProp(gm).propagate(*arguments)
    return gm


def calls(gm):
    return [n for n in gm.graph.nodes if n.target is F.scaled_dot_product_attention]


@pytest.mark.parametrize("name", FOUND)
def test_found_and_right(name):
    torch.manual_seed(0)
    fn, make = FOUND[name]
    arguments = [t.requires_grad_(t.is_floating_point()) for t in make()]
    gm = traced(fn, arguments)
    before = gm.code
    fused, counts = triptych_inductor.run_front_passes(gm)
    assert counts == {"fuse_attention": 1} and len(calls(fused)) == 1 and gm.code == before
    exact = [a.detach().double().requires_grad_() for a in arguments]
    results = [f(*a) for f, a in ((fn, exact), (fn, arguments), (fused, arguments))]
    assert results[1].stride() == results[2].stride() and results[1].dtype is results[2].dtype
    weight = torch.randn(results[0].shape)
    grads = [torch.autograd.grad((r * weight).sum(), a) for r, a in zip(results, (exact, arguments, arguments))]
    for truth, eager, ours in zip(*[(r, *g) for r, g in zip(results, grads)], strict=True):
        allowed = 2 * (eager - truth).abs().max() + torch.finfo(eager.dtype).eps * truth.abs().max()
        assert (ours - truth).abs().max() <= allowed


LEFT = {
    "probabilities returned": lambda q, k, v: ((p := torch.softmax(q @ k.mT, -1)), p @ v),
    "scores used twice": lambda q, k, v: torch.softmax(s := q @ k.mT, -1) @ v + s.sum(),
    "softmax over queries": lambda q, k, v: torch.softmax(q @ k.mT, -2) @ v,
    "mask scaled too": lambda q, k, v: torch.softmax((q @ k.mT + 1.0 * q.sum()) * 2, -1) @ v,
    "values of one head": lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v[:, :1],
    "no softmax": lambda q, k, v: torch.sigmoid(q @ k.mT) @ v,
    "divided by a tensor": lambda q, k, v: torch.softmax(q @ k.mT / q.sum(), -1) @ v,
    "dropout on a CPU": lambda q, k, v: F.dropout(torch.softmax(q @ k.mT, -1), 0.5, True) @ v,
    "integers": lambda q, k, v: torch.softmax((q.long() @ k.long().mT).float(), -1) @ v,
}


@pytest.mark.parametrize("name", LEFT)
def test_left_alone(name):
    gm = traced(LEFT[name], inputs())
    assert triptych_inductor.run_front_passes(gm) == (gm, {})


def test_what_is_changed_in_place_stays_in_order():
    def fn(q, k, v):
        index = torch.zeros_like(q)
        index += 1  # read below by its first name
        scores = (q * index) @ k.mT
        q.mul_(2)
        return torch.softmax(scores, -1) @ v + q.sum()

    def harmless(q, k, v):
        index = torch.zeros_like(q)
        index += 1
        return torch.softmax((q * index) @ k.mT, -1) @ v + index.sum()

    gm = traced(fn, inputs())
    assert triptych_inductor.run_front_passes(gm) == (gm, {})
    fused, counts = triptych_inductor.run_front_passes(traced(harmless, arguments := inputs()))
    assert counts == {"fuse_attention": 1}
    torch.testing.assert_close(fused(*arguments), harmless(*arguments))


def test_few_tokens_on_a_cpu_are_left_alone():
    gm = traced(vit, [t[..., :8, :] for t in inputs()])
    assert triptych_inductor.run_front_passes(gm)[1] == {}


def test_may_be_left_out():
    gm = traced(vit, inputs())
    assert triptych_inductor.run_front_passes(gm, {"exclude_passes": ("fuse_attention",)}) == (gm, {})


def test_dropout_on_a_gpu_is_handed_over(monkeypatch):
    monkeypatch.setitem(attention.WORTH_IT, "cpu", lambda found: True)
    gm = traced(lambda q, k, v: F.dropout(torch.softmax(q @ k.mT, -1), p=0.25) @ v, inputs())
    (call,) = calls(triptych_inductor.run_front_passes(gm)[0])
    assert call.kwargs["dropout_p"] == 0.25


def test_wide_masks_are_rounded_without_making_infinities(monkeypatch):
    """Under autocast products give half types; the least float32 becomes the least of those: rows stay finite."""
    q, k, v = inputs()
    mask = torch.full((L, S), torch.finfo(torch.float32).min)

    def fn(q, k, v, mask):
        return torch.softmax((q @ k.mT).float() + mask, -1).to(q.dtype) @ v

    arguments = [t.to(torch.bfloat16) for t in (q, k, v)] + [mask]
    fused, counts = triptych_inductor.run_front_passes(traced(fn, arguments))
    assert counts
    torch.testing.assert_close(fused(*arguments), fn(*arguments), rtol=2e-2, atol=2e-2)


def test_several_layers():
    def net(x):
        for _ in range(3):
            x = x + vit(x, x, x)
        return x

    fused, counts = triptych_inductor.run_front_passes(traced(net, [inputs()[0]]))
    assert counts == {"fuse_attention": 3}
    x = torch.randn(2, 3, L, D)
    torch.testing.assert_close(fused(x), net(x), rtol=1e-4, atol=1e-4)
