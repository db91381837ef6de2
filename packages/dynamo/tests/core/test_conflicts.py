"""Writes into memory that an operand shares in part: refused in their place, whatever sizes are symbolic."""

from __future__ import annotations

import pytest
import torch
import triptych_dynamo


def shifted(m):
    m[1:].add_(m[:-1])


def expanded(m):
    m[0].expand(3, m.shape[1]).mul_(2)


def out(m):
    torch.add(m[:-1], 1, out=m[1:])


def same(m):
    m[1:].add_(m[1:])


def by_rows(m):
    """Halves meet where there is an odd number of rows."""
    k = (m.shape[0] + 1) // 2
    m[:k].add_(m[-k:])


def outcomes(write, compiled, sizes):
    def program(m, log):
        m.mul_(2)
        log.append("before")
        write(m)
        log.append("after")

    run = triptych_dynamo.optimize("eager")(program) if compiled else program
    found = []
    for size in sizes:
        log, m = [], torch.arange(4.0 * size).reshape(size, 4)
        try:
            run(m, log)
        except RuntimeError as error:
            log.append(str(error))
        found.append((m.tolist(), log))
    return found


@pytest.mark.parametrize("write", [shifted, expanded, out, same, by_rows])
@pytest.mark.parametrize("sizes", [(4, 4), (4, 6, 8), (5, 7, 9)], ids=str)
def test_as_in_plain_python(write, sizes):
    """Rows become symbolic with the second size."""
    assert outcomes(write, True, sizes) == outcomes(write, False, sizes)
