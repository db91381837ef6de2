"""What is kept between forward and backward: freed as the backward uses it, kept for a second one, seen by hooks."""

import gc
import weakref

import pytest
import torch
from aot_testing import keep_graph
from torch.multiprocessing.reductions import StorageWeakRef
from triptych_aot_autograd import aot_function


def program(x, w):
    for _ in range(3):
        x = torch.tanh(x @ w)
    return x.sum()


class Watching:
    """A compiler of backward graphs whose result notes which inputs are freed once its list is empty."""

    def __init__(self):
        self.freed = []

    def __call__(self, gm, example_inputs):
        def run(args):
            result = gm(*args)
            references = [StorageWeakRef(a.untyped_storage()) for a in args if a.dim()]
            args.clear()
            self.freed.append([r.expired() for r in references])
            return result

        run._boxed_call = True
        return run


def inputs():
    return torch.randn(4, 5, requires_grad=True), torch.randn(5, 5, requires_grad=True)


def test_values_are_freed_as_the_backward_uses_them():
    watching = Watching()
    x, w = inputs()
    aot_function(program, keep_graph, watching)(x, w).backward()
    (freed,) = watching.freed
    assert freed.count(False) <= 2 and freed.count(True) >= 3  # x and w are the caller's


def test_kept_for_a_second_backward():
    watching = Watching()
    x, w = inputs()
    loss = aot_function(program, keep_graph, watching)(x, w)
    loss.backward(retain_graph=True)
    first = w.grad.clone()
    loss.backward()
    torch.testing.assert_close(w.grad, 2 * first)
    assert not any(watching.freed[0]) and any(watching.freed[1])
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        loss.backward()


def test_a_freed_graph_without_saved_inputs_says_so_too():
    x = torch.randn(3, requires_grad=True)
    loss = aot_function(lambda x: (x * 2).cos().sum(), keep_graph)(x)
    loss.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        loss.backward()


def test_a_result_that_is_saved_makes_no_cycle():
    gc.collect()
    gc.disable()
    try:
        x = torch.randn(3, requires_grad=True)
        y = aot_function(lambda x: (x.exp(), (x * 2).cos()), keep_graph)(x)
        alive = weakref.ref(y[0])
        storage = StorageWeakRef(y[1].untyped_storage())
        del y
        assert alive() is None and storage.expired()
    finally:
        gc.enable()


def test_hooks_see_all_that_is_saved():
    x, w = inputs()
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: packed.append(t.clone()) or len(packed) - 1, packed.__getitem__
    ):
        loss = aot_function(program, keep_graph)(x, w)
    assert len(packed) >= 4
    loss.backward()
    expected = torch.autograd.grad(program(x, w), (x, w))
    for got, wanted in zip((x.grad, w.grad), expected, strict=True):
        torch.testing.assert_close(got, wanted)


def test_incoming_gradients_are_freed():
    if not hasattr(torch.autograd.Function, "boxed_grads_call"):
        pytest.skip("this torch holds incoming gradients until the backward has returned")
    watching = Watching()
    x = torch.randn(3, 4, requires_grad=True)
    out = aot_function(lambda x: x * 2, keep_graph, watching)(x)
    out.square().sum().backward()
    assert watching.freed == [[True]]
