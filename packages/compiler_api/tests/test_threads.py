"""Many threads that compile, call, reset and change stances at once, through the whole compiler."""

import random
import threading
import time
import traceback

import pytest
import torch
import triptych
from torch import nn
from triptych import compiler

SECONDS = 5


def scaled(x, k):
    return torch.softmax(x * k, -1) + x.shape[0]


def in_threads(work, count=6):
    """Runs `work(seed)` in threads; the first failure is this one's."""
    failures = []

    def guarded(seed):
        try:
            work(seed)
        except BaseException:
            failures.append(traceback.format_exc())

    threads = [threading.Thread(target=guarded, args=(seed,)) for seed in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_everything_at_once(backend):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    module, function = triptych.compile(model, backend=backend), triptych.compile(scaled, backend=backend)
    end = time.monotonic() + SECONDS

    def work(seed):
        rng = random.Random(seed)
        while time.monotonic() < end:
            x = torch.randn(rng.randint(1, 6), 4, requires_grad=rng.random() < 0.5)
            action = rng.choice(["module", "function", "fresh", "reset", "stance"])
            if action == "module":
                found, expected = module(x), model(x)
                torch.testing.assert_close(found, expected)
                torch.autograd.grad(found.sum(), list(model.parameters()))
            elif action == "function":
                k = rng.choice([1, 2, 3.5])
                torch.testing.assert_close(function(x, k), scaled(x, k))
            elif action == "fresh":
                torch.testing.assert_close(
                    triptych.compile(lambda x: x.sin() * seed, backend=backend)(x), x.sin() * seed
                )
            elif action == "reset" and rng.random() < 0.3:
                compiler.reset()
            elif action == "stance":
                with compiler.set_stance(rng.choice(["force_eager", "default", "eager_on_recompile"])):
                    torch.testing.assert_close(function(x, 2), scaled(x, 2))

    in_threads(work)
    with compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="fail_on_recompile"):
        triptych.compile(lambda x: x + 1, backend=backend)(torch.ones(2))


def counted():
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    return triptych.compile(lambda x: x + 1, backend=backend), graphs


def test_blocks_that_end_in_any_order_leave_the_stance_as_it_was():
    first, second = threading.Event(), threading.Event()
    seen = []

    def outer():
        with compiler.set_stance("force_eager"):
            first.set()
            second.wait(10)
        fn, graphs = counted()
        fn(torch.ones(2))
        seen.append(len(graphs))

    thread = threading.Thread(target=outer)
    thread.start()
    first.wait(10)
    with compiler.set_stance("eager_on_recompile"):  # begins in the other block, ends behind it
        second.set()
        thread.join()
    fn, graphs = counted()
    fn(torch.ones(2))
    assert seen == [0] and len(graphs) == 1


def test_stances_hold_in_other_threads_and_nest():
    fn, graphs = counted()
    with compiler.set_stance("force_eager"):
        in_threads(lambda seed: fn(torch.ones(2)), 2)
        compiler.set_stance("default")  # until the block ends
        with compiler.set_stance("force_eager"):
            fn(torch.ones(2))
        assert not graphs
        fn(torch.ones(2))
    assert len(graphs) == 1
    stance = compiler.set_stance("force_eager")
    other, others = counted()
    for _ in range(3):
        with stance:
            other(torch.ones(2))
    assert not others
    other(torch.ones(2))
    assert len(others) == 1
