"""Functions by which a program speaks to the tracer: substitutes, opaque calls, whether it is being exported."""

import functools
from collections import namedtuple

import pytest
import torch
import triptych_dynamo as td
from torch import nn
from torch.utils import _pytree as pytree

Pair = namedtuple("Pair", "a b")


def compile_counted(fn, **settings):
    """`fn` compiled whole, and the list of its graphs."""
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    return td.optimize(backend, fullgraph=True, **settings)(fn), graphs


# -- nonstrict_trace ---------------------------------------------------------------------------------------------------
class Box:
    def __init__(self, inner, scale):
        self.inner, self.scale = inner, scale


@pytest.fixture
def box_is_registered():
    pytree.register_pytree_node(Box, lambda box: ([box.inner], box.scale), lambda items, scale: Box(items[0], scale))
    yield
    pytree._deregister_pytree_node(Box) if hasattr(pytree, "_deregister_pytree_node") else pytree.SUPPORTED_NODES.pop(
        Box
    )


@td.nonstrict_trace
def strange(x, by=1):
    """Does what no tracer follows."""
    td.graph_break()
    scale = sum(len(name) for name in vars(x.__class__)) * 0 + by
    return x * scale, [x + by]


def test_the_body_is_not_looked_at():
    fn, graphs = compile_counted(lambda x: strange(x + 1, by=3)[1][0] * 2)
    x = torch.ones(2, requires_grad=True)
    torch.testing.assert_close(fn(x), (x + 4) * 2)
    fn(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((2,), 2.0))
    assert len(graphs) == 1
    assert strange.__name__ == "strange" and strange.__doc__ == "Does what no tracer follows."
    torch.testing.assert_close(strange(x)[0], x)


def test_modules_are_arguments_and_get_gradients():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

        def forward(self, x):
            td.graph_break()
            return self.inner(self.inner(x))

    apply = td.nonstrict_trace(lambda module, x: module(x))
    model, plain = Twice(), Twice()
    plain.load_state_dict(model.state_dict())
    fn, graphs = compile_counted(lambda module, x: apply(module, x) + 1)
    for _ in range(2):
        x = torch.randn(4, 3)
        fn(model, x).sum().backward(), (plain(x) + 1).sum().backward()
    assert len(graphs) == 1
    torch.testing.assert_close(model.state_dict(), plain.state_dict())
    for mine, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        assert isinstance(mine, nn.Parameter)
        torch.testing.assert_close(mine.grad, theirs.grad)
    fn(plain, x)
    assert len(graphs) == 2


def test_nests_and_registered_classes(box_is_registered):
    @td.nonstrict_trace
    def gather(nest, box, named):
        td.graph_break()
        assert type(nest["pair"]) is Pair and type(box) is Box and box.scale == 5
        return nest["pair"].a + nest["list"][0] * box.inner * box.scale + named

    def fn(x, y):
        return gather({"pair": Pair(x, 1), "list": [y, "text"]}, Box(x, 5), named=2)

    compiled, graphs = compile_counted(fn)
    x, y = torch.randn(3), torch.randn(3)
    torch.testing.assert_close(compiled(x, y), fn(x, y))
    assert len(graphs) == 1


def test_what_is_no_argument_for_it():
    fn, _ = compile_counted(lambda x, thing: strange(x, by=thing))
    with pytest.raises(td.GraphBreakError, match="as argument of a nonstrict_trace function"):
        fn(torch.ones(2), Box(1, 2))
    with pytest.raises(TypeError, match="takes a function, not 5"):
        td.nonstrict_trace(5)


# -- substitutes -------------------------------------------------------------------------------------------------------
def make_opaque():
    def opaque(x, times=2):
        raise AssertionError("the original")

    return opaque


def test_a_substitute_runs_in_traces_alone():
    opaque = make_opaque()

    @td.substitute_in_graph(opaque)
    def replacement(x, times=2):
        return x * times

    fn, _ = compile_counted(lambda x: opaque(x, 3))
    torch.testing.assert_close(fn(torch.ones(2)), torch.full((2,), 3.0))
    with pytest.raises(AssertionError, match="the original"):
        opaque(torch.ones(2))


def test_calls_with_constants_are_folded_where_that_is_allowed():
    calls = []

    def length(text):
        calls.append(text)
        return len(text)

    @td.substitute_in_graph(length, can_constant_fold_through=True)
    def replacement(text):
        return -1

    fn, _ = compile_counted(lambda x: x + length("four"))
    torch.testing.assert_close(fn(torch.zeros(1)), torch.full((1,), 4.0))
    assert calls == ["four"]


def test_wrong_substitutes_are_refused():
    opaque = make_opaque()
    with pytest.raises(TypeError, match="skip_signature_check=True"):
        td.substitute_in_graph(opaque)(lambda x: x)
    td.substitute_in_graph(opaque, skip_signature_check=True)(lambda x: x)
    with pytest.raises(ValueError, match="has a substitute already"):
        td.substitute_in_graph(opaque)(opaque)
    for wrong in (5, int):
        with pytest.raises(TypeError, match="takes a function"):
            td.substitute_in_graph(wrong)


# -- exporting ---------------------------------------------------------------------------------------------------------
def test_is_exporting_is_true_for_capture_alone():
    def fn(x):
        return x + (1 if td.is_exporting() else 2)

    x = torch.zeros(1)
    torch.testing.assert_close(td.capture(fn)(x)(x), x + 1)
    torch.testing.assert_close(td.optimize("eager")(fn)(x), x + 2)
    torch.testing.assert_close(fn(x), x + 2)
    assert td.is_exporting() is False


# -- processes that decide together ------------------------------------------------------------------------------------
def test_a_call_that_does_not_fit_elsewhere_is_compiled_here_too():
    fn, graphs = compile_counted(lambda x: x + 1)
    elsewhere, told = [True], []

    def agree(fits):
        told.append(fits)
        return fits and elsewhere[0]

    before = td.set_guard_agreement(agree)
    try:
        for _ in range(2):
            fn(torch.ones(2))
        assert (told, len(graphs)) == ([False, True], 1)
        elsewhere[0] = False
        torch.testing.assert_close(fn(torch.ones(2)), torch.full((2,), 2.0))
        assert len(graphs) == 2
    finally:
        assert td.set_guard_agreement(before) is agree
    fn(torch.ones(2))
    assert len(graphs) == 2 and len(told) == 3


# -- marks on methods --------------------------------------------------------------------------------------------------
class Prepared:
    def prepare(self, factor, more):
        self.factor = factor * more


class ByPartial(Prepared):
    __init__ = functools.partialmethod(Prepared.prepare, 2)


class ByDescriptor(Prepared):
    class Bound:
        def __get__(self, obj, cls=None):
            return lambda factor: obj.prepare(factor, 5)

    __init__ = Bound()


class Compiled(Prepared):
    @td.optimize("eager")
    def __init__(self, factor):
        self.factor = factor


class Disabled(Prepared):
    @td.disable
    def __init__(self, factor):
        self.factor = factor

    @td.disable
    def __call__(self, x):
        return x * self.factor


@pytest.mark.parametrize("cls", [ByPartial, ByDescriptor, Compiled])
def test_initialisers_that_are_no_plain_functions_run(cls):
    x = torch.ones(2)
    compiled, graphs = compile_counted(lambda x: x * cls(3).factor + 1)
    assert torch.equal(compiled(x), x * cls(3).factor + 1) and len(graphs) == 1


def test_disabled_methods_break_before_their_call():
    x = torch.ones(2)
    assert torch.equal(td.optimize("eager")(lambda x: Disabled(3)(x + 1).sin())(x), ((x + 1) * 3).sin())
    made = Disabled(3)
    for fn in (lambda x: Disabled(3), lambda x: made(x)):
        with pytest.raises(td.GraphBreakError, match=r"Disabled.__(init|call)__ is disabled"):
            td.optimize("eager", fullgraph=True)(fn)(x)


@pytest.mark.parametrize("decorate", [td.optimize("eager"), td.disable], ids=["compiled", "disabled"])
def test_hooks_of_attributes_that_are_no_plain_functions_run(decorate):
    class Doubling:
        @decorate
        def __setattr__(self, name, value):
            object.__setattr__(self, name, value * 2)

        @decorate
        def __getattr__(self, name):
            return len(name)

        @decorate
        def __delattr__(self, name):
            object.__setattr__(self, name, 7)

    class Constant:
        @decorate
        def __getattribute__(self, name):
            return 6

    def program(x):
        holder = Doubling()
        holder.kept, holder.lost = 3, 4
        del holder.lost
        return x * holder.kept + holder.lost, x * holder.absent, x * Constant().any

    x = torch.ones(2)
    assert [y.tolist() for y in td.optimize("eager")(program)(x)] == [y.tolist() for y in program(x)]
    assert program(x)[0].tolist() == [13, 13]
