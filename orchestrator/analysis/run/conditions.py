"""What went on beside the time per work while a run was steady: clocks, temperatures, memory that grows.

A run can be level in time and still not be at rest: its allocator grows towards a limit, its device warms up. Each
quantity that was read is compared between the first and the last third of the steady part, by medians, which a short
excursion does not move.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from orchestrator.analysis.log import windows
from orchestrator.analysis.run.utilization import NodeSpan
from orchestrator.analysis.statistics.course import Course, CourseState

LEAST_READINGS = 9  # three in each third: judgement
# Judgements: what is more is told.
MAX_CLOCK_RATIO = 0.05  # of a device's clock
MAX_GROWTH_RATIO = 0.05  # of memory in use
LEAST_GROWTH_BYTES = 16 * 2**20  # less is no growth, however small the process
MAX_WARMING_K = 10.0


@dataclass(frozen=True)
class Trend:
    """``last`` and ``first`` are medians of the thirds, in the metric's unit; ``middle`` of the one between."""

    node: str
    metric: str
    subject: str
    first: float
    middle: float
    last: float

    @property
    def change(self) -> float:
        return self.last - self.first

    @property
    def change_ratio(self) -> float:
        return self.change / self.first if self.first else 0.0

    @property
    def goes_on(self) -> bool:
        """Whether the last third still brought a quarter of the change or more: it has not come to rest."""
        return (self.last - self.middle) * self.change > 0 and abs(self.last - self.middle) >= abs(self.change) / 4

    def to_json(self) -> dict[str, Any]:
        names = ("node", "metric", "subject", "first", "last")
        return {name: getattr(self, name) for name in names}


def trends(spans: Sequence[NodeSpan]) -> list[Trend]:
    """Return the trend of everything that was read often enough in the steady part."""
    return [found for node in spans for metric, subject in _watched(node) for found in _trend(node, metric, subject)]


def _watched(node: NodeSpan) -> Iterator[tuple[str, str]]:
    for gpu in node.gpus():
        for metric in ("sm_clock_hz", "memory_clock_hz", "temperature_c", "device_memory_bytes"):
            yield metric, gpu
    yield "cpu_frequency_hz", "host"
    yield "memory_bytes", "attempt"


def _trend(node: NodeSpan, metric: str, subject: str) -> Iterator[Trend]:
    values = [value for value, _ in windows.levels(node.log.readings, node.span, metric, subject)]
    third = len(values) // 3
    if len(values) >= LEAST_READINGS:
        first, middle, last = values[:third], values[third:-third], values[-third:]
        yield Trend(node.log.node, metric, subject, median(first), median(middle), median(last))


def growing(found: Sequence[Trend]) -> Trend | None:
    """The memory that grew most, where that is more than can be ignored and still goes on."""
    memory = [one for one in found if one.metric in ("memory_bytes", "device_memory_bytes") and one.goes_on]
    large = [one for one in memory if one.change > max(LEAST_GROWTH_BYTES, MAX_GROWTH_RATIO * one.first)]
    return max(large, key=lambda one: one.change_ratio, default=None)


def beside(course: Course, found: Sequence[Trend]) -> Course:
    """Return the course that remains when memory is looked at too: a run whose memory still grows is not at rest."""
    growth = growing(found)
    if growth is None or course.state is not CourseState.STEADY:
        return course
    text = f"the memory of {growth.subject} on {growth.node} grew by {growth.change_ratio:.0%} and still grows"
    return replace(course, state=CourseState.DRIFTING, reason=f"{text}; {course.reason}")


def changed_clock(found: Sequence[Trend]) -> Trend | None:
    """The clock of a device that changed most, where that is more than can be ignored."""
    clocks = [one for one in found if one.metric in ("sm_clock_hz", "memory_clock_hz")]
    large = [one for one in clocks if abs(one.change_ratio) > MAX_CLOCK_RATIO]
    return max(large, key=lambda one: abs(one.change_ratio), default=None)
