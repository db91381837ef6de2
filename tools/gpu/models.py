"""Models on the GPU: triptych and torch.compile, each in a fresh process with empty caches, beside eager.

    python -m tools.gpu.models --out results --seconds 500 [--models bert,gpt2] [--modes infer,train] [--who
    triptych,peer]

bfloat16 autocast, random weights. Cold: from the first call to its result (imports left out, as they are the same
work).
Memory: the peak while stepping. Errors: outputs, or the loss and all gradients, against the same model in float64, each
tensor's as the norm of the difference over the norm, their quadratic mean; and that over eager's own.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.gpu import common
from tools.gpu.zoo import MODELS, Inputs, Row, inputs_for, row_named


def _compiled(who: str, model: Any) -> Any:
    import torch

    if who == "peer":
        return torch.compile(model)
    import triptych

    left_out = tuple(filter(None, os.environ.get("TRIPTYCH_GPU_MODELS_WITHOUT", "").split(",")))
    return triptych.compile(model, options={"exclude_passes": left_out})


def profile(step: Callable[[], Any], rows: int = 16) -> str:
    """Where three steps spend the GPU's time, and the host's, by kernel and call."""
    import torch

    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as seen:
        for _ in range(3):
            step()
        torch.cuda.synchronize()
    lines = []
    for key, unit in (("self_device_time_total", "device"), ("self_cpu_time_total", "host")):
        found = sorted(seen.key_averages(), key=lambda e: -getattr(e, key))
        total = sum(getattr(e, key) for e in found) / 3e3
        lines.append(f"{unit} {total:.2f} ms a step")
        for event in found[:rows]:
            lines.append(f"{getattr(event, key) / 3e3:9.3f} ms {event.count // 3:5d} x {event.key[:90]}")
    return "\n".join(lines)


def measure_one(
    name: str, mode: str, who: str, steps: int, profiled: bool = False, device: str = "cuda"
) -> dict[str, Any]:
    """One measurement, in this process."""
    import torch

    torch.manual_seed(0)
    row, training = row_named(name), mode == "train"
    model = row.build().to(device).train(training)
    inputs = inputs_for(row, device, training)

    def step(call: Any) -> Any:
        with torch.autocast(device, dtype=torch.bfloat16), torch.set_grad_enabled(training):
            value = row.loss(call(**inputs)) if training else call(**inputs)
        if training:
            value.backward()
        return value

    truth = _float64_facts(model, row, inputs, training)
    found: dict[str, Any] = {"eager_error": _distance(_facts_of(step(model), model, training), truth)}
    common.synchronize()
    call = _compiled(who, model)
    start = time.perf_counter()
    result = step(call)
    common.synchronize()
    found["cold_s"] = time.perf_counter() - start
    found["error"] = _distance(_facts_of(result, model, training), truth)
    found["error_ratio"] = found["error"] / max(found["eager_error"], 1e-30)
    del result, truth

    def timed(what: Any) -> None:
        step(what)
        model.zero_grad(set_to_none=True)

    timed(call)
    for key, what in (("", call), ("eager_", model)):
        seconds, peak = common.peak_gigabytes(lambda: common.measure(lambda: timed(what), repeats=steps, warm=3))  # noqa: B023
        found[key + "step_ms"], found[key + "peak_gb"] = 1e3 * seconds, peak
    if profiled:
        found["profile"] = profile(lambda: timed(call))
    if who == "triptych":
        import triptych

        report = triptych.report(call)
        found["graphs"], found["breaks"] = len(report.graphs), len(report.breaks)
        found["kernels"], found["fallbacks"] = report.kernels, dict(report.fallbacks) if report.fallbacks else {}
    return found


def _float64_facts(model: Any, row: Row, inputs: Inputs, training: bool) -> list[Any]:
    """The facts of one step in float64, on a copy of the model."""
    import torch

    exact = copy.deepcopy(model).double()
    given = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
    with torch.set_grad_enabled(training):
        value = row.loss(exact(**given)) if training else exact(**given)
    if training:
        value.backward()
    return _facts_of(value, exact, training)


def _facts_of(result: Any, model: Any, training: bool) -> list[Any]:
    """Outputs, or the loss and gradients (which are cleared), detached."""
    import torch
    from torch.utils import _pytree as pytree

    if training:
        grads = [p.grad.detach() for p in model.parameters() if p.grad is not None]
        model.zero_grad(set_to_none=True)
        return [result.detach(), *grads]
    values = result.to_tuple() if hasattr(result, "to_tuple") else result
    return [t.detach() for t in pytree.tree_leaves(values) if isinstance(t, torch.Tensor)]


def _distance(mine: list[Any], truth: list[Any]) -> float:
    """The quadratic mean over tensors of the norm of the difference over the norm of the truth.

    A thousandth of the largest gradient's norm is added to each: a gradient that is zero but for rounding (the bias of
    a key projection) has no digits to compare.
    """
    if len(mine) != len(truth):
        return float("inf")
    norms = [float(b.square().sum()) ** 0.5 for b in truth]
    floor = 1e-3 * max(norms[1:], default=0.0)
    squares = []
    for a, b, norm in zip(mine, truth, norms, strict=True):
        size = norm + floor
        squares.append(float((a.double() - b).square().sum()) / size**2 if size else 0.0)
    return (sum(squares) / max(1, len(squares))) ** 0.5


def run(
    name: str, mode: str, who: str, steps: int, seconds: float, profiled: bool = False, device: str = "cuda"
) -> dict[str, Any]:
    """One measurement in a fresh process with empty caches."""
    head = {"model": name, "mode": mode, "who": who}
    with tempfile.TemporaryDirectory() as folder:
        caches = ("TRIPTYCH_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
        environment = {**os.environ, **{v: f"{folder}/{v}" for v in caches}}
        command = [sys.executable, "-m", "tools.gpu.models", "--one", f"{name}:{mode}:{who}", "--steps", str(steps)]
        command += ["--device", device, *(["--profile"] if profiled else [])]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return head | {"failed": f"over {seconds:.0f} s"}
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return head | json.loads(line.removeprefix("RESULT "))
    return head | {"failed": (done.stderr or done.stdout).strip()[-1500:]}


def table(rows: list[dict[str, Any]]) -> str:
    """One line a model and mode: step times, ratios, cold seconds, memory."""
    pairs: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        pairs.setdefault((row["model"], row["mode"]), {})[row["who"]] = row
    lines = []
    for (model, mode), found in pairs.items():
        ours, peer = (found.get(w, {}) for w in ("triptych", "peer"))
        eager = {k.removeprefix("eager_"): v for k, v in (peer | ours).items() if k.startswith("eager_")}
        times = [f.get("step_ms") for f in (eager, ours, peer)]
        ratio = [times[0] / t if times[0] and t else None for t in times[1:]]
        memory = [f.get("peak_gb") for f in (eager, ours, peer)]
        lines.append([model, mode, *times, *ratio, ours.get("cold_s"), peer.get("cold_s"), *memory, ours.get("error")])
        lines[-1] += [eager.get("error"), ours.get("error_ratio")]
    head = [
        "model",
        "mode",
        "eager ms",
        "ours",
        "peer",
        "x ours",
        "x peer",
        "cold ours",
        "peer",
        "GB eager",
        "ours",
        "peer",
    ]
    return common.table([*head, "error ours", "eager", "ours/eager"], lines)


def main() -> None:
    """Measure all combinations, triptych first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="")
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--modes", default="infer,train")
    parser.add_argument("--who", default="triptych,peer")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--without", default="", help="names of passes to leave out, separated by commas")
    parser.add_argument("--profile", action="store_true", help="show where a step's time goes")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        try:
            name, mode, who = given.one.split(":")
            found = measure_one(name, mode, who, given.steps, given.profile, given.device)
            print("RESULT " + json.dumps(found), flush=True)
        except Exception:
            traceback.print_exc()
            sys.exit(1)
        return
    os.environ["TRIPTYCH_GPU_MODELS_WITHOUT"] = given.without
    clock = common.Clock(given.seconds)
    rows: list[dict[str, Any]] = []
    for who in given.who.split(","):
        for mode in given.modes.split(","):
            for name in given.models.split(","):
                if clock.left < 15:
                    continue
                rows.append(run(name, mode, who, given.steps, clock.left - 5, given.profile, given.device))
                shown = {k: v for k, v in rows[-1].items() if k not in ("fallbacks", "profile")}
                print(json.dumps(shown)[:1200], flush=True)
                if "profile" in rows[-1]:
                    print(rows[-1]["profile"], flush=True)
                if given.out:
                    Path(given.out).mkdir(parents=True, exist_ok=True)
                    (Path(given.out) / "models.json").write_text(json.dumps(rows, indent=1))
    print(table(rows))


if __name__ == "__main__":
    main()
