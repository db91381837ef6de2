"""Triton kernels that programs launch themselves: which arguments they write, and each launch as an operator.

>>> from triptych_dynamo.triton_kernels import written_parameters
>>> written_parameters(add_kernel)
frozenset({'out_ptr'})
"""

from triptych_dynamo.triton_kernels.launch import launch_operator as launch_operator
from triptych_dynamo.triton_kernels.mutation import written_parameters as written_parameters
