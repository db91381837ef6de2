"""Compiled modules: a twin object that shares everything with the original but its call.

`twin(model, call)` makes an object of a subclass of `type(model)` whose instance dictionary *is* the model's. So the
compiled module has the original's parameters, buffers, hooks, mode and attributes, now and after any change to either;
its `state_dict` has the original's keys; `isinstance` and `type(m).__name__` hold; methods such as `generate` run on
the twin and so use the compiled call. Calling the original stays eager.

A wrapper module instead would put a prefix before each key and fail `isinstance`; setting a flag on the original would
compile it for everyone who holds it, the eager run one compares with included.

The class is made per compiled module, because the instance dictionary is shared and so cannot hold what differs.
"""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from triptych.reports import ATTRIBUTE, Report

Compile = Callable[[nn.Module], nn.Module]


class _Twin:
    """What a compiled module has before its original class in the order of lookup."""

    __slots__ = ()
    _triptych_original: nn.Module
    _triptych_call: Callable[..., Any]
    _triptych_compile: Compile

    def __init_subclass__(cls, **_: Any) -> None:
        """Does not go on to the original's bases: their registries count classes that users write, not this one."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():  # read by a tracer, ours or another: it is the module, under its own name
            return super().__call__(*args, **kwargs)  # type: ignore[misc]
        return type(self)._triptych_call(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Module:
        """A compiled module of a copy of the original, with its own compiled code."""
        cls = type(self)
        made = cls._triptych_compile(copy.deepcopy(cls._triptych_original, memo))
        memo[id(self)] = made
        return made

    def __copy__(self) -> nn.Module:
        cls = type(self)
        return cls._triptych_compile(copy.copy(cls._triptych_original))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickles as the original and the request to compile it again; generated code is not pickled."""
        cls = type(self)
        return _again, (cls._triptych_compile, cls._triptych_original)


def _again(compile_module: Compile, original: nn.Module) -> nn.Module:
    return compile_module(original)


def is_twin(module: object) -> bool:
    """Whether `module` is a compiled module made here."""
    return isinstance(module, _Twin)


def original_of(module: nn.Module) -> nn.Module:
    """The module that a compiled module was made of; any other module is its own original."""
    return type(module)._triptych_original if isinstance(module, _Twin) else module


def twin(
    model: nn.Module,
    call: Callable[..., Any],
    compile_module: Compile,
    report: Report,
    aot_compile: Callable[[Any], Any],
) -> nn.Module:
    """A compiled form of `model`.

    model: the original; it is not changed. call: what calling the twin calls, with the same arguments. compile_module:
    compiles another module with the same settings (for copies and unpickling). report: what `triptych.report` returns.
    aot_compile: compiles the forward ahead of time for an example of its arguments.
    """
    original_class = type(model)
    namespace = {
        "__module__": original_class.__module__,
        "__qualname__": original_class.__qualname__,
        "__doc__": original_class.__doc__,
        "_triptych_original": model,
        "_triptych_call": staticmethod(call),
        "_triptych_compile": staticmethod(compile_module),
        "aot_compile": staticmethod(aot_compile),
        "forward": _forward(original_class, aot_compile),
        ATTRIBUTE: report,
    }
    cls = types.new_class(
        original_class.__name__, (_Twin, original_class), exec_body=lambda body: body.update(namespace)
    )
    made: nn.Module = object.__new__(cls)
    made.__dict__ = model.__dict__
    _copy_slots(model, made)
    return made


def _forward(original_class: Any, aot_compile: Callable[[Any], Any]) -> Callable[..., Any]:
    """The class's forward, which also has `aot_compile`."""

    @functools.wraps(original_class.forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original_class.forward(self, *args, **kwargs)

    forward.aot_compile = aot_compile  # type: ignore[attr-defined]
    return forward


def _copy_slots(source: object, target: object) -> None:
    """Slots lie outside the shared dictionary; their values are copied once."""
    for cls in type(source).__mro__:
        names = cls.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__") and hasattr(source, name):
                object.__setattr__(target, name, getattr(source, name))
