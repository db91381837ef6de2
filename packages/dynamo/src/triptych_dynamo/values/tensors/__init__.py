"""Tensors and arrays, functions of torch, and the modes and checks around them."""
