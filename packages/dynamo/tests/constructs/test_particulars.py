"""What rows of the table do beside their results: nodes marked, modes restored, guards set."""

from __future__ import annotations

import functools
import logging

import family_libraries
import family_objects
import family_operations
import pytest
import torch
import triptych_dynamo
from observe import Seen, assert_same_outcome

X = torch.arange(6.0).reshape(2, 3)


def test_cyclic_objects_are_rebuilt():
    first, second = triptych_dynamo.optimize("eager", fullgraph=True)(family_objects.objects_that_refer_to_each_other)(
        X
    )
    assert first and second.other.other is second


def test_identity_of_arguments_is_kept():
    def fn(x, items, mapping):
        items.append(x)
        mapping["items"] = items
        return mapping, items

    items, mapping = [], {}
    got_mapping, got_items = triptych_dynamo.optimize("eager", fullgraph=True)(fn)(X, items, mapping)
    assert got_items is items and got_mapping is mapping and mapping["items"] is items


def test_swapped_items_are_replayed_from_the_old_state():
    def fn(x, a, b):
        a[0], b[0] = b[0], a[0]
        return x

    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(fn)
    for _ in range(2):
        assert_same_outcome(Seen(compiled, (X, [[1]], [[2]])), Seen(fn, (X, [[1]], [[2]])))


def test_a_list_that_is_only_added_to_is_not_guarded():
    def fn(x, log):
        log.append(x.shape[0])
        log.extend([1, 2])
        return x + 1

    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(fn)
    log, expected = [], []
    for _ in range(3):
        assert torch.equal(compiled(X, log), fn(X, expected))
    assert log == expected and len(compiled.entries) == 1


def test_truth_of_a_list_is_guarded_without_its_length():
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(lambda x, items: x + 1 if items else x - 1)
    for items in ([1], [1, 2], [], [3]):
        assert torch.equal(compiled(X, items), X + 1 if items else X - 1)
    assert len(compiled.entries) == 2


def test_checkpoint_marks_its_nodes():
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    triptych_dynamo.optimize(backend, fullgraph=True)(family_libraries.checkpointed)(X)
    assert any(node.meta.get("recompute") == 1 for node in graphs[0].graph.nodes)


def test_cached_function_speaks_once(caplog):
    @functools.lru_cache
    def say_once(logger, text):
        logger.warning(text)

    def fn(x):
        say_once(family_libraries.LOG, "once")
        return x + 1

    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(fn)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            compiled(X)
    assert [record.message for record in caplog.records] == ["once"]


def test_is_compiling_is_true_inside():
    got = triptych_dynamo.optimize("eager", fullgraph=True)(lambda x: (x, torch.compiler.is_compiling()))(X)
    assert got[1] is True and not torch.compiler.is_compiling()


def test_modes_are_restored():
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(family_operations.gradients_off)
    compiled(X)
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
    with torch.no_grad():
        assert [t.requires_grad for t in compiled(X)[:3]] == [False, True, False]


def test_warning_is_given():
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(family_operations.warned)
    for _ in range(2):
        with pytest.warns(UserWarning, match="careful"):
            compiled(X)


def test_gradient_through_custom_function():
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(family_operations.custom_function)
    grads = []
    for run in (compiled, family_operations.custom_function):
        family_operations.LIN.zero_grad()
        run(X).sum().backward()
        grads.append(family_operations.LIN.weight.grad.clone())
    torch.testing.assert_close(*grads)


def test_answers_about_modes_are_guarded():
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(
        lambda x: (torch.are_deterministic_algorithms_enabled(), torch.backends.cuda.flash_sdp_enabled(), x + 1)
    )
    before = torch.backends.cuda.flash_sdp_enabled()
    assert compiled(X)[:2] == (False, before)
    try:
        torch.use_deterministic_algorithms(True)
        torch.backends.cuda.enable_flash_sdp(not before)
        assert compiled(X)[:2] == (True, not before)
    finally:
        torch.use_deterministic_algorithms(False)
        torch.backends.cuda.enable_flash_sdp(before)
    assert compiled(X)[:2] == (False, before) and compiled.misses == 2


def test_level_is_left_after_an_error():
    def fails(x):
        return torch.vmap(lambda v: v @ torch.ones(7))(x)

    with pytest.raises(RuntimeError, match="size|dimension|shape"):
        triptych_dynamo.optimize("eager")(fails)(X)
    assert torch._C._functorch.maybe_current_level() is None


def test_bodies_of_cond_see_changed_numbers_and_sizes():
    factor = 2.0

    def fn(x):
        return torch.cond(x.sum() > 3, lambda v: v.sin() * factor, lambda v: v.cos(), (x,))

    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(fn)
    for size, factor in ((3, 2.0), (4, 2.0), (5, 2.0), (5, 3.0), (6, 4.0)):  # noqa: B007
        torch.testing.assert_close(compiled(torch.ones(size)), fn(torch.ones(size)))
    assert len(compiled.entries) <= 4


@pytest.mark.parametrize("size", [3, 4, 5])
def test_gradients_accumulate_over_calls(size):
    def step(w, x):
        loss = (w * x).square().sum()
        loss.backward()
        return loss

    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(step)
    pairs = [torch.ones(size, requires_grad=True) for _ in range(2)]
    for _ in range(3):
        losses = [run(w, torch.arange(float(size))) for run, w in zip((compiled, step), pairs, strict=True)]
        assert torch.equal(pairs[0].grad, pairs[1].grad) and losses[0].requires_grad == losses[1].requires_grad
    for loss in losses:
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()


def test_gradients_go_on_before_the_region():
    def program(y):
        y.sum().backward()
        return y * 2

    grads = []
    for run in (triptych_dynamo.optimize("eager")(program), program):
        leaf = torch.ones(2, requires_grad=True)
        run(leaf * 3)
        grads.append(leaf.grad)
    assert torch.equal(*grads)


def test_hooks_that_a_leaf_brings_run():
    def program(w):
        (w * 2).sum().backward()
        return w.grad

    leaf = torch.ones(2, requires_grad=True)
    leaf.register_hook(lambda grad: grad * 10)
    assert torch.equal(triptych_dynamo.optimize("eager")(program)(leaf), torch.full((2,), 20.0))


def test_texts_of_changed_numbers():
    def fn(x, n):
        return x + n, "%s|%d" % ("a", n), "-" * n, "%(n)d" % {"n": n}  # noqa: UP031

    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(fn)
    for number in (3, 4, 5):
        assert compiled(X, number)[1:] == fn(X, number)[1:]


def test_bytes_of_other_contents_are_another_version():
    """Contents that were read are guarded; bytes that are only added to are not."""

    def read(x, b):
        b[0] += 1
        return x * b[0]

    def add(x, b):
        b.append(3)
        return x * 2

    x, b, unseen = torch.ones(2), bytearray(b"\x01\x02"), bytearray(b"q")
    compiled, adding = triptych_dynamo.optimize("eager")(read), triptych_dynamo.optimize("eager")(add)
    for number in (2, 3, 4):
        assert torch.equal(compiled(x, b), x * number) and b[0] == number
        adding(x, unseen)
    assert unseen == b"q\3\3\3"
    assert len(triptych_dynamo.region_of(compiled).records) == 3
    assert len(triptych_dynamo.region_of(adding).records) == 1


def test_a_view_that_may_not_be_asked_for_its_history():
    """Made without gradients, its base then written to with them: autograd refuses, torch has no fake tensor."""
    base = torch.ones(2, 3) * torch.ones(3, requires_grad=True)
    with torch.no_grad():
        kept = base[1:]
    base.mul_(2)
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        kept.is_leaf  # noqa: B018

    def program(kept, x):
        return x * 2, kept.shape, kept.detach() + 1

    for got, want in zip(
        triptych_dynamo.optimize("eager")(program)(kept, torch.ones(3)), program(kept, torch.ones(3)), strict=True
    ):
        assert torch.equal(got, want) if isinstance(want, torch.Tensor) else got == want


def test_sets_of_equal_members_in_another_order():
    """The order of a set that is iterated over is guarded, and what is done to it leaves the order of plain Python."""

    def each(x, s):
        s.add(16)
        s.discard(1)
        return [x * v for v in s]

    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(each)
    for items in ([0, 8, 1], [8, 0, 1], [0, 8, 1]):
        mine, theirs = set(items), set(items)
        for got, expected in zip(compiled(X, mine), each(X, theirs), strict=True):
            assert torch.equal(got, expected)
        assert list(mine) == list(theirs)
    assert len(triptych_dynamo.region_of(compiled).records) == 2


def test_bytes_and_tensors_that_come_to_share_memory():
    """A version made for bytes that no tensor shows is not used where one does."""

    def fn(b, t):
        b[0] = 9
        return t + 1

    compiled = triptych_dynamo.optimize("eager")(fn)
    b = bytearray(b"abc")
    for make in (lambda: torch.zeros(3, dtype=torch.uint8), lambda: torch.frombuffer(b, dtype=torch.uint8)):
        b[0] = 97
        t = make()
        assert torch.equal(compiled(b, t), t + 1) and b[0] == 9


class ByIdentity:
    """Hashed as objects are."""

    def __init__(self, number):
        self.number = number


class ByNumber(ByIdentity):
    """Hashed and compared by its number."""

    def __hash__(self):
        return self.number

    def __eq__(self, other):
        return self.number == other.number


@pytest.mark.parametrize("cls", [ByIdentity, ByNumber])
def test_keys_that_are_objects_are_guarded(cls):
    def look(x, mapping, members, key):
        return mapping.get(key), key in mapping, key in members, mapping.get((key, 1)), x + 1

    keys = [cls(number) for number in range(3)]
    mapping = {**{key: key.number for key in keys}, **{(key, 1): key.number + 5 for key in keys}}
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(look)
    for key in (*keys, cls(0), cls(7)):
        assert compiled(X, mapping, set(keys[:2]), key)[:4] == look(X, mapping, set(keys[:2]), key)[:4]


@pytest.mark.parametrize(
    "given", [[1, 2], (1, 2), {1: 2}, {1, 2}, "ab", range(4)], ids=lambda given: type(given).__name__
)
def test_how_many_items_an_iterator_of_the_program_has_left(given):
    def program(x, iterator):
        return x + 1, iterator.__length_hint__()

    compiled = triptych_dynamo.optimize("eager")(program)
    iterator = iter(given)
    next(iterator)
    assert compiled(X, iterator)[1] == len(given) - 1
