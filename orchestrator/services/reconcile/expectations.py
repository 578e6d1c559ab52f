"""Look up the stored runs of a cell, and ask them about its next one: how long it lasts, what history lends it."""

from collections.abc import Sequence

from orchestrator.analysis.analyse import SAME_RATES
from orchestrator.analysis.cell.prospect import Prospect, prospect
from orchestrator.domain.runs.run import Attempt, Run
from orchestrator.domain.value.measurement import Analysis
from orchestrator.services.context import Context

LOOK_BACK = 240  # completed runs of the same cell, newest first: a judgement that bounds the work


def expected_of(context: Context, run: Run, attempt: Attempt) -> Prospect:
    """Look back on the runs of the same cell that ended on the nodes of ``attempt``."""
    found = context.store.completed_of_cell(run.plan.cell_key, LOOK_BACK)
    nodes = attempt.placement.nodes
    known = [one for one in found if one.usable and one.attempt and one.attempt.placement.nodes == nodes]
    own = [one for one in known if one.experiment_id == run.experiment_id]
    own.sort(key=lambda one: one.plan.repetition)
    earlier: dict[str, list[Run]] = {}
    for one in known:
        if one.experiment_id != run.experiment_id:
            earlier.setdefault(one.experiment_id, []).append(one)
    sessions = [_analyses(runs[::-1]) for runs in earlier.values()]
    return prospect(_analyses(own), sessions, run.plan.max_measure_s)


def _analyses(runs: Sequence[Run]) -> list[Analysis]:
    """Those whose rates are this version's: numbers of other methods are not to be mixed with its own."""
    return [run.analysis for run in runs if run.analysis and run.analysis.code_version in SAME_RATES]
