"""Operators on the state of the CPU's random number generator, as graphs call them.

They carry the tag of operators that draw numbers: whoever orders, merges or removes nodes leaves their order alone.
"""

from __future__ import annotations

import torch

_OPS = torch.library.Library("triptych_dynamo", "FRAGMENT")
_RANDOM = (torch.Tag.nondeterministic_seeded,)
_OPS.define("manual_seed(SymInt seed) -> ()", tags=_RANDOM)
_OPS.define("get_rng_state() -> Tensor", tags=_RANDOM)
_OPS.define("set_rng_state(Tensor state) -> ()", tags=_RANDOM)


@torch.library.impl(_OPS, "manual_seed", "CompositeExplicitAutograd")
def _manual_seed(seed: int) -> None:
    """`torch.manual_seed`, of all devices."""
    torch.manual_seed(seed)


@torch.library.impl(_OPS, "get_rng_state", "CompositeExplicitAutograd")
def _get_rng_state() -> torch.Tensor:
    return torch.get_rng_state()


@torch.library.impl(_OPS, "set_rng_state", "CompositeExplicitAutograd")
def _set_rng_state(state: torch.Tensor) -> None:
    torch.set_rng_state(state)


@torch.library.register_fake("triptych_dynamo::manual_seed", lib=_OPS)
def _fake_manual_seed(seed: int) -> None:
    pass


@torch.library.register_fake("triptych_dynamo::get_rng_state", lib=_OPS)
def _fake_get_rng_state() -> torch.Tensor:
    return torch.empty(_STATE_BYTES, dtype=torch.uint8)


@torch.library.register_fake("triptych_dynamo::set_rng_state", lib=_OPS)
def _fake_set_rng_state(state: torch.Tensor) -> None:
    pass


_STATE_BYTES = torch.get_rng_state().numel()
manual_seed = torch.ops.triptych_dynamo.manual_seed.default
get_rng_state = torch.ops.triptych_dynamo.get_rng_state.default
set_rng_state = torch.ops.triptych_dynamo.set_rng_state.default
