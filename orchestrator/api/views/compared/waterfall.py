"""Why several devices take as long as they do, as it is answered."""

from pydantic import Field

from orchestrator.analysis.cell.scaling import METHOD as RATIO
from orchestrator.analysis.s_sgd.explain.block_terms import CONFIDENCE, Estimate
from orchestrator.analysis.s_sgd.explain.cell_difference import Difference
from orchestrator.analysis.s_sgd.explain.waterfall import Part
from orchestrator.api.views.common import Quantity, View, fields_of
from orchestrator.api.views.compared.scaling import CELL, ratio_quantity
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.row import Row
from orchestrator.services.prediction.predict import Until
from orchestrator.services.result.explain import Against, Explanation
from orchestrator.services.result.more_runs import Missing

METHOD = "mean over blocks, Student's t; in pairs within an experiment, by Welch's t between two"


class WaterfallPartView(View):
    """Seconds of an iteration; null where nothing tells them: they are then in the residual."""

    name: str
    seconds: float | None
    ci_low: float | None
    ci_high: float | None
    note: str | None


class StragglerView(View):
    """The rank that computes longest, and how much longer than the mean over ranks. ``named``: beyond noise; only then
    it is a part of the iteration. ``device`` and ``node`` are null where its runs held different ones."""

    rank: int
    device: str | None
    node: str | None
    cost_s: float
    ci_low: float | None
    ci_high: float | None
    named: bool


@fields_of(Plan, *CELL)
class ExplainedCellView(View):
    """A cell, and the runs that its numbers rest on."""

    experiment_id: str
    cell_key: str
    run_ids: list[str]


class DifferencePartView(View):
    """A part of the iteration in both cells, and the other less this one; null where one of them does not tell it."""

    name: str
    seconds: float | None
    other_seconds: float | None
    difference_s: float | None
    ci_low: float | None
    ci_high: float | None


class DifferenceFromView(View):
    """By which parts the iteration of another cell differs; the last of ``parts`` is the iteration."""

    run_id: str
    cell: ExplainedCellView
    paired: bool
    parts: list[DifferencePartView]


@fields_of(Until)
class UntilView(View):
    """``nodes``: the most that reach this efficiency, null where those that were asked for do not; ``bits_per_s``: what
    the busiest link has to carry for these, null where no bandwidth does."""


@fields_of(Missing)
class MissingView(View):
    """What would tell more, and the command that would supply it; null where nothing can."""


class WaterfallView(View):
    """Where the iteration of a cell of several devices goes, against one device. ``parts`` add up to ``iteration_s``,
    the arithmetic mean over ``blocks`` blocks; each has a 95 % interval over these."""

    run_id: str
    cell: ExplainedCellView
    one_device: ExplainedCellView | None
    throughput: Quantity | None
    efficiency: Quantity | None = Field(description="over one device of the same experiment; null for another one's")
    iteration_s: float
    ci_low: float | None
    ci_high: float | None
    confidence: float
    blocks: int
    paired: bool
    source: str
    method: str
    parts: list[WaterfallPartView]
    straggler: StragglerView | None
    straggler_reason: str | None
    bottleneck: str
    reach: UntilView | None = Field(
        description="what the link between nodes would have to carry for an efficiency of 0.8, predicted; null where "
        "it does, or where no netbench or no profile of one device tells"
    )
    missing: list[MissingView]
    other: DifferenceFromView | None


def waterfall_view(told: Explanation, reach: Until | None) -> WaterfallView:
    found = told.found
    return WaterfallView(
        run_id=told.run.id,
        cell=_cell(told.row),
        one_device=_cell(told.one) if told.one else None,
        throughput=Quantity.maybe(told.rate),
        efficiency=ratio_quantity("efficiency", told.efficiency, RATIO),
        iteration_s=found.iteration.seconds,
        ci_low=found.iteration.ci_low,
        ci_high=found.iteration.ci_high,
        confidence=CONFIDENCE,
        blocks=found.blocks,
        paired=found.paired,
        source=told.source,
        method=METHOD,
        parts=[_part(part) for part in found.parts],
        straggler=_straggler(told),
        straggler_reason=told.why_no_straggler,
        bottleneck=found.bottleneck,
        reach=UntilView.maybe(reach),
        missing=[MissingView.of(one) for one in told.missing],
        other=_other(told.against) if told.against else None,
    )


def _cell(row: Row) -> ExplainedCellView:
    return ExplainedCellView.of(row.plan, experiment_id=row.experiment_id, run_ids=[run.id for run in row.basis.runs])


def _part(part: Part) -> WaterfallPartView:
    known = part.estimate or Estimate(0.0)
    seconds = part.estimate.seconds if part.estimate else None
    return WaterfallPartView(
        name=part.name, seconds=seconds, ci_low=known.ci_low, ci_high=known.ci_high, note=part.note
    )


def _straggler(told: Explanation) -> StragglerView | None:
    found = told.found.straggler
    if found is None:
        return None
    return StragglerView(
        rank=found.rank,
        device=told.held.device.id if told.held else None,
        node=told.held.node if told.held else None,
        cost_s=found.cost.seconds,
        ci_low=found.cost.ci_low,
        ci_high=found.cost.ci_high,
        named=found.named,
    )


def _other(against: Against) -> DifferenceFromView:
    parts = [_difference(part) for part in against.parts]
    return DifferenceFromView(run_id=against.run.id, cell=_cell(against.row), paired=against.paired, parts=parts)


def _difference(part: Difference) -> DifferencePartView:
    found = part.difference
    return DifferencePartView(
        name=part.name,
        seconds=part.first_s,
        other_seconds=part.second_s,
        difference_s=found.seconds if found else None,
        ci_low=found.ci_low if found else None,
        ci_high=found.ci_high if found else None,
    )
