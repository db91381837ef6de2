"""Saved graphs of programs that return objects, change objects, print, or have sizes known only when they run."""

import collections
import copy
import dataclasses
import json
import logging
import subprocess
import sys
import zipfile

import pytest
import torch
import triptych_dynamo as td

A = torch.arange(12.0).reshape(4, 3) - 5
Pair = collections.namedtuple("Pair", "first second")
LOG, LOGGER = [], logging.getLogger("saved")


@dataclasses.dataclass
class Output(collections.OrderedDict):
    """As model outputs are: a dictionary and a data class."""

    logits: torch.Tensor
    hidden: tuple = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                super().__setitem__(field.name, getattr(self, field.name))

    def __getitem__(self, key):
        return super().__getitem__(key) if isinstance(key, str) else tuple(self.values())[key]


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object
    b: int = 2


@dataclasses.dataclass(slots=True)
class Slotted:
    a: object


def saved(graph, tmp_path, **options):
    graph.save(tmp_path / "graph")
    return td.CapturedGraph.load(tmp_path / "graph", f_globals=globals(), **options)


def same(left, right):
    """Equal values and types, through objects."""
    assert type(left) is type(right)
    if isinstance(left, torch.Tensor):
        assert torch.equal(left, right)
    elif isinstance(left, dict):
        assert list(left) == list(right)
        assert all(same(dict.__getitem__(left, key), dict.__getitem__(right, key)) for key in left)
    elif isinstance(left, (list, tuple, collections.deque)):
        assert len(left) == len(right) and all(map(same, left, right))
    elif not hasattr(left, "__dict__") and not hasattr(left, "__slots__"):
        assert left == right
    if dataclasses.is_dataclass(left):
        assert all(same(getattr(left, field.name), getattr(right, field.name)) for field in dataclasses.fields(left))
    return True


# -- results -----------------------------------------------------------------------------------------------------------
def model_output(x):
    return Output(logits=x * 2, hidden=(x, x + 1))


def data_classes(x):
    return Frozen(x * 2), Slotted(x + 1), [Frozen(1)], {"k": Slotted(None)}


def containers(x):
    counter = collections.Counter("aab")
    items = collections.defaultdict(list, a=[x * 3])
    return counter, items, collections.deque([x, 1], maxlen=3), {1, 2}, frozenset("a"), x.max(0), Pair(x, 2), x.shape


def changed_model_output(x):
    out = Output(logits=x * 2)
    out.extra = out["logits"] + 1
    return out


RESULTS = [model_output, data_classes, containers, changed_model_output]


@pytest.mark.parametrize("fn", RESULTS, ids=[fn.__name__ for fn in RESULTS])
def test_results(fn, tmp_path):
    assert same(saved(td.capture(fn)(A), tmp_path)(A), fn(A))


def test_what_the_result_shares(tmp_path):
    def fn(x):
        items = [x * 2]
        frozen = Frozen(items)
        return items, {"again": items}, frozen, [frozen]

    items, again, frozen, listed = saved(td.capture(fn)(A), tmp_path)(A)
    assert again["again"] is items and frozen.a is items and listed[0] is frozen


def test_result_that_is_an_argument(tmp_path):
    items = [1]
    assert saved(td.capture(lambda x, given: (x * 2, given))(A, items), tmp_path)(A, items)[1] is items


# -- changes -----------------------------------------------------------------------------------------------------------
def changes_list(x, items):
    items.append(x * 2)
    items[0] = None
    return x + 1


def changes_dictionary(x, mapping):
    mapping["new"] = x * 3
    mapping.pop("old", None)
    mapping["nested"]["deep"] = [x, mapping["nested"]]


def changes_set_and_deque(x, members, queue):
    members.add(5)
    members.discard(1)
    queue.append(x)
    queue.rotate(1)
    return x


def changes_object(x, frozen, slotted):
    slotted.a = x * 2
    object.__setattr__(frozen, "b", 9)
    return frozen.b


def returns_what_it_changed(x, items):
    before = items[0]
    items[0] = x * 2
    return before, items[0], items


CHANGES = [
    (changes_list, ([1, 2],)),
    (changes_dictionary, ({"old": 1, "nested": {}},)),
    (changes_set_and_deque, ({1, 2}, collections.deque([1]))),
    (changes_object, (Frozen(1), Slotted(1))),
    (returns_what_it_changed, ([A],)),
]


@pytest.mark.parametrize("fn,rest", CHANGES, ids=[fn.__name__ for fn, _ in CHANGES])
def test_changes(fn, rest, tmp_path):
    again = saved(td.capture(fn)(A, *copy.deepcopy(rest)), tmp_path)
    got, expected = copy.deepcopy(rest), copy.deepcopy(rest)
    if fn is changes_dictionary:  # the result contains itself
        again(A, *got)
        assert got[0]["nested"]["deep"][1] is got[0]["nested"] and "old" not in got[0]
        return
    assert same(again(A, *got), fn(A, *expected))
    assert same(got, expected)


def changes_global(x):
    LOG.append(x.shape)
    return x


def test_globals_of_the_caller(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "LOG", [])
    again = saved(td.capture(changes_global)(A), tmp_path)
    assert LOG == []
    again(A)
    assert LOG == [A.shape]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 2)
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        self.mean = self.mean * 0.5 + x.mean(0)
        self.last = x
        return self.inner(x)


def test_changes_of_the_module(tmp_path):
    net, other = Net(), Net()
    other.load_state_dict(net.state_dict())
    graph = td.capture(net)(A)
    graph.save(tmp_path / "graph")
    with pytest.raises(td.NotPortable, match="owner="):
        td.CapturedGraph.load(tmp_path / "graph", f_globals=globals())
    again = td.CapturedGraph.load(tmp_path / "graph", owner=net, f_globals=globals())
    assert same(again(A), other(A)) and same(net.mean, other.mean) and net.last is A
    assert "mean" in net._buffers


def test_output(tmp_path, capsys, caplog):
    def fn(x):
        print("shape", x.shape, sep=": ")
        LOGGER.warning("value %s", x[0, 0])
        print(x.sum(), end="!\n")
        return x

    again = saved(td.capture(fn)(A), tmp_path)
    assert capsys.readouterr().out == "" and not caplog.records
    with caplog.at_level(logging.WARNING):
        again(A)
    assert capsys.readouterr().out == f"shape: {A.shape}\n{A.sum()!s}!\n"
    assert caplog.messages == [f"value {A[0, 0]!s}"]


# -- sizes known only when the graph runs ------------------------------------------------------------------------------
def masked(x):
    return x[x > 0] * 2, x.masked_select(x > 1)


def counted(x):
    found = x.nonzero()
    return found.sum(), found.shape[0], found.shape[0] * 2 + 1


def from_a_number(x):
    number = int(x.abs().sum())
    return torch.zeros(number) + 1, number


def bounded(x):
    number = x[0, 0].abs().long().item()
    torch._check(number <= 5)
    torch._check(number >= 0)
    return torch.arange(number), x[:number]


def distinct(x):
    return torch.unique(x), torch.repeat_interleave(x, torch.tensor([1, 2, 0, 1]), dim=0)


UNBACKED = [masked, counted, from_a_number, bounded, distinct]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("fn", UNBACKED, ids=[fn.__name__ for fn in UNBACKED])
def test_unbacked_sizes(fn, dynamic, tmp_path):
    """Also with other numbers, and as a program that is captured again: the same graph."""
    graph = td.capture(fn, dynamic=dynamic)(A)
    again = saved(graph, tmp_path)
    for x in (A, A.flip(0).abs().clamp(max=5), A * 0.5):
        assert same(again(x), fn(x))
    twice = td.capture(again.graph_module, dynamic=dynamic)(A)
    calls = [[str(node.target) for node in module.graph.nodes] for module in (graph.lifted, twice.lifted)]
    assert calls[0][1:] == calls[1][1:]


def test_a_broken_promise_is_an_error(tmp_path):
    again = saved(td.capture(bounded)(A), tmp_path)
    with pytest.raises(RuntimeError):
        again(A * 100)


# -- files -------------------------------------------------------------------------------------------------------------
def test_in_another_process(tmp_path):
    pytest.importorskip("transformers")
    from transformers.modeling_outputs import BaseModelOutput  # noqa: PLC0415

    def fn(x, items):
        items.append(x.sum())
        return BaseModelOutput(last_hidden_state=x[x > 0], hidden_states=(x,))

    td.capture(fn)(A, []).save(tmp_path / "graph")
    code = (
        "import torch, triptych_dynamo as td\n"
        f"graph = td.CapturedGraph.load({str(tmp_path / 'graph')!r}, f_globals={{}})\n"
        "items = []\n"
        "out = graph(torch.arange(12.0).reshape(4, 3) - 5, items)\n"
        "print(type(out).__name__, out.last_hidden_state.shape, out[1][0].shape, items)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "BaseModelOutput torch.Size([6]) torch.Size([4, 3]) [tensor(6.)]\n", done.stderr


BAD_ROWS = [
    [["class", "subprocess:Popen"], ["const", "true"], ["call", 0, [1], []], ["result", 2]],
    [["callable", "os.system"], ["const", "true"], ["call", 0, [1], []], ["result", 2]],
    [["const", {"$": "named", "v": "os:system"}], ["const", "true"], ["call", 0, [1], []], ["result", 2]],
    [["const", "a"], ["attr", 0, "format"], ["call", 1, [0], []], ["result", 2]],
    [["class", "test_saved_endings:Output"], ["call", 0, [], []], ["result", 1]],
]


@pytest.mark.parametrize("rows", BAD_ROWS, ids=range(len(BAD_ROWS)))
def test_files_that_call_something_else_are_refused(rows, tmp_path):
    td.capture(lambda x: x + 1)(A).save(tmp_path / "graph")
    with zipfile.ZipFile(tmp_path / "graph") as archive:
        data = json.loads(archive.read("graph.json"))
    data["ending"] = rows
    with zipfile.ZipFile(tmp_path / "bad", "w") as archive:
        archive.writestr("graph.json", json.dumps(data))
    with pytest.raises(td.NotPortable):
        td.CapturedGraph.load(tmp_path / "bad", f_globals=globals())
