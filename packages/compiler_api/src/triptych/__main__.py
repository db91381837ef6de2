"""`python -m triptych {env,explain,report,cache}`, also the command `triptych`."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence

import torch

from triptych import configuration

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
VARIABLES = ("CXX", "OMP_NUM_THREADS", "TRIPTYCH_CACHE_DIR", "TRIPTYCH_GRAPH_CACHE", "TRIPTYCH_LOGS")


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
    variables = [*VARIABLES, *(variable for row in configuration.TABLE.values() for variable in row.variables)]
    return facts | {name: os.environ[name] for name in variables if name in os.environ}


def env(options: argparse.Namespace) -> int:
    """Print versions and facts about this machine."""
    facts = environment()
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:<{width}}  {value}")
    return 0


def _command(name: str) -> Callable[[argparse.Namespace], int]:
    """A command of `triptych.commands`, imported when it runs."""
    return lambda options: getattr(importlib.import_module("triptych.commands"), name)(options)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="triptych", description="Tools around triptych.compile.")
    made.add_argument("--version", action="version", version=f"triptych {_version('triptych')}")
    commands = made.add_subparsers(dest="command", required=True)
    add = commands.add_parser("env", help="print versions and facts about this machine, for a bug report")
    add.set_defaults(run=env)
    texts = {
        "explain": "run a function once and print its graphs, and where and why they break",
        "report": "compile a function and print what it was compiled to",
    }
    for name, run in (("explain", "explain"), ("report", "show_report")):
        add = commands.add_parser(name, help=texts[name])
        add.add_argument("target", metavar="FILE:FUNCTION")
        add.add_argument("--args", help="arguments, as a Python expression in the file's namespace: 'torch.ones(3), 2'")
        add.set_defaults(run=_command(run))
        if name == "report":
            add.add_argument("--backend", default="inductor")
    add = commands.add_parser("cache", help="look at, check or empty the cache folder")
    add.add_argument("action", choices=("info", "clear", "verify"))
    add.add_argument("--kind", action="append", default=[], help="only records of this kind (graph, cpp, triton, ...)")
    add.add_argument("--older-than", type=float, default=0.0, metavar="DAYS", help="with clear: only older records")
    add.set_defaults(run=_command("cache"))
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand; returns the exit status: 0 fine, 1 something is wrong, 2 a mistake in the command line."""
    options = parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except Exception as error:
        if type(error).__name__ != "CommandError":
            raise
        print(f"triptych: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
