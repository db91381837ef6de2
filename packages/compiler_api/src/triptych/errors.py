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


class BackendUnavailableError(InvalidBackendError):
    """`backend` names a backend whose package is not installed, or has no release for this torch."""


class BackendFallbackError(TriptychError):
    """A partner's compiler cannot take all of a graph, and the options say that it must."""


class PrecompileError(TriptychError):
    """A program cannot be precompiled, or a precompiled one does not fit what it is called with."""

    __module__ = "triptych.compiler"


class InvalidModeError(TriptychError):
    """`mode` is not one of the modes of the code generator."""


class InvalidOptionError(TriptychError):
    """A key of `options` is unknown, its value has the wrong type, or it clashes with another argument."""


class ConfigError(TriptychError, AttributeError, ValueError):
    """A setting of `triptych.compiler.config` that does not exist, or a value it cannot have."""


class CacheArtifactError(TriptychError):
    """Bytes that are no saved cache artifacts, or damaged ones."""


class CompileFallbackWarning(RuntimeWarning):
    """A graph could not be compiled and runs eagerly."""


class BackendFallbackWarning(CompileFallbackWarning):
    """A partner's compiler cannot take some operators of a graph; they run as torch's own kernels."""


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
