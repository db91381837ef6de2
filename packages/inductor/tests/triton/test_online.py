"""Online softmax: which loops are put together, and the numbers at the edges."""

import pytest
import torch
from triptych_inductor.codegen.triton.generate import generate
from triptych_inductor.codegen.triton.layout import LOOPED
from triptych_inductor.loops import ops
from triptych_inductor.loops.kernel import Kernel, LocalArg, Stage, TensorArg
from triton_kernels import CUDA, H200, relaid, run, softmax

F32 = torch.float32
ROWS, COLUMNS = 7, 37


def below(shift, store=None):
    """Sum of exp(x - shift(max)) by rows. `store`: a further store at every point of the second loop."""

    def top(i, r):
        ops.local_set("top", ops.reduce("max", ops.load("a", i[0] * COLUMNS + r[0]), F32))

    def total(i, r):
        value = ops.load("a", i[0] * COLUMNS + r[0])
        power = ops.exp(ops.sub(value, shift(ops.local_get("top"))))
        ops.store_reduction("out", i[0], ops.reduce("sum", power, F32))
        if store:
            ops.store(store, i[0] * COLUMNS + r[0], power)

    numel = ROWS * COLUMNS
    outputs = [TensorArg("out", F32, ROWS)] + ([TensorArg(store, F32, numel)] if store else [])
    stages, local = [Stage(top, True), Stage(total, True)], [LocalArg("top", F32, True)]
    return Kernel("kernel_0", CUDA, (ROWS,), (COLUMNS,), stages, [TensorArg("a", F32, numel)], outputs, local)


def looped(kernel, **blocks):
    return relaid(kernel, walk=LOOPED, **{"x": 2, "r": 8} | blocks)


def edges():
    """Rows with NaN, infinities, nothing but -inf, -inf in front, and large numbers."""
    x = torch.randn(ROWS, COLUMNS) * 5
    x[1, 20], x[2, 30] = float("nan"), float("inf")
    x[3], x[4, :17], x[5] = -float("inf"), -float("inf"), x[5] * 1e30
    return x


def test_one_loop_and_right_numbers():
    kernel, x, out = below(lambda m: m), edges(), torch.empty(ROWS)
    program = run(kernel, x, out, layout=looped(kernel))
    assert program.source.count("for roffset") == 1 and program.source.count("exp(") == 2
    want = (x - x.amax(-1, keepdim=True)).exp().sum(-1)
    torch.testing.assert_close(out, want, equal_nan=True)


@pytest.mark.parametrize("columns", [5, 64, 37])
def test_softmax(columns):
    kernel = softmax(ROWS, columns, F32)
    x = edges()[:, :columns].contiguous() if columns <= COLUMNS else torch.randn(ROWS, columns)
    out = torch.empty_like(x)
    program = run(kernel, x, out, layout=looped(kernel, r=4))
    assert program.source.count("for roffset") == 2
    torch.testing.assert_close(out, x.softmax(-1), equal_nan=True)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (lambda: below(lambda m: ops.mul(m, ops.constant(0.5, F32))), "another shift"),
        (lambda: below(lambda m: m, store="power"), "a store at every point"),
    ],
)
def test_other_loops_stay_apart(kernel, reason):
    kernel = kernel()
    assert generate(kernel, H200, layout=looped(kernel)).source.count("for roffset") == 2, reason
