"""Autograd and function transforms that the program runs itself; operators that hold graphs."""
