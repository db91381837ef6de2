# ruff: noqa: UP003, UP045
"""Classes and instances: attributes, descriptors, operators, inheritance, dataclasses, enumerations, exceptions."""

from __future__ import annotations

import dataclasses
import typing
import weakref

import torch
from specimens import (
    Base,
    Child,
    Color,
    Concrete,
    CustomError,
    Data,
    Diamond,
    Dynamic,
    Flags,
    Frozen,
    Generic,
    Kind,
    Level,
    Logged,
    Meta,
    Operators,
    Output,
    Plain,
    Singleton,
    Slotted,
    SubOperators,
    WithDescriptor,
    WithMeta,
)
from table import construct

X = torch.arange(6.0).reshape(2, 3)


@construct(X)
def new_instance(x):
    p = Plain(x)
    p.double = x
    p.extra = 1
    return (
        p,
        p.method(2),
        p.double,
        p.static(1),
        Plain.static(2),
        p.kind,
        Plain.kind,
        type(p) is Plain,
        p.__class__.__name__,
    )


@construct(X)
def inheritance(x):
    c = Child(x)
    return (
        c,
        c.method(),
        Child.build(x),
        Plain.build(1),
        isinstance(c, Plain),
        issubclass(Child, Plain),
        Child.__mro__[1] is Plain,
    )


@construct(X)
def multiple_inheritance(x):
    return Diamond().who(), [cls.__name__ for cls in Diamond.__mro__]


@construct(X)
def operators(x):
    a, b = Operators(1), Operators(2)
    c = a + b
    d = a
    d += 5
    a[3] = 10
    e = [
        c.v,
        d.v,
        5 + b,
        a * 3,
        3 * a,
        -b,
        a == Operators(10),
        a != b,
        a < b,
        len(a),
        bool(Operators(0)),
        a["k"],
        10 in a,
    ]
    del b[0]
    return (
        e,
        a(1, k=2),
        list(a),
        repr(a),
        f"{a}",
        [7, 8, 9][b],
        float(a),
        abs(Operators(-3)),
        a @ b,
        b.v,
        {a: 1}[Operators(10)] if False else 0,
    )


@construct(X)
def operator_of_subclass_goes_first(x):
    return Operators(1) + SubOperators(2)


@construct(X)
def operator_with_tensor(x):
    return x * Operators(2), Operators(x) + Operators(x), (x + Operators(1)).v


@construct(X, raises=True)
def unsupported_operands(x):
    return Operators(1) - 1


@construct(X, Plain(1))
def instance_as_argument(x, p):
    p.count = p.a + 1
    p.a = x
    del p.b
    return p.method(), hasattr(p, "b"), hasattr(p, "nothing"), getattr(p, "b", "default"), p.__dict__["count"]


@construct(X)
def slots(x):
    s = Slotted(x)
    s.b = 2
    return s.a, s.b, hasattr(Slotted(1), "b")


@construct(X, Slotted(3))
def slots_of_argument(x, s):
    s.b = s.a + x
    return s.a


@construct(X)
def getattr_hook(x):
    d = Dynamic()
    return d.dyn_name, d.stored, hasattr(d, "other"), getattr(d, "other", 5)


@construct(X)
def attribute_hooks(x):
    v = Logged()
    v.a = 1
    return v.a


@construct(X)
def descriptors(x):
    w = WithDescriptor()
    before = w.field
    w.field = x
    first = w.cached
    return before, w.field, first is w.cached, w


@construct(X, raises=True)
def missing_attribute(x):
    return Plain(1).nothing


@construct(X)
def setattr_getattr_functions(x):
    p = Plain(1)
    setattr(p, "name", "v")
    delattr(p, "a")
    return getattr(p, "name"), vars(p), hasattr(p, "a")


@construct(X)
def dataclass_instances(x):
    d = Data(x)
    d.c.append(1)
    e = dataclasses.replace(d, b=5)
    return (
        d,
        e,
        d.total(),
        [f.name for f in dataclasses.fields(d)],
        Data(1) == Data(1),
        repr(Frozen(1)),
        dataclasses.asdict(Data(1)),
        dataclasses.astuple(Frozen(3)),
    )


@construct(X)
def frozen_dataclass(x):
    f = Frozen(1)
    try:
        f.a = 2
    except dataclasses.FrozenInstanceError as error:
        return str(error), f, Frozen(1) < Frozen(2), hash(Frozen(1)) == hash(Frozen(1)), dataclasses.replace(f, b=3)


@construct(X)
def model_output(x):
    o = Output(logits=x)
    return o, o["logits"], o[0], o.logits, list(o.keys()), isinstance(o, dict), len(o), o.loss


@construct(X, Output(logits=X))
def model_output_argument(x, o):
    o["loss"] = x.sum()
    return o[0], o["loss"]


@construct(X)
def enumerations(x):
    return (
        Color.RED,
        Color.RED.name,
        Color.GREEN.value,
        Color(2),
        Color["RED"],
        Color.RED is Color.RED,
        Color.RED == Color.GREEN,
        [c.name for c in Color],
        Level.LOW < Level.HIGH,
        Level.HIGH + 1,
        Kind.A == "a",
        Kind.A.upper(),
        Color.RED.next(),
        isinstance(Color.RED, Color),
        {Color.RED: 1}[Color.RED],
        Color.RED in Color,
        len(Color),
        Flags.R | Flags.W,
        x * Level.HIGH,
    )


@construct(X, Color.RED)
def enumeration_argument(x, c):
    return x + 1 if c is Color.RED else x - 1


@construct(X)
def abstract_classes(x):
    return Concrete().template(), isinstance(Concrete(), Base)


@construct(X, raises=True)
def abstract_instance(x):
    return Base()


@construct(X)
def new_method(x):
    s = Singleton(x)
    return s.from_new, s.from_init


@construct(X)
def exceptions(x):
    found = []
    try:
        raise CustomError(5)
    except ValueError as error:
        found += [type(error).__name__, str(error), error.code, error.args]
    try:
        try:
            {}["k"]
        except KeyError as error:
            raise RuntimeError("outer", 1) from error
    except RuntimeError as error:
        found += [error.args, type(error.__cause__).__name__, isinstance(error, Exception)]
    return found


@construct(X, raises=True)
def uncaught_custom_error(x):
    raise CustomError(7)


@construct(X)
def metaclasses(x):
    return WithMeta.describe(), WithMeta.tag, type(WithMeta) is Meta, isinstance(WithMeta, Meta)


@construct(X)
def generic_classes(x):
    return Generic(1).v, Generic[int](2).v, list[int], typing.Optional[int]


@construct(X)
def local_functions_as_methods(x):
    p = Plain(2)
    bound = p.method
    unbound = Plain.method
    p.call = lambda: "instance function"
    return bound(3), unbound(p, 4), p.call(), bound.__self__ is p, bound.__func__ is Plain.method, bound.__name__


@construct(X)
def type_queries(x):
    p = Plain(1)
    return (
        type(p).__name__,
        int is int,
        type([]) is list,
        isinstance(3, (int, str)),
        isinstance("a", int | str),
        isinstance(x, torch.Tensor),
        isinstance(True, int),
        callable(p.method),
        callable(p),
        issubclass(bool, int),
        type(x) is torch.Tensor,
        type(None) is type(None),
        isinstance(None, type(None)),
        Plain.__name__,
        Plain.__module__ is not None,
    )


def objects_that_refer_to_each_other(x):
    a, b = Plain(1), Plain(2)
    a.other, b.other = b, a
    return a.other.other is a, a.other


@construct(X, Child(1))
def class_attribute_store(x, p):
    return p.kind, type(p).kind


@construct(X, Plain(1))
def weak_references(x, p):
    r = weakref.ref(p)
    return r() is p
