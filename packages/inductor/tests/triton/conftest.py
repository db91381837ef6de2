"""Kernels run in Triton's interpreter, which must be chosen before Triton is imported; build tests use worker
processes."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for triton_kernels
os.environ.setdefault("TRITON_INTERPRET", "1")

import pytest

triton = pytest.importorskip("triton")
if not hasattr(
    triton.language.sum, "rewrite"
):  # some builds of torch import Triton themselves, before this file can choose
    pytest.skip("Triton was imported without TRITON_INTERPRET=1; set it for the whole run", allow_module_level=True)


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """An empty store of built functions."""
    from triptych_inductor.build.cache import Store

    return Store("triton", tmp_path_factory.mktemp("cache"))
