"""`super()`: attribute lookup that starts after a class in the MRO of the object's class."""

from __future__ import annotations

from types import ClassMethodDescriptorType, FunctionType
from typing import TYPE_CHECKING

from triptych_dynamo.values import attributes
from triptych_dynamo.values.base import Value
from triptych_dynamo.values.callables.functions import MethodValue
from triptych_dynamo.values.common import ABSENT
from triptych_dynamo.values.objects.classes import ClassValue, constructs

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.frame import Frame


class SuperValue(Value):
    """`super(start, owner)`; `owner` is an instance or, in class methods and `__new__`, a class."""

    def __init__(self, start: type, owner: Value) -> None:
        super().__init__()
        self.start, self.owner = start, owner

    def python_type(self) -> type:
        return super

    def truth(self, tx: Frame) -> bool:
        return True

    def searched(self) -> type:
        """The class whose MRO is walked."""
        if isinstance(self.owner, ClassValue) and issubclass(self.owner.cls, self.start):
            return self.owner.cls
        return self.owner.python_type()

    def get_attr(self, tx: Frame, name: str) -> Value:
        mro = self.searched().__mro__
        for base in mro[mro.index(self.start) + 1 :]:
            raw = vars(base).get(name, ABSENT)
            if raw is not ABSENT:
                return self._bound(tx, base, raw, name)
        if name == "__class__":
            return tx.wrap(super, None)
        return tx.raise_python(AttributeError, f"'super' object has no attribute '{name}'")

    def _bound(self, tx: Frame, base: type, raw: object, name: str) -> Value:
        if not isinstance(self.owner, ClassValue) or self.searched() is not self.owner.cls:
            return attributes.bind(tx, self.owner, base, raw, name)
        source = attributes.class_source(base, name, raw)
        if isinstance(raw, classmethod):
            return MethodValue(tx.wrap(raw.__func__, source), self.owner)
        if isinstance(raw, staticmethod):
            return tx.wrap(raw.__func__, source)
        if isinstance(raw, FunctionType):
            return tx.wrap(raw, source)
        if isinstance(raw, ClassMethodDescriptorType):
            return MethodValue(tx.wrap(raw, None), self.owner)
        return tx.wrap(raw, None)

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        tx.unsupported("attribute-store", f"setting {name!r} through super()")


@constructs(super)
def _super(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`super()` and `super(cls, obj)`."""
    if not args:
        return SuperValue(_defining_class(tx), _first_argument(tx))
    if len(args) != 2:
        return tx.unsupported("call", "super() with one argument")
    if not issubclass(args[0].python_type(), type):
        tx.raise_python(TypeError, f"super() argument 1 must be a type, not {args[0].python_type().__name__}")
    made = SuperValue(args[0].as_constant(), args[1])
    if made.start not in made.searched().__mro__:  # its `__class__` may say otherwise
        tx.unsupported("call", "super() of an object whose type is none of the class")
    return made


def _defining_class(tx: Frame) -> type:
    cell = tx.cells.get("__class__")
    content = cell.read(tx) if cell is not None else None
    if content is None:
        return tx.raise_python(RuntimeError, "super(): __class__ cell not found")
    return content.as_constant()  # type: ignore[no-any-return]


def _first_argument(tx: Frame) -> Value:
    code = tx.code
    if not code.co_argcount and not code.co_varnames:
        return tx.raise_python(RuntimeError, "super(): no arguments")
    name = code.co_varnames[0]
    if name in tx.cells:
        content = tx.cells[name].read(tx)
        return content if content is not None else tx.raise_python(RuntimeError, "super(): arg[0] deleted")
    return tx.locals[name]
