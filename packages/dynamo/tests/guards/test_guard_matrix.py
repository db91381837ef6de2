"""Every kind of guard on values, and every source, in C and in the twin: holds, violated by that fact, unreadable."""

import collections
import types
import weakref

import pytest
import sympy
import torch
from guard_verdicts import FREE, Counted, Plain, X, Y, holds, make_function, reason
from triptych_dynamo.guards.facts import KINDS, Apart, Guard, PythonFact, ShapeFact
from triptych_dynamo.guards.program import compile_guards
from triptych_dynamo.guards.python_check import check
from triptych_dynamo.sources import (
    AttrSource,
    CellSource,
    ContentSource,
    DictKeySource,
    GlobalSource,
    InstanceDictSource,
    ItemSource,
    KeyedItemSource,
    LocalSource,
    PinnedSource,
    TypeSource,
)


class WithGetattr:
    def __getattr__(self, name):
        if name == "made":
            return 1
        raise AttributeError(name)


OBJECT, OTHER = Plain(), Plain()
E1, E2 = (types.CellType(), types.CellType(1))
s, t = sympy.symbols("s t", integer=True)

# kind: (guard, values that hold, values that violate it)
ROWS = [
    (Guard("type_is", X, int), [1, 2**70], [True, 1.0, None]),
    (Guard("is", X, None), [None], [0, False]),
    (Guard("is", X, OBJECT), [OBJECT], [OTHER]),
    (Guard("is_weak", X, OBJECT), [OBJECT], [OTHER]),
    (Guard("is_weak", X, 5), [5], [6]),  # what cannot be weakly held is held
    (Guard("equals", X, 3), [3], [4, True, 3.0, "3", None]),
    (Guard("equals", X, True), [True], [1, False]),
    (Guard("equals", X, 0.0), [0.0], [-0.0, 0, 1e-300]),
    (Guard("equals", X, float("nan")), [float("nan")], [0.0]),
    (Guard("equals", X, "abc"), ["abc", "".join("abc")], ["abd", b"abc", ""]),
    (Guard("equals", X, (1, "a", (2.0,))), [(1, "a", (2.0,))], [(1, "a", (2,)), (1, "a"), [1, "a", (2.0,)]]),
    (Guard("equals", X, frozenset((1, 2))), [frozenset((2, 1))], [frozenset((True, 2)), {1, 2}, frozenset((1,))]),
    (Guard("equals", X, complex(0, -0.0)), [complex(0, -0.0)], [complex(0, 0.0), 0]),
    (Guard("equals", X, torch.float32), [torch.float32], [torch.float64, "float32"]),
    (Guard("equals", X, slice(1, None, 2)), [slice(1, None, 2)], [slice(1, None)]),
    (
        Guard("length", X, 2),
        [[1, 2], (1, 2), {1: 1, 2: 2}, {1, 2}, "ab", Counted(a=1, b=2), collections.deque([1, 2]), range(2)],
        [[1], (), {}, 5, None, Plain(), collections.deque()],
    ),
    (Guard("truth", X, True), [[0], 1, "a", {1: 1}, True, Counted(a=1), 0.5], [[], 0, "", None, Counted(), 0.0]),
    (Guard("truth", X, False), [[], 0, None, Counted()], [[0], 1]),
    (
        Guard("dict_keys", X, ("a", 1)),
        [{"a": 0, 1: 0}, collections.OrderedDict([("a", 0), (1, 0)])],
        [{1: 0, "a": 0}, {"a": 0}, {"a": 0, 1.0: 0}, {"a": 0, True: 0}, {"a": 0, 1: 0, 2: 0}, ["a", 1]],
    ),
    (
        Guard("dict_has", X, "a"),
        [{"a": 1}, {"a"}, Counted(a=1), types.MappingProxyType({"a": 1})],
        [{}, ["a"], Counted()],
    ),
    (Guard("dict_lacks", X, "a"), [{}, {"b"}, Counted(b=1)], [{"a": 1}, Counted(a=1), ["b"]]),
    (Guard("lacks_attr", X, "made"), [Plain(), 5], [Plain(made=1), WithGetattr()]),
    (Guard("cell_empty", X), [E1], [E2, 5]),
    (Guard("range_is", X, range(0, 6, 2)), [range(0, 6, 2)], [range(0, 5, 2), range(6), [0, 2, 4]]),
    (Guard("range_is", X, range(0)), [range(0)], [range(1, 1)]),
    (Guard("set_is", X, frozenset("ab")), [{"a", "b"}, frozenset("ab")], [{"a"}, {"a", "c"}, ["a", "b"]]),
    (Guard("int_in", X, (2, 10)), [2, 10, 5], [1, 11, 5.0, None, 2**70]),
    (Guard("int_in", X, (None, None)), [0, -(2**63), 2**63 - 1], [2**63, True]),
    (Guard("shape", None, ShapeFact(sympy.Eq(s % 4, 0) & (s > 3), ((s, X),))), [4, 8], [0, 6, 4.0, "a"]),
    (Guard("python", X, PythonFact(lambda v: v > 3, "above 3")), [4], [3, "a"]),
]


@pytest.mark.parametrize("guard,good,bad", ROWS, ids=[f"{row[0].kind}-{index}" for index, row in enumerate(ROWS)])
def test_values(guard, good, bad):
    for value in good:
        assert holds(guard, value), value
    for value in bad:
        assert reason(guard, value)


def test_keys_at_other_sources():
    key, other = torch.ones(1), torch.ones(1)
    has, lacks, item = Guard("dict_has_at", X, Y), Guard("dict_lacks_at", X, Y), KeyedItemSource(X, Y)
    for mapping in ({key: 5}, collections.OrderedDict({other: 1, key: 5}), Counted({key: 5})):
        assert holds(has, mapping, key) and holds(Guard("equals", item, 5), mapping, key)
        assert holds(lacks, mapping, torch.ones(1))
        assert reason(lacks, mapping, key) == "L['y'] not in L['x']: it is a key"
    assert reason(has, {key: 5}, other) == "L['y'] in L['x']: it is no key"
    assert "cannot be read" in reason(Guard("equals", item, 5), {key: 5}, other)
    assert reason(Guard("equals", item, 5), {key: 6}, key) == "L['x'][L['y']] == 5: it is 6"
    for mapping in ([key], None):
        assert reason(has, mapping, key) and reason(lacks, mapping, key)
        assert reason(Guard("equals", item, 5), mapping, key)
    assert reason(has, {1: 1}, []) and reason(lacks, {1: 1}, []) and reason(Guard("equals", item, 1), {1: 1}, [])


def test_every_kind_is_tested_and_described():
    tested = {row[0].kind for row in ROWS} | {"same_as", "not_same_as", "distinct", "tensor", "no_overlap", "mode"}
    tested |= {"no_gradients", "overlap", "dict_has_at", "dict_lacks_at"}
    assert tested == set(KINDS)
    assert reason(Guard("equals", X, 3), 4) == "L['x'] == 3: it is 4"
    assert reason(Guard("length", X, 3), [1]) == "len(L['x']) == 3: its length is 1"


def test_weakly_held_object_that_is_gone():
    held, other = Plain(), Plain()
    guard = Guard("is_weak", X, weakref.ref(held))
    fn = make_function()
    program = compile_guards([guard], fn.__code__)
    assert program.failed((held, None), fn) is None and check([guard], {"x": held}) is None
    assert holds(guard, held) and "it is" in reason(guard, other)
    del held
    assert program.failed((other, None), fn) == 0 and program.failed((None, None), fn) == 0
    assert "gone" in reason(guard, None)


def test_identity_between_sources():
    a, b = [1], [1]
    same, different = Guard("same_as", X, Y), Guard("not_same_as", X, Y)
    assert holds(same, a, a) and not holds(same, a, b) and holds(different, a, b) and not holds(different, a, a)


def test_objects_apart_from_others():
    a, b = [1], [1]
    every = (X, Y, ItemSource(X, 0))
    distinct = Guard("distinct", None, Apart(every, every))
    assert holds(distinct, [b], a) and not holds(distinct, [a], a)
    one = Guard("distinct", None, Apart((X,), (Y, ItemSource(Y, 0))))
    assert holds(one, a, [b]) and not holds(one, a, [a]) and not holds(one, a, a)
    assert holds(one, a, [b, b]), "the others may be one object"


@pytest.mark.parametrize("changed", [1, 3, 30, 200])
def test_many_objects_apart(changed):
    sources = tuple(ItemSource(X, i) for i in range(200))
    many = Guard("distinct", None, Apart(sources[:changed], sources))
    bipartite = Guard("distinct", None, Apart(sources[:changed], sources[100:]))
    objects = [Plain() for _ in range(200)]
    assert holds(many, objects) and holds(bipartite, objects)
    for at in range(0, 200, 7):
        for other in (1, 60, 150):
            if at != other:
                aliased = [*objects[:at], objects[other], *objects[at + 1 :]]
                assert holds(many, aliased) == (min(at, other) >= changed)
                left, right = {at, other} & set(range(changed)), {at, other} & set(range(100, 200))
                assert holds(bipartite, aliased) == (not left or not right or left | right != {at, other})


# -- sources ---------------------------------------------------------------------------------------------------------
class Slotted:
    __slots__ = ("value",)


GLOBALS = {"known": 3}
G = PinnedSource(GLOBALS, "G")
slotted = Slotted()
slotted.value = 3


@pytest.mark.parametrize(
    "source,good,bad,unreadable",
    [
        (X, 3, 4, None),
        (AttrSource(X, "a"), Plain(a=3), Plain(a=4), Plain()),
        (AttrSource(AttrSource(X, "a"), "b"), Plain(a=Plain(b=3)), Plain(a=Plain(b=4)), Plain(a=5)),
        (AttrSource(X, "value"), slotted, Plain(value=4), Slotted()),
        (ItemSource(InstanceDictSource(X), "a"), Plain(a=3), Plain(a=4), Plain()),
        (ItemSource(InstanceDictSource(X), "__module__"), Plain(__module__=3), Plain, 5),
        (ItemSource(X, 1), [0, 3], (0, 4), [0]),
        (ItemSource(X, -1), (3,), [4], []),
        (ItemSource(X, 1), {1: 3}, {1: 4}, {2: 3}),
        (ItemSource(X, 0), collections.deque([3]), collections.deque([4]), collections.deque()),
        (ItemSource(X, "k"), {"k": 3}, {"k": 4}, {}),
        (ItemSource(X, "k"), types.MappingProxyType({"k": 3}), types.MappingProxyType({"k": 4}), Plain()),
        (ItemSource(X, ("k", 1)), {("k", 1): 3}, {("k", 1): 4}, []),
        (ItemSource(X, "k"), Counted(k=3), Counted(k=4), Counted()),
        (DictKeySource(X, 1), {0: 0, 3: 0}, {3: 0, 0: 0}, {3: 0}),
        (ContentSource(X), types.CellType(3), types.CellType(4), types.CellType()),
        (ContentSource(X), types.CellType(3), types.CellType(4), 3),
        (ItemSource(ItemSource(X, "a"), 0), {"a": [3]}, {"a": [4]}, {"a": 5}),
    ],
)
def test_sources(source, good, bad, unreadable):
    guard = Guard("equals", source, 3)
    assert holds(guard, good)
    assert "it is" in reason(guard, bad)
    assert reason(guard, unreadable)
    assert compile_guards([guard], make_function().__code__).failed((object(), None), make_function()) == 0


def test_type_source():
    assert holds(Guard("is", TypeSource(X), int), 3) and reason(Guard("is", TypeSource(X), int), True)


def test_dict_order_of_ordered_dict():
    moved = collections.OrderedDict.fromkeys("abc")
    moved.move_to_end("a")
    assert holds(Guard("dict_keys", X, ("b", "c", "a")), moved) and not holds(
        Guard("dict_keys", X, ("a", "b", "c")), moved
    )
    assert holds(Guard("equals", DictKeySource(X, 0), "b"), moved)


def test_globals_and_pinned():
    guard = Guard("equals", GlobalSource(G, "known"), 3)
    assert holds(guard, 0)
    GLOBALS["known"] = 4
    assert reason(guard, 0) == "G['known'] == 3: it is 4"
    GLOBALS.clear()
    assert "cannot be read" in reason(guard, 0)
    GLOBALS["known"] = 3
    held = Plain(a=3)
    weak = AttrSource(PinnedSource(held, "held", weak=True), "a")
    fn = make_function()
    program = compile_guards([Guard("equals", weak, 3)], fn.__code__)
    assert program.failed((0, 0), fn) is None


def test_closure_and_parameters():
    content = Guard("equals", ContentSource(CellSource("free")), FREE)
    assert holds(content, 0) and reason(content, 0, fn=make_function("other"))
    assert holds(Guard("cell_empty", CellSource("free")), 0, fn=make_function(empty=True))
    assert "cannot be read" in reason(content, 0, fn=make_function(empty=True))
    fn = make_function()
    assert fn.__code__.co_varnames == ("x", "y", "key", "rest", "more")
    for name, value in {"key": 1, "rest": (1, 2), "more": {"z": 1}}.items():
        index = fn.__code__.co_varnames.index(name)
        values = [None] * 5
        values[index] = value
        kind = "set_is" if name == "more" else "equals"
        guard = (
            Guard("equals", LocalSource(name), value)
            if kind == "equals"
            else Guard("dict_keys", LocalSource(name), ("z",))
        )
        assert holds(guard, *values) and not holds(guard, *[None] * 5)


def test_types_are_checked_before_user_code_may_run():
    class Trap:
        @property
        def a(self):
            raise SystemExit("user code ran")

    guards = [Guard("equals", AttrSource(X, "a"), 3), Guard("type_is", X, Plain)]
    fn = make_function()
    assert compile_guards(guards, fn.__code__).failed((Trap(), None), fn) == 1


def test_failing_user_code_is_a_violation():
    class Bad:
        @property
        def a(self):
            raise ValueError

        def __eq__(self, other):
            raise ValueError

        def __bool__(self):
            raise ValueError

        __hash__ = object.__hash__

    fn = make_function()
    for guard in (Guard("equals", AttrSource(X, "a"), 3), Guard("equals", X, Bad()), Guard("truth", X, True)):
        assert compile_guards([guard], fn.__code__).failed((Bad(), None), fn) == 0
    assert reason(Guard("python", X, PythonFact(lambda v: 1 // 0, "raises")), 1)


def test_reentrant_and_concurrent_checks():
    fn = make_function()
    box = []
    guard = Guard(
        "python",
        AttrSource(X, "a"),
        PythonFact(lambda v: box[0].failed((Plain(a=v + 1), None), fn) is None if v < 30 else True, "again"),
    )
    box.append(compile_guards([guard, Guard("int_in", AttrSource(X, "a"), (0, 30))], fn.__code__))
    assert box[0].failed((Plain(a=0), None), fn) is None
    assert box[0].failed((Plain(a=31), None), fn) == 1


def test_unknown_names_are_refused():
    code = make_function().__code__
    for guard in (
        Guard("is", LocalSource("nobody"), 1),
        Guard("is", CellSource("nobody"), 1),
        Guard("mode", None, ("nobody", 1)),
    ):
        with pytest.raises(KeyError):
            compile_guards([guard], code)
    with pytest.raises(TypeError):
        compile_guards([Guard("is", None, 1)], code)


def test_long_paths():
    source, value = X, 3
    for _ in range(150):
        source, value = ItemSource(source, 0), [value]
    fn = make_function()
    assert compile_guards([Guard("equals", source, 3)], fn.__code__).failed((value, None), fn) is None
