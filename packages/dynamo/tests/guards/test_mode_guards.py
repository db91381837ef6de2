"""Guards on modes, in C (by the C ABI and by attribute) and in the Python twin."""

import contextlib

import pytest
import torch
from guard_verdicts import holds, make_function, reason
from torch.utils._python_dispatch import TorchDispatchMode
from triptych_dynamo.guards.facts import Guard
from triptych_dynamo.guards.program import compile_guards


@contextlib.contextmanager
def autocast_switch(device):
    """Autocast of a device that need not be there."""
    torch.set_autocast_enabled(device, True)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device, False)


@contextlib.contextmanager
def function_transform():
    """The inside of a vmap."""
    torch._C._functorch._vmap_increment_nesting(2, "error")
    try:
        yield
    finally:
        torch._C._functorch._vmap_decrement_nesting()


@pytest.mark.parametrize(
    "name,expected,enter",
    [
        ("grad_mode", True, torch.no_grad),
        ("inference_mode", False, torch.inference_mode),
        ("autocast_cpu", False, lambda: torch.autocast("cpu")),
        ("autocast_cuda", False, lambda: autocast_switch("cuda")),
        ("autocast_cpu_dtype", torch.bfloat16, lambda: torch.autocast("cpu", dtype=torch.float16)),
        ("dispatch_modes", 0, TorchDispatchMode),
        ("function_modes", 0, lambda: torch.device("cpu")),
        ("function_transforms", 0, function_transform),
        ("default_device", torch.device("cpu"), lambda: torch.device("meta")),
    ],
)
def test_modes(binding, name, expected, enter):
    guard = Guard("mode", None, (name, expected))
    assert holds(guard, 0)
    with enter():
        assert f"{name} is" in reason(guard, 0)
        other = Guard("mode", None, (name, not expected if isinstance(expected, bool) else 0))
        assert holds(other, 0) == isinstance(expected, bool)
    assert holds(guard, 0)


def test_process_wide_modes(binding):
    dtype, deterministic = (
        Guard("mode", None, ("default_dtype", torch.float32)),
        Guard("mode", None, ("deterministic", False)),
    )
    assert holds([dtype, deterministic], 0)
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    try:
        assert reason(dtype, 0) and reason(deterministic, 0)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)


def test_autocast_of_one_device_only():
    off = [Guard("mode", None, ("autocast_cpu", False)), Guard("mode", None, ("grad_mode", True))]
    with autocast_switch("cuda"):
        assert holds(off, 0)
    with torch.autocast("cpu"):
        assert not holds(off, 0)
        assert holds(Guard("mode", None, ("autocast_cpu", True)), 0)


def test_modes_of_each_thread():
    import threading

    fn = make_function()
    names = ("autocast_cpu", "autocast_cuda", "autocast_xpu")
    guards = [Guard("mode", None, (name, False)) for name in names] + [Guard("mode", None, ("inference_mode", False))]
    program = compile_guards(guards, fn.__code__)
    seen = []

    def other():
        seen.append(program.failed((0, 0), fn))
        with torch.autocast("cpu"):
            seen.append(program.failed((0, 0), fn))
            barrier.wait()
            barrier.wait()
            seen.append(program.failed((0, 0), fn))

    barrier = threading.Barrier(2)
    thread = threading.Thread(target=other)
    thread.start()
    barrier.wait()
    mine = [program.failed((0, 0), fn) for _ in range(3)]
    barrier.wait()
    thread.join()
    assert mine == [None] * 3 and seen[0] is None and seen[1] is not None and seen[2] is not None
