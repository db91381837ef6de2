"""The editions of the grammar. A seed means a program of one edition: editions stay as they are."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tools.random_programs import grammar, third, wide

Rows = list[tuple[int, str]]


@dataclass(frozen=True)
class Grammar:
    """What programs are made of.

    Attributes:
        expressions: rows by type; see `grammar`.
        statements: rows without blocks.
        blocks: kinds of statements with blocks.
        loops: what a `for` goes over.
        managers: of `with`.
        first: the variables at the beginning.
        shown: the types whose variables are returned.
        parameters: of `main`.
        size: how many statements `main` has at its outermost level.
    """

    expressions: dict[str, Rows]
    statements: Rows
    blocks: Rows
    loops: Rows
    managers: Rows
    first: list[str]
    shown: str
    parameters: str = "x, y, log"
    size: int = 9


_FIRST = [
    *["T = x", "T = y", "I = 3", "S = 'ab'", "L = [x, y]", "N = [1, 2]", "D = {'a': x}", "O = Box(y)", "F = torch.sin"]
]
_WIDE_FIRST = [
    *["M = m", "I = n", "S = word", "K = {1, n}", "U = (1, 2)", "Q = collections.deque([y], 3)"],
    *["G = collections.Counter(word)", "A = Slot(y, n)", "Y = iter([x, y])", "P = NET"],
]


def _joined(one: dict[str, Rows], other: dict[str, Rows]) -> dict[str, Rows]:
    return {kind: [*one.get(kind, []), *other.get(kind, [])] for kind in {**one, **other}}


_EDITIONS = {
    1: Grammar(
        *(grammar.EXPRESSIONS, grammar.STATEMENTS, grammar.BLOCKS, grammar.LOOPS, grammar.MANAGERS, _FIRST, "TISLNDO")
    ),
    2: Grammar(
        _joined(grammar.EXPRESSIONS, wide.EXPRESSIONS),
        [*grammar.STATEMENTS, *wide.STATEMENTS],
        [*grammar.BLOCKS, *wide.BLOCKS],
        [*grammar.LOOPS, *wide.LOOPS],
        [*grammar.MANAGERS, *wide.MANAGERS],
        [*_FIRST, *_WIDE_FIRST],
        "TISLNDOMKUQGA",
        "x, y, log, m, n=2, *, flag=False, word='b'",
        5,
    ),
}
EDITIONS = {
    **_EDITIONS,
    3: dataclasses.replace(
        _EDITIONS[2],
        expressions=_joined(_EDITIONS[2].expressions, third.EXPRESSIONS),
        statements=[*_EDITIONS[2].statements, *third.STATEMENTS],
        loops=[*_EDITIONS[2].loops, *third.LOOPS],
        managers=[*_EDITIONS[2].managers, *third.MANAGERS],
        first=[*_EDITIONS[2].first, *third.FIRST],
        shown=_EDITIONS[2].shown + "R",
    ),
}
LATEST = max(EDITIONS)
