"""The rows of data-dependent sizes and of changing numbers again, with every tensor on a GPU."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.dynamic.rows import Row, rows, run
from tests.dynamic.test_data_dependent import SCALARS, SELECTIONS
from tests.dynamic.test_numbers import ARGUMENTS

pytestmark = pytest.mark.gpu
# Failed checks on a device end its context, and what is raised in eager differs there.
_LEFT_OUT = ("checked-out-of-bounds", "tensor-asserted", "asserted", "split", "single", "bool", "dropout")
TABLE = [row for row in (*SCALARS, *SELECTIONS, *ARGUMENTS) if row.name not in _LEFT_OUT]


def moved(value: object) -> object:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().cuda().requires_grad_(value.requires_grad)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@rows(TABLE)
def test_on_gpu(row: Row) -> None:
    calls = [pytree.tree_map(moved, call) for call in row.calls]
    run(dataclasses.replace(row, calls=calls), "inductor")
