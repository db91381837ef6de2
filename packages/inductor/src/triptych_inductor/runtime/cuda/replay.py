"""CUDA graphs: a compiled graph's work on the GPU recorded once and replayed, one launch for all kernels.

Life of one shape: the first call runs as it is; the second records; later ones replay. An input that came at the same
address twice is read there, and the address is checked at each call; any other is copied into memory of the recording.
Outputs are copied out, so that no later call overwrites what a caller keeps; an output that is an input, or a view of
one, is given as such. Outputs that a forward keeps for its backward are lent (`outputs.py`): the backward reads them
where they lie. While any of them is alive, the next call takes a recording with memory of its own, and beyond the
second runs as it is, unless the program said that a step began (`steps.py`). What cannot be recorded runs as it is, and
`Replay.reason` says why. All recordings of a device share one pool of memory.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from triptych_inductor._torch_compat import foreach_copy
from triptych_inductor.runtime.cuda import steps
from triptych_inductor.runtime.cuda.outputs import Loans, Output, core, make_outputs, output_plan, own_copy
from triptych_inductor.runtime.inputs import Inputs

Run = Callable[[list[Any]], Any]
_MOST_RECORDINGS = 16  # shapes recorded for one compiled graph
_MOST_ATTEMPTS = 4  # recordings of one shape whose inputs keep moving
_LANES = 2  # recordings of one shape, where what the first lent is alive at the next call
PRIVATE = "private_outputs"
"""In the meta of a graph's output node: positions of outputs that its caller alone sees, and drops after their use."""

NOT_RECORDABLE = frozenset({torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output})
"""Ops with one of these tags wait for the GPU."""


@dataclass(frozen=True)
class ReplayFacts:
    """What is known from the graph: why it cannot be recorded ("" where it can), which inputs it writes, and which
    outputs may be lent."""

    reason: str
    mutated: frozenset[int]
    device: int = 0
    private: frozenset[int] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """The facts as JSON-able data, for an artifact."""
        return {name: sorted(v) if isinstance(v, frozenset) else v for name, v in vars(self).items()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ReplayFacts:
        """What `to_json` wrote."""
        values: dict[str, Any] = {name: frozenset(v) if isinstance(v, list) else v for name, v in data.items()}
        return cls(**values)


RECORDED = "cuda"  # the type of device whose work is recorded


def replay_facts(gm: GraphModule) -> ReplayFacts:
    """Facts of a graph whose nodes carry `meta["val"]`."""
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    devices = {t.device for n in gm.graph.nodes for t in _tensors(n.meta.get("val"))}
    written = _written_inputs(gm, placeholders)
    others = sorted({str(d) for d in devices if d.type != RECORDED})
    if not devices:
        return ReplayFacts("no tensors", written)
    if others:
        return ReplayFacts(f"tensors on {', '.join(others)}", written)
    if len(devices) > 1:
        return ReplayFacts(f"tensors on several devices: {', '.join(sorted(map(str, devices)))}", written)
    for node in gm.graph.nodes:
        if NOT_RECORDABLE & set(getattr(node.target, "tags", ())):
            return ReplayFacts(f"{node.target} waits for the GPU", written)
    private = frozenset(gm.graph.output_node().meta.get(PRIVATE, ()))
    return ReplayFacts("", written, next(iter(devices)).index or 0, private)


def obstacle(node: Node, device: torch.device | None) -> str:
    """Why a node cannot be part of a recording on a device; "" where it can."""
    if NOT_RECORDABLE & set(getattr(node.target, "tags", ())):
        return f"{node.target} waits for the GPU"
    for value in (node.meta.get("val"), *[n.meta.get("val") for n in node.all_input_nodes]):
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return "symbolic numbers"
        for tensor in _tensors(value):
            if tensor.device != device:
                return f"tensors on {tensor.device}"
            if not all(type(n) is int for n in (*tensor.shape, *tensor.stride())):
                return "symbolic sizes"
    return ""


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in _tensors(v)] if isinstance(value, (tuple, list)) else []


def _written_inputs(gm: GraphModule, placeholders: Sequence[Node]) -> frozenset[int]:
    """Positions of the inputs that some op writes, directly or through a view."""
    position = {node: k for k, node in enumerate(placeholders)}
    found: set[int] = set()
    for node in gm.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable:
            continue
        for argument, value in zip(schema.arguments, node.args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for written in value if isinstance(value, (tuple, list)) else [value]:
                    base = _base(written)
                    if base in position:
                        found.add(position[base])
    return frozenset(found)


def _base(node: Any) -> Any:
    """The node whose memory a chain of views looks at."""
    while isinstance(node, Node) and node.op == "call_function":
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.arguments or schema.arguments[0].alias_info is None or not node.args:
            return node
        node = node.args[0]
    return node


class Pool:
    """The memory that all recordings of one device share.

    Outputs are copied out before anything else is replayed, so what one recording used in between may be overwritten by
    the next: replays take turns, in the order of the streams that they are queued on. `lent`: addresses of outputs that
    were given as they lie in the pool.
    """

    def __init__(self, device: int) -> None:
        self.device = device
        self._handle: Any = None
        self._keeper: Any = None
        self._last: torch.cuda.Stream | None = None
        self._lock = threading.RLock()
        self.lent: set[int] = set()

    def handle(self) -> Any:
        """torch's handle of the pool. A small recording that stays keeps the pool alive when all others are gone."""
        if self._handle is None:
            handle, graph = torch.cuda.graph_pool_handle(), torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=handle, capture_error_mode="thread_local"):
                kept = torch.zeros(1, device=torch.device(RECORDED, self.device))
            self._handle, self._keeper = handle, (graph, kept)
        return self._handle

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """One recording or replay, after those before it on other streams."""
        with self._lock:
            stream = torch.cuda.current_stream(self.device)
            if self._last is not None and self._last != stream:
                stream.wait_stream(self._last)
            self._last = stream
            yield


@functools.cache
def pool_of(device: int) -> Pool:
    """The pool of a device of this process."""
    return Pool(device)


@dataclass
class Recording:
    """One recorded shape."""

    addresses: list[int | None]  # of each tensor input at the last call
    copied: set[int] = field(default_factory=set)  # inputs that have memory of the recording
    static: list[Any] = field(default_factory=list)
    graph: torch.cuda.CUDAGraph | None = None
    outputs: list[Output] = field(default_factory=list)
    shape: Callable[[list[Any]], Any] = list
    attempts: int = 0
    loans: Loans = field(default_factory=Loans)
    inputs: Inputs | None = None  # of the last call, for a quick comparison
    step: tuple[int, int] = (0, 0)  # of the last replay (`steps.step`)
    warmup: tuple[int, int] = (0, 0)  # when the run began that was the warm-up (`steps.warmup`)


class Replay:
    """Runs a compiled graph, replaying it where it can. `reason`: why it does not replay, "" as long as it does."""

    def __init__(self, run: Run, facts: ReplayFacts) -> None:
        self.run = run
        self.facts = facts
        self.reason = facts.reason
        self.recordings: dict[tuple[Any, ...], Recording] = {}
        self._latest: Recording | None = None

    def __call__(self, args: list[Any]) -> Any:
        """As the wrapped function: `args` is emptied."""
        if self.reason or torch.cuda.is_current_stream_capturing():
            return self.run(args)
        pool = pool_of(self.facts.device)
        latest = self._latest
        if latest is not None and self._fits(latest, args, pool):
            with torch.cuda.device(self.facts.device), pool.turn():
                if self._fits(latest, args, pool):  # no other thread was faster
                    return self._replay(latest, args)
        key = _key(args, pool.lent)
        for lane in range(_LANES):
            recording = self.recordings.get((lane, *key))
            if recording is None or (recording.graph is None and not _is_warm(recording)):
                return self._first((lane, *key), args)
            if not recording.loans.out() or _is_of_earlier_step(recording):
                break
        else:
            return self.run(args)
        with torch.cuda.device(self.facts.device), pool.turn():
            if recording.loans.out() and not (_is_of_earlier_step(recording) and recording.loans.move_out()):
                return self.run(args)  # another thread was faster, or something of the earlier step cannot be moved
            if recording.graph is None or self._moved(recording, args):
                if not self._record(recording, args):
                    return self.run(args)
            return self._replay(recording, args)

    def _fits(self, recording: Recording, args: list[Any], pool: Pool) -> bool:
        """Whether nothing but what is copied has changed since the recording's last replay, and nothing is lent."""
        known = recording.inputs
        if known is None or recording.loans.out() or not known.fit(args):
            return False
        return not pool.lent or not any(args[k].data_ptr() in pool.lent for k in recording.copied)

    def __str__(self) -> str:
        return f"runs without CUDA graphs ({self.reason})" if self.reason else "replayed as a CUDA graph"

    def _first(self, key: tuple[Any, ...], args: list[Any]) -> Any:
        """Run as it is, so that libraries set themselves up, and remember where inputs lie."""
        if key in self.recordings or len(self.recordings) < _MOST_RECORDINGS:
            self.recordings[key] = Recording(_addresses(args), warmup=steps.warmup())
        return self.run(args)

    def _moved(self, recording: Recording, args: Sequence[Any]) -> bool:
        """Whether an input that is read where it lay now lies elsewhere."""
        return any(
            address is not None and k not in recording.copied and args[k].data_ptr() != address
            for k, address in enumerate(recording.addresses)
        )

    def _record(self, recording: Recording, args: Sequence[Any]) -> bool:
        """Record; False where that failed, or where inputs move too often."""
        now = _addresses(args)
        recording.copied |= {k for k, (a, b) in enumerate(zip(recording.addresses, now, strict=True)) if a != b}
        recording.addresses = now
        recording.attempts += 1
        if recording.attempts > _MOST_ATTEMPTS:
            self.reason = "inputs keep moving in memory"
            return False
        pool = pool_of(self.facts.device)
        pool.lent -= recording.loans.addresses
        recording.graph, recording.outputs, recording.loans, recording.inputs = None, [], Loans(), None
        recording.static = [own_copy(a) if k in recording.copied else a for k, a in enumerate(args)]
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=pool.handle(), capture_error_mode="thread_local"):
                result = self.run(list(recording.static))
        except Exception as error:
            self.reason = f"recording failed: {type(error).__name__}: {error}"
            warnings.warn(f"a compiled graph runs without CUDA graphs: {self.reason}", stacklevel=2)
            return False
        recording.graph = graph
        recording.outputs, recording.shape = output_plan(result, recording.static, self.facts.private)
        recording.loans = Loans.of(recording.outputs)
        pool.lent |= recording.loans.addresses
        recording.static = [a if k in recording.copied else None for k, a in enumerate(recording.static)]
        return True

    def _replay(self, recording: Recording, args: list[Any]) -> Any:
        assert recording.graph is not None
        if recording.inputs is None:
            recording.inputs = Inputs.of(args, recording.copied)
        self._latest = recording
        order = sorted(recording.copied)
        if order:
            foreach_copy([core(recording.static[k]) for k in order], [core(args[k]) for k in order])
        recording.graph.replay()
        back = [k for k in order if k in self.facts.mutated]
        if back:
            foreach_copy([core(args[k]) for k in back], [core(recording.static[k]) for k in back])
        made = make_outputs(recording.outputs, args)
        recording.step = steps.step()
        recording.loans.note(recording.outputs, made)
        args.clear()
        return recording.shape(made)


def _is_warm(recording: Recording) -> bool:
    """Whether the program had nothing against the run that was to be the warm-up."""
    thread, count = recording.warmup
    return steps.warmup() == (thread, count) or steps.warmup()[0] != thread


def _is_of_earlier_step(recording: Recording) -> bool:
    """Whether this thread began a step since it replayed the recording last."""
    thread, number = recording.step
    return steps.step()[0] == thread and steps.step()[1] > number


def _key(args: Sequence[Any], lent: Collection[int] = ()) -> tuple[Any, ...]:
    """What tells recordings apart: sizes and strides of tensors, the addresses of lent ones, and numbers."""
    if not lent:
        return tuple([(a.shape, a.stride()) if isinstance(a, torch.Tensor) else a for a in args])
    return tuple([_form(a, lent) if isinstance(a, torch.Tensor) else a for a in args])


def _form(value: torch.Tensor, lent: Collection[int]) -> tuple[Any, ...]:
    address = value.data_ptr()
    return (value.shape, value.stride(), address) if address in lent else (value.shape, value.stride())


def _addresses(args: Sequence[Any]) -> list[int | None]:
    return [a.data_ptr() if isinstance(a, torch.Tensor) else None for a in args]
