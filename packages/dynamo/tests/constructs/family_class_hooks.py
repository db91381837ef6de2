# ruff: noqa: F821, N804
"""Code of the program that runs when a class is made: `__init_subclass__`, and hooks of metaclasses."""

from __future__ import annotations

import abc
import typing

import torch
import triptych_dynamo
from table import construct
from torch import nn

X = torch.arange(6.0).reshape(2, 3)
LOG: list = []


# -- __init_subclass__ -------------------------------------------------------------------------------------------------
class Registering:
    def __init_subclass__(cls, *, option=0, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.option = option
        LOG.append(cls.__name__)


class Twice(Registering):
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.two = 2


LOG.clear()


@construct(X)
def hooks_of_bases(x):
    LOG.clear()

    class Child(Registering, option=3):
        k = 1

    class Grandchild(Twice, option=4):
        def run(self):
            return self.option + self.two

    made = Grandchild()
    mro = [cls.__name__ for cls in Grandchild.__mro__]
    return x * Child.option * made.run(), list(LOG), vars(Grandchild)["option"], mro, isinstance(made, Registering)


@construct(X)
def attributes_set_behind_the_class(x):
    class Child(Registering, option=5):
        k = 1

    Child.later = 8
    return x * Child().later, Child().option


@construct(X)
def registry_of_a_local_base(x):
    class Base:
        subclasses: typing.ClassVar[list] = []

        def __init_subclass__(cls):
            Base.subclasses.append(cls)
            cls.number = len(Base.subclasses)

    class First(Base):
        pass

    class Second(Base):
        pass

    return x, [cls.__name__ for cls in Base.subclasses], Second.number, First().number


class Counted(nn.Module):
    last: typing.ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        Counted.last = cls.__name__


@construct(X)
def hook_of_a_module(x):
    class Double(Counted):
        def forward(self, v):
            return v * 2

    return Double()(x), Counted.last


@construct(X, breaks="explicit")
def hooked_class_over_a_break(x):
    LOG.clear()

    class Child(Registering, option=3):
        def run(self):
            return self.option

    triptych_dynamo.graph_break()
    return x, Child().run(), Child.__name__, isinstance(Child(), Registering), list(LOG)


class Abstract(abc.ABC):
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.k = 9


@construct(X, breaks="class-definition")
def hook_of_a_base_of_another_layout(x):
    class Child(Abstract):
        pass

    return x * Child.k


# -- metaclasses -------------------------------------------------------------------------------------------------------
class Meta(type):
    @classmethod
    def __prepare__(meta, name, bases, **kwargs):
        return {"prepared": 1}

    def __new__(meta, name, bases, namespace, **kwargs):
        cls = super().__new__(meta, name, bases, namespace)
        cls.tag = kwargs.get("tag", name.lower())
        LOG.append(name)
        return cls

    def __init__(cls, name, bases, namespace, **kwargs):
        super().__init__(name, bases, namespace)
        cls.size = len([key for key in namespace if not key.startswith("__")])


class WithMeta(metaclass=Meta):
    pass


class AbstractMeta(abc.ABCMeta):
    def __new__(meta, name, bases, namespace):
        namespace["extra"] = 7
        return super().__new__(meta, name, bases, namespace)


@construct(X)
def hooks_of_a_metaclass(x):
    LOG.clear()

    class First(WithMeta, tag="own"):
        value = prepared + 1

        def run(self):
            return self.tag

    second = Meta("Second", (), {"v": 5})
    third = type("Third", (WithMeta,), {})
    tags = First.tag, First().run(), second.tag, third.tag
    return x * First.value, tags, First.size, second.v, list(LOG), type(First).__name__, type(third).__name__


@construct(X)
def metaclass_of_abstract_classes(x):
    class Local(metaclass=AbstractMeta):
        @abc.abstractmethod
        def run(self): ...

    try:
        Local()
    except TypeError as error:
        return x, Local.extra, type(error).__name__


@construct(X)
def metaclass_made_inside(x):
    names = []

    class Local(type):
        def __new__(meta, name, bases, namespace):
            names.append(name)
            return super().__new__(meta, name, bases, namespace)

        def __call__(cls, *args):
            made = super().__call__(*args)
            made.called = True
            return made

    class Made(metaclass=Local):
        def __init__(self, v):
            self.v = v

    return x * Made(2).v, Made(1).called, names


class OnTheClass:
    def __init__(self, function):
        self.function = function

    def __get__(self, instance, owner=None):
        return Described(self.function) if instance is None else self.function(instance)


class Described(OnTheClass):
    pass


class WithDescribed:
    @OnTheClass
    def part(self):
        return 3


@construct(X)
def a_descriptor_that_is_another_on_the_class(x):
    known = getattr(WithDescribed, "part")  # noqa: B009
    return x * WithDescribed().part, type(known).__name__, isinstance(known, OnTheClass)
