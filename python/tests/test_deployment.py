"""The digits example in a real deployment on loopback: a superlink and two supernodes."""

import math
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from flower_programs import Programs, copy_example, free_ports, wait_until

from agewise import Selector

pytestmark = pytest.mark.flower_run

#: A place more than there are supernodes: a node that were given any free place would be noticed.
CLIENTS = 3
PARTITIONS = (1, 2)
POLICY, SEED = "oldest-first", 1


class Deployment:
    """A superlink and its supernodes."""

    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        self.app = copy_example("digits", "digits_agewise", programs.folder)
        self.port, *self.node_ports = free_ports(1 + 2 * len(PARTITIONS))
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self.starts = 0
        programs.use_superlink(f"127.0.0.1:{self.port}")
        command = ["flower-superlink", "--insecure", "--port", str(self.port)]
        programs.start("superlink", [*command, "--disable-runtime-dependency-installation"])
        wait_until(self.answers, "the superlink answers", programs)

    def answers(self) -> bool:
        """Whether the superlink is up."""
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/health", timeout=2).is_success
        except httpx.HTTPError:
            return False

    def connect(self, partition: int) -> None:
        """Starts the supernode of a partition and waits until the superlink knows it."""
        before = self.registrations()
        port, self.starts = self.node_ports[self.starts], self.starts + 1
        self.nodes[partition] = self.programs.start(
            f"supernode-{self.starts}",
            [
                *("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{self.port}"),
                *("--port", str(port)),
                *("--node-config", f"partition-id={partition} num-partitions={CLIENTS}"),
            ],
        )
        wait_until(lambda: self.registrations() > before, "a supernode is known", self.programs)

    def registrations(self) -> int:
        """How many nodes the superlink has let in so far."""
        return self.programs.log("superlink").count("/activate-node")

    def run(self, rounds: int, cohort: int) -> subprocess.Popen[bytes]:
        """Starts the example; its log is run.log."""
        config = f"num-server-rounds={rounds} wait-for=1 partition='iid' agewise-policy='{POLICY}'"
        config += f" agewise-clients={CLIENTS} agewise-cohort={cohort} agewise-seed={SEED}"
        command = ["flwr", "run", str(self.app), "here", "--stream", "--run-config", config]
        return self.programs.start("run", command)


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """A superlink with the supernodes of both partitions."""
    with Programs(tmp_path / "deployment") as programs:
        deployment = Deployment(programs)
        for partition in PARTITIONS:
            deployment.connect(partition)
        yield deployment


def accuracies(log: str) -> list[float]:
    """The accuracy after each round, the one before the first included."""
    return [float(found) for found in re.findall(r"^round \d+: accuracy ([\d.]+)", log, re.M)]


def predicted(
    cohort: int, rounds: int, available: dict[int, list[int]]
) -> tuple[dict[int, list[int]], str]:
    """What the core says for a run in which these partitions are connected.

    Both are, in a round of which nothing is said. Gives the cohorts, and the participation that the
    example prints at its end.
    """
    selector = Selector(POLICY, CLIENTS, cohort, SEED)
    cohorts = {}
    for number in range(1, rounds + 1):
        connected = available.get(number, list(PARTITIONS))
        cohorts[number] = [int(client) for client in selector.select(available=connected).ids]
        selector.report(cohorts[number])
    metrics = selector.metrics()
    figures = {
        "Jain's index": metrics.jain,
        "variance of the interval": metrics.var_interval,
        "longest wait": metrics.longest_wait,
        "greatest age now": selector.ages.max(),
    }
    known = (f"{name} {value:.4g}" for name, value in figures.items() if math.isfinite(value))
    return cohorts, ", ".join(known)


def check(
    deployment: Deployment, run: subprocess.Popen[bytes], cohorts: dict[int, list[int]]
) -> str:
    """The run ended well, every node is identified, and these clients trained. Returns the log."""
    programs = deployment.programs
    wait_until(lambda: run.poll() is not None, "the end of the run", programs)
    assert run.returncode == 0, programs.log_tails()
    log = programs.log("run")
    assert "did not state their partition id" not in log
    assert "is excluded" not in log
    assert programs.trained() == cohorts, log
    return log


def test_two_supernodes_train_under_their_own_numbers(deployment: Deployment) -> None:
    """Cohorts are those that the core chooses for these partitions, and the model learns."""
    cohorts, participation = predicted(2, 3, {})
    assert cohorts == {number: [1, 2] for number in (1, 2, 3)}
    log = check(deployment, deployment.run(rounds=3, cohort=2), cohorts)
    for number in cohorts:
        assert f"round {number}: asked 2, reported 2" in log
    assert participation in log
    # Chance is 0.1 and its standard deviation with 1,000 test digits 0.01: 0.5 is far from it.
    before, *after = accuracies(log)
    assert before < 0.3
    assert len(after) == 3
    assert after[-1] > 0.5


def test_a_supernode_that_comes_back_has_its_old_age(deployment: Deployment) -> None:
    """Its node id is new, its partition and with it its age are not."""
    rounds, programs = 7, deployment.programs
    undisturbed, _ = predicted(1, rounds, {})
    # Held in a round of partition 2 alone, partition 1 has nothing to do and can be taken away.
    leaves = next(number for number in undisturbed if number > 1 and undisturbed[number] == [2])
    returns = leaves + 2
    for number in (leaves, returns):
        (programs.notes / f"wait-{number}").touch()
    run = deployment.run(rounds=rounds, cohort=1)

    wait_until(lambda: leaves in programs.asked(), f"round {leaves}", programs)
    assert programs.asked()[leaves] == [2]
    programs.stop(deployment.nodes[1])
    (programs.notes / f"gate-{leaves}").touch()
    wait_until(lambda: returns in programs.asked(), f"round {returns}", programs)
    deployment.connect(1)
    (programs.notes / f"gate-{returns}").touch()

    alone = {number: [2] for number in range(leaves + 1, returns + 1)}
    cohorts, participation = predicted(1, rounds, alone)
    assert any(1 in cohort for number, cohort in cohorts.items() if number > returns)
    # The figures are by number of client: with another place after its return they would be others.
    assert participation in check(deployment, run, cohorts)
