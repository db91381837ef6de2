"""Classifies the outputs of a traced function by what memory they show, and the inputs by what was done to them.

In: the traced inputs and the flat outputs after the forward trace. Out: `InputFacts`, `OutputFacts` and the list of
graph outputs,
each a `GraphOutput` (a node, and the traced tensor whose gradient flows into it).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.utils._pytree import tree_map

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.facts import InputFacts, OutputFacts, Step, SymbolRef
from triptych_aot_autograd.tracing.facts import Facts, TracedTensor
from triptych_aot_autograd.tracing.recorder import Recorder
from triptych_aot_autograd.tracing.storages import current_value
from triptych_aot_autograd.tracing.symbols import SYMBOLIC

aten = torch.ops.aten


@dataclass
class GraphOutput:
    """One output of the forward graph. `kind`: 'output', 'base', 'mutation' (of input `index`) or 'symbol'."""

    kind: str
    index: int
    node: Any
    tensor: TracedTensor | None = None

    @property
    def differentiable(self) -> bool:
        """Whether a tangent comes back for it."""
        return self.tensor is not None and self.tensor.requires_grad


class OutputClassifier:
    """Builds the facts and the list of graph outputs of one trace."""

    def __init__(self, recorder: Recorder, inputs: Sequence[Any], original_grad_fns: Sequence[Any]) -> None:
        self.recorder = recorder
        self.inputs = inputs
        self.original_grad_fns = original_grad_fns
        self.graph_outputs: list[GraphOutput] = []
        self._roots: dict[int, tuple[int, int]] = {}  # id of what outputs are views of, or are: number, gradient
        self._symbols: dict[Any, SymbolRef] = {}
        self._symbol_outputs: list[GraphOutput] = []
        self.epilogue: list[tuple[int, Node]] = []  # (input, its final value), copied in by the graph itself

    # -- inputs --------------------------------------------------------------------------------------------------------
    def input_facts(self, names: Sequence[str]) -> list[InputFacts]:
        """Facts of every input; mutated ones become graph outputs of kind 'mutation' or go to `epilogue`."""
        return [self._one_input(i, name, value) for i, (name, value) in enumerate(zip(names, self.inputs, strict=True))]

    def _one_input(self, index: int, name: str, value: Any) -> InputFacts:
        if not isinstance(value, TracedTensor):
            return InputFacts(name, False)
        storage = value._storage
        facts = InputFacts(name, True, requires_grad=self.original_grad_fns[index] is not None)
        facts.version_bumps = 0 if value.is_inference() else value._version
        facts.metadata_steps = tuple(Step(f, self._refs(a), self._refs(k)) for f, a, k in storage.metadata_steps)
        if storage.generation:
            facts.mutated = True
            facts.mutated_under_grad = value.requires_grad and not self._history_unchanged(index, value)
            if facts.mutated_under_grad:
                self.graph_outputs.append(GraphOutput("mutation", index, current_value(value, self.recorder), value))
            else:
                self.epilogue.append((index, storage.value))
        return facts

    def _history_unchanged(self, index: int, value: TracedTensor) -> bool:
        original = self.original_grad_fns[index]
        return value.is_leaf if original == "leaf" else value.grad_fn is original

    # -- outputs -------------------------------------------------------------------------------------------------------
    def output_facts(self, outputs: Sequence[Any]) -> list[OutputFacts]:
        """Facts of every flat output; what the graph has to compute becomes graph outputs."""
        sharers: dict[int, set[int]] = defaultdict(set)
        for out in outputs:
            if isinstance(out, TracedTensor):
                sharers[id(out._storage)].add(id(out))
        first_seen: dict[int, int] = {}
        bases: dict[int, int] = {}
        facts = []
        for position, out in enumerate(outputs):
            if isinstance(out, TracedTensor) and id(out) in first_seen:
                facts.append(OutputFacts("same", first_seen[id(out)], requires_grad=out.requires_grad))
                continue
            first_seen[id(out)] = position
            facts.append(self._one_output(position, out, sharers, bases))
        return facts

    def _one_output(self, position: int, out: Any, sharers: dict[int, set[int]], bases: dict[int, int]) -> OutputFacts:
        if isinstance(out, SYMBOLIC):
            node = self.recorder.symbols.node_of(out)
            return self._add(position, node, None) if isinstance(node, Node) else OutputFacts("constant", constant=node)
        if not isinstance(out, torch.Tensor):
            return OutputFacts("constant", constant=out)
        tensor = self.recorder.as_traced(out)
        storage, grad = tensor._storage, tensor.requires_grad
        if storage.input_index is not None:
            if tensor is self.inputs[storage.input_index]:
                return OutputFacts("input", storage.input_index, requires_grad=grad)
            own = self._own_gradient(position, tensor, self.inputs[storage.input_index])
            return self._view("view_of_input", storage.input_index, position, tensor, own)
        if len(sharers[id(storage)]) < 2:
            return self._add(position, current_value(tensor, self.recorder), tensor)
        if id(storage) not in bases:
            bases[id(storage)] = len(self.graph_outputs)
            base = storage.base
            self.graph_outputs.append(GraphOutput("base", position, current_value(base, self.recorder), base))
        own = self._own_gradient(position, tensor, storage.base)
        return self._view("view_of_value", bases[id(storage)], position, tensor, own)

    def _view(self, kind: str, source: int, position: int, tensor: TracedTensor, own_gradient: int) -> OutputFacts:
        if tensor is tensor._storage.base:
            return OutputFacts(kind, source, (), None, tensor.requires_grad, own_gradient)
        steps = self._steps(tensor)
        facts = OutputFacts(kind, source, steps, None, tensor.requires_grad, own_gradient)
        root = tensor if tensor._base is None else tensor._base
        if own_gradient < 0 and len(steps) == len(tensor._chain) and _is_on_the_way(root, tensor):
            if id(root) not in self._roots:
                self._roots[id(root)] = len(self._roots), self._root_gradient(position, root)
            facts.root, facts.gradient = self._roots[id(root)]
            facts.root_steps = len(root._chain)
        return facts

    def _own_gradient(self, position: int, tensor: TracedTensor, source: torch.Tensor) -> int:
        """The graph output that takes the gradient of a view which the program differentiates by itself, or -1."""
        if not _differentiated_by_program(tensor, source):
            return -1
        return self._add(position, current_value(tensor, self.recorder), tensor).index

    def _root_gradient(self, position: int, root: TracedTensor) -> int:
        """The graph output that takes the gradient of a detached tensor which was given one by a write, or -1."""
        return self._add(position, current_value(root, self.recorder), root).index if root.requires_grad else -1

    def _add(self, position: int, node: Node, tensor: TracedTensor | None) -> OutputFacts:
        self.graph_outputs.append(GraphOutput("output", position, node, tensor))
        grad = tensor is not None and tensor.requires_grad
        return OutputFacts("value", len(self.graph_outputs) - 1, requires_grad=grad)

    def _steps(self, tensor: TracedTensor) -> tuple[Step, ...]:
        storage = tensor._storage
        if storage.metadata_steps or storage.base._chain:
            facts = tensor._facts
            geometry = self._refs((list(facts.size), list(facts.stride), facts.offset))
            return (Step(aten.as_strided.default, geometry, {}, True),)
        return tuple(Step(s.func, self._refs(s.args), self._refs(s.kwargs), s.grad_mode) for s in tensor._chain)

    # -- symbols of replayed steps -------------------------------------------------------------------------------------
    def _refs(self, value: Any) -> Any:
        return tree_map(self._ref, value)

    def _ref(self, value: Any) -> Any:
        if not isinstance(value, SYMBOLIC):
            return value
        node = self.recorder.symbols.node_of(value)
        if not isinstance(node, Node):
            return node
        if node not in self._symbols:
            self._symbols[node] = SymbolRef(len(self._symbols))
            self._symbol_outputs.append(GraphOutput("symbol", len(self._symbol_outputs), node))
        return self._symbols[node]

    def finish(self) -> list[GraphOutput]:
        """All graph outputs, symbols last; values that would share memory with an input or each other are copied."""
        outputs = self.graph_outputs + self._symbol_outputs
        taken: set[Node] = set()
        for output in outputs:
            if (
                output.kind == "symbol"
                or not isinstance(output.node, Node)
                or isinstance(output.node.meta.get("val"), SYMBOLIC)
            ):
                continue
            root = view_root(output.node)
            if root in taken or root.op in ("placeholder", "get_attr"):
                handle = self.recorder.handle(_facts_of(output.node), output.node)
                output.node = self.recorder(aten.clone.default, handle)._value
            taken.add(view_root(output.node))
        return outputs


def _differentiated_by_program(tensor: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether a `torch.autograd.Function` of the program stands between the tensor and `source`, whose memory it shows.

    Then a view of the source, made again behind the graph, would have torch's gradient and not the program's.
    """
    try:
        node = tensor.grad_fn
    except RuntimeError:  # a view made without gradients whose base was then written to with them
        return False
    while node is not None and node is not source.grad_fn:
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            return True
        node = node.next_functions[0][0] if node.next_functions else None
    return False


def _is_on_the_way(root: torch.Tensor, tensor: TracedTensor) -> bool:
    """Whether the views from the storage's base to `tensor` pass `root`, which is not that base."""
    if type(root) is not TracedTensor or root._storage is not tensor._storage:
        return False
    return 0 < len(root._chain) and tensor._chain[: len(root._chain)] == root._chain


def _facts_of(node: Node) -> Facts:
    return node.meta["facts"]


def view_root(node: Node) -> Node:
    """The node whose memory `node` shows, by the graph's view ops."""
    while node.op == "call_function" and (compat.is_view_target(node.target) or _is_item_of_view(node)):
        node = node.args[0]  # type: ignore[assignment]
    return node


def _is_item_of_view(node: Node) -> bool:
    return node.target is compat.getitem and compat.is_view_target(node.args[0].target)  # type: ignore[union-attr]
