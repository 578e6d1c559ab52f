"""Result rows and comparisons, as they are answered."""

from orchestrator.analysis.history import LEAST_SESSIONS
from orchestrator.api.views.common import Json, Quantity, View
from orchestrator.api.views.runs import ReasonView, ValidityView, validity_view
from orchestrator.domain.measurement import METRICS, Grade
from orchestrator.domain.plan import Plan
from orchestrator.domain.run import Run
from orchestrator.services.results import ResultRow, why_not_sound

# Runs that gave no number which a row lists with their reasons; a judgement. The others are in /experiments/{id}/runs.
MOST_LEFT_OUT = 50


class NodesAxis(View):
    """Where the experiment might run."""

    gpu_model: str | None
    names: list[str] | None


class AxesView(View):
    """Every field of the spec except labels, priority, limits and budgets, with what ``auto`` stood for."""

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
    nodes: NodesAxis
    placement: str
    mode: str
    target: float | None
    profile: list[str]


class LeftOut(View):
    """A run of the cell that has ended and that its numbers do not rest on."""

    run_id: str
    repetition: int
    reasons: list[ReasonView]


class VariationView(View):
    """Relative standard deviations of the throughput: of a run's mean within itself, between runs of one node beyond
    that, and between nodes beyond that. Null where the runs cannot tell."""

    interval_ratio: float | None
    process_ratio: float | None
    node_ratio: float | None
    nodes: int
    runs: int


class MovementView(View):
    """How far the mean of this series moved from session to session, beyond what its runs explain: the relative
    standard deviation over ``sessions`` earlier experiments on the node."""

    deviation_ratio: float
    sessions: int


class PrecisionView(View):
    """What became of ``precision_target``: the half-width that there is, and how many runs it takes in all."""

    target: float
    half_width_ratio: float | None
    met: bool
    n_wanted: int | None


class ResultRowView(View):
    """One cell. A quantity that was not measured is null, and ``reasons`` has the reason under its name.

    ``n_used`` of its ``n_runs`` runs give the numbers: the sound ones where there are four or all planned ones are
    sound, else all planned repetitions. ``grade`` says which, ``left_out`` has the others that have
    ended, the first 50 of them.
    ``cut_intervals`` of the beginning of each run are its warm-up, the same in all; ``settled`` says whether the runs
    were level after it (null where their series are not kept). ``n_scouts`` runs were too short for that cut.
    """

    experiment_id: str
    experiment_name: str
    cell_key: str
    axes: AxesView
    run_ids: list[str]
    n_runs: int
    n_used: int
    n_pending: int
    fingerprint: Json | None
    fingerprint_differs_in: list[str]
    grade: Grade
    settled: bool | None
    not_settled_because: str | None
    cut_intervals: int | None
    n_scouts: int
    validity: ValidityView
    left_out: list[LeftOut]
    throughput: Quantity | None
    step_time_s: Quantity | None
    step_time_p50_s: Quantity | None
    step_time_p90_s: Quantity | None
    step_time_p95_s: Quantity | None
    step_time_p99_s: Quantity | None
    warmup_steps: Quantity | None
    warmup_s: Quantity | None
    build_s: Quantity | None
    replica_distance_ratio: Quantity | None
    compute_utilization_ratio: Quantity | None
    profiled_utilization_ratio: Quantity | None
    sm_active_ratio: Quantity | None
    fp32_pipe_ratio: Quantity | None
    tensor_pipe_ratio: Quantity | None
    fp32_utilization_ratio: Quantity | None
    model_flops_per_s: Quantity | None
    mfu_data_sheet_ratio: Quantity | None
    mfu_calibrated_ratio: Quantity | None
    cpu_utilization_ratio: Quantity | None
    host_cpu_utilization_ratio: Quantity | None
    input_ratio: Quantity | None
    peak_memory_bytes: Quantity | None
    loss_first: Quantity | None
    loss_last: Quantity | None
    power_w: Quantity | None
    energy_per_work_j: Quantity | None
    memory_residual_ratio: Quantity | None
    kernels_other_ratio: Quantity | None
    step_input_s: Quantity | None
    step_host_to_device_s: Quantity | None
    step_forward_s: Quantity | None
    step_backward_s: Quantity | None
    step_exchange_s: Quantity | None
    step_update_s: Quantity | None
    profile_cost_s: Quantity | None
    profile_slowdown_ratio: Quantity | None
    start_up_s: Quantity | None
    variation: VariationView | None
    between_sessions: MovementView | None
    fleet: Quantity | None
    precision: PrecisionView | None
    reasons: dict[str, str]


def axes_view(plan: Plan) -> AxesView:
    planned = plan.to_json()
    names = [name for name in AxesView.model_fields if name in planned]
    nodes = NodesAxis(gpu_model=plan.gpu_model, names=list(plan.node_names) or None)
    return AxesView(**{name: planned[name] for name in names}, nodes=nodes, target=None)


def result_row_view(row: ResultRow) -> ResultRowView:
    quantities = {name: Quantity.of(row.measurements[name]) if name in row.measurements else None for name in METRICS}
    return ResultRowView(
        experiment_id=row.experiment_id,
        experiment_name=row.experiment_name,
        cell_key=row.plan.cell_key,
        axes=axes_view(row.plan),
        run_ids=[run.id for run in row.runs],
        n_runs=len(row.runs),
        n_used=row.n_used,
        settled=None if row.cut is None else row.cut.settled,
        not_settled_because=row.cut.reason if row.cut else None,
        cut_intervals=row.cut.first if row.cut else None,
        n_scouts=row.n_scouts,
        n_pending=len(row.runs) - row.n_ended,
        fingerprint=dict(row.fingerprint) if row.fingerprint else None,
        fingerprint_differs_in=list(row.differing),
        grade=row.basis.grade,
        validity=validity_view(row.validity),
        left_out=[_left_out(run) for run in row.left_out[:MOST_LEFT_OUT]],
        variation=VariationView(**row.variation.__dict__) if row.variation else None,
        between_sessions=_movement(row),
        fleet=Quantity.of(row.fleet) if row.fleet else None,
        precision=PrecisionView(**row.precision.__dict__) if row.precision else None,
        reasons=_reasons(row),
        **quantities,
    )


def _reasons(row: ResultRow) -> dict[str, str]:
    if row.movement is not None:
        return dict(row.reasons)
    text = f"fewer than {LEAST_SESSIONS} earlier sessions of this cell on the node"
    return dict(row.reasons) | {"between_sessions": text}


def _movement(row: ResultRow) -> MovementView | None:
    found = row.movement
    return MovementView(deviation_ratio=found.deviation_ratio, sessions=found.sessions) if found else None


def _left_out(run: Run) -> LeftOut:
    reasons = [ReasonView(**reason.to_json()) for reason in why_not_sound(run)]
    return LeftOut(run_id=run.id, repetition=run.plan.repetition, reasons=reasons)
