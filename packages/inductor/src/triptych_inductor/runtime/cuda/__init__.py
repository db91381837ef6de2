"""Run time of GPUs: the driver, the launcher in C, and programs as Python callables."""

from triptych_inductor.runtime.cuda.programs import GpuLibrary as GpuLibrary
from triptych_inductor.runtime.cuda.programs import PendingGpuLibrary as PendingGpuLibrary
from triptych_inductor.runtime.cuda.programs import ProgramBinary as ProgramBinary
from triptych_inductor.runtime.cuda.programs import compile_kernels as compile_kernels
from triptych_inductor.runtime.cuda.programs import load as load
