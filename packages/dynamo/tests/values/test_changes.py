"""What a program reads is guarded: each change of it is seen at the next call, and nothing else compiles again."""

from __future__ import annotations

import datetime
import functools
import types
from collections import OrderedDict, deque

import pytest
import torch
import triptych_dynamo
from harness import assert_same

X = torch.arange(6.0).reshape(2, 3)
FACTOR = 2
SETTINGS = {"scale": 2, "other": 1}
HELPER_MODULE = types.ModuleType("helper_module")
HELPER_MODULE.value = 3
HELPER_MODULE.function = lambda x: x + 1


class Config:
    level = 1

    def __init__(self):
        self.scale = 2
        self.nested = types.SimpleNamespace(depth=1, names=["a"])
        self.unused = 0

    @property
    def double(self):
        return self.scale * 2

    def method(self, x):
        return x * self.scale

    def __len__(self):
        return self.scale


class Slots:
    __slots__ = ("a",)

    def __init__(self):
        self.a = 1


class SubDict(dict):
    pass


def helper(x, k=1, *, named=2):
    return x * k + named


def make_closure():
    n = 1

    def fn(x):
        return x + n

    def change(v):
        nonlocal n
        n = v

    return fn, change


def set_global(name, value):
    globals()[name] = value


def set_default(value):
    helper.__defaults__ = (value,)


# Each row: a function of the tensor and an object, how the object is made, and changes that the function must see.
ROWS = {
    "attribute": (lambda x, c: x * c.scale, Config, [lambda c: setattr(c, "scale", 5)]),
    "attribute_type": (lambda x, c: x * c.scale, Config, [lambda c: setattr(c, "scale", 2.5)]),
    "bool_is_not_int": (
        lambda x, c: (x, c.scale),
        lambda: types.SimpleNamespace(scale=1),
        [lambda c: setattr(c, "scale", True)],
    ),
    "nested_attribute": (lambda x, c: x * c.nested.depth, Config, [lambda c: setattr(c.nested, "depth", 7)]),
    "nested_object": (
        lambda x, c: x * c.nested.depth,
        Config,
        [lambda c: setattr(c, "nested", types.SimpleNamespace(depth=9))],
    ),
    "property": (lambda x, c: x * c.double, Config, [lambda c: setattr(c, "scale", 5)]),
    "class_attribute": (lambda x, c: x * c.level, Config, [lambda c: setattr(c, "level", 4)]),
    "missing_attribute": (lambda x, c: x * getattr(c, "extra", 1), Config, [lambda c: setattr(c, "extra", 4)]),
    "hasattr": (lambda x, c: x + hasattr(c, "extra"), Config, [lambda c: setattr(c, "extra", 4)]),
    "deleted_attribute": (lambda x, c: x + hasattr(c, "unused"), Config, [lambda c: delattr(c, "unused")]),
    "method_of_instance": (lambda x, c: c.method(x), Config, [lambda c: setattr(c, "method", lambda x: x - 1)]),
    "len": (lambda x, c: x * len(c), Config, [lambda c: setattr(c, "scale", 5)]),
    "slot": (lambda x, c: x * c.a, Slots, [lambda c: setattr(c, "a", 3)]),
    "instance_dict": (lambda x, c: len(vars(c)), Config, [lambda c: setattr(c, "more", 3)]),
    "list_item": (lambda x, c: x * c[1], lambda: [1, 2], [lambda c: c.__setitem__(1, 5)]),
    "list_length": (lambda x, c: x * len(c), lambda: [1, 2], [lambda c: c.append(5), lambda c: c.clear()]),
    "list_sum": (lambda x, c: x * sum(c), lambda: [1, 2], [lambda c: c.append(5)]),
    "list_of_tensors": (
        lambda x, c: x * c[0].sum(),
        lambda: [torch.ones(2)],
        [lambda c: c.__setitem__(0, torch.ones(3))],
    ),
    "tuple": (lambda x, c: x * c.t[1], lambda: types.SimpleNamespace(t=(1, 2)), [lambda c: setattr(c, "t", (1, 7))]),
    "dict_item": (lambda x, c: x * c["a"], lambda: {"a": 1}, [lambda c: c.update(a=3)]),
    "dict_get": (lambda x, c: x * c.get("b", 1), lambda: {"a": 1}, [lambda c: c.update(b=3)]),
    "dict_in": (lambda x, c: x + ("b" in c), lambda: {"a": 1}, [lambda c: c.update(b=3)]),
    "dict_keys": (lambda x, c: list(c), lambda: {"a": 1}, [lambda c: c.update(b=3)]),
    "dict_order": (lambda x, c: list(c), lambda: {"a": 1, "b": 2}, [lambda c: c.update(a=c.pop("a"))]),
    "dict_truth": (lambda x, c: x + bool(c), lambda: {"a": 1}, [lambda c: c.clear()]),
    "ordered_dict": (lambda x, c: list(c.values()), lambda: OrderedDict(a=1, b=2), [lambda c: c.move_to_end("a")]),
    "dict_subclass": (lambda x, c: x * c["a"], lambda: SubDict(a=1), [lambda c: c.update(a=3)]),
    "set": (lambda x, c: x + (2 in c), lambda: {1}, [lambda c: c.add(2)]),
    "deque": (lambda x, c: x * c[0], lambda: deque([1, 2]), [lambda c: c.rotate(1)]),
    "partial": (
        lambda x, c: c.f(x),
        lambda: types.SimpleNamespace(f=functools.partial(helper, k=2)),
        [lambda c: setattr(c, "f", functools.partial(helper, k=3))],
    ),
    "function": (
        lambda x, c: c.f(x),
        lambda: types.SimpleNamespace(f=lambda x: x + 1),
        [lambda c: setattr(c, "f", lambda x: x + 2)],
    ),
    "global": (lambda x, c: x * FACTOR, Config, [lambda c: set_global("FACTOR", 5), lambda c: set_global("FACTOR", 2)]),
    "global_dict": (
        lambda x, c: x * SETTINGS["scale"],
        Config,
        [lambda c: SETTINGS.update(scale=7), lambda c: SETTINGS.update(scale=2)],
    ),
    "module_attribute": (
        lambda x, c: HELPER_MODULE.function(x) * HELPER_MODULE.value,
        Config,
        [lambda c: setattr(HELPER_MODULE, "value", 4), lambda c: setattr(HELPER_MODULE, "function", lambda x: x * 3)],
    ),
    "default": (lambda x, c: helper(x), Config, [lambda c: set_default(4), lambda c: set_default(1)]),
    "keyword_default": (
        lambda x, c: helper(x),
        Config,
        [lambda c: helper.__kwdefaults__.update(named=6), lambda c: helper.__kwdefaults__.update(named=2)],
    ),
    "class_of_argument": (
        lambda x, c: x * len(c.box),
        lambda: types.SimpleNamespace(box=[1]),
        [lambda c: setattr(c, "box", (1, 2)), lambda c: setattr(c, "box", {"a": 1})],
    ),
    "none": (
        lambda x, c: x if c.opt is None else x + 1,
        lambda: types.SimpleNamespace(opt=None),
        [lambda c: setattr(c, "opt", 0)],
    ),
    "same_object": (
        lambda x, c: x + (c.a is c.b),
        lambda: types.SimpleNamespace(a=(box := [1]), b=box),
        [lambda c: setattr(c, "b", [1])],
    ),
    "different_objects": (
        lambda x, c: x + (c.a is c.b),
        lambda: types.SimpleNamespace(a=[1], b=[1]),
        [lambda c: setattr(c, "b", c.a)],
    ),
    "aliased_tensors": (
        lambda x, c: c.a.add_(1) + c.b,
        lambda: types.SimpleNamespace(a=torch.ones(2), b=torch.ones(2)),
        [lambda c: setattr(c, "b", c.a)],
    ),
    "requires_grad": (
        lambda x, c: (c.t * 2).requires_grad,
        lambda: types.SimpleNamespace(t=torch.ones(2)),
        [lambda c: c.t.requires_grad_()],
    ),
    "tensor_dtype": (
        lambda x, c: c.t * 2,
        lambda: types.SimpleNamespace(t=torch.ones(2)),
        [lambda c: setattr(c, "t", torch.ones(2, dtype=torch.float64))],
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_change_is_seen(name):
    fn, make, changes = ROWS[name]
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(fn)
    ours, theirs = make(), make()
    assert_same(compiled(X, ours), fn(X, theirs))
    assert_same(compiled(X, ours), fn(X, theirs))
    assert compiled.misses == 1, "nothing changed, but it compiled again"
    for change in changes:
        change(ours)
        change(theirs)
        assert_same(compiled(X, ours), fn(X, theirs))


@pytest.mark.parametrize(
    ("fn", "change"),
    [
        (lambda x, c: x * c.scale, lambda c: setattr(c, "unused", 5)),
        (lambda x, c: x * c.scale, lambda c: setattr(c, "brand_new", 5)),
        (lambda x, c: x * c.nested.depth, lambda c: c.nested.names.append("b")),
        (lambda x, c: x * SETTINGS["scale"], lambda c: SETTINGS.update(other=9)),
        (lambda x, c: c.method(x), lambda c: setattr(c, "nested", None)),
        (lambda x, c: c, lambda c: setattr(c, "scale", 9)),
    ],
    ids=range(6),
)
def test_change_of_what_is_not_read(fn, change):
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(fn)
    config = Config()
    compiled(X, config)
    change(config)
    assert_same(compiled(X, config), fn(X, config))
    assert compiled.misses == 1


def test_closure_content():
    fn, change = make_closure()
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(fn)
    for value in (1, 5, 7):
        change(value)
        assert_same(compiled(X), fn(X))


def test_class_attribute_and_method_of_the_class():
    class Local:
        factor = 2

        def apply(self, x):
            return x * self.factor

    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(lambda x, c: c.apply(x))
    assert_same(compiled(X, Local()), X * 2)
    Local.factor = 3
    assert_same(compiled(X, Local()), X * 3)
    Local.apply = lambda self, x: x - self.factor
    assert_same(compiled(X, Local()), X - 3)


def test_a_global_that_shadows_a_builtin():
    namespace = {"torch": torch}
    exec("def fn(x):\n    return x * len((1, 2))", namespace)
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(namespace["fn"])
    assert_same(compiled(X), X * 2)
    namespace["len"] = lambda obj: 7
    assert_same(compiled(X), X * 7)


def test_argument_that_is_also_a_global():
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(lambda x, d: x * d["scale"] * SETTINGS["scale"])
    assert_same(compiled(X, SETTINGS), X * 4)
    assert_same(compiled(X, {"scale": 5}), X * 10)


def test_equal_values_of_frozen_types_are_interchangeable():
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(lambda x, d: x * d.days)
    for days in (1, 1, 2, 1):
        assert_same(compiled(X, datetime.timedelta(days=days)), X * days)
    assert compiled.misses == 2


def test_modules_of_one_class_share_an_entry():
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(lambda x, m: m(x))
    for module in (torch.nn.LSTM(3, 3), torch.nn.LSTM(3, 3)):
        assert_same(compiled(X, module), module(X))
    assert compiled.misses == 1


def first_and_last(x, items):
    return x * items[0] + items[-1]


def first_then_all(x, items):
    first = items[0]
    items.append(first)
    return x * first + sum(items)


def beyond(x, items):
    try:
        return x * items[2]
    except IndexError:
        return x - 1


@pytest.mark.parametrize(
    ("program", "compiles"),
    [(first_and_last, 1), (lambda x, items: x * items[-2], 1), (first_then_all, 4), (beyond, 3)],
)
def test_reading_an_item_does_not_fix_the_length(program, compiles):
    graphs = []
    compiled = triptych_dynamo.optimize(lambda gm, inputs: (graphs.append(gm), gm.forward)[1])(program)
    for count in (2, 3, 4, 5):
        mine, theirs = ([torch.full((3,), float(n)) for n in range(count)] for _ in range(2))
        assert_same(compiled(X, mine), program(X, theirs))
        assert len(mine) == len(theirs)
    assert len(graphs) <= compiles
    if program is first_and_last:
        one = [torch.ones(3)]
        assert_same(compiled(X, one), program(X, one))
        assert_same(compiled(X, (torch.ones(3), torch.zeros(3))), X)
        with pytest.raises(IndexError):
            compiled(X, [])


def test_an_item_that_is_written_through_two_places():
    def program(x, items):
        items[0].add_(1)
        return x + items[-1]

    compiled = triptych_dynamo.optimize("eager")(program)
    for count in (2, 1, 3):
        mine, theirs = ([torch.full((3,), float(n)) for n in range(count)] for _ in range(2))
        assert_same(compiled(X, mine), program(X, theirs))
        assert_same(mine, theirs)
