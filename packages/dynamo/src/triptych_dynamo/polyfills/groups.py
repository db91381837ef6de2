"""Models of the methods of exception groups, and of what `except*` does with them.

Source of the rules: PEP 654 and the behaviour of CPython.
"""

from __future__ import annotations

from typing import Any


def _matches(error: BaseException, condition: Any) -> bool:
    if isinstance(condition, (type, tuple)):
        return isinstance(error, condition)
    return bool(condition(error))


def _subset(group: Any, errors: list[Any]) -> Any:
    """The group with only these members, everything else alike; None for no members."""
    if not errors:
        return None
    made = group.derive(errors)
    made.__traceback__ = group.__traceback__
    made.__context__ = group.__context__
    made.__cause__ = group.__cause__
    notes = getattr(group, "__notes__", None)
    if notes is not None:
        made.__notes__ = list(notes)
    return made


def split(group: Any, condition: Any) -> tuple[Any, Any]:
    """`group.split(condition)`."""
    if _matches(group, condition):
        return group, None
    matched, rest = [], []
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            first, second = split(error, condition)
        elif _matches(error, condition):
            first, second = error, None
        else:
            first, second = None, error
        if first is not None:
            matched.append(first)
        if second is not None:
            rest.append(second)
    return _subset(group, matched), _subset(group, rest)


def subgroup(group: Any, condition: Any) -> Any:
    """`group.subgroup(condition)`."""
    return split(group, condition)[0]


def derive(group: Any, errors: Any) -> Any:
    """`group.derive(errors)`."""
    return BaseExceptionGroup(group.message, errors)


def match(error: Any, classes: Any) -> tuple[Any, Any]:
    """`except* classes`: what of `error` the clause takes (as a group, or None), and what is left (or None)."""
    for cls in classes if isinstance(classes, tuple) else (classes,):
        if not (isinstance(cls, type) and issubclass(cls, BaseException)):
            raise TypeError("catching classes that do not inherit from BaseException is not allowed")
        if issubclass(cls, BaseExceptionGroup):
            raise TypeError("catching ExceptionGroup with except* is not allowed. Use except instead.")
    if error is None:
        return None, None
    if isinstance(error, classes):
        return (error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", (error,))), None
    if isinstance(error, BaseExceptionGroup):
        return error.split(classes)
    return None, error


def same_metadata(error: Any, original: Any) -> bool:
    """Whether one group is a part of the other."""
    return (
        isinstance(error, BaseExceptionGroup)
        and isinstance(original, BaseExceptionGroup)
        and error.__context__ is original.__context__
        and error.__cause__ is original.__cause__
        and getattr(error, "__notes__", None) == getattr(original, "__notes__", None)
    )


def _leaves(error: Any) -> list[Any]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in _leaves(inner)]


def prepare_reraise(original: Any, errors: list[Any]) -> Any:
    """What leaves a `try` with `except*` clauses: what was raised anew, and what no clause took."""
    if not errors:
        return None
    if not isinstance(original, BaseExceptionGroup):
        return errors[0]
    raised, kept = [], []
    for error in errors:
        if error is None:
            continue
        if same_metadata(error, original):
            kept += _leaves(error)
        else:
            raised.append(error)
    rest = None
    if kept:
        rest = original.subgroup(lambda error: any(error is leaf for leaf in kept))
    if not raised:
        return rest
    if rest is not None:
        raised.append(rest)
    return raised[0] if len(raised) == 1 else ExceptionGroup("", raised)
