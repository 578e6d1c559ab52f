"""The timed intervals of a run, all ranks together, as they are kept beside its measurements.

A cell's warm-up is sought in the series of all its runs, so each has to be at hand when the last one ends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST = 2048  # values; a longer series has its neighbours joined
DIGITS = 7  # of a duration that is kept: a microsecond of ten seconds


@dataclass(frozen=True)
class Series:
    """Intervals in order. ``width`` of the run's own are joined in each (a power of two).

    Attributes:
        durations_s: of the slowest rank.
        works: of all ranks, in the model's unit.
        steps: of each interval.
    """

    durations_s: tuple[float, ...]
    works: tuple[float, ...]
    steps: tuple[float, ...]
    width: int = 1

    def __len__(self) -> int:
        return len(self.durations_s)

    @classmethod
    def of(cls, durations_s: Sequence[float], works: Sequence[float], steps: Sequence[float]) -> "Series":
        """The series of a run, short enough to be kept."""
        rounded = tuple(float(f"{value:.{DIGITS}g}") for value in durations_s)
        found = cls(rounded, tuple(works), tuple(float(count) for count in steps))
        while len(found) > MOST:
            found = found.joined(2 * found.width)
        return found

    def joined(self, width: int) -> "Series":
        """The same with ``width`` of the run's intervals in each value; what is left over at the end is left out."""
        factor = width // self.width
        if factor <= 1:
            return self
        durations, works, steps = (_sums(values, factor) for values in (self.durations_s, self.works, self.steps))
        return Series(durations, works, steps, width)

    def to_json(self) -> dict[str, Any]:
        """Columns that hold one value only are that value."""
        columns = {"durations_s": self.durations_s, "works": self.works, "steps": self.steps}
        short = {name: values[0] if len(set(values)) == 1 else list(values) for name, values in columns.items()}
        return short | {"n": len(self), "width": self.width}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Series":
        n = int(data["n"])
        durations, works, steps = (_column(data[name], n) for name in ("durations_s", "works", "steps"))
        return cls(durations, works, steps, int(data["width"]))


def _column(stored: Any, n: int) -> tuple[float, ...]:
    return tuple(float(value) for value in stored) if isinstance(stored, list) else (float(stored),) * n


def _sums(values: Sequence[float], factor: int) -> tuple[float, ...]:
    whole = len(values) // factor * factor
    return tuple(sum(values[start : start + factor]) for start in range(0, whole, factor))
