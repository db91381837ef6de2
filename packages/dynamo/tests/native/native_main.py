"""The C extension without torch, on any supported interpreter: no pytest.

python native_main.py <folder of the built extension> [check ...]
"""

import copy
import gc
import importlib.util
import inspect
import sys
import threading
import traceback
import types
import weakref
from pathlib import Path


def load(folder):
    """The extension built for this interpreter."""
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    spec = importlib.util.spec_from_file_location("_eval_frame", Path(folder) / f"_eval_frame{suffix}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


native = None


def program(*operations, slots=8):
    return native.GuardProgram(list(operations), slots)


def is_type(index, cls, guard=0):
    """Operations that check the type of a variable."""
    return [("local", 0, index, index, guard, None), ("type_is", index, 0, 0, guard, cls)]


def never(*_):
    raise AssertionError("not expected to be asked")


# -- binding and entries ---------------------------------------------------------------------------------------------
def check_binding():
    def fn(a, /, b, c=3, *rest, d, e=5, **more):
        return a, b, c, rest, d, e, more

    seen = []

    def miss(callable, function, values):
        assert function is fn and callable is compiled
        seen.append(values)
        return native.Entry(None, lambda *values: values)

    compiled = native.CompiledCallable(fn, miss)
    cases = [
        ((1, 2), {"d": 4}),
        ((1, 2, 30, 40, 50), {"d": 4, "e": 6, "z": 7, "a": 9}),
        ((1,), {"b": 2, "d": 4, "c": 8}),
    ]
    for args, kwargs in cases:
        a, b, c, rest, d, e, more = fn(*args, **kwargs)
        assert compiled(*args, **kwargs) == (a, b, c, d, e, rest, more)
    assert len(seen) == 1 and compiled.hits == 2 and compiled.misses == 1
    for args, kwargs in [((), {}), ((1, 2), {}), ((1, 2), {"d": 1, "b": 2}), ((1,), {"d": 1})]:
        try:
            fn(*args, **kwargs)
        except TypeError as error:
            expected = str(error)
        try:
            compiled(*args, **kwargs)
        except TypeError as error:
            assert str(error) == expected
        else:
            raise AssertionError("a wrong call went through")

    plain = native.CompiledCallable(lambda x: x, lambda *a: native.Entry(None, lambda x: x + 1))
    assert [plain(i) for i in range(3)] == [1, 2, 3]
    assert plain(x=5) == 6


def check_entries_and_misses():
    def fn(x):
        return ("original", x)

    made = []

    def miss(callable, function, values):
        cls = type(values[0])
        if cls is str:
            return None
        made.append(cls)
        return native.Entry(program(*is_type(0, cls)), lambda x, cls=cls: (cls.__name__, x), info=cls)

    compiled = native.CompiledCallable(fn, miss)
    assert compiled(1) == ("int", 1) and compiled(2.0) == ("float", 2.0) and compiled(3) == ("int", 3)
    assert made == [int, float] and [e.info for e in compiled.entries] == [int, float]  # most recently hit first
    assert compiled("a") == ("original", "a") and compiled("b") == ("original", "b")
    assert (compiled.hits, compiled.misses) == (1, 4)
    compiled.eager = True
    assert compiled(1) == ("original", 1)
    compiled.eager = False
    compiled.clear()
    assert compiled.entries == [] and compiled(1) == ("int", 1)

    def wrong(*_):
        return 5

    try:
        native.CompiledCallable(fn, wrong)(1)
    except TypeError as error:
        assert "Entry" in str(error)
    else:
        raise AssertionError


def check_metadata():
    def fn(x: int) -> int:
        "What it does."
        return x

    fn.mark = 7
    compiled = native.CompiledCallable(fn, lambda *_: None)
    assert compiled.__wrapped__ is fn and compiled.__name__ == "fn" and compiled.__doc__ == "What it does."
    assert (
        compiled.mark == 7
        and compiled.__module__ == fn.__module__
        and inspect.signature(compiled) == inspect.signature(fn)
    )
    compiled.other = 8
    assert compiled.other == 8 and callable(compiled) and copy.deepcopy(compiled) is compiled

    class Thing:
        method = native.CompiledCallable(
            lambda self, y: (self, y), lambda *_: native.Entry(None, lambda self, y: (y, self))
        )

    thing = Thing()
    assert thing.method(4) == (4, thing) and thing.method.__self__ is thing and Thing.method(thing, 4) == (4, thing)
    reference = weakref.ref(compiled)
    del compiled
    gc.collect()
    assert reference() is None


def check_code_targets():
    def outer(start):
        total = start

        def fn(x):
            nonlocal total
            total += x
            return total

        return fn

    fn = outer(10)
    cell = types.CellType("kept")

    def template(total, kept):
        def target(x):
            nonlocal total
            total += 100 * x
            return total, kept

        return target

    code = template(0, 1).__code__.replace(
        co_freevars=("total", "kept") if template(0, 1).__code__.co_freevars[0] == "total" else ("kept", "total")
    )
    assert code.co_freevars == ("kept", "total")  # sorted by name: rebuild with the caller's cells first
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    from triptych_dynamo.bytecode import assemble, decode

    code = assemble(decode(code), code, co_freevars=("total", "kept"))
    compiled = native.CompiledCallable(fn, lambda *_: native.Entry(None, code, cells=(cell,)))
    assert compiled(2) == (210, "kept") and compiled(1) == (310, "kept") and fn(1) == 311
    bad = native.CompiledCallable(fn, lambda *_: native.Entry(None, code))
    try:
        bad(1)
    except ValueError as error:
        assert "cells" in str(error)
    else:
        raise AssertionError


def check_original_as_target():
    def fn(a, *rest, key=2, **more):
        return a, rest, key, more, helper(1)

    seen = []

    def frame_miss(region, function, values):
        seen.append(function.__name__)
        return native.Entry(program(*is_type(0, int)), function.__code__)

    def miss(callable, function, values):
        return native.Entry(program(*is_type(0, int)), function.__code__, info="as it is")

    compiled = native.CompiledCallable(fn, miss, native.Region(frame_miss))
    for _ in range(3):
        assert compiled(1, 2, 3, key=4, z=5) == (1, (2, 3), 4, {"z": 5}, 2)
    assert seen == ["helper"] and compiled.entries[0].hits == 3 and (compiled.hits, compiled.misses) == (2, 1)
    outer = native.CompiledCallable(lambda: fn(1, 2, key=3, y=4), lambda *_: None, native.Region(frame_miss))
    for _ in range(3):
        assert outer() == (1, (2,), 3, {"y": 4}, 2)
    assert seen == ["helper", "fn", "helper"]


def check_collection():
    def build():
        def fn(x):
            return x

        entry_owner = []
        compiled = native.CompiledCallable(fn, lambda *_: entry_owner and None, native.Region(never))
        entry = native.Entry(program(("pinned", 0, 0, 0, 0, entry_owner)), lambda x: compiled, info=compiled)
        entry_owner.append(entry)
        compiled.add(entry)
        compiled(1)
        fn.back = compiled
        return weakref.ref(compiled), weakref.ref(fn)

    references = build()
    gc.collect()
    assert [r() for r in references] == [None, None]


# -- the hook --------------------------------------------------------------------------------------------------------
def helper(x):
    return x + 1


def middle(x):
    return helper(x) * 10


def root(x):
    return middle(x) + 0.5


def hooked(frame_miss, fn=root, miss=lambda *_: None):
    """A callable that runs `fn` as it is, with the frames under it through a region."""
    region = native.Region(frame_miss)
    return native.CompiledCallable(fn, miss, region), region


def check_hook_sees_frames():
    seen = []

    def frame_miss(region, function, values):
        seen.append((function.__name__, values))
        return None

    compiled, region = hooked(frame_miss)
    assert native.hook_state() == (None, 0, 0)
    assert compiled(1) == 20.5 and seen == [("middle", (1,)), ("helper", (1,))]
    assert compiled(1) == 20.5 and len(seen) == 2  # a skip holds in this region ...
    other, _ = hooked(frame_miss)
    assert other(1) == 20.5 and len(seen) == 4  # ... and nowhere else
    assert region.codes == {middle.__code__: None, helper.__code__: None}
    assert native.hook_state() == (None, 0, 0)
    assert root(1) == 20.5


def check_hook_replaces_frames():
    calls = []

    def replacement(x):
        calls.append(x)
        return x + 1000

    def frame_miss(region, function, values):
        assert native.hook_state()[0] is None  # off while our own code runs
        helper(1)
        if function is helper:
            return native.Entry(program(*is_type(0, int)), replacement)
        return None if function is not middle else False

    compiled, region = hooked(frame_miss)
    for _ in range(50):
        assert compiled(1) == 10010.5
    assert len(calls) == 50 and len(region.entries(helper.__code__)) == 1
    assert compiled(2.0) == 10020.5 and len(region.entries(helper.__code__)) == 2
    region.clear()
    assert region.entries(helper.__code__) == []
    region.skip(helper.__code__)
    assert compiled(1) == 20.5
    references = [sys.getrefcount(helper), sys.getrefcount(helper.__code__), sys.getrefcount(replacement)]
    region.clear()
    compiled(1)
    big = [object()]
    before = sys.getrefcount(big)
    compiled_big, _ = hooked(lambda *_: native.Entry(None, lambda x: 5), lambda x: middle(x))
    for _ in range(100):
        assert compiled_big(big) == 5
    assert sys.getrefcount(big) == before
    assert (
        sys.getrefcount(helper) == references[0]
        and references[1] - 3 <= sys.getrefcount(helper.__code__) <= references[1] + 3
    )


def check_recursion_and_chunks():
    def down(n, *rest, step=1):
        return 0 if n == 0 else step + down(n - step, *rest, step=step)

    def served(n, step, rest):
        return 0 if n == 0 else step + down(n - step, *rest, step=step)

    code = None

    def frame_miss(region, function, values):
        return native.Entry(None, served) if function is down else None

    compiled, _ = hooked(frame_miss, lambda n: down(n, "a", "b"))
    for depth in (1, 10, 60, 100, 440):
        assert compiled(depth) == depth

    def plainly(n):
        return 0 if n == 0 else 1 + plainly(n - 1)

    compiled, _ = hooked(lambda *_: None, lambda n: plainly(n))
    assert compiled(900) == 900  # as deep as without the hook

    def wide(x):  # frames that fill chunks of the interpreter's data stack, so that some begin one
        a = b = c = d = e = f = g = h = x
        return [a, b, c, d, e, f, g, h, [x, [x, [x, [x, [x, [x]]]]]]][0]

    def grow(n):
        return wide(n) if n == 0 else grow(n - 1) + wide(0)

    compiled, _ = hooked(lambda r, f, v: native.Entry(None, lambda x: x) if f is wide else None, lambda n: grow(n))
    for depth in range(0, 150, 7):
        assert compiled(depth) == 0
    assert code is None


def check_exceptions():
    class Mine(Exception):
        pass

    def raiser(x):
        raise Mine(x)

    def caller(x):
        try:
            return raiser(x)
        finally:
            seen.append(x)

    seen = []

    def replacement(x):
        raise Mine("compiled")

    for answer in (None, native.Entry(None, replacement)):
        compiled, _ = hooked(lambda r, f, v: answer if f is raiser else None, lambda x: caller(x))
        for _ in range(3):
            try:
                compiled(3)
            except Mine as error:
                names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
                assert names[-2:] == ["caller", "raiser" if answer is None else "replacement"], names
            else:
                raise AssertionError
            assert native.hook_state() == (None, 0, 0)

    def failing(*_):
        raise KeyError("in the callback")

    compiled, _ = hooked(failing)
    for _ in range(2):
        try:
            compiled(1)
        except KeyError:
            assert native.hook_state() == (None, 0, 0)
        else:
            raise AssertionError
    compiled = native.CompiledCallable(root, failing)
    try:
        compiled(1)
    except KeyError as error:
        assert "callback" in str(error)
    else:
        raise AssertionError


def check_generators_and_bodies():
    asked = []

    def numbers(n):
        for i in range(n):
            got = yield helper(i)
            if got:
                yield got

    async def coroutine(x):
        return helper(x)

    def run(n):
        class Local:  # a class body has a frame too
            value = helper(1)

        made = numbers(n)
        first = next(made)
        sent = made.send("sent")
        try:
            coroutine(5).send(None)
        except StopIteration as stop:
            awaited = stop.value
        return (
            first,
            sent,
            list(made),
            [helper(i) for i in range(2)],
            Local.value,
            awaited,
            eval("helper(7)", globals()),
        )

    def frame_miss(region, function, values):
        asked.append(function.__name__)
        return native.Entry(None, lambda x: x + 1) if function is helper else None

    expected = run(3)
    compiled, _ = hooked(frame_miss, run)
    for _ in range(3):
        assert compiled(3) == expected
    assert "numbers" not in asked and "coroutine" not in asked and asked.count("helper") == 1


def check_unhooked():
    seen = []

    def frame_miss(region, function, values):
        seen.append(function.__name__)
        return None

    quiet = native.Unhooked(middle)

    def run(x):
        return quiet(x) + helper(x)

    compiled, _ = hooked(frame_miss, run)
    assert compiled(1) == 22 and seen == ["helper"]
    assert quiet.__name__ == "middle" and quiet.__wrapped__ is middle and quiet(1) == 20

    inner = native.CompiledCallable(middle, lambda *_: native.Entry(None, middle, nested=False))

    def run_inner(x):
        return inner(x) + helper(x)

    seen.clear()
    compiled, _ = hooked(frame_miss, run_inner)
    assert compiled(1) == 22 and seen == ["helper"]

    class Thing:
        method = native.Unhooked(lambda self: native.hook_state()[0])

    compiled, region = hooked(frame_miss, lambda t: (t.method(), native.hook_state()[0]))
    assert compiled(Thing()) == (None, region)


def check_plain_runs():
    """Code that gives a PlainRun stands back for its original: its value, its exceptions, its own veto."""
    told = []

    def veto(returned):
        told.append(returned)
        if returned:
            raise LookupError("veto")

    def target(x, *rest):
        return native.PlainRun(told.append if x else veto)

    def plain(x, *rest, word="w"):
        assert native.hook_state()[0] is None
        return 10 // rest[0], x, rest, word

    def frame_miss(region, function, values):
        return native.Entry(None, lambda *given: target(*given)) if function is plain else None

    compiled = native.CompiledCallable(plain, lambda *_: native.Entry(None, lambda x, w, rest: target(x)))
    under, _ = hooked(frame_miss, lambda *args: plain(*args))
    for call in (compiled, under):
        before = sys.getrefcount(plain)
        assert call(1, 5, 6) == (2, 1, (5, 6), "w") and told.pop() is True
        for x, divisor, error in ((0, 5, LookupError), (1, 0, ZeroDivisionError), (0, 0, ZeroDivisionError)):
            try:
                call(x, divisor)
            except error as caught:
                assert caught.__context__ is None
            else:
                raise AssertionError("no error")
            assert told.pop() is (error is LookupError)
        assert sys.getrefcount(plain) == before and not told
    assert compiled(1, 2, word="z") == (5, 1, (2,), "z")


class Held:
    """What can be asked whether it is alive."""


def check_rests():
    seen, kept = [], []

    def rest(item, x):
        died = weakref.ref(item)
        del item
        seen.append(died() is None)
        return x

    def given(x):
        return Held(), x

    def root(x):
        return native.run_rest(rest, given(x))

    def keeping(x):
        kept.append(given(x))
        return native.run_rest(rest, kept[-1])

    def replaced(x):
        return native.run_rest(helper, (x,))

    compiled = native.CompiledCallable(rest, lambda *_: None, native.Region(lambda *_: None))
    for function, alone in [(root, True), (keeping, False), (lambda x: native.run_rest(compiled, given(x)), True)]:
        region = native.Region(lambda *_: None)
        assert native.CompiledCallable(function, lambda *_: None, region)(3) == 3
        assert seen.pop() is alone
    assert type(kept[0][0]) is Held  # somebody else's tuple stays as it is
    miss = lambda region, function, values: native.Entry(None, lambda x: x + 1) if function is helper else None  # noqa: E731
    region = native.Region(miss)
    assert native.CompiledCallable(replaced, lambda *_: None, region)(3) == 4
    for wrong in [(rest,), (rest, [1])]:
        try:
            native.run_rest(*wrong)
        except TypeError as error:
            assert "a function and a tuple" in str(error)
        else:
            raise AssertionError


def check_nested_regions():
    order = []
    inner, inner_region = hooked(lambda r, f, v: order.append(("inner", f.__name__)), middle)

    def run(x):
        before = native.hook_state()[0]
        result = inner(x) + helper(x)
        assert native.hook_state()[0] is before
        return result

    outer, outer_region = hooked(lambda r, f, v: order.append(("outer", f.__name__)), run)
    assert outer(1) == 22 and order == [("inner", "helper"), ("outer", "helper")]

    def again(callable, function, values):  # misses that compile other callables, and call their own
        return (
            native.Entry(None, lambda x: -x)
            if values[0] > 5
            else native.Entry(
                program(("local", 0, 0, 0, 0, None), ("equals", 0, 0, 0, 0, values[0])),
                lambda x, y=callable(values[0] + 1): y,
            )
        )

    assert native.CompiledCallable(root, again)(1) == -6


def check_threads():
    failures, region_seen = [], []

    def frame_miss(region, function, values):
        region_seen.append(region)
        return native.Entry(program(*is_type(0, int)), lambda x: x + 1) if function is helper else None

    compiled, region = hooked(frame_miss)

    def inside():
        for i in range(3000):
            if compiled(i) != (i + 1) * 10 + 0.5:
                failures.append(i)

    def outside():
        for i in range(3000):
            if root(i) != (i + 1) * 10 + 0.5 or native.hook_state()[0] is not None:
                failures.append(i)

    threads = [threading.Thread(target=t) for t in (inside, outside, inside, outside)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert not failures and set(region_seen) == {region} and native.hook_state() == (None, 0, 0)


def audited(x):
    sys.audit("triptych.check")
    return helper(x)


def check_watchers_are_left_alone():
    heard, asked = [], []

    def hook(event, given):
        if event == "triptych.check":
            heard.append(event)

    def tracer(frame, event, argument):
        heard.append(event)

    sys.addaudithook(hook)
    compiled, _ = hooked(lambda r, f, v: asked.append(f.__name__), fn=audited)
    sys.settrace(tracer)
    try:
        assert compiled(1) == helper(1)
    finally:
        sys.settrace(None)
    assert "triptych.check" in heard and "call" in heard, heard
    assert asked == ["helper"], asked


def check_tracing():
    events = []
    compiled, _ = hooked(lambda r, f, v: native.Entry(None, helper) if f is middle else None)

    def tracer(frame, event, argument):
        if frame.f_code.co_filename == __file__:
            events.append((event, frame.f_code.co_name))
        return tracer

    for install in (sys.settrace, sys.setprofile):
        events.clear()
        install(tracer)
        try:
            result = compiled(1)
        finally:
            install(None)
        assert result == 2.5 and ("call", "root") in events and ("call", "helper") in events, events
    if hasattr(sys, "monitoring"):
        events.clear()
        sys.monitoring.use_tool_id(3, "check")
        sys.monitoring.register_callback(
            3, sys.monitoring.events.PY_START, lambda code, at: events.append(code.co_name)
        )
        sys.monitoring.set_events(3, sys.monitoring.events.PY_START)
        try:
            assert compiled(1) == 2.5
        finally:
            sys.monitoring.set_events(3, 0)
            sys.monitoring.free_tool_id(3)
        assert "root" in events and "helper" in events


# -- snapshots of guards on object trees ------------------------------------------------------------------------------
class Leaf:
    def __init__(self):
        self.a = self.b = self.value = 0
        self.table = {}

    def store(self, value):
        self.value = value


def check_snapshots():
    class Holder:
        pass

    root = Holder()
    names = [f"leaf{i}" for i in range(8)]
    for name in names:
        setattr(root, name, Leaf())
    operations = [("local", 0, 0, 0, 0, None), ("instance_dict", 0, 1, 0, 0, None)]
    for index, name in enumerate(names):
        leaf, own, value, table = range(2 + 4 * index, 6 + 4 * index)
        operations += [
            ("dict_item", 1, leaf, 0, index, name),
            ("type_is", leaf, 0, 0, index, Leaf),
            ("instance_dict", leaf, own, 0, index, None),
            ("dict_item", own, value, 0, index, "value"),
            ("equals", value, 0, 0, index, 0),
            ("dict_item", own, table, 0, index, "table"),
            ("truth", table, 0, 0, index, None),
        ]
    guards = native.GuardProgram(operations, 2 + 4 * len(names))

    def failed():
        return guards.failed((root,))

    class Other(Leaf):
        pass

    assert failed() is None
    for turn in range(400):
        for _ in range(turn % 3 + (40 if turn % 50 == 0 else 0)):
            assert failed() is None
        leaf = getattr(root, names[turn % 8])
        leaf.store(turn + 1)  # a store that the interpreter specialises
        assert failed() == turn % 8, turn
        leaf.store(0)
        assert failed() is None
        leaf.table["x"] = 1
        assert failed() == turn % 8
        leaf.table.clear()
        assert failed() is None
        if turn % 7 == 0:
            leaf.__class__ = Other
            assert failed() == turn % 8
            leaf.__class__ = Leaf
        if turn % 11 == 0:
            old, leaf.__dict__ = leaf.__dict__, {**leaf.__dict__, "value": 1}
            assert failed() == turn % 8
            leaf.__dict__ = old
        if turn % 13 == 0:
            setattr(root, names[turn % 8], Leaf())
            gc.collect()
        if turn % 17 == 0:
            del leaf.table
            assert (failed() == turn % 8) == (getattr(root, names[turn % 8]) is leaf)
            leaf.table = {}
        assert failed() is None
    reference = weakref.ref(root)
    root = leaf = None
    gc.collect()
    assert reference() is None


CHECKS = {name[6:]: value for name, value in list(globals().items()) if name.startswith("check_")}

if __name__ == "__main__":
    native = load(sys.argv[1])
    for name in sys.argv[2:] or CHECKS:
        CHECKS[name]()
        print("ok", name, flush=True)
    assert "torch" not in sys.modules
