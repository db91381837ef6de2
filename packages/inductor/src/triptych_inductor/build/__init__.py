"""Building: from translation units to shared libraries, in parallel, through a content-addressed cache."""

from triptych_inductor.build.compiler import CompileError as CompileError
from triptych_inductor.build.compiler import Compiler as Compiler
from triptych_inductor.build.compiler import CompilerNotFoundError as CompilerNotFoundError
from triptych_inductor.build.compiler import find_compiler as find_compiler
from triptych_inductor.build.isa import Isa as Isa
from triptych_inductor.build.isa import host_isa as host_isa
