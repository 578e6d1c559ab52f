"""Runs: look, cancel, measurements, intervals, readings, output."""

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Response

from orchestrator.api.door.identity import Who
from orchestrator.api.requests import (
    MAX_PAGE,
    Ctx,
    Cursor,
    IdempotencyKey,
    Label,
    Limit,
    OfOwner,
    Order,
    WholeLimit,
    carried_out_once,
    parse_label,
)
from orchestrator.api.views.common import PageView, answer, entries_view, page_of, page_view
from orchestrator.api.views.run_data import (
    IntervalView,
    OutputView,
    OverTimeView,
    ReadingsView,
    interval_view,
    over_time_view,
    reading_view,
)
from orchestrator.api.views.runs import MeasurementView, RunView, measurement_view, run_view
from orchestrator.domain.runs.filters import RunFilter
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.domain.value.measurement import Analysis, Validity
from orchestrator.services.experiment import cancel, query
from orchestrator.services.intake.over_time import over_time
from orchestrator.services.reconcile.outlook import outlook

router = APIRouter(prefix="/runs", tags=["runs"])


def _run(context: Ctx, run_id: str) -> Run:
    return query.run(context, run_id)


OneRun = Annotated[Run, Depends(_run)]
_EVER_S = 1e12
AttemptNumber = Annotated[int | None, Query(ge=1, description="an attempt of the run; without it: the latest")]


@router.get("", response_model=PageView[RunView])
def list_runs(
    context: Ctx,
    owner: OfOwner = None,
    experiment: str | None = None,
    state: RunState | None = None,
    model: str | None = None,
    framework: str | None = None,
    label: Label = None,
    order: Order = "newest",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Runs, newest first unless ``order`` says otherwise."""
    wanted = RunFilter(owner, experiment, state, model, framework, parse_label(label), order == "oldest")
    page = context.store.runs(wanted, limit=limit, cursor=cursor)
    return answer(page_view(page, run_view))


@router.get("/{run_id}", response_model=RunView)
def get_run(context: Ctx, run: OneRun) -> Response:
    """One run: plan, state, reason, attempts, placement, fingerprint, validity; what it waits for."""
    return answer(run_view(run, outlook(context, run)))


@router.post("/{run_id}/cancel", status_code=202, response_model=RunView)
def cancel_run(context: Ctx, who: Who, run_id: str, key: IdempotencyKey = None) -> Response:
    """Ask for a run to end. Idempotent by nature, with or without a key."""
    run, headers = carried_out_once(
        context,
        who.owner,
        key,
        ("cancel", run_id),
        lambda: cancel.cancel_run(context, run_id, who),
        lambda: query.run(context, run_id),
    )
    return answer(run_view(run), 202, headers)


@router.get("/{run_id}/measurements", response_model=PageView[MeasurementView])
def list_run_measurements(run: OneRun, limit: WholeLimit = MAX_PAGE, cursor: Cursor = None) -> Response:
    """All that was computed from the run's logs. Empty until they were judged."""
    analysis = run.analysis or Analysis(Validity())
    view = partial(measurement_view, code_version=analysis.code_version)
    return answer(page_of(analysis.measurements, lambda one: f"{one.metric} {one.subject}", view, limit, cursor))


@router.get("/{run_id}/intervals", response_model=PageView[IntervalView])
def list_run_intervals(
    context: Ctx, run: OneRun, attempt: AttemptNumber = None, limit: Limit = 200, cursor: Cursor = None
) -> Response:
    """The intervals of the timed loop, as its log has them; also while it runs."""
    tried = query.attempt_of(run, attempt)
    page = query.entries(context, tried, ("interval",), limit=limit, cursor=cursor)
    return answer(entries_view(page, tried.id if tried else "", interval_view))


@router.get("/{run_id}/readings", response_model=ReadingsView)
def list_run_readings(
    context: Ctx, run: OneRun, attempt: AttemptNumber = None, limit: Limit = 200, cursor: Cursor = None
) -> Response:
    """What the telemetry sampler saw; also while it runs."""
    tried = query.attempt_of(run, attempt)
    page = query.entries(context, tried, ("reading",), limit=limit, cursor=cursor)
    found = entries_view(page, tried.id if tried else "", reading_view)
    return answer(ReadingsView.of(found, reason=tried.why_thinned if tried else None))


@router.get("/{run_id}/time-series", response_model=OverTimeView)
def get_run_over_time(
    context: Ctx,
    run: OneRun,
    from_s: Annotated[float, Query(ge=0, le=_EVER_S)] = 0.0,
    to_s: Annotated[float, Query(ge=0, le=_EVER_S)] = _EVER_S,
    points: Annotated[int, Query(ge=2, le=4000, description="of a series, at most: as many as pixels")] = 800,
) -> Response:
    """How long its steps took and how busy its machines were, over its time: the least and the greatest value within
    each of so many parts of the stretch that is asked for. Nothing before the run has ended."""
    return answer(over_time_view(run.id, over_time(context, run, from_s, to_s, points)))


@router.get("/{run_id}/log", response_model=PageView[OutputView])
def list_run_output(
    context: Ctx,
    run: OneRun,
    rank: Annotated[int | None, Query(ge=0)] = None,
    stream: Literal["stdout", "stderr"] | None = None,
    offset: Annotated[int, Query(ge=0, description="bytes of each stream to leave out")] = 0,
    attempt: AttemptNumber = None,
    limit: Limit = 200,
    cursor: Cursor = None,
) -> Response:
    """What the framework printed; also while it runs. A page may be short, or empty, before the last one."""
    page = query.output(
        context,
        query.attempt_of(run, attempt),
        rank=rank,
        stream=stream,
        offset=offset,
        limit=limit,
        cursor=cursor,
    )
    return answer(page_view(page, OutputView.of))
