"""What the logs say of one compiled frame."""

from __future__ import annotations

import dis
import io
import logging
from types import CodeType
from typing import TYPE_CHECKING

import torch

from triptych_dynamo.logs import logger

if TYPE_CHECKING:
    from torch import fx

    from triptych_dynamo.compile_frame import CompiledFrame
    from triptych_dynamo.errors import Unsupported
    from triptych_dynamo.guards.facts import Guard
    from triptych_dynamo.region import FrameRecord

GRAPHS, BREAKS, GUARDS, RECOMPILES, FRAMES, BYTECODE, DYNAMIC = (
    logger(name) for name in ("graphs", "graph_breaks", "guards", "recompiles", "frames", "bytecode", "dynamic")
)


def log_frame(code: CodeType, result: CompiledFrame, record: FrameRecord) -> None:
    """Say what became of a frame, to whom it concerns."""
    if record.recompile_reason and RECOMPILES.isEnabledFor(logging.INFO):
        RECOMPILES.info("%s is compiled again: %s", record.name, record.recompile_reason)
    if result.graph_module is not None:
        log_graph(record.name, result.graph_module, {node.name: str(at) for node, at in result.inputs.items()})
    if result.break_reason is not None:
        log_break(result.break_reason)
    if GUARDS.isEnabledFor(logging.INFO):
        GUARDS.info("%s:\n%s", record.name, "\n".join(map(_guard_line, result.guards)))
    if FRAMES.isEnabledFor(logging.INFO):
        nodes = len(result.graph_module.graph.nodes) if result.graph_module is not None else 0
        FRAMES.info("%s: %d nodes, %d guards, %.2f s", record.name, nodes, len(result.guards), record.seconds)
    if BYTECODE.isEnabledFor(logging.INFO) and result.code is not None:
        if BYTECODE.isEnabledFor(logging.DEBUG):
            BYTECODE.debug("%s, the original:\n%s", record.name, listing(code))
        BYTECODE.info("%s:\n%s", record.name, listing(result.code))


def log_break(reason: Unsupported) -> None:
    """A graph break; with details, the calls that lead there."""
    if BREAKS.isEnabledFor(logging.INFO):
        BREAKS.info("%s", reason)
    if reason.user_stack and BREAKS.isEnabledFor(logging.DEBUG):
        BREAKS.debug("%s, called through:\n%s", reason.kind.id, "\n".join(f"  {line}" for line in reason.user_stack))


def log_graph(name: str, module: fx.GraphModule, inputs: dict[str, str]) -> None:
    """A captured graph, and what is symbolic in it."""
    if GRAPHS.isEnabledFor(logging.INFO):
        GRAPHS.info("%s:\n%s", name, module.print_readable(print_output=False))
        GRAPHS.debug("%s, inputs: %s", name, inputs)
    if DYNAMIC.isEnabledFor(logging.INFO):
        for node in module.graph.nodes:
            if node.op == "placeholder" and (text := symbolic_text(node.meta.get("val"))):
                DYNAMIC.info("%s: %s is %s", name, inputs.get(node.name, node.name), text)


def symbolic_text(value: object) -> str:
    """How a placeholder's symbolic sizes or number read; "" when nothing of it is symbolic."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return f"the number {value}"
    if isinstance(value, torch.Tensor) and any(isinstance(size, torch.SymInt) for size in value.shape):
        return f"a tensor of shape ({', '.join(map(str, value.shape))})"
    return ""


def listing(code: CodeType) -> str:
    """The disassembled text of a code object."""
    text = io.StringIO()
    dis.dis(code, file=text, depth=0)
    return text.getvalue()


def _guard_line(guard: Guard) -> str:
    where = f"  ({guard.user_line})" if guard.user_line and GUARDS.isEnabledFor(logging.DEBUG) else ""
    return f"  {guard}{where}"
