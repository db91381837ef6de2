"""Bodies of `torch.autograd.Function` that launch Triton kernels, for traces that run them as plain Python.

Later stages differentiate such a function by running its bodies on stand-ins for tensors, which no kernel takes. So the
bodies get the kernels that they name in a form that knows: on real tensors a launch is a launch, on others it is the
operator of `launch.py`.
"""

from __future__ import annotations

import functools
from types import CellType, FunctionType
from typing import Any

import torch

from triptych_dynamo._torch_compat import dispatch_mode_count
from triptych_dynamo.triton_kernels.launch import Slot, configurations, constant_parameters, heuristics, launch_operator

_BODIES = ("forward", "setup_context", "backward")
_FOREIGN = ("torch", "triton", "builtins", "numpy")  # packages whose functions are left as they are
_KERNELS = ("JITFunction", "Autotuner", "Heuristics", "InterpretedFunction")


def is_kernel(obj: Any) -> bool:
    """Whether an object is a Triton kernel, without importing Triton."""
    cls = type(obj)
    return cls.__name__ in _KERNELS and cls.__module__.startswith("triton.")


@functools.lru_cache(maxsize=512)
def with_operators(cls: type[torch.autograd.Function]) -> Any:
    """A subclass of a differentiable function in whose bodies launches on stand-ins are operators."""
    bodies = {}
    for name in _BODIES:
        own = getattr(cls, name)
        if isinstance(own, FunctionType) and own is not getattr(torch.autograd.Function, name, None):
            bodies[name] = staticmethod(_rebuilt(own))
    return type(cls.__name__, (cls,), {"__module__": cls.__module__, "__qualname__": cls.__qualname__, **bodies})


class Kernel:
    """A kernel that can be launched on stand-ins for tensors."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def __getitem__(self, grid: Any) -> Any:
        return functools.partial(_launch, self._kernel, grid)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """As `kernel[grid](...)`."""
        return _launch(self._kernel, grid, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


class _Globals(dict):  # type: ignore[type-arg]
    """Global variables of a module, its kernels and functions in the form of this file."""

    def __init__(self, real: dict[str, Any]) -> None:
        super().__init__()
        self.real = real

    def __getitem__(self, name: str) -> Any:
        return _form(self.real[name])


def _form(value: Any) -> Any:
    """What a body sees for a global or closure variable."""
    if is_kernel(value):
        return Kernel(value)
    if type(value) is FunctionType and value.__module__.partition(".")[0] not in _FOREIGN:
        return _rebuilt(value)
    return value


@functools.lru_cache(maxsize=4096)
def _rebuilt(function: FunctionType) -> FunctionType:
    """A function that sees its variables in the form of this file."""
    builtins_ = function.__globals__["__builtins__"]
    names = _Globals(function.__globals__)
    dict.__setitem__(names, "__builtins__", builtins_)
    cells = tuple(_cell(cell) for cell in function.__closure__ or ())
    made = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells or None)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    return made


def _cell(cell: CellType) -> CellType:
    try:
        content = cell.cell_contents
    except ValueError:
        return cell
    form = content if content is None else _form(content) if is_kernel(content) else content
    return cell if form is content else CellType(form)


def _launch(kernel: Any, grid: Any, *args: Any, **kwargs: Any) -> Any:
    tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)]
    plain = all(type(t) in (torch.Tensor, torch.nn.Parameter) for t in tensors)
    if plain and not dispatch_mode_count():
        return kernel[grid](*args, **kwargs)
    constants = constant_parameters(kernel)
    given = [(name, value, False) for name, value in zip(kernel.arg_names, args, strict=False)]
    given += [(name, value, True) for name, value in kwargs.items()]
    slots = [_slot(kernel, name, value, keyword, name in constants) for name, value, keyword in given]
    passed = [value for (_, value, _), slot in zip(given, slots, strict=True) if slot.kind != "constant"]
    launch_operator(kernel, slots)(*passed, _grids(kernel, grid, {name: value for name, value, _ in given}))
    return None


def _slot(kernel: Any, name: str, value: Any, keyword: bool, constant: bool) -> Slot:
    if isinstance(value, torch.Tensor):
        return Slot(name, "tensor", keyword=keyword)
    number = isinstance(value, torch.SymInt) or type(value) is int
    if number and not constant and name in kernel.arg_names:
        return Slot(name, "int", keyword=keyword)
    if isinstance(value, torch.SymFloat):
        return Slot(name, "float", keyword=keyword)
    return Slot(name, "constant", int(value) if isinstance(value, torch.SymInt) else value, keyword)


def _grids(kernel: Any, grid: Any, given: dict[str, Any]) -> list[Any]:
    rows: list[tuple[Any, ...]] = []
    for config in configurations(kernel):
        meta = given | config
        for name, function in heuristics(kernel):
            meta[name] = function(meta)
        sizes = grid(meta) if callable(grid) else grid
        sizes = tuple(sizes) if isinstance(sizes, (tuple, list)) else (sizes,)
        rows.append((*sizes, *(1,) * (3 - len(sizes))))
        if not callable(grid):
            break
    same = all(len(set(map(str, column))) == 1 for column in zip(*rows, strict=True))
    return list(rows[0]) if same else [size for row in rows for size in row]
