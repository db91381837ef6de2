"""Indices out of range raise what eager raises, word for word.

Negative ones count from the end only where they do there.
"""

import pytest
import torch
import torch.nn.functional as F
import triptych_inductor
from torch.fx.experimental.proxy_tensor import make_fx

X = torch.randn(4, 6)


def places(*values):
    return torch.tensor(values)


CASES = {
    "index": (lambda x, i: x[i] + 1, places(0, -1), [places(4, 0), places(-5, 0)]),
    "index of a later dimension": (lambda x, i: x[:, i] + 1, places(0, -1), [places(6, 0)]),
    "two indices": (lambda x, i: x[i, i] + 1, places(0, -1), [places(4, 0)]),
    "gather": (
        lambda x, i: x.gather(1, i) * 2,
        torch.zeros(4, 2, dtype=torch.int64),
        [torch.full((4, 2), 9), torch.full((4, 2), -1)],
    ),
    "scatter": (
        lambda x, i: x.scatter(1, i, 2.0) * 2,
        torch.zeros(4, 2, dtype=torch.int64),
        [torch.full((4, 2), 9), torch.full((4, 2), -1)],
    ),
    "embedding": (lambda x, i: F.embedding(i, x) * 2, places(0, 1), [places(9, 1), places(-1, 1)]),
    "class": (lambda x, i: F.nll_loss(x, i), places(0, 1, 2, 3), [places(9, 1, 1, 1), places(-1, 1, 1, 1)]),
}


@pytest.mark.parametrize("name", list(CASES))
def test_same_error_as_in_eager(name):
    function, good, bad = CASES[name]
    gm = make_fx(function, tracing_mode="fake")(X, good)
    compiled = triptych_inductor.compile(gm, [X, good])
    torch.testing.assert_close(compiled(X, good), function(X, good))
    for wrong in bad:
        with pytest.raises((IndexError, RuntimeError)) as want:
            function(X, wrong)
        with pytest.raises(want.type) as got:
            compiled(X, wrong)
        assert str(got.value) == str(want.value)
