"""Random programs of views, in-place changes and arithmetic against eager."""

import torch
from aot_testing import grad, plain, relations, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from triptych_aot_autograd import aot_function, default_partition, min_cut_partition

VIEWS = {
    "t": lambda t: t.t(),
    "row": lambda t: t[0].unsqueeze(0),
    "tail": lambda t: t[1:],
    "columns": lambda t: t[:, ::2],
    "flat": lambda t: t.reshape(1, -1),
    "expand": lambda t: t.unsqueeze(0).expand(2, *t.shape)[1],
    "detach": lambda t: t.detach(),
    "half": lambda t: t.chunk(2)[0] if t.shape[0] > 1 else t[:],
    "diagonal": lambda t: t.diagonal().unsqueeze(0),
}
INPLACE = {
    "add_": lambda t, o: t.add_(1.5),
    "mul_": lambda t, o: t.mul_(2.0),
    "mul_o": lambda t, o: t.mul_(o.mean()),
    "copy_": lambda t, o: t.copy_(o.mean().expand_as(t)),
    "zero_": lambda t, o: t.zero_(),
    "fill": lambda t, o: t.masked_fill_(t > 0.5, 0.25),
}
PURE = {
    "sin": lambda t, o: t.sin(),
    "mulsum": lambda t, o: t * o.sum(),
    "clone": lambda t, o: t.clone(),
    "contiguous": lambda t, o: t.contiguous(),
    "detached": lambda t, o: t.detach() * 2,
}
STEP = st.one_of(
    st.tuples(st.just("view"), st.sampled_from(sorted(VIEWS)), st.integers(0, 9), st.just(0)),
    st.tuples(st.just("inplace"), st.sampled_from(sorted(INPLACE)), st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.just("pure"), st.sampled_from(sorted(PURE)), st.integers(0, 9), st.integers(0, 9)),
)


def program(steps, returned):
    def fn(*inputs):
        values = list(inputs)
        for kind, name, i, j in steps:
            target, other = values[i % len(values)], values[j % len(values)]
            if kind == "view":
                values.append(VIEWS[name](target))
            elif kind == "inplace":
                INPLACE[name](target, other)
            else:
                values.append(PURE[name](target, other))
        return [values[i % len(values)] for i in returned]

    return fn


def outcome(fn, makers):
    try:
        return run(fn, makers), None
    except RuntimeError as error:
        return None, error


def bases(tensors):
    """For each tensor that is a view: which of the others it is a view of."""
    return [next((i for i, o in enumerate(tensors) if t._base is o), None) for t in tensors]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(STEP, min_size=1, max_size=7),
    returned=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    grads=st.tuples(st.booleans(), st.booleans()),
    partition_fn=st.sampled_from([default_partition, min_cut_partition]),
)
def test_random_program(steps, returned, grads, partition_fn):
    fn = program(steps, returned)
    makers = [grad(3, 4) if grads[0] else plain(3, 4), grad(4, 4) if grads[1] else plain(4, 4)]
    expected, eager_error = outcome(fn, makers)
    if eager_error is not None:
        return  # not a legal program
    flat_a, args_a, tensors_a, grads_a, _ = expected
    flat_b, args_b, tensors_b, grads_b, _ = run(aot_function(fn, lambda gm, _: gm, partition_fn=partition_fn), makers)
    for a, b in zip(flat_a + args_a, flat_b + args_b, strict=True):
        torch.testing.assert_close(b, a)
        assert (b.requires_grad, b.stride()) == (a.requires_grad, a.stride())
    assert [t._version for t in args_b] == [t._version for t in args_a]
    assert relations(tensors_b) == relations(tensors_a)
    assert bases(tensors_b) == bases(tensors_a)
    for a, b in zip(grads_a, grads_b, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(b, a)
