"""Peak memory of a step without running it: eager and compiled, on fake tensors.

    python -m tools.memory [--models bert,gpt2]

The step runs as it is (autograd's engine, the compiled function's wrapper, the generated code's allocations), only
that tensors have no numbers and kernels do nothing. `Meter` follows every storage from its making to its end.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import triptych_aot_autograd
import triptych_inductor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from triptych_inductor import backends

from tools.bench import models


@dataclass
class Peak:
    """The most bytes that were alive at once, and what was alive then: (bytes, what made it), largest first."""

    bytes: int = 0
    holders: list[tuple[int, str]] = field(default_factory=list)


class Meter(TorchDispatchMode):
    """Counts bytes of all storages made while it is active (and of those it is shown)."""

    def __init__(self, keep_holders: bool = False) -> None:
        super().__init__()
        self.live: dict[int, tuple[StorageWeakRef, int, str]] = {}
        self.now = 0
        self.peak = Peak()
        self.keep_holders = keep_holders

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.show(result, str(func))
        return result

    def show(self, structure: Any, what: str) -> None:
        """Tensors that exist from now on."""
        fresh = False
        for tensor in tree_leaves(structure):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self.live:
                    size = storage.nbytes()
                    self.live[storage._cdata] = (StorageWeakRef(storage), size, f"{what} {tuple(tensor.shape)}")
                    self.now += size
                    fresh = True
        if fresh and self.now > self.peak.bytes:
            self._sweep()
            if self.now > self.peak.bytes:
                self.peak.bytes = self.now
                if self.keep_holders:
                    held = [(size, what) for _, size, what in self.live.values()]
                    self.peak.holders = sorted(held, reverse=True)

    def _sweep(self) -> None:
        """Forget storages that are gone."""
        for key in [k for k, (reference, _, _) in self.live.items() if reference.expired()]:
            self.now -= self.live.pop(key)[1]


class _NoWork:
    """Kernels that do nothing."""

    def __init__(self, kernels: Sequence[Any]) -> None:
        self.names = [kernel.name for kernel in kernels]

    def result(self) -> dict[str, Callable[..., None]]:
        return {name: lambda *_: None for name in self.names}

    def binaries(self) -> Sequence[Any]:
        return ()


@contextlib.contextmanager
def idle_kernels() -> Iterator[None]:
    """The code generators build kernels that do nothing."""
    rows = dict(backends.CODE_GENERATORS)
    for device, row in rows.items():
        idle = backends.CodeGenerator(lambda kernels, _: _NoWork(kernels), row.load, row.encode, row.decode, row.pairs)
        backends.CODE_GENERATORS[device] = idle
    try:
        yield
    finally:
        backends.CODE_GENERATORS.update(rows)


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Fake tensors have addresses, far from each other, so that no two seem to share memory."""

    def address(tensor: FakeTensor) -> int:
        return tensor.untyped_storage()._cdata << 24

    FakeTensor.data_ptr = address  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del FakeTensor.data_ptr


def compiler(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
    """The code generator's wrapper around idle kernels."""
    with idle_kernels():
        call = triptych_inductor.compile(gm, example_inputs, options={"disk_cache": False}).call
    run = lambda args: call(args)  # noqa: E731 - takes an attribute
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


Step = Callable[[Callable[..., Any]], Any]  # runs one step, given the module or its compiled form


def measure(module: torch.nn.Module, step: Step, *, compiled: bool, holders: bool = False) -> Peak:
    """The peak of the second step: by then gradients are to be made and compilers have run.

    Args:
        module: its parameters and buffers are fake tensors of the active mode; they count.
        step: `step(call)` runs a whole step, which leaves no gradients behind.
        compiled: `call` is the module compiled, else the module itself.
        holders: note what was alive at the peak.
    """
    call: Callable[..., Any] = module
    if compiled:
        call = triptych_aot_autograd.aot_module(module, compiler)
    with torch.autograd.set_multithreading_enabled(False), apart():
        step(call)
        meter = Meter(holders)
        meter.show([*module.parameters(), *module.buffers()], "state")
        with meter:
            step(call)
    return meter.peak


def fake_module(build: Callable[[], torch.nn.Module], mode: FakeTensorMode, device: str) -> torch.nn.Module:
    """A module whose state has no numbers."""
    with torch.device("meta"):
        module = build()
    with mode:
        return module.to_empty(device=device)


def training_step(
    module: torch.nn.Module,
    inputs: dict[str, Any],
    loss: Callable[[Any], torch.Tensor],
    autocast: torch.dtype | None = torch.bfloat16,
) -> Step:
    """A step with gradients, which are dropped."""
    device = next(iter(inputs.values())).device.type

    def step(call: Callable[..., Any]) -> None:
        with torch.autocast(device, dtype=autocast, enabled=autocast is not None):
            value = loss(call(**inputs))
        value.backward()
        module.zero_grad(set_to_none=True)

    return step


def inference_step(inputs: dict[str, Any], autocast: torch.dtype | None = torch.bfloat16) -> Step:
    """A step without gradients; the result is dropped."""
    device = next(iter(inputs.values())).device.type

    def step(call: Callable[..., Any]) -> None:
        with torch.no_grad(), torch.autocast(device, dtype=autocast, enabled=autocast is not None):
            call(**inputs)

    return step


def main() -> None:
    """A line for each model of `tools.bench`: megabytes at the peak, eager and compiled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(models.WORKLOADS))
    for name in parser.parse_args().models.split(","):
        workload = models.WORKLOADS[name]
        for training in (False, True):
            mode = FakeTensorMode(allow_non_fake_inputs=True)
            module = fake_module(workload.build, mode, "cpu").train(training)
            with mode:
                batch = {key: torch.empty_like(v) for key, v in workload.batch(workload.batch_size, training).items()}
                step = training_step(module, batch, workload.loss) if training else inference_step(batch)
                eager, ours = (measure(module, step, compiled=compiled).bytes / 1e6 for compiled in (False, True))
            kind = "train" if training else "infer"
            print(f"{name:8s} {kind} eager {eager:8.1f} MB, compiled {ours:8.1f} MB, {ours / eager:.2f}", flush=True)


if __name__ == "__main__":
    main()
