"""Result rows and comparisons, as they are answered."""

from typing import Any, get_type_hints

from orchestrator.analysis.cell.lending import LEAST_SESSIONS
from orchestrator.api.views.common import Json, Quantity, View, fields_of, with_fields
from orchestrator.api.views.runs import ReasonView, ValidityView
from orchestrator.domain.asked.fields import FIELDS
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.row import Precision, Row, why_not_sound
from orchestrator.domain.runs.run import Run
from orchestrator.domain.value.measurement import METRICS
from orchestrator.domain.value.variation import Components, Movement

# Runs that gave no number which a row lists with their reasons; a judgement. The others are in /experiments/{id}/runs.
MOST_LEFT_OUT = 50


class NodesAxis(View):
    """Where the experiment might run."""

    gpu_model: str | None
    names: list[str] | None
    devices: list[str] | None


_HINTS = get_type_hints(Plan) | {"options": Json, "topology": str, "nodes": NodesAxis, "profile": list[str]}
_TOLD = tuple(field.name for field in FIELDS if field.told)


@with_fields({name: _HINTS[name] for name in _TOLD})
class AxesView(View):
    """Every field of the spec except labels, priority, limits and budgets, with what ``auto`` stood for."""


class LeftOut(View):
    """A run of the cell that has ended and that its numbers do not rest on."""

    run_id: str
    repetition: int
    reasons: list[ReasonView]


@fields_of(Components)
class VariationView(View):
    """Relative standard deviations of the throughput: of a run's mean within itself, between runs of one node beyond
    that, and between nodes beyond that. Null where the runs cannot tell."""


@fields_of(Movement, "deviation_ratio", "sessions")
class MovementView(View):
    """How far the mean of this series moved from session to session, beyond what its runs explain: the relative
    standard deviation over ``sessions`` earlier experiments on the node."""


@fields_of(Precision)
class PrecisionView(View):
    """What became of ``precision_target``: the half-width that there is, and how many runs it takes in all."""


@with_fields(dict.fromkeys(METRICS, Quantity | None))
@fields_of(Row, "experiment_id", "experiment_name", "run_ids", "n_scouts", "fingerprint", "grade", "fleet", "reasons")
class ResultRowView(View):
    """One cell. A quantity that was not measured is null, and ``reasons`` has the reason under its name.

    ``n_used`` of its ``n_runs`` runs give the numbers: the sound ones where there are four or all planned ones are
    sound, else all planned repetitions. ``grade`` says which, ``left_out`` has the others that have
    ended, the first 50 of them.
    ``cut_intervals`` of the beginning of each run are its warm-up, the same in all; ``settled`` says whether the runs
    were level after it (null where their series are not kept). ``n_scouts`` runs were too short for that cut.
    """

    cell_key: str
    axes: AxesView
    n_runs: int
    n_used: int
    n_pending: int
    fingerprint_differs_in: list[str]
    settled: bool | None
    not_settled_because: str | None
    cut_intervals: int | None
    validity: ValidityView
    left_out: list[LeftOut]
    variation: VariationView | None
    between_sessions: MovementView | None
    precision: PrecisionView | None


def axes_view(plan: Plan) -> AxesView:
    named = {"names": list(plan.node_names) or None, "devices": list(plan.device_ids) or None}
    nodes = NodesAxis(gpu_model=plan.gpu_model, **named)
    told = {name: nodes if name == "nodes" else plan.told(name) for name in _TOLD}
    return AxesView(**told)


def result_row_view(row: Row) -> ResultRowView:
    quantities: dict[str, Any] = {metric: Quantity.maybe(row.measurements.get(metric)) for metric in METRICS}
    return ResultRowView.of(
        row,
        cell_key=row.plan.cell_key,
        axes=axes_view(row.plan),
        n_runs=len(row.runs),
        settled=None if row.cut is None else row.cut.settled,
        not_settled_because=row.cut.reason if row.cut else None,
        cut_intervals=row.cut.first if row.cut else None,
        n_pending=len(row.runs) - row.n_ended,
        fingerprint=dict(row.fingerprint) if row.fingerprint else None,
        fingerprint_differs_in=list(row.differing),
        left_out=[_left_out(run) for run in row.left_out[:MOST_LEFT_OUT]],
        between_sessions=row.movement,
        reasons=_reasons(row),
        **quantities,
    )


def _reasons(row: Row) -> dict[str, str]:
    if row.movement is not None:
        return dict(row.reasons)
    text = f"fewer than {LEAST_SESSIONS} earlier sessions of this cell on the node"
    return dict(row.reasons) | {"between_sessions": text}


def _left_out(run: Run) -> LeftOut:
    reasons = [ReasonView.of(reason) for reason in why_not_sound(run)]
    return LeftOut(run_id=run.id, repetition=run.plan.repetition, reasons=reasons)
