"""The command line, and what importing costs."""

import subprocess
import sys

import pytest
import triptych
from triptych import __main__ as cli


def test_env_prints_versions(capsys):
    assert cli.main(["env"]) == 0
    text = capsys.readouterr().out
    assert "torch" in text and "triptych-dynamo" in text and "C++ compiler" in text


def test_version(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--version"])
    assert stopped.value.code == 0 and capsys.readouterr().out == f"triptych {triptych.__version__}\n"


def test_importing_imports_no_stage():
    program = "import sys, triptych; print([m for m in sys.modules if m.startswith(('triptych_', 'torch', 'sympy'))])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_all_names_exist():
    from triptych import compiler

    for module in (triptych, compiler):
        assert all(getattr(module, name) is not None for name in module.__all__)
        assert set(module.__all__) <= set(dir(module))
