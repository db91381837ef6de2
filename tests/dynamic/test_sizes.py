"""Sizes that change: found by themselves, marked, 0 and 1, layouts, decisions, errors of marks."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import triptych
import triptych_dynamo as td
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from tests.dynamic.rows import Row, assert_same, over_backends, rows, run


def fixed(fn: Any) -> Any:
    return lambda: fn


def numbers(*shape: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape) / 7 - 1


def sizes(*rows_: int, columns: int = 4) -> list[tuple[torch.Tensor]]:
    return [(numbers(n, columns),) for n in rows_]


def branch(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.shape[0] > 6 else x - 1


def several(x: torch.Tensor) -> Any:
    n, m = x.shape
    return (
        x.view(-1),
        x.reshape(m, n),
        x.t().contiguous(),
        x.flatten() * n,
        torch.zeros(n * 2),
        (n // 2, n % 3, -n, n * m),
    )


def functions(x: torch.Tensor, k: int) -> Any:
    n = x.shape[0]
    spread = torch.zeros(abs(n - k)) + x.sum(), torch.zeros(n * k, k + 3) * x[0, 0]  # gradients tell neither n nor k
    return *spread, x[: math.floor(n / 2)] * 2, x[round(n / 3) :].sin(), torch.zeros(n << 1) + 1


def parts(x: torch.Tensor) -> Any:
    return x.chunk(2), x.split(3), x.unbind(1), F.pad(x, (1, 2)), x[1:-1], x[::2], x.tensor_split(2)


def joined(x: torch.Tensor) -> Any:
    return torch.cat([x, x[:1], x]), torch.stack([x, x], 1), x.repeat(2, 1), x[None].expand(3, -1, -1), x.roll(1, 0)


def reduced(x: torch.Tensor) -> Any:
    return x.sum(0), x.mean(), x.softmax(0), x.cumsum(0), F.layer_norm(x, (4,)), x.argmax(1), x.std(0), x.norm()


def attention(x: torch.Tensor) -> torch.Tensor:
    q = x.view(x.shape[0], 2, 2).transpose(0, 1)
    mask = torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(q, q, q, attn_mask=mask).transpose(0, 1).reshape(x.shape[0], -1)


def layouts(x: torch.Tensor, w: torch.Tensor) -> Any:
    """Results that do not lie in the order of their dimensions: their gradients come in the same order."""
    n, places = x.shape[0], torch.arange(x.shape[0])
    table = F.embedding((places[:, None] - places).abs() % 5, w)
    images = (x[:, :, None, None] * w[:4, :2, None].expand(4, 2, 3)).contiguous(memory_format=torch.channels_last)
    return table.permute(2, 0, 1), (x @ w.t()).t().exp(), x.view(n, 2, 2).transpose(0, 2).sin(), images.cos(), x.cos()


def padded(parts: list[torch.Tensor]) -> torch.Tensor:
    return nn.utils.rnn.pad_sequence(parts, batch_first=True) * 2


def two(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x + y) * x.shape[0]


def images(*batches: int) -> list[tuple[torch.Tensor]]:
    return [(numbers(n, 3, 6, 6).to(memory_format=torch.channels_last),) for n in batches]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2))


def leaves(*rows_: int) -> list[tuple[torch.Tensor, ...]]:
    return [(numbers(n, 4).requires_grad_(), (numbers(5, 4) * 2).requires_grad_()) for n in rows_]


LEAVES = {n: numbers(n, 4).requires_grad_() for n in (5, 7, 9, 12)}
AUTOMATIC = [
    Row("rows", fixed(lambda x: x * 2), sizes(8, 9, 10, 12), 2),
    Row("both", fixed(lambda x: x @ x.t()), [(numbers(8, 8),), (numbers(9, 10),), (numbers(11, 3),)], 2),
    Row("several", fixed(several), sizes(8, 9, 10, 7), 2),
    Row("functions", fixed(functions), [(LEAVES[n], k) for n, k in ((7, 3), (9, 4), (12, 6), (5, 8))], 2, train=True),
    Row("parts", fixed(parts), sizes(8, 9, 11), 3),
    Row("padded", fixed(padded), [([numbers(n, 2), numbers(m, 2)],) for n, m in ((3, 4), (5, 2), (7, 6))], 2),
    Row("joined", fixed(joined), sizes(8, 9, 11), 2),
    Row("reduced", fixed(reduced), sizes(8, 9, 11), 2),
    Row("attention", fixed(attention), sizes(8, 9, 11), 2),
    Row("branch", fixed(branch), sizes(8, 9, 4, 3, 20), 3),
    Row("duck", fixed(two), [(numbers(n, 4), numbers(n, 4)) for n in (8, 9, 10)], 2),
    Row("broadcast", fixed(two), [(numbers(n, 4), numbers(1, 4)) for n in (8, 9, 10)], 2),
    Row("channels-last", fixed(lambda x: (x.relu(), x.mean((2, 3)), F.avg_pool2d(x, 2))), images(2, 4, 5), 2),
    Row("expanded", fixed(lambda x: x * 2), [(numbers(n, 1).expand(n, 5),) for n in (8, 9, 10)], 2),
    Row("transposed", fixed(lambda x: x * 2), [(numbers(5, n).t(),) for n in (8, 9, 10)], 2),
    Row("strided", fixed(lambda x: x * 2), [(numbers(n, 20)[:, :n],) for n in (8, 9, 10)], 2),
    Row("to-one", fixed(lambda x: x * 2), sizes(8, 9, 1, 0, 2, 5), 3),
    Row("train", network, [(numbers(n, 4),) for n in (8, 9, 12)], 2, train=True),
    Row("layouts-train", fixed(layouts), leaves(8, 9, 11), 2, train=True),
    Row("layouts-from-one", fixed(layouts), leaves(1, 4, 3), 1, train=True, dynamic=True),
    Row("dynamic-true", fixed(several), sizes(8, 9, 3, 2), 2, dynamic=True),
    Row("dynamic-true-to-one", fixed(lambda x: x.sin()), sizes(2, 5, 1, 0, 7), 1, dynamic=True),
    Row("dynamic-false", fixed(lambda x: x * 2), sizes(8, 9, 10), 3, dynamic=False),
]


@over_backends
@rows(AUTOMATIC)
def test_automatic(row: Row, backend: str) -> None:
    run(row, backend)


# -- marks -------------------------------------------------------------------------------------------------------------
TINY = (1, 0, 2, 5, 1, 9)


def marked(*rows_: int, mark: Any = td.mark_dynamic, **facts: Any) -> list[tuple[Any, ...]]:
    calls = sizes(*rows_)
    for (x,) in calls:
        mark(x, 0, **facts)
    return calls


class Marking:
    """Marks its argument itself: copies of tensors, which the tests make, have no marks."""

    def __init__(self, fn: Any, mark: Any = td.mark_dynamic, **facts: Any) -> None:
        self.fn, self.mark, self.facts = fn, mark, facts

    def compiled(self, **how: Any) -> Any:
        inner = triptych.compile(self.fn, **how)

        def call(*args: torch.Tensor) -> Any:
            for arg in args:
                self.mark(arg, 0, **self.facts)
            return inner(*args)

        call.report = lambda: triptych.report(inner)  # type: ignore[attr-defined]
        return call


def count(marking: Marking, calls: list[tuple[torch.Tensor, ...]], backend: str, **how: Any) -> int:
    compiled = marking.compiled(backend=backend, **how)
    for args in calls:
        assert_same(compiled(*args), marking.fn(*args))
    return len(compiled.report().graphs)


WEIGHT = numbers(4, 3)
GENERAL = {
    "elementwise": lambda x: (x.sin() + 1) * x,
    "broadcast": lambda x: x + numbers(4),
    "product": lambda x: x @ WEIGHT,
    "linear": lambda x: F.linear(x, WEIGHT.t(), numbers(3)),
    "softmax": lambda x: x.softmax(1),
    "layer-norm": lambda x: F.layer_norm(x, (4,)),
    "sum": lambda x: (x.sum(0), x.sum(), x.sum(1)),
    "view": lambda x: (x.view(-1), x.reshape(-1, 2), x.flatten(), x.unsqueeze(1)),
    "sizes": lambda x: (x.shape[0], x.numel(), torch.zeros(x.shape[0]), x * x.shape[0]),
    "join": lambda x: torch.cat([x, x]),
    "transposed": lambda x: x.t() * 2,
    "slice": lambda x: x[:, 1:],
    "index": lambda x: x[torch.arange(x.shape[0])],
    "mask": lambda x: torch.where(x > 0, x, x * 0.1),
    "pairs": lambda x: x[:, None] - x[None],
}


@over_backends
@pytest.mark.parametrize("name", GENERAL)
def test_marked_sizes_of_zero_and_one_cost_no_compile(name: str, backend: str) -> None:
    assert count(Marking(GENERAL[name]), sizes(*TINY), backend, fullgraph=True) == 1


@over_backends
def test_what_was_taken_for_granted_holds_in_the_call_itself(backend: str) -> None:
    calls = [(numbers(n, 4), numbers(m, 4)) for n, m in ((3, 3), (1, 5), (5, 1), (1, 1), (4, 4), (2, 1))]
    assert count(Marking(two), calls, backend) > 1
    assert count(Marking(lambda x: x.sum(0) if x.shape[0] else x), sizes(3, 0, 1), backend) >= 2
    extreme = Marking(lambda x: x.amax(0))
    compiled = extreme.compiled(backend=backend)
    for n in (1, 3):
        assert_same(compiled(numbers(n, 4)), extreme.fn(numbers(n, 4)))
    with pytest.raises(IndexError, match="non-zero size"):
        compiled(numbers(0, 4))


@over_backends
def test_a_decision_is_guarded(backend: str) -> None:
    assert count(Marking(branch), sizes(8, 9, 3, 4, 1, 0), backend) == 4


@pytest.mark.parametrize("mark", [td.mark_dynamic, td.maybe_mark_dynamic, td.mark_unbacked])
def test_every_mark_opens_the_size(mark: Any) -> None:
    assert count(Marking(lambda x: x * 2, mark), sizes(3, 5, 1), "eager") == 1


def test_bounds() -> None:
    marking = Marking(lambda x: x * 2, min=2, max=64)
    assert count(marking, sizes(3, 64, 2, 50), "eager") == 1
    assert count(marking, sizes(3, 64, 65), "eager") == 2


def test_static_mark() -> None:
    marking = Marking(lambda x: x * 2, td.mark_static)
    assert count(marking, sizes(3, 5, 7), "eager", dynamic=True) == 3


def fixes(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(5, 4)


def branches(x: torch.Tensor) -> torch.Tensor:
    a, b = x.shape
    if a > b:
        return x
    if a < b:
        return x + 1
    if a + b != 10:
        return x + 2
    return x + 3


VIOLATIONS = [
    ("added", fixes, (5, 4), 0, 1),
    ("branches", branches, (5, 5), (0, 1), 6),
    ("constant", lambda x: torch.zeros(int(x.shape[0])).view(5), (5, 4), 0, 0),
]


@pytest.mark.parametrize(("name", "fn", "shape", "dims", "line"), VIOLATIONS)
def test_a_mark_that_the_program_contradicts_is_an_error(name: str, fn: Any, shape: Any, dims: Any, line: int) -> None:
    x = numbers(*shape)
    td.mark_dynamic(x, dims)
    with pytest.raises(td.ConstraintViolationError, match="mark_dynamic") as caught:
        triptych.compile(fn, backend="eager")(x)
    assert f"{__file__}:{fn.__code__.co_firstlineno + line}" in str(caught.value)
    y = numbers(*shape)
    td.maybe_mark_dynamic(y, dims)
    assert_same(triptych.compile(fn, backend="eager")(y), fn(y))


def test_a_bound_that_the_program_narrows_is_an_error() -> None:
    x = numbers(8, 4)
    td.mark_dynamic(x, 0, min=4, max=100)
    with pytest.raises(td.ConstraintViolationError, match="min=4, max=100"):
        triptych.compile(branch, backend="eager")(x)


def test_a_captured_graph_has_sizes_with_hints(tmp_path: Any) -> None:
    x = numbers(4, 3)
    td.mark_dynamic(x, 0)
    captured = td.capture(lambda x: x.view(-1) * x.shape[0])(x)
    captured.save(tmp_path / "graph")
    loaded = td.CapturedGraph.load(tmp_path / "graph")
    (placeholder,) = [node for node in loaded.graph_module.graph.nodes if node.op == "placeholder"]
    assert placeholder.meta["val"].shape[0].node.hint == 4
    assert_same(captured(numbers(7, 3)), numbers(7, 3).view(-1) * 7)


def test_an_open_size_is_never_decided() -> None:
    x = numbers(8, 4)
    td.mark_unbacked(x, 0)
    with pytest.raises(td.GraphBreakError, match="torch._check"):
        triptych.compile(branch, backend="eager", fullgraph=True)(x)


def test_equal_shape_ids_are_equal_sizes() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y]) + x.shape[0]

    compiled = triptych.compile(fn, backend="eager", fullgraph=True)
    for n, m in ((3, 3), (5, 5), (4, 4), (4, 5)):
        x, y = numbers(n, 2), numbers(m, 2)
        td.mark_unbacked(x, 0, shape_id="batch")
        td.mark_unbacked(y, 0, shape_id="batch")
        if n == m:
            assert_same(compiled(x, y), fn(x, y))
        else:
            with pytest.raises(td.ConstraintViolationError, match="unbacked"):
                compiled(x, y)
    assert len(triptych.report(compiled).graphs) == 1


def test_specialised_sizes() -> None:
    seen: list[str] = []

    def backend(gm: Any, inputs: Any) -> Any:
        seen.append(str([tuple(i.shape) for i in inputs if isinstance(i, torch.Tensor)]))
        return gm.forward

    compiled = triptych.compile(lambda x: x * 2, backend=backend)
    for n in (8, 5, 8, 6):
        x = numbers(n)
        td.mark_dynamic(x, 0, specialize_on=[lambda size: size == 8])
        assert compiled(x).tolist() == (x * 2).tolist()
    assert len(seen) == 2 and seen[0] == "[(8,)]"


def test_numbers_of_a_class_marked_static() -> None:
    class Stepper:
        def __init__(self) -> None:
            self.step = 0

    td.mark_static(Stepper)
    stepper = Stepper()
    compiled = triptych.compile(lambda x: x * stepper.step, backend="eager")
    for stepper.step in range(3):
        compiled(numbers(3))
    assert len(triptych.report(compiled).graphs) == 3


def test_static_address_is_guarded_on_the_object() -> None:
    weight = numbers(3)
    td.mark_static_address(weight)
    compiled = triptych.compile(lambda x, w: x * w, backend="eager")
    x = numbers(3)
    for w in (weight, weight, numbers(3), numbers(3)):
        compiled(x, w)
    assert len(triptych.report(compiled).graphs) == 2


def test_marks_of_torch_mean_the_same() -> None:
    x = numbers(1, 4)
    torch._dynamo.mark_dynamic(x, 0, min=1, max=64)
    compiled = triptych.compile(lambda x: x * 2, backend="eager")
    for y in (x, numbers(7, 4), numbers(64, 4)):
        compiled(y)
    assert len(triptych.report(compiled).graphs) == 1


# -- any sizes ---------------------------------------------------------------------------------------------------------
PROGRAMS = [several, joined, attention, two, GENERAL["pairs"], GENERAL["sum"], branch]


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(PROGRAMS), st.lists(st.integers(1, 12), min_size=2, max_size=5), st.booleans())
def test_any_sizes(fn: Any, lengths: list[int], is_marked: bool) -> None:
    compiled = triptych.compile(fn, backend="aot_eager")
    for n in lengths:
        args = [numbers(n, 4) for _ in range(fn.__code__.co_argcount)]
        for arg in args:
            if is_marked:
                td.maybe_mark_dynamic(arg, 0)
        assert_same(compiled(*args), fn(*args))


# -- specifications ----------------------------------------------------------------------------------------------------
def summed(x: torch.Tensor, table: dict[str, Any], n: int) -> torch.Tensor:
    return torch.cat([x, table["y"][0]]) * n + x.shape[0]


def spec_of_torch() -> Any:
    spec = pytest.importorskip("torch.fx.experimental.dynamic_spec")
    batch = spec.ShapeVar("batch", max=64)
    sequence = spec.SeqSpec([spec.TensorSpec([batch, None])])
    return {"x": spec.TensorSpec([batch, 4]), "table": spec.DictSpec({"y": sequence}), "n": spec.IntVar("n")}


@pytest.mark.parametrize("kind", ["ours", "torch's"])
def test_specified_sizes_compile_once(kind: str) -> None:
    own = {"x": [td.Dim("batch", max=64), 4], "table": {"y": [["batch", None]]}, "n": td.Dim()}
    compiled = triptych.compile(summed, backend="eager", shapes_spec=own if kind == "ours" else spec_of_torch())
    for n in (3, 1, 0, 64):
        args = (numbers(n, 4), {"y": (numbers(n, 4),)}, n)
        assert_same(compiled(*args), summed(*args))
    assert len(triptych.report(compiled).graphs) == 1
    with pytest.raises(td.ConstraintViolationError, match="unbacked"):
        compiled(numbers(3, 4), {"y": (numbers(5, 4),)}, 3)  # sizes of one name differ
    args = (numbers(65, 4), {"y": (numbers(3, 4),)}, 3)  # out of bounds: the mark says nothing
    assert_same(compiled(*args), summed(*args))


def test_a_specification_of_attributes() -> None:
    class Batch:
        def __init__(self, n: int) -> None:
            self.data = numbers(n, 2)

    spec = {"batch": td.Fields(data=["rows", None])}
    compiled = triptych.compile(lambda batch: batch.data * 2, backend="eager", shapes_spec=spec)
    for n in (1, 4, 0):
        compiled(Batch(n))
    assert len(triptych.report(compiled).graphs) == 1


def test_what_is_no_specification() -> None:
    with pytest.raises(TypeError, match="describe"):
        triptych.compile(lambda x: x, backend="eager", shapes_spec={"x": 1.5})(numbers(2))


MODES = ["nearest", "bilinear", "nearest-exact", "bicubic"]


@pytest.mark.parametrize("mode", MODES)
def test_scaled_images_of_any_size(mode: str) -> None:
    calls = [(numbers(1, 2, n, n).requires_grad_(),) for n in (4, 6, 7)]
    row = Row(mode, fixed(lambda x: F.interpolate(x, scale_factor=2.0, mode=mode)), calls, 2, train=True)
    run(row, "aot_eager" if mode == "bilinear" else "inductor")


def test_a_backend_that_fails_on_symbolic_sizes_compiles_for_each() -> None:
    shapes: list[Any] = []

    def backend(gm: Any, inputs: Any) -> Any:
        if not all(isinstance(n, int) for x in inputs if isinstance(x, torch.Tensor) for n in x.shape):
            raise NotImplementedError("symbolic sizes")
        shapes.append(tuple(inputs[0].shape))
        return gm.forward

    compiled = triptych.compile(lambda x: x * 2, backend=backend)
    compiled(numbers(3))
    with pytest.warns(td.StaticSizesWarning, match="symbolic sizes"):
        assert compiled(numbers(4)).tolist() == (numbers(4) * 2).tolist()
    compiled(numbers(5))
    assert shapes == [(3,), (4,), (5,)]
