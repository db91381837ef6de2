"""Sizes that a precompiled program leaves open: those of dimensions that were marked with `mark_unbacked`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from triptych_aot_autograd import DataDependentError

from triptych.errors import PrecompileError
from triptych.precompile.lifting import Arguments

T = TypeVar("T")
# Where torch's marking functions and ours leave their marks on a tensor.
UNBACKED = ("_triptych_unbacked_dims", "_dynamo_unbacked_indices")
BOUNDS = ("_triptych_unbacked_bounds", "_dynamo_unbacked_bounds")
SHAPE_IDS = ("_triptych_shape_ids", "_dynamo_shape_ids")
BACKED = ("_triptych_dynamic_dims", "_dynamo_dynamic_indices")
SPECIALISED = ("_specialize_on", "_triptych_specialize_on")


def _marks(tensor: torch.Tensor, names: Sequence[str]) -> Any:
    held = getattr(tensor, "__dict__", {})
    return next((held[name] for name in names if held.get(name)), None)


def refuse_other_marks(leaves: Sequence[Any]) -> None:
    """Raises PrecompileError for tensors whose sizes were marked in a way that needs guards and recompilation."""
    for index, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            continue
        if _marks(leaf, BACKED):
            raise PrecompileError(
                f"input {index} was marked with mark_dynamic: sizes are left open by mark_unbacked only"
            )
        special = _marks(leaf, SPECIALISED)
        if special and any(special.values() if isinstance(special, dict) else special):
            raise PrecompileError(f"input {index} was marked with specialize_on, which needs code for each case")


def examples(arguments: Arguments, backend: str) -> tuple[list[Any], list[Any]]:
    """Inputs for the trace, and the bounds of each leaf: {dimension: (least, most)} of open sizes, or None.

    Tensors are the real ones, unless a size is open: then all are fake, of one mode.
    Raises: NotImplementedError for open sizes with backend "eager".
    """
    bounds = [_bounds(leaf) for leaf in arguments.leaves]
    if not any(bounds):
        return arguments.tensors, bounds
    if backend == "eager":
        raise NotImplementedError("sizes left open by mark_unbacked need backend='inductor'")
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    made = [mode.from_tensor(tensor, static_shapes=True) for tensor in arguments.state]
    shared: dict[Any, Any] = {}
    for leaf, limits in zip(arguments.leaves, bounds, strict=True):
        if isinstance(leaf, torch.Tensor):
            made.append(
                _open(leaf, limits, env, mode, shared) if limits else mode.from_tensor(leaf, static_shapes=True)
            )
    return made, bounds


def _bounds(leaf: Any) -> dict[int, tuple[int | None, int | None]] | None:
    dims = _marks(leaf, UNBACKED) if isinstance(leaf, torch.Tensor) else None
    if not dims:
        return None
    declared = _marks(leaf, BOUNDS) or {}
    return {dim: tuple(declared.get(dim, (None, None))) for dim in sorted(dims)}


def _open(
    leaf: torch.Tensor, limits: dict[int, Any], env: ShapeEnv, mode: FakeTensorMode, shared: dict[Any, Any]
) -> torch.Tensor:
    """A fake of `leaf` whose marked sizes are symbols; equal shape ids are one symbol."""
    ids = _marks(leaf, SHAPE_IDS) or {}
    sizes: list[Any] = list(leaf.shape)
    for dim, (least, most) in limits.items():
        key = ids.get(dim, object())
        if key not in shared:
            shared[key] = env.create_unbacked_symint()
            torch._check(shared[key] >= (least or 0))
            if most is not None:
                torch._check(shared[key] <= most)
        sizes[dim] = shared[key]
    if not leaf.is_contiguous():
        raise PrecompileError("an input with open sizes has to be contiguous")
    strides: list[Any] = [1] * leaf.dim()
    for dim in range(leaf.dim() - 2, -1, -1):
        strides[dim] = strides[dim + 1] * sizes[dim + 1]
    with mode:
        fake = torch.empty_strided(sizes, strides, dtype=leaf.dtype, device=leaf.device)
    return fake.requires_grad_(leaf.requires_grad)


def explained(run: Callable[[], T]) -> T:
    """The result of `run`; a question about an open size becomes PrecompileError."""
    try:
        return run()
    except (GuardOnDataDependentSymNode, DataDependentError) as error:
        raise PrecompileError(
            f"fn needs to guard on a dim whose size is open, or on numbers in a tensor: {str(error).splitlines()[0]}"
        ) from error
