"""Calls of torch's library by its C functions: values, errors and who sees them are those of the Python functions."""

import threading

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from triptych_inductor.runtime import calls, objects

PARTS = {
    "mm": ((3, 4), (4, 5)),
    "bmm": ((2, 3, 4), (2, 4, 5)),
    "addmm": ((5,), (3, 4), (4, 5)),
    "baddbmm": ((2, 1, 5), (2, 3, 4), (2, 4, 5)),
}


def _numbers(size, dtype):
    return torch.randn(size, dtype=dtype) if dtype.is_floating_point or dtype.is_complex else torch.randint(9, size)


@pytest.fixture(params=["c", "python"])
def made(request, monkeypatch):
    """Functions made by both ways."""
    if request.param == "python":
        monkeypatch.setattr(objects, "native", lambda: None)
    else:
        assert objects.native() is not None
        if hasattr(objects.torch_library("cpu"), "aoti_torch_cpu_mm_out"):
            assert calls.product.__wrapped__("mm", "cpu") is not torch.mm
    return lambda kind, *args: getattr(calls, kind).__wrapped__(*args)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.complex64], ids=str)
@pytest.mark.parametrize("name", PARTS)
@torch.no_grad()
def test_products(made, name, dtype):
    function, plain = made("product", name, "cpu"), getattr(torch, name)
    given = [_numbers(size, dtype) for size in PARTS[name]]
    turned = [t.mT.contiguous().mT if t.ndim > 1 else t for t in given]
    for tensors in (given, turned, [torch.nn.Parameter(t, requires_grad=False) for t in given]):
        out = torch.empty_like(plain(*tensors))
        assert function(*tensors, out=out) is out
        assert torch.equal(out, plain(*tensors))


@torch.no_grad()
def test_lazy_conjugates_and_negatives(made):
    a, b = torch.randn(2, 2, dtype=torch.complex64), torch.randn(2, 2, dtype=torch.complex64)
    mm = made("product", "mm", "cpu")
    torch.testing.assert_close(mm(a.conj(), b, out=torch.empty_like(a)), a.conj() @ b)
    negative = a.conj().imag
    assert negative.is_neg()
    torch.testing.assert_close(mm(negative, b.real, out=torch.empty(2, 2)), negative @ b.real)


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_convolutions(made, bias):
    x, w, b = torch.randn(2, 4, 9, 8), torch.randn(6, 2, 3, 3), torch.randn(6) if bias else None
    for numbers in [
        ((1, 1), (0, 0), (1, 1), False, (0, 0), 2),
        ((2, 1), (1, 2), (1, 2), False, (0, 0), 2),
        ((2, 2), (1, 1), (1, 1), True, (1, 0), 1),
    ]:
        weight = w.repeat(1, 1, 1, 1) if not numbers[3] else torch.randn(4, 6, 3, 3)
        result, wanted = made("convolution", "cpu", *numbers)(x, weight, b), torch.convolution(x, weight, b, *numbers)
        assert torch.equal(result, wanted) and result.stride() == wanted.stride() and not result.requires_grad
    line = ((1,), (0,), (1,), False, (0,), 1)
    signal, kernel = torch.randn(2, 4, 9), torch.nn.Parameter(torch.randn(6, 4, 3))
    wanted = torch.convolution(signal, kernel, b, *line)
    torch.testing.assert_close(made("convolution", "cpu", *line)(signal, kernel, b), wanted)


def test_lists_of_other_lengths(made):
    x, w = torch.randn(2, 4, 9, 8), torch.randn(6, 4, 3, 3)
    numbers = ((1,), (1,), (1,), False, (0,), 1)
    assert torch.equal(made("convolution", "cpu", *numbers)(x, w, None), torch.convolution(x, w, None, *numbers))
    mixed = ((1, 2), (1,), (1,), False, (0,), 1)
    assert torch.equal(made("convolution", "cpu", *mixed)(x, w, None), torch.convolution(x, w, None, *mixed))


def test_layout(made):
    laid_out, tensor = made("layout"), torch.arange(24.0).reshape(2, 3, 4)
    assert laid_out(tensor, (12, 4, 1)) is tensor and laid_out(None, (1,)) is None
    turned = laid_out(tensor, (12, 1, 3))
    assert turned.stride() == (12, 1, 3) and torch.equal(turned, tensor)
    single = torch.ones(3, 1)
    assert laid_out(single, (1, 7)) is single


def test_errors_are_torchs(made, capfd):
    a, b = torch.randn(2, 3), torch.randn(4, 5)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        made("product", "mm", "cpu")(a, b, out=torch.empty(2, 5))
    with pytest.raises(TypeError):
        made("product", "mm", "cpu")(a, 3, out=torch.empty(2, 5))
    with pytest.raises(TypeError):
        made("product", "mm", "cpu")(a)
    with pytest.raises(RuntimeError, match="channels"):
        made("convolution", "cpu", (1, 1), (0, 0), (1, 1), False, (0, 0), 1)(
            torch.randn(1, 3, 5, 5), torch.randn(2, 2, 3, 3), None
        )


@torch.no_grad()
def test_those_who_watch_see_them(made, seen):
    mm = made("product", "mm", "cpu")
    convolution = made("convolution", "cpu", (1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    a, x, w = torch.randn(3, 3), torch.randn(1, 2, 4, 4), torch.randn(2, 2, 3, 3)
    with seen:
        mm(a, a, out=torch.empty_like(a))
        convolution(x, w, None)
    assert seen.operators[-2:] == ["aten.mm.out", "aten.convolution.default"]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        mm(a, a, out=torch.empty_like(a))
        convolution(x, w, None)
    assert {"aten::mm", "aten::convolution"} <= {event.key for event in profile.key_averages()}
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        made_fake = convolution(fake, mode.from_tensor(w), None)
        assert isinstance(made_fake, FakeTensor) and made_fake.shape == (1, 2, 2, 2)


@torch.no_grad()
def test_subclasses_see_them(made):
    seen = []

    class Marked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    a = torch.randn(3, 3)
    made("product", "mm", "cpu")(a.as_subclass(Marked), a, out=torch.empty(3, 3))
    assert seen == [torch.mm]


@torch.no_grad()
def test_other_threads_run_meanwhile(made):
    """The interpreter's lock is given up: a thread that counts does not wait for a long product."""
    big, mm = torch.randn(2500, 2500), made("product", "mm", "cpu")
    out, done, counted = torch.empty_like(big), threading.Event(), []

    def count():
        while not done.is_set():
            counted.append(1)
            done.wait(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = len(counted)
    mm(big, big, out=out)
    after = len(counted)
    done.set()
    thread.join()
    assert after > before


def test_a_library_that_torch_lacks():
    assert calls.product.__wrapped__("mm", "nothing") is torch.mm
