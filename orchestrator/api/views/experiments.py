"""Experiments as they are answered."""

from typing import TYPE_CHECKING, Any

from orchestrator.api.views.common import Json, View, fields_of
from orchestrator.api.views.runs import PlanView
from orchestrator.domain.runs.run import Experiment, Origin, RunState

if TYPE_CHECKING:  # scipy takes a second to import, and who lists experiments needs none
    from orchestrator.services.experiment.preview import Preview


class RunCounts(View):
    """How many runs of an experiment are in each state."""

    queued: int = 0
    placing: int = 0
    running: int = 0
    collecting: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0


@fields_of(Origin)
class OriginView(View):
    """Which time of which schedule made an experiment."""


@fields_of(Experiment)
class ExperimentView(View):
    """An experiment. ``facts`` is what ``auto`` stood for when it was submitted; ``origin`` is null where a person
    submitted it."""

    name: str
    run_counts: RunCounts
    origin: OriginView | None
    spec: Json


class PlannedRun(View):
    """One run that would be made. ``nodes`` is null where it would have to wait, and ``waiting`` says for what."""

    plan: PlanView
    nodes: list[str] | None
    waiting: str | None


class LeftOutCell(View):
    """A cell of the grid that is not carried out, by what the spec says of it, and why."""

    cell: Json
    reason: str


class PreviewView(View):
    """What an experiment would run, and the cells that it leaves out. ``device_time_limit_s`` is the most it can take,
    over all devices."""

    spec: Json
    facts: Json
    n_runs: int
    plans: list[PlannedRun]
    left_out: list[LeftOutCell]
    device_time_limit_s: float
    expected_duration_s: float | None
    expected_duration_reason: str | None
    expected_half_width_ratio: float | None
    expected_half_width_reason: str | None


def experiment_view(experiment: Experiment) -> ExperimentView:
    counts: dict[str, Any] = {RunState(state).value: count for state, count in experiment.run_counts.items()}
    own = experiment.spec
    return ExperimentView.of(experiment, name=own.name, run_counts=RunCounts(**counts), spec=own.to_json())


def preview_view(preview: "Preview") -> PreviewView:
    return PreviewView.of(
        preview,
        spec=preview.spec.to_json(),
        facts=preview.facts.to_json(),
        n_runs=len(preview.runs),
        plans=[PlannedRun(plan=PlanView.of(plan), nodes=nodes, waiting=why) for plan, nodes, why in preview.runs],
        expected_duration_reason=None if preview.expected_duration_s is not None else preview.unknown,
        expected_half_width_reason=None if preview.expected_half_width_ratio is not None else preview.unknown,
    )
