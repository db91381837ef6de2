"""The table of constructs through the whole stack: every small program compiled to code, against plain Python."""

import sys
from pathlib import Path

import pytest
import triptych

sys.path.insert(0, str(Path(__file__).parents[1] / "packages" / "dynamo" / "tests" / "constructs"))

from observe import Seen, assert_same_outcome  # noqa: E402
from table import load_rows  # noqa: E402

# What differs by stage is run whole; of the families that are Python alone, every third row.
STAGED = (
    "autograd",
    "hooks",
    "checkpoints",
    "hops",
    "numpy",
    "torch",
    "libraries",
    "operations",
    "transforms",
    "over_breaks",
)
ROWS = [row for n, row in enumerate(load_rows()) if n % 3 == 0 or row.family.removeprefix("family_") in STAGED]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_construct(row):
    compiled = triptych.compile(row.fn, fullgraph=row.breaks is None)
    got, expected = Seen(compiled, row.args), Seen(row.fn, row.args)
    if not row.reads_time:
        assert_same_outcome(got, expected)
    assert bool(expected.error) == row.raises
