"""Small programs, through the whole stack, on which a missing guard gives a stale value, or one too many a compile."""

import gc
import weakref

import pytest
import torch
import triptych
import triptych_dynamo as td

LISTED, TENSORS = [1, 2, 3], [torch.ones(1)]
ZERO = torch.zeros(1)


@pytest.fixture(params=["eager", "inductor"])
def compiled(request):
    return lambda fn: triptych.compile(fn, backend=request.param)


def count(fn):
    return len(td.region_of(fn).records)


def test_an_argument_that_is_a_global(compiled):
    fn = compiled(lambda items, x: x + LISTED[-1] + items[-1])
    assert [fn(items, ZERO).item() for items in (LISTED, [3, 2, 1], [1, 2])] == [6, 4, 5]


def test_an_argument_that_is_an_attribute(compiled):
    class Holder:
        values = [10]

    fn = compiled(lambda items, x: x + Holder.values[0] * 100 + items[0])
    assert (fn(Holder.values, ZERO).item(), fn([7], ZERO).item()) == (1010, 1007)


def test_an_argument_that_is_a_global_tensor(compiled):
    fn = compiled(lambda a, x: x + TENSORS[0] + a)
    assert (fn(TENSORS[0], ZERO).item(), fn(torch.full((1,), 5.0), ZERO).item()) == (2, 6)


@pytest.mark.filterwarnings("ignore:this region runs without compilation")
@pytest.mark.parametrize("first", ["apart", "sharing"])
def test_written_inputs_that_share_memory(compiled, first):
    def program(x, y):
        x.mul_(2)
        return x + y

    def inputs(sharing):
        base = torch.ones(8)
        return (base[:4], base[2:6]) if sharing else (base[:4], base[4:])

    fn = compiled(program)
    order = [True, False, True] if first == "sharing" else [False, True, False]
    for sharing in order * 2:
        assert fn(*inputs(sharing)).tolist() == program(*inputs(sharing)).tolist()
    assert count(fn) == 2


def test_modes_that_do_not_matter(compiled):
    fn = compiled(lambda x: x.sin() + 1)
    with torch.inference_mode():
        made = torch.ones(3)
    threads = torch.get_num_threads()
    fn(made), fn(torch.ones(3))
    torch.set_num_threads(threads + 1)
    try:
        fn(torch.ones(3))
    finally:
        torch.set_num_threads(threads)
    with torch.no_grad():
        fn(torch.ones(3)), fn(torch.ones(3, requires_grad=True))
    assert count(fn) == 1
    out = fn(torch.ones(3, requires_grad=True))
    assert out.requires_grad and count(fn) == 2


def test_modes_that_matter(compiled):
    linear = torch.nn.Linear(2, 2)
    fn = compiled(lambda x: linear(x))
    x = torch.ones(1, 2)
    with torch.no_grad():
        assert not fn(x).requires_grad
    assert fn(x).requires_grad
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert fn(x).dtype is torch.bfloat16
    assert fn(x).dtype is torch.float32 and count(fn) == 3


def test_a_flag_of_a_module(compiled):
    class Flagged(torch.nn.Module):
        flag = True

        def forward(self, x):
            return x + 2 if self.flag else x + 1

    module = Flagged()
    fn = compiled(module)
    values = []
    for target, flag in ((module, True), (module, False), (fn, True)):
        target.flag = flag
        values.append(fn(torch.ones(1)).item())
    assert values == [3, 2, 3]


def test_what_is_dropped_is_freed(compiled):
    compiled(lambda x: x + 1)(ZERO)  # imports keep frames of their own for a while
    module = torch.nn.Linear(4, 4)
    fn = compiled(module)
    fn(torch.ones(2, 4)).sum().backward()
    reference = weakref.ref(module)
    del module, fn
    gc.collect()
    assert reference() is None
    fn = compiled(lambda x: (x * 2).sum())
    gc.disable()
    try:
        for _ in range(2):
            x = torch.ones(3, requires_grad=True)
            reference = weakref.ref(x)
            fn(x).backward()
            del x
            assert reference() is None
    finally:
        gc.enable()


def test_state_of_compiled_modules(compiled):
    assert list(compiled(torch.nn.Linear(2, 2)).state_dict()) == ["weight", "bias"]


def test_numbers_that_change(compiled):
    for values in (range(2, 12), [value + 0.5 for value in range(12)]):
        fn = compiled(lambda x, n: x + n)
        assert [fn(ZERO, value).item() for value in values] == [float(value) for value in values]
        assert count(fn) == 2
