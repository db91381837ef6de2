"""Guards as JSON: what holds and what does not is the same after the way there and back."""

import json
import types

import pytest
import torch
import triptych_dynamo as td
from triptych_dynamo.codec import NotPortable, make_codec
from triptych_dynamo.guards.portable import check_portable, guards_from_json, guards_to_json, required_globals

SCALE, WEIGHT, LAYERS = 2, torch.ones(3), [1, 2]


def function(x, items, n=1, *, flag=True):
    y = x * SCALE + WEIGHT + items["a"] + len(LAYERS)
    return torch.relu(y) + n if flag else y


def there_and_back(guards):
    rows = json.loads(json.dumps(guards_to_json(guards)))
    return guards_from_json(rows), [row for row in rows if "dropped" in row]


def arguments(**changes):
    return {"x": torch.ones(3), "items": {"a": 5}, "n": 1, "flag": True} | changes


def captured(fn=function, dynamic=None, **changes):
    given = arguments(**changes)
    return td.capture(fn, dynamic=dynamic)(**given)


@pytest.mark.parametrize(
    "change,text",
    [
        ({}, None),
        ({"x": torch.zeros(3)}, None),
        ({"x": torch.ones(4)}, "size mismatch at dimension 0: expected 3, got 4"),
        ({"x": torch.ones(3).double()}, "dtype mismatch"),
        ({"items": {"a": 6}}, r"L\['items'\]\['a'\] == 5: it is 6"),
        ({"items": {}}, "it lacks 'a'"),
        ({"n": 2}, r"L\['n'\] == 1: it is 2"),
        ({"n": True}, r"L\['n'\] == 1"),
        ({"flag": False}, r"L\['flag'\]"),
    ],
)
def test_arguments(change, text):
    guards, _ = there_and_back(captured().guards)
    found = check_portable(guards, arguments(**change), f_globals=globals())
    assert (found is None) == (text is None)
    if found is not None:
        with pytest.raises(AssertionError, match=text):
            raise AssertionError(found[1])
        assert found[0].user_line.startswith(__file__)


@pytest.mark.parametrize(
    "change,good",
    [
        ({"SCALE": 2}, True),
        ({"SCALE": 3}, False),
        ({"WEIGHT": torch.zeros(3)}, True),
        ({"WEIGHT": torch.zeros(1)}, False),
        ({"LAYERS": [5, 6]}, True),
        ({"LAYERS": [5]}, False),
        ({"torch": types.SimpleNamespace(relu=1)}, False),
    ],
)
def test_globals(change, good):
    guards, _ = there_and_back(captured().guards)
    assert {"SCALE", "WEIGHT", "LAYERS", "torch"} <= required_globals(guards)
    f_globals = {name: globals()[name] for name in required_globals(guards)} | change
    assert (check_portable(guards, arguments(), f_globals=f_globals) is None) == good
    del f_globals["SCALE"]
    assert "SCALE" in check_portable(guards, arguments(), f_globals=f_globals)[1]


def test_symbolic_sizes():
    def fn(x):
        return x * 2 if x.shape[0] % 4 == 0 and x.shape[0] > x.shape[1] else x

    guards, _ = there_and_back(td.capture(fn, dynamic=True)(torch.ones(8, 3)).guards)
    for shape, good in (((8, 3), True), ((16, 5), True), ((6, 3), False), ((8, 9), False), ((8, 1), False)):
        assert (check_portable(guards, {"x": torch.ones(shape)}, f_globals=globals()) is None) == good, shape


def test_aliasing_and_memory():
    def fn(x, y):
        x.add_(1)
        return x + y

    guards, _ = there_and_back(td.capture(fn)(torch.ones(4), torch.ones(4)).guards)
    base = torch.zeros(8)
    for pair, good in (((base[:4], base[4:]), True), ((base[:4], base[2:6]), False)):
        assert (check_portable(guards, dict(zip("xy", pair, strict=True)), f_globals=globals()) is None) == good


def test_modes():
    weight = torch.ones(3, requires_grad=True)
    guards, _ = there_and_back(td.capture(lambda x: x * 2)(weight).guards)
    assert check_portable(guards, {"x": weight}, f_globals=globals()) is None
    with torch.no_grad():
        assert "grad_mode" in check_portable(guards, {"x": weight}, f_globals=globals())[1]


class Local:
    value = 3


def test_what_has_no_form_is_named():
    here = Local()
    guards, dropped = there_and_back(td.capture(lambda x, key: x + here.value)(torch.ones(2), 1).guards)
    assert all(row["why"] for row in dropped)
    assert guards and not {"is_weak"} & {guard.kind for guard in guards}


@pytest.mark.parametrize(
    "value",
    [
        *(1, True, None, "text", 1.5, -0.0, float("inf"), 2**70, b"bytes", 1 + 2j, ..., range(1, 9, 2), slice(1, None)),
        *((1, "a", (2.0,)), [1, [2]], {"a": 1, 2: (3,)}, frozenset({1, "a"}), torch.float16, torch.device("cpu", 0)),
        *(torch.strided, torch.channels_last, torch.Size([1, 2]), torch, torch.nn.Linear, torch.relu, len, Local),
        *(torch.nn.functional.gelu, torch.ops.aten.add.Tensor),
    ],
    ids=str,
)
def test_values(value):
    codec = make_codec()
    if isinstance(value, torch._ops.OpOverload):
        with pytest.raises(NotPortable):
            codec.encode(value)
        return
    found = codec.decode(json.loads(json.dumps(codec.encode(value))))
    assert type(found) is type(value) and (isinstance(value, frozenset) or repr(found) == repr(value))
    assert found is value or found == value


@pytest.mark.parametrize("value", [object(), Local(), lambda: 1, torch.ones(1), float])
def test_values_without_a_name(value):
    codec = make_codec()
    if value is float:
        assert codec.decode(codec.encode(value)) is float
        return
    with pytest.raises(NotPortable, match="no name"):
        codec.encode(value)
    with pytest.raises(NotPortable):
        codec.decode({"$": "named", "v": "no_such_module:thing"})
