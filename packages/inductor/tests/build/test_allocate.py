"""Tensors of fixed forms, made in C: as `torch.empty_strided` and `as_strided` make them, under modes too."""

import gc
import weakref

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from triptych_inductor.runtime import allocate, native, objects

DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool, torch.uint8, torch.int8, torch.int16),
    *(torch.int32, torch.int64, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.uint16, torch.uint64),
]
FORMS = [
    *(((), ()), ((3,), (1,)), ((2, 3), (3, 1)), ((2, 3), (1, 2)), ((4, 1, 2), (9, 9, 2)), ((0, 3), (3, 1))),
    ((5,), (0,)),
]


@pytest.fixture(params=["c", "python"])
def makers(request, monkeypatch):
    """Both ways of making tensors."""
    if request.param == "python":
        monkeypatch.setattr(objects, "native", lambda: None)
    else:
        assert objects.native() is not None
    return allocate.new.__wrapped__, allocate.window.__wrapped__


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_new(makers, dtype):
    for size, stride in FORMS:
        made = makers[0](size, stride, dtype)()
        plain = torch.empty_strided(size, stride, dtype=dtype)
        assert type(made) is torch.Tensor and made.device == plain.device and not made.requires_grad
        assert (made.size(), made.stride(), made.dtype) == (plain.size(), plain.stride(), plain.dtype)
        assert made.untyped_storage().nbytes() == plain.untyped_storage().nbytes()
        if made.numel() and 0 not in stride:
            made.fill_(1)
            assert made.eq(1).all()


def test_each_call_makes_another(makers):
    make = makers[0]((4,), (1,), torch.float32)
    a, b = make(), make()
    assert a.data_ptr() != b.data_ptr()
    gone, storage = weakref.ref(a), StorageWeakRef(a.untyped_storage())
    del a
    gc.collect()
    assert gone() is None and storage.expired()


def test_windows(makers):
    base = torch.arange(60.0)
    for size, stride, offset in [((2, 3), (3, 1), 5), ((), (), 7), ((4,), (2,), 0), ((0,), (1,), 3)]:
        made, plain = makers[1](size, stride, offset)(base), base.as_strided(size, stride, offset)
        assert torch.equal(made, plain) and made.stride() == plain.stride()
        assert made.storage_offset() == plain.storage_offset() and made.dtype == base.dtype
        made.fill_(-1)
        assert torch.equal(made, plain)
    part, weight = torch.arange(20.0)[4:], torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    assert torch.equal(makers[1]((2, 2), (2, 1), 3)(part), part[3:7].view(2, 2))
    with torch.no_grad():
        turned = makers[1]((3, 2), (1, 3), 0)(weight)
    assert torch.equal(turned, weight.t()) and turned.data_ptr() == weight.data_ptr()
    kept = makers[1]((3,), (1,), 2)(torch.arange(9))
    gc.collect()
    assert kept.tolist() == [2, 3, 4]  # it holds the memory


def test_under_modes(makers, seen):
    """Fake tensors come out of a fake mode, and whoever counts operators sees these."""
    make, window = makers[0]((2, 3), (3, 1), torch.float32), makers[1]((2,), (1,), 1)
    with FakeTensorMode():
        made = make()
        assert isinstance(made, FakeTensor) and isinstance(window(made), FakeTensor)
    with seen:
        window(make())
    assert seen.operators == ["aten.empty_strided.default", "aten.as_strided.default"]


def test_inference_tensors(makers):
    make = makers[0]((2,), (1,), torch.float32)
    with torch.inference_mode():
        assert make().is_inference()
    assert not make().is_inference()


def test_no_memory_is_torchs_error(makers, capfd):
    make = makers[0]((2**50,), (1,), torch.float32)
    with pytest.raises(RuntimeError, match="allocate"):
        make()


def test_wrong_calls(makers):
    with pytest.raises((TypeError, AttributeError)):
        makers[1]((2,), (1,), 0)()
    with pytest.raises((TypeError, AttributeError)):
        makers[1]((2,), (1,), 0)(7)


def test_python_serves_where_that_is_asked_for(monkeypatch):
    objects.load.cache_clear()
    monkeypatch.setenv(objects.SWITCH, "1")
    try:
        assert objects.native() is None
    finally:
        objects.load.cache_clear()


def test_without_a_compiler_python_serves(monkeypatch):
    def missing():
        raise objects.CompilerNotFoundError("none here")

    objects.load.cache_clear()
    monkeypatch.setattr(native, "find_compiler", missing)
    try:
        assert objects.native() is None
        assert allocate.new.__wrapped__((2,), (1,), torch.int64)().shape == (2,)
    finally:
        objects.load.cache_clear()
