"""Matching of iteration spaces."""

from triptych_inductor.ir.index import Index, Var
from triptych_inductor.schedule.matching import match

HINT = lambda e: e  # noqa: E731


def _index(**terms):
    variables = {name: Var(name, extent) for name, (_, extent) in terms.items()}
    return variables, Index({variables[n]: stride for n, (stride, _) in terms.items() if stride})


def test_flat_against_two_dimensions():
    a, left = _index(i=(1, 12))
    b, right = _index(j=(4, 3), k=(1, 4))
    found = match(left, right, list(a.values()), list(b.values()), HINT)
    assert [p.var.extent for p in found.pieces] == [4, 3]
    inner, outer = found.pieces
    assert found.left[a["i"]] == Index({inner.var: 1, outer.var: 4})
    assert (inner.right, outer.right) == (b["k"], b["j"])


def test_transposed_order_is_found_by_stride():
    a, left = _index(i=(1, 3), j=(3, 5))
    b, right = _index(x=(3, 5), y=(1, 3))
    found = match(left, right, list(a.values()), list(b.values()), HINT)
    assert {(p.left, p.right) for p in found.pieces} == {(a["i"], b["y"]), (a["j"], b["x"])}


def test_sizes_that_do_not_divide():
    a, left = _index(i=(4, 3), j=(1, 4))
    b, right = _index(x=(3, 4), y=(1, 3))
    assert match(left, right, list(a.values()), list(b.values()), HINT) is None


def test_different_windows():
    a, left = _index(i=(1, 4))
    b, right = _index(x=(1, 4))
    assert match(left, right + 4, list(a.values()), list(b.values()), HINT) is None


def test_left_over_axes_stay_unpaired():
    a, left = _index(i=(1, 4))
    b, right = _index(x=(1, 4), r=(0, 7))
    found = match(left, right, list(a.values()), list(b.values()), HINT)
    assert [(p.left, p.right) for p in found.pieces] == [(a["i"], b["x"]), (None, b["r"])]
