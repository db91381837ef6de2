"""`GeneratorValue`: a generator made in the trace: a suspended frame that is resumed for each value."""

from __future__ import annotations

from collections.abc import Iterator
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from triptych_dynamo.errors import TracedException
from triptych_dynamo.interpreter.dropped import runs_when_dropped
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value

if TYPE_CHECKING:
    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.interpreter.frame import Frame

MAX_ITEMS = 100_000  # of one loop over a generator, so that tracing ends


class GeneratorValue(Value):
    """A generator; `frame` runs its body."""

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame
        self.started = False
        self.finished = False
        self.running = False
        self.made_at = frame.trace.step_of_root()
        self.names: dict[str, str] = {}  # `__name__` and `__qualname__`, where they are not the code's
        self.only_iterated = False  # nothing but a loop of the traced program holds it
        frame.generator = self
        frame.trace.generators.append(self)

    def python_type(self) -> type:
        return GeneratorType

    def truth(self, tx: Frame) -> bool:
        return True

    # -- protocol ------------------------------------------------------------------------------------------------------
    def resume(self, tx: Frame, sent: Value | None, thrown: Value | None = None) -> Value:
        """Run to the next yield and give its value; raises the traced StopIteration at the end.

        Args:
            sent: what the suspended `yield` evaluates to.
            thrown: an exception to raise there instead.
        """
        if self.running:
            tx.raise_python(ValueError, "generator already executing")
        if self.finished:
            if thrown is not None:
                raise TracedException(thrown)
            tx.raise_python(StopIteration)
        if not self.started and sent is not None and not (sent.is_constant() and sent.as_constant() is None):
            tx.raise_python(TypeError, "can't send non-None value to a just-started generator")
        frame = self.frame
        frame.parent = tx
        self.running = True
        try:
            if thrown is not None:
                frame.throw(thrown, started=self.started)
            elif self.started:
                frame.push(sent if sent is not None else ConstantValue(None))
            self.started = True
            value = frame.run()
        except TracedException as error:
            self.finished = True
            self._convert_stop(tx, error)
            raise
        finally:
            self.running = False
        if frame.finished:
            self.finished = True
            raise TracedException(tx.trace.make_exception(StopIteration, _stop_arguments(value)))
        return value

    def _convert_stop(self, tx: Frame, error: TracedException) -> None:
        """A StopIteration that leaves a generator's body becomes a RuntimeError."""
        if issubclass(error.value.python_type(), StopIteration):
            text = tx.constant("generator raised StopIteration")
            raised: Any = tx.trace.make_exception(RuntimeError, [text])
            raised.store_common(tx, "__cause__", error.value)
            raised.store_common(tx, "__context__", error.value)
            converted = TracedException(raised)
            converted.chained = True
            raised.note_raised(tuple(caller.line_number() for caller in tx.trace.frames))
            raise converted

    @property
    def has_an_end_to_run(self) -> bool:
        """Whether dropping the generator now would run code of it, such as a `finally` block."""
        return any(generator.is_suspended and runs_when_dropped(generator.frame) for generator in self._held())

    @property
    def is_suspended(self) -> bool:
        """Whether it stands at a yield."""
        return self.started and not self.finished

    def _held(self) -> list[GeneratorValue]:
        """It, and what suspended frames from it on hold, such as what `yield from` is at."""
        held: list[GeneratorValue] = [self]
        for generator in held:
            if not generator.is_suspended:
                continue
            for value in (*generator.frame.stack, *generator.frame.locals.values()):
                if isinstance(value, GeneratorValue) and value not in held:
                    held.append(value)
        return held

    def next_item(self, tx: Frame) -> Value | None:
        """The next value, or None at the end."""
        try:
            return self.resume(tx, None)
        except TracedException as error:
            if self.finished and issubclass(error.value.python_type(), StopIteration):
                return None
            raise

    def iterate(self, tx: Frame) -> Iterator[Value]:
        for _ in range(MAX_ITEMS):
            item = self.next_item(tx)
            if item is None:
                return
            yield item
        tx.unsupported("loop", f"more than {MAX_ITEMS} items from a generator")

    def close(self, tx: Frame) -> Value:
        """`generator.close()`."""
        if self.finished or not self.started:
            self.finished = True
            return ConstantValue(None)
        try:
            self.resume(tx, None, tx.trace.make_exception(GeneratorExit, []))
        except TracedException as error:
            if issubclass(error.value.python_type(), (GeneratorExit, StopIteration)):
                return ConstantValue(None)
            raise
        tx.raise_python(RuntimeError, "generator ignored GeneratorExit")

    def drop(self, tx: Frame) -> None:
        """The loop that alone holds the generator is left: its open blocks are left, as its finaliser does."""
        if self.only_iterated and self.has_an_end_to_run:
            try:
                self.close(tx)
            except TracedException:
                tx.unsupported("generator", "a generator raises while it is dropped")

    # -- attributes and methods ----------------------------------------------------------------------------------------
    def get_attr(self, tx: Frame, name: str) -> Value:
        if name in _METHODS:
            return GeneratorMethod(self, name)
        if name == "gi_running":
            return ConstantValue(self.running)
        if name in self.names:
            return ConstantValue(self.names[name])
        if name in ("__name__", "__qualname__", "gi_code"):
            code = self.frame.code
            known = {"__name__": code.co_name, "__qualname__": code.co_qualname, "gi_code": code}
            return ConstantValue(known[name])
        return super().get_attr(tx, name)

    def set_attr(self, tx: Frame, name: str, value: Value) -> None:
        if name in ("__name__", "__qualname__"):
            if not issubclass(value.python_type(), str):
                tx.raise_python(TypeError, f"{name} must be set to a string object")
            self.names[name] = value.as_constant()
            return
        tx.unsupported("attribute-store", f"setting {name!r} of a generator")

    def del_attr(self, tx: Frame, name: str) -> None:
        if name in ("__name__", "__qualname__"):
            tx.raise_python(TypeError, f"{name} must be set to a string object")
        tx.unsupported("attribute-delete", f"deleting {name!r} of a generator")

    def call_method(self, tx: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__iter__":
            return self
        if name == "__next__":
            return self.resume(tx, None)
        if name == "send":
            return self.resume(tx, args[0])
        if name == "close":
            return self.close(tx)
        if name == "throw":
            return self.resume(tx, None, self._exception_of(tx, args))
        return super().call_method(tx, name, args, kwargs)

    @staticmethod
    def _exception_of(tx: Frame, args: list[Value]) -> Value:
        first = args[1] if len(args) > 1 and not _is_none(args[1]) else args[0]
        if issubclass(first.python_type(), type):
            return first.call(tx, [], {})
        return first

    def reconstruct(self, cg: Writer) -> None:
        """A generator that stands where this one stands."""
        if self.running:
            cg.cannot_rebuild("generator", "a generator that is running")
        cg.load_suspended(self.frame, self.started, self.finished)
        for name, text in self.names.items():
            cg.copy()
            cg.load_const(text)
            cg.swap()
            cg.store_attr(name)


class GeneratorMethod(Value):
    """`generator.send` and its like."""

    def __init__(self, owner: GeneratorValue, name: str) -> None:
        super().__init__()
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        return type(getattr(GeneratorType, self.name))

    def call(self, tx: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.owner.call_method(tx, self.name, args, kwargs)

    def reconstruct(self, cg: Writer) -> None:
        cg.load(self.owner)
        cg.load_attr(self.name)


_METHODS = frozenset({"__iter__", "__next__", "send", "throw", "close"})


def _stop_arguments(value: Value) -> list[Value]:
    return [] if _is_none(value) else [value]


def _is_none(value: Any) -> bool:
    return value.is_constant() and value.as_constant() is None
