"""Not a second implementation: Python and the program give the same bytes."""

from __future__ import annotations

import csv
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agewise

#: Policies that look at reports, of which nothing is known in closed form.
FIELD = ["age-herding", "divfl", "clustered(by=2)", "power-of-choice", "active", "oort"]


@pytest.fixture(scope="module")
def program() -> Path:
    """The program, where AGEWISE_BINARY names it or where cargo builds it."""
    root = Path(__file__).parents[2]
    binary = Path(os.environ.get("AGEWISE_BINARY", root / "target/debug/agewise"))
    assert binary.is_file(), "the program is not built: cargo build --bin agewise"
    return binary


def output(program: Path, *arguments: str) -> str:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ("", {}),
        (
            "--clients 1000 --cohort 37 --max-age 60 --sizes zipf:2.0 --seed 5",
            {"clients": 1000, "cohort": 37, "max_age": 60, "sizes": "zipf:2.0", "seed": 5},
        ),
        (
            "--policy markov-optimal,phased(reshuffle=0.05) --cold-start 12 --weighting uniform",
            {
                "policies": ["markov-optimal", "phased(reshuffle=0.05)"],
                "cold_start": 12,
                "weighting": "uniform",
            },
        ),
    ],
)
def test_theory(program: Path, arguments: str, options: dict[str, object]) -> None:
    assert agewise.theory(**options).json == output(program, "theory", "--json", *arguments.split())


@pytest.mark.parametrize("policy", FIELD)
@pytest.mark.parametrize(
    ("command", "call"), [("theory", agewise.theory), ("simulate", agewise.simulate)]
)
def test_no_theory_and_no_simulation(
    program: Path, tmp_path: Path, policy: str, command: str, call: Callable[..., object]
) -> None:
    """A policy without closed forms and a policy that needs training are refused by both."""
    done = subprocess.run(
        [program, command, "--policy", policy],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    with pytest.raises(ValueError) as refused:
        call(policies=[policy])
    assert done.returncode == 2 and f"policy = {policy}: expected a policy " in done.stderr
    assert str(refused.value).startswith(f"policies = {policy}: expected a policy ")
    assert "agewise.compare" in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ("--rounds 150 --seeds 2", {"rounds": 150, "seeds": 2}),
        (
            "--rounds 80 --clients 300 --cohort 20 --seed 9 --dropout 0.2 --calibrate"
            " --availability bernoulli:0.7 --policy random,markov-optimal,oldest-first",
            {
                "rounds": 80,
                "clients": 300,
                "cohort": 20,
                "seed": 9,
                "dropout": 0.2,
                "policies": ["random", "markov-optimal", "oldest-first"],
                "availability": "bernoulli:0.7",
                "calibrate": True,
            },
        ),
    ],
)
def test_simulate(
    program: Path, tmp_path: Path, arguments: str, options: dict[str, object]
) -> None:
    out = ["--out", str(tmp_path / "run"), "--quiet"]
    printed = output(program, "simulate", "--json", *out, *arguments.split())
    assert agewise.simulate(**options).json == printed


#: The last five ask before they choose, or look at more than losses.
POLICIES = [
    "random",
    "markov-optimal",
    "oldest-first",
    "age-herding",
    "power-of-choice",
    "active",
    "divfl",
    "oort",
]
STUDY: dict[str, Any] = {
    "policies": POLICIES,
    "model": "softmax",
    "rounds": 6,
    "seeds": 2,
    "seed": 3,
    "targets": [0.5, 0.8],
}


@pytest.fixture(scope="module")
def run_of_the_program(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program") / "run"
    arguments = ["--policy", ",".join(POLICIES), "--model", "softmax"]
    numbers = ["--rounds", "6", "--seeds", "2", "--seed", "3", "--target", "0.5,0.8"]
    output(program, "compare", "--quiet", "--out", str(folder), *arguments, *numbers)
    return folder


def same_files(one: Path, other: Path) -> None:
    """The same files with the same bytes, but for those with a clock in them."""

    def files(folder: Path) -> dict[Path, bytes]:
        clocks = {"timing.csv", "provenance.json"}
        found = (path for path in folder.rglob("*") if path.is_file() and path.name not in clocks)
        return {path.relative_to(folder): path.read_bytes() for path in found}

    mine, theirs = files(one), files(other)
    assert mine.keys() == theirs.keys() and len(mine) > 10
    assert [file for file in mine if mine[file] != theirs[file]] == []


def test_compare(run_of_the_program: Path, tmp_path: Path) -> None:
    agewise.compare(out=tmp_path / "run", progress=False, threads=1, **STUDY)
    same_files(run_of_the_program, tmp_path / "run")


#: Arguments of the clock, each with its flags.
CLOCKS: dict[str, tuple[str, dict[str, Any]]] = {
    "deadline": (
        "--speeds phones --links phones@20,5 --schedule deadline:0.8 --unit seconds --power 3"
        " --link-power 1.5 --dropout 0.1",
        {
            "speeds": "phones",
            "links": "phones@20,5",
            "schedule": "deadline:0.8",
            "unit": "seconds",
            "power": 3,
            "link_power": 1.5,
            "dropout": 0.1,
        },
    ),
    "buffered": (
        "--links lognormal:1 --schedule buffered:3",
        {"links": "lognormal:1", "schedule": "buffered:3"},
    ),
    "unit": ("--unit bytes-up", {"unit": "bytes-up"}),
}


@pytest.mark.parametrize("clock", CLOCKS)
def test_compare_with_a_clock(program: Path, tmp_path: Path, clock: str) -> None:
    flags, arguments = CLOCKS[clock]
    asked = "--model softmax --rounds 6 --seeds 2 --policy random,oldest-first --target 0.5"
    out = ["--quiet", "--out", str(tmp_path / "program")]
    output(program, "compare", *asked.split(), *flags.split(), *out)
    found = agewise.compare(
        model="softmax",
        rounds=6,
        seeds=2,
        policies=["random", "oldest-first"],
        targets=[0.5],
        out=tmp_path / "package",
        progress=False,
        **arguments,
    )
    same_files(tmp_path / "program", tmp_path / "package")
    assert found["random"].mean("seconds") is not None
    assert (found["random"].mean("joules") is not None) == ("power" in arguments)
    assert agewise.read_run(tmp_path / "program").json == found.json


def test_compare_in_a_world(program: Path, tmp_path: Path) -> None:
    """Clients that are not always there, and another rule of aggregation."""
    numbers = (
        "--model softmax --rounds 8 --seeds 2 --policy random,markov-optimal --target 0.5".split()
    )
    world = (
        "--availability bernoulli:0.7 --dropout 0.1 --join 0.05 --leave 0.01 --calibrate".split()
    )
    rule = "median(clip_norm=5)+momentum(beta=0.5)"
    out = ["--aggregate", rule, "--quiet", "--out", str(tmp_path / "program")]
    output(program, "compare", *numbers, *world, *out)
    found = agewise.compare(
        model="softmax",
        rounds=8,
        seeds=2,
        policies=["random", "markov-optimal"],
        targets=[0.5],
        availability="bernoulli:0.7",
        dropout=0.1,
        join=0.05,
        leave=0.01,
        calibrate=True,
        aggregate=rule,
        out=tmp_path / "package",
        progress=False,
    )
    same_files(tmp_path / "program", tmp_path / "package")
    policy = found["random"]
    assert policy.aggregation == rule
    reported, selected, available = map(policy.mean, ["reported", "selected", "available"])
    assert reported is not None and selected is not None and available is not None
    assert reported < selected < available


def test_simulate_in_a_folder(program: Path, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "program"), "--quiet"]
    output(program, "simulate", "--rounds", "60", "--policy", "random,phased", *out)
    found = agewise.simulate(rounds=60, policies=["random", "phased"], out=tmp_path / "package")
    same_files(tmp_path / "program", tmp_path / "package")
    again = agewise.read_run(tmp_path / "program")
    assert again.json == found.json and (again["phased"].reported == found["phased"].reported).all()
    assert (
        list(again.figures) == list(found.figures)
        and found.report == tmp_path / "package" / "report.html"
    )


def test_reading_what_the_program_did(run_of_the_program: Path) -> None:
    found = agewise.read_run(run_of_the_program)
    assert found.finished and found.json == (run_of_the_program / "summary.json").read_text()
    assert [row[0] for row in found.rows] == STUDY["policies"]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_loop_in_python(run_of_the_program: Path, policy: str) -> None:
    """Selector, trainer, sketches and average, put together by hand, are the engine: same cohorts,
    same model, same accuracies."""
    seed = 4
    digits = agewise.load_data("digits")
    shares = agewise.partition(digits.train, clients=100, distribution="dirichlet:0.3", seed=seed)
    selector = agewise.Selector(policy, 100, 15, seed, sizes=shares.sizes)
    trainer = agewise.Trainer("softmax", seed=seed)
    model = trainer.parameters.copy()

    def train(client: int, number: int, steps: int) -> tuple[agewise.LocalReport, np.ndarray]:
        """What a client makes of the model, and the sketch of that."""
        trainer.parameters = model
        report = trainer.train(
            shares.of(client),
            steps=steps,
            batch=20,
            lr=0.1,
            decay=0.998,
            seed=seed,
            round=number,
            client=int(client),
        )
        layer = trainer.output_layer
        return report, agewise.sketch(model[layer], trainer.parameters[layer], seed=seed)

    def loss(client: int) -> float:
        trainer.parameters = model
        return trainer.evaluate(shares.of(client)).loss

    accuracies, asked = [], 0
    for number in range(6):
        for kind, clients in selector.probes().items():
            asked += clients.size
            if kind == "loss":
                selector.observe(clients, losses=[loss(client) for client in clients])
            else:
                steps = 5 if kind == "update-round" else 1
                sketches = [train(client, number, steps)[1] for client in clients]
                selector.observe(clients, sketches=sketches)
        cohort = selector.select()
        updates, reports, sketches = [], [], []
        before = (
            [loss(client) for client in cohort.ids] if selector.needs.loss == "whole-data" else None
        )
        for client in cohort.ids:
            report, sketch = train(client, number, 5)
            updates.append(trainer.parameters.copy())
            reports.append(report)
            sketches.append(sketch)
        agewise.average(model, updates, cohort.weights)
        selector.report(
            cohort.ids,
            losses=before or [report.loss for report in reports],
            # Simulated seconds: one for each sample.
            durations=[report.samples for report in reports],
            root_mean_squares=[report.root_mean_square for report in reports],
            sketches=sketches if selector.needs.update_sketches else None,
        )
        trainer.parameters = model
        accuracies.append(trainer.evaluate(digits.test).accuracy)
    assert asked == {
        "age-herding": 100,
        "power-of-choice": 6 * 30,
        "active": 100,
        "divfl": 100,
    }.get(policy, 0)
    with (run_of_the_program / "rounds.csv").open() as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["policy"] == policy and row["seed"] == str(seed)
        ]
    assert accuracies == [float(row["accuracy"]) for row in rows]
    assert len(np.unique(accuracies)) > 3
