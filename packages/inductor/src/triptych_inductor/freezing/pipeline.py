"""The passes of freezing, in order, and `run_frozen`, which runs them and tells what each found."""

from __future__ import annotations

from collections.abc import Callable

from torch.fx import GraphModule

from triptych_inductor.freezing.affine import fold_affine
from triptych_inductor.freezing.constants import Constants
from triptych_inductor.freezing.folding import fold_constants
from triptych_inductor.freezing.packing import pack_weights
from triptych_inductor.freezing.post_operations import fuse_post_operations
from triptych_inductor.freezing.products import concatenate_products
from triptych_inductor.options import Options
from triptych_inductor.passes.cleanup import common_subexpressions, remove_dead_code, remove_no_ops

FrozenPass = Callable[[Constants], int]

FROZEN_PASSES: dict[str, FrozenPass] = {
    "fold_constants": fold_constants,
    "fold_affine": fold_affine,
    "concatenate_products": concatenate_products,
    "pack_weights": pack_weights,
    "fuse_post_operations": fuse_post_operations,
}


def run_frozen(gm: GraphModule, options: Options) -> dict[str, int]:
    """Make use of a graph's constants; gives how often each pass found something, and the number of constants.

    In: a graph of ATen ops with fake values, that may be changed. Out: the same function as of now: nothing written
    later into a tensor that it holds has an effect.
    """
    for clean in (remove_dead_code, remove_no_ops, common_subexpressions):
        clean(gm)
    constants = Constants(gm, options)
    counts = {"constants": len(constants.values)}
    if not constants.values:
        return counts
    for name, fn in FROZEN_PASSES.items():
        if name not in options.exclude_passes:
            counts[name] = fn(constants)
            remove_dead_code(gm)
            constants.remove_unused()
    if not options.freezing_discard_parameters:
        constants.copy_given()
    counts["constants_left"] = len(constants.graph.find_nodes(op="get_attr"))
    return counts
