"""Scans under every walk over the rows, interpreted, against torch; and whole graphs with scans in them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from triptych_inductor.codegen.triton.build import build
from triptych_inductor.codegen.triton.candidates import candidates
from triptych_inductor.codegen.triton.devices import EXAMPLES
from triptych_inductor.codegen.triton.generate import generate
from triptych_inductor.codegen.triton.layout import LOOPED, SPLIT
from triptych_inductor.loops import ops
from triptych_inductor.loops.kernel import Kernel, LocalArg, Stage, TensorArg
from triptych_inductor.loops.table import scan_dtypes
from triton_kernels import CUDA, H200, LAYOUTS, relaid, run

F32, I64 = torch.float32, torch.int64
WALKS = sorted(set(LAYOUTS) - {"in turn"})
EAGER = {
    "sum": lambda t: t.cumsum(-1, dtype=t.dtype),
    "prod": lambda t: t.cumprod(-1, dtype=t.dtype),
    "logaddexp": lambda t: t.logcumsumexp(-1),
    "max": lambda t: tuple(t.cummax(-1)),
    "min": lambda t: tuple(t.cummin(-1)),
}


def scan_kernel(kind, dtype, rows, columns, axis=1):
    """Running results of a contiguous tensor `a` along `axis` (rows x columns along it), in out0, out1."""
    types = scan_dtypes(kind, dtype)

    def body(i, r):
        index = i[0] * columns + r[0] if axis == 1 else r[0] * rows + i[0]
        result = ops.scan(kind, ops.load("a", index), dtype)
        for k, part in enumerate(result if isinstance(result, tuple) else (result,)):
            ops.store(f"out{k}", index, part)

    numel = rows * columns
    outputs = [TensorArg(f"out{k}", d, numel) for k, d in enumerate(types)]
    inputs = [TensorArg("a", dtype, numel)]
    return Kernel("kernel_0", CUDA, (rows,), (columns,), [Stage(body, True)], inputs, outputs)


def check(kind, x, layout=None, axis=1):
    rows, columns = x.shape
    kernel = scan_kernel(kind, x.dtype, rows, columns, axis)
    memory = x if axis == 1 else x.t().contiguous()
    outs = [torch.empty_like(memory, dtype=d) for d in scan_dtypes(kind, x.dtype)]
    program = run(kernel, memory, *outs, layout=layout and relaid(kernel, **layout))
    want = EAGER[kind](x)
    for got, wanted in zip(outs, want if isinstance(want, tuple) else (want,), strict=True):
        torch.testing.assert_close(got if axis == 1 else got.t(), wanted, equal_nan=True)
    return program


@pytest.mark.parametrize("kind", list(EAGER))
@pytest.mark.parametrize("layout", WALKS)
def test_walks(kind, layout):
    x = torch.randn(5, 37)
    x[1, 7], x[2, 9], x[3, 0], x[4, 20] = float("nan"), float("inf"), -float("inf"), x[4, 3]
    check(kind, x, LAYOUTS[layout])


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("layout", ["persistent", "looped", "split"])
def test_integers(kind, layout):
    check(kind, torch.randint(-3, 4, (4, 21)), LAYOUTS[layout])


@pytest.mark.parametrize("layout", [None, "looped", "split"])
def test_along_the_slow_axis(layout):
    check("sum", torch.randn(6, 19), layout and LAYOUTS[layout], axis=0)


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 7), st.integers(2, 70), st.sampled_from(list(EAGER)), st.sampled_from(WALKS))
def test_sizes(rows, columns, kind, layout):
    check(kind, torch.randn(rows, columns), LAYOUTS[layout])


def test_long_rows_are_shared_by_programs():
    program = generate(scan_kernel("sum", F32, 2, 2**22), H200)
    assert [f.name.rsplit("_", 1)[1] for f in program.functions] == ["total0", "start0", "part0"]


def test_scans_of_columns_are_also_tried_in_one_pass():
    """A scan that programs share reads its input twice; narrow tiles that walk all rows read it once."""
    found = candidates(scan_kernel("sum", F32, 32768, 2**15, 0), H200)
    assert found[0].walk == SPLIT
    once = [layout for layout in found if layout.walk == LOOPED]
    assert {layout.block(layout.outer[-1]) for layout in once} == {128, 64, 32, 16}
    assert {layout.num_stages for layout in once} >= {4, 6}
    for width, depth in ((16, 4), (8, 16)):
        check("sum", torch.randn(40, 50), dict(walk=LOOPED, x=width, r=depth), axis=0)


def test_a_scan_takes_no_blocks_in_turn():
    kernel = scan_kernel("sum", F32, 2, 2**22)
    with pytest.raises(ValueError, match="in turn"):
        generate(kernel, H200, layout=relaid(kernel, **LAYOUTS["in turn"]))


def test_a_scan_of_a_scan_is_not_shared():
    def body(i, r):
        index = i[0] * 2**22 + r[0]
        first = ops.scan("sum", ops.load("a", index), F32)
        ops.store("out0", index, ops.scan("sum", first, F32))

    args = [TensorArg("a", F32, 2**23)], [TensorArg("out0", F32, 2**23)]
    program = generate(Kernel("kernel_0", CUDA, (2,), (2**22,), [Stage(body, True)], *args), EXAMPLES["h200"])
    assert len(program.functions) == 1 and program.source.count("scan_sum") > 1


def test_machine_code(store):
    kernels = [scan_kernel(kind, torch.bfloat16, 64, 4096) for kind in ("sum", "max")]
    kernels += [scan_kernel("logaddexp", F32, 2, 2**22), scan_kernel("max", I64, 4096, 512, 0)]
    programs = [generate(kernel, H200) for kernel in kernels]
    for binaries in build(programs, H200, store=store).result():
        assert all(binary.data[:4] == b"\x7fELF" for binary in binaries)


@pytest.mark.parametrize("walk", [LOOPED, SPLIT])
def test_between_reductions(walk):
    """Deviations from the mean, their running sum, and its maximum: three loops."""
    rows, columns = 3, 29

    def mean(i, r):
        ops.local_set("total", ops.reduce("sum", ops.load("a", i[0] * columns + r[0]), F32))

    def running(i, r):
        mean = ops.truediv(ops.local_get("total"), ops.constant(float(columns), F32))
        value = ops.scan("sum", ops.sub(ops.load("a", i[0] * columns + r[0]), mean), F32)
        ops.local_set("run", value)
        ops.local_set("top", ops.reduce("max", value, F32))

    def result(i, r):
        ops.store("out", i[0] * columns + r[0], ops.sub(ops.local_get("run"), ops.local_get("top")))

    local = [LocalArg("total", F32, True), LocalArg("run", F32, False), LocalArg("top", F32, True)]
    args = [TensorArg("a", F32, rows * columns)], [TensorArg("out", F32, rows * columns)]
    stages = [Stage(mean, True), Stage(running, True), Stage(result, True)]
    kernel = Kernel("kernel_0", CUDA, (rows,), (columns,), stages, *args, local)
    x = torch.randn(rows, columns)
    out = torch.empty_like(x)
    run(kernel, x, out, layout=relaid(kernel, walk=walk, splits=2 if walk == SPLIT else 1, x=1, r=4))
    want = (x - x.mean(-1, keepdim=True)).cumsum(-1)
    torch.testing.assert_close(out, want - want.amax(-1, keepdim=True))
