"""triptych: see README.md."""

from triptych.__about__ import __version__ as __version__
