"""The laws of the house that tests can check."""

import pytest

from tools import check_laws, size_report


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


def test_files_and_functions_are_within_their_limits():
    assert [excess for excess in size_report.excesses() if excess.where not in size_report.EXCEPTIONS] == []
