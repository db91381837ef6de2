"""Higher-order operators: control flow that stays in the graph."""

from __future__ import annotations

import torch
from table import construct
from torch._higher_order_ops.associative_scan import associative_scan, associative_scan_op
from torch._higher_order_ops.map import map as control_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

X = torch.arange(6.0).reshape(2, 3)
W = torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()


@construct(X)
def cond_of_a_tensor(x):
    return torch.cond(x.sum() > 3, lambda v: v.sin(), lambda v: v.cos() + 1, (x,))


@construct(X)
def cond_with_closure(x):
    y = x * 2
    k = 3
    return torch.cond(x.sum() > 30, lambda: y + k, lambda: y - x)


@construct(X)
def cond_of_a_constant(x):
    return torch.cond(x.shape[0] == 2, lambda v: v + 1, lambda v: v - 1, (x,))


@construct(X)
def cond_with_several_outputs(x):
    def yes(v):
        return v + 1, {"a": v.sum()}

    def no(v):
        return v - 1, {"a": v.mean()}

    return torch.cond(x.max() > 3, yes, no, (x,))


@construct(X)
def nested_cond(x):
    def yes(v):
        return torch.cond(v.min() > 0, lambda u: u * 2, lambda u: u * 3, (v,))

    return torch.cond(x.sum() > 3, yes, lambda v: v.clone(), (x,))


@construct(W)
def cond_with_gradients(w):
    return torch.cond(w.sum() > 3, lambda v: v.sin() * v, lambda v: v.cos(), (w,)).sum()


class Choosing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.a = torch.nn.Linear(3, 3)
        self.b = torch.nn.Linear(3, 3)

    def forward(self, x):
        return torch.cond(x.sum() > 0, self.a, self.b, (x,))


@construct(Choosing(), X)
def cond_of_modules(module, x):
    return module(x)


@construct(X)
def while_loops(x):
    return while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, v * 2), (torch.tensor(0), x))


@construct(X)
def while_loop_with_closure(x):
    step = x.mean() * 0 + 1

    def more(total):
        return total.sum() < 40

    def body(total):
        return (total + step,)

    return while_loop(more, body, (x.clone(),))


@construct(X)
def scans(x):
    return scan(lambda carry, row: (carry + row, carry * row), torch.zeros(3), x)


@construct(X)
def reversed_scan(x):
    carry, rows = scan(lambda c, row: (c + row, (c * 1)), torch.ones(3), x, reverse=True)
    return carry, rows


@construct(X)
def associative_scans(x):
    first = associative_scan(torch.add, x, dim=0, combine_mode="generic")
    return first, associative_scan(lambda a, b: a * b, x, dim=1, combine_mode="generic", reverse=True)


def _linear(a, b, c, d, k):
    return [a * c, b * c + d * k]


@construct(torch.linspace(0.5, 1.5, 14).reshape(7, 2))
def associative_scans_of_elements(x):
    """What is left of `combine_mode="pointwise"` below its check that everything lies on a GPU."""
    k = x.sum() * 0 + 2
    (one,) = associative_scan_op(lambda a, b: [torch.maximum(a, b)], [x[:1]], ())
    return one, associative_scan_op(_linear, [x, x.flip(0)], (k,)), associative_scan_op(_linear, [x[:2], x[2:4]], (k,))


@construct(X)
def mapped(x):
    k = x.mean()
    return control_map(lambda row, y: row * y + k, x, torch.ones(3))


@construct(W)
def scan_with_gradients(w):
    return scan(lambda carry, row: (carry + row, carry * row), torch.zeros(3), w)[1].sum()


@construct(W)
def map_with_gradients(w):
    return control_map(lambda row: row.sin() * row, w).sum()
