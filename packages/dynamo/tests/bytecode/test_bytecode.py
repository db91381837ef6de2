"""The bytecode layer on every supported interpreter installed here, each in its own process without torch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parent.parent / "src"
sys.path.insert(0, str(HERE.parent))
import interpreters  # noqa: E402


def run(version, script, *args):
    try:
        python = interpreters.find_python(version)
    except interpreters.Missing as reason:
        pytest.skip(str(reason))
    return interpreters.run(python, f"bytecode/{script}", *args)


@pytest.mark.parametrize("version", interpreters.VERSIONS)
def test_standard_library_round_trip(version):
    every = os.environ.get("TRIPTYCH_ROUND_TRIP_EVERY", "30")  # 1: the whole library
    assert "code objects" in run(version, "round_trip_main.py", every)


@pytest.mark.parametrize("version", interpreters.VERSIONS)
def test_building_blocks(version):
    assert run(version, "build_main.py").count("ok") >= 7


def test_a_difference_is_found():
    sys.path.insert(0, str(HERE))
    try:
        import round_trip_main
    finally:
        sys.path.pop(0)
    from triptych_dynamo.bytecode import decode

    rows = decode((lambda x: x + 1).__code__)
    changed = decode((lambda x: x - 1).__code__)
    assert round_trip_main.plain(rows) != round_trip_main.plain(changed)


def test_import_without_torch():
    code = "import sys, triptych_dynamo.bytecode; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(SOURCES)})
