"""What a trace found out about its function's inputs and outputs: mutation and aliasing, as plain records.

The run-time wrapper is driven by these alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SymbolRef:
    """Stands for a symbolic integer in a replayed step: number `index` among the graph's symbol outputs."""

    index: int


@dataclass(frozen=True)
class Step:
    """One op of a view chain, to be run again on a real tensor: `func(tensor, *args, **kwargs)`."""

    func: Any
    args: tuple
    kwargs: dict[str, Any]
    grad_mode: bool = True

    def __str__(self) -> str:
        return f"{self.func.__name__}{self.args}"


@dataclass
class InputFacts:
    """One input of the function."""

    name: str
    is_tensor: bool
    requires_grad: bool = False
    mutated: bool = False  # its elements are changed by the function
    mutated_under_grad: bool = False  # and autograd recorded it: written back outside the graph
    metadata_steps: tuple[Step, ...] = ()  # `t_`, `unsqueeze_` ... done to it, in order
    version_bumps: int = 0  # how often eager would have raised its version counter
    lazy_bits: bool = False  # it arrives lazily conjugated or negated: the graph gets it resolved

    @property
    def changed(self) -> bool:
        """Whether the function leaves the input in any way other than it found it."""
        return self.mutated or bool(self.metadata_steps)


@dataclass
class OutputFacts:
    """One (flat) output of the function.

    kind: 'value' (graph output `index` itself), 'input' (input `index` itself), 'view_of_input' (steps on input
    `index`), 'view_of_value' (steps on graph output `index`), 'same' (the object that is output `index`), 'constant'
    (`constant`). gradient: the graph output that takes the gradient of a view, where a `torch.autograd.Function` of
    the program stands between the view and its base; -1: autograd differentiates the steps. root: number of the tensor
    that eager's `_base` is (a detached result is one) where that is neither the input nor the graph's output; made
    once, by the first `root_steps` steps, and shared by the outputs of that number; -1: it is the source of the steps.
    Where there is one, `gradient` is the root's: something with a gradient was written into it.
    """

    kind: str
    index: int = -1
    steps: tuple[Step, ...] = ()
    constant: Any = None
    requires_grad: bool = False
    gradient: int = -1
    root: int = -1
    root_steps: int = 0

    def __str__(self) -> str:
        steps = "".join(f".{s}" for s in self.steps)
        return f"{self.kind} {self.index}{steps}" if self.kind != "constant" else f"constant {self.constant!r}"


@dataclass
class FunctionFacts:
    """All facts of one traced function."""

    inputs: list[InputFacts] = field(default_factory=list)
    outputs: list[OutputFacts] = field(default_factory=list)
    overlapping_mutation: str = ""  # why the region must run eagerly: inputs that share memory and are written
    random: bool = False  # whether the graph draws random numbers
    enables_grad: bool = False  # whether results have gradients although none are enabled around the call

    def __str__(self) -> str:
        lines = [f"input {i}: {f}" for i, f in enumerate(self.inputs)]
        return "\n".join(lines + [f"output {i}: {f}" for i, f in enumerate(self.outputs)])
