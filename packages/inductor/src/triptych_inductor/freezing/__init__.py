"""Freezing: a graph whose parameters are constants, and the passes that make use of it."""
