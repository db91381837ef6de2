"""A change of exactly one fact gives one recompile and the right value; a change of anything else gives none."""

import contextlib

import fact_programs
import pytest
import torch
import triptych_dynamo as td
from torch.utils._pytree import tree_leaves


def outcome(fn, args):
    try:
        return [*tree_leaves(fn(*args)), *[arg for arg in args if isinstance(arg, torch.Tensor)]]
    except Exception as error:
        return [type(error), str(error)]


def same(left, right):
    assert len(left) == len(right)
    for one, two in zip(left, right, strict=True):
        if isinstance(one, torch.Tensor):
            assert (one.dtype, one.device, one.shape, one.requires_grad) == (
                two.dtype,
                two.device,
                two.shape,
                two.requires_grad,
            )
            assert one.is_meta or torch.equal(one, two)
        else:
            assert one == two


def compiles(compiled):
    return len(td.region_of(compiled).records)


@pytest.fixture(autouse=True)
def clean():
    yield
    while fact_programs.GLOBAL_HOOKS:
        fact_programs.GLOBAL_HOOKS.pop().remove()


@pytest.mark.parametrize("name", fact_programs.ROWS)
def test_one_recompile_for_the_fact_and_none_for_others(name):
    steps = fact_programs.ROWS[name]()
    fn, arguments = next(steps)
    compiled = td.optimize("eager")(fn)
    for _ in range(2):
        same(outcome(compiled, arguments()), outcome(fn, arguments()))
    assert compiles(compiled) == 1
    next(steps)()
    for _ in range(2):
        same(outcome(compiled, arguments()), outcome(fn, arguments()))
    assert compiles(compiled) == 1, td.region_of(compiled).records[-1].recompile_reason
    undo = next(steps)()
    with undo if isinstance(undo, contextlib.ExitStack) else contextlib.nullcontext():
        for _ in range(3):
            same(outcome(compiled, arguments()), outcome(fn, arguments()))
        assert compiles(compiled) == 2
    assert td.region_of(compiled).records[-1].recompile_reason


def test_what_is_passed_on_is_not_looked_at():
    """The length of a list that goes to a function that does not read it is no fact."""

    def inner(x, items):
        return x + 1

    compiled = td.optimize("eager")(lambda x, items: (inner(x, items), items))
    for items in ([], [1], [1, 2, 3], ["a", None]):
        result, passed = compiled(fact_programs.X, items)
        assert passed is items and torch.equal(result, fact_programs.X + 1)
    assert compiles(compiled) == 1
