"""Stances: what each does, that they nest, and that a wrong one is told at once."""

import pytest
import torch
import triptych_dynamo
from triptych_dynamo import StanceError, optimize, set_stance
from triptych_dynamo.stances import STANCES, current


class Counting:
    """A backend that counts its graphs."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, gm, example_inputs):
        self.graphs += 1
        return gm.forward


@pytest.fixture
def backend():
    return Counting()


@pytest.fixture(autouse=True)
def _default():
    yield
    assert current().name == "default"


def make(backend):
    where = []

    @optimize(backend)
    def fn(x, by=1):
        where.append(torch.compiler.is_compiling())
        return x + by

    fn.ran = where
    return fn


X, Y = torch.ones(2), torch.ones(2, 2)


def check(fn, x, by=1):
    torch.testing.assert_close(fn(x, by), x + by)


def test_force_eager_uses_and_makes_nothing(backend):
    fn = make(backend)
    check(fn, X)
    with set_stance("force_eager"):
        for x in (X, Y):
            check(fn, x, by=2)
    assert backend.graphs == 1
    check(fn, X)
    assert backend.graphs == 1
    check(fn, Y)
    assert backend.graphs == 2


def test_eager_on_recompile(backend):
    fn = make(backend)
    with set_stance("eager_on_recompile"):
        check(fn, X)
    assert backend.graphs == 0
    check(fn, X)
    with set_stance("eager_on_recompile"):
        for x in (X, Y, X):
            check(fn, x)
    assert backend.graphs == 1


def test_fail_on_recompile(backend):
    fn = make(backend)
    with set_stance("fail_on_recompile"), pytest.raises(StanceError, match="fail_on_recompile"):
        fn(X)
    check(fn, X)
    with set_stance("fail_on_recompile"):
        check(fn, X)
        with pytest.raises(RuntimeError, match=r"fn.*would be compiled now"):
            fn(Y)
    assert backend.graphs == 1


def test_eager_then_compile_learns_sizes_from_the_first_call(backend):
    fn = make(backend)
    with set_stance("eager_then_compile"):
        check(fn, torch.ones(3))
        assert backend.graphs == 0
        for n in (4, 5, 6, 7):
            check(fn, torch.ones(n))
    assert backend.graphs == 1


def test_the_first_call_with_another_backend(backend):
    fn, first = make(backend), Counting()
    with set_stance("aot_eager_then_compile", first_backend=first):
        check(fn, X)
        assert (first.graphs, backend.graphs) == (1, 0)
        check(fn, X)
        check(fn, X)
    assert (first.graphs, backend.graphs) == (1, 1)


def test_force_backend(backend):
    fn, other = make(backend), Counting()
    check(fn, X)
    with set_stance(force_backend=other):
        for x in (X, X, Y):
            check(fn, x)
    assert (other.graphs, backend.graphs) == (2, 1)
    with set_stance(force_backend=other):
        check(fn, X)
    check(fn, X)
    assert (other.graphs, backend.graphs) == (2, 1)
    triptych_dynamo.reset()
    with set_stance(force_backend=other):
        check(fn, X)
    assert other.graphs == 3


def test_skipping_guards_is_as_unsafe_as_it_says(backend):
    fn = make(backend)
    check(fn, X, 1)
    with set_stance(skip_guard_eval_unsafe=True):
        check(fn, X, 1)
        torch.testing.assert_close(fn(X, 5), X + 1)
    check(fn, X, 5)
    with set_stance(skip_guard_eval_unsafe=True):  # two entries: guards tell them apart
        check(fn, X, 1)
        check(fn, X, 5)


def test_methods_and_keywords(backend):
    class Thing:
        @optimize(backend)
        def add(self, x, *rest, by=1, **more):
            return x + by + sum(rest) + sum(more.values())

    thing = Thing()
    for stance in ("force_eager", "default"):
        with set_stance(stance):
            torch.testing.assert_close(thing.add(X, 1, 2, by=3, more=4), X + 10)
            with pytest.raises(TypeError, match="missing 1 required positional argument"):
                thing.add()


def test_a_program_with_breaks(backend):
    @optimize(backend)
    def fn(x):
        x = x + 1
        triptych_dynamo.graph_break()
        return x * 2

    other = Counting()
    with set_stance(force_backend=other):
        for _ in range(2):
            torch.testing.assert_close(fn(X), (X + 1) * 2)
    assert (other.graphs, backend.graphs) == (2, 0)
    with set_stance("force_eager"):
        torch.testing.assert_close(fn(X), (X + 1) * 2)
    with set_stance("eager_on_recompile"):
        torch.testing.assert_close(fn(X), (X + 1) * 2)
    assert backend.graphs == 0


def test_function_form_nesting_and_decorator():
    set_stance("force_eager")
    assert current().name == "force_eager"
    with set_stance("fail_on_recompile"):
        assert current().name == "fail_on_recompile"
        with set_stance("default"):
            assert current().name == "default"
        assert current().name == "fail_on_recompile"
    assert current().name == "force_eager"
    set_stance("default")

    @set_stance("eager_on_recompile")
    def inside():
        return current().name

    assert current().name == "default"
    assert inside() == "eager_on_recompile" and inside.__name__ == "inside"
    with pytest.raises(ValueError), set_stance("force_eager"):
        raise ValueError
    assert current().name == "default"


def test_inside_a_region_it_is_a_break_and_means_what_it_says(backend):
    def fn(x):
        x = x + 1
        set_stance("default")
        return x * 2

    torch.testing.assert_close(optimize(backend)(fn)(X), (X + 1) * 2)
    assert backend.graphs == 2
    with pytest.raises(triptych_dynamo.GraphBreakError, match="outside the compiled region"):
        optimize(backend, fullgraph=True)(fn)(X)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"stance": "force_eagre"}, "unknown stance 'force_eagre': did you mean 'force_eager'"),
        ({"stance": "zzz"}, "known: aot_eager_then_compile, default"),
        ({"stance": "force_eager", "force_backend": Counting()}, "force_backend compiles, which stance 'force_eager'"),
        ({"force_backend": 3}, "force_backend is a callable"),
        ({"stance": "aot_eager_then_compile"}, "needs first_backend"),
    ],
)
def test_wrong_ones_are_told_at_once(given, text):
    with pytest.raises(StanceError, match=text):
        set_stance(**given)
    assert set(STANCES) >= {"default", "force_eager"}
