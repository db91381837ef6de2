"""Functions by which programs speak to the tracer, and what they mean inside a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from triptych_dynamo._eval_frame import CompiledCallable, Unhooked
from triptych_dynamo.sources import AttrSource
from triptych_dynamo.values.base import NotConstant, Value
from triptych_dynamo.values.constant import ConstantValue
from triptych_dynamo.values.registry import wraps, wraps_object

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source


def is_compiling() -> bool:
    """True while a compiler traces the program, False when it runs."""
    return False


def graph_break(message: str = "") -> None:
    """End the graph here. Does nothing when the program runs uncompiled."""


class DirectiveValue(Value):
    """A callable of the program that means something of its own to the tracer."""

    def __init__(self, obj: Any, run: Callable[..., Value], source: Source | None) -> None:
        super().__init__(source)
        self.obj = obj
        self.run = run

    def python_type(self) -> type:
        return type(self.obj)

    def is_constant(self) -> bool:
        return True

    def as_constant(self) -> Any:
        return self.obj

    def truth(self, tx: Frame) -> bool:
        return True

    def get_attr(self, tx: Frame, name: str) -> Value:
        return tx.constant(getattr(self.obj, name))

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.run(tx, args, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.obj)


def _directive(obj: Any, run: Callable[..., Value]) -> None:
    def rule(tx: Frame, found: Any, source: Source | None) -> Value:
        tx.guard("is", source, found)
        return DirectiveValue(found, run, source)

    wraps_object(obj)(rule)


def _run_graph_break(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    text = [str(arg.as_constant()) for arg in [*args, *kwargs.values()]]
    return tx.unsupported("explicit", " ".join(text) or "graph_break()")


_directive(is_compiling, lambda tx, args, kwargs: ConstantValue(True))
_directive(graph_break, _run_graph_break)


def allow_in_graph(fn: Any) -> Any:
    """Put calls of `fn` into the graph as they are, without looking inside. Gives `fn` back.

    Args:
        fn: a function of tensors that runs on fake tensors, or a list of such functions.
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(item) for item in fn]
    _directive(fn, lambda tx, args, kwargs: tx.call_graph(fn, args, kwargs))
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Take the result of `fn` for a constant: it is called once, while tracing, with constant arguments. Gives
    `fn` back.
    """

    def run(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        try:
            plain = [arg.as_constant() for arg in args]
            named = {key: arg.as_constant() for key, arg in kwargs.items()}
        except NotConstant:
            return tx.unsupported("not-constant", f"an argument of {fn.__qualname__}, whose result is assumed constant")
        return tx.constant(fn(*plain, **named))

    _directive(fn, run)
    return fn


def substitute_in_graph(original: Any) -> Callable[[Any], Any]:
    """A decorator: traces run the decorated Python function in place of `original` (a function written in C)."""

    def register(replacement: Any) -> Any:
        _directive(original, lambda tx, args, kwargs: tx.inline(tx.constant(replacement), args, kwargs))
        return replacement

    return register


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
