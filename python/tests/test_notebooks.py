"""The notebooks of python/examples, from a table with a client column to a verdict."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

OWN = Path(__file__).parents[1] / "examples/own"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["verdict", "verdict_numpy"])
def test_a_notebook_ends_with_a_verdict(name: str, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    if name == "verdict":
        pytest.importorskip("torch")
    shutil.copy(OWN / "visits.csv", tmp_path)
    notebook: Any = nbformat.read(OWN / f"{name}.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    lines = [line for cell in code for line in cell.source.splitlines() if line.strip()]
    assert len(lines) < 40 and lines[0].startswith("%pip install agewise")
    assert not any(cell.outputs for cell in code), "stored without outputs"
    # The package is installed already, and a test does not use the network.
    notebook.cells.remove(code[0])
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, resources=resources).execute()
    shown = json.dumps(notebook.cells)
    assert "Measured by mean accuracy over the rounds" in shown
    assert "24 clients, 4 per round" in shown
    assert "final_accuracy_half_width" in shown and "data:image/svg+xml" in shown
    assert (tmp_path / "runs/compare-001/report.html").exists()
