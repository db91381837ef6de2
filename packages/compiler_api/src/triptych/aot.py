"""`aot_compile`: one call of a compiled function, with its guards, as something that is saved and loaded as a whole.

It is data: the captured graph with its kernels (`aot_graph`), where its inputs are read, what the function does after
the graph (it makes its result and changes objects), and the guards, as far as another process can check them. It holds
no weights, and nothing is pickled.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import triptych_dynamo
from triptych_aot_autograd import PlanError
from triptych_aot_autograd.runtime import plan_json
from triptych_dynamo import sources
from triptych_dynamo.codec import NotPortable, make_codec
from triptych_dynamo.emit.ending import run_ending
from triptych_dynamo.export.ending_json import any_class, ending_from_json, ending_to_json, sources_of
from triptych_dynamo.guards.facts import Guard, ShapeFact, TensorFacts
from triptych_dynamo.guards.portable import (
    PortableReader,
    guards_from_json,
    guards_to_json,
    required_globals,
    source_from_json,
    source_to_json,
)
from triptych_dynamo.guards.portable_program import PortableCheck
from triptych_inductor import ArtifactError
from triptych_inductor.container import pack, unpack

from triptych import aot_graph
from triptych.errors import PrecompileError, TriptychError
from triptych.pipelines import code_options
from triptych.settings import Settings

FORMAT = "triptych.aot_compile"
VERSION = 2
MAGIC = b"TRIPTYCH-AOT\n"
BACKENDS = {None: "inductor", "inductor": "inductor", "eager": "eager", "aot_eager": "eager"}


KINDS = {str(kind.name): kind for kind in type(inspect.Parameter.POSITIONAL_ONLY)}  # type: ignore[attr-defined]


class GuardCheckError(TriptychError):
    """A function compiled ahead of time is called with something for which it does not hold."""


class AOTCompiledFunction:
    """A function compiled for one kind of call. Call it like the function; a module's method takes the module first.

    guards: rows of what is checked at each call (and, marked "dropped", what cannot be checked elsewhere).
    """

    def __init__(self, header: dict[str, Any], kernels: dict[str, bytes], environment: _Environment) -> None:
        self._header, self._kernels, self._environment = header, kernels, environment
        self.__name__ = header["name"]
        self.__qualname__ = header["qualname"]
        self.__signature__ = _signature_from(header["signature"])
        self.guards: list[Any] = header["guards"]
        self._facts = guards_from_json(self.guards)
        self._inputs = [(name, source_from_json(source)) for name, source in header["inputs"]]
        self._outputs: list[str] = header["outputs"]
        self._ending = ending_from_json(make_codec(), header["ending"], any_class)
        environment.require(required_globals(self._facts), header["externals"])
        parameters = list(self.__signature__.parameters)
        self._check_all = environment.checking(self._facts, parameters)
        self._check_few = environment.checking(list(filter(_binds_kernels, self._facts)), parameters)
        self._graph = aot_graph.load(aot_graph.KeptGraph(header["graph"], kernels))
        self._checks = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it. Raises GuardCheckError, which names the guard that does not hold."""
        variables = self._bound(args, kwargs)
        failure = (self._check_all if self._checks else self._check_few)(variables)
        if failure is not None:
            raise GuardCheckError(f"guard check failed, reason: {failure[1]}")
        read = PortableReader(variables, self._environment.f_globals, self._environment.cells)
        given = {name: read(source) for name, source in self._inputs}
        results = self._graph(*given.values())
        return run_ending(self._ending, {**given, **dict(zip(self._outputs, results, strict=True))}, read)

    def guard_check(self, *args: Any, **kwargs: Any) -> bool:
        """Whether a call with these arguments would pass the guards."""
        return self._check_all(self._bound(args, kwargs)) is None

    def disable_guard_check(self) -> None:
        """Calls are no longer checked against the guards; what kernels rely on (sizes, dtypes) still is."""
        self._checks = False

    def save_compiled_function(self, path: str | os.PathLike[str]) -> None:
        """Writes it to a file, for `load_compiled_function`."""
        Path(path).write_bytes(self.serialize())

    def serialize(self) -> bytes:
        """It as bytes."""
        return MAGIC + pack(self._header, self._kernels)

    @staticmethod
    def deserialize(
        data: bytes,
        f_globals: Mapping[str, Any] | None = None,
        external_data: Mapping[str, Any] | None = None,
    ) -> AOTCompiledFunction:
        """What `serialize` gave. Raises PrecompileError for bytes that are not that, or damaged."""
        if not data.startswith(MAGIC):
            raise PrecompileError("not a function compiled ahead of time by this package")
        try:
            header, kernels = unpack(data[len(MAGIC) :])
        except (ArtifactError, ValueError, KeyError, IndexError) as error:
            raise PrecompileError(f"the compiled function is damaged: {error}") from error
        if (header.get("format"), header.get("version")) != (FORMAT, VERSION):
            raise PrecompileError("the compiled function was written by another version")
        names, cells = _surroundings(header)
        environment = _Environment(names if f_globals is None else f_globals, cells, external_data or {})
        return AOTCompiledFunction(header, kernels, environment)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = self.__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def __repr__(self) -> str:
        return f"AOTCompiledFunction({self.__qualname__}{self.__signature__})"


class _Environment:
    """What a function reads besides its arguments: globals, its closure, and objects handed over when it is loaded."""

    def __init__(
        self, f_globals: Mapping[str, Any], cells: Mapping[str, types.CellType], external: Mapping[str, Any]
    ) -> None:
        overridden = f_globals.keys() & external.keys()
        self.f_globals = {**f_globals, **external} if overridden else f_globals  # as a rule live
        self._external = external
        self.cells = {**cells, **{name: types.CellType(value) for name, value in external.items()}}

    def checking(self, facts: list[Guard], parameters: list[str]) -> Callable[[dict[str, Any]], Any]:
        """What checks facts for the parameters' values: None, or the guard that does not hold and a text."""
        return PortableCheck(facts, parameters, f_globals=self.f_globals, cells=self.cells)

    def require(self, names: set[str], externals: list[str]) -> None:
        """Raises KeyError for a global, or an object of the closure, that is not there."""
        for name in sorted(names):
            if name not in self.f_globals and name not in self._external:
                raise KeyError(f"the compiled function checks the global {name!r}, which f_globals lacks")
        for name in externals:
            if name not in self.cells:
                raise KeyError(f"the compiled function uses {name!r}: pass it as external_data={{{name!r}: ...}}")


def aot_compile(
    fn: Callable[..., Any], settings: Settings, example: tuple[tuple, dict[str, Any]]
) -> AOTCompiledFunction:
    """Compiles `fn` for calls like the example.

    fn: a Python function. settings: of `triptych.compile`; `fullgraph` is needed, `dynamic=True` leaves sizes open.
        example: (arguments, keyword arguments). The function does not run.
    Raises: TriptychError without `fullgraph` or for a backend that makes nothing to keep; GraphBreakError where the
        function is not one graph; PrecompileError where it is none that can be kept.
    """
    backend = _checked(settings)
    args, kwargs = _taken_apart(example)
    graph = triptych_dynamo.capture(fn, dynamic=settings.dynamic)(*args, **kwargs)
    if isinstance(graph.result, str):
        raise PrecompileError(f"what the function returns or changes has no form as data: {graph.result}")
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    read = [graph.sources[node.name] for node in graph.lifted.graph.nodes if node.op == "placeholder"]
    try:
        places = {
            "inputs": [[name, source_to_json(graph.sources[name])] for name in graph.inputs],
            "ending": ending_to_json(make_codec(), graph.result, {}, any_class),
            "guards": [_without_folder(row) for row in guards_to_json(graph.guards)],
        }
    except NotPortable as error:
        raise PrecompileError(f"the function cannot be kept: {error}") from error
    kept = aot_graph.build(graph.lifted, backend, code_options(settings))
    header = {
        "format": FORMAT,
        "version": VERSION,
        "name": fn.__name__,
        "qualname": fn.__qualname__,
        "module": fn.__module__,
        "cells": list(fn.__code__.co_freevars),
        "signature": _signature_to(inspect.signature(fn, follow_wrapped=False)),
        "outputs": graph.outputs,
        "externals": _cells_read([*read, *sources_of(graph.result)]),
        "graph": kept.facts,
        **places,
    }
    return AOTCompiledFunction(header, kept.kernels, _Environment(fn.__globals__, cells, {}))


def _cells_read(places: Iterable[sources.Source]) -> list[str]:
    """Names of the closure that are read."""
    return sorted({place.root.name for place in places if isinstance(place.root, sources.CellSource)})


def _binds_kernels(guard: Guard) -> bool:
    """Whether compiled code reads memory wrongly where the guard does not hold."""
    return isinstance(guard.value, (TensorFacts, ShapeFact))


def load_compiled_function(
    file: str | os.PathLike[str] | io.IOBase,
    *,
    f_globals: Mapping[str, Any] | None = None,
    external_data: Mapping[str, Any] | None = None,
) -> AOTCompiledFunction:
    """A function that `save_compiled_function` wrote. It is executed when called: load only what you trust.

    file: its path, or a file opened for reading bytes. f_globals: the globals that its guards look at; those of the
        function's module by default. external_data: modules of its closure, by name.
    Raises: PrecompileError for a file that is none; KeyError for a name that is missing.

    Example:
        >>> compiled = triptych.compile(fn, fullgraph=True).aot_compile(((x,), {}))
        >>> compiled.save_compiled_function("fn.bin")
        >>> load_compiled_function("fn.bin")(x)
    """
    data = file.read() if hasattr(file, "read") else Path(file).read_bytes()  # type: ignore[arg-type]
    return AOTCompiledFunction.deserialize(data, f_globals, external_data)


def _checked(settings: Settings) -> str:
    if not settings.fullgraph:
        raise TriptychError("aot_compile keeps one whole graph: compile with fullgraph=True")
    if not (settings.backend is None or settings.backend in BACKENDS):
        raise TriptychError(f"aot_compile keeps what 'inductor' or 'eager' make, not what {settings.backend!r} makes")
    return BACKENDS[settings.backend]  # type: ignore[index]


def _taken_apart(example: Any) -> tuple[tuple, dict[str, Any]]:
    if not (isinstance(example, tuple) and len(example) == 2 and isinstance(example[1], Mapping)):
        raise TypeError("aot_compile takes a pair of arguments and keyword arguments: ((x, y), {})")
    return tuple(example[0]), dict(example[1])


def _without_folder(row: dict[str, Any]) -> dict[str, Any]:
    """A row of guards whose line of the program is named without the folders of its file."""
    return {**row, "line": os.path.basename(row["line"])} if row.get("line") else row


def _signature_to(signature: inspect.Signature) -> list[Any]:
    """Parameters as data: name, kind, and the default in a list; defaults without a form are left out."""
    rows = []
    for parameter in signature.parameters.values():
        default: list[Any] = []
        if parameter.default is not inspect.Parameter.empty:
            try:
                default = [plan_json.encode(parameter.default)]
            except PlanError:
                default = []
        rows.append([parameter.name, parameter.kind.name, default])
    return rows


def _signature_from(rows: list[Any]) -> inspect.Signature:
    parameters = []
    for name, kind, default in rows:
        value = plan_json.decode(default[0]) if default else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, KINDS[kind], default=value))
    return inspect.Signature(parameters)


def _surroundings(header: dict[str, Any]) -> tuple[Mapping[str, Any], dict[str, types.CellType]]:
    """Globals and closure of the function, where this process has it; a wrapper has those of its own definition."""
    name = header["module"]
    if name not in sys.modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    module = sys.modules.get(name)
    found: Any = module
    for part in header["qualname"].split("."):
        found = getattr(found, part, None)
    if isinstance(found, types.FunctionType) and list(found.__code__.co_freevars) == header["cells"]:
        return found.__globals__, dict(zip(header["cells"], found.__closure__ or (), strict=True))
    return (vars(module) if module is not None else {}), {}
