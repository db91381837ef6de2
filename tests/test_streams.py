"""Streams, events and current devices of programs, on a GPU: as in eager, with breaks where they are entered."""

from __future__ import annotations

import pytest
import torch
import triptych

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def on_a_stream(x: torch.Tensor) -> torch.Tensor:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = (x @ x).relu() * 2
    torch.cuda.current_stream().wait_stream(side)
    return y + 1


def with_events(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    y = (x @ x).sin()
    end.record()
    end.synchronize()
    return y * 2, start.elapsed_time(end) >= 0


def synchronized(x: torch.Tensor) -> torch.Tensor:
    y = x.exp()
    torch.cuda.synchronize()
    return y.log() - x


def on_a_device(x: torch.Tensor) -> tuple[torch.Tensor, int, torch.device]:
    with torch.cuda.device(torch.cuda.device_count() - 1):
        y = torch.ones(4, device="cuda") * 2
        index = torch.cuda.current_device()
    return x + 1, index, y.device


def assert_as_wanted(got: object, want: object) -> None:
    """Tensors are close; everything else (numbers, flags, devices) is equal."""
    results, wanted = (value if isinstance(value, tuple) else (value,) for value in (got, want))
    assert len(results) == len(wanted)
    for ours, its in zip(results, wanted, strict=True):
        if isinstance(its, torch.Tensor):
            torch.testing.assert_close(ours, its)
        else:
            assert type(ours) is type(its) and ours == its


@pytest.mark.parametrize("function", [on_a_stream, with_events, synchronized, on_a_device])
def test_as_in_eager(function):
    x = torch.randn(64, 64, device="cuda")
    compiled = triptych.compile(function)
    for _ in range(3):
        got, want = compiled(x), function(x)
        torch.cuda.synchronize()
        assert_as_wanted(got, want)
    assert torch.cuda.current_device() == 0 and torch.cuda.current_stream() == torch.cuda.default_stream()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_the_callers_device_counts():
    compiled = triptych.compile(lambda x: x + torch.ones(3, device="cuda").sum().cpu())
    for index in (0, 1, 0):
        with torch.cuda.device(index):
            assert compiled(torch.zeros(2)).tolist() == [3.0, 3.0]
    made = triptych.compile(lambda x: (x * 2, torch.ones(3, device="cuda")))
    for index in (0, 1, 0):
        with torch.cuda.device(index):
            assert made(torch.zeros(2))[1].device.index == index


def test_kernels_follow_the_current_stream():
    """A compiled graph that is called under a stream is queued on it."""
    compiled = triptych.compile(lambda x: x.sin() * 2)
    x = torch.randn(1 << 20, device="cuda")
    want = x.sin() * 2
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        got = compiled(x)
    side.synchronize()
    torch.testing.assert_close(got, want)
