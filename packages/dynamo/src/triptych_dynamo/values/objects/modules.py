"""Python modules as values: attribute reads are reads of the module's dictionary, guarded there."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from triptych_dynamo.sources import PinnedSource, Source
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.common import is_trusted_name
from triptych_dynamo.values.registry import wraps_if

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame


class ModuleValue(Value):
    """A module. Attributes of torch and the standard library are taken as given, others are guarded."""

    def __init__(self, module: ModuleType, source: Source | None = None) -> None:
        super().__init__(source)
        self.module = module

    def python_type(self) -> type:
        return type(self.module)

    def is_constant(self) -> bool:
        return True

    def as_constant(self) -> ModuleType:
        return self.module

    def truth(self, tx: Frame) -> bool:
        return True

    def key(self, tx: Frame) -> ModuleType:
        return self.module

    def get_attr(self, tx: Frame, name: str) -> Value:
        namespace = self.module.__dict__
        if name == "__dict__":
            return tx.wrap(namespace, PinnedSource(namespace, _name(self.module)))
        scope = tx.trace.scope_of(namespace)
        if name not in namespace and not scope.has_written(name):
            return self._absent(tx, name)
        found = namespace.get(name)
        if not scope.has_written(name) and is_trusted_name(_name(self.module)) and is_code(found):
            return tx.wrap(found, None)
        return scope.load(tx, name)

    def _absent(self, tx: Frame, name: str) -> Value:
        """A lazy attribute: run the module's `__getattr__` for real, as an import would."""
        try:
            found = getattr(self.module, name)
        except AttributeError as error:
            if not is_trusted_name(_name(self.module)):
                tx.guard("dict_lacks", tx.trace.scope_of(self.module.__dict__).source, name)
            return tx.raise_python(AttributeError, *error.args)
        return tx.wrap(found, None)

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        tx.trace.scope_of(self.module.__dict__).store(tx, name, value)

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.module)

    def __repr__(self) -> str:
        return f"Module({_name(self.module)})"


def _name(module: ModuleType) -> str:
    """A module's name; one that was never initialised, or whose name was deleted, has none."""
    name = getattr(module, "__name__", "")
    return name if isinstance(name, str) else ""


def is_code(obj: object) -> bool:
    """Whether `obj` is a function, class or module: what torch and the standard library do not rebind."""
    return callable(obj) or isinstance(obj, ModuleType)


@wraps_if(lambda obj: isinstance(obj, ModuleType), order=10)
def wrap_module(tx: Frame, obj: ModuleType, source: Source | None) -> Value:
    """A module of the program."""
    tx.guard("is", source, obj)
    return ModuleValue(obj, source)
