"""Which processes belong to an attempt, and their end.

A process of an attempt is known by the attempt's token in its environment, wherever it has moved (a session or a
process group of its own, another parent), and by its ancestors, should it have cleaned its environment. A process is
identified by pid *and* start time: a pid alone is used again by the kernel.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Callable, Iterable, NamedTuple

from workers.trainer import protocol

_PROC = "/proc"


# proc_pid_stat(5), counted from the state: ppid, utime, stime, cutime, cstime, num_threads, starttime, rss.
_STAT_FIELDS = (1, 11, 12, 13, 14, 17, 19, 21)


class ProcessId(NamedTuple):
    """A process for all time: ``start_ticks`` is field 22 of /proc/PID/stat, in clock ticks since boot."""

    pid: int
    start_ticks: int


class Stat(NamedTuple):
    """What /proc/PID/stat says: state letter, parent, processor time and start in clock ticks, number of threads,
    processor time of children that it has waited for, resident memory in pages."""

    state: str
    parent: int
    cpu_ticks: int
    start_ticks: int
    threads: int
    waited_ticks: int = 0
    resident_pages: int = 0


def stat(pid: int) -> Stat | None:
    """Return the facts of process ``pid``, or None when there is no such process."""
    try:
        with open(f"{_PROC}/{pid}/stat", "rb", buffering=0) as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # the name before may hold blanks and brackets
    parent, user, system, waited_user, waited_system, threads, start, resident = (int(fields[i]) for i in _STAT_FIELDS)
    return Stat(fields[0].decode(), parent, user + system, start, threads, waited_user + waited_system, resident)


def now_ticks() -> int:
    """Return the time since boot in clock ticks, to be held against ``start_ticks``."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def identify(pid: int) -> ProcessId | None:
    """Return the identity of the process that has ``pid`` now, or None."""
    facts = stat(pid)
    return ProcessId(pid, facts.start_ticks) if facts else None


def alive(process: ProcessId) -> bool:
    """Whether that very process still runs; a zombie holds no device and counts as dead.

    A process whose first thread has ended looks like one, until its other threads have ended too.
    """
    facts = stat(process.pid)
    if facts is None or facts.start_ticks != process.start_ticks:
        return False
    return facts.state not in "ZX" or facts.threads > 1


def pids() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]


def with_token(token: str, node: str | None = None) -> set[ProcessId]:
    """Return the processes of this host whose environment holds the attempt's ``token``.

    Where a ``node`` is named, without those of other nodes: several may be one machine. Processes of other users cannot
    be read and are taken not to be ours.
    """
    found = set()
    for pid in pids():
        process = identify(pid) if pid != os.getpid() and has_token(pid, token, node) else None
        if process:
            found.add(process)
    return found


def has_token(pid: int, token: str, node: str | None = None) -> bool:
    """Whether the environment of process ``pid`` holds ``token``, and names no node but ``node``; not, where it cannot
    be read."""
    return token_of(pid, node) == token


def token_of(pid: int, node: str | None = None) -> str | None:
    """Return the token of the attempt that process ``pid`` belongs to; None where it belongs to none, or to one of a
    node other than ``node``, or where its environment cannot be read."""
    told = environment(pid)
    name = f"{protocol.TOKEN_VARIABLE}=".encode()
    tokens = [one[len(name) :].decode("utf-8", "replace") for one in told if one.startswith(name)]
    return tokens[0] if tokens and not _of_another(node, told) else None


def environment(pid: int) -> list[bytes]:
    """Return the environment that process ``pid`` began with, ``NAME=value`` each; empty where it cannot be read."""
    try:
        with open(f"{_PROC}/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _of_another(node: str | None, environment: list[bytes]) -> bool:
    told = [one for one in environment if one.startswith(protocol.NODE_VARIABLE.encode() + b"=")]
    return node is not None and bool(told) and told[0] != f"{protocol.NODE_VARIABLE}={node}".encode()


def descendants(roots: Iterable[int]) -> set[ProcessId]:
    """Return all living descendants of ``roots``, which need not live themselves."""
    children: dict[int, list[ProcessId]] = {}
    for pid in pids():
        facts = stat(pid)
        if facts:
            children.setdefault(facts.parent, []).append(ProcessId(pid, facts.start_ticks))
    found: set[ProcessId] = set()
    stack = list(roots)
    while stack:
        for child in children.get(stack.pop(), ()):
            if child not in found:
                found.add(child)
                stack.append(child.pid)
    return found


def kill(process: ProcessId, number: int = signal.SIGKILL) -> None:
    """Send a signal to that very process, if it still lives and may be signalled."""
    if alive(process):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def kill_group(leader: int) -> None:
    """Kill the process group of ``leader``, a child that began a session of its own and was not yet reaped."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def end_all(
    token: str,
    known: Iterable[ProcessId] = (),
    reap: Callable[[], object] = lambda: None,
    patience_s: float = 10.0,
    node: str | None = None,
) -> set[ProcessId]:
    """Kill every process of the attempt and wait until they are gone.

    Args:
        token: the attempt's token.
        known: processes that are of the attempt whatever their environment says; their descendants are as well.
        reap: called while waiting, to collect children that have ended.
        patience_s: how long to go on; the kernel may hold a process in a driver call.
        node: see ``with_token``.

    Returns:
        Those that would not die.
    """
    suspects: set[ProcessId] = set(known)
    deadline = time.monotonic() + patience_s
    pause_s = 0.002
    while True:
        # Found anew each time: a process may have forked between being seen and being killed.
        suspects |= with_token(token, node)
        suspects |= descendants([process.pid for process in suspects if alive(process)])
        living = {process for process in suspects if alive(process)}
        if not living or time.monotonic() > deadline:
            return living
        for process in living:
            kill(process)
        reap()
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.1)


def oom_kills() -> int:
    """Return how many processes the kernel has killed for want of memory: of this cgroup, else of the host."""
    for path, key in _oom_counters():
        try:
            for line in path.read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == key:
                    return int(value)
        except OSError:
            continue
    return 0


def _oom_counters() -> list[tuple[Path, str]]:
    counters = []
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        number, controllers, folder = line.split(":", 2)
        if number == "0":
            counters.append((Path("/sys/fs/cgroup" + folder) / "memory.events", "oom_kill"))
        elif "memory" in controllers.split(","):
            counters.append((Path("/sys/fs/cgroup/memory" + folder) / "memory.oom_control", "oom_kill"))
    return [*counters, (Path("/proc/vmstat"), "oom_kill")]
