"""triptych_aot_autograd: see README.md."""

from triptych_aot_autograd.__about__ import __version__ as __version__
