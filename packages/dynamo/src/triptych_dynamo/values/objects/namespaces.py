"""`globals()`, `locals()` and context variables: the namespaces of a running program."""

from __future__ import annotations

import contextvars
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

from triptych_dynamo.guards.facts import PythonFact
from triptych_dynamo.sources import AttrSource, PinnedSource, Source
from triptych_dynamo.steering import BREAKS_ARE_ERRORS
from triptych_dynamo.trace.scopes import stands_for_globals
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.builtin_functions import builtin
from triptych_dynamo.values.callables.builtin_methods import BuiltinMethodValue
from triptych_dynamo.values.common import MethodTable, none
from triptych_dynamo.values.real_object import RealObjectValue
from triptych_dynamo.values.registry import wraps

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.trace.scopes import GlobalScope


# -- globals and locals ------------------------------------------------------------------------------------------------
@stands_for_globals
class GlobalsValue(Value):
    """The dictionary `globals()`: reads and writes go to the scope of the trace."""

    def __init__(self, scope: GlobalScope) -> None:
        super().__init__(scope.source)
        self.scope = scope

    def python_type(self) -> type:
        return dict

    def truth(self, tx: Frame) -> bool:
        return True

    def get_attr(self, tx: Frame, name: str) -> Value:
        return BuiltinMethodValue(self, name) if name in GLOBALS else super().get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return GLOBALS.run(self, tx, name, args, kwargs)

    def name_of(self, tx: Frame, key: Value) -> str:
        """A key as the name of a global; others are not looked for."""
        name = key.as_constant() if key.is_constant() else None
        return name if isinstance(name, str) else tx.unsupported("dict-key", f"{key!r} as the name of a global")

    def has(self, tx: Frame, name: str) -> bool:
        """Whether the global is bound; guarded."""
        return self.scope.has(tx, name)


GLOBALS = MethodTable()


@GLOBALS("__getitem__")
def _getitem(self: GlobalsValue, tx: Frame, key: Value) -> Value:
    name = self.name_of(tx, key)
    return self.scope.load(tx, name) if self.has(tx, name) else tx.raise_python(KeyError, name)


@GLOBALS("get")
def _get(self: GlobalsValue, tx: Frame, key: Value, default: Value | None = None) -> Value:
    name = self.name_of(tx, key)
    if self.has(tx, name):
        return self.scope.load(tx, name)
    return none(tx) if default is None else default


@GLOBALS("__contains__")
def _contains(self: GlobalsValue, tx: Frame, key: Value) -> Value:
    return tx.constant(self.has(tx, self.name_of(tx, key)))


@GLOBALS("__setitem__")
def _setitem(self: GlobalsValue, tx: Frame, key: Value, item: Value) -> Value:
    self.scope.store(tx, self.name_of(tx, key), item)
    return none(tx)


@builtin(globals)
def _globals(tx: Frame) -> Value:
    return tx.scope.as_dictionary()


@builtin(locals)
def _locals(tx: Frame) -> Value:
    """A snapshot of what is bound, free variables included."""
    pairs: list[tuple[Value, Value]] = [(ConstantValue(name), tx.locals[name]) for name in tx.bound_locals()]
    for name, cell in tx.cells.items():
        content = cell.read(tx)
        if content is not None and name not in tx.locals:
            pairs.append((ConstantValue(name), content))
    order = {name: number for number, name in enumerate((*tx.code.co_varnames, *tx.code.co_cellvars))}
    pairs.sort(key=lambda pair: order.get(pair[0].as_constant(), len(order)))
    return tx.trace.make_dict([pair for pair in pairs if pair[0].as_constant() in (*order, *tx.code.co_freevars)])


# -- context variables -------------------------------------------------------------------------------------------------
_UNSET = object()


class ContextVariableValue(RealObjectValue):
    """A `contextvars.ContextVar`: its value is guarded by identity where it is read; the last one set is an effect."""

    def __init__(self, obj: ContextVar[Any], source: Source | None) -> None:
        super().__init__(obj, source)
        self._content: Value | None = None
        self._known = False  # whether `_content` is what the variable holds; None: it holds nothing
        self._before: Value | None = None
        self._token: RealToken | None = None  # from outside, to give back

    def key(self, tx: Frame) -> Any:
        return self.obj

    def content(self, tx: Frame) -> Value | None:
        """What the variable was set to, None where it was not set."""
        if not self._known:
            found = self.obj.get(_UNSET)
            tx.guard("python", PinnedSource(self.obj, self.obj.name), _holds(self.obj, found))
            if found is not _UNSET:
                self._content = tx.wrap(found, None)
            self._known, self._before = True, self._content
        return self._content

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "name":
            return tx.constant(self.obj.name)
        return BuiltinMethodValue(self, name) if name in VARIABLE else super().get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in VARIABLE:
            return VARIABLE.run(self, tx, name, args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def store(self, tx: Frame, content: Value | None) -> None:
        """Set the variable, or give it back what it held."""
        self._content, self._known = content, True
        if self.obj is BREAKS_ARE_ERRORS:  # the trace goes by it too
            tx.trace.breaks_are_errors = None if content is None else content.as_constant()
        tx.effects.mutated(self)

    @property
    def held(self) -> Value | None:
        """What it holds now."""
        return self._content

    def began_with(self, content: Value | None) -> bool:
        """Whether it held this in the beginning."""
        return self._token is None and self._before is content

    def reset_to(self, tx: Frame, token: RealToken) -> None:
        """Give back a token from outside, which says what the variable held."""
        tx.guard("is", AttrSource(token.source, "var"), self.obj)
        tx.guard("python", token.source, PythonFact(_is_fresh, f"{token.source} is not used"))
        old = token.obj.old_value
        missing = old is Token.MISSING
        self._before = None if missing else tx.wrap(old, AttrSource(token.source, "old_value"))
        self._token = token
        self.store(tx, self._before)

    def replay(self, cg: Writer) -> None:
        """Set the real variable, unless it holds what it held before; a real token is given back first."""
        if self._token is not None:
            cg.load_object(self.obj.reset)
            cg.load(self._token)
            cg.call(1)
            cg.pop()
        if self._content is self._before or self._content is None:
            return
        cg.load_object(self.obj.set)
        cg.load(self._content)
        cg.call(1)
        cg.pop()

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.obj)


def _holds(variable: ContextVar[Any], expected: Any) -> PythonFact:
    """The variable still holds this very object; numbers and strings are compared by value."""
    if type(expected) in ConstantValue.ATOMS:
        return PythonFact(
            lambda found: type(found.get(_UNSET)) is type(expected) and found.get(_UNSET) == expected,
            f"{variable.name}.get() == {expected!r}",
        )
    return PythonFact(lambda found: found.get(_UNSET) is expected, f"{variable.name}.get() is the same object")


class TokenValue(Value):
    """What `ContextVar.set` returns: good for `reset`."""

    def __init__(self, variable: ContextVariableValue, before: Value | None, content: Value) -> None:
        super().__init__()
        self.variable, self.before, self.content, self.used = variable, before, content, False

    def python_type(self) -> type:
        return Token

    def truth(self, tx: Frame) -> bool:
        return True

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "var":
            return self.variable
        if name == "old_value":
            return tx.constant(Token.MISSING) if self.before is None else self.before
        return super().get_attr(tx, name)

    def reconstruct(self, cg: Writer) -> None:
        """Set the variable here, which gives the token; that it is set once more with the effects changes nothing."""
        variable = self.variable
        if self.used or self.content is not variable.held or not variable.began_with(self.before):
            cg.cannot_rebuild("rebuild", "the token of a context variable that was set several times")
        cg.load_object(variable.obj.set)
        cg.load(self.content)
        cg.call(1)


class RealToken(Value):
    """A token that was made before the frame."""

    source: Source

    def __init__(self, obj: Token[Any], source: Source) -> None:
        super().__init__(source)
        self.obj = obj

    def python_type(self) -> type:
        return Token

    def truth(self, tx: Frame) -> bool:
        return True


def _is_fresh(token: Token[Any]) -> bool:
    """Whether the token was not given back yet, which only its text tells."""
    return not repr(token).startswith("<Token used")


@wraps(Token)
def _wrap_token(tx: Frame, obj: Token[Any], source: Source | None) -> Value:
    if source is None:
        return tx.unsupported("call", "a token of a context variable that was made while tracing")
    tx.guard("type_is", source, Token)
    return RealToken(obj, source)


VARIABLE = MethodTable()


@VARIABLE("get")
def _variable_get(self: ContextVariableValue, tx: Frame, default: Value | None = None) -> Value:
    found = self.content(tx)
    if found is not None:
        return found
    if default is not None:
        return default
    try:
        return tx.wrap(contextvars.Context().run(self.obj.get), None)  # the default that it was made with
    except LookupError:
        return tx.raise_python(LookupError, self)


@VARIABLE("set")
def _variable_set(self: ContextVariableValue, tx: Frame, value: Value) -> Value:
    token = TokenValue(self, self.content(tx), value)
    self.store(tx, value)
    return token


@VARIABLE("reset")
def _variable_reset(self: ContextVariableValue, tx: Frame, token: Value) -> Value:
    fresh = isinstance(token, RealToken) and token.obj.var is self.obj and _is_fresh(token.obj)
    if isinstance(token, RealToken) and fresh and self not in tx.effects:
        self.reset_to(tx, token)
        return none(tx)
    if not isinstance(token, TokenValue) or token.variable is not self:
        return tx.unsupported("call", "ContextVar.reset with a token from outside")
    if token.used:
        return tx.raise_python(RuntimeError, "token has already been used once")
    token.used = True
    self.store(tx, token.before)
    return none(tx)


@wraps(ContextVar)
def wrap_context_variable(tx: Frame, obj: ContextVar[Any], source: Source | None) -> Value:
    """A context variable of the program."""
    tx.guard("is", source, obj)
    return ContextVariableValue(obj, source)
