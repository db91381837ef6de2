"""`ExceptionValue`: exception objects of the traced program, made by it or by an operation that it ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from triptych_dynamo.values.base import Value
from triptych_dynamo.values.constant import ConstantValue

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source

# Attributes of BaseException that the program may set; the rest of the attributes live in `attributes` too.
_SPECIAL = {"__cause__": None, "__context__": None, "__traceback__": None, "__suppress_context__": False}


class ExceptionValue(Value):
    """An exception instance: its class, positional arguments and attributes."""

    def __init__(self, exc_type: type[BaseException], args: list[Value], source: Source | None = None) -> None:
        super().__init__(source)
        self.exc_type = exc_type
        self.args = args
        self.attributes: dict[str, Value] = {}

    def python_type(self) -> type:
        return self.exc_type

    def truth(self, tx: Frame) -> bool:
        return True

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name == "args":
            from_values = [item for item in self.args]
            return tx.trace.make_tuple(from_values)
        if name in self.attributes:
            return self.attributes[name]
        if name in _SPECIAL:
            return ConstantValue(_SPECIAL[name])
        if name == "value" and issubclass(self.exc_type, StopIteration):
            return self.args[0] if self.args else ConstantValue(None)
        if name == "__class__":
            return tx.constant(self.exc_type)
        return self._class_attribute(tx, name)

    def _class_attribute(self, tx: Frame, name: str) -> Value:
        for cls in self.exc_type.__mro__:
            if name in vars(cls):
                found = vars(cls)[name]
                if hasattr(type(found), "__get__") and callable(found):
                    return ExceptionMethod(self, name, found)
                return tx.constant(found)
        tx.raise_python(AttributeError, f"{self.exc_type.__name__!r} object has no attribute {name!r}")

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        if name == "args":
            self.args = list(value.iterate(tx))
            return
        self.attributes[name] = value

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__str__" and type.__getattribute__(self.exc_type, "__str__") in (
            BaseException.__str__,
            Exception.__str__,
        ):
            return ConstantValue(str(self.as_exception(tx)))
        if name == "with_traceback":
            return self
        if name == "add_note":
            return ConstantValue(None)
        return super().call_method(tx, name, args, kwargs)

    def call_c_method(self, tx: Frame, cls: type, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Methods that exception classes inherit from C."""
        if name == "__init__":
            self.args = list(args)
            self.attributes.update(kwargs)
            return ConstantValue(None)
        if name in ("__str__", "__repr__"):
            return ConstantValue(getattr(cls, name)(self.as_exception(tx)))
        if name == "__setattr__":
            self.set_attr(tx, args[0].as_constant(), args[1])
            return ConstantValue(None)
        if name == "__getattribute__":
            return self.get_attr(tx, args[0].as_constant())
        if name in ("with_traceback", "add_note"):
            return self.call_method(tx, name, args, kwargs)
        return tx.unsupported("call", f"{cls.__qualname__}.{name} of an exception")

    def as_exception(self, tx: Frame) -> BaseException:
        """A real exception of constant arguments, to read its text."""
        plain = [
            arg.as_constant() if arg.is_constant() else tx.unsupported("call", f"text of {self!r}") for arg in self.args
        ]
        return self.exc_type.__new__(self.exc_type, *plain)

    def reconstruct(self, cg: Writer) -> None:
        """Made by `__new__`, which keeps the arguments: `__init__` ran in the trace."""
        cg.load_object(self.exc_type.__new__)
        cg.load_object(self.exc_type)
        for arg in self.args:
            cg.load(arg)
        cg.call(1 + len(self.args))
        for name, value in self.attributes.items():
            if name not in _SPECIAL:
                cg.copy()
                cg.load(value)
                cg.swap()
                cg.store_attr(name)

    def __repr__(self) -> str:
        return f"Exception({self.exc_type.__name__}, {self.args})"


class ExceptionMethod(Value):
    """A method read from an exception object."""

    def __init__(self, owner: ExceptionValue, name: str, function: Any) -> None:
        super().__init__()
        self.owner = owner
        self.name = name
        self.function = function

    def python_type(self) -> type:
        return type(self.function)

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if hasattr(self.function, "__code__"):
            return tx.inline(tx.constant(self.function), [self.owner, *args], kwargs)
        return self.owner.call_method(tx, self.name, args, kwargs)


def make_exception(exc_type: type[BaseException], args: list[Value]) -> ExceptionValue:
    """The value of `exc_type(*args)` for classes without an `__init__` of their own."""
    return ExceptionValue(exc_type, args)
