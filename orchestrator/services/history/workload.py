"""The history of a series: its points, the baselines they form, its borders, and what can be said of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from orchestrator.analysis.gate.suspects import moves_of
from orchestrator.analysis.history.baselines import Baseline, Observation, baselines_of
from orchestrator.analysis.history.breaks import Border, borders_of
from orchestrator.domain.around.history import Point, StoredSeries
from orchestrator.domain.runs.filters import SeriesFilter
from orchestrator.domain.value.measurement import Grade
from orchestrator.domain.words.errors import Conflict, Damaged, NotFound
from orchestrator.services.context import Context
from orchestrator.services.history import points
from orchestrator.services.history.alerts import Finding, Known, findings_of, known_of
from orchestrator.services.history.observed import Place, observed

ESTABLISHED = 3  # points of a line beside the main one, from which on it takes points that come alone: a judgement


@dataclass(frozen=True)
class HistoryPoint:
    """A point of a series with the name of its experiment, the line that it is on, and what it says of each place."""

    point: Point
    experiment_name: str
    line: int
    observations: tuple[Observation, ...]


@dataclass(frozen=True)
class Line:
    """Points of a series that follow each other. There are several where experiments compare interpreters side by side:
    the main line, and one for each other interpreter.

    ``borders`` and ``baselines`` number the points of the whole series; their places are keys of ``History.places``.
    """

    interpreter: str
    baselines: list[list[Baseline]]
    borders: list[Border]
    findings: list[Finding]


@dataclass(frozen=True)
class History:
    """``series`` with its newest points, oldest first. ``n_left_out`` older ones were not asked for."""

    series: StoredSeries
    unit: str | None
    points: list[HistoryPoint]
    lines: list[Line]
    places: Mapping[str, Place]
    damaged: Sequence[Damaged]
    n_left_out: int


def found(context: Context, key: str) -> StoredSeries:
    """The series of that key, or the only one whose key begins so.

    Raises:
        NotFound: there is none.
        Conflict: there are several.
    """
    page = context.store.series(SeriesFilter(key=key), limit=6) if key else None
    candidates = list(page.items) if page else []
    if not candidates:
        raise NotFound("series", key)
    if len(candidates) > 1:
        some = ", ".join(one.key for one in candidates[:5]) + (", …" if len(candidates) > 5 else "")
        raise Conflict(f"{key!r} is how the keys of several series begin: {some}")
    return candidates[0]


def history(context: Context, key: str, limit: int) -> History:
    """The newest ``limit`` points of the series whose key is or begins with ``key``, and what they tell.

    Raises:
        NotFound: there is no such series.
        Conflict: there are several.
    """
    series = found(context, key)
    newest = points.of_series(context, series.key, limit)
    in_order = _in_order(newest.points)
    placed, lines, places = _told(in_order, newest, known_of(context, in_order))
    units = [one.throughput.unit for one in in_order if one.throughput]
    left_out = max(0, series.n_points - newest.n_own)
    return History(series, units[-1] if units else None, placed, lines, places, newest.damaged, left_out)


def _told(
    made: Sequence[Point], newest: points.Found, known: Sequence[Known]
) -> tuple[list[HistoryPoint], list[Line], dict[str, Place]]:
    places: dict[str, Place] = {}
    observed = [_observations(number, one, newest.prints, places) for number, one in enumerate(made)]
    of_line = lines_of(made)
    placed = [
        HistoryPoint(one, newest.names[one.experiment_id], line, tuple(theirs))
        for one, line, theirs in zip(made, of_line, observed, strict=True)
    ]
    lines = []
    for number in range(max(of_line, default=-1) + 1):
        mine = [index for index, line in enumerate(of_line) if line == number]
        observations = [each for index in mine for each in observed[index]]
        baselines = baselines_of(observations)
        told = findings_of(moves_of(observations), [one for one in known if one.point in mine], places)
        lines.append(Line(made[mine[0]].interpreter, baselines, borders_of(observations, baselines), told))
    return placed, lines, places


def _observations(
    number: int, one: Point, prints: Mapping[tuple[str, str], Mapping[str, Any]], places: dict[str, Place]
) -> list[Observation]:
    """What a point says of each of its places; nothing while runs of it are left, for it may change."""
    if one.throughput is None or one.n_open:
        return []
    shares = [(share, prints[share.subject_key, share.rig_key]) for share in one.shares]
    made = []
    for place, observation in observed(number, one.at, shares, sound=one.grade is Grade.SOUND):
        places[place.key] = place
        made.append(observation)
    return made


def lines_of(made: Sequence[Point]) -> list[int]:
    """Return the line of each point (points in the order of time): 0 is the main one.

    An experiment has several points in a series where it compares interpreters. Those of the interpreter that the main
    line had last go on with it, the others are lines of their own. A point that comes alone is on the main line, unless
    its interpreter has a line of its own that is ``ESTABLISHED``.
    """
    numbers: dict[str, int] = {}  # of lines beside the main one
    counts: dict[int, int] = {}
    main: str | None = None
    found: list[int] = []
    for _, group in groupby(made, key=lambda one: one.experiment_id):
        names = [one.interpreter for one in group]
        side = numbers.get(names[0]) if len(set(names)) == 1 else None
        if main not in names and (side is None or counts.get(side, 0) < ESTABLISHED):
            main = names[0]
        for name in names:
            line = 0 if name == main else numbers.setdefault(name, len(numbers) + 1)
            counts[line] = counts.get(line, 0) + 1
            found.append(line)
    return found


def _in_order(made: Sequence[Point]) -> list[Point]:
    """By time, the points of an experiment together."""
    began: dict[str, float] = {}
    for one in made:
        began[one.experiment_id] = min(one.at, began.get(one.experiment_id, one.at))
    return sorted(made, key=lambda one: (began[one.experiment_id], one.experiment_id, one.at, one.cell_key))
