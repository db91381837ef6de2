"""The page of graph breaks says what the registry says."""

import subprocess
import sys

from tools import graph_breaks


def test_page_is_up_to_date():
    assert graph_breaks.PAGE.read_text() == graph_breaks.page(), "run python -m tools.graph_breaks"


def test_example_of_the_page_prints_what_it_says():
    text = graph_breaks.page()
    code = text.split("```python\n")[1].split("```")[0]
    expected = text.split("```output\n")[1].split("```")[0]
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == expected
