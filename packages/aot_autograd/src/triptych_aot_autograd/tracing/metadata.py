"""Metadata of results: what size, stride, dtype and device an op gives, found once for each op and set of arguments.

`Metadata.infer(func, args, kwargs, key)` gives a template of the result: `Facts` in place of tensors, in the op's
own nest of lists and
tuples. Four ways, cheapest first: a table of templates seen before in this trace; a rule (`shape_rules`); the meta
kernel, run
on meta tensors; FakeTensorMode, for ops that need its rules, for symbolic sizes and for mixed devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_iter, tree_map

from triptych_aot_autograd import _torch_compat as compat
from triptych_aot_autograd.errors import DataDependentError
from triptych_aot_autograd.tracing.facts import Facts, FactsTable, TracedTensor
from triptych_aot_autograd.tracing.shape_rules import ASK_DEVICE, STATIC_META, rule_for

aten = torch.ops.aten
UNCACHED_TAGS = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}


class Metadata:
    """Infers the facts of results for one trace. `fake_mode` is made when it is first needed."""

    def __init__(self, facts: FactsTable, fake_mode: Callable[[], compat.FakeTensorMode]) -> None:
        self.facts = facts
        self._fake_mode = fake_mode
        self._seen: dict[Any, Any] = {}
        self._by_meta_kernel: dict[Any, bool] = {}
        self.counts = {"seen": 0, "rule": 0, "meta": 0, "fake": 0}

    def infer(self, func: Any, args: Any, kwargs: Any, key: Any) -> Any:
        """The template of `func(*args, **kwargs)`. `key` is hashable and tells all arguments apart, or None."""
        if key is not None:
            try:
                template = self._seen.get(key)
            except TypeError:
                key = template = None
            if template is not None:
                self.counts["seen"] += 1
                return template
        template = self._by_rule(func, args, kwargs)
        if template is None:
            template = self._compute(func, args, kwargs)
        if key is not None and UNCACHED_TAGS.isdisjoint(func.tags):
            self._seen[key] = template
        return template

    def _by_rule(self, func: Any, args: Any, kwargs: Any) -> Any:
        rule = rule_for(func)
        template = rule(self.facts, func, args, kwargs) if rule is not None else None
        if template is not None:
            self.counts["rule"] += 1
        return template

    def _compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        if self._runs_on_meta(func):
            device = _common_device(args, kwargs)
            if device is not None:
                template = self._by_meta(func, args, kwargs, device)
                if template is not None:
                    return template
        return self._by_fake(func, args, kwargs)

    def _runs_on_meta(self, func: Any) -> bool:
        known = self._by_meta_kernel.get(func)
        if known is None:
            known = func in STATIC_META or (not compat.needs_fake_rule(func) and compat.has_meta_kernel(func))
            known = known and func._overloadpacket not in ASK_DEVICE
            self._by_meta_kernel[func] = known
        return known

    def _by_meta(self, func: Any, args: Any, kwargs: Any, device: torch.device) -> Any:
        meta_args = tree_map(_as_meta, args)
        meta_kwargs = {name: _as_meta(value) for name, value in kwargs.items()}
        try:
            with compat.below_autograd():
                result = func(*meta_args, **meta_kwargs)
        except NotImplementedError:
            return None
        self.counts["meta"] += 1
        return _template(result, lambda t: self.facts.of(t, device))

    def _by_fake(self, func: Any, args: Any, kwargs: Any) -> Any:
        mode = self._fake_mode()
        self.counts["fake"] += 1
        # A fake tensor remembers the symbol of its number and the length of its nonzero(): tensors that look alike
        # must not share those.
        make = Facts.as_fake if UNCACHED_TAGS.isdisjoint(func.tags) else Facts.fresh_fake

        def as_fake(value: Any) -> Any:
            return make(value._facts, mode) if isinstance(value, TracedTensor) else value

        fake_args, fake_kwargs = tree_map(as_fake, args), tree_map(as_fake, kwargs)  # made outside of the mode
        try:
            # Kernels in Python call ops with symbolic sizes that only torch's Python dispatcher takes.
            with compat.below_autograd(), compat.no_autocast(), compat.python_dispatcher(), mode:
                result = func(*fake_args, **fake_kwargs)
        except compat.data_dependent_errors as error:
            raise DataDependentError(f"{func}: the result depends on the numbers in a tensor ({error})") from error
        if make is Facts.fresh_fake:
            compat.forget_unclaimed_symbols(mode)
        return _template(result, self.facts.of)


def _as_meta(value: Any) -> Any:
    if isinstance(value, TracedTensor):
        return value._facts.as_meta()
    return META if isinstance(value, torch.device) else value


META = torch.device("meta")
CPU = torch.device("cpu")


def _common_device(args: Any, kwargs: Any) -> torch.device | None:
    """The device of the result where it is beyond doubt and no size is symbolic, else None."""
    if "device" in kwargs and kwargs["device"] is not None:
        return None
    device = None
    for value in tree_iter((args, kwargs)):
        if isinstance(value, TracedTensor):
            facts = value._facts
            if facts.symbolic or (device is not None and facts.device != device):
                return None
            device = facts.device
        elif isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, torch.Tensor, torch.device)):
            return None
    return device


def _template(result: Any, facts_of: Callable[[torch.Tensor], Facts]) -> Any:
    if isinstance(result, torch.Tensor):
        return facts_of(result)
    if isinstance(result, (tuple, list)):
        return (
            type(result)(_template(r, facts_of) for r in result)
            if type(result) in (tuple, list)
            else tuple(_template(r, facts_of) for r in result)
        )
    return result
