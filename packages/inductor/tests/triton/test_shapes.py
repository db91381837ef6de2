"""Shapes, strides, layouts and reduced axes by hypothesis: index arithmetic, tiles and masks, against eager."""

import dataclasses
import itertools

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from triptych_inductor.codegen.triton.generate import make_context, plan
from triptych_inductor.codegen.triton.layout import LOOPED, PERSISTENT, SPLIT
from triptych_inductor.loops import ops
from triptych_inductor.loops.kernel import Kernel, LocalArg, Stage, TensorArg
from triton_kernels import CUDA, H200, run

F32 = torch.float32
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=4)
BLOCKS = st.sampled_from([1, 2, 4, 8, 16])


@st.composite
def strided(draw, sizes):
    """Strides of a tensor of `sizes`: permuted, with gaps, some axes expanded; and its storage."""
    order = draw(st.permutations(range(len(sizes))))
    strides, step = [0] * len(sizes), draw(st.sampled_from([1, 1, 2]))
    for axis in reversed(order):
        if draw(st.integers(0, 4)) == 0:
            continue  # expanded
        strides[axis] = step
        step *= sizes[axis] + draw(st.sampled_from([0, 0, 1]))
    offset = draw(st.integers(0, 3))
    top = offset + sum((n - 1) * s for n, s in zip(sizes, strides)) + 1
    storage = torch.randn(top, generator=torch.Generator().manual_seed(draw(st.integers(0, 99))))
    return storage, strides, offset


def address(axes, strides, offset=0):
    return sum((a * s for a, s in zip(axes, strides)), offset)


def contiguous(sizes):
    return list(itertools.accumulate([1, *reversed(sizes)], lambda a, b: a * b))[: len(sizes)][::-1]


def arg(name, storage):
    return TensorArg(name, storage.dtype, storage.numel())


def relaid(draw, kernel):
    """The planned layout with other blocks and another walk."""
    layout = plan(kernel, H200, make_context(kernel).stages)
    blocks = {d.letter: draw(BLOCKS) for d in layout.outer}
    walk, splits = PERSISTENT, 1
    if layout.reduction is not None:
        walk = draw(st.sampled_from([PERSISTENT, LOOPED, SPLIT]))
        whole = 1 << max(layout.reduction.numel - 1, 0).bit_length()
        blocks["r"] = whole if walk == PERSISTENT else draw(BLOCKS)
        splits = draw(st.sampled_from([2, 4])) if walk == SPLIT else 1
    wide = draw(st.booleans())
    return dataclasses.replace(layout, blocks=blocks, walk=walk, splits=splits, wide=wide, mirrored=False)


@given(st.data())
@QUICK
def test_points(data):
    sizes = data.draw(SIZES)
    (x, xs, xo), (y, ys, yo) = data.draw(strided(sizes)), data.draw(strided(sizes))
    out = torch.zeros(torch.Size(sizes).numel())

    def body(i, r):
        value = ops.add(
            ops.load("x", address(i, xs, xo)), ops.mul(ops.load("y", address(i, ys, yo)), ops.load("y", yo))
        )
        ops.store("out", address(i, contiguous(sizes)), value)

    kernel = Kernel(
        "kernel_0", CUDA, tuple(sizes), (), [Stage(body, False)], [arg("x", x), arg("y", y)], [arg("out", out)]
    )
    run(kernel, x, y, out, layout=relaid(data.draw, kernel))
    view = x.as_strided(sizes, xs, xo) + y.as_strided(sizes, ys, yo) * y[yo]
    torch.testing.assert_close(out.view(sizes), view)


@given(st.data())
@QUICK
def test_reductions(data):
    sizes = data.draw(SIZES)
    gone = data.draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1))
    kept = [d for d in range(len(sizes)) if d not in gone]
    (x, xs, xo) = data.draw(strided(sizes))
    outer = tuple(sizes[d] for d in kept)
    inner = tuple(sizes[d] for d in sorted(gone))
    total, top = torch.zeros(max(torch.Size(outer).numel(), 1)), torch.zeros(max(torch.Size(outer).numel(), 1))
    place = torch.zeros(max(torch.Size(outer).numel(), 1), dtype=torch.int64)

    def body(i, r):
        axes = dict(zip(kept, i)) | dict(zip(sorted(gone), r))
        value = ops.load("x", address([axes[d] for d in range(len(sizes))], xs, xo))
        target = address(i, contiguous(outer))
        ops.store_reduction("total", target, ops.reduce("sum", value, F32))
        ops.store_reduction("top", target, ops.reduce("max", value, F32))
        ops.store_reduction("place", target, ops.reduce("argmax", value, F32))

    outputs = [arg("total", total), arg("top", top), arg("place", place)]
    kernel = Kernel("kernel_0", CUDA, outer, inner, [Stage(body, True)], [arg("x", x)], outputs)
    run(kernel, x, total, top, place, layout=relaid(data.draw, kernel))
    rows = x.as_strided(sizes, xs, xo).permute(*kept, *sorted(gone)).reshape(max(torch.Size(outer).numel(), 1), -1)
    torch.testing.assert_close(total, rows.sum(1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(top, rows.amax(1))
    assert torch.equal(place, rows.argmax(1))


@given(st.data())
@QUICK
def test_rows_with_two_results(data):
    """A reduction, what is made of it at each point, and a second reduction of that: x / sum(x), and its squares'
    sum."""
    rows, columns = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 20))
    (x, xs, xo) = data.draw(strided([rows, columns]))
    out, squares = torch.zeros(rows * columns), torch.zeros(rows)

    def first(i, r):
        value = ops.exp(ops.load("x", address([i[0], r[0]], xs, xo)))
        ops.local_set("value", value)
        ops.local_set("total", ops.reduce("sum", value, F32))

    def second(i, r):
        share = ops.truediv(ops.local_get("value"), ops.local_get("total"))
        ops.store("out", i[0] * columns + r[0], share)
        ops.store_reduction("squares", i[0], ops.reduce("sum", ops.mul(share, share), F32))

    local = [LocalArg("value", F32, False), LocalArg("total", F32, True)]
    outputs = [arg("out", out), arg("squares", squares)]
    stages = [Stage(first, True), Stage(second, True)]
    kernel = Kernel("kernel_0", CUDA, (rows,), (columns,), stages, [arg("x", x)], outputs, local)
    run(kernel, x, out, squares, layout=relaid(data.draw, kernel))
    want = torch.softmax(x.as_strided([rows, columns], xs, xo), 1)
    torch.testing.assert_close(out.view(rows, columns), want)
    torch.testing.assert_close(squares, want.square().sum(1))
