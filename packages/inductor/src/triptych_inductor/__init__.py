"""triptych_inductor: see README.md."""

from triptych_inductor.__about__ import __version__ as __version__
