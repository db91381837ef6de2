"""Instances, classes, modules and exceptions."""
