"""Programs compiled ahead of time: `capture` writes one call of a function to disk, `load` runs it in any process.

An artifact is readable Python without weights, and a cache with the built kernels. See docs/precompile.md.
"""

from triptych.errors import PrecompileError as PrecompileError
from triptych.precompile.capture import Capture as Capture
from triptych.precompile.capture import MakeFxTracer as MakeFxTracer
from triptych.precompile.capture import capture as capture
from triptych.precompile.loading import PrecompiledRunnable as PrecompiledRunnable
from triptych.precompile.loading import load as load
from triptych.precompile.summary import PrecompileSummary as PrecompileSummary

__all__ = ["Capture", "MakeFxTracer", "PrecompileSummary", "PrecompiledRunnable", "capture", "load"]
