"""Families of values: what Python objects do under the symbolic interpreter."""
