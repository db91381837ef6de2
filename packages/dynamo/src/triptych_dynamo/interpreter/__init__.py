"""The symbolic interpreter: frames of bytecode run over values."""
