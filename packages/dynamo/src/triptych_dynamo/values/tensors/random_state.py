"""torch's global generator in a region: seeding it, reading and setting its state are nodes of the graph.

A graph draws its numbers from that generator in the program's order, so these nodes stand among those that draw. What
asks for more (a seed from the system, other generators, those of devices) ends the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from triptych_dynamo import random_state
from triptych_dynamo.sources import PinnedSource
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.common import none
from triptych_dynamo.values.tensors.tensor import TensorValue

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame

_MOST = 2**63  # seeds above, which torch takes too, have no place among the graph's integers


@builtin(torch.manual_seed)
def _manual_seed(tx: Frame, seed: Value) -> Value:
    """Gives the generator itself, as torch does."""
    given = seed
    if seed.is_constant():
        number = seed.as_constant()
        if not isinstance(number, (int, float)) or not -_MOST <= number < _MOST:
            return tx.unsupported("random-state", f"the seed {number!r}")
        given = tx.constant(int(number))
    elif isinstance(seed, TensorValue):
        return tx.unsupported("random-state", "a seed that a tensor holds")
    tx.call_graph(random_state.manual_seed, [given])
    tx.trace.seed = given
    return tx.wrap(torch.default_generator, PinnedSource(torch.default_generator, "torch.default_generator"))


@builtin(torch.initial_seed)
def _initial_seed(tx: Frame) -> Value:
    known = tx.trace.seed
    if known is None or not known.is_constant() or known.as_constant() < 0:
        return tx.unsupported("random-state", "the seed of a generator that the region did not seed")
    return known


@builtin(torch.get_rng_state)
def _get_rng_state(tx: Frame) -> Value:
    return tx.call_graph(random_state.get_rng_state, [])


@builtin(torch.set_rng_state)
def _set_rng_state(tx: Frame, new_state: Value) -> Value:
    if not isinstance(new_state, TensorValue):
        return tx.unsupported("random-state", f"{new_state!r} as a state")
    tx.call_graph(random_state.set_rng_state, [new_state])
    tx.trace.seed = None
    return none(tx)
