"""Scheduling: which loop nodes share a kernel, in which order kernels and extern calls run, and what each kernel
looks like."""
