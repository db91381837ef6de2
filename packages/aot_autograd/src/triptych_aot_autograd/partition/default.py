"""`default_partition`: the backward gets what eager's autograd would have saved; only views are computed twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.fx import Node

from triptych_aot_autograd.partition.parts import Partition, build_partition, is_symbol, view_root

if TYPE_CHECKING:
    from triptych_aot_autograd.joint_graph import JointGraph


def eager_saved(joint: JointGraph) -> set[Node]:
    """Forward values that backward ops read, as eager would save them; a view counts as the tensor it shows."""
    saved: set[Node] = set()
    for node in joint.graph.nodes:
        if node.meta.get("phase") != "backward" or node.op != "call_function":
            continue
        saved.update(
            view_root(n) for n in node.all_input_nodes if n.meta.get("phase") == "forward" and not is_symbol(n)
        )
    for node, _ in joint.of_kind("gradient"):
        if isinstance(node, Node) and node.meta.get("phase") == "forward":
            saved.add(view_root(node))
    return saved


def default_partition(joint: JointGraph) -> Partition:
    """Split at the boundary between the traced forward and the traced backward."""
    return build_partition(joint, eager_saved(joint))
