"""The laws of the house that tests can check."""

import subprocess
import sys

import pytest

from tools import check_laws, size_report

PROGRAM = """
import sys, torch, triptych
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU())
compiled = triptych.compile(model, fullgraph=True)
compiled(torch.randn(2, 4)).sum().backward()
print([name for name in sys.modules if name.startswith(("torch._inductor", "torch._dynamo.symbolic_convert"))])
"""


def test_no_product_code_uses_the_peer():
    assert check_laws.main() == 0


@pytest.mark.parametrize(
    "source",
    [
        "import torch._dynamo",
        "from torch import _inductor",
        "from torch._functorch.partitioners import min_cut",
        "import torch\ntorch.compile(f)",
        "import torch\nx = torch._dynamo.config",
        "import importlib\nimportlib.import_module('torch._inductor.utils')",
        "__import__('torch.export')",
    ],
)
def test_breaches_are_seen(source):
    assert check_laws.breaches(source)


def test_what_is_allowed_is_no_breach():
    assert check_laws.breaches("import torch\nfrom torch.fx import Graph\ntorch.compiler.is_compiling()") == []


def test_compiling_does_not_load_the_peer():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_files_and_functions_are_within_their_limits():
    assert [excess for excess in size_report.excesses() if excess.where not in size_report.EXCEPTIONS] == []
