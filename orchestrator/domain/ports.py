"""The ports of the house: what the services need of the outside world. ``orchestrator.app`` hands in the adapters."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from orchestrator.domain.around.access import AccessStore, Deed
from orchestrator.domain.around.alerts import AlertStore
from orchestrator.domain.around.device_health import DeviceEvent, DeviceStore
from orchestrator.domain.around.history import HistoryStore
from orchestrator.domain.around.predictions import PredictionStore
from orchestrator.domain.around.schedule import ScheduleStore
from orchestrator.domain.around.server import Server
from orchestrator.domain.around.webhooks import WebhookStore
from orchestrator.domain.asked.placement import Node, NodeState, Placement
from orchestrator.domain.runs.filters import CalibrationFilter, CellFilter, ExperimentFilter, RunFilter, TransferFilter
from orchestrator.domain.runs.log import AttemptStatus, Entry, Line, LogSlice
from orchestrator.domain.runs.run import Attempt, Experiment, ExperimentState, Run, RunState
from orchestrator.domain.runs.stored import (
    Change,
    EarlierRun,
    Found,
    Idempotency,
    OpenRuns,
    Page,
    QueuedRun,
    StoredCalibration,
    StoredCell,
    StoredTransfer,
)
from orchestrator.domain.value.calibration import DeviceKey
from orchestrator.domain.value.failure import Failure
from orchestrator.domain.value.measurement import Analysis
from orchestrator.domain.value.profile import Profiles
from orchestrator.domain.value.time_series import TimeSeries


class Clock(Protocol):
    """Time, so that services can be tested without waiting."""

    def now(self) -> float:
        """Seconds since the epoch (real time), for what is stored and shown."""

    def monotonic(self) -> float:
        """Seconds of a clock that never jumps, for durations and time-outs."""


class Store(AccessStore, AlertStore, DeviceStore, HistoryStore, PredictionStore, ScheduleStore, WebhookStore, Protocol):
    """The database: the truth. All methods are safe to call from several threads.

    Every method may raise ``StoreUnavailable`` (worth trying again) or ``StoreFull``; a method that returned has
    committed durably. Lookups by id raise ``NotFound``. A list without ``wanted`` has everything. A ``deed`` is stored
    in the transaction of what it tells of, where that changed anything.
    """

    # experiments
    def add_experiment(
        self,
        experiment: Experiment,
        runs: Sequence[Run],
        idempotency: Idempotency | None = None,
        deed: Deed | None = None,
    ) -> tuple[Experiment, bool]:
        """Store an experiment and its first runs in one transaction; (it, True).

        With an idempotency key that was used before, return what was stored then, and False.

        Raises:
            IdempotencyMismatch: the key was used with another body.
        """

    def key_used(self, key: Idempotency) -> bool:
        """Whether the key was used before.

        Raises:
            IdempotencyMismatch: it was, with another request.
        """

    def use_key(self, key: Idempotency) -> None:
        """Note that the key was used for a request that stores no experiment."""

    def experiment(self, experiment_id: str) -> Experiment:
        """Raises ``DamagedRow`` where it cannot be read."""

    def experiments_named(self, ids: Sequence[str]) -> Sequence[Experiment]:
        """These, in this order. Raises NotFound, ``DamagedRow``: of one that is not there, or cannot be read."""

    def owner_of(self, experiment_id: str) -> str:
        """Whose experiment it is, also of one that cannot be read."""

    def remove_experiment(self, experiment_id: str, deed: Deed | None = None) -> None:
        """Remove it with all that hangs on it: runs, attempts, logs, measurements, profiles, and the idempotency keys
        that name it, so that the same request makes a new one. Nobody sees any of it from the beginning on; it goes
        part by part, so that others are not kept waiting.

        Raises:
            Conflict: one of its runs holds devices.
        """

    def experiments(
        self, wanted: ExperimentFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Experiment]:
        """Newest first, or as ``wanted`` has it, each with its ``run_counts``.

        Raises:
            InvalidRequest: the cursor is not one of ours.
        """

    def find(self, text: str, *, limit: int = 50) -> Sequence[Found]:
        """What ``text`` may stand for, at most ``limit``: first the experiments of that name, then the experiments and
        runs whose id begins with it (``exp_`` and ``run_`` may be left out); of each the newest first."""

    def idle_experiments(self) -> Sequence[str]:
        """The ids of those whose state is ACTIVE although all their runs have ended, oldest first."""

    def cells(
        self, wanted: CellFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[StoredCell]:
        """Cells, those of the newest experiment first, of one experiment in the order of its sweep; or all of that the
        other way round, as ``wanted`` has it. A page is shorter than ``limit`` where its cells have many runs.

        Raises:
            InvalidRequest: the cursor is not one of ours.
        """

    def deadlines(self) -> Mapping[str, float]:
        """Experiment -> when everything of it has to be over, of those that are active and not being cancelled."""

    def cancel_experiment(self, experiment_id: str, at: float, deed: Deed | None = None) -> None:
        """Record that it, and all its runs that have not ended, are to be cancelled. Idempotent."""

    def pause_experiment(self, experiment_id: str, paused: bool, at: float, deed: Deed | None = None) -> None:
        """Record that none of its queued runs is to begin, or (False) that they may again. Idempotent; no effect on
        one that has ended or is being cancelled."""

    def extend_experiment(
        self, old: Experiment, new: Experiment, runs: Sequence[Run], at: float, deed: Deed | None = None
    ) -> int:
        """Give the experiment the spec and the facts of ``new``, and ``runs``: plans that it has are passed over; how
        many were added. One that had ended is active again where there are runs. Of a cancelled one those runs are
        forgotten first that were cancelled before they began.

        Raises:
            Conflict: it is no longer as ``old`` says.
        """

    def end_experiment(self, experiment_id: str, state: ExperimentState, at: float) -> bool:
        """Move it from ACTIVE to ``state``; False when it is not ACTIVE any more, or has runs that are not over."""

    def add_runs(self, runs: Sequence[Run]) -> int:
        """Store further runs of active experiments; plans their experiment already has are passed over. The count."""

    def import_experiment(
        self,
        experiment: Experiment,
        runs: Sequence[Run],
        logs: Mapping[tuple[str, str], Iterable[Line]],
        deed: Deed | None = None,
    ) -> bool:
        """Store an experiment with its runs, which have ended elsewhere: their attempts, the ``logs`` by attempt and
        node, analyses and fingerprints. Nobody sees any of it before it is there as a whole; the logs are read once,
        and written part by part. False when an experiment of that id is there already; nothing is stored then."""

    # runs
    def run(self, run_id: str) -> Run:
        """Raises ``DamagedRow`` where it cannot be read."""

    def runs_named(self, ids: Sequence[str]) -> Sequence[Run]:
        """These, in this order, each with attempts and analysis. Raises as ``experiments_named``."""

    def runs(self, wanted: RunFilter | None = None, *, limit: int = 50, cursor: str | None = None) -> Page[Run]:
        """Newest first, or as ``wanted`` has it, each with attempts and analysis.

        Raises:
            InvalidRequest: the cursor is not one of ours.
        """

    def runs_of(self, experiment_id: str) -> Sequence[Run]:
        """All runs of an experiment that can be read, oldest first, with attempts and analysis."""

    def runs_of_cell(self, experiment_id: str, cell_key: str) -> Sequence[Run]:
        """All runs of a cell, oldest first, with attempts and analysis; none where there is no such cell."""

    def earlier_runs(self, cell_keys: Sequence[str], most: int) -> Mapping[str, Sequence[EarlierRun]]:
        """Cell -> its ``most`` newest completed runs, of whichever experiment; for every one of ``cell_keys``."""

    def verdicts_of(self, experiment_id: str) -> Sequence[Run]:
        """All runs of an experiment, oldest first, without fingerprints; of their analysis validity and throughput."""

    def open_runs(self, most_cancelled: int) -> OpenRuns:
        """All runs that hold devices, and of those that are queued and to be cancelled at most ``most_cancelled``; with
        their attempts, without analysis. Of those that hold devices and cannot be read what is known."""

    def queue_heads(self, most: int) -> Sequence[Run]:
        """Of the queued runs that nobody wants cancelled, the first ``most`` of each owner and kind: runs are of one
        kind that ask for the same (``Plan.needs``). All in the order in which an owner's should be placed: by priority
        (highest first), then age; with their attempts, without analysis."""

    def queue(self, most: int) -> Sequence[QueuedRun]:
        """Of the same runs, in the same order, some ``most`` in all: as many of each owner and kind, where these have
        so many, and one at least."""

    def uses(self, at: float) -> Mapping[str, float]:
        """Owner -> device-seconds of attempts that are over, those of a day before ``at`` counted half."""

    def completed_of_cell(self, cell_key: str, most: int) -> Sequence[Run]:
        """The newest completed runs of a cell, of whichever experiment, newest first, with attempts and analysis."""

    def cancel_run(self, run_id: str, at: float, deed: Deed | None = None) -> None:
        """Record that it is to be cancelled. Idempotent; no effect on a run that has ended."""

    def set_waiting(self, needs: str, reason: str) -> None:
        """Say why queued runs that ask for ``needs`` (``Plan.needs.key``) are not placed."""

    def begin_attempt(self, run_id: str, new: Attempt) -> bool:
        """QUEUED to PLACING together with the new attempt's row; False when the run is not QUEUED any more, is paused,
        or a person has ordered one of the nodes to take none."""

    def move_run(
        self, run_id: str, expected: RunState, to: RunState, *, at: float, failure: Failure | None = None
    ) -> bool:
        """``UPDATE … WHERE state = expected``; False when it was not. PLACING to RUNNING also dates the attempt's and
        the run's start; a terminal state also dates the end.

        Raises:
            IllegalMove: the table of states has no such move.
        """

    def attempts_over(self, ids: Sequence[str]) -> Mapping[str, Attempt]:
        """Those of the attempts that are over."""

    def note_alive(self, attempt_id: str, at: float) -> None:
        """Note that processes of an attempt lived at ``at``; the latest such time counts."""

    def request_stop(self, attempt_id: str, reason: str) -> None:
        """Record why the attempt is to be stopped (a failure kind); the first reason stays."""

    def conclude(
        self,
        run_id: str,
        to: RunState,
        *,
        at: float,
        failure: Failure | None = None,
        analysis: Analysis | None = None,
        fingerprint: Mapping[str, Any] | None = None,
        device_events: Sequence[DeviceEvent] = (),
    ) -> bool:
        """COLLECTING to a terminal state, or back to QUEUED for another attempt: ends the latest attempt, stores the
        analysis, its measurements and what happened to devices, moves the run, all in one transaction. False when the
        run was not COLLECTING."""

    def transfers(
        self, wanted: TransferFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[StoredTransfer]:
        """What netbenches found: those of the newest run first, of one run in the order in which they were measured.

        Raises:
            InvalidRequest: the cursor is not one of ours.
        """

    def profiles(self, run_id: str) -> Profiles:
        """What the profiling phases of the run have found; nothing where it was not profiled, or not yet judged."""

    def time_series(
        self, run_id: str, from_s: float, to_s: float, most: int
    ) -> tuple[Sequence[TimeSeries], float | None]:
        """(what is drawn of the run over this stretch of its time, thinned to ``most`` points each; when the last point
        of all is, None where none is stored). In seconds since the first step began."""

    def add_time_series(self, run_id: str, found: Sequence[TimeSeries]) -> None:
        """Store those of a run whose result was stored without; nothing is done where there are some already, and
        where the run is no more."""

    def calibrations(
        self, wanted: CalibrationFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[StoredCalibration]:
        """What calibrations found: those of the newest run first.

        Raises:
            InvalidRequest: the cursor is not one of ours.
        """

    def calibrated(self, devices: Sequence[DeviceKey], arithmetic: str) -> dict[DeviceKey, StoredCalibration]:
        """The latest valid calibration of each of ``devices``, whoever made it; those without one are left out."""

    # logs
    def append_entries(self, attempt_id: str, node: str, entries: Sequence[Entry]) -> int:
        """Store entries; those already there (same attempt, node and seq) are passed over. The last seq stored."""

    def last_seqs(self, attempt_id: str) -> Mapping[str, int]:
        """Node -> last seq stored."""

    def entries(
        self,
        attempt_id: str,
        *,
        node: str | None = None,
        kinds: Sequence[str] | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> Sequence[Entry]:
        """Stored entries in the order of (node, seq), each with its ``node`` added; ``after`` applies to each node."""

    def with_old_readings(self, before: float, most: int) -> Sequence[str]:
        """Attempts that ended before then and whose logs have readings, the oldest first; none of an experiment that
        goes on, or that has the label ``PINNED``."""

    def thin(self, attempt_id: str, at: float) -> bool:
        """Remove some of the readings of an attempt's logs, which then says so (``thinned_at``); whether there may be
        more."""

    # what happened
    def changes(self, experiment_id: str, *, after: int = 0, limit: int = 500) -> Sequence[Change]:
        """Changes of state of an experiment and its runs, oldest first."""

    def last_changes(self, experiment_ids: Sequence[str]) -> Mapping[str, int]:
        """Experiment -> the number of its newest change: while that stays, so does what its runs came to."""

    def newest_change(self) -> int:
        """The number of the newest change of all experiments; 0: there was none."""

    # nodes: what a person ordered of them (the cluster knows the rest)
    def node_orders(self) -> Mapping[str, NodeState]:
        """Node -> DRAINING or QUARANTINED, where ordered."""

    def order_node(self, node: str, state: NodeState | None, deed: Deed | None = None) -> None:
        """Order a node to be drained or quarantined, or (None) take the order back."""

    def know_nodes(self, told: Mapping[str, Mapping[str, Any]], gone: Collection[str]) -> None:
        """Store what is known of nodes, by their names, and forget those that are gone."""

    def known_nodes(self) -> Mapping[str, Mapping[str, Any]]:
        """What was stored of all nodes, by name."""

    def ping(self) -> None:
        """Return when the database answers and accepts writes."""

    def leads(self) -> bool:
        """Whether this server decides for the database; the others follow."""

    def leader(self) -> Server | None:
        """The server that does, as far as is known."""

    def lost(self) -> str | None:
        """Why this server has to end: another one decides for the database now, or its schema is another one."""

    def close(self) -> None: ...


class Cluster(Protocol):
    """Nodes and their agents. ``local`` and ``ray`` keep this contract; one test suite holds both to it.

    A call to one node raises ``NodeUnreachable`` when its agent does not answer in time: that says nothing about the
    processes there. Calls to one node give up after 5 s, and ``interpreters`` after 10 s. ``wait`` blocks for its
    ``timeout_s`` at most. ``hold``, ``holds`` and ``let_go`` give up after some 40 s, ``close`` and ``shut_down``
    block until what they end has ended. ``NodeFailed``: the agent has answered with an error.
    """

    def nodes(self) -> Sequence[Node]:
        """All nodes known, with AVAILABLE or UNREACHABLE as their state."""

    def hold(self, attempt_id: str, placement: Placement) -> Placement:
        """Hold the devices for an attempt against whoever else uses the cluster; nothing to do where nobody does.

        The placement that is returned is the one to use: whoever keeps the books may give other GPUs of the same nodes.
        Idempotent; survives this server. Raises ``DevicesTaken`` while somebody else uses them."""

    def holds(self) -> Collection[str]:
        """The attempts for which devices are held, by whichever server: nothing leaks, whoever died."""

    def let_go(self, over: Collection[str]) -> None:
        """Give back what is held for the attempts ``over``. Idempotent."""

    def reserve(self, node: str, attempt_id: str) -> Mapping[str, int]:
        """Ports on which the attempt's processes on the node can be reached: ``control`` and ``framework``. The same
        for the same attempt, however often it is asked for."""

    def start(self, node: str, job: Mapping[str, Any]) -> None:
        """Have the agent carry out its part of ``job``. Idempotent by attempt and token; returns before it ends.

        Raises:
            JobRefused: the agent will not (another protocol, another token, stopped before, no room on its disk).
        """

    def stop(self, node: str, attempt_id: str, reason: str) -> None:
        """Have the agent end the attempt with ``reason``, a failure kind. Idempotent; also before it was started."""

    def status(self, node: str) -> Sequence[AttemptStatus]:
        """What the agent knows of its attempts. It also tells the agent that it is not alone."""

    def silent_s(self, node: str) -> float:
        """Seconds since the agent of ``node`` was heard of, by whatever call: as long as it hears from this server it
        does not end its attempts. Infinite where it never was. Asks nobody."""

    def fence_s(self, node: str) -> float:
        """Seconds without contact after which the agent of ``node`` ends its attempts, as it told last; what it is
        given where it has told nothing yet. Asks nobody."""

    def fetch(self, node: str, attempt_id: str, after: int, limit: int = 1000) -> LogSlice:
        """Entries of the attempt's log on the node with seq > ``after``.

        Raises:
            NotFound: the agent knows no such attempt.
        """

    def acknowledge(self, node: str, attempt_id: str, seq: int) -> None:
        """Tell the agent that all entries up to ``seq`` are stored; a log acknowledged to its end is deleted."""

    def wait(self, positions: Mapping[str, Mapping[str, int]], timeout_s: float) -> bool:
        """Return when any attempt has entries beyond ``positions`` (node -> attempt -> seq) or has ended, or after
        ``timeout_s``; whether there is such news. A hint that makes progress visible at once; it may return early."""

    def interpreters(self, node: str) -> Sequence[Mapping[str, Any]]:
        """The named environments of the node: name, framework, definition, ready, reason, versions."""

    def checks(self, node: str) -> Mapping[str, Any]:
        """What ``tbd doctor`` wants to know of the node (``workers.node.host_facts``). Gives up after 20 s, which is no
        loss of contact."""

    def lost(self) -> str | None:
        """Why the cluster cannot be reached by this process any more, only by a service that is started anew."""

    def close(self) -> None:
        """Let go of the cluster without stopping what runs there."""

    def shut_down(self, *, end_runs: bool) -> Sequence[str]:
        """End what belongs to this service of the cluster: agents and, when embedded, Ray. Where attempts go on, or a
        node does not answer, nothing is ended, as by ``close``, unless ``end_runs``; the nodes for which that is so."""
