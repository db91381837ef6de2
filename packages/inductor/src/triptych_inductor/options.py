"""`Options`: every switch of this package, in one frozen dataclass that is handed down (no global state)."""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Mapping
from typing import Any

from triptych_inductor.errors import OptionsError


@dataclasses.dataclass(frozen=True)
class Options:
    """Switches of `compile`.

    exact: round half-precision intermediates where eager rounds them, inside fused kernels too.
    fusion: fuse loop nodes into common kernels.
    inplace_buffers: let kernels overwrite memory of dead buffers.
    memory_arenas: allocate intermediates of static sizes together, where that does not raise the peak.
    max_fusion_nodes: cap on loop nodes in one kernel.
    local_row_limit: largest row (elements) that is kept in a kernel's local array between its stages.
    channels_last: lay out convolutions channels-last ("auto": graphs without gradients; "always": differentiated ones
    on GPUs too; "never").
    size_asserts: check sizes and strides of inputs at each call.
    interpret: run kernels in the reference interpreter instead of compiled code (slow; for cross-checks).
    threads: number of threads that code is planned for (0: torch.get_num_threads()).
    exclude_passes: names of graph passes to leave out.
    cudagraphs: record a GPU graph's work as a CUDA graph at its second call and replay it from then on.
    max_autotune: time candidate layouts of each GPU kernel and take the best; choices are kept on disk.
    freezing: what a graph holds itself counts as constant: its tensors are as they are now, and what follows from them
    is computed while compiling.
    freezing_discard_parameters: frozen tensors are not copied; whoever gave them gives them up.
    disk_cache: look for compiled graphs and kernels on disk, and keep them there.
    cache_key_tag: any text; graphs on disk are found again under the same tag only.
    """

    exact: bool = False
    fusion: bool = True
    inplace_buffers: bool = True
    memory_arenas: bool = True
    max_fusion_nodes: int = 64
    local_row_limit: int = 65536
    channels_last: str = "auto"
    size_asserts: bool = False
    interpret: bool = False
    threads: int = 0
    exclude_passes: tuple[str, ...] = ()
    cudagraphs: bool = False
    max_autotune: bool = False
    freezing: bool = False
    freezing_discard_parameters: bool = False
    disk_cache: bool = True
    cache_key_tag: str = ""

    @staticmethod
    def make(options: Options | Mapping[str, Any] | None = None) -> Options:
        """Options from a mapping of names to values; `OptionsError` names what is unknown or of the wrong type.

        >>> Options.make({"exact": True}).exact
        True
        """
        if isinstance(options, Options):
            return options
        chosen: dict[str, Any] = {}
        hints = typing.get_type_hints(Options)
        for key, value in (options or {}).items():
            name = key.replace("-", "_")
            if name not in hints:
                close = difflib.get_close_matches(name, hints, 1)
                suggestion = f"; did you mean {close[0]!r}?" if close else ""
                raise OptionsError(f"unknown option {key!r}{suggestion or f': known are {list(hints)}'}")
            wanted = typing.get_origin(hints[name]) or hints[name]
            if wanted is tuple and isinstance(value, list):
                value = tuple(value)
            if type(value) is not wanted:
                raise OptionsError(f"the option {key!r} is a {wanted.__name__}, which {value!r} is not")
            chosen[name] = value
        return Options(**chosen)


def list_options() -> list[str]:
    """Names of all options.

    >>> "exact" in list_options()
    True
    """
    return [field.name for field in dataclasses.fields(Options)]


_MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"cudagraphs": True},
    "max-autotune": {"cudagraphs": True, "max_autotune": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
    "lite": {"fusion": False, "inplace_buffers": False},
}


def list_mode_options(mode: str | None = None) -> dict[str, Any]:
    """Options that a mode sets; of all modes, as a dict by name, when `mode` is None.

    >>> list_mode_options("default")
    {}
    """
    if mode is None:
        return {name: dict(values) for name, values in _MODES.items()}
    if mode not in _MODES:
        raise OptionsError(f"unknown mode {mode!r}: known are {', '.join(_MODES)}")
    return dict(_MODES[mode])
