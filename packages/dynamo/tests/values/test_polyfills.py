"""Each Python model equals the C original, on generated arguments."""

from __future__ import annotations

import bisect
import collections
import functools
import heapq
import itertools
import json.encoder
import math
import operator
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from triptych_dynamo.polyfills import MODELS, containers, heaps, iteration, reductions, texts

INTS = st.lists(st.integers(-5, 5), max_size=8)
SMALL = st.integers(-3, 9)
POSITION = st.none() | st.integers(-2, 8)


def outcome(thunk):
    """Value, or exception type."""
    try:
        return "value", thunk()
    except (ValueError, TypeError, IndexError, KeyError, StopIteration, OverflowError) as error:
        return "error", type(error)


def same(original, model, *args, **kwargs):
    """Both give equal results (iterators by their first hundred items)."""

    def run(function):
        result = function(*args, **kwargs)
        return list(itertools.islice(result, 100)) if hasattr(result, "__next__") else result

    assert outcome(lambda: run(model)) == outcome(lambda: run(original))


LAZY = [
    (itertools.chain, (INTS, INTS)),
    (itertools.islice, (INTS, POSITION)),
    (itertools.islice, (INTS, POSITION, POSITION)),
    (itertools.islice, (INTS, POSITION, POSITION, POSITION)),
    (itertools.repeat, (SMALL, SMALL)),
    (itertools.count, (SMALL, SMALL)),
    (itertools.cycle, (INTS,)),
    (itertools.product, (INTS, INTS)),
    (itertools.accumulate, (INTS,)),
    (itertools.compress, (INTS, INTS)),
    (itertools.zip_longest, (INTS, INTS, INTS)),
    (itertools.pairwise, (INTS,)),
    (itertools.combinations, (INTS, st.integers(-1, 4))),
    (itertools.combinations_with_replacement, (INTS, st.integers(-1, 3))),
    (itertools.permutations, (st.lists(SMALL, max_size=4), st.none() | st.integers(-1, 5))),
    (any, (INTS,)),
    (all, (INTS,)),
    (math.prod, (INTS,)),
    (operator.countOf, (INTS, SMALL)),
    (operator.indexOf, (INTS, SMALL)),
]
if sys.version_info >= (3, 12):
    LAZY.append((itertools.batched, (INTS, SMALL)))


@pytest.mark.parametrize(("original", "strategies"), LAZY, ids=lambda item: getattr(item, "__name__", ""))
def test_model(original, strategies):
    @settings(max_examples=60, deadline=None)
    @given(st.tuples(*strategies))
    def run(args):
        same(original, MODELS[original], *args)

    run()


@settings(deadline=None)
@given(INTS, st.integers(-3, 3))
def test_models_with_functions(items, bound):
    below = functools.partial(operator.gt, bound)
    for original in (itertools.takewhile, itertools.dropwhile, itertools.filterfalse):
        same(original, MODELS[original], below, items)
    same(itertools.filterfalse, iteration.filterfalse, None, items)
    same(itertools.starmap, iteration.starmap, operator.add, list(zip(items, items)))
    same(itertools.accumulate, iteration.accumulate, items, operator.mul, initial=bound)
    same(functools.reduce, reductions.reduce, operator.sub, items)
    same(functools.reduce, reductions.reduce, operator.sub, items, bound)
    for key in (None, abs):
        same(min, reductions.min_, items, key=key)
        same(max, reductions.max_, items, key=key)
        same(max, reductions.max_, items, key=key, default=7)
    same(sum, reductions.sum_, items, bound)
    for original, model in ((min, reductions.min_), (max, reductions.max_)):
        with pytest.raises(ValueError) as expected:
            original(())
        with pytest.raises(ValueError, match=re.escape(str(expected.value))):
            model(())
    assert reductions.divmod_(bound, 3) == divmod(bound, 3)


@settings(deadline=None)
@given(INTS)
def test_grouping(items):
    def groups(groupby):
        return [(key, list(group)) for key, group in groupby(items, abs)]

    assert groups(itertools.groupby) == groups(iteration.groupby)
    assert [list(branch) for branch in iteration.tee(items, 3)] == [list(branch) for branch in itertools.tee(items, 3)]
    assert list(iteration.chain_from_iterable([items, items])) == items * 2
    assert list(iteration.iter_by_index(items)) == items
    left, right = iter(items), iter(items)
    same_sentinel = list(iter(lambda: next(left, 0), 0)), list(iteration.iter_until(lambda: next(right, 0), 0))
    assert same_sentinel[0] == same_sentinel[1]


@settings(deadline=None)
@given(INTS, SMALL, st.integers(-9, 9), st.integers(-9, 9))
def test_container_models(items, wanted, start, stop):
    same(lambda *a: items.index(*a), lambda *a: containers.index(items, *a), wanted)
    same(lambda *a: items.index(*a), lambda *a: containers.index(items, *a), wanted, start)
    same(lambda *a: items.index(*a), lambda *a: containers.index(items, *a), wanted, start, stop)

    def removed(remove):
        copy = list(items)
        remove(copy)
        return copy

    same(removed, removed, lambda copy: copy.remove(wanted))
    assert outcome(lambda: removed(lambda c: containers.remove(c, wanted))) == outcome(
        lambda: removed(lambda c: c.remove(wanted))
    )
    queue, twin = collections.deque(items), collections.deque(items)
    queue.rotate(start)
    containers.rotate(twin, start)
    assert queue == twin
    counter: dict[int, int] = {}
    containers.count_elements(counter, items)
    assert counter == dict(collections.Counter(items))
    assert reductions.contains(items, wanted) == (wanted in items)


@settings(deadline=None)
@given(INTS, INTS, st.booleans())
def test_order_models(left, right, reverse):
    for model, original in (
        (containers.sequence_eq, operator.eq),
        (containers.sequence_lt, operator.lt),
        (containers.sequence_le, operator.le),
        (containers.sequence_gt, operator.gt),
        (containers.sequence_ge, operator.ge),
    ):
        assert model(left, right) == original(left, right)
    a, b = dict(zip(left, right)), dict(zip(right, left))
    assert containers.mapping_eq(a, b) == (a == b)
    assert containers.ordered_mapping_eq(a, a)
    pairs = [(abs(item), item) for item in left]
    ordered = containers.sorted_by_first(list(pairs), reverse)
    assert ordered == sorted(pairs, key=lambda pair: pair[0], reverse=reverse)
    assert containers.is_subset(left, set(right)) == (set(left) <= set(right))


@settings(deadline=None)
@given(INTS, SMALL)
def test_heaps(items, item):
    ours, theirs = list(items), list(items)
    heaps.heapify(ours)
    heapq.heapify(theirs)
    assert ours == theirs
    heaps.heappush(ours, item)
    heapq.heappush(theirs, item)
    assert ours == theirs
    assert heaps.heappushpop(ours, item) == heapq.heappushpop(theirs, item)
    assert heaps.heapreplace(ours, item) == heapq.heapreplace(theirs, item)
    assert [heaps.heappop(ours) for _ in range(len(ours))] == [heapq.heappop(theirs) for _ in range(len(theirs))]
    ordered = sorted(items)
    assert heaps.bisect_left(ordered, item) == bisect.bisect_left(ordered, item)
    assert heaps.bisect_right(ordered, item) == bisect.bisect_right(ordered, item)
    for ours_insort, insort in ((heaps.insort_left, bisect.insort_left), (heaps.insort_right, bisect.insort_right)):
        a, b = list(ordered), list(ordered)
        ours_insort(a, item)
        insort(b, item)
        assert a == b


def test_getters():
    class Holder:
        a = 1
        shape = (2, 3)

        def method(self, x, k=0):
            return x + k

    holder = Holder()
    assert reductions.attrgetter("a", "shape")(holder) == operator.attrgetter("a", "shape")(holder)
    assert reductions.itemgetter(1)("abc") == operator.itemgetter(1)("abc")
    assert reductions.itemgetter(1, 0)("abc") == operator.itemgetter(1, 0)("abc")
    assert reductions.methodcaller("method", 1, k=2)(holder) == operator.methodcaller("method", 1, k=2)(holder)


def test_update_model():
    target, expected = {"a": 1}, {"a": 1}
    containers.mutable_mapping_update(target, {"b": 2}, [("c", 3)], d=4)
    expected.update({"b": 2})
    expected.update([("c", 3)], d=4)
    assert target == expected


FIELDS = st.sampled_from(["", "0", "1", "a", "a.real", "b[k]", "0!r", "1:>5", ":{}", ":{a}", "b!s:^9", "9", "zz", "!q"])
TEXT = st.lists(
    st.one_of(st.sampled_from(["x", "{{", "}}", "{", "}"]), FIELDS.map(lambda f: "{" + f + "}")), max_size=5
)


@given(TEXT.map("".join))
def test_format(template):
    """Equal texts, and errors of equal types and texts."""

    def told(call):
        try:
            return call()
        except (ValueError, IndexError, KeyError, AttributeError) as error:
            return type(error), str(error)

    for args, named in (((1, 2.5), {"a": 3, "b": {"k": "v"}}), ((), {"a": "s"})):
        assert told(lambda: texts.format_(template, *args, **named)) == told(lambda: template.format(*args, **named))
        assert told(lambda: texts.format_map(template, named)) == told(lambda: template.format_map(named))


SPECS = st.sampled_from(
    [
        "%s",
        "%r",
        "%5d",
        "%-4s|",
        "%05.2f",
        "%x",
        "%%",
        "%(a)s",
        "%(b)r",
        "%c",
        "%*d",
        "%.*f",
        "%q",
        "%",
        "%+i",
        "%a",
        "x",
    ]
)


@given(st.lists(SPECS, max_size=4).map("".join))
def test_percent(template):
    """Equal texts, and errors of equal types; texts of errors in templates depend on the Python version."""

    def told(call):
        try:
            return call()
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            return type(error)

    for values in ((1, 2, 3), (1,), "s", 5, {"a": 1, "b": "x"}, {}, [1], (2.5, "s"), ((1, 2),)):
        assert told(lambda: texts.percent(template, values)) == told(lambda: template % values)


@given(st.text("ab1 ", max_size=8), st.sampled_from(["a", "b*", "[ab]+", "", r"\d"]), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_replacing_by_a_function(text, pattern, count):
    def replace(found):
        return found.group().upper() + "."

    compiled = re.compile(pattern)
    same(compiled.subn, functools.partial(texts.subn, compiled), replace, text, count)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_encoder_of_json(data, sort_keys, allow_nan):
    def encode(make):
        encoder = make({}, None, json.encoder.encode_basestring_ascii, None, ": ", ", ", sort_keys, False, allow_nan)
        return "".join(encoder(data, 0))

    assert outcome(lambda: encode(texts.make_encoder)) == outcome(lambda: encode(json.encoder.c_make_encoder))
