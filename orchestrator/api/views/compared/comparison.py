"""Comparisons of cells, as they are answered: in pairs within one experiment, and as the sides of two."""

import math
from typing import Literal

from orchestrator.analysis.cell.row import RATE
from orchestrator.analysis.statistics.blocks import Pair
from orchestrator.api.views.alerts import OperatorsView, operators_view
from orchestrator.api.views.common import Json, Quantity, View, fields_of
from orchestrator.api.views.results import AxesView, axes_view
from orchestrator.domain.value.measurement import Grade, Measurement
from orchestrator.services.gate.side_by_side import Told
from orchestrator.services.result.comparison import Change, ComparedCell, ComparedPair, Pairs, Side, Sides
from orchestrator.services.result.several import Compared, Several


@fields_of(Side, without=("plan",))
class SideView(View):
    """A cell of a pair: its value of the axis, that in words, and its mean rate over the ``n_runs`` compared."""

    cell_key: str


@fields_of(Pair, without=("ci_low", "ci_high", "confidence"))
class PairView(View):
    """``b`` against ``a``: cells that agree in ``group``, the other axes that have several values.

    ``ratio`` is b / a: above 1, b is faster; its interval excludes 1 exactly where there is a verdict, at the
    level at which Holm's procedure decided. ``p_holm`` is adjusted for the ``family`` of all pairs of this answer.
    ``detectable_ratio`` (0.06: 6 %) would be found with 80 % probability; ``more_runs`` of each cell would find half of
    it, or of 100 % where it is more. ``blocks`` are the repetitions that both have.
    """

    group: Json
    a: SideView
    b: SideView
    unit: str | None
    ratio: Quantity | None
    grade: Grade
    scope: str | None
    method: str
    notes: list[str]


class NotComparedView(View):
    """A cell that takes part in no verdict, and why."""

    cell_key: str
    axes: AxesView
    reason: str


@fields_of(Pairs, without=("pairs",))
class ComparisonsView(View):
    """``axes`` are those that have several values; without ``?axis=`` the first one is taken. ``items`` are complete:
    all its pairs are one family, so there is no second page."""

    items: list[PairView]
    not_compared: list[NotComparedView]
    next_cursor: None = None


def pairs_view(found: Pairs) -> ComparisonsView:
    return ComparisonsView.of(
        found,
        items=[_pair(pair) for pair in found.pairs],
        not_compared=[
            NotComparedView.of(one, cell_key=one.plan.cell_key, axes=axes_view(one.plan)) for one in found.not_compared
        ],
    )


def _pair(pair: ComparedPair) -> PairView:
    return PairView.of(
        pair.found,
        group=pair.group,
        a=SideView.of(pair.a, cell_key=pair.a.plan.cell_key),
        b=SideView.of(pair.b, cell_key=pair.b.plan.cell_key),
        unit=pair.unit,
        ratio=_ratio(pair),
        grade=pair.grade,
        scope=pair.scope,
        method=pair.method,
        notes=pair.notes,
    )


def _ratio(pair: ComparedPair) -> Quantity | None:
    found = pair.found
    if found.ratio is None:
        return None
    ratio = Measurement(
        "ratio",
        value=found.ratio,
        unit="1",
        ci_low=found.ci_low,
        ci_high=found.ci_high,
        confidence=found.confidence,
        n=found.blocks,
        scope=pair.scope,
        method=pair.method,
    )
    return Quantity.of(ratio)


@fields_of(Change)
class ChangeView(View):
    """Something of the subject or the rig that is not the same on both sides."""


@fields_of(ComparedCell, without=("plan",))
class ComparedCellView(View):
    """One cell that both sides have. ``difference`` is candidate / baseline - 1.

    ``smallest_detectable_ratio`` would be found with 80 % probability at two-sided 5 %. The verdict is that of the cell
    alone, at 5 %; ``p_holm`` is adjusted for all cells of this answer.
    """

    axes: AxesView
    metric: str
    unit: str | None
    changes: list[ChangeView]


class UnmatchedView(View):
    """A cell of one side only, and why nothing matches it."""

    side: Literal["baseline", "candidate"]
    axes: AxesView
    reason: str


class ComparisonView(View):
    """The candidate against the baseline."""

    baseline: str
    candidate: str
    items: list[ComparedCellView]
    unmatched: list[UnmatchedView]


@fields_of(Compared)
class ComparedView(View):
    """An experiment or a run. ``series``: where the history of a run's workload is found."""


class SeveralView(View):
    """``items``: of each of ``things`` behind the first what it is against that one. They are complete."""

    things: list[ComparedView]
    items: list[ComparisonView]
    next_cursor: None = None


def several_view(found: Several) -> SeveralView:
    return SeveralView(
        things=[ComparedView.of(one) for one in found.things], items=[sides_view(one) for one in found.sides]
    )


def sides_view(found: Sides) -> ComparisonView:
    return ComparisonView.of(
        found,
        items=[_cell(cell) for cell in found.cells],
        unmatched=[UnmatchedView.of(one, axes=axes_view(one.plan)) for one in found.unmatched],
    )


def _cell(cell: ComparedCell) -> ComparedCellView:
    known = cell.baseline or cell.candidate
    return ComparedCellView.of(cell, axes=axes_view(cell.plan), metric=RATE, unit=known.unit if known else None)


class SideBySideView(View):
    """What blocks of one run of each side told of a loss of ``asked_ratio``, of ``most_blocks`` at most.

    ``effect_ratio`` is candidate / baseline - 1. Its bounds are of ``slower`` a 95 % interval that knows why it
    stopped, else the repeated confidence interval; null before the first look. ``lost_blocks`` gave no number.
    ``over``: there will be no more blocks.
    """

    answer: Literal["slower", "no_such_loss", "go_on", "cannot_tell"]
    text: str
    blocks: int
    most_blocks: int
    asked_ratio: float
    effect_ratio: float | None
    ci_low: float | None
    ci_high: float | None
    lost_blocks: int
    why_lost: str | None
    over: bool
    operators: OperatorsView | None


def side_by_side_view(found: Told) -> SideBySideView:
    said = found.found
    return SideBySideView(
        answer=said.answer,
        text=said.text,
        blocks=said.blocks,
        most_blocks=found.wanted.most_blocks,
        asked_ratio=-math.expm1(-found.wanted.size),
        effect_ratio=said.effect,
        ci_low=said.low,
        ci_high=said.high,
        lost_blocks=found.n_lost,
        why_lost=found.why_lost,
        over=found.over,
        operators=operators_view(found.operators),
    )
