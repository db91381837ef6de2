"""Row kernels that take column sums along: one read of the data for both.

A backward of a normalisation makes, of the same two tensors, a result for each row (the input's gradient) and sums
over all
rows (the gradients of weight and bias): two kernels whose axes are exchanged, each reading everything. Where the
device's
code generator takes it, the second is hung on the first as `Kernel.columns`.

In: the calls of a schedule, in order. Out: the calls with such pairs put together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from triptych_inductor.ir.nodes import ExternNode
from triptych_inductor.loops.handlers import Recorded, loop_variables, record
from triptych_inductor.loops.kernel import Kernel, LocalArg, Stage, TensorArg
from triptych_inductor.schedule.stages import KernelCall

Step = KernelCall | ExternNode
LONGEST_ROW = 4096  # with longer rows the sums of a row's columns leave too few registers
_FEWEST_ROWS = 512  # below this two launches cost more than reading twice
_WINDOW = 12  # steps between the two kernels
_ADDRESSED = ("load", "store", "store_atomic_add", "store_reduction")


def pair_columns(steps: Sequence[Step], takes: Callable[[torch.device], bool]) -> list[Step]:
    """The steps with column sums moved into row kernels. `takes`: whether a device's generator accepts pairs."""
    result = list(steps)
    k = 0
    while k < len(result):
        step = result[k]
        if isinstance(step, KernelCall) and takes(step.kernel.device) and _is_row_kernel(step.kernel):
            other = _partner(result, k)
            if other is not None:
                result[k] = _merged(step, result[other])  # type: ignore[arg-type]
                del result[other]
        k += 1
    return result


def _static(kernel: Kernel) -> bool:
    return not kernel.sizes and all(isinstance(e, int) for e in (*kernel.outer, *kernel.reduction))


def _is_row_kernel(kernel: Kernel) -> bool:
    return (
        kernel.columns is None
        and _static(kernel)
        and len(kernel.outer) == len(kernel.reduction) == 1
        and 32 <= kernel.reduction[0] <= LONGEST_ROW
        and kernel.outer[0] >= _FEWEST_ROWS
    )


def _partner(steps: Sequence[Step], row: int) -> int | None:
    """The position of a kernel of column sums that may run with the row kernel at `row`."""
    first = steps[row]
    assert isinstance(first, KernelCall)
    made: set[str] = set(first.outputs)  # buffers that come into being from here on
    for position in range(row + 1, min(row + 1 + _WINDOW, len(steps))):
        step = steps[position]
        if isinstance(step, KernelCall):
            if _fits(first, step, made):
                return position
            made |= set(step.outputs)
        else:
            made |= set(step.write_names) | {b.name for b in step.outputs if b is not None}
    return None


def _fits(first: KernelCall, second: KernelCall, made: set[str]) -> bool:
    """Whether `second` sums columns of the rows of `first`, from buffers that exist before `first`."""
    rows, columns = first.kernel, second.kernel
    if columns.device != rows.device or not _static(columns) or columns.columns is not None:
        return False
    if columns.outer != rows.reduction or columns.reduction != rows.outer:
        return False
    if not _ready(first, second, made) or set(second.outputs) & (
        set(first.inputs) | set(first.outputs) | set(second.inputs)
    ):
        return False
    shared = set(first.inputs) & set(second.inputs)
    numels = dict(zip(second.inputs, [a.numel for a in columns.inputs], strict=True))
    whole = rows.outer[0] * rows.reduction[0]
    return any(numels[name] >= whole for name in shared) and _only_sums(columns)


def _ready(first: KernelCall, second: KernelCall, made: set[str]) -> bool:
    """Whether every input of `second` exists before `first`, or is made by `first` at the very point that reads it."""
    late = made & set(second.inputs)
    if not late <= set(first.outputs) - set(first.inputs):
        return False
    if not late:
        return True
    stored = _indices(first.kernel, ("store", "store_reduction", "store_atomic_add"))
    outer, reduction = loop_variables("i", 1)[0], loop_variables("r", 1)[0]
    exchanged = {outer: reduction, reduction: outer}
    read = {
        name: {_exchange(i, exchanged) for i in found} for name, found in _indices(second.kernel, ("load",)).items()
    }
    inner = dict(zip(first.outputs, [a.name for a in first.kernel.outputs], strict=True))
    other = dict(zip(second.inputs, [a.name for a in second.kernel.inputs], strict=True))
    return all(len(stored[inner[b]]) == 1 and stored[inner[b]] == read.get(other[b]) for b in late)


def _exchange(index: Any, exchanged: dict[Any, Any]) -> Any:
    return index if isinstance(index, int) else index.xreplace(exchanged)


def _indices(kernel: Kernel, ops: tuple[str, ...]) -> dict[str, set[Any]]:
    """The index expressions of a kernel's accesses by buffer."""
    found: dict[str, set[Any]] = {}
    for recorded in recordings(kernel):
        for node in recorded.walk():
            if node.op in ops:
                found.setdefault(node.attrs[0], set()).add(node.attrs[1])
    return found


def _only_sums(kernel: Kernel) -> bool:
    """Whether the reduced stages only sum, and come before all others."""
    if any(a.dtype == torch.float64 for a in (*kernel.inputs, *kernel.outputs)):
        return False
    ended = False
    for stage, recorded in zip(kernel.stages, recordings(kernel), strict=True):
        if not stage.reduced:
            ended = True
            continue
        nodes = list(recorded.walk())
        kinds = {n.attrs[0] for n in nodes if n.op == "reduce"}
        moving = set(recorded.reduction)
        wide = any(
            n.op in ("store", "store_atomic_add")
            and not isinstance(n.attrs[1], int)
            and n.attrs[1].free_symbols & moving
            for n in nodes
        )
        if ended or not kinds <= {"sum"} or wide or any(n.op == "local_get" for n in nodes):
            return False
    return True


def _arguments(kernel: Kernel) -> list[TensorArg | LocalArg]:
    return [*kernel.inputs, *kernel.outputs, *kernel.local]


def recordings(kernel: Kernel) -> list[Recorded]:
    """The stages of a kernel in SSA form."""
    dtypes = {a.name: a.dtype for a in _arguments(kernel)}
    return [record(s.body, len(kernel.outer), len(kernel.reduction) if s.reduced else 0, dtypes) for s in kernel.stages]


def renamed(kernel: Kernel, names: Mapping[str, str]) -> Kernel:
    """A kernel with other names of buffers and locals."""
    stages = []
    for stage, recorded in zip(kernel.stages, recordings(kernel), strict=True):
        for node in recorded.walk():
            if node.op in _ADDRESSED:
                node.attrs = (names.get(node.attrs[0], node.attrs[0]), node.attrs[1])
            elif node.op in ("local_get", "local_set"):
                node.attrs = (names.get(node.attrs[0], node.attrs[0]),)
        stages.append(Stage(recorded.as_body(), stage.reduced, stage.origin))

    def change(args: Sequence[Any]) -> list[Any]:
        return [replace(a, name=names.get(a.name, a.name)) for a in args]

    return replace(
        kernel, stages=stages, inputs=change(kernel.inputs), outputs=change(kernel.outputs), local=change(kernel.local)
    )


def _merged(first: KernelCall, second: KernelCall) -> KernelCall:
    """One call for both."""
    names: dict[str, str] = {}  # of the second kernel's arguments and locals, in the merged one
    own = dict(zip(first.inputs, [a.name for a in first.kernel.inputs], strict=True))
    own |= dict(zip(first.outputs, [a.name for a in first.kernel.outputs], strict=True))
    extra: list[tuple[str, TensorArg]] = []
    for buffer, argument in zip(second.inputs, second.kernel.inputs, strict=True):
        names[argument.name] = own.setdefault(buffer, f"column_in{len(extra)}")
        if own[buffer].startswith("column_in"):
            extra.append((buffer, replace(argument, name=own[buffer])))
    results = [replace(a, name=f"column_out{k}") for k, a in enumerate(second.kernel.outputs)]
    names |= {a.name: b.name for a, b in zip(second.kernel.outputs, results, strict=True)}
    names |= {a.name: f"column_{a.name}" for a in second.kernel.local}
    key = hashlib.sha256(f"{first.key} {second.key} {sorted(names.items())}".encode()).hexdigest()
    kernel = replace(
        first.kernel,
        name=f"{first.kernel.name}_columns_{key[:8]}",
        inputs=[*first.kernel.inputs, *[a for _, a in extra]],
        outputs=[*first.kernel.outputs, *results],
        columns=renamed(second.kernel, names),
    )
    origin = tuple(dict.fromkeys((*first.origin, *second.origin)))
    inputs = [*first.inputs, *[b for b, _ in extra]]
    return KernelCall(kernel, inputs, [*first.outputs, *second.outputs], [], key, origin)
