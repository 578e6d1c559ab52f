"""``SqlStore``: ``orchestrator.domain.ports.Store`` over SQLite and PostgreSQL. What the methods promise stands there.

Each method is one piece of work on one connection. The work itself is in the other modules of this package: one for
each kind of thing that is stored.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from sqlalchemy import Connection

from orchestrator.db.access import deeds, nodes, tokens
from orchestrator.db.connection import engine as engines
from orchestrator.db.connection.databases import Database, PostgresqlDatabase, SqliteDatabase
from orchestrator.db.connection.right import Right
from orchestrator.db.experiment import experiments, keys
from orchestrator.db.history.history_part import HistoryPart
from orchestrator.db.history.imported_points import ImportedPart
from orchestrator.db.run import calibrations, cell_pages, changes, logs, lookup, profiles, runs, transfers
from orchestrator.db.schedule.schedule_part import SchedulePart
from orchestrator.db.together import imported, removal, results
from orchestrator.db.upgrade import admin
from orchestrator.domain.around.access import Deed, Token
from orchestrator.domain.asked.placement import NodeState
from orchestrator.domain.ports import Store
from orchestrator.domain.runs.filters import CalibrationFilter, CellFilter, ExperimentFilter, RunFilter, TransferFilter
from orchestrator.domain.runs.log import Entry, Line
from orchestrator.domain.runs.run import Attempt, Experiment, ExperimentState, Run, RunState, transition
from orchestrator.domain.runs.stored import (
    Change,
    EarlierRun,
    Found,
    Idempotency,
    OpenRuns,
    Page,
    StoredCalibration,
    StoredCell,
    StoredTransfer,
)
from orchestrator.domain.value.calibration import DeviceKey
from orchestrator.domain.value.failure import Failure
from orchestrator.domain.value.measurement import Analysis
from orchestrator.domain.value.profile import Profiles


class SqlStore(HistoryPart, ImportedPart, SchedulePart):
    """The store of ``url``; its schema is brought up to date when it is opened. ``right``: of the server that opens it;
    given back at the end.

    Raises:
        SettingsError: ``url`` is none of SQLite or PostgreSQL, or a newer version of tbd wrote the database.
        StoreUnavailable: the database does not answer.
    """

    def __init__(self, url: str, right: Right | None = None) -> None:
        admin.upgrade(url)
        if right is not None:
            right.begin()
        parsed = engines.parse_url(url)
        self.database: Database
        self.database = SqliteDatabase(parsed) if engines.is_sqlite(parsed) else PostgresqlDatabase(parsed, right)
        self._right = right

    # experiments

    def add_experiment(
        self,
        experiment: Experiment,
        runs: Sequence[Run],
        idempotency: Idempotency | None = None,
        deed: Deed | None = None,
    ) -> tuple[Experiment, bool]:
        new = experiments.prepare(experiment, runs, idempotency)

        def add(connection: Connection) -> tuple[Experiment, bool]:
            stored, created = experiments.add(connection, new)
            deeds.record(connection, deed if created else None)
            return stored, created

        return self.database.write(add)

    def key_used(self, key: Idempotency) -> bool:
        return self.database.read(lambda connection: keys.used(connection, key))

    def use_key(self, key: Idempotency) -> None:
        self.database.write(lambda connection: keys.take(connection, key, None))

    def experiment(self, experiment_id: str) -> Experiment:
        return self.database.read(lambda connection: experiments.one(connection, experiment_id))

    def owner_of(self, experiment_id: str) -> str:
        return self.database.read(lambda connection: experiments.owner_of(connection, experiment_id))

    def _act(self, work: Callable[[Connection], bool], deed: Deed | None) -> bool:
        """Carry out ``work`` and, where it changed something, note the deed in the same transaction."""

        def act(connection: Connection) -> bool:
            done = work(connection)
            deeds.record(connection, deed if done else None)
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
        has the right to decide, before it serves: those of others would be cut off by it."""
        found = self.database.write(removal.cut_off)
        for experiment_id in found:
            self._remove_hidden(experiment_id)
        return len(found)

    def experiments(
        self, wanted: ExperimentFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Experiment]:
        return self.database.read(
            lambda connection: experiments.page(connection, wanted or ExperimentFilter(), limit, cursor)
        )

    def find(self, text: str, *, limit: int = 50) -> Sequence[Found]:
        return self.database.read(lambda connection: lookup.find(connection, text, limit))

    def idle_experiments(self) -> Sequence[str]:
        return self.database.read(experiments.idle)

    def cancel_experiment(self, experiment_id: str, at: float, deed: Deed | None = None) -> None:
        self._act(lambda connection: experiments.cancel(connection, experiment_id, at), deed)

    def pause_experiment(self, experiment_id: str, paused: bool, at: float, deed: Deed | None = None) -> None:
        self._act(lambda connection: experiments.pause(connection, experiment_id, paused, at), deed)

    def extend_experiment(
        self, old: Experiment, new: Experiment, runs: Sequence[Run], at: float, deed: Deed | None = None
    ) -> int:
        def extend(connection: Connection) -> int:
            added = experiments.extend(connection, old, new, runs, at)
            deeds.record(connection, deed if added or new.spec != old.spec else None)
            return added

        return self.database.write(extend)

    def end_experiment(self, experiment_id: str, state: ExperimentState, at: float) -> bool:
        if state is ExperimentState.ACTIVE:
            raise ValueError("an experiment does not end by being active")
        return self.database.write(lambda connection: experiments.end(connection, experiment_id, state, at))

    def add_runs(self, runs: Sequence[Run]) -> int:
        if not runs:
            return 0
        return self.database.write(lambda connection: experiments.add_runs(connection, runs))

    def import_run(
        self, experiment: Experiment, run: Run, logs: Mapping[str, Iterable[Line]], deed: Deed | None = None
    ) -> bool:
        write = self.database.write
        if not write(lambda connection: imported.begin(connection, experiment, run)):
            return False
        for part in imported.parts(run, logs):
            write(partial(imported.add, part=part))
        return self._act(lambda connection: imported.finish(connection, experiment, run), deed)

    # runs

    def run(self, run_id: str) -> Run:
        return self.database.read(lambda connection: runs.one(connection, run_id))

    def runs(self, wanted: RunFilter | None = None, *, limit: int = 50, cursor: str | None = None) -> Page[Run]:
        return self.database.read(lambda connection: runs.page(connection, wanted or RunFilter(), limit, cursor))

    def runs_of(self, experiment_id: str) -> Sequence[Run]:
        return self.database.read(lambda connection: experiments.runs_of(connection, experiment_id))

    def runs_of_cell(self, experiment_id: str, cell_key: str) -> Sequence[Run]:
        return self.database.read(lambda connection: runs.of_cell(connection, experiment_id, cell_key))

    def cells(
        self, wanted: CellFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[StoredCell]:
        return self.database.read(lambda connection: cell_pages.page(connection, wanted or CellFilter(), limit, cursor))

    def open_runs(self, most_cancelled: int) -> OpenRuns:
        return self.database.read(lambda connection: runs.open_runs(connection, most_cancelled))

    def queue_heads(self, most: int) -> Sequence[Run]:
        return self.database.read(lambda connection: runs.heads(connection, most))

    def completed_of_cell(self, cell_key: str, most: int) -> Sequence[Run]:
        return self.database.read(lambda connection: runs.completed_of_cell(connection, cell_key, most))

    def earlier_runs(self, cell_keys: Sequence[str], most: int) -> dict[str, list[EarlierRun]]:
        return self.database.read(lambda connection: {key: runs.earlier(connection, key, most) for key in cell_keys})

    def verdicts_of(self, experiment_id: str) -> Sequence[Run]:
        return self.database.read(lambda connection: runs.verdicts_of(connection, experiment_id))

    def cancel_run(self, run_id: str, at: float, deed: Deed | None = None) -> None:
        self._act(lambda connection: runs.cancel(connection, run_id, at), deed)

    def set_waiting(self, needs: str, reason: str) -> None:
        self.database.write(lambda connection: runs.set_waiting(connection, needs, reason))

    def begin_attempt(self, run_id: str, attempt: Attempt) -> bool:
        return self.database.write(lambda connection: runs.begin_attempt(connection, run_id, attempt))

    def move_run(
        self, run_id: str, expected: RunState, to: RunState, *, at: float, failure: Failure | None = None
    ) -> bool:
        transition(expected, to)
        return self.database.write(
            lambda connection: runs.move(connection, run_id, expected, to, at=at, failure=failure)
        )

    def request_stop(self, attempt_id: str, reason: str) -> None:
        self.database.write(lambda connection: runs.request_stop(connection, attempt_id, reason))

    def conclude(
        self,
        run_id: str,
        to: RunState,
        *,
        at: float,
        failure: Failure | None = None,
        analysis: Analysis | None = None,
        fingerprint: Mapping[str, object] | None = None,
    ) -> bool:
        transition(RunState.COLLECTING, to)
        return self.database.write(
            lambda connection: results.conclude(
                connection, run_id, to, at=at, failure=failure, analysis=analysis, fingerprint=fingerprint
            )
        )

    def transfers(
        self, wanted: TransferFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[StoredTransfer]:
        return self.database.read(
            lambda connection: transfers.page(connection, wanted or TransferFilter(), limit, cursor)
        )

    def profiles(self, run_id: str) -> Profiles:
        return self.database.read(lambda connection: profiles.read(connection, run_id))

    def calibrations(
        self, wanted: CalibrationFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[StoredCalibration]:
        return self.database.read(
            lambda connection: calibrations.page(connection, wanted or CalibrationFilter(), limit, cursor)
        )

    def calibrated(self, devices: Sequence[DeviceKey], arithmetic: str) -> dict[DeviceKey, StoredCalibration]:
        return self.database.read(lambda connection: calibrations.latest(connection, devices, arithmetic))

    # logs

    def append_entries(self, attempt_id: str, node: str, entries: Sequence[Entry]) -> int:
        new = logs.prepare(attempt_id, node, entries)
        if not new:
            return self.last_seqs(attempt_id).get(node, 0)
        return self.database.write(lambda connection: logs.append(connection, attempt_id, node, new))

    def last_seqs(self, attempt_id: str) -> Mapping[str, int]:
        return self.database.read(lambda connection: logs.last_seqs(connection, attempt_id))

    def entries(
        self,
        attempt_id: str,
        *,
        node: str | None = None,
        kinds: Sequence[str] | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> Sequence[Entry]:
        return self.database.read(
            lambda connection: logs.entries(connection, attempt_id, node=node, kinds=kinds, after=after, limit=limit)
        )

    # what happened

    def changes(
        self, experiment_id: str, *, run_id: str | None = None, after: int = 0, limit: int = 500
    ) -> Sequence[Change]:
        return self.database.read(lambda connection: changes.after(connection, experiment_id, run_id, after, limit))

    # nodes

    def node_orders(self) -> Mapping[str, NodeState]:
        return self.database.read(nodes.orders)

    def order_node(self, node: str, state: NodeState | None, deed: Deed | None = None) -> None:
        if state is not None and state not in nodes.ORDERS:
            raise ValueError(f"a node is not ordered to be {state}")
        self._act(lambda connection: nodes.order(connection, node, state), deed)

    # access

    def add_token(self, token: Token, deed: Deed) -> None:
        self.database.write(lambda connection: tokens.add(connection, token, deed))

    def revoke_token(self, token_id: str, at: float, deed: Deed) -> Token:
        return self.database.write(lambda connection: tokens.revoke(connection, token_id, at, deed))

    def tokens(self, *, limit: int = 50, cursor: str | None = None) -> Page[Token]:
        return self.database.read(lambda connection: tokens.page(connection, limit, cursor))

    def all_tokens(self) -> Page[Token]:
        return self.database.read(tokens.all_of_them)

    def note_use(self, token_ids: Sequence[str], at: float) -> None:
        self.database.write(lambda connection: tokens.note_use(connection, token_ids, at))

    def deeds(
        self, *, who: str | None = None, target: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Deed]:
        return self.database.read(lambda connection: deeds.page(connection, who, target, limit, cursor))

    def ping(self) -> None:
        self.database.write(nodes.beat)

    def await_predecessor(self) -> None:
        """Return when no server that came before decides any more."""
        if self._right is not None:
            self._right.await_predecessor()

    def lost(self) -> str | None:
        return self._right.lost() if self._right is not None else None

    def close(self) -> None:
        self.database.close()
        if self._right is not None:
            self._right.close()


def _keeps_the_contract(store: SqlStore) -> Store:
    """For the type checker."""
    return store
