"""After a run has ended: does its experiment need further runs, or is it over?"""

import logging
from collections.abc import Collection, Sequence

from orchestrator.domain.around.alerts import GATE
from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.expansion.repetitions import Cell, missing
from orchestrator.domain.expansion.search import is_answer, was_found
from orchestrator.domain.expansion.sweep import expand
from orchestrator.domain.runs.run import TERMINAL, Experiment, ExperimentState, Run, RunState, experiment_outcome
from orchestrator.domain.words.errors import DamagedRow, NotFound
from orchestrator.services.context import Context
from orchestrator.services.experiment.submit import new_runs
from orchestrator.services.reconcile import confirming

log = logging.getLogger(__name__)


def review(context: Context, experiment_id: str, cell_key: str | None = None) -> bool:
    """Add the runs that are still missing, or end the experiment; whether anything changed.

    ``cell_key``: the cell of the run that has ended. As long as other runs are left only that cell is looked at:
    whether another needs more was asked when its own runs ended, and all are looked at before the experiment ends.
    """
    try:
        experiment = context.store.experiment(experiment_id)
    except (DamagedRow, NotFound) as error:  # nobody can tell what it still needs, or it was removed just now
        log.warning("%s", error)
        return False
    if experiment.state is not ExperimentState.ACTIVE:
        return False
    if all(state in TERMINAL for state in experiment.run_counts):
        return _review_whole(context, experiment)
    if GATE in experiment.facts:
        return False  # the next block begins when the last one is over
    if cell_key is None or experiment.cancel_requested or experiment.spec.device_time_budget_s is not None:
        return False  # a budget is divided among all cells, block by block: when none of their runs is left
    runs = context.store.runs_of_cell(experiment_id, cell_key)
    if runs and (runs[0].plan.search or was_found(runs[0].plan, experiment.spec)):  # what it answered decides its cell
        _give_up(context, experiment, runs)
        return _add(context, experiment, _missing(context, experiment, context.store.verdicts_of(experiment_id)))
    return _add(context, experiment, missing([Cell(runs[0].plan, runs)] if runs else [], experiment.spec))


def _review_whole(context: Context, experiment: Experiment) -> bool:
    store = context.store
    states: Collection[RunState] = experiment.run_counts
    if not experiment.cancel_requested:
        runs = store.verdicts_of(experiment.id)
        if plans := _missing(context, experiment, runs):
            return _add(context, experiment, plans)
        others = [run for run in runs if not is_answer(run, experiment.spec)]
        states = {run.state for run in others} if len(others) < len(runs) else states
    outcome = experiment_outcome(experiment.cancel_requested, states)
    return store.end_experiment(experiment.id, outcome, context.clock.now())


def _give_up(context: Context, experiment: Experiment, runs: Sequence[Run]) -> None:
    """Cancel the repetitions of a batch that have not begun, where one has shown that it does not fit."""
    if any(is_answer(run, experiment.spec) for run in runs):
        for run in runs:
            if run.state is RunState.QUEUED and not run.cancel_requested:
                context.store.cancel_run(run.id, context.clock.now())


def _missing(context: Context, experiment: Experiment, runs: Sequence[Run]) -> list[Plan]:
    if GATE in experiment.facts:
        try:
            return confirming.missing(confirming.wanted_of(experiment), runs)
        except DamagedRow as error:  # nobody can tell what it still needs
            log.warning("%s", error)
            return []
    return expand(experiment.spec, Facts.from_json(context.catalog, experiment.facts), runs)


def _add(context: Context, experiment: Experiment, plans: list[Plan]) -> bool:
    return context.store.add_runs(new_runs(experiment, plans, context.clock.now())) > 0
