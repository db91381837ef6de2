"""The errors that `triptych.compile` itself raises, and the warnings it gives.

All errors are RuntimeErrors, as torch.compile's are, so that code written for it catches these too.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TriptychError(RuntimeError):
    """Base of the errors of this package."""


class UnsupportedVersionError(TriptychError):
    """This Python (or build of it) is newer than, or different from, what is supported."""


class InvalidBackendError(TriptychError):
    """`backend` names nothing that is registered, or is no backend at all."""


class InvalidModeError(TriptychError):
    """`mode` is not one of the modes of the code generator."""


class InvalidOptionError(TriptychError):
    """A key of `options` is unknown, its value has the wrong type, or it clashes with another argument."""


class CompileFallbackWarning(RuntimeWarning):
    """A graph could not be compiled and runs eagerly."""


def suggestion(wrong: str, known: Iterable[str]) -> str:
    """The tail of an error text: the names that look like `wrong`, else all there are.

    Example:
        >>> suggestion("indcutor", ["eager", "inductor"])
        "did you mean 'inductor'?"
    """
    names = sorted(known)
    close = difflib.get_close_matches(wrong, names, n=3)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"known: {', '.join(names)}"
