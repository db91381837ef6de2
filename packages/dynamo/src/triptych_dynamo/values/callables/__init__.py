"""What can be called: Python functions, builtins, operators, partial objects, generators."""
