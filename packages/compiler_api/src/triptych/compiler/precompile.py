"""`triptych.compiler.precompile`: the names of torch.compiler.precompile. See `triptych.precompile`."""

from triptych.precompile import Capture as Capture
from triptych.precompile import MakeFxTracer as MakeFxTracer
from triptych.precompile import PrecompiledRunnable as PrecompiledRunnable
from triptych.precompile import PrecompileError as PrecompileError
from triptych.precompile import PrecompileSummary as PrecompileSummary
from triptych.precompile import capture as capture
from triptych.precompile import load as load

__all__ = ["Capture", "MakeFxTracer", "PrecompileSummary", "PrecompiledRunnable", "capture", "load"]
