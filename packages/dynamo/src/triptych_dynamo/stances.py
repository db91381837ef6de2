"""Stances: how every compiled callable of this process behaves for a while, whatever it was compiled for.

`set_stance` is process-wide by its meaning ("from here on nothing is compiled"). In the default stance calls do not
come here at all; in another one the C layer hands every call of a compiled callable to `_route`, or what is not
compiled yet asks `on_miss`.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triptych_dynamo._eval_frame import CompiledCallable, set_router
from triptych_dynamo.errors import StanceError, did_you_mean
from triptych_dynamo.steering import mark

if TYPE_CHECKING:
    from triptych_dynamo.region_handle import RegionHandle

Backend = Callable[..., Any]

STANCES = {
    "default": "compile as asked",
    "force_eager": "run the original; compile nothing, use nothing compiled",
    "eager_on_recompile": "use what is compiled where its guards hold, else run eagerly; compile nothing",
    "fail_on_recompile": "use what is compiled where its guards hold, else raise",
    "eager_then_compile": "run each callable eagerly once, note its sizes, compile from the second call on",
    "aot_eager_then_compile": "the same, the first call with autograd ahead of time but no code generation",
}


@dataclass(frozen=True)
class Stance:
    """One stance. first_backend: compiles the first call of `aot_eager_then_compile`."""

    name: str = "default"
    skip_guard_eval_unsafe: bool = False
    force_backend: Backend | None = None
    first_backend: Backend | None = None


DEFAULT = Stance()
DIRECT, UNGUARDED, ANEW = 1, 2, 3  # modes of `CompiledCallable.direct`


@dataclass(eq=False)
class _Setting:
    """One call of `set_stance`. entered: it is a `with` block's. replaced: the setting that it took the place of."""

    stance: Stance
    thread: int
    entered: bool = False
    replaced: _Setting | None = None


class _Current:
    """The process's stance: the last setting that holds. Blocks of several threads may end in any order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settings: list[_Setting] = []
        self.stance = DEFAULT
        self.agree: Callable[[bool], bool] | None = None

    def set(self, stance: Stance, *, entered: bool = False) -> _Setting:
        """A stance holds from now on."""
        made = _Setting(stance, threading.get_ident(), entered)
        with self._lock:
            last = self._settings[-1] if self._settings else None
            if last is not None and not last.entered and last.thread == made.thread:
                last.replaced = None
                made.replaced = self._settings.pop()
            self._settings.append(made)
            self._update()
        return made

    def enter(self, setting: _Setting) -> _Setting:
        """A block begins with a setting that was made for it; a later block with the same one makes another."""
        with self._lock:
            if setting in self._settings and not setting.entered:
                setting.entered = True
                return setting
        return self.set(setting.stance, entered=True)

    def end(self, setting: _Setting) -> None:
        """A block ends: what was set in it, without a block of its own, ends too."""
        with self._lock:
            if setting not in self._settings:
                return
            at = self._settings.index(setting)
            before, after = self._settings[:at], self._settings[at + 1 :]
            kept = [later for later in after if later.entered or later.thread != setting.thread]
            self._settings = [*before, *([setting.replaced] if setting.replaced else ()), *kept]
            self._update()

    def _update(self) -> None:
        self.stance = self._settings[-1].stance if self._settings else DEFAULT
        self._set_router()

    def swap_agreement(self, agree: Callable[[bool], bool] | None) -> Callable[[bool], bool] | None:
        """Set what processes decide with, give what was set before."""
        with self._lock:
            before, self.agree = self.agree, agree
            self._set_router()
            return before

    def _set_router(self) -> None:
        stance = self.stance
        routed = self.agree is not None or stance.skip_guard_eval_unsafe or stance.force_backend is not None
        routed = routed or stance.name in ("force_eager", "aot_eager_then_compile")
        set_router(_route if routed else None)


_current = _Current()
_seen: weakref.WeakSet[CompiledCallable] = weakref.WeakSet()  # callables that ran eagerly once
_alternates: weakref.WeakKeyDictionary[CompiledCallable, dict[int, Any]] = weakref.WeakKeyDictionary()


def current() -> Stance:
    """The stance of the process."""
    return _current.stance


class set_stance:  # noqa: N801  (called like a function)
    """Set how compiled callables behave: from now on, for a `with` block, or (as a decorator) while a function runs.

    Args:
        stance: a key of `STANCES`.
        skip_guard_eval_unsafe: a callable that was compiled once runs that code without a look at its guards; only
            right where nothing that it depends on changes any more.
        force_backend: compiles with this backend, whatever a callable was compiled with.
        first_backend: for "aot_eager_then_compile": the backend of the first call.

    Raises:
        StanceError: at once, for an unknown stance, or a backend forced under another stance than "default".

    Example:
        >>> with set_stance("fail_on_recompile"):
        ...     serve(model, requests)
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: Backend | None = None,
        first_backend: Backend | None = None,
    ) -> None:
        if stance not in STANCES:
            raise StanceError(f"unknown stance {stance!r}: {did_you_mean(str(stance), STANCES)}")
        if force_backend is not None and stance != "default":
            raise StanceError(f"force_backend compiles, which stance {stance!r} does not do: give it with 'default'")
        if force_backend is not None and not callable(force_backend):
            raise StanceError(f"force_backend is a callable (gm, example_inputs), not {force_backend!r}")
        if stance == "aot_eager_then_compile" and first_backend is None:
            raise StanceError("stance 'aot_eager_then_compile' needs first_backend (triptych.compiler gives it)")
        self.stance = Stance(stance, skip_guard_eval_unsafe, force_backend, first_backend)
        self._setting = _current.set(self.stance)
        self._entered: list[_Setting] = []

    def __enter__(self) -> None:
        self._entered.append(_current.enter(self._setting))

    def __exit__(self, *exception: object) -> None:
        _current.end(self._entered.pop())

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate `fn`: the stance holds while it runs, and not before."""
        _current.end(self._setting)

        @functools.wraps(fn)
        def run(*args: Any, **kwargs: Any) -> Any:
            setting = _current.set(self.stance, entered=True)
            try:
                return fn(*args, **kwargs)
            finally:
                _current.end(setting)

        return run


mark(set_stance, "forbidden", "set_stance changes how compiled code runs: call it outside the compiled region")


def forget() -> None:
    """Forget which callables ran already, and what was compiled for forced backends."""
    _seen.clear()
    _alternates.clear()


def on_miss(handle: RegionHandle, owner: Any, first_time: Callable[[], None]) -> bool:
    """Whether something that has no fitting compiled code may be compiled now.

    Args:
        handle: the region; owner: the callable or code object; first_time: notes the sizes of the call at hand.

    Raises:
        StanceError: under "fail_on_recompile".
    """
    name = _current.stance.name
    if name == "fail_on_recompile":
        raise StanceError(f"{owner} would be compiled now, and the stance is 'fail_on_recompile'")
    if name == "eager_then_compile" and isinstance(owner, CompiledCallable) and owner not in _seen:
        _seen.add(owner)
        first_time()
        return False
    return name != "eager_on_recompile"


def _route(compiled: CompiledCallable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a compiled callable in a stance that the C layer does not know."""
    stance = _current.stance
    if stance.name == "force_eager":
        return compiled.fn(*args, **kwargs)
    if stance.force_backend is not None:
        return _alternate(compiled, stance.force_backend).direct(args, kwargs)
    if stance.name == "aot_eager_then_compile" and not compiled.entries and compiled not in _seen:
        assert stance.first_backend is not None
        _seen.add(compiled)
        return _alternate(compiled, stance.first_backend).direct(args, kwargs)
    return compiled.direct(args, kwargs, _mode(compiled, args, kwargs, stance))


def _mode(compiled: CompiledCallable, args: tuple[Any, ...], kwargs: dict[str, Any], stance: Stance) -> int:
    """How the C layer is to run the call."""
    agree = _current.agree
    if agree is not None:
        fits = compiled.fits(args, kwargs)
        if not agree(fits) and fits:
            return ANEW
    return UNGUARDED if stance.skip_guard_eval_unsafe else DIRECT


def set_guard_agreement(agree: Callable[[bool], bool] | None) -> Callable[[bool], bool] | None:
    """Let several processes decide together whether a call is compiled anew; gives the function that was set before.

    Args:
        agree: told at each call of a compiled callable whether one of its versions fits, and answers whether that is so
            everywhere; where it is not, every process compiles. None: each process decides alone.
    """
    return _current.swap_agreement(agree)


def _alternate(compiled: CompiledCallable, backend: Backend) -> CompiledCallable:
    """The same function compiled with another backend, in a region of its own."""
    handle = compiled.miss.__self__
    if handle.backend is backend:
        return compiled
    known = _alternates.setdefault(compiled, {})
    if id(backend) not in known:
        known[id(backend)] = handle.with_backend(backend).callable_for(compiled.fn)
    return known[id(backend)]
