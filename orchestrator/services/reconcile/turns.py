"""Whose run is next: owners take equal turns."""

import heapq
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from orchestrator.domain.asked.spec import LEAST_PRIORITY
from orchestrator.domain.runs.run import Run
from orchestrator.domain.runs.stored import QueuedRun

OneQueued = TypeVar("OneQueued", Run, QueuedRun)

# What begins counts as so many seconds of its devices at once, so that what begins in one pass is shared out. A
# judgement, and no more than that: what it really takes counts as time passes.
BEGUN_S = 60.0


class Turns(Generic[OneQueued]):
    """``runs``, in the order in which they should be placed: always one of the owner who has used the least of late
    (``uses``: owner -> device-seconds), of an owner's runs in the order given. Those of the least priority of all come
    behind everybody's."""

    def __init__(self, runs: Sequence[OneQueued], uses: Mapping[str, float]) -> None:
        self._uses = dict(uses)
        self._queues: dict[str, deque[OneQueued]] = {}
        self._behind: list[OneQueued] = [run for run in runs if run.priority == LEAST_PRIORITY]
        for run in runs:
            if run.priority != LEAST_PRIORITY:
                self._queues.setdefault(run.owner, deque()).append(run)

    def __iter__(self) -> Iterator[OneQueued]:
        next_ones = [self._turn(owner) for owner in self._queues]
        heapq.heapify(next_ones)
        while next_ones:
            *_, owner = heapq.heappop(next_ones)
            yield self._queues[owner].popleft()
            if self._queues[owner]:
                heapq.heappush(next_ones, self._turn(owner))
        yield from self._behind

    def _turn(self, owner: str) -> tuple[float, float, str]:
        return self._uses.get(owner, 0.0), self._queues[owner][0].created_at, owner

    def begun(self, run: OneQueued) -> None:
        """Note that ``run``, which came last, begins."""
        self._uses[run.owner] = self._uses.get(run.owner, 0.0) + run.devices * BEGUN_S
