"""Compiled callables in the company of other tracers, and of threads that call at once."""

import threading
import warnings

import pytest
import torch
import triptych_dynamo
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx


@pytest.fixture
def compiled():
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    fn = triptych_dynamo.optimize(backend)(lambda x: helper(x) + 1)
    fn.graphs = graphs
    return fn


def helper(x):
    return x.sin() * 2


X = torch.ones(3)
TRACERS = {
    "make_fx": lambda fn: make_fx(fn)(X),
    "fx": lambda fn: torch.fx.symbolic_trace(fn),
    "jit": lambda fn: torch.jit.trace(fn, (X,)),
}


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("tracer", TRACERS)
def test_other_tracers_see_the_original(compiled, tracer, warm):
    if warm:
        compiled(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = TRACERS[tracer](lambda x: compiled(x) * 3)
    torch.testing.assert_close(traced(X + 1), (helper(X + 1) + 1) * 3)
    if tracer != "jit":  # which checks its trace by calling the program once more
        assert len(compiled.graphs) == int(warm)


def test_an_entry_is_no_hit_under_the_tracer_of_jit():
    ran = []

    def backend(gm, example_inputs):
        return lambda *args: ran.append(1) or gm.forward(*args)

    compiled = triptych_dynamo.optimize(backend)(lambda x: helper(x) + 1)
    compiled(X)
    traced = torch.jit.trace(lambda x: compiled(x) * 3, (X,), check_trace=False)
    assert len(ran) == 1
    torch.testing.assert_close(traced(X + 1), (helper(X + 1) + 1) * 3)
    compiled(X)
    assert len(ran) == 2


def test_export_sees_the_original_and_is_told(compiled):
    class Model(nn.Module):
        def forward(self, x):
            return compiled(x)

    with pytest.warns(UserWarning, match="while a program is exported: its original is used"):
        program = torch.export.export(Model(), (X,), strict=False)
    assert compiled.graphs == []
    assert any("sin" in node.name for node in program.graph.nodes)
    torch.testing.assert_close(program.module()(X + 1), helper(X + 1) + 1)


def test_transforms_of_functions(compiled):
    x = torch.randn(4, 3)
    torch.testing.assert_close(torch.vmap(compiled)(x), helper(x) + 1)
    torch.testing.assert_close(torch.func.grad(lambda x: compiled(x).sum())(X), 2 * X.cos())


def test_under_torchs_own_compiler(compiled):
    outer = torch.compile(lambda x: compiled(x) * 3, backend="eager")
    for _ in range(2):
        torch.testing.assert_close(outer(X), (helper(X) + 1) * 3)


def test_threads_that_call_at_once_compile_once(compiled):
    start, results = threading.Barrier(8), []

    def call():
        start.wait()
        results.append(compiled(X))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8 and len(compiled.graphs) <= 2
    for result in results:
        torch.testing.assert_close(result, helper(X) + 1)
