"""Programs whose graph fails at run time: operations that fail, what precedes them, and the frames around them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
import triptych_dynamo

Operation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
COUNT = 0


class Counter:
    """A class whose attribute programs change."""

    number = 0


@triptych_dynamo.disable
def stop(state: Any) -> None:
    """A graph break."""
    state.log.append("stop")


# (x, number) -> tensor; the number 9 is more than they can take.
OPERATIONS: dict[str, Operation] = {
    "index": lambda x, number: x[number],
    "gather": lambda x, number: torch.gather(x, 0, number.reshape(1)),
    "embedding": lambda x, number: torch.nn.functional.embedding(number, x.reshape(-1, 1)),
    "index_add": lambda x, number: x.index_add(0, number.reshape(1), x[:1]),
    "cholesky": lambda x, number: torch.linalg.cholesky(torch.eye(2) * (3 - number)),
    "inverse": lambda x, number: torch.linalg.inv(torch.eye(2) * (9 - number)),
    "nll_loss": lambda x, number: torch.nn.functional.nll_loss(x.reshape(1, -1), number.reshape(1)),
    "remainder": lambda x, number: number // (9 - number),
    "bernoulli": lambda x, number: torch.bernoulli(number - x.detach().sigmoid()),
}


def asserted(x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    """A check in the graph."""
    torch._assert(number < 5, "too much")
    return x + 1


def of_random(x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    """Random numbers are drawn before the failure."""
    return (torch.nn.functional.dropout(x, 0.5) + torch.rand(x.shape))[number]


OPERATIONS |= {"assert": asserted, "after_random": of_random}


# -- what precedes: (state) -> None; state has log, box, and set -------------------------------------------------------
def _global(state: Any) -> None:
    global COUNT
    COUNT += 1
    state.log.append(COUNT)


def _attribute(state: Any) -> None:
    state.box.count = state.box.count + 1
    state.box.fresh = len(state.log)


def _class_attribute(state: Any) -> None:
    Counter.number += 1
    state.log.append(Counter.number)


EFFECTS: dict[str, Callable[[Any], None]] = {
    "append": lambda state: state.log.append("before"),
    "attribute": _attribute,
    "global": _global,
    "print": lambda state: print("before"),
    "dictionary": lambda state: state.box.words.update(before=len(state.box.words)),
    "class_attribute": _class_attribute,
    "cell": lambda state: state.bump(),
}


# -- frames: (x, number, operation, effect, state) -> result -----------------------------------------------------------
def whole(x: torch.Tensor, number: torch.Tensor, operation: Any, effect: Any, state: Any) -> Any:
    """The frame itself."""
    effect(state)
    result = operation(x.sin(), number)
    state.log.append("after")
    return result + 1


def behind_a_break(x: torch.Tensor, number: torch.Tensor, operation: Any, effect: Any, state: Any) -> Any:
    """A continuation."""
    state.log.append("first")
    kept = x * 2
    stop(state)
    effect(state)
    result = operation(kept, number)
    state.log.append("after")
    return result + x.sum()


def before_a_break(x: torch.Tensor, number: torch.Tensor, operation: Any, effect: Any, state: Any) -> Any:
    """The first piece of a frame."""
    effect(state)
    result = operation(x.sin(), number)
    stop(state)
    state.log.append("after")
    return result + 1


def _called(x: torch.Tensor, number: torch.Tensor, operation: Any, effect: Any, state: Any) -> Any:
    state.log.append("called")
    result = operation(x.cos(), number)
    stop(state)
    effect(state)
    return operation(result.flatten()[:1].double() + x, number)


def nested(x: torch.Tensor, number: torch.Tensor, operation: Any, effect: Any, state: Any) -> Any:
    """A call that breaks."""
    effect(state)
    result = _called(x + 1, number, operation, effect, state)
    state.log.append("after")
    return result


def handled(x: torch.Tensor, number: torch.Tensor, operation: Any, effect: Any, state: Any) -> Any:
    """The frame's own handlers."""
    result = x
    try:
        effect(state)
        result = operation(x.sin(), number)
        state.log.append("after")
    except (RuntimeError, IndexError, AssertionError, ZeroDivisionError) as error:
        state.log.append((type(error).__name__, str(error), repr(error.__context__)))
        result = result * 2
    else:
        state.log.append("else")
    finally:
        state.log.append("finally")
    return result


def in_handler(x: torch.Tensor, number: torch.Tensor, operation: Any, effect: Any, state: Any) -> Any:
    """While another exception is handled."""
    try:
        effect(state)
        raise KeyError("first")
    except KeyError:
        return operation(x.sin(), number)


def in_blocks(x: torch.Tensor, number: torch.Tensor, operation: Any, effect: Any, state: Any) -> Any:
    """In a `with` block that sets a mode, in one that suppresses."""
    with contextlib.suppress(IndexError, RuntimeError), torch.no_grad():
        effect(state)
        x = operation(x.sin(), number) * 2
        state.log.append("after")
    state.log.append(torch.is_grad_enabled())
    return x + 1


def _numbers(x: torch.Tensor, number: torch.Tensor, operation: Any, effect: Any, state: Any) -> Iterator[Any]:
    try:
        yield x + 1
        effect(state)
        yield operation(x, number)
    finally:
        state.log.append("closed")


def in_generator(x: torch.Tensor, number: torch.Tensor, operation: Any, effect: Any, state: Any) -> Any:
    """A generator of the frame."""
    total = [item.sum() for item in _numbers(x.sin(), number, operation, effect, state)]
    state.log.append("after")
    return total


FRAMES: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (whole, behind_a_break, before_a_break, nested, handled, in_handler, in_blocks, in_generator)
}


def new_state() -> Any:
    """What effects change, as new."""
    global COUNT
    COUNT = Counter.number = 0
    made = 0

    def bump() -> None:
        nonlocal made
        made += 1

    state = SimpleNamespace(log=[], box=SimpleNamespace(count=0, words={}), bump=bump)
    state.look = lambda: (state.log, vars(state.box), COUNT, Counter.number, made)
    return state
