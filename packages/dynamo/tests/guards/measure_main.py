"""What guards and compiled callables cost, in nanoseconds of this thread's CPU time.

python measure_main.py
"""

import time
import timeit

import torch
from test_snapshots import ROOT, module_guards, module_tree
from triptych_dynamo._eval_frame import CompiledCallable, Entry, Region
from triptych_dynamo.guards.facts import Guard, TensorFacts
from triptych_dynamo.guards.program import compile_guards
from triptych_dynamo.sources import LocalSource

MODES = (
    ("grad_mode", True),
    ("inference_mode", False),
    ("default_dtype", torch.float32),
    ("autocast_cpu", False),
    ("autocast_cuda", False),
)


def identity(x):
    return x


def per_call(fn, x, count=200_000):
    """Nanoseconds of a call, the loop included."""
    statement = "for _ in repeat: fn(x)"
    names = {"fn": fn, "x": x, "repeat": range(count)}
    return min(timeit.repeat(statement, number=1, repeat=5, timer=time.thread_time, globals=names)) / count * 1e9


def per_check(program, values, fn, count):
    """Nanoseconds of a check that holds."""
    assert program.failed(values, fn) is None
    rounds = []
    for _ in range(5):
        start = time.thread_time()
        program.repeat(values, fn, count)
        rounds.append((time.thread_time() - start) / count * 1e9)
    return min(rounds)


def main():
    x = torch.ones(4)
    facts = TensorFacts(torch.Tensor, torch.float32, x.device, False, (4,), (1,))
    tensor, modes = [Guard("tensor", LocalSource("x"), facts)], [Guard("mode", None, row) for row in MODES]
    print(f"plain call {per_call(identity, x):.0f}")
    for label, guards in (("no guard", []), ("one tensor", tensor), ("one tensor, modes", tensor + modes)):
        program = compile_guards(guards, identity.__code__)
        row = f"{label}: check {per_check(program, (x,), identity, 200_000):.0f}"
        for nested in (False, True):
            region = Region(lambda *_: None) if nested else None
            callable_ = CompiledCallable(identity, lambda *_, n=nested: Entry(program, identity, nested=n), region)
            row += f", call {'with' if nested else 'without'} the hook {per_call(callable_, x):.0f}"
        print(row)

    def forward(root):
        return root

    model = module_tree(80)
    guards = module_guards(ROOT, model, [])
    program = compile_guards(guards, forward.__code__)
    cost = per_check(program, (model,), forward, 2000)
    modules = sum(1 for _ in model.modules())
    print(f"{len(guards)} guards on {modules} modules: {cost:.0f}, {cost / len(guards):.1f} a guard")


if __name__ == "__main__":
    main()
