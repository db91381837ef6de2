"""`set_enable_guard_collectives`: the ranks of a process group compile together or not at all."""

from __future__ import annotations

import torch
import triptych_dynamo


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Let all ranks of the default process group compile when one of them has to; gives the setting before.

    A rank that compiles while others run on may wait for a collective that they pass by. With this, each call of a
    compiled callable asks all ranks whether a version fits; where one has none, all compile. Every rank must then make
    the same calls in the same order. Without a process group nothing is asked.

    Example:
        >>> torch.distributed.init_process_group("gloo")
        >>> triptych.compiler.set_enable_guard_collectives(True)
    """
    if not isinstance(enabled, bool):
        raise TypeError(f"set_enable_guard_collectives takes True or False, not {enabled!r}")
    before = triptych_dynamo.set_guard_agreement(_everywhere if enabled else None)
    return before is _everywhere


def _everywhere(fits: bool) -> bool:
    """Whether all ranks have a version that fits."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return fits
    on_gpu = distributed.get_backend() == "nccl"
    vote = torch.tensor([int(fits)], device="cuda" if on_gpu else "cpu")
    distributed.all_reduce(vote, op=distributed.ReduceOp.MIN)
    return bool(vote.item())
