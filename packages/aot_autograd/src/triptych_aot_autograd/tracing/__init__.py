"""The tracer: runs a function once on tensors without memory and writes a functional ATen graph."""
