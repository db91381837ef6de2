"""Calls whose types kernels refuse, though shape functions take them: raised while tracing.

So what the program did before is done, in graphs that write their inputs as well.
"""

from __future__ import annotations

import pytest
import torch
import triptych_dynamo

DOUBLE = torch.float64


def rows():
    return torch.tensor([0, 1])


def places():
    return torch.zeros(2, 2, dtype=torch.int64)


REFUSED = {
    "index_put_": lambda x, v: x.index_put_((rows(),), v),
    "index_put": lambda x, v: torch.index_put(x, (rows(),), v),
    "assigned at rows": lambda x, v: x.__setitem__(rows(), v),
    "assigned under a mask": lambda x, v: x.__setitem__(x[:, 0] >= 0, torch.ones(3, 2)),
    "index_copy_": lambda x, v: x.index_copy_(0, rows(), v),
    "index_add_": lambda x, v: x.index_add_(0, rows(), v),
    "index_add": lambda x, v: x.index_add(0, rows(), v),
    "scatter_": lambda x, v: x.scatter_(0, places(), v),
    "scatter_add_": lambda x, v: x.scatter_add_(0, places(), v),
    "scatter_reduce": lambda x, v: x.scatter_reduce(0, places(), v, "sum"),
    "masked_scatter": lambda x, v: x.masked_scatter(x >= 0, torch.ones(6)),
    "gather": lambda x, v: x.gather(0, torch.zeros(1, 1)),
    "index_select": lambda x, v: x.index_select(0, torch.zeros(1)),
    "take": lambda x, v: x.take(rows().int()),
    "put_": lambda x, v: x.put_(rows(), torch.ones(2)),
    "take_along_dim": lambda x, v: torch.take_along_dim(x, rows().view(1, 2).int(), 0),
}
TAKEN = {
    "index_put_": lambda x, v: x.index_put_((rows(),), v.double()),
    "assigned at a number": lambda x, v: x.__setitem__(0, v[0]),
    "assigned under a mask": lambda x, v: x.__setitem__(x[:, 0] >= 0, torch.ones(3, 2, dtype=DOUBLE)),
    "masked_fill_": lambda x, v: x.masked_fill_(x >= 0, torch.ones(())),
    "index_fill": lambda x, v: x.index_fill(0, rows(), 2.0),
    "index_select": lambda x, v: x.index_select(0, rows().int()),
}


def outcome(call, compiled):
    """Results, errors, what was noted, and what was written."""

    def program(x, v, log):
        x.mul_(2)
        log.append("before")
        result = call(x, v)
        log.append("after")
        return result

    log, x, v = [], torch.ones(3, 2, dtype=DOUBLE), torch.ones(2, 2)
    run = triptych_dynamo.optimize("eager")(program) if compiled else program
    try:
        result = run(x, v, log)
    except Exception as error:
        result = type(error), str(error)
    if isinstance(result, torch.Tensor):
        result = result.dtype, result.tolist()
    return result, log, x.tolist()


@pytest.mark.parametrize("name", REFUSED)
def test_what_kernels_refuse_is_raised_in_its_place(name):
    plain = outcome(REFUSED[name], compiled=False)
    assert plain[0][0] is RuntimeError and plain[1] == ["before"]
    assert outcome(REFUSED[name], compiled=True) == plain


@pytest.mark.parametrize("name", TAKEN)
def test_what_they_take_is_recorded(name):
    plain = outcome(TAKEN[name], compiled=False)
    assert plain[1] == ["before", "after"]
    assert outcome(TAKEN[name], compiled=True) == plain
