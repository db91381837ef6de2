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
import torch
import triptych_dynamo
from table import construct
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


@construct(X)
def single_dispatch(x):
    return kind(1), kind("a"), kind([1])


@construct(X)
def recurrent(x):
    return LSTM(x[None]), GRU(x[None]), RNN(x[None]), CELL(x)


@construct(X)
def checkpointed(x):
    return checkpoint(lambda v: CELL(v)[0].sin(), x, use_reentrant=False)


@construct(X)
def custom_operator(x):
    return scale(x, 3), torch.ops.triptych_values.scale(x, 2)


@construct(X)
def metaclass_call(x):
    made = WithCallingMeta(x)
    return made.a, made.extra


@construct(X)
def device_context(x):
    with torch.device("cpu"):
        return torch.zeros(2) + x.sum()


@construct(X)
def inference_decorator(x):
    @torch.inference_mode()
    def inner(v):
        return v * 2

    return inner(x).shape


@construct(X)
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


@construct(X)
def environment(x):
    return os.environ.get("TRIPTYCH_NOT_SET", "default"), "HOME" in os.environ


@construct(X)
def logged(x):
    LOG.debug("not shown %s", 1)
    return x + 1, LOG.isEnabledFor(logging.DEBUG)


@construct(X)
def shallow_copies(x):
    return copy.copy([x]), copy.copy({"a": x}), copy.copy(types.SimpleNamespace(a=1)).a, copy.deepcopy({"a": [1]})


@construct(X)
def generator_protocol(x):
    def counter():
        value = 0
        while True:
            value = (yield value) or value + 1

    it = counter()
    seen = next(it), it.send(5), next(it)
    it.close()
    return seen


@construct(X)
def namespaces(x):
    space = types.SimpleNamespace(a=1)
    space.b = x
    return space.a, space.b


@construct(X)
def abstract_containers(x):
    return (
        isinstance([], collections.abc.Sequence),
        isinstance({}, collections.abc.Mapping),
        isinstance(x, typing.Iterable),
    )


@construct(X)
def attributes_of_builtins(x):
    return (
        [].__class__,
        (1).__class__,
        hasattr([], "items"),
        hasattr({}, "items"),
        getattr((), "nothing", 5),
        x.__class__,
    )


@construct(X)
def from_numpy(x):
    return torch.from_numpy(numpy.ones(3)) + 1


@construct(X)
def to_numpy(x):
    return (x.numpy() * 2).sum()


@construct(X, numpy.ones((2, 3), dtype=numpy.float32))
def numpy_argument(x, a):
    return x + torch.as_tensor(a), a.shape


@construct(X)
def item(x):
    return x.sum().item() + 1, x.tolist()


@construct(X, breaks="truth")
def data_dependent_branch(x):
    if x.sum() > 3:
        return x + 1
    return x - 1


@construct(X, breaks="input-output", reads_time=True)
def clock(x):
    start = time.time()
    return x + 1, time.time() >= start


@construct(X)
def seeded(x):
    random.seed(1)
    return random.random(), random.Random(3).random()


@construct(X)
def encoded(x):
    return x, json.dumps({"a": [1, None]}), json.loads("[1, 2]")


@construct(X)
def class_inside(x):
    class Inner:
        v = 3

        def method(self):
            return self.v

    return Inner().method(), type("Made", (), {"v": 2})().v


@construct(X)
def parameter_inside(x):
    torch.manual_seed(0)
    return nn.Linear(3, 3)(x), nn.Parameter(x)


@construct(X)
def backward_inside(x):
    y = x.clone().requires_grad_()
    (y**2).sum().backward()
    return y.grad, torch.autograd.grad((y**2).sum(), y)[0]


@construct(X, breaks="explicit")
def printed(x):
    y = x + 1
    triptych_dynamo.graph_break()
    return y * 2, str(y), f"{y.sum()}"


@construct(X, breaks="input-output")
def locked(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(open(os.devnull))
        return x + 1


@construct(X)
def distributions_with_lazy_properties(x):
    chosen = torch.distributions.Categorical(logits=x, validate_args=False)
    normal = torch.distributions.Normal(x, x.exp(), validate_args=False)
    return chosen.log_prob(torch.ones(2)), chosen.probs, chosen.entropy(), normal.rsample(), normal.log_prob(x)
