"""Functional forward and backward ATen graphs, ahead of time, of a function, module or fx graph. See README.md."""

from triptych_aot_autograd.__about__ import __version__ as __version__
from triptych_aot_autograd.api import aot_backend, aot_function, aot_module, bind_graph, trace_joint
from triptych_aot_autograd.errors import (
    AotError,
    DataDependentError,
    DoubleBackwardError,
    UnsupportedOperationError,
)
from triptych_aot_autograd.joint_graph import InputDesc, JointGraph, OutputDesc
from triptych_aot_autograd.partition.default import default_partition
from triptych_aot_autograd.partition.min_cut import min_cut_partition
from triptych_aot_autograd.partition.parts import Partition
from triptych_aot_autograd.runtime.plan import RuntimePlan
from triptych_aot_autograd.runtime.plan_json import PlanError

__all__ = [
    "AotError",
    "DataDependentError",
    "DoubleBackwardError",
    "InputDesc",
    "JointGraph",
    "OutputDesc",
    "Partition",
    "PlanError",
    "RuntimePlan",
    "UnsupportedOperationError",
    "aot_backend",
    "aot_function",
    "aot_module",
    "bind_graph",
    "default_partition",
    "min_cut_partition",
    "trace_joint",
]
