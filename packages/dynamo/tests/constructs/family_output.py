"""Printing, logging, warnings, files and clocks: what leaves the program, in its order."""

from __future__ import annotations

import io
import logging
import os
import random
import sys
import time
import warnings

import numpy
import torch
from table import construct

X = torch.arange(6.0).reshape(2, 3)
LOG = logging.getLogger("triptych.constructs")


@construct(X)
def print_of_constants(x):
    print("begin", 1, sep="-", end="!\n")
    y = x + 1
    print()
    print("end", (1, [2]), {"a": None})
    return y


@construct(X)
def print_of_a_tensor(x):
    y = x + 1
    print("y is", y)
    return y * 2


@construct(X)
def print_of_a_shape(x):
    print(f"shape {x.shape} {x.dtype}", x.size())
    return x * 2


@construct(X)
def print_between_operations_on_one_list(x):
    items = [1]
    print(items)
    items.append(2)
    print(items)
    return x, items


@construct(X, breaks="input-output")
def print_of_a_tensor_that_changes_later(x):
    y = x + 1
    print(y)
    y.add_(1)
    return y


@construct(X)
def print_in_a_nested_call(x):
    def inner(v):
        print("inner", v.shape[0])
        return v + 1

    return inner(inner(x))


@construct(X)
def print_in_a_loop(x):
    for index in range(3):
        x = x + index
        print("step", index)
    return x


@construct(X, raises=True)
def print_before_an_exception(x):
    print("before")
    raise ValueError("after the print")


@construct(X, [])
def print_and_changed_arguments(x, log):
    log.append("a")
    print("log", log)
    return x


@construct(X)
def print_to_standard_error(x):
    print("nothing to see", file=sys.stderr)
    return x + 1


@construct(X)
def logging_calls(x):
    LOG.debug("hidden %s", 1)
    LOG.warning("value %s of %d", "text", 3)
    logging.getLogger("triptych.constructs").error("error %r", [1])
    logging.warning("root %s", x.shape[0])
    return x * 2, LOG.isEnabledFor(logging.WARNING), LOG.name


@construct(X)
def warnings_in_order(x):
    warnings.warn("first", UserWarning, stacklevel=1)
    print("between")
    warnings.warn(DeprecationWarning("second"), stacklevel=2)
    return x - 1


@construct(X)
def output_of_all_kinds_in_order(x):
    print("one")
    LOG.warning("two")
    warnings.warn("three", stacklevel=1)
    print("four")
    return x


@construct(X, breaks="input-output")
def files(x):
    with open(os.devnull) as file:
        return x, file.read()


@construct(X, breaks="input-output", reads_time=True)
def clocks(x):
    started = time.time()
    return x + 1, time.perf_counter() >= 0, time.time() - started >= 0


@construct(X, breaks="input-output")
def sleeping(x):
    time.sleep(0)
    return x + 1


@construct(X)
def environment(x):
    return x, os.environ.get("TRIPTYCH_NOT_SET", "default"), "HOME" in os.environ, os.getenv("TRIPTYCH_NOT_SET")


@construct(X)
def own_random_generator(x):
    generator = random.Random(3)
    items = [1, 2, 3, 4]
    generator.shuffle(items)
    return x * generator.random(), generator.randint(1, 9), generator.choice("abc"), items, generator.uniform(1, 2)


@construct(X, random.Random(5), breaks="random-state")
def random_generator_argument(x, generator):
    return x + generator.random(), generator.randrange(100)


@construct(X)
def global_random_generator(x):
    random.seed(1)
    return x + random.random(), random.randint(1, 10), random.choice([1, 2, 3])


@construct(X)
def seeded_torch(x):
    torch.manual_seed(7)
    return x + torch.rand(3)


@construct(X)
def random_state_saved(x):
    state = torch.get_rng_state()
    first = torch.rand(3)
    torch.set_rng_state(state)
    return x + first, torch.rand(3)


@construct(X)
def forked_random_state(x):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        inside = torch.rand(2)
    return inside, torch.rand(2)


@construct(X, breaks="random-state")
def explicit_generator(x):
    generator = torch.Generator()
    generator.manual_seed(3)
    return x + torch.rand(3, generator=generator)


@construct(X, numpy.random.RandomState(3), breaks="attribute")
def numpy_generator(x, state):
    return x + float(state.rand())


@construct(X, breaks="input-output")
def logger_switched_off_and_on(x):
    LOG.disabled = True
    LOG.warning("not shown")
    LOG.disabled = False
    LOG.warning("shown")
    return x + 1


@construct(X)
def printing_to_a_redirected_stream(x):
    kept = sys.stdout
    sys.stdout = io.StringIO()
    print("inside")
    sys.stdout, text = kept, sys.stdout.getvalue()
    print("outside")
    return x + 1, text
