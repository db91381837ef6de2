"""Saving a `CapturedGraph` and calling it in another process, without the function's code.

The file holds the graph, the result's structure, the parameters' names, guards as data, and the tensors that the
function itself brings along: those of the object whose method it is, of its closure, and constants of the program.
Arguments and global variables are read anew at each call.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from triptych_dynamo import sources as s
from triptych_dynamo.codec import Codec, Json, NotPortable, make_codec
from triptych_dynamo.emit.ending import Ending, run_ending
from triptych_dynamo.errors import GuardViolation
from triptych_dynamo.export import archive
from triptych_dynamo.export.ending_json import ending_from_json, ending_to_json, sources_of
from triptych_dynamo.export.graph_json import graph_from_json, graph_to_json
from triptych_dynamo.guards.facts import Apart, Guard, PythonFact, ShapeFact
from triptych_dynamo.guards.portable import (
    PortableReader,
    check_portable,
    guards_from_json,
    guards_to_json,
    required_globals,
    source_from_json,
    source_to_json,
)
from triptych_dynamo.guards.python_check import Reader

if TYPE_CHECKING:
    from triptych_dynamo.captured_graph import CapturedGraph


# -- saving ------------------------------------------------------------------------------------------------------------
def save(graph: CapturedGraph, path: Path) -> None:
    """See `CapturedGraph.save`."""
    if isinstance(graph.result, str):
        raise NotPortable(f"the graph cannot be saved: {graph.result}")
    signature = inspect.signature(graph.function, follow_wrapped=False)
    parameters = list(signature.parameters.values())
    owner = parameters[0].name if graph.owner is not None else None
    read = Reader({owner: graph.owner} if owner is not None else {}, graph.function)
    brought = {name: source for name, source in graph.sources.items() if _is_brought(source, owner)}
    for source in sources_of(graph.result):
        if _is_brought(source, owner) and source not in brought.values() and isinstance(read(source), torch.Tensor):
            brought[f"result {len(brought)}"] = source
        elif isinstance(source.root, s.CellSource) and source not in brought.values():
            raise NotPortable(f"the graph cannot be saved: the program changes or returns {source}, of its closure")
    codec = make_codec()
    data = {
        "graph": graph_to_json(graph.lifted),
        "guards": guards_to_json(graph.guards),
        "inputs": {name: source_to_json(source) for name, source in graph.sources.items() if name not in brought},
        "owned": {name: source_to_json(source) for name, source in brought.items() if _root(source) == owner},
        "attributes": graph.attributes,
        "outputs": graph.outputs,
        "ending": ending_to_json(codec, graph.result, {source: name for name, source in brought.items()}),
        "owner": owner,
        "parameters": [_parameter_to_json(codec, parameter) for parameter in parameters[owner is not None :]],
        "module": graph.function.__module__,
        "name": graph.function.__qualname__,
    }
    archive.write(path, data, {name: read(source) for name, source in brought.items()})


def _root(source: s.Source) -> str | None:
    root = source.root
    return root.name if isinstance(root, s.LocalSource) else None


def _is_brought(source: s.Source, owner: str | None) -> bool:
    """Whether the function brings the tensor along: of its owner, its closure, or a constant."""
    root = source.root
    constant = isinstance(root, s.PinnedSource) and root is source
    return constant or isinstance(root, s.CellSource) or (owner is not None and _root(source) == owner)


def _parameter_to_json(codec: Codec, parameter: inspect.Parameter) -> Json:
    row: Json = {"name": parameter.name, "kind": int(parameter.kind)}
    if parameter.default is not parameter.empty:
        try:
            row["default"] = codec.encode(parameter.default)
        except NotPortable:
            pass  # the parameter has to be given
    return row


# -- loading -----------------------------------------------------------------------------------------------------------
@dataclass
class SavedGraph:
    """A captured graph from disk; call it as the function.

    Attributes:
        graph_module: as captured, parameters as placeholders.
        guards: the facts that are checked.
        dropped: facts that held when it was captured and that cannot be checked here: (fact, why).
        sources: placeholder -> where it is read, for those that are read at each call.
        tensors: placeholder -> the tensor that the file brings along.
        attributes: placeholder -> dotted name in its module.
        outputs: names of the nodes that the graph returns.
        name: of the captured function.
    """

    graph_module: fx.GraphModule
    guards: list[Guard]
    dropped: list[tuple[str, str]]
    sources: dict[str, s.Source]
    tensors: dict[str, torch.Tensor]
    attributes: dict[str, str]
    outputs: list[str]
    name: str
    ending: Ending = field(repr=False)
    signature: inspect.Signature = field(repr=False)
    fixed: dict[str, Any] = field(repr=False)  # the owner by its parameter's name, where one was given
    f_globals: Mapping[str, Any] = field(repr=False)

    def guard_check(self, *args: Any, **kwargs: Any) -> tuple[Guard, str] | None:
        """The first fact that does not hold for these arguments, with a sentence about it, or None."""
        return check_portable(self.guards, self._variables(args, kwargs), f_globals=self.f_globals)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result.

        Raises:
            GuardViolation: the arguments do not fit; the message names the fact.
        """
        variables = self._variables(args, kwargs)
        failure = check_portable(self.guards, variables, f_globals=self.f_globals)
        if failure is not None:
            raise GuardViolation(*failure)
        read = PortableReader(variables, self.f_globals)
        names = [node.name for node in self.graph_module.graph.nodes if node.op == "placeholder"]
        given = {name: read(source) for name, source in self.sources.items()} | self.tensors
        results = self.graph_module(*(given[name] for name in names))
        return run_ending(self.ending, given | dict(zip(self.outputs, results, strict=True)), read)

    def _variables(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return {**self.fixed, **bound.arguments}


def load(path: Path, owner: Any, f_globals: Mapping[str, Any] | None) -> SavedGraph:
    """See `CapturedGraph.load`."""
    data, tensors = archive.read(path)
    codec = make_codec()
    guards = guards_from_json(data["guards"])
    ending = ending_from_json(codec, data["ending"])
    sources = {name: source_from_json(source) for name, source in data["inputs"].items()}
    fixed = {}
    if owner is not None and data["owner"] is not None:
        fixed[data["owner"]] = owner
        for name, source in data["owned"].items():
            sources[name] = source_from_json(source)
            del tensors[name]
    elif data["owner"] is not None and any(_root(source) == data["owner"] for source in sources_of(ending)):
        raise NotPortable(f"{data['name']} changes or returns parts of its {data['owner']}: load it with owner=")
    gone = lambda source: _is_gone(source, data["owner"], bool(fixed))
    guards = [kept for guard in guards if (kept := _without(guard, gone)) is not None]
    found = _globals_of(data["module"]) if f_globals is None else f_globals
    missing = required_globals(guards) - set(found)
    if missing:
        raise KeyError(f"globals of {data['name']} are missing: {', '.join(sorted(missing))}")
    return SavedGraph(
        graph_from_json(data["graph"]),
        guards,
        [(row["dropped"], row["why"]) for row in data["guards"] if "dropped" in row],
        sources,
        tensors,
        data["attributes"],
        data["outputs"],
        data["name"],
        ending,
        inspect.Signature([_parameter_from_json(codec, row) for row in data["parameters"]]),
        fixed,
        found,
    )


def _is_gone(source: s.Source, owner: str | None, has_owner: bool) -> bool:
    """Whether the file brings along what is read there: the owner's tensors, the closure."""
    return isinstance(source.root, s.CellSource) or (owner is not None and not has_owner and _root(source) == owner)


def _without(guard: Guard, gone: Callable[[s.Source], bool]) -> Guard | None:
    """The guard on what is left, or None when it spoke of what is gone alone."""
    value = guard.value
    if isinstance(value, ShapeFact):
        return None if any(gone(source) for _, source in value.symbols) else guard
    if isinstance(value, Apart):
        groups = [tuple(item for item in group if not gone(item)) for group in (value.sources, value.others)]
        return replace(guard, value=Apart(*groups)) if all(groups) else None
    if guard.kind == "no_gradients":
        return replace(guard, value=tuple(item for item in value if not gone(item)))
    places = [guard.source, value if isinstance(value, s.Source) else None]
    if isinstance(value, PythonFact):
        places += value.sources
    return None if any(place is not None and gone(place) for place in places) else guard


def _parameter_from_json(codec: Codec, row: Json) -> inspect.Parameter:
    default = codec.decode(row["default"]) if "default" in row else inspect.Parameter.empty
    return inspect.Parameter(row["name"], inspect._ParameterKind(row["kind"]), default=default)


def _globals_of(module: str) -> Mapping[str, Any]:
    try:
        return vars(importlib.import_module(module))
    except ImportError:
        return {}
