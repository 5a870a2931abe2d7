"""The digits example in a simulation on two Ray nodes.

They are in network namespaces of their own where we may make them, and else both on loopback.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from flower_programs import Programs, copy_example, free_ports, wait_until

from agewise import Selector

pytestmark = pytest.mark.flower_run

CLIENTS, COHORT, ROUNDS, SEED = 8, 6, 2, 1


@dataclass(frozen=True)
class Machine:
    """Where a Ray node runs: how to start a program there, and its address."""

    prefix: tuple[str, ...]
    address: str


def ip(*arguments: str) -> None:
    """Changes the network; an error is an error of the test."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def may_make_namespaces() -> bool:
    """Whether this is root with iproute2, and the kernel lets it."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"agewise-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    if made:
        ip("netns", "delete", name)
    return made


@contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine]]:
    """Two network namespaces with a cable between them, or loopback twice."""
    if not may_make_namespaces():
        yield (Machine((), "127.0.0.1"), Machine((), "127.0.0.1"))
        return
    names = [f"agewise-{os.getpid()}-{end}" for end in "ab"]
    # A network of its own: of the block for documentation, which is not routed.
    addresses = ["203.0.113.1", "203.0.113.2"]
    with ExitStack() as made:
        for name in names:
            ip("netns", "add", name)
            made.callback(ip, "netns", "delete", name)
        first, second = names
        ip("link", "add", "cable", "netns", first, "type", "veth", "peer", "cable", "netns", second)
        for name, address in zip(names, addresses, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            for device in ("lo", "cable"):
                ip("-n", name, "link", "set", device, "up")
        a, b = (
            Machine(("ip", "netns", "exec", name), address)
            for name, address in zip(names, addresses, strict=True)
        )
        yield a, b


def start_cluster(programs: Programs, head: Machine, worker: Machine, storage: str) -> str:
    """Two Ray nodes with one core each; gives the address of the cluster."""
    [port] = free_ports(1)
    cluster = f"{head.address}:{port}"
    start = ["ray", "start", "--block", "--num-cpus", "1", "--disable-usage-stats"]
    programs.start(
        "ray-head",
        [
            *head.prefix,
            *(*start, "--head", "--node-ip-address", head.address, "--port", str(port)),
            *("--include-dashboard", "false", "--temp-dir", storage),
        ],
    )
    wait_until(lambda: "Ray runtime started" in programs.log("ray-head"), "Ray's head", programs)
    programs.start(
        "ray-worker",
        [*worker.prefix, *start, "--address", cluster, "--node-ip-address", worker.address],
    )
    wait_until(lambda: "Ray runtime started" in programs.log("ray-worker"), "its worker", programs)
    return cluster


def start_superlink(programs: Programs, head: Machine, cluster: str) -> None:
    """A superlink for simulations that uses the cluster, beside Ray's head."""
    [port] = free_ports(1)
    address = f"127.0.0.1:{port}"
    programs.use_superlink(address)
    programs.start(
        "superlink",
        [
            *(*head.prefix, "flower-superlink", "--insecure", "--simulation", "--port", str(port)),
            "--disable-runtime-dependency-installation",
        ],
        RAY_ADDRESS=cluster,
    )
    # From inside the namespace: its loopback is not ours.
    ask = f"import httpx; httpx.get('http://{address}/health', timeout=2).raise_for_status()"
    command = [*head.prefix, sys.executable, "-c", ask]

    def answers() -> bool:
        return subprocess.run(command, capture_output=True).returncode == 0

    wait_until(answers, "the superlink answers", programs)


def test_a_simulation_uses_both_nodes_of_a_cluster(tmp_path: Path) -> None:
    """Clients train on both nodes, and the cohorts are those of any other run with this seed."""
    with ExitStack() as stack:
        head, worker = stack.enter_context(two_machines())
        # Not in tmp_path, whose name is long: names of Ray's sockets have at most 107 characters.
        storage = stack.enter_context(TemporaryDirectory(prefix="aw", ignore_cleanup_errors=True))
        programs = stack.enter_context(Programs(tmp_path / "cluster"))
        app = copy_example("digits", "digits_agewise", programs.folder)
        cluster = start_cluster(programs, head, worker, storage)
        start_superlink(programs, head, cluster)
        config = f"num-server-rounds={ROUNDS} agewise-clients={CLIENTS} agewise-cohort={COHORT}"
        run = programs.start(
            "run",
            [
                *(*head.prefix, "flwr", "run", str(app), "here", "--stream"),
                "--federation-config",
                f"num-supernodes={CLIENTS} client-resources-num-cpus=1",
                *("--run-config", f"{config} agewise-policy='oldest-first' agewise-seed={SEED}"),
            ],
        )
        wait_until(lambda: run.poll() is not None, "the end of the run", programs)
        log = programs.log("run")
        assert run.returncode == 0, programs.log_tails()

        machines = [json.loads(note.read_text()) for note in programs.notes.glob("trained-*")]
        assert len({machine["ray-node"] for machine in machines}) == 2, machines
        if head.prefix:
            assert len({machine["network"] for machine in machines}) == 2, machines
        selector = Selector("oldest-first", CLIENTS, COHORT, SEED)
        expected = {}
        for number in range(1, ROUNDS + 1):
            expected[number] = [int(client) for client in selector.select().ids]
            selector.report(expected[number])
        assert programs.trained() == expected, log
        # Chance is 0.1 and its standard deviation with 1,000 test digits 0.01: 0.3 is far from it.
        assert float(re.findall(r"accuracy ([\d.]+)", log)[-1]) > 0.3
