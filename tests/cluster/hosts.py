"""Real hosts on one machine: process trees in namespaces of their own, joined by a switch.

A host has its own network, process ids, mounts, host name, shared memory, System V IPC and offset of CLOCK_MONOTONIC
and CLOCK_BOOTTIME. What it has not is a kernel of its own: ``/proc/stat``, the boot id and the cores are the machine's,
so a host is held to some of the cores by affinity. Nothing here has a name outside the namespaces: two test runs do not
meet, and when the processes are gone, nothing is left, however they ended.
"""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

INIT = Path(__file__).with_name("host_init.py")
_CPU_GROUPS = Path("/sys/fs/cgroup/cpu")
_CLONE_NEWNET = 0x40000000  # linux/sched.h
# A parent that is killed takes the host with it.
_DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL"]


@dataclass(frozen=True)
class Fabric:
    """A network between the hosts: ``number`` is the third part of its addresses, 10.77.<number>.x."""

    interface: str
    number: int
    mtu: int


ETHERNET = Fabric("eth0", 0, 1500)
# In the shape of IP over InfiniBand: another interface, larger packets. There are no RDMA verbs behind it.
INFINIBAND = Fabric("ib0", 1, 65520)


@lru_cache(maxsize=1)
def refusal() -> str | None:
    """Why hosts cannot be made here, None where they can: tried with all that they need."""
    script = (
        "mount -t sysfs sysfs /sys && ip link add veth0 type veth peer name veth1 && ip link add br0 type bridge && "
        "tc qdisc add dev veth0 root tbf rate 1gbit burst 256kb latency 50ms"
    )
    command = ["unshare", *_unshared(1.0), "sh", "-c", script]
    try:
        tried = subprocess.run([*_DIES_WITH_US, *command], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"hosts in namespaces cannot be made: {error}"
    if tried.returncode:
        return f"hosts in namespaces cannot be made (root and CAP_NET_ADMIN are needed): {tried.stderr.strip()}"
    return None


def _unshared(clock_offset_s: float) -> list[str]:
    ahead = str(int(clock_offset_s))
    kinds = ["--net", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--uts", "--ipc", "--time"]
    return [*kinds, "--monotonic", ahead, "--boottime", ahead]


class Host:
    """One host. ``boot`` and ``cut_power`` may follow each other again and again.

    Args:
        name: its host name.
        number: the last part of its addresses, 10 + number.
        folder: shared by all hosts of a network; ``folder/here`` is another folder on each of them.
        cores: the cores that its processes may use.
        clock_offset_s: how far its monotonic clock is ahead of the machine's, in whole seconds.
    """

    def __init__(self, name: str, number: int, folder: Path, cores: Sequence[int], clock_offset_s: int) -> None:
        self.name = name
        self.number = number
        self.cores = tuple(cores)
        self.clock_offset_s = clock_offset_s
        self.outside = folder / name
        self.here = folder / "here"
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self.pid = 0

    def address(self, fabric: Fabric = ETHERNET) -> str:
        return f"10.77.{fabric.number}.{10 + self.number}"

    @property
    def _pinned(self) -> list[str]:
        return ["taskset", "-c", ",".join(map(str, self.cores))]

    def boot(self, names: Mapping[str, str]) -> None:
        """Start it without network; ``names`` are the addresses of the hosts that it knows by name.

        Raises:
            RuntimeError: it did not come up.
        """
        self.outside.mkdir(parents=True, exist_ok=True)
        self.here.mkdir(exist_ok=True)
        # As Debian does it: its own name is a loopback address, which libraries that ask for it must not announce.
        known = {"localhost": "127.0.0.1", **names, self.name: "127.0.1.1"}
        lines = [f"{address}\t{name}\n" for name, address in known.items()]
        (self.outside / "hosts").write_text("".join(lines))
        unshare = ["unshare", *_unshared(self.clock_offset_s), sys.executable, "-I", "-S", str(INIT)]
        command = [*_DIES_WITH_US, *self._pinned, *unshare, self.name, str(self._folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError(f"host {self.name} does not come up: exit status {self._process.wait()}")
        (self.pid,) = children(self._process.pid)

    def cut_power(self) -> None:
        """End everything that runs on it, at once."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def command(self, *words: str) -> list[str]:
        """The command that carries out ``words`` on this host."""
        return [*self._pinned, "nsenter", "--target", str(self.pid), "--all", *words]

    def start(self, *words: str, environment: Mapping[str, str], log: Path | None = None) -> "subprocess.Popen[str]":
        """Start a program; what it prints goes to ``log``, or comes by ``stdout`` of what is returned."""
        with contextlib.ExitStack() as stack:
            output = subprocess.PIPE if log is None else stack.enter_context(log.open("ab"))
            errors = None if log is None else subprocess.STDOUT
            environment = {**environment, "TMPDIR": str(self.here / "tmp")}
            (self.outside / "tmp").mkdir(exist_ok=True)
            return subprocess.Popen(
                self.command(*words), env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, text=True
            )

    def run(self, *words: str, timeout_s: float = 60.0) -> str:
        """Run a program to its end and return what it printed.

        Raises:
            subprocess.CalledProcessError: its exit status is not 0.
        """
        done = subprocess.run(
            self.command(*words),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise RuntimeError(f"{self.name}: {words}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def signal(self, started: "subprocess.Popen[str]", number: int = signal.SIGTERM) -> None:
        """Send a signal to a program that ``start`` started; ``nsenter`` would not pass it on."""
        for pid in children(started.pid):
            os.kill(pid, number)

    def connect(self, address: tuple[str, int], timeout_s: float | None = None) -> socket.socket:
        """A TCP connection from this host: a socket belongs to the network in which it was made.

        Raises:
            OSError: nobody answers there.
        """
        made: list[socket.socket | OSError] = []

        def make() -> None:  # the namespace is the thread's own, and ends with it
            try:
                with open(f"/proc/{self.pid}/ns/net") as network:
                    if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), _CLONE_NEWNET):
                        raise OSError(ctypes.get_errno(), "setns")
                made.append(socket.create_connection(address, timeout_s))
            except OSError as error:
                made.append(error)

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        if isinstance(made[0], OSError):
            raise made[0]
        return made[0]

    @contextlib.contextmanager
    def slowed(self, share: float) -> Iterator[None]:
        """Give all that runs on this host no more than that share of one core within the block, 10 ms at a time.

        Raises:
            OSError: control groups of version 1 cannot be written here.
        """
        group = _CPU_GROUPS / f"tbd-{self.pid}"
        group.mkdir()
        try:
            (group / "cpu.cfs_period_us").write_text("10000")
            (group / "cpu.cfs_quota_us").write_text(str(int(10000 * share)))
            self._move_to(group)
            yield
        finally:
            self._move_to(_CPU_GROUPS)
            group.rmdir()

    def _move_to(self, group: Path) -> None:
        for pid in (self.pid, *self.processes()):
            with contextlib.suppress(ProcessLookupError):  # it has ended
                (group / "cgroup.procs").write_text(str(pid))

    def processes(self) -> dict[int, str]:
        """Its living processes but process 1: process id as seen from outside -> command line. It need not answer."""
        mine = os.readlink(f"/proc/{self.pid}/ns/pid")
        found = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and int(entry.name) != self.pid and os.readlink(entry / "ns/pid") == mine:
                    command = (entry / "cmdline").read_bytes()  # empty: a zombie
                    if command:
                        found[int(entry.name)] = command.replace(b"\0", b" ").decode().strip()
        return found


def children(pid: int) -> list[int]:
    """Process ids, as seen from outside, of the children of a process with one thread."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
