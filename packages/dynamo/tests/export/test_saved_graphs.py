"""Captured graphs on disk: called again with the same results, guards live, nothing unknown read or written."""

import collections
import json
import subprocess
import sys
import zipfile

import pytest
import torch
import triptych_dynamo as td

SCALE, TABLE = 3.0, torch.arange(3.0)
Pair = collections.namedtuple("Pair", "first second")
A = torch.linspace(-1, 1, 12).reshape(4, 3)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
        self.register_buffer("shift", torch.ones(2))
        self.factor = 2.0

    def forward(self, x, *, scale=1.0):
        return {"out": self.inner(x).relu() * scale + self.shift * self.factor, "size": x.shape}


def simple(x, n=2, *, flag=True):
    y = x.sin() * n + TABLE * SCALE
    return Pair(y, (x if flag else y, [y.sum(), None, 1.5]))


def arguments(x, *rest, key=1, **more):
    return rest[0] + x * key + more["a"], torch.cat([*rest], dim=0)[..., 1:, None]


def with_no_grad(x):
    with torch.no_grad():
        y = x * 2
    return y + x, x.T, x.to(torch.float64), x.reshape(-1)[::2], x.clamp(min=0), torch.ops.aten.add.Tensor(x, 1)


def in_place(x):
    y = x.clone()
    y.add_(1).mul_(2)
    y[0] = 5
    return y


def branches(x, y):
    def inner(a, b):
        return torch.cond(b.sum() > 0, lambda a, b: a * b, lambda a, b: a - b, (a, b))

    return torch.cond(x.sum() > 0, inner, lambda a, b: a + b, (x, y)) * 2


PROGRAMS = [
    (branches, (A.abs(), A.abs()), {}),
    (branches, (A.abs(), A.abs().clone().requires_grad_()), {}),
    (simple, (A[0],), {}),
    (simple, (A[0], 3), {"flag": False}),
    (arguments, (A, A + 1, A + 2), {"key": 2, "a": A}),
    (with_no_grad, (A,), {}),
    (in_place, (A,), {}),
    (lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x), (A[None],), {}),
]


def same(left, right):
    leaves, spec = torch.utils._pytree.tree_flatten(left)
    others, other_spec = torch.utils._pytree.tree_flatten(right)
    assert spec == other_spec
    for one, two in zip(leaves, others, strict=True):
        assert type(one) is type(two)
        assert torch.equal(one, two) if isinstance(one, torch.Tensor) else one == two
    return True


def saved(graph, tmp_path, **options):
    graph.save(tmp_path / "graph")
    return td.CapturedGraph.load(tmp_path / "graph", f_globals=globals(), **options)


@pytest.mark.parametrize("fn,args,kwargs", PROGRAMS, ids=[f"{row[0].__name__}-{i}" for i, row in enumerate(PROGRAMS)])
def test_programs(fn, args, kwargs, tmp_path):
    graph = td.capture(fn)(*args, **kwargs)
    again = saved(graph, tmp_path)
    assert same(again(*args, **kwargs), fn(*args, **kwargs))
    assert str(again.graph_module.graph) == str(graph.graph_module.graph)
    for old, new in zip(graph.graph_module.graph.nodes, again.graph_module.graph.nodes, strict=True):
        values = (old.meta["val"], new.meta["val"])
        if isinstance(values[0], torch.Tensor):
            old_facts, new_facts = ((v.shape, v.stride(), v.dtype, v.device, v.requires_grad) for v in values)
            assert old_facts == new_facts
        assert old.meta.get("stack_trace") == new.meta.get("stack_trace")


def test_guards_are_live(tmp_path, monkeypatch):
    again = saved(td.capture(simple)(A[0]), tmp_path)
    for args, kwargs, text in (
        ((A,), {}, "rank mismatch"),
        ((A[0].double(),), {}, "dtype mismatch"),
        ((A[0], 5), {}, r"L\['n'\] == 2: it is 5"),
        ((A[0],), {"flag": False}, r"L\['flag'\]"),
    ):
        with pytest.raises(td.GuardViolation, match=text):
            again(*args, **kwargs)
        assert again.guard_check(*args, **kwargs) is not None
    monkeypatch.setitem(globals(), "TABLE", torch.zeros(3))
    assert same(again(A[0]), simple(A[0])), "global tensors are read at each call"
    monkeypatch.setitem(globals(), "SCALE", 4.0)
    with pytest.raises(td.GuardViolation, match="SCALE"):
        again(A[0])
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        again()


def test_missing_globals(tmp_path):
    td.capture(simple)(A[0]).save(tmp_path / "graph")
    with pytest.raises(KeyError, match="SCALE, TABLE"):
        td.CapturedGraph.load(tmp_path / "graph", f_globals={"torch": torch, "Pair": Pair})


def test_modules(tmp_path):
    net = Net()
    graph = td.capture(net)(A, scale=0.5)
    assert set(graph.attributes.values()) == {name for name, _ in [*net.named_parameters(), *net.named_buffers()]}
    alone = saved(graph, tmp_path)
    expected = net(A, scale=0.5)
    assert same(alone(A, scale=0.5), expected)
    with torch.no_grad():
        net.shift.add_(1)
    with_owner = td.CapturedGraph.load(tmp_path / "graph", owner=net, f_globals=globals())
    assert same(alone(A, scale=0.5), expected) and same(with_owner(A, scale=0.5), net(A, scale=0.5))
    net.factor = 3.0
    with pytest.raises(td.GuardViolation, match="factor"):
        with_owner(A, scale=0.5)


def test_gradients_flow(tmp_path):
    net = Net()
    alone = saved(td.capture(net)(A), tmp_path)
    alone(A)["out"].sum().backward()
    grads = {alone.attributes[name]: tensor.grad for name, tensor in alone.tensors.items()}
    net(A)["out"].sum().backward()
    assert all(torch.equal(grads[name], parameter.grad) for name, parameter in net.named_parameters())


def test_symbolic_sizes(tmp_path):
    def fn(x, y):
        return (x.reshape(-1) * x.shape[0], x.shape[0] + y.shape[1]) if x.shape[0] % 2 == 0 else x

    again = saved(td.capture(fn, dynamic=True)(torch.ones(4, 3), torch.ones(2, 5)), tmp_path)
    for rows, columns in ((6, 2), (8, 9)):
        args = torch.ones(rows, 3), torch.ones(2, columns)
        assert same(again(*args), fn(*args))
    with pytest.raises(td.GuardViolation, match="Mod|floor"):
        again(torch.ones(3, 3), torch.ones(2, 5))


def test_in_another_process(tmp_path):
    td.capture(Net())(A).save(tmp_path / "graph")
    code = (
        "import sys, torch, triptych_dynamo as td\n"
        f"graph = td.CapturedGraph.load({str(tmp_path / 'graph')!r}, f_globals={{'torch': torch}})\n"
        "x = torch.linspace(-1, 1, 12).reshape(4, 3)\n"
        "print(graph(x)['out'].shape, graph.name)\n"
        "graph(x, scale=2.0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "torch.Size([4, 2])" in done.stdout and "GuardViolation: len(L['kwargs']) == 0" in done.stderr, done.stderr


# -- what is refused ---------------------------------------------------------------------------------------------------
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Thing:
    def __init__(self, x):
        self.x = x


def counted():
    count = 0

    def fn(x):
        nonlocal count
        count += 1
        return x * 2

    return fn


@pytest.mark.parametrize(
    "fn,text",
    [
        (lambda x: Own.apply(x), "Own_apply"),
        (lambda x: Thing(x), "only the program can make"),
        (lambda x: (x, lambda: 1), "function"),
        (lambda x: (i for i in (x, x)), "generator"),
        (counted(), "COUNT|count|closure"),
    ],
)
def test_what_cannot_be_saved_says_why(fn, text, tmp_path):
    graph = td.capture(fn)(A)
    with pytest.raises(td.NotPortable, match=text):
        graph.save(tmp_path / "graph")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "target",
    ["os:system", "torch:load", "torch.serialization:load", "torch.hub:load", "builtins:eval", "op:__builtins__"],
)
def test_functions_that_no_graph_calls_are_not_loaded(target, tmp_path):
    td.capture(lambda x: torch.relu(x))(A).save(tmp_path / "graph")
    with zipfile.ZipFile(tmp_path / "graph") as archive:
        data = json.loads(archive.read("graph.json"))
    node = next(node for node in data["graph"]["nodes"] if node["op"] == "call_function")
    node["target"] = target
    with zipfile.ZipFile(tmp_path / "bad", "w") as archive:
        archive.writestr("graph.json", json.dumps(data))
    with pytest.raises((td.NotPortable, AttributeError)):
        td.CapturedGraph.load(tmp_path / "bad", f_globals=globals())


def test_files_that_are_no_graphs(tmp_path):
    (tmp_path / "text").write_text("nothing")
    with pytest.raises(ValueError, match="is no saved graph"):
        td.CapturedGraph.load(tmp_path / "text")
    td.capture(lambda x: x + 1)(A).save(tmp_path / "graph")
    damaged = bytearray((tmp_path / "graph").read_bytes())
    damaged[100] ^= 255
    (tmp_path / "graph").write_bytes(damaged)
    with pytest.raises(ValueError):
        td.CapturedGraph.load(tmp_path / "graph")


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.int8, torch.bool, torch.complex64, torch.float64, torch.int64]
)
def test_constants_of_every_type(dtype, tmp_path):
    constant = torch.arange(6).reshape(2, 3).to(dtype).t()
    again = saved(td.capture(lambda x: (x + 1, constant))(A), tmp_path)
    found = again(A)[1]
    assert torch.equal(found, constant) and found.stride() == constant.stride() and found.dtype == dtype
