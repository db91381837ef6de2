# ruff: noqa: UP003, UP042
"""Classes made and used inside a program: bodies, metaclasses, descriptors, dataclasses, enumerations."""

from __future__ import annotations

import abc
import collections
import copy
import dataclasses
import enum
import operator
import types
import typing
import weakref

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


@construct(X, breaks="class-definition")
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


# -- attributes --------------------------------------------------------------------------------------------------------
class Typed:
    def __init__(self, kind):
        self.kind = kind

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        return self if obj is None else getattr(obj, self.name)

    def __set__(self, obj, value):
        if not isinstance(value, self.kind):
            raise TypeError(f"{self.name} wants {self.kind.__name__}")
        setattr(obj, self.name, value)

    def __delete__(self, obj):
        delattr(obj, self.name)


class Described:
    number = Typed(int)


@construct(X)
def data_descriptor(x):
    made = Described()
    made.number = 4
    try:
        made.number = "a"
    except TypeError as error:
        text = str(error)
    value = made.number
    del made.number
    return x * value, text, hasattr(made, "number"), Described.number.name


class Lazy:
    def __getattr__(self, name):
        if name.startswith("make_"):
            return name[5:]
        raise AttributeError(name)

    def __dir__(self):
        return ["a", "b"]


@construct(X)
def attribute_fallback(x):
    made = Lazy()
    return x, made.make_it, getattr(made, "other", 3), hasattr(made, "make_x"), dir(made)


class Slotted:
    __slots__ = ("__dict__", "a", "b")


@construct(X)
def slots_with_dictionary(x):
    made = Slotted()
    made.a, made.c = x, 2
    return made.a, made.c, hasattr(made, "b"), vars(made)


@construct(Plain(X))
def vars_of_an_argument(p):
    vars(p)["b"] = p.a + 1
    p.__dict__.update(c=3)
    return p.b, sorted(vars(p))


@construct(X)
def class_changed_after(x):
    made = Plain(1)
    made.__class__ = Other
    return x, type(made).__name__, made.twice()


class Other(Plain):
    def twice(self):
        return self.a * 2


class Tracking:
    log: typing.ClassVar[list] = []

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        object.__setattr__(self, "last", name)

    def __delattr__(self, name):
        object.__delattr__(self, name)
        object.__setattr__(self, "gone", name)

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


@construct(X)
def attribute_hooks(x):
    made = Tracking()
    made.a = x
    del made.a
    return made.last, made.gone, hasattr(made, "a")


@construct(X)
def setattr_and_friends(x):
    made = Plain(x)
    setattr(made, "k", 2)
    delattr(made, "a")
    return made.k, hasattr(made, "a"), getattr(made, "a", "none"), operator.attrgetter("k")(made)


# -- operators ---------------------------------------------------------------------------------------------------------
class Number:
    def __init__(self, v):
        self.v = v

    def __matmul__(self, other):
        return "matmul", self.v, other.v

    def __divmod__(self, other):
        return "divmod", other

    def __rpow__(self, other):
        return "rpow", other

    def __index__(self):
        return self.v

    def __round__(self, digits=None):
        return "round", digits

    def __format__(self, spec):
        return f"<{spec}>"

    def __bool__(self):
        return bool(self.v)

    def __invert__(self):
        return ~self.v

    def __int__(self):
        return self.v

    def __float__(self):
        return float(self.v)

    def __abs__(self):
        return abs(self.v)

    def __reversed__(self):
        return "reversed"

    def __length_hint__(self):
        return 3

    def __imatmul__(self, other):
        self.v = "imatmul"
        return self

    def __hash__(self):
        return 7

    def __eq__(self, other):
        return isinstance(other, Number)


@construct(X)
def rare_operators(x):
    n = Number(2)
    m = Number(3)
    m @= n
    return n @ Number(4), divmod(n, 5), 2**n, [10, 11, 12][n], round(n), round(n, 2), f"{n:spec}", not n, ~n, m.v


@construct(X)
def conversions_of_objects(x):
    n = Number(-2)
    return x, int(n), float(n), abs(n), reversed(n), operator.length_hint(n), {n: 1}[Number(5)], hash(n), range(5)[n]


class Callable_:
    def __call__(self, v, *, k=1):
        return v * k


@construct(X)
def callable_objects(x):
    return Callable_()(x, k=3), list(map(Callable_(), [1, 2])), callable(Callable_()), callable(3)


class Mapping(collections.abc.MutableMapping):
    def __init__(self):
        self.data = {}

    def __getitem__(self, key):
        return self.data[key]

    def __setitem__(self, key, value):
        self.data[key] = value

    def __delitem__(self, key):
        del self.data[key]

    def __iter__(self):
        return iter(self.data)

    def __len__(self):
        return len(self.data)


@construct(X)
def mapping_by_inheritance(x):
    made = Mapping()
    made.update(a=x, b=2)
    return made.pop("b"), made.get("z", 1), list(made.items()), "a" in made, made.setdefault("c", 5), dict(made)["c"]


class Sequence(collections.abc.Sequence):
    def __getitem__(self, index):
        if index >= 3:
            raise IndexError(index)
        return index * 2

    def __len__(self):
        return 3


@construct(X)
def sequence_by_inheritance(x):
    made = Sequence()
    return x, list(made), 4 in made, made.index(2), made.count(0), list(reversed(made))


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


# -- weak references, copies, typing -----------------------------------------------------------------------------------
@construct(X, Plain(1))
def weak_references(x, p):
    r = weakref.ref(p)
    keys = weakref.WeakKeyDictionary()
    keys[p] = 2
    return r() is p, keys[p], len(keys)


@construct(X, Plain([1, {"k": (2, 3)}]))
def deep_copies(x, p):
    copied = copy.deepcopy(p)
    copied.a[1]["k"] = 5
    shallow = copy.copy(p)
    return copied.a, p.a, shallow.a is p.a, copy.deepcopy([x, (1, {2})])


class Copying:
    def __init__(self, a):
        self.a = a

    def __copy__(self):
        return Copying(("copy", self.a))

    def __deepcopy__(self, memo):
        return Copying(("deep", self.a))


@construct(X)
def copy_protocol(x):
    return copy.copy(Copying(1)).a, copy.deepcopy(Copying(x)).a


@construct(X)
def deep_copy_shares_inside(x):
    inner = [1]
    pair = copy.deepcopy([inner, inner])
    return x, pair[0] is pair[1], pair[0] is inner


class Typed2(typing.NamedTuple):
    a: int
    b: object = 5


T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    def __init__(self, item):
        self.item = item


@construct(X)
def typing_tools(x):
    return (
        typing.cast(int, x),
        Typed2(1)._replace(b=x).b,
        Typed2(1)._asdict(),
        Typed2._fields,
        Box[int](x).item,
        typing.get_origin(list[int]),
        isinstance(1, int | str),
        typing.get_type_hints(Typed2)["a"],
    )


@construct(X)
def namespaces(x):
    space = types.SimpleNamespace(a=1, b=x)
    space.c = space.a + 1
    proxy = types.MappingProxyType({"k": 1})
    return space, proxy["k"], list(proxy), types.MethodType(lambda self, v: self.a + v, space)(2)


@construct(X)
def iterator_classes(x):
    class Countdown:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if not self.n:
                raise StopIteration
            self.n -= 1
            return self.n

    return x, list(Countdown(3)), sum(Countdown(4)), [*Countdown(2)], 2 in Countdown(3), dict(zip("ab", Countdown(3)))


class Switch:
    on = True

    def __init__(self):
        self.off = False
        self.none = None


@construct(X, Switch())
def identity_of_singletons(x, switch):
    return (
        switch.on is True,
        switch.off is False,
        switch.none is None,
        switch.off is not True,
        (switch.on, 1)[0] is True,
    )


class Number_(int):
    def __new__(cls, value):
        made = super().__new__(cls, value)
        made.tag = "t"
        return made


class Pair(collections.namedtuple("Pair", "a b")):  # noqa: SLOT002
    def __new__(cls, a, b=2):
        return super().__new__(cls, a, b)

    @property
    def total(self):
        return self.a + self.b


class Text_(str):  # noqa: SLOT000
    pass


class Items(list):
    pass


class Kept(frozenset):
    pass


@construct(X)
def instances_of_builtin_subclasses(x):
    return (
        Number_(5),
        Number_(5) + 1,
        Pair(x).total,
        Pair(1),
        Text_("abc"),
        Text_("a").upper(),
        Items([1, x]),
        Items(),
        Kept([1, 2]),
    )
