"""Hand-built kernels of the kinds that models consist of, each with its eager meaning; for tests and the benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from triptych_inductor.loops import ops
from triptych_inductor.loops.kernel import Kernel, LocalArg, Stage, TensorArg

CPU = torch.device("cpu")
F32 = torch.float32


@dataclass
class Sample:
    """A kernel, what eager computes, and arguments (inputs, then outputs)."""

    kernel: Kernel
    eager: Callable[..., Any]
    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]

    @property
    def bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in (*self.inputs, *self.outputs))


def make(name, outer, reduction, stages, inputs, outputs, eager, local=()):
    """`stages`: (body, reduced) pairs; `inputs` and `outputs`: name -> tensor."""
    args = lambda tensors: [
        TensorArg(n, t.dtype, t.untyped_storage().nbytes() // t.element_size()) for n, t in tensors.items()
    ]  # noqa: E731
    stages = [Stage(body, reduced, (name,)) for body, reduced in stages]
    kernel = Kernel(name, CPU, tuple(outer), tuple(reduction), stages, args(inputs), args(outputs), list(local))
    return Sample(kernel, eager, list(inputs.values()), list(outputs.values()))


def const(value, dtype=F32):
    return ops.constant(value, dtype)


def load(buffer, index, dtype=F32):
    return ops.cast(ops.load(buffer, index), dtype)


def gelu_value(x):
    return ops.mul(ops.mul(x, const(0.5)), ops.add(ops.erf(ops.mul(x, const(0.7071067811865476))), const(1.0)))


def pointwise(name, n, dtype, value, eager, inputs, out_dtype=None):
    tensors = {f"x{k}": t for k, t in enumerate(inputs)}
    out = torch.empty(n, dtype=out_dtype or dtype)

    def body(i, r):
        ops.store("y", i[0], ops.cast(value(*[load(a, i[0]) for a in tensors]), out.dtype))

    return make(name, (n,), (), [(body, False)], tensors, {"y": out}, eager)


def gelu(n, dtype=F32):
    return pointwise("gelu", n, dtype, gelu_value, torch.nn.functional.gelu, [torch.randn(n).to(dtype)])


def tanh_gelu(n, dtype=F32):
    def value(x):
        inner = ops.mul(ops.add(x, ops.mul(ops.mul(ops.mul(x, x), x), const(0.044715))), const(0.7978845608028654))
        return ops.mul(ops.mul(x, const(0.5)), ops.add(ops.tanh(inner), const(1.0)))

    return pointwise(
        "tanh_gelu",
        n,
        dtype,
        value,
        lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        [torch.randn(n).to(dtype)],
    )


def silu_mul(n, dtype=F32):
    inputs = [torch.randn(n).to(dtype), torch.randn(n).to(dtype)]
    value = lambda x, y: ops.mul(ops.mul(x, ops.sigmoid(x)), y)  # noqa: E731
    return pointwise("silu_mul", n, dtype, value, lambda x, y: torch.nn.functional.silu(x) * y, inputs)


def cast(n, source, target):
    return pointwise(
        f"cast_{str(source)[6:]}_{str(target)[6:]}",
        n,
        target,
        lambda x: x,
        lambda x: x.to(target),
        [torch.randn(n).to(source)],
    )


def dropout_mask(n):
    tensors = {"x": torch.randn(n), "m": torch.rand(n) < 0.9}

    def body(i, r):
        kept = ops.cast(ops.load("m", i[0]), F32)
        ops.store("y", i[0], ops.mul(ops.mul(ops.load("x", i[0]), kept), const(1 / 0.9)))

    return make("dropout", (n,), (), [(body, False)], tensors, {"y": torch.empty(n)}, lambda x, m: x * m * (1 / 0.9))


def adamw(n):
    tensors = {"p": torch.randn(n), "g": torch.randn(n), "m": torch.randn(n), "v": torch.rand(n)}
    outputs = {f"{k}_new": torch.empty(n) for k in ("p", "m", "v")}

    def body(i, r):
        p, g, m, v = (ops.load(k, i[0]) for k in tensors)
        m = ops.add(m, ops.mul(ops.sub(g, m), const(0.1)))
        v = ops.add(ops.mul(v, const(0.999)), ops.mul(ops.mul(g, g), const(0.001)))
        step = ops.truediv(ops.mul(m, const(1e-3)), ops.add(ops.sqrt(v), const(1e-8)))
        ops.store("p_new", i[0], ops.sub(ops.mul(p, const(0.99999)), step))
        ops.store("m_new", i[0], m)
        ops.store("v_new", i[0], v)

    def eager(p, g, m, v):
        m = m + (g - m) * 0.1
        v = v * 0.999 + g * g * 0.001
        return p * 0.99999 - m * 1e-3 / (v.sqrt() + 1e-8), m, v

    return make("adamw", (n,), (), [(body, False)], tensors, outputs, eager)


def softmax(rows, cols, dtype=F32):
    x, y = torch.randn(rows, cols).to(dtype), torch.empty(rows, cols, dtype=dtype)

    def top(i, r):
        ops.local_set("top", ops.reduce("max", load("x", i[0] * cols + r[0]), F32))

    def total(i, r):
        e = ops.exp(ops.sub(load("x", i[0] * cols + r[0]), ops.local_get("top")))
        ops.local_set("e", e)
        ops.local_set("total", ops.reduce("sum", e, F32))

    def out(i, r):
        ops.store("y", i[0] * cols + r[0], ops.cast(ops.truediv(ops.local_get("e"), ops.local_get("total")), dtype))

    local = [LocalArg("top", F32, True), LocalArg("e", F32, False), LocalArg("total", F32, True)]
    return make(
        "softmax",
        (rows,),
        (cols,),
        [(top, True), (total, True), (out, True)],
        {"x": x},
        {"y": y},
        lambda x: x.softmax(1),
        local,
    )


def softmax_backward(rows, cols):
    g, s, out = torch.randn(rows, cols), torch.rand(rows, cols), torch.empty(rows, cols)

    def total(i, r):
        at = i[0] * cols + r[0]
        ops.local_set("total", ops.reduce("sum", ops.mul(ops.load("g", at), ops.load("s", at)), F32))

    def write(i, r):
        at = i[0] * cols + r[0]
        ops.store("out", at, ops.mul(ops.load("s", at), ops.sub(ops.load("g", at), ops.local_get("total"))))

    eager = lambda g, s: torch.ops.aten._softmax_backward_data(g, s, 1, F32)  # noqa: E731
    stages = [(total, True), (write, True)]
    return make(
        "softmax_backward",
        (rows,),
        (cols,),
        stages,
        {"g": g, "s": s},
        {"out": out},
        eager,
        [LocalArg("total", F32, True)],
    )


def layer_norm(rows, cols, dtype=F32):
    tensors = {
        "x": torch.randn(rows, cols).to(dtype),
        "w": torch.randn(cols).to(dtype),
        "b": torch.randn(cols).to(dtype),
    }
    outputs = {"y": torch.empty(rows, cols, dtype=dtype), "mean": torch.empty(rows, 1), "rstd": torch.empty(rows, 1)}

    def statistics(i, r):
        mean, m2, count = ops.reduce("welford", load("x", i[0] * cols + r[0]), F32)
        rstd = ops.rsqrt(ops.add(ops.truediv(m2, const(float(cols))), const(1e-5)))
        ops.local_set("mu", mean)
        ops.local_set("rs", rstd)
        ops.store_reduction("mean", i[0], mean)
        ops.store_reduction("rstd", i[0], rstd)

    def write(i, r):
        at = i[0] * cols + r[0]
        x = ops.mul(ops.sub(load("x", at), ops.local_get("mu")), ops.local_get("rs"))
        ops.store("y", at, ops.cast(ops.add(ops.mul(x, load("w", r[0])), load("b", r[0])), dtype))

    eager = lambda x, w, b: torch.native_layer_norm(x, (cols,), w, b, 1e-5)  # noqa: E731
    local = [LocalArg("mu", F32, True), LocalArg("rs", F32, True)]
    return make("layer_norm", (rows,), (cols,), [(statistics, True), (write, True)], tensors, outputs, eager, local)


def layer_norm_backward(rows, cols):
    tensors = {"g": torch.randn(rows, cols), "x": torch.randn(rows, cols), "w": torch.randn(cols)}
    tensors["mean"] = tensors["x"].mean(1)
    tensors["rstd"] = (tensors["x"].var(1, unbiased=False) + 1e-5).rsqrt()

    def parts(i, r):
        at = i[0] * cols + r[0]
        h = ops.mul(ops.sub(ops.load("x", at), ops.load("mean", i[0])), ops.load("rstd", i[0]))
        return ops.mul(ops.load("g", at), ops.load("w", r[0])), h

    def totals(i, r):
        g, h = parts(i, r)
        ops.local_set("a", ops.reduce("sum", g, F32))
        ops.local_set("c", ops.reduce("sum", ops.mul(g, h), F32))

    def write(i, r):
        g, h = parts(i, r)
        inner = ops.sub(ops.mul(g, const(float(cols))), ops.add(ops.local_get("a"), ops.mul(h, ops.local_get("c"))))
        ops.store("out", i[0] * cols + r[0], ops.mul(inner, ops.mul(ops.load("rstd", i[0]), const(1.0 / cols))))

    def eager(g, x, w, mean, rstd):
        args = (g, x, (cols,), mean[:, None], rstd[:, None], w, None, (True, False, False))
        return torch.ops.aten.native_layer_norm_backward(*args)[0]

    local = [LocalArg("a", F32, True), LocalArg("c", F32, True)]
    outputs = {"out": torch.empty(rows, cols)}
    return make(
        "layer_norm_backward", (rows,), (cols,), [(totals, True), (write, True)], tensors, outputs, eager, local
    )


def column_sums(rows, cols, dtype=F32):
    x, y = torch.randn(rows, cols).to(dtype), torch.empty(cols, dtype=dtype)

    def body(i, r):
        ops.store_reduction("y", i[0], ops.cast(ops.reduce("sum", load("x", r[0] * cols + i[0]), F32), dtype))

    return make("column_sums", (cols,), (rows,), [(body, True)], {"x": x}, {"y": y}, lambda x: x.sum(0))


def total_sum(n):
    x, y = torch.randn(n), torch.empty(())
    body = lambda i, r: ops.store_reduction("y", 0, ops.reduce("sum", ops.load("x", r[0]), F32))  # noqa: E731
    return make("total_sum", (), (n,), [(body, True)], {"x": x}, {"y": y}, lambda x: x.sum())


def batch_norm(n, c, s, channels_last):
    """Statistics and normalisation of (n, c, s), in one kernel."""
    x = torch.randn(n, s, c).transpose(1, 2) if channels_last else torch.randn(n, c, s)
    y = torch.empty_like(x)
    tensors = {"x": x, "w": torch.randn(c), "b": torch.randn(c)}
    at = lambda i, r: (r[0] * s + r[1]) * c + i[0] if channels_last else (r[0] * c + i[0]) * s + r[1]  # noqa: E731

    def statistics(i, r):
        mean, m2, count = ops.reduce("welford", ops.load("x", at(i, r)), F32)
        ops.local_set("mu", mean)
        ops.local_set("rs", ops.rsqrt(ops.add(ops.truediv(m2, const(float(n * s))), const(1e-5))))

    def write(i, r):
        scale = ops.mul(ops.local_get("rs"), ops.load("w", i[0]))
        shift = ops.sub(ops.load("b", i[0]), ops.mul(ops.local_get("mu"), scale))
        ops.store("y", at(i, r), ops.add(ops.mul(ops.load("x", at(i, r)), scale), shift))

    eager = lambda x, w, b: torch.nn.functional.batch_norm(x, None, None, w, b, True)  # noqa: E731
    local = [LocalArg("mu", F32, True), LocalArg("rs", F32, True)]
    name = "batch_norm_last" if channels_last else "batch_norm"
    return make(name, (c,), (n, s), [(statistics, True), (write, True)], tensors, {"y": y}, eager, local)


def log_softmax(rows, cols):
    x, y = torch.randn(rows, cols), torch.empty(rows, cols)

    def top(i, r):
        ops.local_set("top", ops.reduce("max", ops.load("x", i[0] * cols + r[0]), F32))

    def total(i, r):
        e = ops.exp(ops.sub(ops.load("x", i[0] * cols + r[0]), ops.local_get("top")))
        ops.local_set("total", ops.log(ops.reduce("sum", e, F32)))

    def out(i, r):
        at = i[0] * cols + r[0]
        ops.store("y", at, ops.sub(ops.sub(ops.load("x", at), ops.local_get("top")), ops.local_get("total")))

    local = [LocalArg("top", F32, True), LocalArg("total", F32, True)]
    return make(
        "log_softmax",
        (rows,),
        (cols,),
        [(top, True), (total, True), (out, True)],
        {"x": x},
        {"y": y},
        lambda x: x.log_softmax(1),
        local,
    )


def add_transposed(n):
    x, y = torch.randn(n, n), torch.empty(n, n)

    def body(i, r):
        ops.store("y", i[0] * n + i[1], ops.add(ops.load("x", i[0] * n + i[1]), ops.load("x", i[1] * n + i[0])))

    return make("add_transposed", (n, n), (), [(body, False)], {"x": x}, {"y": y}, lambda x: x + x.T)


def embedding(rows, width, count):
    table, index, y = torch.randn(count, width), torch.randint(count, (rows,)), torch.empty(rows, width)

    def body(i, r):
        at = ops.indirect(ops.load("index", i[0]), count)
        ops.store("y", i[0] * width + i[1], ops.load("table", at * width + i[1]))

    eager = lambda index, table: torch.nn.functional.embedding(index, table)  # noqa: E731
    return make("embedding", (rows, width), (), [(body, False)], {"index": index, "table": table}, {"y": y}, eager)


def gelu_backward_sums(rows, cols):
    """The gradient of a gelu and the sums of its columns (a bias gradient) in one kernel."""
    tensors = {"g": torch.randn(rows, cols), "x": torch.randn(rows, cols)}
    outputs = {"dx": torch.empty(rows, cols), "db": torch.empty(cols)}

    def body(i, r):
        at = r[0] * cols + i[0]
        x = ops.load("x", at)
        phi = ops.mul(ops.add(ops.erf(ops.mul(x, const(0.7071067811865476))), const(1.0)), const(0.5))
        density = ops.mul(ops.exp(ops.mul(ops.mul(x, x), const(-0.5))), const(0.3989422804014327))
        dx = ops.mul(ops.load("g", at), ops.add(phi, ops.mul(x, density)))
        ops.store("dx", at, dx)
        ops.store_reduction("db", i[0], ops.reduce("sum", dx, F32))

    def eager(g, x):
        dx = torch.ops.aten.gelu_backward(g, x)
        return dx, dx.sum(0)

    return make("gelu_backward_sums", (cols,), (rows,), [(body, True)], tensors, outputs, eager)


def row_sums(rows, cols):
    x, y = torch.randn(rows, cols), torch.empty(rows)

    def body(i, r):
        ops.store_reduction("y", i[0], ops.reduce("sum", ops.load("x", i[0] * cols + r[0]), F32))

    return make("row_sums", (rows,), (cols,), [(body, True)], {"x": x}, {"y": y}, lambda x: x.sum(1))
