"""What it takes to start from an artifact: `python -m tools.bench_artifacts [--models mlp encoder gpt2 resnet]`.

Each row is two fresh processes with empty cache folders: one captures, one loads. *capture* (tracing, code generation
and building) is on the clock; the others are seconds of processor time of one thread, without imports, since the
machine may do other work beside. What starting costs is *load*, and *first call* less *next call*. The peer's artifacts
are those of `torch.compile(...).aot_compile`, which torch has since 2.10.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from tools.bench.models import WORKLOADS

KINDS = ("precompile", "aot_compile", "peer aot_compile")


class Logits(torch.nn.Module):
    """A model as a module from one tensor to one tensor."""

    def __init__(self, model: torch.nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Its logits."""
        return self.model(**{self.name: x})[0]


def _model(name: str) -> tuple[torch.nn.Module, tuple]:
    torch.manual_seed(0)
    if name == "mlp":
        layers = [
            torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.LayerNorm(256)) for _ in range(8)
        ]
        return torch.nn.Sequential(*layers).eval(), (torch.randn(64, 256),)
    if name == "encoder":
        layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True, norm_first=True)
        return torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).eval(), (torch.randn(4, 128, 256),)
    workload = WORKLOADS[name]
    batch = workload.batch(workload.batch_size, False)
    key, value = next(iter(batch.items()))
    return Logits(workload.build(), key).eval(), (value,)


def _program(model: torch.nn.Module, *inputs: torch.Tensor) -> Any:
    return model(*inputs)


def capture(kind: str, name: str, folder: Path) -> float:
    """Writes the artifact; gives seconds."""
    model, inputs = _model(name)
    start = time.perf_counter()
    with torch.no_grad():
        if kind == "precompile":
            import triptych.compiler.precompile as precompile

            with precompile.capture(_program, artifact_path=folder / "m.py", cache_path=folder / "m.cache") as cap:
                cap(model, *inputs)
        else:
            module: Any = __import__("triptych" if kind == "aot_compile" else "torch")
            compiled = module.compile(model, fullgraph=True).forward.aot_compile((inputs, {}))
            compiled.save_compiled_function(str(folder / "m.bin"))
    return time.perf_counter() - start


def load(kind: str, name: str, folder: Path) -> dict[str, float]:
    """Seconds of loading, of the first call and the next, and the error against eager."""
    torch.set_num_threads(1)
    model, inputs = _model(name)
    if kind == "precompile":
        import triptych.compiler.precompile as precompile
        import triptych.precompile.program

        loader = lambda: precompile.load(folder / "m.py", folder / "m.cache")
    elif kind == "aot_compile":
        import triptych.aot

        loader = lambda: triptych.aot.load_compiled_function(folder / "m.bin")
    else:
        importlib.import_module("torch._dynamo")  # imports are not counted
        importlib.import_module("torch._inductor.compile_fx")
        loader = lambda: torch.compiler.load_compiled_function(open(folder / "m.bin", "rb"))
    with torch.no_grad():
        model(*inputs)
        start = time.process_time()
        run = loader()
        loaded = time.process_time()
        first = run(model, *inputs)
        called = time.process_time()
        run(model, *inputs)
        again = time.process_time()
        expected = model(*inputs)
    leaves = [torch.utils._pytree.tree_leaves(value)[0] for value in (first, expected)]
    error = float((leaves[0] - leaves[1]).abs().max())
    return {"load": loaded - start, "first": called - loaded, "next": again - called, "error": error}


def _child(arguments: list[str], cache: str) -> Any:
    environment = os.environ | {"TRIPTYCH_CACHE_DIR": f"{cache}/ours", "TORCHINDUCTOR_CACHE_DIR": f"{cache}/peer"}
    command = [sys.executable, "-m", "tools.bench_artifacts", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "Error" in line and not line.startswith(" ")]
        return {"failure": (errors or ["failed"])[-1][:120]}
    return json.loads(done.stdout.splitlines()[-1])


def row(kind: str, name: str) -> str:
    """One line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        made = _child(["--step", "capture", kind, name, folder], f"{folder}/a")
        got = made if isinstance(made, dict) else _child(["--step", "load", kind, name, folder], f"{folder}/b")
        if "failure" in got:
            return f"| {name} | {kind} | {got['failure']} | | | | | |"
        size = sum(path.stat().st_size for path in Path(folder).glob("m.*")) / 1e6
    seconds = " | ".join(f"{got[step]:.3f} s" for step in ("load", "first", "next"))
    times = f"{made:.2f} s | {seconds} | {size:.1f} MB | {got['error']:.1e}"
    return f"| {name} | {kind} | {times} |"


def main() -> None:
    """Prints a table, or, in a child, what a step gives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["mlp", "encoder", "gpt2", "resnet"])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--step", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        step, kind, name, folder = given.step
        print(json.dumps({"capture": capture, "load": load}[step](kind, name, Path(folder))))
        return
    print("| model | kind | capture | load | first call | next call | size | error |")
    print("|---|---|---|---|---|---|---|---|")
    for name in given.models:
        for kind in given.kinds:
            print(row(kind, name), flush=True)


if __name__ == "__main__":
    main()
