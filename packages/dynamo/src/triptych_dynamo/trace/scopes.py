"""Global variables of the functions of one trace: reads with guards, writes as effects."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.sources import GlobalSource, PinnedSource
from triptych_dynamo.values.common import is_trusted_name

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.values.base import Value

_DELETED = object()
_dictionary_family: list[Callable[[Any], Value]] = []


def stands_for_globals(family: Any) -> Any:
    """Register the family of values for the dictionary `globals()`: `family(scope)`."""
    _dictionary_family.append(family)
    return family


class GlobalScope:
    """One globals dictionary. All functions of a module share one scope in a trace.

    Args:
        namespace: the real dictionary.
        label: how sources print: "G" for the compiled function's own.
    """

    def __init__(self, namespace: dict[str, Any], label: str) -> None:
        self.namespace = namespace
        self.source = PinnedSource(namespace, label)
        self.trusted = is_trusted_name(namespace.get("__name__") or "")  # its functions and modules are taken as given
        self._read: dict[str, Value] = {}
        self._written: dict[str, Any] = {}
        self._dictionary: Value | None = None
        found = namespace.get("__builtins__", builtins)
        self.builtins: dict[str, Any] = found if isinstance(found, dict) else vars(found)

    def load(self, tx: Frame, name: str) -> Value:
        """The global or builtin `name`; raises the traced NameError."""
        if name in self._written:
            written = self._written[name]
            if written is not _DELETED:
                return written  # type: ignore[no-any-return]
        elif name in self._read:
            return self._read[name]
        elif name in self.namespace:
            found = self.namespace[name]
            source = (
                None
                if self.trusted and (callable(found) or isinstance(found, ModuleType))
                else GlobalSource(self.source, name)
            )
            value = self._read[name] = tx.wrap(found, source)
            return value
        if name not in self.builtins:
            tx.raise_python(NameError, f"name {name!r} is not defined")
        tx.guard("dict_lacks", self.source, name)
        value = self._read[name] = tx.wrap(self.builtins[name], None)
        return value

    def has(self, tx: Frame, name: str) -> bool:
        """Whether the global (not a builtin) is bound; guarded."""
        if name in self._written:
            return self._written[name] is not _DELETED
        if name in self.namespace:
            self.load(tx, name)
            return True
        tx.guard("dict_lacks", self.source, name)
        return False

    def as_dictionary(self) -> Value:
        """The one value of the dictionary itself, made when it is first asked for."""
        if self._dictionary is None:
            self._dictionary = _dictionary_family[0](self)
        return self._dictionary

    def has_written(self, name: str) -> bool:
        """Whether the traced program rebound or deleted the global."""
        return name in self._written

    def store(self, tx: Frame, name: str, value: Value) -> None:
        """Rebind a global: an effect."""
        self._written[name] = value
        tx.effects.mutated(self)

    def delete(self, tx: Frame, name: str) -> None:
        """Delete a global: an effect."""
        if self._written.get(name) is _DELETED or (name not in self._written and name not in self.namespace):
            tx.raise_python(NameError, f"name {name!r} is not defined")
        self._written[name] = _DELETED
        tx.effects.mutated(self)

    def replay(self, cg: Writer) -> None:
        """Store the final bindings in the real dictionary."""
        for name, value in self._written.items():
            if value is _DELETED:
                cg.load_object(self.namespace)
                cg.load_const(name)
                cg.delete_subscr()
            else:
                cg.load(value)
                cg.load_object(self.namespace)
                cg.load_const(name)
                cg.store_subscr()
