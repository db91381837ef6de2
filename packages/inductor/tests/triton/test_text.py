"""Golden texts: what is generated for each kind of kernel. TRIPTYCH_ACCEPT=1 writes them anew; read the difference."""

import os
from pathlib import Path

import pytest
import sympy
import torch
from triptych_inductor.codegen.triton.devices import EXAMPLES
from triptych_inductor.codegen.triton.generate import generate
from triptych_inductor.codegen.triton.layout import LOOPED
from triptych_inductor.loops import ops
from triptych_inductor.loops.kernel import Kernel, Stage, TensorArg
from triton_kernels import CUDA, H200, layer_norm, reduction, relaid, softmax

F32, BF16, I64 = torch.float32, torch.bfloat16, torch.int64
GOLDEN = Path(__file__).parent / "golden"


def one_stage(body, outer, inputs, outputs, sizes=()):
    stage = Stage(body, False, ("y = f(x)  # model.py:12",))
    make = lambda items: [TensorArg(n, d, numel) for n, d, numel in items]  # noqa: E731
    return Kernel("kernel_0", CUDA, outer, (), [stage], make(inputs), make(outputs), sizes=list(sizes))


def gelu():
    def body(i, r):
        x = ops.cast(ops.load("x", i[0] * 768 + i[1]), F32)
        b = ops.load("b", i[1])
        y = ops.mul(ops.add(x, b), ops.constant(0.5, F32))
        ops.store("y", i[0] * 768 + i[1], ops.cast(ops.mul(y, ops.add(ops.erf(x), ops.constant(1.0, F32))), BF16))

    numel = 4096 * 768
    return one_stage(body, (4096, 768), [("x", BF16, numel), ("b", F32, 768)], [("y", BF16, numel)])


def transposed():
    body = lambda i, r: ops.store("y", i[0] * 1000 + i[1], ops.load("x", i[1] * 500 + i[0]))  # noqa: E731
    return one_stage(body, (500, 1000), [("x", F32, 500000)], [("y", F32, 500000)])


def symbolic():
    n = sympy.Symbol("s0", integer=True, positive=True)
    body = lambda i, r: ops.store("y", i[0] * n + i[1], ops.sin(ops.load("x", i[1])))  # noqa: E731
    return one_stage(body, (8, n), [("x", F32, n)], [("y", F32, 8 * n)], (n,))


def gather():
    def body(i, r):
        row = ops.indirect(ops.load("index", i[0]), 100)
        inside = ops.lt(ops.load("index", i[0]), ops.constant(50, I64))
        value = ops.masked(inside, lambda: ops.load("x", row * 32 + i[1]), 7.0)
        ops.store_atomic_add("y", row * 32 + i[1], value)

    return one_stage(body, (10, 32), [("index", I64, 10), ("x", F32, 3200)], [("y", F32, 3200)])


def looped_norm():
    kernel = layer_norm(1000, 3000)
    return generate(kernel, H200, layout=relaid(kernel, walk=LOOPED, x=1, r=1024))


def scan(rows, columns, facts=H200):
    def body(i, r):
        index = i[0] * columns + r[0]
        ops.store("y", index, ops.cast(ops.scan("sum", ops.cast(ops.load("x", index), F32), F32), BF16))

    stage = Stage(body, True, ("y = x.cumsum(-1)  # model.py:7",))
    arguments = [TensorArg("x", BF16, rows * columns)], [TensorArg("y", BF16, rows * columns)]
    return generate(Kernel("kernel_0", CUDA, (rows,), (columns,), [stage], *arguments), facts)


CASES = {
    "scan": lambda: scan(4096, 1000),
    "scan_split": lambda: scan(2, 2**22),
    "scan_amd": lambda: scan(4096, 1000, EXAMPLES["mi300"]),
    "softmax_long": lambda: generate(softmax(4096, 100000, BF16), H200),
    "sum_split_amd": lambda: generate(reduction("sum", F32, 100000, 96, 0, [F32]), EXAMPLES["mi300"]),
    "points": lambda: generate(gelu(), H200),
    "transposed": lambda: generate(transposed(), H200),
    "symbolic": lambda: generate(symbolic(), H200),
    "gather": lambda: generate(gather(), H200),
    "softmax": lambda: generate(softmax(4096, 1000, BF16), H200),
    "layer_norm_looped": looped_norm,
    "sum_split": lambda: generate(reduction("sum", F32, 100000, 96, 0, [F32]), H200),
    "argmax": lambda: generate(reduction("argmax", BF16, 4096, 1000, 1, [I64]), H200),
    "softmax_amd": lambda: generate(softmax(4096, 1000, BF16), EXAMPLES["mi300"]),
}


@pytest.mark.parametrize("name", list(CASES))
def test_golden(name):
    text = CASES[name]().source
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("TRIPTYCH_ACCEPT"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_contiguous_axes_are_one_index():
    assert "xindex // 768" not in CASES["points"]().source


def test_indices_of_big_buffers_have_64_bits():
    body = lambda i, r: ops.store("y", i[0], ops.load("x", i[0]))  # noqa: E731
    small = generate(one_stage(body, (2**30,), [("x", F32, 2**30)], [("y", F32, 2**30)]), H200)
    big = generate(one_stage(body, (2**31,), [("x", F32, 2**31)], [("y", F32, 2**31)]), H200)
    assert "tl.int64" not in small.source and "pid = tl.program_id(0).to(tl.int64)" in big.source


def test_full_tiles_need_no_mask():
    body = lambda i, r: ops.store("y", i[0], ops.load("x", i[0]))  # noqa: E731
    full = generate(one_stage(body, (2**20,), [("x", F32, 2**20)], [("y", F32, 2**20)]), H200)
    assert "mask" not in full.source


def test_dtypes_without_text_are_refused():
    body = lambda i, r: ops.store("y", i[0], ops.load("x", i[0]))  # noqa: E731
    kernel = one_stage(body, (8,), [("x", torch.complex64, 8)], [("y", torch.complex64, 8)])
    with pytest.raises((TypeError, KeyError)):
        generate(kernel, H200)


def test_atomic_addition_of_small_integers_is_refused():
    body = lambda i, r: ops.store_atomic_add("y", 0, ops.load("x", i[0]))  # noqa: E731
    with pytest.raises(TypeError, match="no atomic addition"):
        generate(one_stage(body, (8,), [("x", torch.int8, 8)], [("y", torch.int8, 1)]), H200)
