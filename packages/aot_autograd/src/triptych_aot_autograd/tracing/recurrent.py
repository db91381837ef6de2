"""Recurrent layers (`torch.lstm`, `gru`, `rnn_tanh`, `rnn_relu`) of a traced function.

They are traced through torch's decompositions in Python. Those leave out the dropout between the layers of a stack, so
a stack with dropout is taken apart here: one call for each layer, with `torch.dropout` between, as the C++ code does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from triptych_aot_autograd import _torch_compat as compat

FUNCTIONS = frozenset(compat.recurrent_functions)
_PADDED = ("input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")


def run(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """What `function(*args, **kwargs)` gives: the outputs, and the last states of all layers.

    Args:
        function: one of `FUNCTIONS`.
        args: those of a padded input `(T, N, F)` (`(N, T, F)` with `batch_first`). (Those of packed data are passed on:
            torch asks for the batch sizes, which a trace does not know.)
        kwargs: the same by name.
    """
    found = dict(zip(_PADDED, args, strict=False)) | kwargs
    packed = "data" in found or isinstance(found["has_biases"], (tuple, list))
    if packed or not (found["train"] and found["dropout"] and found["num_layers"] > 1):
        return _call(function, args, kwargs)
    return _layer_by_layer(function, {name: found[name] for name in _PADDED})


def _layer_by_layer(function: Callable[..., Any], given: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    count, width = given["num_layers"], 2 if given["bidirectional"] else 1
    each = len(given["params"]) // count
    value = given["input"].transpose(0, 1) if given["batch_first"] else given["input"]
    alone = {"num_layers": 1, "dropout": 0.0, "batch_first": False}
    states = []
    for layer in range(count):
        if layer:
            value = torch.dropout(value, given["dropout"], True)
        params = given["params"][layer * each : (layer + 1) * each]
        mine = given | alone | {"input": value, "hx": _slice(given["hx"], layer * width, width), "params": params}
        value, *last = _call(function, tuple(mine.values()), {})
        states.append(last)
    if given["batch_first"]:
        value = value.transpose(0, 1)
    return (value, *(torch.cat(kind) for kind in zip(*states, strict=True)))


def _slice(states: Any, start: int, count: int) -> Any:
    """The first states of one layer: of a tensor, or of each of LSTM's two."""
    if isinstance(states, torch.Tensor):
        return states[start : start + count]
    return [state[start : start + count] for state in states]


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    if args:
        args = (_as_differentiable(args), *args[1:])
    with compat.python_dispatcher():
        return function(*args, **kwargs)  # type: ignore[no-any-return]


def _as_differentiable(args: tuple[Any, ...]) -> Any:
    """The input of a recurrent layer, marked as requiring a gradient when any argument does.

    torch's decomposition takes a kernel without a backward when the input alone requires none.
    """
    source = args[0]
    if not torch.is_grad_enabled() or source.requires_grad or not source.dtype.is_floating_point:
        return source
    others = any(isinstance(t, torch.Tensor) and t.requires_grad for t in tree_leaves(args))
    return source.detach().requires_grad_() if others else source
