"""Random numbers in compiled programs: values, gradients and what all generators hold afterwards are as in eager."""

import random

import numpy
import pytest
import torch
import torch.nn.functional as F
import triptych
import triptych_dynamo
from torch.utils.checkpoint import checkpoint

X = torch.arange(6.0).reshape(2, 3) / 3
DROPOUT = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(3, 3), torch.nn.Dropout(0.3))
GENERATOR = torch.Generator()
OWN = random.Random()
PROGRAMS = {}


def program(*, whole=True):
    """Add a function of a tensor to the programs; `whole`: it is one graph."""

    def register(fn):
        PROGRAMS[fn.__name__] = (fn, whole)
        return fn

    return register


# -- torch's generator -------------------------------------------------------------------------------------------------
@program()
def seeded(x):
    before = torch.rand(2)
    given = torch.manual_seed(3)
    return before, x + torch.rand(3), torch.initial_seed(), given is torch.default_generator


@program()
def seeded_twice(x):
    torch.manual_seed(3)
    first = torch.rand(3)
    torch.manual_seed(3)
    return first, torch.rand(3), x * 2


@program()
def state_read_and_set(x):
    state = torch.get_rng_state()
    first = torch.rand(3)
    torch.set_rng_state(state)
    return first + x, torch.rand(3), torch.get_rng_state()


@program()
def forked(x):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        inside = F.dropout(x, 0.5)
    return inside, torch.rand(3)


@program()
def seeded_before_dropout(x):
    torch.manual_seed(5)
    return (F.dropout(x.sin(), 0.5) * x).sum(), torch.rand(1)


@program()
def seeded_in_a_checkpoint(x):
    def noisy(v):
        torch.manual_seed(5)
        return F.dropout(v.sin(), 0.5) * v

    return checkpoint(noisy, x, use_reentrant=False).sum(), torch.rand(1)


@program(whole=False)
def seeded_by_the_system(x):
    seed = torch.seed()
    first = torch.rand(3)
    torch.manual_seed(seed)
    same = torch.equal(first, torch.rand(3))
    torch.manual_seed(0)
    return x * 2, same


@program(whole=False)
def seed_read(x):
    return x * 2, torch.initial_seed()


@program(whole=False)
def another_generator(x):
    GENERATOR.manual_seed(4)
    return x + torch.rand(3, generator=GENERATOR), torch.randn(2, generator=GENERATOR), GENERATOR.initial_seed()


@program()
def dropout_of_modules(x):
    return DROPOUT(x).sum()


@program()
def all_kinds_of_draws(x):
    p = x.abs() + 0.1
    drawn = [torch.rand(3), torch.randn(3), torch.randint(5, (3,)), torch.randperm(5), torch.rand_like(x)]
    drawn += [torch.bernoulli(x.sigmoid()), torch.normal(x, 1.0), torch.poisson(p), torch.multinomial(p, 2)]
    for fill in ("exponential_", "cauchy_", "log_normal_", "uniform_", "normal_", "random_"):
        drawn.append(getattr(x.detach().clone(), fill)())
    return drawn, x.detach().clone().random_(0, 5), x.detach().clone().geometric_(0.3), F.rrelu(x, training=True)


@program()
def noise_in_a_function_of_autograd(x):
    class Noisy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            return v * torch.rand_like(v)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    return Noisy.apply(x).sum(), torch.rand(2)


# -- Python's and numpy's ----------------------------------------------------------------------------------------------
@program(whole=False)
def numbers_of_python(x):
    items = [1, 2, 3, 4]
    random.shuffle(items)
    return x * random.random(), items, random.randint(0, 9), random.gauss(0, 1), random.sample(range(9), 3)


@program()
def python_seeded(x):
    random.seed(3)
    return x * random.random(), random.randint(0, 5)


@program(whole=False)
def a_branch_on_a_number(x):
    return x * 2 if random.random() < 0.5 else x * 3


@program()
def an_own_generator(x):
    OWN.seed(4)
    return x * OWN.random(), OWN.randint(0, 9)


@program(whole=False)
def numbers_of_numpy(x):
    state = numpy.random.get_state()
    first = numpy.random.rand()
    numpy.random.set_state(state)
    return x * first, numpy.random.rand() == first, numpy.random.permutation(4), numpy.random.normal()


@program(whole=False)
def numpy_seeded(x):
    numpy.random.seed(3)
    return x + torch.from_numpy(numpy.random.rand(2, 3)).float(), numpy.random.default_rng(3).integers(0, 9)


# -- the test ----------------------------------------------------------------------------------------------------------
def outcome(fn):
    """Two calls, each from the same states: what they give, and the states behind them."""
    found = []
    for seed in (5, 6):
        torch.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed)
        x = X.clone().requires_grad_()
        result = fn(x)
        leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        sum((leaf.sum() for leaf in leaves if leaf.requires_grad), x.sum() * 0).backward()
        state = numpy.random.get_state()
        found.append([result, x.grad, torch.get_rng_state(), random.getstate(), [*state[1], *state[2:]]])
    return found


def plain(nest):
    """Detached tensors; numbers and arrays as lists, so that equality is plain."""
    flat = torch.utils._pytree.tree_leaves(nest)
    return [leaf.detach() if isinstance(leaf, torch.Tensor) else numpy.asarray(leaf).tolist() for leaf in flat]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["capture", "whole stack"])
def test_as_eager(name, backend):
    fn, whole = PROGRAMS[name]
    if backend == "capture":
        compiled = triptych_dynamo.optimize("eager", fullgraph=whole)(fn)
    else:
        compiled = triptych.compile(fn, fullgraph=whole)
    for got, wanted in zip(plain(outcome(compiled)), plain(outcome(fn)), strict=True):
        if isinstance(wanted, torch.Tensor):
            torch.testing.assert_close(got, wanted)
        else:
            assert got == wanted


@pytest.mark.parametrize("name", [name for name, (_, whole) in PROGRAMS.items() if not whole])
def test_breaks_are_as_declared(name):
    with pytest.raises(triptych_dynamo.GraphBreakError):
        triptych_dynamo.capture(PROGRAMS[name][0])(X.clone())
