"""`aot_compile`: one call of a compiled function, with its guards, as something that is saved and loaded as a whole.

The program comes from `precompile`, so it is data and holds no weights; the guards are those that the capture of the
function gives, as far as another process can check them. Nothing is pickled.
"""

from __future__ import annotations

import inspect
import io
import os
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import triptych_dynamo
from torch import nn
from triptych_aot_autograd import PlanError
from triptych_aot_autograd.runtime import plan_json
from triptych_dynamo.guards.portable import check_portable, guards_from_json, guards_to_json, required_globals
from triptych_inductor import ArtifactError
from triptych_inductor.container import pack, unpack

from triptych.errors import PrecompileError, TriptychError
from triptych.precompile.capture import MakeFxTracer, make
from triptych.precompile.program import Program
from triptych.settings import Settings

FORMAT = "triptych.aot_compile"
VERSION = 1
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
        environment.require(required_globals(self._facts), header["externals"])
        namespace: dict[str, Any] = {"__name__": f"triptych.aot.{self.__name__}"}
        exec(compile(header["source"], f"<{self.__qualname__}>", "exec"), namespace)
        self._program: Program = namespace["program"]
        self._program.attach(kernels)
        self._checks = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it. Raises GuardCheckError, which names the guard that does not hold."""
        variables = self._bound(args, kwargs)
        if self._checks:
            failure = self._failure(variables)
            if failure is not None:
                raise GuardCheckError(f"guard check failed, reason: {failure}")
        externals = [self._environment.external(name) for name in self._header["externals"]]
        return self._program(*externals, *variables.values())

    def guard_check(self, *args: Any, **kwargs: Any) -> bool:
        """Whether a call with these arguments would pass the guards."""
        return self._failure(self._bound(args, kwargs)) is None

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
        names = _module_globals(header["module"]) if f_globals is None else f_globals
        return AOTCompiledFunction(header, kernels, _Environment(names, {}, external_data or {}))

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = self.__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def _failure(self, variables: dict[str, Any]) -> str | None:
        found = check_portable(
            self._facts, variables, f_globals=self._environment.f_globals, cells=self._environment.cells
        )
        return None if found is None else found[1]

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

    def require(self, names: set[str], externals: list[str]) -> None:
        """Raises KeyError for a global, or a module of the closure, that is not there."""
        for name in sorted(names):
            if name not in self.f_globals and name not in self._external:
                raise KeyError(f"the compiled function checks the global {name!r}, which f_globals lacks")
        for name in externals:
            self.external(name)

    def external(self, name: str) -> Any:
        """A module that the function reads from its closure or globals."""
        if name in self._external:
            return self._external[name]
        if name in self.cells:
            return self.cells[name].cell_contents
        if name in self.f_globals:
            return self.f_globals[name]
        raise KeyError(f"the compiled function uses {name!r}: pass it as external_data={{{name!r}: ...}}")


def aot_compile(
    fn: Callable[..., Any], settings: Settings, example: tuple[tuple, dict[str, Any]]
) -> AOTCompiledFunction:
    """Compiles `fn` for calls like the example.

    fn: a Python function. settings: of `triptych.compile`; `fullgraph` is needed. example: (arguments, keyword
        arguments). The function does not run.
    Raises: TriptychError without `fullgraph` or for a backend that makes nothing to keep; GraphBreakError where the
        function is not one graph; PrecompileError where it is none that can be kept.
    """
    backend = _checked(settings)
    args, kwargs = _taken_apart(example)
    graph = triptych_dynamo.capture(fn, dynamic=settings.dynamic)(*args, **kwargs)
    if graph.effects:
        raise PrecompileError(f"the function changes objects besides tensors ({', '.join(graph.effects)}): return them")
    signature = inspect.signature(fn, follow_wrapped=False)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    externals = _modules_read(fn, cells)
    environment = _Environment(fn.__globals__, cells, {})
    program = _as_positional(fn, signature, len(externals))
    values = (*map(environment.external, externals), *bound.arguments.values())
    artifact, _ = make(program, values, MakeFxTracer(), backend)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "name": fn.__name__,
        "qualname": fn.__qualname__,
        "module": fn.__module__,
        "signature": _signature_to(signature),
        "source": artifact.source,
        "guards": [_without_folder(row) for row in guards_to_json(graph.guards)],
        "externals": externals,
    }
    return AOTCompiledFunction(header, artifact.kernels, environment)


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
    if settings.dynamic:
        raise TriptychError("aot_compile keeps one set of sizes: compile without dynamic=True")
    if not (settings.backend is None or settings.backend in BACKENDS):
        raise TriptychError(f"aot_compile keeps what 'inductor' or 'eager' make, not what {settings.backend!r} makes")
    return BACKENDS[settings.backend]  # type: ignore[index]


def _taken_apart(example: Any) -> tuple[tuple, dict[str, Any]]:
    if not (isinstance(example, tuple) and len(example) == 2 and isinstance(example[1], Mapping)):
        raise TypeError("aot_compile takes a pair of arguments and keyword arguments: ((x, y), {})")
    return tuple(example[0]), dict(example[1])


def _modules_read(fn: Any, cells: Mapping[str, types.CellType]) -> list[str]:
    """Names of modules that the function reads from its closure or its globals."""
    found = [name for name, cell in cells.items() if isinstance(cell.cell_contents, nn.Module)]
    return found + [n for n in fn.__code__.co_names if isinstance(fn.__globals__.get(n), nn.Module)]


def _as_positional(fn: Callable[..., Any], signature: inspect.Signature, skip: int) -> Callable[..., Any]:
    """`fn` as a function of all its parameters' values in order, behind `skip` modules that it finds by itself."""
    kinds = [(p.name, p.kind) for p in signature.parameters.values()]

    def program(*values: Any) -> Any:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for (name, kind), value in zip(kinds, values[skip:], strict=True):
            if kind is inspect.Parameter.VAR_POSITIONAL:
                args += value
            elif kind is inspect.Parameter.VAR_KEYWORD:
                kwargs |= value
            elif kind is inspect.Parameter.KEYWORD_ONLY:
                kwargs[name] = value
            else:
                args.append(value)
        return fn(*args, **kwargs)

    return program


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


def _module_globals(name: str) -> Mapping[str, Any]:
    module = sys.modules.get(name)
    return vars(module) if module is not None else {}
