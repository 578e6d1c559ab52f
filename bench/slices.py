"""Two programs that train side by side, and yet never at the same time: each is frozen while the other has its slice.

On a shared machine the speed wanders by far more than what is to be shown, over tens of seconds. Neighbouring slices of
a few seconds meet the same machine, so the ratio of their speeds does not wander with it. Everything that belongs to a
side is frozen with it (for tbd: server, agent, Ray), so that neither pays for the other.
"""

import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

# Judgement: a slice is long beside a step and short beside what the machine does. All of it counts, from the thaw on:
# what tbd does at intervals falls due while it is frozen, and is done then.
SLICE_S = 3.0
# Pairs of slices whose mean counts as one observation: neighbours are not independent.
BLOCK = 5


@dataclass
class Side:
    """One of the two.

    Attributes:
        processes: finds the ids of all its processes, anew each time.
        steps: the CLOCK_MONOTONIC times at which its steps ended, so far.
        slices: the times at which it was set free and frozen again.
    """

    processes: Callable[[], Sequence[int]]
    steps: Callable[[], Sequence[float]]
    slices: list[tuple[float, float]] = field(default_factory=list)

    def freeze(self) -> float:
        """Stop all of it, also what was started meanwhile; when it was told to."""
        at = self._send(signal.SIGSTOP)
        self._send(signal.SIGSTOP)
        return at

    def thaw(self) -> float:
        """Let all of it go on; when."""
        return self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> float:
        found = self.processes()  # takes a while, in which nothing has changed yet
        at = time.monotonic()
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return at

    def run_for(self, duration_s: float) -> None:
        """Be free for so long."""
        free = self.thaw()
        time.sleep(duration_s)
        self.slices.append((free, self.freeze()))


def with_needle(needle: str) -> list[int]:
    """The processes that have ``needle`` in their environment or command line, and all that descend from them.

    Some of Ray's own write their title over their environment: those are only found as descendants.
    """
    found, children = set(), defaultdict(list)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            children[int((entry / "stat").read_text().rpartition(")")[2].split()[1])].append(int(entry.name))
            if needle.encode() in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
    unseen = list(found)
    while unseen:
        new = set(children[unseen.pop()]) - found
        found |= new
        unseen += new
    return sorted(found)


def take_turns(a: Side, b: Side, pairs: int) -> None:
    """Give each side ``pairs`` slices, in the order A B B A. Both are free afterwards, whatever happens."""
    try:
        a.freeze()
        b.freeze()
        for index in range(pairs):
            for side in (a, b) if index % 2 == 0 else (b, a):
                side.run_for(SLICE_S)
            if (index + 1) % 10 == 0:
                print(f"  pair {index + 1}/{pairs}", file=sys.stderr, flush=True)
    finally:
        a.thaw()
        b.thaw()


def speeds(side: Side) -> list[float]:
    """Steps per second in each slice.

    Steps are frozen in their middle: progress between the ends of two steps grows evenly with the time that the side
    was free, so a slice also counts its parts of the steps that reach beyond it.

    Raises:
        ValueError: the steps do not reach from the first slice to the last.
    """
    ends = np.array([free_time(side.slices, at) for at in side.steps()])
    numbers = np.arange(len(ends), dtype=float)
    found = []
    begun_s = 0.0
    for free, frozen in side.slices:
        first, last = begun_s, begun_s + frozen - free
        if not len(ends) or last > ends[-1] + SLICE_S:
            raise ValueError("a side stopped training before its last slice")
        done = np.interp([first, last], ends, numbers)
        found.append(float(done[1] - done[0]) / (last - first))
        begun_s = last
    return found[1:-1]  # the steps before the first and after the last are not known


def free_time(slices: Sequence[tuple[float, float]], at: float) -> float:
    """How long the side had been free at the time ``at``; negative before its first slice."""
    if at < slices[0][0]:
        return at - slices[0][0]
    return sum(max(0.0, min(at, frozen) - free) for free, frozen in slices)


def in_blocks(values: Sequence[float]) -> list[float]:
    """Means over blocks of ``BLOCK`` neighbours; what is left over is dropped."""
    whole = len(values) // BLOCK * BLOCK
    return [float(np.exp(np.log(values[i : i + BLOCK]).mean())) for i in range(0, whole, BLOCK)]
