"""Cuts a static ATen graph into pieces that a partner compiles and operators that torch runs itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from triptych_inductor.wrapper.support import laid_out

from triptych.partners.acceptance import Acceptance, Executable, Partner, first_line, is_view, values_of
from triptych.partners.activity import PartnerStage

aten = torch.ops.aten
SILENT = frozenset({aten.copy_.default})  # the epilogue: writing results into inputs is the host's part by design


class _Support(OperatorSupportBase):
    def __init__(self, accepts: Acceptance) -> None:
        self.accepts = accepts

    def is_node_supported(self, submodules: Any, node: Node) -> bool:
        return self.accepts(node)


class Piece(torch.nn.Module):
    """A compiled piece of a graph: a function of tensors to a tensor or a tuple, laid out as torch would.

    Where the partner fails to build or to run the piece, torch runs it from then on, which is noted like any fallback.
    """

    def __init__(self, gm: GraphModule, partner: Partner, stage: PartnerStage, policy: str) -> None:
        super().__init__()
        output = gm.graph.output_node()
        self._single = isinstance(output.args[0], Node)
        results = [output.args[0]] if self._single else list(output.args[0])
        output.args = (tuple(results),)
        gm.recompile()
        self._gm, self._stage, self._policy = gm, stage, policy
        self._strides = [tuple(values_of(node)[0].stride()) for node in results]
        self._run: Executable | None = None
        try:
            self._run = partner.build(gm)
        except Exception as error:  # noqa: BLE001 - whatever a partner's compiler raises
            self._give_up("building", error)

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Run it."""
        outputs: Any = None
        if self._run is not None:
            try:
                outputs = self._run([tensor.detach() for tensor in inputs])
                self._stage.executions += 1
            except Exception as error:  # noqa: BLE001 - whatever a partner's runtime raises
                self._run = None
                self._give_up("running", error)
        if outputs is None:
            outputs = self._gm(*inputs)
        results = [laid_out(o, stride) for o, stride in zip(outputs, self._strides, strict=True)]
        return results[0] if self._single else tuple(results)

    def _give_up(self, what: str, error: Exception) -> None:
        reason = f"{what} them failed: {first_line(error)}"
        operators = [n for n in self._gm.graph.nodes if n.op == "call_function" and not is_view(n)]
        self._stage.fell_back([(str(node.target), reason) for node in operators], self._policy)


def compile_pieces(
    gm: GraphModule, partner: Partner, stage: PartnerStage, known: dict[Any, str], policy: str
) -> Callable[..., Any]:
    """The graph as a function of its inputs, with as much of it as possible compiled by `partner`.

    gm: static and functional, each node with `meta["val"]`; it is changed. known: answers of the partner's front end.
    policy: what becomes of operators that it cannot take ("warn", "raise", "ignore").
    """
    accepts = Acceptance(partner, known)
    partitioner = CapabilityBasedPartitioner(gm, _Support(accepts), allows_single_node_partition=True)
    partitions = [p for p in partitioner.propose_partitions() if not all(map(is_view, p.nodes))]
    stage.fell_back(_told(gm, accepts), policy)
    if not partitions:
        return gm.forward
    counts = [sum(not is_view(n) for n in p.nodes) for p in partitions]
    host = partitioner.fuse_partitions(partitions, prefix="piece_")
    for name, piece in list(host.named_children()):
        if name.startswith("piece_"):
            host.add_submodule(name, Piece(piece, partner, stage, policy))
    stage.subgraphs += len(partitions)
    stage.operations += sum(counts)
    host.recompile()
    return host.forward


def _told(gm: GraphModule, accepts: Acceptance) -> list[tuple[str, str]]:
    """Operators to report as not taken: those that compute something."""
    told = []
    for node in gm.graph.nodes:
        if node.op == "call_function" and not accepts(node) and not is_view(node) and node.target not in SILENT:
            told.append((str(node.target), accepts.refused[node]))
    return told
