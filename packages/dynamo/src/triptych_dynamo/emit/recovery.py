"""What happens when a graph's call raises: the frame runs again, as plain Python, from its start.

The effects of a compiled frame come after its graph, so a graph that fails leaves nothing behind but what it did
itself: writes to its inputs, random numbers drawn, modes set. Where there are none, or they can be given back, the
code returns a `PlainRun`, and the extension runs the original on the same arguments. The program then does what
comes before the failing operation, raises at its own line and enters its own handlers. A call without a failure pays
nothing: the handler is a row of the exception table.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from triptych_dynamo._eval_frame import PlainRun
from triptych_dynamo._torch_compat import OtherWay, in_forward_mode, leave_transforms, tensor_version
from triptych_dynamo.bytecode import ExceptionRange, Instruction, build
from triptych_dynamo.trace.failures import Failing
from triptych_dynamo.trace_rules import is_of_compiler

if TYPE_CHECKING:
    from types import FrameType

    from torch import fx

    from triptych_dynamo.emit.writer import Writer
    from triptych_dynamo.trace.trace import Trace

Failed = Callable[[Exception], None]
_NOTE, _OUTCOME = "__triptych_before", "__triptych_outcome"
_AUTOCAST = ("cpu", "cuda")


class Recovery:
    """The part of one frame's code that deals with a failure of its graph.

    Args:
        trace: the finished trace.
        module: its graph.
        compiled: what runs it.
        failed: told the error when the program itself got through the same call.
    """

    def __init__(self, trace: Trace, module: fx.GraphModule, compiled: Callable[..., Any], failed: Failed) -> None:
        self.facts = Failing(trace, module)
        self.failed = failed
        self.shows_faults = trace.options.on_error != "eager"
        self.modes = dict(guard.value for guard in trace.guards.values() if guard.kind == "mode")
        self.in_forward_mode = in_forward_mode()
        in_order = getattr(getattr(compiled, "fn", compiled), "__self__", None) is module
        self.repeatable = self.facts.repeatable and (in_order or not self.facts.written)
        self.notes = self.repeatable and bool(self.facts.written or self.facts.noted)

    # -- code --------------------------------------------------------------------------------------------------------
    def emit_note(self, cg: Writer) -> None:
        """Before the graph: keep what a failure is measured by."""
        if self.notes:
            cg.load_object(self.note)
            for source in self.facts.written:
                cg.load_source(source)
            cg.call(len(self.facts.written))
            cg.emit(build.store_fast(_NOTE))

    def handler(self, call: list[Instruction]) -> list[Instruction]:
        """Code for the end of the frame's, where an exception of the instructions `call` goes."""
        start = build.one("PUSH_EXC_INFO")
        forget = [*build.load_const(None), *build.store_fast(_OUTCOME)]  # the error's traceback holds this frame
        leave = [*build.pop(), *build.load_set_fast(_OUTCOME), *forget, *build.return_value()]
        note = build.load_set_fast(_NOTE) if self.notes else build.load_const(None)
        for row in call:
            row.handler = ExceptionRange(start, 0, lasti=False)
        return [
            *(start, *build.copy(), *build.load_const(self.after), *build.swap(2), *note, *build.call(2)),
            *(*build.store_fast(_OUTCOME), *build.swap(2), build.one("POP_EXCEPT")),
            *(*build.load_set_fast(_OUTCOME), *build.jump_if(None, leave[0], invert=True)),
            *(build.one("RERAISE", arg=0), *leave),
        ]

    # -- at run time -------------------------------------------------------------------------------------------------
    def note(self, *written: torch.Tensor) -> Before:
        """What is so before the graph runs."""
        return Before(written, self.facts.devices if self.facts.noted else None)

    def after(self, error: BaseException, before: Before | None) -> PlainRun | None:
        """What the frame returns when its graph raised `error`; None: it raises it too."""
        self._restore_modes()
        asked_for = isinstance(error, OtherWay)
        is_fault = self.shows_faults and not asked_for and is_of_compiler(type(error).__module__)
        if is_fault or not (self.repeatable and isinstance(error, Exception)):
            return None
        if self.facts.draws and not self.facts.noted:
            return None
        if before is not None and not before.restore():
            return None
        traceback.clear_frames(error.__traceback__)  # tensors of the graph: the plain run may need their memory
        return PlainRun(_expected if asked_for else _Watch(error, self.failed).ended)

    def _restore_modes(self) -> None:
        """Modes that the graph set, and transforms that it entered, and did not come to set back and to leave."""
        leave_transforms(self.modes.get("function_transforms", 0), self.in_forward_mode)
        torch._C._set_grad_enabled(self.modes["grad_mode"])
        for device in _AUTOCAST:
            torch.set_autocast_enabled(device, self.modes[f"autocast_{device}"])


def _expected(returned: bool) -> None:
    """A plain run that the graph itself asked for is over."""


class Before:
    """The state before a graph's call.

    Args:
        written: tensors that the graph may write.
        devices: of CUDA, whose random numbers it may draw beside the CPU's; None: it draws none.
    """

    __slots__ = ("states", "versions")

    def __init__(self, written: tuple[torch.Tensor, ...], devices: list[int] | None) -> None:
        self.versions = [(tensor, tensor_version(tensor)) for tensor in written]
        self.states: list[tuple[torch.Generator, torch.Tensor]] = []
        if devices is not None:
            generators = [torch.default_generator, *(torch.cuda.default_generators[index] for index in devices)]
            self.states = [(generator, generator.get_state()) for generator in generators]

    def restore(self) -> bool:
        """Give random numbers back, unless tensors were written."""
        if any(tensor_version(tensor) != version for tensor, version in self.versions):
            return False
        for generator, state in self.states:
            generator.set_state(state)
        return True


class _Watch:
    """Sees during a plain run whether the program raises too, and handles it itself.

    Args:
        error: what the graph raised.
        failed: told the error when the program has raised nothing.
    """

    def __init__(self, error: Exception, failed: Failed) -> None:
        self.error = error
        self.failed = failed
        self.watches = sys.gettrace() is None  # else a debugger runs, which is not to be disturbed
        self.raised = not self.watches
        if self.watches:
            sys.settrace(self._event)

    def _event(self, frame: FrameType, event: str, details: Any) -> Any:
        if event == "call":
            frame.f_trace_lines = False
        elif event == "exception" and not issubclass(details[0], (StopIteration, GeneratorExit)):
            self.raised = True
        return self._event

    def ended(self, returned: bool) -> None:
        """The plain run is over."""
        if self.watches:
            sys.settrace(None)
        if returned and not self.raised:
            self.failed(self.error)
