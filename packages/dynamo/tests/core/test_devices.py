"""The current device: a graph that names devices without their numbers holds for one current device."""

import pytest
import torch
import triptych_dynamo
from triptych_dynamo.trace import devices


@pytest.fixture
def two_devices(monkeypatch):
    """A machine with two GPUs, as far as questions go."""
    current = [0]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: current[0])
    return current


def made(x):
    return x.sum(), torch.ones(3, device="cuda")


def by_context(x):
    with torch.device("cuda"):
        return x.sum(), torch.zeros(2)


@pytest.mark.parametrize("function", [made, by_context])
def test_devices_without_a_number_are_guarded(function, two_devices):
    graph = triptych_dynamo.capture(function)(torch.ones(2))
    (guard,) = [guard for guard in graph.guards if "current_device" in str(guard)]
    assert "torch.cuda.current_device() == 0" in str(guard)
    two_devices[0] = 1
    with pytest.raises(triptych_dynamo.GuardViolation, match="current_device"):
        graph(torch.ones(2))


def numbered(x):
    return x.sum(), torch.ones(3, device="cuda:1"), torch.ones(3, device="cpu"), x.to("cpu")


def test_numbered_devices_are_not(two_devices):
    graph = triptych_dynamo.capture(numbered)(torch.ones(2))
    assert not any("current_device" in str(guard) for guard in graph.guards)


def test_one_device_is_always_current(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    graph = triptych_dynamo.capture(made)(torch.ones(2))
    assert not any("current_device" in str(guard) for guard in graph.guards)


@pytest.mark.parametrize(
    ("target", "args", "kwargs", "kinds"),
    [
        ("cuda", (1,), {}, ["cuda"]),
        ("cuda", (1, 0), {}, []),
        ("cuda", (1,), {"device": 1}, []),
        ("to", (1, "cuda"), {}, ["cuda"]),
        ("to", (1, torch.device("cuda")), {}, ["cuda"]),
        ("to", (1, torch.device("cuda:0")), {}, []),
        (torch.ones, (3,), {"device": torch.device("xpu")}, ["xpu"]),
        (torch.ones, (3,), {"device": "cpu"}, []),
    ],
)
def test_what_names_a_device_without_its_number(target, args, kwargs, kinds):
    assert list(devices._unnumbered(target, args, kwargs)) == kinds
