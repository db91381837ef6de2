"""What the interpreter loop itself does differently between Python versions, one row a version."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class LoopFacts:
    """A row.

    Attributes:
        for_iter_skip: instructions that an exhausted FOR_ITER skips at its target (END_FOR; from 3.13 on also
            the one that takes the iterator away, which FOR_ITER left there or counts as left).
        send_pops: whether the SEND that ends `yield from` takes the inner iterator away (else END_SEND does).
        tells_length: whether the error of too many values to unpack says how many there are.
    """

    for_iter_skip: int
    send_pops: bool
    tells_length: bool = False


LOOP = {
    (3, 11): LoopFacts(for_iter_skip=0, send_pops=True),
    (3, 12): LoopFacts(for_iter_skip=1, send_pops=False),
    (3, 13): LoopFacts(for_iter_skip=2, send_pops=False),
    (3, 14): LoopFacts(for_iter_skip=2, send_pops=False, tells_length=True),
}[sys.version_info[:2]]
