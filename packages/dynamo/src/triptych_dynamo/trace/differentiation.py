"""Differentiation inside one trace: the histories of its tensors, which of them were spent, and leaves that it made.

Fake tensors carry autograd's own graph, so questions about histories are asked of that graph. A gradient that the
program takes is a node `torch.autograd.grad`; `backward()` is that node followed by what eager does with the gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from triptych_dynamo.errors import Unsupported
from triptych_dynamo.runtime_tensors import returned_leaf, with_own_history, with_spent_history

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.trace.trace import Trace
    from triptych_dynamo.values.tensors.tensor import TensorValue


class Reach:
    """What a walk from tensors back through their histories met.

    Attributes:
        leaves: fake leaves that would be given gradients.
        functions: the autograd nodes on the way.
        outside: whether the walk leaves the region: a tensor that came in with a history is on the way.
    """

    def __init__(self) -> None:
        self.leaves: list[torch.Tensor] = []
        self.functions: set[Any] = set()
        self.outside = False


def tells_history(fake: torch.Tensor) -> bool:
    """Whether autograd answers for a tensor's history: not for a view made without gradients whose base was then
    written to with them, which programs may hold all the same."""
    try:
        fake.grad_fn  # noqa: B018
    except RuntimeError:
        return False
    return True


class Differentiation:
    """Autograd's side of one trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.taken = False  # a gradient was taken inside the region
        self.made_leaf = False  # some leaf that requires gradients is the region's own
        self.retained: dict[TensorValue, int] = {}  # tensors that keep their gradients, since which step of the root
        self.hooked: list[TensorValue] = []  # tensors from outside that get hooks behind the graph
        self._detached: dict[TensorValue, fx.Node] = {}
        self._spent: dict[TensorValue, bool] = {}

    # -- histories -----------------------------------------------------------------------------------------------------
    def reach(self, fakes: Iterable[torch.Tensor], stop_at: Iterable[torch.Tensor] = ()) -> Reach:
        """Walk back from `fakes`; the histories of `stop_at` are not entered."""
        found = Reach()
        stops = {fake.grad_fn for fake in stop_at if fake.grad_fn is not None}
        todo: list[Any] = []
        for fake in fakes:
            if fake.grad_fn is not None:
                todo.append(fake.grad_fn)
            elif fake.requires_grad:
                self._meet_leaf(found, fake)
        while todo:
            function = todo.pop()
            if function in found.functions:
                continue
            found.functions.add(function)
            if function in stops:
                continue
            variable = getattr(function, "variable", None)
            if variable is not None:
                self._meet_leaf(found, variable)
            todo += [following for following, _ in function.next_functions if following is not None]
        return found

    def _meet_leaf(self, found: Reach, leaf: torch.Tensor) -> None:
        if id(leaf) not in self.trace.graph.by_fake:  # made to stand for the history of an input
            found.outside = True
        elif not any(leaf is known for known in found.leaves):
            found.leaves.append(leaf)

    def value_of(self, fake: torch.Tensor) -> TensorValue:
        """The value of a fake tensor of the trace."""
        return self.trace.graph.by_fake[id(fake)][1]  # type: ignore[return-value]

    def shares_memory(self, fake: torch.Tensor) -> bool:
        """Whether another tensor of the trace has this one's storage."""
        storage = fake.untyped_storage()._cdata
        known = (entry[0] for entry in self.trace.graph.by_fake.values())
        return any(other is not fake and other.untyped_storage()._cdata == storage for other in known)

    # -- results that leave the region ---------------------------------------------------------------------------------
    def rebuild(self, cg: Writer, value: TensorValue) -> bool:
        """Emit a result whose history does not go out of the region as a graph's results do; False for any other."""
        if not value.fake.requires_grad or not tells_history(value.fake):
            return False
        function: Callable[..., torch.Tensor]
        extra: list[type] = []
        if value.fake.is_leaf:
            function, extra = returned_leaf, [value.cls]
        elif self._is_spent(value):
            function = with_spent_history
        elif self.made_leaf and self._is_own(value):
            function = with_own_history
        else:
            return False
        cg.load_object(function)
        cg.load_graph_output(self._detach(value))
        for item in extra:
            cg.load_object(item)
        cg.call(1 + len(extra))
        return True

    def _detach(self, value: TensorValue) -> fx.Node:
        node = self._detached.get(value)
        if node is None:
            node = self._detached[value] = self.trace.graph.graph.call_method("detach", (value.node,))
            node.meta.update(val=value.fake.detach(), stack_trace="", leaf=value if value.fake.is_leaf else None)
        return node

    def _is_spent(self, value: TensorValue) -> bool:
        """Whether a backward from this result fails because the program ran it already."""
        if not self.taken:
            return False
        if value not in self._spent:
            self._spent[value] = self._fails_again(value.fake)
        return self._spent[value]

    def _is_own(self, value: TensorValue) -> bool:
        """Whether the result depends on no leaf but the region's own."""
        found = self.reach([value.fake])
        return not found.outside and all(self.value_of(leaf).source is None for leaf in found.leaves)

    def _fails_again(self, fake: torch.Tensor) -> bool:
        found = self.reach([fake])
        if not found.leaves:
            return False
        with self.trace.shapes.fake_mode, torch.enable_grad():
            try:
                torch.autograd.grad(fake, found.leaves, torch.ones_like(fake), retain_graph=True, allow_unused=True)
            except RuntimeError as error:
                return "second time" in str(error)
        return False

    def check_outputs(self, outputs: list[fx.Node]) -> None:
        """A leaf that the region made, or a tensor that keeps its gradient, cannot leave beside a result of it: results
        of one graph are not tied to each other.

        Raises:
            Unsupported: such a pair is among the graph's results.
        """
        self._check_retained(outputs)
        leaves = [node.meta["leaf"] for node in outputs if node.meta.get("leaf") is not None]
        if not leaves:
            return
        others = [node.meta["val"] for node in outputs if isinstance(node.meta["val"], torch.Tensor)]
        reached = self.reach([fake for fake in others if tells_history(fake) and fake.grad_fn is not None]).leaves
        if any(leaf.fake is fake for leaf in leaves for fake in reached):
            raise Unsupported("backward", "a leaf made in the region leaves it together with a result computed from it")

    def _check_retained(self, outputs: list[fx.Node]) -> None:
        for value, step in self.retained.items():
            if value.node not in outputs:
                continue
            others = [node.meta["val"] for node in outputs if node is not value.node]
            tensors = [fake for fake in others if isinstance(fake, torch.Tensor) and tells_history(fake)]
            histories = [fake for fake in tensors if fake.grad_fn is not None]
            if value.fake.grad_fn in self.reach(histories).functions:
                error = Unsupported("backward", "a tensor that keeps its gradient leaves beside a result of it")
                error.step = step
                raise error
