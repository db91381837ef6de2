"""The version of this package, as a plain fact that build tools read."""

__version__ = "0.1.0"
