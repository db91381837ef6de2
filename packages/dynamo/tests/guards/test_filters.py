"""What users see of guards, and filters that drop some of them."""

import pytest
import torch
import triptych_dynamo as td
from triptych_dynamo.guards.facts import KINDS
from triptych_dynamo.guards.filters import GUARD_TYPES

SCALE = 2


class Own(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)
        self.factor = 3.0

    def forward(self, x):
        return self.inner(x) * self.factor * SCALE


def function(x, n=1, *, flag=True):
    return x * SCALE + n if flag else x


def entries_of(fn, *args, **kwargs):
    seen = []

    def keep(entries):
        seen.extend(entries)
        return [True] * len(entries)

    td.optimize("eager", guard_filter_fn=keep)(fn)(*args, **kwargs)
    return seen


def compiles(compiled):
    return len(td.region_of(compiled).records)


def test_every_kind_has_a_public_name():
    assert set(GUARD_TYPES) == set(KINDS)


def test_entries_tell_what_where_and_why():
    x = torch.ones(3)
    by_name = {entry.name: entry for entry in entries_of(function, x, 5) if entry.name}
    tensor, scale = by_name["L['x']"], by_name["G['SCALE']"]
    assert tensor.guard_type == "TENSOR_MATCH" and tensor.value is x and not tensor.is_global
    assert scale.guard_type == "EQUALS_MATCH" and scale.is_global and scale.value == 2 == scale.orig_guard.value
    assert by_name["L['n']"].has_value and by_name["L['flag']"].value is True
    line = function.__code__.co_firstlineno + 1
    assert scale.user_line == f"{__file__}:{line}" and "G['SCALE'] == 2" in str(scale)
    modes = {entry.guard_type for entry in entries_of(function, x) if not entry.name}
    assert {"GLOBAL_STATE", "GRAD_MODE"} <= modes


def test_entries_know_modules_and_parameters():
    entries = entries_of(Own(), torch.ones(1, 2))
    weights = [entry for entry in entries if entry.is_parameter]
    assert {entry.name.rpartition("[")[2] for entry in weights} == {"'weight']", "'bias']"}
    assert all(entry.module_types[-2:] == (Own, torch.nn.Linear) for entry in weights)
    factor = next(entry for entry in entries if entry.name.endswith("['factor']"))
    assert factor.module_types == (Own,)


def changed_module(model):
    model.factor = 5.0


def changed_inner(model):
    model.inner = torch.nn.Linear(2, 2, bias=False)


def changed_global(model):
    globals()["SCALE"] = 7


@pytest.fixture
def restored():
    yield
    globals()["SCALE"] = 2


@pytest.mark.parametrize(
    "keep,change,stale",
    [
        (td.skip_all_guards_unsafe, changed_module, True),
        (td.skip_all_guards_unsafe, changed_global, True),
        (td.skip_guard_on_globals_unsafe, changed_global, True),
        (td.skip_guard_on_globals_unsafe, changed_module, False),
        (td.skip_guard_on_all_nn_modules_unsafe, changed_module, True),
        (td.skip_guard_on_all_nn_modules_unsafe, changed_global, False),
        (td.skip_guard_on_inbuilt_nn_modules_unsafe, changed_module, False),
        (td.keep_tensor_guards_unsafe, changed_global, True),
        (td.keep_tensor_guards_unsafe, changed_module, True),
        (td.keep_portable_guards_unsafe, changed_module, True),
        (None, changed_module, False),
        (None, changed_inner, False),
        (None, changed_global, False),
    ],
)
def test_what_is_dropped_goes_unnoticed(restored, keep, change, stale):
    model, x = Own(), torch.ones(1, 2)
    compiled = td.optimize("eager", guard_filter_fn=keep, dynamic=False)(model)
    before = compiled(x)
    change(model)
    after = compiled(x)
    assert compiles(compiled) == (1 if stale else 2)
    assert torch.equal(after, before if stale else model(x))


def test_dropped_facts_of_inbuilt_modules():
    model, x = Own(), torch.ones(1, 2)
    compiled = td.optimize("eager", guard_filter_fn=td.skip_guard_on_inbuilt_nn_modules_unsafe)(model)
    compiled(x)
    model.inner.in_features = 99  # of torch's own module
    model.inner.weight = torch.nn.Parameter(torch.zeros(2, 2))
    assert torch.equal(compiled(x), model(x)) and compiles(compiled) == 1, "weights are inputs all the same"


def test_tensor_guards_alone():
    compiled = td.optimize("eager", guard_filter_fn=td.keep_tensor_guards_unsafe, dynamic=False)(Own())
    compiled(torch.ones(1, 2))
    compiled(torch.ones(5, 2))
    assert compiles(compiled) == 2
    found = entries_of(Own(), torch.ones(1, 2))
    kept = [entry for entry, keep in zip(found, td.keep_tensor_guards_unsafe(found)) if keep]
    assert len(kept) == 1 and kept[0].value.shape == (1, 2)
    assert sum(td.keep_tensor_guards_unsafe(found, keep_parameters=True)) == 3


@pytest.mark.parametrize("answer,error", [([True], ValueError), ([1] * 100, TypeError)])
def test_a_wrong_answer_is_an_error(answer, error):
    with pytest.raises(error, match="guard_filter_fn"):
        td.optimize("eager", guard_filter_fn=lambda entries: answer)(function)(torch.ones(2))
