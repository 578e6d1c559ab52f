"""Processes that stand still at the end of the memory that they may have.

Where not even an integer finds room, CPython (3.11 to 3.13) never ends: to leave an ``except`` by another exception it
makes an integer of the place, fails, and tries to leave by that failure. The trainer's own code gives back what it has
laid aside (``workers.trainer.base.failure.RESERVE``). Inside of a library, while PyTorch is imported for instance,
nobody can: such a process computes for ever, asks for nothing, and no thread of Python or handler of a signal in it
runs. From outside it is known by that, and it is out of memory.
"""

from __future__ import annotations

import os
import resource
from typing import Any, Iterable, Mapping, NamedTuple

from workers.node import processes
from workers.node.gang import Member
from workers.node.outcome import Failure

# Python asks the kernel for 1 MiB at a time (Objects/obmalloc.c: ARENA_SIZE), glibc for less: with more room than this
# left, an integer is found a place.
_NEAR_BYTES = 1 << 20

# Judgements. A step that takes so long in the very last MiB, in which no page is touched anew, is not to be expected;
# a process that waits for others stands still too, and computes nothing.
PATIENCE_S = 15.0
_COMPUTED_S = 3.0
_PERIOD_S = 1.0

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Memory(NamedTuple):
    """What a process has, in bytes: ``private`` is what its limit counts (VmData of /proc/PID/status)."""

    private: int
    resident: int


class Still(NamedTuple):
    """Since when a process has had the same memory, by the monotonic clock, and its processor time then, in ticks."""

    since: float
    memory: Memory
    cpu_ticks: int


class Standstill:
    """Finds such processes among those of one attempt; ``plan`` is that of its job.

    Where the plan sets no limit there is nothing to find, and nothing is read.
    """

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self._limited = plan.get("memory_limit_bytes") is not None
        self._still: dict[int, Still] = {}
        self._look_at = 0.0

    def heard(self, process: processes.ProcessId | None) -> None:
        """``process`` has reported something: it goes on."""
        if process is not None:
            self._still.pop(process.pid, None)

    def find(self, living: Iterable[Member], now: float) -> list[Failure]:
        """Return a failure for each member of ``living`` that stands still; it looks once a second.

        Args:
            living: processes of the attempt that have not ended.
            now: the monotonic clock's time, seconds.
        """
        if not self._limited or now < self._look_at:
            return []
        self._look_at = now + _PERIOD_S
        return [_failure(member) for member in living if member.id is not None and self._stands(member.id.pid, now)]

    def _stands(self, pid: int, now: float) -> bool:
        memory, facts = memory_of(pid), processes.stat(pid)
        if memory is None or facts is None or _room(pid, memory) > _NEAR_BYTES:
            self._still.pop(pid, None)
            return False
        before = self._still.setdefault(pid, Still(now, memory, facts.cpu_ticks))
        if before.memory != memory:
            self._still[pid] = Still(now, memory, facts.cpu_ticks)
            return False
        computed_s = (facts.cpu_ticks - before.cpu_ticks) / _TICKS_PER_S
        return now - before.since >= PATIENCE_S and computed_s >= _COMPUTED_S


def memory_of(pid: int) -> Memory | None:
    """Return the memory of process ``pid``, or None when it has none any more."""
    try:
        with open(f"/proc/{pid}/status") as file:
            told = dict(line.split(":", 1) for line in file)
        return Memory(*(int(told[name].split()[0]) * 1024 for name in ("VmData", "VmRSS")))
    except (OSError, KeyError):
        return None


def _room(pid: int, memory: Memory) -> float:
    """Bytes that are left to process ``pid`` within its own limit."""
    try:
        limit, _ = resource.prlimit(pid, resource.RLIMIT_DATA)
    except OSError:
        return float("inf")
    return float("inf") if limit == resource.RLIM_INFINITY else limit - memory.private


def _failure(member: Member) -> Failure:
    own = member.process["ranks"]
    message = (
        f"it has stood still for {PATIENCE_S:.0f} s in the last MiB of its limit of memory: it computes, and neither"
        " reports nor asks for anything; Python without room for an integer goes round and round"
    )
    return Failure("out_of_memory", own, message=message if own else f"{member.name}: {message}")
