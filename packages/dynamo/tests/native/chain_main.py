"""The frame hook in a chain with another evaluator, on any supported interpreter: no pytest, no torch.

python chain_main.py <folder of both built extensions>
"""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path


def load(folder, name):
    """An extension built for this interpreter."""
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    spec = importlib.util.spec_from_file_location(name, Path(folder) / f"{name}{suffix}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


native = other = None


def helper(x):
    return x + 0.5


def middle(x):
    return helper(x) * 10


def root(x):
    return middle(x) + 5


class Asked:
    """A compiled callable whose originals run; it notes the frames that the hook asked about."""

    def __init__(self, answer, fn=root):
        self.names, self.answer = [], answer
        self.region = native.Region(self.frame_miss)
        self.call = native.CompiledCallable(fn, lambda *_: None, self.region)

    def frame_miss(self, region, function, values):
        self.names.append(function.__name__)
        return self.answer(function)

    def asks(self, *names):
        """One call: the result is right and the hook asked for just these frames."""
        self.names.clear()
        assert self.call(1) == 20.0, self.call(1)
        assert self.names == list(names), (self.names, names)


def not_this_time(function):
    return False


def check_another_below():
    """It was there first: what it hands on goes to the interpreter."""
    other.install()
    before = other.seen()
    Asked(not_this_time).asks("middle", "helper")
    assert other.seen() - before >= 3
    other.uninstall()
    assert native.hook_state() == (None, 0, 0)


def check_another_that_hands_back():
    """It came while the hook was on, so each of the two has the other below it: a frame is looked at once."""
    asked = Asked(not_this_time, lambda x: (other.install(), root(x))[1])
    asked.asks("root", "middle", "helper")  # under it, and below it
    asked = Asked(not_this_time)
    for _ in range(3):
        asked.asks("middle", "helper")  # around it: it hands every frame back to the hook
    skipped = Asked(lambda function: None)
    skipped.asks("middle", "helper")
    skipped.asks()
    served = Asked(lambda function: native.Entry(None, lambda x: x + 0.5) if function is helper else False)
    served.asks("middle", "helper")
    served.asks("middle")
    other.uninstall()  # which puts back what it found: the hook
    before = other.seen()
    assert root(1) == 20.0 and native.hook_state() == (None, 0, 0)
    Asked(not_this_time).asks("middle", "helper")
    assert other.seen() == before and native.hook_state() == (None, 0, 0)


def check_recursion_through_both():
    """Frames of one code object inside each other are different frames."""

    def down(x, n=6):
        return 20.0 if n == 0 else down(x, n - 1)

    other.install()
    asked = Asked(not_this_time, down)
    asked.asks(*["down"] * 6)
    other.uninstall()
    Asked(not_this_time, down).asks(*["down"] * 6)
    assert native.hook_state() == (None, 0, 0)


def check_errors_through_both():
    """An exception passes both, and the next call is looked at again."""

    def raising(x):
        raise KeyError(x)

    def catching(x):
        try:
            return raising(x)
        except KeyError:
            return root(x)

    other.install()
    asked = Asked(not_this_time, catching)
    for _ in range(2):
        asked.asks("raising", "root", "middle", "helper")
    other.uninstall()
    assert native.hook_state() == (None, 0, 0)


CHECKS = {name[6:]: value for name, value in list(globals().items()) if name.startswith("check_")}

if __name__ == "__main__":
    native, other = load(sys.argv[1], "_eval_frame"), load(sys.argv[1], "other_evaluator")
    for name, check in CHECKS.items():
        check()
        print("ok", name, flush=True)
    assert "torch" not in sys.modules
