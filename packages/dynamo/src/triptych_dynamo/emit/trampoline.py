"""How a program with graph breaks runs from piece to piece without growing the stack.

A compiled continuation that breaks again does not call the next one: it returns a `Resume`, and the root's `drive`
calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Resume:
    """What a compiled continuation returns in place of the frame's result when there is more to run."""

    __slots__ = ("args", "function")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.function = function
        self.args = args


def drive(function: Callable[..., Any], *args: Any) -> Any:
    """Run continuations until one gives the frame's result."""
    result = function(*args)
    while type(result) is Resume:
        result = result.function(*result.args)
    return result
