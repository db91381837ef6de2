"""`Frame`: one Python frame run over values, and the `tx` interface that every family of values talks to.

A frame owns locals, stack, cells and the block of handled exceptions. What belongs to the whole trace (graph, guards,
effects, symbolic sizes) is in `tx.trace`; the methods here that values use delegate to it.

How instructions reach the families:
* `values.operators`: `binary(tx, "+", a, b)`, `inplace(tx, "+", a, b)`, `unary(tx, "-", a)`, `compare(tx, "<", a, b)`,
  `contains(tx, item, container)`, `get_item(tx, obj, key)`, `set_item(tx, obj, key, value)`, `del_item(tx, obj, key)`;
* `values.iterators`: `get_iter(tx, value)`; iterators answer `next_item(tx)` (None when exhausted);
* `values.sequences`: `ListValue(items)`, `TupleValue(items)`, `SliceValue(start, stop, step)`;
* `values.mappings`: `DictValue(pairs)`, `SetValue(items)`;
* `values.builtins`: `format_value(tx, value, conversion, spec)`;
* `with`: `type(cm).__enter__` and `__exit__` through `get_attr` and `call`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from triptych_dynamo.errors import TracedException, Unsupported
from triptych_dynamo.interpreter.program import Program, program_of
from triptych_dynamo.interpreter.run import run
from triptych_dynamo.values.atoms.constant import ConstantValue
from triptych_dynamo.values.base import Value

if TYPE_CHECKING:
    from triptych_dynamo.interpreter.entry import PendingCall
    from triptych_dynamo.sources import Source
    from triptych_dynamo.trace.effects import Effects
    from triptych_dynamo.trace.scopes import GlobalScope
    from triptych_dynamo.trace.trace import Trace
    from triptych_dynamo.values.callables.cells import CellValue

T = TypeVar("T")


class Frame:
    """A symbolic frame of `code`.

    Args:
        trace: the trace it belongs to.
        code: the code object.
        scope: globals of the function.
        local_values: parameters by name.
        cells: cell values of free variables by name.
        parent: the frame that called, or None at the root.
    """

    def __init__(
        self,
        trace: Trace,
        code: CodeType,
        scope: GlobalScope,
        local_values: dict[str, Value],
        cells: dict[str, CellValue],
        parent: Frame | None,
    ) -> None:
        self.trace = trace
        self.code = code
        self.program: Program = program_of(code)
        self.scope = scope
        self.locals = local_values
        self.cells = cells
        self.parent = parent
        self.stack: list[Value] = []
        self.position = 0  # index of the instruction that runs now
        self.next_position = 0
        self.keyword_names: tuple[str, ...] = ()  # set by KW_NAMES for the CALL that follows
        self.handled: list[Value] = []  # exceptions being handled, innermost last
        self.generator: Value | None = None
        self.result: Value | None = None
        self.finished = False  # it returned
        self.pending_throw: Value | None = None
        self.pending_call: PendingCall | None = None  # the call under way when the frame began behind a graph break
        self.steps = 0  # instructions begun so far
        self.stop = -1  # the step before which the plan wants to be asked
        self.level = -1  # how many direct calls lead here from the root; -1: some call on the way is not direct
        self.awaited: Value | None = None  # the running call's callee: what that returns is what the call gives
        self.class_namespace: Any = None  # of a class body: what its metaclass prepared, unless a plain dictionary

    # -- stack ---------------------------------------------------------------------------------------------------------
    def push(self, value: Value) -> None:
        """Push a value."""
        self.stack.append(value)

    def pop(self) -> Value:
        """Pop a value."""
        return self.stack.pop()

    def popn(self, count: int) -> list[Value]:
        """Pop `count` values, deepest first."""
        if not count:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    def run(self) -> Value:
        """Run to the return and give its value; traced exceptions that nothing handles propagate."""
        return run(self)

    def run_call(self, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """The whole work of a call instruction (see `awaited`)."""
        self.awaited = function
        return function.call(self, args, kwargs)

    def pass_on(self, caller: Value, callee: Value) -> None:
        """Said by a callable whose call gives what the call of another gives: a cut may go through it."""
        if self.awaited is caller:
            self.awaited = callee

    def bound_locals(self) -> list[str]:
        """Locals that are set, parameters that were not read yet included."""
        unread = getattr(self.locals, "unread", ())
        return [*self.locals, *unread]

    def is_unread(self, name: str) -> bool:
        """Whether a parameter of the root was not looked at so far (its slot holds it still)."""
        return name in getattr(self.locals, "unread", ())

    def throw(self, exception: Value, started: bool) -> None:
        """A suspended generator frame goes on by raising `exception` where it stands."""
        self.pending_throw = exception

    # -- what values use -----------------------------------------------------------------------------------------------
    @property
    def effects(self) -> Effects:
        """Recorded changes of pre-existing objects."""
        return self.trace.effects

    def guard(self, kind: str, source: Source | None, value: Any = None) -> None:
        """Take the fact for granted: it is checked before the compiled code runs. A None source is ignored."""
        self.trace.guard(kind, source, value)

    def wrap(self, obj: Any, source: Source | None) -> Value:
        """The value that stands for `obj`, which the program reads at `source` (None: a constant of the trace)."""
        return self.trace.wrap(self, obj, source)

    def constant(self, obj: Any) -> Value:
        """The value of an object that is the same in every run."""
        if type(obj) in ConstantValue.ATOMS:
            return ConstantValue(obj)
        return self.trace.wrap(self, obj, None)

    def source_of(self, obj: Any) -> Source | None:
        """Where the program read `obj` first, if it did."""
        return self.trace.source_of(obj)

    def call(self, function: Value, args: list[Value], kwargs: dict[str, Value] | None = None) -> Value:
        """`function(*args, **kwargs)`."""
        return function.call(self, args, kwargs or {})

    def inline(self, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Run the body of a Python function value symbolically."""
        return function.call(self, args, kwargs)

    def call_graph(self, target: Any, args: Any, kwargs: dict[str, Any] | None = None) -> Value:
        """Record a call in the graph and wrap its fake result.

        Args:
            target: a callable (`call_function`), or a string: a Tensor method (`call_method`, `args[0]` is the tensor).
            args: values, constants, or nests of them (lists, tuples, dicts, slices).
            kwargs: likewise.

        Returns:
            the value of the result: tensor, symbolic or constant number, tuple / list / named tuple of those, None.

        Raises:
            TracedException: the function raised on the fake arguments what it would raise on real ones.
            Unsupported: it cannot run on fake tensors, or gives what cannot be held.
        """
        return self.trace.graph.call(self, target, args, kwargs or {})

    def raise_python(self, exc_type: type[BaseException], *args: Any) -> NoReturn:
        """Raise `exc_type(*args)` in the traced program; arguments are constants or values."""
        values = [arg if isinstance(arg, Value) else self.constant(arg) for arg in args]
        raise TracedException(self.trace.make_exception(exc_type, values))

    def raise_caught(self, error: BaseException) -> NoReturn:
        """Raise in the traced program what a function raised while tracing, with what its initialiser put into it."""
        made: Any = self.trace.make_exception(type(error), [self.constant(arg) for arg in error.args])
        for name, item in vars(error).items():
            made.store_field(self, name, self.constant(item))
        raise TracedException(made)

    def catches(self, exc_type: type[BaseException], thunk: Callable[[], T]) -> T | None:
        """`thunk()`, or None when it raises a traced exception of `exc_type`."""
        try:
            return thunk()
        except TracedException as error:
            if issubclass(error.value.python_type(), exc_type):
                return None
            raise

    def unsupported(self, kind: str, text: str, hint: str = "") -> NoReturn:
        """End the graph here. `kind` is a key of `breaks.BREAKS`."""
        error = Unsupported(kind, text, hint)
        error.user_line = self.trace.user_line()
        error.user_stack = self.trace.user_stack()
        raise error

    @property
    def user_line(self) -> str:
        """'file:line' of the user's code that runs now."""
        return self.trace.user_line()

    def line_number(self) -> int:
        """The line of the instruction that runs now, in this frame."""
        instructions = self.program.instructions
        position = min(self.position, len(instructions) - 1)
        return instructions[position].line or self.code.co_firstlineno

    def __repr__(self) -> str:
        return f"Frame({self.code.co_qualname}, line {self.line_number()})"
