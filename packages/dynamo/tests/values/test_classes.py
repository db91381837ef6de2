# ruff: noqa: UP042, UP045, UP003
"""Classes and instances: attributes, descriptors, operators, inheritance, dataclasses, enumerations, exceptions."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import typing
import weakref
from collections import OrderedDict

import pytest
import torch
from harness import check

X = torch.arange(6.0).reshape(2, 3)


class Plain:
    kind = "plain"

    def __init__(self, a, b=2):
        self.a = a
        self.b = b

    def method(self, k=1):
        return self.a * k

    @property
    def double(self):
        return self.a * 2

    @double.setter
    def double(self, value):
        self.a = value / 2

    @staticmethod
    def static(v):
        return v + 1

    @classmethod
    def build(cls, v):
        return cls(v, b="built")


class Child(Plain):
    kind = "child"

    def __init__(self, a):
        super().__init__(a, b=3)
        self.c = self.kind

    def method(self, k=1):
        return super().method(k) + 1

    @classmethod
    def build(cls, v):
        return super().build(v) if cls is Plain else cls(v)


class Operators:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        if not isinstance(other, Operators):
            return NotImplemented
        return Operators(self.v + other.v)

    def __radd__(self, other):
        return Operators(other + self.v)

    def __iadd__(self, other):
        self.v = self.v + 1
        return self

    def __mul__(self, other):
        return self.v * other

    def __rmul__(self, other):
        return ("r", other, self.v)

    def __neg__(self):
        return -self.v

    def __eq__(self, other):
        return isinstance(other, Operators) and self.v == other.v

    def __lt__(self, other):
        return self.v < other.v

    def __hash__(self):
        return hash(self.v)

    def __len__(self):
        return 3

    def __bool__(self):
        return self.v > 0

    def __getitem__(self, key):
        return (self.v, key)

    def __setitem__(self, key, value):
        self.v = value

    def __delitem__(self, key):
        self.v = 0

    def __contains__(self, item):
        return item == self.v

    def __call__(self, *args, **kwargs):
        return args, kwargs, self.v

    def __iter__(self):
        return iter([self.v, self.v + 1])

    def __repr__(self):
        return f"Operators({self.v})"

    def __index__(self):
        return 1

    def __float__(self):
        return 2.5

    def __abs__(self):
        return abs(self.v)

    def __matmul__(self, other):
        return "matmul"


class SubOperators(Operators):
    def __radd__(self, other):
        return "subclass first"


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class Dynamic:
    def __init__(self):
        self.stored = {}

    def __getattr__(self, name):
        if name.startswith("dyn_"):
            return name[4:]
        raise AttributeError(name)


class Logged:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, (value, "logged"))

    def __delattr__(self, name):
        object.__delattr__(self, name)

    def __getattribute__(self, name):
        found = object.__getattribute__(self, name)
        return found if name.startswith("__") else ("got", found)


class Descriptor:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, cls=None):
        if obj is None:
            return self
        return obj.__dict__.get(self.name, "unset")

    def __set__(self, obj, value):
        obj.__dict__[self.name] = value


class WithDescriptor:
    field = Descriptor()

    @functools.cached_property
    def cached(self):
        return [1, 2]


@dataclasses.dataclass
class Data:
    a: typing.Any
    b: int = 2
    c: list = dataclasses.field(default_factory=list)

    def total(self):
        return self.a + self.b


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    a: int
    b: int = 0


@dataclasses.dataclass
class Output(OrderedDict):
    loss: typing.Any = None
    logits: typing.Any = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __getitem__(self, key):
        if isinstance(key, str):
            return dict(self.items())[key]
        return tuple(self[k] for k in self.keys())[key]


class Color(enum.Enum):
    RED = 1
    GREEN = 2

    def next(self):
        return Color.GREEN if self is Color.RED else Color.RED


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Kind(str, enum.Enum):
    A = "a"


class Flags(enum.Flag):
    R = 1
    W = 2


class Base(abc.ABC):
    @abc.abstractmethod
    def go(self): ...

    def template(self):
        return self.go()


class Concrete(Base):
    def go(self):
        return "gone"


class Left:
    def who(self):
        return ["left"]


class Mid(Left):
    def who(self):
        return ["mid", *super().who()]


class Right(Left):
    def who(self):
        return ["right", *super().who()]


class Diamond(Mid, Right):
    def who(self):
        return ["diamond", *super().who()]


class Singleton:
    instance = None

    def __new__(cls, v):
        made = super().__new__(cls)
        made.from_new = v
        return made

    def __init__(self, v):
        self.from_init = v


class CustomError(ValueError):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


class Meta(type):
    def describe(cls):
        return cls.__name__

    @property
    def tag(cls):
        return "tag of " + cls.__name__


class WithMeta(metaclass=Meta):
    pass


class Generic(typing.Generic[typing.TypeVar("T")]):
    def __init__(self, v):
        self.v = v


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


def multiple_inheritance(x):
    return Diamond().who(), [cls.__name__ for cls in Diamond.__mro__]


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


def operator_of_subclass_goes_first(x):
    return Operators(1) + SubOperators(2)


def operator_with_tensor(x):
    return x * Operators(2), Operators(x) + Operators(x), (x + Operators(1)).v


def unsupported_operands(x):
    return Operators(1) - 1


def instance_as_argument(x, p):
    p.count = p.a + 1
    p.a = x
    del p.b
    return p.method(), hasattr(p, "b"), hasattr(p, "nothing"), getattr(p, "b", "default"), p.__dict__["count"]


def slots(x):
    s = Slotted(x)
    s.b = 2
    return s.a, s.b, hasattr(Slotted(1), "b")


def slots_of_argument(x, s):
    s.b = s.a + x
    return s.a


def getattr_hook(x):
    d = Dynamic()
    return d.dyn_name, d.stored, hasattr(d, "other"), getattr(d, "other", 5)


def attribute_hooks(x):
    v = Logged()
    v.a = 1
    return v.a


def descriptors(x):
    w = WithDescriptor()
    before = w.field
    w.field = x
    first = w.cached
    return before, w.field, first is w.cached, w


def missing_attribute(x):
    return Plain(1).nothing


def setattr_getattr_functions(x):
    p = Plain(1)
    setattr(p, "name", "v")
    delattr(p, "a")
    return getattr(p, "name"), vars(p), hasattr(p, "a")


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


def frozen_dataclass(x):
    f = Frozen(1)
    try:
        f.a = 2
    except dataclasses.FrozenInstanceError as error:
        return str(error), f, Frozen(1) < Frozen(2), hash(Frozen(1)) == hash(Frozen(1)), dataclasses.replace(f, b=3)


def model_output(x):
    o = Output(logits=x)
    return o, o["logits"], o[0], o.logits, list(o.keys()), isinstance(o, dict), len(o), o.loss


def model_output_argument(x, o):
    o["loss"] = x.sum()
    return o[0], o["loss"]


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


def enumeration_argument(x, c):
    return x + 1 if c is Color.RED else x - 1


def abstract_classes(x):
    return Concrete().template(), isinstance(Concrete(), Base)


def abstract_instance(x):
    return Base()


def new_method(x):
    s = Singleton(x)
    return s.from_new, s.from_init


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


def uncaught_custom_error(x):
    raise CustomError(7)


def metaclasses(x):
    return WithMeta.describe(), WithMeta.tag, type(WithMeta) is Meta, isinstance(WithMeta, Meta)


def generic_classes(x):
    return Generic(1).v, Generic[int](2).v, list[int], typing.Optional[int]


def local_functions_as_methods(x):
    p = Plain(2)
    bound = p.method
    unbound = Plain.method
    p.call = lambda: "instance function"
    return bound(3), unbound(p, 4), p.call(), bound.__self__ is p, bound.__func__ is Plain.method, bound.__name__


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


def class_attribute_store(x, p):
    return p.kind, type(p).kind


def weak_references(x, p):
    r = weakref.ref(p)
    return r() is p


CONSTRUCTS = [
    new_instance,
    inheritance,
    multiple_inheritance,
    operators,
    operator_of_subclass_goes_first,
    operator_with_tensor,
    unsupported_operands,
    slots,
    getattr_hook,
    attribute_hooks,
    descriptors,
    missing_attribute,
    setattr_getattr_functions,
    dataclass_instances,
    frozen_dataclass,
    model_output,
    enumerations,
    abstract_classes,
    abstract_instance,
    new_method,
    exceptions,
    uncaught_custom_error,
    metaclasses,
    generic_classes,
    local_functions_as_methods,
    type_queries,
]
WITH_ARGUMENTS = [
    (instance_as_argument, Plain(1)),
    (slots_of_argument, Slotted(3)),
    (model_output_argument, Output(logits=X)),
    (enumeration_argument, Color.RED),
    (class_attribute_store, Child(1)),
    (weak_references, Plain(1)),
]


@pytest.mark.parametrize("fn", CONSTRUCTS, ids=lambda fn: fn.__name__)
def test_construct(fn):
    check(fn, X)


@pytest.mark.parametrize(("fn", "arg"), WITH_ARGUMENTS, ids=lambda item: getattr(item, "__name__", ""))
def test_construct_on_argument(fn, arg):
    check(fn, X, arg)


def test_cyclic_objects_are_rebuilt():
    import triptych_dynamo

    first, second = triptych_dynamo.optimize("eager", fullgraph=True)(objects_that_refer_to_each_other)(X)
    assert first and second.other.other is second
