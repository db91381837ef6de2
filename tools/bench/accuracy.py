"""Error of a run against the same run in float64, compared with eager's own error.

The question is never "are the numbers equal" but "are they as near to the truth as eager's": a compiled program may
round differently from eager, and either may be the nearer one.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tools.bench import models

Tensors = dict[str, torch.Tensor]

# Error that counts as none, in units of the precision's epsilon. Running means are small differences of large sums.
_FLOOR = {"output": 0.5, "grad": 0.5, "buffer": 16.0}


class _StayInFloat64(TorchFunctionMode):
    """Turns a program's explicit casts to float32 (norms, rotary embeddings, losses) into casts to float64."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.Tensor.float:
            return args[0].double()
        kwargs = {key: torch.float64 if value is torch.float32 else value for key, value in (kwargs or {}).items()}
        args = tuple(torch.float64 if value is torch.float32 else value for value in args)
        return function(*args, **kwargs)


@dataclass(frozen=True)
class Error:
    """The worst tensor of a run: relative errors against float64, and how many times eager's error it has."""

    tensor: str
    compiled: float
    eager: float
    ratio: float


def step_tensors(
    call: Callable[..., Any],
    model: torch.nn.Module,
    workload: models.Workload,
    batch: models.Batch,
    *,
    training: bool,
    autocast: bool = False,
) -> Tensors:
    """One step of `call` (the model or its compiled form):

    outputs, and when training gradients and buffers, by name.
    """
    device = next(model.parameters()).device.type
    model.zero_grad(set_to_none=True)
    precision = torch.autocast(device, dtype=torch.bfloat16) if autocast else contextlib.nullcontext()
    with torch.set_grad_enabled(training), precision:
        output = call(**batch)
        loss = workload.loss(output) if training else None
    found = {f"output.{name}": value.detach().clone() for name, value in models.tensors_of(output).items()}
    if loss is not None:
        loss.backward()
        found |= {f"grad.{name}": p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        found |= {f"buffer.{name}": value.clone() for name, value in model.named_buffers()}
    return found


def float64_tensors(name: str, *, training: bool, batch_size: int | None = None, device: str = "cpu") -> Tensors:
    """The same step as `step_tensors` for a fresh model with all of its arithmetic in float64."""
    model, batch = models.make(name, training=training, batch_size=batch_size)
    model.double().to(device)
    batch = {key: (value.double() if value.is_floating_point() else value).to(device) for key, value in batch.items()}
    with _StayInFloat64():
        return step_tensors(model, model, models.WORKLOADS[name], batch, training=training)


def worst_error(compiled: Tensors, eager: Tensors, truth: Tensors, *, epsilon: float = 1.2e-7) -> Error:
    """The tensor whose error, as a multiple of eager's, is largest.

    Errors are L2 norms of the difference to `truth`, relative to the norm of the true tensor. Eager's error counts as
    at least a part of `epsilon` (see `_FLOOR`), and a thousandth of the kind's largest norm is added to each norm: a
    gradient that is zero but for rounding (the bias of a key projection) has no digits to compare.

    Raises: ValueError when a tensor is missing, or its shape or dtype is not eager's.
    """
    if compiled.keys() != eager.keys():
        raise ValueError(f"different tensors: {sorted(compiled.keys() ^ eager.keys())}")
    norms = {key: value.double().norm().item() for key, value in truth.items()}
    largest = {
        kind: max(n for k, n in norms.items() if k.startswith(kind)) for kind in {k.split(".")[0] for k in norms}
    }
    worst = Error("", 0.0, 0.0, 0.0)
    for key, value in eager.items():
        got = compiled[key]
        if got.shape != value.shape or got.dtype != value.dtype:
            raise ValueError(f"{key}: {got.dtype}{tuple(got.shape)}, eager {value.dtype}{tuple(value.shape)}")
        scale = norms[key] + 1e-3 * largest[key.split(".")[0]]
        if scale == 0.0:
            scale = 1.0
        wrong, plain = ((t.double() - truth[key].double()).norm().item() / scale for t in (got, value))
        ratio = wrong / max(plain, epsilon * _FLOOR[key.split(".")[0]])
        if not ratio <= worst.ratio and not math.isnan(worst.ratio):
            worst = Error(key, wrong, plain, ratio)
    return worst
