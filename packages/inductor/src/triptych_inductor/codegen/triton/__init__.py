"""GPU code: from `loops.kernel.Kernel` to Triton source, one module text for each kernel."""
