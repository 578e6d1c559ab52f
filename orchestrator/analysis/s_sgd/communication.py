"""How long an exchange of so many bytes takes: latency and bandwidth by segments of sizes, fitted to measured times.

A library changes its algorithm with the size, so that one line misses by a tenth to a fifth on the logs that the S-SGD
model's authors published. Errors are relative throughout: a training has many small exchanges and few large ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.analysis.s_sgd.labels import Beside

Floats = NDArray[np.float64]

LEAST_SIZES = 3  # of a segment: two always lie on a line. A judgement
MOST_SEGMENTS = 6  # a judgement: libraries have two or three algorithms, and protocols within these
MOST_PLACES = 512  # where a segment may begin: with more sizes each place stands for several, and the fit stays quick
FOLDS = 3  # every third size is left out in its turn
BLOCKS = 10


@dataclass(frozen=True)
class Segment:
    """Sizes for which one line holds: seconds = ``latency_s`` + bytes / ``bytes_per_s``. None: they do not grow.

    ``from_bytes`` and ``to_bytes`` are sizes that were measured, the smallest and the largest of the segment.
    """

    from_bytes: int
    to_bytes: int
    latency_s: float
    bytes_per_s: float | None

    def seconds(self, size: float) -> float:
        return self.latency_s + (size / self.bytes_per_s if self.bytes_per_s else 0.0)


@dataclass(frozen=True)
class Communication:
    """Seconds of an exchange by its bytes. ``beside``: what it was measured beside."""

    segments: tuple[Segment, ...]
    beside: Beside = Beside.UNSTATED

    def seconds(self, sizes: Sequence[int] | Floats) -> Floats:
        """Return seconds of ``sizes`` (bytes, shape n). Between two segments, where nobody knows which algorithm there
        is, they lie on the line from one to the other; below the first and above the last its own line goes on."""
        at = np.asarray(sizes, dtype=float)
        edges = [edge for one in self.segments for edge in (one.from_bytes, one.to_bytes)]
        values = [one.seconds(edge) for one in self.segments for edge in (one.from_bytes, one.to_bytes)]
        first, last = self.segments[0], self.segments[-1]
        slopes = [1 / one.bytes_per_s if one.bytes_per_s else 0.0 for one in (first, last)]
        found = np.interp(at, edges, values)
        found = np.where(at < edges[0], first.latency_s + slopes[0] * at, found)
        return np.where(at > edges[-1], last.latency_s + slopes[1] * at, found)

    def measured(self, size: int) -> bool:
        """Return whether ``size`` is neither below nor above all sizes that were measured."""
        return self.segments[0].from_bytes <= size <= self.segments[-1].to_bytes

    def between(self, sizes: Sequence[int] | Floats) -> NDArray[np.bool_]:
        """Return for which of ``sizes`` no segment was fitted, since they lie between two."""
        at = np.asarray(sizes, dtype=float)
        found = np.zeros(at.shape, dtype=bool)
        for one, other in zip(self.segments, self.segments[1:], strict=False):
            found |= (at > one.to_bytes) & (at < other.from_bytes)
        return found


@dataclass(frozen=True)
class LeftOut:
    """Errors, as ratios, at sizes that the fit did not see: of all, and without the ``between`` that lie between two of
    its segments."""

    error: float
    error_within_segments: float
    between: int


@dataclass(frozen=True)
class Fit:
    """A communication function with its mean absolute percentage error, a ratio, at the sizes it was fitted to.

    ``left_out`` is None where there are too few sizes to leave some out.
    """

    function: Communication
    mean_absolute_percentage_error: float
    left_out: LeftOut | None


def fit(sizes: Sequence[int], seconds: Sequence[float], beside: Beside = Beside.UNSTATED) -> Fit:
    """Return the fit to measured times with as few segments as predict sizes left out no worse than the best.

    "No worse" is within one standard error of the smallest error (the rule of Breiman, Friedman, Olshen & Stone 1984,
    Classification and Regression Trees, 3.4.3), with each third size left out in its turn. Sizes that are then between
    segments do not count: where an algorithm changes, an error there is as large as the change. The standard error is
    that of the means of ten blocks of neighbouring sizes, whose errors are alike.

    Args:
        sizes: bytes, rising, at least two.
        seconds: as many, above 0.

    Raises:
        ValueError: what is given is not that.
    """
    x, y = np.asarray(sizes, dtype=float), np.asarray(seconds, dtype=float)
    if len(x) < 2:
        raise ValueError("a line takes two sizes")
    if x[0] <= 0 or not np.all(np.diff(x) > 0) or not np.all(np.isfinite(y)) or not np.all(y > 0):
        raise ValueError("sizes have to rise, and times to be above 0")
    tried = _left_out(x, y)
    chosen = 0
    if tried:
        within = [errors[~between] for errors, between in tried]
        means = [float(np.mean(errors)) for errors in within]
        best = int(np.argmin(means))
        enough = means[best] + _standard_error(within[best])
        chosen = next(count for count, mean in enumerate(means) if mean <= enough)
    function = Communication(_segments(x, y, chosen + 1)[chosen], beside)
    error = float(np.mean(np.abs(function.seconds(x) / y - 1)))
    return Fit(function, error, _told(*tried[chosen]) if tried else None)


def _standard_error(errors: Floats) -> float:
    blocks = [float(np.mean(block)) for block in np.array_split(errors, min(BLOCKS, len(errors)))]
    return float(np.std(blocks, ddof=1)) / math.sqrt(len(blocks)) if len(blocks) > 1 else 0.0


def _told(errors: Floats, between: NDArray[np.bool_]) -> LeftOut:
    return LeftOut(float(np.mean(errors)), float(np.mean(errors[~between])), int(between.sum()))


def _left_out(x: Floats, y: Floats) -> list[tuple[Floats, NDArray[np.bool_]]]:
    """For 1, 2, .. segments: the error of each size when it was left out, and whether it lay between segments."""
    folds = [np.arange(len(x)) % FOLDS == fold for fold in range(FOLDS)]
    most = min(MOST_SEGMENTS, min(int((~out).sum()) for out in folds) // LEAST_SIZES)
    if most < 1:
        return []
    errors, between = np.zeros((most, len(x))), np.zeros((most, len(x)), dtype=bool)
    for out in folds:
        for index, segments in enumerate(_segments(x[~out], y[~out], most)):
            function = Communication(segments)
            errors[index, out] = np.abs(function.seconds(x[out]) / y[out] - 1)
            between[index, out] = function.between(x[out])
    return list(zip(errors, between, strict=True))


def _segments(x: Floats, y: Floats, most: int) -> list[tuple[Segment, ...]]:
    """The best 1, 2, .. ``most`` segments: least sum of squared relative errors, by dynamic programming over where they
    begin (Bellman 1961, "On the approximation of curves by line segments using dynamic programming")."""
    places = np.unique(np.linspace(0, len(x), min(len(x), MOST_PLACES) + 1).round().astype(int))
    lines = _Lines(x, y, places)
    paths = [lines.cost[0]]  # least cost of the first sizes, up to each place, in so many segments
    last: list[NDArray[np.intp]] = []
    for _ in range(1, most):
        through = paths[-1][:, None] + lines.cost
        last.append(through.argmin(axis=0))
        paths.append(through.min(axis=0))
    return [_backwards(x, lines, last[:count]) for count in range(most)]


def _backwards(x: Floats, lines: "_Lines", last: Sequence[NDArray[np.intp]]) -> tuple[Segment, ...]:
    found = []
    end = len(lines.places) - 1
    for choices in [*reversed(last), None]:
        start = 0 if choices is None else int(choices[end])
        slope = float(lines.slope[start, end])
        found.append(
            Segment(
                int(x[lines.places[start]]),
                int(x[lines.places[end] - 1]),
                float(lines.latency[start, end]),
                1 / slope if slope > 0 else None,
            )
        )
        end = start
    return tuple(reversed(found))


class _Lines:
    """The best line for the sizes between each two places: ``latency`` and ``slope``, neither below 0, and ``cost``,
    the sum of squared relative errors, sum ((a + b x) / y - 1)^2; made from sums over x and y up to each place."""

    def __init__(self, x: Floats, y: Floats, places: NDArray[np.int_]) -> None:
        self.places = places
        unit_x, unit_y = float(x.max()), float(np.median(y))  # so that sums of squares lose no digits
        x, y = x / unit_x, y / unit_y
        n, w, wx, wxx, s, sx = (
            self._between(terms) for terms in (np.ones_like(x), 1 / y**2, x / y**2, x**2 / y**2, 1 / y, x / y)
        )
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            determinant = w * wxx - wx * wx
            a, b = (s * wxx - sx * wx) / determinant, (w * sx - wx * s) / determinant
            flat, steep = s / w, sx / wxx

            def cost(a: Floats, b: Floats) -> Floats:
                return n - 2 * (a * s + b * sx) + a * a * w + 2 * a * b * wx + b * b * wxx

            inside = (determinant > 0) & (a >= 0) & (b >= 0)
            is_flat = cost(flat, np.zeros_like(b)) <= cost(np.zeros_like(a), steep)
            a = np.where(inside, a, np.where(is_flat, flat, 0.0))
            b = np.where(inside, b, np.where(is_flat, 0.0, steep))
            self.cost = np.where(n >= min(LEAST_SIZES, len(x)), np.maximum(cost(a, b), 0.0), math.inf)
        self.latency, self.slope = a * unit_y, b * unit_y / unit_x

    def _between(self, terms: Floats) -> Floats:
        """Sums of ``terms`` from each place (rows) up to each other one (columns)."""
        # Not as differences of one running sum: where times grow a millionfold these have no digits left.
        blocks = np.add.reduceat(terms, self.places[:-1])
        count = len(blocks)
        found = np.zeros((count + 1, count + 1))
        found[:-1, 1:] = np.cumsum(np.triu(np.broadcast_to(blocks, (count, count))), axis=1)
        return found
