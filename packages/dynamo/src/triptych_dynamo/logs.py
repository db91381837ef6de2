"""Logs: one logger of the standard library for each kind of thing that happens, `triptych_dynamo.<artifact>`.

They are off until somebody asks: by the logging module's own means, by `set_logs("graphs,+guards")`, or by the
environment variable `TRIPTYCH_LOGS` with the same text (`TRIPTYCH_LOGS=help` lists what there is, `TRIPTYCH_LOGS_OUT`
names a file to write to).

A text is a list of names with commas between: `name` shows it, `+name` shows its details too, `-name` silences it;
`dynamo` means this package's own messages and `all` every artifact. Names that this package does not know belong to
other stages, which read the same variable.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE, VARIABLE_OUT = "TRIPTYCH_LOGS", "TRIPTYCH_LOGS_OUT"
ROOT, STAGE = "triptych_dynamo", "dynamo"
ARTIFACTS: dict[str, str] = {
    "graphs": "each captured graph as Python text; with +, also where its inputs are read",
    "graph_breaks": "each graph break: what was met, the user's line, why, a hint; with +, the calls that lead there",
    "guards": "the facts under which compiled code is used; with +, the user's line that made each matter",
    "recompiles": "why a frame was compiled again: the fact that changed and the user's line",
    "frames": "each compiled frame: where it begins, nodes, guards, seconds",
    "bytecode": "the code that runs in place of a frame; with +, the original too",
    "trace_source": "each line of the program as it is traced",
    "side_effects": "the changes of the program's objects that are replayed behind a graph",
    "dynamic": "the sizes and numbers that are symbolic in a graph",
}
_LEVELS = {"+": logging.DEBUG, "-": logging.CRITICAL, "": logging.INFO}
_FORMAT = "[%(name)s] %(message)s"


def logger(artifact: str) -> logging.Logger:
    """The logger of an artifact.

    Example:
        >>> logger("graphs").name
        'triptych_dynamo.graphs'
    """
    return logging.getLogger(f"{ROOT}.{artifact}")


class _Handler(logging.StreamHandler[TextIO]):
    """Writes where nobody else does: a program that has set up logging sees the records through its own handlers."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            super().emit(record)


def parse(text: str) -> dict[str, int]:
    """Names and logging levels of a text such as "graphs,+guards,-recompiles".

    Example:
        >>> parse("graphs, +guards")
        {'graphs': 20, 'guards': 10}
    """
    chosen: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        sign = part[0] if part[0] in "+-" else ""
        chosen[part[len(sign) :]] = _LEVELS[sign]
    return chosen


def levels_of(chosen: Mapping[str, int]) -> dict[str, int]:
    """Levels by logger name; "all" comes first, so that single names can differ from it."""
    levels: dict[str, int] = {}
    if "all" in chosen:
        levels.update({f"{ROOT}.{name}": chosen["all"] for name in ARTIFACTS})
    if STAGE in chosen:
        levels[ROOT] = chosen[STAGE]
    levels.update({f"{ROOT}.{name}": level for name, level in chosen.items() if name in ARTIFACTS})
    return levels


def help_text() -> str:
    """What `TRIPTYCH_LOGS` can name."""
    width = max(map(len, ARTIFACTS))
    rows = [f"  {name:<{width}}  {text}" for name, text in ARTIFACTS.items()]
    return "\n".join([f"{VARIABLE}: names of {ROOT} (name, +name for details, -name for silence)", *rows])


def set_logs(text: str = "", /, **levels: int | bool) -> None:
    """Choose what is logged. What was chosen before stays, where it is not named.

    Args:
        text: as in `TRIPTYCH_LOGS`.
        levels: artifact=True, False, or a level of the logging module.

    Raises:
        ValueError: a keyword that names no artifact.

    Example:
        >>> set_logs("graph_breaks,+guards")
        >>> set_logs(recompiles=True, guards=False)
    """
    chosen = parse(text)
    if chosen.pop("help", None) is not None:
        print(help_text(), file=sys.stderr)
    unknown = levels.keys() - ARTIFACTS.keys() - {"all", STAGE}
    if unknown:
        raise ValueError(f"no artifact {', '.join(sorted(unknown))}; known: {', '.join(ARTIFACTS)}, {STAGE}, all")
    for name, level in levels.items():
        chosen[name] = (logging.INFO if level else logging.CRITICAL) if isinstance(level, bool) else level
    wanted = levels_of(chosen)
    for name, level in wanted.items():
        logging.getLogger(name).setLevel(level)
    if wanted:
        _add_handler()


def _add_handler() -> None:
    root = logging.getLogger(ROOT)
    if any(isinstance(handler, (_Handler, logging.FileHandler)) for handler in root.handlers):
        return
    path = os.environ.get(VARIABLE_OUT)
    handler: logging.Handler = logging.FileHandler(path, delay=True) if path else _Handler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    root.addHandler(handler)


def configure() -> None:
    """Read the environment variable."""
    text = os.environ.get(VARIABLE, "")
    if text:
        set_logs(text)
