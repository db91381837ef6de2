"""Defaults of `triptych.compile`: read, assign (process-wide), `patch` (a block). docs/configuration.md has the table.

>>> from triptych.compiler import config
>>> config.recompile_limit
8
>>> with config.patch(recompile_limit=2):
...     compiled = triptych.compile(model)
"""

import sys

from triptych.configuration import ConfigModule

sys.modules[__name__].__class__ = ConfigModule
