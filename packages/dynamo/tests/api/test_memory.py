"""What compiled code keeps alive: nothing that the user has dropped."""

import contextlib
import gc
import weakref

import pytest
import torch
import triptych_dynamo as td


class Holder:
    """An object of the user's with a tensor."""

    def __init__(self, value=2.0):
        self.value = value
        self.items = [torch.ones(2), {"key": torch.ones(2)}]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.holder = Holder()

    def forward(self, x):
        return self.linear(x) * self.holder.value


@contextlib.contextmanager
def no_collection():
    """Only reference counts free objects inside."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def warm():
    """The first compile of a process imports modules, and exceptions of these imports keep their frames for a while."""
    td.optimize("eager")(lambda x: x + 1)(torch.ones(2))


def with_holder(holder, x):
    return x * holder.value + holder.items[0] + holder.items[1]["key"]


def with_break(holder, x):
    y = x * holder.value
    td.graph_break()
    return y + holder.items[0]


def gone(reference):
    gc.collect()
    return reference() is None


@pytest.mark.parametrize("fn", [with_holder, with_break])
def test_arguments_are_not_kept(fn):
    compiled = td.optimize("eager")(fn)
    holder, x = Holder(), torch.ones(2)
    references = [
        weakref.ref(holder),
        weakref.ref(x),
        weakref.ref(holder.items[0]),
        weakref.ref(holder.items[1]["key"]),
    ]
    compiled(holder, x), compiled(holder, x)
    with no_collection():
        pass
    del holder, x
    assert all(map(gone, references))
    assert compiled(Holder(3.0), torch.ones(2)).tolist() == ([5.0] * 2 if fn is with_holder else [4.0] * 2)


def test_inputs_are_freed_without_the_collector():
    compiled = td.optimize("eager")(lambda x: (x * 2).sum())
    with no_collection():
        for _ in range(3):
            x = torch.ones(3, requires_grad=True)
            reference = weakref.ref(x)
            compiled(x).backward()
            del x
            assert reference() is None


def test_modules_are_freed():
    model = Net()
    compiled = td.optimize("eager")(model)
    compiled(torch.ones(1, 2)).sum().backward()
    references = [weakref.ref(model), weakref.ref(model.linear.weight), weakref.ref(model.holder)]
    del model, compiled
    assert all(map(gone, references))


def test_a_module_that_is_an_argument_is_freed():
    compiled = td.optimize("eager")(lambda model, x: model(x))
    model = Net()
    compiled(model, torch.ones(1, 2))
    references = [weakref.ref(model), weakref.ref(model.linear.weight), weakref.ref(model.holder)]
    del model
    assert all(map(gone, references))
    other, x = Net(), torch.ones(1, 2)
    assert torch.equal(compiled(other, x), other(x))


def test_closures_are_freed_with_their_function():
    def make(holder):
        return td.optimize("eager")(lambda x: x * holder.value)

    holder = Holder()
    reference = weakref.ref(holder)
    compiled = make(holder)
    compiled(torch.ones(2))
    del holder, compiled
    assert gone(reference)


class Compiled:
    """What a backend gives: an object that a test can watch."""

    made: list = []

    def __init__(self, gm):
        self.gm = gm
        Compiled.made.append(weakref.ref(self))

    def __call__(self, *args):
        return self.gm(*args)


def backend(gm, inputs):
    return Compiled(gm)


@pytest.mark.parametrize("fn", [with_holder, with_break])
@pytest.mark.parametrize("drop", ["callable", "reset"])
def test_entries_are_freed(fn, drop):
    Compiled.made.clear()
    compiled = td.optimize(backend)(fn)
    compiled(Holder(), torch.ones(2))
    made = list(Compiled.made)
    assert made and all(reference() is not None for reference in made)
    if drop == "callable":
        del compiled
    else:
        td.reset()
    assert all(map(gone, made))


def test_dead_tensors_do_not_outlive_a_break():
    sizes, alive, references = [], [], []

    def watching(gm, inputs):
        def run(*args):
            results = gm(*args)
            sizes.append([result.ndim for result in results])
            references.extend(weakref.ref(result) for result in results if result.ndim)
            return results

        return run

    @td.disable
    def look():
        alive.extend(reference() is not None for reference in references)

    def program(x):
        never_read_again, kept = x * 2, x * 3
        total = never_read_again.sum()
        td.graph_break()
        other = kept.sum()
        td.graph_break()
        other = other + 1
        look()
        return total + other

    with no_collection():
        assert td.optimize(watching)(program)(torch.ones(3)).item() == 16.0
    assert list(map(sorted, sizes)) == [[0, 1], [0], [0], [0]], (
        "what is dead behind a break is no output of the graph before it"
    )
    assert alive == [False], "what the rest of the frame was given and no longer needs is freed"


def test_recompiles_do_not_pile_up_objects():
    compiled = td.optimize("eager", recompile_limit=100)(lambda holder, x: x * holder.value)
    references = []
    for number in range(20):
        holder = Holder(str(number) and bool(number % 2))
        references.append(weakref.ref(holder))
        compiled(holder, torch.ones(2))
    del holder
    assert all(map(gone, references))
