"""The `triptych.compiler` namespace: the names of `torch.compiler`, with their meanings.

Names that concern capture are those of `triptych_dynamo` itself, so that marks set through either are the same. Names
are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

_CAPTURE = (
    *("allow_in_graph", "assume_constant_result", "disable", "graph_break", "is_compiling", "is_exporting"),
    *("mark_dynamic", "mark_static", "maybe_mark_dynamic", "nonstrict_trace", "reset", "substitute_in_graph"),
    *("error_on_graph_break", "mark_static_address", "mark_unbacked", "skip_frame"),
    *("comptime", "disallow_in_graph", "forbid_in_graph", "step_unsupported"),
    *("keep_portable_guards_unsafe", "keep_tensor_guards_unsafe", "skip_all_guards_unsafe"),
    *("skip_guard_on_all_nn_modules_unsafe", "skip_guard_on_globals_unsafe"),
    "skip_guard_on_inbuilt_nn_modules_unsafe",
)

# name -> where it is: "module" (a submodule of this package) or "module:attribute"
_EXPORTS: dict[str, str] = {
    "PrecompileError": "triptych.errors:PrecompileError",
    "load_compiled_function": "triptych.aot:load_compiled_function",
    "precompile": "triptych.compiler.precompile",
    **{name: f"triptych_dynamo:{name}" for name in _CAPTURE},
    "compile": "triptych.entry:compile",
    "config": "triptych.compiler.config",
    "cudagraph_mark_step_begin": "triptych.compiler.replays:cudagraph_mark_step_begin",
    "cudagraph_mark_warmup_incomplete": "triptych.compiler.replays:cudagraph_mark_warmup_incomplete",
    "get_default_backend": "triptych.backends:get_default_backend",
    "is_dynamo_compiling": "triptych_dynamo:is_compiling",
    "list_backends": "triptych.backends:list_backends",
    "load_cache_artifacts": "triptych.compiler.artifacts:load_cache_artifacts",
    "nested_compile_region": "triptych.compiler.regions:nested_compile_region",
    "save_cache_artifacts": "triptych.compiler.artifacts:save_cache_artifacts",
    "set_default_backend": "triptych.backends:set_default_backend",
    "set_enable_guard_collectives": "triptych.compiler.collectives:set_enable_guard_collectives",
    "set_stance": "triptych.compiler.stances:set_stance",
    "wrap_numpy": "triptych.compiler.arrays:wrap_numpy",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'triptych.compiler' has no attribute {name!r}")
    module, _, attribute = _EXPORTS[name].partition(":")
    found = importlib.import_module(module)
    value = globals()[name] = getattr(found, attribute) if attribute else found
    return value


def __dir__() -> list[str]:
    return __all__
