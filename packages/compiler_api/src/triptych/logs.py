"""Logs of the whole compiler, selected by one text: `TRIPTYCH_LOGS="graphs,+guards,output_code"` or `set_logs`.

A text is a list of names with commas between: `name` shows it, `+name` with details, `-name` not. Names are those of
this table and of the front end's; `all` is everything, `help` prints the list. Records go through the logging module:
loggers `triptych.<name>` and `triptych_dynamo.<name>`.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TextIO

import triptych_dynamo
from triptych_dynamo import logs as capture_logs

from triptych.errors import ConfigError, suggestion

ARTIFACTS: dict[str, str] = {
    "aten_graphs": "each forward, backward and inference graph of ATen operators, as Python text",
    "schedule": "which operators a graph's kernels are made of, and in which order they run",
    "output_code": "the generated module that allocates memory and calls kernels",
    "kernel_code": "the generated kernels",
    "cache": "what was found on disk, and why a graph is not kept there",
    "times": "how long each graph took, by stage",
}
FURTHER = {"cache": ("triptych_inductor.cache",)}  # loggers of other packages that belong to a name
STAGES = {
    "triptych": "triptych",
    "dynamo": "triptych_dynamo",
    "aot": "triptych_aot_autograd",
    "inductor": "triptych_inductor",
}
_ROOTS = ("triptych", "triptych_inductor", "triptych_aot_autograd")


def logger(artifact: str) -> logging.Logger:
    """The logger of one of `ARTIFACTS`."""
    return logging.getLogger(f"triptych.{artifact}")


def help_text() -> str:
    """What `TRIPTYCH_LOGS` can name."""
    table = {**capture_logs.ARTIFACTS, **ARTIFACTS}
    rows = [f"  {name:<13} {text}" for name, text in table.items()]
    return "\n".join(
        [
            "TRIPTYCH_LOGS: names with commas between (name, +name for details, -name for silence)",
            *rows,
            f"  {'all':<13} everything above",
            f"  {', '.join(STAGES)}: a package's own messages",
        ]
    )


def set_logs(text: str = "", /, **levels: int | bool) -> None:
    """Choose what is logged; what is not named stays as it is.

    text: as in `TRIPTYCH_LOGS`. levels: name=True, False, or a level of the logging module.
    Raises: ConfigError (a ValueError) for a name that there is not.

    Example:
        >>> triptych.set_logs("graph_breaks,+guards")
        >>> triptych.set_logs(output_code=True)
    """
    chosen = capture_logs.parse(text)
    for name, level in levels.items():
        chosen[name] = (logging.INFO if level else logging.CRITICAL) if isinstance(level, bool) else level
    known = {*ARTIFACTS, *capture_logs.ARTIFACTS, *STAGES, "all", "help"}
    for name in chosen:
        if name not in known:
            raise ConfigError(f"there are no logs named {name!r}: {suggestion(name, known)}")
    if chosen.pop("help", None) is not None:
        print(help_text(), file=sys.stderr)
    theirs = {name: level for name, level in chosen.items() if name in (*capture_logs.ARTIFACTS, "all", "dynamo")}
    if theirs:
        triptych_dynamo.set_logs("", **theirs)
    for name, level in _levels(chosen).items():
        logging.getLogger(name).setLevel(level)
        _add_handler(logging.getLogger(name.split(".")[0]))


def _levels(chosen: dict[str, int]) -> dict[str, int]:
    """Levels by logger name; "all" comes first, so that single names can differ from it."""
    levels: dict[str, int] = {}
    for name in ARTIFACTS if "all" in chosen else ():
        levels.update(dict.fromkeys((f"triptych.{name}", *FURTHER.get(name, ())), chosen["all"]))
    for name, level in chosen.items():
        if name in ARTIFACTS:
            levels.update(dict.fromkeys((f"triptych.{name}", *FURTHER.get(name, ())), level))
        elif name in STAGES and STAGES[name] in _ROOTS:
            levels[STAGES[name]] = level
    return levels


class _Handler(logging.StreamHandler[TextIO]):
    """Writes where nobody else does: a program that has set up logging sees the records through its own handlers."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            super().emit(record)


def _add_handler(root: logging.Logger) -> None:
    if any(isinstance(handler, (_Handler, logging.FileHandler)) for handler in root.handlers):
        return
    path = os.environ.get(capture_logs.VARIABLE_OUT)
    handler: logging.Handler = logging.FileHandler(path, delay=True) if path else _Handler()
    handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
    root.addHandler(handler)


_configured: list[str] = []


def configure() -> None:
    """Read the environment variable, once."""
    text = os.environ.get(capture_logs.VARIABLE, "")
    if text and not _configured:
        _configured.append(text)
        set_logs(text)
