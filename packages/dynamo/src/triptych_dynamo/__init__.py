"""Frame capture for PyTorch programs: Python bytecode to `torch.fx` graphs and guards. See README.md.

Names are loaded on first use, so that the bytecode layer can be imported without torch.
"""

from __future__ import annotations

import importlib
from typing import Any

from triptych_dynamo.__about__ import __version__ as __version__

_EXPORTS: dict[str, tuple[str, ...]] = {
    "triptych_dynamo.api": ("optimize", "region_of", "reset"),
    "triptych_dynamo.trace_time": ("ComptimeContext", "ComptimeVar", "comptime"),
    "triptych_dynamo.steering": (
        *("disallow_in_graph", "forbid_in_graph", "step_unsupported"),
        *("allow_in_graph", "assume_constant_result", "disable", "graph_break", "is_compiling"),
        *("error_on_graph_break", "is_exporting", "nested_compile_region", "nonstrict_trace", "skip_frame"),
        "substitute_in_graph",
    ),
    "triptych_dynamo.marks": (
        *("mark_dynamic", "mark_static", "mark_static_address", "mark_unbacked", "maybe_mark_dynamic"),
    ),
    "triptych_dynamo.shape_specs": ("Dim", "Fields"),
    "triptych_dynamo.backends": ("register_backend", "list_backends", "lookup_backend"),
    "triptych_dynamo.captured_graph": ("capture", "CapturedGraph", "CaptureError"),
    "triptych_dynamo.codec": ("NotPortable",),
    "triptych_dynamo.export.saved_graph": ("SavedGraph",),
    "triptych_dynamo.explanation": ("explain", "capture_all", "BreakReport", "Explanation"),
    "triptych_dynamo.hooks": ("Hooks",),
    "triptych_dynamo.logs": ("set_logs",),
    "triptych_dynamo.recompiles": ("RecompileLimitError", "RecompileLimitWarning"),
    "triptych_dynamo.options": ("Options",),
    "triptych_dynamo.stances": ("set_guard_agreement", "set_stance"),
    "triptych_dynamo.errors": (
        "ConstraintViolationError",
        "GraphBreakError",
        "GuardViolation",
        "InvalidBackend",
        "StanceError",
        "StaticSizesWarning",
        "TracerFault",
        "TraceTimeError",
        "Unsupported",
    ),
    "triptych_dynamo.guards.facts": ("Guard",),
    "triptych_dynamo.guards.filters": (
        *("GuardEntry", "guard_entries", "keep_portable_guards_unsafe", "keep_tensor_guards_unsafe"),
        *("skip_all_guards_unsafe", "skip_guard_on_all_nn_modules_unsafe", "skip_guard_on_globals_unsafe"),
        "skip_guard_on_inbuilt_nn_modules_unsafe",
    ),
}
_NOT_BUILT = (
    "triptych_dynamo has no frame hook (its extension module _eval_frame) for this interpreter. An installed package "
    "wants to be installed again under it; a checkout, `hatch run build-ext`"
)
_HOME = {name: module for module, names in _EXPORTS.items() for name in names}
__all__ = sorted(["__version__", *_HOME])


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = globals()[name] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}._eval_frame":
            raise
        raise ImportError(_NOT_BUILT, name=error.name) from error
    return value


def __dir__() -> list[str]:
    return __all__
