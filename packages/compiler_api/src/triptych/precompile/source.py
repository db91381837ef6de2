"""Writes a traced program as a Python module: facts as literals, its graphs as functions, and a `forward` to call."""

from __future__ import annotations

import pprint
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule
from torch.utils._pytree import TreeSpec, treespec_dumps
from triptych_aot_autograd import PlanError
from triptych_aot_autograd.runtime import plan_json

from triptych.__about__ import __version__
from triptych.errors import PrecompileError
from triptych.precompile.lifting import Arguments, State
from triptych.precompile.tracing import Traced

FIRST = '''"""A precompiled PyTorch program, written by triptych.compiler.precompile {version} for torch {torch}.

`forward` takes what the captured function took; weights are read from the modules that it is given. The literals say
what its arguments must be; the functions below them are the program. `triptych.compiler.precompile.load` runs it with
the kernels in its cache; without them they are built at the first call.
"""

import math
import operator
from math import inf, nan

import torch
from torch import device

from triptych.precompile.program import Program

NoneType = type(None)
'''
LAST = """
program = Program(globals())


def forward(*args):
    return program(*args)
"""
# What generated graph code may name besides its own values.
KNOWN_GLOBALS = frozenset(
    "inf nan NoneType torch device fx_pytree pytree math operator _operator sym_not sym_max sym_min".split()
)


def write(traced: Traced, arguments: Arguments, backend: str, examples: Sequence[Any], bounds: list[Any]) -> str:
    """The module's text.

    examples: the tensors that the graphs were traced with. bounds: see `unbacked.bounds_of`.
    """
    literals = _literals(traced, arguments, backend, examples, bounds)
    facts = "".join(f"{name} = {_text(name, value)}\n" for name, value in literals.items())
    graphs = {"forward_graph": traced.partition.forward, "backward_graph": traced.partition.backward}
    functions = [_function(name, gm) for name, gm in graphs.items() if gm is not None]
    first = FIRST.format(version=__version__, torch=torch.__version__)
    return "\n".join([first, facts, "", *functions]) + "\n" + LAST


def _text(name: str, value: Any) -> str:
    """The plan, which is for the program rather than for readers, in one line; the rest laid out."""
    return repr(value) if name == "PLAN" else pprint.pformat(value, width=110, sort_dicts=False)


def _literals(
    traced: Traced, arguments: Arguments, backend: str, examples: Sequence[Any], bounds: list[Any]
) -> dict[str, Any]:
    count = len(arguments.state)
    parameters, buffers = arguments.parameters, arguments.buffers
    rest = iter(examples[count:])
    leaves = [next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in arguments.leaves]
    return {
        "BACKEND": backend,
        "MODULE_POSITIONS": arguments.positions,
        "MODULE_TRAINING": [module.training for module in arguments.modules],
        "NUM_POSITIONAL_ARGS": arguments.count,
        "GRAD_ENABLED": torch.is_grad_enabled(),
        **_state_literals("PARAM", parameters),
        **_state_literals("BUFFER", buffers),
        "GRAD_PARAM_INDICES": traced.gradients,
        "CLEARED_GRAD_PARAM_INDICES": traced.cleared,
        "ASSIGNED_BUFFER_INDICES": traced.assigned,
        "IN_SPEC": _spec_text(arguments.spec, "the arguments"),
        "OUT_SPEC": _spec_text(traced.out_spec, "the result"),
        "NUM_RESULTS": traced.results,
        **_leaf_literals(leaves),
        "USER_INPUT_BOUNDS": bounds,
        "USER_INPUT_CONSTANTS": [None if isinstance(v, torch.Tensor) else [_constant(v)] for v in leaves],
        "PLAN": _plan(traced),
        "FORWARD_INPUTS": inputs_of(traced.partition.forward),
        "BACKWARD_INPUTS": inputs_of(traced.partition.backward) if traced.partition.backward is not None else None,
    }


def _state_literals(prefix: str, state: State) -> dict[str, Any]:
    return {
        f"{prefix}_NAMES": state.names,
        f"{prefix}_SHAPES": [list(t.shape) for t in state.tensors],
        f"{prefix}_STRIDES": [list(t.stride()) for t in state.tensors],
        f"{prefix}_DTYPES": [_dtype(t) for t in state.tensors],
        f"{prefix}_DEVICES": [str(t.device) for t in state.tensors],
    }


def _leaf_literals(leaves: Sequence[Any]) -> dict[str, Any]:
    def of_each(read: Any) -> list[Any]:
        return [read(v) if isinstance(v, torch.Tensor) else None for v in leaves]

    return {
        "USER_INPUT_SHAPES": of_each(lambda t: [_size(n) for n in t.shape]),
        "USER_INPUT_STRIDES": of_each(lambda t: [_size(n) for n in t.stride()]),
        "USER_INPUT_DTYPES": of_each(_dtype),
        "USER_INPUT_DEVICES": of_each(lambda t: str(t.device)),
    }


def inputs_of(gm: GraphModule) -> list[Any]:
    """For each input of a graph: [sizes, strides, dtype, device] of a tensor, or a number, or the text of a symbol."""
    values = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
    return [_described(v) if isinstance(v, torch.Tensor) else _size(v) for v in values]


def _described(tensor: torch.Tensor) -> list[Any]:
    sizes, strides = [_size(n) for n in tensor.shape], [_size(n) for n in tensor.stride()]
    return [sizes, strides, _dtype(tensor), str(tensor.device)]


def _size(n: Any) -> Any:
    return str(n.node.expr) if isinstance(n, torch.SymInt) else n


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _spec_text(spec: TreeSpec, what: str) -> str:
    try:
        return treespec_dumps(spec)
    except NotImplementedError as error:
        raise PrecompileError(f"{what} hold a class that pytree cannot write down: {error}") from error


def _constant(value: Any) -> Any:
    try:
        return plan_json.encode(value)
    except PlanError as error:
        raise PrecompileError(f"an argument cannot be written down: {error}") from error


def _plan(traced: Traced) -> Any:
    try:
        return traced.plan.to_json()
    except PlanError as error:
        raise PrecompileError(f"the program cannot be written down: {error}") from error


def _function(name: str, gm: GraphModule) -> str:
    """A graph as a function of its inputs, with the user's lines as comments; files by name, without their folders."""
    graph = Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    for node in graph.nodes:
        trace = node.meta.get("stack_trace")
        if trace:
            node.meta["stack_trace"] = re.sub(r'File "(?:[^"]*/)?([^"/]*)"', r'File "\1"', trace)
    code = graph.python_code("self", verbose=True)
    unknown = code.globals.keys() - KNOWN_GLOBALS
    if unknown:
        raise PrecompileError(f"the program holds objects that cannot be written down: {', '.join(sorted(unknown))}")
    text = re.sub(r"\bdef forward\(self(?:, )?", f"def {name}(", code.src.strip("\n"), count=1)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
