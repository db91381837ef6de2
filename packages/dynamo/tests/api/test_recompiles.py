"""The policy at the recompile limit, per compiled callable and frame."""

import warnings

import pytest
import torch
import triptych_dynamo as td


def compiles(compiled):
    return len(td.region_of(compiled).records)


def with_text(x, text):
    return x + len(text)


def summed(*tensors):
    total = tensors[0].sum()
    for tensor in tensors[1:]:
        total = total + tensor.sum()
    return total


def test_error_names_the_guard_and_the_line():
    compiled = td.optimize("eager", recompile_limit=2, on_limit="error")(with_text)
    for text in ("a", "bb"):
        compiled(torch.ones(1), text)
    with pytest.raises(td.RecompileLimitError, match=r"compiled 2 times.*L\['text'\] == 'bb'.*test_recompiles.py"):
        compiled(torch.ones(1), "ccc")
    assert compiled(torch.ones(1), "a").item() == 2, "entries go on serving"


@pytest.mark.parametrize("policy", ["eager", "generalise"])
def test_eager_is_announced_once_and_right(policy):
    compiled = td.optimize("eager", recompile_limit=2, on_limit=policy)(with_text)
    compiled(torch.ones(1), "a"), compiled(torch.ones(1), "bb")
    with pytest.warns(td.RecompileLimitWarning, match="runs eagerly") as caught:
        assert compiled(torch.ones(1), "ccc").item() == 4
        assert compiled(torch.ones(1), "dddd").item() == 5
    assert len(caught) == 1 and compiles(compiled) == 2


def test_generalising_lets_all_that_differed_vary():
    """One dimension after the other differs; beyond the limit each tensor takes one compile and not one a dimension."""
    compiled = td.optimize("eager", recompile_limit=3)(summed)
    base = [(4, 5, 6)] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("error", td.RecompileLimitWarning)
        compiled(*(torch.ones(shape) for shape in base))
        for tensor in range(3):
            for dim in range(3):
                for size in (7, 8, 9):
                    shapes = [list(shape) for shape in base]
                    shapes[tensor][dim] = size
                    args = [torch.ones(shape) for shape in shapes]
                    assert torch.equal(compiled(*args), summed(*args))
    assert compiles(compiled) <= 3 + 3


def test_no_generalising_where_dynamic_is_off():
    compiled = td.optimize("eager", recompile_limit=2, dynamic=False)(lambda x: x * 2)
    compiled(torch.ones(2)), compiled(torch.ones(3))
    with pytest.warns(td.RecompileLimitWarning, match="size mismatch"):
        assert compiled(torch.ones(4)).tolist() == [2.0] * 4
    assert compiles(compiled) == 2


def test_limits_and_entries_belong_to_the_callable():
    first, second = (td.optimize("eager", recompile_limit=limit, on_limit="error")(with_text) for limit in (1, 3))
    x = torch.ones(1)
    first(x, "a")
    for text in ("a", "bb", "ccc"):
        second(x, text)
    with pytest.raises(td.RecompileLimitError):
        first(x, "bb")
    assert (compiles(first), compiles(second)) == (1, 3)
    assert (len(first.entries), len(second.entries)) == (1, 3)


def test_unknown_policy():
    with pytest.raises(ValueError, match="on_limit is one of generalise, error, eager"):
        td.optimize("eager", on_limit="give up")
