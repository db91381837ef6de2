"""`capture`: one whole graph of a function, to look at, to export or to run under its guards."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import fx

from triptych_dynamo.api import _as_function
from triptych_dynamo.compile_frame import CompiledFrame, FrameCompiler
from triptych_dynamo.emit.continuation import Layout
from triptych_dynamo.emit.frame_exit import parameters_of
from triptych_dynamo.errors import GuardViolation
from triptych_dynamo.guards.facts import Guard
from triptych_dynamo.guards.python_check import check
from triptych_dynamo.options import Options
from triptych_dynamo.trace.shapes import Shapes


@dataclass
class CapturedGraph:
    """One function as one graph.

    Attributes:
        graph_module: torch-level nodes; parameters and buffers are placeholders. Returns a tuple of tensors and
        numbers. guards: the facts under which it stands for the function.
        inputs: placeholder name -> where it is read, such as `L['x']`.
        outputs: names of the nodes that the graph returns.
        effects: objects that a call changes besides tensors, as text; such changes are replayed after the graph.
    """

    graph_module: fx.GraphModule
    guards: list[Guard]
    inputs: dict[str, str]
    outputs: list[str]
    _function: FunctionType = field(repr=False)
    _owner: Any = field(repr=False)
    _compiled: FunctionType = field(repr=False)
    effects: tuple[str, ...] = ()

    def python_code(self) -> str:
        """The graph as Python text."""
        return str(self.graph_module.print_readable(print_output=False))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it as the function.

        Raises:
            GuardViolation: the arguments do not fit; the message names the fact.
        """
        arguments = bind(self._function, self._owner, args, kwargs)
        failure = check(self.guards, arguments, self._function)
        if failure is not None:
            raise GuardViolation(*failure)
        return self._compiled(*arguments.values())


def capture(fn: Any, *, dynamic: bool | None = None) -> Callable[..., CapturedGraph]:
    """Trace `fn` into one graph without running it.

    Args:
        fn: a function, method, module or callable object.
        dynamic: True makes every size but 0 and 1 symbolic.

    Returns:
        a function that takes `fn`'s arguments and gives the `CapturedGraph`.

    Raises (from that function):
        GraphBreakError: `fn` cannot be one graph.

    Example:
        >>> graph = capture(lambda x: x.relu() + 1)(torch.randn(3))
        >>> print(graph.python_code())
    """

    def run(*args: Any, **kwargs: Any) -> CapturedGraph:
        function, owner = split_callable(fn)
        arguments = bind(function, owner, args, kwargs)
        compiler = FrameCompiler(Options(fullgraph=True, dynamic=dynamic, exporting=True), lambda module: module.forward, _no_resume)
        result = compiler.compile(Layout(function.__code__, 0), function, arguments, lambda: Shapes(dynamic))
        if result is None:
            return function(*args, **kwargs)  # type: ignore[no-any-return]  # raises what the program raises
        return _captured(result, function, owner)

    return run


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
    return CapturedGraph(
        module,
        result.guards,
        {node.name: str(source) for node, source in result.inputs.items()},
        [node.name for node in output.args[0]],
        function,
        owner,
        compiled,
        result.effects,
    )


def _empty_graph() -> fx.Graph:
    graph = fx.Graph()
    graph.output(())
    return graph


def _no_resume(*place: Any) -> Any:
    raise AssertionError("a whole graph has no continuation")
