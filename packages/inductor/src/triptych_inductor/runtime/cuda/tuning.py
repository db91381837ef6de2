"""Autotuning of generated kernels: candidates are built in parallel, timed on the device, and the choice is kept.

A choice is a record of the store under what determines it: the kernel's text under its own heuristics, the candidates,
the device, the versions. Kernels that raise for bad indices are timed in a form that brings indices into their range
instead, so that made-up data cannot stop the device. Symbolic sizes have their typical values.
"""

from __future__ import annotations

import json
import logging
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from triptych_inductor.build.cache import Store, digest
from triptych_inductor.codegen.triton.build import (
    DeviceBinary,
    TritonCompileError,
    build,
    canonical_source,
    triton_version,
)
from triptych_inductor.codegen.triton.candidates import candidates
from triptych_inductor.codegen.triton.devices import DeviceFacts
from triptych_inductor.codegen.triton.generate import generate
from triptych_inductor.codegen.triton.records import TritonProgram
from triptych_inductor.codegen.triton.tiles import HINT
from triptych_inductor.ir.extents import hint
from triptych_inductor.loops.kernel import Kernel

log = logging.getLogger(__name__)
_WORTH = 0.97  # a candidate must take less than this share of the heuristics' time
_LARGEST = 0.4  # share of the free memory that made-up arguments may take

Timer = Callable[[TritonProgram, Sequence[DeviceBinary], Sequence[Any]], float]  # arguments: tensors, then sizes


@dataclass(frozen=True)
class Trial:
    """One candidate: its layout as text, and microseconds (None: it could not be built or launched)."""

    layout: str
    microseconds: float | None


@dataclass(frozen=True)
class Choice:
    """What tuning one kernel gave. `chosen`: the number of the trial taken; 0 is the heuristics' own layout."""

    kernel: str
    trials: tuple[Trial, ...]
    chosen: int
    from_cache: bool = False

    @property
    def gain(self) -> float:
        """Time of the heuristics' layout over the chosen one's."""
        first, best = self.trials[0].microseconds, self.trials[self.chosen].microseconds
        return first / best if first and best else 1.0

    def __str__(self) -> str:
        order = sorted(range(len(self.trials)), key=lambda k: self.trials[k].microseconds or float("inf"))
        lines = [f"{self.kernel}: {len(self.trials)} layouts, gain {self.gain:.2f}"]
        for k in order:
            trial = self.trials[k]
            time = "failed" if trial.microseconds is None else f"{trial.microseconds:10.1f} us"
            lines.append(
                f"  {'*' if k == self.chosen else ' '} {time}  {trial.layout}{' (heuristics)' if k == 0 else ''}"
            )
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any], from_cache: bool = False) -> Choice:
        """What `to_json` wrote."""
        trials = tuple(Trial(t["layout"], t["microseconds"]) for t in data["trials"])
        return Choice(data["kernel"], trials, data["chosen"], from_cache or data["from_cache"])


@dataclass
class Tuner:
    """Tunes kernels of one device. `timer` gives the seconds of one launch on given arguments."""

    facts: DeviceFacts
    timer: Timer
    index: int = 0
    records: Store = field(default_factory=lambda: Store("tuning"))
    progress: Callable[[str], None] | None = None

    def tune(self, kernels: Sequence[Kernel]) -> tuple[list[TritonProgram], list[Choice]]:
        """Each kernel's program under the best layout, and what was tried (kernels with one candidate left out)."""
        programs, choices = [], []
        for number, kernel in enumerate(kernels):
            layouts = candidates(kernel, self.facts)
            if len(layouts) == 1:
                programs.append(generate(kernel, self.facts))
                continue
            tried = [generate(kernel, self.facts, layout=layout, clamped=True) for layout in layouts]
            choice = self._stored(kernel, tried) or self._measured(kernel, tried)
            self._say(number + 1, len(kernels), choice)
            programs.append(generate(kernel, self.facts, layout=layouts[choice.chosen]))
            choices.append(choice)
        if choices:
            self._say(len(kernels), len(kernels), None)
        return programs, choices

    def _key(self, kernel: Kernel, tried: Sequence[TritonProgram]) -> str:
        extents = [str(a.numel) for a in (*kernel.inputs, *kernel.outputs)] + [str(typical_sizes(kernel))]
        texts = [canonical_source(f) for f in tried[0].functions] + ["|".join(p.notes) for p in tried]
        return digest("tuning", triton_version(), torch.__version__, repr(self.facts), *extents, *texts)

    def _stored(self, kernel: Kernel, tried: Sequence[TritonProgram]) -> Choice | None:
        payload = self.records.get(self._key(kernel, tried))
        if payload is None:
            return None
        choice = Choice.from_json(json.loads(payload), from_cache=True)
        return Choice(kernel.name, choice.trials, choice.chosen, True)

    def _measured(self, kernel: Kernel, tried: Sequence[TritonProgram]) -> Choice:
        binaries = self._built(tried)
        trials = []
        arguments = made_up_arguments(kernel, self.index)
        for program, built in zip(tried, binaries, strict=True):
            seconds = None if built is None or arguments is None else self._timed(program, built, arguments)
            trials.append(Trial(_layout_text(program), None if seconds is None else seconds * 1e6))
        times = [t.microseconds if t.microseconds is not None else float("inf") for t in trials]
        best = min(range(len(times)), key=times.__getitem__)
        chosen = best if times[best] < _WORTH * times[0] else 0
        choice = Choice(kernel.name, tuple(trials), chosen)
        if arguments is not None:
            self.records.put(self._key(kernel, tried), json.dumps(choice.to_json()).encode())
        return choice

    def _built(self, tried: Sequence[TritonProgram]) -> list[list[DeviceBinary] | None]:
        """Machine code of each candidate, None where Triton fails on it (too much shared memory, say)."""
        pending = [build([program], self.facts) for program in tried]
        found: list[list[DeviceBinary] | None] = []
        for one in pending:
            try:
                found.append(one.result()[0])
            except TritonCompileError:
                found.append(None)
        return found

    def _timed(self, program: TritonProgram, built: list[DeviceBinary], arguments: list[Any]) -> float | None:
        try:
            return self.timer(program, built, arguments)
        except RuntimeError as error:  # more shared memory or registers than the device has
            log.info("candidate of %s left out: %s", program.name, error)
            return None

    def _say(self, done: int, total: int, choice: Choice | None) -> None:
        if self.progress is not None:
            words = "" if choice is None else f": {choice.kernel}, gain {choice.gain:.2f}"
            self.progress(f"autotune {done}/{total}{words}" if choice is not None else "")


def _layout_text(program: TritonProgram) -> str:
    return "; ".join(program.notes)


def show_progress(text: str) -> None:
    """A line on the terminal that the next one replaces; the log where there is no terminal. "" ends the line."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}" if text else "\r\033[K")
        sys.stderr.flush()
    elif text:
        log.info(text)


def typical_sizes(kernel: Kernel) -> list[int]:
    """Values for a kernel's size arguments."""
    return list(kernel.typical) if len(kernel.typical) == len(kernel.sizes) else [HINT] * len(kernel.sizes)


def free_memory(index: int) -> int:
    """Free bytes of a device."""
    return torch.cuda.mem_get_info(index)[0]


def made_up_arguments(kernel: Kernel, index: int) -> list[Any] | None:
    """Zeros for a kernel's buffers on a device, and its sizes; None where they would take too much of its memory."""
    device = torch.device(kernel.device.type, index)
    sizes = typical_sizes(kernel)
    known = dict(zip(kernel.sizes, sizes, strict=True))
    buffers = {a.name: a for a in (*kernel.inputs, *kernel.outputs)}
    numels = {name: hint(a.numel, known) for name, a in buffers.items()}
    needed = sum(numels[name] * a.dtype.itemsize for name, a in buffers.items())
    if needed > _LARGEST * free_memory(index):
        return None
    return [torch.zeros(numels[n], dtype=a.dtype, device=device) for n, a in buffers.items()] + sizes


def device_timer(load: Callable[[TritonProgram, Sequence[DeviceBinary]], Callable[..., None]]) -> Timer:
    """A timer by events of the device: the median of several launches, more of them where they are short."""

    def seconds(program: TritonProgram, built: Sequence[DeviceBinary], arguments: Sequence[Any]) -> float:
        call = load(program, built)
        call(*arguments)
        torch.cuda.synchronize()
        first = _launch_time(call, arguments, 1)
        repeats = max(min(int(0.01 / max(first, 1e-6)), 50), 3)
        inner = max(min(int(5e-5 / max(first, 1e-6)), 10), 1)  # short kernels: several between two events
        return statistics.median(_launch_time(call, arguments, inner) for _ in range(repeats))

    return seconds


def _launch_time(call: Callable[..., None], arguments: Sequence[Any], launches: int) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(launches):
        call(*arguments)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / launches
