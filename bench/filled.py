"""A database as a long-lived service has it: experiments whose runs ended as replayed logs did, and others in a queue.

Rows are made by the store's own functions and inserted in bulk, so that thousands of experiments take seconds. What
their runs came to is what the analysis says of real logs (``tests/replays``); only identifiers, times and plans differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from sqlalchemy import Connection

from orchestrator.db.experiment import experiments
from orchestrator.db.history import points
from orchestrator.db.reading import rows
from orchestrator.db.run import cell_rows, runs
from orchestrator.db.store import SqlStore
from orchestrator.db.tables.schema import result
from orchestrator.domain.around.access import Deed
from orchestrator.domain.around.schedule import Fire, FireState, Misfire, NewFire, Overlap, Schedule, Trigger
from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.fingerprint import fingerprint
from orchestrator.domain.asked.placement import Device, NodeShare, Placement
from orchestrator.domain.asked.spec import ExperimentSpec, parse_spec
from orchestrator.domain.expansion.sweep import expand
from orchestrator.domain.runs.run import Attempt, Experiment, ExperimentState, Run, RunState, experiment_outcome
from orchestrator.domain.value.measurement import Analysis
from orchestrator.services.clock import new_id
from orchestrator.services.experiment.submit import new_runs
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.reconcile.conclude import outcome
from tests.replays import replay

REPLAYS = ("steady_pytorch", "steady_tensorflow", "levels_pytorch", "steady_pytorch", "nan_pytorch")
OWNER = "local"
FIRST_AT = 1.7e9  # seconds since the epoch: when the oldest experiment was submitted
APART_S, DAY_S = 600.0, 86400.0
PART = 1000  # ended runs that are inserted at once
PLACE = Placement((NodeShare("n0", (Device("cpu:0", "cpu", "a cpu", (0,)),)),))


@dataclass(frozen=True)
class Ended:
    """An experiment with all that is to be inserted of it."""

    experiment: Experiment
    runs: list[Run]


def small(number: int, *, ended: bool = True) -> Ended:
    """An experiment of six runs in two cells."""
    spec = parse_spec(
        {
            "name": f"stored-{number % 7}",
            "model": ("resnet-50", "lstm-classifier")[number % 2],
            "framework": ["pytorch", "tensorflow"][: 1 + number % 2],
            "size": "small",
            "per_device_batch_size": [2, 4][: 2 - number % 2],
            "repeats": 3,
            "labels": {"night": str(number // 10), "kind": "stored"},
        }
    )
    return _experiment(spec, FIRST_AT + number * APART_S, ended_runs=6 if ended else 0)


def large(runs: int, at: float) -> Ended:
    """An experiment of ``runs`` runs in a fifth as many cells, two thirds of which have ended."""
    spec = parse_spec(
        {
            "name": "large",
            "model": "resnet-50",
            "framework": "pytorch",
            "size": "small",
            "per_device_batch_size": [1, 2, 4, 8],
            "seed": list(range(1, runs // 20 + 1)),
            "repeats": 5,
        }
    )
    return _experiment(spec, at, ended_runs=runs * 2 // 3)


def _experiment(spec: ExperimentSpec, at: float, ended_runs: int, replays: Sequence[str] = REPLAYS) -> Ended:
    facts = Facts(load_catalog_once(), "cpu", (1, 1), ())
    new = Experiment(new_id("exp"), OWNER, spec, facts.to_json(), ExperimentState.ACTIVE, at)
    queued = new_runs(new, expand(spec, facts, []), at)
    runs = [_ended(one, number, replays) if number < ended_runs else one for number, one in enumerate(queued)]
    if ended_runs < len(runs):
        return Ended(new, runs)
    state = experiment_outcome(False, [one.state for one in runs])
    return Ended(replace(new, state=state, ended_at=at + APART_S), runs)


load_catalog_once = cache(load_catalog)


@cache
def _analysis(name: str) -> Analysis:
    return replay.analysed(replay.entries_of(name))


def _ended(queued: Run, number: int, replays: Sequence[str]) -> Run:
    analysis = _analysis(replays[number % len(replays)])
    began = queued.created_at + 60.0 * (number + 1) % APART_S
    tried = Attempt(new_id("att"), queued.id, 1, "token", PLACE, began, began, began + 30.0, analysis.failure)
    return replace(
        queued,
        state=outcome(analysis.failure, attempts_made=9, cancel_requested=False),
        attempts=(tried,),
        started_at=began,
        ended_at=began + 30.0,
        failure=analysis.failure,
        analysis=analysis,
        fingerprint=fingerprint(queued.plan, analysis.circumstances),
    )


def nights(store: SqlStore, nights: int, cells: int) -> None:
    """Insert a schedule with so many nights, each an experiment of so many cells whose two runs have ended."""
    body = {"model": "resnet-50", "framework": "pytorch", "size": "small", "per_device_batch_size": 4, "repeats": 2}
    spec = parse_spec(body | {"name": "night", "seed": list(range(1, cells + 1))})
    end = FIRST_AT + nights * DAY_S
    rules = ("0 0 * * *", "UTC", body, Misfire.SKIP, 3600.0, Overlap.SKIP, 0.0, True)  # paused: nothing is due
    schedule = Schedule(new_id("sch"), "nightly", OWNER, *rules, FIRST_AT, end, None)
    store.add_schedule(schedule, None, Deed(new_id("deed"), FIRST_AT, OWNER, None, None, "schedule", schedule.id))
    for night in range(nights):
        at = FIRST_AT + night * DAY_S
        made = _experiment(spec, at, ended_runs=2 * cells, replays=("steady_pytorch",))
        fire = Fire(new_id("fir"), schedule.id, at, at, at, Trigger.CRON, FireState.SUBMITTED, None, made.experiment.id)
        store.add_manual_fire(NewFire(fire, made.experiment, made.runs), None)
        _insert_results(store, made.runs)


def fill(store: SqlStore, *, ended: int = 0, queued: int = 0, large_runs: int = 0) -> None:
    """Insert ``ended`` and ``queued`` small experiments, and a large one after them where it has any runs."""
    for first in range(0, ended + queued, 200):
        _insert(store, [small(n, ended=n < ended) for n in range(first, min(first + 200, ended + queued))])
    if large_runs:
        _insert(store, [large(large_runs, FIRST_AT + (ended + queued) * APART_S)])


def _insert(store: SqlStore, new: list[Ended]) -> None:
    for one in new:
        store.database.write(partial(experiments.add, new=experiments.prepare(one.experiment, one.runs, None)))
    _insert_results(store, [each for one in new for each in one.runs if each.state is not RunState.QUEUED])


def _insert_results(store: SqlStore, ended: list[Run]) -> None:
    for first in range(0, len(ended), PART):
        store.database.write(partial(_insert_ended, ended=ended[first : first + PART]))
    last = {(each.experiment_id, each.plan.cell_key): each.id for each in ended}
    for first in range(0, len(last), PART):
        store.database.write(partial(_keep_rows, run_ids=list(last.values())[first : first + PART]))


def _insert_ended(connection: Connection, ended: list[Run]) -> None:
    runs.INSERT_ATTEMPT.many(connection, [rows.attempt_row(tried) for each in ended for tried in each.attempts])
    connection.execute(result.insert(), [_result_row(each) for each in ended])
    for each in ended:
        points.note_workload(connection, each.id, each.fingerprint or {})


def _keep_rows(connection: Connection, run_ids: list[str]) -> None:
    """Store the results of cells, as it is done when their last run ends."""
    for run_id in run_ids:
        cell_rows.keep(connection, run_id)


def _result_row(each: Run) -> dict[str, object]:
    assert each.analysis is not None
    assert each.attempt is not None
    print_ = each.fingerprint or {}
    return {
        "run_id": each.id,
        "attempt_id": each.attempt.id,
        "analysis": rows.json_or_none(each.analysis.to_json()),
        "throughput": rows.throughput_of(each.analysis),
        "fingerprint": rows.json_or_none(dict(print_)),
        "workload_key": print_.get("workload_key"),
    }
