# ruff: noqa: UP003, UP042
"""Data classes and enumerations."""

from __future__ import annotations

import dataclasses
import enum

import torch
import triptych_dynamo
from table import construct

X = torch.arange(6.0).reshape(2, 3)


# -- dataclasses -------------------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: object = None
    doubled: int = dataclasses.field(init=False, default=0)

    def __post_init__(self):
        object.__setattr__(self, "doubled", self.a * 2)


@construct(X)
def frozen_dataclass_with_post_init(x):
    made = Frozen(2, x)
    try:
        made.a = 3
    except dataclasses.FrozenInstanceError as error:
        text = str(error)
    return made.doubled, made.b, text, {Frozen(1): "k"}[Frozen(1)], dataclasses.replace(made, a=5).doubled


@dataclasses.dataclass(order=True)
class Ordered:
    a: int
    items: list = dataclasses.field(default_factory=list, compare=False)
    scale: dataclasses.InitVar[int] = 1

    def __post_init__(self, scale):
        self.a *= scale


@construct(X)
def dataclass_tools(x):
    made = Ordered(2, scale=3)
    made.items.append(x)
    return (
        made.a,
        Ordered(1) < Ordered(2),
        [field.name for field in dataclasses.fields(made)],
        dataclasses.astuple(Ordered(1)),
        dataclasses.asdict(Ordered(1, [2])),
        dataclasses.is_dataclass(made),
    )


@dataclasses.dataclass(slots=True, kw_only=True)
class Slots:
    a: int
    b: int = 2


@construct(X)
def dataclass_with_slots(x):
    made = Slots(a=1)
    made.b = x
    return made.a, made.b, repr(Slots(a=3))


@construct(X)
def make_dataclass(x):
    Made = dataclasses.make_dataclass("Made", [("a", int), ("b", int, 2)])
    return x, Made(1).b, Made(1) == Made(1)


# -- enumerations ------------------------------------------------------------------------------------------------------
class Color(enum.Enum):
    RED = 1
    BLUE = 2
    CRIMSON = 1

    @property
    def shout(self):
        return self.name.upper() + "!"

    @classmethod
    def first(cls):
        return next(iter(cls))


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()
    AB = A | B


class Text(str, enum.Enum):
    ONE = "one"


@construct(X)
def enumerations(x):
    return (
        x * Level.HIGH,
        Color(2),
        Color["RED"],
        Color.CRIMSON is Color.RED,
        list(Color),
        len(Color),
        Color.RED.shout,
        Color.first(),
        Color.RED in Color,
        sorted(Color.__members__),
        Level.HIGH > 3,
        Text.ONE == "one",
        {Color.RED: 1}[Color(1)],
    )


@construct(X)
def flags(x):
    both = Flags.A | Flags.B
    return x, both is Flags.AB, Flags.A in both, bool(Flags.A & Flags.B), both.value, ~Flags.A, [f.name for f in both]


@construct(X)
def unknown_enumeration_value(x):
    try:
        Color(9)
    except ValueError as error:
        return x, str(error)


@dataclasses.dataclass(unsafe_hash=True)
class Hashed:
    a: object


@construct(X, {})
def hashed_by_fields(x, mapping):
    one = Hashed(1)
    mapping[Hashed(2)] = {Hashed(3), Hashed(3)}
    return x, one, {one, Hashed(1)}, {Hashed(4): x}, one in {Hashed(1)}


@construct(X, breaks="explicit")
def hashed_by_fields_over_a_break(x):
    members, mapping = {Hashed(1)}, {}
    mapping[Hashed(2)] = members
    triptych_dynamo.graph_break()
    members.add(Hashed(1))
    return x, members, mapping[Hashed(2)] is members
