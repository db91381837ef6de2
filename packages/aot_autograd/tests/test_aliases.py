"""Results that are views of one another: what is the base of what, and what a write through each of them does."""

import pytest
import torch
from aot_testing import grad, keep_graph, plain, relations
from triptych_aot_autograd import aot_function


def detached_chain(x):
    d = x.detach()
    return d, d[:, 1:][:, 1:]


def view_before_its_base(x):
    d = x.detach()
    return d[1:], d, d[:1]


def views_of_a_hidden_base(x):
    d = x.detach()
    return d[1:], d.t()


def detached_twice(x):
    d = x[1:].detach()
    e = d.t().detach()
    return d, e, e[1:], d[:1], x[:1]


def detached_value(x):
    v = x * 2
    d = v.detach()
    return d[1:], v, d, v[1:]


def base_without_gradients(x):
    with torch.no_grad():
        v = x[1:]
    return v[1:], v, v.detach()[:1]


def written_through_a_root(x):
    d = (x * 2).detach()
    e = d[1:]
    e.add_(1)
    return e, d, d.t()


def given_a_gradient_by_a_write(x):
    d = x.detach()
    e = d[:, 1:]
    d.copy_(x.mean().expand_as(d))
    return e[1:], d


def view_of_a_value_given_a_gradient(x):
    d = (x * 2).detach()
    v = d.t()
    d.mul_(x.sum())
    return v, d, v.detach()


def one_object_twice(x):
    d = x.detach()
    return d, d[1:], d


PROGRAMS = (
    detached_chain,
    view_before_its_base,
    views_of_a_hidden_base,
    detached_twice,
    detached_value,
    base_without_gradients,
    written_through_a_root,
    one_object_twice,
    given_a_gradient_by_a_write,
    view_of_a_value_given_a_gradient,
)


def bases(x, results):
    """For each result the number of its base among the input, the results and all their bases."""
    known = [x, *results]
    for tensor in results:
        if tensor._base is not None and all(tensor._base is not k for k in known):
            known.append(tensor._base)
    return [next((i for i, k in enumerate(known) if tensor._base is k), None) for tensor in results]


def seen(fn, maker):
    """All that can be seen of a call's results, then of a write through each of them in turn.

    Versions are told from those after the call: memory that a graph made starts at none, whatever was written to it.
    """
    torch.manual_seed(0)
    leaf = maker()
    x = leaf * 1
    results = fn(x)
    first = bases(x, results), relations(results), [(t.requires_grad, t.is_leaf, t._is_view()) for t in results]
    values = [t.detach().clone() for t in results]
    loss = sum((t.sin() * (i + 2)).sum() for i, t in enumerate(results) if t.requires_grad)
    if isinstance(loss, torch.Tensor):
        values += torch.autograd.grad(loss, leaf, allow_unused=True)
    start = [x._version, *(t._version for t in results)]
    versions = []
    for tensor in results:
        with torch.no_grad():
            tensor.add_(1)
        versions.append([t._version - before for t, before in zip((x, *results), start, strict=True)])
        values += [t.detach().clone() for t in (x, *results)]
    return first, versions, values


@pytest.mark.parametrize("maker", [grad(3, 4), plain(3, 4)], ids=["grad", "plain"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_aliases_of_results(fn, maker):
    expected, found = seen(fn, maker), seen(aot_function(fn, keep_graph), maker)
    assert found[0] == expected[0]
    assert found[1] == expected[1]
    torch.testing.assert_close(found[2], expected[2], rtol=0, atol=0)


@pytest.mark.parametrize("order", [(0, 0), (0, 3), (0, 1), (0, 1, 2), (1, 0, 2), (2, 0, 1)])
def test_second_gradients_beside_detached_results(order):
    def fn(x):
        v = x * x
        d = v.detach()
        results = [d, d[1:], v[1:], v.detach()]
        return [results[i] for i in order] + [(v * 3).sum()]

    def second(call):
        torch.manual_seed(0)
        x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
        loss = sum((t**3).sum() for t in call(x) if t.requires_grad)
        (first,) = torch.autograd.grad(loss, x, create_graph=True)
        return torch.autograd.grad((first**2).sum(), x)[0]

    torch.testing.assert_close(second(aot_function(fn, keep_graph)), second(fn))
