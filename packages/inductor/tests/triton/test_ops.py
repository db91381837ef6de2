"""Every pointwise op of the vocabulary in every dtype it takes, against eager, on special values."""

import pytest
import torch
from triptych_inductor.loops import ops
from triptych_inductor.loops.table import OPS, result_dtype
from triton_kernels import pointwise, run

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 1.5, 3.0, -7.0, 1e-3, -1e-3, 20.0, -20.0, 1e4, float("nan"),
           float("inf"), float("-inf"), 0.25, 0.99, -0.99, 10.0, 1e-40]  # fmt: skip


def samples(dtype, arity):
    """Values that meet in many pairs; integers with their extremes."""
    generator = torch.Generator().manual_seed(7)
    if dtype is torch.bool:
        base = torch.tensor([True, False, True, True, False])
    elif dtype.is_floating_point:
        base = torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)
    else:
        info = torch.iinfo(dtype)
        base = torch.tensor(
            [0, 1, 2, 3, 7, 100, info.max, info.max - 1, info.min, -1 if info.min else 5, 4, 8], dtype=torch.int64
        )
        base = base.to(dtype)
    columns = []
    for k in range(arity):
        order = torch.randperm(len(base), generator=generator)
        columns.append(torch.cat([base, base[order], base.flip(0)]) if k else torch.cat([base, base, base]))
    return columns


EAGER = {
    "truediv": torch.true_divide, "floordiv": torch.floor_divide, "mod": torch.remainder, "neg": torch.neg,
    "add": lambda a, b: a | b if a.dtype is torch.bool else a + b,
    "mul": lambda a, b: a & b if a.dtype is torch.bool else a * b,
    "fma": lambda a, b, c: (a.double() * b.double() + c.double()).to(a.dtype) if a.is_floating_point() else a * b + c,
    "relu": torch.relu, "shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift,
    "fmod": torch.fmod, "sign": torch.sign, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round,
    "trunc": torch.trunc,
}  # fmt: skip
INTEGER_IDENTITY = {"floor", "ceil", "round", "trunc"}
NO_ZERO_DIVISOR = {"floordiv", "mod", "remainder", "fmod"}
NOT_IN_EAGER = {torch.uint16, torch.uint32, torch.uint64}
CASES = [
    (name, dtype)
    for name, row in OPS.items()
    for dtype in sorted(row.dtypes, key=str)
    if dtype not in NOT_IN_EAGER and not (dtype is torch.bool and name in ("sign", "abs"))
]


@pytest.mark.parametrize("name,dtype", CASES, ids=lambda v: str(v).removeprefix("torch."))
def test_op(name, dtype):
    row = OPS[name]
    inputs = samples(dtype, row.arity)
    if not dtype.is_floating_point and name in NO_ZERO_DIVISOR:
        inputs[1] = torch.where(inputs[1] == 0, torch.ones_like(inputs[1]), inputs[1])
    if name == "pow" and not dtype.is_floating_point:
        inputs[1] = inputs[1] % 11 - (3 if dtype.is_signed else 0)
    if name == "digamma":
        inputs[0] = torch.where(inputs[0].abs() > 100, torch.ones_like(inputs[0]), inputs[0])
    if name in INTEGER_IDENTITY and not dtype.is_floating_point:
        expected = inputs[0].clone()
    else:
        expected = _eager(name, inputs)
    out = torch.empty(inputs[0].shape, dtype=result_dtype(name, (dtype,) * row.arity))
    run(pointwise(getattr(ops, name), *inputs, out_dtype=out.dtype), *inputs, out)
    torch.testing.assert_close(out, expected.to(out.dtype), equal_nan=True)
    if dtype.is_floating_point and name in ("neg", "copysign", "minimum", "trunc", "floor", "round"):
        zeros = (out == 0) & (expected == 0) if name != "minimum" else torch.zeros_like(out, dtype=torch.bool)
        assert torch.equal(torch.signbit(out[zeros]), torch.signbit(expected.to(out.dtype)[zeros]))


def _eager(name, inputs):
    wide = inputs
    if inputs[0].dtype in (torch.float16, torch.bfloat16) and name not in ("nextafter",):
        wide = [t.float() for t in inputs]
    if name == "pow" and not inputs[0].is_floating_point() and inputs[0].dtype is not torch.bool:
        return _integer_pow(*inputs)
    if inputs[0].dtype is torch.bool and name in ("lt", "le", "gt", "ge", "eq", "ne"):
        wide = [t.int() for t in inputs]
    function = EAGER.get(name) or getattr(torch, name, None) or getattr(torch, "bitwise_" + name, None)
    return function(*wide)


def _integer_pow(base, exponent):
    bits = torch.iinfo(base.dtype).bits
    low = torch.iinfo(base.dtype).min
    out = []
    for b, e in zip(base.tolist(), exponent.tolist()):
        value = b**e if e >= 0 else (1 if b == 1 else (-1) ** (e & 1) if b == -1 else 0)
        value %= 1 << bits
        out.append(value - (1 << bits) if low < 0 and value >= 1 << (bits - 1) else value)
    return torch.tensor(out, dtype=base.dtype)


@pytest.mark.parametrize("name", ["add", "mul", "floordiv", "shift_right", "lt", "maximum"])
@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32], ids=str)
def test_wide_unsigned(name, dtype):
    a, b = (t.to(torch.int64) % torch.iinfo(dtype).max for t in samples(torch.int64, 2))
    b = b % 13 + 1
    a_, b_ = a.to(dtype), b.to(dtype)
    out = torch.empty(a.shape, dtype=torch.bool if name == "lt" else dtype)
    run(pointwise(getattr(ops, name), a_, b_, out_dtype=out.dtype), a_, b_, out)
    function = EAGER.get(name) or getattr(torch, name)
    expected = function(a, b)
    if name != "lt":
        expected = expected % (torch.iinfo(dtype).max + 1)
    assert torch.equal(out.to(torch.int64), expected.to(torch.int64))


CASTS = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
         torch.float32, torch.float64]  # fmt: skip


@pytest.mark.parametrize("source", CASTS, ids=str)
@pytest.mark.parametrize("target", CASTS, ids=str)
def test_cast(source, target):
    (a,) = samples(source, 1)
    if source.is_floating_point and not target.is_floating_point:
        a = torch.where(a.isfinite() & (a.abs() < 100), a, torch.ones_like(a))
    out = torch.empty(a.shape, dtype=target)
    run(pointwise(lambda v: ops.cast(v, target), a, out_dtype=target), a, out)
    assert torch.equal(out.view(torch.uint8), a.to(target).view(torch.uint8)) or torch.allclose(
        out.double(), a.to(target).double(), rtol=0, atol=0, equal_nan=True
    )


def test_bitcast_where_and_constants():
    a = torch.tensor(SPECIAL, dtype=torch.float32)

    def function(value):
        bits = ops.bitcast(value, torch.int32)
        flipped = ops.bitwise_xor(bits, ops.constant(-(2**31), torch.int32))
        return ops.where(
            ops.isnan(value), ops.constant(float("-inf"), torch.float32), ops.bitcast(flipped, torch.float32)
        )

    out = torch.empty_like(a)
    run(pointwise(function, a, out_dtype=torch.float32), a, out)
    expected = torch.where(a.isnan(), float("-inf"), -a)
    torch.testing.assert_close(out, expected, rtol=0, atol=0)
    assert torch.equal(out.signbit(), expected.signbit())


@pytest.mark.parametrize(
    "value,dtype", [(2**63 - 1, torch.int64), (-(2**63), torch.int64), (255, torch.uint8), (True, torch.bool)]
)
def test_extreme_constants(value, dtype):
    a = torch.zeros(3, dtype=dtype)
    out = torch.zeros(3, dtype=dtype)
    run(pointwise(lambda v: ops.where(ops.ne(v, v), v, ops.constant(value, dtype)), a, out_dtype=dtype), a, out)
    assert out.tolist() == [value] * 3


def test_division_by_a_power_of_two_is_a_product():
    a = torch.tensor(SPECIAL, dtype=torch.float32)
    out = torch.empty_like(a)
    function = lambda v: ops.truediv(v, ops.constant(-64.0, torch.float32))  # noqa: E731
    program = run(pointwise(function, a, out_dtype=a.dtype), a, out)
    assert "div" not in program.functions[0].source.split("\n", 3)[3]
    torch.testing.assert_close(out, a / -64.0, rtol=0, atol=0, equal_nan=True)
