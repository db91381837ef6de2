"""What developers of this repository run: benchmarks, the demonstration, size and law checks."""
