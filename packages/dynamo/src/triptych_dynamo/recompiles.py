"""Recompiles of one frame: why one was needed, and what happens when there were too many.

Limits belong to the compiled callable (`Options.recompile_limit`, `Options.on_limit`) and count per frame.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from triptych_dynamo.guards.facts import Guard
from triptych_dynamo.guards.program import INTEGER_KINDS
from triptych_dynamo.guards.python_check import check
from triptych_dynamo.options import Options
from triptych_dynamo.profiles import Varied
from triptych_dynamo.sources import Source
from triptych_dynamo.trace.history import History


class RecompileLimitWarning(UserWarning):
    """A frame runs eagerly because it was compiled too often."""


class RecompileLimitError(RuntimeError):
    """A frame was compiled too often, and is not to run eagerly."""


@dataclass
class FrameState:
    """What the region knows of one frame.

    Attributes:
        history: sizes and numbers seen.
        guards: of each entry, in the order of compilation.
        warned: whether the limit was announced.
        kept: what of the history is in the profile.
        errors: how many entries stand for calls that raise.
    """

    history: History = field(default_factory=History)
    guards: list[list[Guard]] = field(default_factory=list)
    warned: bool = False
    errors: int = 0
    kept: Varied = field(default_factory=Varied)

    @property
    def entries(self) -> int:
        """How often the frame was compiled."""
        return len(self.guards)

    def may_remember_error(self, options: Options) -> bool:
        """Whether an exception gets an entry; they have a limit of their own, behind which each is traced anew."""
        self.errors += 1
        return self.errors <= options.recompile_limit


def recompile_reason(state: FrameState, variables: Mapping[str, Any], function: FunctionType) -> str:
    """The first fact of the newest entry that does not hold, with the user's line; "" for a first compile."""
    if not state.guards:
        return ""
    failure = check(state.guards[-1], variables, function)
    return "" if failure is None else f"{failure[1]} (from {failure[0].user_line})"


def may_compile(
    state: FrameState, options: Options, variables: Mapping[str, Any], function: FunctionType, reason: str
) -> bool:
    """Whether a frame that no entry fits is compiled once more; what else happens is announced here.

    Raises:
        RecompileLimitError: at the limit, under `on_limit="error"`, or when the frame must not run eagerly.
    """
    if state.entries < options.recompile_limit:
        return True
    if options.on_limit == "generalise" and options.dynamic is not False and _generalise(state, variables, function):
        return True
    _announce(state, options, function, reason)
    return False


def _generalise(state: FrameState, variables: Mapping[str, Any], function: FunctionType) -> bool:
    """Let every size and number that some entry failed on vary from now on. False when there is no new one."""
    failures = [check(guards, variables, function) for guards in state.guards]
    found = [source for failure in failures if failure is not None for source in _sizes_and_numbers(failure[0])]
    return state.history.generalise(found)


def _sizes_and_numbers(guard: Guard) -> list[Source]:
    if guard.kind == "shape":
        sources = [source for _, source in guard.value.symbols]
        return [source.base if type(source) in INTEGER_KINDS and source.base else source for source in sources]
    number = guard.kind == "equals" and type(guard.value) in (int, float)
    return [guard.source] if guard.source is not None and (number or guard.kind in ("tensor", "int_in")) else []


def _announce(state: FrameState, options: Options, function: FunctionType, reason: str) -> None:
    code = function.__code__
    text = (
        f"{function.__qualname__} ({code.co_filename}:{code.co_firstlineno}) was compiled {state.entries} times, "
        f"which is its limit (recompile_limit={options.recompile_limit}). The last guard that did not hold: {reason}"
    )
    if options.on_limit == "error":
        raise RecompileLimitError(f"{text}; on_limit='error' does not let it run eagerly")
    if options.fullgraph:
        raise RecompileLimitError(f"{text}; fullgraph=True does not let it run eagerly")
    if not state.warned:
        state.warned = True
        warnings.warn(f"{text}. It runs eagerly from now on where no entry fits", RecompileLimitWarning, stacklevel=6)
