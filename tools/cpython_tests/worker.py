"""``python -m tools.cpython_tests.worker MODULE MODE [SKIP ...]``: runs the tests of a module in this process.

MODE is plain or compiled. Writes a line of JSON for each test: its name when it starts, then its outcome. SKIP are
names of tests that are left out.
"""

from __future__ import annotations

import importlib
import io
import json
import signal
import sys
import traceback
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import triptych_dynamo

SECONDS = 40  # of processor time that a test may take; what waits ends after ten times as long


class Outcome(unittest.TestResult):
    """The outcome of one test: "pass", "skip", or the last line of the failure."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome = "pass"

    def addError(self, test: Any, err: Any) -> None:
        """An exception."""
        self.outcome = _last_line(err)

    def addFailure(self, test: Any, err: Any) -> None:
        """A failed assertion."""
        self.outcome = _last_line(err)

    def addSkip(self, test: Any, reason: str) -> None:
        """Skipped."""
        self.outcome = "skip"

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        """The end of a subtest."""
        if err is not None:
            self.outcome = _last_line(err)


def _last_line(err: Any) -> str:
    return "".join(traceback.format_exception_only(err[0], err[1])).strip()[:300]


def tests_of(suite: Any) -> Iterator[unittest.TestCase]:
    """The single tests of a suite."""
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from tests_of(item)
        elif type(item).__module__.startswith("test."):
            yield item


def run_test(test: unittest.TestCase, compiled: bool) -> str:
    """Run one test and give its outcome."""
    name = test._testMethodName
    if compiled:
        setattr(test, name, triptych_dynamo.optimize("eager")(getattr(test, name)))
    result = Outcome()
    _limit(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            test.run(result)
    except TimeoutError:
        return "timeout"
    finally:
        _limit(0)
    return result.outcome


def _limit(seconds: int) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(10 * seconds)


def _on_alarm(number: int, frame: Any) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def main() -> None:
    """Run the command."""
    module, mode, *skipped = sys.argv[1:]
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, _on_alarm)
    if mode == "compiled":  # what the first trace imports is no test's time, and no alarm cuts it short
        triptych_dynamo.optimize("eager")(lambda x: x + 1)(torch.ones(1))
    out, sys.stdout = sys.stdout, io.StringIO()
    loaded = unittest.TestLoader().loadTestsFromModule(importlib.import_module(f"test.{module}"))
    for test in tests_of(loaded):
        name = test.id().removeprefix("test.")
        if name in skipped:
            continue
        print(json.dumps({"test": name}), file=out, flush=True)
        outcome = run_test(test, mode == "compiled")
        print(json.dumps({"test": name, "outcome": outcome}), file=out, flush=True)


if __name__ == "__main__":
    main()
