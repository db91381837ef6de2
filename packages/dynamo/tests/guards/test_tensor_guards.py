"""Guards on tensors, in C (by the C ABI and by attribute) and in the Python twin."""

from dataclasses import replace

import pytest
import torch
from guard_verdicts import X, Y, holds, reason
from triptych_dynamo._torch_compat import dispatch_keys
from triptych_dynamo.guards.facts import Apart, Guard, TensorFacts
from triptych_dynamo.sources import (
    GradSource,
    ItemSource,
    TensorOffsetSource,
    TensorSizeSource,
    TensorStrideSource,
)
from triptych_dynamo.trace.autograd_facts import inference_keys


def facts_of(tensor, **changes):
    fields = {
        "cls": type(tensor),
        "dtype": tensor.dtype,
        "device": tensor.device,
        "requires_grad": tensor.requires_grad,
        "sizes": tuple(tensor.shape),
        "strides": tensor.stride() if tensor.layout == torch.strided else None,
    }
    return TensorFacts(**{**fields, **changes})


class Sub(torch.Tensor):
    pass


BASE = torch.zeros(2, 3)


@pytest.mark.parametrize(
    "other,text",
    [
        (torch.zeros(2, 4), "size mismatch at dimension 1: expected 3, got 4"),
        (torch.zeros(3, 2).t(), "stride mismatch at dimension 0: expected 3, got 1"),
        (torch.zeros(2, 3, 1), "rank mismatch: expected 2, got 3"),
        (torch.zeros(2, 3, dtype=torch.float64), "dtype mismatch: expected torch.float32, got torch.float64"),
        (torch.zeros(2, 3, device="meta"), "device type mismatch: expected cpu, got meta"),
        (torch.zeros(2, 3, requires_grad=True), "requires_grad mismatch: expected False, got True"),
        (torch.nn.Parameter(torch.zeros(2, 3), requires_grad=False), "its type is Parameter"),
        (torch.zeros(2, 3).as_subclass(Sub), "its type is Sub"),
        (torch.zeros(2, 3).to_sparse(), "layout mismatch"),
        (3, "its type is int"),
        (None, "its type is NoneType"),
    ],
)
def test_tensor_facts(binding, other, text):
    guard = Guard("tensor", X, facts_of(BASE))
    assert holds(guard, torch.ones(2, 3))
    assert text in reason(guard, other)


def test_tensor_with_free_extents(binding):
    guard = Guard("tensor", X, facts_of(BASE, sizes=(None, 3), strides=(3, None)))
    assert holds(guard, torch.zeros(7, 3)) and not holds(guard, torch.zeros(7, 4)) and not holds(guard, torch.zeros(3))
    unstrided = Guard("tensor", X, facts_of(BASE, strides=None))
    assert holds(unstrided, torch.zeros(3, 2).t()) and holds(unstrided, torch.zeros(2, 3).to_sparse())


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.float8_e5m2]
)
def test_tensor_dtypes(binding, dtype):
    guard = Guard("tensor", X, facts_of(torch.zeros(2, dtype=dtype)))
    assert holds(guard, torch.empty(2, dtype=dtype)) and not holds(guard, torch.empty(2, dtype=torch.int16))


def test_other_tensors_hold_their_own_facts(binding):
    for tensor in (
        torch.nn.Parameter(torch.zeros(2)),
        torch.zeros(2).as_subclass(Sub),
        torch.tensor(3),
        torch.zeros(0, 4),
        torch.zeros(2, device="meta"),
        torch.nn.Buffer(torch.ones(3)),
        torch.zeros(2, requires_grad=True) * 2,
    ):
        assert holds(Guard("tensor", X, facts_of(tensor)), tensor), tensor


def test_dispatch_keys(binding):
    from triptych_dynamo._torch_compat import dispatch_keys

    tensor = torch.zeros(2, dtype=torch.complex64)
    guard = Guard("tensor", X, facts_of(tensor, dispatch_keys=dispatch_keys(tensor)))
    assert holds(guard, torch.ones(2, dtype=torch.complex64))
    assert "dispatch key" in reason(guard, tensor.conj())


def test_grad_source():
    leaf = torch.zeros(2, requires_grad=True)
    guard = Guard("is", GradSource(X), None)
    assert holds(guard, leaf)
    leaf.sum().backward()
    assert reason(guard, leaf)


def test_integer_sources(binding):
    tensor = torch.zeros(4, 6)[1:, ::2]
    for source, value in (
        (TensorSizeSource(X, 0), 3),
        (TensorSizeSource(X, 1), 3),
        (TensorStrideSource(X, 1), 2),
        (TensorOffsetSource(X), 6),
    ):
        assert holds(Guard("equals", source, value), tensor)
        assert reason(Guard("equals", source, value + 1), tensor)
        assert holds(Guard("int_in", source, (2, None)), tensor) and not holds(Guard("int_in", source, (7, 9)), tensor)
    assert reason(Guard("equals", TensorSizeSource(X, 5), 3), tensor)
    assert reason(Guard("equals", TensorSizeSource(X, 0), 3), "no tensor")


def test_no_overlap(binding):
    base = torch.zeros(10)
    guard = Guard("no_overlap", None, Apart((X,), (Y,)))
    assert holds(guard, base[:5], base[5:]) and holds(guard, base, torch.zeros(3)) and holds(guard, base, base[3:3])
    assert "share memory" in reason(guard, base[:6], base[5:]) and reason(guard, base, base)
    sources = tuple(ItemSource(X, i) for i in range(40))
    pieces = list(torch.zeros(40, 2))
    for written in (1, 5, 40):
        many = Guard("no_overlap", None, Apart(sources[:written], sources))
        assert holds(many, pieces) and not holds(many, [*pieces[:-1], pieces[0]])
        assert holds(many, [*pieces[:-1], pieces[38]]) == (written <= 38)
    whole = torch.zeros(9, 9)
    assert not holds(Guard("no_overlap", None, Apart((X,), (Y,))), whole[:, 0], whole[4, 1:])
    assert reason(guard, base, "no tensor")
    meeting = Guard("overlap", None, Apart((X,), (Y,)))
    assert holds(meeting, base[:6], base[5:]) and reason(meeting, base[:5], base[5:]) and reason(meeting, base, "none")


def test_no_gradient_is_asked_for(binding):
    plain, asking = torch.ones(2), torch.ones(2, requires_grad=True)
    guard = Guard("no_gradients", None, (X, Y))
    assert holds(guard, plain, plain) and "L['y'] requires one" in reason(guard, plain, asking)
    assert not holds(guard, plain, "no tensor")
    with torch.no_grad():
        assert holds(guard, plain, asking) and holds(guard, asking, plain)


def test_facts_that_do_not_count(binding):
    facts = TensorFacts(torch.Tensor, torch.float32, torch.device("cpu"), None, (2,), (1,))
    keys = replace(facts, dispatch_keys=dispatch_keys(torch.ones(2)))
    with torch.inference_mode():
        inferred = torch.ones(2)
    for tensor in (torch.ones(2), torch.ones(2, requires_grad=True)):
        assert holds(Guard("tensor", X, keys), tensor)
    assert not holds(Guard("tensor", X, keys), inferred)
    masked = Guard("tensor", X, replace(keys, key_mask=~inference_keys()))
    assert holds(masked, inferred) and holds(masked, torch.ones(2)) and not holds(masked, torch.ones(2)._neg_view())
