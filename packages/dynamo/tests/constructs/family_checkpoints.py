"""Values that are computed again for the backward, and hooks on the tensors that autograd saves."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from table import construct
from torch import nn
from torch.autograd import graph
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts

X = torch.arange(6.0).reshape(2, 3) / 3
W = torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()


def net(*between):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4), *between, nn.Linear(4, 2))


# -- checkpoints that are inlined --------------------------------------------------------------------------------------
@construct(W)
def same_mask_in_both_runs(w):
    return checkpoint(lambda v: F.dropout(v.sin(), 0.5) * v, w, use_reentrant=False).sum(), torch.rand(2)


@construct(net(nn.Tanh(), nn.Dropout(0.5)), W)
def sequence_of_checkpoints(module, w):
    return checkpoint_sequential(module, 2, w, use_reentrant=False).sum()


@construct(W)
def checkpoint_in_a_checkpoint(w):
    def inner(v):
        return checkpoint(lambda u: u.sin() * u, v, use_reentrant=False).cos()

    return checkpoint(inner, w, use_reentrant=False).sum()


@construct(W)
def checkpoint_that_selects(w):
    contexts = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    return checkpoint(lambda v: (v @ v.t()).sin(), w, use_reentrant=False, context_fn=contexts).sum()


@construct(X, W)
def reentrant_without_a_gradient_to_give(x, w):
    y = checkpoint(lambda v: v * w, x, use_reentrant=True)
    return y.sum() + w.sum(), y.requires_grad


@construct(W, raises=True)
def reentrant_with_keywords(w):
    return checkpoint(lambda v, k: v * k, w, k=2, use_reentrant=True)


@construct(W, raises=True)
def reentrant_with_contexts(w):
    return checkpoint(lambda v: v * 2, w, use_reentrant=True, context_fn=lambda: None)


# -- checkpoints that run as plain Python ------------------------------------------------------------------------------
@construct(W, breaks="random-state")
def other_mask_in_the_second_run(w):
    run = functools.partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
    return run(lambda v: F.dropout(v.sin(), 0.5).exp(), w).sum()


@construct(W, [], breaks="backward")
def side_effects_in_both_runs(w, seen):
    def noting(v):
        seen.append(len(seen))
        return v.sin() * v

    return checkpoint(noting, w * 2, use_reentrant=False).sum().cos()


@construct(W, [], breaks="backward")
def side_effects_in_both_runs_reentrant(w, seen):
    def noting(v):
        seen.append(len(seen))
        return v.sin() * v

    return checkpoint(noting, w * 2, use_reentrant=True).sum().cos()


@construct(net(nn.BatchNorm1d(4)), W, breaks="backward")
def statistics_counted_in_both_runs(module, w):
    return checkpoint(module, w, use_reentrant=False).sum()


@construct(W, breaks="truth")
def break_in_a_checkpoint(w):
    def branching(v):
        y = v.sin()
        return y * v if y.sum() < 100 else y

    return checkpoint(branching, w * 2, use_reentrant=False).sum()


@construct(W, [], breaks="context-manager")
def contexts_around_both_runs(w, seen):
    class Noting:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            seen.append(self.name)

        def __exit__(self, *error):
            seen.append(f"{self.name} left")

    contexts = (Noting("first"), Noting("again"))
    return checkpoint(lambda v: v.sin() * v, w, use_reentrant=False, context_fn=lambda: contexts).sum()


# -- hooks on saved tensors --------------------------------------------------------------------------------------------
@construct(W, [], breaks="backward")
def hooks_see_what_plain_python_saves(w, seen):
    def pack(saved):
        seen.append(tuple(saved.shape))
        return saved * 2

    with graph.saved_tensors_hooks(pack, lambda packed: packed + 1):
        y = (w.sin() * w).exp()
    return y.sum() + (w.cos() * w).sum()


@construct(W, breaks="backward")
def hooks_around_a_callee_and_a_break(w):
    def inner(v):
        y = v.sin() * v
        return y * 2 if y.sum() < 100 else y

    with graph.saved_tensors_hooks(lambda saved: saved.numpy(), lambda packed: torch.from_numpy(packed) * 2):
        return inner(w.exp()).sum()


@construct(W, breaks="backward")
def saved_on_the_cpu(w):
    with graph.save_on_cpu():
        return (w.sin() * w).sum()


@construct(W)
def hooks_that_are_forbidden(w):
    with graph.disable_saved_tensors_hooks("none here"):
        try:
            with graph.save_on_cpu():
                return (w.sin() * w).sum()
        except RuntimeError as error:
            return str(error), w.sin().sum()


@construct(W, breaks="truth")
def hooks_that_are_forbidden_over_a_break(w):
    with graph.disable_saved_tensors_hooks("none here"):
        y = w * 2 if w.sum() < 100 else w
        try:
            with graph.save_on_cpu():
                return (y * w).sum()
        except RuntimeError as error:
            return str(error), y.sum()
