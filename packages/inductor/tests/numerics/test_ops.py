"""Every pointwise op in every dtype against eager: special values, whole vectors, partial vectors."""

from __future__ import annotations

import pytest
import torch
from op_cases import DTYPES, cases, operands, ops_kernel, ops_of, reference, result_type, short
from triptych_inductor.build.cache import Store
from triptych_inductor.loops.table import OPS
from triptych_inductor.runtime import compile_kernels

ULPS = {torch.float32: 2.5, torch.float64: 4.0}
MORE_ULPS = {("digamma", torch.float64): 16.0, ("lgamma", torch.float64): 16.0, ("erfinv", torch.float64): 8.0}
# Eager's vector code is wrong or less exact here: the reference is made in float64.
IN_DOUBLE = {"sinh", "cosh", "erf", "fma", "mod", "remainder", "fmod"}
# float16 and bfloat16: how many neighbours apart results may lie. Eager rounds inside these, or has a coarser method.
HALF_STEPS = {"floordiv": 2, "fma": 1}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    store = Store("cpp", tmp_path_factory.mktemp("cache"))
    kernels = [ops_kernel(dtype, arity) for dtype in DTYPES for arity in (1, 2, 3) if ops_of(dtype, arity)]
    return compile_kernels(kernels, store=store).result()


@pytest.fixture(scope="module")
def results(library):
    """(op, dtype) -> what the kernel gives for `operands`."""
    found = {}
    for dtype in DTYPES:
        for arity in (1, 2, 3):
            if ops_of(dtype, arity):
                found.update(run(library, dtype, arity, operands(dtype, arity)))
    return found


def run(library, dtype, arity, tensors):
    names, n = ops_of(dtype, arity), tensors[0].numel()
    outputs = [torch.empty(n, dtype=result_type(name, dtype)) for name in names]
    library[f"ops{arity}_{short(dtype)}"](*tensors, *outputs, n)
    return {(name, dtype): out for name, out in zip(names, outputs, strict=True)}


def expected(name, dtype, tensors):
    """Eager's result in `dtype`, and the float64 reference for float32 and double."""
    if dtype is torch.bool and name in ("abs", "sign"):
        return tensors[0], None
    wide = [t.double() for t in tensors] if dtype.is_floating_point else tensors
    precise = reference(name)(*wide)
    if not dtype.is_floating_point:
        return precise, None
    if (
        OPS[name].result == "bool"
        or (name not in IN_DOUBLE and dtype in (torch.float16, torch.bfloat16))
        or name == "nextafter"
    ):
        return reference(name)(*tensors), None
    want = precise.to(dtype) if name in IN_DOUBLE else reference(name)(*tensors)
    return want, precise if dtype in ULPS else None


def steps_apart(a, b):
    """How many neighbouring numbers of a half type lie between."""
    order = lambda t: torch.where(
        t.view(torch.int16) < 0, -(t.view(torch.int16).int() & 0x7FFF), t.view(torch.int16).int()
    )  # noqa: E731
    return (order(a) - order(b)).abs()


def assert_float(name, dtype, got, want, precise, tensors):
    finite = got.isfinite() & want.isfinite()
    same = (got == want) | (got.isnan() & want.isnan())
    bad = ~finite & ~same
    if precise is not None:
        near = want.abs()
        unit = (torch.nextafter(near, torch.full_like(near, float("inf"))) - near).double()
        limit = MORE_ULPS.get((name, dtype), ULPS[dtype])
        bad |= finite & ((got.double() - precise).abs() > limit * unit)
    elif dtype in (torch.float16, torch.bfloat16):
        bad |= finite & (steps_apart(got, want) > HALF_STEPS.get(name, 1))
    else:
        bad |= finite & ~same
    bad |= (
        (got == 0)
        & (want == 0)
        & (got.signbit() != want.signbit())
        & torch.tensor(name not in ("fma", "minimum", "maximum"))
    )
    if name == "fma":  # one rounding instead of two: an infinity of the product may be a number here
        bad &= want.isfinite() & (
            (got - want).abs() > torch.finfo(dtype).eps * torch.maximum(want.abs(), tensors[2].abs())
        )
    if name in ("mod", "remainder", "fmod"):  # eager's vector code gives NaN where the quotient overflows
        bad &= (tensors[0] / tensors[1]).isfinite()
    assert not bad.any(), describe(bad, got, want, tensors)


def describe(bad, got, want, tensors):
    rows = bad.nonzero()[:5, 0].tolist()
    return "; ".join(f"{[t[k].item() for t in tensors]}: got {got[k].item()}, want {want[k].item()}" for k in rows)


@pytest.mark.parametrize(("name", "dtype"), cases(), ids=lambda v: v if isinstance(v, str) else short(v))
def test_op_agrees_with_eager(results, name, dtype):
    tensors = operands(dtype, OPS[name].arity)
    got = results[name, dtype]
    want, precise = expected(name, dtype, tensors)
    assert want.dtype is got.dtype
    if got.dtype.is_floating_point:
        assert_float(name, dtype, got, want, precise, tensors)
    else:
        bad = got != want
        assert not bad.any(), describe(bad, got, want, tensors)


@pytest.mark.parametrize("dtype", DTYPES, ids=short)
@pytest.mark.parametrize("arity", [1, 2, 3])
def test_partial_vectors_give_the_same_bits(library, results, dtype, arity):
    if not ops_of(dtype, arity):
        pytest.skip("no op of this arity")
    tensors = operands(dtype, arity)
    for n in range(1, min(66, tensors[0].numel())):
        for name_dtype, out in run(library, dtype, arity, [t[:n].contiguous() for t in tensors]).items():
            whole = results[name_dtype][:n]
            assert torch.equal(as_bits(out), as_bits(whole)), (name_dtype, n)


def as_bits(t):
    return t.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[t.element_size()])
