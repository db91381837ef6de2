"""Autotuning with a clock of our own: what is tried, what is chosen, what is kept; no device is needed."""

import dataclasses

import pytest
import sympy
import torch
import triptych_inductor
from triptych_inductor import backends
from triptych_inductor.build.cache import Store
from triptych_inductor.codegen.triton.build import TritonCompileError
from triptych_inductor.codegen.triton.candidates import MOST, candidates
from triptych_inductor.codegen.triton.generate import generate, make_context, plan
from triptych_inductor.codegen.triton.heuristics import stages_that_fit
from triptych_inductor.codegen.triton.interpret import run_interpreted
from triptych_inductor.codegen.triton.layout import LOOPED, PERSISTENT, SPLIT
from triptych_inductor.loops import ops
from triptych_inductor.loops.kernel import Kernel, Stage, TensorArg
from triptych_inductor.runtime.cuda import programs, tuning
from triptych_inductor.runtime.cuda.tuning import Choice, Tuner
from triptych_inductor.schedule import stages
from triton_kernels import CUDA, H200, layer_norm, pointwise, reduction, softmax

BF16 = torch.bfloat16


@pytest.fixture
def no_device(monkeypatch):
    """Nothing is built, and arguments are small: the clock decides by the program's text alone."""

    class Built:
        def __init__(self, program):
            self.program = program

        def result(self):
            return [[f.name for f in self.program.functions]]

    monkeypatch.setattr(tuning, "build", lambda given, facts: Built(given[0]))
    monkeypatch.setattr(tuning, "made_up_arguments", lambda kernel, index: [])


def clock(wanted, fast=10e-6, slow=20e-6, calls=None):
    """A timer under which programs whose layout has the text `wanted` are fast."""

    def seconds(program, built, arguments):
        if calls is not None:
            calls.append(program)
        return fast if wanted in program.notes[0] else slow

    return seconds


def test_candidates_start_with_the_heuristics_and_are_valid():
    kernels = [
        softmax(4096, 1000, BF16),
        layer_norm(256, 4096),
        reduction("sum", torch.float32, 100000, 96, 0, [torch.float32]),
        reduction("argmax", BF16, 4, 10**6, 1, [torch.int64]),
        pointwise(lambda v: ops.exp(v), torch.zeros(10**5), out_dtype=torch.float32),
    ]
    for kernel in kernels:
        found = candidates(kernel, H200)
        assert 5 < len(found) <= MOST and len(set(map(str, found))) == len(found)
        assert generate(kernel, H200).notes[0] == str(found[0])
        for layout in found:
            assert generate(kernel, H200, layout=layout).functions
            if layout.walk == PERSISTENT and layout.reduction is not None:
                assert layout.block(layout.reduction) >= layout.reduction.numel


def test_every_candidate_computes_the_same():
    x = torch.randn(6, 1000)
    for layout in candidates(softmax(6, 1000, torch.float32), H200):
        small = dataclasses.replace(layout, num_warps=1)
        out = torch.empty_like(x)
        run_interpreted(generate(softmax(6, 1000, torch.float32), H200, layout=small), [x, out])
        torch.testing.assert_close(out, x.softmax(-1))


def test_shared_rows_are_also_tried_in_turn():
    kernel = reduction("sum", torch.float32, 1, 2**24 + 3, 1, [torch.float32])
    found = [layout for layout in candidates(kernel, H200) if layout.interleaved]
    assert {layout.splits for layout in found} == {1024, 8 * H200.processors, 4 * H200.processors}
    assert all("splits in turn" in str(layout) for layout in found)
    assert not any(
        layout.interleaved for layout in candidates(reduction("argmax", BF16, 4, 10**6, 1, [torch.int64]), H200)
    )
    x = torch.randn(1, 5000)
    small = reduction("sum", torch.float32, 1, 5000, 1, [torch.float32])
    base = plan(small, H200, make_context(small).stages)
    for splits in (3, 8):
        out = torch.empty(1)
        layout = dataclasses.replace(base, walk=SPLIT, splits=splits, interleaved=True, blocks=base.blocks | {"r": 512})
        run_interpreted(generate(small, H200, layout=layout), [x, out])
        torch.testing.assert_close(out, x.sum(1))


def test_the_fastest_is_taken_and_kept(no_device, tmp_path):
    records, kernel, calls, lines = Store("tuning", tmp_path), softmax(4096, 4096, BF16), [], []
    tuner = Tuner(H200, clock("looped [x:1 of 4096 x r:2048", calls=calls), 0, records, lines.append)
    (program,), (choice,) = tuner.tune([kernel])
    assert "looped [x:1 of 4096 x r:2048" in program.notes[0] and choice.chosen > 0 and not choice.from_cache
    assert choice.gain == pytest.approx(2.0) and len(choice.trials) == len(calls)
    assert lines[0] == "autotune 1/1: kernel_0, gain 2.00" and lines[-1] == ""
    text = str(choice)
    assert (
        text.count("us  ") == len(choice.trials) and text.splitlines()[1].startswith("  *") and "(heuristics)" in text
    )
    count = len(calls)
    (again,), (second,) = Tuner(H200, clock("", calls=calls), 0, records).tune([kernel])
    assert again == program and second.from_cache and len(calls) == count
    assert Choice.from_json(second.to_json()) == second
    other = dataclasses.replace(H200, processors=78)  # another device tunes anew
    Tuner(other, clock("", calls=calls), 0, records).tune([kernel])
    assert len(calls) > count


def test_small_gains_change_nothing(no_device, tmp_path):
    timer = clock("r:2048", fast=19.8e-6)
    (program,), (choice,) = Tuner(H200, timer, 0, Store("tuning", tmp_path)).tune([softmax(4096, 4096, BF16)])
    assert choice.chosen == 0 and program.notes == generate(softmax(4096, 4096, BF16), H200).notes


def test_candidates_that_fail_are_left_out(no_device, tmp_path, monkeypatch):
    class Broken:
        def result(self):
            raise TritonCompileError("out of shared memory")

    plain = tuning.build
    monkeypatch.setattr(
        tuning, "build", lambda given, facts: Broken() if "8 warps" in given[0].notes[0] else plain(given, facts)
    )

    def seconds(program, built, arguments):
        if " 2 warps" in program.notes[0]:
            raise RuntimeError("too many resources requested for launch")
        return 10e-6 if "2048" in program.notes[0] else 20e-6

    _, (choice,) = Tuner(H200, seconds, 0, Store("tuning", tmp_path)).tune([softmax(4096, 4096, BF16)])
    failed = [t.layout for t in choice.trials if t.microseconds is None]
    assert failed and all("8 warps" in text or " 2 warps" in text for text in failed)
    assert choice.trials[choice.chosen].microseconds == pytest.approx(10.0) and "failed" in str(choice)


def gather(length, rows=None):
    """`out[i] = a[b[i]]` with a check; `rows`: the symbol of the length of `b` and `out`."""
    count = rows if rows is not None else 1000

    def body(i, r):
        index = ops.indirect(ops.load("b", i[0]), length)
        ops.store("out", i[0], ops.load("a", index))

    return Kernel(
        "kernel_0",
        CUDA,
        (count,),
        (),
        [Stage(body, False)],
        [TensorArg("b", torch.int64, count), TensorArg("a", torch.float32, length)],
        [TensorArg("out", torch.float32, count)],
        sizes=[rows] if rows is not None else [],
        typical=(700,) if rows is not None else (),
    )


@pytest.fixture
def interpreted(monkeypatch):
    """Candidates run in the interpreter, on the arguments that tuning makes up; gives what ran, with its arguments."""
    ran = []

    class Built:
        def __init__(self, program):
            self.program = program

        def result(self):
            return [[f.name for f in self.program.functions]]

    def seconds(program, built, arguments):
        count = len(program.buffers)
        small = dataclasses.replace(
            program, functions=tuple(dataclasses.replace(f, num_warps=1) for f in program.functions)
        )
        run_interpreted(small, arguments[:count], arguments[count:])
        ran.append((program, arguments))
        return 10e-6 if "x:256" in program.notes[0] else 20e-6

    monkeypatch.setattr(tuning, "build", lambda given, facts: Built(given[0]))
    monkeypatch.setattr(tuning, "free_memory", lambda index: 2**30)
    monkeypatch.setattr(torch, "device", lambda kind, index=None, real=torch.device: real("cpu"))
    return seconds, ran


@pytest.mark.parametrize("length", [5, 1])
def test_kernels_that_check_indices(interpreted, tmp_path, length):
    """They are timed with indices in their range, also where the data would be out of it; what is taken checks."""
    timer, ran = interpreted
    kernel = gather(length)
    kernel.stages[0] = Stage(lambda i, r: far_gather(i, length), False)
    (program,), (choice,) = Tuner(H200, timer, 0, Store("tuning", tmp_path)).tune([kernel])
    assert len(ran) == len(choice.trials) > 3 and not any(f.checked for p, _ in ran for f in p.functions)
    assert choice.chosen > 0 and all(f.checked for f in program.functions) and "x:256" in program.notes[0]
    out = torch.zeros(1000)
    with pytest.raises(Exception, match="index out of range"):
        run_interpreted(program, [torch.zeros(1000, dtype=torch.int64), torch.ones(length), out])


def far_gather(i, length):
    """The element seven places behind: out of range for the zeros that tuning makes up."""
    index = ops.indirect(ops.add(ops.load("b", i[0]), ops.constant(7, torch.int64)), length)
    ops.store("out", i[0], ops.load("a", index))


def test_symbolic_sizes_have_typical_values(interpreted, tmp_path):
    timer, ran = interpreted
    rows = sympy.Symbol("s0", integer=True, nonnegative=True)
    (program,), (choice,) = Tuner(H200, timer, 0, Store("tuning", tmp_path)).tune([gather(5, rows)])
    assert all(arguments[-1] == 700 and arguments[0].numel() == 700 for _, arguments in ran)
    assert choice.chosen > 0 and program.sizes == ("s0",)
    for count in (1, 700, 1000):  # one program serves all sizes
        index, a, out = torch.randint(0, 5, (count,)), torch.randn(5), torch.zeros(count)
        run_interpreted(program, [index, a, out], [count])
        assert torch.equal(out, a[index])
    (_,), (again,) = Tuner(H200, timer, 0, Store("tuning", tmp_path)).tune([gather(5, rows)])
    assert again.from_cache


def test_rows_of_symbolic_length(tmp_path):
    """Every candidate sums rows of any length."""
    rows, columns = sympy.symbols("s0 s1", integer=True, nonnegative=True)

    def body(i, r):
        ops.store_reduction("out", i[0], ops.reduce("sum", ops.load("a", i[0] * columns + r[0]), torch.float32))

    kernel = Kernel(
        "kernel_0",
        CUDA,
        (rows,),
        (columns,),
        [Stage(body, True)],
        [TensorArg("a", torch.float32, rows * columns)],
        [TensorArg("out", torch.float32, rows)],
        sizes=[rows, columns],
    )
    found = candidates(kernel, H200)
    assert len(found) > 3 and tuning.typical_sizes(kernel) == [tuning.HINT] * 2
    x = torch.randn(3, 700)
    for layout in found[:8]:
        out = torch.zeros(3)
        run_interpreted(generate(kernel, H200, layout=dataclasses.replace(layout, num_warps=1)), [x, out], [3, 700])
        torch.testing.assert_close(out, x.sum(1), rtol=1e-4, atol=1e-4)


def test_the_graph_says_what_is_typical():
    x = torch.randn(6, 10)
    gm = torch.fx.experimental.proxy_tensor.make_fx(lambda x: x.sin() + 1, tracing_mode="symbolic")(x)
    seen = []
    real = stages._finish
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "_finish", lambda *args: (seen.append(real(*args)), seen[-1])[1])
        triptych_inductor.compile(
            gm, [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"], options={"disk_cache": False}
        )
    (call,) = seen
    assert set(call.kernel.typical) <= {6, 10} and len(call.kernel.typical) == len(call.kernel.sizes) > 0


def test_too_large_arguments(no_device, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "made_up_arguments", lambda kernel, index: None)
    records = Store("tuning", tmp_path)
    _, (choice,) = Tuner(H200, clock("r:2048"), 0, records).tune([softmax(4096, 4096, BF16)])
    assert choice.chosen == 0 and not any(tmp_path.rglob("*/*/*"))


@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs"])
def test_modes_tune_and_the_graph_tells(no_device, tmp_path, monkeypatch, mode):
    """The whole road on the CPU: the GPU's generator with an interpreter for a device."""
    monkeypatch.setenv("TRIPTYCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(programs, "device_facts", lambda index: H200)
    monkeypatch.setattr(programs, "device_timer", lambda load: clock("r:512"))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)

    class Interpreted:
        def __init__(self, kernels, options):
            made = programs.compile_kernels(kernels, tune=options.max_autotune)
            self.programs, self.choices = made.units, made.choices

        def result(self):
            return {
                p.name: lambda *args, p=p: run_interpreted(p, args[: len(p.buffers)], args[len(p.buffers) :])
                for p in self.programs
            }

        def binaries(self):
            return []

    monkeypatch.setattr(programs, "build", lambda *args, **kwargs: None)
    own = dataclasses.replace(backends.CODE_GENERATORS["cpu"], build=Interpreted)
    monkeypatch.setitem(backends.CODE_GENERATORS, "cpu", own)
    gm = torch.fx.experimental.proxy_tensor.make_fx(lambda x: x.softmax(-1))(torch.randn(6, 1000))
    options = triptych_inductor.list_mode_options(mode)
    x = torch.randn(6, 1000)
    compiled = triptych_inductor.compile(gm, [x], options=options)
    torch.testing.assert_close(compiled(x), x.softmax(-1))
    (choice,) = compiled.tuning
    assert LOOPED in choice.trials[choice.chosen].layout and options["max_autotune"]


def test_stages_that_run_ahead_fit_into_shared_memory():
    assert [stages_that_fit(3, n * 2**14, H200) for n in (1, 3, 4, 7, 8)] == [3, 3, 2, 2, 1]
    small = dataclasses.replace(H200, shared_bytes=49152)
    assert stages_that_fit(3, 2**14, small) == 2 and stages_that_fit(3, 2**15, small) == 1
