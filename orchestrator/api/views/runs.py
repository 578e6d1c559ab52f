"""Runs, their attempts and what was measured, as they are answered."""

from orchestrator.api.views.common import Json, Quantity, Time, View, maybe_rfc3339, rfc3339
from orchestrator.domain.failure import Failure
from orchestrator.domain.measurement import Analysis, Grade, Measurement, Validity
from orchestrator.domain.placement import Device
from orchestrator.domain.plan import Plan
from orchestrator.domain.run import Attempt, Run


class PlanView(View):
    """One cell of the grid and one repetition. ``key`` identifies the plan, ``cell_key`` the cell."""

    key: str
    cell_key: str
    model: str
    options: Json
    framework: str
    strategy: str
    interpreter: str
    topology: str
    fabric: str | None
    device: str
    precision: str
    per_device_batch_size: int
    global_batch_size: int
    data: str
    size: str
    seed: int
    mode: str
    gpu_model: str | None
    node_names: list[str]
    placement: str
    profile: list[str]
    max_steps: int | None
    min_measure_s: float | None
    max_measure_s: float | None
    timeout_s: float
    repetition: int


class FailureView(View):
    """Why it did not end well. ``kind`` is one of a closed list."""

    kind: str
    message: str
    ranks: list[int]
    exit_code: int | None
    signal: str | None
    stderr_tail: str
    before_first_step: bool


class DeviceView(View):
    """A GPU (its id is its UUID) or a set of CPU cores."""

    id: str
    kind: str
    name: str
    cores: list[int]
    memory_bytes: int | None


class ShareView(View):
    """The devices of one node that an attempt holds."""

    node: str
    devices: list[DeviceView]


class AttemptView(View):
    """One try at a run."""

    id: str
    number: int
    placement: list[ShareView]
    created_at: Time
    started_at: Time | None
    ended_at: Time | None
    stop_requested: str | None
    failure: FailureView | None


class ReasonView(View):
    """Why a run is not sound. ``replaceable``: it was disturbed, another run may do better; else it is broken."""

    code: str
    text: str
    replaceable: bool


class ValidityView(View):
    """How far the numbers may be believed: sound, disturbed (something else ran, and was measured apart) or broken
    (what ran was not what was asked for: there is no throughput). ``notes`` are findings that do not grade."""

    grade: Grade
    reasons: list[ReasonView]
    notes: list[str]


class RunView(View):
    """A run. ``reason`` says in words why it waits or how it ended; ``validity`` is null until its logs are judged."""

    id: str
    experiment_id: str
    state: str
    reason: str | None
    failure: FailureView | None
    cancel_requested: bool
    priority: int
    created_at: Time
    started_at: Time | None
    ended_at: Time | None
    plan: PlanView
    placement: list[ShareView] | None
    attempts: list[AttemptView]
    validity: ValidityView | None
    throughput: Quantity | None
    summary: Json | None
    fingerprint: Json | None
    code_version: str | None


class MeasurementView(View):
    """One number computed from a run's logs; ``value`` is null with a ``reason`` where it is not available."""

    metric: str
    subject: str | None
    value: float | None
    unit: str
    unit_definition: str | None
    ci_low: float | None
    ci_high: float | None
    confidence: float | None
    n: float | None
    scope: str | None
    method: str
    reason: str | None
    code_version: str


def plan_view(plan: Plan) -> PlanView:
    return PlanView(key=plan.key, cell_key=plan.cell_key, **plan.to_json())


def device_view(device: Device) -> DeviceView:
    return DeviceView(**device.to_json())


def validity_view(validity: Validity) -> ValidityView:
    return ValidityView.model_validate(validity.to_json())


def run_view(run: Run) -> RunView:
    attempt, analysis = run.attempt, run.analysis
    throughput = analysis.measurement("throughput") if analysis else None
    return RunView(
        id=run.id,
        experiment_id=run.experiment_id,
        state=run.state.value,
        reason=_reason(run),
        failure=_failure_view(run.failure),
        cancel_requested=run.cancel_requested,
        priority=run.priority,
        created_at=rfc3339(run.created_at),
        started_at=maybe_rfc3339(run.started_at),
        ended_at=maybe_rfc3339(run.ended_at),
        plan=plan_view(run.plan),
        placement=_shares(attempt) if attempt else None,
        attempts=[_attempt_view(one) for one in run.attempts],
        validity=validity_view(analysis.validity) if analysis else None,
        throughput=Quantity.of(throughput) if throughput and run.usable and throughput.value is not None else None,
        summary=dict(analysis.summary) if analysis else None,
        fingerprint=dict(run.fingerprint) if run.fingerprint else None,
        code_version=analysis.code_version if analysis else None,
    )


def measurement_view(measurement: Measurement, analysis: Analysis) -> MeasurementView:
    return MeasurementView(**measurement.to_json(), code_version=analysis.code_version)


def _reason(run: Run) -> str | None:
    if run.failure:
        return f"{run.failure.kind.value}: {run.failure.message}"
    if run.analysis and not run.analysis.validity.sound:
        return "; ".join(reason.text for reason in run.analysis.validity.reasons)
    return run.waiting


def _attempt_view(attempt: Attempt) -> AttemptView:
    return AttemptView(
        id=attempt.id,
        number=attempt.number,
        placement=_shares(attempt),
        created_at=rfc3339(attempt.created_at),
        started_at=maybe_rfc3339(attempt.started_at),
        ended_at=maybe_rfc3339(attempt.ended_at),
        stop_requested=attempt.stop_requested,
        failure=_failure_view(attempt.failure),
    )


def _shares(attempt: Attempt) -> list[ShareView]:
    return [
        ShareView(node=share.node, devices=[device_view(device) for device in share.devices])
        for share in attempt.placement.shares
    ]


def _failure_view(failure: Failure | None) -> FailureView | None:
    return FailureView(**failure.to_json()) if failure else None
