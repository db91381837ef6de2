"""Comparing a call's arguments with an earlier one's: equal only where every form, address and number is."""

from __future__ import annotations

import weakref

import pytest
import torch
from triptych_inductor.runtime import objects
from triptych_inductor.runtime.inputs import Inputs

pytestmark = pytest.mark.skipif(objects.native() is None, reason="without torch's C functions there is no comparison")


def arguments():
    numbers = [3, 2.5, None]
    tensors = [torch.randn(2, 3), torch.nn.Parameter(torch.randn(4)), torch.tensor(1.0), torch.randn(5, 4)[:, ::2]]
    return [*tensors, *numbers]


def test_the_same_arguments_fit():
    args = arguments()
    known = Inputs.of(args)
    assert known.fit(list(args)) and known.fit([a.detach() if isinstance(a, torch.Tensor) else a for a in args])


CHANGES = {
    "address": lambda args: args.__setitem__(0, args[0].clone()),
    "offset": lambda args: args.__setitem__(3, torch.randn(6, 4)[1:, ::2]),
    "size": lambda args: args.__setitem__(0, args[0][:1]),
    "stride": lambda args: args.__setitem__(0, args[0].as_strided((2, 3), (1, 2))),
    "dimensions": lambda args: args.__setitem__(0, args[0][None]),
    "memory of a parameter": lambda args: setattr(args[1], "data", torch.randn(4)),
    "turned in place": lambda args: args[3].t_(),
    "a number": lambda args: args.__setitem__(4, 4),
    "no tensor": lambda args: args.__setitem__(2, 1.0),
    "a tensor for a number": lambda args: args.__setitem__(5, torch.tensor(2.5)),
    "count": lambda args: args.append(1),
    "fewer": lambda args: args.pop(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_changes_is_seen(change):
    args = arguments()
    known = Inputs.of(args)
    assert known.fit(args)
    change(args)
    assert not known.fit(args)


def test_some_may_lie_anywhere():
    args = arguments()
    known = Inputs.of(args, {0})
    args[0] = args[0].clone()
    assert known.fit(args)
    args[0] = args[0].t()
    assert not known.fit(args)
    args[1] = torch.randn(4)
    assert not known.fit(args)


def test_no_tensor_is_kept_alive():
    tensor = torch.ones(3)
    known, seen = Inputs.of([tensor]), weakref.ref(tensor)
    del tensor
    assert seen() is None and known is not None


def test_other_classes_are_left_to_python():
    class Own(torch.Tensor):
        pass

    assert Inputs.of([torch.ones(2).as_subclass(Own)]) is None
    known = Inputs.of([torch.ones(2)])
    assert not known.fit([torch.ones(2).as_subclass(Own)])
