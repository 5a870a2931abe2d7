"""The recipes of python/examples: each is run where its library is installed."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

RECIPES = Path(__file__).parents[1] / "examples/recipes"
#: Each recipe with the library that it needs and what it prints.
PRINTED = {
    "scikit_learn": ("sklearn", r"accuracy 0\.[89]\d, longest wait [45]$"),
    "plain_pytorch": ("torch", r"accuracy 0\.[89]\d, longest wait \d$"),
    "asynchronous": ("numpy", r"error 0\.\d+, never heard of 0, longest wait \d+$"),
    "fedlab_handler": ("fedlab", r"rounds 12, longest wait 4, jain 1\.00$"),
    "pfl_research": ("pfl", r"rounds 11, longest wait 4, users 20$"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_a_recipe_does_what_it_says(name: str) -> None:
    library, expected = PRINTED[name]
    pytest.importorskip(library)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(RECIPES / f"{name}.py")],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(expected, done.stdout.strip()), done.stdout


def test_every_recipe_is_run_and_listed() -> None:
    there = {path.stem for path in RECIPES.glob("*.py")}
    assert there == {*PRINTED, "nvflare_controller"}
    listed = (RECIPES / "README.md").read_text()
    assert all(f"({name}.py)" in listed for name in there)


@pytest.mark.filterwarnings("ignore")
def test_the_controller_of_nvflare() -> None:
    """Its own code samples and aggregates; only the sites and their connections are made up."""
    pytest.importorskip("nvflare")
    spec = importlib.util.spec_from_file_location("recipe", RECIPES / "nvflare_controller.py")
    assert spec is not None and spec.loader is not None
    recipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipe)
    module = importlib.import_module("nvflare.app_common.abstract.fl_model")
    helper = importlib.import_module(
        "nvflare.app_common.workflows.fedavg"
    ).WeightedAggregationHelper
    sites = [f"site-{number}" for number in range(1, 7)]
    controller = recipe.AgeFedAvg(num_clients=2, num_rounds=6, seed=1)
    names = list(sites)
    controller.engine = SimpleNamespace(
        get_clients=lambda: [SimpleNamespace(name=n) for n in names]
    )
    controller.current_round = 0
    asked: list[list[str]] = []

    def round_of(silent: str = "") -> Any:
        clients = controller.sample_clients(2)
        asked.append(clients)
        controller._aggr_helper, controller._aggr_metrics_helper = helper(), helper()
        for name in clients:
            params = {} if name == silent else {"w": 1.0}
            result = module.FLModel(params=params, metrics={}, meta={"client_name": name})
            controller._aggregate_one_result(result)
        return controller

    for _ in range(3):
        round_of()
    assert sorted(chain.from_iterable(asked)) == sites, "each site once in three rounds"
    silent = round_of(silent=asked[0][0])._cohort
    round_of()
    assert (asked[0][0] in silent) == (list(controller._selector.failed) == [asked[0][0]])
    names.append("site-7")
    for _ in range(4):
        round_of()
    assert "site-7" in chain.from_iterable(asked[5:]), "a site that joins is selected too"
