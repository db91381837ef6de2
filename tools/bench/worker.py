"""One measurement, in this process: ``python -m tools.bench.worker SPEC_JSON RESULT_PATH``.

The process is fresh and its caches are empty (``runner`` sees to both). In: a `Spec` as JSON. Out: a `Result` as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_PROCESS_START = time.perf_counter()


@dataclass(frozen=True)
class Spec:
    """What to measure. precision: "float32" or "bfloat16" (autocast). batch_size: None for the model's own. freezing:

    the compilers take parameters as constants.
    """

    model: str
    training: bool
    precision: str
    compiler: str
    device: str = "cpu"
    threads: int = 2
    seconds: float = 6.0
    batch_size: int | None = None
    freezing: bool = False


@dataclass
class Result:
    """What was measured; times in seconds.

    cold_s: importing torch and the compiler, plus the first step. step_s and eager_s: medians of steps taken in turns
    in this process. error: the worst tensor against float64, eager_error: eager's error there, error_ratio: their
    quotient.
    """

    spec: Spec
    cold_s: float = 0.0
    import_s: float = 0.0
    first_s: float = 0.0
    second_s: float = 0.0
    step_s: float = 0.0
    eager_s: float = 0.0
    steps: int = 0
    error_tensor: str = ""
    error: float = 0.0
    eager_error: float = 0.0
    error_ratio: float = 0.0
    counts: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    failure: str = ""


def _stepper(call: Any, model: Any, batch: Any, workload: Any, spec: Spec) -> Callable[[], Any]:
    import torch

    def step() -> Any:
        precision = torch.autocast(spec.device, dtype=torch.bfloat16) if spec.precision == "bfloat16" else None
        with torch.set_grad_enabled(spec.training), precision or contextlib.nullcontext():
            output = call(**batch)
            loss = workload.loss(output) if spec.training else None
        if loss is not None:
            loss.backward()
            model.zero_grad(set_to_none=True)
        if spec.device != "cpu":
            torch.cuda.synchronize()
        return output

    return step


def _timed(step: Callable[[], Any]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def _take_turns(first: Callable[[], Any], second: Callable[[], Any], seconds: float) -> tuple[list[float], list[float]]:
    """Times both in turns for `seconds`; the order changes each round, so that neither always has the warm cache."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(3):
        first(), second()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 10:
        order = ((0, first), (1, second)) if len(times[0]) % 2 else ((1, second), (0, first))
        for index, step in order:
            times[index].append(_timed(step))
    return times


def measure(spec: Spec) -> Result:
    """Measures one spec in this process."""
    result = Result(spec)
    import torch

    torch.set_num_threads(spec.threads)
    from tools.bench.compilers import COMPILERS

    compiler = COMPILERS[spec.compiler]
    if spec.compiler == "triptych":
        import triptych  # noqa: F401
    result.import_s = time.perf_counter() - _PROCESS_START

    from tools.bench import models

    workload = models.WORKLOADS[spec.model]
    model, batch = models.make(spec.model, training=spec.training, batch_size=spec.batch_size)
    model.to(spec.device)
    batch = {key: value.to(spec.device) for key, value in batch.items()}

    weights = {name: value.clone() for name, value in model.state_dict().items()}
    start = time.perf_counter()
    compiled = compiler.compile(model, fullgraph=False, dynamic=None)
    step, eager = (_stepper(call, model, batch, workload, spec) for call in (compiled, model))
    step()
    result.first_s = time.perf_counter() - start
    result.cold_s = result.import_s + result.first_s
    result.second_s = _timed(step)

    ours, plain = _take_turns(step, eager, spec.seconds)
    result.step_s, result.eager_s, result.steps = statistics.median(ours), statistics.median(plain), len(ours)
    _compare(result, compiled, model, weights, batch)
    result.counts = asdict(compiler.counts(compiled))
    result.versions = {"python": sys.version.split()[0], "torch": torch.__version__}
    return result


def _compare(result: Result, compiled: Any, model: Any, start: dict[str, Any], batch: Any) -> None:
    """Fills in the errors of one step from the weights and buffers of `start`, compiled and eager, against float64."""
    from tools.bench import accuracy, models

    spec = result.spec
    found = []
    for call in (compiled, model):
        model.load_state_dict(start)
        found.append(
            accuracy.step_tensors(
                call,
                model,
                models.WORKLOADS[spec.model],
                batch,
                training=spec.training,
                autocast=spec.precision == "bfloat16",
            )
        )
    truth = accuracy.float64_tensors(spec.model, training=spec.training, batch_size=spec.batch_size, device=spec.device)
    epsilon = torch_epsilon(spec.precision)
    error = accuracy.worst_error(found[0], found[1], truth, epsilon=epsilon)
    result.error_tensor, result.error_ratio = error.tensor, error.ratio
    result.error, result.eager_error = error.compiled, error.eager


def torch_epsilon(precision: str) -> float:
    """The relative spacing of numbers in the precision a spec names."""
    import torch

    return torch.finfo(getattr(torch, precision)).eps


def main() -> None:
    """Reads the spec, measures, writes the result; a failure is a result too."""
    spec = Spec(**json.loads(sys.argv[1]))
    try:
        result = measure(spec)
    except Exception as error:
        result = Result(spec, failure=f"{type(error).__name__}: {error}"[:2000])
        if os.environ.get("BENCH_TRACEBACK"):
            raise
    Path(sys.argv[2]).write_text(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
