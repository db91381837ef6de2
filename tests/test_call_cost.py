"""What a call of compiled code costs, and what importing costs."""

import subprocess
import sys

import pytest

from tools import bench_call

pytestmark = pytest.mark.slow


def test_add_one_with_backend_eager_is_under_eight_microseconds():
    assert min(bench_call.measure_fresh("triptych, eager") for _ in range(3)) < 8.0


def test_import_is_cheap_beyond_torch():
    program = (
        "import time, torch; start = time.perf_counter(); import triptych; triptych.compile(lambda x: x); "
        "print(time.perf_counter() - start)"
    )
    times = [float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(3)]
    assert min(times) < 0.3
