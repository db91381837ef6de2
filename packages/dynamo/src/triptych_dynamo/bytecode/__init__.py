"""Bytecode without torch: code objects to lists of `Instruction` and back, flow analysis, and building blocks.

decode(code) -> [Instruction]      assemble(instructions, template, **changes) -> code
analysis.live_variables, analysis.reachable       build.load_fast, build.call, ...
"""

from triptych_dynamo.bytecode import analysis as analysis
from triptych_dynamo.bytecode import build as build
from triptych_dynamo.bytecode.assemble import AssemblyError as AssemblyError
from triptych_dynamo.bytecode.assemble import assemble as assemble
from triptych_dynamo.bytecode.decode import decode as decode
from triptych_dynamo.bytecode.instruction import ExceptionRange as ExceptionRange
from triptych_dynamo.bytecode.instruction import Instruction as Instruction
from triptych_dynamo.bytecode.instruction import copy_instructions as copy_instructions
from triptych_dynamo.bytecode.instruction import listing as listing
from triptych_dynamo.bytecode.stack import StackError as StackError
