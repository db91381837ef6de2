"""The wrapper: the readable Python module that allocates memory and calls kernels and torch functions in order."""
