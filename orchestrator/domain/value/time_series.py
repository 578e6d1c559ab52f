"""What a run's logs tell over time, thinned level by level, so that any part of it is drawn at once.

A pyramid of least and greatest values: at level 0 each point is one that the log has; a point of a further level stands
for up to ``FACTOR`` of the level before, with the least and the greatest value of these, so that an outlier is seen
however far away one looks from.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

FACTOR = 4  # points of a level that one of the next stands for
PART = 1024  # points that are stored, and read, together


@dataclass(frozen=True)
class Points:
    """Points in the order of time: three columns of one length.

    Attributes:
        at_s: seconds since the first step began; of a point that stands for several, when the first of them was.
        least, greatest: in the unit of the quantity.
    """

    at_s: Sequence[float]
    least: Sequence[float]
    greatest: Sequence[float]

    def __len__(self) -> int:
        return len(self.at_s)

    def __getitem__(self, part: slice) -> "Points":
        return Points(self.at_s[part], self.least[part], self.greatest[part])

    def thinned(self, by: int = FACTOR) -> "Points":
        """With ``by`` neighbours in each point; the last one may stand for fewer."""
        firsts = range(0, len(self), by)
        return Points(
            array("d", self.at_s[::by]),
            array("d", (min(self.least[first : first + by]) for first in firsts)),
            array("d", (max(self.greatest[first : first + by]) for first in firsts)),
        )

    def within(self, from_s: float, to_s: float) -> "Points":
        """Those from ``from_s`` to ``to_s``, and a neighbour on each side, which a line comes from and leads to."""
        first = bisect_left(self.at_s, from_s)
        last = bisect_right(self.at_s, to_s)
        return self[max(0, first - 1) : last + 1]


@dataclass(frozen=True)
class TimeSeries:
    """A quantity over the time of a run. ``metric`` ends with its unit, unless it is a number of things; ``subject`` is
    what it is of: a rank, a node."""

    metric: str
    subject: str
    points: Points

    def levels(self) -> list[Points]:
        """All levels of the pyramid, until one part holds a whole level."""
        found = [self.points]
        while len(found[-1]) > PART:
            found.append(found[-1].thinned())
        return found
