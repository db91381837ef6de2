"""Code after the graph: rebuilding values, replaying effects, continuation functions."""
