"""Arithmetic on spans of time, for profilers' answers."""

from typing import Iterable, List, Tuple


def union(spans: Iterable[Tuple[float, float]]) -> float:
    """Return the length of the union of ``spans``, pairs (start, end) in any order."""
    total = 0.0
    reached = None
    for start, end in sorted(spans):
        if reached is None or start > reached:
            reached = start
        if end > reached:
            total += end - reached
            reached = end
    return total


def clip(spans: Iterable[Tuple[float, float]], start: float, end: float) -> List[Tuple[float, float]]:
    """Return the parts of ``spans`` that lie between ``start`` and ``end``."""
    return [(max(a, start), min(b, end)) for a, b in spans if b > start and a < end]
