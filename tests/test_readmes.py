"""The examples of every README run: `python` blocks are executed, an `output` block after one must be its output."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "docs" / "precompile.md"]
READMES = [ROOT / "README.md", *sorted(ROOT.glob("packages/*/README.md")), *PAGES]
BLOCK = re.compile(r"^```(python|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text):
    """(line, code, expected output or None) of each python block."""
    found = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        if match[1] == "python":
            found.append([line, match[2], None])
        else:
            found[-1][2] = match[2]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", READMES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_examples_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = blocks(path.read_text())
    assert found, f"{path} has no example"
    namespace = {"__name__": "readme"}
    for line, code, expected in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (line - 1) + code, str(path), "exec"), namespace)
        if expected is not None:
            assert printed.getvalue() == expected


def test_blocks_are_found():
    text = "a\n```python\nprint(1)\n```\n\n```output\n1\n```\n```bash\nls\n```\n"
    assert blocks(text) == [[3, "print(1)\n", "1\n"]]
