"""`default_partition`: the backward gets what eager's autograd would have saved; only views are computed twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triptych_aot_autograd.partition.parts import Partition, build_partition, eager_saved

if TYPE_CHECKING:
    from triptych_aot_autograd.joint_graph import JointGraph


def default_partition(joint: JointGraph) -> Partition:
    """Split at the boundary between the traced forward and the traced backward."""
    return build_partition(joint, eager_saved(joint))
