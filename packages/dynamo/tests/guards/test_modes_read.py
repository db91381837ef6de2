"""A mode that changes between calls compiles again only where the program depends on it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import triptych_dynamo as td
from torch.nn import functional as F

X, N = torch.arange(6.0).reshape(2, 3) / 3, torch.arange(4)
WEIGHT = torch.ones(3, requires_grad=True)


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def bfloat16() -> Any:
    return torch.autocast("cpu", dtype=torch.bfloat16)


def double() -> Any:
    return default_dtype(torch.float64)


def gradients(x: torch.Tensor) -> Any:
    return x * WEIGHT


def many(x: torch.Tensor) -> Any:
    y = x.reshape(-1).clone()
    y[0] = 2.0
    return torch.where(y > 1, y, 0.5) + y.float().relu_()[None].abs()


INDEPENDENT: list[tuple[str, Callable[[], Any], Callable[..., Any], torch.Tensor]] = [
    ("autocast-arithmetic", bfloat16, lambda x: (x + 1) * x.sin() - x.relu(), X),
    ("autocast-many", bfloat16, many, X),
    ("autocast-of-a-device-without-tensors", lambda: torch.autocast("cuda", torch.float16), lambda x: x @ x.T, X),
    ("autocast-integers", bfloat16, lambda n: n * 2 + n.sum(), N),
    ("default-dtype-arithmetic", double, lambda x: (x * 2.5 + 1) / 3, X),
    ("default-dtype-layers", double, lambda x: F.layer_norm(x @ x.T, (2,)).softmax(-1), X),
    ("default-dtype-integers", double, lambda n: n * 2 + torch.arange(4), N),
    ("default-dtype-given", double, lambda x: x + torch.zeros(3, dtype=torch.float32, device="cpu").sum(), X.double()),
    ("inference-mode", torch.inference_mode, lambda x: x @ x.T + 1, X),
    ("no-grad", torch.no_grad, lambda x: x @ x.T + 1, X),
]
DEPENDENT: list[tuple[str, Callable[[], Any], Callable[..., Any], torch.Tensor]] = [
    ("autocast-product", bfloat16, lambda x: x @ x.T, X),
    ("autocast-linear", bfloat16, lambda x: F.linear(x, x), X),
    ("autocast-composite", bfloat16, lambda x: torch.einsum("ij,kj->ik", x, x), X),
    ("autocast-promoting", bfloat16, lambda x: torch.cat([x, x.bfloat16()]), X),
    ("autocast-asked", bfloat16, lambda x: x + 1 if torch.is_autocast_enabled("cpu") else x - 1, X),
    (
        "autocast-dtype-asked",
        bfloat16,
        lambda x: x.to(torch.get_autocast_dtype("cpu")) * torch.is_autocast_enabled(),
        X,
    ),
    ("default-dtype-factory", double, lambda x: torch.zeros(3) + x.sum().double(), X),
    ("default-dtype-of-integers", double, lambda n: n / 2, N),
    ("default-dtype-of-a-scalar", double, lambda n: n * 0.5, N),
    ("default-dtype-constant", double, lambda x: x.double() + torch.tensor([0.1, 0.2, 0.3]), X),
    ("default-dtype-asked", double, lambda x: (x + 1).to(torch.get_default_dtype()), X),
    ("default-dtype-limits", double, lambda x: x.double() + torch.finfo().eps, X),
    ("inference-mode-gradients", torch.inference_mode, gradients, X),
    ("inference-mode-asked", torch.inference_mode, lambda x: x + torch.is_inference_mode_enabled(), X),
    ("inference-mode-written", torch.inference_mode, lambda x: x.add_(1), X),
    ("no-grad-gradients", torch.no_grad, gradients, X),
]


def graphs(mode: Callable[[], Any], program: Callable[..., Any], x: torch.Tensor) -> int:
    """How many graphs calls outside, inside and outside of the mode need; each gives what eager gives."""
    seen: list[Any] = []
    compiled = td.optimize(lambda gm, inputs: (seen.append(gm), gm.forward)[1])(program)
    for manager in (contextlib.nullcontext, mode, contextlib.nullcontext, mode):
        with manager():
            got, expected = compiled(x.clone()), program(x.clone())
        assert (got.dtype, got.requires_grad) == (expected.dtype, expected.requires_grad)
        assert got.is_inference() == expected.is_inference()
        torch.testing.assert_close(got, expected)
    return len(seen)


@pytest.mark.parametrize(("name", "mode", "program", "x"), INDEPENDENT, ids=[row[0] for row in INDEPENDENT])
def test_a_mode_that_has_no_effect_compiles_once(name: str, mode: Any, program: Any, x: torch.Tensor) -> None:
    assert graphs(mode, program, x) == 1


@pytest.mark.parametrize(("name", "mode", "program", "x"), DEPENDENT, ids=[row[0] for row in DEPENDENT])
def test_a_mode_that_has_an_effect_compiles_for_each(name: str, mode: Any, program: Any, x: torch.Tensor) -> None:
    assert graphs(mode, program, x) == 2
