"""Hooks of a compiled module that come and go between calls: what they see is eager's; each change compiles once."""

import pytest
import torch
import torch.nn.modules.module as modules
import triptych_dynamo
from torch import nn


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def noting(seen, kind):
    def hook(module, *given):
        parts = [part for item in given for part in (item if isinstance(item, tuple) else (item,))]
        seen.append((kind, type(module).__name__, [None if p is None else p.detach().clone() for p in parts]))

    return hook


KINDS = ("forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook")


def life(compiler, kind, everywhere):
    """Calls before, with and after a hook: results, gradients and what the hook saw."""
    net, seen = network(), []
    run = compiler(net)

    def call():
        x = torch.linspace(-1, 1, 6).view(2, 3).requires_grad_()
        y = run(x)
        y.square().sum().backward()
        found.append([y.detach(), x.grad, *[p.grad.clone() for p in net.parameters()], list(seen)])

    found = []
    call()
    if everywhere:
        handle = getattr(modules, f"register_module_{kind}")(noting(seen, kind))
    else:
        handle = getattr(net[1], f"register_{kind}")(noting(seen, kind))
    try:
        call()
        call()
    finally:
        handle.remove()
    call()
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("everywhere", [False, True])
def test_hooks_come_and_go(kind, everywhere):
    got = life(triptych_dynamo.optimize("eager"), kind, everywhere)
    wanted = life(lambda net: net, kind, everywhere)
    assert len(wanted[2][-1]) > len(wanted[1][-1]) > 0
    assert len(wanted[3][-1]) == len(wanted[2][-1])
    compare(got, wanted)


@pytest.mark.parametrize("name", ["forward_hook", "full_backward_hook"])
def test_a_hook_compiles_once_and_its_removal_not_at_all(name):
    net, reasons = network(), []
    hooks = triptych_dynamo.Hooks(on_recompile=reasons.append)
    run = triptych_dynamo.optimize("eager", hooks=hooks)(lambda x: net(x).sum())
    x = torch.ones(2, 3, requires_grad=True)
    run(x)
    run(x)
    assert not reasons
    handle = getattr(net[1], f"register_{name}")(lambda *given: None)
    run(x)
    first = len(reasons)
    run(x)
    assert first == len(reasons) and any("hooks" in reason for reason in reasons)
    handle.remove()
    run(x)
    assert first == len(reasons)


def compare(got, wanted):
    assert type(got) is type(wanted)
    if isinstance(wanted, torch.Tensor):
        torch.testing.assert_close(got, wanted)
    elif isinstance(wanted, (list, tuple)):
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            compare(a, b)
    else:
        assert got == wanted
