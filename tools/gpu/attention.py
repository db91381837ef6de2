"""Attention on the device: compiled against float64, beside eager; rows that are hidden altogether; written out.

    python -m tools.gpu.attention

A line a case: the largest error of outputs and gradients over the largest magnitude, ours and eager's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import triptych
from torch.nn.attention import SDPBackend, sdpa_kernel

BATCH, HEADS, LENGTH, WIDTH = 4, 8, 512, 64
Tensors = list[torch.Tensor]


def _random(*size: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(size, device="cuda", dtype=dtype).requires_grad_()


def _operands(length: int = LENGTH, heads: int = HEADS) -> Tensors:
    make = lambda h: _random(BATCH, h, length, WIDTH)  # noqa: E731
    return [make(HEADS), make(heads), make(heads)]


def _padding(length: int = LENGTH) -> torch.Tensor:
    ends = torch.randint(length // 2, length, (BATCH, 1, 1, 1), device="cuda")
    return torch.arange(length, device="cuda") < ends


def _masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _hides_nothing(q: Any, k: Any, v: Any) -> Any:
    rows = torch.arange(q.shape[-2], device=q.device)[None, None, :, None]
    return _masked(q, k, v, (rows >= 0).expand(q.shape[0], 1, q.shape[-2], k.shape[-2]))


def _biased(q: Any, k: Any, v: Any, bias: Any) -> Any:
    return _masked(q, k, v, bias.permute(2, 0, 1)[None].to(q.dtype))


def _written_out(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = torch.matmul(q, k.transpose(-1, -2)) * WIDTH**-0.5 + mask
    return torch.matmul(torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype), v)


def _least(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(mask.shape, device="cuda", dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)


CASES: dict[str, tuple[Callable[..., Any], Callable[[], Tensors]]] = {
    "plain": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), _operands),
    "causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), _operands),
    "hides nothing": (_hides_nothing, _operands),
    "padding": (_masked, lambda: [*_operands(), _padding()]),
    "padding, odd length": (_masked, lambda: [*_operands(511), _padding(511)]),
    "learned bias, permuted": (_biased, lambda: [*_operands(), _random(LENGTH, LENGTH, HEADS, dtype=torch.float32)]),
    "few heads of keys": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        lambda: _operands(heads=2),
    ),
    "written out": (_written_out, lambda: [*_operands(), _least(_padding(), torch.bfloat16)]),
}


def _step(function: Callable[..., Any], inputs: Tensors) -> Tensors:
    """Output and gradients."""
    out = function(*inputs)
    wanted = [t for t in inputs if t.requires_grad]
    weight = torch.linspace(-1, 1, out.numel(), device="cuda", dtype=torch.float64).view(out.shape)
    return [out.detach(), *torch.autograd.grad((out * weight.to(out.dtype)).sum(), wanted)]


def _error(mine: Tensors, truth: Tensors) -> float:
    return max(float((a.double() - b).abs().max() / b.abs().max()) for a, b in zip(mine, truth, strict=True))


def check(name: str) -> str:
    """One case as a line."""
    function, make = CASES[name]
    torch.manual_seed(0)
    inputs = make()
    exact = [t.detach().double().requires_grad_(t.requires_grad) if t.is_floating_point() else t for t in inputs]
    truth = _step(function, exact)
    compiled = triptych.compile(function)
    ours, eager = _error(_step(compiled, inputs), truth), _error(_step(function, inputs), truth)
    return f"{name:24s} ours {ours:.2e} eager {eager:.2e} {dict(triptych.report(compiled).patterns) or ''}"


def hidden_rows() -> list[str]:
    """What each kernel gives for a query that may see no key."""
    q, k, v = (t.detach() for t in _operands())
    mask = torch.ones(BATCH, 1, LENGTH, LENGTH, dtype=torch.bool, device="cuda")
    mask[:, :, 3] = False
    added = torch.zeros(mask.shape, device="cuda", dtype=q.dtype).masked_fill(~mask, float("-inf"))
    lines = []
    for backend in (SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        for kind, given in (("bool", mask), ("infinities", added)):
            try:
                with sdpa_kernel(backend):
                    row = _masked(q, k, v, given)[:, :, 3]
                found = f"nan {bool(row.isnan().any())}, largest {float(row.nan_to_num().abs().max()):.3g}"
            except RuntimeError as error:
                found = str(error).splitlines()[0]
            lines.append(f"hidden rows, {backend.name}, {kind}: {found}")
    return lines


def main() -> None:
    """Print a line a case."""
    for line in hidden_rows():
        print(line, flush=True)
    for name in CASES:
        try:
            print(check(name), flush=True)
        except Exception as error:
            print(f"{name:24s} FAILED {type(error).__name__}: {str(error)[:300]}", flush=True)


if __name__ == "__main__":
    main()
