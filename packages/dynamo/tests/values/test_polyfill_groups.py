"""The models of exception groups, of `except*` and of comparison keys equal CPython's, on generated ones."""

from __future__ import annotations

import functools
import operator

from hypothesis import given, settings
from hypothesis import strategies as st
from triptych_dynamo.polyfills import groups, reductions

LEAVES = st.sampled_from([ValueError, TypeError, OSError, KeyError]).map(lambda cls: cls("leaf"))
GROUPS = st.recursive(
    st.lists(LEAVES, min_size=1, max_size=3).map(lambda items: ExceptionGroup("inner", items)),
    lambda inner: st.lists(LEAVES | inner, min_size=1, max_size=3).map(lambda items: ExceptionGroup("outer", items)),
    max_leaves=6,
)
CONDITIONS = st.sampled_from([ValueError, (TypeError, OSError), LookupError, Exception, ExceptionGroup])


def shape(error):
    """Types, texts and nesting of a group, None for no group; leaves by identity."""
    if isinstance(error, BaseExceptionGroup):
        notes = getattr(error, "__notes__", None)
        return type(error), error.message, notes, [shape(item) for item in error.exceptions]
    return None if error is None else id(error)


@settings(max_examples=80, deadline=None)
@given(GROUPS, CONDITIONS, st.booleans())
def test_splitting(group, condition, noted):
    if noted:
        group.add_note("note")
    ours, theirs = groups.split(group, condition), group.split(condition)
    assert [shape(part) for part in ours] == [shape(part) for part in theirs]
    assert shape(groups.subgroup(group, condition)) == shape(group.subgroup(condition))
    chosen = {id(leaf) for leaf in groups._leaves(group)[::2]}
    ours, theirs = (part.__call__(lambda error: id(error) in chosen) for part in (_bound(group), group.split))
    assert [shape(part) for part in ours] == [shape(part) for part in theirs]
    assert shape(groups.derive(group, group.exceptions)) == shape(group.derive(group.exceptions))


def _bound(group):
    return lambda condition: groups.split(group, condition)


def what_leaves(group, classes, raised):
    """What CPython lets out of a `try` whose one clause takes `classes` and raises `raised`, if that is not None."""
    try:
        try:
            raise group
        except* classes:
            if raised is not None:
                raise raised
    except BaseException as error:
        return error
    return None


@settings(max_examples=80, deadline=None)
@given(GROUPS, st.sampled_from([ValueError, OSError, Exception, LookupError]), st.booleans())
def test_clauses(group, classes, raises):
    error = RuntimeError("new") if raises else None
    expected = what_leaves(group, classes, error)
    matched, rest = groups.match(group, classes)
    errors = [error] if raises and matched is not None else []
    found = groups.prepare_reraise(group, [*errors, rest])
    assert shape(found) == shape(expected)


@settings(max_examples=60, deadline=None)
@given(LEAVES, st.sampled_from([ValueError, OSError, Exception]))
def test_a_plain_error(error, classes):
    matched, rest = groups.match(error, classes)
    expected = what_leaves(error, classes, None)
    assert (matched is None) == (expected is error) and (rest is error) == (expected is error)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-9, 9), max_size=8))
def test_comparison_keys(items):
    def compare(a, b):
        return abs(a) - abs(b)

    assert sorted(items, key=reductions.cmp_to_key(compare)) == sorted(items, key=functools.cmp_to_key(compare))
    ours, theirs = (make(compare) for make in (reductions.cmp_to_key, functools.cmp_to_key))
    for a, b in zip(items, items[1:], strict=False):
        for relation in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
            assert relation(ours(a), ours(b)) == relation(theirs(a), theirs(b))


def test_length_hints():
    class Hinting:
        def __length_hint__(self):
            return 3

    class Silent:
        def __length_hint__(self):
            return NotImplemented

    for obj in ([1, 2], "abc", Hinting(), Silent(), object(), range(4)):
        for default in ((), (7,)):
            assert reductions.length_hint(obj, *default) == operator.length_hint(obj, *default)
