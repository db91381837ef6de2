"""`load`: an artifact from disk as a callable."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

from triptych.errors import PrecompileError
from triptych.precompile import files, program


class PrecompiledRunnable:
    """A precompiled program. Call it as the captured function; usable as a context manager, which changes nothing.

    source: its text. installed: False: nothing outside it was changed. `unload` therefore does nothing.
    """

    installed = False

    def __init__(self, made: program.Program, source: str) -> None:
        self._program, self.source = made, source

    def __call__(self, *args: Any) -> Any:
        return self._program(*args)

    def __enter__(self) -> PrecompiledRunnable:
        return self

    def __exit__(self, *_: Any) -> None:
        self.unload()

    def unload(self) -> None:
        """Does nothing."""


def load(artifact_path: str | os.PathLike[str], cache_path: str | os.PathLike[str]) -> PrecompiledRunnable:
    """The program that `capture` wrote. Its source is executed: load only what you trust.

    artifact_path: the source. cache_path: its built kernels; a file that is no such cache is ignored with a warning.
    Raises: PrecompileError where a file is missing or damaged, or the two do not belong together.

    Example:
        >>> run = load("m.py", "m.cache")
        >>> y = run(model, x)
    """
    path = Path(artifact_path)
    text = files.read_source(path)
    backend = _checked_backend(path, text)
    kernels = files.read_kernels(Path(cache_path), text, backend)
    files.log.warning("%s is executed to load the program in it", path)
    try:
        made = started(text, str(path), kernels)
    except Exception as error:
        raise PrecompileError(f"the artifact {path} cannot be loaded: {type(error).__name__}: {error}") from error
    return PrecompiledRunnable(made, text)


def started(text: str, file: str, kernels: dict[str, bytes]) -> program.Program:
    """The program of a source, with its kernels. file: how errors call the source."""
    namespace: dict[str, Any] = {"__name__": f"triptych.precompile.loaded.{Path(file).stem}", "__file__": file}
    exec(compile(text, file, "exec"), namespace)
    made: program.Program = namespace["program"]
    made.attach(kernels)
    return made


def _checked_backend(path: Path, text: str) -> str:
    """The backend that the source names. Raises PrecompileError where it is not the source of a program."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise PrecompileError(f"the artifact {path} is not Python: {error}") from error
    literals: dict[str, ast.expr] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            literals[statement.targets[0].id] = statement.value
    missing = [name for name in program.LITERALS if name not in literals]
    if missing:
        raise PrecompileError(f"the artifact {path} is no precompiled program: it lacks {', '.join(missing)}")
    try:
        backend = ast.literal_eval(literals["BACKEND"])
    except ValueError as error:
        raise PrecompileError(f"the artifact {path} names no backend") from error
    return str(backend)
