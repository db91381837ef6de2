"""The option `freezing`: which inputs of a captured graph become constants, and why others do not.

Parameters and buffers of modules in evaluation are taken as they are when the graph is compiled, where nothing asks for
gradients. The front end guards that the same tensors are there at each call; what is written into them is not noticed.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
import triptych_inductor
from torch.fx import GraphModule
from triptych_aot_autograd import RuntimePlan
from triptych_inductor import Options

log = logging.getLogger("triptych.freezing")
Run = Callable[[list[Any]], Any]


class DiscardedError(RuntimeError):
    """A parameter is used whose memory was given up (option `freezing_discard_parameters`)."""


METADATA = frozenset(
    [getattr(torch.Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "requires_grad", "is_meta")]
    + [torch.Tensor.size, torch.Tensor.dim, torch.Tensor.numel, torch.Tensor.is_floating_point, torch.Tensor.stride]
)
"""What may be asked of a discarded tensor."""


class _Discarded:
    """What a discarded tensor becomes: every use of its numbers is an error."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in METADATA:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        raise DiscardedError(
            "this parameter was discarded when its module was frozen (option freezing_discard_parameters): neither can "
            "the module run eagerly, nor can it be compiled for other sizes; load_state_dict(..., assign=True) gives "
            "it weights again"
        )

    def __repr__(self, **_: Any) -> str:
        return f"{type(self).__name__}(discarded, size={tuple(self.shape)})"  # type: ignore[attr-defined]


class DiscardedParameter(_Discarded, torch.nn.Parameter):
    """A parameter without memory."""


class DiscardedBuffer(_Discarded, torch.Tensor):
    """A buffer without memory."""


def discard(tensor: torch.Tensor) -> None:
    """Give up a tensor's memory; the object stays where it is."""
    if isinstance(tensor, _Discarded):
        return
    tensor.data = torch.zeros((), dtype=tensor.dtype, device=tensor.device).expand(tensor.size())
    tensor.__class__ = DiscardedParameter if isinstance(tensor, torch.nn.Parameter) else DiscardedBuffer  # type: ignore[assignment]


@dataclasses.dataclass
class FrozenGraph:
    """A graph of which some inputs became constants. kept: positions of the others; discarded: of those to give up."""

    gm: GraphModule
    example_inputs: list[Any]
    kept: list[int]
    discarded: tuple[int, ...]

    def bound(self, run: Run) -> Run:
        """`run`, which takes the inputs that are left, as a callable of all of them (one list, which it empties)."""
        kept, waiting = self.kept, list(self.discarded)

        def call(args: list[Any]) -> Any:
            while waiting:  # at the first call: until then the compilation may want to look at the tensors
                discard(args[waiting.pop()])
            chosen = [args[i] for i in kept]
            args.clear()
            return run(chosen)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call


class Freezer:
    """Freezing of one captured graph.

    gm: as the front end gave it. reason: why nothing of it is frozen, "" where something is (or freezing is not asked
    for). options: those of the code generator for it.
    """

    def __init__(self, gm: GraphModule, example_inputs: Sequence[Any], options: Options) -> None:
        self.owned = gm.meta.get("owned_inputs")
        self.names = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
        self.plan: RuntimePlan | None = None
        self.reason = self._reason(example_inputs) if options.freezing else ""
        wanted = options.freezing and not self.reason
        self.options = options if wanted else dataclasses.replace(options, freezing=False)

    def _reason(self, example_inputs: Sequence[Any]) -> str:
        if self.owned is None:
            return "the front end does not hand out parameters"
        positions = self.owned.positions()
        if not positions:
            return "the graph reads no parameter or buffer of a module"
        if torch.is_grad_enabled() and any(getattr(v, "requires_grad", False) for v in example_inputs):
            return "gradients are enabled and asked for: call it under torch.no_grad()"
        if all(map(self.owned.is_training, positions)):
            return "the module is in training mode: call eval() first"
        return ""

    def on_plan(self, plan: RuntimePlan) -> None:
        """What the program does to its inputs is known."""
        self.plan = plan

    def frozen(self, role: str, gm: GraphModule, example_inputs: Sequence[Any]) -> FrozenGraph | None:
        """The graph with constants, where it is one to freeze. role, gm, example_inputs: as compilers get them."""
        if not self.options.freezing or role != "inference" or self.plan is None:
            return None
        nodes = [node for node in gm.graph.nodes if node.op == "placeholder"]
        if len(nodes) != len(self.names):  # not seen: the graph's inputs are those of the captured one
            self.reason = "the graph takes other inputs than the captured one"
            return None
        chosen = [i for i in self.owned.positions() if self._can_freeze(i)]
        values = {nodes[i].name: self.owned.take(i) for i in chosen}
        discarded = tuple(chosen) if self._can_discard(chosen) else ()
        for i in discarded:
            self.owned.forget_facts(i)
        log.info("%d of %d inputs are constants from now on", len(chosen), len(nodes))
        kept = [i for i in range(len(nodes)) if i not in set(chosen)]
        made = triptych_inductor.freeze(gm, values)
        return FrozenGraph(made, [example_inputs[i] for i in kept], kept, discarded)

    def _can_freeze(self, index: int) -> bool:
        assert self.plan is not None
        return not self.owned.is_training(index) and not self.plan.inputs[index].changed

    def _can_discard(self, chosen: list[int]) -> bool:
        """Where the call's results are made of the tensors themselves, these are still needed."""
        assert self.plan is not None
        if not self.options.freezing_discard_parameters or self.plan.changes_inputs:
            return False
        return not any(o.kind in ("input", "view_of_input") and o.index in chosen for o in self.plan.outputs)
