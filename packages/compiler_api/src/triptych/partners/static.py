"""Graphs with plain numbers as sizes, made of operators that a partner knows.

An operator without a form for the partner is taken apart by torch's decompositions, where that leaves nothing that the
partner does not know either.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from triptych.partners.acceptance import Acceptance, Partner, alone

MOST_ROUNDS = 4  # decompositions may give operators that need one again
Table = dict[Any, Callable[..., Any]]


def is_static(value: Any) -> bool:
    """Whether a graph's input has no symbolic size and is no symbolic number."""
    if isinstance(value, torch.Tensor):
        return all(isinstance(n, int) for n in (*value.shape, *value.stride()))
    return not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def made_static(gm: GraphModule, inputs: Sequence[Any], partner: Partner, known: dict[Any, str]) -> GraphModule | str:
    """The graph for these inputs, or why there is none.

    inputs: real or fake tensors and numbers. known: answers of the partner's front end so far.
    """
    table: Table = {}
    try:
        for _ in range(MOST_ROUNDS):
            graph = _traced(gm, inputs, table)
            accepts = Acceptance(partner, known)
            lacking = [n for n in graph.graph.nodes if n.op == "call_function" and accepts.lacks_rule(n)]
            new: Table = {}
            for node in {n.target: n for n in lacking if n.target not in table}.values():
                new |= _helping(node, partner, known)
            if not new:
                break
            table |= new
    except (RuntimeError, NotImplementedError) as error:  # what sizes that depend on numbers in tensors lead to
        return f"it cannot be traced with fixed sizes: {str(error).splitlines()[0][:160]}"
    return graph


def _traced(gm: GraphModule, inputs: Sequence[Any], table: Table) -> GraphModule:
    with torch.no_grad():
        graph = make_fx(gm, decomposition_table=table, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)
    _without_dead_code(graph)
    return graph


def _helping(node: Node, partner: Partner, known: dict[Any, str]) -> Table:
    """Decompositions under which `node` becomes operators that the partner knows; {} where there are none."""
    table: Table = {}
    graph, values = alone(node), [source.meta["val"] for source in node.all_input_nodes]
    for _ in range(MOST_ROUNDS):
        accepts = Acceptance(partner, known)
        refused = [n for n in graph.graph.nodes if n.op == "call_function" and not _is_item(n) and not accepts(n)]
        if not refused:
            return table
        targets = {n.target for n in refused if accepts.lacks_rule(n)}
        if len(targets) < len({n.target for n in refused}) or any(t not in decomposition_table for t in targets):
            return {}
        table |= {target: decomposition_table[target] for target in targets}
        graph = _traced(alone(node), values, table)
    return {}


def _is_item(node: Node) -> bool:
    return node.target is operator.getitem


def _without_dead_code(gm: GraphModule) -> None:
    """Removes what nobody uses: it would have to be computed by the partner. Effects and random draws stay."""
    for node in reversed(list(gm.graph.nodes)):
        if node.op == "call_function" and not node.users and _is_pure(node.target):
            gm.graph.erase_node(node)


def _is_pure(target: Any) -> bool:
    if not isinstance(target, torch._ops.OpOverload):
        return target is operator.getitem
    schema = target._schema
    return bool(schema.returns) and not schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags
