"""Generated kernels against eager and against the reference interpreter."""

from __future__ import annotations

import pytest
import sample_kernels as make
import sympy
import torch
from random_kernels import random_case
from triptych_inductor.build.cache import Store
from triptych_inductor.build.isa import ISAS, host_isa, isa_named
from triptych_inductor.codegen.cpp.kernel import write_kernel
from triptych_inductor.loops import ops
from triptych_inductor.loops.interpret import as_function
from triptych_inductor.loops.kernel import Kernel, Stage, TensorArg
from triptych_inductor.runtime import compile_kernels

BF16, F16, F32, I64 = torch.bfloat16, torch.float16, torch.float32, torch.int64
CPU = torch.device("cpu")


HOST_ISAS = [i.name for i in ISAS if i.machine == host_isa().machine and i.lanes <= host_isa().lanes]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store("cpp", tmp_path_factory.mktemp("cache"))


def samples():
    """Odd and even sizes of the kinds of kernels that models consist of."""
    return [
        *(f(n, d) for f in (make.gelu, make.silu_mul) for n, d in ((1, F32), (1003, BF16), (4096, F16))),
        make.tanh_gelu(1003),
        *(make.cast(777, a, b) for a, b in ((BF16, F32), (F32, BF16), (F16, F32), (F32, F16))),
        make.dropout_mask(1001),
        make.adamw(333),
        *(make.softmax(*s) for s in ((7, 1), (5, 15), (64, 128), (3, 1000), (2, 4999))),
        make.softmax(9, 130, BF16),
        make.softmax_backward(33, 77),
        make.log_softmax(4, 30522),
        *(make.layer_norm(*s) for s in ((5, 7), (64, 192), (33, 768), (3, 9001))),
        make.layer_norm(8, 100, BF16),
        make.layer_norm_backward(17, 96),
        *(make.column_sums(*s) for s in ((1, 1), (300, 7), (1000, 48), (129, 600), (70000, 24), (3, 2000))),
        make.column_sums(500, 64, BF16),
        make.gelu_backward_sums(130, 90),
        *(make.total_sum(n) for n in (1, 17, 5000, 1_000_003)),
        *(make.batch_norm(2, c, s, last) for last in (False, True) for c, s in ((3, 49), (64, 50), (70, 9))),
        *(make.add_transposed(n) for n in (5, 64, 100)),
        make.embedding(50, 33, 100),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def compiled_samples(store):
    chosen = samples()
    for number, sample in enumerate(chosen):
        sample.kernel.name = f"{sample.kernel.name}_{number}"
    return chosen, compile_kernels([s.kernel for s in chosen], store=store).result()


def assert_sample(sample, call):
    for out in sample.outputs:
        out.fill_(7)
    call(*sample.inputs, *sample.outputs)
    want = sample.eager(*sample.inputs)
    for got, expected in zip(sample.outputs, want if isinstance(want, tuple) else (want,), strict=True):
        half = any(x.dtype in (BF16, F16) for x in (got, *sample.inputs))
        tolerance = {"rtol": 1.6e-2, "atol": 1e-2} if half else {"rtol": 2e-5, "atol": 2e-4 if got.dim() < 2 else 2e-5}
        torch.testing.assert_close(got, expected.reshape(got.shape).to(got.dtype), **tolerance)


def test_samples_agree_with_eager(compiled_samples):
    for sample in compiled_samples[0]:
        assert_sample(sample, compiled_samples[1][sample.kernel.name])


def test_results_do_not_depend_on_the_number_of_threads_beyond_rounding(compiled_samples):
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3, 5):
            torch.set_num_threads(count)
            for sample in compiled_samples[0]:
                assert_sample(sample, compiled_samples[1][sample.kernel.name])
    finally:
        torch.set_num_threads(threads)


def test_same_thread_count_gives_the_same_bits(compiled_samples):
    for sample in compiled_samples[0]:
        call = compiled_samples[1][sample.kernel.name]
        call(*sample.inputs, *sample.outputs)
        first = [o.clone() for o in sample.outputs]
        call(*sample.inputs, *sample.outputs)
        for a, b in zip(first, sample.outputs, strict=True):
            assert torch.equal(a.nan_to_num(), b.nan_to_num()), sample.kernel.name


@pytest.mark.parametrize(("rows", "cols"), [(3000, 64), (1500, 768), (300, 20_000)])
@pytest.mark.parametrize("inner", [True, False])
def test_sums_are_as_exact_as_eager(store, rows, cols, inner):
    """Root mean square error against float64, over many sums of `cols` numbers."""
    sample = make.row_sums(rows, cols) if inner else make.column_sums(cols, rows)
    compile_kernels([sample.kernel], store=store).result()[sample.kernel.name](*sample.inputs, *sample.outputs)
    exact = sample.eager(sample.inputs[0].double())
    error = lambda got: ((got.double() - exact) ** 2).mean().sqrt()  # noqa: E731
    assert error(sample.outputs[0]) <= 1.5 * error(sample.eager(*sample.inputs))


@pytest.mark.parametrize("isa", HOST_ISAS)
def test_random_kernels_agree_with_the_interpreter(store, isa):
    cases = {seed: random_case(seed) for seed in range(24 if isa == host_isa().name else 8)}
    for seed, case in cases.items():
        case.kernel.name = f"random_{seed}"
    library = compile_kernels([c.kernel for c in cases.values()], isa=isa_named(isa), store=store).result()
    for seed, case in cases.items():
        as_function(case.kernel)(*case.arguments)
        want = [o.clone() for o in case.outputs]
        for out in case.outputs:
            out.fill_(False)
        library[case.kernel.name](*case.arguments)
        for got, expected in zip(case.outputs, want, strict=True):
            tolerance = {BF16: 1e-2, F16: 2e-3}.get(got.dtype, 2e-5)
            message = lambda text, seed=seed: f"seed {seed}: {text}"  # noqa: E731
            torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True, msg=message)


def gather_kernel(check=("index", 0)):
    def body(i, r):
        at = ops.indirect(ops.load("index", i[0]), 10, check)
        ops.store("y", i[0], ops.load("x", at))

    inputs = [TensorArg("index", I64, 40), TensorArg("x", F32, 10)]
    return Kernel(f"gather_{check[0]}", CPU, (40,), (), [Stage(body, False)], inputs, [TensorArg("y", F32, 40)])


@pytest.mark.parametrize(
    ("check", "error", "text"),
    [
        (("index", 2), IndexError, "index {} is out of bounds for dimension 2 with size 10"),
        (("gather", 1), RuntimeError, "index {} is out of bounds for dimension 1 with size 10"),
        (("table", 0), IndexError, "index out of range in self"),
        (("class", 0), IndexError, "Target {} is out of bounds."),
    ],
)
@pytest.mark.parametrize("position", [0, 17, 39])
def test_index_out_of_range_raises(store, check, error, text, position):
    call = compile_kernels([gather_kernel(check)], store=store).result()[f"gather_{check[0]}"]
    index, x, y = torch.randint(-10 if check[0] == "index" else 0, 10, (40,)), torch.randn(10), torch.empty(40)
    call(index, x, y)
    assert torch.equal(y, x[index])
    for wrong in (10, -11, 2**40, *(() if check[0] == "index" else (-1,))):
        index[position] = wrong
        with pytest.raises(error, match=text.format(wrong)):
            call(index, x, y)


@pytest.mark.parametrize("op", ["floordiv", "remainder", "fmod"])
def test_integer_division_by_zero_raises(store, op):
    def body(i, r):
        ops.store("y", i[0], getattr(ops, op)(ops.load("a", i[0]), ops.load("b", i[0])))

    tensors = [TensorArg("a", I64, 21), TensorArg("b", I64, 21)]
    kernel = Kernel(f"divide_{op}", CPU, (21,), (), [Stage(body, False)], tensors, [TensorArg("y", I64, 21)])
    call = compile_kernels([kernel], store=store).result()[kernel.name]
    a, b, y = torch.arange(21), torch.ones(21, dtype=I64), torch.empty(21, dtype=I64)
    call(a, b, y)
    b[20] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        call(a, b, y)


@pytest.mark.parametrize("rows", [1, 5, 4000])
def test_additions_that_collide(store, rows):
    """index_add: threads share the columns, so the order of additions is that of one thread."""
    width = 40

    def body(i, r):
        at = ops.indirect(ops.load("index", i[0]), 7)
        ops.store_atomic_add("y", at * width + i[1], ops.load("x", i[0] * width + i[1]))

    inputs = [TensorArg("index", I64, rows), TensorArg("x", F32, rows * width), TensorArg("y", F32, 7 * width)]
    kernel = Kernel(
        f"add_{rows}", CPU, (rows, width), (), [Stage(body, False)], inputs, [TensorArg("y", F32, 7 * width)]
    )
    call = compile_kernels([kernel], store=store).result()[kernel.name]
    index, x, y = torch.randint(7, (rows,)), torch.randn(rows, width), torch.zeros(7, width)
    call(index, x, y)
    torch.testing.assert_close(y, torch.zeros(7, width).index_add(0, index, x))
    assert "threads share axis 1" in write_kernel(kernel, 16).plan


def test_symbolic_sizes(store):
    rows, cols = sympy.symbols("s0 s1", integer=True, positive=True)

    def body(i, r):
        ops.store_reduction("y", i[0], ops.reduce("sum", ops.load("x", i[0] * cols + r[0]), F32))

    inputs, outputs = [TensorArg("x", F32, rows * cols)], [TensorArg("y", F32, rows)]
    kernel = Kernel("row_sums", CPU, (rows,), (cols,), [Stage(body, True)], inputs, outputs, [], [rows, cols])
    call = compile_kernels([kernel], store=store).result()["row_sums"]
    for shape in ((1, 1), (3, 16), (5, 65), (2, 10_000), (100, 3), (0, 5)):
        x, y = torch.randn(shape), torch.empty(shape[0])
        call(x, y, *shape)
        torch.testing.assert_close(y, x.sum(1), rtol=1e-5, atol=1e-5)


def test_epilogue_may_use_outer_values(store):
    def body(i, r):
        total = ops.reduce("sum", ops.load("x", r[0] * 50 + i[0]), F32)
        ops.store_reduction("y", i[0], ops.mul(total, ops.load("w", i[0])))

    inputs = [TensorArg("x", F32, 1000), TensorArg("w", F32, 50)]
    kernel = Kernel("scaled", CPU, (50,), (20,), [Stage(body, True)], inputs, [TensorArg("y", F32, 50)])
    x, w, y = torch.randn(20, 50), torch.randn(50), torch.empty(50)
    compile_kernels([kernel], store=store).result()["scaled"](x, w, y)
    torch.testing.assert_close(y, x.sum(0) * w, rtol=1e-5, atol=1e-5)


def test_names_that_would_hide_something(store):
    names = ["exp", "load", "double", "N", "i0", "k", "u", "whole", "a.b"]
    out = names[-1]

    def body(i, r):
        total = ops.load(names[0], i[0])
        for name in names[1:-1]:
            total = ops.add(total, ops.exp(ops.load(name, i[0])))
        ops.store(out, i[0], total)

    inputs, outputs = [TensorArg(n, F32, 20) for n in names[:-1]], [TensorArg(out, F32, 20)]
    kernel = Kernel("template", CPU, (20,), (), [Stage(body, False)], inputs, outputs)
    tensors, y = [torch.randn(20) for _ in inputs], torch.empty(20)
    compile_kernels([kernel], store=store).result()["template"](*tensors, y)
    torch.testing.assert_close(y, tensors[0] + sum(t.exp() for t in tensors[1:]))


def test_generated_text_names_the_origin():
    text = write_kernel(make.softmax(8, 32).kernel, 16).text
    assert "// softmax" in text and "// loops: inner" in text


def test_half_stores_round_once():
    text = write_kernel(make.gelu(64, BF16).kernel, 16).text
    stored = next(line for line in text.splitlines() if "store(" in line)
    assert "round_bf16" not in stored


def test_unsupported_dtype_is_refused():
    kernel = Kernel("c", CPU, (4,), (), [], [TensorArg("x", torch.complex64, 4)], [])
    with pytest.raises(TypeError, match="complex64 has no C\\+\\+ form"):
        compile_kernels([kernel])
