"""Runs and attempts, and the one table of legal moves between the states of a run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from orchestrator.domain.asked.placement import Placement
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.value.failure import Failure
from orchestrator.domain.value.measurement import Analysis, Grade, Reason, Validity


class RunState(StrEnum):
    """Where a run stands. Why it ended badly is apart from this: see ``Failure``."""

    QUEUED = "queued"
    PLACING = "placing"
    RUNNING = "running"
    COLLECTING = "collecting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


# state -> states it may move to. A state without exits is terminal. PLACING: an attempt is durable and its agents are
# being told. COLLECTING: its processes are gone and the rest of its logs is fetched; back to QUEUED is another attempt.
# QUEUED to FAILED: nothing can be begun of it, because its own data cannot be worked on.
MOVES: dict[RunState, frozenset[RunState]] = {
    RunState.QUEUED: frozenset({RunState.PLACING, RunState.CANCELLED, RunState.FAILED}),
    RunState.PLACING: frozenset({RunState.RUNNING, RunState.COLLECTING}),
    RunState.RUNNING: frozenset({RunState.COLLECTING}),
    RunState.COLLECTING: frozenset({RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED, RunState.QUEUED}),
    RunState.COMPLETED: frozenset(),
    RunState.FAILED: frozenset(),
    RunState.CANCELLED: frozenset(),
}

TERMINAL = frozenset(state for state, exits in MOVES.items() if not exits)
HOLDS_DEVICES = frozenset({RunState.PLACING, RunState.RUNNING, RunState.COLLECTING})

PINNED = "pinned"  # the label of experiments of whose logs nothing is removed
PAUSED = "its experiment is paused (tbd resume)"  # why a run of it waits
_RAN_TWICE = Reason(
    "may_have_run_twice", "an attempt that was taken for dead still ran when the next one had begun", replaceable=False
)


class IllegalMove(ValueError):  # noqa: N818 - reads as what happened
    """A move that the table does not have: a mistake in the code that asked for it."""


def transition(state: RunState, to: RunState) -> RunState:
    """Return ``to`` if ``state`` may move there.

    Raises:
        IllegalMove: it may not.
    """
    if to not in MOVES[state]:
        raise IllegalMove(f"a run cannot move from {state} to {to}")
    return to


class ExperimentState(StrEnum):
    """Where an experiment stands. It is over when its sweep has no plans left and its runs have ended."""

    ACTIVE = "active"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


def experiment_outcome(cancelled: bool, run_states: Iterable[RunState]) -> ExperimentState:
    """The end of an experiment whose runs have all ended. A broken run is not a failed one."""
    states = set(run_states)
    if cancelled:
        return ExperimentState.CANCELLED
    if RunState.FAILED in states:
        return ExperimentState.FAILED
    # A run cancelled by hand in an experiment that was not: the person who asked knows; the rest completed.
    return ExperimentState.COMPLETED


@dataclass(frozen=True)
class Attempt:
    """One try at a run. Its row, with the token, is durable before any process starts.

    Times are seconds since the epoch. ``stop_requested`` is the failure kind with which it is to be ended. ``fence_s``:
    seconds without contact after which its agents end it, the longest of them, where they told. ``alive_at``: where it
    was over and its processes were not, when they were last known to live. ``lent_by``: the run for which some of its
    devices were kept when it began. ``thinned_at``: when the readings were removed from its logs.
    """

    id: str
    run_id: str
    number: int
    token: str
    placement: Placement
    created_at: float
    started_at: float | None = None
    ended_at: float | None = None
    failure: Failure | None = None
    stop_requested: str | None = None
    fence_s: float | None = None
    alive_at: float | None = None
    lent_by: str | None = None
    thinned_at: float | None = None

    @property
    def why_thinned(self) -> str | None:
        """Why its logs have no readings any more."""
        if self.thinned_at is None:
            return None
        day = datetime.fromtimestamp(self.thinned_at, UTC).date()
        return f"its readings were removed on {day}, as they were old (TBD_KEEP_READINGS_DAYS)"


@dataclass(frozen=True)
class Run:
    """One plan being carried out, for ``owner``, who submitted it. ``waiting`` says in words why a queued run is not
    placed yet; ``paused``: its experiment is, so that it is not placed while it is queued."""

    id: str
    experiment_id: str
    plan: Plan
    state: RunState
    created_at: float
    priority: int = 0
    attempts: tuple[Attempt, ...] = ()
    started_at: float | None = None
    ended_at: float | None = None
    cancel_requested: bool = False
    paused: bool = False
    waiting: str | None = None
    failure: Failure | None = None
    analysis: Analysis | None = None
    fingerprint: Mapping[str, Any] | None = None
    owner: str = ""

    @property
    def attempt(self) -> Attempt | None:
        """The latest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def devices(self) -> int:
        """How many it takes."""
        return self.plan.world_size

    @property
    def may_have_run_twice(self) -> bool:
        """Whether processes of an attempt are known to have lived when the next one had begun."""
        later = zip(self.attempts, self.attempts[1:], strict=False)
        return any(one.alive_at is not None and one.alive_at > then.created_at for one, then in later)

    @property
    def validity(self) -> Validity | None:
        """None until its logs are judged. What may have run beside itself is broken: nobody measured what that cost."""
        if self.analysis is None or not self.may_have_run_twice:
            return self.analysis.validity if self.analysis else None
        return replace(self.analysis.validity, reasons=(*self.analysis.validity.reasons, _RAN_TWICE))

    @property
    def grade(self) -> Grade | None:
        """None until its logs are judged, and for a run that did not complete."""
        return self.validity.grade if self.state is RunState.COMPLETED and self.validity else None

    @property
    def sound(self) -> bool:
        return self.grade is Grade.SOUND

    @property
    def usable(self) -> bool:
        """Whether it trained rightly: an observation of its cell, disturbed or not."""
        return self.grade in (Grade.SOUND, Grade.DISTURBED)


@dataclass(frozen=True)
class Origin:
    """Which time of which schedule made an experiment; ``fire_at`` in seconds since the epoch."""

    schedule_id: str
    fire_id: str
    fire_at: float


@dataclass(frozen=True)
class Experiment:
    """What a person, or a schedule (``origin``), submitted. ``facts`` were fixed at submission: what ``auto`` stood for
    then. While it is ``paused`` none of its queued runs is placed. What is left at ``deadline_at`` is cancelled."""

    id: str
    owner: str
    spec: ExperimentSpec
    facts: Mapping[str, Any]
    state: ExperimentState
    created_at: float
    ended_at: float | None = None
    cancel_requested: bool = False
    paused: bool = False
    deadline_at: float | None = None
    run_counts: Mapping[RunState, int] = field(default_factory=dict)
    origin: Origin | None = None
