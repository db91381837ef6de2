"""``python -m tools.bench_guards``: what guards of compiled callables cost, in microseconds of one thread's CPU time.

Rows: a function of one tensor, stacks of layers (the cost per layer shows whether it is flat), and the models of
``tools.bench`` in inference. *operations* is what a full check runs, *remaining* what is left of it while no module on
the way was written to; a *check* is one that holds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import triptych_dynamo as td

from tools.bench.models import WORKLOADS

HEADER = "| program | guards | operations | remaining | check | call beyond plain |"
LAYERS = (2, 20, 82)


class Layer(torch.nn.Module):
    """A linear layer, a normalisation and a float attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.norm = torch.nn.LayerNorm(8)
        self.scale = 1.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` plus a scaled, normalised layer of it."""
        return x + self.norm(torch.relu(self.linear(x))) * self.scale


class Stack(torch.nn.Module):
    """Layers in a row."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer() for _ in range(depth)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """All layers."""
        for layer in self.layers:
            x = layer(x)
        return x


def add_one(x: torch.Tensor) -> torch.Tensor:
    """The smallest program."""
    return x + 1


def seconds(work: Callable[[], Any], count: int, rounds: int = 7) -> float:
    """Smallest mean time of `work`, in seconds of this thread's CPU."""
    times = []
    for _ in range(rounds):
        start = time.thread_time()
        for _ in range(count):
            work()
        times.append((time.thread_time() - start) / count)
    return min(times)


def measure(name: str, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """A row of the table."""
    compiled = td.optimize("eager")(fn)
    for _ in range(3):
        compiled(*args, **kwargs)
    owner, root = getattr(compiled, "__self__", None), getattr(compiled, "__func__", compiled)
    program = root.entries[0].program
    values = (owner, args, kwargs) if owner is not None else args
    assert program.failed(values, root.fn) is None
    check = min(_repeated(program, values, root.fn) for _ in range(7))
    beyond = "-"
    if owner is None:
        extra = seconds(lambda: compiled(*args), 20_000) - seconds(lambda: fn(*args), 20_000)
        beyond = f"{extra * 1e6:.2f}"
    counts = f"{len(program.guards)} | {program.operation_count} | {len(program.remaining) or program.operation_count}"
    return f"| {name} | {counts} | {check * 1e6:.2f} | {beyond} |"


def _repeated(program: Any, values: tuple[Any, ...], fn: Any, count: int = 2000) -> float:
    start = time.thread_time()
    program.repeat(values, fn, count)
    return (time.thread_time() - start) / count


def rows(models: bool) -> Iterator[str]:
    """The table's rows."""
    yield measure("x + 1", add_one, (torch.ones(4),), {})
    for depth in LAYERS:
        torch.manual_seed(0)
        yield measure(f"{depth} layers", Stack(depth).eval(), (torch.randn(2, 8),), {})
    for workload in WORKLOADS.values() if models else ():
        torch.manual_seed(0)
        yield measure(workload.name, workload.build().eval(), (), workload.batch(2, False))


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-models", action="store_true", help="without the models of transformers")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    print(HEADER)
    print("|---" * (HEADER.count("|") - 1) + "|")
    with torch.no_grad():
        for line in rows(not chosen.no_models):
            print(line, flush=True)
    plain = statistics.median(seconds(lambda: None, 100_000, 1) for _ in range(3))
    print(f"\nan empty Python call: {plain * 1e6:.3f} us")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
