"""Passes over the joint graph: clean-up, and the metadata values that other tools read."""
