"""triptych_dynamo: see README.md."""

from triptych_dynamo.__about__ import __version__ as __version__
