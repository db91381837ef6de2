"""triptych_inductor: fast machine code from ATen fx graphs. See README.md.

compiled = triptych_inductor.compile(gm, example_inputs)
compiled(*inputs)
"""

from triptych_inductor.__about__ import __version__ as __version__
from triptych_inductor.build import CompileError as CompileError
from triptych_inductor.build import CompilerNotFoundError as CompilerNotFoundError
from triptych_inductor.compile import aot_compile as aot_compile
from triptych_inductor.compile import compile as compile
from triptych_inductor.compile import load as load
from triptych_inductor.compiled import CompiledGraph as CompiledGraph
from triptych_inductor.container import ArtifactError as ArtifactError
from triptych_inductor.errors import InductorError as InductorError
from triptych_inductor.errors import LoweringError as LoweringError
from triptych_inductor.errors import OptionsError as OptionsError
from triptych_inductor.freezing.constants import freeze as freeze
from triptych_inductor.lowering.registry import register_lowering as register_lowering
from triptych_inductor.options import Options as Options
from triptych_inductor.options import list_mode_options as list_mode_options
from triptych_inductor.options import list_options as list_options
from triptych_inductor.passes.pipeline import register_pass as register_pass
from triptych_inductor.passes.pipeline import run_front_passes as run_front_passes
from triptych_inductor.passes.pipeline import unregister_pass as unregister_pass
