# ruff: noqa: UP003, UP042
"""Classes made inside a program, and metaclasses."""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import types
import typing

import torch
from table import construct

X = torch.arange(6.0).reshape(2, 3)


# -- class bodies ------------------------------------------------------------------------------------------------------
@construct(X)
def class_body_inside(x):
    class Local:
        """Doc."""

        factor = 2
        table = [n * 2 for n in range(3)]

        def __init__(self, v):
            self.v = v

        def scaled(self):
            return self.v * self.factor

        @property
        def half(self):
            return self.v / 2

        @staticmethod
        def static(v):
            return v + 1

        @classmethod
        def make(cls, v):
            return cls(v)

    made = Local.make(x)
    return (
        made.scaled(),
        made.half,
        Local.static(1),
        Local.table,
        Local.__name__,
        Local.__doc__,
        isinstance(made, Local),
    )


@construct(X)
def class_body_with_closure(x):
    factor = 3

    class Local:
        def run(self):
            return x * factor

    return Local().run()


@construct(X)
def class_body_with_super(x):
    class Base:
        def run(self, v):
            return v + 1

    class Child(Base):
        def run(self, v):
            return super().run(v) * 2

    return Child().run(x), Child.__mro__[1].__name__, issubclass(Child, Base)


@construct(X)
def class_body_of_a_module(x):
    class Double(torch.nn.Module):
        def forward(self, v):
            return v * 2

    return Double()(x)


@construct(X)
def local_dataclass(x):
    @dataclasses.dataclass
    class Local:
        a: int
        b: object = None

    made = Local(1, x)
    return made.a, made.b, repr(Local(1)), Local(1) == Local(1), dataclasses.replace(Local(1), a=2).a


@construct(X)
def local_exception_class(x):
    class Problem(ValueError):
        pass

    try:
        raise Problem("p")
    except ValueError as error:
        return x, str(error), type(error).__name__


@construct(X)
def local_named_tuple_and_enumeration(x):
    Point = collections.namedtuple("Point", "a b")

    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    return x * Point(1, 2).b, Color.BLUE.name, [c.value for c in Color]


@construct(X)
def enumerations_with_automatic_values(x):
    class Number(enum.IntEnum):
        ONE = 1
        TWO = enum.auto()

    class Rights(enum.Flag):
        READ = enum.auto()
        WRITE = enum.auto()
        BOTH = READ | WRITE

    return x * Number.TWO, Rights.BOTH == Rights.READ | Rights.WRITE, [r.name for r in Rights], Number(2).name


@construct(X)
def typed_dictionary(x):
    class Options(typing.TypedDict):
        a: int

    return x, Options(a=1)


@construct(X)
def returned_class(x):
    class Local:
        number = 5

    return x, Local.number, Local().number


@construct(X)
def type_with_three_arguments(x):
    Made = type("Made", (Plain,), {"k": 3, "run": lambda self, v: v * self.k})
    made = Made(1)
    return made.run(x), Made.__name__, made.a, isinstance(made, Plain), types.new_class("N", (Plain,), {}).__name__


@construct(X)
def set_name_of_attributes(x):
    seen = []

    class Named:
        def __set_name__(self, owner, name):
            seen.append((owner.__name__, name))

    class Child:
        field = Named()

    return x, seen, isinstance(Child.field, Named)


class Registering:
    seen: typing.ClassVar[list] = []

    def __init_subclass__(cls, **kwargs):
        cls.options = kwargs


@construct(X)
def init_subclass_of_a_base(x):
    class Child(Registering, option=1):
        pass

    return x, Child.options


class Plain:
    def __init__(self, a):
        self.a = a


# -- metaclasses -------------------------------------------------------------------------------------------------------
class Singleton(type):
    instances: typing.ClassVar = {}

    def __call__(cls, *args):
        if cls not in cls.instances:
            cls.instances[cls] = super().__call__(*args)
        return cls.instances[cls]


class Only(metaclass=Singleton):
    def __init__(self, a=1):
        self.a = a


Only()


@construct(X)
def metaclass_call_gives_the_one_instance(x):
    return x * Only().a, Only() is Only()


class Meta(type):
    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made.finished = True
        return made

    def __getitem__(cls, key):
        return cls.__name__, key

    def __len__(cls):
        return 4

    def __contains__(cls, item):
        return item == 1

    def __iter__(cls):
        return iter((1, 2))

    def __instancecheck__(cls, obj):
        return obj == 5

    @property
    def shout(cls):
        return cls.__name__.upper()


class WithMeta(metaclass=Meta):
    def __init__(self, a):
        self.a = a


@construct(X)
def metaclass_protocols(x):
    made = WithMeta(x)
    return (
        made.finished,
        WithMeta["k"],
        len(WithMeta),
        1 in WithMeta,
        list(WithMeta),
        isinstance(5, WithMeta),
        WithMeta.shout,
    )


class Countable(abc.ABC):
    @abc.abstractmethod
    def count(self): ...

    @classmethod
    def __subclasshook__(cls, other):
        return hasattr(other, "count")


@construct(X)
def abstract_base_classes(x):
    try:
        Countable()
    except TypeError as error:
        text = str(error)
    return x, text, isinstance([], Countable), issubclass(dict, Countable), isinstance([], collections.abc.Sequence)
