"""Without Flower everything else works, and `agewise.flower` says what is missing."""

import subprocess
import sys

SCRIPT = """
import sys
sys.modules["flwr"] = None  # as if it were not installed
import agewise
agewise.Selector("phased", 10, 2).select()
try:
    import agewise.flower
except ImportError as error:
    assert "agewise[flower]" in str(error), error
else:
    raise SystemExit("agewise.flower was imported without Flower")
"""


def test_flower_is_only_needed_for_agewise_flower() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
