"""What this release runs on, as facts, and the check that `compile` makes first."""

from __future__ import annotations

import sys
import sysconfig

from triptych.errors import UnsupportedVersionError

OLDEST_PYTHON = (3, 11)
NEWEST_PYTHON = (3, 14)


def check_python(version: tuple[int, int] | None = None, *, free_threaded: bool | None = None) -> None:
    """Raises UnsupportedVersionError unless frames of this interpreter can be captured.

    version and free_threaded are those of the running interpreter when not given.
    """
    version = sys.version_info[:2] if version is None else version
    if free_threaded is None:
        free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    wanted = f"Python {'.'.join(map(str, OLDEST_PYTHON))} to {'.'.join(map(str, NEWEST_PYTHON))}"
    if not OLDEST_PYTHON <= version <= NEWEST_PYTHON:
        found = ".".join(map(str, version))
        raise UnsupportedVersionError(
            f"triptych.compile is not supported on Python {found}; this release supports {wanted}"
        )
    if free_threaded:
        raise UnsupportedVersionError(
            "triptych.compile is not supported on free-threaded builds of Python; "
            f"this release supports {wanted}, built with the global interpreter lock"
        )
