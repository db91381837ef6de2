"""Every construct of the table, captured and compiled, against plain Python."""

from __future__ import annotations

import copy

import pytest
import triptych_dynamo
from observe import Seen, assert_same_outcome
from table import load_rows
from triptych_dynamo.breaks import BREAKS

ROWS = load_rows()


def ids(row):
    return row.name


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_optimize(row):
    """Results, exceptions, changes and output of two calls are those of plain Python."""
    compiled = triptych_dynamo.optimize("eager", fullgraph=row.breaks is None)(row.fn)
    for _ in range(2):
        got, expected = Seen(compiled, row.args), Seen(row.fn, row.args)
        if not row.reads_time:
            assert_same_outcome(got, expected)
        assert bool(expected.error) == row.raises
    assert row.raises or triptych_dynamo.region_of(compiled).records, "the trace raised where plain Python does not"


@pytest.mark.parametrize("row", [row for row in ROWS if not row.raises], ids=ids)
def test_capture(row):
    """One whole graph, or the declared break."""
    args = copy.deepcopy(row.args)
    if row.breaks is None:
        assert triptych_dynamo.capture(row.fn)(*args).outputs is not None
        return
    with pytest.raises(triptych_dynamo.GraphBreakError) as caught:
        triptych_dynamo.capture(row.fn)(*args)
    assert BREAKS[row.breaks].id in str(caught.value)


def test_the_table_is_large():
    assert len(ROWS) >= 300
