"""The bytecode layer on every supported interpreter installed here, each in its own process without torch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parent.parent / "src"
VERSIONS = ("3.11", "3.12", "3.13")


def find_python(version):
    """The interpreter of that version: this one, one on PATH, or one of pyenv's."""
    if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
        return sys.executable
    roots = [Path(p) for p in os.environ.get("PATH", "").split(os.pathsep) if p and "shims" not in p]
    roots += sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}*/bin"))
    found = next((root / f"python{version}" for root in roots if (root / f"python{version}").exists()), None)
    if found is None:
        pytest.skip(f"no Python {version} here")
    return str(found)


def run(version, script, *args):
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [find_python(version), "-W", "error::RuntimeWarning", str(HERE / script), *args]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_standard_library_round_trip(version):
    every = os.environ.get("TRIPTYCH_ROUND_TRIP_EVERY", "30")  # 1: the whole library
    assert "code objects" in run(version, "round_trip_main.py", every)


@pytest.mark.parametrize("version", VERSIONS)
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
