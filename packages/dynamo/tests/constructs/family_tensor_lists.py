"""Operators over lists of tensors, which write what no version counter tells, and the optimisers made of them."""

from __future__ import annotations

import torch
from table import construct
from torch import nn

X, Y = torch.arange(6.0).reshape(2, 3), torch.ones(3)


@construct(X, Y)
def arithmetic_in_place(x, y):
    torch._foreach_add_([x, y], 1.0)
    torch._foreach_mul_((x.t(), y), [3.0, 2.0])
    torch._foreach_lerp_([x[0]], [y], 0.5)


@construct(X, Y)
def copies_and_zeros(x, y):
    z = torch.ones(2, 3)
    torch._foreach_copy_([z, y], [x, y * 4])
    torch._foreach_zero_([x])
    return z, torch._foreach_norm([z, y])


@construct(X, Y)
def written_and_read(x, y):
    z = x * 2
    torch._foreach_sub_([z, y], [x, y * 2])
    return z + 1, y + 1, x


@construct(X, torch.tensor(0.5))
def unscaled(x, scale):
    found = torch.zeros(())
    torch._amp_foreach_non_finite_check_and_unscale_([x, x[0] * 2], found, scale)
    return found


@construct(X, Y)
def a_fused_step(x, y):
    facts = {"weight_decay": 0.0, "momentum": 0.0, "lr": 0.1, "dampening": 0.0, "nesterov": False, "maximize": False}
    torch._fused_sgd_([x, y], [x * 2, y * 3], [], is_first_step=True, **facts)


@construct(X, torch.empty(3), torch.empty(3))
def a_list_as_out(x, first, second):
    torch.unbind_copy(x, out=[first, second])


@construct(X)
def in_inference_mode(x):
    with torch.inference_mode():
        y = x * 2
        y += 1
        torch.relu_(y)
        torch._foreach_add_([y], 2.0)
        x[0] = 7
        return y.sum(), x.clone()


@construct(X, Y)
def grouped(x, y):
    group, cpu = torch.utils._foreach_utils._group_tensors_by_device_and_dtype, torch.device("cpu")
    groups = group([[x, y.int(), y], [], [None, y, y]], True)  # in no order
    return len(groups), groups[cpu, torch.int32], groups[cpu, torch.float32], group([[y, x], [x, y]])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.second(self.first(x).tanh())


@construct(Model(), X)
def clipped_gradients(model, x):
    model.zero_grad()
    model(x).square().sum().backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    nn.utils.clip_grad_value_(model.parameters(), 0.1)
    return norm, nn.utils.get_total_norm([x], norm_type=float("inf"))
