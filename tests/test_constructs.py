"""The table of constructs through the whole stack: every small program compiled to code, against plain Python."""

import sys
from pathlib import Path

import pytest
import triptych

sys.path.insert(0, str(Path(__file__).parents[1] / "packages" / "dynamo" / "tests" / "constructs"))

from observe import Seen, assert_same_outcome  # noqa: E402
from table import load_rows  # noqa: E402

ROWS = load_rows()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_construct(row):
    compiled = triptych.compile(row.fn, fullgraph=row.breaks is None)
    got, expected = Seen(compiled, row.args), Seen(row.fn, row.args)
    if not row.reads_time:
        assert_same_outcome(got, expected)
    assert bool(expected.error) == row.raises
