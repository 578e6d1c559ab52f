"""What the rules of validity look at: the logs of all nodes, and what was computed from them so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from orchestrator.analysis.log.events import NodeLog
from orchestrator.analysis.run.conditions import Trend
from orchestrator.analysis.run.throughput import WorldIntervals
from orchestrator.analysis.run.utilization import NodeSpan
from orchestrator.analysis.statistics.course import Course
from orchestrator.domain.value.variation import Cut
from workers.trainer.protocol import STRATEGY


@dataclass(frozen=True)
class Evidence:
    """An attempt that ended by itself.

    Attributes:
        world: the timed intervals of all ranks together; None, with ``world_problem``, where the ranks disagree.
        course: what the timed phase looks like by itself; None without intervals.
        cut: where the intervals that count begin, as far as this run alone can tell; None without intervals.
        spans: the part that counts on each node that has a rank.
        trends: what changed there beside the time per work: clocks, temperatures, memory.
    """

    logs: Sequence[NodeLog]
    world: WorldIntervals | None
    world_problem: str | None
    course: Course | None
    spans: Sequence[NodeSpan]
    trends: Sequence[Trend] = ()
    cut: Cut | None = None

    @property
    def job(self) -> Mapping[str, Any]:
        return self.logs[0].job

    @property
    def counted(self) -> WorldIntervals | None:
        """The intervals that count: those after the cut. None where there are none."""
        return self.world.since(self.cut.first) if self.world is not None and self.cut is not None else None

    @property
    def ranks(self) -> list[int]:
        return sorted(rank for process in self.job["processes"] for rank in process["ranks"])

    @property
    def leading_ranks(self) -> list[int]:
        """The first rank of each process: the one that reports for all ranks it drives."""
        return sorted(min(process["ranks"]) for process in self.job["processes"] if process["ranks"])

    @property
    def strategy(self) -> Mapping[str, Any]:
        """What the strategy promises; see ``workers.trainer.protocol.STRATEGY``."""
        return {**STRATEGY, **(self.job.get("strategy") or {})}

    def of(self, kind: str) -> list[tuple[int | None, Mapping[str, Any]]]:
        """(rank, data) of every event of ``kind``, all nodes."""
        return [item for log in self.logs for item in log.of(kind)]

    @cached_property
    def losses(self) -> list[tuple[int, float]]:
        """(step, mean over ranks) of the training loss."""
        values: dict[int, list[float]] = {}
        for log in self.logs:
            for _, step, value in log.losses:
                values.setdefault(step, []).append(value)
        return [(step, sum(found) / len(found)) for step, found in sorted(values.items())]
