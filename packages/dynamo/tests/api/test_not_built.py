import subprocess
import sys

WITHOUT_THE_EXTENSION = """
import sys

sys.modules["triptych_dynamo._eval_frame"] = None  # as a missing file: importing it raises ModuleNotFoundError
import triptych_dynamo

try:
    triptych_dynamo.optimize
except ImportError as error:
    print(type(error).__name__, error)
"""


def test_a_missing_frame_hook_says_how_to_build_it():
    run = subprocess.run([sys.executable, "-c", WITHOUT_THE_EXTENSION], capture_output=True, text=True, timeout=300)
    assert run.stdout.startswith("ImportError triptych_dynamo has no frame hook"), run.stderr
    assert "hatch run build-ext" in run.stdout
