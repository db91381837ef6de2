"""The intermediate form between lowering and scheduling: index arithmetic, buffers, lazy tensors, loop nodes, extern
nodes."""
