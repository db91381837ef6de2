"""``hatch run demo``: trains a GPT-2 and a ResNet, eager and compiled in step, and shows that they agree and which is
faster.

Both models are those of `transformers` with random weights. Two copies of each start from the same weights and see the
same batches; one is eager, the other compiled. They take turns step by step, so that both meet the same machine.
Prints a table, writes a plot, and exits with status 1 when the losses disagree.
"""

from __future__ import annotations

import argparse
import copy
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tools.bench.compilers import COMPILERS, Counts

ROOT = Path(__file__).resolve().parents[1]
# Part of the mean loss. Training amplifies rounding: eager ResNets whose first weights differ in the last bit part too.
TOLERANCE = 1e-2

Batch = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Size:
    """How large the models are on a kind of device."""

    width: int
    layers: int
    text_batch: int
    tokens: int
    image_batch: int
    pixels: int


SIZES = {"cpu": Size(256, 4, 4, 128, 8, 112), "cuda": Size(768, 8, 16, 512, 64, 224)}
VOCABULARY, CLASSES = 4096, 10
LEARNING_RATE = 1e-4


def _gpt2(size: Size) -> torch.nn.Module:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=size.tokens,
        n_embd=size.width,
        n_layer=size.layers,
        n_head=size.width // 64,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    return transformers.GPT2LMHeadModel(config)


def _progressions(size: Size) -> Batch:
    """Arithmetic progressions modulo the vocabulary, of a few step widths: a rule that the model can learn."""
    start = torch.randint(0, VOCABULARY, (size.text_batch, 1))
    step = torch.randint(1, 4, (size.text_batch, 1))
    ids = (start + step * torch.arange(size.tokens)) % VOCABULARY
    return {"input_ids": ids, "labels": ids}


def _resnet(size: Size) -> torch.nn.Module:
    config = transformers.ResNetConfig(
        embedding_size=48,
        hidden_sizes=[48, 96, 192, size.width],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        num_labels=CLASSES,
        problem_type="single_label_classification",
    )
    return transformers.ResNetForImageClassification(config)


def _stripes(size: Size) -> Batch:
    """Noisy stripes whose direction is the class."""
    labels = torch.randint(0, CLASSES, (size.image_batch,))
    angle = labels * torch.pi / CLASSES
    line = torch.linspace(-1, 1, size.pixels)
    wave = 12 * (torch.cos(angle)[:, None, None] * line + torch.sin(angle)[:, None, None] * line[:, None])
    images = torch.sin(wave)[:, None] + torch.randn(size.image_batch, 3, size.pixels, size.pixels)
    return {"pixel_values": images, "labels": labels}


MODELS: dict[str, tuple[Callable[[Size], torch.nn.Module], Callable[[Size], Batch]]] = {
    "GPT-2": (_gpt2, _progressions),
    "ResNet": (_resnet, _stripes),
}


@dataclass
class Run:
    """One training: its losses, seconds of each step, seconds to the first result and what the compiler tells."""

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)

    @property
    def cold(self) -> float:
        """Seconds of the first step beyond a usual one."""
        return self.seconds[0] - self.step

    @property
    def step(self) -> float:
        """Median seconds of a step, the first three left out."""
        return statistics.median(self.seconds[3:])


class Trainer:
    """A model with its optimizer; `step` trains on one batch and notes loss and time."""

    def __init__(self, model: torch.nn.Module, compiler: str, device: str) -> None:
        self.run = Run()
        self._compiler, self._device = COMPILERS[compiler], device
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
        self._call = self._compiler.compile(model, fullgraph=True, dynamic=None)

    def step(self, batch: Batch) -> None:
        """Forward, loss, backward, AdamW update."""
        start = time.perf_counter()
        loss = self._call(**batch).loss
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.run.losses.append(loss.item())
        if self._device != "cpu":
            torch.cuda.synchronize()
        self.run.seconds.append(time.perf_counter() - start)

    def finish(self) -> Run:
        """The run, with the compiler's counts."""
        self.run.counts = self._compiler.counts(self._call)
        return self.run


def _batches(make: Callable[[Size], Batch], size: Size, steps: int, device: str) -> Iterator[Batch]:
    for _ in range(steps):
        yield {name: value.to(device) for name, value in make(size).items()}


def train(name: str, compiler: str, steps: int, device: str, tick: Callable[[str], Any]) -> tuple[Run, Run]:
    """Trains one model of `MODELS` both ways. tick: called with a text after each pair of steps.

    Returns eager, compiled.
    """
    build, make_batch = MODELS[name]
    size = SIZES[device]
    torch.manual_seed(0)
    model = build(size).to(device).train()
    eager, compiled = Trainer(copy.deepcopy(model), "eager", device), Trainer(model, compiler, device)
    for batch in _batches(make_batch, size, steps, device):
        eager.step(batch)
        compiled.step(batch)
        tick(f"{name}: loss {eager.run.losses[-1]:.4f} eager, {compiled.run.losses[-1]:.4f} compiled")
    return eager.finish(), compiled.finish()


def disagreement(eager: Run, compiled: Run) -> float:
    """Largest difference of the two losses of a step, as a part of the mean loss."""
    differences = [abs(a - b) for a, b in zip(eager.losses, compiled.losses, strict=True)]
    return max(differences) / statistics.mean(eager.losses) if all(map(math.isfinite, differences)) else math.inf


def _table(runs: dict[str, tuple[Run, Run]], device: str) -> Table:
    made = Table(padding=(0, 0), title=f"training on {device}: milliseconds a step, eager and compiled")
    for column in "model,loss off,eager ms,compiled ms,ratio,cold s,graphs,breaks,kernels".split(","):
        made.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    for name, (eager, compiled) in runs.items():
        wrong, counts = disagreement(eager, compiled), compiled.counts
        made.add_row(
            name,
            f"[{'green' if wrong <= TOLERANCE else 'red'}]{wrong:.1e}",
            f"{eager.step * 1e3:.1f}",
            f"{compiled.step * 1e3:.1f}",
            f"{compiled.step / eager.step:.3f}",
            f"{compiled.cold:.1f}",
            *("-" if n is None else str(n) for n in (counts.graphs, counts.breaks, counts.kernels)),
        )
    return made


def _plot(runs: dict[str, tuple[Run, Run]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, len(runs), figsize=(6 * len(runs), 7), squeeze=False)
    for column, (name, (eager, compiled)) in enumerate(runs.items()):
        loss, seconds = axes[0][column], axes[1][column]
        loss.plot(eager.losses, label="eager", linewidth=4, alpha=0.4)
        loss.plot(compiled.losses, label="compiled", linewidth=1.2)
        loss.set(title=name, xlabel="step", ylabel="loss")
        loss.legend()
        for run, label in ((eager, "eager"), (compiled, "compiled")):
            seconds.plot(range(1, len(run.seconds)), [s * 1e3 for s in run.seconds[1:]], label=label)
        seconds.set(xlabel="step (the first, which compiles, is left out)", ylabel="ms", ylim=(0, None))
        seconds.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.demo", description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--compiler", choices=COMPILERS, default="triptych")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=SIZES)
    parser.add_argument("--plot", type=Path, default=ROOT / "out" / "demo.png")
    return parser.parse_args()


def main() -> int:
    """Returns the exit status: 1 when losses disagree."""
    args = _arguments()
    transformers.logging.set_verbosity_error()
    console = Console()
    runs: dict[str, tuple[Run, Run]] = {}
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as progress:
        for name in args.models:
            task = progress.add_task(f"{name}: first step, compiling", total=args.steps)
            tick = lambda text, task=task: progress.update(task, advance=1, description=text)
            runs[name] = train(name, args.compiler, args.steps, args.device, tick)
    console.print(_table(runs, args.device))
    _plot(runs, args.plot)
    console.print(f"plot of losses and step times: {args.plot}")
    wrong = [name for name, (eager, compiled) in runs.items() if not disagreement(eager, compiled) <= TOLERANCE]
    if wrong:
        console.print(f"[red]losses disagree by more than {TOLERANCE:g}: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
