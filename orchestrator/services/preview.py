"""What an experiment would run, where, and for how long, without storing anything."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from scipy import stats

from orchestrator.analysis.between_runs import CONFIDENCE
from orchestrator.domain.placement import NotNow, place
from orchestrator.domain.plan import Plan
from orchestrator.domain.repetitions import rate_of, repeats_of
from orchestrator.domain.run import Run, RunState
from orchestrator.domain.spec import ExperimentSpec
from orchestrator.domain.sweep import Facts
from orchestrator.services import submit
from orchestrator.services.context import Context
from orchestrator.services.nodes import ordered_nodes

LOOK_BACK = 200  # completed runs of a model and framework that are searched for the same cell: a judgement


@dataclass(frozen=True)
class Preview:
    """``runs`` are (plan, names of its nodes or None, why it would wait or None), as if nothing else were running.

    ``expected_*`` come from earlier completed runs of the same cells, one after another, and are None, for the reason
    ``unknown``, where a cell has none (or, for the widest half-width, fewer than two). Durations in seconds.
    """

    spec: ExperimentSpec
    facts: Facts
    runs: list[tuple[Plan, list[str] | None, str | None]]
    device_time_limit_s: float
    expected_duration_s: float | None
    expected_half_width_ratio: float | None
    unknown: str


def preview(context: Context, body: Any) -> Preview:
    """Plan what ``body`` asks for.

    Raises:
        InvalidRequest: as ``submit``.
    """
    spec, facts, plans = submit.plan(context, body)
    nodes = ordered_nodes(context)
    placed = [(plan, place(plan, nodes, {})) for plan in plans]
    earlier = {plan.cell_key: list(_earlier_runs(context, plan)) for plan in {p.cell_key: p for p in plans}.values()}
    durations = [_mean_duration_s(earlier[plan.cell_key]) for plan in plans]
    half_widths = [_half_width_ratio(runs, repeats_of(spec)) for runs in earlier.values()]
    known = [value for value in durations if value is not None]
    widths = [value for value in half_widths if value is not None]
    return Preview(
        spec=spec,
        facts=facts,
        runs=[
            (plan, None, where.reason) if isinstance(where, NotNow) else (plan, list(where.nodes), None)
            for plan, where in placed
        ],
        device_time_limit_s=math.fsum(plan.timeout_s * plan.world_size for plan in plans),
        expected_duration_s=math.fsum(known) if len(known) == len(plans) else None,
        expected_half_width_ratio=max(widths) if widths and len(widths) == len(half_widths) else None,
        unknown="not every cell has completed runs enough to judge by",
    )


def _earlier_runs(context: Context, plan: Plan) -> Iterator[Run]:
    page = context.store.runs(model=plan.model, framework=plan.framework, state=RunState.COMPLETED, limit=LOOK_BACK)
    return (run for run in page.items if run.plan.cell_key == plan.cell_key)


def _mean_duration_s(runs: list[Run]) -> float | None:
    durations = [run.ended_at - run.started_at for run in runs if run.ended_at and run.started_at]
    return fmean(durations) if durations else None


def _half_width_ratio(runs: list[Run], repeats: int) -> float | None:
    """Half of the interval that ``repeats`` runs will have, relative to the rate, if they vary as these did. None for
    a single repetition, or where fewer than two runs tell how much they vary."""
    rates = [rate for run in runs if (rate := rate_of(run))]
    if repeats < 2 or len(rates) < 2:
        return None
    return float(stats.t.ppf(0.5 + CONFIDENCE / 2, repeats - 1)) * stdev(rates) / fmean(rates) / math.sqrt(repeats)
