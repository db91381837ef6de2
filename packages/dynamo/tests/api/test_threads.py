"""Many threads that call, compile and reset at once."""

import random
import sys
import threading
import time
import traceback
import warnings

import pytest
import torch
import triptych_dynamo as td

SECONDS = 4


def broken(x):
    y = x * 2
    td.graph_break()
    return y + 1


def looped(x, count):
    for _ in range(count):
        x = x + 1
    return x


def branched(x, flag):
    return x * 2 if flag else x - 1


def helper(x):
    td.graph_break()
    return x * 3


def nested(x):
    return helper(x) + 1


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.factor = 2.0

    def forward(self, x):
        return self.linear(x) * self.factor


NET = Net()
PROGRAMS = [
    (broken, lambda rng: (torch.ones(rng.randint(1, 6)),)),
    (looped, lambda rng: (torch.ones(2), rng.randint(1, 4))),
    (branched, lambda rng: (torch.ones(rng.randint(1, 3)), rng.random() < 0.5)),
    (nested, lambda rng: (torch.ones(rng.randint(1, 4)),)),
    (NET.forward, lambda rng: (torch.ones(rng.randint(1, 4), 3),)),
]


@pytest.fixture
def switching():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(work, count=8):
    """Run `work(seed)` in threads; their first error, as text."""
    errors = []

    def guarded(seed):
        try:
            work(seed)
        except BaseException:
            errors.append(traceback.format_exc())

    threads = [threading.Thread(target=guarded, args=(seed,)) for seed in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]


def test_calling_compiling_and_resetting(switching):
    compiled = [td.optimize("eager", recompile_limit=1000)(fn) for fn, _ in PROGRAMS]
    end = time.monotonic() + SECONDS

    def work(seed):
        rng = random.Random(seed)
        while time.monotonic() < end:
            number = rng.randrange(len(PROGRAMS))
            fn, make = PROGRAMS[number]
            args = make(rng)
            with torch.set_grad_enabled(rng.random() < 0.5):
                got, expected = compiled[number](*args), fn(*args)
            assert torch.equal(got, expected) and got.requires_grad == expected.requires_grad
            if rng.random() < 0.01:
                td.reset()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", td.RecompileLimitWarning)
        in_threads(work)


def test_each_thread_has_modes_of_its_own(switching):
    weight = torch.ones(3, requires_grad=True)
    fn = td.optimize("eager")(lambda x: (x * weight).sum() if torch.is_grad_enabled() else x @ x)

    def work(seed):
        for _ in range(50):
            if seed % 3 == 0:
                with torch.no_grad():
                    assert fn(torch.ones(3)).item() == 3.0
            elif seed % 3 == 1:
                assert fn(torch.ones(3)).requires_grad
            else:
                with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
                    assert fn(torch.ones(2, 2)).dtype is torch.bfloat16

    in_threads(work)


def test_a_backend_that_compiles_while_others_call(switching):
    """Backends may be slow, and may call compiled functions themselves."""
    inner = td.optimize("eager")(lambda x: x + 1)

    def backend(gm, inputs):
        time.sleep(0.02)
        assert inner(torch.ones(1)).item() == 2.0
        return gm.forward

    outer = td.optimize(backend)(lambda x: x * 2)

    def work(seed):
        for size in range(1, 6):
            assert outer(torch.ones(size)).tolist() == [2.0] * size
            assert inner(torch.ones(size)).tolist() == [2.0] * size

    in_threads(work)
    assert len(td.region_of(outer).records) <= 3
