"""Forty and more wrong calls: each raises an error of the right type that says what is wrong, where, and what to do."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import triptych
import triptych_dynamo
from triptych import compiler, configuration, errors
from triptych.compiler import config

X = torch.ones(3)
HERE = "test_wrong_calls.py"


def fine(x):
    return x + 1


def branches_on_data(x):
    if x.sum() > 0:
        return x
    return -x


def breaks(x):
    triptych_dynamo.graph_break("said so")
    return x


@compiler.disable(reason="it talks to a device")
def disabled(x):
    return x


def calls_disabled(x):
    return disabled(x) + 1


def compiled(**settings):
    return lambda: triptych.compile(fine, **settings)


def called(fn, *calls, **settings):
    def run():
        made = triptych.compile(fn, **settings)
        for x in calls or (X,):
            made(x)

    return run


def under_environment(variable, text, run):
    def call():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(variable, text)
            run()

    return call


def failing_backend(gm, example_inputs):
    raise OSError("the device is gone")


def under_stance(run, *args, **kwargs):
    def call():
        with compiler.set_stance(*args, **kwargs):
            run()

    return call


def substituted_twice():
    def opaque(x):
        return x

    compiler.substitute_in_graph(opaque)(opaque)
    compiler.substitute_in_graph(opaque)(opaque)


@dataclass(frozen=True)
class Wrong:
    """what: the thing that is wrong. do: what the text tells to do, or where; each a part of the message."""

    call: Callable[[], object]
    error: type
    what: str
    do: str


NINE = [torch.ones(n) for n in range(2, 11)]
WRONG = {
    # arguments of compile
    "backend with a typo": Wrong(compiled(backend="indcutor"), errors.InvalidBackendError, "'indcutor'", "'inductor'?"),
    "unknown backend": Wrong(compiled(backend="qqq"), errors.InvalidBackendError, "'qqq'", "list_backends(())"),
    "backend that is no callable": Wrong(
        compiled(backend=3), errors.InvalidBackendError, "int", "a name or a callable"
    ),
    "backend without its package": Wrong(
        compiled(backend="ipex"), errors.BackendUnavailableError, "'ipex' cannot be used here", "backend='inductor'"
    ),
    "backend that is retired": Wrong(compiled(backend="ts"), errors.BackendUnavailableError, "TorchScript", "'eager'"),
    "mode with a typo": Wrong(compiled(mode="max-autotun"), errors.InvalidModeError, "'max-autotun'", "'max-autotune'"),
    "mode that is no text": Wrong(compiled(mode=3), TypeError, "mode", "a string or None"),
    "mode and options": Wrong(compiled(mode="lite", options={}), errors.InvalidOptionError, "both", "give one of them"),
    "mode for a backend without code": Wrong(
        compiled(backend="eager", mode="lite"), errors.InvalidModeError, "'eager' generates no code", "it has for: "
    ),
    "options for a backend without code": Wrong(
        compiled(backend="aot_eager", options={"a": 1}), errors.InvalidOptionError, "generates no code", "it has for: "
    ),
    "option with a typo": Wrong(
        compiled(options={"fuson": True}), errors.InvalidOptionError, "'fuson'", "did you mean 'fusion'"
    ),
    "option of a wrong type": Wrong(
        compiled(options={"fusion": 1}), errors.InvalidOptionError, "'fusion'", "is a bool, which 1 is not"
    ),
    "options that are no mapping": Wrong(
        compiled(options=["fusion"]), TypeError, "list", "a mapping of names to values"
    ),
    "guard filter that is no function": Wrong(
        compiled(options={"guard_filter_fn": 1}), errors.InvalidOptionError, "guard_filter_fn", "one bool for each"
    ),
    "dynamic": Wrong(compiled(dynamic="auto"), TypeError, "'auto'", "True, False or None"),
    "fullgraph": Wrong(compiled(fullgraph="yes"), TypeError, "fullgraph", "True or False"),
    "disable": Wrong(compiled(disable=1), TypeError, "disable", "True or False"),
    "name": Wrong(compiled(name=3), TypeError, "name", "a string or None"),
    "recompile_limit": Wrong(compiled(recompile_limit=0), errors.ConfigError, "recompile_limit", "a positive integer"),
    "on_error": Wrong(compiled(on_error="eagre"), errors.ConfigError, "'eagre'", "did you mean 'eager'"),
    "on_recompile_limit": Wrong(
        compiled(on_recompile_limit="stop"), errors.ConfigError, "'stop'", "known: eager, error, generalise"
    ),
    "unknown argument": Wrong(compiled(fullgrph=True), TypeError, "fullgrph", "unexpected keyword argument"),
    "both names of one argument": Wrong(
        compiled(shapes_spec={}, dynamic_shapes={}), errors.InvalidOptionError, "shapes_spec", "give one of them"
    ),
    "a class": Wrong(lambda: triptych.compile(torch.nn.Linear), TypeError, "Linear", "function, method, module"),
    "a class without calls": Wrong(lambda: triptych.compile(Wrong), TypeError, "Wrong", "function, method, module"),
    "a number in the graph": Wrong(
        lambda: compiler.allow_in_graph(3), TypeError, "allow_in_graph", "takes a function, not 3"
    ),
    "a number of numpy": Wrong(lambda: compiler.wrap_numpy(3), TypeError, "wrap_numpy", "takes a function, not 3"),
    "a filter that gives a number": Wrong(
        called(fine, options={"guard_filter_fn": lambda entries: 3}), TypeError, "guard_filter_fn", "bools, not 3"
    ),
    "a constant for a function": Wrong(
        lambda: compiler.assume_constant_result(None), TypeError, "assume_constant_result", "a function"
    ),
    "a stance in compiled code": Wrong(
        called(lambda x: (compiler.set_stance("default"), x + 1)[1], fullgraph=True),
        *(triptych_dynamo.GraphBreakError, "set_stance", "outside the compiled region"),
    ),
    "a number": Wrong(lambda: triptych.compile(5), TypeError, "5", "function, method, module"),
    # when it is called
    "a branch on data": Wrong(
        called(branches_on_data, fullgraph=True), triptych_dynamo.GraphBreakError, HERE, "hint: "
    ),
    "a break": Wrong(called(breaks, fullgraph=True), triptych_dynamo.GraphBreakError, "said so", HERE),
    "a disabled callee": Wrong(
        called(calls_disabled, fullgraph=True), triptych_dynamo.GraphBreakError, "it talks to a device", HERE
    ),
    "missing argument": Wrong(lambda: triptych.compile(fine)(), TypeError, "fine()", "missing 1 required"),
    "too many sizes": Wrong(
        called(fine, *NINE, dynamic=False, recompile_limit=3, on_recompile_limit="error"),
        triptych_dynamo.RecompileLimitError,
        "fine",
        "recompile_limit=3",
    ),
    "a backend that fails": Wrong(called(fine, backend=failing_backend), OSError, "the device is gone", ""),
    "a backend that gives nothing": Wrong(
        called(fine, backend=lambda gm, inputs: None), TypeError, "NoneType", "not a callable"
    ),
    "a guard filter that answers too little": Wrong(
        called(fine, options={"guard_filter_fn": lambda entries: [True]}), ValueError, "1 answers", "one bool for each"
    ),
    # stances
    "unknown stance": Wrong(lambda: compiler.set_stance("eagr"), triptych_dynamo.StanceError, "'eagr'", "known: "),
    "forced backend with a stance": Wrong(
        lambda: compiler.set_stance("force_eager", force_backend="eager"),
        triptych_dynamo.StanceError,
        "force_backend",
        "give it with 'default'",
    ),
    "unknown forced backend": Wrong(
        lambda: compiler.set_stance(force_backend="zzz"), errors.InvalidBackendError, "'zzz'", "list_backends(())"
    ),
    "compiling where nothing may be": Wrong(
        under_stance(called(fine), "fail_on_recompile"), triptych_dynamo.StanceError, "fine", "'fail_on_recompile'"
    ),
    # settings
    "unknown setting": Wrong(lambda: config.recompil_limit, errors.ConfigError, "'recompil_limit'", "did you mean"),
    "setting of a wrong type": Wrong(lambda: config.patch(disable="no"), errors.ConfigError, "'no'", "True or False"),
    "environment variable": Wrong(
        under_environment("TRIPTYCH_DYNAMIC", "perhaps", compiled()), errors.ConfigError, "TRIPTYCH_DYNAMIC", "1 or 0"
    ),
    "rule for graphs": Wrong(
        under_environment("TRIPTYCH_OVERRIDE_BACKENDS", "first:eager", compiled()),
        errors.ConfigError,
        "'first:eager'",
        "rules look like",
    ),
    "unknown logs": Wrong(lambda: triptych.set_logs("guard"), errors.ConfigError, "'guard'", "did you mean 'guards'"),
    "default backend": Wrong(
        lambda: compiler.set_default_backend("zzz"), errors.InvalidBackendError, "'zzz'", "list_backends(())"
    ),
    # functions that steer
    "a second substitute": Wrong(substituted_twice, ValueError, "opaque", "has a substitute already"),
    "a substitute of another form": Wrong(
        lambda: compiler.substitute_in_graph(fine)(lambda y: y), TypeError, "takes (y)", "skip_signature_check=True"
    ),
    "nonstrict_trace of a number": Wrong(lambda: compiler.nonstrict_trace(5), TypeError, "5", "takes a function"),
    "options of a region": Wrong(
        lambda: compiler.nested_compile_region(options={"a": 1}), errors.InvalidOptionError, "['a']", "triptych.compile"
    ),
    "collectives": Wrong(lambda: compiler.set_enable_guard_collectives(1), TypeError, "1", "True or False"),
    # artifacts and reports
    "junk as artifacts": Wrong(
        lambda: compiler.load_cache_artifacts(b"junk"),
        errors.CacheArtifactError,
        "no saved cache artifacts",
        "artifact",
    ),
    "text as artifacts": Wrong(
        lambda: compiler.load_cache_artifacts("a"), TypeError, "str", "the bytes that save_cache_artifacts gave"
    ),
    "report of something else": Wrong(lambda: triptych.report(fine), TypeError, "fine", "made by triptych.compile"),
    "captured graph with another size": Wrong(
        lambda: triptych_dynamo.capture(fine)(X)(torch.ones(4)), triptych_dynamo.GuardViolation, "x", "3"
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_call(name):
    row = WRONG[name]
    with pytest.raises(row.error) as caught:
        row.call()
    text = str(caught.value)
    assert row.what in text and row.do in text, text
    assert len(text) < 2000


def test_there_are_forty():
    assert len(WRONG) >= 40


def test_nothing_is_left_behind():
    """A wrong call leaves no stance, setting or backend."""
    torch.testing.assert_close(triptych.compile(fine)(X), X + 1)
    assert compiler.get_default_backend() == "inductor"
    with pytest.MonkeyPatch.context() as patch:
        for row in configuration.TABLE.values():
            for variable in row.variables:
                patch.delenv(variable, raising=False)
        assert config.as_dict() == {name: row.default for name, row in configuration.TABLE.items()}
