"""Tensor subclasses as arguments, in containers, as parameters, and made inside."""

from __future__ import annotations

import torch
import triptych_dynamo
from table import construct
from torch import nn
from torch.utils._pytree import tree_map

X = torch.arange(6.0).reshape(2, 3)


class Copied(torch.Tensor):
    """Can be copied, as torch's own copies only some subclasses."""

    def __deepcopy__(self, memo):
        with torch._C.DisableTorchFunctionSubclass():
            made = self.detach().clone().as_subclass(type(self)).requires_grad_(self.requires_grad)
        vars(made).update(vars(self))
        return made


class Plain(Copied):
    """Without anything of its own."""


class Extended(Copied):
    factor = 3

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})

    @property
    def double(self):
        return self * 2

    def scaled(self, by=1):
        return self * self.factor * by

    @classmethod
    def make(cls, x):
        return x.as_subclass(cls)


class Redefining(Copied):
    def __add__(self, other):
        return super().__add__(other) * 10

    def sum(self, *args):
        return "own"

    def __len__(self):
        return 99


NAMES: list = []


class Watching(Copied):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        NAMES.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Labelled(Copied):
    """Carries a label through operations."""

    @staticmethod
    def __new__(cls, data, label="none"):
        made = torch.Tensor._make_subclass(cls, data)
        made.label = label
        return made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [arg.as_subclass(torch.Tensor) if isinstance(arg, Labelled) else arg for arg in args]
        result = func(*plain, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            result = Labelled(result, next(arg.label for arg in args if isinstance(arg, Labelled)))
        return result


class Two(torch.Tensor):
    """Two tensors that operators are applied to."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, strides=a.stride())

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __deepcopy__(self, memo):
        return Two(self.a.clone(), self.b.clone())

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        first, second = (
            func(*tree_map(lambda v, n=name: getattr(v, n) if isinstance(v, Two) else v, args)) for name in "ab"
        )
        return Two(first, second) if isinstance(first, torch.Tensor) else first


EXTENDED, PLAIN = X.as_subclass(Extended), X.as_subclass(Plain)


def leaf(cls):
    return X.clone().as_subclass(cls).detach().requires_grad_()


@construct(PLAIN)
def class_of_results(x):
    return x * 2, x.sum(0), x[0], x.t(), torch.relu(x), type(x.shape).__name__, x.max(1), x.chunk(2)


@construct(EXTENDED)
def methods_and_properties(x):
    return x.double, x.scaled(by=2), x.factor, x.make(torch.ones(2)), Extended.make(x), isinstance(x, Extended)


@construct(X.as_subclass(Redefining))
def redefined_methods(x):
    return x + 1, 1 + x, x.sum(), len(x), x.mean()


@construct(leaf(Extended))
def facts(x):
    return x.is_leaf, x.requires_grad, x.shape, x.dtype, type(x), x.grad, x.size(0), x.ndim


@construct(leaf(Extended))
def gradients(x):
    return (x * 2).sin()


@construct(X.as_subclass(Plain).clone())
def written_in_place(x):
    x.add_(1)
    x[0] = 5
    return x


@construct(EXTENDED, X)
def beside_plain_tensors(x, y):
    return x + y, y + x, torch.cat([x, y]), torch.add(y, x), y @ x.t(), torch.where(x > 2, x, y)


@construct(EXTENDED, PLAIN)
def two_classes_that_do_not_know_each_other(x, y):
    try:
        return x + y
    except TypeError as error:
        return str(error)


@construct(PLAIN)
def rows(x):
    a, b = x
    return [row * 2 for row in x], a + b


@construct(PLAIN)
def the_object_itself(x):
    return x, [x]


@construct(X.as_subclass(Watching))
def what_an_override_sees(x):
    NAMES.clear()
    y = torch.sin(x * 2) + 1
    _ = x.shape, y.T, y[0]
    return y, list(NAMES)


@construct(Labelled(X, "left"), Labelled(X, "right"))
def labels(x, y):
    z = x + y
    return z, z.label, (z * 2).label, y.label


@construct(Labelled(X, "old"))
def label_that_is_set(x):
    x.label = "new"
    x.other = 5
    return x * 2, x.label


@construct(X)
def made_by_a_constructor(x):
    made = Labelled(x, "made")
    return made, made.label, made * 2, (made * 2).label


@construct([EXTENDED], {"k": PLAIN})
def in_containers(items, mapping):
    return items[0] * 2, mapping["k"] + 1


@construct(PLAIN)
def back_to_plain(x):
    return x.as_subclass(torch.Tensor) + 1, torch.Tensor.add(x, 1), x.detach(), x.clone()


@construct(EXTENDED)
def without_gradients(x):
    with torch.no_grad():
        return x * 2


@construct(EXTENDED, breaks="explicit")
def over_a_break(x):
    y = x * 2
    triptych_dynamo.graph_break()
    return y + 1, x.double


class OwnParameter(nn.Parameter):
    def doubled(self):
        return self * 2


class TaggedParameter(nn.Parameter):
    def __new__(cls, data, tag):
        made = super().__new__(cls, data)
        made.tag = tag
        return made

    def __deepcopy__(self, memo):
        return TaggedParameter(self.data.clone(), self.tag)


class Holder(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, x):
        return x @ self.weight


@construct(Holder(OwnParameter(torch.ones(3, 2))), X)
def parameter_with_methods(module, x):
    return module(x), module.weight.doubled()


@construct(Holder(TaggedParameter(torch.ones(3, 2), "tag")), X)
def parameter_with_attributes(module, x):
    return module(x), module.weight.tag


@construct(Two(X, X + 1), breaks="subclass")
def subclass_that_dispatches(x):
    return (x * 2).b


@construct(X, breaks="subclass")
def subclass_that_dispatches_made_inside(x):
    made = Two(x, x + 1) * 2
    return made.a, made.b
