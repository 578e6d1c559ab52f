"""The same iteration as a graph of tasks on lanes, carried out event by event: it knows none of the closed forms.

What has no closed form (lanes that several kinds of tasks share, other orders) can be asked here too.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto

from orchestrator.analysis.s_sgd.iteration import Exchange, Loading, Parts

ITERATIONS = 3  # the time between the last two is that of the steady state, which lanes with equal jobs have at once


class Overlap(StrEnum):
    """When exchanges may begin, and what they consist of."""

    NONE = auto()
    WAIT_FREE = auto()
    PARAMETER_SERVER = auto()


@dataclass(frozen=True)
class Task:
    """``after``: the tasks, by their place in the list, that have to end before. ``lane`` None: it waits for no other
    task. A lane takes its tasks in the order in which they may begin, then in that of the list."""

    lane: str | None
    seconds: float
    after: tuple[int, ...] = ()


def ends_s(tasks: Sequence[Task], lanes: Mapping[str, int]) -> list[float]:
    """Return when each task ends; the first begin at 0. ``lanes``: how many tasks each carries at once.

    Raises:
        ValueError: a task waits for one that does not come before it in the list.
    """
    if any(other >= index for index, task in enumerate(tasks) for other in task.after):
        raise ValueError("a task waits for one that comes after it")
    free = dict(lanes)
    waiting: dict[str, list[int]] = {lane: [] for lane in lanes}  # in the order in which they became free to begin
    missing = [len(task.after) for task in tasks]
    followers: list[list[int]] = [[] for _ in tasks]
    for index, task in enumerate(tasks):
        for other in task.after:
            followers[other].append(index)
    ends = [0.0] * len(tasks)
    running: list[tuple[float, int]] = []
    now, released = 0.0, [index for index, count in enumerate(missing) if not count]
    while True:
        for index in sorted(released):
            lane = tasks[index].lane
            if lane is None:
                heapq.heappush(running, (now + tasks[index].seconds, index))
            else:
                waiting[lane].append(index)
        for lane, queue in waiting.items():
            while queue and free[lane]:
                free[lane] -= 1
                index = queue.pop(0)
                heapq.heappush(running, (now + tasks[index].seconds, index))
        if not running:
            return ends
        now, released = running[0][0], []
        while running and running[0][0] == now:
            _, index = heapq.heappop(running)
            ends[index] = now
            if (lane := tasks[index].lane) is not None:
                free[lane] += 1
            for follower in followers[index]:
                missing[follower] -= 1
                if not missing[follower]:
                    released.append(follower)


def iteration_s(
    parts: Parts, loading: Loading, overlap: Overlap, exchanges: Sequence[Exchange] = (), lanes: int = 1
) -> float:
    """Return t_iter in the steady state. Arguments as in ``iteration``; no exchange at all is one device."""
    built = _Iterations(parts, loading, overlap, exchanges)
    ends = ends_s(built.tasks, {"input": 1, "copy": 1, "compute": 1, "exchange": lanes, "pull": 1})
    last, before = built.updates[-1], built.updates[-2]
    return ends[last] - ends[before]


class _Iterations:
    """The tasks of some iterations; ``updates`` are the places of those that end one."""

    def __init__(self, parts: Parts, loading: Loading, overlap: Overlap, exchanges: Sequence[Exchange]) -> None:
        self.tasks: list[Task] = []
        self.updates: list[int] = []
        self._parts, self._loading, self._overlap, self._exchanges = parts, loading, overlap, exchanges
        read: tuple[int, ...] = ()
        copied: tuple[int, ...] = ()  # what the next batch has to wait for
        for _ in range(ITERATIONS):
            batch = self._add("input", parts.io_s, self._reading_waits_for(read, copied))
            read = (batch,)
            copied = (self._add(self._copying_lane(), parts.host_to_device_s, read),)
            self.updates.append(self._compute(copied))

    def _add(self, lane: str | None, seconds: float, after: Sequence[int]) -> int:
        self.tasks.append(Task(lane, seconds, tuple(after)))
        return len(self.tasks) - 1

    def _copying_lane(self) -> str:
        return "copy" if self._loading is Loading.PREFETCH_APART else "input"

    def _reading_waits_for(self, read: Sequence[int], copied: Sequence[int]) -> Sequence[int]:
        if self._loading is Loading.NONE:
            return self.updates[-1:]
        return read if self._loading is Loading.PREFETCH_APART else copied

    def _compute(self, copied: Sequence[int]) -> int:
        """Forward, backward from layer L down, the exchanges, and the update after all of it; the update's place."""
        last = self._add("compute", self._parts.forward_s, [*copied, *self.updates[-1:]])
        ended: dict[int, int] = {}
        for layer in range(len(self._parts.backward_s), 0, -1):
            last = ended[layer] = self._add("compute", self._parts.backward_s[layer - 1], [last])
        exchanged = [self._exchange(one, ended, last) for one in self._exchanges]
        return self._add("compute", self._parts.update_s, [last, *exchanged])

    def _exchange(self, one: Exchange, ended: Mapping[int, int], whole: int) -> int:
        if self._overlap is Overlap.NONE:
            return self._add("exchange", one.exchange_s, [whole])
        may_begin = ended[one.after_layer]
        if one.wait_s:
            may_begin = self._add(None, one.wait_s, [may_begin])
        pushed = self._add("exchange", one.exchange_s, [may_begin])
        return self._add("pull", one.pull_s, [pushed]) if self._overlap is Overlap.PARAMETER_SERVER else pushed
