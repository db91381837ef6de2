"""Runs generated programs on CPU tensors with Triton's interpreter: the check of generated code where there is no GPU.

The interpreter has no vendor maths library and reduces with custom functions one element at a time, so both are given
here: maths through torch's CPU functions, the library's reductions through whole-array steps.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import types
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from triptych_inductor.codegen.triton.records import MODULE_HEADER, TritonProgram, evaluate, grid_size

LIBRARY = "triptych_device_library"

_SAME_NAME = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "erf erfc erfinv lgamma rsqrt floor ceil trunc pow atan2 hypot fmod copysign"
)
_FUNCTIONS = {name: getattr(torch, name) for name in _SAME_NAME.split()} | {"rint": torch.round}


def require_interpreter() -> None:
    """`RuntimeError` unless Triton was imported as an interpreter: its own functions are made one way or the other."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise RuntimeError("interpreted kernels need TRITON_INTERPRET=1 set before Triton is imported")


def _load(name: str, path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _library() -> types.ModuleType:
    """The device library, interpreted, on top of torch's maths."""
    require_interpreter()
    module = _load(LIBRARY, Path(__file__).with_name("device_library.py"))
    module.libdevice = _maths()  # type: ignore[attr-defined]
    _patch_reductions(module)
    return module


def _patch_reductions(library: types.ModuleType) -> None:
    """Reduce with the library's functions by halves of arrays, where the interpreter would go element by element."""
    from triton.runtime import interpreter  # noqa: PLC0415 - optional

    known = {id(f) for name, f in vars(library).items() if hasattr(f, "rewrite")}
    plain = interpreter.ReduceOps.apply_impl

    def apply_impl(self: Any, given: Any) -> Any:
        if id(self.combine_fn) not in known:
            return plain(self, given)
        parts = list(given)
        while parts[0].shape[self.axis] > 1:
            parts = self_combined(self, parts)
        squeezed = [p.handle.data.squeeze(self.axis) for p in parts]
        return tuple(self.to_tensor(d, p.dtype.scalar) for d, p in zip(squeezed, parts, strict=True))

    def self_combined(self: Any, parts: list[Any]) -> list[Any]:
        half = parts[0].shape[self.axis] // 2
        low = [_taken(self, p, 0, half) for p in parts]
        high = [_taken(self, p, half, 2 * half) for p in parts]
        made = self.combine_fn(*low, *high)
        return list(made) if isinstance(made, (tuple, list)) else [made]

    interpreter.ReduceOps.apply_impl = apply_impl
    plain_scan = interpreter.ScanOps.apply_impl

    def scan_impl(self: Any, given: Any) -> Any:
        """Running results in log2 steps: each joins what lies 1, 2, 4, ... places before."""
        if id(self.combine_fn) not in known or self.reverse:
            return plain_scan(self, given)
        parts, step = list(given), 1
        axis, length = int(self.axis), given[0].handle.data.shape[int(self.axis)]
        while step < length:
            early = [self.to_tensor(np.roll(p.handle.data, step, axis), p.dtype.scalar) for p in parts]
            made = self.combine_fn(*early, *parts)
            made = list(made) if isinstance(made, (tuple, list)) else [made]
            others = [k for k in range(parts[0].handle.data.ndim) if k != axis]
            behind = np.expand_dims(np.arange(length), others) >= step
            parts = [
                self.to_tensor(np.where(behind, m.handle.data, p.handle.data), p.dtype.scalar)
                for m, p in zip(made, parts, strict=True)
            ]
            step *= 2
        return parts

    interpreter.ScanOps.apply_impl = scan_impl


def _taken(ops: Any, part: Any, start: int, stop: int) -> Any:
    """A stretch of an interpreted tensor along the axis of a reduction or scan."""
    return ops.to_tensor(part.handle.data.take(range(start, stop), axis=ops.axis), part.dtype.scalar)


def _scalar(value: Any) -> int:
    """An int of what the interpreter keeps scalars in: arrays of one element."""
    return int(value.reshape(-1)[0]) if hasattr(value, "reshape") else int(value)


def _assert(builder: Any, condition: Any, message: str) -> None:
    """A device assertion of a whole block."""
    if not condition.data.all():
        raise AssertionError(message)


def _cast(builder: Any, source: Any, target: Any) -> Any:
    """Conversions to and from bfloat16, kept as 16-bit integers, by torch; the others by NumPy."""
    import triton.language as tl  # noqa: PLC0415 - optional
    from triton.runtime.interpreter import TensorHandle, _get_np_dtype  # noqa: PLC0415 - optional

    have, want = source.dtype.scalar, target.scalar
    data = source.data
    if have == tl.bfloat16:
        data = torch.from_numpy(data.view("int16").copy()).view(torch.bfloat16).float().numpy()
    if want == tl.bfloat16:
        rounded = torch.from_numpy(data.astype("float32")).to(torch.bfloat16)
        return TensorHandle(rounded.view(torch.int16).numpy().view("uint16"), want)
    return TensorHandle(data.astype(_get_np_dtype(target)), want)


def _maths() -> types.SimpleNamespace:
    """Maths functions of interpreted tensors, by torch."""
    import triton.language as tl  # noqa: PLC0415 - optional
    from triton.runtime import interpreter  # noqa: PLC0415 - optional
    from triton.runtime.interpreter import TensorHandle  # noqa: PLC0415 - optional

    patch = interpreter._patch_lang_tensor

    def patch_tensor(tensor: Any, scope: Any) -> None:
        patch(
            tensor, scope
        )  # its own `__index__` fails from NumPy 2.4 on, which takes no arrays of one element for numbers
        scope.set_attr(tensor, "__index__", lambda self: _scalar(self.handle.data))

    interpreter._patch_lang_tensor = patch_tensor
    interpreter.InterpreterBuilder.cast_impl = _cast
    interpreter.InterpreterBuilder.create_assert = _assert
    interpreter.interpreter_builder.options = interpreter.InterpreterOptions(debug=True, sanitize_overflow=False)

    def wrap(function: Any) -> Any:
        def call(*args: Any) -> Any:
            first = next(a for a in args if isinstance(a, tl.tensor))
            arrays = [
                torch.as_tensor(a.handle.data if isinstance(a, tl.tensor) else a, dtype=_torch(first)) for a in args
            ]
            result = function(*torch.broadcast_tensors(*arrays)).numpy()
            blocks = any(
                isinstance(a, tl.tensor) and a.type.is_block() for a in args
            )  # scalars are arrays of one element
            kind = tl.block_type(first.dtype.scalar, list(result.shape)) if blocks else first.dtype.scalar
            return tl.tensor(TensorHandle(result, first.dtype.scalar), kind)

        return call

    return types.SimpleNamespace(**{name: wrap(f) for name, f in _FUNCTIONS.items()})


def _torch(value: Any) -> torch.dtype:
    return torch.float64 if value.dtype.scalar.name == "fp64" else torch.float32


@cache
def _module(source: str) -> types.ModuleType:
    """The interpreted functions of a module text."""
    library = _library()
    with tempfile.TemporaryDirectory(prefix="triptych-") as folder:
        path = Path(folder) / "kernels.py"
        path.write_text(source)
        before = sys.modules.get(LIBRARY)
        sys.modules[LIBRARY] = library
        try:
            module = _load("triptych_interpreted", path)
            # The interpreter reads the source again at the first call: keep it where `inspect` looks.
            for function in list(vars(module).values()):
                if hasattr(function, "fn") and hasattr(function, "rewrite"):
                    function.rewrite()
        finally:
            if before is None:
                del sys.modules[LIBRARY]
            else:
                sys.modules[LIBRARY] = before
    module.libdevice = library.libdevice  # type: ignore[attr-defined]
    return module


def _workspace_tensor(dtype: str, numel: int) -> torch.Tensor:
    kind = getattr(torch, dtype)
    return torch.full((max(numel, 1),), 77 if kind is not torch.bool else True, dtype=kind)


def run_interpreted(program: TritonProgram, buffers: Sequence[torch.Tensor], sizes: Sequence[int] = ()) -> None:
    """Run a program on contiguous or strided CPU tensors, in the order of `program.buffers`; outputs are written in
    place.

    Raises `AssertionError` where a device assertion fails (an index out of range).
    """
    spaces = [_workspace_tensor(w.dtype, evaluate(w.numel, list(sizes))) for w in program.workspaces]
    arguments: list[Any] = [*buffers, *sizes, *spaces]
    for function in program.functions:
        programs = grid_size(function, list(sizes))
        if programs == 0:
            continue
        compiled = getattr(_module(MODULE_HEADER + "\n\n\n" + function.source), function.name)
        compiled[(programs,)](*(arguments[p.arg] for p in function.params), **dict(function.constants))
