"""Fresh processes that all do the same, one after another: what ``tbd noise`` measures on this host.

Owns how long they are and how many: fixed after a first process, which is not counted, and before any that is. They
begin as trainings do (``children``): pinned, in an environment of their own, at the same priority.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

from workers.node import children
from workers.node.telemetry import procfs

_KERNEL = str(Path(__file__).with_name("noise_kernel.py"))

# Judgements. An interval of this length is long against the clock's and the scheduler's grain; longer intervals would
# hide what lasts shorter.
INTERVAL_S = 0.025
WARM_UP = 10  # intervals
LENGTHS = (100, 60, 30)  # timed intervals of a process: the longest of which there are MANY processes
MANY, FEWEST, MOST = 10, 3, 40  # processes
_PILOT = (3, 20, 1)
_PATIENCE_S = 300.0


class NoiseError(Exception):
    """It cannot be measured; the message says why and what to do."""


class Outline(NamedTuple):
    """What each process does, and how many there are."""

    processes: int
    intervals: int
    steps: int


class Measured(NamedTuple):
    """Durations (s) of the timed intervals of each process, in the order in which they ran.

    ``foreign_ratio`` is the share of the cores' time that other processes had, ``stolen_ratio`` the hypervisor's (None
    where it does not tell).
    """

    outline: Outline
    start_up_s: float
    elapsed_s: float
    durations_s: list[list[float]]
    foreign_ratio: float
    stolen_ratio: float | None


def outlined(step_s: float, start_up_s: float, left_s: float) -> Outline:
    """Return what fits into ``left_s`` seconds where a step takes ``step_s`` and a process ``start_up_s`` to begin.

    Raises:
        NoiseError: not even the fewest of the shortest processes fit.
    """
    steps = max(1, math.ceil(INTERVAL_S / step_s))
    count = 0
    for intervals in LENGTHS:
        each_s = start_up_s + (WARM_UP + intervals) * steps * step_s
        count = min(MOST, int(left_s / each_s))
        if count >= MANY:
            break
    if count < FEWEST:
        enough_s = 1.5 * FEWEST * each_s
        raise NoiseError(
            f"a process of {LENGTHS[-1]} intervals takes {each_s:.0f} s here: give --seconds {enough_s:.0f}"
        )
    return Outline(count, intervals, steps)


def measure(
    cores: Sequence[int],
    seconds: float,
    hindrance: Callable[[], str | None] = lambda: None,
    progress: Callable[[str], None] = lambda text: None,
) -> Measured:
    """Run as many processes on ``cores`` as fit into ``seconds``.

    Args:
        hindrance: asked before each process; what it returns ends the measurement.
        progress: told of each process that has ended.

    Raises:
        NoiseError: a process failed, there was a hindrance, or the time is too short.
    """
    begun = time.monotonic()
    spawner = children.Spawner()
    try:
        with tempfile.TemporaryDirectory(prefix="tbd-noise-") as folder:
            host = _Host(spawner, cores, folder, hindrance)
            took_s, pilot = host.run(*_PILOT)
            step_s = sorted(pilot)[len(pilot) // 2]
            start_up_s = max(0.0, took_s - (_PILOT[0] + _PILOT[1]) * step_s)
            outline = outlined(step_s, start_up_s, seconds - (time.monotonic() - begun))
            return host.measured(outline, start_up_s, begun + seconds, progress)
    finally:
        spawner.close()


class _Host:
    def __init__(
        self, spawner: children.Spawner, cores: Sequence[int], folder: str, hindrance: Callable[[], str | None]
    ) -> None:
        self._spawner = spawner
        self._cores = cores
        self._folder = folder
        self._hindrance = hindrance
        self._environment = children.environment(os.environ, {"OMP_NUM_THREADS": str(len(cores))})

    def measured(
        self, outline: Outline, start_up_s: float, deadline: float, progress: Callable[[str], None]
    ) -> Measured:
        before, found = _Usage.read(self._cores), []
        for number in range(1, outline.processes + 1):
            if number > FEWEST and time.monotonic() > deadline:
                progress(f"the time is over after {number - 1} of {outline.processes} processes: they became slower")
                break
            _took_s, durations = self.run(WARM_UP, outline.intervals, outline.steps)
            found.append(durations)
            mean_ms = 1000 * sum(durations) / len(durations) / outline.steps
            progress(f"process {number} of {outline.processes}: {mean_ms:.4g} ms a step")
        after = _Usage.read(self._cores)
        elapsed_s, foreign, stolen = after.since(before, len(self._cores))
        return Measured(outline, start_up_s, elapsed_s, found, foreign, stolen)

    def run(self, *counts: int) -> tuple[float, list[float]]:
        """Run one process; return (seconds from its start to its end, the durations of its timed intervals)."""
        if problem := self._hindrance():
            raise NoiseError(problem)
        command = [sys.executable, "-I", _KERNEL, *map(str, counts)]
        begun = time.monotonic()
        popen = self._spawner.popen(
            command,
            cores=self._cores,
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            out, err = popen.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise NoiseError(f"a process was not done after {_PATIENCE_S:.0f} s") from None
        finally:
            popen.kill()
            popen.wait()
        if popen.returncode != 0:
            tail = err.decode("utf-8", "replace").strip().splitlines()[-1:]
            raise NoiseError(f"a process ended with status {popen.returncode}: {' '.join(tail)}")
        return time.monotonic() - begun, _trained(json.loads(out))


def _trained(told: dict[str, Any]) -> list[float]:
    """The durations of a process that did what it should: its loss fell."""
    if not told["last_loss"] < told["first_loss"]:
        raise NoiseError(f"a process trained wrongly: its loss went from {told['first_loss']} to {told['last_loss']}")
    return [float(one) for one in told["durations_s"]]


class _Usage(NamedTuple):
    """Seconds since boot: the clock, what our cores did, what of it our own processes did, what was stolen."""

    at: float
    active_s: float
    own_s: float
    stolen_s: float | None
    all_cores: int

    @classmethod
    def read(cls, cores: Sequence[int]) -> _Usage:
        active, stolen = procfs.cores()
        own = os.times()
        spent = own.user + own.system + own.children_user + own.children_system
        return cls(time.monotonic(), sum(active.get(core, 0.0) for core in cores), spent, stolen, len(active))

    def since(self, before: _Usage, cores: int) -> tuple[float, float, float | None]:
        """(seconds that passed, share of the cores' time of others, share that was stolen)."""
        passed = max(self.at - before.at, 1e-9)
        foreign = (self.active_s - before.active_s) - (self.own_s - before.own_s)
        stolen = None
        if self.stolen_s is not None and before.stolen_s is not None and self.all_cores:
            stolen = (self.stolen_s - before.stolen_s) / (passed * self.all_cores)
        return passed, min(1.0, max(0.0, foreign / (passed * cores))), stolen
