"""How the dimensions of an input become sizes of its fake tensor: fixed, backed by this call's, or open.

A *backed* size has a symbol with the value of this call: decisions of the trace are taken by it and guarded; it is at
least 2. An *open* size has a symbol without a value: what torch's functions take for granted about it becomes a guard,
and 0 and 1 are sizes like others. Where a decision is needed nevertheless, the frame is traced again with backed sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from triptych_dynamo.marks import Mark, marks_of
from triptych_dynamo.sources import TensorSizeSource, is_owned

if TYPE_CHECKING:
    from triptych_dynamo.shape_specs import Declared
    from triptych_dynamo.sources import Source
    from triptych_dynamo.trace.history import History


@dataclass(frozen=True)
class Size:
    """One symbolic dimension."""

    open: bool
    mark: Mark | None = None


def symbolic_dims(
    obj: torch.Tensor, source: Source, dynamic: bool | None, history: History, declared: Declared
) -> dict[int, Size]:
    """The dimensions of an input that are symbolic, and how.

    Args:
        dynamic: as for `optimize`.
        declared: what the caller said of all calls; marks on the tensor itself go first.
    """
    varying = history.varying_dims(source, tuple(obj.shape))
    if history.fixed:
        return {}
    marks = marks_of(obj)
    if declared:
        owned = isinstance(obj, torch.nn.Parameter) or is_owned(source)
        marks = {**declared.marks(str(source), obj.shape, owned), **marks}
    if isinstance(obj, torch.nn.Parameter):
        wanted = set(marks)
    elif dynamic is False:
        wanted = set(marks)
    elif dynamic and not is_owned(source):
        wanted = set(range(obj.ndim))
    else:
        wanted = set(varying) | set(marks)
    sizes = {}
    for dim in sorted(wanted):
        mark = marks.get(dim)
        if mark is not None and mark.kind == "static":
            continue
        backed = history.exporting or TensorSizeSource(source, dim) in history.backed
        size = _size(obj.shape[dim], mark, backed, bool(dynamic))
        if size is not None:
            sizes[dim] = size
    return sizes


def _size(size: int, mark: Mark | None, backed: bool, dynamic: bool) -> Size | None:
    if mark is not None and not mark.allows(size):
        mark = None
    if mark is not None and mark.kind == "unbacked":
        return Size(True, mark)
    tiny = size in (0, 1)
    if backed or (mark is not None and mark.specialize_on):
        return None if tiny else Size(False, mark)
    if mark is not None and (mark.least is None or mark.least < 2):
        return Size(True, mark)
    return Size(tiny or (dynamic and mark is None), mark)
