"""Comparisons, as they are answered."""

from typing import Literal

from orchestrator.analysis.cell.row import RATE
from orchestrator.api.views.common import Quantity, View, fields_of
from orchestrator.api.views.results import AxesView, axes_view
from orchestrator.services.result.compare import Change, ComparedCell, Comparison


@fields_of(Change)
class ChangeView(View):
    """Something of the subject or the rig that is not the same on both sides."""


class ComparedCellView(View):
    """One cell that both sides have. ``difference`` is candidate / baseline - 1.

    ``smallest_detectable_ratio`` would be found with 80 % probability at two-sided 5 %.
    """

    axes: AxesView
    metric: str
    unit: str | None
    verdict: Literal["slower", "faster", "cannot_tell"]
    baseline: Quantity | None
    candidate: Quantity | None
    difference: Quantity | None
    smallest_detectable_ratio: float | None
    text: str
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


def comparison_view(comparison: Comparison) -> ComparisonView:
    return ComparisonView(
        baseline=comparison.baseline,
        candidate=comparison.candidate,
        items=[_cell(cell) for cell in comparison.cells],
        unmatched=[
            UnmatchedView(side=one.side, axes=axes_view(one.plan), reason=one.reason) for one in comparison.unmatched
        ],
    )


def _cell(cell: ComparedCell) -> ComparedCellView:
    known = cell.baseline or cell.candidate
    return ComparedCellView(
        axes=axes_view(cell.plan),
        metric=RATE,
        unit=known.unit if known else None,
        verdict=cell.verdict,
        baseline=Quantity.maybe(cell.baseline),
        candidate=Quantity.maybe(cell.candidate),
        difference=Quantity.maybe(cell.difference),
        smallest_detectable_ratio=cell.smallest_detectable_ratio,
        text=cell.text,
        changes=[ChangeView.of(one) for one in cell.changes],
    )
