"""How an experiment scales, as it is answered."""

from typing import Literal

from orchestrator.analysis.cell.scaling import Ratio
from orchestrator.api.views.common import Json, Quantity, View, fields_of
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.value.measurement import Measurement
from orchestrator.services.result.scaling import MissingCell, ScaledCell, Scaling

# What names a cell where it is compared over topologies.
CELL = ("model", "framework", "strategy", "topology", "fabric", "per_device_batch_size")


@fields_of(Plan, *CELL, "global_batch_size")
class ScaledCellView(View):
    """A cell that has a rate. ``group``: what it shares with those that differ in the topology only. ``speedup`` is its
    rate over that of ``baseline_cell_key``, which has one device; its interval has the noise of both. What is null has
    its ``reason``."""

    group: Json
    cell_key: str
    world_size: int
    throughput: Quantity | None
    baseline_cell_key: str | None
    is_baseline: bool
    speedup: Quantity | None
    efficiency: Quantity | None
    reason: str | None
    blocks: int
    notes: list[str]


@fields_of(MissingCell)
class MissingCellView(View):
    """A cell without a rate, by what is known of it, and why it has none."""


class ScalingView(View):
    """``kind``: weak, where each device has the same batch; strong, where the devices share one. ``items`` are
    complete: there is no second page. Groups come one after another, in each the cells of fewest devices first."""

    kind: Literal["weak", "strong"]
    scope: str | None
    method: str
    items: list[ScaledCellView]
    missing: list[MissingCellView]
    next_cursor: None = None


def scaling_view(found: Scaling) -> ScalingView:
    return ScalingView.of(found, items=[_cell(one, found) for one in found.cells])


def _cell(one: ScaledCell, found: Scaling) -> ScaledCellView:
    plan = one.plan
    return ScaledCellView.of(
        plan,
        group=one.group,
        throughput=one.rate,
        baseline_cell_key=one.baseline.cell_key if one.baseline else None,
        is_baseline=one.baseline is not None and one.baseline.cell_key == plan.cell_key,
        speedup=ratio_quantity("speedup", one.speedup, found.method, found.scope),
        efficiency=ratio_quantity("efficiency", one.efficiency, found.method, found.scope),
        reason=one.reason,
        blocks=one.speedup.blocks if one.speedup else 0,
        notes=one.notes,
    )


def ratio_quantity(name: str, ratio: Ratio | None, method: str, scope: str | None = None) -> Quantity | None:
    if ratio is None:
        return None
    return Quantity.of(
        Measurement(
            name,
            value=ratio.value,
            unit="1",
            ci_low=ratio.ci_low,
            ci_high=ratio.ci_high,
            confidence=ratio.confidence,
            n=ratio.blocks,
            scope=scope,
            method=method,
        )
    )
