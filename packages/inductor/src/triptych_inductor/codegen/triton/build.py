"""Building Triton functions: in worker processes, in parallel, equal ones once, kept in the store on disk.

`build(programs, facts)` starts at once and gives a `PendingBuild`; its `result()` waits. With a full store neither
Triton nor a
worker is touched.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from triptych_inductor.build.cache import Store, digest
from triptych_inductor.codegen.triton.devices import DeviceFacts
from triptych_inductor.codegen.triton.records import MODULE_HEADER, TritonFunction, TritonProgram

_HERE = Path(__file__).parent
_MOST_WORKERS = 16
_IDLE_SECONDS = 20.0
WORKERS_VARIABLE = "TRIPTYCH_BUILD_WORKERS"  # the most build workers of one process


class TritonCompileError(RuntimeError):
    """Triton failed on a generated function; the text has the function and what Triton said."""


class TritonNotFoundError(RuntimeError):
    """Triton is not installed."""


@dataclass(frozen=True)
class DeviceBinary:
    """Machine code of one function. `threads`: of a program; `shared`: bytes of shared memory."""

    data: bytes
    name: str
    shared: int
    threads: int
    text: str = ""

    def to_bytes(self) -> bytes:
        """A header line of JSON, then the code."""
        head = {"name": self.name, "shared": self.shared, "threads": self.threads, "text": self.text}
        return json.dumps(head).encode() + b"\n" + self.data

    @staticmethod
    def from_bytes(payload: bytes) -> DeviceBinary:
        """What `to_bytes` wrote."""
        head, _, data = payload.partition(b"\n")
        return DeviceBinary(data, **json.loads(head))


@cache
def triton_version() -> str:
    """The installed Triton's version, without importing it; `TritonNotFoundError` where there is none."""
    for name in ("triton", "pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu"):
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    raise TritonNotFoundError("Triton is not installed; install triptych-inductor[triton]")


@cache
def _library_text() -> str:
    return (_HERE / "device_library.py").read_text(encoding="utf-8")


def canonical_source(function: TritonFunction) -> str:
    """The module text that is compiled: without comments, so that the user's lines do not make equal kernels differ."""
    lines = [text for text in function.source.splitlines() if not text.lstrip().startswith("#")]
    return MODULE_HEADER + "\n\n\n" + "\n".join(lines) + "\n"


def request_for(function: TritonFunction, facts: DeviceFacts, aligned: bool, want_text: bool = False) -> dict[str, Any]:
    """What a worker is asked for. `aligned`: pointers may be taken as multiples of 16 bytes."""
    options = {"num_warps": function.num_warps, "num_stages": function.num_stages, **dict(facts.family.options)}
    if function.checked:
        options["debug"] = True
    return {
        "source": canonical_source(function),
        "function": function.name,
        "params": [[p.name, p.type, p.multiple if aligned else 1] for p in function.params],
        "constants": [list(c) for c in function.constants],
        "options": sorted(options.items()),
        "target": list(facts.target),
        "binary": facts.family.binary,
        "want_text": want_text,
    }


class _Worker:
    """One worker process with the thread that feeds it; it ends when there is nothing to do for a while."""

    def __init__(self, pool: WorkerPool) -> None:
        environment = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET",)}
        environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        environment["TRITON_DISABLE_LINE_INFO"] = "1"  # it would put the path of a temporary file into the code
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(_HERE / "worker.py"), str(_HERE / "device_library.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        self.pool = pool
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while (job := self.pool.next_job(self)) is not None:
            request, future = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(self._ask(request))
            except BaseException as error:
                future.set_exception(error)
                if self.process.poll() is not None:
                    return
        self.process.kill()
        self.process.wait()

    def _ask(self, request: dict[str, Any]) -> DeviceBinary:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise TritonCompileError(f"the build worker ended (exit status {self.process.wait()})")
        answer = json.loads(line)
        if "error" in answer:
            raise TritonCompileError(f"{answer['error'].strip()}\n\nin the generated function\n\n{request['source']}")
        data = base64.b64decode(answer["binary"])
        return DeviceBinary(data, answer["name"], answer["shared"], answer["threads"], answer["text"])


class WorkerPool:
    """Workers of this process: started when there is work, as many as there are processors, ended with the process."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()
        self._open = 0
        atexit.register(self.close)

    def submit(self, request: dict[str, Any]) -> Future[DeviceBinary]:
        """Hand a request to the next free worker."""
        triton_version()
        future: Future[DeviceBinary] = Future()
        with self._lock:
            self._open += 1
            self._workers = [w for w in self._workers if w.process.poll() is None]
            most = int(os.environ.get(WORKERS_VARIABLE, 0)) or min(len(os.sched_getaffinity(0)), _MOST_WORKERS)
            if len(self._workers) < min(self._open, most):
                self._workers.append(_Worker(self))
            self._jobs.put(({"id": 0, **request}, future))
        future.add_done_callback(self._done)
        return future

    def next_job(self, worker: _Worker) -> tuple[dict[str, Any], Future[DeviceBinary]] | None:
        """The next request for a worker, None where it has waited long enough and should end."""
        while True:
            try:
                return self._jobs.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._lock:  # a request is queued under the lock: none can come in between
                    if self._jobs.empty():
                        self._workers = [w for w in self._workers if w is not worker]
                        return None

    def _done(self, _: Future[DeviceBinary]) -> None:
        with self._lock:
            self._open -= 1

    def close(self) -> None:
        """End all workers."""
        with self._lock:
            workers, self._workers = self._workers, []
        for worker in workers:
            worker.process.kill()
            worker.process.wait()


@cache
def worker_pool() -> WorkerPool:
    """The pool of this process."""
    return WorkerPool()


def _after_fork() -> None:
    worker_pool.cache_clear()  # the parent's workers answer the parent


os.register_at_fork(after_in_child=_after_fork)


@dataclass
class PendingBuild:
    """Functions of some programs on their way to machine code. `hits`: how many functions came from the store."""

    programs: tuple[TritonProgram, ...]
    keys: tuple[tuple[str, ...], ...]
    found: dict[str, DeviceBinary]
    waiting: dict[str, Future[DeviceBinary]]
    store: Store
    hits: int

    def result(self) -> list[list[DeviceBinary]]:
        """Wait for all: for each program the binaries of its functions. `TritonCompileError` when Triton failed."""
        for key, future in list(self.waiting.items()):
            if key not in self.found:
                self.found[key] = future.result()
                self.store.put(key, self.found[key].to_bytes())
        return [[self.found[k] for k in keys] for keys in self.keys]


def build(
    programs: Sequence[TritonProgram], facts: DeviceFacts, *, store: Store | None = None, aligned: bool = True
) -> PendingBuild:
    """Start to build the functions of `programs` for the device, those that the store does not have.

    `aligned`: build for pointers that are multiples of 16 bytes. Raises `TritonNotFoundError` where Triton is missing.
    """
    store = store or Store("triton")
    found: dict[str, DeviceBinary] = {}
    waiting: dict[str, Future[DeviceBinary]] = {}
    keys = []
    for program in programs:
        own = []
        for function in program.functions:
            request = request_for(function, facts, aligned)
            key = digest("triton", triton_version(), _library_text(), json.dumps(request))
            own.append(key)
            if key in found or key in waiting:
                continue
            payload = store.get(key)
            if payload is not None:
                found[key] = DeviceBinary.from_bytes(payload)
            else:
                waiting[key] = worker_pool().submit(request)
        keys.append(tuple(own))
    return PendingBuild(tuple(programs), tuple(keys), found, waiting, store, len(found))
