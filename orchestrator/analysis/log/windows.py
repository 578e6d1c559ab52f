"""Readings against phases: how much of what a window counted falls into a span of time.

A reading covers the window before it; one that lies across the border of the span counts in proportion. Both clocks are
the node's CLOCK_MONOTONIC.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.analysis.log.events import Interval, Reading


@dataclass(frozen=True)
class Span:
    """A stretch of one node's monotonic time, in seconds."""

    start_t: float
    end_t: float


def span_of(intervals: Iterable[Interval], phase: str = "timed", first_step: int = 0) -> Span | None:
    """Return the time from the first to the last interval of ``phase`` that begins at ``first_step`` or later."""
    chosen = [item for item in intervals if item.phase == phase and item.first_step >= first_step]
    if not chosen:
        return None
    return Span(min(item.start_t for item in chosen), max(item.end_t for item in chosen))


def overlap_s(reading: Reading, span: Span) -> float:
    """Return how much of the reading's window lies in the span, in seconds."""
    return max(0.0, min(reading.end_t, span.end_t) - max(reading.start_t, span.start_t))


def amount(readings: Sequence[Reading], span: Span, metric: str, subject: str) -> tuple[float, float]:
    """Return (amount, seconds covered) of a quantity that grows, within the span."""
    total = covered = 0.0
    for reading in readings:
        value, shared = reading.values.get((metric, subject)), overlap_s(reading, span)
        if value is not None and shared > 0 and reading.window_s > 0:
            total += value * min(1.0, shared / reading.window_s)
            covered += shared
    return total, covered


def mean(readings: Sequence[Reading], span: Span, metric: str, subject: str) -> float | None:
    """Return the mean of a level over the span, weighted by overlap; None where nothing was read."""
    total = covered = 0.0
    for reading in readings:
        value, shared = reading.values.get((metric, subject)), overlap_s(reading, span)
        if value is not None and shared > 0:
            total += value * shared
            covered += shared
    return total / covered if covered > 0 else None


def levels(readings: Sequence[Reading], span: Span, metric: str, subject: str) -> list[tuple[float, float]]:
    """Return (value, seconds in the span) of every reading of a level that touches the span."""
    found = []
    for reading in readings:
        value, shared = reading.values.get((metric, subject)), overlap_s(reading, span)
        if value is not None and shared > 0:
            found.append((value, shared))
    return found


def subjects(readings: Sequence[Reading], metric: str) -> list[str]:
    """Return the subjects of which ``metric`` was read, sorted."""
    return sorted({subject for reading in readings for name, subject in reading.values if name == metric})
