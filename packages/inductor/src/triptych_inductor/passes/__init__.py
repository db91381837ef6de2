"""Passes over the fx graph, before lowering. Each takes a copy of the user's graph and changes it in place."""
