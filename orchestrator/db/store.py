"""``SqlStore``: ``orchestrator.domain.ports.Store`` over SQLite and PostgreSQL. What the methods promise stands there.

Each method is one piece of work on one connection. The work itself is in the other modules of this package: one for
each kind of thing that is stored. ``reads`` and ``writes`` name it; a method that is written out here does more.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from sqlalchemy import Connection

from orchestrator.db.access import deeds as deed_rows
from orchestrator.db.access import device_events as device_rows
from orchestrator.db.access import nodes
from orchestrator.db.access import sessions as session_rows
from orchestrator.db.access import tokens as token_rows
from orchestrator.db.connection import engine as engines
from orchestrator.db.connection.databases import Database, PostgresqlDatabase, SqliteDatabase
from orchestrator.db.connection.right import Right
from orchestrator.db.connection.verbs import reads, writes
from orchestrator.db.experiment import experiments as experiment_rows
from orchestrator.db.experiment import keys
from orchestrator.db.history import predictions as prediction_rows
from orchestrator.db.history.history_part import HistoryPart
from orchestrator.db.run import alive, cell_pages, logs, lookup, probes, turns
from orchestrator.db.run import changes as change_rows
from orchestrator.db.run import profiles as profile_rows
from orchestrator.db.run import runs as run_rows
from orchestrator.db.run import time_series as time_series_rows
from orchestrator.db.schedule.schedule_part import SchedulePart
from orchestrator.db.together import imported, removal, results, thinning
from orchestrator.db.upgrade import admin
from orchestrator.domain.around.access import Deed
from orchestrator.domain.around.device_health import DeviceEvent, EventKind
from orchestrator.domain.around.server import Server
from orchestrator.domain.asked.placement import NodeState
from orchestrator.domain.ports import Store
from orchestrator.domain.runs.log import Entry, Line
from orchestrator.domain.runs.run import Experiment, ExperimentState, Run
from orchestrator.domain.runs.stored import (
    Idempotency,
)


class SqlStore(HistoryPart, SchedulePart):
    """The store of ``url``; its schema is brought up to date when it is opened. ``right``: of the server that opens it;
    given back at the end.

    Raises:
        SettingsError: ``url`` is none of SQLite or PostgreSQL, or another version of tbd wrote the database.
        StoreUnavailable: the database does not answer.
    """

    def __init__(self, url: str, right: Right | None = None) -> None:
        admin.upgrade(url)
        if right is not None:
            right.begin()
        parsed = engines.parse_url(url)
        self.database: Database
        self.database = SqliteDatabase(parsed) if engines.is_sqlite(parsed) else PostgresqlDatabase(parsed, right)
        self.right = right

    # experiments

    def add_experiment(
        self,
        experiment: Experiment,
        runs: Sequence[Run],
        idempotency: Idempotency | None = None,
        deed: Deed | None = None,
    ) -> tuple[Experiment, bool]:
        new = experiment_rows.prepare(experiment, runs, idempotency)

        def add(connection: Connection) -> tuple[Experiment, bool]:
            stored, created = experiment_rows.add(connection, new)
            deed_rows.record(connection, deed if created else None)
            return stored, created

        return self.database.write(add)

    key_used = reads(keys.used)

    def use_key(self, key: Idempotency) -> None:
        self.database.write(lambda connection: keys.take(connection, key, None))

    experiment = reads(experiment_rows.one)
    experiments_named = reads(experiment_rows.named)
    owner_of = reads(experiment_rows.owner_of)

    def _act(self, work: Callable[[Connection], bool], deed: Deed | None) -> bool:
        """Carry out ``work`` and, where it changed something, note the deed in the same transaction."""

        def act(connection: Connection) -> bool:
            done = work(connection)
            deed_rows.record(connection, deed if done else None)
            return done

        return self.database.write(act)

    def remove_experiment(self, experiment_id: str, deed: Deed | None = None) -> None:
        self._act(lambda connection: removal.begin(connection, experiment_id), deed)
        self._remove_hidden(experiment_id)

    def _remove_hidden(self, experiment_id: str) -> None:
        while not self.database.write(lambda connection: removal.part(connection, experiment_id)):
            pass

    def sweep(self) -> int:
        """Remove what imports and removals that a crash cut off have left; of how many experiments. For the server that
        begins to lead: an import that another one carries out is cut off by it, and says so."""
        found = self.database.write(removal.cut_off)
        for experiment_id in found:
            self._remove_hidden(experiment_id)
        return len(found)

    experiments = reads(experiment_rows.page)
    find = reads(lookup.find)
    idle_experiments = reads(experiment_rows.idle)
    deadlines = reads(experiment_rows.deadlines)

    def cancel_experiment(self, experiment_id: str, at: float, deed: Deed | None = None) -> None:
        self._act(lambda connection: experiment_rows.cancel(connection, experiment_id, at), deed)

    def pause_experiment(self, experiment_id: str, paused: bool, at: float, deed: Deed | None = None) -> None:
        self._act(lambda connection: experiment_rows.pause(connection, experiment_id, paused, at), deed)

    def extend_experiment(
        self, old: Experiment, new: Experiment, runs: Sequence[Run], at: float, deed: Deed | None = None
    ) -> int:
        def extend(connection: Connection) -> int:
            added = experiment_rows.extend(connection, old, new, runs, at)
            deed_rows.record(connection, deed if added or new.spec != old.spec else None)
            return added

        return self.database.write(extend)

    def end_experiment(self, experiment_id: str, state: ExperimentState, at: float) -> bool:
        if state is ExperimentState.ACTIVE:
            raise ValueError("an experiment does not end by being active")
        return self.database.write(lambda connection: experiment_rows.end(connection, experiment_id, state, at))

    def add_runs(self, runs: Sequence[Run]) -> int:
        if not runs:
            return 0
        return self.database.write(lambda connection: experiment_rows.add_runs(connection, runs))

    def import_experiment(
        self,
        experiment: Experiment,
        runs: Sequence[Run],
        logs: Mapping[tuple[str, str], Iterable[Line]],
        deed: Deed | None = None,
    ) -> bool:
        write = self.database.write
        if not write(lambda connection: imported.begin(connection, experiment, runs)):
            return False
        for part in imported.parts(logs):
            write(partial(imported.add, experiment_id=experiment.id, part=part))
        return self._act(lambda connection: imported.finish(connection, experiment, runs), deed)

    # runs

    run = reads(run_rows.one)
    runs_named = reads(run_rows.named)
    runs = reads(run_rows.page)
    runs_of = reads(experiment_rows.runs_of)
    runs_of_cell = reads(run_rows.of_cell)
    cells = reads(cell_pages.page)
    open_runs = reads(run_rows.open_runs)
    queue_heads = reads(run_rows.heads)
    queue = reads(run_rows.queue)
    completed_of_cell = reads(run_rows.completed_of_cell)
    earlier_runs = reads(run_rows.earlier)
    verdicts_of = reads(run_rows.verdicts_of)

    def cancel_run(self, run_id: str, at: float, deed: Deed | None = None) -> None:
        self._act(lambda connection: run_rows.cancel(connection, run_id, at), deed)

    set_waiting = writes(run_rows.set_waiting)
    begin_attempt = writes(run_rows.begin_attempt)
    move_run = writes(results.move)
    request_stop = writes(run_rows.request_stop)
    uses = reads(turns.uses)
    attempts_over = reads(alive.over)
    note_alive = writes(alive.note)
    conclude = writes(results.conclude)
    transfers = reads(probes.transfers)
    profiles = reads(profile_rows.read)
    time_series = reads(time_series_rows.read)
    add_time_series = writes(time_series_rows.add_missing)
    calibrations = reads(probes.calibrations)
    calibrated = reads(probes.latest)
    add_predictions = writes(prediction_rows.add)
    predictions = reads(prediction_rows.page)

    # logs

    def append_entries(self, attempt_id: str, node: str, entries: Sequence[Entry]) -> int:
        new = logs.prepare(attempt_id, node, entries)
        if not new:
            return self.last_seqs(attempt_id).get(node, 0)
        return self.database.write(lambda connection: logs.append(connection, attempt_id, node, new))

    last_seqs = reads(logs.last_seqs)
    with_old_readings = reads(thinning.old)
    thin = writes(thinning.part)
    entries = reads(logs.entries)

    # what happened

    changes = reads(change_rows.of_experiment)
    last_changes = reads(change_rows.last)
    newest_change = reads(change_rows.newest)

    # nodes

    node_orders = reads(nodes.orders)

    def order_node(self, node: str, state: NodeState | None, deed: Deed | None = None) -> None:
        if state is not None and state not in nodes.ORDERS:
            raise ValueError(f"a node is not ordered to be {state}")
        self._act(lambda connection: nodes.order(connection, node, state), deed)

    know_nodes = writes(nodes.know)
    known_nodes = reads(nodes.known)
    add_device_events = writes(device_rows.add)
    open_device_events = reads(device_rows.open_ones)
    device_events = reads(device_rows.page)

    def end_device_events(
        self,
        node: str,
        device: str,
        at: float,
        kinds: Collection[EventKind],
        noted: DeviceEvent | None = None,
        deed: Deed | None = None,
    ) -> bool:
        def end(connection: Connection) -> bool:
            ended = device_rows.end(connection, node, device, at, kinds) > 0
            if ended and noted is not None:
                device_rows.add(connection, [noted])
            return ended

        return self._act(end, deed)

    # access

    add_token = writes(token_rows.add)
    revoke_token = writes(token_rows.revoke)
    tokens = reads(token_rows.page)
    all_tokens = reads(token_rows.all_of_them)
    note_use = writes(token_rows.note_use)
    add_session = writes(session_rows.add)
    end_session = writes(session_rows.end)
    sessions = reads(session_rows.living)
    deeds = reads(deed_rows.page)
    ping = writes(nodes.beat)

    def leader(self) -> Server | None:
        return self.right.leader() if self.right is not None else None

    def leads(self) -> bool:
        return self.right is None or self.right.await_lead(0.0)

    def lost(self) -> str | None:
        return self.right.lost() if self.right is not None else None

    def close(self) -> None:
        self.database.close()
        if self.right is not None:
            self.right.close()


def _keeps_the_contract(store: SqlStore) -> Store:
    """For the type checker."""
    return store
