"""C++ code generation: `Kernel` records to self-contained translation units."""
