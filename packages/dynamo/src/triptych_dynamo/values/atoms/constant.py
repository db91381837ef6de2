"""`ConstantValue`: Python atoms known at trace time (None, numbers, strings, dtypes, devices, ...)."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, EllipsisType, NoneType, NotImplementedType
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo.polyfills import texts
from triptych_dynamo.values.base import NotConstant, Value
from triptych_dynamo.values.registry import wraps

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame
    from triptych_dynamo.sources import Source

_PYTHON_ATOMS: frozenset[type] = frozenset(
    {NoneType, bool, int, float, complex, str, bytes, EllipsisType, NotImplementedType, CodeType}
)
_TORCH_ATOMS: frozenset[type] = frozenset({torch.dtype, torch.device, torch.layout, torch.memory_format})
# Singletons are guarded by identity, the rest by type and equality.
_BY_IDENTITY: frozenset[type] = frozenset(
    {NoneType, bool, EllipsisType, NotImplementedType, CodeType, torch.dtype, torch.layout, torch.memory_format}
)

_QUANTIZED = frozenset({torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4})


_FORMATS = {"format": texts.format_, "format_map": texts.format_map, "__mod__": texts.percent}


class ConstantValue(Value):
    """An immutable atom. Two constants of equal type and value are interchangeable."""

    ATOMS = _PYTHON_ATOMS | _TORCH_ATOMS
    is_computed = False  # the compiled code makes it (`run_texts`)

    def __init__(self, value: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.value = value

    def python_type(self) -> type:
        return type(self.value)

    def is_constant(self) -> bool:
        return True

    def as_constant(self) -> Any:
        return self.value

    def as_graph_arg(self, tx: Frame) -> Any:
        if type(self.value) is torch.dtype and self.value in _QUANTIZED:
            return tx.unsupported("fake", f"a quantized tensor ({self.value}): no fake tensor stands for one")
        return self.value

    def truth(self, tx: Frame) -> bool:
        return bool(self.value)

    def get_attr(self, tx: Frame, name: str) -> Value:
        try:
            result = getattr(self.value, name)
        except AttributeError as error:
            tx.raise_python(AttributeError, *error.args)
        if type(result) in self.ATOMS:
            return ConstantValue(result)
        if callable(result):
            return BoundConstantMethod(self, name)
        return tx.constant(result)

    def has_attr(self, tx: Frame, name: str) -> bool:
        return hasattr(self.value, name)

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        tx.raise_python(AttributeError, f"{type(self.value).__name__!r} object has no attribute {name!r}")

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Methods of atoms are pure: run them now when the arguments are constants."""
        if name in ("__enter__", "__exit__") and isinstance(self.value, torch.device):
            return tx.unsupported("context-manager", "a torch.device that is entered or left by a call")
        try:
            plain = [arg.as_constant() for arg in args]
            named = {key: arg.as_constant() for key, arg in kwargs.items()}
        except NotConstant:
            if name.startswith("__") and name.endswith("__") and not (name in _FORMATS and type(self.value) is str):
                return ConstantValue(NotImplemented)
            return self._call_with_values(tx, name, args, kwargs)
        return fold(tx, getattr(self.value, name, None), plain, named, f"{type(self.value).__name__}.{name}")

    def _call_with_values(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if isinstance(self.value, str) and name in _FORMATS:
            return tx.call(tx.wrap(_FORMATS[name], None), [self, *args], kwargs)
        if isinstance(self.value, (str, bytes)) and name == "join" and len(args) == 1:
            parts = list(args[0].iterate(tx))
            for number, part in enumerate(parts):
                if not part.is_constant():
                    text = f"expected {type(self.value).__name__} instance, {part.python_type().__name__} found"
                    tx.raise_python(TypeError, f"sequence item {number}: {text}")
            return fold(tx, self.value.join, [[part.as_constant() for part in parts]], {}, "join")
        return tx.unsupported("call", f"{type(self.value).__name__}.{name} of values that are not constants")

    def iterate(self, tx: Frame) -> Iterator[Value]:
        if isinstance(self.value, (str, bytes)):
            return iter([ConstantValue(item) for item in self.value])
        if not hasattr(type(self.value), "__iter__"):
            tx.raise_python(TypeError, f"{type(self.value).__name__!r} object is not iterable")
        return iter([tx.constant(item) for item in self.value])

    def key(self, tx: Frame) -> Any:
        return self.value

    def reconstruct(self, cg: Writer) -> None:
        cg.load_const(self.value)

    def __repr__(self) -> str:
        return f"Constant({self.value!r})"


class BoundConstantMethod(Value):
    """A method read from an atom, such as `", ".join`."""

    def __init__(self, owner: ConstantValue, name: str) -> None:
        super().__init__()
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        return type(getattr(self.owner.value, self.name))

    def is_constant(self) -> bool:
        return True

    def as_constant(self) -> Any:
        return getattr(self.owner.value, self.name)

    def truth(self, tx: Frame) -> bool:
        return True

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.owner.call_method(tx, self.name, args, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        cg.load(self.owner)
        cg.load_attr(self.name)


def fold(tx: Frame, function: Any, args: list[Any], kwargs: dict[str, Any], label: str) -> Value:
    """Call a pure function of constants now; what it raises is raised in the traced program."""
    if function is None:
        tx.raise_python(AttributeError, f"no attribute {label}")
    try:
        result = function(*args, **kwargs)
    except Exception as error:  # the program's own exception, whatever it is
        tx.raise_caught(error)
    return tx.constant(result)


def _wrap_atom(tx: Frame, obj: Any, source: Source | None) -> Value:
    tx.guard("is" if type(obj) in _BY_IDENTITY else "equals", source, obj)
    return ConstantValue(obj, source)


wraps(*(ConstantValue.ATOMS - {int, float}))(_wrap_atom)


@wraps(int, float)
def wrap_number(tx: Frame, obj: Any, source: Source | None) -> Value:
    """A number from outside: constant, or symbolic when it changed between compiles."""
    symbolic = tx.trace.shapes.number_input(tx, obj, source) if source is not None else None
    return symbolic if symbolic is not None else _wrap_atom(tx, obj, source)
