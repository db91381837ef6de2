"""What the functions of `steering` mean inside a trace."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from triptych_dynamo._eval_frame import CompiledCallable, Unhooked
from triptych_dynamo.errors import RestartTrace, TracedException, TraceTimeError, Unsupported
from triptych_dynamo.sources import AttrSource
from triptych_dynamo.trace.regions import RegionCall, traced
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import NotConstant, Value
from triptych_dynamo.values.callables.functions import FunctionValue, wrap_function
from triptych_dynamo.values.real_object import RealObjectValue
from triptych_dynamo.values.registry import wraps, wraps_marked
from triptych_dynamo.values.steering.deferred import defer
from triptych_dynamo.values.steering.nonstrict import call_nonstrict

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source
    from triptych_dynamo.steering import RegionMark


class DirectiveValue(RealObjectValue):
    """A callable of the program that means something of its own to the tracer."""

    def __init__(self, obj: Any, run: Callable[..., Value], source: Source | None) -> None:
        super().__init__(obj, source)
        self.run = run

    def get_attr(self, tx: Frame, name: str) -> Value:
        return tx.constant(getattr(self.obj, name))

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.run(tx, args, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.obj)


# Per meaning: the call of a marked function `fn` with the mark's payload.
def _run_is_compiling(tx: Frame, fn: Any, payload: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return ConstantValue(True)


def _run_is_exporting(tx: Frame, fn: Any, payload: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return ConstantValue(tx.trace.options.exporting)


def _run_nonstrict(tx: Frame, fn: Any, payload: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return call_nonstrict(tx, payload, args, kwargs)


def _run_graph_break(tx: Frame, fn: Any, payload: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    text = [str(arg.as_constant()) for arg in [*args, *kwargs.values()]]
    return tx.unsupported("explicit", " ".join(text) or "graph_break()")


def _run_in_graph(tx: Frame, fn: Any, payload: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tx.call_graph(fn, args, kwargs)


def _run_constant(tx: Frame, fn: Any, payload: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    try:
        plain = [arg.as_constant() for arg in args]
        named = {key: arg.as_constant() for key, arg in kwargs.items()}
    except NotConstant:
        return tx.unsupported("not-constant", f"an argument of {fn.__qualname__}, whose result is assumed constant")
    return tx.constant(fn(*plain, **named))


def _run_substitute(tx: Frame, fn: Any, payload: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    replacement, can_fold = payload
    if can_fold:
        with contextlib.suppress(NotConstant):
            plain = [arg.as_constant() for arg in args]
            return tx.constant(fn(*plain, **{key: arg.as_constant() for key, arg in kwargs.items()}))
    return tx.inline(tx.constant(replacement), args, kwargs)


def _run_forbidden(tx: Frame, fn: Any, payload: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tx.unsupported("disabled", payload)


def _run_comptime(tx: Frame, fn: Any, payload: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    from triptych_dynamo.trace_time import ComptimeContext  # noqa: PLC0415  # loaded: the program called it

    try:
        payload(ComptimeContext(tx), tx, *args, **kwargs)
    except (Unsupported, RestartTrace, TracedException):
        raise
    except Exception as error:
        raise TraceTimeError(f"{type(error).__name__} in code that runs while tracing: {error}") from error
    return ConstantValue(None)


def _run_never(tx: Frame, fn: Any, payload: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    tx.trace.breaks_are_errors = True
    return tx.unsupported("disabled", payload)


def _run_step_unsupported(tx: Frame, fn: Any, payload: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    text = [str(arg.as_constant()) for arg in [*args, *kwargs.values()]]
    error = Unsupported("explicit", " ".join(text) or "step_unsupported()")
    error.rest_is_plain = True
    raise error


def _run_hint(tx: Frame, fn: Any, payload: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Something said to the run time: it is said behind the graph, at each call."""
    return defer(tx, tx.wrap(fn, None), args, kwargs)


_MEANINGS: dict[str, Callable[..., Value]] = {
    "is_compiling": _run_is_compiling,
    "graph_break": _run_graph_break,
    "in_graph": _run_in_graph,
    "constant_result": _run_constant,
    "substitute": _run_substitute,
    "is_exporting": _run_is_exporting,
    "nonstrict": _run_nonstrict,
    "forbidden": _run_forbidden,
    "hint": _run_hint,
    "never": _run_never,
    "step_unsupported": _run_step_unsupported,
    "comptime": _run_comptime,
}


class RegionValue(FunctionValue):
    """A function whose calls are regions of the graph."""

    mark: RegionMark

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        tag = None
        if self.mark.reuse_hash_fn is not None:
            tag = self._tag(tx, tx.call(tx.constant(self.mark.reuse_hash_fn), list(args), dict(kwargs)))
        return traced(tx.trace, RegionCall(self.mark, tag), lambda: super(RegionValue, self).call(tx, args, kwargs))

    def _tag(self, tx: Frame, found: Value) -> Any:
        tag = found.as_constant() if found.is_constant() else None
        if not isinstance(tag, int):
            return tx.unsupported("not-constant", f"reuse_hash_fn of {self.mark.name} gives no constant integer")
        return tag


def as_region(tx: Frame, fn: Any, payload: RegionMark, source: Source | None) -> Value:
    """A Python function as a region."""
    value = wrap_function(tx, fn, source)
    value.__class__ = RegionValue
    value.mark = payload  # type: ignore[attr-defined]
    return value


@wraps_marked
def wrap_marked(tx: Frame, mark: tuple[Any, str, Any], source: Source | None) -> Value:
    """A function that the program marked."""
    fn, meaning, payload = mark
    if meaning == "region":
        return as_region(tx, fn, payload, source)
    tx.guard("is", source, fn)
    run = _MEANINGS[meaning]
    return DirectiveValue(fn, lambda tx, args, kwargs: run(tx, fn, payload, args, kwargs), source)


@wraps(Unhooked)
def wrap_disabled(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A callable marked with `disable`: a graph break before its call."""
    tx.guard("is", source, obj)
    reason = getattr(obj, "__triptych_disabled__", "a disabled callable")
    return DirectiveValue(obj, lambda tx, args, kwargs: tx.unsupported("disabled", reason), source)


@wraps(CompiledCallable)
def wrap_compiled(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A compiled callable inside another trace is the function that it was made of."""
    tx.guard("is", source, obj)
    return tx.wrap(obj.fn, AttrSource(source, "fn") if source is not None else None)
