"""Predictions held against what was measured later: the same cell, by whomever it was run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from orchestrator.domain.around.predictions import Prediction, PredictionFilter
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.stored import EarlierRun
from orchestrator.services.context import Context

# Judgements: what a cell gave is the mean of so many of its newest runs; so many predictions of a strategy are judged.
MOST_RUNS = 20
MOST_JUDGED = 500


@dataclass(frozen=True)
class Judged:
    """``measured``: the geometric mean of the rates of ``n`` completed runs of its cell, None where there are none."""

    prediction: Prediction
    measured: float | None
    n: int

    @property
    def error_ratio(self) -> float | None:
        """By how much of what was measured the prediction is off; above 0 where it was too fast."""
        predicted = self.prediction.told.throughput.value
        return None if self.measured is None or predicted is None else predicted / self.measured - 1


def judged(context: Context, predictions: Sequence[Prediction]) -> list[Judged]:
    """Each with what was measured of its cell."""
    keys = list(dict.fromkeys(one.plan.cell_key for one in predictions))
    runs = context.store.earlier_runs(keys, MOST_RUNS)
    return [_judged(one, runs[one.plan.cell_key]) for one in predictions]


def _judged(one: Prediction, runs: Sequence[EarlierRun]) -> Judged:
    rates = [] if _is_what_if(one) else [math.log(run.throughput) for run in runs if run.throughput]
    return Judged(one, math.exp(fmean(rates)) if rates else None, len(rates))


def errors(context: Context, plan: Plan, beside: str | None) -> list[float]:
    """The logarithms of predicted over measured of the newest predictions of the kind of ``plan``: of each cell, which
    counts once, the newest.

    Of a kind are those of its strategy that were made alike: of one device or of several, as to predict one is easier;
    from exchanges that were timed ``beside`` the same; replays or trainings. One that rests on runs of its own cell
    tells nothing.
    """
    wanted = PredictionFilter(framework=plan.framework, strategy=plan.strategy)
    newest: dict[str, Prediction] = {}
    for one in context.store.predictions(wanted, limit=MOST_JUDGED).items:
        if _is_alike(context, one, plan, beside):
            newest.setdefault(one.plan.cell_key, one)
    ratios = [one.error_ratio for one in judged(context, list(newest.values()))]
    return [math.log1p(ratio) for ratio in ratios if ratio is not None]


def _is_alike(context: Context, one: Prediction, plan: Plan, beside: str | None) -> bool:
    rests = one.told.rests_on
    of_itself = one.plan.world_size == 1 and rests.profiled_batch == one.plan.per_device_batch_size
    if of_itself or _is_what_if(one) or _replays(context, one.plan) != _replays(context, plan):
        return False
    return (one.plan.world_size > 1) == (plan.world_size > 1) and rests.beside == beside


def _is_what_if(one: Prediction) -> bool:
    """Whether it is of a fabric that nobody has: no run of its cell is what it spoke of."""
    return one.told.rests_on.fabric is not None


def _replays(context: Context, plan: Plan) -> bool:
    model = context.catalog.models.get(plan.model)
    return model is not None and model.replays is not None
