"""Running a program and turning all that can be observed into plain data, so that two runs can be compared."""

from __future__ import annotations

import collections
import contextlib
import io
import types
from collections.abc import Callable
from typing import Any

import torch

_ATOMS = (int, float, str, bool, bytes, complex, type(None))
_BY_NAME = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type, types.ModuleType)


class Encoder:
    """Objects as plain data. Each object gets a number when it is first met, so the data tells what is identical."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.kept: list[Any] = []
        self.storages: dict[int, int] = {}

    def encode(self, obj: Any) -> Any:
        """The data of an object and of all that it leads to."""
        if isinstance(obj, _ATOMS):
            return (type(obj).__name__, repr(obj))
        known = self.numbers.get(id(obj))
        if known is not None:
            return ("same", known)
        number = self.numbers[id(obj)] = len(self.numbers)
        self.kept.append(obj)
        return (number, type(obj).__name__, self._content(obj))

    def _content(self, obj: Any) -> Any:
        if isinstance(obj, torch.Tensor):
            return self._tensor(obj)
        if isinstance(obj, (list, tuple, collections.deque)):
            return [self.encode(item) for item in obj]
        if isinstance(obj, dict):
            return [(self.encode(key), self.encode(value)) for key, value in obj.items()]
        if isinstance(obj, (set, frozenset)):
            return sorted(repr(item) for item in obj)
        if isinstance(obj, BaseException):
            return [self.encode(obj.args), self.encode(vars(obj))]
        if isinstance(obj, _BY_NAME):
            return getattr(obj, "__qualname__", getattr(obj, "__name__", ""))
        slots = [name for kind in type(obj).__mro__ for name in getattr(kind, "__slots__", ())]
        held = [(name, self.encode(getattr(obj, name, None))) for name in slots]
        return [*held, self.encode(vars(obj)) if hasattr(obj, "__dict__") else repr(type(obj))]

    def _tensor(self, tensor: torch.Tensor) -> Any:
        storage = tensor.untyped_storage().data_ptr()
        place = self.storages.setdefault(storage, len(self.storages)) if tensor.numel() else -1
        try:
            leaf: Any = tensor.is_leaf
        except RuntimeError as error:  # a view whose base was written to where autograd forbids it
            leaf = str(error)
        facts = (str(tensor.dtype), tuple(tensor.shape), tensor.stride(), tensor.requires_grad, leaf)
        values = tensor.detach().tolist()
        return (*facts, place, tensor.storage_offset(), repr(values))


def run(
    text: str, transform: Callable[[Any], Any], arguments: Callable[[int, dict[str, Any]], dict[str, Any]], calls: int
) -> list[Any]:
    """The outcomes of some calls of the program's `main`, in one process state of its own.

    Args:
        text: the program.
        transform: gives the callable that runs in place of `main`.
        arguments: of a call, given its index and the program's global names.
        calls: how many.
    """
    namespace: dict[str, Any] = {"__name__": "random_program"}
    exec(compile(text, "<random program>", "exec", dont_inherit=True), namespace)
    main = transform(namespace["main"])
    return [_call(main, arguments(call, namespace), namespace) for call in range(calls)]


def _call(main: Any, given: dict[str, Any], namespace: dict[str, Any]) -> Any:
    log: list[Any] = []
    printed = io.StringIO()
    error: BaseException | None = None
    with contextlib.redirect_stdout(printed):
        try:
            result = main(log=log, **given)
        except (Exception, BaseExceptionGroup) as raised:  # a group of a GeneratorExit is no Exception
            result, error = None, raised
    encoder = Encoder()
    state = [result, log, list(given.values()), _world(namespace)]
    ending = (type(error).__name__, str(error), _chain(error)) if error is not None else None
    modes = (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
    seen = {"state": encoder.encode(state), "error": ending, "printed": printed.getvalue(), "modes": modes}
    return {**seen, "gradients": _gradients([result, log], given["x"])}


def _world(namespace: dict[str, Any]) -> list[Any]:
    """What a program may have changed besides its arguments."""
    names = ("STATE", "TOTAL", "NET", "LOG_OF_NET")
    attributes = (("Box", "made"), ("Slot", "limit"), ("Counted", "depth"), ("Trouble", "seen"), ("Root", "tally"))
    there = [namespace.get(name) for name in names]
    return [*there, *(getattr(namespace.get(owner), name, None) for owner, name in attributes)]


def _gradients(results: list[Any], x: torch.Tensor) -> Any:
    """The gradient of everything a call gave, as data."""
    found: list[torch.Tensor] = []
    waiting = list(results)
    while waiting:
        item = waiting.pop()
        if isinstance(item, (list, tuple)):
            waiting.extend(item)
        elif isinstance(item, torch.Tensor) and item.requires_grad and item.is_floating_point():
            found.append(item)
    if not found or not x.requires_grad:
        return None
    try:
        total = sum((item.sum() for item in found), torch.zeros((), dtype=torch.float64))
        (gradient,) = torch.autograd.grad(total, [x], allow_unused=True, retain_graph=True)
    except RuntimeError as error:
        return str(error)
    return repr(gradient)


def _chain(error: BaseException | None) -> list[str]:
    """The contexts and causes behind an exception."""
    links = []
    while error is not None and len(links) < 8:
        links.append(f"{type(error).__name__} cause {type(error.__cause__).__name__} {error.__suppress_context__}")
        error = error.__context__
    return links
