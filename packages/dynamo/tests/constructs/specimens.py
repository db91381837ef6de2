# ruff: noqa: UP042, UP045, UP003
"""Classes that the rows of several families make instances of."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import typing
from collections import OrderedDict

import torch

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
