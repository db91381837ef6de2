"""Building without a GPU: machine code by Triton's compilers in worker processes, the store, errors."""

import dataclasses
import json

import pytest
import torch
from triptych_inductor.build.cache import Store
from triptych_inductor.codegen.triton import build as build_module
from triptych_inductor.codegen.triton.build import (
    DeviceBinary,
    TritonCompileError,
    build,
    canonical_source,
    request_for,
    worker_pool,
)
from triptych_inductor.codegen.triton.devices import EXAMPLES
from triptych_inductor.codegen.triton.generate import generate
from triptych_inductor.codegen.triton.records import TritonProgram
from triptych_inductor.loops import ops
from triptych_inductor.runtime.cuda import programs
from triptych_inductor.runtime.cuda.programs import ProgramBinary
from triton_kernels import H200, layer_norm, pointwise, reduction, softmax

BF16 = torch.bfloat16


def ptx(program, position=0, aligned=True):
    """PTX text of one function of a program."""
    request = request_for(program.functions[position], H200, aligned, want_text=True)
    return worker_pool().submit(request).result().text


def test_binary_and_store(store):
    program = generate(softmax(64, 1024, BF16), H200)
    pending = build([program, program], H200, store=store)
    assert pending.hits == 0 and len(pending.waiting) == 1  # equal functions once
    (first,), (second,) = pending.result()
    assert first is second and first.data[:4] == b"\x7fELF" and first.threads == program.functions[0].num_warps * 32
    again = build([program], H200, store=store)
    assert again.hits == 1 and again.result()[0][0] == first


def test_damaged_record_is_built_again(store):
    program = generate(pointwise(lambda v: ops.sin(v), torch.zeros(100), out_dtype=torch.float32), H200)
    pending = build([program], H200, store=store)
    ((binary,),) = pending.result()
    path = store.path(pending.keys[0][0])
    path.write_bytes(path.read_bytes()[:-7])
    again = build([program], H200, store=store)
    assert again.hits == 0
    assert again.result()[0][0].name == binary.name


def test_half_types_are_moved_sixteen_bytes_at_a_time():
    text = ptx(generate(softmax(64, 4096, BF16), H200))
    assert "ld.global.v4.b32" in text and "st.global.v4.b32" in text
    assert "ld.global.v4.b32" not in ptx(generate(softmax(64, 4096, BF16), H200), aligned=False)


def test_columns_are_read_in_whole_lines():
    text = ptx(generate(reduction("sum", BF16, 4096, 4096, 0, [BF16]), H200))
    assert "ld.global.v4.b32" in text


def test_users_lines_do_not_change_the_key():
    plain = softmax(8, 64, BF16)
    other = dataclasses.replace(
        plain, stages=[dataclasses.replace(s, origin=("elsewhere.py:9",)) for s in plain.stages]
    )
    one, two = (generate(k, H200).functions[0] for k in (plain, other))
    assert one.source != two.source and canonical_source(one) == canonical_source(two)


def test_error_shows_the_function_and_the_cause():
    program = generate(softmax(8, 64, BF16), H200)
    function = program.functions[0]
    broken = dataclasses.replace(function, source=function.source.replace("lib.reduce_sum", "lib.no_such_thing"))
    request = request_for(broken, H200, True)
    with pytest.raises(TritonCompileError, match="no_such_thing") as caught:
        worker_pool().submit(request).result()
    assert "in the generated function" in str(caught.value)
    assert worker_pool().submit(request_for(function, H200, True)).result().data  # the worker lives on


def test_other_vendor_builds_from_the_same_kernel():
    facts = EXAMPLES["mi300"]
    program = generate(layer_norm(64, 512), facts)
    request = request_for(program.functions[0], facts, True)
    binary = worker_pool().submit(request).result()
    assert binary.data[:4] == b"\x7fELF" and binary.threads == program.functions[0].num_warps * 64


def test_records_travel_as_json(store):
    program = generate(reduction("sum", torch.float32, 1, 1 << 20, 1, [torch.float32]), H200)
    assert len(program.functions) == 2 and program.workspaces
    assert TritonProgram.from_json(json.loads(json.dumps(program.to_json()))) == program
    ((binary, other),) = build([program], H200, store=store).result()
    assert DeviceBinary.from_bytes(binary.to_bytes()) == binary
    packed = ProgramBinary(program, "nvidia", 90, (binary, other), 1)
    assert ProgramBinary.from_bytes(packed.to_bytes()) == packed


def test_unwritable_store_still_builds(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    program = generate(pointwise(lambda v: ops.cos(v), torch.zeros(64), out_dtype=torch.float32), H200)
    assert build([program], H200, store=Store("triton", blocked)).result()[0][0].data


def test_kernels_of_several_devices(monkeypatch, store):
    """Each device's kernels are built for it and loaded on it; facts and loading are stood in for."""
    monkeypatch.setattr(programs, "device_facts", lambda index: EXAMPLES["h200"])
    loaded = []
    monkeypatch.setattr(
        programs, "load_program", lambda program, binaries, facts, index: loaded.append((program.name, index))
    )
    kernels = []
    for k in range(3):
        kernel = pointwise(lambda v: ops.exp2(v), torch.zeros(96), out_dtype=torch.float32)
        kernels.append(dataclasses.replace(kernel, name=f"kernel_{k}", device=torch.device("cuda", k % 2)))
    pending = programs.compile_kernels(kernels, store=store)
    assert [u.name for u in pending.units] == ["kernel_0", "kernel_2", "kernel_1"]
    assert set(pending.result()) == {"kernel_0", "kernel_1", "kernel_2"}
    assert loaded == [("kernel_0", 0), ("kernel_2", 0), ("kernel_1", 1)]
    packed = [ProgramBinary.from_bytes(b.to_bytes()) for b in pending.binaries()]
    assert [b.index for b in packed] == [0, 0, 1]


def test_idle_workers_end_and_come_back(monkeypatch):
    monkeypatch.setattr(build_module, "_IDLE_SECONDS", 0.2)
    pool = build_module.WorkerPool()
    function = generate(pointwise(lambda v: ops.neg(v), torch.zeros(32), out_dtype=torch.float32), H200).functions[0]
    for _ in range(2):
        assert pool.submit(request_for(function, H200, True)).result().data
        (worker,) = pool._workers
        worker.thread.join(30)
        assert worker.process.poll() is not None and not pool._workers
