"""`Program`: runs a precompiled source. The source's literals drive it; nothing here knows the captured function."""

from __future__ import annotations

import logging
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_unflatten
from triptych_aot_autograd import RuntimePlan
from triptych_aot_autograd.runtime.bind import bind, boxed
from triptych_inductor import ArtifactError, CompiledGraph

from triptych.errors import PrecompileError
from triptych.precompile import checks, compiling
from triptych.precompile.lifting import Arguments, Snapshot

log = logging.getLogger("triptych.precompile")
GRAPHS = ("forward", "backward")
LITERALS = (
    "BACKEND MODULE_POSITIONS MODULE_TRAINING NUM_POSITIONAL_ARGS GRAD_ENABLED GRAD_PARAM_INDICES IN_SPEC OUT_SPEC "
    "CLEARED_GRAD_PARAM_INDICES ASSIGNED_BUFFER_INDICES NUM_RESULTS USER_INPUT_SHAPES USER_INPUT_STRIDES "
    "USER_INPUT_DTYPES USER_INPUT_DEVICES USER_INPUT_BOUNDS USER_INPUT_CONSTANTS PLAN FORWARD_INPUTS BACKWARD_INPUTS "
    + " ".join(
        f"{kind}_{fact}" for kind in ("PARAM", "BUFFER") for fact in "NAMES SHAPES STRIDES DTYPES DEVICES".split()
    )
).split()


class Program:
    """The captured function, for other weights and inputs of the same kind.

    namespace: of the source: its literals and graph functions. Kernels come from `attach` or are built when needed.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.facts = {name: namespace[name] for name in LITERALS}
        self._functions = {name: namespace.get(f"{name}_graph") for name in GRAPHS}
        self._in_spec = checks.spec_of(self.facts["IN_SPEC"])
        self._out_spec = checks.spec_of(self.facts["OUT_SPEC"])
        self._check_leaves = checks.LeafCheck(self.facts)
        self._plan = RuntimePlan.from_json(self.facts["PLAN"])
        self._kernels: dict[str, CompiledGraph] = {}
        self._lock = threading.RLock()
        self._run: Callable[..., tuple] | None = None
        self._last: tuple[list[weakref.ref], Snapshot] | None = None

    def attach(self, kernels: dict[str, bytes]) -> None:
        """Uses built kernels, by name of graph. Those of another kind of machine are left, with a warning."""
        for name, data in kernels.items():
            try:
                self._kernels[name] = CompiledGraph.from_bytes(data)
            except (ArtifactError, RuntimeError) as error:
                log.warning(
                    "the stored kernels of the %s graph cannot be used here, they are built anew: %s", name, error
                )

    def __call__(self, *args: Any) -> Any:
        """Run it. Raises PrecompileError for arguments that are not like those captured."""
        arguments = Arguments(args, self._known_state(args))
        checks.check_structure(self.facts, arguments, self._in_spec)
        self._check_modules(arguments)
        self._check_leaves(arguments.leaves)
        run = self._run or self._bound()
        with torch.set_grad_enabled(self.facts["GRAD_ENABLED"] and torch.is_grad_enabled()):
            values = run(*arguments.tensors)
        self._apply_effects(arguments, values)
        return tree_unflatten(list(values[: self.facts["NUM_RESULTS"]]), self._out_spec)

    # -- checks --------------------------------------------------------------------------------------------------------
    def _known_state(self, args: Sequence[Any]) -> Snapshot | None:
        """The last look at these modules, where they are as they were then."""
        modules = tuple(arg for arg in args if isinstance(arg, torch.nn.Module))
        last = self._last
        if (
            last is None
            or len(last[0]) != len(modules)
            or any(r() is not m for r, m in zip(last[0], modules, strict=True))
        ):
            return None
        return last[1] if last[1].holds() else None

    def _check_modules(self, arguments: Arguments) -> None:
        """Weights are checked when they are other tensors than at the last call."""
        training = [module.training for module in arguments.modules]
        if training != self.facts["MODULE_TRAINING"]:
            warnings.warn(
                f"modules in training mode {training} run a program captured in mode {self.facts['MODULE_TRAINING']}: "
                "it does what the captured mode does",
                stacklevel=4,
            )
        if self._last is not None and self._last[1] is arguments.snapshot:
            return
        strides = self.facts["BACKEND"] == "inductor"
        checks.check_state(self.facts, "PARAM", arguments.parameters, strides)
        checks.check_state(self.facts, "BUFFER", arguments.buffers, strides)
        self._last = [weakref.ref(module, self._forget) for module in arguments.modules], arguments.snapshot

    def _forget(self, _: Any) -> None:
        """A module is gone: nothing here shall keep its weights."""
        self._last = None

    # -- effects -------------------------------------------------------------------------------------------------------
    def _apply_effects(self, arguments: Arguments, values: Sequence[Any]) -> None:
        """Buffers that the program assigned, and gradients that its own backward left."""
        position = self.facts["NUM_RESULTS"]
        for index in self.facts["ASSIGNED_BUFFER_INDICES"]:
            for held, name in arguments.buffers.slots[index]:
                held[name] = values[position]
            position += 1
        cleared = set(self.facts["CLEARED_GRAD_PARAM_INDICES"])
        for index in self.facts["GRAD_PARAM_INDICES"]:
            parameter, grad = arguments.parameters.tensors[index], values[position]
            position += 1
            if not parameter.requires_grad:
                continue
            if parameter.grad is None or index in cleared:
                parameter.grad = grad.detach()
            else:
                with torch.no_grad():
                    parameter.grad += grad

    # -- graphs --------------------------------------------------------------------------------------------------------
    def _bound(self) -> Callable[..., tuple]:
        with self._lock:
            if self._run is None:
                forward = self._graph("forward")
                backward = boxed(self._graph("backward")) if self._plan.gradients else None
                self._run = bind(self._plan, forward, backward, eager=_overlapping)
            return self._run

    def _graph(self, name: str) -> Callable[..., Any]:
        function = self._functions[name]
        assert function is not None
        if self.facts["BACKEND"] == "eager":
            return function
        if name not in self._kernels:
            self._kernels[name] = self.build(name)
        return compiling.boxed_call(self._kernels[name])

    def build(self, name: str) -> CompiledGraph:
        """Compiles a graph from the text of the source."""
        inputs = compiling.examples(self.facts[f"{name.upper()}_INPUTS"])
        with torch.no_grad():
            graph = make_fx(self._functions[name], tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)
        return compiling.compile_graph(graph, [n.meta["val"] for n in graph.graph.nodes if n.op == "placeholder"])


def _overlapping(inputs: list[Any]) -> Any:
    raise PrecompileError(
        "arguments share memory that the program writes to, which the captured ones did not: pass copies (or, for "
        "gradients of gradients, run the program itself)"
    )
