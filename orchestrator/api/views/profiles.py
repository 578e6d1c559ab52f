"""Profiles of a run as they are answered: memory by class, kernels, layers; and what a new analysis would change."""

from collections.abc import Sequence

from orchestrator.analysis.profile import kernels
from orchestrator.api.views.common import PageView, View, fields_of
from orchestrator.domain.value.profile import (
    GradientExchange,
    Kernel,
    KernelTable,
    Layer,
    LayerTimes,
    Profiles,
    Share,
    merged,
)
from orchestrator.services.intake.reanalyse import Difference, Reanalysis


@fields_of(Share)
class MemoryClass(View):
    """Memory of one class: its own maximum, and its share when the whole was greatest."""


class RankMemory(View):
    """Where one rank's memory went. The shares at the peak and ``residual_bytes`` add up to ``peak_bytes``; ``parts``
    are what ``dynamic`` consists of."""

    rank: int | None
    classes: dict[str, MemoryClass] | None
    parts: dict[str, MemoryClass] | None
    peak_bytes: float | None
    residual_bytes: int | None
    residual_ratio: float | None
    outside_bytes: int | None
    method: str | None
    peak_method: str | None
    steps: int | None


class MemoryView(RankMemory):
    """Memory by class: of the rank with the greatest peak, and in ``ranks`` of each. ``classes`` is null with a
    ``reason`` where the run was not profiled."""

    ranks: list[RankMemory]
    reason: str | None


@fields_of(Kernel)
class KernelRow(View):
    """A kernel, or an operator on CPU devices. ``fp32_utilization_ratio`` is null with a ``reason``."""


class KernelsView(PageView[KernelRow]):
    """The kernel table of all ranks together (calls and times added up), or of one, the longest first.

    ``kinds`` are shares of the time. ``longest_below_average``: of the kernels whose FP32 utilisation is below
    ``average_fp32_utilization_ratio``, the five longest (TBD's Tables V and VI).
    """

    reason: str | None
    ranks: list[int]
    steps: int | None
    method: str | None
    elapsed_s: float | None
    active_s: float | None
    kinds: dict[str, float]
    average_fp32_utilization_ratio: float | None
    longest_below_average: list[KernelRow]


@fields_of(Layer)
class LayerRow(View):
    """A layer, per step."""


@fields_of(GradientExchange)
class ExchangeRow(View):
    """The exchange of one bucket or key of gradients, in seconds from the start of the backward pass."""


class LayersView(PageView[LayerRow]):
    """The layers of one rank, in the order of the forward pass, and where its step went: seconds per step, null where a
    part cannot be told, with why in ``breakdown_reasons``. ``serialised``: layers were kept from overlapping.
    ``exposed_exchange_s``: in which the exchange goes on and nothing is computed."""

    reason: str | None
    rank: int | None
    ranks: list[int]
    steps: int | None
    method: str | None
    serialised: bool | None
    breakdown: dict[str, float | None] | None
    breakdown_reasons: dict[str, str]
    exposed_exchange_s: float | None
    exchanges: list[ExchangeRow]


@fields_of(kernels.KernelChange)
class KernelChangeRow(View):
    """A kernel of two runs, in seconds per step and rank; ``change``: appeared, vanished, slower, faster or equal."""

    change: str
    difference_s: float


class KernelChanges(PageView[KernelChangeRow]):
    """The kernel tables of two runs, the largest difference first."""

    reason: str | None


@fields_of(Difference)
class DifferenceView(View):
    """What today's analysis says otherwise."""


class ReanalysisView(View):
    """What is stored of a run, against what its logs say today. ``reason``: why they could not be asked."""

    run_id: str
    stored_code_version: str | None
    code_version: str | None
    differences: list[DifferenceView]
    reason: str | None


def memory_view(found: Profiles, peak: tuple[float | None, str | None], reason: str) -> MemoryView:
    """``peak``: (bytes, method) of the run's own reading, for one that was not profiled."""
    ranks = [RankMemory.of(one) for one in found.memory]
    if not ranks:
        nothing = dict.fromkeys(RankMemory.model_fields)
        return MemoryView(**nothing | {"peak_bytes": peak[0], "method": peak[1]}, ranks=[], reason=reason)
    largest = max(ranks, key=lambda one: one.peak_bytes or 0)
    return MemoryView(**vars(largest), ranks=ranks, reason=None)


def kernels_view(tables: Sequence[KernelTable], page: PageView[KernelRow], reason: str | None) -> KernelsView:
    rows = merged(tables)
    average, below = kernels.longest_below_average(rows)
    count = len(tables)
    return KernelsView(
        items=page.items,
        next_cursor=page.next_cursor,
        reason=reason,
        ranks=[table.rank for table in tables],
        steps=tables[0].steps if tables else None,
        method=tables[0].method if tables else None,
        elapsed_s=sum(table.elapsed_s for table in tables) / count if tables else None,
        active_s=sum(table.active_s for table in tables) / count if tables else None,
        kinds=kernels.by_kind(rows),
        average_fp32_utilization_ratio=average,
        longest_below_average=[KernelRow.of(row) for row in below],
    )


def layers_view(
    times: LayerTimes | None, ranks: Sequence[int], page: PageView[LayerRow], reason: str | None
) -> LayersView:
    return LayersView(
        items=page.items,
        next_cursor=page.next_cursor,
        reason=reason,
        rank=times.rank if times else None,
        ranks=list(ranks),
        steps=times.steps if times else None,
        method=times.method if times else None,
        serialised=times.serialised if times else None,
        breakdown=dict(times.breakdown) if times else None,
        breakdown_reasons=dict(times.reasons) if times else {},
        exposed_exchange_s=times.exposed_exchange_s if times else None,
        exchanges=[ExchangeRow.of(one) for one in times.exchanges] if times else [],
    )


def reanalysis_view(found: Reanalysis) -> ReanalysisView:
    return ReanalysisView(
        run_id=found.run.id,
        stored_code_version=found.stored_version,
        code_version=found.version,
        differences=[DifferenceView.of(one) for one in found.differences],
        reason=found.reason,
    )
