"""Helpers: run a program eagerly and compiled from the same seed, and compare all that a program can see."""

import torch
from torch.utils._pytree import tree_flatten
from triptych_aot_autograd import aot_function, min_cut_partition


def keep_graph(gm, example_inputs):
    """A compiler that runs the graph as it is."""
    return gm


def relations(tensors):
    """Which tensors share memory, and where they start in it."""
    seen = {}
    return [(seen.setdefault(t.untyped_storage()._cdata, len(seen)), t.storage_offset()) for t in tensors]


def loss_of(tensors):
    terms = [
        (t.double() * torch.arange(1, t.numel() + 1).view(t.shape)).sin().sum() for t in tensors if t.requires_grad
    ]
    return sum(terms) if terms else None


def run(fn, makers, seed=0):
    torch.manual_seed(seed)
    leaves = [m() for m in makers]
    args = [x * 1 if x.requires_grad else x for x in leaves]  # histories, so that in-place changes are legal
    inputs = [x for x in leaves if x.requires_grad]
    torch.manual_seed(seed + 1)
    result = fn(*args)
    rng = torch.get_rng_state()
    flat = tree_flatten(result)[0]
    tensors = [t for t in flat if isinstance(t, torch.Tensor)] + args
    loss = loss_of(tensors)
    grads = torch.autograd.grad(loss, inputs, allow_unused=True) if loss is not None else ()
    return flat, args, tensors, grads, rng


def check_against_eager(fn, *makers, partition_fn=min_cut_partition, versions=True):
    flat_a, args_a, tensors_a, grads_a, rng_a = run(fn, makers)
    compiled = aot_function(fn, keep_graph, partition_fn=partition_fn)
    flat_b, args_b, tensors_b, grads_b, rng_b = run(compiled, makers)
    assert torch.equal(rng_a, rng_b)
    assert len(flat_a) == len(flat_b)
    for a, b in zip(flat_a, flat_b):
        assert isinstance(a, torch.Tensor) == isinstance(b, torch.Tensor)
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(b, a)
            assert (b.requires_grad, b.stride(), b.is_leaf) == (a.requires_grad, a.stride(), a.is_leaf)
        else:
            assert a == b
    for a, b in zip(args_a, args_b):
        torch.testing.assert_close(b, a)
        assert (b.shape, b.stride(), b.requires_grad) == (a.shape, a.stride(), a.requires_grad)
        assert b._version == a._version or (not versions and b._version > 0)
    assert relations(tensors_b) == relations(tensors_a)
    for a, b in zip(grads_a, grads_b, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(b, a)


def grad(*size):
    return lambda: torch.randn(*size, requires_grad=True)


def plain(*size):
    return lambda: torch.randn(*size)
