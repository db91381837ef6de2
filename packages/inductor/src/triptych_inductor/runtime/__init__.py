"""Run time: loading compiled units, calling kernels, and the container in which artifacts travel."""

from triptych_inductor.codegen.cpp.kernel import kernel_arguments as kernel_arguments
from triptych_inductor.runtime.library import Library as Library
from triptych_inductor.runtime.library import load as load
from triptych_inductor.runtime.pending import PendingLibrary as PendingLibrary
from triptych_inductor.runtime.pending import compile_kernels as compile_kernels
