"""Lets the tests of this folder import their harness; the two ways by which facts of tensors are read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from triptych_dynamo.guards import torch_facts

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=[True, False], ids=["c-abi", "attributes"])
def binding(request):
    """Tensor facts read through the C ABI, and by attribute."""
    torch_facts.ensure_bound()
    assert torch_facts.bind(request.param) is request.param
    yield request.param
    torch_facts.bind()
