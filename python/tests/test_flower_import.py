"""Without Flower everything else works, and `agewise.flower` says what is missing."""

import os
import subprocess
import sys
from pathlib import Path

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


def test_an_old_flower_gets_a_clear_message(tmp_path: Path) -> None:
    (tmp_path / "flwr").mkdir()
    (tmp_path / "flwr/__init__.py").write_text('__version__ = "1.23.1"\n')
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-c", "import agewise.flower"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "needs Flower 1.24 or newer, and flwr 1.23.1 is installed" in done.stderr
