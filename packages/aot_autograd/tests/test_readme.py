"""The examples of README.md run as they stand."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_examples_of_the_readme(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 2
    namespace = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), namespace)
    printed = capsys.readouterr().out
    assert "aten.tanh_backward" in printed
    assert "parameter 0.weight" in printed
