"""`capture`: one whole graph of a function, to look at, to export or to run under its guards."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from triptych_dynamo.api import _as_function
from triptych_dynamo.compile_frame import CompiledFrame, FrameCompiler
from triptych_dynamo.emit.continuation import Layout
from triptych_dynamo.emit.frame_exit import parameters_of
from triptych_dynamo.errors import GuardViolation
from triptych_dynamo.export.parameters import attribute_names, with_attributes
from triptych_dynamo.guards.facts import Guard
from triptych_dynamo.guards.filters import GuardFilter, filtered
from triptych_dynamo.guards.python_check import Reader, check
from triptych_dynamo.options import Options
from triptych_dynamo.sources import LocalSource, PinnedSource, Source
from triptych_dynamo.trace.history import History
from triptych_dynamo.trace.shapes import Shapes

if TYPE_CHECKING:
    from triptych_dynamo.emit.ending import Ending

PARAMETER_FORMS = ("inputs", "attributes")


class CaptureError(RuntimeError):
    """The graph is not what was asked for: a baked tensor, a dimension that the program fixes."""


@dataclass
class CapturedGraph:
    """One function as one graph.

    Attributes:
        graph_module: torch-level nodes; returns a tuple of tensors and numbers. Parameters and buffers are placeholders
            or attributes, as asked.
        guards: the facts under which it stands for the function.
        sources: placeholder name -> where it is read.
        outputs: names of the nodes that the graph returns.
        effects: objects that a call changes besides tensors, as text; such changes are replayed after the graph.
        attributes: node name of each parameter and buffer -> its dotted name in its module.
        result: how the function's result is made of the outputs, and objects changed, as rows of `emit.ending`; or the
            reason why that is more than data.
    """

    graph_module: fx.GraphModule
    guards: list[Guard]
    sources: dict[str, Source]
    outputs: list[str]
    attributes: dict[str, str]
    result: Ending | str
    function: FunctionType = field(repr=False)
    owner: Any = field(repr=False)
    lifted: fx.GraphModule = field(repr=False)
    _compiled: FunctionType = field(repr=False)
    effects: tuple[str, ...] = ()

    @property
    def inputs(self) -> dict[str, str]:
        """Placeholder name -> where it is read, such as `L['x']`, in the order of the placeholders."""
        names = [node.name for node in self.graph_module.graph.nodes if node.op == "placeholder"]
        return {name: str(self.sources[name]) for name in names}

    @property
    def lines(self) -> dict[str, str]:
        """Node name -> 'file:line' of the user's code behind it."""
        return {node.name: place for node in self.graph_module.graph.nodes if (place := _place(node))}

    def python_code(self) -> str:
        """The graph as Python text."""
        return str(self.graph_module.print_readable(print_output=False))

    def input_values(self, *args: Any, **kwargs: Any) -> list[Any]:
        """What a call hands to `graph_module`, in the order of `inputs`; guards are not checked."""
        read = Reader(bind(self.function, self.owner, args, kwargs), self.function)
        return [read(self.sources[name]) for name in self.inputs]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it as the function.

        Raises:
            GuardViolation: the arguments do not fit; the message names the fact.
        """
        arguments = bind(self.function, self.owner, args, kwargs)
        failure = check(self.guards, arguments, self.function)
        if failure is not None:
            raise GuardViolation(*failure)
        return self._compiled(*arguments.values())

    def save(self, path: str | Path) -> None:
        """Write the graph, the guards that another process can check, and the tensors that the function owns.

        Raises:
            NotPortable: the graph calls what only this process has, or the result is more than data.
        """
        from triptych_dynamo.export import saved_graph  # noqa: PLC0415  # that module knows this class

        saved_graph.save(self, Path(path))

    @staticmethod
    def load(path: str | Path, *, owner: Any = None, f_globals: Mapping[str, Any] | None = None) -> Any:
        """A saved graph as a `SavedGraph`: called like the function, guards checked.

        Args:
            path: what `save` wrote.
            owner: the module (or object) whose method was captured: its tensors are read at each call. None: those that
                were saved are used.
            f_globals: globals of the captured function; None: those of its module, where it can be imported.
        """
        from triptych_dynamo.export import saved_graph  # noqa: PLC0415

        return saved_graph.load(Path(path), owner, f_globals)


def _place(node: fx.Node) -> str:
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    places = [line for line in lines if line.startswith('File "')]
    if not places:
        return ""
    name, number = places[-1].removeprefix('File "').split('", line ')
    return f"{name}:{number.split(',')[0]}"


def capture(
    fn: Any,
    *,
    dynamic: bool | None = None,
    dynamic_dims: Mapping[str, Sequence[int]] | None = None,
    parameters: str = "inputs",
    strict: bool = False,
    guard_filter_fn: GuardFilter | None = None,
) -> Callable[..., CapturedGraph]:
    """Trace `fn` into one graph without running it.

    Args:
        fn: a function, method, module or callable object.
        dynamic: True makes every size symbolic; those of 0 and 1 are fixed.
        dynamic_dims: dimensions that are symbolic, by parameter name or source: `{"x": [0], "L['items'][0]": [1]}`.
        parameters: "inputs": weights are placeholders; "attributes": the graph module owns them under their names.
        strict: a tensor of the program that is neither an argument nor owned by one, nor a global or closure variable,
            would be baked into the graph: refuse it.
        guard_filter_fn: which guards to keep; see `guards.filters`.

    Returns:
        a function that takes `fn`'s arguments and gives the `CapturedGraph`.

    Raises (from that function):
        GraphBreakError: `fn` cannot be one graph.
        CaptureError: a baked tensor under `strict`; a dimension of `dynamic_dims` that the program fixes.

    Example:
        >>> graph = capture(lambda x: x.relu() + 1)(torch.randn(3))
        >>> print(graph.python_code())
    """
    if parameters not in PARAMETER_FORMS:
        raise ValueError(f"parameters is one of {', '.join(PARAMETER_FORMS)}, not {parameters!r}")
    options = Options(fullgraph=True, dynamic=dynamic, exporting=True)
    declared = {_source_text(name): frozenset(dims) for name, dims in (dynamic_dims or {}).items()}

    def run(*args: Any, **kwargs: Any) -> CapturedGraph:
        function, owner = split_callable(fn)
        arguments = bind(function, owner, args, kwargs)
        history = History()
        history.exporting = True
        history.declare(declared)
        compiler = FrameCompiler(options, lambda module: module.forward, _no_resume)
        layout = Layout(function.__code__, 0)
        result = compiler.compile(layout, function, arguments, lambda: Shapes(dynamic, history))
        if result.raises:
            return function(*args, **kwargs)  # type: ignore[no-any-return]  # raises what the program raises
        result.guards = filtered(result.guards, guard_filter_fn, arguments, function)
        captured = _captured(result, function, owner)
        _check_declared(captured, declared)
        if strict:
            _refuse_baked(captured)
        if parameters == "attributes":
            _own_parameters(captured, Reader(arguments, function))
        return captured

    return run


def _source_text(name: str) -> str:
    return str(LocalSource(name)) if name.isidentifier() else name


def _check_declared(captured: CapturedGraph, declared: Mapping[str, frozenset[int]]) -> None:
    values = {str(captured.sources[node.name]): node.meta["val"] for node in _placeholders(captured.lifted)}
    for text, dims in declared.items():
        for dim in dims if text in values else ():
            size = values[text].shape[dim]
            if isinstance(size, int) or size.node.expr.is_number:
                raise CaptureError(
                    f"dimension {dim} of {text} is {size} in every call: the program, or its size, fixes it"
                )
        if text not in values:
            raise CaptureError(f"{text} is no tensor that the graph reads; it reads {', '.join(values)}")


def _placeholders(module: fx.GraphModule) -> list[fx.Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _refuse_baked(captured: CapturedGraph) -> None:
    for node in _placeholders(captured.lifted):
        source = captured.sources[node.name]
        if isinstance(source.root, PinnedSource) and source.root is source:
            user = next(iter(node.users), node)
            raise CaptureError(
                f"a tensor of size {tuple(node.meta['val'].shape)} would be baked into the graph (used at "
                f"{_place(user) or 'an unknown line'}): make it an argument, or a buffer of the module"
            )


def _own_parameters(captured: CapturedGraph, read: Reader) -> None:
    names = captured.attributes
    tensors = {name: (dotted, read(captured.sources[name])) for name, dotted in names.items()}
    captured.graph_module = with_attributes(captured.lifted, tensors)


def split_callable(fn: Any) -> tuple[FunctionType, Any]:
    """The Python function behind a callable, and what is bound as its first argument (None when nothing is)."""
    if isinstance(fn, torch.nn.Module):
        fn = fn.__call__
    if isinstance(fn, MethodType) and isinstance(fn.__func__, FunctionType):
        return fn.__func__, fn.__self__
    return (fn if isinstance(fn, FunctionType) else _as_function(fn)), None


def bind(function: FunctionType, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by parameter name, in the order of the frame's slots; raises Python's TypeError when they do
    not fit.
    """
    given = args if owner is None else (owner, *args)
    bound = inspect.signature(function, follow_wrapped=False).bind(*given, **kwargs)
    bound.apply_defaults()
    return {name: bound.arguments[name] for name in parameters_of(function.__code__)}


def _captured(result: CompiledFrame, function: FunctionType, owner: Any) -> CapturedGraph:
    assert result.code is not None
    module = result.graph_module
    if module is None:
        module = fx.GraphModule(torch.nn.Module(), _empty_graph())
    output = next(node for node in module.graph.nodes if node.op == "output")
    closure = (*(function.__closure__ or ()), *result.cells)
    compiled = FunctionType(result.code, function.__globals__, function.__name__, None, closure)
    sources = {node.name: source for node, source in result.inputs.items()}
    outputs = [node.name for node in output.args[0]]
    names = attribute_names(sources)
    return CapturedGraph(
        module, result.guards, sources, outputs, names, result.result, function, owner, module, compiled, result.effects
    )


def _empty_graph() -> fx.Graph:
    graph = fx.Graph()
    graph.output(())
    return graph


def _no_resume(*place: Any) -> Any:
    raise AssertionError("a whole graph has no continuation")
