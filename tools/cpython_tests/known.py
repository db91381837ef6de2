"""Tests that cannot pass compiled, with the reason."""

from __future__ import annotations

KNOWN: dict[str, str] = {}
