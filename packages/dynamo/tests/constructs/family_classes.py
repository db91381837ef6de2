# ruff: noqa: UP003, UP042
"""Attributes, operators and copies of objects."""

from __future__ import annotations

import collections
import copy
import operator
import types
import typing
import weakref

import torch
from family_class_bodies import Plain
from table import construct

X = torch.arange(6.0).reshape(2, 3)


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
