"""What runs on a machine with a GPU: operator sweep, kernels at full bandwidth, models. Each ends within the given
seconds.

Without hatch:
`PYTHONPATH=packages/dynamo/src:packages/aot_autograd/src:packages/inductor/src:packages/compiler_api/src:.`
"""
