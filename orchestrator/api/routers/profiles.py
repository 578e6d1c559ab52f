"""What the profiling phases of a run have found, its timeline, and what today's analysis would say of it."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from orchestrator.analysis.profile import kernels
from orchestrator.api.requests import MAX_PAGE, Ctx, Cursor, WholeLimit
from orchestrator.api.routers.runs import AttemptNumber, OneRun
from orchestrator.api.views.common import answer, page_of
from orchestrator.api.views.profiles import (
    KernelChangeRow,
    KernelChanges,
    KernelRow,
    KernelsView,
    LayerRow,
    LayersView,
    MemoryView,
    ReanalysisView,
    kernels_view,
    layers_view,
    memory_view,
    reanalysis_view,
)
from orchestrator.domain.value.profile import KernelTable, LayerTimes, merged
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.services.experiment import query
from orchestrator.services.intake.reanalyse import reanalyse
from orchestrator.services.result import profiles
from workers.trainer.protocol import to_json

router = APIRouter(prefix="/runs", tags=["runs"])

Rank = Annotated[int | None, Query(ge=0, description="of this rank")]


@router.get("/{run_id}/memory", response_model=MemoryView)
def get_run_memory(context: Ctx, run: OneRun) -> Response:
    """Memory by class, where the run was profiled; the peak in any case."""
    found = profiles.profiles(context, run)
    peak = run.analysis.measurement("peak_memory_bytes") if run.analysis else None
    of_run = (peak.value, peak.method) if peak else (None, None)
    return answer(memory_view(found, of_run, profiles.why_none(run, found, "memory")))


@router.get("/{run_id}/kernels", response_model=KernelsView)
def list_run_kernels(
    context: Ctx,
    run: OneRun,
    rank: Rank = None,
    kind: Annotated[str | None, Query(description="only kernels of this kind, such as convolution")] = None,
    limit: WholeLimit = MAX_PAGE,
    cursor: Cursor = None,
) -> Response:
    """The kernel table, where the run was profiled: all ranks together, or one."""
    found = profiles.profiles(context, run)
    tables = [table for table in found.kernels if rank in (None, table.rank)]
    _check_rank(rank, found.kernels, tables)
    rows = [row for row in merged(tables) if kind in (None, row.kind)]
    reason = None if tables else profiles.why_none(run, found, "kernels")
    return answer(kernels_view(tables, page_of(rows, lambda row: row.name, KernelRow.of, limit, cursor), reason))


@router.get("/{run_id}/kernels/changes", response_model=KernelChanges)
def list_kernel_changes(
    context: Ctx,
    run: OneRun,
    baseline: Annotated[str, Query(description="the run to compare with")],
    limit: WholeLimit = MAX_PAGE,
    cursor: Cursor = None,
) -> Response:
    """The kernel table of the run against that of another one: appeared, vanished, slower, faster."""
    before = query.run(context, baseline)
    found = {one.id: profiles.profiles(context, one) for one in (before, run)}
    without = [one for one in (before, run) if not found[one.id].kernels]
    if without:
        one = without[0]
        return answer(KernelChanges(items=[], reason=f"{one.id}: {profiles.why_none(one, found[one.id], 'kernels')}"))
    changes = kernels.difference(found[before.id].kernels, found[run.id].kernels)
    page = page_of(changes, lambda one: one.name, KernelChangeRow.of, limit, cursor)
    return answer(KernelChanges(items=page.items, next_cursor=page.next_cursor, reason=None))


@router.get("/{run_id}/layers", response_model=LayersView)
def list_run_layers(
    context: Ctx, run: OneRun, rank: Rank = None, limit: WholeLimit = MAX_PAGE, cursor: Cursor = None
) -> Response:
    """Times of the layers and the breakdown of a step, where the run was profiled: of the first rank, or of one."""
    found = profiles.profiles(context, run)
    chosen = [times for times in found.layers if rank in (None, times.rank)]
    _check_rank(rank, found.layers, chosen)
    times = chosen[0] if chosen else None
    numbered = list(enumerate(times.rows)) if times else []
    page = page_of(numbered, lambda item: str(item[0]), lambda item: LayerRow.of(item[1]), limit, cursor)
    reason = None if times else profiles.why_none(run, found, "layers")
    return answer(layers_view(times, [one.rank for one in found.layers], page, reason))


def _check_rank(rank: int | None, whole: Sequence[KernelTable | LayerTimes], chosen: Sequence[Any]) -> None:
    if rank is not None and whole and not chosen:
        there = ", ".join(str(one.rank) for one in whole)
        raise InvalidRequest([Problem("/rank", f"there is no profile of rank {rank}; there are those of {there}")])


@router.get("/{run_id}/trace")
def get_run_trace(context: Ctx, run: OneRun, attempt: AttemptNumber = None) -> Response:
    """The timeline of the run for Perfetto or chrome://tracing, in Chrome's trace event format: steps, kernels,
    exchanges and telemetry of all ranks on one clock. Also while it runs."""
    found = profiles.run_trace(context, query.attempt_of(run, attempt))
    headers = {"Content-Disposition": f'attachment; filename="{run.id}.trace.json"'}
    content = to_json(found)
    return Response(content, headers=headers, media_type="application/json")


@router.get("/{run_id}/reanalysis", response_model=ReanalysisView)
def get_run_reanalysis(context: Ctx, run: OneRun) -> Response:
    """Today's analysis over the stored logs of the run: what of the stored results it would change. Changes nothing."""
    return answer(reanalysis_view(reanalyse(context, run)))
