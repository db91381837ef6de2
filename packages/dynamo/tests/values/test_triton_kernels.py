"""Launches of Triton kernels in captured programs, run by Triton's interpreter on the CPU."""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")

import pytest
import torch
import triptych_dynamo
from triptych_dynamo.triton_kernels import written_parameters
from triptych_dynamo.triton_kernels.launch import configurations, launch_operator

triton = pytest.importorskip("triton")
tl = triton.language
if not hasattr(tl.sum, "rewrite"):  # some builds of torch import Triton themselves
    pytest.skip("Triton was imported without TRITON_INTERPRET=1; set it for the whole run", allow_module_level=True)


@pytest.fixture(autouse=True)
def numbers_of_one_element(monkeypatch):
    """From NumPy 2.4 on arrays of one element are no numbers; the interpreter keeps its scalars in such."""
    from triton.runtime import interpreter

    plain = interpreter._patch_lang_tensor

    def patch(tensor, scope):
        plain(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", patch)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def scale_in_place(x_ptr, factor, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * factor, mask=mask)


class Recorder:
    """A backend that keeps graphs and runs them as they are."""

    def __init__(self):
        self.graphs = []

    def __call__(self, gm, inputs):
        self.graphs.append(gm)
        return gm

    def launches(self):
        return [str(n.target) for gm in self.graphs for n in gm.graph.nodes if "triptych_triton" in str(n.target)]


def check(function, *inputs, graphs=1, launches=1):
    """Captured whole, equal to plain Python in results and in what is left in the inputs."""
    recorder = Recorder()
    compiled = triptych_dynamo.optimize(recorder, fullgraph=True)(function)
    mine = [t.clone() if isinstance(t, torch.Tensor) else t for t in inputs]
    want, got = function(*inputs), compiled(*mine)
    torch.testing.assert_close((got, mine), (want, list(inputs)))
    assert len(recorder.graphs) == graphs and len(recorder.launches()) == launches
    return recorder, compiled


def add(x, y):
    out = torch.empty_like(x)
    n = out.numel()
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=16)
    return out


def test_grid_function_and_sizes_that_change():
    recorder, compiled = check(lambda x, y: add(x, y) * 2, torch.randn(100), torch.randn(100))
    for size in (77, 50, 12):
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x, x), x * 4)
    assert len(recorder.graphs) == 2  # sizes are symbolic from the second one on
    (node,) = [n for n in recorder.graphs[1].graph.nodes if "triptych_triton" in str(n.target)]
    assert str(node.target._schema).endswith(
        "(Tensor arg0, Tensor arg1, Tensor(a2!) arg2, SymInt arg3, SymInt[] grids) -> ()"
    )


@pytest.mark.parametrize("grid", [(3,), (3, 1, 1), [3]])
def test_grids(grid):
    def f(x):
        scale_in_place[tuple(grid)](x, 2.5, x.numel(), BLOCK=16)
        return x + 1

    check(f, torch.randn(40))


def test_keywords_and_positions_of_constants():
    def f(x, y):
        out = torch.zeros_like(x)
        add_kernel[(5,)](x, out_ptr=out, y_ptr=y, n=33, BLOCK=8, num_warps=2)
        add_kernel[(5,)](x, y, out, 33, 8)
        return out

    check(f, torch.randn(40), torch.randn(40), launches=2)


def test_write_to_a_view_of_an_input():
    def f(x):
        scale_in_place[(1,)](x[2], 3.0, 4, BLOCK=8)
        return x.sum()

    check(f, torch.randn(5, 4))


def test_wrap_triton():
    """In a captured program the wrapper is the kernel; eagerly some releases refuse interpreted kernels."""

    def f(x, y):
        out = torch.empty_like(x)
        torch.library.wrap_triton(add_kernel)[(3,)](x, y, out, 40, BLOCK=16)
        return out

    recorder, x, y = Recorder(), torch.randn(40), torch.randn(40)
    torch.testing.assert_close(triptych_dynamo.optimize(recorder, fullgraph=True)(f)(x, y), x + y)
    assert len(recorder.launches()) == 1


def test_autotuned_with_heuristics():
    """The grid of each configuration is in the graph; the one that autotuning has chosen is used."""
    configs = [triton.Config({"BLOCK": b}) for b in (8, 16)]
    tuned = triton.autotune(configs, key=[])(add_kernel)
    tuned.cache = {("torch.float32",) * 3: configs[1]}  # as after tuning: the interpreter has no clock

    def f(x, y):
        out = torch.empty_like(x)
        tuned[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, y, out, x.numel())
        return out

    recorder, _ = check(f, torch.randn(40), torch.randn(40))
    (node,) = [n for n in recorder.graphs[0].graph.nodes if "triptych_triton" in str(n.target)]
    assert node.args[-1] == [5, 1, 1, 3, 1, 1] and configurations(tuned)[1]["BLOCK"] == 16

    guided = triton.heuristics({"BLOCK": lambda args: 32 if args["n"] > 20 else 8})(add_kernel)

    def g(x, y):
        out = torch.empty_like(x)
        guided[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, y, out, x.numel())
        return out

    recorder, _ = check(g, torch.randn(40), torch.randn(40))
    (node,) = [n for n in recorder.graphs[0].graph.nodes if "triptych_triton" in str(n.target)]
    assert node.args[-1] == [2, 1, 1]


def test_what_no_operator_takes_breaks_the_graph():
    def f(x):
        scale_in_place[(1,)](x, object(), 4, BLOCK=8)
        return x

    with pytest.raises(Exception, match="argument 'factor' of a Triton kernel"):
        triptych_dynamo.optimize(Recorder(), fullgraph=True)(f)(torch.randn(4))


def test_too_many_arguments_raise_as_in_python():
    def f(x):
        scale_in_place[(1,)](x, 1.0, 4, 8, 9)

    with pytest.raises(TypeError):
        triptych_dynamo.optimize(Recorder(), fullgraph=True)(f)(torch.randn(4))


# What a kernel writes.


@triton.jit
def helper_store(where, value, mask):
    tl.store(where, value, mask=mask)


@triton.jit
def helper_offset(base, index):
    return base + index


@triton.jit
def by_helpers(a_ptr, b_ptr, c_ptr):
    index = tl.arange(0, 8)
    place = helper_offset(b_ptr, index)
    helper_store(place, tl.load(helper_offset(a_ptr, index)), index < 4)


@triton.jit
def by_loops(a_ptr, b_ptr, c_ptr, n):
    p, q = a_ptr, b_ptr
    for k in range(n):
        value = tl.load(p + tl.load(c_ptr))
        tl.atomic_add(q, value)
        p += 4
        q = tl.where(k > 2, q + 1, q)


@triton.jit
def by_block_pointer(a_ptr, b_ptr, n):
    block = tl.make_block_ptr(base=b_ptr, shape=(n,), strides=(1,), offsets=(0,), block_shape=(8,), order=(0,))
    source = tl.make_block_ptr(a_ptr, (n,), (1,), (0,), (8,), (0,))
    tl.store(block, tl.load(source).to(b_ptr.dtype.element_ty))


@triton.jit
def by_callable(a_ptr, b_ptr, function: tl.constexpr):
    function(b_ptr)
    tl.store(a_ptr, 1.0)


@triton.jit
def by_assembly(a_ptr, b_ptr):
    tl.inline_asm_elementwise("st.global.f32 [$1], 0;", "=r,l", [b_ptr], dtype=tl.int32, is_pure=False, pack=1)


@pytest.mark.parametrize(
    ("kernel", "written"),
    [
        (add_kernel, {"out_ptr"}),
        (scale_in_place, {"x_ptr"}),
        (by_helpers, {"b_ptr"}),
        (by_loops, {"b_ptr"}),
        (by_block_pointer, {"b_ptr"}),
        (by_callable, {"a_ptr", "b_ptr"}),
        (by_assembly, {"b_ptr"}),
    ],
)
def test_written_parameters(kernel, written):
    assert {name for name in written_parameters(kernel) if name.endswith("_ptr")} == written


def test_source_that_cannot_be_read_counts_as_writing_everything():
    space = {}
    exec("def kernel(a, b):\n    pass", space)
    assert written_parameters(space["kernel"]) == {"a", "b"}


def test_operators_are_shared_and_named_by_content():
    from triptych_dynamo.triton_kernels.launch import Slot

    slots = [Slot("x_ptr", "tensor"), Slot("factor", "float"), Slot("n", "int"), Slot("BLOCK", "constant", 8, True)]
    one = launch_operator(scale_in_place, slots)
    assert launch_operator(scale_in_place, slots) is one
    assert launch_operator(scale_in_place, [*slots[:3], Slot("BLOCK", "constant", 16, True)]) is not one
    assert str(one).startswith("triptych_triton.scale_in_place_")
