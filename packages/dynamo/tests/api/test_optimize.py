"""`optimize`: calls, entries, what makes a new one, and programs of several frames."""

from __future__ import annotations

import collections
import inspect
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch
import triptych_dynamo as td


def count_records(compiled: Any) -> int:
    return len(td.region_of(compiled).records)


# -- calls -----------------------------------------------------------------------------------------------------------
def test_second_call_hits() -> None:
    compiled = td.optimize("eager")(lambda x: x + 1)
    x = torch.ones(2)
    assert torch.equal(compiled(x), x + 1)
    assert torch.equal(compiled(x), x + 1)
    assert (compiled.misses, compiled.hits) == (1, 1)


def test_keeps_signature_and_binding() -> None:
    @td.optimize("eager")
    def f(x: torch.Tensor, *rest: int, scale: int = 2, **more: int) -> torch.Tensor:
        """Doc."""
        return x * scale + sum(rest) + sum(more.values())

    x = torch.ones(2)
    assert f.__doc__ == "Doc." and f.__name__ == "f"
    assert list(inspect.signature(f).parameters) == ["x", "rest", "scale", "more"]
    assert torch.equal(f(x, 1, 2, scale=3, a=4), x * 3 + 7)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        f()


def test_methods_modules_and_callable_objects() -> None:
    class Scale(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor(3.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight

        def twice(self, x: torch.Tensor) -> torch.Tensor:
            return self(self(x))

    class Adder:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    model, x = Scale(), torch.ones(2)
    assert torch.equal(td.optimize("eager", fullgraph=True)(model)(x), model(x))
    assert torch.equal(td.optimize("eager", fullgraph=True)(model.twice)(x), model.twice(x))
    assert torch.equal(td.optimize("eager", fullgraph=True)(Adder())(x), x + 1)
    assert torch.equal(td.optimize("eager", fullgraph=True)(torch.sin)(x), torch.sin(x))
    with pytest.raises(TypeError, match="functions, methods, modules"):
        td.optimize("eager")(3)


def test_as_method_of_a_class() -> None:
    class Model:
        bias = 2

        @td.optimize("eager", fullgraph=True)
        def run(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.bias

    assert torch.equal(Model().run(torch.ones(2)), torch.ones(2) + 2)


# -- guards ----------------------------------------------------------------------------------------------------------
SCALE = 2


@pytest.mark.parametrize(
    "first, second",
    [
        ((torch.ones(2), 1), (torch.ones(2), 2)),
        ((torch.ones(2), 1), (torch.ones(3), 1)),
        ((torch.ones(2), 1), (torch.ones(2, dtype=torch.float64), 1)),
        ((torch.ones(2), 1), (torch.ones(2, requires_grad=True), 1)),
        ((torch.ones(2), 1), (torch.ones(2), 1.0)),
        ((torch.ones(2), 1), (torch.ones(2), True)),
        ((torch.ones(2), [1]), (torch.ones(2), [1, 2])),
        ((torch.ones(2), {"a": 1}), (torch.ones(2), {"a": 2})),
        ((torch.ones(2, 3), None), (torch.ones(3, 2).t(), None)),
    ],
)
def test_changed_fact_recompiles_once(first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    def fn(x: torch.Tensor, n: Any) -> torch.Tensor:
        if n is None:
            return x.reshape(-1) + 1
        return x * (sum(n) if isinstance(n, list) else n["a"] if isinstance(n, dict) else n)

    compiled = td.optimize("eager", fullgraph=True)(fn)
    for args in (first, second, first, second):
        assert torch.equal(compiled(*args), fn(*args))
    assert count_records(compiled) == 2


def test_globals_closures_and_attributes_are_guarded() -> None:
    global SCALE
    SCALE, offset = 2, 5

    class Config:
        factor = 3

    config = Config()
    config.power = 2

    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x * SCALE + offset) * config.factor + config.power

    compiled = td.optimize("eager", fullgraph=True)(fn)
    x = torch.ones(2)
    assert torch.equal(compiled(x), fn(x))
    SCALE = 7
    assert torch.equal(compiled(x), fn(x))
    offset = 11
    assert torch.equal(compiled(x), fn(x))
    config.power = 13
    assert torch.equal(compiled(x), fn(x))
    config.factor = 17
    assert torch.equal(compiled(x), fn(x))
    assert count_records(compiled) == 5


def test_same_tensor_twice_is_another_program() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, bool]:
        x.add_(1)
        return x + y, x is y

    compiled = td.optimize("eager", fullgraph=True)(fn)
    for same in (False, True, False):
        x, y = torch.ones(2), torch.ones(2)
        a, b = torch.ones(2), torch.ones(2)
        got, expected = compiled(x, x if same else y), fn(a, a if same else b)
        assert torch.equal(got[0], expected[0]) and got[1] is expected[1]


def test_overlapping_written_input_is_another_program() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    compiled = td.optimize("eager", fullgraph=True)(fn)
    compiled(torch.zeros(4), torch.zeros(4))
    base = torch.zeros(5)
    assert torch.equal(compiled(base[:4], base[1:]), torch.tensor([2.0, 2.0, 2.0, 0.0]))
    assert count_records(compiled) == 2


def test_grad_mode_and_autocast_are_guarded() -> None:
    compiled = td.optimize("eager", fullgraph=True)(lambda x, w: x @ w)
    x, w = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
    assert compiled(x, w).requires_grad
    with torch.no_grad():
        assert not compiled(x, w).requires_grad
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert compiled(x, w).dtype is torch.bfloat16
    assert compiled(x, w).dtype is torch.float32
    assert count_records(compiled) == 3


# -- programs ----------------------------------------------------------------------------------------------------------
def test_nested_compiled_callable_is_inlined() -> None:
    inner = td.optimize("eager")(lambda x: x * 2)
    explanation = td.explain(lambda x: inner(x) + 1)(torch.ones(2))
    assert (explanation.graph_count, explanation.graph_break_count, explanation.op_count) == (1, 0, 2)


def test_callers_of_a_break_go_on_in_one_graph() -> None:
    def callee(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        td.graph_break()
        return y + 1

    def fn(x: torch.Tensor) -> torch.Tensor:
        return callee(x + 1) * 3

    explanation = td.explain(fn)(torch.ones(2))
    assert torch.equal(explanation.result, torch.full((2,), 15.0))
    names = [record.name for record in explanation.frames if record.graph is not None]
    assert [name.split("+")[0].rsplit(".")[-1] for name in names] == ["fn", "fn"]


def test_reset_forgets() -> None:
    compiled = td.optimize("eager")(lambda x: x + 1)
    compiled(torch.ones(1))
    td.reset()
    assert count_records(compiled) == 0
    compiled(torch.ones(1))
    assert count_records(compiled) == 1


def test_two_compiled_callables_do_not_share_entries() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    one, two = td.optimize("eager")(fn), td.optimize("eager")(fn)
    one(torch.ones(1))
    assert (len(one.entries), len(two.entries)) == (1, 0)


def test_threads() -> None:
    compiled = td.optimize("eager")(lambda x, n: x * n)
    failures: list[Any] = []

    def work(n: float) -> None:
        for _ in range(20):
            x = torch.full((3,), n)
            if not torch.equal(compiled(x, n), x * n):
                failures.append(n)

    threads = [threading.Thread(target=work, args=(float(n),)) for n in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures


class Tagged(torch.Tensor):
    """A tensor subclass that the tracer knows nothing of."""


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.eye(3).to_sparse_csr(),
        lambda: torch.eye(3).as_subclass(Tagged),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:The PyTorch API of nested tensors")
def test_tensors_that_no_graph_holds_break_it(make: Any) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, type, torch.Tensor]:
        z = y + 1
        return z * 2, x, type(x), x * 2.0

    compiled, x, y = td.optimize("eager")(fn), make(), torch.ones(3)
    for _ in range(2):
        got, expected = compiled(x, y), fn(x, y)
        assert got[1] is x and got[2] is type(x) and type(got[3]) is type(expected[3])
        assert torch.equal(got[0], expected[0])
    assert torch.equal(compiled(y, y)[3], y * 2.0)


def test_changed_object_that_is_two_objects_later() -> None:
    def fn(x: torch.Tensor, a: list[int], b: list[int]) -> torch.Tensor:
        a.append(1)
        return x + len(b)

    compiled, x = td.optimize("eager", fullgraph=True)(fn), torch.ones(1)
    assert compiled(x, [], []).item() == 1
    one: list[int] = []
    assert compiled(x, one, one).item() == 2
    assert one == [1]


def test_functions_that_suspend_run_as_they_are() -> None:
    def numbers(x: torch.Tensor) -> Any:
        yield x + 1
        yield x * 2

    async def later(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    x = torch.ones(1)
    assert [item.item() for item in td.optimize("eager")(numbers)(x)] == [2.0, 2.0]
    with pytest.raises(StopIteration) as stop:
        td.optimize("eager")(later)(x).send(None)
    assert stop.value.value.item() == 2


def test_deep_recursion() -> None:
    def count(x: torch.Tensor, n: int) -> torch.Tensor:
        return x if n == 0 else count(x, n - 1) + 1

    assert td.optimize("eager")(count)(torch.zeros(1), 150).item() == 150


def test_active_modes_see_the_calls() -> None:
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append("function")
            return func(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append("operator")
            return func(*args, **(kwargs or {}))

    compiled = td.optimize("eager")(lambda x: torch.sin(x))
    x = torch.ones(1)
    compiled(x)
    with Functions():
        assert torch.equal(compiled(x), x.sin())
    with Operators():
        assert torch.equal(compiled(x), x.sin())
    assert "function" in seen and "operator" in seen
    assert compiled.misses == 3
    with torch.device("meta"):
        assert td.optimize("eager")(lambda: torch.ones(2))().is_meta


def test_importing_the_package_is_cheap() -> None:
    program = (
        "import torch, sys, triptych_dynamo as td; td.optimize; td.disable; td.mark_dynamic; td.list_backends; "
        "print([name for name in sys.modules if name.startswith(('triptych_dynamo.values', 'sympy'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_state_keyed_by_a_tensor_is_guarded() -> None:
    def fn(state: dict[Any, Any], p: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        mine = state[p]
        if not mine:
            mine["step"] = 0
            mine["sum"] = torch.zeros_like(p)
        mine["step"] += 1
        mine["sum"].add_(g)
        return mine["sum"] * mine["step"]

    compiled = td.optimize("eager")(fn)
    p, g = torch.ones(2), torch.ones(2)
    got_state: dict[Any, Any] = collections.defaultdict(dict)
    expected_state: dict[Any, Any] = collections.defaultdict(dict)
    for _ in range(3):
        assert torch.equal(compiled(got_state, p, g), fn(expected_state, p, g))
    assert got_state[p]["step"] == 3
    other = torch.zeros(2)
    assert torch.equal(compiled(got_state, other, g), fn(expected_state, other, g))


def test_attribute_that_a_subclass_gains_later() -> None:
    class Base:
        factor = 2

        def scale(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.factor

    class Derived(Base):
        pass

    obj, x = Derived(), torch.ones(1)
    compiled = td.optimize("eager", fullgraph=True)(lambda x: obj.scale(x))
    assert compiled(x).item() == 2
    Derived.factor = 3
    assert compiled(x).item() == 3
    Derived.scale = lambda self, x: x * 10
    assert compiled(x).item() == 10
