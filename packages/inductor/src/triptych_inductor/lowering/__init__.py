"""Lowering: from ATen nodes to lazy tensors, loop nodes and extern calls. One table file for each family of ops."""
