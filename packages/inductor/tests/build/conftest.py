"""Makes the helper modules of this folder importable (pytest imports test files by path)."""

import sys
from pathlib import Path

import pytest
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(Path(__file__).parent))


class Seen(TorchDispatchMode):
    """Notes the operators that torch calls while it is entered."""

    def __init__(self):
        super().__init__()
        self.operators = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operators.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.fixture
def seen():
    return Seen()
