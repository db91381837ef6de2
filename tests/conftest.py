"""Fixtures of the tests that cross packages."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """One cache folder for the whole run: nothing of an earlier run is found, nothing is compiled twice."""
    before = os.environ.get("TRIPTYCH_CACHE_DIR")
    os.environ["TRIPTYCH_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["TRIPTYCH_CACHE_DIR"]
    else:
        os.environ["TRIPTYCH_CACHE_DIR"] = before


@pytest.fixture(autouse=True)
def _no_switch(monkeypatch):
    """Compilation is on, whatever the caller's environment says."""
    for name in ("TRIPTYCH_DISABLE", "TORCH_COMPILE_DISABLE"):
        monkeypatch.delenv(name, raising=False)
