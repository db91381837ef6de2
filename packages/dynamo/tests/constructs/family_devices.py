"""Devices: where tensors are made, inside of `with` statements over devices and beside them."""

from __future__ import annotations

import contextlib

import torch
import triptych_dynamo
from table import construct

X = torch.ones(2)


def places(*tensors):
    return [f"{t.device} {tuple(t.shape)}" for t in tensors]


@construct(X)
def device_as_a_manager(x):
    with torch.device("meta") as device:
        y, z = torch.zeros(2), torch.ones(3, device="cpu")
    return x + 1, places(y, z, torch.ones(1)), device


@construct(X, torch.device("meta"))
def device_of_an_argument(x, device):
    with device:
        y = torch.arange(4)
    return x + 1, places(y, torch.ones_like(x))


@construct(X)
def nested_devices(x):
    with torch.device("meta"):
        with torch.device("cpu"):
            y = torch.zeros(2)
        z = torch.zeros(3)
    return x + 1, places(y, z)


@construct(X)
def device_left_by_an_exception(x):
    try:
        with torch.device("meta"):
            y = torch.zeros(2)
            raise ValueError("no")
    except ValueError:
        pass
    return x + 1, places(y, torch.zeros(3))


@construct(X, breaks="explicit")
def break_within_a_device(x):
    with torch.device("meta"):
        y = torch.zeros(2)
        triptych_dynamo.graph_break()
        z = torch.zeros(3)
    return x + 1, places(y, z, torch.zeros(1))


@construct(X, breaks="context-manager")
def device_on_an_exit_stack(x):
    y = x + 1
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.device("meta"))
        z = torch.zeros(2)
    return y, places(z, torch.zeros(1))


@construct(X)
def questions_about_devices(x):
    return x + torch.cuda.device_count(), torch.cuda.is_available(), torch.device("cuda").index


@construct(X)
def streams_of_the_cpu(x):
    with torch.cpu.stream(torch.cpu.current_stream()):
        y = x * 2
    torch.cpu.synchronize()
    return y
