"""``python -m triptych env``: what a bug report should hold. Also the `triptych` command."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Sequence

import torch

DISTRIBUTIONS = (
    "triptych",
    "triptych-dynamo",
    "triptych-aot-autograd",
    "triptych-inductor",
    "torch",
    "sympy",
    "networkx",
    "triton",
    "transformers",
)
VARIABLES = ("CXX", "OMP_NUM_THREADS", "TRIPTYCH_CACHE_DIR", "TRIPTYCH_DISABLE", "TORCH_COMPILE_DISABLE")


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _cxx() -> str:
    """First line of what the C++ compiler says about itself."""
    for name in filter(None, (os.environ.get("CXX"), "g++", "clang++", "c++")):
        try:
            return subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
        except (OSError, subprocess.CalledProcessError):
            continue
    return "none found: graphs will run eagerly"


def environment() -> dict[str, str]:
    """Facts about this machine and installation that decide how programs compile, by name."""
    facts = {"python": platform.python_version(), "platform": platform.platform(), "C++ compiler": _cxx()}
    facts |= {name: _version(name) for name in DISTRIBUTIONS}
    facts["CPU"] = f"{torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads"
    facts["GPUs"] = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())) or "none"
    return facts | {name: os.environ[name] for name in VARIABLES if name in os.environ}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand; returns the exit status."""
    parser = argparse.ArgumentParser(prog="triptych", description="Tools around triptych.compile.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("env", help="print versions and facts about this machine, for a bug report")
    parser.parse_args(arguments)
    facts = environment()
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:<{width}}  {value}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
