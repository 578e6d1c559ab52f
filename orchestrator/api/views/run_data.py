"""What a run's logs hold, as it is answered: intervals, readings, output."""

from typing import Any

from orchestrator.api.views.common import Json, PageView, Time, View, fields_of
from orchestrator.domain.runs.log import Entry
from orchestrator.domain.value.time_series import TimeSeries
from orchestrator.domain.words.untrusted import is_time, mended
from orchestrator.services.experiment.query import Output
from orchestrator.services.intake.over_time import OverTime


class IntervalView(View):
    """What the timed loop reports of some steps. ``work`` maps each unit of work to its amount."""

    attempt_id: str
    node: str
    seq: int
    rank: int | None
    at: Time
    phase: str
    first_step: int
    n: int
    duration_s: float
    work: Any


class ReadingValue(View):
    """One value. Its unit is the suffix of ``metric``; null where it cannot be read."""

    metric: str
    subject: str
    value: float | None


class ReadingView(View):
    """What the sampler saw within a window that ended ``at``."""

    attempt_id: str
    node: str
    seq: int
    at: Time
    window_s: float
    values: list[ReadingValue]


class ReadingsView(PageView[ReadingView]):
    """``reason``: why there are none any more."""

    reason: str | None = None


@fields_of(Output)
class OutputView(View):
    """A piece of what a process printed; ``offset`` in bytes of that stream of that process."""


@fields_of(TimeSeries, "metric", "subject")
class TimeSeriesView(View):
    """A quantity of a rank or a node over time. ``points``: when, the least and the greatest value; several points of
    the log are one here where more would be too many."""

    points: list[tuple[float, float, float]]


@fields_of(OverTime, "end_s", "reason", "phases")
class OverTimeView(View):
    """Times in seconds since the first step began. ``end_s``: of the last point of the whole run; ``reason``: why there
    is none any more; ``phases``: when the warm-up and the timed phase ended."""

    run_id: str
    items: list[TimeSeriesView]


class EventView(View):
    """One entry of a log, as a server-sent event carries it. ``at`` and ``t`` are null where an older version stored
    what is no time."""

    attempt_id: str
    node: str
    seq: int
    source: str | None
    rank: int | None
    kind: str
    at: Time | None
    t: float | None
    data: Json


def interval_view(attempt_id: str, entry: Entry) -> IntervalView:
    data = entry["data"]
    return IntervalView(
        attempt_id=attempt_id,
        node=entry["node"],
        seq=entry["seq"],
        rank=entry.get("rank"),
        at=entry["wall"],
        phase=data["phase"],
        first_step=data["first_step"],
        n=data["n"],
        duration_s=data["duration_s"],
        work=data["work"],
    )


def reading_view(attempt_id: str, entry: Entry) -> ReadingView:
    data = entry["data"]
    return ReadingView(
        attempt_id=attempt_id,
        node=entry["node"],
        seq=entry["seq"],
        at=entry["wall"],
        window_s=data["window_s"],
        values=[ReadingValue(metric=metric, subject=subject, value=value) for metric, subject, value in data["values"]],
    )


def over_time_view(run_id: str, found: OverTime) -> OverTimeView:
    items = [
        TimeSeriesView.of(one, points=zip(one.points.at_s, one.points.least, one.points.greatest, strict=True))
        for one in found.series
    ]
    return OverTimeView.of(found, run_id=run_id, items=items)


def event_view(attempt_id: str, entry: Entry) -> EventView:
    return EventView(
        attempt_id=attempt_id,
        node=entry["node"],
        seq=entry["seq"],
        source=None if entry.get("source") is None else str(entry["source"]),
        rank=entry["rank"] if isinstance(entry.get("rank"), int) else None,
        kind=entry["kind"],
        at=entry["wall"] if is_time(entry.get("wall")) else None,
        t=float(entry["t"]) if is_time(entry.get("t")) else None,
        data=_without_secrets(mended(entry.get("data"))),
    )


def _without_secrets(data: Any) -> Json:
    """The job in ``log_opened`` holds the attempt's token: whoever has it could speak for its processes."""
    if not isinstance(data, dict):
        return {}
    if not isinstance(data.get("job"), dict):
        return data
    return data | {"job": {key: value for key, value in data["job"].items() if key != "token"}}
