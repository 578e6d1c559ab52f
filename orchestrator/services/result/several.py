"""Several experiments and runs, all but the first against the first: what has to be read of them is read together."""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.analysis.cell.row import row_of
from orchestrator.domain.around.access import HIDDEN
from orchestrator.domain.words.errors import NotFound
from orchestrator.services.context import Context
from orchestrator.services.result.comparison import Sides, sides_of
from orchestrator.services.result.results import all_of_experiment


@dataclass(frozen=True)
class Compared:
    """One of them. ``series``: the key of the workload of a run whose logs tell it."""

    id: str
    name: str
    state: str
    series: str | None


@dataclass(frozen=True)
class Several:
    """``sides``: of each behind the first of ``things`` what it is against that one."""

    things: Sequence[Compared]
    sides: Sequence[Sides]


def several(context: Context, ids: Sequence[str]) -> Several:
    """Compare those of the ids of experiments and runs that stand behind the first one with it.

    Raises:
        NotFound: there is no such thing.
    """
    named = [one for one in dict.fromkeys(ids) if one.startswith("run_")]
    runs = {run.id: run for run in context.store.runs_named(named)}
    of = dict.fromkeys(runs[one].experiment_id if one in runs else one for one in ids)
    experiments = {one.id: one for one in context.store.experiments_named(list(of))}
    things, rows = [], {}
    for one in ids:
        run = runs.get(one)
        experiment = experiments[run.experiment_id if run else one]
        if experiment.owner in HIDDEN:
            raise NotFound("run" if run else "experiment", one)
        if run is None:
            things.append(Compared(one, experiment.spec.name, experiment.state, None))
        else:
            key = (run.fingerprint or {}).get("workload_key")
            name = f"{run.plan.model} {run.plan.framework}, {one}"
            things.append(Compared(one, name, run.state, key))
        if one not in rows:
            rows[one] = [row_of(experiment.spec, [run])] if run else all_of_experiment(context, one)
    return Several(things, [sides_of((ids[0], rows[ids[0]]), (one, rows[one])) for one in ids[1:]])
