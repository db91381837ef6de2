"""Numbers and sizes that come out of tensors: one graph, values of eager, checks at run time."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest
import torch
import triptych
import triptych_dynamo

from tests.dynamic.programs import asserted, tensor_asserted
from tests.dynamic.rows import Row, over_backends, rows, run

T = torch.tensor
X = torch.arange(1.0, 11.0)
NUMBERS = [(T(n), X) for n in (3, 5, 0, 10, 1)]
GRADIENTS = [(n, x.clone().requires_grad_()) for n, x in NUMBERS]
MASKS = [
    (T(bits) > 0, torch.arange(8.0).reshape(4, 2) / 3)
    for bits in ([0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0])
]


def fixed(fn: Any) -> Any:
    return lambda: fn


def arithmetic(n: torch.Tensor, x: torch.Tensor) -> Any:
    u = n.item()
    return x * u + (u // 2) - u % 3, u * 2 + 1, u**2, -u, abs(u - 4), max(u, 3), min(u, 3), u / 4


def floats(n: torch.Tensor, x: torch.Tensor) -> Any:
    u = (n / 2).item()
    whole = int(u), math.floor(u), math.ceil(u * 1.5)
    return (
        x * u - math.sqrt(u + 1),
        u * 0.1 * 0.2 + 0.3,
        float(n),
        torch.zeros(int(n / 3)) + 1,
        x + float(n > 2),
        int(n > 2),
        whole,
    )


def truth(n: torch.Tensor, x: torch.Tensor) -> Any:
    flag = bool(n > 2)
    return x * flag, flag, x + bool(n)


def sizes(n: torch.Tensor, x: torch.Tensor) -> Any:
    u = int(n)
    return torch.zeros(u, 2) + 1, torch.arange(u) * 2, torch.full((u,), 3.0), x.new_ones(u + 1).cumsum(0)


def slices(n: torch.Tensor, x: torch.Tensor) -> Any:
    u = n.item()
    return x[:u] * 2, x[u:] + 1, x[1:u].sum(), x.narrow(0, 0, u), x[: u // 2]


def tensor_bounds(n: torch.Tensor, x: torch.Tensor) -> Any:
    return x[:n] * 2, x[n:], x.reshape(2, 5)[:, :n]


def single(n: torch.Tensor, x: torch.Tensor) -> Any:
    u = n.item()
    return x[u - 1] * 2, x.reshape(2, 5)[:, u % 5], x.reshape(2, 5)[u % 2, u % 5], x.select(0, u - 1)


def checked(n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    u = n.item()
    torch._check(u >= 0)
    torch._check(u <= x.shape[0], lambda: "too long")
    torch._check_is_size(u)
    return x[:u].cos()


def functions(n: torch.Tensor, x: torch.Tensor) -> Any:
    u = n.item()
    bits = u & 3
    return (
        (torch.zeros(abs(u - 4)) + 1, torch.arange(bits) * 2, torch.ones(math.floor(u / 2.5), 3).sum(1)),
        (torch.full((max(u - 3, 0) ** 2,), 2.0) + u, x.new_ones(math.ceil(u * 0.3) + 1).cumsum(0), x + abs(u - 4) * 2),
        (torch.ones(bits * 2 + 1, bits + 1).t().contiguous() * 2, x * round(u / 2), round(u / 4), u << 2, x + (u | 5)),
    )


def split(n: torch.Tensor, x: torch.Tensor) -> Any:
    return torch.split(x, n.tolist())


def from_list(n: torch.Tensor, x: torch.Tensor) -> Any:
    first, (second, third) = n[0].item(), n[1:].tolist()
    return x * first + second, third, sum(n.tolist()), [n.tolist(), n.reshape(3, 1).tolist()]


def branch(n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    u = n.item()
    y = x + u
    if u > 3:
        return y * 2
    return y - 1


def loop(n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    for step in range(n.item()):
        x = x + step
    return x * 2


def scalar_argument(n: torch.Tensor, x: torch.Tensor) -> Any:
    u = n.item()
    return torch.clamp(x, max=u), x.masked_fill(x > 4, u), torch.where(x > 4, u, x), torch.add(x, x, alpha=u)


SCALARS = [
    Row("arithmetic", fixed(arithmetic), NUMBERS),
    Row("floats", fixed(floats), NUMBERS),
    Row("truth", fixed(truth), NUMBERS),
    Row("functions", fixed(functions), NUMBERS),
    Row("sizes", fixed(sizes), NUMBERS),
    Row("slices", fixed(slices), NUMBERS),
    Row("tensor-bounds", fixed(tensor_bounds), NUMBERS),
    Row("single", fixed(single), NUMBERS),
    Row("scalar-argument", fixed(scalar_argument), NUMBERS),
    Row("checked", fixed(checked), NUMBERS),
    Row("checked-out-of-bounds", fixed(checked), [(T(3), X), (T(11), X), (T(5), X)]),
    Row("asserted", fixed(asserted), [(T(n), X) for n in (3, 2, 4, 0)]),
    Row("tensor-asserted", fixed(tensor_asserted), [(T(3), X), (T(5), X), (T(1), -X)]),
    Row("branch", fixed(branch), NUMBERS, 3, 1),
    Row("loop", fixed(loop), NUMBERS[:3], 4, 1),
    Row("split", fixed(split), [(T([3, 2, 5]), X), (T([1, 0, 9]), X), (T([3, 3, 3]), X)], texts=False),
    Row("tolist", fixed(from_list), [(T([3, 2, 5]), X), (T([1, 0, 9]), X)]),
    Row(
        "train",
        fixed(lambda n, x: (x[: n.item()] * n.item()).sin()),
        [(n, x.clone().requires_grad_()) for n, x in NUMBERS],
        train=True,
    ),
]


@over_backends
@rows(SCALARS)
def test_scalars(row: Row, backend: str) -> None:
    run(row, backend)


def masked(m: torch.Tensor, x: torch.Tensor) -> Any:
    y = x[m]
    return y * 2, y.sum(0), y.shape[0], y.reshape(-1), y.t().contiguous(), torch.cat([y, x])


def attention(m: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    y = x[m]
    return torch.softmax(y @ y.t(), -1) @ y


def written(m: torch.Tensor, x: torch.Tensor) -> Any:
    y = x.clone()
    y[m] = 5.0
    z = y.clone()
    z[m] = z[m] * 2 + 1
    return y, z, y.masked_fill(m[:, None], 0.0)


def lengths(m: torch.Tensor, x: torch.Tensor) -> Any:
    y = m.nonzero()
    return y * 2, y.squeeze(1), len(y), y.numel(), x[y[:, 0]] + 1, torch.where(m)[0], m.sum().item() == y.shape[0]


def repeated(m: torch.Tensor, x: torch.Tensor) -> Any:
    counts = m.long() * 2 + 1
    return torch.repeat_interleave(x, counts, dim=0) * 2, torch.unique(counts), torch.bincount(counts, minlength=4)


def unique(m: torch.Tensor, x: torch.Tensor) -> Any:
    values, inverse, counts = torch.unique(m.long(), return_inverse=True, return_counts=True)
    return values + 1, inverse, counts.float() / counts.sum(), torch.masked_select(x, m[:, None]) * 2


def layers(m: torch.Tensor, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
    y = torch.nn.functional.linear(x[m], w, b).relu()
    out = x.new_zeros(x.shape[0], w.shape[0])
    out[m] = torch.nn.functional.layer_norm(y, (w.shape[0],))
    return out, y.mean()


def experts(m: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for number, chosen in enumerate((m, ~m)):
        rows_ = chosen.nonzero().squeeze(-1)
        out.index_add_(0, rows_, x[rows_] @ w[number])
    return out


def leaves_behind_masks(*shapes: tuple[int, ...], empty: bool = True) -> list[tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    masks = [m for m, _ in MASKS if empty or m.any()]
    return [(m, *[torch.randn(shape, requires_grad=True) for shape in shapes]) for m in masks]


SELECTIONS = [
    Row("mask", fixed(masked), MASKS),
    Row("attention", fixed(attention), MASKS),
    Row("mask-assign", fixed(written), MASKS),
    Row("nonzero", fixed(lengths), MASKS),
    Row("repeat", fixed(repeated), MASKS),
    Row("unique", fixed(unique), MASKS),
    Row("layers-train", fixed(layers), leaves_behind_masks((4, 2), (3, 2), (3,), empty=False), train=True),
    Row("experts-train", fixed(experts), leaves_behind_masks((4, 2), (2, 2, 2)), train=True),
    Row("mask-train", fixed(lambda m, x: (x[m].exp(), x[m].sum())), leaves_behind_masks((4, 2)), train=True),
]


@over_backends
@rows(SELECTIONS)
def test_selections(row: Row, backend: str) -> None:
    run(row, backend)


def test_error_names_the_number_its_line_and_the_remedy() -> None:
    def fn(n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        u = n.item()
        return x + 1 if u > 3 else x

    with pytest.raises(triptych_dynamo.GraphBreakError) as caught:
        triptych.compile(fn, fullgraph=True, backend="eager")(T(3), X)
    text = str(caught.value)
    assert "u0 > 3" in text and "torch._check" in text and "u = n.item()" in text
    first = fn.__code__.co_firstlineno
    assert f"{__file__}:{first + 1}" in text and f"{__file__}:{first + 2}" in text


CHECKS = [
    (torch._check, RuntimeError),
    (torch._check_value, ValueError),
    (torch._check_index, IndexError),
    (torch._check_type, TypeError),
]


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize(("check", "error"), CHECKS, ids=operator.attrgetter("__name__"))
def test_checks_raise_at_run_time(check: Any, error: type[Exception], backend: str) -> None:
    def fn(n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        u = n.item()
        check(u < 4, lambda: "at most three")
        return x[:u] * 2

    compiled = triptych.compile(fn, fullgraph=True, backend=backend)
    assert compiled(T(2), X).tolist() == [2.0, 4.0]
    with pytest.raises(error, match="^at most three$"):
        compiled(T(4), X)
    assert compiled(T(3), X).tolist() == [2.0, 4.0, 6.0]
    assert len(triptych.report(compiled).graphs) == 1
