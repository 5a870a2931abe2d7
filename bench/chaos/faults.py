"""What can go wrong: disks that fail or are full, and a network that delays, cuts and drops."""

import mmap
import os
import struct
import subprocess
from pathlib import Path

# In the order of shim.c.
KINDS = ["write error", "read error", "short write", "failed sync", "no space", "failed rename"]
# The layout of `struct control`.
SHARES = struct.Struct(f"={1 + len(KINDS)}I")
COUNTS = struct.Struct(f"={len(KINDS)}Q")
COUNTS_AT = (SHARES.size + 7) // 8 * 8


class Shim:
    """The file calls of one program, through shim.c."""

    def __init__(self, library, control, under, seed):
        self.library, self.control, self.under, self.seed = library, control, under, seed
        control.write_bytes(bytes(COUNTS_AT + COUNTS.size))
        with control.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        self.set({})

    def environment(self):
        return {
            "LD_PRELOAD": str(self.library),
            "CHAOS_CONTROL": str(self.control),
            "CHAOS_UNDER": f"{self.under}/",
        }

    def set(self, shares):
        """How often each kind of fault happens; those that are not named never do."""
        words = [min(65536, int(65536 * shares.get(kind, 0))) for kind in KINDS]
        SHARES.pack_into(self.memory, 0, self.seed, *words)

    def counts(self):
        return dict(zip(KINDS, COUNTS.unpack_from(self.memory, COUNTS_AT)))


class Disk:
    """A folder that can be full: a small tmpfs where one can be mounted, else the shim says that there is no space."""

    def __init__(self, folder, megabytes, shim, may_mount):
        self.folder, self.shim = folder, shim
        folder.mkdir(parents=True, exist_ok=True)
        self.is_own = may_mount and run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", str(folder))
        self.filled = 0

    def fill(self):
        self.filled += 1
        if not self.is_own:
            self.shim.set({"no space": 1})
            return
        with (self.folder / "balloon").open("ab", buffering=0) as balloon:
            for size in [1 << 20, 1 << 12, 1]:
                try:
                    while balloon.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue

    def free(self):
        self.shim.set({})
        (self.folder / "balloon").unlink(missing_ok=True)


class Network:
    """The way from clients to the coordinator: each program of clients has an address of its own, 127.0.1.K, on which the proxy listens.

    Partitions are black holes in the routes of a network namespace where there is one, and stalls of the proxy elsewhere. Loss is netem's where
    the system has it, and stalls elsewhere. Delays and cuts are always the proxy's.
    """

    def __init__(self, here, port, groups, is_namespace):
        self.groups, self.is_namespace = groups, is_namespace
        netem = ["tc", "qdisc", "replace", "dev", "lo", "root", "netem", "loss", "0%"]
        self.has_netem = is_namespace and run(*netem)
        self.proxy = subprocess.Popen(
            ["python3", str(here / "proxy.py"), str(port), str(groups)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self.proxy.stdout.readline() != "ready\n":
            raise SystemExit("the proxy did not start")

    def describe(self):
        partitions = "black holes in a network namespace" if self.is_namespace else "stalls of the proxy"
        loss = "netem" if self.has_netem else "stalls of the proxy (the system has no netem)"
        return f"partitions: {partitions}; loss: {loss}; delays and cuts: proxy"

    def tell(self, *words):
        self.proxy.stdin.write(" ".join(map(str, words)) + "\n")
        self.proxy.stdin.flush()

    def delay(self, group, seconds):
        self.tell("delay", group, seconds)

    def cut(self, group):
        self.tell("cut", group)

    def lose(self, group, share):
        if self.has_netem:
            run("tc", "qdisc", "replace", "dev", "lo", "root", "netem", "loss", f"{100 * share:.0f}%")
        else:
            self.tell("lose", group, share)

    def part(self, group):
        if self.is_namespace:
            run("ip", "route", "replace", "blackhole", f"{address(group)}/32", "table", "local")
        else:
            self.tell("lose", group, 1)

    def heal(self, group):
        self.tell("heal", group)
        if self.is_namespace:
            run("ip", "route", "del", "blackhole", f"{address(group)}/32", "table", "local")
        if self.has_netem:
            run("tc", "qdisc", "replace", "dev", "lo", "root", "netem", "loss", "0%")

    def stop(self):
        self.proxy.kill()
        self.proxy.wait()


def address(group):
    return f"127.0.1.{group + 1}"


def run(*words):
    """Whether a command could be run and ended well."""
    try:
        return subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except FileNotFoundError:
        return False


def build_shim(here, folder):
    """Compiles shim.c; gives the library."""
    library = Path(folder) / "shim.so"
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(here / "shim.c"), "-ldl"]
    subprocess.run(command, check=True)
    return library
