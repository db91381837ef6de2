"""Captured graphs that leave the process: as JSON with raw tensors, with weights as attributes."""
