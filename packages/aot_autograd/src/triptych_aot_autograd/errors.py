"""Errors of this package: what cannot be traced, said with the op and the user's line."""

from __future__ import annotations


class AotError(RuntimeError):
    """Base of the package's errors. `user_line` is 'file:line' of the program, where it is known."""

    def __init__(self, message: str, user_line: str = "") -> None:
        self.user_line = user_line
        super().__init__(f"{message}\n  at {user_line}" if user_line else message)


class UnsupportedOperationError(AotError):
    """The function does something that has no functional form (`set_`, growing `resize_`, sparse layouts ...)."""


class DataDependentError(AotError):
    """The function asks a traced tensor for its numbers (`item()`, `bool(t)`), which a trace does not have."""


class DoubleBackwardError(AotError):
    """The gradient of a gradient was asked for, and the inputs needed to compute it are gone or were overwritten."""
