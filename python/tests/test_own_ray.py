"""Tasks of one's own on a Ray cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_tasks import ASKED, Dying, Lines, Raising
from test_own_policy import same_bytes
from test_own_task import killed_while_workers_train

import agewise

ray = pytest.importorskip("ray")

#: Seconds after which something must be wrong.
TIMEOUT = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of two nodes of one CPU, to which this process is connected."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.second = made.add_node(num_cpus=1)
    # Workers import the modules of the tests.
    paths = {"PYTHONPATH": str(Path(__file__).parent)}
    ray.init(address=made.address, log_to_driver=False, runtime_env={"env_vars": paths})
    yield made
    ray.shutdown()
    made.shutdown()


class Asks(Lines):
    """Says in its metrics what it trains with, which must be writable."""

    def train(self, client: Any, parameters: Any, round: int, seed: int) -> Any:
        parameters += np.float32(0)
        return super().train(client, parameters, round, seed)


def test_the_bytes_are_those_of_threads(cluster: Any, tmp_path: Path) -> None:
    asked = ASKED | {"policies": ["random", "age-herding", "power-of-choice(d=6)"]}
    agewise.compare(task=Asks(), out=tmp_path / "threads", **asked)
    agewise.compare(task=Asks(), out=tmp_path / "ray", engine="ray", **asked)
    same_bytes(tmp_path / "threads", tmp_path / "ray")


def test_an_exception_says_where_it_was_raised(cluster: Any, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(LookupError, match="no data of client-") as raised:
        agewise.compare(task=Raising(file), out=tmp_path / "run", engine="ray", **ASKED)
    notes = "".join(raised.value.__notes__)
    assert "Traceback of Ray actor" in notes and "in fail\n" in notes


def test_an_actor_that_dies_is_replaced(cluster: Any, tmp_path: Path) -> None:
    files = [tmp_path / "1"]
    files[0].touch()
    agewise.compare(task=Lines(), out=tmp_path / "threads", **ASKED)
    with pytest.warns(UserWarning, match=r"Ray actor .* while training client \d+ in round 2"):
        agewise.compare(task=Dying(files), out=tmp_path / "ray", engine="ray", **ASKED)
    same_bytes(tmp_path / "threads", tmp_path / "ray")


def test_actors_end_with_a_killed_driver(cluster: Any, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    agewise.compare(task=Lines(), out=whole, **ASKED)
    paths = {"PYTHONPATH": str(Path(__file__).parent), "RAY_ADDRESS": cluster.address}
    killed_while_workers_train("ray", cut, tmp_path / "held", **paths)
    agewise.resume_run(cut, task=Lines(), engine="ray", progress=False)
    same_bytes(whole, cut)


def test_a_model_is_put_once_for_all_clients_of_a_round(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put: list[Any] = []
    ray_put = ray.put

    def noting(value: Any) -> Any:
        put.append(value)
        return ray_put(value)

    monkeypatch.setattr(ray, "put", noting)
    asked = ASKED | {"policies": ["random"], "seeds": 1}
    agewise.compare(task=Lines(), out=tmp_path / "ray", engine="ray", **asked)
    models = [value.tobytes() for value in put if isinstance(value, np.ndarray)]
    # Those of five rounds, and the last one, which is evaluated only.
    assert len(models) == len(set(models)) == 6


def test_a_machine_that_leaves_costs_its_clients_only(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test, as it takes the second node away. The first one does the work of both."""
    begun: set[tuple[str, int]] = set()
    gone = threading.Event()

    def leave(policy: str, seed: int, rounds: int, score: float | None) -> None:
        if rounds == 0 or gone.is_set():
            return
        begun.add((policy, seed))
        if len(begun) == 1:
            # Until the other run has its worker too.
            assert gone.wait(TIMEOUT)
            return
        cluster.remove_node(cluster.second, allow_graceful=False)
        deadline = time.monotonic() + TIMEOUT
        while sum(node["Alive"] for node in ray.nodes()) > 1:
            assert time.monotonic() < deadline, "Ray never noticed that a node has left"
            time.sleep(0.1)
        monkeypatch.setattr("agewise.ray.START_TIMEOUT", 3.0)
        gone.set()

    agewise.compare(task=Lines(), out=tmp_path / "threads", **ASKED)
    asked = ASKED | {"progress": leave}
    with pytest.warns(UserWarning, match="Ray actor .* ended with .*; another one does it again"):
        agewise.compare(task=Lines(), out=tmp_path / "ray", engine="ray", **asked)
    same_bytes(tmp_path / "threads", tmp_path / "ray")
