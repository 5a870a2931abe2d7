"""Flower's and Ray's programs for tests: started with logs, and ended whatever happens."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, TracebackType

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

#: Seconds until a test gives up. Nothing is measured: a slow machine only takes longer.
TIMEOUT = 300.0

# The client app of the example, which notes which client trained in which round, and where. A file
# `wait-ROUND` delays the training of that round until there is a file `gate-ROUND`.
_NOTING_APP = '''\
"""The client app of the example, which takes notes."""

import json
import os
import sys
import time
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from {package}.client_app import app as plain


def place() -> dict[str, str]:
    ray = sys.modules.get("ray")
    node = ray.get_runtime_context().get_node_id() if ray and ray.is_initialized() else ""
    return {{"ray-node": node, "network": os.readlink("/proc/self/ns/net")}}


class NotingApp(ClientApp):
    def __call__(self, message: Message, context: Context) -> Message:
        if message.metadata.message_type != "train":
            return plain(message=message, context=context)
        notes = Path(os.environ["AGEWISE_TEST_NOTES"])
        number = message.content["config"]["server-round"]
        partition = context.node_config["partition-id"]
        (notes / f"asked-{{number}}-{{partition}}").touch()
        while (notes / f"wait-{{number}}").exists() and not (notes / f"gate-{{number}}").exists():
            time.sleep(0.1)
        reply = plain(message=message, context=context)
        if "arrays" in reply.content:
            (notes / f"trained-{{number}}-{{partition}}").write_text(json.dumps(place()))
        return reply


app = NotingApp()
'''


def copy_example(name: str, package: str, folder: Path) -> Path:
    """A copy of an example whose clients note what they do in the folder of AGEWISE_TEST_NOTES."""
    app = folder / name
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(EXAMPLES / name, app, ignore=ignored)
    (app / package / "noting.py").write_text(_NOTING_APP.format(package=package))
    project = app / "pyproject.toml"
    text = project.read_text()
    plain = f'clientapp = "{package}.client_app:app"'
    if plain not in text:
        raise ValueError(f"{project} does not say {plain}")
    project.write_text(text.replace(plain, f'clientapp = "{package}.noting:app"'))
    return app


def free_ports(count: int) -> list[int]:
    """Unused ports of loopback. All are open at once, so they differ."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def wait_until(condition: Callable[[], bool], what: str, programs: "Programs") -> None:
    """Waits, at most so long that something must be wrong; the error has the end of all logs."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {TIMEOUT:.0f} s in vain: {what}\n{programs.log_tails()}")
        time.sleep(0.1)


class Programs:
    """Programs that end with the `with` block, and all that they have started.

    They are found by their parents and by a mark in their environment: some leave their parents.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder / "notes"
        self._mark = f"AGEWISE_TEST_MARK={uuid.uuid4().hex}"
        self._started: list[subprocess.Popen[bytes]] = []
        self._handler: signal._HANDLER = signal.SIG_DFL

    def __enter__(self) -> "Programs":
        self.notes.mkdir(parents=True)
        (self.folder / "home").mkdir()
        # If the tests are ended from outside, the programs end too.
        self._handler = signal.signal(signal.SIGTERM, _interrupt)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        roots = {program.pid for program in self._started if program.poll() is None}
        self._end(_with_descendants(roots) | self._marked())
        for program in self._started:
            program.wait()
        signal.signal(signal.SIGTERM, self._handler)

    def environment(self, **more: str) -> dict[str, str]:
        """Flower at home in our folder, no telemetry, programs beside this Python."""
        name, _, value = self._mark.partition("=")
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        kept = {key: text for key, text in os.environ.items() if key != "RAY_ADDRESS"}
        return {
            **kept,
            "PATH": path,
            "FLWR_HOME": str(self.folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "AGEWISE_TEST_NOTES": str(self.notes),
            "PYTHONUNBUFFERED": "1",
            name: value,
            **more,
        }

    def start(
        self, name: str, command: Sequence[str], **environment: str
    ) -> subprocess.Popen[bytes]:
        """Starts a program whose output goes into NAME.log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            program = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment(**environment),
                cwd=self.folder,
            )
        self._started.append(program)
        return program

    def stop(self, program: subprocess.Popen[bytes]) -> None:
        """Asks one program to end, and waits until it and its children have."""
        family = _with_descendants({program.pid})
        program.terminate()
        wait_until(lambda: program.poll() is not None, "the end of a program", self)
        self._end(family)

    def log(self, name: str) -> str:
        """What a program has printed so far."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def log_tails(self) -> str:
        """The last lines of all logs."""
        logs = sorted(self.folder.glob("*.log"))
        tails = {log.name: self.log(log.stem).splitlines()[-25:] for log in logs}
        return "\n".join("\n".join([f"--- {name}", *lines]) for name, lines in tails.items())

    def use_superlink(self, address: str, insecure: bool = True) -> None:
        """Makes `flwr run APP here` go to this superlink."""
        config = f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{address}"\n'
        config += f"insecure = {str(insecure).lower()}\n"
        (self.folder / "home" / "config.toml").write_text(config)

    def asked(self) -> dict[int, list[int]]:
        """The partitions that were asked in each round, by the clients' own notes."""
        return self._noted("asked")

    def trained(self) -> dict[int, list[int]]:
        """The partitions that trained in each round, by the clients' own notes."""
        return self._noted("trained")

    def _noted(self, what: str) -> dict[int, list[int]]:
        rounds: dict[int, list[int]] = {}
        for note in self.notes.glob(f"{what}-*"):
            number, partition = map(int, note.name.split("-")[1:])
            rounds.setdefault(number, []).append(partition)
        return {number: sorted(rounds[number]) for number in sorted(rounds)}

    def _marked(self) -> set[int]:
        found = set()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark.encode() in (process / "environ").read_bytes():
                    found.add(int(process.name))
            except OSError:
                continue
        return found - {os.getpid()}

    def _end(self, family: set[int]) -> None:
        """Asks all to end, and insists after 10 seconds."""
        for kind, seconds in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
            for pid in family:
                try:
                    os.kill(pid, kind)
                except ProcessLookupError:
                    continue
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                for program in self._started:
                    program.poll()
                family = {pid for pid in family if _is_alive(pid)}
                if not family:
                    return
                time.sleep(0.1)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(f"signal {number}")


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _with_descendants(roots: set[int]) -> set[int]:
    parents: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            stat = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(process.name)] = int(stat[1])
    family = set(roots)
    while True:
        grown = family | {pid for pid, parent in parents.items() if parent in family}
        if grown == family:
            return family
        family = grown
