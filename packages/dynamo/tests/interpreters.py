"""Interpreters of this machine, and what is checked under each of them without torch.

``python packages/dynamo/tests/interpreters.py`` finds every supported CPython (this one, those on PATH, pyenv's, uv's)
and runs the bytecode layer's round trip, its building blocks and the C extension's checks under each. Versions that are
not here are named; they are no failure.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
_ASK = (
    "import sysconfig as s; print(s.get_paths()['include']); print(s.get_config_var('EXT_SUFFIX')); "
    "print(s.get_config_var('CC'))"
)
_FLAGS = ("-O1", "-std=c11", "-fPIC", "-shared", "-fvisibility=hidden", "-DPy_BUILD_CORE_MODULE=1", "-Wall", "-Werror")


class Missing(Exception):
    """An interpreter, a compiler or headers that this machine lacks."""


def find_python(version: str) -> str:
    """The interpreter of that version; raises `Missing`."""
    if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
        return sys.executable
    home = Path.home()
    folders = [Path(part) for part in os.environ.get("PATH", "").split(os.pathsep) if part and "shims" not in part]
    folders += sorted(Path(os.environ.get("PYENV_ROOT", home / ".pyenv")).glob(f"versions/{version}*/bin"))
    folders += sorted((home / ".local/share/uv/python").glob(f"cpython-{version}*/bin"))
    found = next((folder / f"python{version}" for folder in folders if (folder / f"python{version}").exists()), None)
    if found is None:
        raise Missing(f"no Python {version} here")
    return str(found)


def build(python: str, folder: Path) -> Path:
    """The C extension, and the tests' own, for an interpreter, in `folder`, warnings being errors; raises `Missing`."""
    include, suffix, named = subprocess.check_output([python, "-c", _ASK], text=True).splitlines()
    compiler = shlex.split(named)[0] if shutil.which(shlex.split(named)[0]) else shutil.which("cc")
    if compiler is None or not (Path(include) / "internal" / "pycore_frame.h").exists():
        raise Missing(f"no C compiler, or no headers for {python}")
    modules = {
        "_eval_frame": sorted((PACKAGE / "csrc").glob("*.c")),
        "other_evaluator": [HERE / "native/other_evaluator.c"],
    }
    for name, sources in modules.items():
        library = folder / f"{name}{suffix}"
        subprocess.run([compiler, *_FLAGS, f"-I{include}", *map(str, sources), "-o", str(library)], check=True)
    return folder


def run(python: str, script: str, *args: str, **environment: str) -> str:
    """The output of a script of the tests, run by that interpreter with nothing but the package's sources."""
    variables = {**os.environ, "PYTHONPATH": str(PACKAGE / "src"), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    command = [python, "-X", "faulthandler", "-W", "error::RuntimeWarning", str(HERE / script), *args]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=500)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def check(python: str) -> None:
    """Everything that needs no torch, under one interpreter."""
    run(python, "bytecode/build_main.py")
    run(python, "bytecode/round_trip_main.py", os.environ.get("TRIPTYCH_ROUND_TRIP_EVERY", "20"))
    with tempfile.TemporaryDirectory() as folder:
        build(python, Path(folder))
        for script in ("native/native_main.py", "native/chain_main.py"):
            run(python, script, folder, PYTHONMALLOC="debug")


def main() -> int:
    """Checks under every interpreter; 1 when one of them fails."""
    status = 0
    for version in VERSIONS:
        start = time.monotonic()
        try:
            check(find_python(version))
            print(f"{version}: good ({time.monotonic() - start:.0f} s)", flush=True)
        except Missing as reason:
            print(f"{version}: skipped, {reason}", flush=True)
        except (RuntimeError, subprocess.SubprocessError) as error:
            status = 1
            print(f"{version}: FAILED\n{error}", flush=True)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
