"""The public functions: `trace_joint`, `aot_function`, `aot_module`, `aot_backend`."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.errors import DataDependentError, UnsupportedOperationError
from triptych_aot_autograd.joint_graph import InputDesc, JointGraph
from triptych_aot_autograd.partition.min_cut import min_cut_partition
from triptych_aot_autograd.partition.parts import Partition
from triptych_aot_autograd.runtime.bind import bind, boxed
from triptych_aot_autograd.runtime.compile import Compiler, compile_joint
from triptych_aot_autograd.runtime.plan import RuntimePlan
from triptych_aot_autograd.tracing import control_flow
from triptych_aot_autograd.tracing.interpret import held_state, run_graph
from triptych_aot_autograd.tracing.joint import TraceRequest, trace
from triptych_aot_autograd.tracing.recorder import Recorder
from triptych_aot_autograd.tracing.regions import Regions

PartitionFn = Callable[..., Partition]


# -- tracing -----------------------------------------------------------------------------------------------------------
class _Traceable:
    """A function or module as a function of flat inputs: parameters, buffers, then the leaves of the arguments."""

    def __init__(self, target: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> None:
        self.target = target
        self.state: dict[str, torch.Tensor] = {}
        self.descs: list[InputDesc] = []
        if isinstance(target, torch.nn.Module):
            for kind, named in (("parameter", target.named_parameters()), ("buffer", target.named_buffers())):
                for name, tensor in named:
                    self.state[name] = tensor
                    self.descs.append(InputDesc(kind, name, len(self.descs)))
        leaves, self.in_spec = tree_flatten((args, kwargs))
        self.out_spec: TreeSpec | None = None
        names = _argument_names(target, args, kwargs)
        for name in names:
            self.descs.append(InputDesc("input", name, len(self.descs)))
        self.inputs: list[Any] = [*self.state.values(), *leaves]

    def call(self, inputs: Sequence[Any]) -> list[Any]:
        """Run on flat inputs; remembers the structure of the result."""
        count = len(self.state)
        args, kwargs = tree_unflatten(list(inputs[count:]), self.in_spec)
        if self.state:
            state = dict(zip(self.state, inputs[:count], strict=True))
            result = torch.func.functional_call(self.target, state, args, kwargs)  # type: ignore[arg-type]
        else:
            result = self.target(*args, **kwargs)
        flat, self.out_spec = tree_flatten(result)
        return flat


def _argument_names(target: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> list[str]:
    function = target.forward if isinstance(target, torch.nn.Module) else target
    try:
        parameters = inspect.signature(function).parameters.values()
        positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):  # a builtin without a signature
        positional = []
    labels = []
    for i, arg in enumerate(args):
        labels += _leaf_names(positional[i] if i < len(positional) else f"arg{i}", arg)
    for name, arg in kwargs.items():
        labels += _leaf_names(name, arg)
    return labels


def _leaf_names(name: str, value: Any) -> list[str]:
    count = len(tree_flatten(value)[0])
    return (
        [name] if count == 1 and not isinstance(value, (list, tuple, dict)) else [f"{name}_{i}" for i in range(count)]
    )


def trace_joint(
    fn: Callable[..., Any],
    *args: Any,
    decompositions: dict[Any, Any] | None = None,
    grad: bool | None = None,
    kwargs: dict[str, Any] | None = None,
) -> JointGraph:
    """Trace forward and backward of a function or module into one functional ATen graph.

    Args:
        fn: a function, or a module (its parameters and buffers become inputs, by qualified name).
        *args: example arguments: real or fake tensors, symbolic integers, Python values, nests of these.
        decompositions: ATen op -> function, applied to each such op while tracing.
        grad: whether to trace a backward; by default, when gradients are enabled and an input requires one.
        kwargs: example keyword arguments.

    Returns:
        The `JointGraph`; its primals are parameters, buffers and the leaves of the arguments, in this order.

    Raises:
        AotError: the function does something that has no functional form.

    Example:
        >>> joint = trace_joint(torch.nn.Linear(2, 3), torch.ones(4, 2))
        >>> [str(d) for d in joint.inputs]
        ['parameter weight', 'parameter bias', 'input input', 'tangent output_0']
    """
    traceable = _Traceable(fn, args, kwargs or {})
    return _trace_traceable(traceable, decompositions or {}, grad)


def _trace_traceable(traceable: _Traceable, decompositions: dict[Any, Any], grad: bool | None = None) -> JointGraph:
    def run(inputs: Sequence[Any], recorder: Recorder) -> list[Any]:
        with compat.compiling_flag():
            return traceable.call(inputs)

    request = TraceRequest(
        run=run,
        inputs=traceable.inputs,
        descs=traceable.descs,
        decompositions=decompositions,
        grad=grad,
    )
    joint = trace(request)
    joint.eager = traceable.call
    return joint


# -- functions and modules ---------------------------------------------------------------------------------------------
def _signature(leaves: Sequence[Any], spec: TreeSpec) -> Any:
    """What a compiled entry holds for: metadata of tensors, values of everything else, the grad and autocast modes."""
    facts: list[Any] = [
        spec,
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_autocast_enabled("cuda"),
    ]
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            bits = (leaf.requires_grad, leaf.is_leaf, leaf.is_conj(), leaf.is_neg())
            facts.append((leaf.shape, leaf.stride(), leaf.dtype, leaf.device, bits))
        elif isinstance(leaf, slice):  # does not hash before Python 3.12
            facts.append((slice, leaf.start, leaf.stop, leaf.step))
        else:
            facts.append((type(leaf), leaf))
    return tuple(facts)


class _Compiled:
    """A function compiled once for each signature of its arguments."""

    def __init__(self, fn: Callable[..., Any], compile_options: dict[str, Any], decompositions: dict[Any, Any]) -> None:
        self.fn = fn
        self._options = compile_options
        self._decompositions = decompositions
        self._entries: dict[Any, tuple[Callable[..., tuple], TreeSpec, int]] = {}
        self._lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        state: list[Any] = []
        if isinstance(self.fn, torch.nn.Module):
            state = [*self.fn.parameters(), *self.fn.buffers()]
        key = (_signature([*state, *leaves], spec), getattr(self.fn, "training", None))
        entry = self._entries.get(key)
        if entry is None:
            with self._lock:
                entry = self._entries.get(key) or self._compile(key, args, kwargs)
        run, out_spec = entry[0], entry[1]
        return tree_unflatten(list(run(*state, *leaves)), out_spec)

    def _compile(self, key: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        traceable = _Traceable(self.fn, args, kwargs)
        joint = _trace_traceable(traceable, self._decompositions)
        run = compile_joint(joint, **self._options)
        assert traceable.out_spec is not None
        entry = self._entries[key] = (run, traceable.out_spec, len(traceable.inputs))
        return entry


def aot_function(
    fn: Callable[..., Any],
    fw_compiler: Compiler,
    bw_compiler: Compiler | None = None,
    *,
    inference_compiler: Compiler | None = None,
    partition_fn: PartitionFn = min_cut_partition,
    decompositions: dict[Any, Any] | None = None,
) -> Callable[..., Any]:
    """`fn`, with its forward and backward traced ahead of time and compiled.

    Args:
        fn: a function of tensors (and nests of them, and Python values).
        fw_compiler: `(GraphModule of functional ATen ops, example inputs) -> callable`, for the forward graph, at
        the first call.
        bw_compiler: the same for the backward graph, at the first backward; default: `fw_compiler`.
        inference_compiler: the same where nothing requires a gradient; default: `fw_compiler`.
        partition_fn: splits the joint graph; `min_cut_partition` or `default_partition`, or one of your own.
        decompositions: ATen op -> function, applied while tracing.

    Returns:
        A callable like `fn`. It is compiled once for each set of argument sizes, dtypes and modes.

    Example:
        >>> double = aot_function(lambda x: x * 2, lambda graph, inputs: graph)
        >>> double(torch.ones(2))
        tensor([2., 2.])
    """
    options = {
        "fw_compiler": fw_compiler,
        "bw_compiler": bw_compiler,
        "inference_compiler": inference_compiler,
        "partition_fn": partition_fn,
    }
    compiled = _Compiled(fn, options, decompositions or {})
    if isinstance(fn, torch.nn.Module):
        return compiled

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return compiled(*args, **kwargs)

    return wrapper


class AotModule(torch.nn.Module):
    """A module whose forward is traced ahead of time and compiled; parameters and buffers are those of `module`."""

    def __init__(self, module: torch.nn.Module, **options: Any) -> None:
        super().__init__()
        self.module = module
        self._compiled = aot_function(module, **options)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the module's."""
        return self._compiled(*args, **kwargs)


def aot_module(
    module: torch.nn.Module, fw_compiler: Compiler, bw_compiler: Compiler | None = None, **options: Any
) -> AotModule:
    """`module`, with its forward and backward traced ahead of time and compiled. Options as of `aot_function`.

    Example:
        >>> net = aot_module(torch.nn.Linear(2, 1), lambda graph, inputs: graph)
        >>> net(torch.ones(3, 2)).shape
        torch.Size([3, 1])
    """
    return AotModule(module, fw_compiler=fw_compiler, bw_compiler=bw_compiler, **options)


# -- backends ----------------------------------------------------------------------------------------------------------
def aot_backend(
    fw_compiler: Compiler,
    bw_compiler: Compiler | None = None,
    *,
    inference_compiler: Compiler | None = None,
    partition_fn: PartitionFn = min_cut_partition,
    decompositions: dict[Any, Any] | None = None,
    unsupported: str = "eager",
    on_plan: Callable[[RuntimePlan], None] | None = None,
    lazy_backward: bool = True,
) -> Callable[..., Callable[..., Any]]:
    """A backend, `backend(gm, example_inputs) -> callable`, of compilers of ATen graphs; options as of `aot_function`.

    Parameters and buffers that `gm` itself holds become inputs behind those of the graph. `unsupported` says what
    becomes of a graph
    that has no functional form: "eager" (it runs as it is, with one warning that names the op and the line) or "raise".
    `on_plan` is given the `RuntimePlan` of each graph before its compilers run. `lazy_backward`: the backward graph is
    compiled at the first backward; False: at once.

    Example:
        >>> backend = aot_backend(lambda graph, inputs: graph)
        >>> backend(torch.fx.symbolic_trace(lambda x: (x + 1,)), [torch.ones(2)])(torch.ones(2))
        (tensor([2., 2.]),)
    """

    def backend(gm: GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
        options = {
            "fw_compiler": fw_compiler,
            "bw_compiler": bw_compiler,
            "inference_compiler": inference_compiler,
            "partition_fn": partition_fn,
            "on_plan": on_plan,
            "lazy_backward": lazy_backward,
        }
        try:
            return _compile_graph(gm, example_inputs, options, decompositions or {})
        except (UnsupportedOperationError, DataDependentError) as error:
            if unsupported == "raise":
                raise
            warnings.warn(f"this graph runs without compilation: {error}", stacklevel=2)
            return gm

    if unsupported not in ("eager", "raise"):
        raise ValueError(f'unsupported is {unsupported!r}; it must be "eager" or "raise"')
    return backend


def _compile_graph(
    gm: GraphModule, example_inputs: Sequence[Any], options: dict[str, Any], decompositions: dict
) -> Any:
    held = held_state(gm)
    spec: TreeSpec | None = None
    example_inputs = _symbolic_examples(gm, example_inputs)
    count = len(example_inputs)

    def run(inputs: Sequence[Any], recorder: Recorder) -> list[Any]:
        nonlocal spec
        attributes = dict(zip(held, inputs[count:], strict=True))
        regions = Regions(gm, recorder, control_flow.run_body)
        higher_order = control_flow.runner(recorder)
        flat, spec = tree_flatten(
            run_graph(gm, inputs[:count], recorder.provenance, attributes, higher_order, regions.call)
        )
        return flat

    def eager(inputs: Sequence[Any]) -> list[Any]:
        return tree_flatten(gm(*inputs[:count]))[0]

    names = [str(n.target) for n in gm.graph.nodes if n.op == "placeholder"]
    descs = [InputDesc("input", name, i) for i, name in enumerate(names)]
    descs += [InputDesc("parameter", name, count + i) for i, name in enumerate(held)]
    inputs = [*example_inputs, *held.values()]
    request = TraceRequest(run, inputs, descs, decompositions=decompositions, enables_grad=_enables_grad(gm))
    joint = trace(request)
    joint.eager = eager
    call = compile_joint(joint, **options)
    extra = tuple(held.values())
    assert spec is not None
    out_spec = spec
    plain = out_spec.type is tuple and all(c.is_leaf() for c in out_spec.children())
    if plain:
        return call if not extra else lambda *inputs: call(*inputs, *extra)
    return lambda *inputs: tree_unflatten(list(call(*inputs, *extra)), out_spec)


def _enables_grad(gm: GraphModule) -> bool:
    """Whether a graph turns gradients on."""
    calls = gm.graph.find_nodes(op="call_function", target=compat.set_grad_enabled)
    return any(node.args[0] is True for node in calls)


def bind_graph(
    gm: GraphModule, plan: RuntimePlan, forward: Callable[..., Any], backward: Callable[..., Any] | None = None
) -> Callable[..., tuple]:
    """The callable that `aot_backend` makes of `gm`, from a stored plan and compiled graphs, without a trace.

    Args:
        gm: the graph that the plan was made of (or its equal); its output is a tuple of leaves.
        plan: as given to `on_plan`.
        forward: the compiled forward or inference graph.
        backward: the compiled backward graph, where the plan has gradients.

    Example:
        >>> bind_graph(gm, RuntimePlan.from_json(stored), forward)(torch.ones(2))
    """
    extra = tuple(held_state(gm).values())
    count = len(plan.inputs) - len(extra)
    call = bind(
        plan, forward, None if backward is None else boxed(backward), eager=lambda inputs: list(gm(*inputs[:count]))
    )
    return call if not extra else lambda *inputs: call(*inputs, *extra)


def _symbolic_examples(gm: GraphModule, example_inputs: Sequence[Any]) -> list[Any]:
    """The example inputs; a real tensor gives way to the fake one that its placeholder carries, with symbolic sizes."""
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    chosen = []
    for node, example in zip(placeholders, example_inputs, strict=True):
        recorded = node.meta.get("val", node.meta.get("example_value"))
        chosen.append(recorded if isinstance(recorded, compat.FakeTensor) else example)
    return chosen
