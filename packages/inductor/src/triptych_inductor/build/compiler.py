"""The C++ compiler: found once, asked for its version, run as a plain subprocess."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from triptych_inductor.build.isa import Isa

CANDIDATES = ("g++", "clang++", "c++")
FLAGS = (
    "-std=c++17",
    "-O2",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-fwrapv",  # integers wrap
    "-fno-strict-aliasing",  # buffers are reused under other dtypes
    "-ffp-contract=off",  # x * y + z rounds twice, as eager does; fused steps are asked for by name
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-asynchronous-unwind-tables",
    "-w",
)
"""Flags of every build. Nothing that changes floating-point results or the process's rounding and denormal modes."""

LIBRARIES = ("-nostartfiles", "-lm")


class CompilerNotFoundError(RuntimeError):
    """No C++ compiler on this machine."""


class CompileError(RuntimeError):
    """A build failed; the text has the command and what the compiler said."""


@dataclass(frozen=True)
class Compiler:
    """A usable compiler; `version` is part of every cache key."""

    path: str
    version: str

    @property
    def family(self) -> str:
        return "clang" if "clang" in self.version else "gcc"

    def command(self, source: str, target: str, isa: Isa) -> list[str]:
        """The command line that makes the shared library `target` of the file `source`."""
        return [self.path, *FLAGS, *isa.flags, "-o", target, source, *LIBRARIES]

    def identity(self, isa: Isa) -> str:
        """What a binary depends on besides its source; the same on every machine with this compiler."""
        return "\n".join([self.version, *FLAGS, *isa.flags, *LIBRARIES])

    def start(self, source: str, directory: Path, isa: Isa) -> Job:
        """Begin to compile a source text, with intermediate files in `directory`."""
        handle, name = tempfile.mkstemp(suffix=".cpp", dir=directory)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(source)
        target = name.removesuffix(".cpp") + ".so"
        command = self.command(name, target, isa)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        return Job(process, command, Path(name), Path(target))


@dataclass
class Job:
    """A compiler at work."""

    process: subprocess.Popen[str]
    command: list[str]
    source: Path
    target: Path

    def result(self) -> bytes:
        """Wait, and give the bytes of the library; `CompileError` when the compiler failed."""
        output, _ = self.process.communicate()
        try:
            if self.process.returncode != 0:
                raise CompileError(
                    f"the C++ compiler failed (exit status {self.process.returncode})\n"
                    f"command: {' '.join(self.command)}\n{output.strip()[:8000]}"
                )
            return self.target.read_bytes()
        finally:
            self.source.unlink(missing_ok=True)
            self.target.unlink(missing_ok=True)

    def cancel(self) -> None:
        """Stop the compiler and remove its files."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self.source.unlink(missing_ok=True)
        self.target.unlink(missing_ok=True)


def find_compiler() -> Compiler:
    """The compiler named by the environment variable CXX, else the first of `CANDIDATES` on the path.

    Raises `CompilerNotFoundError` where there is none, or where it does not run.
    """
    return _find(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


@cache
def _find(wanted: str, path: str) -> Compiler:
    names = [wanted] if wanted else list(CANDIDATES)
    for name in names:
        found = shutil.which(name, path=path)
        if found is None:
            continue
        try:
            shown = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=60, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise CompilerNotFoundError(f"the C++ compiler {found} does not run: {error}") from error
        return Compiler(found, shown.stdout.splitlines()[0].strip())
    tried = wanted or ", ".join(CANDIDATES)
    raise CompilerNotFoundError(f"no C++ compiler found (tried {tried}); install g++ or set CXX")
