"""Hand-built kernels for the tests, and how to run one in the interpreter under a chosen layout."""

import dataclasses
import math

import torch
from triptych_inductor.codegen.triton.devices import EXAMPLES
from triptych_inductor.codegen.triton.generate import generate, make_context, plan
from triptych_inductor.codegen.triton.interpret import run_interpreted
from triptych_inductor.codegen.triton.layout import LOOPED, PERSISTENT, SPLIT
from triptych_inductor.loops import ops
from triptych_inductor.loops.kernel import Kernel, LocalArg, Stage, TensorArg

CUDA = torch.device("cuda", 0)
H200 = EXAMPLES["h200"]


def relaid(kernel, walk=None, splits=1, wide=None, interleaved=False, **blocks):
    """The layout of the heuristics with another walk or other blocks."""
    layout = plan(kernel, H200, make_context(kernel).stages)
    chosen = dict(layout.blocks) | blocks
    if walk == PERSISTENT and layout.reduction is not None:
        chosen["r"] = 1 << max(int(layout.reduction.numel) - 1, 0).bit_length()
    return dataclasses.replace(
        layout,
        walk=walk or layout.walk,
        splits=splits,
        interleaved=interleaved,
        blocks=chosen,
        wide=layout.wide if wide is None else wide,
    )


LAYOUTS = {
    "persistent": dict(walk=PERSISTENT, x=2),
    "looped": dict(walk=LOOPED, x=2, r=4),
    "split": dict(walk=SPLIT, splits=4, x=2, r=2),
    "in turn": dict(walk=SPLIT, splits=3, interleaved=True, x=2, r=2),
    "wide": dict(walk=LOOPED, x=1, r=8, wide=True),
}


def run(kernel, *tensors, sizes=(), layout=None):
    """Generate and interpret a kernel; the tensors are written in place."""
    program = generate(kernel, H200, layout=layout)
    run_interpreted(program, list(tensors), list(sizes))
    return program


def args(*tensors, names="abcdefgh"):
    return [TensorArg(n, t.dtype, t.untyped_storage().nbytes() // t.element_size()) for n, t in zip(names, tensors)]


def pointwise(function, *inputs, out_dtype):
    """A kernel of one axis that stores `function(values...)` to `out`."""
    n = inputs[0].numel()

    def body(i, r):
        values = [ops.load(name, i[0]) for name, _ in zip("abcdefgh", inputs)]
        ops.store("out", i[0], function(*values))

    return Kernel("kernel_0", CUDA, (n,), (), [Stage(body, False)], args(*inputs), [TensorArg("out", out_dtype, n)])


def reduction(kind, dtype, rows, columns, axis, out_dtypes):
    """Reduce a contiguous (rows, columns) tensor `a` along `axis`; results in out0, out1, ..."""
    kept, gone = (rows, columns) if axis == 1 else (columns, rows)

    def body(i, r):
        index = i[0] * columns + r[0] if axis == 1 else r[0] * columns + i[0]
        result = ops.reduce(kind, ops.load("a", index), dtype)
        for k, part in enumerate(result if isinstance(result, tuple) else (result,)):
            ops.store_reduction(f"out{k}", i[0], part)

    outputs = [TensorArg(f"out{k}", d, kept) for k, d in enumerate(out_dtypes)]
    inputs = [TensorArg("a", dtype, rows * columns)]
    return Kernel("kernel_0", CUDA, (kept,), (gone,), [Stage(body, True)], inputs, outputs)


def softmax(rows, columns, dtype):
    """Softmax of the last axis, in three stages with locals, as scheduling makes it."""
    f32 = torch.float32

    def top(i, r):
        value = ops.cast(ops.load("a", i[0] * columns + r[0]), f32)
        ops.local_set("value", value)
        ops.local_set("top", ops.reduce("max", value, f32))

    def total(i, r):
        power = ops.exp(ops.sub(ops.local_get("value"), ops.local_get("top")))
        ops.local_set("power", power)
        ops.local_set("total", ops.reduce("sum", power, f32))

    def result(i, r):
        value = ops.truediv(ops.local_get("power"), ops.local_get("total"))
        ops.store("out", i[0] * columns + r[0], ops.cast(value, dtype))

    local = [LocalArg(n, f32, n in ("top", "total")) for n in ("value", "top", "power", "total")]
    numel = rows * columns
    stages = [Stage(top, True, ("y = softmax(x)  # model.py:3",)), Stage(total, True), Stage(result, True)]
    return Kernel(
        "kernel_0",
        CUDA,
        (rows,),
        (columns,),
        stages,
        [TensorArg("a", dtype, numel)],
        [TensorArg("out", dtype, numel)],
        local,
    )


def layer_norm(rows, columns, eps=1e-5):
    """Layer norm: welford, a stage of points, then the normalised row; mean and rstd are outputs too."""
    f32 = torch.float32

    def moments(i, r):
        value = ops.load("a", i[0] * columns + r[0])
        mean, m2, count = ops.reduce("welford", value, f32)
        ops.local_set("mean", mean)
        ops.local_set("m2", m2)
        ops.local_set("count", count)

    def points(i, r):
        variance = ops.truediv(ops.local_get("m2"), ops.local_get("count"))
        rstd = ops.rsqrt(ops.add(variance, ops.constant(eps, f32)))
        ops.local_set("rstd", rstd)
        ops.store("mean_out", i[0], ops.local_get("mean"))
        ops.store("rstd_out", i[0], rstd)

    def result(i, r):
        value = ops.load("a", i[0] * columns + r[0])
        normal = ops.mul(ops.sub(value, ops.local_get("mean")), ops.local_get("rstd"))
        ops.store("out", i[0] * columns + r[0], ops.add(ops.mul(normal, ops.load("w", r[0])), ops.load("b", r[0])))

    local = [LocalArg(n, f32, True) for n in ("mean", "m2", "count", "rstd")]
    inputs = [TensorArg("a", f32, rows * columns), TensorArg("w", f32, columns), TensorArg("b", f32, columns)]
    outputs = [
        TensorArg("out", f32, rows * columns),
        TensorArg("mean_out", f32, rows),
        TensorArg("rstd_out", f32, rows),
    ]
    stages = [Stage(moments, True), Stage(points, False), Stage(result, True)]
    return Kernel("kernel_0", CUDA, (rows,), (columns,), stages, inputs, outputs, local)


def next_power(value):
    return 1 << math.ceil(math.log2(max(value, 1)))
