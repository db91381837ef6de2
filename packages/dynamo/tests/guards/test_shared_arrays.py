"""Arrays that share memory with a tensor that is written: over a break, and from outside."""

import numpy
import pytest
import torch
import triptych_dynamo as td


def written_through_both(x, a):
    x.mul_(2)
    a += 1
    return x + torch.from_numpy(a)


def array_over_a_break(x, a):
    view = x.numpy(force=True)
    td.graph_break()
    x.mul_(2)
    return float(view[0]) + x


def fails_behind_a_break(x, a):
    size = int(x.numpy(force=True).shape[0])
    x.mul_(size)
    return undefined + x  # noqa: F821


def outcome(fn, shared):
    x = torch.arange(1.0, 5.0)
    a = x.numpy() if shared else numpy.ones(4, dtype="float32")
    try:
        result = fn(x, a).tolist()
    except NameError as error:
        result = str(error)
    return result, x.tolist(), a.tolist(), x._version


@pytest.mark.parametrize("program", [written_through_both, array_over_a_break, fails_behind_a_break])
def test_arrays_together_and_apart(program):
    compiled = td.optimize("eager")(program)
    for shared in (False, True, False, True):
        assert outcome(compiled, shared) == outcome(program, shared)


def test_one_version_for_each():
    compiled = td.optimize("eager")(written_through_both)
    for shared in (False, True, False, True):
        outcome(compiled, shared)
    assert len(td.region_of(compiled).records) == 2
