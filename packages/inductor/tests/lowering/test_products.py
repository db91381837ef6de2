"""Products with odd sizes, made of operands with room around them, as on GPUs: right, and without needless copies."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from triptych_inductor.ir import alignment
from triptych_inductor.lowering import products


@pytest.fixture(autouse=True)
def as_on_gpus(monkeypatch):
    monkeypatch.setitem(alignment.ALIGNMENT, "cpu", 16)
    monkeypatch.setattr(alignment, "LEAST_WORK", 1)
    monkeypatch.setattr(products, "LEAST_ROWS", 32)
    monkeypatch.setattr(products, "LAST_ROWS", 8)


def half(*size):
    return torch.randn(size).to(torch.bfloat16)


LOOSE = {"rtol": 4e-2, "atol": 4e-2}


def test_result_has_room(check):
    def fn(x, w, t):
        y = (x @ w).view(3, 2, -1)
        return torch.log_softmax(y.float(), -1), y.sum(0), y[:, 1].relu() @ t, x @ w + 1

    compiled = check(fn, half(6, 8), half(8, 521), half(521, 4), **LOOSE)
    assert "(6, 528)" in compiled.source


def test_room_is_zero_where_it_is_summed(check):
    """Inner size: both operands are filled up with zeros, whatever the memory held."""
    for _ in range(3):
        torch.full((64, 64), float("nan")).to(torch.bfloat16)  # memory that is likely to be given out again
        check(lambda a, b: (a * 2) @ (b * 2), half(24, 13), half(13, 16), **LOOSE)
        check(lambda a, b: a @ b, half(24, 13), half(13, 16), **LOOSE)
        check(lambda a, b: a.t() @ b.t(), half(13, 24), half(16, 13), **LOOSE)


@pytest.mark.parametrize("rows", [8, 5])
@pytest.mark.parametrize("inner", [8, 11])
@pytest.mark.parametrize("columns", [16, 9])
@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
def test_all_sizes_and_layouts(check, rows, inner, columns, transposed):
    a = half(inner, rows).t() if "a" in transposed else half(rows, inner)
    b = half(columns, inner).t() if "b" in transposed else half(inner, columns)

    def fn(a, b, bias):
        made = (a * 1.5) @ (b + 0)
        return made, a @ b, torch.addmm(bias, a, b), (made.relu() * 2).sum(0), made @ made.t()

    check(fn, a, b, half(columns), **LOOSE)


def test_a_vocabularys_backward_copies_nothing(check):
    """The gradient of the logits is stored with room once and read by two products and a sum."""

    def fn(grad, log, w, x):
        inner = torch.ops.aten._log_softmax_backward_data(grad, log, -1, torch.float32).to(torch.bfloat16)
        flat = inner.view(12, 521)
        return flat @ (w * 1), flat.t() @ x, inner.sum((0, 1))

    grad, log = torch.randn(3, 4, 521), torch.log_softmax(torch.randn(3, 4, 521), -1)
    compiled = check(fn, grad, log, half(521, 8), half(12, 8), **LOOSE)
    assert compiled.source.count("(3, 4, 528)") == 1 and "(12, 521)" not in compiled.source
    assert "(528, 8)" in compiled.source  # the weight, and the gradient of the weight (one takes over memory)
    assert "(521, 8)" in compiled.source  # which is returned as a window


def test_operand_that_is_returned_keeps_its_rows(check):
    def fn(grad, w):
        made = (grad * 2).to(torch.bfloat16)
        return made @ w, made

    check(fn, torch.randn(16, 521), half(521, 8), **LOOSE)


def test_one_copy_for_several_products(check):
    compiled = check(lambda a, b, w: (a @ w, b @ w), half(16, 13), half(24, 13), half(13, 8), **LOOSE)
    assert compiled.source.count("_16x8()") == 2  # w with room, and the first product


@pytest.mark.parametrize("rows", [17, 64, 90])
def test_returned_products_are_made_in_pieces(check, rows):
    x, w, b = half(rows, 8), half(8, 521), half(521)
    compiled = check(lambda x, w: (x @ w).view(1, rows, 521), x, w, **LOOSE)
    made = len(products.pieces(rows, 521, 528, 8)) + 1 if rows >= 32 else 1
    assert compiled.source.count("mm(") == made
    assert rows < 32 or compiled.source.count(" = new_") == 2  # the result and the weight: no memory for pieces
    compiled = check(lambda x, w, b: torch.addmm(b, x, w), x, w, b, **LOOSE)
    assert compiled.source.count("mm(") == made
    check(lambda x, w, b: torch.addmm(b, x, w), x, w, half(rows, 521), **LOOSE)
    check(lambda x, w, b: torch.addmm(b, x.t(), w), half(8, rows), w, half(1, 521), **LOOSE)
    check(lambda x, w: (x @ w, (x @ w).view(1, rows, 521), (x @ w) * 2), x, w, **LOOSE)


@given(st.integers(1, 5000), st.integers(1, 60000), st.sampled_from([4, 8]))
def test_pieces_follow_each_other_and_lie_behind_their_place(rows, columns, step):
    wide, done = -(-columns // step) * step, 0
    for start, count, offset in products.pieces(rows, columns, wide, step):
        assert start == done and count > 0 and offset % step == 0
        assert (start + count) * columns <= offset <= rows * columns - count * wide
        done = start + count
    assert rows - done <= products.LAST_ROWS or columns < 5 * step


def test_scaled_products_are_made_as_they_are(check):
    check(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), half(9), half(5, 11), half(11, 9), **LOOSE)


def test_small_and_even_products_are_made_as_they_are(check, monkeypatch):
    compiled = check(lambda a, b: a @ b, half(8, 16), half(16, 24), **LOOSE)
    assert not compiled.kernels
    monkeypatch.setattr(alignment, "LEAST_WORK", 1 << 31)
    assert not check(lambda a, b: a @ b, half(5, 11), half(11, 9), **LOOSE).kernels


def test_other_types_are_made_as_they_are(check):
    assert not check(lambda a, b: a @ b, torch.randn(5, 11), torch.randn(11, 9)).kernels
