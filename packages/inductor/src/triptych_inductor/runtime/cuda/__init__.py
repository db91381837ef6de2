"""Run time of GPUs: the driver, the launcher in C, and programs as Python callables."""
