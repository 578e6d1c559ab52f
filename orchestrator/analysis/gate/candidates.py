"""Candidates of the regression gate: since when a series looks slower, called night by night with what was known then.

A candidate is no verdict. It says what is worth trying side by side (``confirmation``).

Each night the nights since the last change are fitted by a level with one step, and by a level with one ramp, with
noise that is an autoregression of order 1. The step is the generalised likelihood ratio test of a change at an
unknown night, maximised over that night (Siegmund & Venkatraman 1995, Annals of Statistics 23:255, section 2; Page's
CUSUM of 1954 where the size is unknown as well). One test a night, and not the penalised partition of the whole
series (PELT, ``statistics.changepoints``): the last change is the only one that can be new, and its level says how
often one is called where nothing happened. Memory and fit are found in turns (Cochrane & Orcutt 1949, Journal of the
American Statistical Association 44:32), the first night is kept (Prais & Winsten 1954). Waves of a series that
remembers its last night are thus no steps, which is what a penalty by the long-run variance would make of them, and a
step costs no power.

A slow ramp looks like a step as well. So a step is called only where it explains clearly more than any ramp of
``RAMPS`` nights; where neither is clear it waits for another night.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy import special

from orchestrator.analysis.statistics.autocorrelation import Floats

# Chosen by simulation (``bench/gate.py``).
LEVEL = 0.0003  # of the test of one night, one-sided
MARGIN = 4.0  # by so much, in variances of a night, a step has to be the better explanation; a ramp likewise
LEAST_RAMP = 10  # nights of it that have to be there
RAMPS = (20, 40)  # nights that a rise or fall takes
PRIOR_MEMORY = 0.2  # autocorrelation of nights where nobody knows; it weighs as much as ``PRIOR_NIGHTS``
PRIOR_NIGHTS = 20

# Judgements.
LEAST_NIGHTS = 8  # fewer say nothing of how nights resemble each other
LEAST_SIDE = 2  # nights before and behind a step: one night alone is a bad night
MOST_MEMORY = 0.8
REACH = 4.0  # deviations from the median of the nights around it at which a night is clipped
HALF_WINDOW = 5  # nights on each side
NORMAL_QUARTILE = 1.1503  # deviations, within which three of four normal values are
LEAST_DEVIATION = 1e-4  # of the logarithm of a night: nobody knows a night better than to 0.01 %
WINDOW = 120  # nights that are looked at, at most
UNLIKELY = 6.0  # F of the first fit below which no memory makes a step of it: 1.5 times as much is the most, at none
NIGHT_S = 43_200.0  # what is called within half a day is of one night

Kind = Literal["step", "drift"]


@dataclass(frozen=True)
class Session:
    """A night of a series on one place.

    Attributes:
        at: seconds since the epoch.
        place: the devices; its first word is the node.
        subject: what was measured, such as versions and commits, in words.
        value: mean of the logarithms of its runs' rates.
    """

    at: float
    place: str
    subject: str
    value: float


@dataclass(frozen=True)
class Call:
    """A change of the level of nights: from night ``begins`` on, called at night ``called`` (numbers from 0 on).
    ``size``: of the logarithm; below 0 the nights are slower."""

    begins: int
    called: int
    kind: Kind
    size: float


@dataclass(frozen=True)
class Candidate:
    """A series that looks slower.

    Attributes:
        at: when its first slow night was; of a drift, when that began.
        called_at: the night in which that could first be told.
        difference: after / before - 1 as those nights had it, as a ratio.
        before, after: the subject of the night before and of the first slow one.
    """

    series: str
    place: str
    at: float
    called_at: float
    kind: Kind
    difference: float
    before: str
    after: str


@dataclass(frozen=True)
class _Shape:
    """A change that begins at night ``begins`` and takes ``length`` nights (a step: 1): its size, and the sum of
    squares that it explains."""

    begins: int
    length: int
    size: float
    explained: float

    def over(self, nights: int) -> Floats:
        """What it adds to each of so many nights."""
        return self.size * _risen(np.arange(nights), self.begins, self.length)


@dataclass(frozen=True)
class _Fit:
    """``rest``: the sum of squares around one level, nights made independent."""

    step: _Shape
    ramp: _Shape
    rest: float

    @property
    def better(self) -> _Shape:
        return self.step if self.step.explained >= self.ramp.explained else self.ramp


@dataclass(frozen=True)
class _Past:
    """What nights before the last change were off their level, and how many of these are free."""

    residuals: Floats
    degrees: int

    def and_of(self, nights: Floats) -> "_Past":
        return _Past(np.concatenate([self.residuals, nights]), self.degrees + len(nights) - 1)


def candidates_of(series: str, sessions: Sequence[Session]) -> list[Candidate]:
    """Return what the gate would have tried of a series, in the order in which it was called. Places are looked at one
    by one: a swapped node is no slowdown."""
    places: dict[str, list[Session]] = {}
    for one in sorted(sessions, key=lambda session: session.at):
        places.setdefault(one.place, []).append(one)
    found = [
        Candidate(
            series=series,
            place=place,
            at=nights[call.begins].at,
            called_at=nights[call.called].at,
            kind=call.kind,
            difference=math.expm1(call.size),
            before=nights[max(call.begins - 1, 0)].subject,
            after=nights[call.begins].subject,
        )
        for place, nights in places.items()
        for call in calls_of(np.array([night.value for night in nights]))
        if call.size < 0
    ]
    return sorted(found, key=lambda one: one.called_at)


def causes_of(candidates: Sequence[Candidate], schedules: Mapping[str, str] | None = None) -> list[list[Candidate]]:
    """Return the candidates in groups that may have one cause: those of a night and a kind that share a node, a change
    to the same subject, or the schedule (``schedules``: of each series)."""
    found: list[list[Candidate]] = []
    for one in sorted(candidates, key=lambda candidate: candidate.called_at):
        shared = [cause for cause in found if any(_is_related(one, other, schedules or {}) for other in cause)]
        for cause in shared:
            found.remove(cause)
        found.append([*(other for cause in shared for other in cause), one])
    return found


def _is_related(one: Candidate, other: Candidate, schedules: Mapping[str, str]) -> bool:
    if one.kind != other.kind or abs(one.called_at - other.called_at) >= NIGHT_S:
        return False
    return not _keys(one, schedules).isdisjoint(_keys(other, schedules))


def _keys(one: Candidate, schedules: Mapping[str, str]) -> set[tuple[str, str]]:
    keys = {("node", node_of(one.place))}
    if one.before != one.after:
        keys.add(("software", one.after))
    if one.series in schedules:
        keys.add(("schedule", schedules[one.series]))
    return keys


def node_of(place: str) -> str:
    """The first word of a place."""
    return place.split(" ", 1)[0]


def calls_of(values: Floats) -> list[Call]:
    """Return the changes of a series of nights on one place, each as it would have been called at its time; faster ones
    too, as the nights behind them have a new level.

    Args:
        values: mean logarithm of the rates of each night, oldest first.
    """
    found: list[Call] = []
    start, past, drifting = 0, _Past(np.zeros(0), 0), False
    for night in range(LEAST_NIGHTS - 1, len(values)):
        start = max(start, night + 1 - WINDOW)
        seen = values[start : night + 1] - values[start]
        if len(seen) < 2 * LEAST_SIDE:
            continue
        told = _told(seen, past)
        if told is None:
            continue
        kind, shape, residuals = told
        ends = shape.begins + shape.length - (kind == "step")
        if kind == "step":
            moved = seen[ends:] - clipped(seen)[:ends].mean()
            size = float(moved.mean())
            if _middle(moved * math.copysign(1.0, size)) < abs(size) / 2:
                continue  # a bad night beside one that is not
            found.append(Call(start + ends, night, kind, size))
        elif not drifting:
            found.append(Call(start + shape.begins, night, kind, float(shape.over(len(seen))[-1])))
        drifting = kind == "drift" and ends > len(seen) - LEAST_NIGHTS
        if not drifting:  # there is a new level
            past = past.and_of(residuals[:ends])
            start += ends
    return found


def _told(seen: Floats, past: _Past) -> tuple[Kind, _Shape, Floats] | None:
    """What the last of these nights tells, and what the nights are off it; None for nothing yet."""
    values = clipped(seen)
    degrees = len(values) - 3 + past.degrees  # a level, a size and a night were chosen
    first = fitted(values, PRIOR_MEMORY)
    squares = first.rest - first.step.explained + squares_of(past.residuals, PRIOR_MEMORY)
    if first.step.explained * degrees < UNLIKELY * max(squares, LEAST_DEVIATION**2):
        return None  # whatever the memory is
    memory = memory_of(past.residuals, _residuals(values, first))
    fit = fitted(values, memory)
    squares = fit.rest - fit.step.explained + squares_of(past.residuals, memory)
    variance = max(squares / degrees, LEAST_DEVIATION**2)
    if special.stdtr(degrees, -math.sqrt(fit.step.explained / variance)) > LEVEL:
        return None
    better = (fit.step.explained - fit.ramp.explained) / variance
    if abs(better) < MARGIN:
        return None
    return ("step" if better > 0 else "drift"), fit.better, _residuals(values, fit)


def clipped(values: Floats) -> Floats:
    """Single bad nights made less bad."""
    n, width = len(values), 2 * HALF_WINDOW + 1
    middle = np.full(n, _middle(values))
    if n > width:
        windows = values[np.arange(n - width + 1)[:, None] + np.arange(width)]
        middle[HALF_WINDOW : n - HALF_WINDOW] = np.partition(windows, HALF_WINDOW, axis=1)[:, HALF_WINDOW]
        middle[:HALF_WINDOW], middle[n - HALF_WINDOW :] = middle[HALF_WINDOW], middle[n - HALF_WINDOW - 1]
    # Not the median of these: of nights of few values, as of processes of two kinds, that would be 0.
    off = np.partition(np.abs(values - middle), 3 * n // 4)[3 * n // 4]
    reach = REACH * max(float(off) / NORMAL_QUARTILE, LEAST_DEVIATION)
    return np.clip(values, middle - reach, middle + reach)


def _middle(values: Floats) -> float:
    """The median, of an even number the lower one: ``numpy.median`` takes most of the time of all of this."""
    place = (len(values) - 1) // 2
    return float(np.partition(values, place)[place])


def _risen(nights: np.ndarray, begins: int, length: int) -> Floats:
    """From 0 to 1 over ``length`` nights; a step is at 1 from its first night on."""
    return np.clip((nights - begins + (length == 1)) / length, 0.0, 1.0)


@lru_cache(maxsize=2 * WINDOW)
def _shapes(n: int) -> tuple[list[tuple[int, int]], int, Floats, Floats, Floats, Floats]:
    """((begin, length) of each shape of n nights, how many are steps, they themselves, and sums of their squares, of
    those without both ends, and of the products of neighbours)."""
    steps = [(begins, 1) for begins in range(LEAST_SIDE, n - LEAST_SIDE + 1)]
    ramps = [(begins, length) for length in RAMPS for begins in range(max(1, n - LEAST_RAMP))]
    nights = np.arange(n)
    shapes = np.stack([_risen(nights, *one) for one in steps + ramps])
    squares = (shapes**2).sum(axis=1)
    inner = (shapes[:, 1:-1] ** 2).sum(axis=1)
    return steps + ramps, len(steps), shapes, squares, inner, (shapes[:, 1:] * shapes[:, :-1]).sum(axis=1)


def fitted(values: Floats, memory: float) -> _Fit:
    """The best step and the best ramp beside a level, by generalised least squares, noise an AR(1)."""
    n = len(values)
    places, steps, shapes, squares, inner, neighbours = _shapes(n)
    flat, weighted = _precision(np.ones(n), memory), _precision(values, memory)
    level_square, level = float(flat.sum()), float(weighted.sum())
    crosses = shapes @ flat
    top = shapes @ weighted - crosses * (level / level_square)
    bottom = squares + memory**2 * inner - 2 * memory * neighbours - crosses**2 / level_square
    explained = top**2 / bottom
    step, ramp = int(np.argmax(explained[:steps])), steps + int(np.argmax(explained[steps:]))
    made = [_Shape(*places[k], float(top[k] / bottom[k]), float(explained[k])) for k in (step, ramp)]
    return _Fit(made[0], made[1], float(values @ weighted - level**2 / level_square))


def _precision(values: Floats, memory: float) -> Floats:
    """The inverse of the covariances of an AR(1), of innovations of variance 1, times ``values``."""
    found = (1.0 + memory**2) * values
    found[[0, -1]] = values[[0, -1]]
    found[1:] -= memory * values[:-1]
    found[:-1] -= memory * values[1:]
    return found


def _residuals(values: Floats, fit: _Fit) -> Floats:
    """What nights are off the better of the two."""
    left = values - fit.better.over(len(values))
    return left - left.mean()


def memory_of(past: Floats, residuals: Floats) -> float:
    """The autocorrelation of nights, with Kendall's correction for a short series of two levels (1954, Biometrika
    41:403), drawn to ``PRIOR_MEMORY``."""
    squares = float(past @ past + residuals @ residuals)
    if squares <= 0.0:
        return PRIOR_MEMORY
    products = float(past[1:] @ past[:-1] + residuals[1:] @ residuals[:-1])
    n = len(past) + len(residuals)
    found = products / squares
    found += (1.0 + 3.0 * found) * 2.0 / n
    return min(max((n * found + PRIOR_NIGHTS * PRIOR_MEMORY) / (n + PRIOR_NIGHTS), 0.0), MOST_MEMORY)


def squares_of(residuals: Floats, memory: float) -> float:
    """Of residuals made independent."""
    if not len(residuals):
        return 0.0
    rest = residuals[1:] - memory * residuals[:-1]
    return float((1.0 - memory**2) * residuals[0] ** 2 + rest @ rest)
