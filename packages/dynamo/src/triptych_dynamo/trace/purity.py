"""Which recorded calls stay in the graph although nothing uses their result: a table of names with effects of their
own.

Writes to tensors are found by their version counters during the trace and are not listed here; inference tensors and
some tensors in lists have none, but the names of what writes them end in `_` or are listed.
"""

from __future__ import annotations

from typing import Any

import torch

# Functions that draw random numbers (the generator's state is an effect).
DRAWING: frozenset[str] = frozenset(
    {
        *("rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "normal", "bernoulli"),
        *("multinomial", "poisson", "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "rrelu"),
        *("feature_dropout", "feature_alpha_dropout", "native_dropout", "gumbel_softmax", "fractional_max_pool2d"),
        *("fractional_max_pool3d", "scaled_dot_product_attention", "normal_", "uniform_", "bernoulli_", "dropout_"),
        *("exponential_", "geometric_", "cauchy_", "log_normal_", "random_", "rrelu_", "alpha_dropout_"),
    }
)
# Others that do more than compute their result: they check, print, or set modes.
EFFECTFUL: frozenset[str] = DRAWING | frozenset(
    {
        *("batch_norm", "instance_norm"),
        *("_assert", "_assert_async", "_assert_scalar", "_assert_tensor_metadata", "_check"),
        *("_set_grad_enabled", "set_grad_enabled", "_enter_autocast", "_exit_autocast"),
        *("_enter_inference_mode", "_exit_inference_mode", "__setitem__", "setitem", "copy_", "manual_seed"),
        *("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul"),
        *("iand", "ior", "ixor", "ilshift", "irshift"),
    }
)


def draws_numbers(target: Any) -> bool:
    """Whether a call of `target` may draw random numbers."""
    if isinstance(target, torch._ops.OpOverload):
        return torch.Tag.nondeterministic_seeded in target.tags
    return (target if isinstance(target, str) else getattr(target, "__name__", "")) in DRAWING


def has_effect(target: Any) -> bool:
    """Whether a call of `target` must not be removed."""
    if isinstance(target, torch._ops.OpOverload):
        return draws_numbers(target) or not target._schema.returns
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    return name in EFFECTFUL or (name.endswith("_") and not name.endswith("__"))
