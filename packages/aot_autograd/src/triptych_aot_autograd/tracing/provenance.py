"""Provenance: which line of the user's program, and which node of the source graph, an op comes from.

In the forward trace the source is the fx node being run, or the innermost frame of the user's code. In the backward
trace it is
that of the forward op whose autograd node is running; the two are matched by autograd's sequence numbers.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node

from triptych_aot_autograd import _torch_compat as compat

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
KEPT = ("stack_trace", "nn_module_stack", "source_fn_stack", "custom", "recompute", "ac_graph_id")
INHERITED = ("recompute", "ac_graph_id")


class Provenance:
    """Gives each recorded node its origin, a dictionary shared by all nodes of one origin."""

    def __init__(self) -> None:
        self.phase = "forward"
        self._source: dict[str, Any] | None = None  # origin given by the source graph
        self.source_value: Any = None  # what the source graph says its node gives
        self.inherited: dict[str, Any] = {}  # what a call of a submodule gives to all of its nodes
        self._by_sequence: dict[int, dict[str, Any]] = {}
        self._by_frame: dict[tuple[Any, int], dict[str, Any]] = {}
        self._unknown: dict[str, Any] = {}

    def enter_node(self, node: Node) -> None:
        """Ops recorded from now on come from `node` of the source graph."""
        origin = {name: node.meta[name] for name in KEPT if name in node.meta}
        origin["source_name"] = node.name
        origin.update(self.inherited)
        self._source = origin
        self.source_value = node.meta.get("val", node.meta.get("example_value"))

    @contextlib.contextmanager
    def inside(self, node: Node) -> Iterator[None]:
        """Nodes of the submodule that `node` calls are recorded."""
        before = self._source, self.source_value, self.inherited
        self.inherited = {**self.inherited, **{k: node.meta[k] for k in INHERITED if k in node.meta}}
        try:
            yield
        finally:
            self._source, self.source_value, self.inherited = before

    def forward_origin(self) -> dict[str, Any]:
        """The origin of an op of the forward trace, remembered for the backward of its autograd node."""
        origin = self._source if self._source is not None else self._frame_origin()
        self._by_sequence.setdefault(compat.sequence_number() - 1, origin)
        return origin

    def backward_origin(self) -> dict[str, Any]:
        """The origin of the forward op whose gradient is being computed."""
        node = compat.current_autograd_node()
        if node is None:
            return self._unknown
        return self._by_sequence.get(node._sequence_nr(), self._unknown)

    def origin(self) -> dict[str, Any]:
        """The origin of the op being recorded."""
        return self.forward_origin() if self.phase == "forward" else self.backward_origin()

    def _frame_origin(self) -> dict[str, Any]:
        frame = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename.startswith((_TORCH, _OWN)):
            frame = frame.f_back  # type: ignore[assignment]
        if frame is None:
            return self._unknown
        key = (frame.f_code, frame.f_lineno)
        origin = self._by_frame.get(key)
        if origin is None:
            file, line = frame.f_code.co_filename, frame.f_lineno
            text = linecache.getline(file, line).strip()
            trace = f'  File "{file}", line {line}, in {frame.f_code.co_name}\n    {text}\n'
            origin = self._by_frame[key] = {"stack_trace": trace}
        return origin


def line_of_error(error: BaseException) -> str:
    """'file:line' of the innermost frame of the user's code that the error passed through."""
    found = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((_TORCH, _OWN)):
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def user_line(origin: dict[str, Any]) -> str:
    """'file:line' of an origin, for error texts."""
    for line in reversed(origin.get("stack_trace", "").splitlines()):
        line = line.strip()
        if line.startswith('File "') and ", line " in line:
            file, rest = line[6:].split('"', 1)
            return f"{file}:{rest.split('line ')[1].split(',')[0]}"
    return ""
