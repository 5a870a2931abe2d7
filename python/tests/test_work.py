"""Theory, simulator, compare, types and examples."""

from __future__ import annotations

import doctest
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_calls import refused

import agewise

ROOT = Path(__file__).parents[2]


def test_theory_has_arrays() -> None:
    found = agewise.theory(cold_start=7)
    law = found["markov-optimal"]
    assert law.probabilities is not None and law.steady_state is not None
    assert law.probabilities.shape == law.steady_state.shape == (11,)
    assert law.cold_start.shape == (7, 5) and found["random"].probabilities is None
    assert law.interval_probabilities @ law.intervals == pytest.approx(law.mean_interval)
    assert law.window_sd[1] == pytest.approx(np.sqrt(0.15 * 0.85))
    assert found.figure.startswith("<svg") and found._repr_html_() == found.figure
    with pytest.raises(KeyError, match="expected one of random"):
        found["best"]
    asked = agewise.theory(policies=["phased(reshuffle=0.050)"])
    assert asked["phased( reshuffle=0.05)"] is asked.policies[0]
    assert len(repr(found)) < 300


def test_simulation_has_arrays_and_tells() -> None:
    heard: list[int] = []
    found = agewise.simulate(
        policies=["random", "markov-optimal"], rounds=60, seeds=3, progress=heard.append
    )
    # Called from other threads, so it would block for ever if the interpreter lock were held.
    assert sum(heard) == 2 * 3 * 60
    law = found["markov-optimal"]
    assert law.reported.shape == (3, 60) and law.reported.mean() == pytest.approx(law.cohort_mean)
    assert law.means[
        "var_interval"
    ].half_width is not None and law.var_interval_theory == pytest.approx(2 / 9)
    assert found.folder is None and found.report is None and "<img" in found._repr_html_()
    x, counts = law.intervals.astype(float), law.interval_counts
    assert np.average(x, weights=counts) == pytest.approx(law.mean_interval, rel=0.02)


def test_an_exception_in_progress_comes_through() -> None:
    def stop(rounds: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agewise.simulate(rounds=10, progress=stop)


@pytest.mark.parametrize(
    "call",
    [
        "agewise.simulate(clients=10**5, cohort=10**4, rounds=10**6, policies=['random'])",
        "agewise.compare(rounds=10**5, model='softmax', targets=[], progress=False)",
    ],
)
def test_ctrl_c_ends_it(call: str, tmp_path: Path) -> None:
    """A signal to the process, as a terminal sends it; without it these calls take hours."""
    code = f"""
import agewise, os, signal, threading
# A process that a shell started in the background ignores Ctrl-C, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    {call}
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "interrupted\n", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_works(tmp_path: Path) -> None:
    code = """
import agewise, os, warnings
warnings.simplefilter("ignore")
first = agewise.simulate(rounds=20).json
child = os.fork()
if child == 0:
    os._exit(0 if agewise.simulate(rounds=20).json == first else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: agewise.theory(clients=-1), "clients = -1: expected a whole number, 0 or more"),
        (lambda: agewise.theory(policies=["best"]), "policies = best: expected one of"),
        (lambda: agewise.theory(sizes="huge"), "sizes = huge"),
        (lambda: agewise.theory(sizes=[1, 2]), "sizes = a list of 2"),
        (lambda: agewise.theory(weighting="heavy"), "weighting = heavy: expected one of"),
        (lambda: agewise.simulate(seeds=0), "seeds = 0"),
        (lambda: agewise.simulate(dropout=2), "dropout = 2"),
        (
            lambda: agewise.simulate(clients="many"),
            'clients = "many": expected a whole number, 0 or more',
        ),
        (lambda: agewise.simulate(dropout=float("nan")), "dropout = nan"),
        (lambda: agewise.simulate(policies=[object()]), "policies = <object"),
        (lambda: agewise.compare(rounds=0), "rounds = 0"),
        (lambda: agewise.compare(data="mnst"), r"did you mean mnist\?"),
        (lambda: agewise.compare(dropout=2), "dropout = 2"),
        (lambda: agewise.compare(batch="all"), 'batch = "all": expected a whole number, 0 or more'),
        (lambda: agewise.compare(aggregate="avrage"), "avrage"),
        (lambda: agewise.compare(calibrate="yes"), 'calibrate = "yes": expected True or False'),
        (lambda: agewise.compare(targets=0.9), "targets = 0.9: expected a list"),
        (lambda: agewise.compare(server=3), "server = 3: expected a dict"),
        (lambda: agewise.compare(learning_rate=[0.1]), "learning_rate = a list: expected a number"),
        (lambda: agewise.simulate(policies=["oort"]), "policies = oort: .*agewise.compare"),
        (lambda: agewise.theory(policies=["oort"]), "policies = oort: .*agewise.compare"),
        (lambda: agewise.compare(data="imagenet"), "data = imagenet: expected one of"),
        (lambda: agewise.compare(preset="paper"), "preset = paper: expected one of"),
        (lambda: agewise.compare(threads=0, out="never-made"), "threads = 0"),
        (lambda: agewise.compare(threads=10**9), "threads = 1000000000: expected at most 4096"),
        (lambda: agewise.compare(policies="random"), "policies = 'random': expected a list"),
        (lambda: agewise.theory(policies="random"), "policies = 'random': expected a list"),
        (lambda: agewise.theory(sizes=[float("nan")] * 100), r"sizes\[0\] = nan"),
        (lambda: agewise.compare(progress=5), "progress = 5"),
        (lambda: agewise.compare(server={"rule": "best"}), "server.rule = best: expected one of"),
        (lambda: agewise.read_run("nowhere"), "folder = nowhere: expected the folder"),
    ],
)
def test_bad_input_is_named(
    call: Callable[[], object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(call, message)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    agewise.simulate(rounds=5, out=run)
    text = refused(lambda: agewise.simulate(rounds=5, out=run), "out = .*run: expected a folder")
    assert "force=True overwrites the run in it, agewise.resume_run continues it" in text
    refused(lambda: agewise.compare(out=run, progress=False), "out = .*force=True")
    other.mkdir()
    (other / "log").mkdir()
    foreign = refused(
        lambda: agewise.simulate(rounds=5, out=other, force=True), "out = .*other/log: expected"
    )
    assert "force=True overwrites runs only" in foreign
    for call in (agewise.read_run, agewise.resume_run, agewise.extend_run):
        refused(partial(call, other), "folder = .*other: expected the folder of a run")


def test_findings_speak_python(tmp_path: Path) -> None:
    found = agewise.compare(out=tmp_path / "run", **{**SMALL, "seeds": 1})
    assert "--" not in found.verdict and "--" not in str(found.caution), found.verdict


SMALL: dict[str, Any] = {
    "policies": ["random", "oldest-first"],
    "model": "softmax",
    "rounds": 5,
    "seeds": 3,
    "targets": [0.5],
    "progress": False,
}


def test_a_comparison_draws_itself(tmp_path: Path) -> None:
    found = agewise.compare(out=tmp_path / "run", **SMALL)
    page = found._repr_html_()
    assert page.count("<tr>") == 3 and page.count("<img") == len(found.figures) >= 4
    assert "<script" not in page and "oldest-first" in page
    assert "oldest-first" in str(found) and found.verdict in str(found)
    assert found.summary["policies"][0]["policy"] == "random"
    with pytest.raises(ValueError, match="exist"):
        agewise.compare(out=tmp_path / "run", **SMALL)
    again = agewise.read_run(tmp_path / "run")
    assert again.json == found.json and again.rows == found.rows


def test_an_interrupted_comparison_goes_on(tmp_path: Path) -> None:
    whole = agewise.compare(out=tmp_path / "whole", **SMALL)
    calls = 0

    def interrupt(policy: str, seed: int, rounds: int, accuracy: float | None) -> None:
        nonlocal calls
        calls += 1
        if calls == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agewise.compare(out=tmp_path / "cut", **{**SMALL, "progress": interrupt})
    assert not agewise.read_run(tmp_path / "cut").finished
    heard: set[tuple[str, int]] = set()

    def listen(policy: str, seed: int, rounds: int, accuracy: float | None) -> None:
        heard.add((policy, seed))

    resumed = agewise.resume_run(tmp_path / "cut", progress=listen)
    assert resumed.finished and resumed.json == whole.json
    assert heard <= {(policy, seed) for policy in ["random", "oldest-first"] for seed in range(3)}
    assert whole.folder is not None and resumed.folder is not None
    for path in sorted(whole.folder.rglob("*")):
        if path.is_file() and path.name not in {"timing.csv", "provenance.json"}:
            assert (
                resumed.folder / path.relative_to(whole.folder)
            ).read_bytes() == path.read_bytes(), path


def test_more_can_be_asked_of_a_run(tmp_path: Path) -> None:
    whole = agewise.compare(out=tmp_path / "whole", **SMALL)
    less = {**SMALL, "seeds": 2, "rounds": 3, "policies": ["random"]}
    agewise.compare(out=tmp_path / "run", **less)
    more = agewise.extend_run(
        tmp_path / "run", seeds=3, rounds=5, policies=["oldest-first"], progress=False
    )
    assert more.finished and more.json == whole.json
    with pytest.raises(ValueError, match="seeds = 1"):
        agewise.extend_run(tmp_path / "run", seeds=1, progress=False)


def test_lines_of_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agewise.callbacks.ProgressLines.EVERY", 0.0)
    agewise.compare(out=tmp_path / "run", **{**SMALL, "progress": True})
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("30 of 30 rounds;") for line in lines), lines


@pytest.mark.parametrize(
    "module",
    [
        "agewise",
        "agewise.selection",
        "agewise.sketches",
        "agewise.closed_forms",
        "agewise.experiment",
        "agewise.learning",
        "agewise.registry",
        "agewise.results",
    ],
)
def test_examples_in_docstrings(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted > 0 and found.failed == 0


def test_every_public_thing_has_a_docstring() -> None:
    for name in agewise.__all__:
        thing = getattr(agewise, name)
        if name != "__version__":
            assert thing.__doc__, name
            for method, value in vars(thing).items() if isinstance(thing, type) else []:
                if not method.startswith("_") and (callable(value) or isinstance(value, property)):
                    assert value.__doc__, f"{name}.{method}"


def test_the_stub_is_that_of_the_compiled_module(tmp_path: Path) -> None:
    check = [sys.executable, "-m", "mypy.stubtest", "agewise._agewise"]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def blocks(text: str) -> list[str]:
    """The Python code of a page."""
    return [part.split("```", 1)[0] for part in text.split("```python\n")[1:]]


def test_what_the_page_on_flower_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ["", ".selection", ".strategy", ".client", ".workflow"]:
        assert doctest.testmod(importlib.import_module(f"agewise.flower{module}")).failed == 0
    codes = blocks((ROOT / "docs/flower.md").read_text())
    assert codes
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "flower_app"}
    for code in codes:
        # One page, one app: later parts use the names of earlier ones.
        exec(compile(code, "docs/flower.md", "exec"), names)


@pytest.mark.parametrize(("page", "count"), [("python.md", 11), ("real-conditions.md", 1)])
def test_what_the_docs_show(
    page: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = blocks((ROOT / "docs" / page).read_text())
    assert len(codes) == count
    monkeypatch.chdir(tmp_path)
    for code in codes:
        exec(compile(code, page, "exec"), {"__name__": "__main__"})


def test_the_ten_lines_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the README shows is run as it stands."""
    text = (ROOT / "README.md").read_text()
    section = text.split("## From Python", 1)[1]
    code = blocks(section)[0]
    assert 5 <= len(code.strip().splitlines()) <= 10
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    assert list(tmp_path.glob("runs/*/report.html"))
