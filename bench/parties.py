"""Who takes part beside a training under tbd: the trainer, tbd's own processes and Ray's; and what each of them uses.

Ray lives in tbd's processes as well, in threads of its own: in the server they have names of Ray's; in the agent, which
is an actor, tbd's are the ones that have stepped back under a name of ours.
"""

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.slices import with_needle
from tests.support.service import Service
from workers.node import processes
from workers.trainer import protocol

_OWN_MODULES = (b"orchestrator.cluster.ray_watchdog", b"workers.node")
_AGENT_TITLE = b"ray::AgentActor"


@dataclass(frozen=True)
class Parties:
    """Process ids; ``own`` are the server, the agents and the watchdog."""

    own: list[int]
    ray: list[int]
    trainers: list[int]


def parties(service: Service) -> Parties:
    """All processes that belong to ``service`` now."""
    found = Parties([], [], [])
    for pid in with_needle(str(service.data_dir)):
        with suppress(OSError):
            _group(found, service, pid, Path(f"/proc/{pid}/cmdline").read_bytes()).append(pid)
    return found


def _group(found: Parties, service: Service, pid: int, line: bytes) -> list[int]:
    token = f"{protocol.TOKEN_VARIABLE}=".encode()
    if any(pair.startswith(token) for pair in processes.environment(pid)):
        return found.trainers
    is_own = pid == service.pid or line.startswith(_AGENT_TITLE) or any(module in line for module in _OWN_MODULES)
    return found.own if is_own else found.ray


Used = Counter[str]


def used_s(service: Service) -> Used:
    """Seconds of processor time that the server, the agents and Ray have used since they began."""
    found = parties(service)
    used: Used = Counter()
    for pid in (*found.own, *found.ray):
        main = _text(f"/proc/{pid}/comm")
        for task in Path(f"/proc/{pid}/task").glob("*"):
            with suppress(OSError, IndexError):
                whose = _whose(service, pid, _text(f"{task}/comm"), main) if pid in found.own else "ray"
                used[whose] += int(_text(f"{task}/schedstat").split()[0]) / 1e9
    return used


def _whose(service: Service, pid: int, thread: str, main: str) -> str:
    if pid == service.pid:
        return "server" if thread == main or thread.startswith("tbd-") else "ray"
    is_actor = main.startswith(_AGENT_TITLE.decode()[:15])
    return "agent" if thread.startswith("tbd-") or not is_actor else "ray"


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def shares(service: Service, duration_s: float) -> dict[str, float]:
    """What the server, the agents and Ray use of one core during ``duration_s`` seconds from now: ratios."""
    before, begun = used_s(service), time.monotonic()
    time.sleep(duration_s)
    after, ended = used_s(service), time.monotonic()
    return {whose: (after[whose] - before[whose]) / (ended - begun) for whose in ("server", "agent", "ray")}
