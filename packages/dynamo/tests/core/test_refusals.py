"""Calls whose types a kernel refuses raise in compiled code what they raise in plain Python; others are captured."""

import operator

import pytest
import torch
import torch.nn.functional as F
import triptych_dynamo

X = torch.ones(4, 3)


def written(write):
    """A tensor of the program's own behind a write."""
    m = torch.arange(12.0).reshape(4, 3) + X
    write(m)
    return m


WHOLE = torch.arange(12).reshape(4, 3)
MASK = X > 0

REFUSED = {
    "a boolean less a number": lambda: MASK - 1,
    "a number less a boolean": lambda: 1 - MASK,
    "a tensor less True": lambda: X - True,
    "a reversed difference": lambda: torch.rsub(MASK, 1),
    "a boolean factor": lambda: torch.add(X, X, alpha=True),
    "a floating factor": lambda: torch.add(WHOLE, WHOLE, alpha=1.5),
    "a product of booleans": lambda: MASK @ MASK.t(),
    "a product of two types": lambda: X @ WHOLE.t(),
    "the largest of booleans": lambda: MASK.argmax(),
    "a softmax of integers": lambda: torch.softmax(WHOLE, 1),
    "the gelu of integers": lambda: F.gelu(WHOLE),
    "a deviation of integers": lambda: WHOLE.std(),
    "a median of booleans": lambda: MASK.median(),
    "bits of a float": lambda: X & True,
    "a complex order": lambda: torch.sort(X + 1j),
    "a loss of two types": lambda: F.binary_cross_entropy(X, WHOLE),
    "a write of another type": lambda: WHOLE.clone().add_(1.5),
    "an integer division with addcdiv": lambda: torch.addcdiv(WHOLE, WHOLE, WHOLE + 1),
    "a sum with a row of its own": lambda: written(lambda m: m.add_(m[0])),
    "the same as a statement": lambda: written(lambda m: operator.iadd(m, m.view(m.size())[0])),
    "a copy of a row": lambda: written(lambda m: m.copy_(m[0])),
    "an item set to a row of its own": lambda: written(lambda m: operator.setitem(m, slice(1, None), m[:3])),
    "a write to repeated elements": lambda: written(lambda m: m[0].expand(4, 3).mul_(2)),
    "a copy to repeated elements": lambda: written(lambda m: m[0].expand(4, 3).copy_(X)),
    "rows added to themselves": lambda: written(lambda m: m.index_add_(0, torch.tensor([0]), m[:1])),
    "an out= that is half of the operand": lambda: written(lambda m: torch.add(m[:3], 1, out=m[1:])),
    "a product with a row behind a factor": lambda: written(lambda m: m.addcmul_(m[0], X)),
}
TAKEN = {
    "writes with parts that torch takes": lambda: (
        written(lambda m: m.add_(m)),
        written(lambda m: m[:2].add_(m[2:])),
        written(lambda m: m[:, 1:].add_(m[:, 2:])),
        written(lambda m: m.add_(m[0].clone())),
        written(lambda m: m.fill_(m[0, 0])),
        written(lambda m: m[0].expand(4, 3).add(m)),
    ),
    "masks": lambda: (MASK & ~MASK, MASK | True, MASK * X, X.masked_fill(MASK, 0), torch.where(MASK, X, WHOLE)),
    "sums of booleans": lambda: (MASK.sum(), MASK.any(), MASK + 1, MASK.cumsum(0), MASK == True),  # noqa: E712
    "indices": lambda: (X[MASK.new_zeros(4, dtype=torch.long)], X.gather(1, WHOLE % 3), F.embedding(WHOLE % 4, X)),
    "losses": lambda: (F.cross_entropy(X, WHOLE[:, 0] % 3), F.nll_loss(X, WHOLE[:, 0] % 3)),
    "complex": lambda: ((X + 1j) * X, torch.view_as_real(X + 1j), (X + 1j).abs(), 2j * X),
    "classes": lambda: (F.one_hot(WHOLE % 4, 4), torch.bucketize(X, X[0]), torch.searchsorted(X[0], X[1])),
    "shapes": lambda: (WHOLE.view(3, 4), WHOLE.unfold(0, 2, 1), F.pad(WHOLE, (1, 1)), WHOLE.expand(2, 4, 3)),
    "attention": lambda: F.scaled_dot_product_attention(X[None], X[None], X[None], attn_mask=torch.ones(4, 4) > 0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    with pytest.raises(Exception) as wanted:
        REFUSED[name]()

    def compiling_backend(module, inputs):
        return lambda *args: pytest.fail("a graph of a call that raises")

    with pytest.raises(type(wanted.value)) as got:
        triptych_dynamo.optimize(compiling_backend)(REFUSED[name])()
    assert str(got.value) == str(wanted.value)


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name):
    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(TAKEN[name])
    torch.testing.assert_close(compiled(), TAKEN[name]())
    assert compiled.entries


def test_caught_by_the_program():
    def program(x):
        try:
            return x - True
        except RuntimeError as error:
            return str(error), x * 2

    compiled = triptych_dynamo.optimize("eager", fullgraph=True)(program)
    assert compiled(X)[0] == program(X)[0] and compiled.entries
