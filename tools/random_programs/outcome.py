"""Running a program and turning all that can be observed into plain data, so that two runs can be compared."""

from __future__ import annotations

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
        if isinstance(obj, (list, tuple)):
            return [self.encode(item) for item in obj]
        if isinstance(obj, dict):
            return [(self.encode(key), self.encode(value)) for key, value in obj.items()]
        if isinstance(obj, (set, frozenset)):
            return sorted(repr(item) for item in obj)
        if isinstance(obj, BaseException):
            return [self.encode(obj.args), self.encode(vars(obj))]
        if isinstance(obj, _BY_NAME):
            return getattr(obj, "__qualname__", getattr(obj, "__name__", ""))
        return self.encode(vars(obj)) if hasattr(obj, "__dict__") else repr(type(obj))

    def _tensor(self, tensor: torch.Tensor) -> Any:
        storage = tensor.untyped_storage().data_ptr()
        place = self.storages.setdefault(storage, len(self.storages)) if tensor.numel() else -1
        facts = (str(tensor.dtype), tuple(tensor.shape), tensor.stride(), tensor.requires_grad, tensor.is_leaf)
        values = tensor.detach().tolist()
        return (*facts, place, tensor.storage_offset(), repr(values))


def run(text: str, transform: Callable[[Any], Any], requires_grad: bool, calls: int = 3) -> list[Any]:
    """The outcomes of some calls of the program's `main`, in one process state of its own.

    Args:
        text: the program.
        transform: gives the callable that runs in place of `main`.
        requires_grad: of the inputs.
    """
    namespace: dict[str, Any] = {"__name__": "random_program"}
    exec(compile(text, "<random program>", "exec", dont_inherit=True), namespace)
    main = transform(namespace["main"])
    outcomes = []
    for call in range(calls):
        shift = -1.5 if call == calls - 1 else 0.0
        x = (torch.tensor([0.5, 1.0, -2.0], dtype=torch.float64) + shift).requires_grad_(requires_grad)
        y = torch.tensor([3.0, -1.0, 0.25], dtype=torch.float64)
        outcomes.append(_call(main, x, y, namespace))
    return outcomes


def _call(main: Any, x: torch.Tensor, y: torch.Tensor, namespace: dict[str, Any]) -> Any:
    log: list[Any] = []
    printed = io.StringIO()
    error = None
    with contextlib.redirect_stdout(printed):
        try:
            result = main(x, y, log)
        except Exception as raised:
            result, error = None, raised
    encoder = Encoder()
    state = [result, log, x, y, namespace["STATE"], namespace["Box"].made]
    ending = (type(error).__name__, str(error), _chain(error)) if error is not None else None
    modes = (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
    return {"state": encoder.encode(state), "error": ending, "printed": printed.getvalue(), "modes": modes}


def _chain(error: BaseException | None) -> list[str]:
    """The contexts and causes behind an exception."""
    links = []
    while error is not None and len(links) < 8:
        links.append(f"{type(error).__name__} cause {type(error.__cause__).__name__} {error.__suppress_context__}")
        error = error.__context__
    return links
