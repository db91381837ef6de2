"""The C extension on every supported interpreter installed here: built in a temporary folder, checked without torch."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PACKAGE = HERE.parent.parent
VERSIONS = ("3.11", "3.12", "3.13")
ASK = (
    "import sysconfig as s; print(s.get_paths()['include']); print(s.get_config_var('EXT_SUFFIX')); "
    "print(s.get_config_var('CC'))"
)


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


def build(python, folder, *flags):
    """The extension for that interpreter, warnings being errors."""
    include, suffix, compiler = subprocess.check_output([python, "-c", ASK], text=True).splitlines()
    compiler = shlex.split(compiler)[0]
    compiler = compiler if shutil.which(compiler) else shutil.which("cc")
    if compiler is None or not (Path(include) / "internal" / "pycore_frame.h").exists():
        pytest.skip(f"no C compiler, or no headers for {python}")
    sources = [str(path) for path in sorted((PACKAGE / "csrc").glob("*.c"))]
    options = [
        "-O1",
        "-std=c11",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-DPy_BUILD_CORE_MODULE=1",
        "-Wall",
        "-Werror",
    ]
    library = folder / f"_eval_frame{suffix}"
    subprocess.run([compiler, *options, *flags, f"-I{include}", *sources, "-o", str(library)], check=True)
    return folder


def run(python, folder, **environment):
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    command = [python, "-X", "faulthandler", str(HERE / "native_main.py"), str(folder)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_extension(version, tmp_path):
    python = find_python(version)
    output = run(python, build(python, tmp_path), PYTHONMALLOC="debug")
    assert output.count("ok") >= 14


def test_extension_loads_without_torch():
    code = "import sys, triptych_dynamo._eval_frame; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
