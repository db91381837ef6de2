"""Pieces of the standard library and of torch that programs lean on: each a whole graph, or a clean break."""

from __future__ import annotations

import collections
import contextlib
import copy
import datetime
import decimal
import fractions
import functools
import json
import logging
import os
import random
import statistics
import struct
import time
import types
import typing

import numpy
import pytest
import torch
import triptych_dynamo
from harness import check, check_broken
from torch import nn
from torch.utils.checkpoint import checkpoint

X = torch.arange(6.0).reshape(2, 3)
CELL = nn.LSTMCell(3, 4)
LSTM = nn.LSTM(3, 4, num_layers=2, batch_first=True)
GRU = nn.GRU(3, 4, bidirectional=True)
RNN = nn.RNN(3, 4)
LOG = logging.getLogger("triptych.tests.values")


@functools.singledispatch
def kind(value):
    return "object"


@kind.register
def _(value: int):
    return "int"


@kind.register
def _(value: list):
    return "list"


class CallingMeta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.extra = 1
        return made


class WithCallingMeta(metaclass=CallingMeta):
    def __init__(self, a):
        self.a = a


@torch.library.custom_op("triptych_values::scale", mutates_args=())
def scale(x: torch.Tensor, k: int) -> torch.Tensor:
    return x * k


@scale.register_fake
def _(x, k):
    return torch.empty_like(x)


def single_dispatch(x):
    return kind(1), kind("a"), kind([1])


def recurrent(x):
    return LSTM(x[None]), GRU(x[None]), RNN(x[None]), CELL(x)


def checkpointed(x):
    return checkpoint(lambda v: CELL(v)[0].sin(), x, use_reentrant=False)


def custom_operator(x):
    return scale(x, 3), torch.ops.triptych_values.scale(x, 2)


def metaclass_call(x):
    made = WithCallingMeta(x)
    return made.a, made.extra


def device_context(x):
    with torch.device("cpu"):
        return torch.zeros(2) + x.sum()


def inference_decorator(x):
    @torch.inference_mode()
    def inner(v):
        return v * 2

    return inner(x).shape


def dates_and_numbers(x):
    return (
        datetime.timedelta(days=1).total_seconds(),
        datetime.date(2020, 1, 1).year,
        str(decimal.Decimal("1.5") + 1),
        fractions.Fraction(1, 2) + 1,
        statistics.mean([1, 2, 3]),
        struct.pack("i", 3),
        2**100,
    )


def environment(x):
    return os.environ.get("TRIPTYCH_NOT_SET", "default"), "HOME" in os.environ


def logged(x):
    LOG.debug("not shown %s", 1)
    return x + 1, LOG.isEnabledFor(logging.DEBUG)


def shallow_copies(x):
    return copy.copy([x]), copy.copy({"a": x}), copy.copy(types.SimpleNamespace(a=1)).a, copy.deepcopy({"a": [1]})


def generator_protocol(x):
    def counter():
        value = 0
        while True:
            value = (yield value) or value + 1

    it = counter()
    seen = next(it), it.send(5), next(it)
    it.close()
    return seen


def namespaces(x):
    space = types.SimpleNamespace(a=1)
    space.b = x
    return space.a, space.b


def abstract_containers(x):
    return (
        isinstance([], collections.abc.Sequence),
        isinstance({}, collections.abc.Mapping),
        isinstance(x, typing.Iterable),
    )


def attributes_of_builtins(x):
    return (
        [].__class__,
        (1).__class__,
        hasattr([], "items"),
        hasattr({}, "items"),
        getattr((), "nothing", 5),
        x.__class__,
    )


WHOLE = [
    single_dispatch,
    recurrent,
    checkpointed,
    custom_operator,
    metaclass_call,
    device_context,
    inference_decorator,
    dates_and_numbers,
    environment,
    logged,
    shallow_copies,
    generator_protocol,
    namespaces,
    abstract_containers,
    attributes_of_builtins,
]


def from_numpy(x):
    return torch.from_numpy(numpy.ones(3)) + 1


def to_numpy(x):
    return (x.numpy() * 2).sum()


def numpy_argument(x, a):
    return x + torch.as_tensor(a), a.shape


def item(x):
    return x.sum().item() + 1, x.tolist()


def data_dependent_branch(x):
    if x.sum() > 3:
        return x + 1
    return x - 1


def clock(x):
    start = time.time()
    return x + 1, time.time() >= start


def seeded(x):
    random.seed(1)
    return random.random(), random.Random(3).random()


def encoded(x):
    return json.dumps({"a": [1, None]}), json.loads("[1, 2]")


def class_inside(x):
    class Inner:
        v = 3

        def method(self):
            return self.v

    return Inner().method(), type("Made", (), {"v": 2})().v


def parameter_inside(x):
    torch.manual_seed(0)
    return nn.Linear(3, 3)(x), nn.Parameter(x)


def backward_inside(x):
    y = x.clone().requires_grad_()
    (y**2).sum().backward()
    return y.grad, torch.autograd.grad((y**2).sum(), y)[0]


def printed(x):
    y = x + 1
    triptych_dynamo.graph_break()
    return y * 2, str(y), f"{y.sum()}"


def locked(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(open(os.devnull))
        return x + 1


BROKEN = [
    from_numpy,
    to_numpy,
    item,
    data_dependent_branch,
    clock,
    seeded,
    encoded,
    class_inside,
    parameter_inside,
    backward_inside,
    printed,
    locked,
]


@pytest.mark.parametrize("fn", WHOLE, ids=lambda fn: fn.__name__)
def test_whole(fn):
    check(fn, X)


@pytest.mark.parametrize("fn", BROKEN, ids=lambda fn: fn.__name__)
def test_broken(fn):
    check_broken(fn, X)


def test_numpy_argument():
    check_broken(numpy_argument, X, numpy.ones((2, 3), dtype=numpy.float32))


def test_checkpoint_marks_its_nodes():
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    triptych_dynamo.optimize(backend, fullgraph=True)(checkpointed)(X)
    assert any(node.meta.get("recompute") == 1 for node in graphs[0].graph.nodes)


def test_cached_function_speaks_once(caplog):
    @functools.lru_cache
    def say_once(logger, text):
        logger.warning(text)

    def fn(x):
        say_once(LOG, "once")
        return x + 1

    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(fn)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            compiled(X)
    assert [record.message for record in caplog.records] == ["once"]
