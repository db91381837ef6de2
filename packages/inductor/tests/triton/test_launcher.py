"""The C launcher with a driver made of Python callbacks: arguments, grids, streams, alignment, errors."""

import ctypes

import pytest
import torch
from triptych_inductor.codegen.triton.build import DeviceBinary
from triptych_inductor.codegen.triton.records import GridFactor, Param, TritonFunction, TritonProgram, Workspace
from triptych_inductor.runtime.binding import runtime_table
from triptych_inductor.runtime.cuda.driver import DriverTable
from triptych_inductor.runtime.cuda.programs import bind

P = ctypes.c_void_p
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, P, *[ctypes.c_uint] * 7, P, ctypes.POINTER(P), P)
STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(P))
GET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(P))
PUSH = ctypes.CFUNCTYPE(ctypes.c_int, P)
ERROR = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p))


class FakeDriver:
    """Records launches: grid, threads, shared memory, stream, and the 64-bit words of the parameters."""

    def __init__(self, parameters, status=0):
        self.launches, self.contexts, self.context = [], [], 5
        message = ctypes.c_char_p(b"out of luck")

        def launch(function, x, y, z, threads, ty, tz, shared, stream, words, extra):
            values = [ctypes.cast(words[k], ctypes.POINTER(ctypes.c_int64))[0] for k in range(parameters)]
            self.launches.append((function, (x, y, z), threads, shared, stream, values))
            return status

        def stream(device, result):
            result[0] = 1000 + device
            return 0

        def get(result):
            result[0] = self.context
            return 0

        def push(context):
            self.contexts.append(context)
            return 0

        def pop(result):
            self.contexts.append("pop")
            return 0

        def error(code, text):
            text[0] = message
            return 0

        self.keep = [LAUNCH(launch), STREAM(stream), GET(get), PUSH(push), GET(pop), ERROR(error)]
        common = runtime_table()
        addresses = [ctypes.cast(f, P).value for f in self.keep]
        launch_, stream_, *others = addresses
        first = (common.type_offset, common.handle_offset, common.tensor_type, common.data_ptr)
        self.table = DriverTable(*first, stream_, launch_, *others)

    def bind(self, grid, params=None, sizes=("n0",), otherwise=None, workspaces=(), context=5):
        params = params or (Param("in0", "*fp32", 0, 16), Param("out0", "*fp32", 1, 16), Param("n0", "i64", 2))
        function = TritonFunction("points_add", "", params, (("XBLOCK", 64),), grid, 4, 1)
        program = TritonProgram("kernel_0", ("in0", "out0"), sizes, workspaces, (function,))
        binary = DeviceBinary(b"", "points_add", 48, 128)
        return bind(program, function, binary, self.table, 77, context, 3, otherwise, 2)


def test_arguments_and_symbolic_grid():
    driver = FakeDriver(5)
    call = driver.bind((GridFactor(("s0", 2, "*", 1, "+"), 64), GridFactor((7,), 2)))
    x, y = torch.zeros(100), torch.zeros(100)
    assert call(x, y, 100) is None
    function, grid, threads, shared, stream, values = driver.launches[0]
    assert function == 77 and threads == 128 and shared == 48 and stream == 1003
    assert grid == (-(-201 // 64) * 4, 1, 1)
    assert values == [x.data_ptr(), y.data_ptr(), 100, 0, 0]
    assert driver.contexts == []


def test_fixed_grid_and_another_context():
    driver = FakeDriver(4)
    params = (Param("in0", "*fp32", 0, 16), Param("out0", "*fp32", 1, 16))
    call = driver.bind((GridFactor((1000,), 64),), params, sizes=(), context=6)
    call(torch.zeros(8), torch.nn.Parameter(torch.zeros(8)))
    assert driver.launches[0][1] == (16, 1, 1)
    assert driver.contexts == [6, "pop"]


def test_empty_grid_launches_nothing():
    driver = FakeDriver(5)
    driver.bind((GridFactor(("s0",), 64),))(torch.zeros(0), torch.zeros(0), 0)
    assert driver.launches == []


def test_unaligned_pointer_goes_elsewhere():
    driver = FakeDriver(5)
    seen = []
    call = driver.bind((GridFactor(("s0",), 64),), otherwise=lambda *args: seen.append(args))
    x = torch.zeros(9)
    call(x[1:], x, 8)
    assert len(seen) == 1 and seen[0][2] == 8 and driver.launches == []
    call(x[4:], x, 4)
    assert len(seen) == 1 and len(driver.launches) == 1


@pytest.mark.parametrize("args,error,text", [
    ((torch.zeros(1),), TypeError, "takes 3 arguments, not 1"),
    ((torch.zeros(1), "x", 1), TypeError, "argument 1 is neither a tensor nor an int"),
])  # fmt: skip
def test_wrong_arguments(args, error, text):
    driver = FakeDriver(5)
    with pytest.raises(error, match=text):
        driver.bind((GridFactor((1,), 1),))(*args)


def test_driver_errors_surface():
    driver = FakeDriver(5, status=700)
    call = driver.bind((GridFactor((1,), 1),))
    with pytest.raises(RuntimeError, match=r"points_add: launch failed: out of luck \(700\)"):
        call(torch.zeros(1), torch.zeros(1), 1)


def test_workspaces_follow_the_sizes():
    driver = FakeDriver(5)
    params = (Param("partial", "*fp32", 3, 16), Param("n0", "i64", 2), Param("in0", "*fp32", 0, 16))
    call = driver.bind((GridFactor((1,), 1),), params, workspaces=(Workspace("partial", "float32", (4,)),))
    x, y, w = torch.zeros(4), torch.zeros(4), torch.zeros(4)
    call(x, y, 9, w)
    assert driver.launches[0][5][:3] == [w.data_ptr(), 9, x.data_ptr()]
