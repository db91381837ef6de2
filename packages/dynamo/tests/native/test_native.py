"""The C extension on every supported interpreter installed here: built in a temporary folder, checked without torch."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
import interpreters  # noqa: E402


@pytest.mark.parametrize("version", interpreters.VERSIONS)
def test_extension(version, tmp_path):
    try:
        python = interpreters.find_python(version)
        folder = interpreters.build(python, tmp_path)
    except interpreters.Missing as reason:
        pytest.skip(str(reason))
    assert interpreters.run(python, "native/native_main.py", str(folder), PYTHONMALLOC="debug").count("ok") >= 14
    assert interpreters.run(python, "native/chain_main.py", str(folder), PYTHONMALLOC="debug").count("ok") == 4


def test_extension_loads_without_torch():
    code = "import sys, triptych_dynamo._eval_frame; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
