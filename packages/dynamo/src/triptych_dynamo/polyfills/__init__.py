"""Python models of functions that CPython writes in C, and the table that says which stands for which.

The interpreter inlines the model where the original is called. Every model is compared with its original by property
tests.
"""

from __future__ import annotations

import bisect
import collections
import functools
import heapq
import io
import itertools
import json.encoder
import json.scanner
import math
import operator
import re
import types
from collections.abc import Callable
from typing import Any

from triptych_dynamo._torch_compat import group_tensors, lazy_property
from triptych_dynamo.polyfills import containers, distributions, heaps, iteration, reductions, tensor_lists, texts

MODELS: dict[Any, Callable[..., Any]] = {
    itertools.chain: iteration.chain,
    itertools.islice: iteration.islice,
    itertools.repeat: iteration.repeat,
    itertools.count: iteration.count,
    itertools.cycle: iteration.cycle,
    itertools.product: iteration.product,
    itertools.accumulate: iteration.accumulate,
    itertools.takewhile: iteration.takewhile,
    itertools.dropwhile: iteration.dropwhile,
    itertools.filterfalse: iteration.filterfalse,
    itertools.starmap: iteration.starmap,
    itertools.compress: iteration.compress,
    itertools.zip_longest: iteration.zip_longest,
    itertools.pairwise: iteration.pairwise,
    itertools.combinations: iteration.combinations,
    itertools.combinations_with_replacement: iteration.combinations_with_replacement,
    itertools.permutations: iteration.permutations,
    itertools.groupby: iteration.groupby,
    itertools.tee: iteration.tee,
    any: reductions.any_,
    all: reductions.all_,
    functools.reduce: reductions.reduce,
    functools.cmp_to_key: reductions.cmp_to_key,
    operator.length_hint: reductions.length_hint,
    math.prod: reductions.prod,
    operator.countOf: reductions.count_of,
    operator.indexOf: reductions.index_of,
    operator.attrgetter: reductions.attrgetter,
    operator.itemgetter: reductions.itemgetter,
    operator.methodcaller: reductions.methodcaller,
    collections._count_elements: containers.count_elements,  # type: ignore[attr-defined]
    heapq.heappush: heaps.heappush,
    heapq.heappop: heaps.heappop,
    heapq.heapreplace: heaps.heapreplace,
    heapq.heappushpop: heaps.heappushpop,
    heapq.heapify: heaps.heapify,
    bisect.bisect_left: heaps.bisect_left,
    bisect.bisect_right: heaps.bisect_right,
    bisect.insort_left: heaps.insort_left,
    bisect.insort_right: heaps.insort_right,
    io.TextIOWrapper.write: texts.write,
    io.TextIOWrapper.flush: texts.flush,
    io.StringIO.write: texts.write,
    io.StringIO.flush: texts.flush,
    re.Pattern.sub: texts.sub,
    re.Pattern.subn: texts.subn,
    json.encoder.c_make_encoder: texts.make_encoder,  # type: ignore[attr-defined]
    json.scanner.c_make_scanner: json.scanner.py_make_scanner,  # type: ignore[attr-defined]
    types.SimpleNamespace.__eq__: containers.namespace_eq,
    types.SimpleNamespace.__ne__: containers.namespace_ne,
    types.SimpleNamespace.__repr__: containers.namespace_repr,
    lazy_property.__get__: distributions.lazy_property_get,
    group_tensors: tensor_lists.group_by_device_and_dtype,
}
for _name in ("heapify_max", "heappop_max", "heapreplace_max"):
    for _found in (getattr(heapq, _name, None), getattr(heapq, "_" + _name, None)):  # public from 3.14 on
        if _found is not None:
            MODELS[_found] = getattr(heaps, _name)
if hasattr(itertools, "batched"):
    MODELS[itertools.batched] = iteration.batched
