"""Runs, their attempts and what was measured, as they are answered."""

from typing import Annotated

from pydantic import BeforeValidator

from orchestrator.api.views.common import Json, Quantity, View, fields_of
from orchestrator.domain.asked.placement import Device, NodeShare
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.device_time import DeviceTime, of_attempt
from orchestrator.domain.runs.outlook import Outlook
from orchestrator.domain.runs.run import Attempt, Run
from orchestrator.domain.value.failure import Failure
from orchestrator.domain.value.measurement import Grade, Measurement, Reason


@fields_of(Plan)
class PlanView(View):
    """One cell of the grid and one repetition. ``key`` identifies the plan, ``cell_key`` the cell."""

    key: str
    cell_key: str
    options: Annotated[Json, BeforeValidator(dict)]
    pins: Annotated[Json, BeforeValidator(dict)]


@fields_of(Failure)
class FailureView(View):
    """Why it did not end well. ``kind`` is one of a closed list."""


@fields_of(Device)
class DeviceView(View):
    """A GPU (its id is its UUID) or a set of CPU cores."""


@fields_of(NodeShare)
class ShareView(View):
    """The devices of one node that an attempt holds."""

    devices: list[DeviceView]


@fields_of(Attempt, without=("run_id", "token"))
class AttemptView(View):
    """One try at a run."""

    placement: Annotated[list[ShareView], BeforeValidator(lambda placement: placement.shares)]
    failure: FailureView | None


@fields_of(Reason)
class ReasonView(View):
    """Why a run is not sound. ``replaceable``: it was disturbed, another run may do better; else it is broken."""


class ValidityView(View):
    """How far the numbers may be believed: sound, disturbed (something else ran, and was measured apart) or broken
    (what ran was not what was asked for: there is no throughput). ``notes`` are findings that do not grade; of a cell
    those about which one can do something."""

    grade: Grade
    reasons: list[ReasonView]
    notes: list[str]


@fields_of(DeviceTime)
class DeviceTimeView(View):
    """Where the time of each of its devices went, in seconds; ``timed_ratio`` is the share of timed steps."""

    timed_ratio: float | None


@fields_of(Outlook)
class OutlookView(View):
    """What a queued run waits for. ``before``: how many runs come first by turns; ``at_least``: more were not counted.
    ``first``: whose turn is next. ``kept``: what is kept for this run until the runs ``awaited`` have ended;
    ``starts_at``: by when these will have, by ``earlier_runs`` of their cells, else by their ``timeout_s``
    (``evidence``); null: not known, as nothing is kept for it."""

    kept: list[ShareView]


@fields_of(Run, without=("paused", "waiting", "analysis", "owner"))
class RunView(View):
    """A run. ``reason`` says in words why it waits or how it ended; ``validity`` is null until its logs are judged;
    ``outlook`` of one that is queued only where it is asked for by its id;
    ``may_have_run_twice``: an attempt that was taken for dead still ran when the next one had begun."""

    reason: str | None
    failure: FailureView | None
    plan: PlanView
    placement: list[ShareView] | None
    attempts: list[AttemptView]
    validity: ValidityView | None
    may_have_run_twice: bool
    throughput: Quantity | None
    device_time: DeviceTimeView | None
    summary: Json | None
    code_version: str | None
    outlook: OutlookView | None = None


@fields_of(Measurement)
class MeasurementView(View):
    """One number computed from a run's logs; ``value`` is null with a ``reason`` where it is not available."""

    code_version: str


def run_view(run: Run, outlook: Outlook | None = None) -> RunView:
    analysis = run.analysis
    throughput = analysis.measurement("throughput") if analysis else None
    attempts = [AttemptView.of(one) for one in run.attempts]
    return RunView.of(
        run,
        reason=_reason(run),
        placement=attempts[-1].placement if attempts else None,
        attempts=attempts,
        throughput=throughput if throughput and run.usable and throughput.value is not None else None,
        device_time=_device_time(run),
        summary=analysis.summary if analysis else None,
        fingerprint=dict(run.fingerprint) if run.fingerprint else None,
        code_version=analysis.code_version if analysis else None,
        outlook=OutlookView.maybe(outlook),
    )


def measurement_view(measurement: Measurement, code_version: str) -> MeasurementView:
    return MeasurementView.of(measurement.to_json() | {"code_version": code_version})


def _device_time(run: Run) -> DeviceTime | None:
    told = run.analysis.summary.get("device_time") if run.analysis else None
    last = run.attempt
    return of_attempt(told, last.ended_at - last.created_at if last and last.ended_at else None)


def _reason(run: Run) -> str | None:
    if run.failure:
        return f"{run.failure.kind.value}: {run.failure.message}"
    if run.validity and not run.validity.sound:
        return "; ".join(reason.text for reason in run.validity.reasons)
    return run.waiting
