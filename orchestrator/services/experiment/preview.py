"""What an experiment would run, where, and for how long, without storing anything."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev
from typing import Any

from scipy import special

from orchestrator.analysis.cell.between_runs import CONFIDENCE
from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.placement import Held, NotNow, offer, place
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.expansion.bisection import most_left
from orchestrator.domain.expansion.repetitions import repeats_of
from orchestrator.domain.expansion.sweep import LeftOut, left_out
from orchestrator.domain.runs.stored import EarlierRun
from orchestrator.domain.runs.wanted_precision import upper_side
from orchestrator.services.context import Context
from orchestrator.services.experiment import submit
from orchestrator.services.facts.nodes import ordered_nodes

LOOK_BACK = 20  # completed runs of a cell, the newest ones, that it is judged by: a judgement


@dataclass(frozen=True)
class Preview:
    """``left_out`` are the cells that no run is of. ``runs`` are (plan, names of its nodes or None, why it would wait
    or None), as if nothing else were running.

    ``expected_*`` come from earlier completed runs of the same cells, one after another, and are None, for the reason
    ``unknown``, where a cell has none (or, for the widest half-width, fewer than two). Durations in seconds.
    """

    spec: ExperimentSpec
    facts: Facts
    left_out: list[LeftOut]
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
    asked = dict.fromkeys((plan.needs, plan.repetition) for plan in plans)
    offers = {needs: offer(needs, nodes) for needs, _ in asked}
    places = {(needs, block): place(offers[needs], Held(), block) for needs, block in asked}
    earlier = context.store.earlier_runs(list(dict.fromkeys(plan.cell_key for plan in plans)), LOOK_BACK)
    mean_s = {cell: _mean_duration_s(runs) for cell, runs in earlier.items()}
    durations = [None if plan.search else mean_s[plan.cell_key] for plan in plans]
    half_widths = [_half_width_ratio(runs, repeats_of(spec)) for runs in earlier.values()]
    known = [value for value in durations if value is not None]
    widths = [value for value in half_widths if value is not None]
    return Preview(
        spec=spec,
        facts=facts,
        runs=[
            (plan, None, where.reason) if isinstance(where, NotNow) else (plan, list(where.nodes), None)
            for plan in plans
            for where in [places[plan.needs, plan.repetition]]
        ],
        left_out=left_out(spec, facts),
        device_time_limit_s=math.fsum(plan.timeout_s * plan.world_size * _most_runs(plan, spec) for plan in plans),
        expected_duration_s=math.fsum(known) if len(known) == len(plans) else None,
        expected_half_width_ratio=max(widths) if widths and len(widths) == len(half_widths) else None,
        unknown="not every cell has completed runs enough to judge by",
    )


def _most_runs(plan: Plan, spec: ExperimentSpec) -> int:
    """How many runs may follow from ``plan``, itself among them: a search for the largest batch begins with a single
    try, and ends with the repetitions of what it has found. What does not fit when it is measured is not foreseen."""
    return most_left({}) + repeats_of(spec) if plan.search else 1


def _mean_duration_s(runs: Sequence[EarlierRun]) -> float | None:
    durations = [run.duration_s for run in runs if run.duration_s is not None]
    return fmean(durations) if durations else None


def _half_width_ratio(runs: Sequence[EarlierRun], repeats: int) -> float | None:
    """How far above the rate the interval of ``repeats`` runs will reach, over the rate, if they vary as these did.
    None for a single repetition, or where fewer than two runs tell how much they vary."""
    rates = [math.log(run.throughput) for run in runs if run.throughput]
    if repeats < 2 or len(rates) < 2:
        return None
    return upper_side(_quantile(repeats) * stdev(rates) / math.sqrt(repeats))


@cache
def _quantile(repeats: int) -> float:
    return float(special.stdtrit(repeats - 1, 0.5 + CONFIDENCE / 2))
