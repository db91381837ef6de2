"""`RuntimePlan`: all that a compiled function does at run time around its two graphs, as plain data.

A plan and the two compiled graphs make the function (`bind`). It is made once, of a joint graph and its partition, and
has a JSON form, so that a later process goes on from there without tracing.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.descriptions import AutocastState, OutputDesc
from triptych_aot_autograd.facts import InputFacts, OutputFacts, Step
from triptych_aot_autograd.runtime import plan_json

if TYPE_CHECKING:
    from triptych_aot_autograd.joint_graph import JointGraph
    from triptych_aot_autograd.partition.parts import Partition

RESULT_KINDS = ("output", "base", "mutation", "symbol")


@dataclasses.dataclass(frozen=True)
class TangentForm:
    """What the backward graph expects of one incoming gradient.

    size, stride: None where they are symbolic. Then `order` says how the dimensions lie in memory, from the outermost
    to the innermost (None: as they are).
    """

    size: tuple[int, ...] | None
    stride: tuple[int, ...] | None
    dtype: torch.dtype
    device: torch.device
    order: tuple[int, ...] | None = None

    @classmethod
    def of(cls, example: torch.Tensor) -> TangentForm:
        """The form of a (fake) tensor."""
        static = all(type(n) is int for n in (*example.size(), *example.stride()))
        if static:
            return cls(tuple(example.size()), tuple(example.stride()), example.dtype, example.device)
        order = compat.layout_order(example.size(), example.stride())
        return cls(None, None, example.dtype, example.device, order if order != tuple(range(len(order))) else None)


@dataclasses.dataclass(frozen=True)
class RuntimePlan:
    """How the results of the compiled graphs become those of the function.

    inputs, outputs: mutation and aliasing facts of the function's flat inputs and outputs. results: what the forward
    graph gives before the saved values. extents: bytes from first to last element of each tensor input; None where
    sizes are symbolic. random: the graph draws random numbers. cuda: an input lies on a GPU. autocast: state of the
    trace. saved_primals: inputs that the backward gets, then `saved_tensors` tensors and `saved_symbols` numbers of
    the forward. gradients: the inputs that get one, in the order of the backward's results (empty: no backward);
    dependencies: for each, the tangents that it is made of. enables_grad: the function turns gradients on itself.
    """

    inputs: tuple[InputFacts, ...]
    outputs: tuple[OutputFacts, ...]
    results: tuple[OutputDesc, ...]
    tangents: tuple[TangentForm, ...]
    extents: dict[int, int] | None
    random: bool
    cuda: bool
    autocast: AutocastState
    saved_primals: tuple[int, ...]
    saved_tensors: int
    saved_symbols: int
    gradients: tuple[int, ...]
    dependencies: tuple[frozenset[int], ...]
    enables_grad: bool

    @classmethod
    def of(cls, joint: JointGraph, partition: Partition) -> RuntimePlan:
        """The plan of a joint graph that was cut into `partition`."""
        examples = [node.meta.get("val") for node in joint.primals]
        tensors = [v for v in examples if isinstance(v, torch.Tensor)]
        return cls(
            inputs=tuple(joint.facts.inputs),
            outputs=tuple(joint.facts.outputs),
            results=tuple(desc for _, desc in joint.of_kind(*RESULT_KINDS)),
            tangents=tuple(TangentForm.of(node.meta["val"]) for node in joint.tangents),
            extents=_extents(joint.facts.inputs, examples),
            random=joint.facts.random,
            cuda=any(v.device.type == "cuda" for v in tensors),
            autocast=joint.autocast,
            saved_primals=tuple(partition.saved_primals),
            saved_tensors=len(partition.saved_tensors),
            saved_symbols=len(partition.saved_symbols),
            gradients=tuple(partition.gradients) if partition.backward is not None else (),
            dependencies=tuple(partition.dependencies),
            enables_grad=joint.facts.enables_grad,
        )

    @property
    def first_symbol(self) -> int:
        """Position of the first symbol among the results."""
        return next((i for i, d in enumerate(self.results) if d.kind == "symbol"), len(self.results))

    @property
    def changes_inputs(self) -> bool:
        """Whether the function leaves an input other than it found it."""
        return any(f.changed for f in self.inputs)

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON-able data. Raises `PlanError` where it holds an object that has no such form."""
        return {field.name: plan_json.encode(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RuntimePlan:
        """The plan that `to_json` wrote. Raises `PlanError` for data of another form."""
        names = [field.name for field in dataclasses.fields(cls)]
        if sorted(data) != sorted(names):
            raise plan_json.PlanError(f"not a run-time plan: its fields are {sorted(data)}")
        return cls(**{name: plan_json.decode(data[name]) for name in names})


plan_json.register(InputFacts, OutputFacts, OutputDesc, Step, TangentForm, AutocastState)


def extent(tensor: torch.Tensor) -> int:
    """Bytes from the tensor's first element to its last."""
    if tensor.numel() == 0:
        return 0
    reach = sum((n - 1) * s for n, s in zip(tensor.size(), tensor.stride(), strict=True))
    return (reach + 1) * tensor.element_size()


def _extents(facts: list[InputFacts], examples: list[Any]) -> dict[int, int] | None:
    tensors = [i for i, f in enumerate(facts) if f.is_tensor]
    if all(type(n) is int for i in tensors for n in (*examples[i].size(), *examples[i].stride())):
        return {i: extent(examples[i]) for i in tensors}
    return None
