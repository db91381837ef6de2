"""A launch of a Triton kernel as an operator of `torch.library`, so that it stays in the graph.

The operator's schema says which tensors are written, so every later stage can treat it like any operator that mutates:
`triptych_triton::<kernel>_<hash>(Tensor(a0!) arg0, Tensor arg1, SymInt arg2, SymInt[] grids) -> ()`. Constants of the
launch (block sizes, options) are part of the operator. `grids` holds three numbers for each configuration of an
autotuned kernel (one otherwise). The kernel object itself is launched: its own autotuning, heuristics and hooks run.
"""

from __future__ import annotations

import hashlib
import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from triptych_dynamo.triton_kernels.mutation import innermost, written_parameters

NAMESPACE = "triptych_triton"
_TYPES = {"tensor": "Tensor", "int": "SymInt", "float": "float", "bool": "bool"}


@dataclass(frozen=True)
class Slot:
    """One argument of a launch. `kind`: a key of `_TYPES`, or "constant" with its `value`. `keyword`: its name where it
    is given by keyword."""

    parameter: str
    kind: str
    value: Any = None
    keyword: bool = False


def is_launch(target: Any) -> bool:
    """Whether the target of a graph node is an operator of this file."""
    return getattr(target, "namespace", None) == NAMESPACE


def configurations(kernel: Any) -> list[dict[str, Any]]:
    """The keyword arguments that each configuration of an autotuned kernel adds; one empty dict for others."""
    found: list[dict[str, Any]] = [{}]
    while kernel is not None and not inspect.isfunction(kernel):
        configs = getattr(kernel, "configs", None)
        if configs:
            found = [{**outer, **config.all_kwargs()} for outer in found for config in configs]
        kernel = getattr(kernel, "fn", None)
    return found


def heuristics(kernel: Any) -> list[tuple[str, Callable[[dict[str, Any]], Any]]]:
    """(name, function of the arguments) of what `@triton.heuristics` adds, outermost first."""
    found = []
    while kernel is not None and not inspect.isfunction(kernel):
        values = getattr(kernel, "values", None)
        if isinstance(values, dict):
            found += list(values.items())
        kernel = getattr(kernel, "fn", None)
    return found


def constant_parameters(kernel: Any) -> frozenset[str]:
    """Parameters whose values are compiled in (`tl.constexpr`)."""
    parameters = inspect.signature(innermost(kernel)).parameters
    return frozenset(name for name, p in parameters.items() if "constexpr" in str(p.annotation))


_lock = threading.Lock()
_operators: dict[tuple[Any, ...], Any] = {}
_names: set[str] = set()


def launch_operator(kernel: Any, slots: Sequence[Slot]) -> Any:
    """The operator that launches `kernel` with the given kinds of arguments; equal launches share one.

    kernel: a `triton.jit` function or one wrapped by `autotune` and `heuristics`. slots: its arguments in order.
    """
    key = (id(kernel), *[(s.parameter, s.kind, type(s.value), repr(s.value), s.keyword) for s in slots])
    with _lock:
        if key not in _operators:
            _operators[key] = (_define(kernel, tuple(slots)), kernel)  # the kernel lives as long as its number is used
        return _operators[key][0]


def _define(kernel: Any, slots: tuple[Slot, ...]) -> Any:
    written = written_parameters(kernel)
    texts: list[str] = []
    for slot in slots:
        if slot.kind != "constant":
            mark = f"(a{len(texts)}!)" if slot.kind == "tensor" and slot.parameter in written else ""
            texts.append(f"{_TYPES[slot.kind]}{mark} arg{len(texts)}")
    name = _name(kernel, slots)
    torch.library.define(f"{NAMESPACE}::{name}", f"({', '.join([*texts, 'SymInt[] grids'])}) -> ()")
    torch.library.impl(f"{NAMESPACE}::{name}", "CompositeExplicitAutograd", _launcher(kernel, slots))
    torch.library.register_fake(
        f"{NAMESPACE}::{name}", _fake([s.parameter in written for s in slots if s.kind != "constant"])
    )
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def _fake(written: Sequence[bool]) -> Callable[..., None]:
    """The operator on fake tensors: those that it writes get a new version, by which a trace sees the write."""

    def launch(*given: Any) -> None:
        for value, changed in zip(given, written, strict=False):
            if changed and isinstance(value, torch.Tensor):
                torch.autograd.graph.increment_version(value)

    return launch


def _name(kernel: Any, slots: tuple[Slot, ...]) -> str:
    """A name that is the same in every process, for artifacts: of the kernel's source and the launch's constants."""
    function = innermost(kernel)
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = ""
    parts = [function.__module__, function.__qualname__, source, repr(slots), repr(configurations(kernel))]
    short = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    stem = "".join(c if c.isalnum() else "_" for c in function.__name__)
    name, count = f"{stem}_{short}", 0
    while name in _names:
        count += 1
        name = f"{stem}_{short}_{count}"
    _names.add(name)
    return name


def _launcher(kernel: Any, slots: tuple[Slot, ...]) -> Callable[..., None]:
    """What the operator runs."""
    configs = configurations(kernel)

    def launch(*given: Any) -> None:
        *values, grids = given
        left = iter(values)
        args, kwargs = [], {}
        for slot in slots:
            value = slot.value if slot.kind == "constant" else next(left)
            if slot.keyword:
                kwargs[slot.parameter] = value
            else:
                args.append(value)
        kernel[_chosen_grid(configs, grids)](*args, **kwargs)

    return launch


def _chosen_grid(configs: Sequence[dict[str, Any]], grids: Sequence[int]) -> Any:
    """The grid, or a function that gives that of the configuration which autotuning has chosen."""
    if len(grids) == 3:
        return tuple(grids)

    def grid(meta: dict[str, Any]) -> tuple[int, ...]:
        number = next(
            k for k, config in enumerate(configs) if all(meta.get(n) == v for n, v in config.items() if n in meta)
        )
        return tuple(grids[3 * number : 3 * number + 3])

    return grid
