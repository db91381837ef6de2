"""Wrong input over the whole road: a clear error, and nothing is lost."""

import traceback
import warnings

import pytest
import torch
import triptych
from triptych.errors import CompileFallbackWarning


def program(x):
    return (x.sin() + 1).sum(-1)


def test_no_compiler_gives_one_warning_and_eager_results(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", str(tmp_path / "no-such-compiler"))
    monkeypatch.setenv("TRIPTYCH_CACHE_DIR", str(tmp_path / "cache"))
    compiled = triptych.compile(program)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for shape in ((3, 4), (3, 4, 5)):
            x = torch.randn(shape, requires_grad=True)
            got = compiled(x)
            torch.testing.assert_close(got, program(x))
            got.sum().backward()
            torch.testing.assert_close(x.grad, x.detach().cos())
    told = [w for w in caught if issubclass(w.category, CompileFallbackWarning)]
    assert len(told) == 1 and "C++ compiler" in str(told[0].message)


def test_a_failing_compiler_raises_or_falls_back_as_asked(monkeypatch):
    import triptych_inductor

    def fault(*args, **kwargs):
        raise AssertionError("a fault of the compiler")

    monkeypatch.setattr(triptych_inductor, "compile", fault)
    x = torch.randn(3, 4)
    with pytest.raises(Exception, match="a fault of the compiler"):
        triptych.compile(program)(x)
    with pytest.warns(CompileFallbackWarning, match="a fault of the compiler"):
        compiled = triptych.compile(program, on_error="eager")
        torch.testing.assert_close(compiled(x), program(x))
    assert "fault" in triptych.report(compiled).stages[0].failure


def raises_late(x, limit):
    y = x * 2
    if limit > 3:
        raise OverflowError(f"limit {limit}")
    return y


@pytest.mark.parametrize("fullgraph", [False, True])
def test_users_exception_has_its_type_and_traceback(fullgraph):
    compiled = triptych.compile(raises_late, fullgraph=fullgraph)
    torch.testing.assert_close(compiled(torch.ones(2), 1), torch.full((2,), 2.0))
    with pytest.raises(OverflowError, match="limit 5") as caught:
        compiled(torch.ones(2), 5)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert any(frame.name == "raises_late" and "raise OverflowError" in frame.line for frame in frames)
    torch.testing.assert_close(compiled(torch.ones(2), 1), torch.full((2,), 2.0))


def test_index_out_of_range_raises_as_eager():
    def pick(table, index):
        return table[index] + 1

    table, index = torch.arange(10.0), torch.tensor([1, 10])
    with pytest.raises(IndexError):
        pick(table, index)
    with pytest.raises(IndexError):
        triptych.compile(pick)(table, index)


def test_wrong_arguments_raise_pythons_own_error():
    compiled = triptych.compile(program, backend="eager")
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        compiled()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        compiled(torch.ones(2), z=1)


def test_shape_errors_are_eagers():
    def product(a, b):
        return a @ b

    a, b = torch.ones(2, 3), torch.ones(4, 5)
    with pytest.raises(RuntimeError) as eager:
        product(a, b)
    with pytest.raises(RuntimeError) as compiled:
        triptych.compile(product)(a, b)
    assert str(compiled.value) == str(eager.value)
