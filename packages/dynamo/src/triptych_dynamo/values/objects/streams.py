"""`io.StringIO` and `io.BytesIO` that the region makes: files in memory, run on an object of the trace.

What leaves the region is made again with its contents and position. Such a file of the program (given from outside) is
an object of C that can be written to (see `values.steering.deferred`); reading it is a graph break.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from triptych_dynamo.values.base import NotConstant, Value
from triptych_dynamo.values.common import MethodTable, fold
from triptych_dynamo.values.containers.byte_arrays import BufferValue
from triptych_dynamo.values.containers.shadows import plain_of
from triptych_dynamo.values.containers.views import ViewValue
from triptych_dynamo.values.objects.classes import constructs

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

# Facts of the object, which is another one in each run.
_OF_THE_OBJECT = frozenset(
    "__repr__ __str__ __format__ __hash__ __sizeof__ __reduce__ __reduce_ex__ __getstate__ __setstate__ "
    "__init__ __dict__ __del__ detach".split()
)


class StreamValue(BufferValue):
    """A file in memory."""

    methods = MethodTable()
    is_buffer = False

    def __init__(self, own: io.StringIO | io.BytesIO) -> None:
        super().__init__(own)
        self.family = type(own)

    def is_constant(self) -> bool:
        return False

    def as_constant(self) -> Any:
        raise NotConstant(repr(self))

    def truth(self, tx: Frame) -> bool:
        return True

    def key(self, tx: Frame) -> Any:
        return self

    def get_attr(self, tx: Frame, name: str) -> Value:
        if name in _OF_THE_OBJECT:
            return tx.unsupported("attribute", f"{name!r} of a {self.family.__name__}")
        return super().get_attr(tx, name)

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in _OF_THE_OBJECT:
            return tx.unsupported("call", f"{self.family.__name__}.{name}")
        if name in ("__eq__", "__ne__"):
            return tx.constant(NotImplemented)
        if name in ("readinto", "readinto1") and len(args) == 1 and args[0].is_buffer:
            return fold(tx, getattr(self.own, name), [args[0].written(tx)])
        if name == "__exit__":
            return super().call_method(tx, "close", [], {})
        return super().call_method(tx, name, args, kwargs)

    def result(self, tx: Frame, result: Any, name: str, args: list[Any]) -> Value:
        if isinstance(result, memoryview):
            return ViewValue(result, self, first=name)
        return super().result(tx, result, name, args)

    def print(self, tx: Frame, texts: list[str], sep: Any, end: Any) -> Value:
        """`print(*texts, file=self)`."""
        return fold(tx, lambda: print(*texts, sep=sep, end=end, file=self.own), [])

    def reconstruct(self, cg: Writer) -> None:
        cg.load_object(self.family)
        cg.call(0)
        if not self.own.closed:
            self._emit_call(cg, "__setstate__", self.own.__getstate__())
        else:
            self._emit_call(cg, "close")

    def _emit_call(self, cg: Writer, name: str, *args: Any) -> None:
        cg.copy()
        cg.load_attr(name)
        for arg in args:
            cg.load_const(arg)
        cg.call(len(args))
        cg.pop()


def _makes(cls: type) -> None:
    def construct(tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        plain = [plain_of(tx, arg) for arg in args]
        named = {key: plain_of(tx, arg) for key, arg in kwargs.items()}
        try:
            return StreamValue(cls(*plain, **named))
        except (TypeError, ValueError) as error:
            return tx.raise_python(type(error), *error.args)

    constructs(cls)(construct)


for _cls in (io.StringIO, io.BytesIO):
    _makes(_cls)
