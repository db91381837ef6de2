"""Reductions of every kind and dtype under every layout, against eager: inner and outer axis, several axes, ties,
NaN."""

import pytest
import torch
from triptych_inductor.loops import ops
from triptych_inductor.loops.kernel import Kernel, LocalArg, Stage, TensorArg
from triton_kernels import CUDA, LAYOUTS, layer_norm, reduction, relaid, run, softmax

F32 = torch.float32
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTS = [torch.int64, torch.int32, torch.uint8, torch.int8]


def values(rows, columns, dtype, seed=3):
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.rand(rows, columns, generator=generator) > 0.7
    if dtype.is_floating_point:
        return torch.randn(rows, columns, generator=generator).to(dtype)
    low = 0 if dtype is torch.uint8 else -9
    return torch.randint(low, 10, (rows, columns), generator=generator).to(dtype)


EAGER = {
    "sum": lambda a, d: a.double().sum(d) if a.is_floating_point() else a.sum(d),
    "prod": lambda a, d: a.double().prod(d) if a.is_floating_point() else a.prod(d),
    "max": lambda a, d: a.amax(d),
    "min": lambda a, d: a.amin(d),
    "argmax": lambda a, d: a.int().argmax(d) if a.dtype is torch.bool else a.argmax(d),
    "argmin": lambda a, d: a.int().argmin(d) if a.dtype is torch.bool else a.argmin(d),
    "any": lambda a, d: a.any(d),
    "all": lambda a, d: a.all(d),
}


def result_dtype(kind, dtype):
    if kind in ("any", "all"):
        return torch.bool
    return torch.int64 if kind in ("argmax", "argmin") else dtype


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", list(EAGER))
def test_kind(kind, axis, layout):
    dtypes = [torch.float32, torch.int64] if layout != "persistent" else [*FLOATS, *INTS]
    if kind in ("any", "all", "max", "argmin"):
        dtypes = [*dtypes, torch.bool]
    for dtype in dtypes:
        a = values(5, 11, dtype)
        out_dtype = result_dtype(kind, dtype)
        out = torch.empty(a.shape[1 - axis], dtype=out_dtype)
        kernel = reduction(kind, dtype, 5, 11, axis, [out_dtype])
        run(kernel, a, out, layout=relaid(kernel, **LAYOUTS[layout]))
        torch.testing.assert_close(out, EAGER[kind](a, axis).to(out_dtype), msg=lambda m: f"{dtype}: {m}")  # noqa: B023


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["max", "min", "argmax", "argmin"])
def test_nan_and_ties(kind, layout):
    nan = float("nan")
    a = torch.tensor(
        [
            [1.0, nan, 3.0, nan, 9.0, 9.0, 1.0],
            [2.0, 5.0, 5.0, 2.0, 5.0, 2.0, 2.0],
            [float("-inf")] * 7,
            [float("inf")] * 7,
        ]
    )
    kernel = reduction(kind, F32, 4, 7, 1, [result_dtype(kind, F32)])
    out = torch.empty(4, dtype=result_dtype(kind, F32))
    run(kernel, a, out, layout=relaid(kernel, **LAYOUTS[layout]))
    torch.testing.assert_close(out, EAGER[kind](a, 1), equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_welford(layout):
    a = values(3, 21, F32) + 1000
    kernel = reduction("welford", F32, 3, 21, 1, [F32] * 3)
    mean, m2, count = (torch.empty(3) for _ in range(3))
    run(kernel, a, mean, m2, count, layout=relaid(kernel, **LAYOUTS[layout]))
    exact = a.double()
    torch.testing.assert_close(mean, exact.mean(1).float())
    torch.testing.assert_close(m2, (exact.var(1, unbiased=False) * 21).float(), rtol=1e-4, atol=1e-4)
    assert count.tolist() == [21.0] * 3


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_softmax(layout, dtype):
    a = values(4, 13, dtype)
    out = torch.empty_like(a)
    kernel = softmax(4, 13, dtype)
    run(kernel, a, out, layout=relaid(kernel, **LAYOUTS[layout]))
    torch.testing.assert_close(out, torch.softmax(a, 1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layer_norm(layout):
    a, w, b = values(5, 19, F32), torch.randn(19), torch.randn(19)
    out, mean, rstd = torch.empty_like(a), torch.empty(5), torch.empty(5)
    kernel = layer_norm(5, 19)
    run(kernel, a, w, b, out, mean, rstd, layout=relaid(kernel, **LAYOUTS[layout]))
    expected = torch.native_layer_norm(a, (19,), w, b, 1e-5)
    for got, want in zip((out, mean, rstd), expected):
        torch.testing.assert_close(got, want.reshape(got.shape))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["sum", "argmax", "argmin"])
def test_two_reduction_axes(kind, layout):
    """Reduce axes 0 and 2 of a contiguous (3, 4, 5) tensor: positions count in row-major order of (3, 5)."""
    a = torch.randint(0, 4, (3, 4, 5), generator=torch.Generator().manual_seed(1)).float()

    def body(i, r):
        ops.store_reduction("out", i[0], ops.reduce(kind, ops.load("a", r[0] * 20 + i[0] * 5 + r[1]), F32))

    out_dtype = result_dtype(kind, F32)
    kernel = Kernel(
        "kernel_0", CUDA, (4,), (3, 5), [Stage(body, True)], [TensorArg("a", F32, 60)], [TensorArg("out", out_dtype, 4)]
    )
    out = torch.empty(4, dtype=out_dtype)
    run(kernel, a, out, layout=relaid(kernel, **LAYOUTS[layout]))
    rows = a.permute(1, 0, 2).reshape(4, 15)
    torch.testing.assert_close(out, EAGER[kind](rows, 1).to(out_dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_whole_tensor(layout):
    a = values(1, 57, F32)
    kernel = reduction("sum", F32, 1, 57, 1, [F32])
    out = torch.empty(1)
    run(kernel, a, out, layout=relaid(kernel, **(LAYOUTS[layout] | {"x": 1})))
    torch.testing.assert_close(out, a.sum(1))


@pytest.mark.parametrize("layout", ["looped", "split"])
def test_local_of_a_row_is_recomputed_after_a_loop(layout):
    """A local of every point passes from one loop to a later one; two loops share nothing but its definition."""

    def first(i, r):
        value = ops.mul(ops.load("a", i[0] * 13 + r[0]), ops.load("s", i[0]))
        ops.local_set("scaled", value)
        ops.local_set("total", ops.reduce("sum", value, F32))

    def second(i, r):
        ops.store("out", i[0] * 13 + r[0], ops.sub(ops.local_get("scaled"), ops.local_get("total")))

    local = [LocalArg("scaled", F32, False), LocalArg("total", F32, True)]
    inputs = [TensorArg("a", F32, 52), TensorArg("s", F32, 4)]
    kernel = Kernel(
        "kernel_0",
        CUDA,
        (4,),
        (13,),
        [Stage(first, True), Stage(second, True)],
        inputs,
        [TensorArg("out", F32, 52)],
        local,
    )
    a, s, out = values(4, 13, F32), torch.randn(4), torch.empty(4, 13)
    run(kernel, a, s, out, layout=relaid(kernel, **LAYOUTS[layout]))
    scaled = a * s[:, None]
    torch.testing.assert_close(out, scaled - scaled.sum(1, keepdim=True))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_place_row(layout):
    """x -= x.mean(row), written into x itself."""

    def total(i, r):
        ops.local_set("total", ops.reduce("sum", ops.load("x", i[0] * 9 + r[0]), F32))

    def update(i, r):
        index = i[0] * 9 + r[0]
        mean = ops.truediv(ops.local_get("total"), ops.constant(9, F32))
        ops.store("x", index, ops.sub(ops.load("x", index), mean))

    arg = TensorArg("x", F32, 45)
    kernel = Kernel(
        "kernel_0",
        CUDA,
        (5,),
        (9,),
        [Stage(total, True), Stage(update, True)],
        [arg],
        [arg],
        [LocalArg("total", F32, True)],
    )
    x = values(5, 9, F32)
    expected = x - x.mean(1, keepdim=True)
    run(kernel, x, layout=relaid(kernel, **LAYOUTS[layout]))
    torch.testing.assert_close(x, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_local_survives_an_overwritten_input(layout):
    """A local of every point is made of `x`, which a stage overwrites before a later loop reads the local."""

    def first(i, r):
        value = ops.load("x", i[0] * 9 + r[0])
        ops.local_set("old", ops.mul(value, ops.constant(3.0, F32)))
        ops.local_set("top", ops.reduce("max", value, F32))

    def second(i, r):
        value = ops.sub(ops.local_get("old"), ops.local_get("top"))
        ops.store("x", i[0] * 9 + r[0], value)
        ops.local_set("total", ops.reduce("sum", value, F32))

    def third(i, r):
        ops.store("out", i[0] * 9 + r[0], ops.add(ops.local_get("old"), ops.local_get("total")))

    local = [LocalArg("old", F32, False), LocalArg("top", F32, True), LocalArg("total", F32, True)]
    arg, out_arg = TensorArg("x", F32, 45), TensorArg("out", F32, 45)
    stages = [Stage(first, True), Stage(second, True), Stage(third, True)]
    kernel = Kernel("kernel_0", CUDA, (5,), (9,), stages, [arg], [arg, out_arg], local)
    x = values(5, 9, F32)
    shifted = 3 * x - x.amax(1, keepdim=True)
    expected = 3 * x + shifted.sum(1, keepdim=True)
    out = torch.empty_like(x)
    run(kernel, x, out, layout=relaid(kernel, **LAYOUTS[layout]))
    torch.testing.assert_close(x, shifted)
    torch.testing.assert_close(out, expected)
