"""Errors of this package."""

from __future__ import annotations


class InductorError(RuntimeError):
    """Base of what `compile` raises for graphs it cannot take."""


class LoweringError(InductorError):
    """A lowering function failed; the text names the op, its arguments and the user's line."""


class OptionsError(InductorError):
    """An unknown option or a value of the wrong type."""
