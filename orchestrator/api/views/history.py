"""Series and their history, as they are answered."""

import math
from collections.abc import Callable
from typing import Any, Literal

from orchestrator.analysis.history.baselines import Baseline, Mean
from orchestrator.api.views.common import DamagedView, Json, Quantity, View, fields_of
from orchestrator.domain.around.history import Point, StoredSeries
from orchestrator.domain.asked.fingerprint import Changed
from orchestrator.domain.value.measurement import Grade, Measurement
from orchestrator.services.history.alerts import Finding
from orchestrator.services.history.observed import Place
from orchestrator.services.history.words import of_border
from orchestrator.services.history.workload import History, HistoryPoint

LEVEL = "mean over sessions of the logarithms of their runs' rates, Student's t between sessions"


@fields_of(StoredSeries)
class SeriesView(View):
    """A series: what was measured of one ``workload``. Its first and last experiments were made then. Where another
    tool measured it, its sessions began then, and the workload names the ``tool``."""


class PlaceView(View):
    """The devices that runs held together."""

    id: int
    name: str
    nodes: list[str]
    device_ids: list[str]


class ReasonOfPointView(View):
    code: str
    text: str


class SessionView(View):
    """What a point says of one place: the geometric mean of its runs' rates there, in the unit of the series."""

    place: int
    value: float


@fields_of(Point, without=("workload_key", "shares"))
class PointView(View):
    """One cell of one experiment. Without a number it has a ``reason``. ``line``: of ``lines``; ``sessions``: by place,
    none while runs of it are left; ``borders`` has the texts of those that begin here. ``source``: the tool that
    measured it, with its version; then ``experiment_id`` is the id of an imported point. Null for tbd itself."""

    number: int
    experiment_name: str
    line: int
    reasons: list[ReasonOfPointView]
    sessions: list[SessionView]
    borders: list[str]


@fields_of(Changed)
class FieldChangeView(View):
    """A field of the subject or the rig, as it was and as it is."""


class BaselineView(View):
    """What was measured on a place while neither subject nor rig changed, by the numbers of its points. ``level`` is
    null where its sessions cannot give one."""

    line: int
    place: int
    points: list[int]
    n_sessions: int
    grade: Grade
    level: Quantity | None


class BorderView(View):
    """Where a baseline of a place begins, from ``point`` on. ``difference`` is after / before - 1, as a ratio; null for
    a place that nothing was measured on before."""

    line: int
    point: int
    place: int
    is_new_place: bool
    changes: list[FieldChangeView]
    difference: Quantity | None
    text: str


class FindingView(View):
    """A change of the level of a place from ``point`` on, by the rules of the gate. ``state`` is that of the alert that
    speaks of it, else ``candidate``, ``drift`` or ``faster``. ``difference`` is after / before - 1 as the nights had
    it, ``effect`` the one that was confirmed, null where none was."""

    kind: Literal["step", "drift"]
    line: int
    state: str
    point: int
    place: int
    difference: float
    changes: list[FieldChangeView]
    alert_id: str | None
    experiment_id: str | None
    effect: Quantity | None
    text: str


class LineView(View):
    """Points that follow each other; several where experiments compare interpreters side by side."""

    line: int
    interpreter: str


class HistoryView(View):
    """One series. ``items`` are its newest points, oldest first; ``n_left_out`` older ones were not asked for."""

    key: str
    workload: Json
    unit: str | None
    n_points: int
    n_left_out: int
    items: list[PointView]
    lines: list[LineView]
    places: list[PlaceView]
    baselines: list[BaselineView]
    borders: list[BorderView]
    findings: list[FindingView]
    damaged: list[DamagedView]
    next_cursor: None = None


def history_view(found: History) -> HistoryView:
    ids = {key: number for number, key in enumerate(found.places)}
    borders = [
        _border(number, border, ids, found.places) for number, line in enumerate(found.lines) for border in line.borders
    ]
    texts: dict[int, list[str]] = {}
    for border in borders:
        texts.setdefault(border.point, []).append(border.text)
    return HistoryView(
        key=found.series.key,
        workload=dict(found.series.workload),
        unit=found.unit,
        n_points=found.series.n_points,
        n_left_out=found.n_left_out,
        items=[_point(number, one, ids, texts.get(number, [])) for number, one in enumerate(found.points)],
        lines=[LineView(line=number, interpreter=one.interpreter) for number, one in enumerate(found.lines)],
        places=[_place(ids[key], place) for key, place in found.places.items()],
        baselines=[
            _baseline(number, one, found, ids)
            for number, line in enumerate(found.lines)
            for theirs in line.baselines
            for one in theirs
        ],
        borders=borders,
        findings=[_finding(number, one, ids) for number, line in enumerate(found.lines) for one in line.findings],
        damaged=[DamagedView.of(one) for one in found.damaged],
    )


def _place(number: int, one: Place) -> PlaceView:
    return PlaceView.of(one, id=number)


def _point(number: int, one: HistoryPoint, ids: dict[str, int], texts: list[str]) -> PointView:
    point = one.point
    return PointView.of(
        point,
        number=number,
        experiment_name=one.experiment_name,
        line=one.line,
        sessions=[SessionView(place=ids[each.place], value=math.exp(each.value)) for each in one.observations],
        borders=list(dict.fromkeys(texts)),
    )


def _baseline(line: int, one: Baseline, found: History, ids: dict[str, int]) -> BaselineView:
    return BaselineView(
        line=line,
        place=ids[one.place],
        points=[each.point for each in one.observations],
        n_sessions=len(one.counted),
        grade=Grade.SOUND if one.is_sound else Grade.DISTURBED,
        level=_level(one.level, found.unit),
    )


def _level(level: Mean, unit: str | None) -> Quantity:
    sessions = f"{level.n} sessions" if level.n > 1 else "1 session"
    return _of_mean("throughput", level, math.exp, unit or "1", sessions, LEVEL)


def _difference(mean: Mean) -> Quantity:
    method = "difference of mean logarithms over sessions"
    return _of_mean("difference_ratio", mean, math.expm1, "1", f"{mean.n} sessions", method)


def _of_mean(metric: str, mean: Mean, back: Callable[[float], float], unit: str, scope: str, method: str) -> Quantity:
    """``back``: from a logarithm to what is answered."""
    ends = mean.bounds()
    one = Measurement(
        metric,
        value=back(mean.value),
        unit=unit,
        ci_low=back(ends[0]) if ends else None,
        ci_high=back(ends[1]) if ends else None,
        confidence=0.95 if ends else None,
        n=float(mean.n),
        scope=scope,
        method=method,
    )
    return Quantity.of(one)


def _border(line: int, one: Any, ids: dict[str, int], places: Any) -> BorderView:
    return BorderView.of(
        one,
        line=line,
        place=ids[one.place],
        difference=None if one.effect is None else _difference(one.effect),
        text=of_border(one, places),
    )


def _finding(line: int, one: Finding, ids: dict[str, int]) -> FindingView:
    alert = one.alert
    return FindingView.of(
        one,
        line=line,
        place=ids[one.place],
        changes=[FieldChangeView.of(each) for each in one.changes],
        alert_id=alert and alert.id,
        experiment_id=alert and alert.experiment_id,
        effect=Quantity.maybe(alert and alert.told.effect),
    )
